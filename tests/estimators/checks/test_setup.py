import pytest

from forecaster.errors import DataError, RunError
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import RECIPE
from forecaster.estimators.checks.setup import make_setup, need, refused


def test_the_world_has_a_fitted_estimator_and_an_origin_in_its_test_period() -> None:
    world = make_setup(SeasonalNaive)
    assert world.fitted.recipe.lags == RECIPE.lags
    assert world.splits.mask("test", world.panel.clock, world.panel.times)[world.origin]
    assert world.at == f"{world.panel.times[world.origin]}Z"


def test_what_is_wrong_is_said() -> None:
    need(True, "all is right")
    with pytest.raises(AssertionError, match="two are three"):
        need(2 == 3, "two are three")  # noqa: PLR0133


def test_what_is_not_refused_or_in_another_way_is_found() -> None:
    with refused(DataError):
        raise DataError("bad data")
    with pytest.raises(AssertionError, match="no DataError was raised"), refused(DataError):
        pass
    with pytest.raises(RunError), refused(DataError):
        raise RunError("something else")
