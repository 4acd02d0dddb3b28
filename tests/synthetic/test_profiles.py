import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.synthetic.holidays import federal_holidays
from forecaster.synthetic.places import NEIGHBOURHOODS
from forecaster.synthetic.profiles import SLOTS, WEEK_HOURS, draw_profiles, find_slots

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
