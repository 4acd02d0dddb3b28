from dataclasses import replace

import numpy as np
import pytest

from forecaster.artifact import Run
from forecaster.errors import DataError, RunError
from forecaster.estimators.asking import ask, fill_of, find_places, finish
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.splits import Splits

PANEL = small_city()


@pytest.fixture(scope="module")
def run() -> Run:
    fitted = SeasonalNaive(RECIPE).fit(PANEL, Splits.by_share(PANEL))
    assert fitted.run is not None
    return fitted.run


def test_a_question_has_no_holes_and_ends_at_its_last_origin(run: Run) -> None:
    question = ask(run, PANEL, np.array([700, 731]), "observed")
    assert np.isfinite(question.panel.values).all()
    assert question.panel.times[question.origins[1]] == PANEL.times[731]
    assert len(question.panel.values) == question.origins[1] + 1
    np.testing.assert_array_equal(question.covariates[0], PANEL.covariates.values[701:703])


def test_holes_are_filled_with_the_means_that_the_run_remembers(run: Run) -> None:
    values = PANEL.values.copy()
    values[700, 3] = np.nan
    question = ask(run, replace(PANEL, values=values), np.array([700]), "observed")
    slot = PANEL.clock.slot_of_week(PANEL.times[700:701])[0]
    assert question.panel.values[-1, 3] == fill_of(run).values[slot, 3]


def test_covariates_that_nobody_knows_are_refused(run: Run) -> None:
    weather = PANEL.covariates.values.copy()
    weather[702, 1] = np.nan
    holed = replace(PANEL, covariates=replace(PANEL.covariates, values=weather))
    ask(run, holed, np.array([699]), "observed")
    with pytest.raises(DataError, match="covariates ahead are missing"):
        ask(run, holed, np.array([699, 700]), "observed")
    ask(run, holed, np.array([699, 700]), "persist")


def test_places_are_found_by_id() -> None:
    other = PANEL.select(("place 4", "place 0", "place 2", "place 1", "place 3"))
    assert find_places(PANEL, other) == [4, 0, 2, 1, 3]


def test_counts_are_not_negative_and_nothing_is_nan(run: Run) -> None:
    forecast = np.array([[[-1.0, 2.0]]], dtype=np.float32)
    assert finish(run, forecast).tolist() == [[[0, 2]]]
    measured = replace(run, about={**run.about, "kind": "measurement"})
    assert finish(measured, forecast).tolist() == [[[-1, 2]]]
    with pytest.raises(RunError, match="SeasonalNaive gave NaN or infinity"):
        finish(run, forecast * np.float32(np.inf))
