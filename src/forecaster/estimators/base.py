"""The contract of every estimator: fit, forecast, save, load.

An estimator has two methods of its own: `fit_windows` and `predict_windows`. All else is the same
for all of them and lives here: which windows, what stands for missing values, that
locations are matched by id, that nothing after the origin is seen, that counts are not negative.
"""

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float32, Int64

from forecaster.artifact import Run, load_run, save_run
from forecaster.choices import Weather
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, RunError
from forecaster.estimators.asking import (
    ask_in_blocks,
    find_places,
    finish,
    remember,
    warn_of_recent,
)
from forecaster.estimators.forecast_inputs import (
    At,
    Changes,
    ForecastInputs,
    find_origin,
    look_back,
    refuse_unknown_future,
    tell_missing,
)
from forecaster.estimators.intervals.calibration import LEVELS, refuse_few
from forecaster.estimators.match import Sizes, check_run, describe, match, with_meaning
from forecaster.estimators.predictor import (
    Prediction,
    Predictor,
    answers_of,
    give_answers,
    learn_intervals,
)
from forecaster.estimators.table import forecast_table
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData, prepare
from forecaster.estimators.what_if import WhatIf, add_changed, read_changes, warn_outside
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows
from forecaster.training.progress import ProgressCallback

E = TypeVar("E", bound="Estimator")  # typing.Self is not understood by the shape checker
log = logging.getLogger(__name__)


class Estimator(ABC):
    """Something that learns from a panel and forecasts the next steps of all its locations.

    The one base class of this package: without it every estimator would repeat these methods.
    """

    seeded: ClassVar[bool] = False  # learns something else with another `training.seed`

    def __init__(self, recipe: Recipe | None = None) -> None:
        self.recipe = recipe or Recipe()
        self.run: Run | None = None  # what was learned, once it was
        self.seconds: float | None = None  # that learning took, with what was resumed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'not fitted yet' if self.run is None else 'fitted'})"

    @abstractmethod
    def fit_windows(self, lesson: TrainingData) -> FitResult:
        """Return everything that has to be remembered."""

    @abstractmethod
    def predict_windows(
        self, arrays: Arrays, question: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """Return the forecasts for every origin of the question."""

    def predict_window_quantiles(
        self, arrays: Arrays, question: ForecastInputs
    ) -> tuple[Float32[np.ndarray, "B K N"], Float32[np.ndarray, "B Q K N"]]:
        """Return the forecasts and quantiles of the estimator's own; here it has none (Q = 0)."""
        forecast = self.predict_windows(arrays, question)
        B, K, N = forecast.shape
        return forecast, np.empty((B, 0, K, N), dtype=np.float32)

    @property
    def levels(self) -> tuple[float, ...]:
        """Which quantiles the fitted run has; none if it was saved before there were any."""
        return tuple(_fitted(self).arrays.get(LEVELS, np.empty(0)).tolist())

    @property
    def lags(self) -> LagConfig:
        """Which past steps are seen: the recipe's, by which windows are cut for all alike."""
        return self.recipe.lags

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Return the arrays that answers need, each with its shape; a run without is refused."""
        del sizes
        return {}

    def fit(
        self: E,
        panel: Panel,
        splits: Splits,
        *,
        folder: Path | str | None = None,
        watch: ProgressCallback | None = None,
    ) -> E:
        """Learn from the training windows; choices are made on the validation windows.

        Args:
            panel: values and covariates; of the test steps nothing is looked at.
            splits: which steps are for what.
            folder: where a long training keeps its checkpoints, so that the same call goes on
                after a kill; None: in memory.
            watch: told how a long training gets on.
        """
        self.recipe = with_meaning(self.recipe, panel)
        tested = cut_windows(panel, splits, self.recipe.lags)
        lesson = prepare(panel, splits, self.recipe.lags)
        windows = replace(lesson.windows, test=tested.test, dropped=tested.dropped)
        log.info("%s: %s", type(self).__name__, windows)
        refuse_few(len(windows.validation), self.recipe.intervals.quantiles)
        place = Path(folder) if folder is not None else None
        began = time.monotonic()
        learned = self.fit_windows(replace(lesson, folder=place, watch=watch))
        self.seconds = learned.seconds or time.monotonic() - began
        own = {"panel": panel.digest} if panel.digest else {}
        arrays = {**learned.arrays, **remember(lesson)}
        run = Run(
            estimator=type(self).__name__,
            recipe=self.recipe,
            about={**describe(panel, splits, windows), **learned.about},
            arrays=arrays,
            parents={**own, **learned.parents},
        )
        arrays |= learn_intervals(self.predict_window_quantiles, run, lesson)
        self.run = run
        return self

    def predict(
        self,
        panel: Panel,
        origins: Int64[np.ndarray, " B"],
        weather: Weather = "observed",
        *,
        changes: Changes | None = None,
    ) -> Float32[np.ndarray, "B K N"]:
        """Return forecasts from many origins, given as steps of the panel, by its locations.

        Args:
            panel: what was observed, and what is known of the steps after each origin.
            origins: the last observed steps.
            weather: what to take for covariates ahead.
            changes: what to suppose of them beside that.
        """
        run = _fitted(self)
        known, horizon = match(run, panel), run.recipe.lags.horizon
        if not len(origins):
            return np.empty((0, horizon, len(panel.locations)), dtype=np.float32)
        questions = ask_in_blocks(run, known, origins, weather, changes)
        answers = [self.predict_windows(run.arrays, question) for question in questions]
        return finish(run, np.concatenate(answers))[..., find_places(known, panel)]

    def predict_quantiles(
        self,
        panel: Panel,
        origins: Int64[np.ndarray, " B"],
        weather: Weather = "observed",
        *,
        online: bool = True,
    ) -> Float32[np.ndarray, "B Q K N"]:
        """Return the quantiles of `levels` from many origins, ascending and calibrated.

        Args:
            panel: what was observed, and what is known of the steps after each origin.
            origins: the last observed steps.
            weather: what to take for covariates ahead.
            online: correct them by the outcomes that were observed up to each origin; else as
                they were calibrated on the validation windows.
        """
        if not len(origins) or not self.levels:
            shape = len(origins), len(self.levels), self.recipe.lags.horizon, len(panel.locations)
            return np.empty(shape, dtype=np.float32)
        if online:
            return self.predict_all(panel, origins, weather).online
        answers = self.answers(panel, weather)
        base = answers.base(origins).at(find_places(answers.panel, panel))
        return answers.calibration.correct(base, answers.calibration.corrections)

    def predict_all(
        self, panel: Panel, origins: Int64[np.ndarray, " B"], weather: Weather = "observed"
    ) -> Prediction:
        """Return forecasts and both forms of their quantiles; each origin is answered once.

        Args:
            panel: what was observed, and what is known of the steps after each origin.
            origins: the last observed steps, one at least.
            weather: what to take for covariates ahead.
        """
        answers = self.answers(panel, weather)
        found = answers.predict(origins)
        return replace(found, base=found.base.at(find_places(answers.panel, panel)))

    def answer_all(
        self, run: Run, panel: Panel, origins: Int64[np.ndarray, " B"], weather: Weather
    ) -> tuple[Float32[np.ndarray, "B K N"], Float32[np.ndarray, "B Q K N"]]:
        """Return forecasts and own quantiles from many origins, by the run's locations.

        Args:
            run: of this estimator, calibrated or not.
            panel: matched to the run.
            origins: the last observed steps.
            weather: what to take for covariates ahead.
        """
        return give_answers(self.predict_window_quantiles, run, panel, weather, origins)

    def answers(self, panel: Panel, weather: Weather) -> Predictor:
        """Return what there is to ask of the fitted run, by its locations."""
        run = _fitted(self)
        return answers_of(self.predict_window_quantiles, run, match(run, panel), weather)

    def forecast(
        self,
        panel: Panel,
        at: At,
        *,
        weather: Weather = "observed",
        allow_missing: bool = False,
        what_if: WhatIf | None = None,
    ) -> pd.DataFrame:
        """Return the next steps of every location as a long table.

        Args:
            panel: what was observed up to `at` and what is known of the steps after it.
            at: the last observed step: `panel.times[-1]`, or 2014-06-01T08:00-04:00.
            weather: `observed` takes covariates ahead from the panel; `persist`, `climatology`
                and `none` replace them and label the result as degraded.
            allow_missing: forecast although too much of the history is missing; labelled too.
            what_if: other covariates ahead, `rain=1,precip=5mm` or a table of `ds` and
                covariates; adds `y_hat_what_if`, its quantiles and its `difference`.
        """
        answers = self.answers(panel, weather)
        run, lags = _fitted(self), self.recipe.lags
        step = np.array([find_origin(panel, at)])
        known, own = look_back(answers.panel, lags, step)
        origin = int(own[0])
        reasons = [] if weather == "observed" else [f"weather {weather}"]
        if weather == "observed":
            refuse_unknown_future(known, origin, lags.horizon)
        reasons += tell_missing(known, (lags, self.lags), origin, allowed=allow_missing)
        changes = None if what_if is None else read_changes(what_if, known, origin, lags.horizon)
        warn_of_recent(run, known, origin)
        found = answers.predict(step)
        table = forecast_table(known, origin, *self._first(found), "; ".join(reasons))
        if changes is None:
            return table
        warn_outside(run, changes)
        changed = answers.suppose(found, step, changes)
        return add_changed(table, *self._first(changed), run, changes)

    def _first(self, found: Prediction) -> tuple[np.ndarray, dict[float, np.ndarray]]:
        """Return the forecast of the first origin [K N], and its quantiles by level."""
        return found.forecast[0], dict(zip(self.levels, found.online[0], strict=True))

    def save(self, folder: Path | str) -> None:
        """Publish what was learned as a folder."""
        self.run = save_run(Path(folder), _fitted(self))

    @classmethod
    def load(cls: type[E], folder: Path | str) -> E:
        """Return the estimator that was saved in a folder."""
        run = load_run(Path(folder))
        if run.estimator != cls.__name__:
            message = f"{folder}: the run of a {run.estimator}, not of a {cls.__name__}"
            raise ArtifactError(f"{message}; load it with that class")
        return cls.from_run(run)

    @classmethod
    def from_run(cls: type[E], run: Run) -> E:
        """Return a fitted estimator around a run that holds together."""
        estimator = cls(recipe=run.recipe)
        check_run(run, estimator.shapes)
        estimator.run = run
        return estimator


def _fitted(estimator: Estimator) -> Run:
    if estimator.run is None:
        raise RunError(f"{type(estimator).__name__} is not fitted yet; call fit(panel, splits)")
    return estimator.run
