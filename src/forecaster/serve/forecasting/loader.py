"""Loading of the served run at the start and on SIGHUP; an unusable new run is not taken."""

import asyncio
import logging
from collections.abc import Callable

from forecaster.errors import ArtifactError, DataError, RunError
from forecaster.estimators.match import match
from forecaster.serve.data.live import LiveData
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.new_locations import (
    describe_absent,
    refuse_other_locations,
    with_absent_locations,
)
from forecaster.serve.forecasting.predictor import SnapshotPredictor
from forecaster.serve.tracing import span

LoadModel = Callable[[], ServedModel]
REMEDY = "serve the panel that it was trained on, or a run that was trained on this panel"
log = logging.getLogger(__name__)


class IncompatibleRunError(ArtifactError):
    """A run of other locations, or of another kind or step, than the data."""


class ModelLoader:
    """Holds the served model, and reloads it."""

    def __init__(self, load: LoadModel, data: LiveData) -> None:
        """Load the run; an unreadable run is logged, an incompatible one is refused.

        Args:
            load: returns the model; called again at every reload.
            data: the data to forecast from.
        """
        self.load, self._data = load, data
        self.model: ServedModel | None = None
        self.reloads = {"done": 0, "failed": 0}
        self._lock = asyncio.Lock()
        try:
            self.model = self._load_checked()
        except IncompatibleRunError:
            raise
        except Exception as error:  # any other fault: observations are still accepted and stored
            log.error("no run is loaded: %s; repair it and send SIGHUP", error)

    async def reload(self) -> None:
        """Reload the run; the old model stays if the new one cannot be used."""
        async with self._lock:
            try:
                with span("reload"):
                    self.model = await asyncio.to_thread(self._load_checked)
                self.reloads["done"] += 1
                log.warning("reloaded: run %s", self.model.digest)
            except Exception as error:  # as above
                self.reloads["failed"] += 1
                outcome = f"run {self.model.digest} stays" if self.model else "no run is loaded"
                log.error("not reloaded, %s: %s", outcome, error)

    def _load_checked(self) -> ServedModel:
        """Return the new model, unless only the old one can forecast from the current data."""
        model, old, snapshot = self.load(), self.model, self._data.snapshot
        _refuse_incompatible(model, snapshot)
        if absent := describe_absent(model, snapshot):
            log.warning("run %s: %s", model.digest, absent)
        newest = self._data.freshness(snapshot).newest
        if newest is not None:
            fault = _find_fault(model, snapshot, newest)
            if fault and old and not _find_fault(old, snapshot, newest):
                raise fault
        return model


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


def _find_fault(model: ServedModel, snapshot: Snapshot, origin: int) -> DataError | None:
    """Return the reason why the data does not allow a forecast, such as a short history."""
    try:
        SnapshotPredictor().predict_provisional(model, snapshot, origin)
    except DataError as error:
        return error
    except ArtifactError as error:  # the estimator does not take this data
        raise IncompatibleRunError(f"run {model.digest}: {error}\n{REMEDY}") from error
    return None
