"""The stored sums, grouped, against quantiles that are forecast and compared again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.evaluation.comparison import Comparison, ModelResult
from forecaster.panel.parts import Locations
from forecaster.report.data import ReportData, read_report_data
from forecaster.report.draw.canvas import to_svg
from forecaster.report.groups import group_by_hour, group_by_step
from forecaster.report.sections.intervals import (
    Coverage,
    coverage_by_group,
    coverage_by_location,
    coverage_by_weather,
    draw_coverage_by_group,
    draw_coverage_by_location,
    draw_coverage_by_weather,
    interval_scores_of,
    interval_section,
    widths_by_group,
)
from forecaster.report.sections.section import Section
from tests.report.comparisons import bare_panel, compare, daily_cycle


@pytest.fixture(scope="module")
def ridge(data: ReportData) -> ModelResult:
    return next(row for row in data.comparison.rows if row.name == "Ridge")


@pytest.fixture(scope="module")
def outcomes(data: ReportData, ridge: ModelResult) -> dict[str, pd.DataFrame]:
    """Return a line for every observed target: when, where, its part within, how wide."""
    panel, result, estimator = data.panel, ridge.first, data.estimator_of(ridge)
    origins = np.searchsorted(panel.times.astype(np.int64), result.origins)
    steps = origins[:, None] + [1, 2]
    truth = panel.values[steps]  # [B K N]
    local = panel.clock.local(panel.times[steps])
    hours = (local - local.astype("datetime64[D]")) // np.timedelta64(1, "h")
    tables = {}
    for form in ("static", "online"):
        q = estimator.predict_quantiles(panel, origins, "observed", online=form == "online")
        found = estimator.predict_all(panel, origins)
        corrections = found.corrections if form == "online" else found.calibration.corrections
        uncut = found.calibration.widen(found.base, corrections)
        inside = np.minimum(uncut[:, -1], truth + 0.5) - np.maximum(uncut[:, 0], truth - 0.5)
        lines = {
            "hour": hours[:, :, None], "k": np.arange(2)[:, None], "place": np.arange(5),
            "rain": panel.covariates.values[steps, 1][:, :, None], "truth": truth,
            "inside": np.clip(inside, 0, 1), "width": q[:, -1] - q[:, 0],
        }  # fmt: skip
        flat = {name: np.broadcast_to(part, truth.shape).ravel() for name, part in lines.items()}
        tables[form] = pd.DataFrame(flat).dropna()
    return tables


@pytest.mark.parametrize("form", ["static", "online"])
def test_shares_of_hours_and_steps_are_counted(
    data: ReportData, ridge: ModelResult, outcomes: dict[str, pd.DataFrame], form: str
) -> None:
    hours = group_by_hour(ridge.first, data.panel)
    assert hours is not None
    by_hour, by_step = (
        coverage_by_group(ridge, hours),
        coverage_by_group(ridge, group_by_step(ridge.first)),
    )
    direct = outcomes[form].groupby("hour").inside.mean()
    np.testing.assert_allclose(by_hour.shares[form], direct, rtol=1e-5)  # type: ignore[index]
    direct = outcomes[form].groupby("k").inside.mean()
    np.testing.assert_allclose(by_step.shares[form], direct, rtol=1e-5)  # type: ignore[index]
    assert by_step.labels == ("+1", "+2")


def test_shares_with_rain_and_without(
    data: ReportData, ridge: ModelResult, outcomes: dict[str, pd.DataFrame]
) -> None:
    found = coverage_by_weather(ridge, data.panel)
    direct = outcomes["online"].groupby("rain").inside.mean()
    np.testing.assert_allclose(found["rain"].shares["online"], direct, rtol=1e-5)
    contrasts = [parted.contrast for parted in found.values()]
    assert contrasts == sorted(contrasts, reverse=True)


def test_shares_and_widths_of_locations_and_hours(
    data: ReportData, ridge: ModelResult, outcomes: dict[str, pd.DataFrame]
) -> None:
    direct = outcomes["online"].groupby("place").inside.mean()
    np.testing.assert_allclose(coverage_by_location(ridge), direct, rtol=1e-5)
    hours = group_by_hour(ridge.first, data.panel)
    assert hours is not None
    widths = widths_by_group([ridge], hours)
    direct = outcomes["online"].groupby("hour").width.mean()
    np.testing.assert_allclose(widths.values["Ridge"], direct, rtol=1e-5)


def test_several_trainings_are_averaged_as_in_the_table(data: ReportData) -> None:
    row = next(row for row in data.comparison.rows if row.name == "Forecaster")
    assert len(interval_scores_of(row)) == 2
    steps = [spread.mean for spread in row.judged_coverage("static")[1:]]
    np.testing.assert_allclose(
        coverage_by_group(row, group_by_step(row.first)).shares["static"], steps
    )


def test_hours_in_which_nothing_was_observed_are_left_out(
    data: ReportData, ridge: ModelResult
) -> None:
    hours = group_by_hour(ridge.first, data.panel)
    assert hours is not None
    moved = replace(hours, groups=np.where(hours.groups == 3, 4, hours.groups))
    found = coverage_by_group(ridge, moved)
    assert "3:00" not in found.labels
    assert len(found.labels) == len(found.steps) == len(found.shares["static"]) == 23


WANTED = 0.8


def held(*shares: float) -> Coverage:
    online = np.array(shares)
    labels = tuple(f"{n}:00" for n in range(len(shares)))
    return Coverage(
        labels, np.full(len(shares), 1029), {"static": online - 0.05, "online": online}
    )


@pytest.mark.parametrize("count", [2, 7, 24])
def test_bars_reach_from_what_is_wanted_to_what_came_within(count: int) -> None:
    shares = np.linspace(0.7, 0.9, count)
    axes = draw_coverage_by_group(held(*shares), WANTED, "hour").axes[0]
    static, online = axes.containers
    for bars, values in ((static, shares - 0.05), (online, shares)):
        assert [bar.get_y() for bar in bars] == pytest.approx([80.0] * count)
        ends = [bar.get_y() + bar.get_height() for bar in bars]
        assert ends == pytest.approx((100 * values).tolist())
    assert [line.get_ydata()[0] for line in axes.lines] == pytest.approx([80.0])
    low, high = axes.get_ylim()
    assert low < 65
    assert high > 90


def test_a_small_difference_does_not_look_large() -> None:
    near = Coverage(
        ("+1",), np.array([7]), {"static": np.array([0.801]), "online": np.array([0.8])}
    )
    low, high = draw_coverage_by_group(near, WANTED, "step").axes[0].get_ylim()
    assert high - low > 8


def test_the_axis_ends_where_shares_do() -> None:
    low, high = draw_coverage_by_group(held(0.1, 1.0), WANTED, "step").axes[0].get_ylim()
    assert (low, high) == (pytest.approx(0, abs=5), 100)


def test_every_kind_of_weather_has_a_row_with_its_steps() -> None:
    figure = draw_coverage_by_weather(
        {"$rain$": held(0.8, 0.7), "fog": held(0.7, 0.8, 0.9)}, WANTED
    )
    drawing = to_svg(figure, "x")
    for text in (b"$rain$: 0:00 (1,029)", b"$rain$: 1:00 (1,029)", b"fog: 2:00 (1,029)"):
        assert text in drawing
    for text in (b"static", b"online", "nominal: 80 % (± 2)".encode()):
        assert text in drawing
    online = figure.axes[0].containers[1]
    ends = [bar.get_x() + bar.get_width() for bar in online]
    assert ends == pytest.approx([80, 70, 70, 80, 90])


def test_the_places_that_are_too_sure_are_named_on_the_map() -> None:
    names = ("north", "middle", "south", "lost", "east")
    lat, lon = np.array([3.0, 2, 1, np.nan, 5]), np.arange(5.0)
    places = Locations(tuple("abcde"), names, lat, lon)
    shares = np.array([0.9, 0.85, np.nan, 0.4, 0.7])
    figure = draw_coverage_by_location(places, shares, np.ones(5), WANTED)
    drawing = to_svg(figure, "x")
    assert b"east" in drawing
    assert b"lost" not in drawing
    assert b"south" not in drawing
    dots = figure.axes[0].collections[0]
    assert sum(dots.get_clim()) / 2 == pytest.approx(80)  # what is wanted has no colour


def test_many_places_without_coordinates_show_the_least_and_the_most() -> None:
    places = Locations.of_ids(f"p{n:02d}" for n in range(53))
    shares = np.linspace(0.6, 0.95, 53)
    drawing = to_svg(draw_coverage_by_location(places, shares, np.ones(53), WANTED), "x")
    assert all(f"p{n:02d}".encode() in drawing for n in [*range(10), *range(43, 53)])
    assert b"p25" not in drawing
    assert b"static" not in drawing


@pytest.fixture(scope="module")
def section(sections: list[Section]) -> Section:
    return next(s for s in sections if s.name == "intervals")


def without_intervals(row: ModelResult) -> ModelResult:
    return replace(
        row, results={s: replace(f, interval_results=None) for s, f in row.results.items()}
    )


def test_the_section_says_what_an_interval_means(data: ReportData, section: Section) -> None:
    assert (section.name, section.title) == ("intervals", "Prediction intervals")
    assert data.comparison.interval_verdict is not None
    assert section.text.startswith(data.comparison.interval_verdict)
    assert "covers more than 80 % is too wide" in section.text
    assert [picture.name for picture in section.pictures] == [
        "20-coverage-steps", "21-coverage-hours", "22-coverage-weather",
        "23-coverage-by-location", "24-interval-width",
    ]  # fmt: skip


def test_each_picture_says_what_it_shows(data: ReportData, section: Section) -> None:
    best = data.best
    assert best is not None
    pictures = {picture.name: picture for picture in section.pictures}
    steps = coverage_by_group(best, group_by_step(best.first)).shares["online"]
    assert f"{100 * steps.min():.1f}" in pictures["20-coverage-steps"].text
    grouping = group_by_hour(best.first, data.panel)
    assert grouping is not None
    hours = coverage_by_group(best, grouping)
    least = int(hours.shares["online"].argmin())
    text = f"Online coverage is lowest with {100 * hours.shares['online'][least]:.1f} % at "
    assert text + hours.labels[least] in pictures["21-coverage-hours"].text
    assert "differs most by" in pictures["22-coverage-weather"].text
    places = coverage_by_location(best)
    name = data.panel.locations.names[int(places.argmin())]
    text = f"Online coverage ranges from {100 * places.min():.1f} % at {name} to "
    assert pictures["23-coverage-by-location"].text.startswith(text)
    assert "Blue: below nominal" in pictures["23-coverage-by-location"].text
    assert "narrowest (" in pictures["24-interval-width"].text


def test_alternatives_name_the_interval_and_the_models(section: Section) -> None:
    for picture in section.pictures[:3]:
        assert "coverage of the 80 % interval of Ridge, static and online" in picture.alternative
    assert "Ridge, SeasonalNaive and Forecaster" in section.pictures[-1].alternative


def test_every_model_has_a_line_in_the_table(data: ReportData, section: Section) -> None:
    assert section.table is not None
    names = [line.name for _, lines in section.table.groups for line in lines]
    assert names == [row.name for row in data.comparison.tested]


def test_runs_from_before_intervals_have_no_such_section(data: ReportData) -> None:
    rows = [without_intervals(row) for row in data.comparison.rows]
    comparison = Comparison(rows, data.comparison.mape_cut, data.comparison.about)
    assert not interval_section(replace(data, comparison=comparison)).pictures
    some = [row if row is data.best else without_intervals(row) for row in data.drawn]
    comparison = Comparison(some, data.comparison.mape_cut, data.comparison.about)
    found = interval_section(replace(data, comparison=comparison))
    assert found.pictures
    assert "for Ridge." in found.pictures[-1].alternative  # nobody else has widths


def test_one_quantile_is_no_interval(tmp_path: Path) -> None:
    panel = bare_panel(daily_cycle())
    found = read_report_data(compare(tmp_path, panel, ["Ridge"], intervals={"quantiles": [0.3]}))
    assert not interval_section(found).pictures
    assert found.comparison.levels == (0.3,)


def test_days_have_widths_by_step_and_no_hours(tmp_path: Path) -> None:
    values = np.random.default_rng(0).poisson(30, (601, 3))
    lags = {"recent": 3, "seasons": [], "horizon": 2}
    place = compare(tmp_path, bare_panel(values, 1440), ["Ridge"], lags=lags)
    pictures = {
        picture.name: picture for picture in interval_section(read_report_data(place)).pictures
    }
    assert list(pictures) == ["20-coverage-steps", "23-coverage-by-location", "24-interval-width"]
    assert "by step ahead for Ridge" in pictures["24-interval-width"].alternative
    assert "Blue" not in pictures["23-coverage-by-location"].text  # bars, no map
