"""How old the data is, and which steps are over."""

import re
from dataclasses import replace

import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.live import Live, identify
from forecaster.serve.data.present import DEAD_STEPS, STALE_STEPS, Present
from forecaster.serve.data.store import Store
from forecaster.serve.problems import Problem
from tests.serve.conftest import HOURS, Hands, Running


def test_data_grows_stale_and_then_too_old(present: Present, clock: Hands) -> None:
    found = []
    for hours in (0, STALE_STEPS - 1, 1, DEAD_STEPS - STALE_STEPS - 1, 1):
        clock.pass_hours(hours)
        feed = present.feed()
        found.append((feed.stale, feed.fault is not None))
    assert found == [(False, False), (False, False), (True, False), (True, False), (True, True)]
    assert f"{present.overlay.time_of(HOURS - 1)}Z" in str(present.feed().fault)


def test_a_past_that_is_over_is_told_how_it_can_be_asked_for(
    service: Running, clock: Hands
) -> None:
    clock.pass_hours(24 * 365)
    reply = service.get("/v1/forecast")
    assert (reply.status, reply.json["code"]) == (503, "no_data")
    way = re.search(r"/v1/forecast\?at=\S+", reply.json["detail"])
    assert way is not None
    assert service.get(way[0]).status == 200


def test_the_age_of_data_is_that_of_the_state_asked_for(present: Present) -> None:
    before = present.overlay
    cells = [(HOURS - 1, n, None) for n in range(5)]
    present.live.overlay = before.with_cells(cells, 1)
    assert present.feed().newest == HOURS - 2
    assert present.feed(before).newest == HOURS - 1
    assert (present.feed().age_seconds, present.feed(before).age_seconds) == (3660, 60)


def test_V9_before_any_data_nothing_is_forecast(service: Running) -> None:
    cells = [(step, n, None) for step in range(HOURS) for n in range(5)]
    present = service.engine.present
    present.live.overlay = present.overlay.with_cells(cells, 1)
    reply = service.get("/v1/forecast")
    assert (reply.status, reply.json["code"]) == (503, "no_data")
    assert service.get("/readyz").status == 503


def test_hours_have_as_many_steps_as_fit(panel: Panel, clock: Hands) -> None:
    for minutes, steps in ((5, 36), (60, 3), (180, 1), (24 * 60, 1)):
        other = replace(panel, clock=replace(panel.clock, step_minutes=minutes))
        live = Live(other, Store(None, identify(other)))
        assert Present(live, clock).count_steps(3) == steps
        live.close()


def test_an_origin_is_a_step_that_is_over(present: Present, clock: Hands) -> None:
    begins = present.overlay.start_seconds
    assert present.find_origin(begins + 3600 * (HOURS - 1)) == HOURS - 1
    for seconds, code in ((1, "off_step"), (-3600, "too_old"), (3600 * HOURS, "in_future")):
        with pytest.raises(Problem) as refusal:
            present.find_origin(begins + seconds)
        assert (refusal.value.status_code, refusal.value.code) == (422, code)
    clock.pass_hours(1)
    assert present.find_origin(begins + 3600 * HOURS) == HOURS
