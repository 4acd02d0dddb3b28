from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecaster.artifact import Run
from forecaster.estimators.forecast_inputs import ForecastInputs, prepare_inputs
from forecaster.evaluation.comparison import Row
from forecaster.metrics import measure
from forecaster.panel.panel import Panel
from forecaster.report.data import Material, read_material
from forecaster.report.draw.canvas import to_svg
from forecaster.report.formatting import number
from forecaster.report.sections.forecasts import (
    Span,
    choose_places,
    draw_excerpt,
    forecast_pictures,
    normal_span,
    take_excerpt,
    worst_span,
)
from tests.report.comparisons import bare_panel, compare


@pytest.fixture(scope="module")
def best(material: Material) -> Row:
    assert material.best is not None
    return material.best


def day_rmse(material: Material, row: Row) -> dict[int, float]:
    """Return the error of each local day from forecasts that are made again."""
    panel, found = material.panel, row.first
    origins = np.searchsorted(panel.times.astype(np.int64), found.origins)
    forecast = material.estimator_of(row).predict(panel, origins)
    steps = origins[:, None] + np.arange(1, forecast.shape[1] + 1)
    days = panel.clock.local(panel.times[steps]).astype("datetime64[D]").astype(np.int64)
    errors = measure(panel.values[steps], forecast, 10.0)
    return {
        int(day): float(
            np.sqrt(errors.squares[days == day].sum() / errors.values[days == day].sum())
        )
        for day in np.unique(days)
    }


def test_the_worst_day_has_the_largest_error(material: Material, best: Row) -> None:
    span, by_day = worst_span(best.first, material.panel), day_rmse(material, best)
    assert span.days == 1
    assert span.rmse == pytest.approx(by_day[span.first], rel=1e-5)
    whole = sorted(by_day)[1:-1]  # the first and the last may be cut
    assert span.rmse >= max(by_day[day] for day in whole) * (1 - 1e-6)


def test_the_normal_week_has_the_median_error(material: Material, best: Row) -> None:
    span, count = normal_span(best.first, material.panel)
    assert (span.days, span.kind) == (7, "week")
    assert count == 1  # the test has nine days
    assert span.first == best.first.days.min()


def test_a_day_of_one_step_is_shown_within_a_week(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    values = np.random.default_rng(0).poisson(30, (601, 3))
    lags = {"recent": 3, "seasons": [], "horizon": 2}
    place = tmp_path_factory.mktemp("daily")
    material = read_material(compare(place, bare_panel(values, 1440), ["Ridge"], lags=lags))
    row = material.comparison.rows[0]
    assert worst_span(row.first, material.panel).kind == "week"
    normal, count = normal_span(row.first, material.panel)
    assert (normal.kind, count) == ("stretch of 28 days", 4)  # of 119 days


def test_a_span_names_its_days() -> None:
    assert str(Span(first=18_628, days=7, rmse=1.0)) == "2021-01-01 … 2021-01-07"
    assert str(Span(first=18_628, days=1, rmse=1.0)) == "2021-01-01"


def test_three_unlike_places_are_chosen(best: Row) -> None:
    chosen = choose_places(best.first, np.array([0.1, 0.5, 0.2, np.nan, 0.3]))
    assert chosen == {4: "the busiest", 2: "middling", 1: "the hardest"}  # they grow busier


def test_what_is_drawn_is_what_was_forecast_and_what_came(material: Material, best: Row) -> None:
    panel, found = material.panel, best.first
    span = worst_span(found, panel)
    excerpt = take_excerpt(material.estimator_of(best), panel, found, span, [3, 1])
    assert len(excerpt.times) == 24
    assert (excerpt.times.astype("datetime64[D]").astype(int) == span.first).all()
    start = int(np.flatnonzero(panel.clock.local(panel.times) == excerpt.times[0])[0])
    steps = start + np.arange(24)
    np.testing.assert_array_equal(excerpt.truth, panel.values[steps][:, [3, 1]])
    for ahead, drawn in ((1, excerpt.soon), (2, excerpt.late)):
        forecast = material.estimator_of(best).predict(panel, steps - ahead)
        expected = forecast[:, ahead - 1][:, [3, 1]]
        seen = np.isfinite(drawn)
        assert seen.sum() > 40
        np.testing.assert_allclose(drawn[seen], expected[seen], rtol=1e-5)


def test_the_interval_is_that_of_one_step_ahead(material: Material, best: Row) -> None:
    panel, found, estimator = material.panel, best.first, material.estimator_of(best)
    excerpt = take_excerpt(estimator, panel, found, worst_span(found, panel), [3, 1])
    assert excerpt.levels == (0.1, 0.5, 0.9)
    assert excerpt.ends is not None
    start = int(np.flatnonzero(panel.clock.local(panel.times) == excerpt.times[0])[0])
    quantiles = estimator.predict_quantiles(panel, start + np.arange(24) - 1)
    for end, level in zip(excerpt.ends, (0, 2), strict=True):
        seen = np.isfinite(end)
        assert seen.sum() > 40
        np.testing.assert_allclose(end[seen], quantiles[:, level, 0][:, [3, 1]][seen], rtol=1e-5)
    drawing = draw_excerpt(excerpt, ["a", "b"])
    bands = [axes.collections[0].get_paths()[0].get_extents() for axes in drawing.axes]
    assert bands[1].y0 == pytest.approx(np.nanmin(excerpt.ends[0, :, 1]))
    assert bands[1].y1 == pytest.approx(np.nanmax(excerpt.ends[1, :, 1]))
    assert b"its 80 % interval" in to_svg(drawing, "x")


def test_a_run_without_intervals_is_drawn_without(material: Material, best: Row) -> None:
    estimator = material.estimator_of(best)
    assert estimator.run is not None
    arrays = {n: a for n, a in estimator.run.arrays.items() if not n.startswith("intervals.")}
    older = type(estimator).from_run(replace(estimator.run, arrays=arrays))
    span = worst_span(best.first, material.panel)
    excerpt = take_excerpt(older, material.panel, best.first, span, [3, 1])
    assert (excerpt.levels, excerpt.ends) == ((), None)
    assert b"interval" not in to_svg(draw_excerpt(excerpt, ["a", "b"]), "x")


def test_only_tested_origins_are_asked(material: Material, best: Row) -> None:
    panel, found = material.panel, best.first
    before = Span(first=int(found.days.min()) - 3, days=2, rmse=1.0)
    excerpt = take_excerpt(material.estimator_of(best), panel, found, before, [0])
    assert np.isfinite(excerpt.truth).any()
    assert np.isnan(excerpt.soon).all()
    assert excerpt.ends is not None
    assert np.isnan(excerpt.ends).all()


def test_no_origin_is_asked_twice(
    material: Material, best: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def note(run: Run, panel: Panel, origins: np.ndarray, *rest: Any) -> ForecastInputs:
        asked.extend(origins.tolist())
        return prepare_inputs(run, panel, origins, *rest)

    monkeypatch.setattr("forecaster.estimators.base.prepare_inputs", note)
    span, _ = normal_span(best.first, material.panel)
    take_excerpt(material.estimator_of(best), material.panel, best.first, span, [3])
    assert len(asked) > 7 * 24 - 2
    assert len(asked) == len(set(asked))


def test_names_are_no_formulas(material: Material, best: Row) -> None:
    span = worst_span(best.first, material.panel)
    excerpt = take_excerpt(material.estimator_of(best), material.panel, best.first, span, [0, 1])
    drawing = to_svg(draw_excerpt(excerpt, ["$x^2$ <b>", "b"]), "x")
    assert b"$x^2$ &lt;b&gt;" in drawing
    assert b"2 steps ahead" in drawing


def test_a_normal_week_and_the_worst_day_are_shown(material: Material) -> None:
    normal, worst = forecast_pictures(material)
    assert (normal.name, normal.title) == ("02-normal-week", "A normal week")
    assert (worst.name, worst.title) == ("03-worst-day", "The worst day")
    assert material.best is not None
    span = worst_span(material.best.first, material.panel)
    assert worst.text.startswith(f"{span}: RMSE {number(span.rmse)}, ")
    assert "One step ahead these are off by" in worst.text
    assert " of what came lay within the 80 % interval." in worst.text
    assert material.panel.locations.names[4] in worst.words  # the busiest
