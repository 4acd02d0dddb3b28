"""Online intervals of the service: forecasts of earlier origins are kept from call to call."""

import numpy as np
from jaxtyping import Float32

from forecaster.choices import Weather
from forecaster.errors import RunError
from forecaster.estimators.intervals.calibration import Calibration
from forecaster.estimators.intervals.online import OnlineCalibration
from forecaster.estimators.match import location_order
from forecaster.estimators.predictor import Predictor
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import Model, cut

# Earlier origins that are forecast before others have their turn: so many, or fewer if large.
MAX_AT_ONCE, VALUES_AT_ONCE = 16, 8_000


class Track:
    """The quantiles of one model, with one knowledge of the weather; for one thread."""

    def __init__(self, model: Model, weather: Weather) -> None:
        if model.estimator.run is None:
            raise RunError("the model is not fitted")
        self._model, self._weather, self._run = model, weather, model.estimator.run
        self._online: OnlineCalibration | None = None
        self._seen: Overlay | None = None  # the state of the data that was asked for last

    def ask(
        self, overlay: Overlay, origin: int
    ) -> tuple[Float32[np.ndarray, "K N"], Float32[np.ndarray, "Q K N"]] | None:
        """Forecast and quantiles from a step; None: ask again, earlier steps are on the way.

        Nothing is forecast here that a run and a panel would not give alone.
        """
        online = self._follow(overlay)
        steps = online.unobserved(origin)
        if steps:
            predictor, first = self._predictor(overlay, steps)
            places = np.array(steps) - first
            online.observe(steps, predictor.panel.values[places], predictor.counts(places))
        missing = online.unforecast(origin)
        at_once = max(min(MAX_AT_ONCE, VALUES_AT_ONCE // len(overlay.base.locations)), 1)
        batch = missing[:at_once]
        if batch:
            predictor, first = self._predictor(overlay, batch)
            online.add(batch, predictor.base(np.array(batch) - first))
        if len(missing) > len(batch):
            return None
        base = online.base(origin).at(location_order(self._run.about["ids"], overlay.base))
        return base.forecast, online.calibration.correct(base, online.corrections(origin))

    def _follow(self, overlay: Overlay) -> OnlineCalibration:
        """Drop what saw data that has changed; an earlier state may come after a later one."""
        if self._online is None:
            calibration = Calibration.from_arrays(self._run.arrays, self._run.about["kind"])
            first_step = overlay.start_seconds // overlay.step_seconds
            self._online = OnlineCalibration(calibration, first_step)
        earlier, later = sorted((self._seen or overlay, overlay), key=lambda state: state.version)
        self._seen = overlay
        if earlier.version != later.version:
            self._online.forget_from(later.changed_since(earlier.version, self._model.horizon))
        return self._online

    def _predictor(self, overlay: Overlay, steps: list[int]) -> tuple[Predictor, int]:
        """The model on the part of the data that some steps rest on, and its first step."""
        part, place = cut(self._model, overlay, steps[-1], steps[0])
        return self._model.estimator.predictor(part, self._weather), steps[-1] - place
