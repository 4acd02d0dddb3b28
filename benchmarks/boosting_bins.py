"""Boosting with 255 bins and with 63: processor time, trees and the error on validation.

`python -m benchmarks.boosting_bins DATA OUT --sets uber,zones --seeds 2` fits both with one thread
on the recipes' training hours, in turns, and compares the errors of the same validation windows,
day by day. OUT keeps the panels and a line for each fit; fits that are there are not repeated.
"""

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402 (after the number of threads is set)

from forecaster.estimators.baselines import boosting  # noqa: E402
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead  # noqa: E402
from forecaster.estimators.match import with_meaning  # noqa: E402
from forecaster.estimators.training_data import TrainingData, hide_test  # noqa: E402
from forecaster.evaluation.bootstrap import RelativeDifference, compare_errors  # noqa: E402
from forecaster.metrics import ErrorSums, sum_errors  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.pipeline.experiment import make_panel  # noqa: E402
from forecaster.recipe import change, read_recipe  # noqa: E402
from forecaster.splits import Splits, cut_windows  # noqa: E402

RECIPES = {"uber": "uber_2014", "zones": "zone_taxi_2019"}
BINS = (255, 63)
Fit = dict[str, Any]  # processor seconds, trees and error sums


def main() -> None:
    """Fit, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of data sets")
    parser.add_argument("out", type=Path, help="for panels and results")
    parser.add_argument("--sets", default=",".join(RECIPES), help="data sets")
    parser.add_argument("--seeds", type=int, default=2, help="fits of each")
    arguments = parser.parse_args()
    for name in arguments.sets.split(","):
        folder = arguments.out / name
        recipe = read_recipe(Path("recipes") / f"{RECIPES[name]}.toml")
        panel = Panel.open(make_panel(folder, recipe, arguments.data, print))
        splits = Splits.from_config(panel, recipe.splits, recipe.lags.horizon)
        recipe = with_meaning(recipe, panel)
        data = hide_test(panel, splits, cut_windows(panel, splits, recipe.lags))
        fits: dict[int, list[Fit]] = {bins: [] for bins in BINS}
        for seed in range(arguments.seeds):
            for bins in BINS:
                path = folder / f"bins-{bins}-{seed}.json"
                if not path.exists():
                    seeded = change(recipe, {"training": {"seed": seed}}, source=name)
                    path.write_text(json.dumps(_fit(boosting.Boosting(seeded), data, bins)))
                fits[bins].append(json.loads(path.read_text()))
                _tell(name, bins, seed, fits[bins][-1])
        _compare(name, fits, data)


def _fit(model: boosting.Boosting, data: TrainingData, bins: int) -> Fit:
    """Fit with so many bins; processor seconds, trees, and error sums on validation."""
    boosting.PARAMETERS["max_bin"] = bins
    boosting.MAX_SINGLE_THREAD = 10**9
    began = time.process_time()
    arrays = model.fit_windows(data).arrays
    seconds = time.process_time() - began
    K, origins = model.recipe.lags.horizon, data.windows.validation
    inputs = ForecastInputs(data.filled, origins, *look_ahead(data.filled, origins, K))
    forecast = model.predict_windows({**arrays, **data.shared_arrays()}, inputs)
    truth = data.panel.values[origins[:, None] + np.arange(1, K + 1)]
    sums = sum_errors(truth, forecast, model.recipe.metrics.mape_cut)
    trees = arrays["trees.count"].tolist()
    return {
        "seconds": seconds,
        "trees": trees,
        "sums": {part: values.tolist() for part, values in asdict(sums).items()},
    }


def _errors(fit: Fit) -> ErrorSums:
    return ErrorSums(**{part: np.array(values) for part, values in fit["sums"].items()})


def _tell(name: str, bins: int, seed: int, fit: Fit) -> None:
    scores = _errors(fit).scores()
    trees, rmse, mape = sum(fit["trees"]), scores.rmse.value, scores.mape.value
    seconds = fit["seconds"]
    print(
        f"{name:6} {bins:4} bins, seed {seed}: {seconds:7.1f} s of the processor, {fit['trees']} "
        f"trees, {1e3 * seconds / trees:5.0f} ms a tree, RMSE {rmse:.4f}, "
        f"MAPE {100 * (mape or np.nan):.3f} %",
        flush=True,
    )


def _compare(name: str, fits: dict[int, list[Fit]], data: TrainingData) -> None:
    origins, panel = data.windows.validation, data.panel
    days = panel.clock.local(panel.times[origins]).astype("datetime64[D]").astype(np.int64)
    many, few = ([_errors(fit) for fit in fits[bins]] for bins in BINS)
    found = compare_errors(few, many, days)
    seconds = [sum(fit["seconds"] for fit in fits[bins]) for bins in BINS]
    trees = [sum(sum(fit["trees"]) for fit in fits[bins]) for bins in BINS]
    ratio = seconds[1] / seconds[0]
    per_tree = ratio * trees[0] / trees[1]
    print(f"{name}: 63 bins take {ratio:.2f} of the time of 255, {per_tree:.2f} a tree")
    print(f"{name}: RMSE {_show(found.rmse)}, MAPE {_show(found.mape)}", flush=True)


def _show(difference: RelativeDifference | None) -> str:
    if difference is None:
        return "n/a"
    low, high = 100 * difference.low, 100 * difference.high
    return f"{100 * difference.value:+.2f} % ({low:+.2f} … {high:+.2f})"


if __name__ == "__main__":
    main()
