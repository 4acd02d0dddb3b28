"""Which members an ensemble should have: each trained once, then every set of them weighed.

`python -m benchmarks.members DATA OUT --sets uber,zones` trains the members of `--members` on each
data set, one folder a training, and prints the errors that the ensemble of each set of members has
on validation days which its weights were not chosen by. `--test` scores the members alone and the
ensembles that it names on the test windows, without another training: `--test
Forecaster+Ridge,Forecaster+STID-lags+Ridge`. Several processes may share OUT; `--only-trained`
trains nothing.
"""

import argparse
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import hangzhou, los_loop
from benchmarks.proofs import print_table
from forecaster.artifact import Run, load_run, save_run
from forecaster.config import LagConfig
from forecaster.estimators.base import Estimator
from forecaster.estimators.ensemble.ensemble import Ensemble
from forecaster.estimators.ensemble.fitting import MemberFits
from forecaster.estimators.ensemble.judge import judge
from forecaster.estimators.ensemble.members import Member
from forecaster.estimators.match import with_meaning
from forecaster.estimators.training_data import FitResult, TrainingData, hide_test
from forecaster.evaluation.backtest import BacktestResult, backtest
from forecaster.evaluation.bootstrap import RelativeDifference
from forecaster.evaluation.comparison import (
    Comparison,
    ModelResult,
    common_test_windows,
    describe_panel,
)
from forecaster.evaluation.storage import load_backtest, save_backtest
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.panel.panel import Panel
from forecaster.pipeline.experiment import make_panel
from forecaster.publish.manifest import MANIFEST
from forecaster.recipe import Recipe, change, read_recipe
from forecaster.splits import Splits, cut_windows

RECIPES = {
    "uber": "uber_2014",
    "zones": "zone_taxi_2019",
    "zones-2020": "zone_taxi_2020",
    "melbourne-2021": "melbourne_2021",
    "melbourne": "melbourne_2022",
    "grid": "grid_taxi_2010",
}
METRO = {"metro-in": "inflow", "metro-out": "outflow"}
SETS = (*RECIPES, *METRO, "loops")
DEFAULT = ("Forecaster", "STID-lags", "Ridge", "Boosting")
SHARED = "shared."  # of arrays of the training data, which each run repeats


def main() -> None:
    """Train members, weigh every set of them, and test some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of data sets")
    parser.add_argument("out", type=Path, help="for panels and trainings")
    parser.add_argument("--sets", default=",".join(SETS), help="data sets")
    parser.add_argument("--members", default=",".join(DEFAULT))
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each network")
    parser.add_argument("--epochs", type=int, help="of networks; without it those of the preset")
    parser.add_argument("--test", default="", help="ensembles for the test windows")
    parser.add_argument("--only-trained", action="store_true", help="train nothing")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    members = tuple(arguments.members.split(","))
    for name in arguments.sets.split(","):
        data_set = DataSet(name, arguments.data, arguments.out, members, arguments.epochs)
        seeds = range(arguments.seeds)
        for seed in () if arguments.only_trained else seeds:
            for member in members:
                data_set.train(member, seed)
        if arguments.test:
            data_set.print_test([test.split("+") for test in arguments.test.split(",")], seeds)
        else:
            data_set.print_validation(seeds)


@dataclass(frozen=True)
class DataSet:
    """A data set of the benchmark with its trained members."""

    name: str
    data: Path
    out: Path
    members: tuple[str, ...]
    epochs: int | None
    fits: dict[tuple[str, int], FitResult] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the panel and of the trainings."""
        return self.out / self.name

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of all members."""
        if self.name in RECIPES:
            recipe = read_recipe(Path("recipes") / f"{RECIPES[self.name]}.toml")
        else:
            steps = max(los_loop.HORIZONS) if self.name == "loops" else hangzhou.HORIZON
            recipe = Recipe(lags=LagConfig(horizon=steps))
        values = {} if self.epochs is None else {"training": {"epochs": self.epochs}}
        return change(recipe, {"preset": "best"}, values, source=self.name)

    @cached_property
    def panel(self) -> Panel:
        """The panel, built on first use."""
        if self.name in RECIPES:
            return Panel.open(make_panel(self.folder, self.recipe, self.data, print))
        folder = self.folder / "panel"
        if (folder / MANIFEST).exists():
            return Panel.open(folder)
        if self.name == "loops":
            table = pd.read_parquet(self.data / "los_loop_2012" / "speed.parquet")
            panel = Panel.from_wide(
                table, timezone="America/Los_Angeles", kind="measurement", step_minutes=5
            )
        else:
            path = self.data / "hangzhou_metro_2019" / f"{METRO[self.name]}.parquet"
            panel = hangzhou.make_panel(pd.read_parquet(path).set_index("time"))
        return panel.save(folder, self.recipe)

    @cached_property
    def splits(self) -> Splits:
        """The spans of training, validation and test."""
        if self.name in RECIPES:
            return Splits.from_config(self.panel, self.recipe.splits, self.recipe.lags.horizon)
        if self.name == "loops":
            return los_loop.split(self.panel)
        return Splits(
            train=[("2019-01-01", "2019-01-18")],
            validation=[("2019-01-19", "2019-01-20")],
            test=[("2019-01-21", "2019-01-25")],
        )

    @cached_property
    def graph(self) -> DependencyGraph:
        """The dependency graph of all members that need one."""
        return learn_graph(self.panel, self.splits, self.recipe.graph, lags=self.recipe.lags)

    def ensemble(self, members: Sequence[str], seed: int) -> Ensemble:
        """An ensemble of these members, not fitted yet."""
        values = {"ensemble": {"members": list(members)}, "training": {"seed": seed}}
        recipe = change(self.recipe, values, source=self.name)
        return Ensemble(recipe=with_meaning(recipe, self.panel))

    def member(self, name: str, seed: int) -> Member:
        """A member, not fitted yet."""
        return self.ensemble([name], seed).members[0]

    def training_data(self, recipe: Recipe) -> TrainingData:
        """What every member is fitted to."""
        return hide_test(
            self.panel, self.splits, cut_windows(self.panel, self.splits, recipe.lags)
        )

    def train(self, name: str, seed: int) -> None:
        """Train a member, unless that is done."""
        member = self.member(name, seed if self.is_seeded(name) else 0)
        folder, estimator = self.run_folder(name, seed), member.estimator
        if (folder / MANIFEST).exists():
            return
        data = self.training_data(estimator.recipe)
        data = replace(data, folder=folder.with_name(f"{folder.name}-checkpoints"))
        if estimator.takes_graph:
            estimator.graph = self.graph  # type: ignore[attr-defined]
        began, spent = time.monotonic(), time.process_time()
        result = estimator.fit_windows(data)
        spent = time.process_time() - spent
        about = {**result.about, "seconds": result.seconds or time.monotonic() - began}
        arrays = {**result.arrays, **data.shared_arrays()}
        kind = type(estimator).__name__
        save_run(folder, Run(kind, estimator.recipe, about, arrays, result.parents))
        print(f"{self.name} {folder.name}: {spent:.0f} s of the processor", flush=True)

    def is_seeded(self, name: str) -> bool:
        """Whether another seed gives another member."""
        return self.member(name, 0).estimator.seeded

    def run_folder(self, name: str, seed: int) -> Path:
        """The folder of a training."""
        return self.folder / f"{name}-{seed if self.is_seeded(name) else 0}"

    def fit_of(self, name: str, seed: int) -> FitResult:
        """The stored result of a training."""
        key = name, seed
        if key not in self.fits:
            run = load_run(self.run_folder(name, seed))
            arrays = {n: a for n, a in run.arrays.items() if not n.startswith(SHARED)}
            about = dict(run.about)
            seconds = float(about.pop("seconds"))
            self.fits[key] = FitResult(arrays, about, run.parents, seconds)
        return self.fits[key]

    def fit(self, members: Sequence[str], seed: int) -> Estimator:
        """A member alone, or an ensemble: all of its fit but the trainings, which are stored."""
        stored = [(name, self.fit_of(name, seed)) for name in members]
        if len(members) == 1:
            estimator, result = self.member(members[0], seed).estimator, stored[0][1]
        else:
            estimator = ensemble = self.ensemble(members, seed)
            result = join(stored, ensemble)
        return with_fit(estimator, lambda _: result).fit(self.panel, self.splits)

    def print_validation(self, seeds: Sequence[int]) -> None:
        """Print the errors of every set of members on validation, lowest RMSE first."""
        parts = [self.judge_sets(seed) for seed in seeds]
        rows = []
        for members in parts[0]:
            rmse, mape = np.array([part[members] for part in parts]).T
            rows.append((" + ".join(members), rmse.mean(), mape.mean(), rmse, mape))
        lowest_rmse, lowest_mape = (np.nanmin([row[n] for row in rows]) for n in (1, 2))
        print(f"\n{self.name}: {len(seeds)} trainings of each network, errors on validation")
        table = [
            [
                name,
                f"{rmse:.4g}",
                f"{100 * (rmse / lowest_rmse - 1):+.2f} %",
                f"{100 * mape:.2f}",
                f"{100 * (mape / lowest_mape - 1):+.2f} %",
                " ".join(f"{a:.4g}/{100 * b:.2f}" for a, b in zip(each, others, strict=True)),
            ]
            for name, rmse, mape, each, others in sorted(rows, key=lambda row: row[1])
        ]
        print_table(["members", "RMSE", "", "MAPE %", "", "by seed"], table)

    def judge_sets(self, seed: int) -> dict[tuple[str, ...], tuple[float, float]]:
        """RMSE and MAPE of every set of members on days that its weights were not chosen by."""
        path = self.folder / f"validation-{'-'.join(self.members)}-{seed}.json"
        if not path.exists():
            content = {"+".join(s): e for s, e in self._judge_sets(seed).items()}
            path.write_text(json.dumps(content), encoding="utf-8")
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {tuple(name.split("+")): (e[0], e[1]) for name, e in stored.items()}

    def _judge_sets(self, seed: int) -> dict[tuple[str, ...], tuple[float, float]]:
        """As above, computed."""
        everyone = self.ensemble(self.members, seed)
        result = join([(name, self.fit_of(name, seed)) for name in self.members], everyone)
        errors: dict[tuple[str, ...], tuple[float, float]] = {}

        def judge_all(run: Run, data: TrainingData, _: object) -> FitResult:
            outputs, arrays = everyone.judged_forecasts(run, data)
            for size in range(1, len(self.members) + 1):
                for chosen in combinations(range(len(self.members)), size):
                    parts = [outputs[m] for m in chosen]
                    mean, relative = judge(data, parts, everyone.recipe.metrics.mape_cut)
                    names = tuple(self.members[m] for m in chosen)
                    errors[names] = mean.error, nan if relative is None else relative.error
            return FitResult(arrays)

        everyone.adjust_outputs = judge_all  # type: ignore[method-assign,assignment]
        with_fit(everyone, lambda _: result).fit(self.panel, self.splits)
        return errors

    def print_test(self, ensembles: Sequence[Sequence[str]], seeds: Sequence[int]) -> None:
        """Print the comparison of the members and of these ensembles on the test windows."""
        rows = []
        for members in [*ensembles, *([name] for name in self.members)]:
            name = "+".join(members)
            is_seeded = any(self.is_seeded(member) for member in members)
            results = {seed: self.test(members, seed) for seed in (seeds if is_seeded else (0,))}
            estimator = "Ensemble" if len(members) > 1 else members[0]
            rows.append(ModelResult(name, estimator, results))
        cut = self.recipe.metrics.mape_cut
        comparison = Comparison(rows, cut, describe_panel(self.panel))
        print(f"\n# {self.name}\n\n{comparison.to_markdown()}")
        for row in rows[len(ensembles) :]:
            for best in rows[: len(ensembles)]:
                found = comparison.compare(best, row)
                lines = (
                    f"{n} {_show(d)}" for n, d in (("RMSE", found.rmse), ("MAPE", found.mape))
                )
                print(f"{best.name} against {row.name}: {', '.join(lines)}")

    def test(self, members: Sequence[str], seed: int) -> BacktestResult:
        """The backtest of a member or of an ensemble; stored ones are not repeated."""
        name = f"{'+'.join(members)}-{seed}"
        folder = self.folder / f"test-{name}"
        stored = load_backtest(folder, name)
        if stored is not None:
            return stored
        model = self.fit(members, seed)
        origins = common_test_windows(self.panel, self.splits, [model.recipe])
        seconds = sum(self.fit_of(member, seed).seconds or 0.0 for member in members)
        result = replace(backtest(model, self.panel, origins), seconds=seconds)
        save_backtest(folder, result, name)
        print(f"{self.name}: {name} tested", flush=True)
        return result


def _show(difference: RelativeDifference | None) -> str:
    """A paired difference in per cent with its interval."""
    if difference is None:
        return "n/a"
    low, high = 100 * difference.low, 100 * difference.high
    return f"{100 * difference.value:+.1f} % ({low:+.1f} … {high:+.1f})"


def join(results: Sequence[tuple[str, FitResult]], ensemble: Ensemble) -> FitResult:
    """The stored results of members as the fit of their ensemble."""
    fits = MemberFits(dict(results))
    return ensemble.join(fits, sum(result.seconds or 0.0 for _, result in results))


def with_fit(estimator: Estimator, fit: Callable[[TrainingData], FitResult]) -> Estimator:
    """The estimator with a stored result in place of its trainings."""
    estimator.fit_windows = fit  # type: ignore[method-assign,assignment]
    return estimator


if __name__ == "__main__":
    main()
