"""Scheduled sampling: while it learns, a network is shown the truth less and less often."""

import math

import numpy as np
from scipy.special import expit

STREAM = 1  # of the generator: `order` draws from stream 0 by the same kind of key


def truth_share(step: int, decay: float) -> float:
    """Return the probability that a true value is shown: τ / (τ + exp(i / τ)), i from 0.

    That is the logistic function of log τ − i / τ, which does not overflow.
    """
    return float(expit(math.log(decay) - step / decay))


def draw_shown(count: int, decay: float, seed: int, step: int) -> tuple[bool, ...]:
    """Tell for so many steps ahead whether all windows of a training step are shown the truth.

    A pure function of seed and step: the parts of a batch, the processes that share it and a
    training that was resumed draw the same.
    """
    key = np.array([seed, step], dtype=np.uint64)
    draws = np.random.Philox(key=key, counter=[0, 0, 0, STREAM]).random_raw(count)
    return tuple(bool(draw < truth_share(step, decay)) for draw in draws / 2.0**64)
