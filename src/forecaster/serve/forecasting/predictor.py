"""Forecasts of the served model on a snapshot, with online quantiles, and their explanations."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from forecaster.choices import Weather
from forecaster.config import LagConfig
from forecaster.errors import ConfigError
from forecaster.estimators.closed import describe_closed, open_ids
from forecaster.estimators.forecast_inputs import (
    DAY_MINUTES,
    choose_weather,
    fill_of,
    refuse_missing,
)
from forecaster.estimators.intervals.calibration import Base
from forecaster.estimators.intervals.online import OnlineCalibration, step_number
from forecaster.estimators.match import is_new, location_order, match, see_as_run
from forecaster.estimators.predictor import Predictor
from forecaster.estimators.totals.past_totals import (
    PastTotals,
    add_outcomes,
    earlier_origins,
    forecast_days,
)
from forecaster.estimators.totals.totals import TotalCalibration
from forecaster.estimators.wrong_values.degraded import (
    NEW_LOCATION,
    SILENT_LEAST,
    SILENT_SHARE,
    describe_doubts,
    describe_history,
    describe_outage,
    describe_unheard_covariates,
)
from forecaster.estimators.wrong_values.plausible import RUN_DAYS, Plausibility, context, day_steps
from forecaster.panel.fill import Fill, fill_missing
from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import Forecast, ForecastKey, ServedModel
from forecaster.serve.forecasting.new_locations import (
    describe_absent,
    forecast_columns,
    with_absent_locations,
)
from forecaster.splits import MAX_FILLED, history_steps

KEPT_INTERVALS = 3  # models, each with one choice of covariates ahead and of locations
SPARE_DAYS = 2  # beyond the oldest lag, for clock changes and short seasons
# Earlier origins that are forecast in one call, before other requests are served.
MAX_AT_ONCE, VALUES_AT_ONCE = 16, 8_000
UNADJUSTED = "intervals: not yet corrected by the latest observations"


class Numbers(NamedTuple):
    """What a model forecasts from one origin."""

    y_hat: Float32[np.ndarray, "K N"]
    quantiles: Float32[np.ndarray, "Q K N"]
    y_relative: Float32[np.ndarray, "K N"] | None  # None: the model has no such output


@dataclass(frozen=True, eq=False)
class OriginView:
    """The data that the forecast from one origin may see."""

    model: ServedModel
    snapshot: Snapshot
    origin: int  # step of the snapshot
    panel: Panel  # the part that is seen, with the locations that are forecast
    step: int  # the origin in that part
    columns: list[int]  # of those locations in the snapshot


class SnapshotPredictor:
    """Forecasts from snapshots, with separate online quantiles for every thread.

    So a thread that hangs and is replaced cannot change those of its successor.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def predict(self, model: ServedModel, snapshot: Snapshot, origin: int) -> Forecast | None:
        """Return the forecast from an origin; a history with too many gaps is a DataError.

        None: call again. The earlier origins, whose outcomes adjust the quantiles, are forecast in
        several calls, so that other requests are served in between.
        """
        view = view_origin(model, snapshot, origin)
        weather, degraded = choose_weather(view.panel, view.step, model.horizon)
        numbers = self._numbers(view, weather)
        if numbers is None:
            return None
        totals = find_totals(view)
        past = None
        if totals is not None and model.quantile_levels:
            past = self._online(view, weather).past_totals(snapshot, origin)
            if past is None:
                return None
        forecast = _with_doubts(view, _to_forecast(view, numbers, degraded))
        return _add_totals(view, forecast, totals, past)

    def predict_past(self, model: ServedModel, snapshot: Snapshot, origin: int) -> Forecast | None:
        """Return the forecast from a past origin, without covariates observed since."""
        view = view_origin(model, snapshot, origin)
        names = view.panel.covariates.names or view.panel.local_covariates.names
        numbers = self._numbers(view, "persist" if names else "observed")
        return None if numbers is None else _to_forecast(view, numbers)

    def predict_provisional(self, model: ServedModel, snapshot: Snapshot, origin: int) -> Forecast:
        """Return the forecast at once, with the quantiles calibrated in training."""
        view = view_origin(model, snapshot, origin)
        weather, degraded = choose_weather(view.panel, view.step, model.horizon)
        numbers = _static_numbers(view, weather)
        forecast = _to_forecast(view, numbers, degraded, UNADJUSTED)
        forecast = _add_totals(view, _with_doubts(view, forecast), find_totals(view))
        return replace(forecast, provisional=True)

    def _numbers(self, view: OriginView, weather: Weather) -> Numbers | None:
        if not view.model.quantile_levels:
            return _static_numbers(view, weather)
        return self._online(view, weather).predict(view.snapshot, view.origin)

    def _online(self, view: OriginView, weather: Weather) -> "OnlinePredictor":
        """Return this thread's predictor of the view's model."""
        predictors: OrderedDict[tuple[str, Weather, tuple[str, ...]], OnlinePredictor]
        predictors = self._local.__dict__.setdefault("predictors", OrderedDict())
        key = view.model.digest, weather, view.panel.locations.ids
        if key not in predictors:
            predictors[key] = OnlinePredictor(view, weather)
        predictors.move_to_end(key)
        while len(predictors) > KEPT_INTERVALS:
            predictors.popitem(last=False)
        return predictors[key]


class OnlinePredictor:
    """The forecasts of one model and some locations with online quantiles, for one thread."""

    def __init__(self, view: OriginView, weather: Weather) -> None:
        snapshot = view.snapshot
        self._model, self._weather = view.model, weather
        self._ids = view.panel.locations.ids
        self._last = snapshot  # of the last call
        predictor, _ = self._look(snapshot, [0])
        first_step = step_number(snapshot.base)
        self._online = OnlineCalibration(predictor.calibration, first_step)
        self._order = location_order(predictor.panel.locations.ids, view.panel)
        self._past: dict[int, np.ndarray] = {}  # forecasts of earlier days by step: Float32[K N]

    def predict(self, snapshot: Snapshot, origin: int) -> Numbers | None:
        """Return the numbers by the panel's locations; None: call again.

        They equal the estimator's results for the snapshot's whole panel.
        """
        self._forget_changed(snapshot)
        online = self._online
        unobserved = online.unobserved(origin)
        if unobserved:
            predictor, steps = self._look(snapshot, unobserved)
            online.observe(unobserved, predictor.outcomes(steps), predictor.counts(steps))
        missing = online.unforecast(origin)
        batch = missing[: self._at_once]
        if batch:
            predictor, steps = self._look(snapshot, batch)
            online.add(batch, predictor.base(steps))
            online.follow(origin)
        if len(missing) > len(batch):
            return None
        base = (self._base_of_new(snapshot, origin) or online.base(origin)).at(self._order)
        quantiles = online.calibration.correct(base, online.corrections(origin))
        return Numbers(base.forecast, quantiles, base.relative)

    def past_totals(self, snapshot: Snapshot, origin: int) -> PastTotals | None:
        """Return the forecasts of the days before an origin, by whose outcomes totals move.

        By the panel's locations, as the estimator finds them; None: call again.
        """
        clock, horizon = snapshot.base.clock, self._model.horizon
        steps = [s for s in earlier_origins(origin, horizon, clock).tolist() if s >= 0]
        missing = [step for step in steps if step not in self._past]
        batch = missing[: self._at_once]
        if batch:
            predictor, in_panel = self._look(snapshot, batch)
            forecasts = forecast_days(predictor, in_panel, horizon)
            self._past |= dict(zip(batch, forecasts, strict=True))
        if len(missing) > len(batch):
            return None
        self._past = {step: self._past[step] for step in steps}
        predictor, in_panel = self._look(snapshot, [*steps, origin])
        shape = len(steps), horizon, len(predictor.panel.locations)
        past = np.array([*self._past.values()], dtype=np.float32).reshape(shape)
        compared = add_outcomes(predictor, in_panel[:-1], int(in_panel[-1]), past)
        return compared.locations(self._order)

    @property
    def _at_once(self) -> int:
        """How many origins are forecast in one call."""
        return max(min(MAX_AT_ONCE, VALUES_AT_ONCE // len(self._order)), 1)

    def _base_of_new(self, snapshot: Snapshot, origin: int) -> Base | None:
        """Return the forecast of an origin on its own if it has new locations, else None.

        The values up to it may tell who their neighbours are; earlier origins must not see them.
        """
        if self._model.ids.issuperset(self._ids):
            return None
        predictor, steps = self._look(snapshot, [origin], by_values=True)
        return predictor.base(steps).row(0)

    def _forget_changed(self, snapshot: Snapshot) -> None:
        """Drop forecasts from changed data; an earlier snapshot may follow a later one."""
        earlier, later = sorted((self._last, snapshot), key=lambda state: state.version)
        self._last = snapshot
        if earlier.version != later.version:
            first = later.first_changed_origin(earlier.version, self._model.horizon)
            self._online.forget_from(first)
            self._past = {step: past for step, past in self._past.items() if step < first}

    def _look(
        self, snapshot: Snapshot, steps: Sequence[int], *, by_values: bool = False
    ) -> tuple[Predictor, np.ndarray]:
        """Return a predictor on the data that some steps may see, and the steps in it.

        Args:
            snapshot: the data.
            steps: in order.
            by_values: whether all values up to the last step may tell neighbours.
        """
        panel, last = cut_panel(self._model, snapshot, steps[-1], steps[0])
        panel = with_absent_locations(self._model, panel.select(self._ids))
        end = last + 1 if by_values else 0
        predictor = self._model.estimator.predictor(panel, self._weather, end)
        return predictor, np.array(steps) - steps[-1] + last


def view_origin(model: ServedModel, snapshot: Snapshot, origin: int) -> OriginView:
    """Return the data that a forecast may see; a history with too many gaps is a DataError."""
    panel, step = cut_panel(model, snapshot, origin)
    columns = forecast_columns(model, snapshot, origin)
    panel = panel.select(tuple(panel.locations.ids[n] for n in columns))
    view = OriginView(model, snapshot, origin, panel, step, columns)
    if not model.estimator.masks_missing:
        for lags in {model.estimator.recipe.lags, model.estimator.lags}:  # mostly the same
            refuse_incomplete(view, lags)
    return view


def refuse_incomplete(view: OriginView, lags: LagConfig) -> None:
    """Refuse an origin if most locations have too many gaps; new and closed ones do not count.

    A forecast is made if half or more of the locations that have reported in the last two weeks
    are observed at the origin and nearly all of their history too, or if the whole is
    (`refuse_missing`). So neither silent locations nor those that return stop the others.
    """
    ids, is_reporting = view.snapshot.locations.ids, view.snapshot.is_reporting(view.origin)
    run, matched = view.model.estimator.adapt(with_absent_locations(view.model, view.panel))
    needed = set(open_ids(run, matched, view.step)) & view.model.ids
    counted = tuple(ids[n] for n in view.columns if is_reporting[n] and ids[n] in needed)
    panel = view.panel.select(counted) if counted else view.panel
    steps = history_steps(panel, lags, np.array([view.step]))[0]
    complete = np.isnan(panel.values[steps]).mean(axis=0) <= MAX_FILLED
    last_open = view.step - panel.clock.last_open(panel.times[[view.step]])[0]
    complete &= np.isfinite(panel.values[last_open])
    if 2 * complete.sum() < len(complete):
        refuse_missing(panel, lags, view.step)


def cut_panel(
    model: ServedModel, snapshot: Snapshot, origin: int, oldest: int | None = None
) -> tuple[Panel, int]:
    """Return the part of the data that a forecast may see, and the origin's step in it.

    Args:
        model: its lags determine the length of the history.
        snapshot: the data.
        origin: the last visible step.
        oldest: an earlier origin, whose forecast needs its history too.
    """
    clock, lags = snapshot.base.clock, model.estimator.recipe.lags
    day = 24 * 60 // min(clock.step_minutes, 24 * 60)
    needed = clock.needed_steps(lags, np.array([snapshot.time_of(origin)]))
    needed = max(needed, RUN_DAYS * day_steps(clock)) + lags.horizon + SPARE_DAYS * day
    needed += context(clock)  # values are judged by those before them
    first = max((origin if oldest is None else oldest) + 1 - needed, 0)
    panel = snapshot.panel(first, origin + 1, origin + 1 + lags.horizon)
    return see_as_run(model.estimator.run, panel), origin - first


def explain_location(
    model: ServedModel, snapshot: Snapshot, origin: int, location: str
) -> dict[str, Any]:
    """Return the explanation of a location's forecast as JSON content."""
    from forecaster.explain.explain import explain_forecast  # noqa: PLC0415 (takes seconds)

    if location not in model.ids:
        raise ConfigError(f"{location} is new: its forecasts are explained by a run that knows it")
    panel, step = cut_panel(model, snapshot, origin)
    run = model.estimator.run
    if run:
        ids = tuple(i for i in panel.locations.ids if i in model.ids)
        panel = match(run, with_absent_locations(model, panel.select(ids)))
        if choose_weather(panel, step, model.horizon)[0] == "persist":
            panel = _persist_covariates(panel, step, fill_of(run))
    content: dict[str, Any] = explain_forecast(
        model.estimator, panel, f"{panel.times[step]}+00:00", location
    ).to_dict()
    return content


def _static_numbers(view: OriginView, weather: Weather) -> Numbers:
    """Return the numbers with quantiles as calibrated in training."""
    panel = with_absent_locations(view.model, view.panel)
    predictor = view.model.estimator.predictor(panel, weather, view.step + 1)
    order, calibration = (
        location_order(predictor.panel.locations.ids, view.panel),
        predictor.calibration,
    )
    base = predictor.base(np.array([view.step])).at(order).row(0)
    quantiles = calibration.correct(base, calibration.corrections)
    return Numbers(base.forecast, quantiles, base.relative)


def _to_forecast(
    view: OriginView, numbers: Numbers, weather: str | None = None, intervals: str | None = None
) -> Forecast:
    """Return the forecast; covariates, intervals or missing values may degrade it."""
    model, snapshot, origin = view.model, view.snapshot, view.origin
    week_before = snapshot.week_before(np.array([origin]), model.horizon)[0]
    absent = describe_absent(model, snapshot)
    reasons = weather, absent, missing_at_origin(snapshot, origin, view.columns), intervals
    return Forecast(
        key=ForecastKey(model.digest, snapshot.version, origin),
        panel=_forecast_panel(view),
        origin=snapshot.time_of(origin),
        quantile_levels=model.quantile_levels,
        y_hat=numbers.y_hat,
        y_relative=numbers.y_relative,
        quantiles=numbers.quantiles,
        last=view.panel.values[view.step],
        usual=snapshot.values_at(week_before)[:, view.columns],
        degraded="; ".join(filter(None, reasons)) or None,
        fallback=model.fallback,
    )


def _with_doubts(view: OriginView, forecast: Forecast) -> Forecast:
    """Return the forecast with its doubtful locations; a feed outage concerns all of them."""
    estimator = view.model.estimator
    run, panel = estimator.adapt(with_absent_locations(view.model, view.panel))
    plausibility, lags = Plausibility.of(run), estimator.recipe.lags
    reasons = [
        dict.fromkeys(np.flatnonzero(is_new(run)).tolist(), NEW_LOCATION),
        {} if plausibility is None else describe_doubts(plausibility, panel, view.step),
        describe_history(panel, lags, view.step) if estimator.masks_missing else {},
    ]
    closed = describe_closed(run, panel, view.step, view.model.horizon)
    present = set(view.panel.locations.ids)
    closed = {n: text for n, text in closed.items() if panel.locations.ids[n] in present}
    row = panel.values[view.step]
    quiet = np.isnan(row) | (row == 0)
    many = quiet.sum() >= max(SILENT_LEAST, SILENT_SHARE * len(row))  # else there is no outage
    outage = describe_outage(panel, view.step, plausibility) if many else None
    doubts = {
        panel.locations.ids[n]: "; ".join(texts[n] for texts in reasons if n in texts)
        for n in set().union(*reasons).difference(closed)
    }
    doubts |= {panel.locations.ids[n]: text for n, text in closed.items()}
    unheard = describe_unheard_covariates(panel, view.step)
    ahead = panel.within_hours(view.step + 1, view.step + 1 + view.model.horizon)
    order = location_order(panel.locations.ids, view.panel)
    return replace(
        forecast,
        closed=None if ahead.all() else ~ahead[:, order],
        degraded="; ".join(filter(None, (outage, unheard, forecast.degraded))) or None,
        doubts=doubts,
    )


def find_totals(view: OriginView) -> TotalCalibration | None:
    """Return the calibration of totals over days; None: the horizon is shorter than a day."""
    minutes = view.model.horizon * view.panel.clock.step_minutes
    if minutes < DAY_MINUTES or view.model.horizon == 1:
        return None
    run, _ = view.model.estimator.adapt(with_absent_locations(view.model, view.panel))
    return view.model.totals(run, view.panel.locations.ids)


def _add_totals(
    view: OriginView,
    forecast: Forecast,
    totals: TotalCalibration | None,
    past: PastTotals | None = None,
) -> Forecast:
    """Return the forecast with its totals over days, corrected by the outcomes of earlier days."""
    if totals is None:
        return forecast
    ids = view.panel.locations.ids
    doubtful = np.array([identity in forecast.doubts for identity in ids], dtype=bool)
    numbers = forecast.y_hat, forecast.quantiles
    summed = totals.forecast(view.panel, view.step, *numbers, doubtful, past)
    return replace(forecast, totals=summed)


def _forecast_panel(view: OriginView) -> Panel:
    """Return a panel with the locations of a forecast; one that holds no history of its own."""
    base = view.snapshot.base
    if view.panel.locations.ids == base.locations.ids:
        return base
    origin = view.origin
    return view.snapshot.panel(origin, origin + 1, origin + 1).select(view.panel.locations.ids)


def missing_at_origin(snapshot: Snapshot, origin: int, columns: Sequence[int]) -> str | None:
    """Return a text with the number of locations without a final value at the origin.

    Args:
        snapshot: the data.
        origin: the step.
        columns: of the locations that are forecast.
    """
    row = snapshot.final_values(origin, origin + 1)[0, list(columns)]
    alive = snapshot.alive(origin, origin + 1)[0, list(columns)]
    missing = int((np.isnan(row) & alive).sum())
    if not missing:
        return None
    return f"data: {missing} of {int(alive.sum())} locations missing or not final at the origin"


def _persist_covariates(panel: Panel, origin: int, fill: Fill) -> Panel:
    """Return the panel with the covariates of an origin in all steps after it.

    Args:
        panel: the observed data.
        origin: the step.
        fill: replaces covariates that are missing there.
    """
    filled = fill_missing(panel, fill)
    shared, local = panel.covariates.values.copy(), panel.local_covariates.values.copy()
    shared[origin + 1 :] = filled.covariates.values[origin]
    local[:, origin + 1 :] = filled.local_covariates.values[:, [origin]]
    return panel.with_data(covariates=shared, local_covariates=local).without_vintages()
