"""What an operator does with a served store: damage, another machine, a second one that waits."""

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copy, copytree, rmtree
from typing import Any

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from tests.serve.conftest import panel, run, whole  # noqa: F401 (fixtures)
from tests.serve.data.test_recovery import FILES, damages
from tests.serve.processes import NotStartedError, ServiceProcess, ServiceProcesses

Command = Callable[..., tuple[int, str, str]]
Body = dict[str, Any]


@pytest.fixture
def panel_folder(panel: Panel, tmp_path: Path) -> Path:  # noqa: F811
    panel.save(tmp_path / "panel")
    return tmp_path / "panel"


@pytest.fixture
def services(run: Path, panel_folder: Path, tmp_path: Path) -> Iterator[ServiceProcesses]:  # noqa: F811
    made = ServiceProcesses(run, panel_folder, tmp_path)
    yield made
    made.close()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs the command in this process: exit code, output, errors."""
    from forecaster.cli.app import main  # noqa: PLC0415

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return call


def batch(panel: Panel, n: int) -> Body:  # noqa: F811
    """Return the body of a feed's request: a step of every location."""
    ds = f"{panel.times[-1 - n]}Z"
    rows = [{"location": i, "ds": ds, "value": float(n)} for i in panel.locations.ids]
    return {"observations": rows}


def send(child: ServiceProcess, body: Body, key: str) -> Body:
    reply = child.post("/v1/observations", body, Idempotency_Key=key)
    assert reply.status == 200, reply
    receipt: Body = reply.json
    return receipt


def end(services: ServiceProcesses, child: ServiceProcess, how: signal.Signals) -> int:
    child.end(how)
    return services.wait(child)


@pytest.mark.slow
def test_A1_a_damaged_store_is_served_whole_or_not_at_all(
    services: ServiceProcesses,
    panel: Panel,  # noqa: F811
    tmp_path: Path,
    rounds: Callable[[int, int], int],
) -> None:
    child = services.start(tmp_path / FILES[0])
    ledger = [batch(panel, n) for n in range(7)]  # what the client was told is stored
    version = [send(child, body, f"k-{n}")["data_version"] for n, body in enumerate(ledger)][-1]
    child.end(signal.SIGKILL)
    services.wait(child)
    refused = served = 0
    for n, damaged in enumerate(damages(tmp_path, rounds(8, 96), np.random.default_rng(5))):
        place = tmp_path / f"damaged-{n}"
        place.mkdir()
        for name in FILES:
            copy(tmp_path / name, place / name)
        for name, damage in damaged.items():
            damage(place / name)
        try:
            child = services.start(place / FILES[0])
        except NotStartedError:
            refused += 1
            continue
        assert child.get("/readyz").status == 200
        for body in ledger:  # without the keys: the service compares values
            receipt = child.post("/v1/observations", body).json
            assert (receipt["unchanged"], receipt["data_version"]) == (5, version), damaged
        assert send(child, ledger[0], "k-0")["accepted"] == 5  # the answer of then
        served += 1
        end(services, child, signal.SIGKILL)
    assert refused > 0
    assert served > 0


@pytest.mark.slow
def test_a_service_moves_to_another_machine_and_clients_send_again(
    services: ServiceProcesses,
    run: Path,  # noqa: F811
    panel_folder: Path,
    panel: Panel,  # noqa: F811
    tmp_path: Path,
    command: Command,
) -> None:
    """The steps of docs/guides/operations.md, "Another machine"."""
    store = tmp_path / "panel.sqlite"
    child = services.start(store)
    first, second = batch(panel, 0), batch(panel, 1)
    receipt = send(child, first, "k-1")
    assert end(services, child, signal.SIGTERM) in {0, -signal.SIGTERM}
    with suppress(OSError):
        child.post("/v1/observations", second, Idempotency_Key="k-2")
        raise AssertionError("a stopped service took an observation")
    assert command("backup", store, tmp_path / "backup")[0] == 0
    other = tmp_path / "other machine"
    other.mkdir()
    copytree(panel_folder, other / "panel")
    copytree(run, other / "run")
    copy(tmp_path / "backup", other / "backup")
    assert command("restore", other / "backup", other / "panel.sqlite")[0] == 0
    there = ServiceProcesses(other / "run", other / "panel", other)
    child = there.start(other / "panel.sqlite")
    assert send(child, first, "k-1") == receipt
    assert send(child, second, "k-2")["accepted"] == 5
    assert child.get("/v1/forecast").json["data_version"] == 2
    end(there, child, signal.SIGKILL)
    there.close()


@pytest.mark.slow
def test_a_passive_machine_goes_on_from_the_newest_backup(
    services: ServiceProcesses,
    panel: Panel,  # noqa: F811
    tmp_path: Path,
    command: Command,
) -> None:
    """The steps of docs/guides/operations.md, "Active and passive"."""
    (tmp_path / "active").mkdir()
    child = services.start(tmp_path / "active" / "panel.sqlite")
    sent = [batch(panel, n) for n in range(5)]
    receipts = [send(child, body, f"k-{n}") for n, body in enumerate(sent[:3])]
    assert command("backup", tmp_path / "active" / "panel.sqlite", tmp_path / "backup")[0] == 0
    for n in (3, 4):
        send(child, sent[n], f"k-{n}")
    end(services, child, signal.SIGKILL)
    rmtree(tmp_path / "active")
    (tmp_path / "passive").mkdir()
    assert command("restore", tmp_path / "backup", tmp_path / "passive" / "panel.sqlite")[0] == 0
    child = services.start(tmp_path / "passive" / "panel.sqlite")
    assert [send(child, sent[n], f"k-{n}") for n in range(3)] == receipts  # the old answers
    assert send(child, sent[2], "another-key")["unchanged"] == 5
    assert [send(child, sent[n], f"k-{n}")["accepted"] for n in (3, 4)] == [5, 5]
    end(services, child, signal.SIGKILL)
