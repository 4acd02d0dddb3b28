"""Gradient-boosted trees on lags, calendar and weather."""

import logging
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.clock.clock import CALENDAR_COLUMNS, WEEKDAYS
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, DataError, count_of, need_extra
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.trees import Trees
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import scale_ahead, scale_arrays, scale_shapes, scaler_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.splits import history_steps
from forecaster.windows.scaling import Scaler, fit_scaler

E = TypeVar("E", bound="Boosting")
MAX_TRAINING, MAX_VALIDATION = 2_000_000, 500_000  # rows; with the paper's lags 0.7 and 0.2 GB
ROUNDS, PATIENCE = 1_000, 50  # trees of a step ahead at most; trees that may bring nothing
PARAMETERS = {  # what people begin with; squared errors, since RMSE is the first metric
    "objective": "l2",
    "learning_rate": 0.05,
    "num_leaves": 63,
    "feature_fraction": 0.8,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "use_missing": False,  # nothing is missing: histories are filled
    "deterministic": True,  # the same trees from any number of threads
    "force_row_wise": True,
    "verbosity": -1,
}
ALONE = 50_000  # rows up to which one thread is faster than several that wait for each other
MOST_WEIGHT = 1e3  # or its inverse: LightGBM guesses from weights how many rows a leaf holds
BLOCK = 64  # origins forecast at a time, to bound memory
ROWS = 2**16  # rows of a table made at a time, for the same reason
TREES = "trees."  # begins the names of the trees' arrays in a run
BESIDE = 5  # inputs beside lags and covariates: weekday, hour, holiday, mean, deviation
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OriginLocations:
    """Pairs of an origin and a location: the rows of a table."""

    origin: Int64[np.ndarray, " R"]
    place: Int64[np.ndarray, " R"]


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """The inputs, targets and weights of the trees of one step ahead."""

    inputs: list[np.ndarray]  # a part of the rows each
    target: Float32[np.ndarray, " R"]  # scaled
    weight: Float64[np.ndarray, " R"]


class Boosting(Estimator):
    """Gradient-boosted trees (LightGBM): one model per step ahead for all locations.

    `ŷ_{t+k} = Σ trees_k(lags of the location, a_{t+k}, the location's mean and deviation)`. The
    number of trees is chosen on validation.
    """

    seeded = True

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the scales and of the counts; the trees have their own check."""
        return {**scale_shapes(sizes), f"{TREES}count": (sizes.K,)}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Return the trees, and the scales they rest on."""
        lightgbm = need_extra("lightgbm", "baselines")
        scaler, horizon = fit_scaler(data.panel, data.train), self.recipe.lags.horizon
        generator = np.random.default_rng(self.recipe.training.seed)
        windows, places = data.windows, _varied(data)
        N = len(places)
        train = draw_rows(windows.train, places, MAX_TRAINING, generator)
        validation = draw_rows(windows.validation, places, MAX_VALIDATION, generator)
        parameters = {
            **PARAMETERS,
            "seed": int(generator.integers(2**31)),
            "num_threads": 1 if len(train.place) <= ALONE else 0,  # 0: all there are
        }
        steps = []
        for k in range(1, horizon + 1):
            tables = [self._make_table(data, scaler, rows, k) for rows in (train, validation)]
            steps.append(_boost(lightgbm, parameters, *tables))
            log.info("Boosting: %d of %d steps ahead, %d trees", k, horizon, steps[-1].count[0])
        arrays = {TREES + name: array for name, array in Trees.join(steps).to_arrays().items()}
        rows = {
            "train": {"used": len(train.place), "of": N * len(windows.train)},
            "validation": {"used": len(validation.place), "of": N * len(windows.validation)},
        }
        return FitResult({**scale_arrays(scaler), **arrays}, {"rows": rows})

    def _make_table(
        self, data: TrainingData, scaler: Scaler, rows: OriginLocations, k: int
    ) -> TrainingTable:
        """Return what is learned from of step t+k; rows whose target is missing are left out."""
        lags, scale = self.recipe.lags, scaler.values
        truth = data.panel.values[rows.origin + k, rows.place]
        seen = np.isfinite(truth)
        if not seen.any():
            what = f"no value {k} steps ahead is observed in {count_of(len(seen), 'row')}"
            raise DataError(f"{what} of training or validation; choose longer splits")
        origin, place = rows.origin[seen], rows.place[seen]
        inputs = []
        for start in range(0, len(origin), ROWS):
            part = slice(start, start + ROWS)
            origins, row = np.unique(origin[part], return_inverse=True)
            ahead = look_ahead(data.filled, origins, lags.horizon)
            origin_inputs = ForecastInputs(data.filled, origins, *ahead)
            inputs.append(
                make_inputs(origin_inputs, scaler, lags, OriginLocations(row, place[part]), k)
            )
        target = (truth[seen] - scale.mean[place]) / scale.deviation[place]
        return TrainingTable(inputs, target, _weigh(scale.deviation, place))

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """Return the sums over the trees in the panel's units."""
        trees, scaler, lags = self.trees(arrays), scaler_of(arrays), self.recipe.lags
        N = len(scaler.values.mean)
        varied = arrays["shared.most"] > arrays["shared.least"]  # what never did keeps its mean
        forecasts = []
        for start in range(0, len(inputs.origins), BLOCK):
            part = inputs.rows(start, start + BLOCK)
            rows = OriginLocations(*np.divmod(np.arange(len(part.origins) * N), N))
            sums = [
                varied
                * trees.predict(k, make_inputs(part, scaler, lags, rows, k + 1)).reshape(-1, N)
                for k in range(lags.horizon)
            ]
            forecasts.append(scaler.values.undo(np.stack(sums, axis=1).astype(np.float32)))
        return np.concatenate(forecasts)

    def trees(self, arrays: Arrays) -> Trees:
        """Return the trees that a run remembers."""
        own = {n.removeprefix(TREES): a for n, a in arrays.items() if n.startswith(TREES)}
        covariates = len(arrays["covariates.mean"]) + len(arrays["local_covariates.mean"])
        return Trees.from_arrays(own, self.recipe.lags.length + covariates + BESIDE)

    @classmethod
    def from_run(cls: type[E], run: Run) -> E:
        """Return a fitted estimator around a run whose trees are trees."""
        estimator = super().from_run(run)
        try:
            estimator.trees(run.arrays)
        except (KeyError, ValueError) as error:
            raise ArtifactError(f"not a forecaster run of a {run.estimator} ({error})") from error
        return estimator


def draw_rows(
    origins: Int64[np.ndarray, " B"],
    places: Int64[np.ndarray, " N"],
    most: int,
    generator: np.random.Generator,
) -> OriginLocations:
    """Return every origin at every given location; of too many, one by chance of each few.

    Few are those that follow each other, so all origins and locations keep their shares.
    """
    total = len(origins) * len(places)
    count = min(total, most)
    edges = np.arange(count + 1) * total // count
    number, place = np.divmod(generator.integers(edges[:-1], edges[1:]), len(places))
    return OriginLocations(origins[number], places[place])


def _varied(data: TrainingData) -> Int64[np.ndarray, " N"]:
    """Return the locations that are learned from: the others keep their mean, whatever trees say.

    Where none ever varied, all of them: there must be something to learn from.
    """
    seen = data.panel.values[data.train]
    varied = np.flatnonzero(np.fmax.reduce(seen, axis=0) > np.fmin.reduce(seen, axis=0))
    return varied if len(varied) else np.arange(seen.shape[1])


def make_inputs(
    inputs: ForecastInputs, scaler: Scaler, lags: LagConfig, rows: OriginLocations, k: int
) -> Float32[np.ndarray, "R F"]:
    """Return what the trees of step t+k see.

    Args:
        inputs: some origins.
        scaler: fitted on training steps.
        lags: which past steps are seen.
        rows: origins, by their number in the inputs, each at one location.
        k: how many steps ahead.
    """
    scale, place = scaler.values, rows.place
    mean, deviation = scale.mean[place, None], scale.deviation[place, None]
    history = history_steps(inputs.panel, lags, inputs.origins)[rows.origin]
    past = (inputs.panel.values[history, place[:, None]] - mean) / deviation
    world, own = scale_ahead(inputs, scaler)
    weather, calendar = np.split(world[rows.origin, k - 1], [-len(CALENDAR_COLUMNS)], axis=1)
    numbers, own = _number_calendar(calendar), own[rows.origin, k - 1, :, place]  # [R, 3], [R, Q]
    return np.concatenate([past, weather, numbers, own, mean, deviation], axis=1)


def _number_calendar(calendar: Float32[np.ndarray, "R 32"]) -> Float32[np.ndarray, "R 3"]:
    """Return weekday, hour and holiday as numbers, which trees can split anywhere."""
    days = len(WEEKDAYS)
    parts = calendar[:, :days].argmax(axis=1), calendar[:, days:-1].argmax(axis=1), calendar[:, -1]
    return np.stack(parts, axis=1).astype(np.float32)


def _weigh(
    deviation: Float32[np.ndarray, " N"], place: Int64[np.ndarray, " R"]
) -> Float64[np.ndarray, " R"]:
    """Return what a row weighs: σ² of its location, so that errors count in the panel's units.

    Differs from that where locations differ by more than `MOST_WEIGHT` from the middle one.
    """
    own = deviation.astype(np.float64)
    share = own / np.median(own[np.unique(place)])
    return np.asarray(np.clip(share**2, 1 / MOST_WEIGHT, MOST_WEIGHT)[place])


def _boost(
    lightgbm: ModuleType,
    parameters: dict[str, Any],
    train: TrainingTable,
    validation: TrainingTable,
) -> Trees:
    """Return the trees up to the one with the lowest validation error."""
    data = lightgbm.Dataset(train.inputs, train.target, weight=train.weight, params=parameters)
    judge = data.create_valid(validation.inputs, validation.target, weight=validation.weight)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    booster = lightgbm.train(parameters, data, ROUNDS, valid_sets=[judge], callbacks=[stop])
    return Trees.from_dump(booster.dump_model())
