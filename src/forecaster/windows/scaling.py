"""Standard scaling, fitted on the training steps."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from forecaster.panel.panel import Panel

MIN_MEAN = 0.1  # counts per step: of a location that was silent, or nearly so


@dataclass(frozen=True, eq=False)
class Scale:
    """A mean and a deviation per entry; entries that never vary have deviation 1."""

    mean: Float32[np.ndarray, " n"]
    deviation: Float32[np.ndarray, " n"]

    def apply(self, values: Float32[np.ndarray, "*T n"]) -> Float32[np.ndarray, "*T n"]:
        """Values in deviations from the mean."""
        return np.asarray((values - self.mean) / self.deviation, dtype=np.float32)

    def undo(self, values: Float32[np.ndarray, "*T n"]) -> Float32[np.ndarray, "*T n"]:
        """Scaled values in their original units."""
        return np.asarray(values * self.deviation + self.mean, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Scaler:
    """The scales of a panel: of each location, each covariate and each local covariate."""

    values: Scale
    covariates: Scale
    local_covariates: Scale


def fit_values(panel: Panel, train: Bool[np.ndarray, " M"]) -> Scale:
    """The scales of the locations in the training steps.

    The scale of a location with less than 0.1 counts per step is at least that of Poisson counts
    of this mean: if it was silent in training, it would otherwise deviate without limit later.
    """
    scale = _fit(panel.values[np.flatnonzero(train)])
    return _floor_counts(scale) if panel.kind == "count" else scale


def fit_scaler(panel: Panel, train: Bool[np.ndarray, " M"]) -> Scaler:
    """The scales of the training steps; covariates that are only 0 or 1 are not scaled."""
    steps = np.flatnonzero(train)
    covariates = panel.covariates.values[steps]
    local = panel.local_covariates.values[:, steps]
    local = local.reshape(len(local), local.shape[1] * local.shape[2]).T  # locations share a scale
    return Scaler(
        values=fit_values(panel, train),
        covariates=_unless_flags(_fit(covariates), covariates),
        local_covariates=_unless_flags(_fit(local), local),
    )


def bound_values(
    values: Float32[np.ndarray, "T N"],
    least: Float32[np.ndarray, " N"],
    most: Float32[np.ndarray, " N"],
) -> Float32[np.ndarray, "T N"]:
    """Values within the range of training as they are; beyond it, at most one range further.

    A value e above the largest enters as w e / (w + e) above it, with the width w of the range, of
    at least 1: smooth, and bounded. Likewise below.
    """
    width = np.maximum(most - least, np.float32(1))
    above, below = np.maximum(values - most, 0), np.maximum(least - values, 0)
    shift = width * (above / (width + above)) - width * (below / (width + below))
    return np.asarray(np.clip(values, least, most) + shift, dtype=np.float32)


def _fit(values: Float32[np.ndarray, "T n"]) -> Scale:
    observed = np.isfinite(values)
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, values, 0).sum(axis=0, dtype=np.float64) / count
    square = np.where(observed, np.square(values - mean), 0).sum(axis=0, dtype=np.float64) / count
    deviation = np.sqrt(square)
    varies = deviation > 1e-6 * np.maximum(np.abs(mean), 1e-6)
    return Scale(mean.astype(np.float32), np.where(varies, deviation, 1.0).astype(np.float32))


def _floor_counts(scale: Scale) -> Scale:
    """The scale; where the mean is below 0.1, that of Poisson counts of mean 0.1 or wider."""
    silent = scale.mean < MIN_MEAN
    mean = np.where(silent, np.float32(MIN_MEAN), scale.mean)
    floor = np.sqrt(mean)
    return Scale(mean, np.where(silent, np.maximum(scale.deviation, floor), scale.deviation))


def _unless_flags(scale: Scale, values: Float32[np.ndarray, "T n"]) -> Scale:
    """The scale, with mean 0 and deviation 1 for columns of only 0 and 1."""
    flag = ((values == 0) | (values == 1) | np.isnan(values)).all(axis=0)
    return Scale(
        np.where(flag, np.float32(0), scale.mean), np.where(flag, np.float32(1), scale.deviation)
    )
