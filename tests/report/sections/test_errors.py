"""The stored sums, grouped, against forecasts that are made and compared again."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from forecaster.evaluation.comparison import ModelResult
from forecaster.panel.parts import Locations
from forecaster.report.data import ReportData, read_report_data
from forecaster.report.draw.canvas import to_svg
from forecaster.report.groups import Breakdown, target_times
from forecaster.report.sections.errors import (
    by_hour,
    by_step,
    by_weather,
    by_weekday,
    condition_section,
    draw_location_errors,
    draw_weather,
    error_section,
    location_errors,
    location_rmse,
)
from tests.report.comparisons import bare_panel, compare


def long_errors(data: ReportData, row: ModelResult) -> Iterator[pd.DataFrame]:
    """Yield a line for every training, window, step and location, from new forecasts."""
    panel, seed = data.panel, next(iter(row.results))
    found, estimator = row.results[seed], data.estimator_of(row)
    origins = np.searchsorted(panel.times.astype(np.int64), found.origins)
    forecast = estimator.predict(panel, origins, "observed")
    for k in range(forecast.shape[1]):
        step = origins + 1 + k
        table = panel.values[step]
        local = pd.DatetimeIndex(panel.times[step], tz="UTC").tz_convert(panel.clock.zone)
        for n in range(table.shape[1]):
            yield pd.DataFrame(
                {
                    "hour": local.hour, "weekday": local.day_name(), "k": k, "place": n,
                    "rain": panel.covariates.values[step, 1], "truth": table[:, n],
                    "error": forecast[:, k, n].astype(float) - table[:, n],
                }
            ).dropna()  # fmt: skip


@pytest.fixture(scope="module")
def ridge(data: ReportData) -> ModelResult:
    return next(row for row in data.comparison.rows if row.name == "Ridge")


@pytest.fixture(scope="module")
def errors(data: ReportData, ridge: ModelResult) -> pd.DataFrame:
    return pd.concat(long_errors(data, ridge))


def rmse(errors: pd.DataFrame, by: str) -> pd.Series:
    return errors.groupby(by).error.apply(lambda e: np.sqrt(np.mean(np.square(e))))


def test_errors_of_hours_are_those_of_the_wall_clock(
    data: ReportData, ridge: ModelResult, errors: pd.DataFrame
) -> None:
    found = by_hour([ridge], data.panel)
    assert found is not None
    assert found.labels == tuple(f"{hour}:00" for hour in range(24))
    np.testing.assert_allclose(found.values["Ridge"], rmse(errors, "hour"), rtol=1e-5)


def test_errors_of_weekdays(data: ReportData, ridge: ModelResult, errors: pd.DataFrame) -> None:
    found = by_weekday([ridge], data.panel)
    direct = rmse(errors, "weekday")
    np.testing.assert_allclose(found.values["Ridge"], direct[list(found.labels)], rtol=1e-5)
    assert found.labels[0] == "Monday"


def test_errors_of_steps(ridge: ModelResult, errors: pd.DataFrame) -> None:
    found = by_step([ridge])
    assert found.labels == ("+1", "+2")
    np.testing.assert_allclose(found.first, rmse(errors, "k"), rtol=1e-5)


def test_errors_of_locations(data: ReportData, ridge: ModelResult, errors: pd.DataFrame) -> None:
    np.testing.assert_allclose(location_rmse(ridge), rmse(errors, "place"), rtol=1e-5)
    measure, found = location_errors(ridge, data.panel)
    sums = errors[["place", "error", "truth"]].abs().groupby("place").sum()
    np.testing.assert_allclose(found, sums.error / sums.truth, rtol=1e-5)
    assert measure == "WAPE"


def test_rain_is_told_from_no_rain(
    data: ReportData, ridge: ModelResult, errors: pd.DataFrame
) -> None:
    found = by_weather([ridge], data.panel)
    rain = found["rain"]
    assert rain.labels == ("no", "yes")
    np.testing.assert_allclose(rain.values["Ridge"], rmse(errors, "rain"), rtol=1e-5)
    assert rain.steps.sum() == target_times(ridge.first, data.panel).size
    assert found["temperature"].labels[0].startswith("≤ ")
    assert len(found["temperature"].labels) == 3
    contrasts = [parted.contrast for parted in found.values()]
    assert contrasts == sorted(contrasts, reverse=True)


def test_several_trainings_are_averaged_as_in_the_table(data: ReportData) -> None:
    row = next(row for row in data.comparison.rows if row.name == "Forecaster")
    assert len(row.results) == 2
    steps = [spread.mean for spread in row.seed_means("rmse", "observed")[1:]]
    np.testing.assert_allclose(by_step([row]).first, steps)


def test_a_day_has_no_hours(tmp_path_factory: pytest.TempPathFactory) -> None:
    values = np.random.default_rng(0).poisson(30, (211, 3))
    lags = {"recent": 3, "seasons": [], "horizon": 2}
    place = tmp_path_factory.mktemp("daily")
    data = read_report_data(compare(place, bare_panel(values, 1440), ["Ridge"], lags=lags))
    assert by_hour(data.comparison.rows, data.panel) is None
    assert len(by_weekday(data.comparison.rows, data.panel).labels) == 7
    assert by_weather(data.comparison.rows, data.panel) == {}


def test_each_picture_says_the_extremes_that_it_shows(data: ReportData) -> None:
    assert [p.name for p in error_section(data).pictures] == ["04-hours", "08-error-by-location"]
    further = condition_section(data).pictures
    assert [p.name for p in further] == ["05-weekdays", "06-steps", "07-weather"]
    pictures = {picture.name: picture for picture in (*error_section(data).pictures, *further)}
    assert data.best is not None
    hours = by_hour([data.best], data.panel)
    assert hours is not None
    worst = hours.labels[int(hours.first.argmax())]
    assert f"is highest at {worst} ({hours.first.max():.3g})" in pictures["04-hours"].text
    assert " highest on " in pictures["05-weekdays"].text
    assert "at step 1 to " in pictures["06-steps"].text
    assert "not its effect alone" in pictures["07-weather"].text


def test_errors_have_a_unit(data: ReportData) -> None:
    for picture in (error_section(data).pictures[0], *condition_section(data).pictures):
        axes = picture.figure.axes[0]
        assert "RMSE, counts per hour" in (axes.get_xlabel(), axes.get_ylabel())


def test_the_summary_is_the_main_finding(data: ReportData) -> None:
    assert condition_section(data).summary.startswith("The RMSE of Ridge differs most by ")


def test_the_hardest_place_is_named(data: ReportData) -> None:
    assert data.best is not None
    _, errors = location_errors(data.best, data.panel)
    picture = error_section(data).pictures[-1]
    name = data.panel.locations.names[int(errors.argmax())]
    assert f"to {100 * errors.max():.0f} % at {name}" in picture.text


def test_alternatives_name_the_models(data: ReportData) -> None:
    for picture in (error_section(data).pictures[0], *condition_section(data).pictures):
        assert "Ridge, SeasonalNaive and Forecaster" in picture.alternative


def breakdown(labels: int, models: int) -> Breakdown:
    rmse = {f"model {n}": np.arange(1.0, labels + 1) for n in range(models)}
    return Breakdown(tuple(f"{n}:00" for n in range(labels)), np.full(labels, 29), rmse)


def test_every_kind_of_weather_has_a_row_with_its_steps() -> None:
    drawing = to_svg(draw_weather({"$rain$": breakdown(2, 2), "fog": breakdown(3, 2)}), "x")
    for text in (b"$rain$: 0:00 (29)", b"$rain$: 1:00 (29)", b"fog: 2:00 (29)"):
        assert text in drawing


def test_many_places_without_coordinates_show_the_worst_and_the_best() -> None:
    places = Locations.of_ids(f"p{n:02d}" for n in range(53))
    drawing = to_svg(draw_location_errors(places, np.arange(53.0), np.ones(53), "WAPE, %"), "x")
    assert all(f"p{n:02d}".encode() in drawing for n in [*range(10), *range(43, 53)])
    assert b"p25" not in drawing


def test_the_worst_places_are_named_on_the_map() -> None:
    names = ("north", "middle", "south", "lost")
    places = Locations(tuple("abcd"), names, np.array([3.0, 2, 1, np.nan]), np.arange(4.0))
    errors = np.array([0.1, 0.2, np.nan, 0.4])
    drawing = to_svg(draw_location_errors(places, errors, np.ones(4), "WAPE, %"), "x")
    assert b"middle" in drawing
    assert b"lost" not in drawing
    assert b"WAPE, %" in drawing
