"""The public suite passes on our estimators and finds what is wrong with broken ones."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from forecaster.config import Recipe, change
from forecaster.estimators.check import CHECKS, check_forecaster
from forecaster.estimators.contract import Estimator
from forecaster.estimators.forecaster import Forecaster
from forecaster.estimators.lesson import Arrays, Learned, Lesson
from forecaster.estimators.naive import SeasonalNaive
from forecaster.estimators.question import Question
from forecaster.estimators.registry import ESTIMATORS, find_estimator
from forecaster.panel.panel import Panel
from forecaster.splits import Splits


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_passes(name: str) -> None:
    assert check_forecaster(lambda recipe: find_estimator(name)(recipe=recipe)) == list(CHECKS)


def test_the_best_preset_passes() -> None:
    best = {"preset": "best", "mixer": {"hidden": 8}}
    made = check_forecaster(lambda recipe: Forecaster(recipe=change(recipe, best, source="best")))
    assert made == list(CHECKS)


class Leaky(SeasonalNaive):
    def answer(self, arrays: Arrays, question: Question) -> np.ndarray:
        later = np.minimum(question.origins + 1, len(question.panel.values) - 1)
        return super().answer(arrays, question) + question.panel.values[later][:, None]


class Peeking(SeasonalNaive):
    """Looks past its lesson, in which there is nothing to see."""

    def fit(self, panel: Panel, splits: Splits, **given: object) -> "Peeking":
        self.total = np.nan_to_num(panel.values).sum(axis=0)
        return super().fit(panel, splits, **given)  # type: ignore[arg-type]

    def learn(self, lesson: Lesson) -> Learned:
        del lesson
        return Learned({"total": self.total})


class Restless(SeasonalNaive):
    calls = 0

    def learn(self, lesson: Lesson) -> Learned:
        del lesson
        Restless.calls += 1
        return Learned({"calls": np.array([Restless.calls])})


class Ordered(SeasonalNaive):
    """Gives its rows the names of the panel's columns, whatever their order."""

    def forecast(self, panel: Panel, at: str, **given: object) -> pd.DataFrame:
        table = super().forecast(panel, at, **given)  # type: ignore[arg-type]
        return table.assign(unique_id=np.repeat(np.array(panel.locations.ids, dtype=object), 2))


class Blocky(SeasonalNaive):
    """Lets the origins of one call influence each other."""

    def answer(self, arrays: Arrays, question: Question) -> np.ndarray:
        return super().answer(arrays, question) + np.float32(len(question.origins))


class Silent(SeasonalNaive):
    def forecast(self, *args: object, **given: object) -> object:
        return super().forecast(*args, **given).drop(columns="degraded", errors="ignore")  # type: ignore[arg-type]


class Dull(SeasonalNaive):
    def forecast(self, *args: object, **given: object) -> object:
        return super().forecast(*args, **given).drop(columns="ds_local")  # type: ignore[arg-type]


class Forgetful(SeasonalNaive):
    """Answers from something that is not saved."""

    extra = 0.0

    def learn(self, lesson: Lesson) -> Learned:
        del lesson
        self.extra = 7.0
        return Learned({})

    def answer(self, arrays: Arrays, question: Question) -> np.ndarray:
        return super().answer(arrays, question) + np.float32(self.extra)


class Crossing(SeasonalNaive):
    def predict_quantiles(self, *args: object, **given: object) -> np.ndarray:
        return super().predict_quantiles(*args, **given)[:, ::-1]  # type: ignore[arg-type]


class Certain(SeasonalNaive):
    """Says that it is always right."""

    def predict_quantiles(self, *args: object, **given: object) -> np.ndarray:
        del given
        forecast = self.predict(*args)[:, None]  # type: ignore[arg-type]
        return np.repeat(forecast, len(self.levels), axis=1)


class Prophetic(SeasonalNaive):
    def predict_quantiles(self, panel: Panel, *args: object, **given: object) -> np.ndarray:
        found = super().predict_quantiles(panel, *args, **given)  # type: ignore[arg-type]
        return found + np.nanmean(panel.values)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (Leaky, "nothing after the origin is seen"),
        (Peeking, "test steps do not change what is learned"),
        (Restless, "fitting again changes nothing"),
        (Ordered, "locations are matched by id"),
        (Blocky, "many origins equal one at a time"),
        (Silent, "an unknown future is refused or labelled"),
        (Dull, "forecasts are a long table"),
        (Forgetful, "a saved estimator answers the same"),
        (Crossing, "quantiles rise and hold: quantiles cross"),
        (Certain, "quantiles rise and hold: .* % in an 80 % interval"),
        (Prophetic, "quantiles see nothing after the origin"),
    ],
)
def test_a_broken_estimator_is_found(broken: type[Estimator], found: str) -> None:
    make: Callable[[Recipe], Estimator] = broken
    with pytest.raises(AssertionError, match=f"(?s).*{found}"):
        check_forecaster(make)
