"""What boosted trees minimise: squared errors, or the deviance of counts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.choices import Objective
from forecaster.windows.scaling import Scale

LEAST_TARGET = 1e-6  # relative to the mean, in place of zeros alone
LIGHTGBM_NAMES: dict[Objective, str] = {"squares": "l2", "poisson": "poisson"}


@dataclass(frozen=True, eq=False)
class Squares:
    """Σ (ŷ − y)², with ŷ = mean + deviation · Σ trees. A row weighs its location's deviation²."""

    scale: Scale

    @property
    def deviation(self) -> Float32[np.ndarray, " N"]:
        """The deviation of each location in training."""
        return self.scale.deviation

    def targets(
        self, truth: Float32[np.ndarray, " R"], location: Int64[np.ndarray, " R"]
    ) -> Float32[np.ndarray, " R"]:
        """What the sums are to come near to: scaled values."""
        return np.asarray((truth - self.scale.mean[location]) / self.scale.deviation[location])

    def forecasts(self, sums: Float32[np.ndarray, "B K N"]) -> Float32[np.ndarray, "B K N"]:
        """The forecasts in the panel's units; sums of 0 give the locations' means."""
        return self.scale.undo(sums)


@dataclass(frozen=True, eq=False)
class Poisson:
    """Σ ŷ − y log ŷ of counts, with ŷ = mean · exp(Σ trees).

    With u = y / mean and weights w = mean that is Σ w (exp(s) − u s) for the sums s, up to a
    constant: what LightGBM minimises for targets u. A row weighs its location's deviation².
    """

    scale: Scale

    @property
    def deviation(self) -> Float32[np.ndarray, " N"]:
        """√mean: the deviation of Poisson counts."""
        return np.asarray(np.sqrt(self._mean))

    @property
    def _mean(self) -> Float32[np.ndarray, " N"]:
        """The mean; 1 of locations without a count in training, whose forecast is 0."""
        return np.where(self.scale.mean > 0, self.scale.mean, np.float32(1))

    def targets(
        self, truth: Float32[np.ndarray, " R"], location: Int64[np.ndarray, " R"]
    ) -> Float32[np.ndarray, " R"]:
        """Counts relative to the location's mean; LightGBM refuses a table of zeros alone."""
        relative = truth / self._mean[location]
        return np.asarray(relative if relative.any() else np.full_like(relative, LEAST_TARGET))

    def forecasts(self, sums: Float32[np.ndarray, "B K N"]) -> Float32[np.ndarray, "B K N"]:
        """The log link undone."""
        return np.asarray(self.scale.mean * np.exp(sums))


def objective_of(name: Objective, scale: Scale) -> Squares | Poisson:
    """The objective of a recipe.

    Args:
        name: as in its section `boosting`.
        scale: of the values in training.
    """
    return Poisson(scale) if name == "poisson" else Squares(scale)
