import errno
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from forecaster.config import TrainingConfig
from forecaster.errors import ConfigError
from forecaster.training import progress as progress_module
from forecaster.training.progress import MetricsLog, Progress, ProgressUpdate, TensorBoard, loss_of

CONFIG = TrainingConfig(epochs=7, patience=3)


def after(losses: list[float], **changes: Any) -> str | None:
    """Return why training stops after epochs with these validation losses."""
    progress = Progress()
    for loss in losses:
        close(progress, loss)
    return progress.stop_reason(CONFIG.model_copy(update=changes))


def close(progress: Progress, validation: float, training: float = 1.0) -> None:
    """Take a step and close its epoch with the given losses, at η = 1."""
    progress.add([training, 0.0, 7.0, 1.0, 1.0])
    progress.close([validation, 0.0, 7.0, 1.0, 1.0], 1e-3, 1.0)


def test_the_loss_of_sums_is_eq_7() -> None:
    assert loss_of([50.0, 3.0, 999.0, 10.0, 12.0], 8e-3) == pytest.approx(8e-3 * 5 + 0.25)


def test_an_epoch_is_recorded_by_its_sums() -> None:
    progress = Progress(seconds=5.0)
    for sums in ([4.0, 0.5, 70.0, 2.0, 1.0], [5.0, 0.0, 80.0, 1.0, 0.0]):
        progress.add(sums)
    record = progress.close([18.0, 0.6, 32.0, 2.0, 3.0], 1e-3, 0.1)
    assert (record.epoch, record.step, record.seconds) == (1, 2, 5.0)
    assert record.loss == pytest.approx(0.1 * 9 / 3 + 0.5 / 1)
    assert (record.terms, record.empty_batches) == (1, 1)
    assert (record.rmse, record.mape) == pytest.approx((4.0, 0.2))  # of squares
    assert record.validation_loss == pytest.approx(0.1 * 9 + 0.2)  # of the mean's term
    assert (progress.sums, progress.empty_batches, progress.seconds) == ([0.0] * 5, 0, 0.0)


def test_T3_validation_without_terms_has_no_mape() -> None:
    record = Progress().close([18.0, 0.0, 18.0, 2.0, 0.0], 1e-3, 0.1)
    assert (record.mape, record.validation_terms) == (None, 0)


def test_progress_survives_json_to_the_last_bit() -> None:
    progress = Progress()
    for k in range(5):
        close(progress, 1 / (k + 3), 1 / 7)
    progress.add([0.1, 1e-300, 1 / 3, 3.0, 0.0])
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_training_ends_after_all_epochs() -> None:
    assert after([7.0, 6.0, 5.0, 4.0, 3.0, 2.0]) is None
    assert after([7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]) == "all 7 epochs done"


def test_T12_a_stall_ends_it_after_the_patience() -> None:
    assert after([5.0, 4.0, 4.0, 4.5]) is None  # as good is not better
    stalled = after([5.0, 4.0, 4.0, 4.5, 4.1])
    assert stalled == "no better validation loss for 3 epochs after epoch 2"


def test_T12_a_late_gain_begins_the_patience_anew() -> None:
    assert after([5.0, 6.0, 6.0, 4.0, 6.0, 6.0]) is None


def test_T12_the_best_epoch_is_the_first_of_equals() -> None:
    progress = Progress()
    for loss in (3.0, 2.0, 5.0, 2.0):
        close(progress, loss)
    assert progress.best is progress.records[1]


def test_the_best_epoch_has_the_lowest_deviance_and_not_the_lowest_squares() -> None:
    progress = Progress()
    for deviance, squares in ((5.0, 10.0), (4.0, 90.0), (6.0, 40.0)):
        progress.add([1.0, 0.0, 1.0, 1.0, 1.0])
        progress.close([deviance, 0.5, squares, 10.0, 5.0], 1e-3, 2.0)
    assert progress.best is progress.records[1]
    assert progress.best.validation_loss == pytest.approx(2 * 4 / 10 + 0.5 / 5)
    assert [record.rmse for record in progress.records] == pytest.approx([1.0, 3.0, 2.0])


def test_T12_a_loss_spike_is_named() -> None:
    progress = Progress()
    for training, expected in ((1.0, ""), (1.9, ""), (2.1, "loss spike: 2.1 in epoch 3, was 1")):
        close(progress, 1.0, training)
        assert progress.spike == expected


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def write(journal: MetricsLog, *steps: int) -> None:
    for step in steps:
        journal.write({"step": step, "loss": 1 / (step + 3)})
    journal.flush()


def steps_in(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_line_comes_back_to_the_last_bit(path: Path) -> None:
    journal = MetricsLog(path)
    for step in range(11):
        journal.write({"step": step, "loss": 1 / (step + 3)})
    journal.flush()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"step": step, "loss": 1 / (step + 3)} for step in range(11)]


def test_a_line_waits_for_the_others_but_not_for_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    journal = MetricsLog(path)
    journal.write({"step": 1})
    assert not path.exists()
    now[0] = 1.0
    journal.write({"step": 2})
    assert steps_in(path) == [1, 2]


def test_T1_a_resumed_log_forgets_what_will_be_done_again(path: Path) -> None:
    journal = MetricsLog(path)
    write(journal, 1, 2, 3)
    journal.write({"epoch": 1, "step": 3})
    write(journal, 4, 5)
    resumed = MetricsLog(path)
    resumed.rewind(3, 0)  # the checkpoint came before the validation of its epoch
    assert path.read_text().splitlines()[-1].startswith('{"step": 3,')
    resumed.write({"epoch": 1, "step": 3})
    write(resumed, 4)
    assert steps_in(path) == [1, 2, 3, 3, 4]


def test_T1_a_line_cut_short_by_a_kill_is_dropped(path: Path) -> None:
    write(MetricsLog(path), 1, 2)
    with path.open("a") as file:
        file.write('{"step": 3, "lo')
    resumed = MetricsLog(path)
    resumed.rewind(7, 1)
    write(resumed, 8)
    assert steps_in(path) == [1, 2, 8]


def test_T13_a_deleted_log_is_begun_again_with_one_warning_and_a_gap(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = MetricsLog(path)
    write(journal, 1, 2)
    path.unlink()
    write(journal, 3)
    path.unlink()
    write(journal, 4)
    assert steps_in(path) == [4]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: is gone; training continues, and the log has a gap"
    ]


def test_T13_a_log_that_is_gone_at_the_resume_is_named(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    MetricsLog(path).rewind(0, 0)
    assert not caplog.records
    MetricsLog(path).rewind(7, 1)
    assert "is gone; training continues" in caplog.text


def test_T13_a_full_disk_costs_lines_and_one_warning(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = MetricsLog(path)
    write(journal, 1)

    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(progress_module.os, "fsync", full)
        write(journal, 2)
        write(journal, 3)
    write(journal, 4)
    assert steps_in(path)[-1] == 4
    assert len(caplog.records) == 1
    assert "cannot be written (No space left on device)" in caplog.text


def test_T13_a_log_that_cannot_be_opened_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = MetricsLog(tmp_path)  # a folder
    journal.rewind(0, 0)
    write(journal, 1)
    assert len(caplog.records) == 1


def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    journal = MetricsLog(None)
    journal.rewind(3, 1)
    write(journal, 1)
    assert not list(tmp_path.iterdir())


MODULE = "torch.utils.tensorboard"


class Writer:
    """Stands in for torch's SummaryWriter, which needs a package that is not installed here."""

    def __init__(self, folder: str, purge_step: int) -> None:
        self.calls: list[Any] = [("open", folder, purge_step)]
        MADE.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.calls.append((name, value, step))

    def close(self) -> None:
        self.calls.append("close")


MADE: list[Writer] = []


def make_update(step: int, loss: float | None, rmse: float | None = None) -> ProgressUpdate:
    return ProgressUpdate(1, 3, step, 48, loss, rmse, None, None, None)


def test_known_metrics_of_an_update_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType(MODULE)
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    tensorboard = TensorBoard(tmp_path)
    for each in (make_update(14, None), make_update(15, 0.5), make_update(24, 0.25, 3.0)):
        tensorboard(each)
    tensorboard.close()
    assert MADE[-1].calls == [
        ("open", str(tmp_path), 14),  # events of a killed run after step 14 are purged
        ("loss", 0.5, 15),
        ("loss", 0.25, 24),
        ("rmse", 3.0, 24),
        "close",
    ]


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MODULE, None)
    with pytest.raises(ConfigError, match="pip install tensorboard"):
        TensorBoard(tmp_path)
