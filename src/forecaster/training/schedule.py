"""Order of windows, learning rate and scheduled sampling, as pure functions of the step."""

import math

import numpy as np
from jaxtyping import Int64

# Of the generator, beside stream 0 of `shuffle` with the same kind of key.
FORCING_STREAM, LOCATION_STREAM = 1, 2


def shuffle(
    origins: Int64[np.ndarray, " B"], seed: int, epoch: int, stream: int = 0
) -> Int64[np.ndarray, " B"]:
    """Shuffle the windows for an epoch, as a pure function of the arguments.

    Windows are sorted by a number drawn for (seed, epoch, index). Philox is counter-based, and its
    raw numbers, unlike numpy's permutations, are the same in every release.
    """
    key = np.array([seed, epoch], dtype=np.uint64)
    draws = np.random.Philox(key=key, counter=[0, 0, 0, stream]).random_raw(len(origins))
    return origins[np.argsort(draws, kind="stable")]


def draw_locations(count: int, size: int, seed: int, step: int) -> Int64[np.ndarray, " n"]:
    """Draw the locations of a training step, as a pure function of the arguments.

    All locations are shuffled and dealt to as many steps as it takes, nearly equally many to each;
    then they are shuffled anew. So all are drawn equally often.

    Args:
        count: the number of all locations.
        size: the largest number of a step.
        seed: of the training.
        step: counted from 0.

    Returns:
        their numbers, ascending.
    """
    steps = -(-count // size)  # until all have been drawn
    order = shuffle(np.arange(count), seed, step // steps, LOCATION_STREAM)
    return np.sort(order[step % steps :: steps])


RISE = 0.3  # share of the steps with a rising learning rate
FIRST = 1 / 25  # of the highest rate
LAST = FIRST / 10_000


def one_cycle(step: int, steps: int) -> float:
    """The learning rate at step 0 … steps − 1 as a share of its peak: one cosine up, one down.

    Differs: the paper gives no schedule. These are the defaults of torch's OneCycleLR.
    """
    peak = RISE * steps - 1
    if step <= peak:
        return _between(FIRST, 1.0, step / peak)
    return _between(1.0, LAST, (step - peak) / (steps - 1 - peak)) if steps > 1 else 1.0


def _between(first: float, last: float, share: float) -> float:
    """Cosine interpolation from first to last."""
    return last + (first - last) * (1 + math.cos(math.pi * share)) / 2


def teacher_forcing_rate(step: int, decay: float) -> float:
    """The probability of teacher forcing at step i: τ / (τ + exp(i / τ)), i from 0.

    That is the logistic function of log τ − i / τ, which does not overflow.
    """
    from scipy.special import expit  # noqa: PLC0415 (only fits need it)

    return float(expit(math.log(decay) - step / decay))


def draw_teacher_forcing(count: int, decay: float, seed: int, step: int) -> tuple[bool, ...]:
    """Draw which steps ahead are teacher-forced, for all windows of a training step.

    A pure function of seed and step: micro-batches, processes and a resumed training draw the
    same.
    """
    key = np.array([seed, step], dtype=np.uint64)
    draws = np.random.Philox(key=key, counter=[0, 0, 0, FORCING_STREAM]).random_raw(count)
    return tuple(bool(draw < teacher_forcing_rate(step, decay)) for draw in draws / 2.0**64)
