"""The forecasts that are served: computed once per model, data version and origin."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from forecaster.errors import DataError, printable
from forecaster.serve.data.live import Freshness, LiveData
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.accuracy import PastForecast, PastForecasts, measure_accuracy
from forecaster.serve.forecasting.encode import to_batch, to_rows, utc_text, without_schema
from forecaster.serve.forecasting.forecast import Forecast, ForecastKey, ServedModel
from forecaster.serve.forecasting.ledger import compare, rows
from forecaster.serve.forecasting.loader import FollowedVersions, LoadModel, ModelLoader
from forecaster.serve.forecasting.predictor import SnapshotPredictor, explain_location
from forecaster.serve.forecasting.quality import HOURS, Period, Quality, measure_quality
from forecaster.serve.forecasting.shadow import Shadow
from forecaster.serve.forecasting.worker import CLOSE_SECONDS, Worker
from forecaster.serve.problems import Problem
from forecaster.serve.tracing import span

MAX_JOBS = 32  # that run or wait: forecasts, histories, tables
DEADLINE_SECONDS = 10.0  # of a forecast, waiting included
PREPARE_SECONDS = 1.0  # for online quantiles; after that the forecast is provisional
MAX_EXPLANATIONS = 4  # that may wait; each takes seconds
EXPLAIN_SECONDS = 25.0
CACHED_FORECASTS = 64
CACHED_ROWS = 1_000_000  # locations of all of them together
FEWEST_CACHED = 2  # forecasts, however many locations these have
ACCURACY_HOURS = 168
QUALITY_SECONDS = 60.0  # between two measurements
NO_MODEL = "no run is loaded; see the service's log"
JsonObject = dict[str, Any]
Feed = Callable[[LiveData], Coroutine[Any, Any, None]]
log = logging.getLogger(__name__)


class Engine:
    """Forecasts of one model on the current data."""

    def __init__(
        self,
        load: LoadModel,
        data: LiveData,
        feed: Feed | None = None,
        versions: FollowedVersions | None = None,
    ) -> None:
        """Load the model.

        Args:
            load: returns the model; called again at every reload.
            data: the live data.
            feed: writes observations while the service runs, in addition to those of clients.
            versions: the folder of versions whose current one is followed.
        """
        self.data, self.feed = data, feed
        self.loader = ModelLoader(load, data, versions)
        self.shadow: Shadow | None = None  # a challenger that forecasts and does not answer
        self.drift: JsonObject | None = None  # its last state; None: not known yet
        self.predictor = SnapshotPredictor()
        self.worker = Worker(MAX_JOBS, DEADLINE_SECONDS)
        self.explainer = Worker(MAX_EXPLANATIONS, EXPLAIN_SECONDS)  # forecasts need not wait
        self.past_forecasts = PastForecasts(data.count_steps(ACCURACY_HOURS + 24))
        self.computed = self.reused = 0
        self.last_request = time.monotonic()  # for a forecast that had to be computed
        self.draining = False
        self.failure: str | None = None  # reason why there is no current forecast
        self.replay_step_seconds: float | None = None  # None: no replay
        self._cache: OrderedDict[ForecastKey, Forecast] = OrderedDict()
        self._pending: dict[ForecastKey, asyncio.Task[Forecast]] = {}
        self._quality: _MeasuredQuality | None = None
        self._logged: ForecastKey | None = None  # the last failure that was logged

    @property
    def model(self) -> ServedModel:
        """The served model; a Problem if none is loaded."""
        if self.loader.model is None:
            raise Problem(503, "no_model", NO_MODEL)
        return self.loader.model

    def why_not_ready(self) -> str | None:
        """Return the reason why there is no current forecast, or None."""
        if self.draining:
            return "the service is stopping"
        if self.loader.model is None:
            return NO_MODEL
        return self.data.broken or self.data.freshness().fault or self.failure

    async def forecast(self, origin: int | None = None) -> tuple[Forecast, Freshness]:
        """Return the forecast from an origin, by default the newest, and the data's age."""
        return await self._forecast(self.model, self.data.snapshot, origin)

    def kept_forecast(self, origin: int, version: int) -> tuple[Forecast, Freshness]:
        """Return a forecast of some version of the data that was answered not long ago."""
        forecast = self._cache.get(ForecastKey(self.model.digest, version, origin))
        if forecast is None:
            detail = "the data or the run has changed since the first page; begin without after"
            raise Problem(409, "data_changed", detail)
        return forecast, self.data.freshness()

    async def explain(
        self, location: str, origin: int | None
    ) -> tuple[Forecast, Freshness, JsonObject]:
        """Return a forecast, and its explanation at a location."""
        deadline = time.monotonic() + self.explainer.seconds
        model, snapshot = self.model, self.data.snapshot  # the same for both
        forecast, freshness = await self._forecast(model, snapshot, origin)
        job = partial(explain_location, model, snapshot, forecast.key.origin, location)
        with span("explain", location=printable(location)):
            return forecast, freshness, await self.explainer.run(job, deadline)

    async def accuracy(self, hours: int) -> tuple[Forecast, Freshness, JsonObject]:
        """Return the newest forecast, and the accuracy of those of the last hours."""
        deadline = time.monotonic() + self.worker.seconds
        model, snapshot = self.model, self.data.snapshot
        forecast, freshness = await self._forecast(model, snapshot, None)
        steps = self.data.count_steps(hours)
        past = self.past_forecasts.recent(model, forecast.key.origin, steps)
        job = partial(measure_accuracy, model, snapshot, past, self.data.closed_steps())
        figures = await self.worker.run(job, deadline)
        return forecast, freshness, {**figures, **self._ledger(model)}

    def compare_challenger(self, model: ServedModel) -> JsonObject | None:
        """Return a model and the challenger on their common days; None: there are none yet."""
        challenger = None if self.shadow is None else self.shadow.model
        if challenger is None:
            return None
        return compare(model.digest, challenger.digest, list(self.data.scores.values()))

    def _ledger(self, model: ServedModel) -> JsonObject:
        """Return the ledger of the served run and the challenger, and how these compare."""
        scores = list(self.data.scores.values())
        challenger = None if self.shadow is None else self.shadow.model
        if challenger is None:
            return {"shadow": None, "ledger": rows(scores, (model.digest,))}
        compared = self.compare_challenger(model)
        shadow = {
            "model": challenger.digest, "version": challenger.version, "compared": compared,
        }  # fmt: skip
        return {"shadow": shadow, "ledger": rows(scores, (model.digest, challenger.digest))}

    async def quality(self) -> Quality | None:
        """Return the quality of the last forecasts, measured at most once a minute.

        None: it is not known. While forecasts are requested faster than they can be made, it is
        that of the last time.
        """
        model, snapshot = self.loader.model, self.data.snapshot
        origin = self.data.freshness(snapshot).newest
        if model is None or origin is None:
            return None
        known = self._quality
        if known is not None and known.model != model.digest:
            known = None
        if known is None or time.monotonic() >= known.time + QUALITY_SECONDS:
            past, closed = self._past(model, origin), self.data.closed_steps()
            job = partial(measure_quality, model, snapshot, past, origin, closed)
            try:
                known = _MeasuredQuality(model.digest, await self.worker.run(job))
            except DataError:  # the history is incomplete
                known = None
            except Problem as problem:
                log.warning("the quality of forecasts was not measured: %s", problem)
            self._quality = known
        return None if known is None else known.quality

    def _past(self, model: ServedModel, origin: int) -> dict[Period, dict[int, PastForecast]]:
        """Return the past forecasts of each period."""
        steps = {period: self.data.count_steps(hours) for period, hours in HOURS.items()}
        recent = self.past_forecasts.recent
        return {period: recent(model, origin, count) for period, count in steps.items()}

    async def prepare(self, model: ServedModel) -> None:
        """Compute the current forecast of a model that is about to answer."""
        snapshot = self.data.snapshot
        newest = self.data.freshness(snapshot).newest
        if newest is not None:
            with suppress(DataError, Problem):  # as with the old model: requests are told why
                await self._cached(model, snapshot, newest)

    def log_failure(self, key: ForecastKey | None, message: str) -> None:
        """Log the current exception, once for as long as the same forecast fails."""
        if key != self._logged:
            log.exception(message)
            self._logged = key

    def close(self) -> None:
        """Stop the workers within seconds, and close the store."""
        deadline = time.monotonic() + CLOSE_SECONDS
        for worker in (self.worker, self.explainer):
            worker.close(max(deadline - time.monotonic(), 0.0))
        self.data.close()

    async def _forecast(
        self, model: ServedModel, snapshot: Snapshot, origin: int | None
    ) -> tuple[Forecast, Freshness]:
        freshness = self.data.freshness(snapshot)
        step = freshness.newest if origin is None else origin
        if step is None:
            raise Problem(503, "no_data", str(freshness.fault))
        if origin is None and freshness.fault is not None:
            last = utc_text(snapshot.time_of(step))  # whoever asks with `at` gets a forecast
            raise Problem(503, "no_data", freshness.fault, X_Forecast_origin=last)
        try:
            return await self._cached(model, snapshot, step), freshness
        except DataError as error:
            status = 503 if origin is None else 422
            raise Problem(status, "history_incomplete", str(error)) from error
        except Problem:
            raise
        except Exception as error:
            key = ForecastKey(model.digest, snapshot.version, step)
            self.log_failure(key, f"no forecast from {snapshot.time_of(step)}Z")
            detail = "the model failed; see the service's log"
            raise Problem(503, "model_failed", detail) from error

    async def _cached(self, model: ServedModel, snapshot: Snapshot, origin: int) -> Forecast:
        """Return a forecast from the cache, or compute it; equal requests share one job."""
        key = ForecastKey(model.digest, snapshot.version, origin)
        if key in self._cache:
            self._cache.move_to_end(key)
            self.reused += 1
            return self._cache[key]
        self.last_request = time.monotonic()
        task = self._pending.get(key)
        if task is None:
            task = asyncio.create_task(self._compute_traced(model, snapshot, origin))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._store(key, done))
        return await asyncio.shield(task)

    def _store(self, key: ForecastKey, task: asyncio.Task[Forecast]) -> None:
        """Move a finished forecast into the cache."""
        del self._pending[key]
        if task.cancelled() or task.exception() is not None:
            return  # reading the exception marks it as retrieved, also without a waiting request
        forecast = task.result()
        if not forecast.provisional:  # else the next request may get the final one
            self.computed += 1
            self._cache[key] = forecast
        while len(self._cache) > max(min(CACHED_FORECASTS, self._room()), FEWEST_CACHED):
            self._cache.popitem(last=False)

    def _room(self) -> int:
        """Return the number of forecasts that are kept: fewer of many locations."""
        return CACHED_ROWS // max(len(self.data.snapshot.locations), 1)

    async def _compute_traced(
        self, model: ServedModel, snapshot: Snapshot, origin: int
    ) -> Forecast:
        """Return a new forecast, in a span that begins with the first request of it."""
        about = {"model": model.digest, "data_version": snapshot.version}
        with span("forecast", origin=utc_text(snapshot.time_of(origin)), **about):
            return await self._compute(model, snapshot, origin)

    async def _compute(self, model: ServedModel, snapshot: Snapshot, origin: int) -> Forecast:
        """Return the final forecast, or a provisional one if that takes too long."""
        began = time.monotonic()
        deadline = began + self.worker.seconds  # of both together
        final = partial(_final, self.predictor, model, snapshot, origin)
        provisional = partial(_provisional, self.predictor, model, snapshot, origin)
        while (forecast := await self.worker.run(final, deadline)) is None:
            # Alternating snapshots would discard each other's online quantiles.
            outdated = snapshot is not self.data.snapshot
            if outdated or time.monotonic() > began + PREPARE_SECONDS:
                return await self.worker.run(provisional, deadline)
        return forecast


@dataclass(frozen=True)
class _MeasuredQuality:
    """The quality of a model's last forecasts, and when it was measured."""

    model: str
    quality: Quality
    time: float = field(default_factory=time.monotonic)


def _final(
    predictor: SnapshotPredictor, model: ServedModel, snapshot: Snapshot, origin: int
) -> Forecast | None:
    """Return the forecast, encoded here to relieve the event loop."""
    with span("predict", provisional=False):
        forecast = predictor.predict(model, snapshot, origin)
    return None if forecast is None else _encode(forecast)


def _provisional(
    predictor: SnapshotPredictor, model: ServedModel, snapshot: Snapshot, origin: int
) -> Forecast:
    with span("predict", provisional=True):
        forecast = predictor.predict_provisional(model, snapshot, origin)
    return _encode(forecast)


def _encode(forecast: Forecast) -> Forecast:
    batch = to_batch(forecast)
    return replace(forecast, json=to_rows(forecast), batch=batch, arrow=without_schema(batch))
