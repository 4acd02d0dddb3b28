"""Standard scales, fitted on training steps alone."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from forecaster.panel.panel import Panel


@dataclass(frozen=True, eq=False)
class Scale:
    """A mean and a deviation per entry; what never varies keeps its size."""

    mean: Float32[np.ndarray, " n"]
    deviation: Float32[np.ndarray, " n"]

    def apply(self, values: Float32[np.ndarray, "*T n"]) -> Float32[np.ndarray, "*T n"]:
        """Return values in deviations from the mean."""
        return np.asarray((values - self.mean) / self.deviation, dtype=np.float32)

    def undo(self, values: Float32[np.ndarray, "*T n"]) -> Float32[np.ndarray, "*T n"]:
        """Return values in their own units."""
        return np.asarray(values * self.deviation + self.mean, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Scaler:
    """The scales of a panel: each location, each covariate, each covariate of locations."""

    values: Scale
    covariates: Scale
    local_covariates: Scale


def fit_scaler(panel: Panel, train: Bool[np.ndarray, " M"]) -> Scaler:
    """Return the scales of the training steps; covariates that are 0 or 1 stay as they are."""
    steps = np.flatnonzero(train)
    world = panel.covariates.values[steps]
    own = panel.local_covariates.values[:, steps]
    own = own.reshape(len(own), own.shape[1] * own.shape[2]).T  # one scale for all locations
    return Scaler(
        values=_fit(panel.values[steps]),
        covariates=_unless_flags(_fit(world), world),
        local_covariates=_unless_flags(_fit(own), own),
    )


def _fit(values: Float32[np.ndarray, "T n"]) -> Scale:
    seen = np.isfinite(values)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, values, 0).sum(axis=0, dtype=np.float64) / count
    square = np.where(seen, np.square(values - mean), 0).sum(axis=0, dtype=np.float64) / count
    deviation = np.sqrt(square)
    varies = deviation > 1e-6 * np.maximum(np.abs(mean), 1e-6)
    return Scale(mean.astype(np.float32), np.where(varies, deviation, 1.0).astype(np.float32))


def _unless_flags(scale: Scale, values: Float32[np.ndarray, "T n"]) -> Scale:
    """Leave columns alone that hold nothing but 0 and 1."""
    flag = ((values == 0) | (values == 1) | np.isnan(values)).all(axis=0)
    return Scale(
        np.where(flag, np.float32(0), scale.mean), np.where(flag, np.float32(1), scale.deviation)
    )
