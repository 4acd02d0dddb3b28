"""The covariance of the training steps, in blocks of double precision (Eq. 5).

A step counts if at least nine in ten of the locations that are open are observed, or all but one
of fewer than ten; missing values are replaced by the location's training mean of that hour of the
week.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.choices import Subtract
from forecaster.errors import DataError, count_of
from forecaster.panel.fill import slot_means, smoothing_reach
from forecaster.panel.panel import Panel
from forecaster.splits import is_well_observed, living, name_most_missing

ROUNDING = 1e-6  # a deviation below this share of the level is float32 rounding
COLLINEAR = 1.0 - 1e-9  # correlation from which two locations count as collinear
BLOCK_STEPS = 4_096  # converted to double precision at a time
_COLUMNS = 128
_LEAST_WEEKS = 2  # subtracting the mean of one value would leave 0


@dataclass(frozen=True, eq=False)
class Sample:
    """The training steps of a covariance."""

    panel: Panel
    steps: Int64[np.ndarray, " M"]
    usual: Float32[np.ndarray, "W N"]  # training means by hour of the week; replace missing values
    base: Float32[np.ndarray, "W N"]  # subtracted means: those, or one for all hours
    subtracted: Subtract
    dropped: int  # training steps with too little observed
    filled: int  # missing values in the other steps


@dataclass(frozen=True, eq=False)
class Moments:
    """The count, sum and sum of squares of some steps; additive over parts."""

    count: int
    sums: Float64[np.ndarray, " N"]
    squares: Float64[np.ndarray, "N N"]  # Σ x xᵀ

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.count + other.count, self.sums + other.sums, self.squares + other.squares
        )

    def covariance(self) -> Float64[np.ndarray, "N N"]:
        """Return the empirical covariance (Eq. 5).

        Differs: outer product; the factors as printed give a scalar.
        """
        mean = self.sums / self.count
        # S = 1/(M−1) Σ (x_t − μ)(x_t − μ)ᵀ = 1/(M−1) (Σ x_t x_tᵀ − M μ μᵀ)
        scatter = self.squares - self.count * np.multiply.outer(mean, mean)
        scatter /= self.count - 1
        return np.asarray(scatter)


@dataclass(frozen=True, eq=False)
class Deviations:
    """Standard deviations of the locations, and a mask of constant locations."""

    deviation: Float64[np.ndarray, " N"]
    constant: Bool[np.ndarray, " N"]


def take_sample(panel: Panel, train: Bool[np.ndarray, " M"], subtract: Subtract) -> Sample:
    """Return the sufficiently observed training steps, and the means to subtract from them.

    The mean of each hour of the week is subtracted only with two weeks or more.
    """
    steps = np.flatnonzero(train & is_well_observed(panel.values, living(panel)))
    if len(steps) <= 1:
        raise DataError(_too_few(panel, train, len(steps)))
    slots = panel.clock.slot_of_season(panel.times)
    usual = _usual(panel, np.flatnonzero(train), slots[train])
    if len(steps) < _LEAST_WEEKS * len(np.unique(slots[steps])):
        subtract = "nothing"
    flat = np.broadcast_to(usual.mean(axis=0), usual.shape)
    return Sample(
        panel=panel,
        steps=steps,
        usual=usual,
        base=usual if subtract == "hour_of_week" else flat,
        subtracted=subtract,
        dropped=int((train & panel.clock.is_open(panel.times)).sum()) - len(steps),
        filled=int(np.isnan(panel.values).sum(axis=1)[steps].sum()),
    )


def measure(sample: Sample, steps: Int64[np.ndarray, " T"]) -> Moments:
    """Return the moments of some of the sample's steps, after subtracting the base."""
    N = sample.panel.values.shape[1]
    sums, squares = np.zeros(N), np.zeros((N, N))
    for block in _blocks(sample, steps):
        sums += block.sum(axis=0)
        squares += block.T @ block
    return Moments(len(steps), sums, squares)


def find_scale(sample: Sample, covariance: Float64[np.ndarray, "N N"]) -> Deviations:
    """Return the deviations, and a mask of the locations without any beyond rounding."""
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    level = np.abs(sample.usual).max(axis=0).astype(np.float64)
    return Deviations(deviation, np.asarray(deviation <= ROUNDING * level))


def correlate(
    covariance: Float64[np.ndarray, "N N"], scale: Deviations
) -> Float64[np.ndarray, "N N"]:
    """Return the correlation matrix; a constant location is correlated with itself only."""
    unit = np.where(scale.constant, np.inf, scale.deviation)
    correlation = np.clip(covariance / np.outer(unit, unit), -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def collinear_pairs(correlation: Float64[np.ndarray, "N N"]) -> Int64[np.ndarray, "K 2"]:
    """Return the pairs of locations that are multiples of each other."""
    return np.argwhere(np.triu(np.abs(correlation) >= COLLINEAR, k=1))


def _usual(
    panel: Panel, steps: Int64[np.ndarray, " T"], slots: Int64[np.ndarray, " T"]
) -> Float32[np.ndarray, "W N"]:
    """Return the means by step of the season, a few locations at a time to save memory."""
    W, N, reach = panel.clock.season_slots, panel.values.shape[1], smoothing_reach(panel.clock)
    parts = (panel.values[:, n : n + _COLUMNS][steps] for n in range(0, N, _COLUMNS))
    return np.concatenate([slot_means(part, slots, W, reach) for part in parts], axis=1)


# Sizes have no names here: the shape checker would keep them from one generator to the next.
def _blocks(
    sample: Sample, steps: Int64[np.ndarray, " _"]
) -> Iterator[Float64[np.ndarray, "_ _"]]:
    values = sample.panel.values
    slots = sample.panel.clock.slot_of_season(sample.panel.times)
    for start in range(0, len(steps), BLOCK_STEPS):
        block_steps = steps[start : start + BLOCK_STEPS]
        block = values[block_steps].astype(np.float64)
        missing = np.nonzero(np.isnan(block))
        block[missing] = sample.usual[slots[block_steps]][missing]
        block -= sample.base[slots[block_steps]]
        yield block


def _too_few(panel: Panel, train: Bool[np.ndarray, " M"], count: int) -> str:
    message = f"{count_of(count, 'training step')} observed at nine locations in ten, of "
    message += f"{count_of(int(train.sum()), 'training step')}; two are needed"
    return message + name_most_missing(panel, train)
