"""A challenger in the shadow: it forecasts live data beside the served run, and never answers."""

import asyncio
import logging
import time
from typing import Protocol, runtime_checkable

from forecaster.serve.data.live import LiveData
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.loader import RETRY_SECONDS, FollowedVersions, Refused, try_out

log = logging.getLogger(__name__)


@runtime_checkable
class ChallengedVersions(FollowedVersions, Protocol):
    """A folder of versions that has others beside the current one."""

    def challenger(self, current: str) -> str | None:
        """The name of the newest version that is not current; None: there is none."""


class Shadow:
    """Holds the challenger: a version by its name, or the newest that is not current."""

    def __init__(self, versions: ChallengedVersions, data: LiveData, name: str | None) -> None:
        self._versions, self._data, self._name = versions, data, name
        self.model: ServedModel | None = None
        self.refused: Refused | None = None  # the version that should be in the shadow, and is not
        self._retry_at = 0.0  # by time.monotonic()

    async def follow(self) -> None:
        """Load the challenger if it is another one; a version that cannot be used is said once."""
        name = await asyncio.to_thread(self._choose)
        if name is None:
            self.model = self.refused = None
        elif self.model is None or self.model.version != name:
            failed = self.refused is not None and self.refused.version == name
            if not failed or time.monotonic() >= self._retry_at:
                await self._load(name)

    def _choose(self) -> str | None:
        current = self._versions.current()
        if self._name is not None:
            return self._name if self._name != current else None
        return self._versions.challenger(current)

    async def _load(self, name: str) -> None:
        self.model = None
        try:
            self.model = await asyncio.to_thread(self._tried, name)
            self.refused = None
            log.warning("in the shadow: run %s (%s)", self.model.digest, name)
        except Exception as error:  # whatever it raises: the service goes on
            self._retry_at = time.monotonic() + RETRY_SECONDS
            if self.refused is None or (self.refused.version, self.refused.reason) != (
                name,
                str(error),
            ):
                self.refused = Refused(name, str(error), self._data.now())
                log.error("not in the shadow, %s: %s", name, error)

    def _tried(self, name: str) -> ServedModel:
        model = self._versions.load(name)
        fault = try_out(model, self._data)
        if fault is not None:
            raise fault
        return model
