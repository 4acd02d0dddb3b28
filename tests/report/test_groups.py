import numpy as np
import pytest

from forecaster.report.data import ReportData
from forecaster.report.groups import (
    NO_GROUP,
    Grouping,
    group_by_hour,
    group_by_step,
    group_by_weather,
    group_by_weekday,
    ratio,
)


def test_steps_of_no_group_are_in_no_sum() -> None:
    grouping = Grouping(("a", "b", "c"), np.array([[0, 2], [NO_GROUP, 2], [0, 0]]))
    assert grouping.steps.tolist() == [3, 0, 2]
    assert grouping.sum(np.array([[1.0, 2.0], [50.0, 3.0], [4.0, 5.0]])).tolist() == [10, 0, 5]
    assert grouping.sum(np.array([[True, True], [True, False], [False, True]])).tolist() == [
        2,
        0,
        1,
    ]


def test_every_target_has_its_hour_weekday_and_step(data: ReportData) -> None:
    assert data.best is not None
    found, panel = data.best.first, data.panel
    hours, days = group_by_hour(found, panel), group_by_weekday(found, panel)
    assert hours is not None
    local = panel.clock.local(found.origins.astype("datetime64[s]") + np.timedelta64(2, "h"))
    assert hours.groups[:, 1].tolist() == [int(str(time)[11:13]) for time in local]
    names = [time.astype(object).strftime("%A") for time in local]
    assert [days.labels[d] for d in days.groups[:, 1]] == names
    assert (group_by_step(found).groups == [0, 1]).all()


def test_weather_is_sorted_into_kinds(data: ReportData) -> None:
    assert data.best is not None
    found = group_by_weather(data.best.first, data.panel)
    assert found["rain"].labels == ("no", "yes")
    thirds = found["temperature"].steps
    assert len(thirds) == 3
    assert thirds.sum() == 2 * len(data.best.first.origins)
    assert thirds.min() > 0.3 * thirds.sum()


def test_nothing_below_is_no_number() -> None:
    found = ratio(np.array([1.0, 0.0]), np.array([4, 0]))
    assert found[0] == pytest.approx(0.25)
    assert np.isnan(found[1])
