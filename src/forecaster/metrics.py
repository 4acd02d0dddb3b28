"""RMSE, MAPE, MAE, WAPE and bias; coverage, width and pinball loss: each with its number of terms.

A model may forecast two numbers: the mean, and the one with the lowest relative error. MAPE is of
the second, everything else of the mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64


@dataclass(frozen=True)
class Metric:
    """The value of a metric and its number of terms; None without terms."""

    value: float | None
    terms: int

    def __str__(self) -> str:
        return "n/a (0 terms)" if self.value is None else f"{self.value:.4f}"

    def show(self, percent: bool = False) -> str:
        """The value with two decimals, optionally as a percentage."""
        return str(self) if self.value is None else f"{(100 if percent else 1) * self.value:.2f}"


@dataclass(frozen=True)
class Scores:
    """The error metrics of point forecasts."""

    rmse: Metric
    mape: Metric  # a fraction
    mae: Metric
    wape: Metric  # a fraction
    bias: Metric  # a fraction; > 0: too high
    mean_error: Metric  # the same in units of the data, per value


@dataclass(frozen=True)
class ScoresByStep:
    """The scores over all steps ahead together, and of each step."""

    average: Scores
    steps: tuple[Scores, ...]


@dataclass(frozen=True, eq=False)
class ErrorSums:
    """Error sums over locations for each window and step ahead, from which scores follow."""

    squares: Float64[np.ndarray, "*windows"]  # Σ (x̂ − x)²
    absolutes: Float64[np.ndarray, "*windows"]  # Σ |x̂ − x|
    shares: Float64[np.ndarray, "*windows"]  # Σ |x̂ − x| / x over x ≥ the cut
    sizes: Float64[np.ndarray, "*windows"]  # Σ |x|
    signed: Float64[np.ndarray, "*windows"]  # Σ (x̂ − x); NaN: not known
    values: Int64[np.ndarray, "*windows"]  # number of x
    terms: Int64[np.ndarray, "*windows"]  # number of x ≥ the cut

    def step(self, k: int) -> "ErrorSums":
        """The sums of one step ahead."""
        return ErrorSums(*(np.asarray(sums[..., k]) for sums in vars(self).values()))

    def steps(self, first: int, last: int) -> "ErrorSums":
        """The sums of the steps ahead from `first` to `last`, counted from 1."""
        part = slice(first - 1, last)
        return ErrorSums(*(np.asarray(sums[..., part]) for sums in vars(self).values()))

    def scores(self) -> Scores:
        """The scores over all windows and steps.

        RMSE = √(mean (x̂ − x)²); MAPE = mean |x̂ − x| / x over x ≥ cut; MAE = mean |x̂ − x|;
        WAPE = Σ |x̂ − x| / Σ |x|; bias = Σ (x̂ − x) / Σ |x|.
        """
        squares, absolutes, shares, sizes, signed, values, terms = (
            sums.sum().item() for sums in vars(self).values()
        )
        is_signed = not math.isnan(signed)
        return Scores(
            rmse=Metric((squares / values) ** 0.5 if values else None, values),
            mape=_ratio(shares, terms, terms),
            mae=_ratio(absolutes, values, values),
            wape=_ratio(absolutes, sizes, values),
            bias=_ratio(signed, sizes, values) if is_signed else Metric(None, 0),
            mean_error=_ratio(signed, values, values) if is_signed else Metric(None, 0),
        )

    def report(self) -> ScoresByStep:
        """The scores over all steps ahead (the last axis) and of each step."""
        steps = range(self.squares.shape[-1])
        return ScoresByStep(self.scores(), tuple(self.step(k).scores() for k in steps))


def sum_errors(
    truth: Float[np.ndarray, "*windows N"],
    forecast: Float[np.ndarray, "*windows N"],
    cut: float,
    relative: Float[np.ndarray, "*windows N"] | None = None,
) -> ErrorSums:
    """Sum the errors of forecasts over the last axis; NaN truth is missing.

    Section 3.1.3. Differs: missing truth counts in neither sums nor terms.

    Args:
        truth: the observed values.
        forecast: the mean.
        cut: smallest value that counts for MAPE.
        relative: the forecasts with the lowest relative error, for MAPE; None: the mean.
    """
    for name, numbers in (("forecast", forecast), ("relative", relative)):
        if numbers is not None and truth.shape != numbers.shape:
            raise ValueError(f"truth {truth.shape} and {name} {numbers.shape} differ in shape")
    if not cut > 0:
        raise ValueError(f"mape_cut = {cut}: must be > 0, since MAPE divides by the truth")
    observed = np.isfinite(truth)
    x = np.where(observed, truth, 0).astype(np.float64)
    signed = np.where(observed, forecast, 0) - x
    error = np.abs(signed)
    counted = observed & (truth >= cut)
    miss = error if relative is None else np.abs(np.where(counted, relative, 0) - x)
    share = np.divide(miss, x, out=np.zeros_like(error), where=counted)
    sums = (np.square(error), error, share, np.abs(x), signed, observed, counted)
    return ErrorSums(*(np.asarray(terms.sum(axis=-1)) for terms in sums))


@dataclass(frozen=True)
class IntervalScores:
    """The metrics of quantile forecasts."""

    coverage: Metric  # the share of values between the outermost two quantiles
    randomised: Metric  # the same with a count spread over x ± ½; without terms: no counts
    width: Metric  # of that interval
    pinball: Metric  # mean over values and levels


@dataclass(frozen=True, eq=False)
class IntervalSums:
    """Interval sums over locations for each window and step, from which scores follow."""

    pinballs: Float64[np.ndarray, "*windows"]  # Σ of the mean over levels α of ρ_α(x − q_α)
    widths: Float64[np.ndarray, "*windows"]  # Σ (q_last − q_first)
    inside: Int64[np.ndarray, "*windows"]  # number of x within q_first … q_last
    overlaps: Float64[np.ndarray, "*windows"]  # Σ length of x ± ½ within them; NaN: no counts
    spans: Int64[np.ndarray, "*windows"]  # number of x with an interval: 0 with a single level
    values: Int64[np.ndarray, "*windows"]  # number of x

    def step(self, k: int) -> "IntervalSums":
        """The sums of one step ahead."""
        return IntervalSums(*(np.asarray(sums[..., k]) for sums in vars(self).values()))

    def steps(self, first: int, last: int) -> "IntervalSums":
        """The sums of the steps ahead from `first` to `last`, counted from 1."""
        part = slice(first - 1, last)
        return IntervalSums(*(np.asarray(sums[..., part]) for sums in vars(self).values()))

    def scores(self) -> IntervalScores:
        """The scores over all windows and steps."""
        pinballs, widths, inside, overlaps, spans, values = (
            sums.sum().item() for sums in vars(self).values()
        )
        counts = np.isfinite(overlaps)
        return IntervalScores(
            coverage=_ratio(inside, spans, spans),
            randomised=_ratio(overlaps, spans, spans) if counts else Metric(None, 0),
            width=_ratio(widths, spans, spans),
            pinball=_ratio(pinballs, values, values),
        )

    @property
    def covered(self) -> Float64[np.ndarray, "*windows"] | Int64[np.ndarray, "*windows"]:
        """By what calibration is judged: overlaps for counts, else the number inside."""
        return self.overlaps if np.isfinite(self.overlaps).all() else self.inside

    def report(self) -> list[IntervalScores]:
        """The scores over all steps ahead (the last axis) and of each step."""
        steps = range(self.values.shape[-1])
        return [self.scores(), *(self.step(k).scores() for k in steps)]


def sum_intervals(
    truth: Float[np.ndarray, "*windows N"],
    quantiles: Float[np.ndarray, "Q *windows N"],
    levels: Sequence[float],
    uncut: Float[np.ndarray, "Q *windows N"] | None = None,
) -> IntervalSums:
    """Sum pinball loss, width and coverage over the last axis; NaN truth is missing.

    Pinball loss ρ_α(u) = max(α u, (α − 1) u) of u = x − q_α. The randomised coverage of a count is
    the probability that x + V, with V uniform in ± ½, lies within the uncut quantiles: 0.8 for a
    calibrated interval of 80 %, where the closed interval may contain more (randomised PIT;
    Czado, Gneiting and Held 2009).

    Args:
        truth: the observed values.
        quantiles: as shown.
        levels: of the quantiles.
        uncut: of counts, the quantiles before they are cut at 0; None: not of counts.
    """
    if quantiles.shape != (len(levels), *truth.shape):
        needed = (len(levels), *truth.shape)
        raise ValueError(f"quantiles have shape {quantiles.shape}; levels and truth need {needed}")
    observed = np.isfinite(truth)
    x = np.where(observed, truth, 0).astype(np.float64)
    pinball = np.zeros_like(x)
    for level, q in zip(levels, quantiles, strict=True):
        u = x - np.where(observed, q, 0)
        pinball += np.maximum(level * u, (level - 1) * u) / len(levels)
    low, high = (
        np.where(observed, q, 0).astype(np.float64) for q in (quantiles[0], quantiles[-1])
    )
    inside = observed & (low <= x) & (x <= high)
    spans = observed & (len(levels) > 1)
    overlap = np.full_like(x, np.nan)
    if uncut is not None:
        overlap = np.where(spans, _overlap(x, uncut[0], uncut[-1]), 0)
    sums = (pinball, high - low, inside & spans, overlap, spans, observed)
    return IntervalSums(*(np.asarray(terms.sum(axis=-1)) for terms in sums))


def _overlap(
    x: Float64[np.ndarray, "*n"], low: Float[np.ndarray, "*n"], high: Float[np.ndarray, "*n"]
) -> Float64[np.ndarray, "*n"]:
    """The length of x ± ½ within low … high."""
    ends = np.minimum(high, x + 0.5), np.maximum(low, x - 0.5)
    return np.asarray(np.clip(ends[0] - ends[1], 0, 1))


def score(
    truth: Float[np.ndarray, "*shape"], forecast: Float[np.ndarray, "*shape"], mape_cut: float
) -> Scores:
    """The scores over every observed value."""
    return sum_errors(truth, forecast, mape_cut).scores()


def _ratio(numerator: float | int, denominator: float | int, terms: int) -> Metric:
    return Metric(numerator / denominator, terms) if denominator > 0 else Metric(None, 0)
