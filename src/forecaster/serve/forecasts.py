"""Forecasts from the data of a moment, with intervals that follow what was observed."""

from collections import OrderedDict

import numpy as np
from jaxtyping import Float32

from forecaster.config import Weather
from forecaster.estimators.question import refuse_missing
from forecaster.serve.answer import Answer, Key, Model, choose_weather, cut, week_before
from forecaster.serve.overlay import Overlay
from forecaster.serve.track import Track

KEPT_TRACKS = 2
UNADJUSTED = "intervals: not yet adjusted to what was observed lately"


class Forecasts:
    """Computes answers; for one thread."""

    def __init__(self) -> None:
        self._tracks: OrderedDict[tuple[str, Weather], Track] = OrderedDict()

    def answer(self, model: Model, overlay: Overlay, origin: int) -> Answer | None:
        """Return the forecast from a step; a history with holes is a DataError.

        None: ask again, what it rests on is on the way; others may have their turn before.
        """
        return self._answer(model, overlay, origin, provisional=False)

    def provisional(self, model: Model, overlay: Overlay, origin: int) -> Answer | None:
        """Return the same with intervals as they were calibrated, and say so."""
        return self._answer(model, overlay, origin, provisional=True)

    def _answer(
        self, model: Model, overlay: Overlay, origin: int, *, provisional: bool
    ) -> Answer | None:
        part, own = cut(model, overlay, origin)
        for lags in {model.estimator.recipe.lags, model.estimator.lags}:  # mostly the same
            refuse_missing(part, lags, own)
        origins = np.array([own])
        weather, degraded = choose_weather(part, origins, model.horizon)
        quantiles: Float32[np.ndarray, "Q K N"] = np.empty(
            (0, model.horizon, len(part.locations)), dtype=np.float32
        )
        if model.levels and not provisional:
            asked = self._track(model, weather).ask(overlay, origin)
            if asked is None:
                return None
            y_hat, quantiles = asked
        else:
            y_hat = model.estimator.predict(part, origins, weather)[0]
        if provisional:
            predict = model.estimator.predict_quantiles
            quantiles = predict(part, origins, weather, online=False)[0]
            degraded = "; ".join(filter(None, (degraded, UNADJUSTED)))
        return Answer(
            key=Key(model.digest, overlay.version, origin),
            panel=overlay.base,
            origin=part.times[own],
            levels=model.levels,
            y_hat=y_hat,
            quantiles=quantiles,
            last=part.values[own],
            usual=week_before(part, own, model.horizon),
            degraded=degraded,
        )

    def _track(self, model: Model, weather: Weather) -> Track:
        key = model.digest, weather
        if key not in self._tracks:
            self._tracks[key] = Track(model, weather)
        self._tracks.move_to_end(key)
        while len(self._tracks) > KEPT_TRACKS:
            self._tracks.popitem(last=False)
        return self._tracks[key]
