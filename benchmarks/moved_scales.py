"""What it would be worth if scales and profiles of a network moved in a refit.

`python -m benchmarks.moved_scales PANEL RUN 2020-07-01 2020-10-01` refits a network on each of
these days: with the scales, profiles and bounds of its run, as `forecaster update` does it, and
with those of the training steps of the refit. Each forecasts the next four weeks. `--fresh` also
trains a network from new weights there. PANEL and RUN are of `forecaster evaluate`, whose cells
are runs.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import numpy as np

from forecaster.estimators.base import Estimator
from forecaster.estimators.match import splits_of
from forecaster.estimators.networks import estimator as networks
from forecaster.estimators.registry import load_estimator
from forecaster.estimators.training_data import Arrays
from forecaster.evaluation.refits import refit, with_splits
from forecaster.metrics import sum_errors
from forecaster.models.carried import Kept
from forecaster.panel.panel import Panel
from forecaster.splits import Splits

TEST_DAYS = 28


def main() -> None:
    """Print RMSE, MAPE and processor seconds of each kind of refit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("panel", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("days", nargs="+")
    parser.add_argument("--fresh", action="store_true", help="also train from new weights")
    arguments = parser.parse_args()
    panel, trained = Panel.open(arguments.panel), load_estimator(arguments.run)
    for day in arguments.days:
        for name in ("unchanged", "kept", "moved", *(["fresh"] if arguments.fresh else [])):
            begin = time.process_time()
            print(day, name, *score(make(name, trained, panel, day), panel, day), end=" ")
            print(f"{time.process_time() - begin:.0f} s", flush=True)


def make(name: str, trained: Estimator, panel: Panel, day: str) -> Estimator:
    """The model that forecasts from a day on."""
    if name == "unchanged" or trained.run is None:
        return trained
    horizon = trained.recipe.lags.horizon
    splits: Splits = splits_of(trained.run).until(panel, first_step(panel, day), horizon)
    if name == "fresh":
        fresh = type(trained)(recipe=with_splits(trained.recipe, splits))
        fresh.falls_back = trained.falls_back
        return fresh.fit(panel, splits)
    if name == "kept":
        return refit(trained, panel, splits, lambda _: None)
    with mock.patch.object(networks, "keep_statistics", move_statistics):
        return refit(trained, panel, splits, lambda _: None)


def move_statistics(trained: Arrays, fitted: Arrays, kept: Kept) -> Mapping[str, np.ndarray]:
    """The arrays of the refit's own training steps."""
    del trained, kept
    return dict(fitted)


def first_step(panel: Panel, day: str) -> int:
    """The first step of a local day."""
    return int(np.argmax(panel.clock.local(panel.times) >= np.datetime64(day)))


def score(model: Estimator, panel: Panel, day: str) -> tuple[str, str]:
    """RMSE and MAPE of the weeks from a day on."""
    horizon, steps = model.recipe.lags.horizon, TEST_DAYS * 24 * 60 // panel.clock.step_minutes
    first = first_step(panel, day) - 1
    origins = np.arange(first, first + steps - horizon)
    truth = panel.values[origins[:, None] + np.arange(1, horizon + 1)]
    forecast = model.predict(panel, origins)
    scores = sum_errors(truth, forecast, model.recipe.metrics.mape_cut).scores()
    return f"RMSE {scores.rmse.value or 0:.3f}", f"MAPE {100 * (scores.mape.value or 0):.1f} %"


if __name__ == "__main__":
    main()
