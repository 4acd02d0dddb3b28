"""The questions that a service answers."""

import asyncio
import csv
import io
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import Freshness
from forecaster.serve.forecasting import background, encode
from forecaster.serve.forecasting.background import BackgroundForecasts
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import Forecast
from forecaster.serve.http import content, read, schemas
from tests.serve.conftest import HOURS, Running, SettableClock


def test_locations_tell_what_the_numbers_mean(shared_service: Running, panel: Panel) -> None:
    told = shared_service.get("/v1/locations").json
    assert (told["zone"], told["kind"]) == ("America/New_York", "count")
    assert (told["step_minutes"], told["horizon"]) == (60, 3)
    assert told["quantiles"] == [0.1, 0.5, 0.9]
    assert [place["id"] for place in told["locations"]] == list(panel.locations.ids)
    means = [place["mean"] for place in told["locations"]]
    assert np.allclose(means, panel.values.mean(axis=0), rtol=1e-5)


def test_a_run_without_a_graph_has_no_edges(shared_service: Running) -> None:
    assert shared_service.get("/v1/graph").json == {"edges": []}


def table_of(told: dict[str, Any]) -> pd.DataFrame:
    rows = [
        {"unique_id": row["id"], "ds": step["ds"], "ds_local": step["ds_local"], "k": k, **row}
        for row in told["forecasts"]
        for k, step in enumerate(told["steps"])
    ]
    table = pd.DataFrame(rows)
    for name in ("y_hat", "q10", "q50", "q90"):
        table[name] = [cell[k] for cell, k in zip(table[name], table["k"], strict=True)]
    return table


def test_a_forecast_is_that_of_the_command(
    shared_service: Running, panel: Panel, run: Path
) -> None:
    told = shared_service.get("/v1/forecast").json
    assert told["origin"] == f"{panel.times[-1]}Z"
    assert told["model"] == load_estimator(run).run.digest[:12]
    assert (told["data_version"], told["stale"], told["degraded"]) == (0, False, None)
    assert told["data_age_seconds"] == 60
    offline = load_estimator(run).forecast(panel, f"{panel.times[-1]}+00:00")
    online = table_of(told)
    assert online["ds_local"].tolist() == offline["ds_local"].tolist()
    for name in ("y_hat", "q10", "q50", "q90"):
        assert np.allclose(online[name], offline[name], rtol=1e-5)


def test_a_forecast_tells_the_last_value_and_the_usual_one(
    shared_service: Running, panel: Panel
) -> None:
    (row,) = shared_service.get(f"/v1/forecast?location={panel.locations.ids[2]}").json[
        "forecasts"
    ]
    assert row["last"] == panel.values[-1, 2]
    # 01:00 comes twice, then 02:00: of the last two a week before is 169 hours before.
    before = np.arange(HOURS, HOURS + 3) - [168, 169, 169]
    assert row["usual"] == panel.values[before, 2].tolist()


def test_a_past_origin_sees_nothing_later(
    shared_service: Running, panel: Panel, run: Path
) -> None:
    told = shared_service.get(f"/v1/forecast?at={panel.times[-7]}Z").json
    short = replace(panel, values=panel.values[:-6])
    offline = load_estimator(run).forecast(short, f"{panel.times[-7]}+00:00")
    assert np.allclose(table_of(told)["y_hat"], offline["y_hat"], rtol=1e-5)


def test_an_offset_may_lose_its_plus_in_a_url(shared_service: Running, panel: Panel) -> None:
    assert shared_service.get(f"/v1/forecast?at={panel.times[-1]}+00:00").status == 200


@pytest.mark.parametrize(
    ("at", "code"),
    [
        ("soon", "bad_time"),
        ("2015-10-30T08:00:00", "bad_time"),  # no offset
        ("2015-10-30T08:30:00Z", "off_step"),
        ("2015-10-30T08:00:00.5Z", "bad_time"),
        ("1999-01-01T00:00:00Z", "too_old"),
        ("2999-01-01T00:00:00Z", "in_future"),
        ("9999-12-31T23:00:00-14:00", "in_future"),
        ("2015-09-25T06:00:00Z", "history_incomplete"),
    ],
)
def test_P7_an_origin_that_cannot_be_is_refused(
    shared_service: Running, at: str, code: str
) -> None:
    reply = shared_service.get(f"/v1/forecast?at={at}")
    assert (reply.status, reply.json["code"]) == (422, code)


def test_csv_is_the_long_table(shared_service: Running, panel: Panel) -> None:
    reply = shared_service.get("/v1/forecast?format=csv")
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    assert reply.headers["content-type"].startswith("text/csv")
    numbers = ["y_hat", "q10", "q50", "q90"]
    carried = ["model", "data_version", "stale", "degraded"]
    assert list(rows[0]) == ["unique_id", "ds", "ds_local", "cutoff", *numbers, *carried]
    assert len(rows) == 15
    assert reply.headers["x-forecast-origin"] == f"{panel.times[-1]}Z"


def test_geojson_has_a_point_for_each_location(shared_service: Running, panel: Panel) -> None:
    told = shared_service.get("/v1/forecast?format=geojson").json
    assert told["type"] == "FeatureCollection"
    points = [feature["geometry"]["coordinates"] for feature in told["features"]]
    assert np.allclose(points, np.stack([panel.locations.lon, panel.locations.lat], axis=1))
    assert told["data_version"] == 0


def test_V21_every_step_has_its_offset_at_a_clock_change(shared_service: Running) -> None:
    told = shared_service.get("/v1/forecast?at=2015-11-01T04:00:00Z").json
    local = ["2015-11-01T01:00:00-04:00", "2015-11-01T01:00:00-05:00", "2015-11-01T02:00:00-05:00"]
    assert [step["ds_local"] for step in told["steps"]] == local
    hours = ["05", "06", "07"]
    assert [step["ds"] for step in told["steps"]] == [f"2015-11-01T{h}:00:00Z" for h in hours]
    assert told["origin_local"] == "2015-11-01T00:00:00-04:00"


def test_history_ends_with_the_last_whole_hour(shared_service: Running, panel: Panel) -> None:
    told = shared_service.get(f"/v1/history?location={panel.locations.ids[1]}&hours=5").json
    assert told["values"] == panel.values[-5:, 1].tolist()
    assert told["steps"][-1]["ds"] == f"{panel.times[-1]}Z"


def test_the_history_marks_implausible_values(
    service: Running, panel: Panel, clock: SettableClock
) -> None:
    first, second = panel.locations.ids[:2]
    clock.pass_hours(3)
    times = [str(panel.instant(len(panel.values) + k)) + "Z" for k in range(3)]
    values = [(first, times[0], 9_000_000.0), (first, times[1], float(panel.values[-167, 0]))]
    rows = [{"location": name, "ds": ds, "value": value} for name, ds, value in values]
    assert service.post("/v1/observations", {"observations": rows}).status == 200
    told = service.get(f"/v1/history?location={first}&hours=3").json
    assert told["implausible"] == [True, False, False]
    told = service.get(f"/v1/history?location={second}&hours=3").json
    assert told["implausible"] == [False] * 3


def test_a_history_of_too_many_steps_is_refused(
    shared_service: Running, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_HISTORY_STEPS", 7)
    path = f"/v1/history?location={panel.locations.ids[1]}&hours="
    assert shared_service.get(f"{path}7").status == 200
    reply = shared_service.get(f"{path}8")
    assert (reply.status, reply.json["code"]) == (422, "too_long")


@pytest.mark.parametrize("path", ["forecast?format=csv", "forecast?format=geojson", "history?"])
def test_what_takes_long_to_write_holds_up_nobody_else(
    shared_service: Running, panel: Panel, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    threads: list[str] = []
    describe = encode.step_times

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return describe(*args)

    shared_service.get("/v1/forecast")  # from now on it is computed no more
    monkeypatch.setattr(encode, "step_times", noted)
    monkeypatch.setattr(content, "step_times", noted)
    assert shared_service.get(f"/v1/{path}&location={panel.locations.ids[1]}").status == 200
    assert set(threads) == {"forecasts"}


def test_hours_without_data_are_null_not_zero(
    service: Running, panel: Panel, clock: SettableClock
) -> None:
    clock.pass_hours(2)
    told = service.get(f"/v1/history?location={panel.locations.ids[1]}&hours=3").json
    assert told["values"] == [panel.values[-1, 1], None, None]


def test_V17_a_feed_that_stops_is_told_and_in_the_end_refused(
    service: Running, clock: SettableClock
) -> None:
    ages = []
    for hours, stale in ((1, False), (1, True), (21, True)):
        clock.pass_hours(hours)
        told = service.get("/v1/forecast").json
        ages.append(told["data_age_seconds"])
        assert told["stale"] is stale
        assert bool(told["degraded"]) is stale
    assert ages == [60 + 3600, 60 + 2 * 3600, 60 + 23 * 3600]
    clock.pass_hours(1)
    reply = service.get("/v1/forecast")
    assert (reply.status, reply.json["code"]) == (503, "no_data")
    last = reply.headers["x-forecast-origin"]  # with it the last possible forecast is there
    assert service.get(f"/v1/forecast?at={last}").json["origin"] == last
    assert service.get("/readyz").status == 503
    assert service.get("/livez").status == 200


def test_W7_a_tab_that_asks_again_gets_nothing_twice(shared_service: Running) -> None:
    for path in ("/v1/forecast", "/v1/locations", "/v1/graph", "/v1/forecast?format=csv"):
        first = shared_service.get(path)
        again = shared_service.get(path, If_None_Match=first.headers["etag"])
        assert (again.status, again.body) == (304, b"")


def test_W7_a_provisional_forecast_is_not_taken_for_the_final_one(
    shared_service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = shared_service.engine.forecast

    async def provisional(origin: int | None = None) -> tuple[Forecast, Freshness]:
        answer, feed = await final(origin)
        return replace(answer, degraded="intervals: not yet adjusted"), feed

    monkeypatch.setattr(shared_service.engine, "forecast", provisional)
    first = shared_service.get("/v1/forecast")
    monkeypatch.setattr(shared_service.engine, "forecast", final)
    again = shared_service.get("/v1/forecast", If_None_Match=first.headers["etag"])
    assert (again.status, again.json["degraded"]) == (200, None)


@pytest.mark.parametrize(("seconds", "told"), [(0.3, 1), (2.1, 3), (3600.0, 15)])
def test_W7_a_page_is_told_how_fast_a_replay_goes(
    shared_service: Running, seconds: float, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared_service.get("/v1/forecast").headers["cache-control"] == "no-cache"
    monkeypatch.setattr(shared_service.engine, "replay_step_seconds", seconds)
    first = shared_service.get("/v1/forecast")
    again = shared_service.get("/v1/forecast", If_None_Match=first.headers["etag"])
    assert again.status == 304
    for reply in (first, again):
        assert reply.headers["cache-control"] == f"no-cache, max-age={told}"


def test_headers_tell_a_forecast_in_plain_words(service: Running, clock: SettableClock) -> None:
    calm = service.get("/v1/forecast").headers
    assert (calm["x-forecast-stale"], calm["x-forecast-data-age-seconds"]) == ("false", "60")
    assert "x-forecast-degraded" not in calm
    clock.pass_hours(3)
    late = service.get("/v1/forecast?format=csv&location=L0002")  # nothing of its own
    assert late.headers["x-forecast-stale"] == "true"
    assert late.headers["x-forecast-degraded"].startswith("data:")
    (row, *_) = csv.DictReader(io.StringIO(late.body.decode()))
    assert (row["stale"], row["degraded"]) == ("true", late.headers["x-forecast-degraded"])


def test_an_implausible_observation_is_kept_and_marked(service: Running, panel: Panel) -> None:
    identity, time = panel.locations.ids[3], f"{panel.times[-1]}Z"
    sent = [{"location": identity, "ds": time, "value": 4_000}]
    assert service.post("/v1/observations", {"observations": sent}).json["accepted"] == 1
    kept = service.get(f"/v1/history?location={identity}&hours=1").json
    assert kept["values"] == [4_000]
    told = service.get(f"/v1/forecast?location={identity}").json
    (row,) = told["forecasts"]
    assert row["degraded"].startswith("implausible value (4,000 at 2015-11-01T00:00:00-04:00, ")
    assert (row["last"], told["degraded"]) == (4_000, None)
    for form in ("csv", "geojson"):
        reply = service.get(f"/v1/forecast?location={identity}&format={form}")
        assert row["degraded"] in reply.body.decode()


def test_without_weather_ahead_the_forecast_says_so(service: Running, panel: Panel) -> None:
    ahead = f"{panel.times[-1] + np.timedelta64(2, 'h')}Z"
    lost = [{"ds": ahead, "values": {panel.covariates.names[0]: None}}]
    assert service.post("/v1/covariates", {"covariates": lost}).status == 200
    told = service.get("/v1/forecast").json
    assert told["degraded"].startswith("covariates:")
    assert told["data_version"] == 1


def test_accuracy_stands_beside_the_value_a_week_before(
    engine: Engine, start: Callable[..., Running], whole: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "ACCURACY_HOURS", 48)
    monkeypatch.setattr(background, "QUIET_SECONDS", 0.0)
    made_up = BackgroundForecasts(engine)._fill_past(engine.model, engine.data.snapshot, HOURS - 1)
    asyncio.run(made_up)
    told = start(engine).get("/v1/accuracy?hours=48").json
    assert told["terms"] == 5 * (48 * 3 - 3)  # of the last two hours not all is known yet
    origins = np.arange(HOURS - 49, HOURS - 1)
    ahead = origins[:, None] + np.arange(1, 4)
    truth = np.where(ahead[..., None] < HOURS, whole.values[ahead], np.nan)
    week = whole.values[ahead - 168]
    naive = float(np.sqrt(np.nanmean((truth - week) ** 2)))
    assert told["naive_rmse"] == pytest.approx(naive, rel=1e-5)
    last = whole.values[origins][:, None]
    rival = float(np.sqrt(np.nanmean((truth - last) ** 2)))
    assert told["last_value_rmse"] == pytest.approx(rival, rel=1e-5)
    assert 0 < told["rmse"] < min(naive, rival)
    assert -0.2 < told["bias"] < 0.2
    assert len(told["bias_by_size"]) == 5
    assert len(told["bias_by_hour"]) == 24
    schemas.Accuracy.model_validate(told)
    assert told["expected_coverage"] == pytest.approx(0.8)
    assert 0.5 < told["coverage"] <= 1.0
    assert [row["step"] for row in told["by_step"]] == [1, 2, 3]


def test_only_known_parameters_are_taken(shared_service: Running) -> None:
    for path, code in (
        ("/v1/forecast?att=2015-10-30T08:00:00Z", "unknown_parameter"),
        ("/v1/graph?x=1", "unknown_parameter"),
        ("/v1/history?location=a&location=b", "doubled_parameter"),
        ("/v1/forecast?format=xml", "invalid"),
        ("/v1/forecast?location=nowhere", "unknown_location"),
        ("/v1/history", "invalid"),
    ):
        reply = shared_service.get(path)
        assert (reply.status, reply.json["code"]) == (422, code)


def test_a_model_without_explanations_says_so(shared_service: Running, panel: Panel) -> None:
    reply = shared_service.get(f"/v1/explanation?location={panel.locations.ids[0]}")
    assert (reply.status, reply.json["code"]) == (404, "no_explanation")
    assert "Ridge" in reply.json["detail"]


def test_every_answer_is_strict_json(service: Running, clock: SettableClock) -> None:
    clock.pass_hours(2)
    for path in ("/v1/forecast", "/v1/accuracy", "/v1/locations"):
        reply = service.get(path)
        assert reply.status == 200
        assert json.loads(reply.body, parse_constant=pytest.fail)  # NaN and Infinity are no JSON
