import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.estimators.checks.sample import LOCATIONS, small_city
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.windows.profile import fit_bounds, fit_profile, is_seen_once, share_known
from forecaster.windows.scaling import fit_scaler


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


def plain_profile(panel: Panel, smooth: bool = False) -> np.ndarray:
    """Return the profile of whole weeks with many counts, value by value.

    If it is smooth, half of the steps before and after counts too.
    """
    values = panel.values.astype(np.float64)
    D = 24 * 60 // panel.clock.step_minutes
    weeks = values.reshape(-1, 7, D, values.shape[1])
    own, days = np.nanmean(weeks, axis=0), np.nanmean(weeks, axis=(0, 1))  # [7 D N], [D N]
    if smooth:
        flat = own.reshape(7 * D, -1)
        flat = (flat + np.roll(flat, 1, axis=0) / 2 + np.roll(flat, -1, axis=0) / 2) / 2
        own = flat.reshape(own.shape)
    mean, unit = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    if panel.kind == "count":
        shape = own.sum(axis=2) / own.sum(axis=2).mean()
        city = mean * shape[..., None]
        adjusted = days * (shape / shape.mean(axis=0))[..., None]
    else:
        shape = ((own - mean) / unit).mean(axis=2)
        city = mean + unit * shape[..., None]
        adjusted = days + unit * (shape - shape.mean(axis=0))[..., None]
    trust = np.minimum(np.isfinite(weeks).sum(axis=0) / 30, 1)
    day_trust = np.minimum(np.isfinite(weeks).sum(axis=(0, 1)) / 10, 1)
    prior = day_trust * adjusted + (1 - day_trust) * city
    if panel.clock.step_minutes >= 60:  # hours lean on the city alone
        prior = city
    return (trust * own + (1 - trust) * prior).reshape(7 * D, -1).T


@pytest.mark.parametrize("weeks", [2, 6, 31])
@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_few_weeks_of_hours_lean_on_the_city(kind: str, weeks: int) -> None:
    panel = shaped(weeks, kind)
    expected = plain_profile(panel)
    np.testing.assert_allclose(fit_profile(panel, all_of(panel)), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_thirty_weeks_have_the_profile_of_earlier_versions_to_the_bit(kind: str) -> None:
    panel = shaped(30, kind)
    rare = np.random.default_rng(5).random(panel.values[:, 2].shape) < 0.05  # 250 of 504 counts
    values = panel.values.copy()
    values[:, 2] = rare
    panel = replace(panel, values=values)
    own = values.reshape(30, 168, 5).mean(axis=0, dtype=np.float64).astype(np.float32)
    scale = fit_scaler(panel, all_of(panel)).values
    if kind == "count":
        trust = np.minimum(values.sum(axis=0, dtype=np.float64) / 504, 1)
        total = own.sum(axis=1, keepdims=True, dtype=np.float64)
        city = (scale.mean * (total / total.mean())).astype(np.float32)
        own = (trust * own + (1 - trust) * city).astype(np.float32)
    assert np.array_equal(fit_profile(panel, all_of(panel)), own.T)


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


def test_a_day_without_training_steps_is_like_the_others() -> None:
    panel = shaped(30)
    by_hour = 1 + np.arange(len(panel.values)) % 24
    panel = replace(panel, values=(panel.values * by_hour[:, None]).astype(np.float32))
    train = np.arange(len(panel.values)) // 24 % 7 < 5  # no weekends
    profile = fit_profile(panel, train).reshape(5, 7, 24)
    weekdays = panel.values[train].reshape(150, 24, 5).mean(axis=0)
    for day in (5, 6):  # in the shape that the city has on the others
        shape = profile[:, day] / profile[:, day].mean(axis=1, keepdims=True)
        expected = weekdays.sum(axis=1) / weekdays.sum(axis=1).mean()
        np.testing.assert_allclose(shape, np.tile(expected, (5, 1)), rtol=1e-4)


def test_small_steps_lean_on_those_within_an_hour_and_days_have_one_step() -> None:
    quarters = every(15, 96 * 7 * 9)  # of 9 values at each step, one short of enough
    quarters = replace(quarters, values=shaped(36).values)
    expected = plain_profile(quarters, smooth=True)
    np.testing.assert_allclose(fit_profile(quarters, all_of(quarters)), expected, rtol=1e-5)
    days = every(24 * 60, 7 * 34)
    profile = fit_profile(days, all_of(days))
    assert profile.shape == (5, 7)
    np.testing.assert_allclose(profile[:, 1], np.nanmean(days.values[1::7], axis=0), rtol=1e-5)


def test_of_small_steps_weeks_have_a_say_and_not_the_steps_of_one_hour() -> None:
    D, weeks = 96, 6
    day = 50 - 40 * np.cos(2 * np.pi * (np.arange(D * 7 * weeks) % D) / D)
    values = np.repeat(day[:, None], 5, axis=1)
    values[20:40, 2] += 30  # of one Monday morning
    panel = replace(every(15, len(day)), kind="measurement", values=values.astype(np.float32))
    moved = fit_profile(panel, all_of(panel))[2] - day[: D * 7]
    week, days = weeks / 30 * (30 / weeks), (1 - weeks / 30) * (30 / (7 * weeks))
    city = (1 - weeks / 30) * 6 / 7 * (30 / weeks) / 5  # a fifth of it, then and not on other days
    assert moved[30] == pytest.approx(week + days + city, rel=0.05)
    assert moved[30 + D] < days


def test_of_one_week_a_location_has_the_shape_of_its_days() -> None:
    D = 288
    by_day = np.repeat([0, 5, -5, 9, -9, 3, -3], D)
    day = 60 - 9 * np.cos(2 * np.pi * (np.arange(7 * D) % D) / D)
    values = np.repeat((day + by_day)[:, None], 5, axis=1)
    panel = replace(every(5, 7 * D), kind="measurement", values=values.astype(np.float32))
    profile = fit_profile(panel, all_of(panel))
    np.testing.assert_allclose(profile, np.tile(day, (5, 1)), atol=9 / 30 + 0.1)
    assert is_seen_once(panel, all_of(panel))
    two_weeks = replace(every(5, 14 * D), values=np.ones((14 * D, 5), dtype=np.float32))
    assert not is_seen_once(two_weeks, all_of(two_weeks))


@pytest.mark.parametrize("minutes", [5, 30, 60, 360])
def test_a_smooth_day_costs_small_steps_no_noise(minutes: int) -> None:
    D = 24 * 60 // minutes
    day = 50 - 40 * np.cos(2 * np.pi * (np.arange(D * 7 * 4) % D) / D)
    noise = np.random.default_rng(7).normal(0, 9, (len(day), 5))
    panel = every(minutes, len(day))
    panel = replace(panel, kind="measurement", values=(day[:, None] + noise).astype(np.float32))
    error = fit_profile(panel, all_of(panel)) - day[: D * 7]
    assert np.sqrt(np.square(error).mean()) < 3  # of a plain mean of four weeks: 9 / 2


def test_a_silent_place_has_the_citys_shape_at_a_mean_of_a_tenth() -> None:
    panel = shaped(6)
    values = panel.values * (1 + np.arange(len(panel.values)) % 24)[:, None]  # a day has a shape
    values[:, 4] = 0
    silent = replace(panel, values=values.astype(np.float32))
    city = values.reshape(6, 168, 5).sum(axis=(0, 2), dtype=np.float64)
    expected = 0.1 * city / city.mean()
    np.testing.assert_allclose(fit_profile(silent, all_of(silent))[4], expected, rtol=1e-5)
    assert expected.max() > 10 * expected.min()


def test_a_place_never_observed_in_training_has_the_citys_shape_too() -> None:
    panel = shaped(6)
    values = panel.values.copy()
    values[: 168 * 4, 2] = np.nan
    train = np.arange(len(values)) < 168 * 4
    profile = fit_profile(replace(panel, values=values), train)
    city = np.delete(values, 2, axis=1)[train].reshape(4, 168, 4).sum(axis=(0, 2))
    np.testing.assert_allclose(profile[2], 0.1 * city / city.mean(), rtol=1e-5)


@pytest.mark.parametrize("share", [1 / 8, 1 / 2, 1.0])
def test_few_counts_lean_on_the_citys_shape_in_proportion(share: float) -> None:
    panel = shaped(40)  # weeks enough to be trusted
    values, events = panel.values.copy(), int(share * 3 * 168)
    values[:, 4] = 0
    values[np.linspace(0, len(values) - 1, events).astype(int), 4] = 1
    own = values.reshape(40, 168, 5).mean(axis=0, dtype=np.float64)
    city, mean = own.sum(axis=1), max(own[:, 4].mean(), 0.1)
    expected = share * own[:, 4] + (1 - share) * mean * city / city.mean()
    profile = fit_profile(replace(panel, values=values), all_of(panel))
    np.testing.assert_allclose(profile[4], expected, rtol=1e-4, atol=1e-6)


def test_a_location_is_known_by_its_share_of_three_counts_at_each_hour_of_the_week() -> None:
    panel = shaped(40)
    train = np.arange(len(panel.values)) < 168 * 30
    values = np.zeros_like(panel.values)
    for n, events in enumerate((0, 63, 504, 9_000)):
        values[100 : 100 + events, n] = 1
    values[0, 1] = np.nan
    values[~train, 0] = 1e6  # held out
    values[:, 4] = np.nan
    known = share_known(replace(panel, values=values), train)
    assert known.dtype == np.float32
    assert known.tolist() == [0.0, 63 / 504, 1.0, 1.0, 0.0]
    measured = replace(panel, values=values, kind="measurement")
    assert share_known(measured, train).tolist() == [1.0] * 5


def test_few_values_of_measurements_have_no_floor() -> None:
    panel = shaped(40, "measurement")
    values = panel.values.copy()
    values[:, 4] = np.resize([-0.01, 0.01, 0.0], len(values))
    profile = fit_profile(replace(panel, values=values), all_of(panel))
    own = values[:, 4].reshape(40, 168).mean(axis=0)
    np.testing.assert_allclose(profile[4], own, atol=1e-6)


def test_one_ride_at_an_hour_of_an_empty_place_moves_no_other_place() -> None:
    panel = shaped(6)
    values = panel.values.copy()
    values[:, 4] = 0
    quiet = fit_profile(replace(panel, values=values), all_of(panel))
    values[77, 4] = 1
    one = fit_profile(replace(panel, values=values), all_of(panel))
    assert np.abs(one[:4] - quiet[:4]).max() < 0.05
    assert np.abs(one[4] - quiet[4]).max() < 0.005  # a single ride is no shape
    assert (one >= 0).all()


def test_trust_counts_values_and_not_steps() -> None:
    panel = shaped(40)
    values = panel.values.copy()
    values[168:, 3] = np.nan
    holed = replace(panel, values=values)
    np.testing.assert_allclose(fit_profile(holed, all_of(panel)), plain_profile(holed), rtol=1e-5)


def test_a_clock_change_of_a_daily_panel_keeps_its_weekdays() -> None:
    days = replace(every(24 * 60, 7 * 41), clock=Clock("Europe/Berlin", 24 * 60))
    profile = fit_profile(days, all_of(days))
    weekdays = (days.clock.local(days.times).astype("datetime64[D]").astype(int) + 3) % 7
    expected = [np.nanmean(days.values[weekdays == day], axis=0) for day in range(7)]
    np.testing.assert_allclose(profile, np.stack(expected, axis=1), rtol=1e-5)


def test_a_panel_of_nothing_has_a_flat_profile_at_the_floor() -> None:
    panel = shaped(6)
    empty = replace(panel, values=np.zeros_like(panel.values))
    assert np.array_equal(fit_profile(empty, all_of(panel)), np.full((5, 168), np.float32(0.1)))


# ---------------------------------------------------------------------------------- bounds


def plain_bounds(
    panel: Panel, train: np.ndarray, profile: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest values and deviations, one value at a time."""
    scale = fit_scaler(panel, train).values
    local = panel.clock.local(panel.times)
    days = local.astype("datetime64[D]")
    hours = (local - days).astype("timedelta64[s]").astype(int) // 3600
    weekdays = (days.astype(int) + 3) % 7
    ranges, deviations = np.zeros((2, LOCATIONS, 24)), np.zeros((2, LOCATIONS))
    for n in range(LOCATIONS):
        by_hour: dict[int, list[float]] = {}
        everything, apart = [], []
        for s in np.flatnonzero(train):
            value = float(panel.values[s, n])
            if math.isnan(value):
                continue
            usual = float(profile[n, weekdays[s] * 24 + hours[s]])
            spread = float(scale.deviation[n])
            if panel.kind == "count":
                spread *= math.sqrt(usual / float(scale.mean[n]) + 0.05)
            by_hour.setdefault(int(hours[s]), []).append(value)
            everything.append(value)
            apart.append((value - usual) / spread)
        if not everything:
            continue
        deviations[:, n] = min(apart), max(apart)
        for hour in range(24):
            seen = by_hour.get(hour, everything)
            ranges[:, n, hour] = min(seen), max(seen)
    return ranges, deviations


@settings(max_examples=settings().max_examples // 5)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["count", "measurement"]),
    missing=st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    steps=st.integers(1, 500),
)
def test_bounds_are_the_extremes_of_training(
    seed: int, kind: str, missing: float, steps: int
) -> None:
    panel, generator = small_city(kind), np.random.default_rng(seed)
    values = panel.values.copy()
    values[generator.random(values.shape) < missing] = np.nan
    values[:, 3] = np.nan  # never observed
    values[np.arange(len(values)) % 24 < 7, 2] = np.nan  # never at some hours
    panel = replace(panel, values=values)
    train = np.zeros(len(values), dtype=bool)
    train[generator.choice(len(values), steps, replace=False)] = True
    profile = fit_profile(panel, train)
    ranges, deviations = fit_bounds(panel, train, profile)
    assert ranges.dtype == deviations.dtype == np.float32
    expected = plain_bounds(panel, train, profile)
    np.testing.assert_array_equal(ranges, expected[0])
    np.testing.assert_allclose(deviations, expected[1], rtol=1e-4, atol=1e-5)
    assert np.array_equal(ranges[:, 3], np.zeros((2, 24)))
    assert np.array_equal(deviations[:, 3], np.zeros(2))


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_bounds_of_hours_never_observed_are_those_of_all_hours(kind: str) -> None:
    panel = shaped(6, kind)
    values = panel.values.copy()
    values[np.arange(len(values)) % 24 == 5, 1] = np.nan
    panel = replace(panel, values=values, clock=Clock("UTC"))
    train = all_of(panel)
    ranges, _ = fit_bounds(panel, train, fit_profile(panel, train))
    assert ranges[:, 1, 5].tolist() == [np.nanmin(values[:, 1]), np.nanmax(values[:, 1])]
    assert ranges[:, 0, 5].tolist() == [values[5::24, 0].min(), values[5::24, 0].max()]


def test_bounds_of_a_silent_place_let_nothing_above_zero_through() -> None:
    panel = shaped(6)
    values = panel.values.copy()
    values[:, 4] = 0
    panel = replace(panel, values=values)
    ranges, deviations = fit_bounds(panel, all_of(panel), fit_profile(panel, all_of(panel)))
    assert not ranges[:, 4].any()
    lowest, highest = deviations[:, 4]
    assert lowest <= highest < 0  # it is always below its profile
    assert np.isfinite(deviations).all()


def test_bounds_do_not_see_held_out_steps() -> None:
    panel = shaped(6)
    train = np.arange(len(panel.values)) < 168 * 4
    other = panel.values.copy()
    other[~train] = 1e6
    profile = fit_profile(panel, train)
    expected = fit_bounds(panel, train, profile)
    actual = fit_bounds(replace(panel, values=other), train, profile)
    assert all(map(np.array_equal, actual, expected))


def test_months_are_mixed_with_the_citys_year_and_unseen_ones_are_like_their_neighbours() -> None:
    panel = every(60, 23)
    values = np.outer(20 + np.arange(23) % 12, [1, 2, 3, 4, 5]).astype(np.float32)
    panel = replace(panel, clock=Clock("UTC", 43_830, step_months=1), values=values,
                    start=np.datetime64("2015-01-01T00:00:00"))  # fmt: skip
    profile = fit_profile(panel, all_of(panel))
    assert profile.shape == (5, 12)
    year = profile / profile.mean(axis=1, keepdims=True)  # all have the same shape
    np.testing.assert_allclose(year, np.tile(year[0], (5, 1)), rtol=1e-4)
    assert (np.diff(profile[0]) > 0).all()
    short = np.arange(23) < 9  # January to September
    seen = fit_profile(panel, short)
    np.testing.assert_allclose(seen[:, 9], seen[:, 8])
    np.testing.assert_allclose(seen[:, 11], seen[:, 0])
