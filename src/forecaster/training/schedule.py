"""How the learning rate moves, as a pure function of the step."""

import math

RISE = 0.3  # share of the steps on which it rises
FIRST = 1 / 25  # of the highest rate
LAST = FIRST / 10_000


def one_cycle(step: int, steps: int) -> float:
    """Return the share of the highest rate at step 0 … steps − 1: up by a cosine, then down.

    Differs: the paper gives no schedule. The numbers are those that torch's OneCycleLR has.
    """
    peak = RISE * steps - 1
    if step <= peak:
        return _between(FIRST, 1.0, step / peak)
    return _between(1.0, LAST, (step - peak) / (steps - 1 - peak)) if steps > 1 else 1.0


def _between(first: float, last: float, share: float) -> float:
    """Return where a cosine from first to last is after a share of the way."""
    return last + (first - last) * (1 + math.cos(math.pi * share)) / 2
