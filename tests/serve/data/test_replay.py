"""A past that is shown as if it were now."""

import asyncio
from typing import Any

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.database import Receipt
from forecaster.serve.data.live import LiveData, panel_digest
from forecaster.serve.data.replay import Replay, replayed_time
from forecaster.serve.data.store import Store
from forecaster.serve.problems import Problem
from tests.serve.conftest import HOURS


def test_a_replay_brings_each_hour_when_it_is_over(whole: Panel) -> None:
    replay = Replay(whole, HOURS, step_seconds=1e-4)
    live = LiveData(replay.base, Store(None, panel_digest(replay.base)))
    asyncio.run(replay.feed(live))
    assert np.array_equal(live.snapshot.values(0, len(whole.values)), whole.values)
    assert live.snapshot.version == len(whole.values) - HOURS
    live.close()


def test_a_replay_hides_what_is_to_come(whole: Panel) -> None:
    replay = Replay(whole, HOURS, step_seconds=1e9)
    assert len(replay.base.values) == HOURS
    start = int(whole.start.astype(np.int64))
    assert replay.now() == pytest.approx(start + HOURS * 3600, abs=1)


def test_a_refused_write_is_tried_again(whole: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(whole, len(whole.values) - 3, step_seconds=1e-4)
    live = LiveData(replay.base, Store(None, panel_digest(replay.base)))
    write, refusals = live.write, [Problem(503, "busy", "too many"), Problem(507, "disk_full", "")]

    async def refuse_first(*args: Any) -> Receipt:
        if refusals:
            raise refusals.pop()
        return await write(*args)

    monkeypatch.setattr(live, "write", refuse_first)
    monkeypatch.setattr("forecaster.serve.data.replay.RETRY_SECONDS", 0.0)
    asyncio.run(replay.feed(live))
    assert np.array_equal(live.snapshot.values(0, len(whole.values)), whole.values)
    live.close()


def test_a_replayed_clock_runs_fast_and_stops() -> None:
    now = replayed_time(1000.0, 1010.0, 1e9)
    assert now() == 1010.0
    slow = replayed_time(1000.0, 1010.0, 1e-9)
    assert slow() == pytest.approx(1000.0)
