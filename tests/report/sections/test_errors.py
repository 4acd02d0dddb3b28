"""The stored sums, grouped, against forecasts that are made and compared again."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from forecaster.evaluation.comparison import Row
from forecaster.panel.parts import Locations
from forecaster.report.data import Material, read_material
from forecaster.report.draw.canvas import to_svg
from forecaster.report.groups import Breakdown, target_times
from forecaster.report.sections.errors import (
    by_hour,
    by_step,
    by_weather,
    by_weekday,
    draw_place_errors,
    draw_weather,
    error_pictures,
    place_errors,
    place_rmse,
)
from tests.report.comparisons import bare_panel, compare


def long_errors(material: Material, row: Row) -> Iterator[pd.DataFrame]:
    """Yield a line for every training, window, step and location, from new forecasts."""
    panel, seed = material.panel, next(iter(row.found))
    found, estimator = row.found[seed], material.estimator_of(row)
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
def ridge(material: Material) -> Row:
    return next(row for row in material.comparison.rows if row.name == "Ridge")


@pytest.fixture(scope="module")
def errors(material: Material, ridge: Row) -> pd.DataFrame:
    return pd.concat(long_errors(material, ridge))


def rmse(errors: pd.DataFrame, by: str) -> pd.Series:
    return errors.groupby(by).error.apply(lambda e: np.sqrt(np.mean(np.square(e))))


def test_errors_of_hours_are_those_of_the_wall_clock(
    material: Material, ridge: Row, errors: pd.DataFrame
) -> None:
    found = by_hour([ridge], material.panel)
    assert found is not None
    assert found.labels == tuple(f"{hour}:00" for hour in range(24))
    np.testing.assert_allclose(found.values["Ridge"], rmse(errors, "hour"), rtol=1e-5)


def test_errors_of_weekdays(material: Material, ridge: Row, errors: pd.DataFrame) -> None:
    found = by_weekday([ridge], material.panel)
    direct = rmse(errors, "weekday")
    np.testing.assert_allclose(found.values["Ridge"], direct[list(found.labels)], rtol=1e-5)
    assert found.labels[0] == "Monday"


def test_errors_of_steps(ridge: Row, errors: pd.DataFrame) -> None:
    found = by_step([ridge])
    assert found.labels == ("+1", "+2")
    np.testing.assert_allclose(found.first, rmse(errors, "k"), rtol=1e-5)


def test_errors_of_locations(material: Material, ridge: Row, errors: pd.DataFrame) -> None:
    np.testing.assert_allclose(place_rmse(ridge), rmse(errors, "place"), rtol=1e-5)
    measure, found = place_errors(ridge, material.panel)
    sums = errors[["place", "error", "truth"]].abs().groupby("place").sum()
    np.testing.assert_allclose(found, sums.error / sums.truth, rtol=1e-5)
    assert measure == "WAPE"


def test_rain_is_told_from_no_rain(material: Material, ridge: Row, errors: pd.DataFrame) -> None:
    found = by_weather([ridge], material.panel)
    rain = found["rain"]
    assert rain.labels == ("no", "yes")
    np.testing.assert_allclose(rain.values["Ridge"], rmse(errors, "rain"), rtol=1e-5)
    assert rain.steps.sum() == target_times(ridge.first, material.panel).size
    assert found["temperature"].labels[0].startswith("≤ ")
    assert len(found["temperature"].labels) == 3
    contrasts = [parted.contrast for parted in found.values()]
    assert contrasts == sorted(contrasts, reverse=True)


def test_several_trainings_are_averaged_as_in_the_table(material: Material) -> None:
    row = next(row for row in material.comparison.rows if row.name == "Forecaster")
    assert len(row.found) == 2
    steps = [spread.mean for spread in row.spread("rmse", "observed")[1:]]
    np.testing.assert_allclose(by_step([row]).first, steps)


def test_a_day_has_no_hours(tmp_path_factory: pytest.TempPathFactory) -> None:
    values = np.random.default_rng(0).poisson(30, (211, 3))
    lags = {"recent": 3, "seasons": [], "horizon": 2}
    place = tmp_path_factory.mktemp("daily")
    material = read_material(compare(place, bare_panel(values, 1440), ["Ridge"], lags=lags))
    assert by_hour(material.comparison.rows, material.panel) is None
    assert len(by_weekday(material.comparison.rows, material.panel).labels) == 7
    assert by_weather(material.comparison.rows, material.panel) == {}


def test_each_picture_says_the_extremes_that_it_shows(material: Material) -> None:
    pictures = {picture.name: picture for picture in error_pictures(material)}
    assert list(pictures) == [
        "04-hours", "05-weekdays", "06-steps", "07-weather", "08-error-by-location",
    ]  # fmt: skip
    assert material.best is not None
    hours = by_hour([material.best], material.panel)
    assert hours is not None
    worst = hours.labels[int(hours.first.argmax())]
    assert f"are largest at {worst} (RMSE {hours.first.max():.3g})" in pictures["04-hours"].text
    assert " largest on " in pictures["05-weekdays"].text
    assert "From the first step to step 2 RMSE" in pictures["06-steps"].text
    assert "not its effect alone" in pictures["07-weather"].text


def test_the_hardest_place_is_named(material: Material) -> None:
    assert material.best is not None
    _, errors = place_errors(material.best, material.panel)
    picture = list(error_pictures(material))[-1]
    name = material.panel.locations.names[int(errors.argmax())]
    assert f"to {100 * errors.max():.0f} % at {name}" in picture.text


def test_alternatives_name_the_models(material: Material) -> None:
    for picture in list(error_pictures(material))[:4]:
        assert "Ridge, Forecaster and SeasonalNaive" in picture.words


def breakdown(labels: int, models: int) -> Breakdown:
    rmse = {f"model {n}": np.arange(1.0, labels + 1) for n in range(models)}
    return Breakdown(tuple(f"{n}:00" for n in range(labels)), np.full(labels, 29), rmse)


def test_every_kind_of_weather_has_a_row_with_its_steps() -> None:
    drawing = to_svg(draw_weather({"$rain$": breakdown(2, 2), "fog": breakdown(3, 2)}), "x")
    for text in (b"$rain$: 0:00 (29)", b"$rain$: 1:00 (29)", b"fog: 2:00 (29)"):
        assert text in drawing


def test_many_places_without_coordinates_show_the_worst_and_the_best() -> None:
    places = Locations.of_ids(f"p{n:02d}" for n in range(53))
    drawing = to_svg(draw_place_errors(places, np.arange(53.0), np.ones(53), "WAPE, %"), "x")
    assert all(f"p{n:02d}".encode() in drawing for n in [*range(10), *range(43, 53)])
    assert b"p25" not in drawing


def test_the_worst_places_are_named_on_the_map() -> None:
    names = ("north", "middle", "south", "lost")
    places = Locations(tuple("abcd"), names, np.array([3.0, 2, 1, np.nan]), np.arange(4.0))
    errors = np.array([0.1, 0.2, np.nan, 0.4])
    drawing = to_svg(draw_place_errors(places, errors, np.ones(4), "WAPE, %"), "x")
    assert b"middle" in drawing
    assert b"lost" not in drawing
    assert b"WAPE, %" in drawing
