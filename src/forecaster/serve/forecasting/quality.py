"""The quality of the last forecasts and the state of the data, for those who watch a service."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Float32

from forecaster.estimators.wrong_values.plausible import Plausibility, day_steps
from forecaster.metrics import ErrorSums, IntervalSums, sum_errors, sum_intervals
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.accuracy import Outcomes, PastForecast
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.new_locations import with_absent_locations
from forecaster.serve.forecasting.predictor import view_origin

Period = Literal["day", "week"]
HOURS: dict[Period, int] = {"day": 24, "week": 168}
WORST = 10  # locations with figures of their own
BY_LOCATION = (2, 0, 1)  # of [B, K, N]


@dataclass(frozen=True)
class Figures:
    """The errors and intervals of some forecasts; None: nothing to measure."""

    rmse: float | None
    mape: float | None  # a fraction
    bias: float | None  # a fraction; > 0: too high
    coverage: float | None  # share of values inside the interval
    width: float | None  # of the interval
    pinball: float | None  # mean over values and levels
    naive_rmse: float | None  # of the value a week before
    values: int  # that were compared


@dataclass(frozen=True)
class LocationCounts:
    """The number of locations in a state; one may be in several."""

    present: int
    silent: int  # open, without a value in the recent steps of a window
    closed: int  # by its dates or opening hours
    implausible: int  # with an implausible or repeated value in the last day


@dataclass(frozen=True)
class Quality:
    """What is known of the last forecasts at an origin."""

    expected_coverage: float | None
    overall: Mapping[Period, Figures]
    worst: Mapping[str, Mapping[Period, Figures]]  # by location, the largest RMSE of a week first
    locations: LocationCounts


def measure_quality(
    model: ServedModel,
    snapshot: Snapshot,
    forecasts: Mapping[Period, dict[int, PastForecast]],
    origin: int,
    closed: int,
) -> Quality:
    """Measure the forecasts of the last day and week, overall and at the worst locations.

    RMSE, MAPE and bias are of the values that `/v1/accuracy` compares.

    Args:
        model: the model of the forecasts.
        snapshot: the observations.
        forecasts: those of each period by origin; the longest has all others.
        origin: the newest one.
        closed: number of steps that are over.
    """
    week = Outcomes.of(model, snapshot, forecasts["week"], closed)
    first = min(forecasts["day"], default=origin)
    sums = {
        "day": _Sums.of(model, week.since(first)),
        "week": _Sums.of(model, week),
    }
    levels = model.quantile_levels
    worst = {
        snapshot.locations.ids[n]: {period: sums[period].figures(n) for period in HOURS}
        for n in sums["week"].worst()
    }
    return Quality(
        expected_coverage=levels[-1] - levels[0] if len(levels) > 1 else None,
        overall={period: sums[period].figures() for period in HOURS},
        worst=worst,
        locations=count_locations(model, snapshot, origin),
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums by location and origin."""

    errors: ErrorSums
    naive: ErrorSums
    intervals: IntervalSums

    @staticmethod
    def of(model: ServedModel, outcomes: Outcomes) -> "_Sums":
        cut = model.estimator.recipe.metrics.mape_cut
        compared, y_hat, y_relative, naive = (
            _by_location(values)
            for values in (
                outcomes.compared,
                np.nan_to_num(outcomes.y_hat),
                np.nan_to_num(outcomes.y_relative),
                np.nan_to_num(outcomes.naive),
            )
        )
        unknown = np.isnan(outcomes.quantiles).any(axis=0)
        by_location = _by_location(np.where(unknown, np.float32(np.nan), outcomes.observed))
        quantiles = np.nan_to_num(outcomes.quantiles).transpose(0, 3, 1, 2)
        return _Sums(
            sum_errors(compared, y_hat, cut, y_relative),
            sum_errors(compared, naive, cut),
            sum_intervals(by_location, quantiles, model.quantile_levels),
        )

    def worst(self) -> list[int]:
        """The columns with the largest RMSE, the largest first; those without a value never."""
        squares, values = self.errors.squares.sum(axis=1), self.errors.values.sum(axis=1)
        order = np.argsort(-squares / np.maximum(values, 1), kind="stable")
        return [n for n in order.tolist() if values[n]][:WORST]

    def figures(self, column: int | None = None) -> Figures:
        """The figures of all locations, or of one."""
        chosen = slice(None) if column is None else column
        errors, naive = (
            ErrorSums(*(np.asarray(part[chosen]) for part in vars(sums).values())).scores()
            for sums in (self.errors, self.naive)
        )
        parts = (np.asarray(part[chosen]) for part in vars(self.intervals).values())
        intervals = IntervalSums(*parts).scores()
        return Figures(
            rmse=errors.rmse.value,
            mape=errors.mape.value,
            bias=errors.bias.value,
            coverage=intervals.coverage.value,
            width=intervals.width.value,
            pinball=intervals.pinball.value,
            naive_rmse=naive.rmse.value,
            values=errors.rmse.terms,
        )


def count_locations(model: ServedModel, snapshot: Snapshot, origin: int) -> LocationCounts:
    """Count the locations in each state at an origin."""
    recent = model.estimator.recipe.lags.recent
    is_open = snapshot.alive(origin, origin + 1)[0]
    values = snapshot.final_values(origin + 1 - recent, origin + 1)
    heard = np.isfinite(values).any(axis=0)
    return LocationCounts(
        present=len(is_open),
        silent=int((is_open & ~heard).sum()),
        closed=int((~is_open).sum()),
        implausible=_count_implausible(model, snapshot, origin),
    )


def _count_implausible(model: ServedModel, snapshot: Snapshot, origin: int) -> int:
    view = view_origin(model, snapshot, origin)
    run, panel = model.estimator.adapt(with_absent_locations(model, view.panel))
    plausibility = Plausibility.of(run)
    if plausibility is None:  # an older run
        return 0
    first = max(view.step + 1 - day_steps(panel.clock), 0)
    marks = plausibility.judge(panel, first, view.step + 1).marks
    return len(np.unique(marks.columns))


def _by_location(values: Float32[np.ndarray, "B K N"]) -> Float[np.ndarray, "N B K"]:
    return values.transpose(BY_LOCATION)
