import math
from collections import defaultdict
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.panel.fill import fill_missing, fit_fill, smoothing_reach, usual_values
from forecaster.panel.panel import Panel
from tests.panel.panels import numbers, panel_of, zone_of

NAN = np.float32(np.nan)
NEW_YORK = "America/New_York"


def slot_means(panel: Panel, layer: np.ndarray, train: np.ndarray) -> list[list[float]]:
    """Return the means of 168 local hours of the week, one value at a time."""
    place = zone_of(panel.clock.zone)
    means = []
    for column in layer.T[:, : len(train)].tolist():
        found: dict[int, list[float]] = defaultdict(list)
        for time, value, inside in zip(
            panel.times.astype(int).tolist(), column, train, strict=True
        ):
            if inside and not math.isnan(value):
                local = datetime.fromtimestamp(time, place)
                found[local.weekday() * 24 + local.hour].append(value)
        everything = [value for values in found.values() for value in values]
        overall = math.fsum(everything) / len(everything) if everything else 0.0
        means.append(
            [math.fsum(found[s]) / len(found[s]) if s in found else overall for s in range(168)]
        )
    return np.array(means).T.tolist()


@pytest.fixture(scope="module")
def holed() -> Panel:
    """Return five weeks across a clock change with holes in all that a panel can hold."""
    M, S, N, P, Q = 839, 853, 5, 3, 2
    generator = np.random.default_rng(7)
    values, world = generator.normal(40, 9, (M, N)), generator.normal(8, 4, (S, P))
    own = generator.normal(0, 2, (Q, S, N))
    for array in (values, world, own):
        array[generator.random(array.shape) < 0.2] = NAN
    values[:, 3] = NAN  # never observed
    world[:M, 2] = NAN  # known only ahead
    return panel_of(values, "2015-10-13T00", NEW_YORK, world=world, own=own)


@pytest.fixture(scope="module")
def train(holed: Panel) -> np.ndarray:
    """Return a training set with a hole, which begins and ends inside a week."""
    inside = np.zeros(len(holed.values), dtype=bool)
    inside[17:401] = inside[499:701] = True
    return inside


def test_the_fill_is_the_training_mean_of_each_hour_of_the_week(
    holed: Panel, train: np.ndarray
) -> None:
    fill = fit_fill(holed, train)
    layers = [
        (fill.values, holed.values),
        (fill.covariates, holed.covariates.values),
        *zip(fill.local_covariates, holed.local_covariates.values, strict=True),
    ]
    for means, layer in layers:
        np.testing.assert_allclose(means, slot_means(holed, layer, train), rtol=1e-5, atol=1e-5)
    assert fill.values.shape == (168, 5)
    assert fill.local_covariates.shape == (2, 168, 5)


def test_a_location_never_observed_in_training_is_filled_with_zero(
    holed: Panel, train: np.ndarray
) -> None:
    fill = fit_fill(holed, train)
    assert (fill.values[:, 3] == 0).all()
    assert (fill.covariates[:, 2] == 0).all()


def test_an_hour_of_the_week_without_training_is_filled_with_the_mean_of_all() -> None:
    panel = panel_of(np.arange(47.0)[:, None], "2013-01-07")  # a Monday, from midnight
    train = np.arange(47) < 30
    fill = fit_fill(panel, train)
    assert fill.values[:30, 0].tolist() == list(range(30))
    assert (fill.values[30:, 0] == 14.5).all()


def test_a_night_of_minutes_that_training_never_saw_is_quiet_too() -> None:
    hour = np.arange(3 * 1440) // 60 % 24
    panel = panel_of(np.where(hour < 6, 1.0, 20.0)[:, None], "2013-01-07", step_minutes=1)
    fill = fit_fill(panel, np.arange(len(hour)) < 2 * 1440).values.reshape(7, 24, 60)
    assert (fill[2:, 1:5] == 1).all()
    assert (fill[2:, 8:22] == 20).all()


def test_both_showings_of_a_doubled_hour_count_for_one_hour_of_the_week() -> None:
    values = np.zeros((25, 1))
    values[1], values[2] = 3.0, 5.0  # 01:00 −04:00 and 01:00 −05:00 of a Sunday
    panel = panel_of(values, "2015-11-01T04", NEW_YORK)
    assert fit_fill(panel, np.ones(25, dtype=bool)).values[6 * 24 + 1, 0] == 4.0


@given(st.integers(0, 2**32 - 1))
def test_held_out_hours_never_change_the_fill(seed: int) -> None:
    M, S, N = 239, 251, 3
    generator = np.random.default_rng(seed)
    values, world, own = (generator.normal(size=s) for s in ((M, N), (S, 2), (2, S, N)))
    train = generator.random(S) < 0.6
    train[M:] = False
    known = train[:, None]

    def change(array: np.ndarray, kept: np.ndarray) -> np.ndarray:
        return np.where(kept, array, generator.choice([np.nan, 0.0, 1e30], array.shape))

    before = panel_of(values, world=world, own=own)
    after = panel_of(change(values, known[:M]), world=change(world, known), own=change(own, known))
    for name in ("values", "covariates", "local_covariates"):
        first, second = (getattr(fit_fill(panel, train[:M]), name) for panel in (before, after))
        np.testing.assert_array_equal(first, second)


def test_filling_replaces_every_hole_by_its_mean_and_nothing_else(
    holed: Panel, train: np.ndarray
) -> None:
    fill = fit_fill(holed, train)
    whole = fill_missing(holed, fill)
    slots = holed.clock.slot_of_season(holed.known_times)
    layers = [
        (holed.values, whole.values, fill.values),
        (holed.covariates.values, whole.covariates.values, fill.covariates),
        *zip(
            holed.local_covariates.values,
            whole.local_covariates.values,
            fill.local_covariates,
            strict=True,
        ),
    ]
    for before, after, means in layers:
        assert np.isnan(before).any()
        np.testing.assert_array_equal(
            after, np.where(np.isnan(before), means[slots[: len(before)]], before)
        )


def test_filling_leaves_the_panel_itself_alone(holed: Panel, train: np.ndarray) -> None:
    holes = [int(np.isnan(a).sum()) for a in (holed.values, holed.covariates.values)]
    whole = fill_missing(holed, fit_fill(holed, train))
    assert [int(np.isnan(a).sum()) for a in (holed.values, holed.covariates.values)] == holes
    assert whole.locations is holed.locations
    assert (whole.start, whole.clock, whole.kind) == (holed.start, holed.clock, holed.kind)
    assert whole.covariates.names == holed.covariates.names


def test_a_filled_panel_is_no_longer_the_one_that_was_saved() -> None:
    panel = panel_of(np.ones((29, 2)))
    saved = Panel(**{**vars(panel), "digest": "0" * 64})
    assert fill_missing(saved, fit_fill(saved, np.ones(29, dtype=bool))).digest is None


def test_a_panel_without_holes_or_covariates_is_filled_to_itself() -> None:
    panel = panel_of(numbers(29, 2))
    whole = fill_missing(panel, fit_fill(panel, np.ones(29, dtype=bool)))
    np.testing.assert_array_equal(whole.values, panel.values)
    assert whole.covariates.values.shape == (29, 0)
    assert whole.local_covariates.values.shape == (0, 29, 2)


def test_few_values_of_small_steps_lean_on_the_narrowest_hour_that_has_enough() -> None:
    generator = np.random.default_rng(3)
    slots, values = np.tile(np.arange(29), 3), generator.random((87, 5), dtype=np.float32)
    usual = usual_values(values, slots, 29, reach=11)  # three values: 3 · (h + 1) ≥ 10 for h = 3
    expected = np.zeros((29, 5))
    for slot in range(29):
        for away in range(-3, 4):
            share = (1 - abs(away) / 4) / 12
            expected[slot] += share * values[slots == (slot + away) % 29].sum(axis=0)
    np.testing.assert_allclose(usual.means, expected, rtol=1e-5)
    np.testing.assert_allclose(usual.counts, 12)
    np.testing.assert_allclose(usual.visits, 3)


def test_a_step_with_enough_values_stands_alone_beside_one_that_leans_on_it() -> None:
    slots = np.array([0] * 10 + [1])
    values = np.arange(11, dtype=np.float32)[:, None]
    usual = usual_values(values, slots, 7, reach=1)
    assert usual.means[0, 0] == pytest.approx(4.5)
    assert usual.means[1, 0] == pytest.approx((10 + 45 / 2) / (1 + 10 / 2))
    assert usual.means[6, 0] == pytest.approx(4.5)  # the season goes round
    assert usual.means[3, 0] == pytest.approx(5)  # nothing near: the mean of all


@pytest.mark.parametrize(("minutes", "reach"), [(1, 59), (5, 11), (30, 1), (60, 0), (1440, 0)])
def test_neighbours_are_less_than_an_hour_away(minutes: int, reach: int) -> None:
    assert smoothing_reach(Clock("UTC", minutes)) == reach


def test_a_closed_place_keeps_its_last_value() -> None:
    values = numbers(24 * 15, 2)
    panel = panel_of(values).with_hours(("", "06:00-22:00"))
    filled = fill_missing(panel, fit_fill(panel, np.ones(len(values), dtype=bool))).values
    assert np.array_equal(filled[:, 0], panel.values[:, 0])
    assert (filled[24 + 22 : 48 + 6, 1] == panel.values[24 + 21, 1]).all()
    assert np.array_equal(filled[24 + 6 : 24 + 22, 1], panel.values[24 + 6 : 24 + 22, 1])
