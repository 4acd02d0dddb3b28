"""Forecasts of a day or a week: errors by step ahead, coverage by group of steps, daily totals.

`python -m benchmarks.horizons DATA OUT --set zones --prepare` builds the panel of a recipe into
OUT; `python -m benchmarks.horizons DATA OUT --set zones --horizon 24` trains the models of
`--models` on it, one file of scores for each model and seed. `--table` prints what is there: RMSE,
MAE, MAPE and bias by group of steps, the coverage of the 80 % interval (quantiles corrected by
outcomes), and the RMSE and coverage of the totals of whole local days, forecast at midnight.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.proofs import Options, print_table, show
from forecaster.estimators.predictor import Prediction
from forecaster.evaluation.backtest import targets
from forecaster.evaluation.day_totals import DayTotals, score_day_totals
from forecaster.metrics import sum_errors, sum_intervals
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change, read_recipe
from forecaster.splits import Splits, cut_windows

RECIPES = {
    "zones": "zone_taxi_2019",
    "grid": "grid_taxi_2010",
    "melbourne": "melbourne_2022",
    "uber": "uber_2014",
}
# Best of Transformer-best, docs/results.md
WIDTHS = {"zones": 256, "grid": 128, "melbourne": 256, "uber": 256}
MODELS = (
    "SeasonalNaive",
    "HistoricalMean",
    "Ridge",
    "Boosting",
    "Transformer-level",
    "quick",
)
ENDS = (1, 3, 6, 12, 24, 48, 72, 96, 120, 144, 168, 336)  # last steps of the groups
BLOCK = 256  # origins whose intervals are scored at a time


def main() -> None:
    """Build the panel, or train the models and print the table."""
    parser = Options.parser(__doc__, MODELS)
    parser.add_argument("--set", choices=RECIPES, required=True)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--prepare", action="store_true", help="build the panel and stop")
    arguments = parser.parse_args()
    recipe_path = Path(__file__).parents[1] / "recipes" / f"{RECIPES[arguments.set]}.toml"
    recipe, panel_folder = read_recipe(recipe_path), arguments.out / "panels" / arguments.set
    if arguments.prepare:
        _prepare(recipe, arguments.data, panel_folder)
        return
    if arguments.width == parser.get_default("width"):
        arguments.width = WIDTHS[arguments.set]
    arguments.out = arguments.out / f"{arguments.set}-{arguments.horizon}"
    options = Options.of(arguments)
    recipe = change(recipe, {"lags": {"horizon": arguments.horizon}}, source="horizons")
    if options.models:
        panel = Panel.open(panel_folder)
        splits = Splits.from_config(panel, recipe.splits)

        def measure(name: str, seed: int) -> dict[str, Any]:
            model = options.fit(name, seed, recipe, panel, splits)
            origins = cut_windows(panel, splits, model.recipe.lags).test
            prediction = model.predict_all(panel, origins)
            totals = score_day_totals(model, panel, origins, prediction)
            return score(panel, origins, prediction, recipe.metrics.mape_cut) | _totals(totals)

        options.run(measure)
    _print(options.results(), arguments.horizon)


def _prepare(recipe: Recipe, data: Path, folder: Path) -> None:
    """Build the panel of a recipe, unless it is there."""
    from forecaster.ingest.build import build_panel, find_sources  # noqa: PLC0415 (needs duckdb)

    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        build_panel(recipe, find_sources(recipe, data)).save(folder, recipe)
    print(Panel.open(folder))


def score(
    panel: Panel, origins: np.ndarray, prediction: Prediction, mape_cut: float
) -> dict[str, Any]:
    """The sums of errors and of values inside the interval by step, and errors of daily totals."""
    forecast, horizon = prediction.forecast, prediction.forecast.shape[1]
    truth = targets(panel, origins, horizon)
    errors = sum_errors(truth, forecast, mape_cut, prediction.relative)
    inside, spans = np.zeros(horizon), np.zeros(horizon)
    calibration = prediction.calibration
    for start in range(0, len(origins), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(origins)))
        corrections = np.broadcast_to(
            prediction.corrections, (len(origins), *prediction.corrections.shape[1:])
        )[rows]
        uncut = calibration.widen(prediction.base.rows(rows), corrections).transpose(1, 0, 2, 3)
        counts = uncut if calibration.resolution else None
        part = sum_intervals(truth[rows], calibration.cut(uncut), calibration.levels, counts)
        inside += part.covered.sum(axis=0)
        spans += part.spans.sum(axis=0)
    return {
        **{name: sums.sum(axis=0).tolist() for name, sums in vars(errors).items()},
        "inside": inside.tolist(),
        "spans": spans.tolist(),
        "windows": len(origins),
        "days": daily_totals(panel, origins, truth, forecast),
    }


def _totals(totals: DayTotals | None) -> dict[str, Any]:
    """The numbers of daily totals inside their own 80 % interval, and of all, by day ahead."""
    if totals is None:
        return {}
    intervals = totals.intervals
    return {
        "days_inside": intervals.covered.sum(axis=0).tolist(),
        "days_spans": intervals.spans.sum(axis=0).tolist(),
    }


def daily_totals(
    panel: Panel, origins: np.ndarray, truth: np.ndarray, forecast: np.ndarray
) -> dict[str, list[float]]:
    """Σ squared errors of the totals of whole local days, and their number, by day ahead.

    Origins are the last steps of local days; a total counts where every step is observed.
    """
    steps = origins[:, None] + np.arange(forecast.shape[1] + 2)
    days = panel.clock.local(panel.instants(steps.reshape(-1))).astype("datetime64[D]")
    days = days.reshape(steps.shape)
    midnight = days[:, 1] != days[:, 0]
    squares: list[float] = []
    counts: list[float] = []
    for row in np.flatnonzero(midnight):
        ends = np.flatnonzero(days[row, 2:] != days[row, 1:-1])  # last steps of whole days
        first = 0
        for number, last in enumerate(ends.tolist()):
            if number == len(squares):
                squares.append(0.0)
                counts.append(0)
            span = slice(first, last + 1)
            miss = forecast[row, span].sum(axis=0, dtype=np.float64) - truth[row, span].sum(axis=0)
            squares[number] += float(np.nansum(np.square(miss)))
            counts[number] += int(np.isfinite(miss).sum())
            first = last + 1
    return {"squares": squares, "counts": counts}


def _print(results: Mapping[str, Sequence[Mapping[str, Any]]], horizon: int) -> None:
    """Print one table for each metric: groups of steps are columns."""
    ends = [end for end in ENDS if end < horizon] + [horizon]
    groups = [slice(0, horizon), *map(slice, [0, *ends[:-1]], ends)]
    names = ["all", *(_name_group(group) for group in groups[1:])]
    for metric, (above, below, power, factor) in {
        "RMSE": ("squares", "values", 0.5, 1),
        "MAE": ("absolutes", "values", 1, 1),
        "MAPE %": ("shares", "terms", 1, 100),
        "bias %": ("signed", "sizes", 1, 100),
        "coverage of 80 %": ("inside", "spans", 1, 100),
    }.items():
        rows = []
        for name, seeds in results.items():
            cells = []
            for group in groups:
                ratios = [sum(s[above][group]) / sum(s[below][group]) for s in seeds]
                cells.append(show([factor * _power(ratio, power) for ratio in ratios]))
            rows.append([name, *cells])
        print_table([metric, *names], rows)
        print()
    _print_days(results)


def _print_days(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the RMSE of the totals of whole days."""
    days = max((len(seeds[0]["days"]["counts"]) for seeds in results.values()), default=0)
    rows = []
    for name, seeds in results.items():
        parts = [zip(s["days"]["squares"], s["days"]["counts"], strict=True) for s in seeds]
        by_day = [[(a / n) ** 0.5 for a, n in part] for part in parts]
        rows.append([name, *(show(list(values), 1) for values in zip(*by_day, strict=True))])
    names = [f"day {day + 1}" for day in range(days)]
    print_table(["RMSE of a day's total", *names], rows)
    print()
    rows = []
    for name, seeds in results.items():
        inside = [s["days_inside"] for s in seeds if "days_inside" in s]
        spans = [s["days_spans"] for s in seeds if "days_inside" in s]
        by_seed = [
            [100 * a / n for a, n in zip(*s, strict=True)] for s in zip(inside, spans, strict=True)
        ]
        rows.append([name, *(show(list(values), 1) for values in zip(*by_seed, strict=True))])
    print_table(["coverage of a day's total", *names], rows)


def _name_group(group: slice) -> str:
    first = group.start + 1
    return f"+{first}" if first == group.stop else f"+{first}…{group.stop}"


def _power(ratio: float, power: float) -> float:
    return float(ratio**power) if ratio >= 0 else ratio


if __name__ == "__main__":
    main()
