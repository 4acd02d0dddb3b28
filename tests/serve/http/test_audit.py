"""What is recorded of writes."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forecaster.errors import RunError
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.access import Access, AccessToken
from forecaster.serve.http.audit import AuditLog
from forecaster.serve.http.limits import MAX_BODY_BYTES
from forecaster.serve.http.settings import HttpSettings
from tests.serve.client import TOKEN
from tests.serve.conftest import Running


def read(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_write_leaves_a_line_also_if_it_is_refused(
    engine: Engine, start: Callable[..., Running], tmp_path: Path
) -> None:
    file, tokens = tmp_path / "audit.jsonl", (AccessToken.of(TOKEN, "feed"),)
    settings = HttpSettings(access=Access(lambda: tokens), audit=AuditLog(file))
    service = start(engine, settings)
    panel = engine.data.snapshot.base
    time, name = f"{panel.times[-1]}Z", panel.locations.ids[0]
    body = {"observations": [{"location": name, "ds": time, "value": 17}]}
    assert service.post("/v1/observations", body).status == 200
    service.post("/v1/observations", body, token=None)
    service.post("/v1/observations", {"observations": 1})
    service.get("/v1/locations")
    accepted, nameless, invalid = read(file)
    expected = {"token": "feed", "client": "127.0.0.1", "path": "/v1/observations"}
    assert expected.items() <= accepted.items()
    assert (accepted["status"], accepted["data_version"]) == (200, 1)
    assert (nameless["status"], nameless["token"]) == (401, None)
    assert (invalid["status"], invalid["token"]) == (422, "feed")
    assert TOKEN not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_write_that_reaches_no_route_leaves_a_line_too(
    engine: Engine, start: Callable[..., Running], tmp_path: Path
) -> None:
    file, tokens = tmp_path / "audit.jsonl", (AccessToken.of(TOKEN, "feed"),)
    settings = HttpSettings(
        access=Access(lambda: tokens), audit=AuditLog(file), hosts=frozenset({"127.0.0.1"})
    )
    service = start(engine, settings)
    large = b"POST /v1/observations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
    assert service.first(large % (MAX_BODY_BYTES + 1)).status == 413
    assert service.send("POST", "/v1/locations", b"{}", Host="elsewhere").status == 421
    assert (
        service.send("POST", "/v1/covariates", b"", **{"Content-Encoding": "gzip"}).status == 415
    )
    assert service.send("GET", "/v1/observations", None, Host="elsewhere").status == 421
    lines = read(file)
    assert [(line["path"], line["status"]) for line in lines] == [
        ("/v1/observations", 413), ("/v1/locations", 421), ("/v1/covariates", 415),
    ]  # fmt: skip
    assert all(line["token"] is None and line["request"] for line in lines)


def test_a_log_that_was_moved_away_is_begun_again(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit = AuditLog(file)
    audit.write(status=200)
    file.rename(tmp_path / "audit.1")
    audit.write(status=401)
    assert [line["status"] for line in read(file)] == [401]
    audit.close()


def test_a_line_that_cannot_be_written_is_logged_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")

    def full(*_: object) -> int:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "write", full)
    with caplog.at_level(logging.ERROR):
        audit.write(status=200)
    assert audit.failures == 1
    assert "No space left" in caplog.text


def test_a_log_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no audit log can be written"):
        AuditLog(tmp_path / "none" / "audit.jsonl")
