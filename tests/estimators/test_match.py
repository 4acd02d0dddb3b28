from dataclasses import replace

import numpy as np
import pytest

from forecaster.artifact import Run
from forecaster.errors import ArtifactError
from forecaster.estimators.match import check_run, country_of, match
from forecaster.estimators.naive import SeasonalNaive
from forecaster.estimators.sample import RECIPE, small_city
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.splits import Splits


@pytest.fixture
def run() -> Run:
    panel = small_city()
    own = np.random.default_rng(0).normal(size=(2, 1036, 5)).astype(np.float32)
    panel = replace(panel, local_covariates=LocalCovariates(("queue", "price"), own))
    fitted = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel))
    assert fitted.run is not None
    return fitted.run


def test_covariates_of_locations_are_matched_by_name(run: Run) -> None:
    panel = small_city()
    own = np.arange(3 * 1036 * 5, dtype=np.float32).reshape(3, 1036, 5)
    names = ("price", "noise", "queue")
    matched = match(run, replace(panel, local_covariates=LocalCovariates(names, own)))
    assert matched.local_covariates.names == ("queue", "price")
    assert np.array_equal(matched.local_covariates.values, own[[2, 0]])


def test_lacking_covariates_of_both_kinds_are_named(run: Run) -> None:
    panel = small_city()
    bare = replace(panel, covariates=Covariates((), panel.covariates.values[:, :0]))
    with pytest.raises(
        ArtifactError, match="lacks the covariates temperature, rain, queue, price"
    ):
        match(run, bare)


@pytest.mark.parametrize(
    "name", ["ids", "kind", "timezone", "step_minutes", "lag_clock", "holidays", "covariates"]
)
def test_a_run_that_lacks_a_word_is_refused(run: Run, name: str) -> None:
    check_run(run)
    about = {key: value for key, value in run.about.items() if key != name}
    with pytest.raises(ArtifactError, match="not a forecaster run of a SeasonalNaive"):
        check_run(replace(run, about=about))


@pytest.mark.parametrize("name", ["shared.fill", "shared.climatology", "shared.most"])
def test_a_run_whose_arrays_have_other_shapes_is_refused(run: Run, name: str) -> None:
    arrays = {**run.arrays, name: np.zeros((3, 1), dtype=np.float32)}
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        check_run(replace(run, arrays=arrays))


def test_a_panel_without_holidays_has_no_country() -> None:
    assert country_of(small_city()) is None
