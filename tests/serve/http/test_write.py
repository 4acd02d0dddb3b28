"""What may be written, by whom, and what becomes of it."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import AHEAD_SECONDS
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.schemas import Covariate, Observation
from forecaster.serve.http.settings import HttpSettings
from forecaster.serve.http.write import covariate_entries, observation_entries
from forecaster.serve.problems import Problem
from tests.serve.client import TOKEN
from tests.serve.conftest import HOURS, Running, SettableClock

Batch = dict[str, Any]


def hour(panel: Panel, step: int) -> str:
    return f"{panel.start + np.timedelta64(step, 'h')}Z"


def observed(panel: Panel, whole: Panel, step: int) -> Batch:
    """Return a batch with what came at a step."""
    rows = zip(panel.locations.ids, whole.values[step].tolist(), strict=True)
    ds = hour(panel, step)
    return {"observations": [{"location": i, "ds": ds, "value": v} for i, v in rows]}


def one(panel: Panel, value: Any, step: int = HOURS, **other: Any) -> Batch:
    row = {"location": panel.locations.ids[0], "ds": hour(panel, step), "value": value, **other}
    return {"observations": [row]}


def test_an_hour_that_came_is_forecast_from(
    service: Running, panel: Panel, whole: Panel, clock: SettableClock, run: Path
) -> None:
    clock.pass_hours(1)
    reply = service.post("/v1/observations", observed(panel, whole, HOURS))
    assert reply.json == {"accepted": 5, "revised": 0, "unchanged": 0, "data_version": 1}
    told = service.get("/v1/forecast").json
    assert (told["origin"], told["data_version"]) == (hour(panel, HOURS), 1)
    offline = load_estimator(run).forecast(whole, f"{whole.times[HOURS]}+00:00")
    y_hat = np.ravel([row["y_hat"] for row in told["forecasts"]])
    assert np.allclose(y_hat, offline["y_hat"], rtol=1e-5)


def test_V3_an_hour_that_is_open_is_not_forecast_from(
    service: Running, panel: Panel, whole: Panel, clock: SettableClock
) -> None:
    reply = service.post("/v1/observations", observed(panel, whole, HOURS))
    assert reply.status == 200
    assert service.get("/v1/forecast").json["origin"] == hour(panel, HOURS - 1)
    clock.pass_hours(1)  # what was sent before the hour was over may yet have grown
    assert service.get("/v1/forecast").json["origin"] == hour(panel, HOURS - 1)
    assert service.post("/v1/observations", observed(panel, whole, HOURS)).status == 200
    assert service.get("/v1/forecast").json["origin"] == hour(panel, HOURS)


def test_V3_late_data_is_taken_and_forecast_anew(service: Running, panel: Panel) -> None:
    before = service.get("/v1/forecast").json
    reply = service.post("/v1/observations", one(panel, 999.0, HOURS - 2))
    assert reply.json["data_version"] == 1
    after = service.get("/v1/forecast").json
    assert (after["origin"], after["data_version"]) == (before["origin"], 1)
    assert after["forecasts"] != before["forecasts"]


@pytest.mark.parametrize(
    ("step", "code"), [(HOURS + 1, "in_future"), (HOURS + 99, "in_future"), (-1, "too_old")]
)
def test_V3_what_cannot_have_been_seen_is_refused(
    shared_service: Running, panel: Panel, step: int, code: str
) -> None:
    reply = shared_service.post("/v1/observations", one(panel, 3.0, step))
    assert (reply.status, reply.json["code"]) == (422, code)


def test_V3_a_clock_may_be_five_minutes_ahead(
    service: Running, panel: Panel, clock: SettableClock
) -> None:
    clock.seconds += 3600 - 60 - 301
    assert service.post("/v1/observations", one(panel, 3.0, HOURS + 1)).status == 422
    clock.seconds += 1
    assert service.post("/v1/observations", one(panel, 3.0, HOURS + 1)).status == 200


def test_V3_random_orders_come_to_one_state(
    service: Running, panel: Panel, whole: Panel, clock: SettableClock
) -> None:
    clock.pass_hours(7)
    batches = [observed(panel, whole, HOURS + n) for n in range(7)]
    generator = np.random.default_rng(0)
    generator.shuffle(batches)
    for batch in batches:
        generator.shuffle(batch["observations"])
        assert service.post("/v1/observations", batch).status == 200
    values = service.engine.data.snapshot.values(HOURS, HOURS + 7)
    assert np.array_equal(values, whole.values[HOURS : HOURS + 7])


def test_V2_a_retry_writes_nothing_twice(
    service: Running, panel: Panel, rounds: Callable[[int, int], int]
) -> None:
    generator = np.random.default_rng(2)
    sent = [(f"key-{n}", one(panel, float(n), HOURS - 1 - n % 3)) for n in range(rounds(7, 40))]
    answers: dict[str, Any] = {}
    expected: dict[str, float] = {}
    for key, batch in sent:
        for again in range(int(generator.integers(1, 6))):
            reply = service.post("/v1/observations", batch, Idempotency_Key=key)
            assert reply.json == answers.setdefault(key, reply.json)
            if again == 0:
                row = batch["observations"][0]
                expected[row["ds"]] = row["value"]
        earlier = str(generator.choice(list(answers)))  # a retry that comes late, out of order
        old = dict(sent)[earlier]
        assert service.post("/v1/observations", old, Idempotency_Key=earlier).status == 200
    values = {ds: service.engine.data.snapshot.values(HOURS - 1 - n, HOURS - n)[0, 0]
              for n in range(3) for ds in [hour(panel, HOURS - 1 - n)]}  # fmt: skip
    assert values == expected


def test_V2_a_key_belongs_to_one_body(service: Running, panel: Panel) -> None:
    assert service.post("/v1/observations", one(panel, 1.0), Idempotency_Key="k").status == 200
    reply = service.post("/v1/observations", one(panel, 2.0), Idempotency_Key="k")
    assert (reply.status, reply.json["code"]) == (422, "key_reused")
    assert service.post("/v1/observations", one(panel, 2.0), Idempotency_Key="k k").status == 422


def bad_bodies(panel: Panel) -> list[bytes]:
    """Return two hundred bodies that must be refused."""
    whole = json.dumps(one(panel, 0)).encode()
    odd = [
        "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-1", "-0.5", "1e12", "-1e12", "1e308",
        '"5"', "true", "false", "[]", "{}", "[5]", '"NaN"', "9" * 5_000, "9" * 4_000, "0x10",
        "05", "5.", ".5", "+5", "1_000", "5e", "None", "nan", "'5'", "\x00", "5,5", "1e400",
    ]  # fmt: skip
    numbers = [whole.replace(b'"value": 0', f'"value": {text}'.encode()) for text in odd]
    times = [
        "", "now", "2015-11-01", "2015-11-01T04:00:00", "2015-13-01T04:00:00Z", "24:00", "1e9",
        "2015-11-01T04:30:00Z", "2015-11-01T04:00:01Z", "2015-11-01T04:00:00.5Z", "\\u0000",
        "2015-11-01T04:00:00+99:00", "٢٠١٥-١١-٠١T04:00:00Z", "x" * 5_000, "-2015-11-01T04:00Z",
    ]  # fmt: skip
    wrong = [{"observations": [{**one(panel, 1)["observations"][0], "ds": t}]} for t in times]
    wrong += [
        one(panel, 1, location=name) for name in ("", "nowhere", "../etc", "\u0000", "a" * 999)
    ]
    wrong += [one(panel, 1, location=name) for name in (None, 5, True, ["a"], {"a": 1}, 1.5)]
    wrong += [one(panel, 1, extra=1), one(panel, 1, __proto__=1), {"observations": []}]
    wrong += [{"observations": None}, {"observations": {}}, {"observations": "x"}, {}, {"x": 1}]
    wrong += [{"observations": [None]}, {"observations": [[]]}, {"observations": [1]}]
    wrong += [{"observations": one(panel, 1)["observations"] * 2}]  # the same hour twice
    wrong += [{"observations": one(panel, 1)["observations"] * 10_001}]
    shapes = [json.dumps(body).encode() for body in wrong]
    depths = [b"[" * n + b"]" * n for n in (1, 50, 900, 100_000)]
    depths += [b'{"a":' * n + b"1" + b"}" * n for n in (2, 900, 100_000)]
    raw = [
        b"", b"null", b"5", b'"x"', b"[]", b"{", b"}", b"\xff\xfe", b"\xef\xbb\xbf{}", b"{'a':1}",
        b'{"observations":[],"observations":[]}', b'{"a":1,"a":1}',
        b'{"observations":[{"a":1,"a":2}]}',
        whole + b"x", whole[:-1], whole.replace(b'"ds"', b'"ds":"x","ds"'), b"\x00" * 99,
        b'{"observations": [{"location": "\\ud800", "ds": "2015-11-01T04:00:00Z", "value": 1}]}',
        b"a=1&b=2", b"<xml/>", b"/* x */ {}", b"{} {}", b"[1,]", b'{"a":1,}', b"\n", b" ",
    ]  # fmt: skip
    flips = []
    generator = np.random.default_rng(3)
    while len(flips) < 200 - len(numbers + shapes + depths + raw):
        flipped = bytearray(whole)
        flipped[generator.integers(len(whole))] = generator.choice(list(b'"{}[]:,\x00\xff'))
        flips.append(bytes(flipped))
    return [*numbers, *shapes, *depths, *raw, *(f for f in flips if f != whole)]


def test_V4_nothing_that_is_not_a_batch_is_taken(service: Running, panel: Panel) -> None:
    bodies = bad_bodies(panel)
    for body in bodies:
        reply = service.post("/v1/observations", body)
        assert reply.status in (422, 200), body[:99]
        assert reply.headers["content-type"] in ("application/problem+json", "application/json")
        json.loads(reply.body, parse_constant=pytest.fail)
        if reply.status == 200:  # a flipped byte may leave a batch
            assert json.loads(body)["observations"][0]["value"] == 0
    assert len(bodies) >= 190
    assert service.get("/readyz").status == 200


def test_V4_other_types_are_no_json(shared_service: Running, panel: Panel) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"):
        reply = shared_service.post("/v1/observations", one(panel, 1.0), Content_Type=kind)
        assert reply.status == 422


def test_V10_nobody_writes_without_the_token(shared_service: Running, panel: Panel) -> None:
    wrong = (None, "", "x" * 20, TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é")
    for token in wrong:
        for path in ("/v1/observations", "/v1/covariates"):
            reply = shared_service.post(path, one(panel, 1.0), token)
            assert (reply.status, reply.json["code"]) == (401, "no_token")
            assert reply.headers["www-authenticate"] == "Bearer"
    basic = shared_service.send("POST", "/v1/observations", b"{}", Authorization=f"Basic {TOKEN}")
    assert basic.status == 401
    assert shared_service.engine.data.snapshot.version == 0


def test_V10_without_a_token_writing_is_off(
    engine: Engine, start: Callable[..., Running], panel: Panel
) -> None:
    service = start(engine, HttpSettings())
    for token in (None, TOKEN, "", "None"):
        reply = service.post("/v1/observations", one(panel, 1.0), token)
        assert (reply.status, reply.json["code"]) == (403, "writes_off")


def test_V10_a_wrong_token_is_refused_before_the_body_is_read(shared_service: Running) -> None:
    head = b"POST /v1/observations HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    assert shared_service.raw(head, 5.0).startswith(b"HTTP/1.1 401")


def test_V15_a_full_disk_is_told_and_questions_go_on(
    service: Running, panel: Panel, whole: Panel
) -> None:
    store = service.engine.data._store
    store._connection.execute("PRAGMA max_page_count = 1")
    rows = [row for step in range(300) for row in observed(panel, whole, step)["observations"]]
    reply = service.post("/v1/observations", {"observations": rows})
    assert (reply.status, reply.json["code"]) == (507, "disk_full")
    assert service.get("/v1/forecast").json["data_version"] == 0
    store._connection.execute("PRAGMA max_page_count = 100000")
    assert service.post("/v1/observations", {"observations": rows}).status == 200


def test_V9_a_store_that_breaks_is_told(service: Running, panel: Panel) -> None:
    service.engine.data._store._connection.execute("DROP TABLE observations")
    reply = service.post("/v1/observations", one(panel, 1.0))
    assert (reply.status, reply.json["code"]) == (503, "store_broken")
    ready = service.get("/readyz")
    assert (ready.status, service.get("/livez").status) == (503, 200)
    assert "cannot be written" in ready.json["detail"]


def test_many_writers_lose_nothing(service: Running, panel: Panel) -> None:
    def send(column: int) -> None:
        for n in range(11):
            row = {"location": panel.locations.ids[column], "ds": hour(panel, n), "value": n}
            assert service.post("/v1/observations", {"observations": [row]}).status == 200

    threads = [threading.Thread(target=send, args=(column,)) for column in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert service.engine.data.snapshot.version == 55
    assert np.array_equal(service.engine.data.snapshot.values(0, 11)[:, 3], np.arange(11.0))


def test_covariates_change_the_forecast(service: Running, panel: Panel) -> None:
    before = service.get("/v1/forecast").json
    hot = [
        {"ds": hour(panel, HOURS + k), "values": dict.fromkeys(panel.covariates.names, 30.0)}
        for k in range(3)
    ]
    reply = service.post("/v1/covariates", {"covariates": hot})
    assert reply.json["accepted"] == 3 * len(panel.covariates.names)
    after = service.get("/v1/forecast").json
    assert after["forecasts"] != before["forecasts"]
    assert after["degraded"] is None


def test_unknown_covariates_are_refused(shared_service: Running, panel: Panel) -> None:
    row = {"ds": hour(panel, HOURS), "values": {"moon": 1.0}}
    reply = shared_service.post("/v1/covariates", {"covariates": [row]})
    assert (reply.status, reply.json["code"]) == (422, "unknown_covariate")


def seen(panel: Panel, step: int, value: float | None, place: str | None = None) -> Observation:
    ds = f"{panel.start + np.timedelta64(step, 'h')}Z"
    return Observation(location=place or panel.locations.ids[0], ds=ds, value=value)


def test_a_batch_becomes_entries(panel: Panel, clock: SettableClock) -> None:
    batch = [seen(panel, 3, 5.0), seen(panel, 4, None)]
    entries = observation_entries(batch, Snapshot(panel), clock())
    start = int(panel.start.astype(np.int64))
    name = panel.locations.ids[0]
    assert entries == [(name, start + 3 * 3600, 5.0), (name, start + 4 * 3600, None)]


def test_every_fault_is_named(panel: Panel, clock: SettableClock) -> None:
    batch = [seen(panel, 3, -5.0), seen(panel, -9, 1.0), seen(panel, 4, 1.0, "nowhere")]
    with pytest.raises(Problem) as refusal:
        observation_entries(batch, Snapshot(panel), clock())
    assert refusal.value.code == "negative"  # the first
    for words in ("observations.0", "observations.1", "observations.2"):
        assert words in str(refusal.value.detail)


def test_V3_the_future_begins_after_five_minutes(panel: Panel) -> None:
    begin = float(int(panel.start.astype(np.int64)) + HOURS * 3600)
    snapshot = Snapshot(panel)
    assert observation_entries([seen(panel, HOURS, 1.0)], snapshot, begin - AHEAD_SECONDS)
    with pytest.raises(Problem, match="in_future"):
        observation_entries([seen(panel, HOURS, 1.0)], snapshot, begin - AHEAD_SECONDS - 1)


def test_weather_may_be_told_ahead_but_not_for_ever(panel: Panel, clock: SettableClock) -> None:
    name = panel.covariates.names[0]
    near = f"{panel.times[-1] + np.timedelta64(30, 'D')}Z"
    far = f"{panel.times[-1] + np.timedelta64(40, 'D')}Z"
    snapshot = Snapshot(panel)
    assert covariate_entries([Covariate(ds=near, values={name: 1.0})], snapshot, clock())
    with pytest.raises(Problem, match="in_future"):
        covariate_entries([Covariate(ds=far, values={name: 1.0})], snapshot, clock())


def test_measurements_may_be_negative(panel: Panel, clock: SettableClock) -> None:
    measured = Snapshot(replace(panel, kind="measurement"))
    assert observation_entries([seen(panel, 3, -5.0)], measured, clock())
