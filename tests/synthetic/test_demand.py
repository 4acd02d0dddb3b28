import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.synthetic.demand import (
    NOISE_AR,
    NOISE_SD,
    REACH_KM,
    SLOTS,
    WEEK_HOURS,
    Event,
    add_events,
    draw_counts,
    draw_events,
    draw_mean_demand,
    draw_noise,
    draw_profiles,
    expected_demand,
    find_slots,
    mean_ahead,
)
from forecaster.synthetic.dependencies import draw_edges, to_precision
from forecaster.synthetic.holidays import federal_holidays
from forecaster.synthetic.locations import NEIGHBOURHOODS, draw_street_grid

N, STEPS = 53, 20_480


@pytest.fixture(scope="module")
def edges():
    places = draw_street_grid(N, np.random.default_rng(1))
    return draw_edges(places.distances, places.centre, np.random.default_rng(1))


@pytest.fixture(scope="module")
def noise(edges):
    return draw_noise(to_precision(edges, N), STEPS, np.random.default_rng(2))


def partial_correlations(rows):
    precision = np.linalg.inv(np.cov(rows.T))
    scale = 1.0 / np.sqrt(np.diag(precision))
    return -precision * np.outer(scale, scale)


def test_noise_has_one_deviation_everywhere(noise):
    assert noise.std(axis=0) == pytest.approx(np.full(N, NOISE_SD), rel=0.06)
    assert np.abs(noise.mean(axis=0)).max() < 0.04


def test_noise_is_as_large_at_the_start_as_later(edges):
    precision = to_precision(edges, N)
    first = [draw_noise(precision, 1, np.random.default_rng(s))[0] for s in range(200)]
    assert np.std(first) == pytest.approx(NOISE_SD, rel=0.1)


def test_noise_has_one_autoregressive_coefficient(noise):
    lagged = (noise[1:] * noise[:-1]).sum(axis=0) / (noise[:-1] ** 2).sum(axis=0)
    assert lagged == pytest.approx(np.full(N, NOISE_AR), abs=0.02)


def test_blocks_of_noise_join_without_a_seam(noise):
    shocks = noise[1:] - NOISE_AR * noise[:-1]
    at_seams = shocks[1_023::1_024]
    assert at_seams.std() == pytest.approx(shocks.std(), rel=0.1)


def test_noise_has_the_partial_correlations_of_the_edges(noise, edges):
    found = partial_correlations(noise[1:] - NOISE_AR * noise[:-1])
    truth = np.zeros((N, N))
    truth[edges.first, edges.second] = edges.correlation
    truth += truth.T
    apart = ~np.eye(N, dtype=bool)
    assert found[apart] == pytest.approx(truth[apart], abs=0.04)  # 5.7 deviations of chance
    assert (found[truth > 0.0].min()) > found[apart & (truth == 0.0)].max()


def test_one_location_has_noise():
    noise = draw_noise(np.eye(1), STEPS, np.random.default_rng(5))
    assert noise.std() == pytest.approx(NOISE_SD, rel=0.05)


def test_noise_does_not_depend_on_the_number_of_threads():
    threads = pytest.importorskip("threadpoolctl")
    neighbours = np.eye(499, k=1) + np.eye(499, k=-1)
    drawn = []
    for count in (1, 2):
        with threads.threadpool_limits(count):
            generator = np.random.default_rng(7)
            drawn.append(draw_noise(np.eye(499) - 0.4 * neighbours, 512, generator))
    assert (drawn[0] == drawn[1]).all()  # a product in single precision differs here


def test_mean_demand_is_lognormal():
    demand = np.log(draw_mean_demand(np.linspace(-9.0, 9.0, 4_001), np.random.default_rng(3)))
    assert demand.mean() == pytest.approx(3.0, abs=0.06)
    assert demand.std() == pytest.approx(1.0, abs=0.05)
    middle = np.abs(demand - 3.0) < 0.6745
    assert middle.mean() == pytest.approx(0.5, abs=0.04)


def test_the_middle_of_the_strip_is_busiest():
    demand = draw_mean_demand(np.linspace(-9.0, 9.0, 999), np.random.default_rng(3))
    assert np.median(demand[333:666]) > 1.5 * np.median(demand[:333])


def test_expected_demand_is_the_slots_demand_moved_by_the_weather():
    by_slot = np.array([[2.0, 3.0, 5.0], [7.0, 11.0, 13.0]])
    slots, effect = np.array([2, 0, 0, 1, 2]), np.array([0.0, 0.0, 0.5, -0.5, 1.0])
    expected = expected_demand(by_slot, slots, effect, np.array([1.0, 0.5]))
    weather = np.exp(np.column_stack([effect, effect / 2.0]))
    assert expected == pytest.approx(by_slot.T[slots] * weather)


def test_counts_have_the_expected_mean_and_poisson_noise():
    expected = np.full((STEPS, 2), [3.0, 50.0], dtype=np.float32)
    noise = draw_noise(np.eye(2), STEPS, np.random.default_rng(4))
    counts = draw_counts(expected, noise, np.random.default_rng(5))
    assert (counts == np.rint(counts)).all()
    assert counts.mean(axis=0) == pytest.approx([3.0, 50.0], rel=0.02)
    # var = m + m²·(exp(σ²) − 1) for a Poisson count with a lognormal rate
    spread = [m + m * m * np.expm1(NOISE_SD**2) for m in (3.0, 50.0)]
    assert counts.var(axis=0) == pytest.approx(spread, rel=0.06)


@pytest.mark.parametrize("ahead", [0, 1, 2, 3, 50])
def test_the_mean_ahead_is_that_of_the_noise_to_come(ahead):
    now = np.linspace(-1.0, 1.0, 5, dtype=np.float32)[:, None]
    kept = 0.7**ahead
    to_come = np.random.default_rng(6).normal(0.0, 0.4 * np.sqrt(1.0 - kept**2), 200_003)
    drawn = [np.exp(kept * u + to_come - 0.08).mean() for u in now[:, 0]]
    mean = mean_ahead(np.full((5, 1), 10.0, dtype=np.float32), now, ahead)
    assert mean[:, 0] == pytest.approx(10.0 * np.array(drawn), rel=5e-3)


BANDS = np.repeat(np.arange(len(NEIGHBOURHOODS)), 13)


@pytest.fixture(scope="module")
def profiles():
    return draw_profiles(BANDS, np.random.default_rng(11))


def of_kind(profiles, kind):
    """Mean profile of the neighbourhoods with one character."""
    bands = [i for i, (_, named) in enumerate(NEIGHBOURHOODS) if named == kind]
    return profiles[np.isin(BANDS, bands)].mean(axis=0)


def at(day, hour):
    return 24 * day + hour


def slots_of(first, hours):
    clock = Clock("America/New_York", holidays=federal_holidays(2013, 2013))
    times = clock.axis(np.datetime64(first), hours)
    return find_slots(clock, times)


def test_a_week_has_mean_one(profiles):
    assert profiles.shape == (len(BANDS), SLOTS)
    assert profiles[:, :WEEK_HOURS].mean(axis=1) == pytest.approx(np.ones(len(BANDS)))
    assert profiles.min() > 0.05


def test_neighbourhoods_peak_at_different_hours(profiles):
    week = {kind: of_kind(profiles, kind) for _, kind in NEIGHBOURHOODS}
    wednesday_8, wednesday_18, saturday_23 = at(2, 8), at(2, 18), at(5, 23)
    assert week["residential"][wednesday_8] > 1.3 * week["nightlife"][wednesday_8]
    assert week["business"][wednesday_18] > 1.3 * week["nightlife"][wednesday_18]
    assert week["nightlife"][saturday_23] > 2.0 * week["business"][saturday_23]


def test_business_rests_at_the_weekend(profiles):
    business = of_kind(profiles, "business")
    assert business[at(2, 18)] > 1.5 * business[at(5, 18)]


def test_friday_night_goes_on_past_midnight(profiles):
    nightlife = of_kind(profiles, "nightlife")
    assert nightlife[at(5, 1)] > 2.0 * nightlife[at(2, 1)]  # Saturday 01:00, Wednesday 01:00


def test_neighbourhoods_of_one_kind_still_differ(profiles):
    means = profiles.reshape(8, 13, SLOTS).mean(axis=1)
    apart = np.abs(means[:, None] - means).max(axis=2)
    assert apart[~np.eye(8, dtype=bool)].min() > 0.05


def test_a_holiday_is_a_sunday_with_less_commuting(profiles):
    sunday, holiday = profiles[:, 144:168], profiles[:, WEEK_HOURS:]
    share = holiday / sunday
    assert (share[:, [8, 18]] < 0.65).all()
    assert (share[:, [2, 13]] > 0.9).all()


def test_slots_follow_the_wall_clock():
    # 2013-07-01 was a Monday; New York was four hours behind UTC.
    assert slots_of("2013-07-01T04", 4).tolist() == [0, 1, 2, 3]


def test_holidays_have_slots_of_their_own():
    slots = slots_of("2013-07-04T03", 26)  # from Wednesday 23:00 to Friday 00:00
    assert slots.tolist() == [at(2, 23), *range(WEEK_HOURS, SLOTS), at(4, 0)]


def test_spring_skips_a_slot_and_autumn_shows_one_twice():
    assert slots_of("2013-03-10T05", 4).tolist() == [at(6, h) for h in (0, 1, 3, 4)]
    assert slots_of("2013-11-03T04", 4).tolist() == [at(6, h) for h in (0, 1, 1, 2)]


HOURS_OF_DAY = np.arange(4_096) % 24


def test_events_begin_in_the_evening_at_a_few_venues():
    events = draw_events(HOURS_OF_DAY, 199, np.random.default_rng(2))
    assert {int(HOURS_OF_DAY[event.start]) for event in events} == {17, 18, 19, 20, 21}
    assert len({event.location for event in events}) == 4  # one venue per 50 locations
    assert 30 < len(events) < 100  # 4 blocks × 4 venues × 4
    assert {event.hours for event in events} == {2, 3, 4, 5}
    assert all(1.5 <= event.factor < 3.5 for event in events)


def test_one_location_has_events_too():
    assert {
        event.location for event in draw_events(HOURS_OF_DAY, 1, np.random.default_rng(2))
    } == {0}


def test_events_to_come_leave_the_past_alone():
    short = draw_events(HOURS_OF_DAY[:2_048], 61, np.random.default_rng(2))
    long = draw_events(HOURS_OF_DAY, 61, np.random.default_rng(2))
    assert long[: len(short)] == short
    assert all(event.start >= 2_048 for event in long[len(short) :])


def test_an_event_boosts_its_place_and_less_so_its_surroundings():
    distances = np.array([[0.0, REACH_KM, 9.0], [REACH_KM, 0.0, 9.0], [9.0, 9.0, 0.0]])
    expected = np.full((5, 3), 10.0, dtype=np.float32)
    add_events(expected, (Event(location=0, start=1, hours=2, factor=2.0),), distances)
    near = 10.0 * 2.0 ** np.exp(-1.0)
    assert expected[1:3] == pytest.approx(np.array([[20.0, near, 10.0]] * 2))
    assert (expected[[0, 3, 4]] == 10.0).all()


def test_an_event_may_outlast_the_axis():
    expected = np.ones((3, 1), dtype=np.float32)
    add_events(expected, (Event(location=0, start=2, hours=5, factor=3.0),), np.zeros((1, 1)))
    assert expected.ravel().tolist() == [1.0, 1.0, 3.0]
