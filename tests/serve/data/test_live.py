"""What is safe on disk is what is seen."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.live import MAX_WRITES, Live, identify
from forecaster.serve.data.moment import AHEAD_SECONDS
from forecaster.serve.data.store import Entry, Store
from forecaster.serve.problems import Problem


def entry(panel: Panel, step: int, value: float | None) -> Entry:
    return panel.locations.ids[0], int(panel.times[step].astype(np.int64)), value


def test_a_new_start_sees_what_was_written(panel: Panel, tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    first = Live(panel, Store(path, identify(panel)))
    asyncio.run(first.write("observations", [entry(panel, 5, 77.0)], 0, None))
    asyncio.run(first.write("observations", [entry(panel, 6, None)], 0, None))
    first.close()
    again = Live(panel, Store(path, identify(panel)))
    assert again.overlay.version == first.overlay.version == 2
    assert np.array_equal(again.overlay.values(0, 9), first.overlay.values(0, 9), equal_nan=True)
    again.close()


def test_V3_what_came_in_an_open_hour_is_a_part_after_a_new_start_too(
    panel: Panel, tmp_path: Path
) -> None:
    path, step = tmp_path / "s.sqlite", len(panel.values) - 2
    _, begins, _ = one = entry(panel, step, 7.0)
    for received, final in ((begins + 60, False), (begins + 3600, True)):  # the same value again
        live = Live(panel, Store(path, identify(panel)))
        asyncio.run(live.write("observations", [one], received, None))
        live.close()
        again = Live(panel, Store(path, identify(panel)))
        found = again.overlay.final(step, step + 1)[0, 0]
        assert found == 7.0 if final else np.isnan(found)
        again.close()


def test_an_unchanged_value_is_no_new_state(live: Live, panel: Panel) -> None:
    for _ in range(2):
        asyncio.run(live.write("observations", [entry(panel, 5, 77.0)], 0, None))
    assert live.overlay.version == 1


def test_too_many_writes_are_refused(live: Live, panel: Panel) -> None:
    async def send() -> list[object]:
        writes = [
            live.write("observations", [entry(panel, 5, float(n))], 0, None)
            for n in range(MAX_WRITES + 5)
        ]
        return await asyncio.gather(*writes, return_exceptions=True)

    refused = [one for one in asyncio.run(send()) if isinstance(one, Problem)]
    assert [problem.status_code for problem in refused] == [503] * 5


def test_whoever_leaves_does_not_stop_a_write(live: Live, panel: Panel) -> None:
    async def leave() -> None:
        task = asyncio.create_task(live.write("observations", [entry(panel, 5, 3.0)], 0, None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    live._writer.submit(lambda: None).result()
    assert live.overlay.version == 1


def test_panels_are_told_apart(panel: Panel) -> None:
    other = panel.select(tuple(reversed(panel.locations.ids)))
    assert identify(panel) != identify(other)


def test_a_partial_hour_is_final_once_it_comes_again_even_unchanged(
    live: Live, panel: Panel
) -> None:
    end = len(panel.values)
    begin = live.overlay.start_seconds + end * 3600
    entries: list[Entry] = [(name, begin, 0.0) for name in panel.locations.ids]
    asyncio.run(live.write("observations", entries, begin + 1800, None))
    assert live.overlay.newest(end + 1) == end - 1
    asyncio.run(live.write("observations", entries, begin + 3600, None))
    assert live.overlay.newest(end + 1) == end
    assert live.overlay.version == 1  # no value is another


def test_a_clock_that_is_a_little_ahead_sends_final_values(live: Live, panel: Panel) -> None:
    end = len(panel.values)
    begin = live.overlay.start_seconds + end * 3600
    entries: list[Entry] = [(name, begin, 0.0) for name in panel.locations.ids]
    asyncio.run(live.write("observations", entries, begin + 3600 - AHEAD_SECONDS, None))
    assert live.overlay.newest(end + 1) == end
