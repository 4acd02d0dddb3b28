"""Forecasts from short histories: errors and intervals by the number of days that are known.

`python -m benchmarks.short_history RUN PANEL` draws test origins and cuts the panel so that it
begins some days before each of them. Printed are RMSE, the mean width and the coverage of the
interval between the outermost quantiles, as calibrated in training. `--figure FILE` draws them.
"""

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forecaster.estimators.base import Estimator
from forecaster.estimators.match import location_order
from forecaster.estimators.registry import load_estimator
from forecaster.evaluation.backtest import targets
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Splits, cut_windows

DAYS = (1, 3, 7, 14, 28)
DAY_MINUTES = 24 * 60


@dataclass(frozen=True)
class ShortHistory:
    """The results with so many days of history."""

    days: int
    rmse: float
    width: float
    coverage: float  # per cent; a count x stands for x ± ½


def main() -> None:
    """Forecast from each length of history, and print what comes out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("panel", type=Path)
    parser.add_argument("--origins", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    estimator, panel = load_estimator(arguments.run), Panel.open(arguments.panel)
    origins = _draw_origins(estimator, panel, arguments.origins, arguments.seed)
    results = [_measure(estimator, panel, origins, days) for days in DAYS]
    for result in results:
        print(
            f"{result.days:3} days: RMSE {result.rmse:.3f}, width {result.width:.2f}, "
            f"coverage {result.coverage:.1f} %"
        )
    if arguments.figure:
        _draw(results, arguments.figure)


def _draw_origins(estimator: Estimator, panel: Panel, count: int, seed: int) -> np.ndarray:
    """Draw test origins of the run."""
    if estimator.run is None:
        raise SystemExit("the run is not fitted")
    ranges = {name: [tuple(p) for p in estimator.run.about["splits"][name]] for name in SPLITS}
    test = cut_windows(panel, Splits(**ranges), estimator.recipe.lags).test
    generator = np.random.default_rng(seed)
    return np.sort(generator.choice(test, min(count, len(test)), replace=False))


def _measure(estimator: Estimator, panel: Panel, origins: np.ndarray, days: int) -> ShortHistory:
    """Forecast from every origin with so many days of history."""
    horizon, steps = estimator.recipe.lags.horizon, days * DAY_MINUTES // panel.clock.step_minutes
    squares, widths, inside = [], [], []
    for origin in origins.tolist():
        part = panel.steps(max(origin + 1 - steps, 0), origin + 1, origin + 1 + horizon)
        predictor = estimator.predictor(part, "observed")
        base = predictor.base(np.array([len(part.values) - 1]))
        base = base.at(location_order(predictor.panel.locations.ids, part))
        calibration = predictor.calibration
        quantiles = calibration.widen(base, calibration.corrections)[0]
        low, high = quantiles[0], quantiles[-1]
        truth = targets(panel, np.array([origin]), horizon)[0]
        observed = np.isfinite(truth)
        squares.append(np.square(base.forecast[0] - truth)[observed])
        widths.append((calibration.cut(high) - calibration.cut(low))[observed])
        inside.append(_share_inside(truth, low, high, calibration.resolution)[observed])
    rmse, width, coverage = (np.concatenate(part).mean() for part in (squares, widths, inside))
    return ShortHistory(days, float(np.sqrt(rmse)), float(width), float(100 * coverage))


def _share_inside(
    truth: np.ndarray, low: np.ndarray, high: np.ndarray, resolution: float
) -> np.ndarray:
    """The share of each outcome, x ± half the resolution, that lies between two quantiles."""
    if not resolution:
        return np.asarray((low <= truth) & (truth <= high))
    below, above = (np.clip((q - truth) / resolution + 0.5, 0, 1) for q in (low, high))
    return np.asarray(above - below)


def _draw(results: list[ShortHistory], path: Path) -> None:
    """Draw error and width by the days of history."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 (only for the figure)

    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
    days = [result.days for result in results]
    for axis, name, title in zip(
        axes,
        ("rmse", "width", "coverage"),
        ("RMSE", "width of the 80 % interval", "coverage, %"),
        strict=True,
    ):
        numbers = [getattr(result, name) for result in results]
        axis.plot(days, numbers, "o-", color="#2563a8")
        axis.set(title=title, xlabel="days of history", xscale="log")
        axis.set_xticks(days, [str(day) for day in days])
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylim(*((70, 90) if name == "coverage" else (0, 1.15 * max(numbers))))
    axes[2].axhline(80, color="#888", linewidth=0.8, linestyle="--")
    figure.savefig(path)


if __name__ == "__main__":
    main()
