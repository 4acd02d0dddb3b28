import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.config import LagConfig, Season
from forecaster.evaluation.lags import Lag, name_lags, name_step


@pytest.mark.parametrize("origin", ["2014-03-09T07", "2014-06-01T12", "2014-11-02T06"])
def test_names_are_in_the_order_of_the_history(origin: str) -> None:
    clock, lags = Clock("America/New_York"), LagConfig()
    time = np.datetime64(origin, "s")
    steps = clock.lag_steps(lags, np.array([time]))[0]
    named = name_lags(clock, lags, time)
    assert len(named) == 76
    for step, lag in zip(steps, named, strict=True):
        off = step - (24 * lag.days - lag.shift)
        assert abs(off) <= 1  # a day of a clock change is an hour longer or shorter
        assert off == 0 or lag.days


def test_a_lag_is_called_as_people_do() -> None:
    named = name_lags(Clock("UTC"), LagConfig(), np.datetime64("2014-06-01T12", "s"))
    assert [str(lag) for lag in (named[0], named[27], named[28], named[-2], named[-1])] == [
        "t−1, 4 weeks back", "t+5, 1 week back", "t−1, 6 days back", "t−1", "t",
    ]  # fmt: skip
    groups = [lag.group for lag in named]
    assert [groups.count(group) for group in ("recent", "days", "weeks")] == [6, 42, 28]


def test_other_seasons_have_a_name_too() -> None:
    lags = LagConfig(recent=1, seasons=(Season(days=3, count=1, before=0, after=0),))
    named = name_lags(Clock("UTC"), lags, np.datetime64("2014-06-01T12", "s"))
    assert named == [Lag("every 3 days", 3, 0), Lag("recent", 0, 0)]
    assert str(named[0]) == "t, 3 days back"


@pytest.mark.parametrize(
    ("minutes", "name"),
    [(60, "hour"), (1440, "day"), (1, "minute"), (10080, "week"), (15, "step"), (120, "step")],
)
def test_a_step_is_called_by_its_length(minutes: int, name: str) -> None:
    assert name_step(Clock("UTC", minutes)) == name
