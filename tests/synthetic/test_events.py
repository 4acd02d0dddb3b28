import numpy as np
import pytest

from forecaster.synthetic.events import REACH_KM, Event, add_events, draw_events

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
