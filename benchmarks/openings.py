"""Zones that open after training, and rare ones: how they are forecast, and what others lose.

`python -m benchmarks.openings PANEL RECIPE OUT` takes the zones of recipes/zone_taxi_2019.toml.
Eight zones are chosen by seed; four open on 2019-11-15, four on 2020-01-01.

*opened*: the eight are in the training panel, with zeros until they open.
*absent*: the run has never met the eight: it is trained on the other zones, and forecasts a panel
in which the eight have no values until they open.
*rare*: forty places with one ride a week are added to the untouched panel.

With weights fixed, the forecasts of the other zones are compared with those while the eight stay
closed. Trained with several seeds, RMSE and MAPE of the others are compared with those of the
untouched panel, paired by day. The eight are compared with HistoricalMean and LastValue from their
third day on, and after four weeks with the run of the untouched panel, which knew their past.

Every training is a process of its own, `--jobs` at a time; finished ones are kept in OUT.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import HistoricalMean, LastValue
from forecaster.estimators.intervals.calibration import Base
from forecaster.estimators.match import location_order
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.backtest import targets
from forecaster.evaluation.bootstrap import compare_errors
from forecaster.metrics import ErrorSums, sum_errors
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates, Locations
from forecaster.recipe import change, read_recipe
from forecaster.splits import Splits, cut_windows

OPENED, RARE_PLACES, WEEK = 8, 40, 168
DATES = ("2019-11-15", "2020-01-01")
AGES = {"from day 3": np.timedelta64(2, "D"), "after 4 weeks": np.timedelta64(28, "D")}
LARGEST_MOVE, LARGEST_LOSS = 0.05, 1.5  # spreads; per cent
LARGEST_RATIO = {"opened": 1.15, "absent": 1.3}  # of RMSE after four weeks
KNOWN_PAST = "run that knew their past"


def main() -> None:
    """Train every case and seed, and print how the eight and the others are forecast."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("panel", type=Path)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--choices", type=int, default=3, help="of eight zones")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="for a quick try")
    parser.add_argument("--case", help="train one case with one seed: untouched, rare, opened-0 …")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.case:
        Case(arguments, arguments.case).train(arguments.seed)
        return
    choices = range(arguments.choices)
    cases = ["untouched", "rare", *(f"{kind}-{n}" for kind in LARGEST_RATIO for n in choices)]
    todo = [(case, seed) for seed in range(arguments.seeds) for case in cases]
    _train_all(arguments, [job for job in todo if not _result(arguments, *job).exists()])
    for case in cases[1:]:
        _report(arguments, case)


def _train_all(arguments: argparse.Namespace, todo: Sequence[tuple[str, int]]) -> None:
    """Train in processes of their own, a few at a time."""
    running: list[subprocess.Popen[bytes]] = []
    for case, seed in todo:
        if len(running) >= arguments.jobs:
            _finish(running.pop(0))
        command = [sys.executable, "-m", "benchmarks.openings"]
        command += [str(arguments.panel), str(arguments.recipe), str(arguments.out)]
        command += ["--case", case, "--seed", str(seed), "--choices", str(arguments.choices)]
        command += ["--epochs", str(arguments.epochs)] if arguments.epochs else []
        running.append(subprocess.Popen(command))  # noqa: S603 (this module)
    for process in running:
        _finish(process)


def _finish(process: "subprocess.Popen[bytes]") -> None:
    if process.wait():
        raise SystemExit(f"a training ended with status {process.returncode}")


def _result(arguments: argparse.Namespace, case: str, seed: int) -> Path:
    return Path(arguments.out / f"{case}-{seed}.npz")


class Case:
    """A case: its training panel, and the panel that its run forecasts."""

    def __init__(self, arguments: argparse.Namespace, name: str) -> None:
        self.arguments, self.name = arguments, name
        self.untouched = Panel.open(arguments.panel)
        self.panel = self.training = self.untouched
        if name == "rare":
            self.panel = self.training = _add_rare(self.untouched)
        elif name != "untouched":
            self.panel = self.training = _open_later(self.untouched, name)
        if name.startswith("absent"):
            self.training = _without(self.untouched, name)

    def train(self, seed: int) -> None:
        """Train with one seed, test, and keep the sums of errors."""
        training = {"seed": seed}
        if self.arguments.epochs:
            training["epochs"] = self.arguments.epochs
        settings = {"preset": "best", "training": training}
        recipe = change(read_recipe(self.arguments.recipe), settings, source="openings")
        splits = Splits.from_config(self.training, recipe.splits)
        model = Forecaster(recipe=recipe).fit(self.training, splits)
        origins = cut_windows(self.untouched, splits, recipe.lags).test
        arrays = {"days": _days(self.panel, origins)}
        forecast = _forecast(model, self.panel, origins)
        for choice in self._choices():
            arrays |= self._errors_of_others(choice, forecast, origins, recipe.metrics.mape_cut)
            for age, rows in _settled(self.untouched, choice, origins, recipe.lags.horizon):
                rivals = {KNOWN_PAST: forecast} if self.name == "untouched" else {"": forecast}
                if self.name != "untouched":
                    for rival in (HistoricalMean(recipe), LastValue(recipe)):
                        rival.fit(self.training, splits)
                        name = type(rival).__name__
                        rivals[name] = _forecast(rival, self.panel, origins)
                truth = targets(self.untouched, origins, recipe.lags.horizon)
                for name, base in rivals.items():
                    errors = (base.forecast - truth)[rows].astype(np.float64)
                    arrays[f"{choice}.{age}.{name}"] = np.array([np.square(errors).mean()])
        if self.name not in ("untouched", "rare"):
            arrays["move"] = self._largest_move(model, origins, forecast)
        np.savez(_result(self.arguments, self.name, seed), allow_pickle=False, **arrays)
        print(f"{self.name}, seed {seed}: done", flush=True)

    def _choices(self) -> list[str]:
        if self.name != "untouched":
            return [self.name]
        choices = range(self.arguments.choices)
        return ["rare", *(f"{kind}-{n}" for kind in LARGEST_RATIO for n in choices)]

    def _errors_of_others(
        self, choice: str, forecast: Base, origins: np.ndarray, cut: float
    ) -> dict[str, np.ndarray]:
        """The errors of the zones that are not chosen, by window and step ahead."""
        N = len(self.untouched.locations)
        others = np.setdiff1d(np.arange(N), _chosen(choice, N))
        relative = forecast.forecast if forecast.relative is None else forecast.relative
        truth = targets(self.panel, origins, relative.shape[1])
        parts = (part[..., others] for part in (truth, forecast.forecast, relative))
        truth, mean, relative = parts
        sums = sum_errors(truth, mean, cut, relative)
        return {f"{choice}.{name}": array for name, array in vars(sums).items()}

    def _largest_move(self, model: Estimator, origins: np.ndarray, forecast: Base) -> np.ndarray:
        """The largest change of a forecast of the other zones by the openings, in spreads."""
        if self.name.startswith("absent"):
            closed = _without(self.untouched, self.name)
        else:
            closed = _open_later(self.untouched, self.name, stay=True)
        still = _forecast(model, closed, origins)
        N = len(self.untouched.locations)
        others = np.setdiff1d(np.arange(N), _chosen(self.name, N))
        columns = np.arange(len(others)) if self.name.startswith("absent") else others
        moves = np.abs(forecast.forecast[..., others] - still.forecast[..., columns])
        moves /= still.spread[..., columns]
        return np.array([moves.max(), np.quantile(moves, 0.99)])


def _chosen(choice: str, N: int) -> np.ndarray:
    """The eight zones of a choice, of which the first four open first; none for rare places."""
    if choice == "rare":
        return np.empty(0, dtype=np.int64)
    number = int(choice.partition("-")[2])
    return np.random.default_rng(number).choice(N, OPENED, replace=False)


def _opening(choice: str, panel: Panel) -> list[tuple[np.datetime64, np.ndarray]]:
    """The two dates and the zones that open then."""
    chosen, half = _chosen(choice, len(panel.locations)), OPENED // 2
    return [
        (np.datetime64(d), z) for d, z in zip(DATES, (chosen[:half], chosen[half:]), strict=True)
    ]


def _open_later(panel: Panel, choice: str, *, stay: bool = False) -> Panel:
    """The panel with the eight closed until they open: zeros, or no values if they are absent.

    Args:
        panel: untouched.
        choice: of the eight.
        stay: closed for good.
    """
    values, local = panel.values.copy(), panel.clock.local(panel.times)
    nothing = np.nan if choice.startswith("absent") else 0.0
    for date, zones in _opening(choice, panel):
        rows = np.ix_((local < date) | stay, zones)
        values[rows] = np.where(np.isnan(values[rows]), np.nan, nothing)
    return panel.with_data(values)


def _without(panel: Panel, choice: str) -> Panel:
    """The panel without the eight."""
    chosen = set(_chosen(choice, len(panel.locations)).tolist())
    return panel.select(tuple(i for n, i in enumerate(panel.locations.ids) if n not in chosen))


def _add_rare(panel: Panel) -> Panel:
    """The panel with forty more places, each with one ride a week at a random hour."""
    T = len(panel.values)
    rides = np.random.default_rng(0).poisson(1 / WEEK, (T, RARE_PLACES)).astype(np.float32)
    ids = (*panel.locations.ids, *(f"rare {n}" for n in range(RARE_PLACES)))
    steps = len(panel.covariates.values)
    return replace(
        panel,
        values=np.concatenate([panel.values, rides], axis=1),
        locations=Locations.of_ids(ids),
        local_covariates=LocalCovariates.empty(steps, len(ids)),
        digest=None,
    )


def _settled(
    panel: Panel, choice: str, origins: np.ndarray, horizon: int
) -> list[tuple[str, np.ndarray]]:
    """The targets of opened zones by their age: [B K N] each."""
    if choice == "rare":
        return []
    ahead = origins[:, None] + np.arange(1, horizon + 1)
    local = panel.clock.local(panel.times[ahead.reshape(-1)]).reshape(ahead.shape)
    settled = []
    for age, least in AGES.items():
        rows = np.zeros((*ahead.shape, len(panel.locations)), dtype=bool)
        for date, zones in _opening(choice, panel):
            rows[..., zones] = (local >= date + least)[..., None]
        settled.append((age, rows & np.isfinite(panel.values[ahead])))
    return settled


def _forecast(model: Estimator, panel: Panel, origins: np.ndarray) -> Base:
    """The forecasts in the order of the panel's locations."""
    predictor = model.predictor(panel, "observed")
    return predictor.base(origins).at(location_order(predictor.panel.locations.ids, panel))


def _days(panel: Panel, origins: np.ndarray) -> np.ndarray:
    local = panel.clock.local(panel.instants(origins + 1))
    return np.asarray(local.astype("datetime64[D]").astype(np.int64))


def _report(arguments: argparse.Namespace, case: str) -> None:
    """Print the differences of a case to the untouched panel."""
    changed, untouched = (
        [dict(np.load(_result(arguments, name, seed))) for seed in range(arguments.seeds)]
        for name in (case, "untouched")
    )
    fields = ErrorSums.__dataclass_fields__
    errors, reference = (
        [ErrorSums(*(one[f"{case}.{field}"] for field in fields)) for one in results]
        for results in (changed, untouched)
    )
    difference = compare_errors(errors, reference, changed[0]["days"])
    for name, change_of in (("RMSE", difference.rmse), ("MAPE", difference.mape)):
        if change_of is not None:
            low, value, high = (100 * e for e in (change_of.low, change_of.value, change_of.high))
            met = "met" if high < LARGEST_LOSS else "MISSED"
            interval = f"{low:+.2f} … {high:+.2f} %; goal: below +{LARGEST_LOSS} %, {met}"
            print(f"{case}: {name} of the others {value:+.2f} % ({interval})")
    if case == "rare":
        return
    move, tail = np.array([one["move"] for one in changed]).max(axis=0)
    met = "met" if move <= LARGEST_MOVE else "MISSED"
    print(f"{case}: others move by at most {move:.4f} spreads, 99 % by {tail:.4f} ({met})")
    for age in AGES:
        rmse = {
            name: np.mean([np.sqrt(one[f"{case}.{age}.{name}"]) for one in results])
            for results, name in (
                (changed, ""),
                (changed, "HistoricalMean"),
                (changed, "LastValue"),
                (untouched, KNOWN_PAST),
            )
        }
        texts = [f"{name} {value:.2f}" for name, value in rmse.items() if name]
        ratio = rmse[""] / rmse[KNOWN_PAST]
        goal = LARGEST_RATIO[case.partition("-")[0]]
        print(
            f"{case}: opened zones {age}: RMSE {rmse['']:.2f}, {', '.join(texts)}; "
            f"{ratio:.2f} of the last (goal after 4 weeks: {goal})"
        )


if __name__ == "__main__":
    main()
