"""Training windows at the beginning of a panel, whose older steps are masked: what they are worth.

`python -m benchmarks.first_weeks PANEL RECIPE OUT` trains `best` with and without the windows of
partial history, with several seeds, and compares the errors of the same test windows, paired by
day. Every training is kept in OUT.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.training_data import FitResult, TrainingData
from forecaster.evaluation.backtest import targets
from forecaster.evaluation.bootstrap import compare_errors
from forecaster.metrics import ErrorSums, sum_errors
from forecaster.panel.panel import Panel
from forecaster.recipe import change, read_recipe
from forecaster.splits import Splits, cut_windows


class WholeHistories(Forecaster):
    """Forecaster, trained only on windows whose whole history is inside the panel."""

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Train without the windows of partial history."""
        windows = replace(data.windows, partial=data.windows.partial[:0])
        return super().fit_windows(replace(data, windows=windows))


KINDS = {"with": Forecaster, "without": WholeHistories}


def main() -> None:
    """Train both kinds with every seed, and print the difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("panel", type=Path)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", help="train one kind with one seed: with-0, without-3")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = [f"{kind}-{seed}" for seed in range(arguments.seeds) for kind in KINDS]
    for name in [arguments.only] if arguments.only else names:
        if not (arguments.out / f"{name}.npz").exists():
            _train(arguments, name)
    if not arguments.only:
        _report(arguments)


def _train(arguments: argparse.Namespace, name: str) -> None:
    """Train one kind with one seed, and keep the sums of its test errors."""
    kind, _, seed = name.partition("-")
    panel = Panel.open(arguments.panel)
    settings = {"preset": "best", "training": {"seed": int(seed)}}
    recipe = change(read_recipe(arguments.recipe), settings, source="first_weeks")
    splits = Splits.from_config(panel, recipe.splits)
    model = KINDS[kind](recipe=recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    base = model.predictor(panel, "observed").base(origins)
    truth = targets(panel, origins, recipe.lags.horizon)
    errors = sum_errors(truth, base.forecast, recipe.metrics.mape_cut, base.relative)
    local = panel.clock.local(panel.instants(origins + 1))
    days = local.astype("datetime64[D]").astype(np.int64)
    np.savez(arguments.out / f"{name}.npz", allow_pickle=False, days=days, **vars(errors))
    scores = errors.scores()
    print(f"{name}: RMSE {scores.rmse}, MAPE {scores.mape}", flush=True)


def _report(arguments: argparse.Namespace) -> None:
    """Print the difference of both kinds, with its interval."""
    results = {
        kind: [
            dict(np.load(arguments.out / f"{kind}-{seed}.npz")) for seed in range(arguments.seeds)
        ]
        for kind in KINDS
    }
    fields = ErrorSums.__dataclass_fields__
    first, second = (
        [ErrorSums(*(one[field] for field in fields)) for one in results[kind]] for kind in KINDS
    )
    difference = compare_errors(first, second, results["with"][0]["days"])
    for name, change_of in (("RMSE", difference.rmse), ("MAPE", difference.mape)):
        if change_of is not None:
            low, value, high = (100 * e for e in (change_of.low, change_of.value, change_of.high))
            print(f"{name} with the first weeks: {value:+.2f} % ({low:+.2f} … {high:+.2f})")


if __name__ == "__main__":
    main()
