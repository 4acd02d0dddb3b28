"""A past that is shown as if it were now."""

import asyncio

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.live import Live, identify
from forecaster.serve.replay import Replay
from forecaster.serve.store import Store
from tests.serve.conftest import HOURS


def test_a_replay_brings_each_hour_when_it_is_over(whole: Panel) -> None:
    replay = Replay(whole, HOURS, step_seconds=1e-4)
    live = Live(replay.base, Store(None, identify(replay.base)))
    asyncio.run(replay.feed(live))
    assert np.array_equal(live.overlay.values(0, len(whole.values)), whole.values)
    assert live.overlay.version == len(whole.values) - HOURS
    live.close()


def test_a_replay_hides_what_is_to_come(whole: Panel) -> None:
    replay = Replay(whole, HOURS, step_seconds=1e9)
    assert len(replay.base.values) == HOURS
    start = int(whole.start.astype(np.int64))
    assert replay.now() == pytest.approx(start + HOURS * 3600, abs=1)
