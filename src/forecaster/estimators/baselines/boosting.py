"""Gradient-boosted trees on lags, calendar and weather."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.clock.clock import CALENDAR_COLUMNS, WEEKDAYS
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, DataError, count_of, need_extra
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.objectives import LIGHTGBM_NAMES, objective_of
from forecaster.estimators.baselines.step_models import (
    ALL_STEPS,
    ModelInputs,
    model_inputs,
    modelled_steps,
    steps_of_models,
    training_inputs,
)
from forecaster.estimators.baselines.trees import Trees
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import scale_arrays, scale_shapes, scaler_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.remaining import RemainingTime, Seconds, describe_seconds
from forecaster.splits import history_steps
from forecaster.training.progress import ProgressCallback, ProgressUpdate
from forecaster.windows.scaling import Scaler, fit_scaler

MAX_TRAINING, MAX_VALIDATION = 2_000_000, 500_000  # rows; with the paper's lags 0.7 and 0.2 GB
# Rows of the models of all steps together: 24 steps then take as long as three of all rows.
MAX_TRAINING_SUM, MAX_VALIDATION_SUM = 3 * MAX_TRAINING, 3 * MAX_VALIDATION
ROUNDS, PATIENCE = 1_000, 50  # most trees of a step ahead; trees without improvement
PARAMETERS = {  # common starting values
    "learning_rate": 0.05,
    "num_leaves": 63,
    "feature_fraction": 0.8,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "use_missing": False,  # histories are filled
    "deterministic": True,  # the same trees with any number of threads
    "force_row_wise": True,
    "verbosity": -1,
}
MAX_SINGLE_THREAD = 50_000  # rows up to which one thread is faster than several
MAX_WEIGHT = 1e3  # and its inverse: LightGBM estimates from weights how many rows a leaf holds
BLOCK = 64  # origins forecast at a time, to bound memory
ROWS = 2**16  # rows of a table made at a time, for the same reason
TREES = "trees."  # prefix of the names of the trees' arrays in a run
OTHER_INPUTS = 5  # besides lags and covariates: weekday, hour, holiday, mean, deviation
MANY_TREES = 700  # that a model seldom exceeds; for estimates only
TOLD_TREES = 10  # so many are told at a time
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OriginLocations:
    """Pairs of an origin and a location: the rows of a table."""

    origin: Int64[np.ndarray, " R"]
    location: Int64[np.ndarray, " R"]


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """The inputs, targets and weights of the trees of one step ahead."""

    inputs: list[np.ndarray]  # blocks of rows
    target: Float32[np.ndarray, " R"]  # as the objective takes it
    weight: Float64[np.ndarray, " R"]


class Boosting(Estimator):
    """Gradient-boosted trees (LightGBM): one model per step ahead for all locations.

    `ŷ_{t+k} = Σ trees_k(lags of the location, a_{t+k}, the location's mean and deviation)`; with
    `boosting.objective = "poisson"` the exponential of that sum (`objectives`). The number of
    trees is chosen on validation. Beyond 24 steps ahead only some have trees of their own
    (`step_models`).
    """

    seeded = True
    falls_back = True

    def __init__(self, recipe: Recipe | None = None) -> None:
        super().__init__(recipe)
        self._read: tuple[Arrays, Trees] | None = None  # the last ones, which were checked

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and of the counts; the trees are checked by `Trees`."""
        every = {} if sizes.K > ALL_STEPS else {f"{TREES}count": (sizes.K,)}
        return {**scale_shapes(sizes), **every}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Boost the trees of every step ahead that has its own."""
        objective = self.recipe.boosting.objective
        if objective == "poisson" and data.panel.kind != "count":
            raise ConfigError(
                f'boosting.objective = "poisson" is for counts, and these are {data.panel.kind}s; '
                'take "squares"'
            )
        lightgbm = need_extra("lightgbm", "baselines")
        scaler = fit_scaler(data.panel, data.train)
        steps = modelled_steps(self.recipe.lags.horizon)
        generator = np.random.default_rng(self.recipe.training.seed)
        windows, locations = data.windows, varied_locations(data)
        N = len(locations)
        most = min(MAX_TRAINING, max(MAX_TRAINING_SUM // len(steps), 1))
        train = draw_rows(windows.train, locations, most, generator)
        most = min(MAX_VALIDATION, max(MAX_VALIDATION_SUM // len(steps), 1))
        validation = draw_rows(windows.validation, locations, most, generator)
        parameters = {
            **PARAMETERS,
            "objective": LIGHTGBM_NAMES[objective],
            "seed": int(generator.integers(2**31)),
            "num_threads": 1 if len(train.location) <= MAX_SINGLE_THREAD else 0,  # 0: all
        }
        models, progress = [], BoostingProgress(len(steps), data.on_progress)
        for k in steps:
            tables = [self._make_table(data, scaler, rows, k) for rows in (train, validation)]
            models.append(_boost(lightgbm, parameters, tables, progress.count_tree))
            progress.end_model(k)
        arrays = {TREES + name: array for name, array in Trees.join(models).to_arrays().items()}
        rows = {
            "train": {"used": len(train.location), "of": N * len(windows.train)},
            "validation": {"used": len(validation.location), "of": N * len(windows.validation)},
        }
        return FitResult({**scale_arrays(scaler), **arrays}, {"rows": rows})

    def _make_table(
        self, data: TrainingData, scaler: Scaler, rows: OriginLocations, k: int
    ) -> TrainingTable:
        """The table of step t+k; rows whose target is missing are left out."""
        lags = self.recipe.lags
        objective = objective_of(self.recipe.boosting.objective, scaler.values)
        truth = data.panel.values[rows.origin + k, rows.location]
        observed = np.isfinite(truth)
        if not observed.any():
            raise DataError(
                f"no value {k} steps ahead is observed in {count_of(len(observed), 'row')} of "
                "training or validation; choose longer splits"
            )
        origin, location = rows.origin[observed], rows.location[observed]
        inputs = []
        for start in range(0, len(origin), ROWS):
            block = slice(start, start + ROWS)
            origins, row = np.unique(origin[block], return_inverse=True)
            auxiliary, local = training_inputs(data.filled, origins, (k,), scaler)
            coming = ModelInputs.of_step(origins, auxiliary[:, 0], local[:, 0], k)
            pairs = OriginLocations(row, location[block])
            inputs.append(make_inputs(data.filled, coming, scaler, lags, pairs))
        target = objective.targets(truth[observed], location)
        return TrainingTable(inputs, target, _weigh(objective.deviation, location))

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The sums over the trees in the panel's units."""
        trees, scaler, lags = self.trees(arrays), scaler_of(arrays), self.recipe.lags
        N = len(scaler.values.mean)
        varied = arrays["shared.most"] > arrays["shared.least"]  # others keep their mean
        steps = steps_of_models(len(trees.count), lags.horizon)
        sums = np.empty((len(inputs.origins), lags.horizon, N), dtype=np.float32)
        for number, coming in enumerate(model_inputs(inputs, scaler, steps)):
            scaled = []
            for start in range(0, len(coming.origins), BLOCK):
                count = len(coming.origins[start : start + BLOCK])
                rows = OriginLocations(*np.divmod(np.arange(count * N), N))
                rows = OriginLocations(start + rows.origin, rows.location)
                table = make_inputs(inputs.panel, coming, scaler, lags, rows)
                scaled.append(varied * trees.predict(number, table).reshape(-1, N))
            sums[:, coming.columns] = coming.spread(np.concatenate(scaled))
        return objective_of(self.recipe.boosting.objective, scaler.values).forecasts(sums)

    def trees(self, arrays: Arrays) -> Trees:
        """The trees of a run, which are checked once."""
        if self._read is not None and self._read[0] is arrays:
            return self._read[1]
        fields = {n.removeprefix(TREES): a for n, a in arrays.items() if n.startswith(TREES)}
        covariates = len(arrays["covariates.mean"]) + len(arrays["local_covariates.mean"])
        trees = Trees.from_arrays(fields, self.recipe.lags.length + covariates + OTHER_INPUTS)
        self._read = arrays, trees  # replaced as a whole: a service forecasts in threads
        return trees

    def check_arrays(self, arrays: Arrays) -> None:
        """Refuse arrays that are no trees, or trees of another horizon."""
        steps_of_models(len(self.trees(arrays).count), self.recipe.lags.horizon)


class BoostingProgress:
    """Counts the trees of all models, and estimates how many follow and how long they take."""

    def __init__(
        self, models: int, tell: ProgressCallback | None, now: Seconds = time.monotonic
    ) -> None:
        self._models, self._tell, self._time = models, tell, RemainingTime(now)
        self._finished = list[int]()  # trees of each finished model
        self._trees = self._best = 0  # of the present one, and up to its lowest error
        self._error = math.inf  # the lowest so far

    def count_tree(self, moment: Any) -> None:
        """Count a tree; LightGBM calls it after each."""
        self._trees, error = moment.iteration + 1, moment.evaluation_result_list[0][2]
        if error < self._error:
            self._error, self._best = error, self._trees
        if self._trees % TOLD_TREES == 0:
            self._report()

    def end_model(self, step: int) -> None:
        """Count a model as finished."""
        trees, done = self._trees, len(self._finished) + 1
        self._finished.append(trees)
        self._trees, self._best, self._error = 0, 0, math.inf
        text = f"{done} of {self._models} models, step {step} ahead: {count_of(trees, 'tree')}"
        seconds_left = self.seconds_left()
        self._report(
            f"Boosting: {text}" + (f"; {describe_seconds(seconds_left)}" if seconds_left else "")
        )

    def expect_trees(self) -> float:
        """Estimate the trees of all models.

        A model is expected to have as many as the finished ones on average. The first one ends
        soon if its error no longer falls; otherwise only a range is known, from the trees it has
        to many, and the geometric mean of both is taken.
        """
        unfinished = self._models - len(self._finished)
        if not unfinished:
            return float(sum(self._finished))
        waited = self._trees - self._best
        if self._finished:
            mean = sum(self._finished) / len(self._finished)
        elif waited >= TOLD_TREES:
            mean = float(self._best + PATIENCE)
        else:
            mean = math.sqrt(max(self._trees, 1) * MANY_TREES)
        least = max(self._trees, min(self._best + PATIENCE, MANY_TREES))  # it ends no earlier
        present = max(least, mean)
        return sum(self._finished) + present + (unfinished - 1) * mean

    def seconds_left(self) -> float | None:
        """Estimate the time that the remaining trees take."""
        return self._time.seconds(sum(self._finished) + self._trees, self.expect_trees())

    def _report(self, message: str | None = None) -> None:
        if message is not None:
            log.info(message)
        if self._tell is None:
            return
        done = sum(self._finished) + self._trees
        self._tell(
            ProgressUpdate(
                epoch=min(len(self._finished) + 1, self._models), epochs=self._models,
                step=done, steps=round(max(self.expect_trees(), done, 1)),
                loss=None, rmse=None, mape=None, windows_per_second=None,
                seconds_left=self.seconds_left(), message=message, unit="model",
            )
        )  # fmt: skip


def draw_rows(
    origins: Int64[np.ndarray, " B"],
    locations: Int64[np.ndarray, " N"],
    most: int,
    generator: np.random.Generator,
) -> OriginLocations:
    """Every pair of origin and location, or at most `most` of them by stratified sampling.

    One pair is drawn from each run of neighbouring pairs, so that all origins and locations keep
    their shares.
    """
    total = len(origins) * len(locations)
    count = min(total, most)
    edges = np.arange(count + 1) * total // count
    number, location = np.divmod(generator.integers(edges[:-1], edges[1:]), len(locations))
    return OriginLocations(origins[number], locations[location])


def varied_locations(data: TrainingData) -> Int64[np.ndarray, " N"]:
    """The locations whose training values vary; all of them if none does.

    The forecast of a location that never varied is its mean, whatever the trees give.
    """
    values = data.panel.values[data.train]
    varied = np.flatnonzero(np.fmax.reduce(values, axis=0) > np.fmin.reduce(values, axis=0))
    return varied if len(varied) else np.arange(values.shape[1])


def make_inputs(
    panel: Panel, coming: ModelInputs, scaler: Scaler, lags: LagConfig, rows: OriginLocations
) -> Float32[np.ndarray, "R F"]:
    """The inputs of the trees of one step ahead.

    Args:
        panel: every missing value filled.
        coming: the origins and the covariates of their targets.
        scaler: fitted on training steps.
        lags: the past steps of a window.
        rows: origins, by their number in `coming`, each at one location.
    """
    scale, location = scaler.values, rows.location
    mean, deviation = scale.mean[location, None], scale.deviation[location, None]
    distinct, row = np.unique(rows.origin, return_inverse=True)
    history = history_steps(panel, lags, coming.origins[distinct])[row]
    past = (panel.values[history, location[:, None]] - mean) / deviation
    auxiliary = coming.auxiliary[rows.origin]
    weather, calendar = np.split(auxiliary, [-len(CALENDAR_COLUMNS)], axis=1)
    columns = (
        past,
        weather,
        _number_calendar(calendar),
        coming.local[rows.origin, :, location],  # [R, Q]
        mean,
        deviation,
    )
    return np.concatenate(columns, axis=1)


def _number_calendar(calendar: Float32[np.ndarray, "R 32"]) -> Float32[np.ndarray, "R 3"]:
    """Weekday, time of day and holiday as numbers, which trees can split anywhere.

    The time is in hours, with its minutes as a fraction.
    """
    shares, rows = calendar[:, len(WEEKDAYS) : -1], np.arange(len(calendar))
    H, hour = shares.shape[1], shares.argmax(axis=1)
    time = (hour + shares[rows, (hour + 1) % H] - shares[rows, hour - 1]) % H
    weekday = calendar[:, : len(WEEKDAYS)].argmax(axis=1)
    return np.stack([weekday, time, calendar[:, -1]], axis=1).astype(np.float32)


def _weigh(
    deviation: Float32[np.ndarray, " N"], location: Int64[np.ndarray, " R"]
) -> Float64[np.ndarray, " R"]:
    """The weight of each row: σ² of its location, so that errors count in the panel's units.

    Weights are relative to the median location and limited by `MAX_WEIGHT`.
    """
    sigma = deviation.astype(np.float64)
    relative = sigma / np.median(sigma[np.unique(location)])
    return np.asarray(np.clip(relative**2, 1 / MAX_WEIGHT, MAX_WEIGHT)[location])


def _boost(
    lightgbm: ModuleType,
    parameters: dict[str, Any],
    tables: Sequence[TrainingTable],
    count_tree: Callable[[Any], None],
) -> Trees:
    """The trees up to the one with the lowest validation error.

    Args:
        lightgbm: the module.
        parameters: of the trees.
        tables: of training and of validation.
        count_tree: called after each tree.
    """
    train, validation = tables
    data = lightgbm.Dataset(train.inputs, train.target, weight=train.weight, params=parameters)
    valid = data.create_valid(validation.inputs, validation.target, weight=validation.weight)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    callbacks = [count_tree, stop]  # the second ends the loop
    booster = lightgbm.train(parameters, data, ROUNDS, valid_sets=[valid], callbacks=callbacks)
    return Trees.from_dump(booster.dump_model())
