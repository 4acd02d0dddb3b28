"""What a model makes of rain: its forecasts with rain in the coming steps against those without.

Everything else stays as it was, so this is what the model has learned to expect with rain; that
rain is the cause is not said.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import Changes
from forecaster.evaluation.backtest import Assessment
from forecaster.ingest.station import QUANTITIES
from forecaster.panel.panel import Panel

RAIN, AMOUNT = "rain", QUANTITIES["precipitation"].name
MOST_ORIGINS = 240  # spread evenly over the test

Sky: TypeAlias = dict[str, float]  # covariates by name


@dataclass(frozen=True, eq=False)
class RainEffect:
    """Forecasts with and without rain, the mean over origins and steps."""

    supposed: Sky  # of the coming steps
    origins: int
    dry: Float64[np.ndarray, " N"]
    wet: Float64[np.ndarray, " N"]

    @property
    def whole(self) -> float:
        """The change of the sum of all locations, as a share of it without rain."""
        dry, wet = float(self.dry.sum()), float(self.wet.sum())
        return (wet - dry) / max(abs(dry), 1e-9)

    def change(self, kind: str) -> Float64[np.ndarray, " N"]:
        """Return the change at each location: of counts as a share, of measurements itself."""
        difference = np.asarray(self.wet - self.dry)
        if kind != "count":
            return difference
        nowhere = np.full_like(self.dry, np.nan)
        return np.asarray(np.divide(difference, self.dry, out=nowhere, where=self.dry > 0))


def measure_rain(estimator: Estimator, panel: Panel, found: Assessment) -> RainEffect | None:
    """Return what an estimator makes of rain at some tested origins; None: nothing, or no rain."""
    supposed = suppose_rain(panel)
    if supposed is None:
        return None
    origins = _choose_origins(panel, found)
    horizon = found.places.squares.shape[0]
    dry, wet = (
        estimator.predict(panel, origins, found.weather, changes=_lasting(values, horizon))
        for values in supposed
    )  # [B, K, N]
    if np.array_equal(dry, wet) or not dry.any():
        return None
    return RainEffect(
        supposed=supposed[1],
        origins=len(origins),
        dry=dry.mean(axis=(0, 1), dtype=np.float64),
        wet=wet.mean(axis=(0, 1), dtype=np.float64),
    )


def suppose_rain(panel: Panel) -> tuple[Sky, Sky] | None:
    """Return covariates without rain, and with as much as half of the wet steps have."""
    rain, amount = (_covariate(panel, name) for name in (RAIN, AMOUNT))
    wet = rain > 0
    if not wet.any() or not (rain == 0).any():
        return None
    known = {RAIN: rain[wet]}
    if len(amount) == len(rain) and (amount[wet] > 0).any():
        known[AMOUNT] = amount[wet & (amount > 0)]
    return dict.fromkeys(known, 0.0), {n: float(np.median(v)) for n, v in known.items()}


def _covariate(panel: Panel, name: str) -> Float32[np.ndarray, " n"]:
    """Return all values of a covariate, of the city or of its locations; nothing of none."""
    world, own = panel.covariates, panel.local_covariates
    if name in world.names:
        return np.asarray(world.values[:, world.names.index(name)])
    layers = own.values[[own.names.index(name)] if name in own.names else []]
    return layers.reshape(-1)


def _choose_origins(panel: Panel, found: Assessment) -> Int64[np.ndarray, " B"]:
    """Return some of the tested origins, as steps of the panel."""
    steps = (found.origins - int(panel.start.astype(np.int64))) // (panel.clock.step_minutes * 60)
    count = min(len(steps), MOST_ORIGINS)
    return np.asarray(steps[np.linspace(0, len(steps) - 1, count).astype(np.int64)])


def _lasting(values: Sky, horizon: int) -> Changes:
    return {name: np.full(horizon, value, np.float32) for name, value in values.items()}
