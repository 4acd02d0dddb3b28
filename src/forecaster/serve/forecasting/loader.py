"""The run that is served: replaced as a whole, and never by one that is worse."""

import asyncio
import logging
from collections.abc import Callable

from forecaster.errors import ArtifactError, DataError, RunError
from forecaster.estimators.match import match
from forecaster.serve.data.present import Present
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import Model
from forecaster.serve.forecasting.predictor import Forecasts

Load = Callable[[], Model]
REMEDY = "serve the panel that it was trained on, or a run that was trained on this panel"
log = logging.getLogger(__name__)


class UnfitError(ArtifactError):
    """A run of other locations, of another kind or step than the data: it will never do."""


class Loader:
    """Holds the run that is served, and loads it anew."""

    def __init__(self, load: Load, present: Present) -> None:
        """Load the run; a damaged one is waited for, one that does not fit the data refused.

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
        except UnfitError:
            raise
        except Exception as error:  # whatever else is wrong with it, the data is taken and kept
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
        _refuse_unfit(model, overlay)
        newest = self._present.feed(overlay).newest
        if newest is not None:
            fault = _find_fault(model, overlay, newest)
            if fault and old and not _find_fault(old, overlay, newest):
                raise fault
        return model


def _refuse_unfit(model: Model, overlay: Overlay) -> None:
    """Refuse a run of another panel than that of the data; observations never mend that."""
    if model.estimator.run is None:
        raise RunError("the model is not fitted; train one, and serve its run")
    try:
        match(model.estimator.run, overlay.panel(0, 1, 1))
    except ArtifactError as error:
        raise UnfitError(f"run {model.digest}: {error}\n{REMEDY}") from error


def _find_fault(model: Model, overlay: Overlay, origin: int) -> DataError | None:
    """Return why the data does not allow a forecast: a short history, which passes."""
    try:
        Forecasts().provisional(model, overlay, origin)
    except DataError as error:
        return error
    return None
