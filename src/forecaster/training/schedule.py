"""Order of windows, learning rate and scheduled sampling, as pure functions of the step."""

import math

import numpy as np
from jaxtyping import Int64
from scipy.special import expit


def shuffle(origins: Int64[np.ndarray, " B"], seed: int, epoch: int) -> Int64[np.ndarray, " B"]:
    """Return the windows in the order of an epoch, which depends on nothing but the arguments.

    Every window is sorted by a number drawn for (seed, epoch, its index). Philox counts instead of
    remembering, and its raw numbers, unlike numpy's permutations, are the same in every release.
    """
    key = np.array([seed, epoch], dtype=np.uint64)
    draws = np.random.Philox(key=key).random_raw(len(origins))
    return origins[np.argsort(draws, kind="stable")]


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


STREAM = 1  # of the generator: `order` draws from stream 0 by the same kind of key


def teacher_forcing_rate(step: int, decay: float) -> float:
    """Return the probability that a true value is shown: τ / (τ + exp(i / τ)), i from 0.

    That is the logistic function of log τ − i / τ, which does not overflow.
    """
    return float(expit(math.log(decay) - step / decay))


def draw_teacher_forcing(count: int, decay: float, seed: int, step: int) -> tuple[bool, ...]:
    """Tell for so many steps ahead whether all windows of a training step are shown the truth.

    A pure function of seed and step: the parts of a batch, the processes that share it and a
    training that was resumed draw the same.
    """
    key = np.array([seed, step], dtype=np.uint64)
    draws = np.random.Philox(key=key, counter=[0, 0, 0, STREAM]).random_raw(count)
    return tuple(bool(draw < teacher_forcing_rate(step, decay)) for draw in draws / 2.0**64)
