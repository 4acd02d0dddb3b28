import hashlib
import logging
from dataclasses import replace
from inspect import signature

import numpy as np
import pytest

from forecaster.errors import ConfigError
from forecaster.panel.panel import Panel
from forecaster.synthetic.city import FUTURE_HOURS, make_city
from forecaster.synthetic.weather import WEATHER_NAMES


def local_of(city):
    return city.panel.clock.local(city.panel.times)


def same(first, other):
    return (
        (first.panel.values == other.panel.values).all()
        and (first.panel.covariates.values == other.panel.covariates.values).all()
        and (first.precision == other.precision).all()
        and first.events == other.events
        and first.locations.names == other.locations.names
    )


# ------------------------------------------------------------------------------- structure


def test_the_panel_is_complete(city):
    panel = city.panel
    assert panel.values.shape == city.expected.shape == city.noise.shape == (9_001, 59)
    assert panel.kind == "count"
    assert panel.clock.zone == "America/New_York"
    assert str(panel.start) == "2013-01-01T05:00:00"
    assert panel.clock.holidays.last_year == 2024
    assert panel.covariates.names == WEATHER_NAMES
    assert len(panel.covariates.values) == 9_001 + FUTURE_HOURS
    assert not np.isnan(panel.values).any()


def test_the_papers_span_is_the_default_one():
    assert signature(make_city).parameters["locations"].default == 996
    local = local_of(make_city(locations=2))
    assert len(local) == 65_711
    assert str(local[0]) == "2009-01-01T00:00:00"
    assert str(local[-1]) == "2016-06-30T23:00:00"


@pytest.mark.parametrize("locations", [1, 2, 7, 20])
@pytest.mark.parametrize("hours", [1, 1_500])
def test_small_cities_work(locations, hours):
    city = make_city(locations=locations, hours=hours, seed=5)
    assert city.panel.values.shape == (hours, locations)
    assert city.precision.shape == (locations, locations)
    assert np.linalg.eigvalsh(city.precision)[0] > 0.09


def test_a_panel_survives_saving(tmp_path):
    panel = make_city(locations=7, hours=100).panel
    panel.save(tmp_path)
    opened = Panel.open(tmp_path)
    assert (opened.values == panel.values).all()
    assert opened.locations.extra == panel.locations.extra
    assert opened.clock == panel.clock


def test_the_realised_dependencies_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="forecaster.synthetic"):
        make_city(locations=199, hours=1)
    assert "199 locations, 249 edges, average degree 2.50, hub 16, long-range 8.0 %" in caplog.text


def test_what_cannot_be_is_refused_all_at_once():
    with pytest.raises(ConfigError) as caught:
        make_city(locations=0, start="2009-13-01", hours=5, seed=-1, travel=1.5)
    assert str(caught.value).splitlines() == [
        "city: 4 faults",
        "  0 locations, 5 hours: both must be at least 1",
        "  seed -1: must not be negative",
        "  travel 1.5: give a number between 0 and 1",
        "  start '2009-13-01': give a local date or whole hour from 1987 to 2099",
    ]


@pytest.mark.parametrize(
    "start", ["", "NaT", "2009-01-01T00:30", "2009-01-01T00:00Z", "1850-01-01", "2100-01-01"]
)
def test_a_start_that_is_no_usable_hour_is_refused(start):
    with pytest.raises(ConfigError, match="start "):
        make_city(locations=1, start=start, hours=1)


def test_a_city_may_start_at_any_whole_hour():
    assert (
        str(make_city(1, start="2013-07-01T08:00", hours=1).panel.start) == "2013-07-01T12:00:00"
    )


# ----------------------------------------------------------------------------- determinism


def test_the_same_seed_gives_the_same_city():
    assert same(make_city(7, hours=300, seed=4), make_city(7, hours=300, seed=4))


def test_another_seed_gives_another_city():
    first, other = make_city(7, hours=300, seed=4), make_city(7, hours=300, seed=5)
    assert (first.panel.values != other.panel.values).any()
    assert (first.precision != other.precision).any()
    assert (first.panel.covariates.values != other.panel.covariates.values).any()


@pytest.mark.parametrize("hours", [1, 900, 1_024, 1_025, 3_000])
def test_a_longer_city_begins_with_the_shorter_one(hours):
    short, long = make_city(7, hours=hours, seed=4), make_city(7, hours=4_001, seed=4)
    assert (long.panel.values[:hours] == short.panel.values).all()
    assert (long.expected[:hours] == short.expected).all()
    assert (long.noise[:hours] == short.noise).all()
    known = short.panel.covariates.values
    assert (long.panel.covariates.values[: len(known)] == known).all()
    assert tuple(event for event in long.events if event.start < hours) == short.events


def test_another_start_keeps_places_dependencies_and_noise():
    winter, summer = (make_city(7, start=f"2013-{m}-01", hours=50) for m in ("01", "07"))
    assert (winter.locations.lat == summer.locations.lat).all()
    assert (winter.precision == summer.precision).all()
    assert (winter.noise == summer.noise).all()


def test_the_city_is_pinned():
    # Golden: seed 0 as of the first release, so that results compare over time. Other platforms
    # may round otherwise in the last place, which can move a count by chance.
    city = make_city(locations=7, hours=168)
    assert city.edges.first.tolist() == [0, 1, 2, 2, 3, 3, 4, 4, 5]
    assert city.edges.second.tolist() == [3, 3, 3, 4, 4, 5, 5, 6, 6]
    assert city.edges.correlation[:3] == pytest.approx(
        [0.237040101836, 0.292806913315, 0.313985452706]
    )
    demand = [1817.0, 5100.0, 7263.0, 6789.0, 1488.0, 4824.0, 162.0]
    assert city.panel.values.sum(axis=0) == pytest.approx(demand, rel=0.01)


# ------------------------------------------------------------------------ what moves demand


def test_counts_scatter_around_what_is_expected(city):
    share = city.panel.values.sum(axis=0) / city.expected.sum(axis=0)
    assert share == pytest.approx(np.ones(59), abs=0.06)


def test_weather_moves_counts(city):
    weather = dict(zip(WEATHER_NAMES, city.panel.covariates.values.T, strict=True))
    rain, snow = (weather[name][:9_001] == 1.0 for name in ("rain", "snow"))
    dry = weather["precipitation_mm"][:9_001] == 0.0
    share = city.panel.values.sum(axis=1) / usual_at_each_slot(city, dry)
    assert share[rain].mean() > share[dry].mean() + 0.03
    assert share[snow].mean() < share[dry].mean() - 0.05


def usual_at_each_slot(city, when):
    """Mean total demand at the hour of the week, over some of the hours."""
    slots = city.panel.clock.slot_of_season(city.panel.times)
    total = city.panel.values.sum(axis=1)
    return np.array([total[when & (slots == slot)].mean() for slot in range(168)])[slots]


def test_holidays_move_counts(city):
    local = local_of(city)
    hours = local.astype("datetime64[h]")
    of_day = hours.astype(int) % 24
    usual = usual_at_each_slot(city, np.ones(9_001, dtype=bool))
    holiday = city.panel.clock.holidays.falls_on(local)
    workday = city.panel.clock.slot_of_season(city.panel.times) < 120
    share = city.panel.values.sum(axis=1) / usual
    assert share[holiday & workday & (of_day == 8)].mean() < 0.6
    assert share[~holiday & workday & (of_day == 8)].mean() > 0.95


def test_events_stand_out(city):
    assert len(city.events) > 20
    assert all(event.start < 9_001 for event in city.events)
    during = [city.panel.values[e.start, e.location] for e in city.events]
    a_week_off = [
        city.panel.values[e.start + (168 if e.start < 8_000 else -168), e.location]
        for e in city.events
    ]
    assert np.mean(during) > 1.5 * np.mean(a_week_off)


def test_neighbourhoods_differ_in_their_counts(city):
    slots = city.panel.clock.slot_of_season(city.panel.times)
    share = {}
    for name in ("Village", "Exchange"):  # nightlife, business
        inside = np.array(city.locations.extra["neighbourhood"]) == name
        total = city.panel.values[:, inside].sum(axis=1)
        share[name] = total[slots == 24 * 5 + 23].mean() / total.mean()
    assert share["Village"] > 1.4 * share["Exchange"]


@pytest.mark.parametrize("sunday", ["2013-03-10", "2013-11-03"])
def test_demand_follows_the_wall_clock_across_a_change(city, sunday):
    """At the same hour on the wall, Mondays before and after a change look alike."""
    hours, means = local_of(city).astype("datetime64[h]"), city.expected.sum(axis=1)

    def monday(days):
        first = np.datetime64(sunday, "h") + np.timedelta64(24 * (1 + days), "h")
        return means[(hours >= first) & (hours < first + np.timedelta64(24, "h"))]

    before, after = monday(-7), monday(0)
    assert len(before) == len(after) == 24
    by_wall = np.corrcoef(before, after)[0, 1]
    by_utc = np.corrcoef(before, np.roll(after, 1))[0, 1]
    assert by_wall > 0.98 > by_utc


def test_the_days_of_the_clock_changes_have_23_and_25_hours(city):
    days, lengths = np.unique(local_of(city).astype("datetime64[D]"), return_counts=True)
    odd = {str(day): int(n) for day, n in zip(days, lengths, strict=True) if n != 24}
    odd.pop(str(days[-1]), None)
    assert odd == {"2013-03-10": 23, "2013-11-03": 25}


# ----------------------------------------------------------------------------------- floor


def test_the_floor_of_a_small_case_is_the_one_computed_by_hand():
    city = make_city(locations=1, hours=3)
    city = replace(
        city,
        panel=replace(city.panel, values=np.array([[4.0], [12.0], [9.0]], dtype=np.float32)),
        expected=np.full((3, 1), 10.0, dtype=np.float32),
        noise=np.array([[0.5], [-0.5], [9.9]], dtype=np.float32),
    )
    # Means one ahead: 10·exp(±0.7·0.5 − 0.49·0.08); two ahead: 10·exp(0.49·0.5 − 0.2401·0.08).
    one = [10 * np.exp(0.35 - 0.0392) - 12.0, 10 * np.exp(-0.35 - 0.0392) - 9.0]
    assert city.floor(np.array([0, 1]), horizon=1) == pytest.approx([np.hypot(*one) / np.sqrt(2)])
    two = 10 * np.exp(0.245 - 0.019208) - 9.0
    assert city.floor(np.array([0]), horizon=2) == pytest.approx([abs(one[0]), abs(two)])


def test_the_floor_grows_with_the_horizon_and_lies_below_simple_forecasts(city):
    origins, values = np.arange(2_000, 8_990), city.panel.values
    floor = city.floor(origins)
    assert floor.shape == (3,)
    assert (np.diff(floor) > 0.0).all()
    for step, bound in enumerate(floor, start=1):
        last_week = values[origins + step] - values[origins + step - 168]
        no_noise = values[origins + step] - city.expected[origins + step]
        assert bound < 0.95 * np.sqrt(np.square(no_noise).mean())
        assert bound < 0.70 * np.sqrt(np.square(last_week).mean())


def test_the_floor_lies_above_the_noise_of_counting(city):
    origins = np.arange(8_900)
    assert (city.floor(origins) > np.sqrt(city.expected.mean())).all()


def test_the_floor_does_not_depend_on_how_origins_are_grouped(city):
    origins = np.arange(100, 5_100)
    halves = [city.floor(part) for part in np.split(origins, 2)]
    assert city.floor(origins) == pytest.approx(np.sqrt(np.mean(np.square(halves), axis=0)))


@pytest.mark.parametrize(
    ("origins", "horizon"), [([], 3), ([-1], 3), ([8_998], 3), ([5], 0)], ids=str
)
def test_a_floor_outside_the_city_is_refused(city, origins, horizon):
    with pytest.raises(ConfigError, match="within the steps 0…9000"):
        city.floor(np.array(origins, dtype=np.int64), horizon)


@pytest.mark.parametrize("span", [(-1, 3), (5, 4), (0, 9_001)])
def test_trips_outside_the_city_are_refused(city, span):
    with pytest.raises(ConfigError, match="the city has 0…9000"):
        city.trips(*span)


# ---------------------------------------------------------------------------------- travel


@pytest.fixture(scope="module")
def travelling():
    """The city of the other tests, with demand that travels."""
    return make_city(locations=59, start="2013-01-01", hours=9_001, seed=3, travel=1.0)


def fingerprint(values):
    return hashlib.sha256(values.tobytes()).hexdigest()[:16]


def test_without_travel_the_city_is_the_one_before_travel_existed():
    # Golden: hashes of make_city(53, "2013-01-01", 2_003, seed=3) as of commit 32226de, before
    # `travel` existed, on x86-64 with NumPy 2; with one thread and with two.
    city = make_city(53, "2013-01-01", 2_003, seed=3, travel=0.0)
    assert fingerprint(city.panel.values) == "7104c8cbc0f7b5be"
    assert fingerprint(city.noise) == "3e404385d7ec63b2"
    assert fingerprint(city.expected) == "2998e36b22a20e69"
    assert fingerprint(city.precision) == "1feca989ae9d2394"
    assert fingerprint(city.floor(np.arange(10, 150), 3)) == "d2a33317a4f96e8d"


def test_without_travel_nothing_comes_from_others(city):
    assert len(city.lagged_edges) == 0
    assert city.lagged_factors.loadings.shape == city.lagged_factors.delays.shape == (59, 0)
    assert city.factors.shape == (9_001, 0)
    origins = np.arange(1_000, 3_000)
    assert (city.floor_alone(origins) == city.floor(origins)).all()


@pytest.mark.parametrize("travel", [-0.1, 1.01, float("nan")])
def test_a_travel_outside_0_to_1_is_refused(travel):
    with pytest.raises(ConfigError, match="give a number between 0 and 1"):
        make_city(locations=2, hours=2, travel=travel)


def test_travel_is_pinned():
    # Golden: seed 0 as of the first release with travel.
    edges = make_city(locations=7, hours=168, travel=1.0).lagged_edges
    assert edges.pairs[:4].tolist() == [[4, 0], [5, 0], [3, 1], [4, 2]]
    assert edges.delays.tolist() == [1, 2, 1, 1, 1, 1, 1, 1, 1, 2]
    assert edges.strengths[:3] == pytest.approx(
        [0.2132617426784433, 0.26682487460853077, 0.29053692470747616]
    )


@pytest.mark.parametrize("locations", [1, 2, 7])
@pytest.mark.parametrize("hours", [1, 1_500])
def test_small_cities_travel_too(locations, hours):
    city = make_city(locations, hours=hours, seed=5, travel=1.0)
    assert city.panel.values.shape == (hours, locations)
    assert city.factors.shape == (hours, 3)


@pytest.mark.parametrize("hours", [1, 1_024, 3_000])
def test_a_longer_city_with_travel_begins_with_the_shorter_one(hours):
    short, long = (make_city(7, hours=h, seed=4, travel=0.5) for h in (hours, 4_001))
    assert (long.panel.values[:hours] == short.panel.values).all()
    assert (long.noise[:hours] == short.noise).all()
    assert (long.factors[:hours] == short.factors).all()
    assert (long.lagged_edges.strengths == short.lagged_edges.strengths).all()


def test_travel_changes_neither_places_nor_what_is_expected(city, travelling):
    assert (city.expected == travelling.expected).all()
    assert (city.precision == travelling.precision).all()
    assert city.events == travelling.events


def test_counts_with_travel_scatter_around_what_is_expected(travelling):
    share = travelling.panel.values.sum(axis=0) / travelling.expected.sum(axis=0)
    assert share == pytest.approx(np.ones(59), abs=0.06)


def test_the_floor_lies_below_the_floor_alone_and_that_below_simple_forecasts(travelling):
    origins, values = np.arange(2_000, 8_980), travelling.panel.values
    floor, alone = travelling.floor(origins, 12), travelling.floor_alone(origins, 12)
    assert (floor[:3] < 0.97 * alone[:3]).all()
    assert (floor < alone).all()
    assert (np.diff(floor[:4]) > 0.0).all()
    for step in (1, 2, 3):
        no_noise = values[origins + step] - travelling.expected[origins + step]
        assert alone[step - 1] < np.sqrt(np.square(no_noise).mean())


def test_a_year_of_counts_tells_source_target_and_delay(travelling):
    """Least squares of log ratios on everybody's last three hours, cut at 5 standard errors."""
    expected, N = travelling.expected, 59
    ratio = np.log((travelling.panel.values + 0.5) / (expected + 0.5)).astype(np.float64)
    ratio -= ratio.mean(axis=0)
    past = np.concatenate([ratio[3 - lag : len(ratio) - lag] for lag in (1, 2, 3)], axis=1)
    inverse = np.linalg.inv(past.T @ past)
    fitted = inverse @ past.T @ ratio[3:]
    variance = np.square(ratio[3:] - past @ fitted).mean(axis=0)
    found = np.abs(fitted) > 5.0 * np.sqrt(np.outer(np.diag(inverse), variance))
    found = found.reshape(3, N, N) & ~np.eye(N, dtype=bool)
    true, edges = np.zeros((3, N, N), dtype=bool), travelling.lagged_edges
    true[edges.delays - 1, edges.pairs[:, 0], edges.pairs[:, 1]] = True
    assert 2.0 * (found & true).sum() / (found.sum() + true.sum()) > 0.85


def test_floors_without_enough_past_are_refused(travelling):
    with pytest.raises(ConfigError, match="give origins from step 2 on"):
        travelling.floor(np.array([1, 5]))
    with pytest.raises(ConfigError, match="give origins from step 47 on"):
        travelling.floor_alone(np.array([46]))
    with pytest.raises(ConfigError, match="within the steps 0…9000"):
        travelling.floor_alone(np.array([8_998]))
    assert (travelling.floor(np.array([2])) > 0.0).all()
    assert (travelling.floor_alone(np.array([47])) > 0.0).all()
