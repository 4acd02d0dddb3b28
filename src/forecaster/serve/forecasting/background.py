"""Forecasts made without a request: from the newest origin, then from past ones."""

import asyncio
import logging
import time
from functools import partial

from forecaster.errors import DataError
from forecaster.evaluation.drift.scores import DaySums
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.drift import join_days, judge, score_part, validation_parts
from forecaster.serve.forecasting.engine import ACCURACY_HOURS, Engine
from forecaster.serve.forecasting.forecast import ForecastKey, ServedModel
from forecaster.serve.forecasting.ledger import score_days
from forecaster.serve.problems import Problem

FOLLOW_SECONDS = 0.5  # between two looks at which version is current
POLL_SECONDS = 0.2  # between two checks for the end of a step
QUIET_SECONDS = 2.0  # without a request before past origins are forecast
MAX_RETRY_SECONDS = 10.0  # longest pause between attempts after failures
log = logging.getLogger(__name__)


async def follow_versions(engine: Engine) -> None:
    """Serve the current version of a folder of versions, whenever it moves; until cancelled."""
    last: str | None = None  # the fault that was logged
    while engine.loader.versions is not None:
        try:
            await engine.loader.follow(engine.prepare)
            if engine.shadow is not None:
                await engine.shadow.follow()
            last = None
        except Exception as error:  # such as a folder that was moved away: the model goes on
            if str(error) != last:
                log.error("the current version cannot be read: %s", error)
            last = str(error)
        await asyncio.sleep(FOLLOW_SECONDS)


class BackgroundForecasts:
    """Forecasts whenever a step is over or late data arrives; else from past origins."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._done: ForecastKey | None = None  # the newest forecast that is made and kept
        self._pause_seconds = POLL_SECONDS
        self._scored: dict[str, tuple[int, int]] = {}  # newest origin, forecasts, by model
        self._references: dict[str, DaySums | None] = {}  # days of validation of the served model
        self._judged: tuple[str, int] | None = None  # model and newest origin

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            key = self._newest_key()
            try:
                await self._update(key)
                self._pause_seconds = POLL_SECONDS
            except Exception as error:
                if not isinstance(error, Problem):  # a Problem is logged where it is raised
                    self._engine.log_failure(key, "forecasting from past origins failed")
                self._pause_seconds = min(2 * self._pause_seconds, MAX_RETRY_SECONDS)
            await self._pause(key)

    def _newest_key(self) -> ForecastKey | None:
        """Return the key of the current forecast, if there can be one."""
        model, snapshot = self._engine.loader.model, self._engine.data.snapshot
        newest = self._engine.data.freshness(snapshot).newest
        if model is None or newest is None:
            return None
        return ForecastKey(model.digest, snapshot.version, newest)

    async def _update(self, key: ForecastKey | None) -> None:
        """Forecast from the newest origin or, if that is done, from past ones."""
        engine = self._engine
        if key is None:
            return
        if key == self._done:
            engine.failure = None  # of a run loaded meanwhile and replaced again
            for model in self._models():
                await self._fill_past(model, engine.data.snapshot, key.origin)
            await self._watch(key.origin)
            return
        try:
            forecast, _ = await engine.forecast()
        except Problem as problem:
            if problem.code != "busy":  # other requests are being processed: not a failure
                engine.failure = str(problem.detail)
            raise
        engine.failure = None
        if not forecast.provisional:  # else try again
            engine.past_forecasts.add(forecast)
            await self._forecast_in_shadow(forecast.key.origin)
            self._done = forecast.key

    def _models(self) -> list[ServedModel]:
        """Return the served model, and the challenger in the shadow."""
        shadow = self._engine.shadow
        challenger = None if shadow is None else shadow.model
        return [self._engine.model, *([] if challenger is None else [challenger])]

    async def _forecast_in_shadow(self, origin: int) -> None:
        """Forecast with the challenger too, at whatever load; its faults concern nobody else."""
        engine = self._engine
        for model in self._models()[1:]:
            job = partial(engine.predictor.predict, model, engine.data.snapshot, origin)
            try:
                while (forecast := await engine.worker.run(job)) is None:
                    await asyncio.sleep(0)  # requests come between
                engine.past_forecasts.add(forecast)
            except Exception as error:
                log.warning("no forecast in the shadow by %s: %s", model.version, error)

    async def _watch(self, newest: int) -> None:
        """Keep the ledger of the days that are over, and judge drift by it."""
        engine, closed = self._engine, self._engine.data.closed_steps()
        steps = engine.data.count_steps(ACCURACY_HOURS)
        for model in self._models():
            past = engine.past_forecasts.recent(model, newest, steps)
            if self._scored.get(model.digest) != (newest, len(past)):
                job = partial(score_days, model, engine.data.snapshot, past, closed)
                await engine.data.record(await engine.worker.run(job))
                self._scored[model.digest] = newest, len(past)
        await self._judge(engine.model, newest, closed)

    async def _judge(self, model: ServedModel, newest: int, closed: int) -> None:
        """Judge drift once per origin; first score the days of validation, in quiet times."""
        engine, digest = self._engine, model.digest
        if digest not in self._references:
            parts = []
            for steps in validation_parts(model, engine.data.snapshot):
                if not self._is_quiet():
                    return
                parts.append(
                    await engine.worker.run(
                        partial(score_part, model, engine.data.snapshot, steps)
                    )
                )
            scored = [part for part in parts if part is not None]
            self._references = {digest: join_days(scored) if scored else None}
        if self._judged != (digest, newest):
            scores = [score for score in engine.data.scores.values() if score.model == digest]
            reference = self._references[digest]
            job = partial(judge, reference, scores, engine.data.snapshot, closed)
            engine.drift = await engine.worker.run(job)
            self._judged = digest, newest

    async def _fill_past(self, model: ServedModel, snapshot: Snapshot, newest: int) -> None:
        """Forecast from past origins for as long as there are no requests."""
        engine = self._engine
        steps = engine.data.count_steps(ACCURACY_HOURS)
        for origin in engine.past_forecasts.missing_origins(model, newest, steps):
            if not await self._forecast_past(model, snapshot, origin):
                return

    async def _forecast_past(self, model: ServedModel, snapshot: Snapshot, origin: int) -> bool:
        """Forecast from a past origin; False where a request or new data came first."""
        engine = self._engine
        job = partial(engine.predictor.predict_past, model, snapshot, origin)
        while self._is_quiet() and snapshot is engine.data.snapshot:
            try:
                if forecast := await engine.worker.run(job):
                    engine.past_forecasts.add(forecast)
                    return True
            except DataError:
                engine.past_forecasts.skip(model, origin)
                return True
        return False

    def _is_quiet(self) -> bool:
        """Whether no request has been made for a while, and none is waiting."""
        since = time.monotonic() - self._engine.last_request
        return since >= QUIET_SECONDS and not self._engine.worker.pending

    async def _pause(self, key: ForecastKey | None) -> None:
        """Wait, at most until another forecast is due."""
        deadline = time.monotonic() + self._pause_seconds
        await asyncio.sleep(POLL_SECONDS)
        while time.monotonic() < deadline and self._newest_key() == key:
            await asyncio.sleep(POLL_SECONDS)
