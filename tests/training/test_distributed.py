import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forecaster.training.distributed import (
    ProcessGroup,
    is_first_process,
    join_process_group,
    local_device,
)
from forecaster.training.schedule import shuffle
from tests.training.town import complete, make_task, read_losses, read_weights

CPU = torch.device("cpu")
TIMEOUT = 6  # seconds until a silent process ends the others


def start_all(processes: Any, folder: Path, size: int = 2, **changes: Any) -> list[BaseProcess]:
    """Start processes that train together."""
    port, ranks = free_port(), range(size)
    return [processes.start(complete, folder, rank, size, port, changes) for rank in ranks]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def finish(together: list[BaseProcess]) -> list[int | None]:
    """Return how processes ended."""
    for process in together:
        process.join(120)
    return [process.exitcode for process in together]


def wait_for(path: Path) -> None:
    """Wait until training has come so far that a file is there."""
    for _ in range(1_000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} does not appear")


def test_alone_nothing_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_process_group(CPU, TIMEOUT) as group:
        numbers = torch.arange(3.0)
        assert torch.equal(group.all_reduce(numbers), torch.arange(3.0))
        assert group.broadcast_text("ü") == "ü"
        assert (group.any(True), group.any(False), group.is_first) == (True, False, True)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_T8_processes_share_every_batch_of_the_same_order(size: int) -> None:
    task = make_task()
    for step in range(task.epoch_steps):
        batch = shuffle(task.train, 0, 0)[8 * step : 8 * step + 8]
        shares = [ProcessGroup(CPU, rank, size).share(batch) for rank in range(size)]
        assert sorted(np.concatenate(shares)) == sorted(batch)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_torchrun_says_who_is_first_and_which_gpu_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert is_first_process()
    assert (local_device("cpu"), local_device("cuda")) == ("cpu", "cuda:0")
    monkeypatch.setenv("RANK", "11")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert not is_first_process()
    assert (local_device("cpu"), local_device("cuda")) == ("cpu", "cuda:3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "tolerance"),
    [
        ({"dtype": torch.float64, "epochs": 10, "patience": 10, "ema": 0.9}, 1e-9),  # 50 steps
        ({"epochs": 4}, 1e-4),  # 20 steps
        ({"dtype": torch.float64, "epochs": 4, "decay": 5.0}, 1e-9),
        ({"dtype": torch.float64, "epochs": 4, "levels": (0.1, 0.5, 0.9)}, 1e-9),
        ({"locations": 2, "hides": False, "epochs": 4}, 1e-3),
    ],
    ids=["float64", "float32", "scheduled sampling", "quantiles", "samples of locations"],
)
def test_two_processes_agree_with_one(
    processes: Any, tmp_path: Path, changes: dict[str, Any], tolerance: float
) -> None:
    together = start_all(processes, tmp_path / "two", **changes)
    assert processes.run(complete, tmp_path / "one", 0, 1, 0, changes) == 0
    assert finish(together) == [0, 0]
    one, two = (read_losses(tmp_path / name) for name in ("one", "two"))
    assert len(one) == len(two) == 6 * changes["epochs"]  # 5 steps and an epoch
    for expected, actual in zip(one, two, strict=True):
        assert actual == pytest.approx(expected, rel=tolerance)
    expected = read_weights(tmp_path / "one")
    for rank in (0, 1):
        for name, array in read_weights(tmp_path / "two", rank).items():
            np.testing.assert_allclose(array, expected[name], rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_more_processes_than_windows_agree_too(processes: Any, tmp_path: Path) -> None:
    changes = {"dtype": torch.float64, "batch": 2, "epochs": 1, "patience": 1}
    together = start_all(processes, tmp_path / "three", 3, **changes)
    assert processes.run(complete, tmp_path / "one", 0, 1, 0, changes) == 0
    assert finish(together) == [0, 0, 0]
    for expected, actual in zip(
        *(read_losses(tmp_path / n) for n in ("one", "three")), strict=True
    ):
        assert actual == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_T9_a_process_that_dies_or_hangs_ends_the_others_and_the_run_resumes(
    processes: Any, tmp_path: Path, number: int, rounds: Callable[[int, int], int]
) -> None:
    changes = {"dropout": 0.1, "timeout_seconds": TIMEOUT}
    assert finish(start_all(processes, tmp_path / "whole", **changes)) == [0, 0]
    for turn in range(rounds(1, 20)):
        folder = tmp_path / f"{turn}"
        first, second = start_all(processes, folder, **changes)
        wait_for(folder / "run" / "checkpoint-a" / "manifest.json")
        assert second.pid is not None
        os.kill(second.pid, number)
        first.join(120)
        assert first.exitcode == 5
        message = (folder / "error-0").read_text()
        assert f"process 1 of 2: another one ended or was silent for {TIMEOUT} seconds" in message
        assert "The same command resumes" in message
        second.kill()
        assert finish(start_all(processes, folder, **changes)) == [0, 0]
        assert read_losses(folder) == read_losses(tmp_path / "whole")
        for name, array in read_weights(tmp_path / "whole").items():
            np.testing.assert_array_equal(read_weights(folder)[name], array)


@pytest.mark.slow
def test_T9_a_process_that_never_comes_ends_the_one_that_waits(
    processes: Any, tmp_path: Path
) -> None:
    changes = {"timeout_seconds": 1}
    assert processes.run(complete, tmp_path, 0, 2, free_port(), changes) == 5
    assert (
        "process 1 of 2: another one ended or was silent for 1 second;"
        in (tmp_path / "error-0").read_text()
    )


@pytest.mark.slow
def test_T2_a_signal_to_one_process_stops_and_saves_all_and_one_alone_goes_on(
    processes: Any, tmp_path: Path
) -> None:
    together = start_all(processes, tmp_path, epochs=20, patience=20)
    wait_for(tmp_path / "run" / "checkpoint-a" / "manifest.json")
    assert together[1].pid is not None
    os.kill(together[1].pid, signal.SIGTERM)
    assert finish(together) == [5, 5]
    assert (
        "by another process, saved; the same command resumes" in (tmp_path / "error-0").read_text()
    )
    assert "by SIGTERM" in (tmp_path / "error-1").read_text()
    steps = len(read_losses(tmp_path))
    assert processes.run(complete, tmp_path, 0, 1, 0, {"epochs": 20, "patience": 20}) == 0  # T8
    assert steps < len(read_losses(tmp_path)) == 120  # 5 steps and 1 epoch, 20 times


@pytest.mark.slow
def test_torchrun_trains_what_one_process_trains(processes: Any, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    program = ["--nproc-per-node", "2", "-m", "tests.training.town", str(tmp_path / "two")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*torchrun, *program], env=environment, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert processes.run(complete, tmp_path / "one") == 0
    for expected, actual in zip(*(read_losses(tmp_path / n) for n in ("one", "two")), strict=True):
        assert actual == pytest.approx(expected, rel=1e-4)
