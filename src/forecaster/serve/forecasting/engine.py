"""The forecasts that are served: the model and the data of the moment, computed once each."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from forecaster.errors import DataError
from forecaster.serve.data.live import Live
from forecaster.serve.data.present import Feed, Present
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.accuracy import Ledger, assess
from forecaster.serve.forecasting.encode import to_json
from forecaster.serve.forecasting.explanation import tell_why
from forecaster.serve.forecasting.forecast import Answer, Key, Model
from forecaster.serve.forecasting.loader import Load, Loader
from forecaster.serve.forecasting.predictor import Forecasts
from forecaster.serve.forecasting.worker import CLOSE_SECONDS, Worker
from forecaster.serve.problems import Problem

QUEUE = 32  # jobs that are done or wait: forecasts, histories, tables
DEADLINE_SECONDS = 10.0  # for a forecast, waiting included
PREPARE_SECONDS = 1.0  # for what intervals rest on; else they are as they were calibrated
EXPLANATIONS = 4  # that may wait; each takes seconds
EXPLAIN_SECONDS = 25.0
KEPT_ANSWERS = 64
ACCURACY_HOURS = 168
NO_MODEL = "no run is loaded; the log says why"
Figures = dict[str, Any]  # JSON
Ask = Callable[[Model, Overlay, int], Answer | None]
Feeder = Callable[[Live], Coroutine[Any, Any, None]]
log = logging.getLogger(__name__)


class Engine:
    """Answers with the forecasts of one model on the data of the moment."""

    def __init__(self, load: Load, present: Present, feeder: Feeder | None = None) -> None:
        """Load the model.

        Args:
            load: returns it; called again whenever it has to be loaded anew.
            present: the data.
            feeder: brings observations for as long as the service runs, beside those sent.
        """
        self.present, self.feeder = present, feeder
        self.loader = Loader(load, present)
        self.forecasts = Forecasts()
        self.worker = Worker(QUEUE, DEADLINE_SECONDS)
        self.explainer = Worker(EXPLANATIONS, EXPLAIN_SECONDS)  # so that forecasts need not wait
        self.ledger = Ledger(present.count_steps(ACCURACY_HOURS + 24))
        self.computed = self.reused = 0
        self.asked = time.monotonic()  # when somebody last asked for what had to be computed
        self.draining = False
        self.failed: str | None = None  # why there is no forecast of the moment
        self.replay_step_seconds: float | None = None  # of a step; None: no replay
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._pending: dict[Key, asyncio.Task[Answer]] = {}
        self._logged: Key | None = None  # what failed last

    @property
    def model(self) -> Model:
        """The run that is served; a Problem where none could be loaded."""
        if self.loader.model is None:
            raise Problem(503, "no_model", NO_MODEL)
        return self.loader.model

    def why_not_ready(self) -> str | None:
        """Return why no forecast of the moment can be had, if so."""
        if self.draining:
            return "stopping: no more requests, please"
        if self.loader.model is None:
            return NO_MODEL
        return self.present.live.broken or self.present.feed().fault or self.failed

    async def forecast(self, origin: int | None = None) -> tuple[Answer, Feed]:
        """Return the forecast from a step, or from the newest, and how old the data is."""
        return await self._forecast(self.model, self.present.overlay, origin)  # these, to the end

    async def explain(self, location: str, origin: int | None) -> tuple[Answer, Feed, Figures]:
        """Return a forecast, and why it is what it is at a location."""
        ends = time.monotonic() + self.explainer.seconds
        model, overlay = self.model, self.present.overlay
        answer, feed = await self._forecast(model, overlay, origin)
        job = partial(tell_why, model, overlay, answer.key.origin, location)
        return answer, feed, await self.explainer.run(job, ends)

    async def accuracy(self, hours: int) -> tuple[Answer, Feed, Figures]:
        """Return the forecast of the moment, and how good those of the last hours were."""
        ends = time.monotonic() + self.worker.seconds
        model, overlay = self.model, self.present.overlay
        answer, feed = await self._forecast(model, overlay, None)
        steps = self.present.count_steps(hours)
        records = self.ledger.find(model, answer.key.origin, steps)
        job = partial(assess, model, overlay, records, self.present.closed())
        return answer, feed, await self.worker.run(job, ends)

    def complain(self, key: Key | None, what: str) -> None:
        """Log the error at hand, once for as long as the same fails."""
        if key != self._logged:
            log.exception(what)
            self._logged = key

    def close(self) -> None:
        """End what runs in the background, within seconds."""
        ends = time.monotonic() + CLOSE_SECONDS
        for worker in (self.worker, self.explainer):
            worker.close(max(ends - time.monotonic(), 0.0))
        self.present.live.close()

    async def _forecast(
        self, model: Model, overlay: Overlay, origin: int | None
    ) -> tuple[Answer, Feed]:
        feed = self.present.feed(overlay)
        asked = feed.newest if origin is None else origin
        if asked is None or (origin is None and feed.fault is not None):
            raise Problem(503, "no_data", str(feed.fault))
        try:
            return await self._answer(model, overlay, asked), feed
        except DataError as error:
            status = 503 if origin is None else 422
            raise Problem(status, "history_incomplete", str(error)) from error
        except Problem:
            raise
        except Exception as error:
            key = Key(model.digest, overlay.version, asked)
            self.complain(key, f"no forecast from {overlay.time_of(asked)}Z")
            raise Problem(503, "model_failed", "the model failed; the log says why") from error

    async def _answer(self, model: Model, overlay: Overlay, origin: int) -> Answer:
        key = Key(model.digest, overlay.version, origin)
        if key in self._answers:
            self._answers.move_to_end(key)
            self.reused += 1
            return self._answers[key]
        self.asked = time.monotonic()
        task = self._pending.get(key)
        if task is None:  # whoever asks for the same meanwhile waits for this one
            task = asyncio.create_task(self._compute(key, model, overlay))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._settle(key, done))
        return await asyncio.shield(task)

    def _settle(self, key: Key, done: asyncio.Task[Answer]) -> None:
        del self._pending[key]
        if done.cancelled() or done.exception() is not None:
            return  # whoever waits is told; where nobody does, it is no complaint
        answer = done.result()
        if not answer.provisional:  # else forget it: the next to ask may get the final one
            self.computed += 1
            self._answers[key] = answer
        while len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)

    async def _compute(self, key: Key, model: Model, overlay: Overlay) -> Answer:
        """Return the forecast; final and provisional together have one deadline."""
        final, provisional = (
            partial(_attempt, how, model, overlay, key.origin)
            for how in (self.forecasts.answer, self.forecasts.provisional)
        )
        began = time.monotonic()
        ends = began + self.worker.seconds
        while True:
            if answer := await self.worker.run(final, ends):
                return answer
            # Two states of the data in turn would spoil for each other what intervals rest on.
            outdated = overlay is not self.present.overlay
            late = time.monotonic() > began + PREPARE_SECONDS
            if (late or outdated) and (answer := await self.worker.run(provisional, ends)):
                return answer


def _attempt(how: Ask, model: Model, overlay: Overlay, origin: int) -> Answer | None:
    """Return a forecast with its JSON made, so that the loop need not."""
    answer = how(model, overlay, origin)
    return None if answer is None else replace(answer, json=to_json(answer))
