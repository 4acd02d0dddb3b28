import inspect
from collections.abc import Callable

import numpy as np
import pytest
import torch

from forecaster.models.network import Outputs
from forecaster.training import loop as loop_module
from forecaster.training.cuda_graphs import CudaGraphs
from forecaster.training.loop import train
from forecaster.training.progress import TrainingResult
from forecaster.training.task import TrainingTask
from forecaster.windows.batches import Batch
from tests.training.test_loop_step import ORIGINS, begin
from tests.training.town import make_sampled_task, make_task


def test_a_cpu_captures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CudaGraphs", None)  # not even made
    assert train(make_task(epochs=1)).records


def plain(result: TrainingResult) -> list[tuple[float, float]]:
    return [(record.loss, record.validation_loss) for record in result.records]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "make",
    [
        lambda: make_task(device="cuda"),
        lambda: make_task(device="cuda", dropout=0.2),
        lambda: make_task(device="cuda", precision="bf16"),
        lambda: make_task(device="cuda", ema=0.9),
        lambda: make_sampled_task(5.0, device="cuda"),
        lambda: make_task(device="cuda", levels=(0.1, 0.5, 0.9)),
        lambda: make_task(device="cuda", levels=(0.1, 0.5, 0.9), two_outputs=True),
    ],
    ids=["plain", "dropout", "bf16", "averaged", "scheduled sampling", "quantiles", "two outputs"],
)
def test_replayed_steps_equal_launched_ones(
    make: Callable[[], TrainingTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    recorded = train(make(), on_progress=lambda update: messages.append(update.message or ""))
    assert not any("CUDA graph" in message for message in messages)
    monkeypatch.setattr(CudaGraphs, "replay", lambda *_: None)
    launched = train(make())
    assert plain(recorded) == plain(launched)
    for name, array in recorded.weights.items():
        assert np.array_equal(array, launched.weights[name]), name


def test_T5_memory_that_runs_out_during_capture_leaves_the_batch_to_be_halved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, parts = make_task(batch=5), make_task(batch=5)
    expected = begin(whole).train_step(ORIGINS, 0)
    trainer = begin(parts)
    full: list[int] = []

    class NoMemory:
        """Cannot record, as a full GPU cannot."""

        def replay(self, *_: object) -> None:
            full.append(1)

    def teach(task: TrainingTask, batch: Batch, *shown: torch.Tensor) -> Outputs:
        if batch.signal.shape[2] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return taught(task, batch, *shown)

    taught = inspect.unwrap(TrainingTask.teacher_forced)
    monkeypatch.setattr(TrainingTask, "teacher_forced", teach)
    trainer._graphs = NoMemory()  # type: ignore[assignment]
    actual = trainer.train_step(ORIGINS, 0)
    assert full
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0)


@pytest.mark.gpu
def test_work_that_cannot_be_captured_is_reported_once_and_leaves_torch_unchanged() -> None:
    messages: list[str] = []
    recorder = CudaGraphs(messages.append)
    indices = torch.arange(6, device="cuda").view(2, 3)
    before = torch.cuda.current_stream()

    def work(inputs: torch.Tensor) -> torch.Tensor:
        drawn = torch.rand(2, device="cuda")  # the generator too must be usable afterwards
        return inputs.double().sum(dim=1) + inputs.sum().item() + 0 * drawn  # waits for the host

    for _ in range(2):
        assert recorder.replay("odd", work, (indices,), lambda: None) is None
    assert len(messages) == 1
    assert messages[0].startswith("no CUDA graph (")
    assert torch.cuda.current_stream() == before
    assert torch.rand(3, device="cuda").shape == (3,)


@pytest.mark.gpu
def test_each_kind_and_size_has_its_own_graph() -> None:
    recorder = CudaGraphs(lambda _: None)
    for rows in (2, 3, 2):
        indices = torch.arange(rows * 2, device="cuda").view(rows, 2)
        total = recorder.replay("sum", lambda p: p.double().sum(dim=1), (indices,), lambda: None)
        assert total is not None
        assert total.tolist() == indices.double().sum(dim=1).tolist()
        twice = recorder.replay("twice", lambda p: 2 * p.double().sum(1), (indices,), lambda: None)
        assert twice is not None
        assert twice.tolist() == (2 * total).tolist()
