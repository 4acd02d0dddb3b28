"""The simple models that a run serves at some locations in place of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.artifact import Run
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.intervals.calibration import LEVELS
from forecaster.estimators.intervals.residuals import DAY_HOURS, pick_hours
from forecaster.estimators.match import Sizes
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.recipe import Recipe

# The simple models by their module. Runs store positions in this order: append only. Of equal
# errors the first is taken, so those that adapt to a change come first.
BASELINES = "forecaster.estimators.baselines"
SIMPLE = {
    "HistoricalMean": f"{BASELINES}.naive",
    "Ridge": f"{BASELINES}.ridge",
    "SeasonalNaive": f"{BASELINES}.naive",
    "LastValue": f"{BASELINES}.naive",
}
NAMES = tuple(SIMPLE)

PREFIX = "fallback."  # of the names of these arrays in a run
MODEL = f"{PREFIX}model"  # of each location: 0 is the run's own, n the n-th simple one
OFFSETS = f"{PREFIX}offsets"  # quantiles of the residuals of the simple models
FACTORS = f"{PREFIX}relative"  # of the mean, for the lowest relative error


@runtime_checkable  # the shape checker of tests asks
class SimpleModel(Protocol):
    """The part of an estimator that a fallback needs."""

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Fit the model to the training windows."""

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """Forecast the steps after every origin."""

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays that forecasts need."""


def simple_model(name: str, recipe: Recipe) -> SimpleModel:
    """A simple model by name; estimators import this module, so it finds them by their names."""
    model: SimpleModel = getattr(import_module(SIMPLE[name]), name)(recipe)
    return model


@dataclass(frozen=True, eq=False)
class FittedSimple:
    """A fitted simple model, and the locations where it is served."""

    model: SimpleModel
    arrays: Arrays
    locations: Int64[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Fallback:
    """The simple models that a run serves at some locations."""

    parts: tuple[FittedSimple, ...]
    locations: Int64[np.ndarray, " F"]  # of all parts, ascending
    offsets: Float32[np.ndarray, "24 Q K F"] | None  # None: the run's model has no quantiles
    # From the mean to the lowest relative error; 0: the model's own is lower. None: it has none.
    factors: Float32[np.ndarray, " N"] | None

    def replace_means(
        self, mean: Float32[np.ndarray, "B K N"], inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The forecasts with those of the simple models at their locations."""
        served = mean.copy()
        for part in self.parts:
            simple = part.model.predict_windows(part.arrays, inputs)
            served[..., part.locations] = simple[..., part.locations]
        return served

    def replace_outputs(self, outputs: WindowForecasts, inputs: ForecastInputs) -> WindowForecasts:
        """All outputs with those of the simple models; quantiles move with their forecast."""
        mean, at = self.replace_means(outputs.mean, inputs), self.locations
        relative, quantiles = outputs.relative, outputs.quantiles.copy()
        quantiles[..., at] += (mean - outputs.mean)[:, None, :, at]
        if relative is not None and self.factors is not None:
            at = at[self.factors[at] > 0]
            relative = relative.copy()
            relative[..., at] = mean[..., at] * self.factors[at]
        return outputs._replace(mean=mean, quantiles=quantiles, relative=relative)

    def replace_quantiles(
        self, outputs: WindowForecasts, hours: Int64[np.ndarray, "B K"]
    ) -> WindowForecasts:
        """The outputs with the quantiles of the simple models' residuals at their locations.

        Args:
            outputs: with the forecasts of the simple models.
            hours: of the local day, of the targets.
        """
        if self.offsets is None or not outputs.quantiles.shape[1]:
            return outputs
        quantiles, at = outputs.quantiles.copy(), self.locations
        quantiles[..., at] = outputs.mean[:, None, :, at] + pick_hours(self.offsets, hours)
        return outputs._replace(quantiles=quantiles)


def fallback_of(run: Run) -> Fallback | None:
    """The fallback of a run; None: it serves its own model everywhere."""
    if MODEL not in run.arrays:
        return None
    model = run.arrays[MODEL]
    parts = []
    for number, name in enumerate(NAMES, start=1):
        locations = np.flatnonzero(model == number)
        if len(locations):
            arrays = _arrays_of(run.arrays, name)
            parts.append(FittedSimple(simple_model(name, run.recipe), arrays, locations))
    return Fallback(
        parts=tuple(parts),
        locations=np.flatnonzero(model),
        offsets=run.arrays.get(OFFSETS),
        factors=run.arrays.get(FACTORS),
    )


def served_models(run: Run) -> dict[str, str]:
    """The simple models that a run serves, by the ids of their locations."""
    model = run.arrays.get(MODEL)
    if model is None:
        return {}
    pairs = zip(run.about["ids"], model.tolist(), strict=True)
    return {identity: NAMES[number - 1] for identity, number in pairs if number}


def describe_fallback(about: Mapping[str, Any]) -> str | None:
    """How often a run falls back, in words; None: it was not compared with simple models."""
    record = about.get("fallback")
    if record is None:
        return None
    if not record["locations"]:
        return f"at none of {record['of']:,} locations"
    names = ", ".join(f"{name} {count:,}" for name, count in record["models"].items())
    where = f"at {record['locations']:,} of {record['of']:,} locations: {names}"
    return f"{where} (better there on validation by more than chance)"


def fallback_shapes(run: Run, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of a run's fallback; a ValueError if it names no known model."""
    model = run.arrays.get(MODEL)
    if model is None:
        return {}
    if model.dtype != np.int64 or model.shape != (sizes.N,):
        raise ValueError(f"{MODEL}: {model.dtype} {model.shape}; needed: int64 {(sizes.N,)}")
    if not model.any() or (model < 0).any() or (model > len(NAMES)).any():
        raise ValueError(f"{MODEL}: 0…{len(NAMES)} are known, and one is above 0")
    shapes: dict[str, tuple[int, ...]] = {MODEL: (sizes.N,)}
    for number in np.unique(model[model > 0]).tolist():
        name = NAMES[number - 1]
        needed = simple_model(name, run.recipe).shapes(sizes)
        shapes |= {f"{PREFIX}{name}.{part}": shape for part, shape in needed.items()}
    if OFFSETS in run.arrays and LEVELS in run.arrays:
        Q, F = run.arrays[LEVELS].size, int((model > 0).sum())
        shapes[OFFSETS] = (DAY_HOURS, Q, sizes.K, F)
    if FACTORS in run.arrays:
        shapes[FACTORS] = (sizes.N,)
    return shapes


def _arrays_of(arrays: Arrays, name: str) -> dict[str, np.ndarray]:
    prefix = f"{PREFIX}{name}."
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
