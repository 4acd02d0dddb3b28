"""A panel with further locations than the run's, and one that lacks some of them."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.errors import ArtifactError
from forecaster.estimators.baselines.naive import LastValue
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import LiveData, panel_digest
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.data.store import Store
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.new_locations import (
    absent_locations,
    describe_absent,
    forecast_columns,
    with_absent_locations,
)
from forecaster.serve.forecasting.predictor import SnapshotPredictor
from forecaster.serve.service import load_model
from tests.serve.conftest import HOURS, Running, SettableClock, fit

NEUBAU = Registration("Neubau", "Neubau")


@pytest.fixture
def accepting_model(accepting_run: Path) -> ServedModel:
    return load_model(accepting_run)


def wide(panel: Panel, first: int, end: int) -> Snapshot:
    """Return a panel with a sixth location that was observed for some hours."""
    snapshot = Snapshot(panel).with_locations([NEUBAU], 1)
    return snapshot.with_observations([(step, 5, 1.0 * step) for step in range(first, end)], 2)


def final(model: ServedModel, snapshot: Snapshot, origin: int) -> object:
    predictor = SnapshotPredictor()
    while (forecast := predictor.predict(model, snapshot, origin)) is None:
        pass
    return forecast


def test_L2_columns_follow_the_origin_and_the_model(
    accepting_model: ServedModel, model: ServedModel, panel: Panel
) -> None:
    snapshot = wide(panel, HOURS - 30, HOURS)
    assert forecast_columns(accepting_model, snapshot, HOURS - 1) == [0, 1, 2, 3, 4, 5]
    assert forecast_columns(accepting_model, snapshot, HOURS - 30 + 22) == [0, 1, 2, 3, 4]
    assert forecast_columns(model, snapshot, HOURS - 1) == [0, 1, 2, 3, 4]


def test_L2_one_predictor_forecasts_before_and_after_the_first_day(
    accepting_model: ServedModel, panel: Panel
) -> None:
    snapshot, predictor = wide(panel, HOURS - 30, HOURS), SnapshotPredictor()
    for origin, count in ((HOURS - 20, 5), (HOURS - 1, 6), (HOURS - 20, 5), (HOURS - 2, 6)):
        while (forecast := predictor.predict(accepting_model, snapshot, origin)) is None:
            pass
        assert (forecast.y_hat.shape, forecast.quantiles.shape) == ((3, count), (3, 3, count))
        assert (forecast.last.shape, forecast.usual.shape) == ((count,), (3, count))
        assert len(forecast.locations) == count
        alone = final(accepting_model, snapshot, origin)
        assert np.array_equal(forecast.quantiles, alone.quantiles)  # type: ignore[attr-defined]
    assert forecast.doubts["Neubau"] == "new location"
    assert forecast.last[5] == HOURS - 2
    assert not np.isin(HOURS - 1, forecast.y_hat[:, 5])  # nothing after the origin is seen


def test_L2_new_locations_do_not_make_a_history_incomplete(
    accepting_model: ServedModel, panel: Panel
) -> None:
    more = [Registration(f"new {n}", f"new {n}") for n in range(20)]
    snapshot = Snapshot(panel).with_locations(more, 1)
    cells = [(step, 5 + n, 1.0) for step in range(HOURS - 24, HOURS) for n in range(20)]
    forecast = SnapshotPredictor().predict_provisional(
        accepting_model, snapshot.with_observations(cells, 2), HOURS - 1
    )
    assert forecast.y_hat.shape == (3, 25)


def test_L3_locations_that_are_silent_or_return_do_not_stop_the_others(
    model: ServedModel, panel: Panel
) -> None:
    silent = [(step, n, None) for step in range(HOURS - 200, HOURS) for n in (0, 3)]
    snapshot = Snapshot(panel).with_observations(silent, 1)
    forecast = SnapshotPredictor().predict_provisional(model, snapshot, HOURS - 1)
    assert "2 of 5 locations missing or not final at the origin" in str(forecast.degraded)
    back = snapshot.with_observations([(HOURS - 1, n, 5.0) for n in (0, 3)], 2)
    forecast = SnapshotPredictor().predict_provisional(model, back, HOURS - 1)
    assert np.isfinite(forecast.y_hat).all()


def test_L3_absent_locations_are_missing_and_named(model: ServedModel, panel: Panel) -> None:
    ids = panel.locations.ids
    part = Snapshot(panel.select((ids[3], ids[0], ids[4]))).with_locations([NEUBAU], 1)
    whole = with_absent_locations(model, part.panel(0, 9, 9))
    assert whole.locations.ids == (ids[3], ids[0], ids[4], "Neubau", ids[1], ids[2])
    assert np.array_equal(whole.values[:, :3], panel.values[:9, [3, 0, 4]])
    assert np.isnan(whole.values[:, 3:]).all()
    assert absent_locations(model, part.locations) == [ids[1], ids[2]]
    text = f"data: the panel lacks 2 of the run's 5 locations: {ids[1]}, {ids[2]}"
    assert describe_absent(model, part) == text
    assert describe_absent(model, Snapshot(panel)) is None


def serve_part(
    panel: Panel, run: Path, clock: SettableClock, count: int, start: Callable[..., Running]
) -> Running:
    part = panel.select(panel.locations.ids[:count])
    data = LiveData(part, Store(None, panel_digest(part)), clock)
    return start(Engine(partial(load_model, run), data))


@pytest.mark.parametrize("model_name", ["run", "accepting_run"])
def test_L3_a_service_without_up_to_half_of_the_locations_says_which(
    panel: Panel,
    clock: SettableClock,
    start: Callable[..., Running],
    model_name: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = serve_part(panel, request.getfixturevalue(model_name), clock, 3, start)
    absent = list(panel.locations.ids[3:])
    assert f"the panel lacks 2 of the run's 5 locations: {', '.join(absent)}" in caplog.text
    told = service.get("/v1/forecast").json
    assert [row["id"] for row in told["forecasts"]] == list(panel.locations.ids[:3])
    assert told["degraded"].startswith("data: the panel lacks 2 of the run's 5 locations")
    assert service.get("/v1/locations").json["absent"] == absent
    assert service.get("/v1/accuracy").status == 200
    assert service.get(f"/v1/forecast?location={absent[0]}").status == 422
    assert "WARNING  forecaster.estimators" not in caplog.text  # not with every forecast


def test_L3_an_absent_location_may_be_registered_and_is_an_ordinary_one(
    panel: Panel, run: Path, clock: SettableClock, start: Callable[..., Running]
) -> None:
    service = serve_part(panel, run, clock, 4, start)
    fifth = panel.locations.ids[4]
    assert service.post("/v1/locations", {"id": fifth}).status == 201
    told = service.get("/v1/forecast").json
    assert len(told["forecasts"]) == 5
    assert told["degraded"] == "data: 1 of 5 locations missing or not final at the origin"
    assert service.get("/v1/locations").json["absent"] == []


def test_L3_a_service_without_more_than_half_is_refused(
    panel: Panel, run: Path, clock: SettableClock
) -> None:
    part = panel.select(panel.locations.ids[:2])
    data = LiveData(part, Store(None, panel_digest(part)), clock)
    with pytest.raises(ArtifactError, match=r"(?s)lacks 3 of the run's, more than half.*serve"):
        Engine(partial(load_model, run), data)
    data.close()


def test_L2_a_panel_of_many_further_locations_is_refused_by_a_run_that_cannot(
    panel: Panel, clock: SettableClock, tmp_path: Path
) -> None:
    two = fit(panel.select(panel.locations.ids[:2]), 0, tmp_path / "two")
    data = LiveData(panel, Store(None, panel_digest(panel)), clock)
    message = (
        r"does not know 3 of these, more than a quarter: L0003, L0004, L0005; .*forecaster train"
    )
    with pytest.raises(ArtifactError, match=message):
        Engine(partial(load_model, two), data)
    data.close()


def test_L2_a_run_that_cannot_forecasts_the_locations_that_it_knows(
    panel: Panel,
    clock: SettableClock,
    start: Callable[..., Running],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    four = fit(panel.select(panel.locations.ids[:4]), 0, tmp_path / "four")
    data = LiveData(panel, Store(None, panel_digest(panel)), clock)
    service = start(Engine(partial(load_model, four), data))
    assert "it does not know 1 of the panel's 5 locations: L0005" in caplog.text
    told = service.get("/v1/forecast").json
    assert [row["id"] for row in told["forecasts"]] == list(panel.locations.ids[:4])
    refused = service.get("/v1/forecast?location=L0005")
    assert (refused.status, refused.json["code"]) == (409, "cannot_forecast")
    assert service.get("/v1/history?location=L0005").status == 200
    assert service.get("/v1/accuracy").status == 200
    assert service.get("/readyz").status == 200


def test_L2_a_run_that_accepts_further_locations_of_the_panel_forecasts_them(
    panel: Panel, clock: SettableClock, tmp_path: Path
) -> None:
    data = LiveData(panel, Store(None, panel_digest(panel)), clock)
    four = fit(panel.select(panel.locations.ids[:4]), 0, tmp_path / "accepting", LastValue)
    engine = Engine(partial(load_model, four), data)
    forecast, _ = asyncio.run(engine.forecast())
    assert forecast.doubts["L0005"] == "new location"
    engine.close()


def test_L2_a_run_that_knows_the_location_makes_it_an_ordinary_one(
    panel: Panel, clock: SettableClock, start: Callable[..., Running], tmp_path: Path, run: Path
) -> None:
    ids = panel.locations.ids
    part = panel.select(ids[:4])
    data = LiveData(part, Store(None, panel_digest(part)), clock)
    four = fit(part, 0, tmp_path / "four", LastValue)
    service = start(Engine(partial(load_model, four), data))
    service.post("/v1/locations", {"id": ids[4], "lat": 40.7, "lon": -73.9})
    times = [f"{time}Z" for time in panel.times]
    rows = [
        {"location": ids[4], "ds": ds, "value": float(value)}
        for ds, value in zip(times, panel.values[:, 4], strict=True)
    ]
    assert service.post("/v1/observations", {"observations": rows}).status == 200
    (row,) = service.get(f"/v1/forecast?location={ids[4]}").json["forecasts"]
    assert row["degraded"] == "new location"
    service.engine.loader.load = partial(load_model, run)
    asyncio.run(service.engine.loader.reload())
    told = service.get("/v1/forecast").json
    assert [row["id"] for row in told["forecasts"]] == list(ids)
    assert "degraded" not in told["forecasts"][4]
    listed = service.get("/v1/locations").json["locations"][4]
    assert (listed["new"], listed["since"] is not None) == (False, True)


def test_L2_a_run_that_cannot_serves_the_rest_and_says_so(
    accepting: Running, panel: Panel, run: Path
) -> None:
    accepting.post("/v1/locations", {"id": "Neubau"})
    accepting.engine.loader.load = partial(load_model, run)
    asyncio.run(accepting.engine.loader.reload())
    assert accepting.engine.loader.reloads == {"done": 1, "failed": 0}
    assert len(accepting.get("/v1/forecast").json["forecasts"]) == 5
    reply = accepting.get("/v1/forecast?location=Neubau")
    assert (reply.status, reply.json["code"]) == (409, "cannot_forecast")
    row = {"location": "Neubau", "ds": f"{panel.times[-1]}Z", "value": 3.0}
    assert accepting.post("/v1/observations", {"observations": [row]}).status == 200


class Asker(threading.Thread):
    """A client that asks for one path, and records answers that are not whole."""

    def __init__(self, service: Running, path: str, counts: dict[int, int]) -> None:
        super().__init__()
        self.service, self.path, self.counts = service, path, counts
        self.ended, self.faults = threading.Event(), list[bytes]()

    def run(self) -> None:
        while not self.ended.is_set():
            reply = self.service.get(self.path)
            if reply.status != 200 or not self.is_whole(reply.json):
                self.faults.append(reply.body)

    def is_whole(self, told: Any) -> bool:
        """Whether a forecast has the locations of its data version, all with three steps."""
        rows = [feature["properties"] for feature in told.get("features", [])]
        expected = self.counts.get(told["data_version"], len(rows)) if rows else 0
        return len(rows) == expected and all(len(row["y_hat"]) == 3 for row in rows)


def test_V8_registrations_and_first_days_amid_requests_mix_nothing(
    accepting: Running, panel: Panel, rounds: Callable[[int, int], int]
) -> None:
    counts = {0: 5}  # locations by data version
    paths = ["forecast?format=geojson", "accuracy", f"forecast?at={panel.times[-30]}Z"]
    askers = [Asker(accepting, f"/v1/{path}", counts) for path in paths]
    for asker in askers:
        asker.start()
    for n in range(rounds(5, 50)):
        name = f"new {n}"
        version = accepting.post("/v1/locations", {"id": name}).json["data_version"]
        counts[version] = 5 + n
        rows = [{"location": name, "ds": f"{t}Z", "value": 3.0} for t in panel.times[-24:]]
        reply = accepting.post("/v1/observations", {"observations": rows})
        counts[reply.json["data_version"]] = 6 + n
    for asker in askers:
        asker.ended.set()
        asker.join()
    assert [asker.faults for asker in askers] == [[]] * 3
    assert len(accepting.get("/v1/forecast").json["forecasts"]) == 5 + rounds(5, 50)
