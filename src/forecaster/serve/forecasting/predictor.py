"""Forecasts from the data of a moment, with intervals that follow what was observed."""

import threading
from collections import OrderedDict

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.config import Weather
from forecaster.estimators.forecast_inputs import refuse_missing
from forecaster.estimators.match import location_order
from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import (
    Answer,
    Key,
    Model,
    choose_weather,
    cut,
    week_before,
)
from forecaster.serve.forecasting.online import Track

KEPT_TRACKS = 2
Tracks = OrderedDict[tuple[str, Weather], Track]
UNADJUSTED = "intervals: not yet adjusted to what was observed lately"


class Forecasts:
    """Computes answers; every thread has tracks of its own.

    So one that hangs and is given up cannot spoil those of the thread that goes on.
    """

    def __init__(self) -> None:
        self._own = threading.local()

    def answer(self, model: Model, overlay: Overlay, origin: int) -> Answer | None:
        """Return the forecast from a step; a history with holes is a DataError.

        None: ask again, what it rests on is on the way; others may have their turn before.
        """
        return self._answer(model, overlay, origin)

    def in_hindsight(self, model: Model, overlay: Overlay, origin: int) -> Answer | None:
        """Return the same from a step long past: weather observed since was not known then."""
        return self._answer(model, overlay, origin, past=True)

    def provisional(self, model: Model, overlay: Overlay, origin: int) -> Answer | None:
        """Return the same with intervals as they were calibrated, and say so."""
        return self._answer(model, overlay, origin, provisional=True)

    def _answer(
        self,
        model: Model,
        overlay: Overlay,
        origin: int,
        *,
        provisional: bool = False,
        past: bool = False,
    ) -> Answer | None:
        part, own = cut(model, overlay, origin)
        for lags in {model.estimator.recipe.lags, model.estimator.lags}:  # mostly the same
            refuse_missing(part, lags, own)
        origins = np.array([own])
        weather, worse = choose_weather(part, origins, model.horizon)
        if past and (part.covariates.names or part.local_covariates.names):
            weather = "persist"
        if model.levels and not provisional:
            asked = self._track(model, weather).ask(overlay, origin)
        else:
            asked = _predict(model, part, origins, weather)
        if asked is None:
            return None
        y_hat, quantiles = asked
        reasons = worse, _tell_missing(overlay, origin), UNADJUSTED if provisional else None
        return Answer(
            key=Key(model.digest, overlay.version, origin),
            panel=overlay.base,
            origin=part.times[own],
            levels=model.levels,
            y_hat=y_hat,
            quantiles=quantiles,
            last=part.values[own],
            usual=week_before(part, own, model.horizon),
            degraded="; ".join(filter(None, reasons)) or None,
            provisional=provisional,
        )

    def _track(self, model: Model, weather: Weather) -> Track:
        tracks: Tracks = self._own.__dict__.setdefault("tracks", OrderedDict())
        key = model.digest, weather
        if key not in tracks:
            tracks[key] = Track(model, weather)
        tracks.move_to_end(key)
        while len(tracks) > KEPT_TRACKS:
            tracks.popitem(last=False)
        return tracks[key]


def _predict(
    model: Model, part: Panel, origins: Int64[np.ndarray, " B"], weather: Weather
) -> tuple[Float32[np.ndarray, "K N"], Float32[np.ndarray, "Q K N"]]:
    """Return the forecast from the first origin, with quantiles as they were calibrated."""
    predictor = model.estimator.predictor(part, weather)
    base, calibration = predictor.base(origins), predictor.calibration
    here = base.at(location_order(predictor.panel.locations.ids, part))
    return here.forecast[0], calibration.correct(here, calibration.corrections)[0]


def _tell_missing(overlay: Overlay, origin: int) -> str | None:
    """Return of how many locations the value at the origin is filled in, or may yet grow."""
    row = overlay.final(origin, origin + 1)[0]
    missing = int(np.isnan(row).sum())
    if not missing:
        return None
    return f"data: {missing} of {len(row)} locations missing or not final at the origin"
