"""The forecasts that are served: the model and the data of the moment, computed once each."""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from forecaster.errors import DataError
from forecaster.estimators.asking import fill_of
from forecaster.estimators.match import match
from forecaster.serve.accuracy import Ledger, assess
from forecaster.serve.answer import Answer, Key, Model, choose_weather, cut, persist
from forecaster.serve.forecasts import Forecasts
from forecaster.serve.live import Live
from forecaster.serve.moment import Now
from forecaster.serve.overlay import Overlay
from forecaster.serve.problems import Problem
from forecaster.serve.render import to_json
from forecaster.serve.worker import CLOSE_SECONDS, Worker

STALE_STEPS = 2  # without data: forecasts are marked
DEAD_STEPS = 24  # without data: nothing is forecast any more
QUEUE = 32  # forecasts that may wait
DEADLINE_SECONDS = 10.0  # for a forecast, waiting included
PREPARE_SECONDS = 1.0  # for what intervals rest on; else they are as they were calibrated
EXPLANATIONS = 4  # that may wait; each takes seconds
EXPLAIN_SECONDS = 25.0
KEPT_ANSWERS = 64
WATCH_SECONDS = 0.2  # how often the end of a step is looked for
MAX_RETRY_SECONDS = 10.0  # after which what failed is tried again; at first much sooner
ACCURACY_HOURS = 168
Figures = dict[str, Any]  # JSON
Ask = Callable[[Model, Overlay, int], Answer | None]
Feeder = Callable[[Live], Coroutine[Any, Any, None]]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Feed:
    """How the data gets on."""

    newest: int | None  # the last step from which a forecast may begin
    age_seconds: int | None  # since that step was over
    stale: bool
    dead: bool


class Engine:
    """Answers with the forecasts of one model on the data of the moment."""

    def __init__(
        self, load: Callable[[], Model], live: Live, now: Now, feeder: Feeder | None = None
    ) -> None:
        """Load the model.

        Args:
            load: returns it; called again whenever it has to be loaded anew.
            live: the data.
            now: what time it is.
            feeder: brings observations for as long as the service runs, beside those sent.
        """
        self.live, self.now, self.feeder = live, now, feeder
        self.worker = Worker(QUEUE, DEADLINE_SECONDS)
        self.explainer = Worker(EXPLANATIONS, EXPLAIN_SECONDS)  # so that forecasts need not wait
        self.ledger = Ledger(self._count_steps(ACCURACY_HOURS + 24))
        self._forecasts = Forecasts()
        self.reloads = {"done": 0, "failed": 0}
        self.computed = self.reused = 0
        self.draining = False
        self.replay_step_seconds: float | None = None  # of a step; None: no replay
        self._load = load
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._pending: dict[Key, asyncio.Task[Answer]] = {}
        self._failed: str | None = None  # why there is no forecast of the moment
        self._logged: Key | None = None  # what failed last
        self._newest: tuple[tuple[Overlay, int], int | None] = ((self.overlay, -1), None)
        self._reloading = asyncio.Lock()
        self.model = self._loaded(None)

    # ------------------------------------------------------------------------ state

    @property
    def overlay(self) -> Overlay:
        """The data of this moment."""
        return self.live.overlay

    def closed(self) -> int:
        """Return how many steps are over."""
        return math.floor((self.now() - self.overlay.start_seconds) / self.overlay.step_seconds)

    def feed(self, overlay: Overlay | None = None) -> Feed:
        """Return how old the data is, that of the moment if no other is given."""
        overlay, end = overlay or self.overlay, self.closed()
        known, newest = self._newest
        if known != (overlay, end):
            newest = overlay.newest(end)
            self._newest = (overlay, end), newest
        if newest is None:
            return Feed(None, None, True, True)
        over = overlay.start_seconds + (newest + 1) * overlay.step_seconds
        age = max(int(self.now() - over), 0)
        steps = age / overlay.step_seconds
        return Feed(newest, age, steps >= STALE_STEPS, steps >= DEAD_STEPS)

    def why_not_ready(self) -> str | None:
        """Return why no forecast of the moment can be had, if so."""
        if self.draining:
            return "stopping: no more requests, please"
        if self.live.broken is not None:
            return self.live.broken
        feed = self.feed()
        if feed.newest is None or feed.dead:
            return self._no_data(feed)
        return self._failed

    # --------------------------------------------------------------------- forecasts

    def find_origin(self, seconds: int) -> int:
        """Return the step that begins at an instant, if it is over."""
        overlay = self.overlay
        step = overlay.step_at(seconds)
        if step is None:
            minutes = overlay.base.clock.step_minutes
            raise Problem(422, "off_step", f"at lies between two steps of {minutes} min")
        if step < 0:
            raise Problem(422, "too_old", f"the data begins at {overlay.time_of(0)}Z")
        if step >= self.closed():
            raise Problem(422, "in_future", "that step is not over yet")
        return step

    async def forecast(self, origin: int | None = None) -> tuple[Answer, Feed]:
        """Return the forecast from a step, or from the newest, and how old the data is."""
        return await self._forecast(self.model, self.overlay, origin)  # these, to the end

    async def _forecast(
        self, model: Model, overlay: Overlay, origin: int | None
    ) -> tuple[Answer, Feed]:
        feed = self.feed(overlay)
        asked = feed.newest if origin is None else origin
        if asked is None or (origin is None and feed.dead):
            raise Problem(503, "no_data", self._no_data(feed))
        try:
            return await self._answer(model, overlay, asked), feed
        except DataError as error:
            status = 503 if origin is None else 422
            raise Problem(status, "history_incomplete", str(error)) from error
        except Problem:
            raise
        except Exception as error:
            key = Key(model.digest, overlay.version, asked)
            self._complain(key, f"no forecast from {overlay.time_of(asked)}Z")
            raise Problem(503, "model_failed", "the model failed; the log says why") from error

    def _complain(self, key: Key, what: str) -> None:
        """Log the error at hand, once for as long as the same fails."""
        if key != self._logged:
            log.exception(what)
            self._logged = key

    async def _answer(self, model: Model, overlay: Overlay, origin: int) -> Answer:
        key = Key(model.digest, overlay.version, origin)
        if key in self._answers:
            self._answers.move_to_end(key)
            self.reused += 1
            return self._answers[key]
        task = self._pending.get(key)
        if task is None:  # whoever asks for the same meanwhile waits for this one
            task = asyncio.create_task(self._compute(key, model, overlay))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._settle(key, done))
        return await asyncio.shield(task)

    def _settle(self, key: Key, done: asyncio.Task[Answer]) -> None:
        del self._pending[key]
        if not done.cancelled():
            done.exception()  # whoever waits is told; where nobody does, it is no complaint

    async def _compute(self, key: Key, model: Model, overlay: Overlay) -> Answer:
        ends = time.monotonic() + PREPARE_SECONDS
        final, provisional = (
            partial(self._attempt, how, model, overlay, key.origin)
            for how in (self._forecasts.answer, self._forecasts.provisional)
        )
        while (answer := await self.worker.run(final)) is None:
            if time.monotonic() > ends and (answer := await self.worker.run(provisional)):
                return answer  # and forget it: the next to ask may get the final one
        self.computed += 1
        self._answers[key] = answer
        while len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        return answer

    @staticmethod
    def _attempt(how: Ask, model: Model, overlay: Overlay, origin: int) -> Answer | None:
        """Return a forecast with its JSON made, so that the loop need not."""
        answer = how(model, overlay, origin)
        return None if answer is None else replace(answer, json=to_json(answer))

    async def explain(self, location: str, origin: int | None) -> tuple[Answer, Feed, Figures]:
        """Return a forecast, and why it is what it is at a location."""
        model, overlay = self.model, self.overlay
        answer, feed = await self._forecast(model, overlay, origin)
        job = partial(_explain, model, overlay, answer.key.origin, location)
        return answer, feed, await self.explainer.run(job)

    async def accuracy(self, hours: int) -> tuple[Answer, Feed, Figures]:
        """Return the forecast of the moment, and how good those of the last hours were."""
        model, overlay = self.model, self.overlay
        answer, feed = await self._forecast(model, overlay, None)
        records = self.ledger.find(model, answer.key.origin, self._count_steps(hours))
        job = partial(assess, model, overlay, records, self.closed())
        return answer, feed, await self.worker.run(job)

    def _count_steps(self, hours: int) -> int:
        return max(hours * 60 // self.overlay.base.clock.step_minutes, 1)

    # ------------------------------------------------------------------- in the background

    async def watch(self) -> None:
        """Forecast whenever a step is over or data came late; make up for earlier origins."""
        seen: Key | None = None
        wait = WATCH_SECONDS
        while True:
            model, overlay, key = self._moment()
            try:
                if key.origin >= 0 and key != seen:
                    answer, _ = await self._forecast(model, overlay, None)
                    self._failed = None
                    if answer.key in self._answers:  # else it is provisional, and asked again
                        self.ledger.note(answer)
                        seen = key
                elif key.origin >= 0 and not self.worker.pending:
                    await self._make_up(model, overlay, key.origin)
                wait = WATCH_SECONDS
            except Problem as problem:
                self._failed = problem.detail if key != seen else self._failed
                wait = min(2 * wait, MAX_RETRY_SECONDS)
            except Exception:
                self._complain(key, "making up for earlier forecasts")
                wait = min(2 * wait, MAX_RETRY_SECONDS)
            await self._rest(key, wait)

    def _moment(self) -> tuple[Model, Overlay, Key]:
        """Return model and data, and what a forecast of the moment belongs to; −1: no origin."""
        model, overlay = self.model, self.overlay
        newest = self.feed(overlay).newest
        return model, overlay, Key(model.digest, overlay.version, -1 if newest is None else newest)

    async def _rest(self, key: Key, seconds: float) -> None:
        """Wait, at most until there is something else to forecast."""
        ends = time.monotonic() + seconds
        await asyncio.sleep(WATCH_SECONDS)
        while time.monotonic() < ends and self._moment()[2] == key:
            await asyncio.sleep(WATCH_SECONDS)

    async def reload(self) -> None:
        """Load the model anew; the old one stays where the new one cannot be used."""
        async with self._reloading:
            try:
                self.model = await asyncio.to_thread(self._loaded, self.model)
                self.reloads["done"] += 1
                log.warning("reloaded: run %s", self.model.digest)
            except Exception as error:  # whatever is wrong with a run, the old one goes on
                self.reloads["failed"] += 1
                log.error("not reloaded, run %s stays: %s", self.model.digest, error)

    async def _make_up(self, model: Model, overlay: Overlay, newest: int) -> None:
        """Forecast from earlier origins, for as long as nobody else wants something."""
        for origin in self.ledger.lacking(model, newest, self._count_steps(ACCURACY_HOURS)):
            attempt = partial(self._forecasts.in_hindsight, model, overlay, origin)
            try:
                while (answer := await self.worker.run(attempt)) is None:
                    if self.worker.pending or overlay is not self.overlay:
                        return
                self.ledger.note(answer)
            except DataError:
                self.ledger.skip(model, origin)
            if self.worker.pending or overlay is not self.overlay:
                return

    def _loaded(self, present: Model | None) -> Model:
        """Return the model, if it can forecast from the data of the moment where one could."""
        model, overlay = self._load(), self.overlay
        newest = overlay.newest(self.closed())
        if newest is not None:
            fault = _find_fault(model, overlay, newest)
            if fault and present and not _find_fault(present, overlay, newest):
                raise fault
        return model

    def _no_data(self, feed: Feed) -> str:
        if feed.newest is None:
            return "no step has been observed at enough locations yet"
        last = f"{self.overlay.time_of(feed.newest)}Z"
        return f"no data since {last}; a forecast from so long ago would be none of now"

    def close(self) -> None:
        """End what runs in the background, within seconds."""
        ends = time.monotonic() + CLOSE_SECONDS
        for worker in (self.worker, self.explainer):
            worker.close(max(ends - time.monotonic(), 0.0))
        self.live.close()


def _find_fault(model: Model, overlay: Overlay, origin: int) -> DataError | None:
    """Return why the data does not allow a forecast: a short history, which passes."""
    try:
        Forecasts().provisional(model, overlay, origin)
    except DataError as error:
        return error
    return None


def _explain(model: Model, overlay: Overlay, origin: int, location: str) -> dict[str, Any]:
    """Return why the forecast of a location is what it is."""
    from forecaster.evaluation.explain import explain  # noqa: PLC0415 (costs seconds)

    part, own = cut(model, overlay, origin)
    run = model.estimator.run
    if run and choose_weather(part, np.array([own]), model.horizon)[0] == "persist":
        part = persist(match(run, part), own, fill_of(run))
    at = f"{part.times[own]}+00:00"
    found: dict[str, Any] = explain(model.estimator, part, at, location).to_dict()
    return found
