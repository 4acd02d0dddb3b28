"""Zones that open after training, and rare ones: what they cost the forecasts of the others.

`python -m benchmarks.openings PANEL RECIPE OUT` takes the zones of recipes/zone_taxi_2019.toml.

*Openings.* Eight zones, chosen by seed, are zero until four open on 2019-11-15 and four on
2020-01-01; so they are in all training hours. With weights fixed, the forecasts of the other zones
are compared with those while the eight stay closed. Trained with several seeds, RMSE and MAPE of
the others are compared with those of the untouched panel, paired by day. The opened zones are
compared with HistoricalMean from their third day on.

*Rare.* Forty places with one ride a week are added to the untouched panel.

Every training is a process of its own, `--jobs` at a time; finished ones are kept in OUT.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from forecaster.artifact import Run
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.intervals.calibration import SPREAD, local_hours
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.predictor import WindowForecasts
from forecaster.evaluation.bootstrap import compare_errors
from forecaster.metrics import ErrorSums, sum_errors
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates, Locations
from forecaster.recipe import Recipe, change, read_recipe
from forecaster.splits import Splits, cut_windows

OPENED, RARE_PLACES, WEEK = 8, 40, 168
DATES = ("2019-11-15", "2020-01-01")
SETTLED = np.timedelta64(2, "D")  # from its third day on, an opened zone is judged
LARGEST_MOVE, LARGEST_LOSS = 0.05, 1.5  # spreads; per cent


def main() -> None:
    """Train every case and seed, and print what the others lose."""
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
        _train(arguments)
        return
    cases = ["untouched", "rare", *(f"opened-{n}" for n in range(arguments.choices))]
    todo = [(case, seed) for seed in range(arguments.seeds) for case in cases]
    _train_all(arguments, [job for job in todo if not _result(arguments.out, *job).exists()])
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


def _train(arguments: argparse.Namespace) -> None:
    """Train one case with one seed, test it, and keep the sums of errors."""
    case, out = arguments.case, _result(arguments.out, arguments.case, arguments.seed)
    untouched = Panel.open(arguments.panel)
    panel = _change(untouched, case)
    training = {"seed": arguments.seed}
    training |= {"epochs": arguments.epochs} if arguments.epochs else {}
    changes = {"preset": "best", "training": training}
    recipe = change(read_recipe(arguments.recipe), changes, source="openings")
    splits = Splits.from_config(panel, recipe.splits)
    model = Forecaster(recipe=recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    found = {"days": _days(panel, origins)}
    choices = range(arguments.choices) if case == "untouched" else [case]
    N = len(untouched.locations)
    for choice in choices:
        others = np.ones(len(panel.locations), dtype=bool)
        others[N:] = False
        name = f"opened-{choice}" if case == "untouched" else case
        if name.startswith("opened"):
            others[_choose(name, N)] = False
        found |= {
            f"{name}.{k}": v for k, v in vars(_errors(model, panel, origins, others)).items()
        }
    if case == "untouched":
        everybody = np.ones(N, dtype=bool)
        found |= {
            f"rare.{k}": v for k, v in vars(_errors(model, panel, origins, everybody)).items()
        }
    if case.startswith("opened"):
        found["move"] = _largest_move(model, panel, _change(untouched, case, stay=True), origins)
        found["opened"] = _judge_opened(model, panel, recipe, splits, origins)
    np.savez(out, allow_pickle=False, **found)
    print(f"{case}, seed {arguments.seed}: done", flush=True)


def _result(out: Path, case: str, seed: int) -> Path:
    return out / f"{case}-{seed}.npz"


def _choose(case: str, N: int) -> np.ndarray:
    """The eight zones of a choice; the first four open first."""
    choice = int(case.removeprefix("opened-"))
    return np.random.default_rng(choice).choice(N, OPENED, replace=False)


def _change(panel: Panel, case: str, *, stay: bool = False) -> Panel:
    """The panel of a case; `stay` keeps the eight zones closed for good."""
    if case == "untouched":
        return panel
    values = panel.values.copy()
    if case == "rare":
        return _add_rare(panel)
    chosen, local = _choose(case, values.shape[1]), panel.clock.local(panel.times)
    for date, zones in zip(DATES, (chosen[: OPENED // 2], chosen[OPENED // 2 :]), strict=True):
        closed = local < np.datetime64(date) if not stay else np.ones(len(local), dtype=bool)
        rows = np.ix_(closed, zones)
        values[rows] = np.where(np.isnan(values[rows]), np.nan, 0)
    return replace(panel, values=values, digest=None)


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


def _errors(model: Estimator, panel: Panel, origins: np.ndarray, others: np.ndarray) -> ErrorSums:
    """The errors of some locations, by window and step ahead."""
    forecasts = _forecast(model, panel, origins)
    relative = forecasts.mean if forecasts.relative is None else forecasts.relative
    truth = panel.values[origins[:, None] + np.arange(1, forecasts.mean.shape[1] + 1)]
    cut = model.recipe.metrics.mape_cut
    return sum_errors(truth[..., others], forecasts.mean[..., others], cut, relative[..., others])


def _forecast(model: Estimator, panel: Panel, origins: np.ndarray) -> WindowForecasts:
    return model.forecast_origins(_run(model), panel, "observed", origins)


def _run(model: Estimator) -> Run:
    if model.run is None:
        raise TypeError("the model is not fitted")
    return model.run


def _days(panel: Panel, origins: np.ndarray) -> np.ndarray:
    local = panel.clock.local(panel.start + (origins + 1) * panel.clock.step)
    return np.asarray(local.astype("datetime64[D]").astype(np.int64))


def _largest_move(
    model: Estimator, panel: Panel, closed: Panel, origins: np.ndarray
) -> np.ndarray:
    """The largest change of a forecast of the other zones by the openings, in spreads."""
    others = (panel.values == closed.values) | np.isnan(panel.values)
    chosen = ~others.all(axis=0)
    moved, still = (_forecast(model, p, origins).mean for p in (panel, closed))
    ahead = origins[:, None] + np.arange(1, moved.shape[1] + 1)
    spread = _run(model).arrays[SPREAD][local_hours(panel, ahead)]
    moves = (np.abs(moved - still) / spread)[..., ~chosen]
    return np.array([moves.max(), np.quantile(moves, 0.99)])


def _judge_opened(
    model: Estimator, panel: Panel, recipe: Recipe, splits: Splits, origins: np.ndarray
) -> np.ndarray:
    """RMSE of the opened zones from their third day on: of the model, of HistoricalMean."""
    simple = HistoricalMean(recipe=recipe).fit(panel, splits)
    ahead = origins[:, None] + np.arange(1, recipe.lags.horizon + 1)
    local = panel.clock.local(panel.times[ahead.reshape(-1)]).reshape(ahead.shape)
    first = np.array([_first_ride(panel, n) for n in range(panel.values.shape[1])])
    settled = (local[..., None] >= first + SETTLED) & np.isfinite(panel.values[ahead])
    settled &= first >= np.datetime64(DATES[0])
    rmse = []
    for estimator in (model, simple):
        mean = _forecast(estimator, panel, origins).mean
        rmse.append(np.sqrt(np.square(mean - panel.values[ahead])[settled].mean()))
    return np.array(rmse)


def _first_ride(panel: Panel, n: int) -> np.datetime64:
    rides = np.flatnonzero(np.nan_to_num(panel.values[:, n]) > 0)
    return panel.clock.local(panel.times[rides[:1]])[0].astype("datetime64[D]")  # type: ignore[no-any-return]


def _report(arguments: argparse.Namespace, case: str) -> None:
    """Print the differences of a case to the untouched panel."""
    seeds = range(arguments.seeds)
    changed, untouched = (
        [dict(np.load(_result(arguments.out, name, seed))) for seed in seeds]
        for name in (case, "untouched")
    )
    fields = ErrorSums.__dataclass_fields__
    errors, reference = (
        [ErrorSums(*(one[f"{case}.{field}"] for field in fields)) for one in results]
        for results in (changed, untouched)
    )
    difference = compare_errors(errors, reference, changed[0]["days"])
    for name, found in (("RMSE", difference.rmse), ("MAPE", difference.mape)):
        if found is not None:
            met = "met" if 100 * found.high < LARGEST_LOSS else "MISSED"
            ends = f"{100 * found.low:+.2f} … {100 * found.high:+.2f} %"
            goal = f"goal: below +{LARGEST_LOSS} %, {met}"
            print(f"{case}: {name} of the others {100 * found.value:+.2f} % ({ends}; {goal})")
    if case == "rare":
        return
    move, tail = np.array([one["move"] for one in changed]).max(axis=0)
    met = "met" if move <= LARGEST_MOVE else "MISSED"
    print(f"{case}: others move by at most {move:.4f} spreads, 99 % by {tail:.4f} ({met})")
    ours, simple = np.array([one["opened"] for one in changed]).mean(axis=0)
    met = "met" if ours < simple else "MISSED"
    print(f"{case}: opened zones from day 3: RMSE {ours:.2f}, HistoricalMean {simple:.2f} ({met})")


if __name__ == "__main__":
    main()
