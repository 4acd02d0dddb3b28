"""RMSE, MAPE, MAE and WAPE; coverage, width and pinball loss: each with its number of terms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64


@dataclass(frozen=True)
class Metric:
    """A figure and what it rests on; without terms there is no figure."""

    value: float | None
    terms: int

    def __str__(self) -> str:
        return "n/a (0 terms)" if self.value is None else f"{self.value:.4f}"

    def show(self, percent: bool = False) -> str:
        """Return the figure with two decimals, a fraction as per cent if asked."""
        return str(self) if self.value is None else f"{(100 if percent else 1) * self.value:.2f}"


@dataclass(frozen=True)
class Scores:
    """How far forecasts were from the truth."""

    rmse: Metric
    mape: Metric  # a fraction
    mae: Metric
    wape: Metric  # a fraction


@dataclass(frozen=True)
class Report:
    """Scores over all steps together and of each step ahead."""

    average: Scores
    steps: tuple[Scores, ...]


@dataclass(frozen=True, eq=False)
class Errors:
    """Sums over locations, for each window and step ahead: all that scores are made of."""

    squares: Float64[np.ndarray, "*windows"]  # Σ (x̂ − x)²
    absolutes: Float64[np.ndarray, "*windows"]  # Σ |x̂ − x|
    shares: Float64[np.ndarray, "*windows"]  # Σ |x̂ − x| / x over x ≥ the cut
    sizes: Float64[np.ndarray, "*windows"]  # Σ |x|
    values: Int64[np.ndarray, "*windows"]  # how many x there are
    terms: Int64[np.ndarray, "*windows"]  # how many of them are ≥ the cut

    def step(self, k: int) -> "Errors":
        """Return the sums of one step ahead."""
        return Errors(*(np.asarray(sums[..., k]) for sums in vars(self).values()))

    def scores(self) -> Scores:
        """Return the scores over everything that was summed up.

        RMSE = √(mean (x̂ − x)²); MAPE = mean |x̂ − x| / x over x ≥ cut; MAE = mean |x̂ − x|;
        WAPE = Σ |x̂ − x| / Σ |x|.
        """
        squares, absolutes, shares, sizes, values, terms = (
            sums.sum().item() for sums in vars(self).values()
        )
        return Scores(
            rmse=Metric((squares / values) ** 0.5 if values else None, values),
            mape=_ratio(shares, terms, terms),
            mae=_ratio(absolutes, values, values),
            wape=_ratio(absolutes, sizes, values),
        )

    def report(self) -> Report:
        """Return the scores over all steps ahead, which are the last axis, and of each."""
        steps = range(self.squares.shape[-1])
        return Report(self.scores(), tuple(self.step(k).scores() for k in steps))


def measure(
    truth: Float[np.ndarray, "*windows N"], forecast: Float[np.ndarray, "*windows N"], cut: float
) -> Errors:
    """Return the errors of forecasts, summed over the last axis; NaN truth is missing.

    Section 3.1.3. Differs: missing truth leaves both sums and counts.
    """
    if truth.shape != forecast.shape:
        raise ValueError(f"truth {truth.shape} and forecast {forecast.shape} differ in shape")
    if not cut > 0:
        raise ValueError(f"mape_cut = {cut}: MAPE divides by the truth, so > 0 is needed")
    seen = np.isfinite(truth)
    x = np.where(seen, truth, 0).astype(np.float64)
    error = np.abs(np.where(seen, forecast, 0) - x)
    busy = seen & (truth >= cut)
    share = np.divide(error, x, out=np.zeros_like(error), where=busy)
    sums = (np.square(error), error, share, np.abs(x), seen, busy)
    return Errors(*(np.asarray(part.sum(axis=-1)) for part in sums))


@dataclass(frozen=True)
class IntervalScores:
    """How well quantiles said how sure a forecast is."""

    coverage: Metric  # the share of values within the interval of the outermost two levels
    width: Metric  # of that interval
    pinball: Metric  # mean over values and levels


@dataclass(frozen=True, eq=False)
class Intervals:
    """Sums over locations, for each window and step: all that interval scores are made of."""

    pinballs: Float64[np.ndarray, "*windows"]  # Σ of the mean over levels α of ρ_α(x − q_α)
    widths: Float64[np.ndarray, "*windows"]  # Σ (q_last − q_first)
    inside: Int64[np.ndarray, "*windows"]  # how many x lie within q_first … q_last
    spans: Int64[np.ndarray, "*windows"]  # how many x have that interval: none with one level
    values: Int64[np.ndarray, "*windows"]  # how many x there are

    def step(self, k: int) -> "Intervals":
        """Return the sums of one step ahead."""
        return Intervals(*(np.asarray(sums[..., k]) for sums in vars(self).values()))

    def scores(self) -> IntervalScores:
        """Return the scores over everything that was summed up."""
        pinballs, widths, inside, spans, values = (
            sums.sum().item() for sums in vars(self).values()
        )
        return IntervalScores(
            coverage=_ratio(inside, spans, spans),
            width=_ratio(widths, spans, spans),
            pinball=_ratio(pinballs, values, values),
        )

    def report(self) -> list[IntervalScores]:
        """Return the scores over all steps ahead, which are the last axis, and of each."""
        steps = range(self.values.shape[-1])
        return [self.scores(), *(self.step(k).scores() for k in steps)]


def measure_intervals(
    truth: Float[np.ndarray, "*windows N"],
    quantiles: Float[np.ndarray, "Q *windows N"],
    levels: Sequence[float],
) -> Intervals:
    """Return what became of quantiles, summed over the last axis; NaN truth is missing.

    Pinball loss ρ_α(u) = max(α u, (α − 1) u) of u = x − q_α.
    """
    if quantiles.shape != (len(levels), *truth.shape):
        needed = (len(levels), *truth.shape)
        raise ValueError(f"quantiles {quantiles.shape}: {needed} is needed, as levels and truth")
    seen = np.isfinite(truth)
    x = np.where(seen, truth, 0).astype(np.float64)
    pinball = np.zeros_like(x)
    for level, q in zip(levels, quantiles, strict=True):
        u = x - np.where(seen, q, 0)
        pinball += np.maximum(level * u, (level - 1) * u) / len(levels)
    low, high = (np.where(seen, q, 0).astype(np.float64) for q in (quantiles[0], quantiles[-1]))
    inside = seen & (low <= x) & (x <= high)
    spans = seen & (len(levels) > 1)
    sums = (pinball, high - low, inside & spans, spans, seen)
    return Intervals(*(np.asarray(part.sum(axis=-1)) for part in sums))


def score(
    truth: Float[np.ndarray, "*shape"], forecast: Float[np.ndarray, "*shape"], mape_cut: float
) -> Scores:
    """Return the scores over every observed value."""
    return measure(truth, forecast, mape_cut).scores()


def _ratio(above: float | int, below: float | int, terms: int) -> Metric:
    return Metric(above / below, terms) if below > 0 else Metric(None, 0)
