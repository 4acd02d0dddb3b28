"""What time it is."""

import time

import pytest

from forecaster.serve.data.moment import real_time, replayed_time


def test_a_replayed_clock_runs_fast_and_stops() -> None:
    now = replayed_time(1000.0, 1010.0, 1e9)
    assert now() == 1010.0
    slow = replayed_time(1000.0, 1010.0, 1e-9)
    assert slow() == pytest.approx(1000.0)
    assert abs(real_time() - time.time()) < 5
