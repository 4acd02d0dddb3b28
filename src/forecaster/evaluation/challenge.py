"""A challenger against the current champion, on days that neither has learned from.

Both forecast the same windows. What a run promises is compared: RMSE of the mean, MAPE, pinball
loss, bias and coverage, over all locations and by fifth of location size. Intervals are of 95 %,
from a bootstrap of whole days that draws the same days for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.estimators.base import Estimator
from forecaster.estimators.predictor import Prediction
from forecaster.evaluation.backtest import targets
from forecaster.evaluation.bias import MIDDLE, SIZE_GROUPS, group_sizes, location_sizes, name_sizes
from forecaster.evaluation.bootstrap import DayBootstrap, RelativeDifference
from forecaster.metrics import ErrorSums, IntervalSums, sum_errors, sum_intervals
from forecaster.panel.panel import Panel

Measure = Literal["rmse", "mape", "pinball", "bias", "coverage"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
MEASURE_NAMES = {
    "rmse": "RMSE",
    "mape": "MAPE",
    "pinball": "pinball loss",
    "bias": "bias",
    "coverage": "coverage",
}
RELATIVE = ("rmse", "mape", "pinball")  # the measures whose differences are relative
EVERYWHERE = "all"  # the group of all locations
LOSS = 0.01  # of RMSE, MAPE or pinball loss, that a fresher model must not have
GAIN = 0.01  # of RMSE, below which a difference may be that of another seed
HARM = {"rmse": 0.01, "mape": 0.01, "pinball": 0.01, "bias": 0.01, "coverage": 0.02}
FIFTH_HARM = 2  # times that, at a fifth of the locations
MORE_WEEKS = 4.0
WEEK_SECONDS = 7 * 24 * 3600
Decision = Literal["promote", "keep"]


@dataclass(frozen=True)
class Promise:
    """One measure of both models at a group of locations.

    The difference is relative for RMSE, MAPE and pinball loss; below 0 the challenger is better.
    Of bias and coverage it is that of their distances from 0 and from the nominal coverage.
    """

    measure: Measure
    group: str
    champion: float
    challenger: float
    difference: RelativeDifference

    @property
    def harm(self) -> float:
        """The smallest loss that counts."""
        return HARM[self.measure] * (1 if self.group == EVERYWHERE else FIFTH_HARM)

    @property
    def is_broken(self) -> bool:
        """Whether the challenger is worse by more than chance, and by more than a little."""
        return self.difference.low > 0 and self.difference.value > self.harm


@dataclass(frozen=True)
class Knowledge:
    """What the challenger knows beyond the champion."""

    locations: int  # more locations; below 0: fewer
    weeks: float  # later end of what was learned from

    @property
    def is_more(self) -> bool:
        """Whether that is worth a difference that may be chance."""
        return self.locations > 0 or self.weeks >= MORE_WEEKS


@dataclass(frozen=True)
class Challenge:
    """The comparison of a challenger with the champion."""

    promises: tuple[Promise, ...]
    knowledge: Knowledge
    days: int
    windows: int
    daily: Mapping[str, Any]  # RMSE of both by day
    nominal_coverage: float | None

    def overall(self, measure: Measure) -> Promise | None:
        """A measure over all locations; None: it has no terms, or there are too few days."""
        both = (p for p in self.promises if (p.measure, p.group) == (measure, EVERYWHERE))
        return next(both, None)

    @property
    def broken(self) -> tuple[Promise, ...]:
        """The promises that the challenger breaks."""
        return tuple(promise for promise in self.promises if promise.is_broken)

    def decide(self) -> tuple[Decision, str]:
        """Whether the challenger should become the champion, and why."""
        rmse = self.overall("rmse")
        if rmse is None:
            return "keep", "too few days with values to tell"
        if self.broken:
            return "keep", "worse: " + "; ".join(map(_describe, self.broken[:3]))
        if rmse.difference.high < 0 and rmse.difference.value <= -GAIN:
            return "promote", f"better: {_describe(rmse)}"
        losses = [self.overall(measure) for measure in MEASURES if measure in RELATIVE]
        risky = [p for p in losses if p is not None and p.difference.high > LOSS]
        if self.knowledge.is_more and not risky:
            return "promote", f"no loss above 1 %, and it knows {describe_more(self.knowledge)}"
        if self.knowledge.is_more:
            return "keep", f"a loss above 1 % cannot be excluded: {_describe(risky[0])}"
        return "keep", f"not better by more than chance: {_describe(rmse)}"

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON."""
        decision, reason = self.decide()
        return {
            "verdict": decision,
            "reason": reason,
            "days": self.days,
            "windows": self.windows,
            "more": asdict(self.knowledge),
            "nominal_coverage": self.nominal_coverage,
            "promises": [asdict(promise) for promise in self.promises],
            "daily": dict(self.daily),
        }


def challenge(
    champion: tuple[Estimator, Panel],
    challenger: tuple[Estimator, Panel],
    origins: Int64[np.ndarray, " B"],
    knowledge: Knowledge,
) -> Challenge:
    """Compare two models on the same windows.

    Args:
        champion: the current model, and the panel as it takes it.
        challenger: the coming one, likewise.
        origins: of windows that neither has learned from.
        knowledge: what the challenger knows beyond the champion.
    """
    shared_ids = {*champion[1].locations.ids} & {*_ids(champion[0])}
    shared = [i for i in challenger[1].locations.ids if i in shared_ids]
    sides = [_Side.of(model, panel, shared, origins) for model, panel in (champion, challenger)]
    panel = challenger[1].select(tuple(shared))
    truth = targets(panel, origins, sides[0].mean.shape[1])
    answered = np.isfinite(sides[0].mean) & np.isfinite(sides[1].mean)
    truth = np.where(answered, truth, np.float32(np.nan))
    days = panel.clock.local(panel.instants(origins + 1)).astype("datetime64[D]")
    bootstrap = DayBootstrap(days.astype(np.int64))
    promises = []
    for group, columns in _groups(champion[0], panel).items():
        sums = [side.sums(truth, columns) for side in sides]
        promises += _compare(group, sums[0], sums[1], bootstrap, sides[0].nominal)
    return Challenge(
        promises=tuple(promises),
        knowledge=knowledge,
        days=bootstrap.days,
        windows=len(origins),
        daily=_by_day(days, [side.sums(truth, np.arange(len(shared))) for side in sides]),
        nominal_coverage=sides[0].nominal,
    )


def describe_more(more: Knowledge) -> str:
    """What a challenger knows beyond the champion, in words."""
    texts = []
    if more.locations > 0:
        texts.append(f"{more.locations} more location{'s' if more.locations > 1 else ''}")
    if more.weeks >= MORE_WEEKS:
        texts.append(f"{more.weeks:.0f} more weeks")
    return " and ".join(texts)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of the errors and of the intervals of one model, by window and step ahead."""

    errors: ErrorSums
    intervals: IntervalSums | None


@dataclass(frozen=True, eq=False)
class _Side:
    """The forecasts of one model."""

    mean: Float32[np.ndarray, "B K N"]
    relative: Float32[np.ndarray, "B K N"]
    uncut: Float32[np.ndarray, "Q B K N"]
    prediction: Prediction
    cut: float  # of MAPE

    @staticmethod
    def of(
        model: Estimator, panel: Panel, ids: Sequence[str], origins: Int64[np.ndarray, " B"]
    ) -> "_Side":
        """The forecasts of some locations, in their order."""
        prediction = model.predict_all(panel, origins)
        order = [panel.locations.ids.index(identity) for identity in ids]
        uncut = prediction.base.quantiles[:, :0]
        if prediction.calibration.levels:
            uncut = prediction.calibration.widen(prediction.base, prediction.corrections)
        return _Side(
            mean=prediction.forecast[..., order],
            relative=prediction.relative[..., order],
            uncut=uncut.transpose(1, 0, 2, 3)[..., order],
            prediction=prediction,
            cut=model.recipe.metrics.mape_cut,
        )

    @property
    def nominal(self) -> float | None:
        """The coverage that its outermost quantiles state; None: fewer than two."""
        levels = self.prediction.calibration.levels
        return levels[-1] - levels[0] if len(levels) > 1 else None

    def sums(self, truth: Float32[np.ndarray, "B K N"], columns: Int64[np.ndarray, " n"]) -> _Sums:
        """The sums over some locations."""
        part = truth[..., columns]
        errors = sum_errors(part, self.mean[..., columns], self.cut, self.relative[..., columns])
        calibration, uncut = self.prediction.calibration, self.uncut[..., columns]
        if not calibration.levels:
            return _Sums(errors, None)
        counts = uncut if calibration.resolution else None
        cut = calibration.cut(uncut)
        return _Sums(errors, sum_intervals(part, cut, calibration.levels, counts))


def _ids(model: Estimator) -> list[str]:
    run: Run | None = model.run
    return [] if run is None else list(run.about["ids"])


def _groups(champion: Estimator, panel: Panel) -> dict[str, Int64[np.ndarray, " n"]]:
    """The columns of all locations, and of each fifth by size."""
    N = len(panel.locations)
    groups = {EVERYWHERE: np.arange(N)}
    if champion.run is not None and N > 1:
        fifth = group_sizes(location_sizes(champion.run, panel))
        names = name_sizes(min(SIZE_GROUPS, N))
        groups |= {name: np.flatnonzero(fifth == n) for n, name in enumerate(names)}
    return groups


def _compare(
    group: str, champion: _Sums, challenger: _Sums, bootstrap: DayBootstrap, nominal: float | None
) -> list[Promise]:
    """All measures of a group of locations that have terms."""
    promises = []
    for measure in MEASURES:
        values = [
            _replicates(measure, side, bootstrap, nominal) for side in (champion, challenger)
        ]
        if values[0] is None or values[1] is None:
            continue
        if measure not in RELATIVE:
            distance = np.abs if measure == "bias" else lambda share: np.abs(share - nominal)
            difference = bootstrap.absolute(distance(values[1]), distance(values[0]))
        else:
            difference = bootstrap.relative(values[1], values[0])
        if difference is not None:
            ends = float(values[0][0]), float(values[1][0])
            promises.append(Promise(measure, group, *ends, difference))
    return promises


def _replicates(
    measure: Measure, side: _Sums, bootstrap: DayBootstrap, nominal: float | None
) -> Float64[np.ndarray, " R"] | None:
    """A measure of each draw of days; None: the model does not promise it."""
    errors, intervals = side.errors, side.intervals
    of_errors: dict[str, Callable[[], Float64[np.ndarray, " R"]]] = {
        "rmse": lambda: np.sqrt(bootstrap.mean(errors.squares, errors.values)),
        "mape": lambda: bootstrap.mean(errors.shares, errors.terms),
        "bias": lambda: bootstrap.mean(errors.signed, errors.sizes),
    }
    if measure in of_errors:
        return of_errors[measure]()
    if intervals is None or (measure == "coverage" and nominal is None):
        return None
    if measure == "pinball":
        return bootstrap.mean(intervals.pinballs, intervals.values)
    return bootstrap.mean(intervals.covered, intervals.spans)


def _by_day(days: np.ndarray, sides: Sequence[_Sums]) -> dict[str, Any]:
    """RMSE of both models by day; None: nothing was observed."""
    distinct, day = np.unique(days, return_inverse=True)
    daily: dict[str, Any] = {"days": [str(each) for each in distinct]}
    for name, side in zip(("champion", "challenger"), sides, strict=True):
        squares, values = (
            np.bincount(day, weights=part.sum(axis=1))
            for part in (side.errors.squares, side.errors.values)
        )
        rmse = np.sqrt(np.divide(squares, values, out=np.zeros_like(squares), where=values > 0))
        daily[name] = [
            value if n else None for value, n in zip(rmse.tolist(), values.tolist(), strict=True)
        ]
    return daily


def _describe(promise: Promise) -> str:
    """A difference in a clause: `RMSE 3.1 % lower (95 % interval 1.2 … 5.0 %)`."""
    difference, name = promise.difference, MEASURE_NAMES[promise.measure]
    group = f"{promise.group} by size" if promise.group in MIDDLE else promise.group
    where = "" if promise.group == EVERYWHERE else f" at the {group}"
    if promise.measure not in RELATIVE:
        ends = f"{100 * promise.champion:.1f} → {100 * promise.challenger:.1f} %"
        return f"{name}{where} {ends}".replace("-", "−")
    ends = f"{100 * difference.low:+.1f} … {100 * difference.high:+.1f} %"
    return f"{name}{where} {100 * difference.value:+.1f} % (95 % interval {ends})".replace(
        "-", "−"
    )
