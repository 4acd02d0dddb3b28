"""The contract of every estimator: fit, forecast, save, load.

An estimator says two things: what it learns (`learn`) and how it answers (`answer`). All else is
the same for all of them and lives here: which windows, what stands for missing values, that
locations are matched by id, that nothing after the origin is seen, that counts are not negative.
"""

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float32, Int64

from forecaster.artifact import Run, load_run, save_run
from forecaster.config import LagConfig, Recipe, Weather
from forecaster.errors import ArtifactError, DataError, RunError, count_of
from forecaster.estimators.asking import (
    ask,
    find_places,
    finish,
    learned_steps,
    refuse_non_finite,
    remember,
    warn_of_recent,
)
from forecaster.estimators.intervals import (
    LEVELS,
    Base,
    Calibration,
    Outcomes,
    calibrate,
    local_hours,
    refuse_few,
)
from forecaster.estimators.lesson import Arrays, Learned, Lesson, prepare
from forecaster.estimators.match import Sizes, check_run, country_of, describe, match
from forecaster.estimators.question import (
    Changes,
    Question,
    find_origin,
    look_back,
    refuse_missing,
    refuse_unknown_future,
)
from forecaster.estimators.table import forecast_table
from forecaster.estimators.tracking import can_count, follow
from forecaster.estimators.what_if import (
    WhatIf,
    add_changed,
    read_changes,
    warn_outside,
)
from forecaster.panel.panel import Panel
from forecaster.splits import Splits, cut_windows, history_steps
from forecaster.training.progress import Watch
from forecaster.windows.scaling import fit_scaler

E = TypeVar("E", bound="Estimator")  # typing.Self is not understood by the shape checker
BLOCK = 512  # origins answered at a time, to bound memory
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

    @abstractmethod
    def learn(self, lesson: Lesson) -> Learned:
        """Return everything that has to be remembered."""

    @abstractmethod
    def answer(self, arrays: Arrays, question: Question) -> Float32[np.ndarray, "B K N"]:
        """Return the forecasts for every origin of the question."""

    def answer_quantiles(
        self, arrays: Arrays, question: Question
    ) -> tuple[Float32[np.ndarray, "B K N"], Float32[np.ndarray, "B Q K N"]]:
        """Return the forecasts and quantiles of the estimator's own; here it has none (Q = 0)."""
        forecast = self.answer(arrays, question)
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
        watch: Watch | None = None,
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
        learned = self.learn(replace(lesson, folder=place, watch=watch))
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
        arrays |= self._calibrate(run, lesson)
        self.run = run
        return self

    def _calibrate(self, run: Run, lesson: Lesson) -> dict[str, np.ndarray]:
        """Return what makes quantiles hold, learned from the validation windows."""
        panel, origins = lesson.panel, lesson.windows.validation
        forecast, own = self.answer_all(run, panel, origins, "observed")
        ahead = origins[:, None] + np.arange(1, run.recipe.lags.horizon + 1)
        outcomes = Outcomes(
            residuals=panel.values[ahead] - forecast,
            own=own - forecast[:, None],
            hours=local_hours(panel, ahead),
            days=panel.clock.local(panel.times[origins]).astype("datetime64[D]").astype(np.int64),
        )
        deviation = fit_scaler(panel, lesson.train).values.deviation
        return calibrate(outcomes, run.recipe.intervals.quantiles, deviation)

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
        answers = [
            self.answer(
                run.arrays, ask(run, known, origins[start : start + BLOCK], weather, changes)
            )
            for start in range(0, len(origins), BLOCK)
        ]
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
        run, levels = _fitted(self), self.levels
        known, horizon = match(run, panel), run.recipe.lags.horizon
        if not len(origins) or not levels:
            shape = len(origins), len(levels), horizon, len(panel.locations)
            return np.empty(shape, dtype=np.float32)
        calibration = Calibration.from_arrays(run.arrays, run.about["kind"])

        def give(steps: Int64[np.ndarray, " S"]) -> Base:
            forecast, own = self.answer_all(run, known, steps, weather)
            hours = local_hours(known, steps[:, None] + np.arange(1, horizon + 1))
            return calibration.base(forecast, own, hours)

        if online:
            learned = learned_steps(run, known)
            judge = partial(can_count, known, run.recipe.lags, weather, learned)
            quantiles = follow(calibration, known, origins, judge, give)
        else:
            quantiles = calibration.correct(give(origins), calibration.corrections)
        return np.asarray(quantiles[..., find_places(known, panel)])

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
        questions = (
            ask(run, panel, origins[start : start + BLOCK], weather)
            for start in range(0, len(origins), BLOCK)
        )
        forecasts, own = zip(
            *(self.answer_quantiles(run.arrays, question) for question in questions), strict=True
        )
        quantiles = np.concatenate(own)
        refuse_non_finite(run, quantiles)
        return finish(run, np.concatenate(forecasts)), quantiles

    def forecast(
        self,
        panel: Panel,
        at: str,
        *,
        weather: Weather = "observed",
        allow_missing: bool = False,
        what_if: WhatIf | None = None,
    ) -> pd.DataFrame:
        """Return the next steps of every location as a long table.

        Args:
            panel: what was observed up to `at` and what is known of the steps after it.
            at: the last observed step, with its offset: 2014-06-01T08:00-04:00.
            weather: `observed` takes covariates ahead from the panel; `persist`, `climatology`
                and `none` replace them and label the result as degraded.
            allow_missing: forecast although too much of the history is missing; labelled too.
            what_if: other covariates ahead, `rain=1,precip=5mm` or a table of `ds` and
                covariates; adds `y_hat_what_if` and its `difference`.
        """
        run = _fitted(self)
        lags = run.recipe.lags
        matched, at_step = match(run, panel), np.array([find_origin(panel, at)])
        known, own = look_back(matched, lags, at_step)
        origin = int(own[0])
        reasons = [] if weather == "observed" else [f"weather {weather}"]
        if weather == "observed":
            refuse_unknown_future(known, origin, lags.horizon)
        filled = int(np.isnan(known.values[history_steps(known, lags, own)]).sum())
        try:
            refuse_missing(known, lags, origin)
            refuse_missing(known, self.lags, origin)
        except DataError:
            if not allow_missing:
                raise
            reasons.append(f"{count_of(filled, 'missing value')} filled")
        changes = None if what_if is None else read_changes(what_if, known, origin, lags.horizon)
        warn_of_recent(run, known, origin)
        forecast = self.predict(known, own, weather)[0]
        quantiles = self.predict_quantiles(matched, at_step, weather)[0]
        by_level = dict(zip(self.levels, quantiles, strict=True))
        table = forecast_table(known, origin, forecast, by_level, "; ".join(reasons))
        if changes is None:
            return table
        warn_outside(run, changes)
        changed = self.predict(known, own, weather, changes=changes)[0]
        return add_changed(table, changed, run, changes)

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


def with_meaning(recipe: Recipe, panel: Panel) -> Recipe:
    """Return the recipe with what the panel says of itself: its word counts, not the recipe's."""
    meaning: dict[str, Any] = {"timezone": panel.clock.zone, "kind": panel.kind}
    meaning |= {"step_minutes": panel.clock.step_minutes, "country": country_of(panel)}
    return recipe.model_copy(update={"panel": recipe.panel.model_copy(update=meaning)})


def _fitted(estimator: Estimator) -> Run:
    if estimator.run is None:
        raise RunError(f"{type(estimator).__name__} is not fitted yet; call fit(panel, splits)")
    return estimator.run
