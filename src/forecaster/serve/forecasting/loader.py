"""Loading of the served run: at the start, on SIGHUP, and when another version becomes current.

A run that cannot be used is not taken: the one that answers goes on.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from forecaster.errors import ArtifactError, DataError, RunError
from forecaster.estimators.match import match
from forecaster.serve.data.live import LiveData
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.new_locations import (
    describe_absent,
    describe_unknown,
    refuse_other_locations,
    with_absent_locations,
)
from forecaster.serve.forecasting.trial import (
    ImplausibleRunError,
    forecast_once,
    refuse_implausible,
)
from forecaster.serve.tracing import span

LoadModel = Callable[[], ServedModel]
RETRY_SECONDS = 60.0  # until a version that failed its trial is tried again
REMEDY = "serve the panel that it was trained on, or a run that was trained on this panel"
log = logging.getLogger(__name__)


@runtime_checkable
class FollowedVersions(Protocol):
    """A folder of versions, of which the current one is served."""

    def current(self) -> str:
        """The name of the current version."""

    def load(self, name: str) -> ServedModel:
        """The model of a version."""


@dataclass(frozen=True)
class Refused:
    """A run that was not taken."""

    version: str | None  # None: not one of several versions
    reason: str
    since: float  # seconds since 1970, by the clock of the data


class IncompatibleRunError(ArtifactError):
    """A run of other locations, or of another kind or step, than the data."""


class ModelLoader:
    """Holds the served model, and reloads it."""

    def __init__(
        self, load: LoadModel, data: LiveData, versions: FollowedVersions | None = None
    ) -> None:
        """Load the run; an unreadable run is logged, an incompatible one is refused.

        Args:
            load: returns the model; called again at every reload.
            data: the data to forecast from.
            versions: the folder of versions whose current one is followed.
        """
        self.load, self.versions, self._data = load, versions, data
        self.model: ServedModel | None = None
        self.reloads = {"done": 0, "failed": 0}
        self.refused: Refused | None = None  # the run that should be served, and is not
        self._retry_at = 0.0  # by time.monotonic()
        self._lock = asyncio.Lock()
        try:
            self.model = self._checked(self.load)
        except IncompatibleRunError:
            raise
        except Exception as error:  # any other fault: observations are still accepted and stored
            self._refuse(None, error)
            log.error("no run is loaded: %s; repair it and send SIGHUP", error)

    async def reload(self) -> None:
        """Reload the run; the old model stays if the new one cannot be used."""
        async with self._lock:
            await self._replace(self.load, None)

    async def follow(self, prepare: Callable[[ServedModel], Awaitable[None]]) -> None:
        """Load the current version if it is another than the served one, and it can be used.

        Args:
            prepare: is given the new model before it answers.
        """
        if self.versions is None:
            return
        async with self._lock:
            name = await asyncio.to_thread(self.versions.current)
            if self.model is not None and self.model.version == name:
                self.refused = None
                return
            failed = self.refused is not None and self.refused.version in (name, None)
            if failed and time.monotonic() < self._retry_at:
                return
            await self._replace(partial(self.versions.load, name), name, prepare)

    async def _replace(
        self,
        load: LoadModel,
        name: str | None,
        prepare: Callable[[ServedModel], Awaitable[None]] | None = None,
    ) -> None:
        try:
            with span("reload"):
                model = await asyncio.to_thread(self._checked, load)
            if prepare is not None:
                await prepare(model)
        except Exception as error:  # as above
            before = self.refused
            self._refuse(name, error)
            if name is None or self.refused != before:  # not at each retry
                self.reloads["failed"] += 1
                outcome = f"run {_name(self.model)} stays" if self.model else "no run is loaded"
                log.error("not reloaded, %s: %s", outcome, error)
            return
        self.model, self.refused = model, None
        self.reloads["done"] += 1
        log.warning("reloaded: run %s", _name(model))

    def _refuse(self, name: str | None, error: Exception) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        before = self.refused
        same = before is not None and (before.version, before.reason) == (name, str(error))
        since = before.since if before is not None and same else self._data.now()
        self.refused = Refused(name, str(error), since)

    def _checked(self, load: LoadModel) -> ServedModel:
        """Return the new model, unless only the old one can forecast from the current data."""
        model, old = load(), self.model
        fault = try_out(model, self._data)
        for describe in (describe_absent, describe_unknown):
            if text := describe(model, self._data.snapshot):
                log.warning("run %s: %s", model.digest, text)
        if fault and old and not try_out(old, self._data):
            raise fault
        return model


def try_out(model: ServedModel, data: LiveData) -> DataError | ImplausibleRunError | None:
    """Return the reason why a run gives no usable forecast now; another panel's run is refused."""
    snapshot = data.snapshot
    _refuse_incompatible(model, snapshot)
    newest = data.freshness(snapshot).newest
    return None if newest is None else _find_fault(model, snapshot, newest)


def _name(model: ServedModel) -> str:
    return f"{model.digest} ({model.version})" if model.version else model.digest


def _refuse_incompatible(model: ServedModel, snapshot: Snapshot) -> None:
    """Refuse a run of another panel: no observation would make it usable."""
    run = model.estimator.run
    if run is None:
        raise RunError("the model is not fitted; train one, and serve its run")
    try:
        refuse_other_locations(model, snapshot)
        panel = with_absent_locations(model, snapshot.panel(0, 1, 1))
        match(run, panel.select(tuple(run.about["ids"])))
    except ArtifactError as error:
        raise IncompatibleRunError(f"run {model.digest}: {error}\n{REMEDY}") from error


def _find_fault(
    model: ServedModel, snapshot: Snapshot, origin: int
) -> DataError | ImplausibleRunError | None:
    """Return the reason why there is no usable forecast from the data, such as a short history."""
    try:
        refuse_implausible(forecast_once(model, snapshot, origin), snapshot)
    except (DataError, ImplausibleRunError) as error:
        return error
    except ArtifactError as error:  # the estimator does not take this data
        raise IncompatibleRunError(f"run {model.digest}: {error}\n{REMEDY}") from error
    return None
