"""The run that is served: replaced as a whole, and never by one that is worse."""

import asyncio
import logging
from collections.abc import Callable

from forecaster.errors import DataError
from forecaster.serve.answer import Model
from forecaster.serve.forecasts import Forecasts
from forecaster.serve.overlay import Overlay
from forecaster.serve.present import Present

Load = Callable[[], Model]
log = logging.getLogger(__name__)


class Loader:
    """Holds the run that is served, and loads it anew."""

    def __init__(self, load: Load, present: Present) -> None:
        """Load the run; without one the service runs and says so.

        Args:
            load: returns it; called again whenever it has to be loaded anew.
            present: the data that it must be able to forecast from.
        """
        self.load, self._present = load, present
        self.model: Model | None = None
        self.reloads = {"done": 0, "failed": 0}
        self._turn = asyncio.Lock()
        try:
            self.model = self._loaded()
        except Exception as error:  # whatever is wrong with it, the data is taken and kept
            log.error("no run is loaded: %s; mend it and send SIGHUP", error)

    async def reload(self) -> None:
        """Load the run anew; the old one stays where the new one cannot be used."""
        async with self._turn:
            try:
                self.model = await asyncio.to_thread(self._loaded)
                self.reloads["done"] += 1
                log.warning("reloaded: run %s", self.model.digest)
            except Exception as error:  # as above
                self.reloads["failed"] += 1
                old = f"run {self.model.digest} stays" if self.model else "there is none still"
                log.error("not reloaded, %s: %s", old, error)

    def _loaded(self) -> Model:
        """Return the run, if it can forecast from the data of the moment where one could."""
        model, old, overlay = self.load(), self.model, self._present.overlay
        newest = self._present.feed(overlay).newest
        if newest is not None:
            fault = _find_fault(model, overlay, newest)
            if fault and old and not _find_fault(old, overlay, newest):
                raise fault
        return model


def _find_fault(model: Model, overlay: Overlay, origin: int) -> DataError | None:
    """Return why the data does not allow a forecast: a short history, which passes."""
    try:
        Forecasts().provisional(model, overlay, origin)
    except DataError as error:
        return error
    return None
