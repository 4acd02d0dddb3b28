"""What is done without being asked: forecasts of the moment, and those that were missed."""

import asyncio
import time
from functools import partial

from forecaster.errors import DataError
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.engine import ACCURACY_HOURS, Engine
from forecaster.serve.forecasting.forecast import Key, Model
from forecaster.serve.problems import Problem

WATCH_SECONDS = 0.2  # how often the end of a step is looked for
QUIET_SECONDS = 2.0  # without a question before earlier origins are made up for
MAX_RETRY_SECONDS = 10.0  # after which what failed is tried again; at first much sooner


class Watch:
    """Forecasts whenever a step is over or data came late; makes up for earlier origins."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: Key | None = None  # forecast and noted
        self._wait = WATCH_SECONDS

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            key = self._moment()
            try:
                await self._attend(key)
                self._wait = WATCH_SECONDS
            except Exception as error:
                if not isinstance(error, Problem):  # else whoever raised it has logged it
                    self._engine.complain(key, "making up for earlier forecasts")
                self._wait = min(2 * self._wait, MAX_RETRY_SECONDS)
            await self._rest(key)

    def _moment(self) -> Key | None:
        """Return what a forecast of the moment belongs to, if there can be one."""
        model, overlay = self._engine.loader.model, self._engine.present.overlay
        newest = self._engine.present.feed(overlay).newest
        if model is None or newest is None:
            return None
        return Key(model.digest, overlay.version, newest)

    async def _attend(self, key: Key | None) -> None:
        """Forecast from the newest step or, where that is done, from earlier ones."""
        engine = self._engine
        if key is None:
            return
        if key == self._seen:
            engine.failed = None  # of a run that was loaded meanwhile, and is gone
            await self._make_up(engine.model, engine.present.overlay, key.origin)
            return
        try:
            answer, _ = await engine.forecast()
        except Problem as problem:
            if problem.code != "busy":  # others are being answered: there is nothing wrong
                engine.failed = str(problem.detail)
            raise
        engine.failed = None
        if not answer.provisional:  # else it is asked again
            engine.ledger.note(answer)
            self._seen = answer.key

    async def _make_up(self, model: Model, overlay: Overlay, newest: int) -> None:
        """Forecast from earlier origins, for as long as nobody asks for anything."""
        engine = self._engine
        steps = engine.present.count_steps(ACCURACY_HOURS)
        for origin in engine.ledger.lacking(model, newest, steps):
            if not await self._make_up_for(model, overlay, origin):
                return

    async def _make_up_for(self, model: Model, overlay: Overlay, origin: int) -> bool:
        """Forecast from an earlier origin; tell whether there was time."""
        engine = self._engine
        attempt = partial(engine.forecasts.in_hindsight, model, overlay, origin)
        while self._is_quiet() and overlay is engine.present.overlay:
            try:
                if answer := await engine.worker.run(attempt):
                    engine.ledger.note(answer)
                    return True
            except DataError:
                engine.ledger.skip(model, origin)
                return True
        return False

    def _is_quiet(self) -> bool:
        """Tell whether nobody would have to wait: a pause between two of many is none."""
        since = time.monotonic() - self._engine.asked
        return since >= QUIET_SECONDS and not self._engine.worker.pending

    async def _rest(self, key: Key | None) -> None:
        """Wait, at most until there is something else to forecast."""
        ends = time.monotonic() + self._wait
        await asyncio.sleep(WATCH_SECONDS)
        while time.monotonic() < ends and self._moment() == key:
            await asyncio.sleep(WATCH_SECONDS)
