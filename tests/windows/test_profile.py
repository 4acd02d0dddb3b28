from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.estimators.checks.sample import small_city
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.windows.profile import fit_profile


def every(minutes: int, steps: int) -> Panel:
    """Return a panel with another step, Monday first."""
    panel = small_city()
    return replace(
        panel,
        clock=Clock("UTC", minutes),
        values=np.resize(panel.values, (steps, 5)),
        covariates=Covariates((), np.empty((steps, 0), np.float32)),
        local_covariates=LocalCovariates((), np.empty((0, steps, 5), np.float32)),
    )


def shaped(weeks: int, kind: str = "count") -> Panel:
    """Return weeks of five places, Monday first."""
    panel = every(60, 168 * weeks)
    values = np.random.default_rng(3).poisson(7.0, panel.values.shape).astype(np.float32)
    return replace(panel, values=values, kind=kind)


def all_of(panel: Panel) -> np.ndarray:
    return np.ones(len(panel.values), dtype=bool)


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_few_weeks_are_mixed_with_the_shape_of_the_city(kind: str) -> None:
    panel = shaped(6, kind)
    own = panel.values.reshape(6, 168, 5).mean(axis=0)  # [W, N]
    mean = panel.values.mean(axis=0)
    unit = panel.values.std(axis=0)
    city = mean + unit * ((own - mean) / unit).mean(axis=1, keepdims=True)
    if kind == "count":
        city = mean * own.sum(axis=1, keepdims=True) / mean.sum()
    expected = 6 / 30 * own + 24 / 30 * city
    np.testing.assert_allclose(fit_profile(panel, all_of(panel)), expected.T, rtol=1e-5)


def test_a_value_has_a_thirtieth_of_a_say_and_its_share_of_the_citys() -> None:
    panel = shaped(6)
    other = panel.values.copy()
    other[168 * 2 + 11, 3] += 30
    moved = fit_profile(replace(panel, values=other), all_of(panel)) - fit_profile(
        panel, all_of(panel)
    )
    city = 24 / 30 / 6 / 5  # of six weeks of five places
    assert moved[3, 11] == pytest.approx(30 * (1 / 30 + city), rel=0.02)  # the mean moves a little


def test_many_weeks_stand_for_themselves_at_each_local_hour_of_the_week() -> None:
    panel = replace(shaped(60), clock=Clock("Europe/Berlin"))  # the clock changes within
    train = np.arange(len(panel.values)) < 168 * 53
    profile = fit_profile(panel, train)
    local = panel.clock.local(panel.times)[train]
    days = local.astype("datetime64[D]")
    for weekday, hour in ((0, 0), (5, 13), (6, 23)):
        here = (days.astype(int) + 3) % 7 == weekday
        here &= (local - days).astype(int) // 3600 == hour
        expected = panel.values[train][here].mean(axis=0)
        np.testing.assert_allclose(profile[:, weekday * 24 + hour], expected, rtol=1e-6)


def test_an_hour_without_training_steps_has_the_mean_of_all() -> None:
    panel = small_city()
    train = np.arange(len(panel.values)) < 30
    profile = fit_profile(panel, train)
    np.testing.assert_allclose(profile[:, 100], np.nanmean(panel.values[:30], axis=0), rtol=1e-5)


def test_quarters_of_an_hour_share_it_and_days_have_one_hour() -> None:
    quarters = every(15, 96 * 7 * 9)  # 36 quarters at each hour
    means = np.nanmean(quarters.values.reshape(9, 168, 4, 5), axis=(0, 2))
    np.testing.assert_allclose(fit_profile(quarters, all_of(quarters)), means.T, rtol=1e-5)
    days = every(24 * 60, 7 * 34)
    profile = fit_profile(days, all_of(days))
    np.testing.assert_allclose(profile[:, 24], np.nanmean(days.values[1::7], axis=0), rtol=1e-5)


def test_an_empty_place_stays_empty_and_one_ride_at_an_hour_moves_no_other_place() -> None:
    panel = shaped(6)
    values = panel.values.copy()
    values[:, 4] = 0
    quiet = fit_profile(replace(panel, values=values), all_of(panel))
    assert np.array_equal(quiet[4], np.zeros(168))
    values[77, 4] = 1
    one = fit_profile(replace(panel, values=values), all_of(panel))
    assert np.abs(one[:4] - quiet[:4]).max() < 0.05
    assert (one >= 0).all()


def test_trust_counts_values_and_not_steps() -> None:
    panel = shaped(40)
    values = panel.values.copy()
    values[168 * 2 :, 3] = np.nan
    seen = np.nanmean(values[:, 3])
    profile = fit_profile(replace(panel, values=values), all_of(panel))
    own = values[: 168 * 2, 3].reshape(2, 168).mean(axis=0)
    assert np.abs(profile[3] - seen).max() < 0.3 * np.abs(own - seen).max()


def test_a_clock_change_of_a_daily_panel_keeps_its_weekdays() -> None:
    days = replace(every(24 * 60, 7 * 31), clock=Clock("Europe/Berlin", 24 * 60))
    profile = fit_profile(days, all_of(days)).reshape(5, 7, 24)
    assert np.array_equal(profile[:, :, 0], profile[:, :, 1])
    assert len(np.unique(profile[0, :, 0])) > 1


def test_a_panel_of_nothing_has_a_profile_of_nothing() -> None:
    panel = shaped(6)
    empty = replace(panel, values=np.zeros_like(panel.values))
    assert np.array_equal(fit_profile(empty, all_of(panel)), np.zeros((5, 168)))
