import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from forecaster.training import journal as journal_module
from forecaster.training.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def write(journal: Journal, *steps: int) -> None:
    for step in steps:
        journal.write({"step": step, "loss": 1 / (step + 3)})
    journal.flush()


def steps_in(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_line_comes_back_to_the_last_bit(path: Path) -> None:
    journal = Journal(path)
    for step in range(11):
        journal.write({"step": step, "loss": 1 / (step + 3)})
    journal.flush()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"step": step, "loss": 1 / (step + 3)} for step in range(11)]


def test_a_line_waits_for_the_others_but_not_for_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: now[0])
    journal = Journal(path)
    journal.write({"step": 1})
    assert not path.exists()
    now[0] = 1.0
    journal.write({"step": 2})
    assert steps_in(path) == [1, 2]


def test_T1_a_resumed_log_forgets_what_will_be_done_again(path: Path) -> None:
    journal = Journal(path)
    write(journal, 1, 2, 3)
    journal.write({"epoch": 1, "step": 3})
    write(journal, 4, 5)
    resumed = Journal(path)
    resumed.rewind(3, 0)  # the checkpoint came before the validation of its epoch
    assert path.read_text().splitlines()[-1].startswith('{"step": 3,')
    resumed.write({"epoch": 1, "step": 3})
    write(resumed, 4)
    assert steps_in(path) == [1, 2, 3, 3, 4]


def test_T1_a_line_cut_short_by_a_kill_is_dropped(path: Path) -> None:
    write(Journal(path), 1, 2)
    with path.open("a") as file:
        file.write('{"step": 3, "lo')
    resumed = Journal(path)
    resumed.rewind(7, 1)
    write(resumed, 8)
    assert steps_in(path) == [1, 2, 8]


def test_T13_a_deleted_log_is_begun_again_with_one_warning_and_a_gap(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(path)
    write(journal, 1, 2)
    path.unlink()
    write(journal, 3)
    path.unlink()
    write(journal, 4)
    assert steps_in(path) == [4]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: is gone; training goes on, the log has a gap"
    ]


def test_T13_a_log_that_is_gone_at_the_resume_is_named(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Journal(path).rewind(0, 0)
    assert not caplog.records
    Journal(path).rewind(7, 1)
    assert "is gone; training goes on" in caplog.text


def test_T13_a_full_disk_costs_lines_and_one_warning(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(path)
    write(journal, 1)

    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(journal_module.os, "fsync", full)
        write(journal, 2)
        write(journal, 3)
    write(journal, 4)
    assert steps_in(path)[-1] == 4
    assert len(caplog.records) == 1
    assert "cannot be written (No space left on device)" in caplog.text


def test_T13_a_log_that_cannot_be_opened_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)  # a folder
    journal.rewind(0, 0)
    write(journal, 1)
    assert len(caplog.records) == 1


def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    journal = Journal(None)
    journal.rewind(3, 1)
    write(journal, 1)
    assert not list(tmp_path.iterdir())
