"""What is safe on disk is what is seen."""

import asyncio
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.errors import ArtifactError
from forecaster.panel.panel import Panel, local_texts
from forecaster.serve.data.database import Entry
from forecaster.serve.data.live import (
    AHEAD_SECONDS,
    DEAD_STEPS,
    MAX_WRITES,
    STALE_STEPS,
    LiveData,
    earlier_digests,
    panel_digest,
)
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.store import Store
from forecaster.serve.problems import Problem
from tests.serve.conftest import HOURS, Running, SettableClock


def entry(panel: Panel, step: int, value: float | None) -> Entry:
    return panel.locations.ids[0], int(panel.times[step].astype(np.int64)), value


def test_a_new_start_sees_what_was_written(panel: Panel, tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    first = LiveData(panel, Store(path, panel_digest(panel)))
    asyncio.run(first.write("observations", [entry(panel, 5, 77.0)], 0, None))
    asyncio.run(first.write("observations", [entry(panel, 6, None)], 0, None))
    first.close()
    again = LiveData(panel, Store(path, panel_digest(panel)))
    assert again.snapshot.version == first.snapshot.version == 2
    assert np.array_equal(again.snapshot.values(0, 9), first.snapshot.values(0, 9), equal_nan=True)
    again.close()


def test_V3_what_came_in_an_open_hour_is_a_part_after_a_new_start_too(
    panel: Panel, tmp_path: Path
) -> None:
    path, step = tmp_path / "s.sqlite", len(panel.values) - 2
    _, begins, _ = one = entry(panel, step, 7.0)
    for received, final in ((begins + 60, False), (begins + 3600, True)):  # the same value again
        live = LiveData(panel, Store(path, panel_digest(panel)))
        asyncio.run(live.write("observations", [one], received, None))
        live.close()
        again = LiveData(panel, Store(path, panel_digest(panel)))
        found = again.snapshot.final_values(step, step + 1)[0, 0]
        assert found == 7.0 if final else np.isnan(found)
        again.close()


def test_an_unchanged_value_is_no_new_state(live: LiveData, panel: Panel) -> None:
    for _ in range(2):
        asyncio.run(live.write("observations", [entry(panel, 5, 77.0)], 0, None))
    assert live.snapshot.version == 1


def test_too_many_writes_are_refused(live: LiveData, panel: Panel) -> None:
    async def send() -> list[object]:
        writes = [
            live.write("observations", [entry(panel, 5, float(n))], 0, None)
            for n in range(MAX_WRITES + 5)
        ]
        return await asyncio.gather(*writes, return_exceptions=True)

    refused = [one for one in asyncio.run(send()) if isinstance(one, Problem)]
    assert [problem.status_code for problem in refused] == [503] * 5


def test_whoever_leaves_does_not_stop_a_write(live: LiveData, panel: Panel) -> None:
    async def leave() -> None:
        task = asyncio.create_task(live.write("observations", [entry(panel, 5, 3.0)], 0, None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    live._writer.submit(lambda: None).result()
    assert live.snapshot.version == 1


def test_panels_are_told_apart(panel: Panel) -> None:
    other = panel.select(tuple(reversed(panel.locations.ids)))
    assert panel_digest(panel) != panel_digest(other)


def test_a_partial_hour_is_final_once_it_comes_again_even_unchanged(
    live: LiveData, panel: Panel
) -> None:
    end = len(panel.values)
    begin = live.snapshot.start_seconds + end * 3600
    entries: list[Entry] = [(name, begin, 0.0) for name in panel.locations.ids]
    asyncio.run(live.write("observations", entries, begin + 1800, None))
    assert live.snapshot.newest_origin(end + 1) == end - 1
    asyncio.run(live.write("observations", entries, begin + 3600, None))
    assert live.snapshot.newest_origin(end + 1) == end
    assert live.snapshot.version == 1  # no value is another


def test_a_clock_that_is_a_little_ahead_sends_final_values(live: LiveData, panel: Panel) -> None:
    end = len(panel.values)
    begin = live.snapshot.start_seconds + end * 3600
    entries: list[Entry] = [(name, begin, 0.0) for name in panel.locations.ids]
    asyncio.run(live.write("observations", entries, begin + 3600 - AHEAD_SECONDS, None))
    assert live.snapshot.newest_origin(end + 1) == end


def test_data_grows_stale_and_then_too_old(live: LiveData, clock: SettableClock) -> None:
    found = []
    for hours in (0, STALE_STEPS - 1, 1, DEAD_STEPS - STALE_STEPS - 1, 1):
        clock.pass_hours(hours)
        freshness = live.freshness()
        found.append((freshness.stale, freshness.fault is not None))
    assert found == [(False, False), (False, False), (True, False), (True, False), (True, True)]
    assert f"{live.snapshot.time_of(HOURS - 1)}Z" in str(live.freshness().fault)


def test_locations_that_stop_a_forecast_of_now_are_named(
    live: LiveData, clock: SettableClock
) -> None:
    clock.pass_hours(DEAD_STEPS)
    assert "no data in the last 24 steps" in str(live.freshness().fault)
    columns = range(3, 5)  # three of five locations are silent
    cells = [(HOURS + hour, n, 3.0) for hour in range(DEAD_STEPS) for n in columns]
    live.snapshot = live.snapshot.with_observations(cells, 1)
    fault = str(live.freshness().fault)
    silent = ", ".join(f"{name} 100 %" for name in live.snapshot.base.locations.ids[:3])
    rule = "half of the locations that have reported in the last 14 days"
    assert f"none of the last 24 steps has data of {rule} (missing: {silent})" in fault


def test_L3_two_of_five_silent_locations_stop_nothing(
    live: LiveData, clock: SettableClock
) -> None:
    clock.pass_hours(DEAD_STEPS)
    cells = [(HOURS + hour, n, 3.0) for hour in range(DEAD_STEPS) for n in range(2, 5)]
    live.snapshot = live.snapshot.with_observations(cells, 1)
    freshness = live.freshness()
    assert (freshness.newest, freshness.fault) == (HOURS + DEAD_STEPS - 1, None)


def test_many_silent_locations_are_a_feed_outage(live: LiveData, clock: SettableClock) -> None:
    first = local_texts(live.snapshot.base, np.array([live.snapshot.time_of(HOURS)]))[0]
    clock.pass_hours(STALE_STEPS - 1)
    assert live.freshness().outage is None  # the last step may still arrive
    clock.pass_hours(1)
    all_silent = f"feed outage: 5 of 5 locations silent since {first}"
    assert live.freshness().outage == all_silent
    clock.pass_hours(DEAD_STEPS)
    assert f"no data in the last 24 steps; {all_silent}; the newest" in str(live.freshness().fault)
    steps = range(HOURS, live.closed_steps())
    cells = [(step, n, 3.0) for step in steps for n in range(2)]
    live.snapshot = live.snapshot.with_observations(cells, 1)
    assert live.freshness().outage == f"feed outage: 3 of 5 locations silent since {first}"
    cells = [(step, 2, 3.0) for step in steps]
    live.snapshot = live.snapshot.with_observations(cells, 2)
    freshness = live.freshness()
    assert (freshness.stale, freshness.outage) == (False, None)  # two are closed: no outage


def test_a_past_that_is_over_is_told_how_it_can_be_asked_for(
    service: Running, clock: SettableClock
) -> None:
    clock.pass_hours(24 * 365)
    reply = service.get("/v1/forecast")
    assert (reply.status, reply.json["code"]) == (503, "no_data")
    way = re.search(r"/v1/forecast\?at=\S+", reply.json["detail"])
    assert way is not None
    assert service.get(way[0]).status == 200


def test_the_age_of_data_is_that_of_the_state_asked_for(live: LiveData) -> None:
    before = live.snapshot
    cells = [(HOURS - 1, n, None) for n in range(5)]
    live.snapshot = before.with_observations(cells, 1)
    assert live.freshness().newest == HOURS - 2
    assert live.freshness(before).newest == HOURS - 1
    assert (live.freshness().age_seconds, live.freshness(before).age_seconds) == (3660, 60)


def test_V9_before_any_data_nothing_is_forecast(service: Running) -> None:
    cells = [(step, n, None) for step in range(HOURS) for n in range(5)]
    data = service.engine.data
    data.snapshot = data.snapshot.with_observations(cells, 1)
    reply = service.get("/v1/forecast")
    assert (reply.status, reply.json["code"]) == (503, "no_data")
    assert service.get("/readyz").status == 503


def test_hours_have_as_many_steps_as_fit(panel: Panel, clock: SettableClock) -> None:
    for minutes, steps in ((5, 36), (60, 3), (180, 1), (24 * 60, 1)):
        other = replace(panel, clock=replace(panel.clock, step_minutes=minutes))
        live = LiveData(other, Store(None, panel_digest(other)), clock)
        assert live.count_steps(3) == steps
        live.close()


def test_an_origin_is_a_step_that_is_over(live: LiveData, clock: SettableClock) -> None:
    begins = live.snapshot.start_seconds
    assert live.find_origin(begins + 3600 * (HOURS - 1)) == HOURS - 1
    for seconds, code in ((1, "off_step"), (-3600, "too_old"), (3600 * HOURS, "in_future")):
        with pytest.raises(Problem) as refusal:
            live.find_origin(begins + seconds)
        assert (refusal.value.status_code, refusal.value.code) == (422, code)
    clock.pass_hours(1)
    assert live.find_origin(begins + 3600 * HOURS) == HOURS


NEUBAU = Registration("Neubau", "Neubau", 40.5, -73.5, since=7)


def observe_new(data: LiveData, step: int, value: float) -> None:
    begins = data.snapshot.start_seconds + 3600 * step
    rows: list[Entry] = [("Neubau", begins, value)]
    asyncio.run(data.write("observations", rows, begins + 3600, None))


def test_L2_a_registration_and_its_observations_are_there_after_a_new_start(
    panel: Panel, tmp_path: Path
) -> None:
    path = tmp_path / "s.sqlite"
    first = LiveData(panel, Store(path, panel_digest(panel)))
    asyncio.run(first.write("observations", [entry(panel, 5, 77.0)], 0, None))
    assert asyncio.run(first.register(NEUBAU)) == (NEUBAU, True)
    assert asyncio.run(first.register(replace(NEUBAU, since=9))) == (NEUBAU, False)
    observe_new(first, 6, 3.0)
    first.close()
    again = LiveData(panel, Store(path, panel_digest(panel)))
    assert again.snapshot.registered == (NEUBAU,)
    assert again.snapshot.version == first.snapshot.version == 3
    assert again.snapshot.values(6, 7)[0, 5] == 3.0
    assert np.array_equal(again.snapshot.values(0, 9), first.snapshot.values(0, 9), equal_nan=True)
    again.close()


def test_L2_a_panel_built_again_with_the_location_satisfies_the_registration(
    panel: Panel, whole: Panel, tmp_path: Path
) -> None:
    path = tmp_path / "s.sqlite"
    four = panel.select(panel.locations.ids[:4])
    fifth = Registration.of_panel(panel.locations, panel.locations.ids[4])
    first = LiveData(four, open_store(path, four))
    asyncio.run(first.register(replace(fifth, since=7)))
    begins = first.snapshot.start_seconds + 3600 * HOURS
    asyncio.run(first.write("observations", [(fifth.id, begins, 41.0)], begins + 3600, None))
    first.close()
    for _ in range(2):
        again = LiveData(panel, open_store(path, panel))
        assert again.snapshot.registered == ()
        assert again.snapshot.locations is panel.locations
        assert again.snapshot.values(HOURS, HOURS + 1)[0, 4] == 41.0
        assert asyncio.run(again.register(replace(fifth, since=9)))[1] is False
        again.close()
    for other in (whole.select(panel.locations.ids[1:]), panel.select(panel.locations.ids[:3])):
        with pytest.raises(ArtifactError, match="another panel"):
            open_store(path, other)


def open_store(path: Path, panel: Panel) -> Store:
    return Store(path, panel_digest(panel), partial(earlier_digests, panel))


def test_L2_registrations_may_come_while_observations_do(live: LiveData, panel: Panel) -> None:
    async def send() -> None:
        jobs: list[Any] = []
        for n in range(MAX_WRITES // 2):
            jobs.append(live.register(Registration(f"new {n}", f"new {n}")))
            jobs.append(live.write("observations", [entry(panel, n, 1.0 + n)], 0, None))
        await asyncio.gather(*jobs)

    asyncio.run(send())
    snapshot = live.snapshot
    assert len(snapshot.registered) == MAX_WRITES // 2
    assert snapshot.version == MAX_WRITES
    values = snapshot.values(0, MAX_WRITES // 2)
    assert values[:, 0].tolist() == [1.0 + n for n in range(MAX_WRITES // 2)]
    assert np.isnan(values[:, 5:]).all()


def test_V15_a_full_disk_registers_nothing(live: LiveData) -> None:
    pages = live._store._database.pragma("page_count")
    live._store._connection.execute(f"PRAGMA max_page_count = {pages}")
    large = replace(NEUBAU, covariates={"docks" * 2_000: 17.0})
    with pytest.raises(Problem) as refusal:
        asyncio.run(live.register(large))
    assert (refusal.value.status_code, refusal.value.code) == (507, "disk_full")
    assert live.snapshot.registered == ()
    live._store._connection.execute("PRAGMA max_page_count = 100000")
    assert asyncio.run(live.register(NEUBAU))[1]
