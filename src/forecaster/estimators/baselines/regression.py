"""Any regressor with `fit(X, y)` and `predict(X)`, such as scikit-learn's, as an estimator."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32

from forecaster.artifact import Run
from forecaster.errors import ConfigError, DataError, RunError
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.boosting import (
    OriginLocations,
    draw_rows,
    make_inputs,
    varied_locations,
)
from forecaster.estimators.baselines.step_models import (
    ModelInputs,
    model_inputs,
    modelled_steps,
    training_inputs,
)
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import scale_arrays, scale_shapes, scaler_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.recipe import Recipe
from forecaster.windows.scaling import Scaler, fit_scaler

ROWS = 200_000  # that each model is fitted to, at most
BLOCK = 64  # origins forecast at a time, to bound memory


@runtime_checkable
class Regressor(Protocol):
    """A model of one number, as scikit-learn writes them."""

    def fit(self, X: Any, y: Any) -> object:
        """Fit to inputs [rows, features] and targets [rows]."""

    def predict(self, X: Any) -> Any:
        """Return a number for each row."""


class Regression(Estimator):
    """A regressor of another library: one model per step ahead for all locations.

    `ŷ_{t+k} = model_k(lags of the location, a_{t+k}, the location's mean and deviation)`, with the
    inputs of `Boosting`: missing values filled, values of each location standardised. The models
    are held in memory; they cannot be saved.
    """

    saves = False

    def __init__(
        self,
        make_model: Callable[[], Regressor],
        recipe: Recipe | None = None,
        rows: int = ROWS,
    ) -> None:
        """Take what makes a model.

        Args:
            make_model: returns a new regressor, such as `LinearRegression` or
                `lambda: KNeighborsRegressor(20)`; called for each step ahead.
            recipe: lags, horizon, quantile levels.
            rows: at most so many pairs of an origin and a location are learned from.
        """
        super().__init__(recipe)
        if not callable(make_model):
            raise ConfigError(
                f"make_model = {make_model!r}: give what returns a new model, such as its class "
                "or lambda: model(…)"
            )
        self.make_model, self.rows = make_model, rows
        self._models: Sequence[Regressor] = ()

    @property
    def label(self) -> str:
        """The name in tables: that of the model."""
        name = getattr(self.make_model, "__name__", "")
        if not name.isidentifier():  # a lambda
            name = type(self._models[0] if self._models else self.make_model()).__name__
        return f"Regression({name})"

    @property
    def variant(self) -> str:
        """What makes the models, and from how many rows."""
        return f"{id(self.make_model)} {self.rows}"

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales."""
        return scale_shapes(sizes)

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Fit a model for every step ahead that has its own."""
        scaler, models = fit_scaler(data.panel, data.train), []
        generator = np.random.default_rng(self.recipe.training.seed)
        rows = draw_rows(data.windows.train, varied_locations(data), self.rows, generator)
        for k in modelled_steps(self.recipe.lags.horizon):
            inputs, target = self._table(data, scaler, rows, k)
            model = self.make_model()
            model.fit(inputs, target)
            models.append(model)
        self._models = models
        return FitResult(scale_arrays(scaler), {"model": self.label})

    def _table(
        self, data: TrainingData, scaler: Scaler, rows: OriginLocations, k: int
    ) -> tuple[Float32[np.ndarray, "R F"], Float32[np.ndarray, " R"]]:
        """The inputs and targets of step t+k; rows whose target is missing are left out."""
        truth = data.panel.values[rows.origin + k, rows.location]
        observed = np.isfinite(truth)
        if not observed.any():
            raise DataError(f"no value {k} steps ahead is observed; choose longer splits")
        origin, location = rows.origin[observed], rows.location[observed]
        origins, row = np.unique(origin, return_inverse=True)
        auxiliary, local = training_inputs(data.filled, origins, (k,), scaler)
        coming = ModelInputs.of_step(origins, auxiliary[:, 0], local[:, 0], k)
        pairs = OriginLocations(row, location)
        inputs = make_inputs(data.filled, coming, scaler, self.recipe.lags, pairs)
        scale = scaler.values
        return inputs, (truth[observed] - scale.mean[location]) / scale.deviation[location]

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """What the models predict, in the panel's units."""
        scaler, lags = scaler_of(arrays), self.recipe.lags
        N = len(scaler.values.mean)
        varied = arrays["shared.most"] > arrays["shared.least"]  # others keep their mean
        forecasts = np.empty((len(inputs.origins), lags.horizon, N), dtype=np.float32)
        steps = modelled_steps(lags.horizon)
        for model, coming in zip(self._models, model_inputs(inputs, scaler, steps), strict=True):
            blocks = []
            for start in range(0, len(coming.origins), BLOCK):
                count = len(coming.origins[start : start + BLOCK])
                number, location = np.divmod(np.arange(count * N), N)
                rows = OriginLocations(start + number, location)
                table = make_inputs(inputs.panel, coming, scaler, lags, rows)
                scaled = varied * _predict(model, table).reshape(-1, N)
                blocks.append(scaler.values.undo(scaled.astype(np.float32)))
            forecasts[:, coming.columns] = coming.spread(np.concatenate(blocks))
        return forecasts

    def save(self, folder: Path | str) -> NoReturn:
        """Refuse to save: a foreign object can only be pickled."""
        raise ConfigError(f"{folder}: {self.label} {_UNSAVED}")

    @classmethod
    def from_run(cls, run: Run) -> NoReturn:
        """Refuse to load, as nothing is saved."""
        raise ConfigError(f"{run.estimator} {_UNSAVED}")


_UNSAVED = (
    "cannot be saved or loaded: a model of another library can only be pickled, and a pickle runs "
    "code when it is opened; fit it anew, or take Ridge or Boosting"
)


def _predict(model: Regressor, inputs: Float32[np.ndarray, "R F"]) -> Float[np.ndarray, " R"]:
    """What a model predicts; anything but a finite number for each row is refused."""
    predicted = np.asarray(model.predict(inputs))
    if predicted.size != len(inputs) or not np.isfinite(predicted).all():
        name, shape = type(model).__name__, predicted.shape
        raise RunError(
            f"{name}.predict returned {predicted.dtype} {shape} for {len(inputs):,} rows; one "
            "finite number for each is needed"
        )
    return np.asarray(predicted, dtype=np.float64).reshape(-1)
