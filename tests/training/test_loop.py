import json
import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forecaster.errors import ArtifactError, RunError
from forecaster.models.network import Outputs
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST, read_manifest
from forecaster.publish.writing import locked
from forecaster.training import loop, progress
from forecaster.training.checkpoint import SLOTS, CheckpointStore
from forecaster.training.distributed import ProcessGroup
from forecaster.training.interrupts import SIGNALS
from forecaster.training.loop import LOG, train
from forecaster.training.loss import sum_deviance
from forecaster.training.progress import ProgressUpdate, TrainingResult
from forecaster.training.reproducibility import reproducible
from forecaster.training.task import TrainingTask
from forecaster.windows.batches import Batch
from tests.training.town import (
    complete,
    make_mixer_task,
    make_panel,
    make_task,
    read_losses,
    read_weights,
)

pytestmark = pytest.mark.usefixtures("_unchecked")
HASHES = {"recipe": "a" * 64, "panel": "b" * 64, "graph": "c" * 64}


def steps_in(folder: Path) -> list[int]:
    """Return the steps of which a loss was logged."""
    lines = map(json.loads, (folder / LOG).read_text().splitlines())
    return [line["step"] for line in lines if "epoch" not in line]


def assert_same(expected: TrainingResult, actual: TrainingResult) -> None:
    """Compare two trainings to the last bit, but for the time they took."""
    for left, right in zip(expected.records, actual.records, strict=True):
        assert replace(left, seconds=0.0) == replace(right, seconds=0.0)
    assert expected.weights.keys() == actual.weights.keys()
    for name, array in expected.weights.items():
        np.testing.assert_array_equal(array, actual.weights[name])


class Stop:
    """A watcher that sends a signal at a step."""

    def __init__(self, step: int, number: signal.Signals = signal.SIGTERM) -> None:
        self.step, self.number = step, number

    def __call__(self, update: ProgressUpdate) -> None:
        if update.step == self.step:
            self.step = -1
            signal.raise_signal(self.number)


def interrupt(step: int, folder: Path | None, **changes: Any) -> str:
    """Train until a signal comes at a step, and return what is said then."""
    with pytest.raises(RunError) as caught:
        train(make_task(**changes), folder=folder, identity=HASHES, on_progress=Stop(step))
    assert caught.value.exit_code == 5
    return str(caught.value)


# --------------------------------------------------------------------------------- learning


def test_training_lowers_the_validation_loss() -> None:
    task = make_task(learning_rate=3e-2, epochs=6)
    result = train(task)
    assert result.stop_reason == "all 6 epochs done"
    losses = [record.validation_loss for record in result.records]
    assert min(losses) < losses[0]
    assert [record.epoch for record in result.records] == [1, 2, 3, 4, 5, 6]
    assert [record.step for record in result.records] == [5, 10, 15, 20, 25, 30]


def test_the_best_epoch_of_counts_above_zero_is_that_of_the_lowest_deviance() -> None:
    task = make_task(learning_rate=3e-2, two_outputs=True, eta="balanced")
    task.network.is_positive = True
    result = train(task)
    best = min(result.records, key=lambda record: record.validation_loss)
    batch = task.batches.cut(task.validation)
    task.network.eval()
    with torch.no_grad():
        outputs = task.roll_out(batch)  # of the best weights
    target, seen = batch.target, batch.observed
    busy = seen & (target >= task.mape_cut)
    mape = ((outputs.relative - target).abs() / target)[busy].mean().item()
    deviance = (sum_deviance(outputs.forecast, target, seen) / seen.sum()).item()
    squares = (outputs.forecast - target)[seen].square().mean().item()
    assert best.validation_loss == pytest.approx(task.eta * deviance + mape, rel=1e-5)
    assert (best.rmse, best.mape) == pytest.approx((squares**0.5, mape), rel=1e-5)


@pytest.mark.parametrize(("positive", "epoch"), [(True, 3), (False, 2)])
def test_by_deviance_another_epoch_may_be_the_best_than_by_squares(
    positive: bool, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forecasts far too low for rare counts cost more deviance than squares."""
    task = make_task(two_outputs=True, eta=1.0)
    task.network.is_positive = positive
    wrong = iter([(0.001, 8.0), (0.01, 0.0), (1.0, 2.0), (0.001, 9.0)])  # at 1, and beside 5

    def roll_out(_: TrainingTask, batch: Batch) -> Outputs:
        rare = torch.arange(batch.target.shape[1])[None, :, None].expand_as(batch.target) % 2 == 0
        batch.target[:], batch.observed[:] = torch.where(rare, 1.0, 5.0), True
        guess, error = current[0]
        forecast = torch.where(rare, guess, 5.0 + error)
        return Outputs(forecast, forecast[:, None][:, :0], forecast)

    current = [(0.0, 0.0)]
    validate = loop.Trainer.validate

    def next_epoch(trainer: loop.Trainer, stop: Callable[[], bool]) -> torch.Tensor | None:
        current[0] = next(wrong)
        return validate(trainer, stop)

    monkeypatch.setattr(TrainingTask, "roll_out", roll_out)
    monkeypatch.setattr(loop.Trainer, "validate", next_epoch)
    result = train(task)
    best = min(result.records, key=lambda record: record.validation_loss)
    assert best.epoch == epoch


def test_the_network_is_left_with_the_weights_that_are_returned() -> None:
    task = make_task(epochs=1)
    result = train(task)
    state = task.network.state_dict()
    assert state.keys() == result.weights.keys()
    assert all(np.array_equal(tensor.numpy(), result.weights[n]) for n, tensor in state.items())


def test_a_folder_changes_nothing(tmp_path: Path) -> None:
    assert_same(train(make_task(), folder=tmp_path), train(make_task()))


def test_the_seed_decides_the_order() -> None:
    first, second = (train(make_task(epochs=1, seed=seed)) for seed in (0, 1))
    assert first.records[0].loss != second.records[0].loss


def test_the_log_has_every_step_and_every_epoch(tmp_path: Path) -> None:
    result = train(make_task(epochs=2), folder=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert steps_in(tmp_path) == list(range(1, 11))
    epochs = [line for line in lines if "epoch" in line]
    assert epochs == [vars(record) for record in result.records]


def test_the_callback_receives_the_progress() -> None:
    seen: list[ProgressUpdate] = []
    train(make_task(epochs=2), on_progress=seen.append)
    assert [update.step for update in seen] == [*range(1, 6), 5, *range(6, 11), 10]
    first, after_first, last = seen[0], seen[5], seen[-1]
    assert (first.epoch, first.steps, first.rmse) == (1, 10, None)
    assert first.loss is not None
    assert after_first.rmse is not None
    assert (after_first.epoch, last.epoch) == (2, 2)
    assert first.windows_per_second is not None
    assert last.seconds_left == 0


def test_T3_a_panel_below_the_cut_is_trained_on_and_its_terms_are_logged(tmp_path: Path) -> None:
    result = train(make_task(make_panel(level=1.0), epochs=2), folder=tmp_path)
    record = result.records[-1]
    assert (record.terms, record.empty_batches, record.mape) == (0, 5, None)
    assert np.isfinite([record.loss, record.validation_loss, record.rmse]).all()
    assert result.records[1].loss < result.records[0].loss
    assert '"mape_terms": 0' in (tmp_path / LOG).read_text()


def test_T12_training_stops_early_with_separate_best_and_last_weights(tmp_path: Path) -> None:
    task = make_task(learning_rate=0.5, epochs=30, patience=2, clip=100.0)
    result = train(task, folder=tmp_path)
    losses = [record.validation_loss for record in result.records]
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + 2 < 30
    assert result.stop_reason == f"no better validation loss for 2 epochs after epoch {best + 1}"
    checkpoint = CheckpointStore(tmp_path, print).newest()
    assert checkpoint is not None
    assert not np.array_equal(checkpoint.arrays["best"], checkpoint.arrays["weights"])
    assert validation_loss(task) == pytest.approx(losses[best], rel=1e-6)


def validation_loss(task: TrainingTask) -> float:
    """Return the validation loss of the network as it is."""
    trainer = loop.Trainer(task, loop.ProcessGroup(torch.device("cpu")), print)
    trainer.begin(None, 0)
    checkpoint = trainer.validate(lambda: False)
    assert checkpoint is not None
    return loop.loss_of(checkpoint.tolist(), task.config.eta)


def test_T12_a_loss_spike_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(progress, "SPIKE", 0.5)  # so that hardly falling is a spike
    train(make_task(learning_rate=1e-6), on_progress=lambda update: seen.append(update.message))
    assert caplog.text.count("loss spike: ") == 3
    assert len([message for message in seen if message]) == 3


# ----------------------------------------------------------------------------- interruption


def test_T2_a_signal_finishes_the_step_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    handlers = [signal.getsignal(number) for number in SIGNALS]
    message = interrupt(8, tmp_path)
    assert message == "interrupted after step 8 of 20 by SIGTERM, saved; the same command resumes"
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    checkpoint = CheckpointStore(tmp_path, print).newest()
    assert checkpoint is not None
    assert checkpoint.progress.step == 8
    assert steps_in(tmp_path) == list(range(1, 9))


@pytest.mark.parametrize("step", [1, 5, 6, 19])
def test_T2_an_interrupted_training_goes_on_to_the_same_bits(tmp_path: Path, step: int) -> None:
    changes = {"dropout": 0.2, "ema": 0.9, "levels": (0.1, 0.9)}
    whole = train(make_task(**changes), folder=tmp_path / "whole")
    interrupt(step, tmp_path / "parts", **changes)
    interrupt(min(step + 4, 19), tmp_path / "parts", **changes)
    parts = train(make_task(**changes), folder=tmp_path / "parts", identity=HASHES)
    assert_same(whole, parts)
    logs = [(tmp_path / name / LOG).read_text().splitlines() for name in ("whole", "parts")]
    assert len(logs[0]) == len(logs[1]) == 20 + 4


@pytest.mark.parametrize("step", [1, 5, 19])
def test_T2_a_training_on_samples_of_locations_goes_on_to_the_same_bits(
    tmp_path: Path, step: int
) -> None:
    whole = train(make_mixer_task(2, ema=0.9), folder=tmp_path / "whole")
    with pytest.raises(RunError):
        train(make_mixer_task(2, ema=0.9), folder=tmp_path / "parts", on_progress=Stop(step))
    parts = train(make_mixer_task(2, ema=0.9), folder=tmp_path / "parts")
    assert_same(whole, parts)


def test_a_training_on_samples_of_all_locations_is_that_on_all() -> None:
    whole, sampled = train(make_mixer_task()), train(make_mixer_task(5))
    for left, right in zip(whole.records, sampled.records, strict=True):
        assert left.validation_loss == pytest.approx(right.validation_loss, rel=1e-4)


def test_in_micro_batches_a_sample_has_the_same_gradient() -> None:
    task = make_mixer_task(2, hides=False)
    torch.nn.init.ones_(task.network.output)  # at 0, no gradient would go further
    trainer = loop.Trainer(task, ProcessGroup(task.device), print)
    gradients = []
    for windows in (8, 3):
        trainer._micro_batches.windows = windows
        with reproducible(task.device):
            trainer._sum_gradient(task.train[:8], 2)
        gradients.append(trainer.weights.collect_gradient().clone())
    torch.testing.assert_close(*gradients)
    places = trainer.weights.slices["place"].view(gradients[0])
    drawn = task.sample(2)
    assert drawn is not None
    assert places.flatten(1).any(dim=1).nonzero()[:, 0].tolist() == drawn.targets.tolist()


def test_T7_a_training_does_not_go_on_with_another_number_of_locations(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        train(make_mixer_task(2), folder=tmp_path, on_progress=Stop(3))
    with pytest.raises(ArtifactError, match=r"training\.locations: was 2, is 3"):
        train(make_mixer_task(3), folder=tmp_path)


def test_T2_without_a_folder_the_message_says_that_nothing_is_saved() -> None:
    assert interrupt(3, None).endswith("by SIGTERM, nothing saved: no folder")


def test_T2_a_signal_in_validation_does_not_wait_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    roll_out = TrainingTask.roll_out

    def count(task: TrainingTask, batch: Any) -> Outputs:
        calls.append(1)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        return roll_out(task, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingTask, "roll_out", count)
        with pytest.raises(RunError, match="after step 5 of 20"):
            train(make_task(), folder=tmp_path)
    assert len(calls) == 1  # of two batches
    assert_same(train(make_task(), folder=tmp_path), train(make_task()))


@pytest.mark.slow
def test_T2_a_second_signal_ends_at_once_and_harms_no_file(processes: Any, tmp_path: Path) -> None:
    changes = {"epochs": 2_000, "patience": 2_000}  # never finished
    process = processes.start(complete, tmp_path, 0, 1, 0, {**changes, "checkpoint_steps": 1})
    path = tmp_path / "run" / SLOTS[1] / MANIFEST
    while not path.exists():
        time.sleep(0.01)
    while process.is_alive():
        os.kill(process.pid, signal.SIGTERM)
        time.sleep(0.001)
    process.join()
    assert process.exitcode in (-signal.SIGTERM, 5)
    assert CheckpointStore(tmp_path / "run", print).newest() is not None


# --------------------------------------------------------------------------------- resuming


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_T1_killed_at_random_moments_the_result_is_bit_identical(
    processes: Any, tmp_path: Path, rounds: Callable[[int, int], int], device: str
) -> None:
    changes = {"dropout": 0.2, "ema": 0.9, "epochs": 6, "patience": 6, "device": device}
    arguments = 0, 1, 0, changes
    assert processes.run(complete, tmp_path / "warm", *arguments) == 0
    begin = time.monotonic()
    assert processes.run(complete, tmp_path / "whole", *arguments) == 0
    seconds = time.monotonic() - begin
    generator = np.random.default_rng(7)
    wanted = rounds(10, 100) if device == "cpu" else rounds(5, 20)
    kills = finished = 0
    while kills < wanted or not finished:
        folder = tmp_path / f"killed-{finished}"
        patience = seconds * generator.random() if kills < wanted else None
        if processes.run(complete, folder, *arguments, kill_after=patience) == -signal.SIGKILL:
            kills += 1
            continue
        assert read_losses(folder) == read_losses(tmp_path / "whole")
        for name, array in read_weights(tmp_path / "whole").items():
            np.testing.assert_array_equal(read_weights(folder)[name], array)
        finished += 1


def test_T1_a_resumed_training_says_so_and_what_it_lost(tmp_path: Path) -> None:
    interrupt(8, tmp_path)
    seen: list[ProgressUpdate] = []
    train(make_task(), folder=tmp_path, identity=HASHES, on_progress=seen.append)
    assert seen[0].message == "resuming from step 8 of 20 (lost ≤ 3 steps)"
    assert seen[1].step == 9


def test_T1_a_finished_training_is_not_done_again(tmp_path: Path) -> None:
    first = train(make_task(), folder=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    seen: list[ProgressUpdate] = []
    again = train(make_task(), folder=tmp_path, on_progress=seen.append)
    assert_same(first, again)
    assert len(seen) == 1
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}


def test_C2_a_damaged_newest_checkpoint_costs_time_and_no_bit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = train(make_task())
    interrupt(8, tmp_path)
    newest = max(SLOTS, key=lambda s: read_manifest(tmp_path / s).about["progress"]["step"])
    path = next((tmp_path / newest).glob("arrays-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    again = train(make_task(), folder=tmp_path, identity=HASHES)
    assert_same(whole, again)
    assert "step 8 damaged (" in caplog.text
    assert "kept as damaged-1, using step 6" in caplog.text
    assert steps_in(tmp_path) == list(range(1, 21))


@pytest.mark.parametrize("name", sorted(HASHES))
def test_T7_another_recipe_panel_or_graph_is_refused_with_both_hashes(
    tmp_path: Path, name: str
) -> None:
    interrupt(4, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ArtifactError) as caught:
        train(make_task(), folder=tmp_path, identity={**HASHES, name: "d" * 64})
    assert caught.value.exit_code == 4
    assert f"  {name}: was {HASHES[name]}, is {'d' * 64}" in str(caught.value)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_T7_everything_that_differs_is_listed(tmp_path: Path) -> None:
    interrupt(4, tmp_path)
    with pytest.raises(ArtifactError) as caught:
        train(make_task(batch=11, seed=3), folder=tmp_path, identity=HASHES)
    assert "began with other settings; restore them, or use another folder: 2 faults" in str(
        caught.value
    )
    assert "  training.batch: was 8, is 11\n  training.seed: was 0, is 3" in str(caught.value)


@pytest.mark.parametrize("change", [{"dtype": torch.float64}, {"panel": make_panel(level=31.0)}])
def test_C4_another_network_or_scale_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    interrupt(4, tmp_path)
    with pytest.raises(ArtifactError, match=r"(network|scale): was [0-9a-f]{64}, is [0-9a-f]{64}"):
        train(make_task(**change), folder=tmp_path, identity=HASHES)


def test_T8_another_number_of_threads_goes_on_and_is_declared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    interrupt(4, tmp_path, epochs=1)
    torch.set_num_threads(2)
    train(make_task(epochs=1), folder=tmp_path, identity=HASHES)
    assert "not bit-identical: threads: was 1, is 2" in caplog.text


def test_T11_a_panel_replaced_during_training_changes_nothing(tmp_path: Path) -> None:
    make_panel().save(tmp_path)
    opened = make_task(Panel.open(tmp_path))
    make_panel(level=31.0).save(tmp_path)
    assert_same(train(opened), train(make_task()))
    assert np.nanmean(Panel.open(tmp_path).values) > 1.2 * np.nanmean(make_panel().values)


def test_C7_a_folder_in_use_is_refused_with_its_owner(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(RunError, match=f"locked by pid {os.getpid()} host"):
        train(make_task(), folder=tmp_path)
    assert not (tmp_path / LOG).exists()


@pytest.mark.slow
def test_C7_two_processes_do_not_train_in_one_folder(processes: Any, tmp_path: Path) -> None:
    process = processes.start(complete, tmp_path, 0, 1, 0, {"epochs": 15, "patience": 15})
    while not (tmp_path / "run" / SLOTS[0] / MANIFEST).exists():
        time.sleep(0.01)
    with pytest.raises(RunError, match=f"locked by pid {process.pid} host"):
        train(make_task(), folder=tmp_path / "run")
    process.kill()
    process.join()
    assert processes.run(complete, tmp_path, 0, 1, 0, {"epochs": 15, "patience": 15}) == 0


def test_a_folder_that_cannot_be_made_is_a_runtime_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        train(make_task(), folder=tmp_path / "file" / "run")


# -------------------------------------------------------------------------------- bad numbers


@pytest.mark.parametrize("step", [2, 5, 9])
def test_T4_nan_stops_at_its_step_and_leaves_the_last_checkpoint(
    tmp_path: Path, step: int
) -> None:
    task = make_task()
    spoil(task, step)
    with pytest.raises(RunError) as caught:
        train(task, folder=tmp_path)
    assert caught.value.exit_code == 5
    message = str(caught.value)
    assert message.startswith(f"step {step}: loss ")
    assert "not finite: the gradient of " in message
    assert "windows from 2015-10-2" in message or "window from 2015-10-2" in message
    checkpoint = CheckpointStore(tmp_path, print).newest()
    assert (checkpoint.progress.step if checkpoint else 0) == (step - 1) // 3 * 3
    assert_same(train(make_task(), folder=tmp_path), train(make_task()))


def spoil(task: TrainingTask, step: int) -> None:
    """Let a gradient be infinite from a step on."""
    calls = [0]

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return gradient * np.inf if calls[0] >= step else gradient

    task.network.output.bias.register_hook(hook)


def test_T4_a_device_that_is_ahead_stops_at_the_same_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "steps_ahead", lambda _: 2)
    task = make_task()
    spoil(task, 5)
    with pytest.raises(RunError, match=r"^step 5: loss "):
        train(task, folder=tmp_path)
    assert steps_in(tmp_path) == list(range(1, 5))


def test_a_device_that_is_ahead_trains_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(make_task(dropout=0.1), folder=tmp_path / "step")
    monkeypatch.setattr(loop, "steps_ahead", lambda _: 2)
    assert_same(expected, train(make_task(dropout=0.1), folder=tmp_path / "ahead"))
    assert steps_in(tmp_path / "step") == steps_in(tmp_path / "ahead")


def test_T4_a_validation_that_is_not_finite_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(task: TrainingTask, batch: Any) -> Outputs:
        return Outputs(*(output * np.inf for output in task.teacher_forced(batch)))

    monkeypatch.setattr(TrainingTask, "roll_out", overflow)
    with pytest.raises(RunError, match=r"epoch 1: validation loss (nan|inf)"):
        train(make_task())


# ------------------------------------------------------------------------------------ the log


def test_T13_training_goes_on_without_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(make_task())

    def delete(update: ProgressUpdate) -> None:
        if update.step == 7:
            (tmp_path / LOG).unlink()

    monkeypatch.setattr("forecaster.training.progress.FLUSH_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING):
        assert_same(expected, train(make_task(), folder=tmp_path, on_progress=delete))
    assert caplog.text.count("training continues, and the log has a gap") == 1
    assert steps_in(tmp_path) == list(range(8, 21))


# ------------------------------------------------------------------------- precision, devices


def test_C8_a_bf16_training_is_kept_in_float32(tmp_path: Path) -> None:
    task = make_task(precision="bf16")
    result = train(task, folder=tmp_path)
    assert {array.dtype for array in result.weights.values()} == {np.dtype(np.float32)}
    checkpoint = CheckpointStore(tmp_path, print).newest()
    assert checkpoint is not None
    assert {array.dtype for array in checkpoint.arrays.values()} == {np.dtype(np.float32)}
    best = min(record.validation_loss for record in result.records)
    assert validation_loss(make_task_with(result)) == pytest.approx(best, rel=0.02)


def make_task_with(result: TrainingResult) -> TrainingTask:
    """Return the task in float32 with the weights of an outcome."""
    task = make_task()
    state = {name: torch.from_numpy(array) for name, array in result.weights.items()}
    task.network.load_state_dict(state)
    return task


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_T10_two_trainings_are_equal(device: str) -> None:
    assert_same(*(train(make_task(dropout=0.1, device=device)) for _ in range(2)))


@pytest.mark.gpu
def test_C8_a_gpus_checkpoint_goes_on_on_a_cpu(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    interrupt(10, tmp_path, device="cuda")
    on_cpu = train(make_task(), folder=tmp_path, identity=HASHES)
    on_gpu = train(make_task(device="cuda"))
    assert "not bit-identical: device: was NVIDIA" in caplog.text
    losses = ([record.loss for record in each.records] for each in (on_cpu, on_gpu))
    np.testing.assert_allclose(*losses, rtol=1e-4)
