from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecaster.artifact import Run
from forecaster.clock.clock import Clock
from forecaster.estimators.forecast_inputs import ForecastInputs, prepare_inputs
from forecaster.evaluation.comparison import ModelResult
from forecaster.metrics import sum_errors
from forecaster.panel.panel import Panel
from forecaster.report.data import ReportData, read_report_data
from forecaster.report.draw.canvas import to_svg
from forecaster.report.formatting import number
from forecaster.report.sections.forecasts import (
    Period,
    choose_locations,
    describe_miss,
    draw_excerpt,
    forecast_section,
    take_excerpt,
    typical_period,
    worst_miss,
    worst_period,
)
from forecaster.report.sections.reliability import check_reliability, key_figures
from tests.report.comparisons import bare_panel, compare


@pytest.fixture(scope="module")
def best(data: ReportData) -> ModelResult:
    assert data.best is not None
    return data.best


def day_rmse(data: ReportData, row: ModelResult) -> dict[int, float]:
    """Return the error of each local day from forecasts that are made again."""
    panel, found = data.panel, row.first
    origins = np.searchsorted(panel.times.astype(np.int64), found.origins)
    forecast = data.estimator_of(row).predict(panel, origins)
    steps = origins[:, None] + np.arange(1, forecast.shape[1] + 1)
    days = panel.clock.local(panel.times[steps]).astype("datetime64[D]").astype(np.int64)
    errors = sum_errors(panel.values[steps], forecast, 10.0)
    return {
        int(day): float(
            np.sqrt(errors.squares[days == day].sum() / errors.values[days == day].sum())
        )
        for day in np.unique(days)
    }


def test_the_worst_day_has_the_largest_error(data: ReportData, best: ModelResult) -> None:
    span, by_day = worst_period(best.first, data.panel), day_rmse(data, best)
    assert span.days == 1
    assert span.rmse == pytest.approx(by_day[span.first], rel=1e-5)
    whole = sorted(by_day)[1:-1]  # the first and the last may be cut
    assert span.rmse >= max(by_day[day] for day in whole) * (1 - 1e-6)


def test_the_normal_week_has_the_median_error(data: ReportData, best: ModelResult) -> None:
    span, count = typical_period(best.first, data.panel)
    assert (span.days, span.kind) == (7, "week")
    assert count == 1  # the test has nine days
    assert span.first == best.first.days.min()


def test_a_day_of_one_step_is_shown_within_a_week(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    values = np.random.default_rng(0).poisson(30, (601, 3))
    lags = {"recent": 3, "seasons": [], "horizon": 2}
    place = tmp_path_factory.mktemp("daily")
    data = read_report_data(compare(place, bare_panel(values, 1440), ["Ridge"], lags=lags))
    row = data.comparison.rows[0]
    assert worst_period(row.first, data.panel).kind == "week"
    normal, count = typical_period(row.first, data.panel)
    assert (normal.kind, normal.kinds, count) == ("period of 28 days", "periods of 28 days", 4)


def test_closed_steps_are_neither_drawn_nor_counted_as_missing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    hours, open_daily = (
        "Sun off",
        bare_panel(np.random.default_rng(0).poisson(30, (601, 3)).astype(float), 1440),
    )
    clock = Clock("UTC", 1440, hours=(hours,))
    closed = ~clock.is_open(clock.axis(open_daily.start, 601))
    values = np.where(closed[:, None], np.nan, open_daily.values).astype(np.float32)
    places = replace(open_daily.locations, hours=(hours,) * 3)
    panel = replace(open_daily, values=values, clock=clock, locations=places)
    lags = {"recent": 3, "seasons": [], "horizon": 2}
    place = tmp_path_factory.mktemp("sundays")
    data = read_report_data(compare(place, panel, ["Ridge"], lags=lags))
    best = data.comparison.rows[0]
    span = typical_period(best.first, panel)[0]
    excerpt = take_excerpt(data.estimator_of(best), panel, best.first, span, [2, 0])
    sundays = (excerpt.times.astype("datetime64[D]").astype(int) + 3) % 7 == 6
    assert sundays.sum() == 4
    assert excerpt.bounds is not None
    assert excerpt.last_step is not None
    for lines in (excerpt.forecast, excerpt.last_step, *excerpt.bounds):
        np.testing.assert_array_equal(np.isnan(lines[2:]), np.stack([sundays[2:]] * 2, axis=1))
    findings = {finding.topic: finding.text for finding in check_reliability(data, best)}
    assert findings["Missing values"] == "every target value was observed"


def test_periods_of_months_are_whole_months(tmp_path_factory: pytest.TempPathFactory) -> None:
    plain = bare_panel(100 + np.random.default_rng(0).normal(0, 9, (157, 3)), kind="measurement")
    start = np.datetime64("2011-01-01T00", "s")
    panel = replace(plain, clock=Clock("UTC", step_minutes=1, step_months=1), start=start)
    lags = {"recent": 3, "seasons": [], "horizon": 2}
    place = tmp_path_factory.mktemp("months")
    data = read_report_data(compare(place, panel, ["Ridge"], lags=lags))
    best = data.comparison.rows[0]
    span = worst_period(best.first, panel)
    assert (span.kind, span.months) == ("period of 7 months", 7)
    first, last = (np.datetime64(month, "M") for month in str(span).split(" … "))
    assert (last - first).astype(int) == 6
    excerpt = take_excerpt(data.estimator_of(best), panel, best.first, span, [2, 0])
    assert len(excerpt.times) == 7
    labels = to_svg(draw_excerpt(excerpt, ["a", "b"]), "x")
    assert str(first.astype(object).year).encode() in labels
    dates = len(set(best.first.days.tolist()))
    assert key_figures(data, best)["test months"] == str(dates)
    findings = {finding.topic: finding for finding in check_reliability(data, best)}
    assert findings["Test length"].text == f"tested on {dates} months not used for training"
    assert findings["Test length"].level == "good"
    text = data.comparison.to_markdown()
    assert f"{dates} test windows; no covariates" in text
    assert "| bias % | overall | smallest | 2nd | largest |\n" in text
    assert "hours of the day" not in text


def test_a_span_names_its_days_or_months() -> None:
    assert str(Period(first=18_628, days=59, rmse=1.0, months=2)) == "2021-01 … 2021-02"
    assert str(Period(first=18_628, days=7, rmse=1.0)) == "2021-01-01 … 2021-01-07"
    assert str(Period(first=18_628, days=1, rmse=1.0)) == "2021-01-01"


def test_three_unlike_places_are_chosen(best: ModelResult) -> None:
    chosen = choose_locations(best.first, np.array([0.1, 0.5, 0.2, np.nan, 0.3]))
    assert chosen == {4: "busiest", 2: "median size", 1: "largest error"}  # they grow busier


def test_what_is_drawn_is_what_was_forecast_and_what_came(
    data: ReportData, best: ModelResult
) -> None:
    panel, found = data.panel, best.first
    span = worst_period(found, panel)
    excerpt = take_excerpt(data.estimator_of(best), panel, found, span, [3, 1])
    assert len(excerpt.times) == 24
    assert (excerpt.times.astype("datetime64[D]").astype(int) == span.first).all()
    start = int(np.flatnonzero(panel.clock.local(panel.times) == excerpt.times[0])[0])
    steps = start + np.arange(24)
    np.testing.assert_array_equal(excerpt.truth, panel.values[steps][:, [3, 1]])
    for ahead, drawn in ((1, excerpt.forecast), (2, excerpt.last_step)):
        forecast = data.estimator_of(best).predict(panel, steps - ahead)
        expected = forecast[:, ahead - 1][:, [3, 1]]
        seen = np.isfinite(drawn)
        assert seen.sum() > 40
        np.testing.assert_allclose(drawn[seen], expected[seen], rtol=1e-5)


def test_the_interval_is_that_of_one_step_ahead(data: ReportData, best: ModelResult) -> None:
    panel, found, estimator = data.panel, best.first, data.estimator_of(best)
    excerpt = take_excerpt(estimator, panel, found, worst_period(found, panel), [3, 1])
    assert excerpt.levels == (0.1, 0.5, 0.9)
    assert excerpt.bounds is not None
    start = int(np.flatnonzero(panel.clock.local(panel.times) == excerpt.times[0])[0])
    quantiles = estimator.predict_quantiles(panel, start + np.arange(24) - 1)
    for end, level in zip(excerpt.bounds, (0, 2), strict=True):
        seen = np.isfinite(end)
        assert seen.sum() > 40
        np.testing.assert_allclose(end[seen], quantiles[:, level, 0][:, [3, 1]][seen], rtol=1e-5)
    drawing = draw_excerpt(excerpt, ["a", "b"])
    bands = [axes.collections[0].get_paths()[0].get_extents() for axes in drawing.axes]
    assert bands[1].y0 == pytest.approx(np.nanmin(excerpt.bounds[0, :, 1]))
    assert bands[1].y1 == pytest.approx(np.nanmax(excerpt.bounds[1, :, 1]))
    assert b"80 % interval" in to_svg(drawing, "x")


def test_a_run_without_intervals_is_drawn_without(data: ReportData, best: ModelResult) -> None:
    estimator = data.estimator_of(best)
    assert estimator.run is not None
    arrays = {n: a for n, a in estimator.run.arrays.items() if not n.startswith("intervals.")}
    older = type(estimator).from_run(replace(estimator.run, arrays=arrays))
    span = worst_period(best.first, data.panel)
    excerpt = take_excerpt(older, data.panel, best.first, span, [3, 1])
    assert (excerpt.levels, excerpt.bounds) == ((), None)
    assert b"interval" not in to_svg(draw_excerpt(excerpt, ["a", "b"]), "x")


def test_only_tested_origins_are_asked(data: ReportData, best: ModelResult) -> None:
    panel, found = data.panel, best.first
    before = Period(first=int(found.days.min()) - 3, days=2, rmse=1.0)
    excerpt = take_excerpt(data.estimator_of(best), panel, found, before, [0])
    assert np.isfinite(excerpt.truth).any()
    assert np.isnan(excerpt.forecast).all()
    assert excerpt.bounds is not None
    assert np.isnan(excerpt.bounds).all()


def test_no_origin_is_asked_twice(
    data: ReportData, best: ModelResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def note(run: Run, panel: Panel, origins: np.ndarray, *rest: Any) -> ForecastInputs:
        asked.extend(origins.tolist())
        return prepare_inputs(run, panel, origins, *rest)

    monkeypatch.setattr("forecaster.estimators.base.prepare_inputs", note)
    span, _ = typical_period(best.first, data.panel)
    take_excerpt(data.estimator_of(best), data.panel, best.first, span, [3])
    assert len(asked) > 7 * 24 - 2
    assert len(asked) == len(set(asked))


def test_the_worst_miss_is_the_largest_error_of_its_step(
    data: ReportData, best: ModelResult
) -> None:
    panel, estimator, period = (
        data.panel,
        data.estimator_of(best),
        worst_period(best.first, data.panel),
    )
    miss = worst_miss(estimator, panel, best.first, period)
    target = int(np.flatnonzero(panel.clock.local(panel.times) == miss.time)[0])
    assert miss.time.astype("datetime64[D]").astype(int) == period.first
    assert miss.observed == panel.values[target, miss.location]
    forecast = estimator.predict(panel, np.array([target - miss.step]))[0, miss.step - 1]
    errors = np.abs(forecast - panel.values[target])
    assert int(np.argmax(errors)) == miss.location
    assert miss.forecast == pytest.approx(float(forecast[miss.location]), rel=1e-5)
    text = describe_miss(miss, data)
    assert f"{number(miss.observed)} counts per hour came at " in text
    assert f"{number(miss.forecast)} had been forecast {miss.step} hour" in text


def test_names_are_no_formulas(data: ReportData, best: ModelResult) -> None:
    span = worst_period(best.first, data.panel)
    excerpt = take_excerpt(data.estimator_of(best), data.panel, best.first, span, [0, 1])
    drawing = to_svg(draw_excerpt(excerpt, ["$x^2$ <b>", "b"]), "x")
    assert b"$x^2$ &lt;b&gt;" in drawing
    assert b"2 steps ahead" in drawing


def test_a_normal_week_and_the_worst_day_are_shown(data: ReportData) -> None:
    normal, worst = forecast_section(data).pictures
    assert (normal.name, normal.title) == ("02-normal-week", "A typical week")
    assert (worst.name, worst.title) == ("03-worst-day", "The day with the largest error")
    assert data.best is not None
    span = worst_period(data.best.first, data.panel)
    assert worst.text.startswith(f"{span}: RMSE {number(span.rmse)} counts per hour, ")
    assert " At the worst miss " in worst.text
    assert "The mean absolute error one step ahead" in worst.text
    assert " The 80 % interval covers " in worst.text
    assert data.panel.locations.names[4] in worst.alternative  # the busiest


def test_a_long_horizon_is_drawn_from_one_origin_after_the_other(
    data: ReportData, best: ModelResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecaster.report.sections.forecasts.ALL_STEPS", 1)  # two are many
    panel, found, estimator = data.panel, best.first, data.estimator_of(best)
    excerpt = take_excerpt(estimator, panel, found, worst_period(found, panel), [3, 1])
    assert excerpt.last_step is None
    assert excerpt.issued is not None
    assert len(excerpt.issued) == 12  # of two steps each
    start = int(np.flatnonzero(panel.clock.local(panel.times) == excerpt.times[0])[0])
    forecast = estimator.predict(panel, start - 1 + np.arange(0, 24, 2))
    expected = forecast.reshape(24, -1)[:, [3, 1]]
    np.testing.assert_allclose(excerpt.forecast, expected, rtol=1e-5)
    drawing = to_svg(draw_excerpt(excerpt, ["a", "b"]), "x")
    assert b"ahead" not in drawing


def test_the_last_tested_origin_stands_for_later_ones(
    data: ReportData, best: ModelResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecaster.report.sections.forecasts.ALL_STEPS", 1)
    panel, estimator, period = (
        data.panel,
        data.estimator_of(best),
        worst_period(best.first, data.panel),
    )
    local_days = panel.clock.local(panel.times).astype("datetime64[D]").astype(int)
    first = int(np.flatnonzero(local_days == period.first)[0])
    shorter = copy(best.first)  # tested until two steps before the day
    tested = best.first.origins[panel.step_index(best.first.origins) <= first - 2]
    object.__setattr__(shorter, "origins", tested)
    excerpt = take_excerpt(estimator, panel, shorter, period, [3])
    expected = estimator.predict(panel, np.array([first - 2]))[0, 1, 3]
    np.testing.assert_allclose(excerpt.forecast[0, 0], expected, rtol=1e-5)
    assert np.isnan(excerpt.forecast[1:]).all()
    assert excerpt.issued is not None
    assert not len(excerpt.issued)  # before the day that is drawn
    assert not excerpt.marks_origins


def test_many_origins_are_not_marked(data: ReportData, best: ModelResult) -> None:
    span = worst_period(best.first, data.panel)
    excerpt = take_excerpt(data.estimator_of(best), data.panel, best.first, span, [3])
    few, many = (replace(excerpt, issued=excerpt.times[:count]) for count in (13, 17))
    assert few.marks_origins
    assert not many.marks_origins
    lines = [len(draw_excerpt(e, ["a"]).axes[0].get_lines()) for e in (few, many)]
    assert lines[0] - lines[1] == 13
