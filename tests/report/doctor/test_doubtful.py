"""Implausible and repeated values of a panel, without a run."""

import numpy as np
import pandas as pd
import pytest

from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.report.doctor.doubtful import Doubtful, find_doubtful

WEEKS, PLACES = 11, 7
HOURS = 24 * 7 * WEEKS
NEW_YORK = "America/New_York"


def counts() -> np.ndarray:
    hourly = 30 + 20 * np.sin(np.arange(HOURS) / 24 * 2 * np.pi)
    return np.random.default_rng(3).poisson(np.outer(hourly, np.linspace(1, 3, PLACES))) * 1.0


def temperatures() -> np.ndarray:
    hourly = 5 * np.sin(np.arange(HOURS) / 24 * 2 * np.pi)
    return hourly[:, None] + np.random.default_rng(4).normal(0, 1, (HOURS, PLACES))


def doubtful(values: np.ndarray, recipe: Recipe | None = None, **given: str) -> Doubtful:
    times = pd.date_range("2015-01-04", periods=len(values), freq="h", tz=NEW_YORK)
    frame = pd.DataFrame(values, columns=[f"p{n}" for n in range(values.shape[1])])
    frame.insert(0, "time", times.tz_convert("UTC"))
    panel = Panel.from_wide(frame, timezone=NEW_YORK, **given)
    return find_doubtful(panel, recipe or Recipe())


def test_an_ordinary_panel_has_none() -> None:
    assert doubtful(counts()) == ([], [])
    assert doubtful(temperatures(), kind="measurement") == ([], [])


@pytest.mark.parametrize("step", [24 * 7 * 3 + 5, HOURS - 30])  # in training, and after it
def test_a_value_out_of_range_is_named_with_what_is_plausible(step: int) -> None:
    values = counts()
    values[step, 2] = 4_000
    ((_, text),) = doubtful(values).implausible
    time = pd.date_range("2015-01-04", periods=HOURS, freq="h", tz=NEW_YORK)[step]
    assert text.startswith(f"p2, {time:%Y-%m-%d %H:%M}: 4,000, at most ")
    most = float(text.removesuffix(" is plausible").rpartition(" ")[2].replace(",", ""))
    assert np.median(values[step % 24 :: 24, 2]) < most < 400


def test_a_measurement_may_be_too_low() -> None:
    values = temperatures()
    values[HOURS - 30, 4] = -273
    ((_, text),) = doubtful(values, kind="measurement").implausible
    assert "-273, at least -" in text


def test_a_stuck_sensor_is_one_run() -> None:
    values = counts()
    values[HOURS - 60 : HOURS - 20, 5] = 57
    (length, text), *others = doubtful(values).repeated
    assert not others
    assert length == 40
    assert text == "p5, up to 2015-03-21 04:00: 57 for 40 steps"


def test_zeros_of_counts_have_their_own_check() -> None:
    values = counts()
    values[HOURS - 60 : HOURS - 20, 5] = 0
    assert doubtful(values) == ([], [])


def test_a_short_panel_is_not_judged() -> None:
    values = counts()[: 24 * 7 * 5]
    values[-3, 1] = 4_000
    assert doubtful(values) == ([], [])


def test_training_is_that_of_the_recipe() -> None:
    values = counts()
    values[5 : 24 * 7 * 6 : 24 * 7, 2] = 4_000  # every week up to the sixth
    assert doubtful(values) == ([], [])
    late = {"train": [["2015-02-16", "2015-03-18"]], "validation": [["2015-03-19", "2015-03-19"]]}
    recipe = Recipe.of({"splits": late | {"test": [["2015-03-20", "2015-03-21"]]}})
    assert len(doubtful(values, recipe).implausible) == 6


def test_missing_values_and_empty_places_are_not_doubted() -> None:
    values = counts()
    values[:, 3] = np.nan
    values[HOURS - 200 :, 1] = np.nan
    values[:500, 0] = np.nan
    assert doubtful(values) == ([], [])
