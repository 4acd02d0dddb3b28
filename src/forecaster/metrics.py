"""RMSE, MAPE, MAE and WAPE, each with the number of terms behind it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float


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


def evaluate_forecasts(
    truth: Float[np.ndarray, "B K N"], forecast: Float[np.ndarray, "B K N"], mape_cut: float
) -> Report:
    """Return the scores of B forecasts, K steps ahead, at N locations; NaN truth is missing.

    Section 3.1.3. Differs: missing truth leaves both sums and counts.
    """
    if truth.shape != forecast.shape:
        raise ValueError(f"truth {truth.shape} and forecast {forecast.shape} differ in shape")
    steps = tuple(score(truth[:, k], forecast[:, k], mape_cut) for k in range(truth.shape[1]))
    return Report(score(truth, forecast, mape_cut), steps)


def score(
    truth: Float[np.ndarray, "*shape"], forecast: Float[np.ndarray, "*shape"], mape_cut: float
) -> Scores:
    """Return the scores over every observed value.

    RMSE = √(mean (x̂ − x)²); MAPE = mean |x̂ − x| / x over x ≥ cut; MAE = mean |x̂ − x|;
    WAPE = Σ |x̂ − x| / Σ |x|.
    """
    if not mape_cut > 0:
        raise ValueError(f"mape_cut = {mape_cut}: MAPE divides by the truth, so > 0 is needed")
    seen = np.isfinite(truth)
    x = truth[seen].astype(np.float64)
    error = np.abs(forecast[seen].astype(np.float64) - x)
    busy: Bool[np.ndarray, " n"] = x >= mape_cut
    mean_square = _ratio(np.square(error).sum(), len(x), len(x))
    return Scores(
        rmse=Metric(None if mean_square.value is None else mean_square.value**0.5, len(x)),
        mape=_ratio((error[busy] / x[busy]).sum(), int(busy.sum()), int(busy.sum())),
        mae=_ratio(error.sum(), len(x), len(x)),
        wape=_ratio(error.sum(), np.abs(x).sum(), len(x)),
    )


def _ratio(above: np.floating, below: np.floating | int, terms: int) -> Metric:
    return Metric(float(above / below), terms) if below > 0 else Metric(None, 0)
