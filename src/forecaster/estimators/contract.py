"""The contract of every estimator: fit, forecast, save, load.

An estimator says two things: what it learns (`learn`) and how it answers (`answer`). All else is
the same for all of them and lives here: which windows, what stands for missing values, that
locations are matched by id, that nothing after the origin is seen, that counts are not negative.
"""

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float32, Int64

from forecaster.artifact import Run, load_run, save_run
from forecaster.config import LagConfig, Recipe, Weather
from forecaster.errors import ArtifactError, DataError, RunError, count_of, name_some
from forecaster.estimators.lesson import Arrays, Learned, Lesson, prepare
from forecaster.estimators.match import Sizes, check_run, country_of, describe, match
from forecaster.estimators.question import (
    Question,
    find_origin,
    fit_climatology,
    look_ahead,
    look_back,
    refuse_missing,
    refuse_unknown_future,
    with_weather,
)
from forecaster.estimators.table import forecast_table
from forecaster.panel.panel import Panel
from forecaster.splits import Fill, Splits, cut_windows, fill_missing, history_steps
from forecaster.training.progress import Watch

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
        place = Path(folder) if folder is not None else None
        began = time.monotonic()
        learned = self.learn(replace(lesson, folder=place, watch=watch))
        self.seconds = learned.seconds or time.monotonic() - began
        own = {"panel": panel.digest} if panel.digest else {}
        self.run = Run(
            estimator=type(self).__name__,
            recipe=self.recipe,
            about={**describe(panel, splits, windows), **learned.about},
            arrays={**learned.arrays, **_shared(lesson)},
            parents={**own, **learned.parents},
        )
        return self

    def predict(
        self, panel: Panel, origins: Int64[np.ndarray, " B"], weather: Weather = "observed"
    ) -> Float32[np.ndarray, "B K N"]:
        """Return forecasts from many origins, given as steps of the panel, by its locations."""
        run = _fitted(self)
        known, horizon = match(run, panel), run.recipe.lags.horizon
        if not len(origins):
            return np.empty((0, horizon, len(panel.locations)), dtype=np.float32)
        answers = [
            self._answer_block(run, known, origins[start : start + BLOCK], weather)
            for start in range(0, len(origins), BLOCK)
        ]
        forecast = _finish(run, np.concatenate(answers))
        place = {identity: n for n, identity in enumerate(known.locations.ids)}
        return forecast[:, :, [place[identity] for identity in panel.locations.ids]]

    def _answer_block(
        self, run: Run, panel: Panel, origins: Int64[np.ndarray, " B"], weather: Weather
    ) -> Float32[np.ndarray, "B K N"]:
        part, own = look_back(panel, run.recipe.lags, origins)
        whole = fill_missing(part, _fill(run))
        question = Question(whole, own, *look_ahead(part, own, run.recipe.lags.horizon))
        question = with_weather(question, weather, run.arrays["shared.climatology"])
        if np.isnan(question.covariates).any() or np.isnan(question.local_covariates).any():
            raise DataError("covariates ahead are missing at some origins; leave those out")
        return self.answer(run.arrays, question)

    def forecast(
        self,
        panel: Panel,
        at: str,
        *,
        weather: Weather = "observed",
        allow_missing: bool = False,
    ) -> pd.DataFrame:
        """Return the next steps of every location as a long table.

        Args:
            panel: what was observed up to `at` and what is known of the steps after it.
            at: the last observed step, with its offset: 2014-06-01T08:00-04:00.
            weather: `observed` takes covariates ahead from the panel; `persist`, `climatology`
                and `none` replace them and label the result as degraded.
            allow_missing: forecast although too much of the history is missing; labelled too.
        """
        run = _fitted(self)
        lags = run.recipe.lags
        known, own = look_back(match(run, panel), lags, np.array([find_origin(panel, at)]))
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
        _warn_outside(run, known, origin)
        forecast = self.predict(known, own, weather)[0]
        return forecast_table(known, origin, forecast, "; ".join(reasons))

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


def _shared(lesson: Lesson) -> dict[str, np.ndarray]:
    """Return what every run remembers of the training steps."""
    panel, fill, train = lesson.panel, lesson.fill, lesson.train
    seen = panel.values[train]
    return {
        "shared.fill": fill.values,
        "shared.fill_covariates": fill.covariates,
        "shared.fill_local_covariates": fill.local_covariates,
        "shared.climatology": fit_climatology(panel, train),
        "shared.least": np.nan_to_num(np.fmin.reduce(seen, axis=0)),
        "shared.most": np.nan_to_num(np.fmax.reduce(seen, axis=0)),
    }


def _fitted(estimator: Estimator) -> Run:
    if estimator.run is None:
        raise RunError(f"{type(estimator).__name__} is not fitted yet; call fit(panel, splits)")
    return estimator.run


def _fill(run: Run) -> Fill:
    names = ("shared.fill", "shared.fill_covariates", "shared.fill_local_covariates")
    return Fill(*(run.arrays[name] for name in names))


def _finish(run: Run, forecast: Float32[np.ndarray, "B K N"]) -> Float32[np.ndarray, "B K N"]:
    """Refuse what is not a number; counts are never below zero."""
    if not np.isfinite(forecast).all():
        raise RunError(f"{run.estimator} gave NaN or infinity; nothing is forecast")
    if run.about["kind"] != "count":
        return forecast
    below = int((forecast < 0).sum())
    if below:
        log.info("%s: %s below zero set to 0", run.estimator, count_of(below, "forecast"))
    return np.asarray(np.maximum(forecast, np.float32(0)))


def _warn_outside(run: Run, panel: Panel, origin: int) -> None:
    """Warn of recent values far beyond anything seen in training."""
    least, most = run.arrays["shared.least"], run.arrays["shared.most"]
    recent = panel.values[max(origin - run.recipe.lags.recent + 1, 0) : origin + 1]
    smallest = 1.0 if run.about["kind"] == "count" else 0.0  # one ride is no surprise
    reach = np.maximum(most - least, smallest)
    far = ((recent > most + reach) | (recent < least - reach)).any(axis=0)
    if far.any():
        ids = name_some(panel.locations.ids[n] for n in np.flatnonzero(far))
        what = count_of(int(far.sum()), "location")
        log.warning("outside training range: recent values of %s (%s)", what, ids)
