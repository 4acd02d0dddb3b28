from dataclasses import replace

import numpy as np
import pytest

from forecaster.errors import ConfigError, DataError, RunError
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import RECIPE
from forecaster.estimators.forecast_inputs import fill_of
from forecaster.estimators.networks.dcrnn import DCRNN
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.networks.transformer import Transformer
from forecaster.explain.case import open_case
from forecaster.panel.fill import fill_missing
from forecaster.panel.parts import Locations
from tests.explain.fitted import AT, PANEL, SPLITS, STEP, fitted


@pytest.mark.parametrize("kind", [Forecaster, Transformer, DCRNN])
def test_the_forecast_is_the_one_that_is_given_out(kind: type[NetworkEstimator]) -> None:
    case = open_case(fitted(kind), PANEL, AT, "place 3")
    table = fitted(kind).forecast(PANEL, AT)
    assert case.forecast == pytest.approx(table[table.unique_id == "place 3"].y_hat)
    assert case.panel.times[case.origin] == PANEL.times[STEP]


def test_usual_is_the_mean_of_the_hour_of_the_week() -> None:
    estimator = fitted(Forecaster)
    assert estimator.run is not None
    nothing = replace(PANEL, values=np.full_like(PANEL.values, np.nan))
    usual = fill_missing(nothing, fill_of(estimator.run))
    expected = estimator.predict(usual, np.array([STEP]))[0, :, 3]
    case = open_case(estimator, PANEL, AT, "place 3")
    assert case.baseline_forecast == pytest.approx(expected)
    assert not np.allclose(case.baseline_forecast, case.forecast)


def test_locations_are_those_of_the_run_in_whatever_order_they_come() -> None:
    turned = PANEL.select(PANEL.locations.ids[::-1])
    one, other = (open_case(fitted(Forecaster), p, AT, "place 1") for p in (PANEL, turned))
    assert other.window.location == one.window.location == 1
    assert other.path_gradients == pytest.approx(one.path_gradients, rel=1e-4, abs=1e-6)


def test_other_estimators_are_refused_with_those_that_are_not() -> None:
    naive = SeasonalNaive(RECIPE).fit(PANEL, SPLITS)
    with pytest.raises(ConfigError, match=r"SeasonalNaive .* Forecaster, Transformer, DCRNN"):
        open_case(naive, PANEL, AT, "place 1")


def test_what_is_not_fitted_is_refused() -> None:
    with pytest.raises(RunError, match="not fitted yet"):
        open_case(Forecaster(), PANEL, AT, "place 1")


def test_an_unknown_location_is_refused_with_the_nearest_names() -> None:
    names = ("Harbour", "Old town", "Old mill", "Station", "Zoo")
    places = Locations(PANEL.locations.ids, names, PANEL.locations.lat, PANEL.locations.lon)
    named = replace(PANEL, locations=places)
    with pytest.raises(ConfigError, match=r"'old towns'; similar: place 1 \(Old town\)"):
        open_case(fitted(Forecaster), named, AT, "old towns")
    with pytest.raises(ConfigError, match=r"no location 'Ω'; give one of the 5 ids"):
        open_case(fitted(Forecaster), named, AT, "Ω")


@pytest.mark.parametrize(
    ("at", "what"),
    [("noon", "not a time"), ("2021-04-07T10:00", "no offset"), ("1999-01-01T00Z", "outside")],
)
def test_a_time_is_refused_as_by_forecast(at: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as ours:
        open_case(fitted(Forecaster), PANEL, at, "place 1")
    with pytest.raises(ConfigError) as theirs:
        fitted(Forecaster).forecast(PANEL, at)
    assert str(ours.value) == str(theirs.value)


def test_a_history_with_too_many_holes_is_refused() -> None:
    values = PANEL.values.copy()
    values[STEP - 3 : STEP + 1] = np.nan
    with pytest.raises(DataError, match="history incomplete"):
        open_case(fitted(Forecaster), replace(PANEL, values=values), AT, "place 1")


def test_nothing_after_the_origin_is_seen() -> None:
    values = PANEL.values.copy()
    values[STEP + 1 :] = 1e6
    later = open_case(fitted(Forecaster), replace(PANEL, values=values), AT, "place 1")
    case = open_case(fitted(Forecaster), PANEL, AT, "place 1")
    assert np.array_equal(later.path_gradients, case.path_gradients)
    assert np.array_equal(later.total_gradients, case.total_gradients)
