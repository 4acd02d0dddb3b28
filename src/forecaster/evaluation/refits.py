"""A backtest that refits its model on the way, as a service does that is updated.

The model forecasts as it was fitted until the first refit. At every refit it is fitted to all that
was known by then, from the run before; it forecasts the days until the next refit.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from jaxtyping import Int64

from forecaster.artifact import Run, begin_run
from forecaster.choices import Weather
from forecaster.config import SplitsConfig
from forecaster.errors import ConfigError, RunError
from forecaster.estimators.base import Estimator
from forecaster.estimators.graph_arrays import PAIRS, graph_of
from forecaster.estimators.match import known_part, splits_of
from forecaster.evaluation.backtest import BacktestResult, IntervalResults, Refits, backtest
from forecaster.evaluation.day_totals import DayTotals
from forecaster.evaluation.storage import load_backtest, save_backtest
from forecaster.graph.dependency import DependencyGraph
from forecaster.metrics import ErrorSums, IntervalSums
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST
from forecaster.publish.writing import discard
from forecaster.recipe import Recipe
from forecaster.splits import SPLITS, Splits
from forecaster.training.progress import ProgressCallback
from forecaster.versions import PARENT

MessageCallback = Callable[[str], None]
_INTERVAL = re.compile(r"([1-9][0-9]{0,2})d")
KEY = 12  # characters of a hash in folder names
E = TypeVar("E", ErrorSums, IntervalSums)


@dataclass(frozen=True, eq=False)
class Period:
    """The origins from one refit to the next."""

    day: str  # of the refit, local
    step: int  # the first that the refit must not see
    origins: Int64[np.ndarray, " B"]


@runtime_checkable
class TakesGraph(Protocol):
    """An estimator that a dependency graph can be given to."""

    graph: DependencyGraph | None


def read_interval(text: str) -> int:
    """The days of an interval such as `7d`."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ConfigError(f"refit {text!r} is not a number of days; give 7d, 28d or the like")
    return int(match[1])


def cut_periods(panel: Panel, origins: Int64[np.ndarray, " B"], days: int) -> list[Period]:
    """The test windows by refit; those of the first period come before any refit.

    Args:
        panel: whose local days count.
        origins: ascending.
        days: between two refits.
    """
    target_days = _local_days(panel, panel.instants(origins + 1))
    step_days = _local_days(panel, panel.times)
    number = (target_days - target_days[0]) // days
    if not number.any():
        dates = " … ".join(str(target_days[n].astype("datetime64[D]")) for n in (0, -1))
        remedy = "refit more often, or test on a longer span"
        raise ConfigError(f"refit {days}d: the test days {dates} end before a refit; {remedy}")
    periods = []
    for k in np.unique(number).tolist():
        day = target_days[0] + k * days
        step = int(np.argmax(step_days >= day))
        periods.append(Period(str(day.astype("datetime64[D]")), step, origins[number == k]))
    return periods


def backtest_refitted(  # noqa: PLR0913 (what a backtest takes, and where it resumes)
    estimator: Estimator,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weathers: Sequence[Weather],
    days: int,
    *,
    folder: Path | None = None,
    say: MessageCallback | None = None,
    on_progress: ProgressCallback | None = None,
) -> BacktestResult:
    """Score forecasts from the given origins by a model that is refitted on the way.

    Args:
        estimator: fitted; its fit stays as it is.
        panel: observed values. No refit sees a step after it.
        origins: as for `backtest`.
        weathers: likewise.
        days: between two refits.
        folder: of finished parts, from which the same call resumes; the newest run stays there.
            None: everything is kept in memory.
        say: called before each refit.
        on_progress: called with the progress of each refit.
    """
    periods = cut_periods(panel, origins, days)
    say = say or _ignore
    store = None
    if folder is not None:
        identity = [_run_of(estimator).digest, days, list(weathers), origins.tolist()]
        store = _Store(folder / _hash(identity)[:KEY])
    results = [] if store is None else store.load(periods)
    model = estimator if store is None else store.model(estimator, periods, len(results))
    for number in range(len(results), len(periods)):
        period = periods[number]
        if number:
            say(f"refit {number} of {len(periods) - 1}, {period.day}")
            splits = splits_of(_run_of(model)).until(panel, period.step, model.recipe.lags.horizon)
            if store is None:
                model = refit(model, panel, splits, say, None, on_progress)
            else:
                model = refit_in(store.run(period), model, panel, splits, say, on_progress)
        results.append(backtest(model, panel, period.origins, weathers))
        if store is not None:
            store.save(results[-1], periods, number)
    seconds = tuple(result.seconds for result in results[1:])
    refits = Refits(days, tuple(period.day for period in periods[1:]), seconds)
    return replace(join_results(results), refits=refits)


def refit(
    estimator: Estimator,
    panel: Panel,
    splits: Splits,
    say: MessageCallback,
    folder: Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> Estimator:
    """Fit an estimator anew, from its own run; its graph is kept unless it has drifted.

    Args:
        estimator: fitted; it stays as it is.
        panel: with the locations to learn.
        splits: of the coming fit.
        say: called before each stage.
        folder: of the checkpoints of a long training.
        on_progress: called with its progress.
    """
    run = _run_of(estimator)
    coming = type(estimator)(recipe=with_splits(run.recipe, splits))
    coming.start, coming.falls_back = run, estimator.falls_back
    if isinstance(coming, TakesGraph) and PAIRS in run.arrays:
        coming.graph = renewed_graph(run, panel, splits, say)
    return coming.fit(panel, splits, folder=folder, on_progress=on_progress)


def refit_in(
    folder: Path,
    estimator: Estimator,
    panel: Panel,
    splits: Splits,
    say: MessageCallback,
    on_progress: ProgressCallback | None = None,
) -> Estimator:
    """Refit an estimator in the folder of its run; the same call resumes an interrupted one.

    The arguments are those of `refit`.
    """
    recipe, parents = identify_refit(_run_of(estimator), panel, splits)
    if not begin_run(folder, type(estimator).__name__, recipe, parents):
        coming = refit(estimator, panel, splits, say, folder / "training", on_progress)
        coming.save(folder)
        return coming
    return type(estimator).load(folder)


def identify_refit(run: Run, panel: Panel, splits: Splits) -> tuple[Recipe, Mapping[str, str]]:
    """The recipe and the parents of a refit."""
    parents = {PARENT: str(run.digest), "panel": str(panel.digest)}
    return with_splits(run.recipe, splits), parents


def with_splits(recipe: Recipe, splits: Splits) -> Recipe:
    """The recipe with these ranges."""
    ranges = {name: tuple(getattr(splits, name)) for name in SPLITS}
    return recipe.model_copy(update={"splits": SplitsConfig(**cast(Any, ranges))})


def renewed_graph(run: Run, panel: Panel, splits: Splits, say: MessageCallback) -> DependencyGraph:
    """The graph of a run for the locations of a panel; estimated anew if it has drifted."""
    from forecaster.graph.extend import extend_graph, restrict_graph  # noqa: PLC0415
    from forecaster.graph.renewal import renew_graph  # noqa: PLC0415 (numba: two seconds)

    graph = graph_of(run, known_part(run, panel).locations)
    present = {*panel.locations.ids}
    kept = tuple(identity for identity in run.about["ids"] if identity in present)
    extended = extend_graph(restrict_graph(graph, kept), panel.locations, panel.values)
    recipe = run.recipe
    renewal = renew_graph(extended, panel, splits, recipe.graph, recipe.lags, say)
    state = "has drifted: estimated anew" if renewal.has_drifted else "is kept"
    say(f"the graph {state} (p = {renewal.p_value:.2g})")
    return renewal.graph


def join_results(results: Sequence[BacktestResult]) -> BacktestResult:
    """The backtest of consecutive test windows; sizes of locations are those of the first."""
    first, last = results[0], results[-1]
    scored = [result.interval_results for result in results]
    intervals = [scores for scores in scored if scores is not None]
    totals = [result.day_totals for result in results if result.day_totals is not None]
    times = [result.seconds for result in results[1:] if result.seconds is not None]
    hours = [result.hours for result in results if result.hours is not None]
    return replace(
        last,
        errors={w: _chain([result.errors[w] for result in results]) for w in first.errors},
        by_location=_add([result.by_location for result in results]),
        origins=np.concatenate([result.origins for result in results]),
        days=np.concatenate([result.days for result in results]),
        milliseconds=float(np.median([result.milliseconds for result in results])),
        seconds=sum(times) if times else None,
        interval_results=_join_intervals(intervals) if len(intervals) == len(results) else None,
        location_sizes=first.location_sizes,
        hours=np.concatenate(hours) if hours else None,
        own=None,  # what is served is scored
        day_totals=DayTotals(
            _chain([part.errors for part in totals]), _chain([part.intervals for part in totals])
        )
        if totals
        else None,
    )


@dataclass(frozen=True)
class _Store:
    """Finished parts of a backtest with refits, and the run that the next refit begins from."""

    folder: Path  # of this model, these test windows and refits alone

    def load(self, periods: Sequence[Period]) -> list[BacktestResult]:
        """The results of the first periods, as far as the refits can go on from there."""
        results: list[BacktestResult] = []
        for period in periods:
            result = load_backtest(self.folder / f"test-{period.day}", _key(period))
            if result is None:
                break
            results.append(result)
        last = periods[max(len(results) - 1, 0)]
        is_complete = len(results) == len(periods)
        return results if is_complete or (self.run(last) / MANIFEST).exists() else results[:1]

    def model(self, estimator: Estimator, periods: Sequence[Period], finished: int) -> Estimator:
        """The model after so many periods: as it was given, or refitted."""
        if finished <= 1 or finished == len(periods):
            return estimator
        return type(estimator).load(self.run(periods[finished - 1]))

    def run(self, period: Period) -> Path:
        """The folder of the run of a refit."""
        return self.folder / f"run-{period.day}"

    def save(self, result: BacktestResult, periods: Sequence[Period], number: int) -> None:
        """Publish the result of a period; the run before it is not needed any more."""
        period = periods[number]
        save_backtest(self.folder / f"test-{period.day}", result, _key(period))
        if number:
            discard(self.run(periods[number - 1]))


def _key(period: Period) -> str:
    return _hash([period.day, period.step, period.origins.tolist()])


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _chain(sums: Sequence[E]) -> E:
    """The sums of consecutive windows."""
    parts = {n: np.concatenate([getattr(each, n) for each in sums]) for n in vars(sums[0])}
    return type(sums[0])(**parts)


def _add(sums: Sequence[E]) -> E:
    """The sums by location over all windows together."""
    return type(sums[0])(**{n: sum(getattr(each, n) for each in sums) for n in vars(sums[0])})


def _join_intervals(parts: Sequence[IntervalResults]) -> IntervalResults:
    modes = list(parts[0].by_window)
    return IntervalResults(
        parts[0].levels,
        {mode: _chain([part.by_window[mode] for part in parts]) for mode in modes},
        {mode: _add([part.by_location[mode] for part in parts]) for mode in modes},
    )


def _local_days(panel: Panel, times: np.ndarray) -> Int64[np.ndarray, " T"]:
    """The local days of instants, since 1970."""
    return np.asarray(panel.clock.local(times).astype("datetime64[D]").astype(np.int64))


def _run_of(estimator: Estimator) -> Run:
    if estimator.run is None:
        raise RunError(f"{type(estimator).__name__} is not fitted yet; call fit(panel, splits)")
    return estimator.run


def _ignore(_: str) -> None:
    """Print nothing."""
