"""Errors of what was forecast, beside the value a week before."""

from dataclasses import replace

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.accuracy import PastForecast, PastForecasts, measure_accuracy
from forecaster.serve.forecasting.forecast import ServedModel
from tests.serve.conftest import HOURS

IDS = tuple(f"L000{n}" for n in range(1, 6))


def record(y_hat: float, low: float, high: float) -> PastForecast:
    return constant(IDS, y_hat, low, y_hat, high)


def constant(ids: tuple[str, ...], y_hat: float, *quantiles: float) -> PastForecast:
    levels = np.array(quantiles, dtype=np.float32)[:, None, None]
    shape = 3, len(ids)
    return PastForecast(ids, np.full(shape, y_hat, dtype=np.float32), np.tile(levels, (1, *shape)))


def test_a_location_without_a_past_forecast_is_left_out(model: ServedModel, panel: Panel) -> None:
    new = Registration("new", "new")
    wide = Snapshot(panel).with_locations([new], 1)
    wide = wide.with_observations([(step, 5, 1.0) for step in range(HOURS)], 2)
    origins = range(HOURS - 20, HOURS - 3)
    narrow = {o: record(7.0, 0.0, 1e6) for o in origins}
    before = measure_accuracy(model, Snapshot(panel), narrow, HOURS)
    assert measure_accuracy(model, wide, narrow, HOURS) == before
    both = dict(narrow)
    both[HOURS - 4] = constant(("new", *IDS), 7.0, 0.0, 7.0, 1e6)  # any order
    after = measure_accuracy(model, wide, both, HOURS)
    assert after["terms"] == before["terms"] + 3
    assert after["bias_by_size"] == before["bias_by_size"]
    assert after["bias"] > before["bias"]  # 7 is too much for a location of ones
    newer = measure_accuracy(model, Snapshot(panel), both, HOURS)  # forecasts from newer data
    assert newer == before


def test_a_constant_forecast_has_the_errors_of_a_constant(
    model: ServedModel, panel: Panel
) -> None:
    origins = range(HOURS - 20, HOURS - 3)
    records = {o: record(7.0, 0.0, 1e6) for o in origins}
    figures = measure_accuracy(model, Snapshot(panel), records, HOURS)
    truth = panel.values[np.array(origins)[:, None] + np.arange(1, 4)]
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((truth - 7) ** 2)), rel=1e-5)
    assert figures["coverage"] == 1.0
    assert figures["terms"] == truth.size
    first = np.sqrt(np.mean((truth[:, 0] - 7) ** 2))
    assert figures["by_step"][0]["rmse"] == pytest.approx(first, rel=1e-5)


def test_the_last_value_is_a_rival_of_the_same_terms(model: ServedModel, panel: Panel) -> None:
    origins = np.arange(HOURS - 20, HOURS - 3)
    records = {o: record(7.0, 0.0, 1e6) for o in origins.tolist()}
    snapshot = Snapshot(panel).with_observations([(HOURS - 20, 3, None)], 1)  # one origin's value
    figures = measure_accuracy(model, snapshot, records, HOURS)
    truth = panel.values[origins[:, None] + np.arange(1, 4)].astype(np.float64)
    truth[0, :, 3] = np.nan
    last = panel.values[origins][:, None]
    assert figures["terms"] == np.isfinite(truth).sum()
    expected = np.sqrt(np.nanmean((truth - last) ** 2))
    assert figures["last_value_rmse"] == pytest.approx(expected, rel=1e-5)
    of_model = np.sqrt(np.nanmean((truth - 7) ** 2))
    assert figures["rmse"] == pytest.approx(of_model, rel=1e-5)  # without that value too


def test_bias_is_told_overall_by_size_and_by_hour(model: ServedModel, panel: Panel) -> None:
    origins = np.arange(HOURS - 20, HOURS - 3)
    records = {o: record(7.0, 0.0, 1e6) for o in origins.tolist()}
    figures = measure_accuracy(model, Snapshot(panel), records, HOURS)
    ahead = origins[:, None] + np.arange(1, 4)
    truth = panel.values[ahead].astype(np.float64)
    assert figures["bias"] == pytest.approx((7 - truth).sum() / truth.sum(), rel=1e-5)
    assert [row["bias"] for row in figures["by_step"]] == pytest.approx(
        [(7 - truth[:, k]).sum() / truth[:, k].sum() for k in range(3)], rel=1e-5
    )
    trained = panel.values[:500].mean(axis=0)  # as many hours as the run has learned from
    order = np.argsort(trained)
    groups = figures["bias_by_size"]
    assert [group["locations"] for group in groups] == [1] * 5
    assert [group["size"] for group in groups] == pytest.approx(trained[order], rel=0.02)
    by_location = [(7 - truth[..., n]).sum() / truth[..., n].sum() for n in order]
    assert [group["bias"] for group in groups] == pytest.approx(by_location, rel=1e-5)
    local = panel.clock.local(panel.times[ahead]).astype("datetime64[h]").astype(np.int64) % 24
    for hour, bias in enumerate(figures["bias_by_hour"]):
        values = truth[local == hour]
        expected = (7 - values).sum() / values.sum() if values.size else None
        assert bias == (None if expected is None else pytest.approx(expected, rel=1e-5))


def test_mape_is_of_the_second_output(model: ServedModel, panel: Panel) -> None:
    origins = range(HOURS - 20, HOURS - 3)
    alone = {o: record(7.0, 0.0, 1e6) for o in origins}
    relative = {o: replace(r, y_relative=r.y_hat - 3) for o, r in alone.items()}
    one, two = (measure_accuracy(model, Snapshot(panel), r, HOURS) for r in (alone, relative))
    lower = {o: record(4.0, 0.0, 1e6) for o in origins}
    assert two["mape"] == measure_accuracy(model, Snapshot(panel), lower, HOURS)["mape"]
    assert one["mape"] != two["mape"]
    assert (one["mape_of"], two["mape_of"]) == ("y_hat", "y_relative")
    for name in ("rmse", "bias", "bias_by_size", "bias_by_hour", "coverage"):
        assert one[name] == two[name]


def test_what_has_not_come_yet_does_not_count(model: ServedModel, panel: Panel) -> None:
    figures = measure_accuracy(model, Snapshot(panel), {HOURS - 2: record(7.0, 0.0, 1e6)}, HOURS)
    assert figures["terms"] == 5  # one of three hours is over
    assert figures["by_step"][2]["rmse"] is None


def test_an_hour_that_is_not_over_does_not_count(model: ServedModel, panel: Panel) -> None:
    figures = measure_accuracy(
        model, Snapshot(panel), {HOURS - 4: record(7.0, 0.0, 1e6)}, HOURS - 1
    )
    assert figures["terms"] == 2 * 5
    assert figures["by_step"][2]["coverage"] is None


def test_what_came_before_its_hour_was_over_does_not_count(
    model: ServedModel, panel: Panel
) -> None:
    snapshot = Snapshot(panel).with_observations([(HOURS - 1, 3, 1.0)], 1, {(HOURS - 1, 3)})
    figures = measure_accuracy(model, snapshot, {HOURS - 4: record(7.0, 0.0, 1e6)}, HOURS)
    assert figures["terms"] == 3 * 5 - 1


def test_without_forecasts_there_are_no_figures(model: ServedModel, panel: Panel) -> None:
    figures = measure_accuracy(model, Snapshot(panel), {}, HOURS)
    assert (figures["rmse"], figures["coverage"], figures["terms"]) == (None, None, 0)
    assert figures["bias"] is None
    assert [group["bias"] for group in figures["bias_by_size"]] == [None] * 5
    assert figures["bias_by_hour"] == [None] * 24


def test_a_ledger_keeps_the_first_word_and_not_too_many(model: ServedModel) -> None:
    past_forecasts = PastForecasts(limit=23)
    for origin in range(3 * 23):
        past_forecasts._keep((model.digest, origin), record(1.0, 0.0, 2.0))
        past_forecasts._keep((model.digest, origin), record(9.0, 0.0, 2.0))
    found = past_forecasts.recent(model, 3 * 23, 10)
    assert sorted(found) == list(range(3 * 23 - 10, 3 * 23))
    assert found[3 * 23 - 1].y_hat[0, 0] == 1.0
    assert len(past_forecasts._forecasts) == 3 * 23


def test_a_ledger_knows_what_it_lacks(model: ServedModel) -> None:
    past_forecasts = PastForecasts(limit=23)
    past_forecasts.skip(model, 7)
    past_forecasts._keep((model.digest, 8), record(1.0, 0.0, 2.0))
    assert past_forecasts.missing_origins(model, 10, 5) == [5, 6, 9]
    assert past_forecasts.recent(model, 10, 5).keys() == {8}
