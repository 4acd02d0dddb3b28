"""Forecasts from snapshots: final, provisional, of the past, and with online quantiles."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from forecaster.config import LagConfig, Season
from forecaster.errors import DataError
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.closed import Closings
from forecaster.estimators.forecast_inputs import ForecastInputs, refuse_unknown_future
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import Arrays
from forecaster.panel.panel import Panel, local_texts
from forecaster.recipe import Recipe
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import Forecast, ForecastKey, ServedModel
from forecaster.serve.forecasting.predictor import (
    UNADJUSTED,
    SnapshotPredictor,
    cut_panel,
    explain_location,
    missing_at_origin,
    view_origin,
)
from forecaster.serve.service import load_model
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city
from tests.serve.conftest import HOURS, fit


def test_a_provisional_forecast_differs_in_its_intervals_alone_and_says_so(
    model: ServedModel, panel: Panel
) -> None:
    predictor, snapshot = SnapshotPredictor(), Snapshot(panel)
    first = predictor.predict_provisional(model, snapshot, HOURS - 1)
    while (final := predictor.predict(model, snapshot, HOURS - 1)) is None:
        pass
    assert first is not None
    assert (first.provisional, first.degraded) == (True, UNADJUSTED)
    assert (final.provisional, final.degraded) == (False, None)
    assert np.allclose(first.y_hat, final.y_hat, rtol=1e-5)
    assert not np.allclose(first.quantiles, final.quantiles)


def test_a_provisional_forecast_takes_one_prediction(
    model: ServedModel, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    predict = model.estimator.predict_windows

    def count(arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        batches.append(len(inputs.origins))
        return predict(arrays, inputs)

    monkeypatch.setattr(model.estimator, "predict_windows", count)
    SnapshotPredictor().predict_provisional(model, Snapshot(panel), HOURS - 1)
    assert batches == [1]


def test_every_kind_of_forecast_has_the_second_output_of_its_model(
    model: ServedModel, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = model.estimator.predict_outputs

    def add_relative(arrays: Arrays, inputs: ForecastInputs) -> WindowForecasts:
        forecasts = outputs(arrays, inputs)
        return forecasts._replace(relative=forecasts.mean / 2)

    predictor, snapshot = SnapshotPredictor(), Snapshot(panel)
    assert predictor.predict_provisional(model, snapshot, HOURS - 1).y_relative is None
    monkeypatch.setattr(model.estimator, "predict_outputs", add_relative)
    forecasts = [SnapshotPredictor().predict_provisional(model, snapshot, HOURS - 1)]
    for predict in (SnapshotPredictor().predict, SnapshotPredictor().predict_past):
        while (forecast := predict(model, snapshot, HOURS - 1)) is None:
            pass
        forecasts.append(forecast)
    for forecast in forecasts:
        assert forecast.y_relative is not None
        assert np.allclose(forecast.y_relative, forecast.y_hat / 2)


def test_a_forecast_says_what_it_belongs_to(model: ServedModel, panel: Panel) -> None:
    snapshot = Snapshot(panel).with_observations([(HOURS - 3, 2, 7.0)], 11)
    forecast = SnapshotPredictor().predict_provisional(model, snapshot, HOURS - 2)
    assert forecast is not None
    assert forecast.key == ForecastKey(model.digest, 11, HOURS - 2)
    assert forecast.origin == panel.times[HOURS - 2]
    assert forecast.y_hat.shape == (3, 5)
    assert forecast.quantiles.shape == (3, 3, 5)
    assert np.array_equal(forecast.last, panel.values[HOURS - 2])


def test_a_history_with_holes_is_refused(model: ServedModel, panel: Panel) -> None:
    cells = [(HOURS - back, n, None) for back in (23, 24, 25) for n in range(5)]
    snapshot = Snapshot(panel).with_observations(cells, 1)
    for how in (
        SnapshotPredictor().predict,
        SnapshotPredictor().predict_provisional,
        SnapshotPredictor().predict_past,
    ):
        with pytest.raises(DataError, match="history"):
            how(model, snapshot, HOURS - 1)


def test_without_weather_ahead_that_of_the_origin_stays(model: ServedModel, panel: Panel) -> None:
    values = panel.covariates.values.copy()
    values[HOURS:] = np.nan
    blind = replace(panel, covariates=replace(panel.covariates, values=values))
    forecast = SnapshotPredictor().predict_provisional(model, Snapshot(blind), HOURS - 1)
    assert forecast is not None
    assert str(forecast.degraded).startswith("covariates:")
    persisting = model.estimator.predict(panel, np.array([HOURS - 1]), "persist")[0]
    assert np.allclose(forecast.y_hat, persisting, rtol=1e-5)


def test_every_thread_has_online_quantiles_of_its_own(model: ServedModel, panel: Panel) -> None:
    predictor, view = SnapshotPredictor(), view_origin(model, Snapshot(panel), HOURS - 1)
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(predictor._online, view, "observed").result()
        assert other.submit(predictor._online, view, "observed").result() is theirs
    assert predictor._online(view, "observed") is not theirs


def test_a_past_is_forecast_without_the_weather_that_came(
    model: ServedModel, panel: Panel
) -> None:
    predictor, snapshot, origin = SnapshotPredictor(), Snapshot(panel), HOURS - 9
    while (forecast := predictor.predict_past(model, snapshot, origin)) is None:
        pass
    knowing, persisting = (
        model.estimator.predict(panel, np.array([origin]), weather)[0]
        for weather in ("observed", "persist")
    )
    assert np.allclose(forecast.y_hat, persisting, rtol=1e-5, atol=1e-5)
    assert not np.allclose(forecast.y_hat, knowing)


def test_locations_that_are_missing_at_the_origin_are_told() -> None:
    snapshot = Snapshot(make_city(11, "2015-09-25", 53).panel)
    assert missing_at_origin(snapshot, 52, range(11)) is None
    silent = snapshot.with_observations([(52, 3, None)], 1)
    text = missing_at_origin(silent, 52, range(11))
    assert text == "data: 1 of 11 locations missing or not final at the origin"
    assert missing_at_origin(silent, 52, (0, 2, 5)) is None  # it is not forecast


def without_weather_ahead(panel: Panel) -> Panel:
    """Return the panel with covariates that are unknown from two hours before its end."""
    own, world = panel.local_covariates, panel.covariates.values[:HOURS].copy()
    world[-2:] = np.nan
    return replace(
        panel,
        covariates=replace(panel.covariates, values=world),
        local_covariates=replace(own, values=own.values[:, :HOURS]),
    )


def test_an_explanation_needs_no_weather_ahead(
    run: Path, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Panel] = []

    def explain(_: object, part: Panel, *__: object) -> Any:
        seen.append(part)
        return SimpleNamespace(to_dict=dict)

    module = SimpleNamespace(explain_forecast=explain)  # whose import takes seconds
    monkeypatch.setitem(sys.modules, "forecaster.explain.explain", module)
    blind = without_weather_ahead(panel)
    model, snapshot = load_model(run), Snapshot(blind)
    explain_location(model, snapshot, HOURS - 1, panel.locations.ids[0])
    refuse_unknown_future(seen[0], len(seen[0].values) - 1, 3)  # nothing is unknown any more
    part, own = cut_panel(model, snapshot, HOURS - 1)
    origins = np.array([own])
    told = model.estimator.predict(part, origins, "persist")
    assert np.array_equal(model.estimator.predict(seen[0], origins, "observed"), told)


def test_what_is_cut_out_gives_the_forecast_of_the_whole(model: ServedModel, panel: Panel) -> None:
    for origin in (HOURS - 1, HOURS - 7, 777):
        part, own = cut_panel(model, Snapshot(panel), origin)
        assert part.times[own] == panel.times[origin]
        assert len(part.values) == own + 1 < origin  # nothing later, and not all before
        whole = model.estimator.predict(panel, np.array([origin]))
        assert np.allclose(model.estimator.predict(part, np.array([own])), whole, rtol=1e-5)


def test_what_is_cut_out_for_several_origins_serves_the_oldest_too(
    model: ServedModel, panel: Panel
) -> None:
    part, own = cut_panel(model, Snapshot(panel), HOURS - 1, oldest=HOURS - 54)
    asked = np.array([own - 53, own])
    whole = model.estimator.predict(panel, np.array([HOURS - 54, HOURS - 1]))
    assert np.allclose(model.estimator.predict(part, asked), whole, rtol=1e-5)


CALM = HOURS - 13, 0, 3.0  # a location's only noon without any trip, which is doubted


def test_an_implausible_value_is_named_at_its_location_alone(
    model: ServedModel, panel: Panel
) -> None:
    ids, step = panel.locations.ids, HOURS - 5
    time = local_texts(panel, panel.times[[step]])[0]
    calm = Snapshot(panel).with_observations([CALM], 1)
    snapshot = calm.with_observations([(step, 2, 44_444.0)], 2)
    predictor = SnapshotPredictor()
    provisional = predictor.predict_provisional(model, snapshot, HOURS - 1)
    final = final_forecast(predictor, model, snapshot, HOURS - 1)
    for forecast in (provisional, final):
        assert list(forecast.doubts) == [ids[2]]
        said = f"implausible value (44,444 at {time}, at most "
        assert forecast.doubts[ids[2]].startswith(said)
    assert (provisional.degraded, final.degraded) == (UNADJUSTED, None)
    assert final_forecast(predictor, model, calm, HOURS - 1).doubts == {}


def test_reasons_are_those_of_the_estimator(model: ServedModel, panel: Panel) -> None:
    cells = [(HOURS - back, 1, 57.0) for back in range(1, 13)]  # a sensor that repeats itself
    snapshot = Snapshot(panel).with_observations([CALM, (HOURS - 9, 3, 44_444.0), *cells], 1)
    doubts = final_forecast(SnapshotPredictor(), model, snapshot, HOURS - 1).doubts
    whole = snapshot.panel(0, HOURS, HOURS + 3)
    table = model.estimator.forecast(whole, f"{whole.times[-1]}+00:00")
    told = table.drop_duplicates("unique_id").set_index("unique_id")["degraded"]
    assert doubts == {identity: text for identity, text in told.items() if text}
    assert doubts[panel.locations.ids[1]].startswith("repeated value (57 for 12 steps up to ")
    assert len(doubts) == 2


def test_reasons_follow_the_order_of_the_panel(model: ServedModel, panel: Panel) -> None:
    other = panel.select(panel.locations.ids[::-1])
    snapshot = Snapshot(other).with_observations([(HOURS - 1, 0, 44_444.0)], 1)
    forecast = SnapshotPredictor().predict_provisional(model, snapshot, HOURS - 1)
    assert forecast.doubts[other.locations.ids[0]].startswith("implausible value (44,444 at ")


def test_zeros_at_many_locations_are_a_feed_outage(model: ServedModel, panel: Panel) -> None:
    origin = HOURS - 6  # an evening, when all are busy
    cells = [(origin - back, n, 0.0) for back in range(2) for n in range(4)]
    snapshot = Snapshot(panel).with_observations(cells, 1)
    forecast = SnapshotPredictor().predict_provisional(model, snapshot, origin)
    assert str(forecast.degraded).startswith("feed outage: ")
    assert str(forecast.degraded).endswith(UNADJUSTED)


def test_a_refusal_calls_many_silent_locations_a_feed_outage(
    model: ServedModel, panel: Panel
) -> None:
    cells = [(HOURS - back, n, None) for back in (1, 2, 3) for n in range(4)]
    since = local_texts(panel, panel.times[[HOURS - 3]])[0]
    with pytest.raises(DataError, match="history incomplete") as refusal:
        view_origin(model, Snapshot(panel).with_observations(cells, 1), HOURS - 1)
    assert f"feed outage: 4 of 5 locations silent since {since}" in str(refusal.value)


def final_forecast(
    predictor: SnapshotPredictor, model: ServedModel, snapshot: Snapshot, origin: int
) -> Forecast:
    while (forecast := predictor.predict(model, snapshot, origin)) is None:
        pass
    return forecast


def check(forecast: Forecast, model: ServedModel, snapshot: Snapshot, origin: int) -> None:
    table = model.estimator.forecast(
        snapshot.panel(0, HOURS, HOURS + 3), f"{snapshot.time_of(origin)}+00:00"
    )
    for name, values in zip(("q10", "q50", "q90"), forecast.quantiles, strict=True):
        assert np.allclose(values.T.ravel(), table[name], rtol=1e-5, atol=1e-5)
    assert np.allclose(forecast.y_hat.T.ravel(), table["y_hat"], rtol=1e-5, atol=1e-5)


def test_origins_in_any_order_are_those_of_the_whole_panel(
    model: ServedModel, panel: Panel
) -> None:
    predictor, snapshot = SnapshotPredictor(), Snapshot(panel)
    for origin in (HOURS - 9, HOURS - 1, HOURS - 8, 400, HOURS - 350, 401, HOURS - 9):
        check(final_forecast(predictor, model, snapshot, origin), model, snapshot, origin)


def test_late_data_changes_all_that_saw_it(model: ServedModel, panel: Panel) -> None:
    predictor, snapshot = SnapshotPredictor(), Snapshot(panel)
    generator = np.random.default_rng(0)
    for version in range(1, 12):
        step, column = HOURS - 1 - int(generator.integers(40)), int(generator.integers(5))
        value = None if version % 4 == 0 else float(generator.integers(99))
        snapshot = snapshot.with_observations([(step, column, value)], version)
        if version % 3 == 0:
            ahead = HOURS - 10 + version
            snapshot = snapshot.with_covariates([(ahead, 0, float(version))], version, [0])
        origin = HOURS - 1 - int(generator.integers(20))
        check(final_forecast(predictor, model, snapshot, origin), model, snapshot, origin)


def test_an_earlier_state_may_be_asked_after_a_later_one(model: ServedModel, panel: Panel) -> None:
    predictor, first = SnapshotPredictor(), Snapshot(panel)
    second = first.with_observations([(HOURS - 3, 1, 88.0)], 1)
    for snapshot in (first, second, first, second):
        check(final_forecast(predictor, model, snapshot, HOURS - 1), model, snapshot, HOURS - 1)


def test_two_states_in_turn_do_not_spoil_each_others_work(
    model: ServedModel, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "forecaster.serve.forecasting.predictor.VALUES_AT_ONCE", 5 * 7
    )  # seven origins
    predictor, first = SnapshotPredictor(), Snapshot(panel)
    states = [first, first.with_observations([(HOURS - 2, 1, 88.0)], 1)]
    found: dict[int, Forecast] = {}
    for turn in range(200):
        if len(found) == len(states):
            break
        snapshot = states[turn % 2]
        if forecast := predictor.predict(model, snapshot, HOURS - 1):
            found[snapshot.version] = forecast
    assert sorted(found) == [0, 1]
    for snapshot in states:
        check(found[snapshot.version], model, snapshot, HOURS - 1)


def test_the_next_origin_costs_one_prediction(model: ServedModel, panel: Panel) -> None:
    predictor, snapshot = SnapshotPredictor(), Snapshot(panel)
    final_forecast(predictor, model, snapshot, HOURS - 2)
    asked: list[int] = []
    forecast = model.estimator.predict_outputs
    model.estimator.predict_outputs = (  # type: ignore[method-assign]
        lambda arrays, question: asked.append(len(question.origins)) or forecast(arrays, question)
    )
    final_forecast(predictor, model, snapshot, HOURS - 1)
    assert asked == [1]


def test_L4_a_location_that_fell_silent_is_served_at_zero_and_said_to_be_closed(
    model: ServedModel, panel: Panel
) -> None:
    run = model.estimator.run
    assert run is not None
    closings = Closings.of(run)
    assert closings is not None
    steady = int(np.argmin(closings.longest))
    identity = run.about["ids"][steady]
    column = panel.locations.ids.index(identity)
    cells = [(step, column, 0.0) for step in range(HOURS - 50, HOURS)]
    snapshot = Snapshot(panel).with_observations(cells, 1)
    predictor = SnapshotPredictor()
    while (final := predictor.predict(model, snapshot, HOURS - 1)) is None:
        pass
    for forecast in (final, predictor.predict_provisional(model, snapshot, HOURS - 1)):
        assert not forecast.y_hat[:, column].any()
        assert not forecast.quantiles[..., column].any()
        assert forecast.doubts[identity].startswith("closed: no value above 0 since")
    opened = snapshot.with_observations([(HOURS - 1, column, 3.0)], 2)
    while (again := predictor.predict(model, opened, HOURS - 1)) is None:
        pass
    assert again.y_hat[:, column].all()
    assert not again.doubts.get(identity, "").startswith("closed")


def test_past_only_covariates_are_carried_and_missed_ones_are_told(
    panel: Panel, tmp_path: Path
) -> None:
    name = panel.covariates.names[0]
    seen = panel.with_past_only((name,)).without_unseen()
    model = load_model(fit(seen, 0, tmp_path / "run"))
    snapshot = Snapshot(panel)  # in which the covariate is known ahead: the run's view wins
    forecast = final_forecast(SnapshotPredictor(), model, snapshot, HOURS - 1)
    assert forecast.degraded is None
    carried = final_forecast(SnapshotPredictor(), model, Snapshot(seen), HOURS - 1)
    assert np.array_equal(carried.y_hat, forecast.y_hat)
    values = seen.covariates.values.copy()
    values[HOURS - 29 :, 0] = np.nan
    silent = Snapshot(seen.with_data(covariates=values))
    degraded = final_forecast(SnapshotPredictor(), model, silent, HOURS - 1).degraded
    assert degraded == f"covariates: {name} not observed, usual values"


@pytest.fixture
def long_model(whole: Panel, tmp_path: Path) -> ServedModel:
    """Return a model that forecasts more than a day."""
    lags = LagConfig(recent=1, seasons=(Season(days=7, count=1),), horizon=31)
    stamps = [f"{time}Z" for time in whole.times]
    ranges = [[(stamps[a], stamps[b - 1])] for a, b in ((0, 400), (400, 700), (700, HOURS))]
    SeasonalNaive(Recipe(lags=lags)).fit(whole, Splits(*ranges)).save(tmp_path / "run")
    return load_model(tmp_path / "run")


def test_totals_of_days_follow_outcomes_as_the_estimators_do(
    whole: Panel, long_model: ServedModel
) -> None:
    model, predictor = long_model, SnapshotPredictor()
    known = replace(whole, values=whole.values[: HOURS + 40])
    snapshot = Snapshot(known)
    for origin in (HOURS + 29, HOURS + 30, HOURS + 39):
        while (forecast := predictor.predict(model, snapshot, origin)) is None:
            pass
        provisional = predictor.predict_provisional(model, snapshot, origin)
        assert forecast.totals is not None
        assert provisional.totals is not None
        seen = replace(known, values=known.values[: origin + 1])
        table = model.estimator.forecast_totals(seen)
        for j, span in enumerate(forecast.totals.spans):
            rows = (
                table[table["day"] == span.name].set_index("unique_id").loc[[*known.locations.ids]]
            )
            assert np.allclose(forecast.totals.y_hat[j], rows["y_hat"], rtol=1e-5)
            quantiles = rows[["q10", "q50", "q90"]].to_numpy().T
            assert np.allclose(forecast.totals.quantiles[:, j], quantiles, rtol=1e-5, atol=1e-4)
        assert not np.allclose(forecast.totals.quantiles, provisional.totals.quantiles, rtol=1e-3)


def test_a_late_value_changes_the_totals_of_the_days_it_belongs_to(
    whole: Panel, long_model: ServedModel
) -> None:
    model, predictor = long_model, SnapshotPredictor()
    known = replace(whole, values=whole.values[:HOURS])
    earlier = Snapshot(known)
    later = earlier.with_observations([(HOURS - 300, 2, 4_000.0)], 1)
    for snapshot in (earlier, later, earlier):
        answers = []
        for each in (predictor, SnapshotPredictor()):
            while (forecast := each.predict(model, snapshot, HOURS - 1)) is None:
                pass
            assert forecast.totals is not None
            answers.append(forecast.totals.quantiles)
        assert np.array_equal(*answers)
