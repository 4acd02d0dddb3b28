import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.estimators.forecast_inputs import choose_weather
from forecaster.report.data import ReportData, read_report_data
from forecaster.report.sections.next_steps import (
    MOST_LOCATIONS,
    TOTAL,
    NextSteps,
    draw_next,
    forecast_next,
    next_steps_section,
    next_table,
    shown_steps,
)
from tests.report.comparisons import bare_panel, compare, daily_cycle
from tests.report.labels import colliding


@pytest.fixture(scope="module")
def coming(data: ReportData) -> NextSteps:
    assert data.best is not None
    return forecast_next(data.estimator_of(data.best), data.panel)


def test_the_forecast_is_that_of_the_last_step(data: ReportData, coming: NextSteps) -> None:
    assert data.best is not None
    estimator, panel = data.estimator_of(data.best), data.panel
    last = len(panel.values) - 1
    weather, reason = choose_weather(panel, last, len(coming.ahead))
    expected = estimator.predict(panel, np.array([last]), weather)[0]  # [K, N]
    columns = [panel.locations.names.index(name) for name in coming.names[1:]]
    np.testing.assert_allclose(coming.forecast[:, 1:], expected[:, columns], rtol=1e-5)
    np.testing.assert_allclose(coming.forecast[:, 0], expected.sum(axis=1), rtol=1e-5)
    assert coming.times[-1] == panel.clock.local(panel.times[-1:])[0]
    assert coming.reasons == ([] if reason is None else [reason])


def test_the_total_of_counts_comes_first_and_the_busiest_next(
    data: ReportData, coming: NextSteps
) -> None:
    means = np.nanmean(data.panel.values, axis=0)
    busiest = [data.panel.locations.names[n] for n in np.argsort(-means, kind="stable")]
    assert list(coming.names) == [TOTAL, *busiest[:MOST_LOCATIONS]]
    assert coming.horizon_total[0] == pytest.approx(coming.forecast[:, 0].sum(), rel=1e-5)


def test_the_interval_of_a_total_is_within_the_sums_of_its_steps(coming: NextSteps) -> None:
    value, low, high = coming.horizon_total
    lowest, highest = coming.bounds[:, :, 0].sum(axis=1)
    assert lowest - 1e-6 <= low <= value <= high <= highest + 1e-6
    assert (coming.bounds[0] <= coming.forecast).all()
    assert (coming.forecast <= coming.bounds[1]).all()


def test_the_headline_says_how_much_and_how_sure(data: ReportData, coming: NextSteps) -> None:
    section = next_steps_section(data)
    total = f"{coming.horizon_total[0]:,.0f}"
    assert section.title.startswith(f"A total of {total} is expected in the next 2 hours; ")
    assert "with a probability of 80 % between " in section.title
    assert "In the test a forecast of one location was off by " in section.summary
    assert "of the values were in its 80 % interval." in section.summary
    assert "from the last observed step, " in section.text


def test_every_series_is_a_row_with_intervals(data: ReportData, coming: NextSteps) -> None:
    table = next_table(coming, data)
    ((title, heads),) = table.columns
    assert title.startswith("counts per hour, ")
    assert len(heads) == len(coming.ahead)
    ((_, rows),) = table.groups
    assert [row.name for row in rows] == list(coming.names)
    assert [row.emphasised for row in rows] == [True] + [False] * (len(rows) - 1)
    assert all(" … " in cell.below for row in rows for cell in row.cells)


def test_closed_steps_are_said_to_be_closed(data: ReportData, coming: NextSteps) -> None:
    forecast = coming.forecast.copy()
    forecast[0, 1] = np.nan
    table = next_table(replace(coming, forecast=forecast), data)
    assert [cell.text == "closed" for cell in table.groups[0][1][1].cells] == [True, False]


def test_L10_a_report_of_the_evening_shows_the_next_morning(tmp_path: Path) -> None:
    values = daily_cycle()
    panel = bare_panel(values).with_hours(["06:00-24:00"] * values.shape[1])
    last = int(np.isfinite(panel.values[:, 0]).nonzero()[0][-1])
    evening = last - (last + 1) % 24  # 23:00 in Berlin, an hour later than in UTC
    data = read_report_data(compare(tmp_path, panel.steps(0, evening), ("Ridge",)))
    section = next_steps_section(data)
    assert "from the last closed step before places open, " in section.text
    assert not section.title.startswith("0 ")
    assert section.table is not None
    ((_, heads),) = section.table.columns
    assert heads[0] == "06:00"


@pytest.mark.parametrize(
    ("horizon", "steps"), [(1, [0]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (24, [0, 8, 15, 23])]
)
def test_a_few_steps_of_a_long_horizon_are_shown(horizon: int, steps: list[int]) -> None:
    assert shown_steps(horizon) == steps


def test_measurements_have_no_total(tmp_path: Path) -> None:
    panel = bare_panel(daily_cycle() - 25, kind="measurement")
    section = next_steps_section(read_report_data(compare(tmp_path, panel, ("Ridge",))))
    means = np.abs(panel.values.mean(axis=0))
    busiest = [panel.locations.names[n] for n in np.argsort(-means, kind="stable")]
    assert section.table is not None
    assert [row.name for row in section.table.groups[0][1]] == list(busiest)
    assert re.match(rf"A value of \S+ is expected at {busiest[0]} on Tue 13 Apr", section.title)


def test_why_there_is_no_forecast_is_said(tmp_path: Path) -> None:
    data = read_report_data(compare(tmp_path, bare_panel(daily_cycle()), ("Ridge",)))
    values = data.panel.values.copy()
    values[-24 * 9 :] = np.nan
    section = next_steps_section(replace(data, panel=data.panel.with_data(values)))
    assert not section.pictures
    assert section.text.startswith("There is no forecast of the next steps: ")


def test_measurements_far_from_zero_are_drawn_on_their_own_scale(coming: NextSteps) -> None:
    flat = [coming.observed * 0 + 20, coming.forecast * 0 + 21, coming.bounds * 0 + 20.5]
    names = ("observed", "forecast", "bounds")
    pressure = replace(coming, horizon_total=(), **dict(zip(names, flat, strict=True)))
    assert draw_next(pressure).axes[0].get_ylim()[0] > 15
    assert draw_next(replace(pressure, horizon_total=(42.0,))).axes[0].get_ylim()[0] == 0  # counts


def test_minutes_have_hours_and_minutes_below_them(coming: NextSteps) -> None:
    begin = np.datetime64("2024-03-06T00:07", "s")
    minute = np.timedelta64(60, "s")
    times = begin + minute * np.arange(len(coming.times))
    ahead = times[-1] + minute * np.arange(1, len(coming.ahead) + 1)
    names = [f"p{n}" for n in range(len(coming.names))]
    figure = draw_next(replace(coming, names=names, times=times, ahead=ahead))
    figure.canvas.draw()
    axis = figure.axes[-1].xaxis
    low, high = axis.get_view_interval()
    shown = [
        tick.label1.get_text() for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high
    ]
    assert shown == ["00:10", "00:15", "00:20", "00:25", "00:30"]
    assert not colliding(figure)
