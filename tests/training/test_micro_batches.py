import re

import pytest
import torch

from forecaster.errors import RunError
from forecaster.training.micro_batches import MicroBatches, estimate_bytes
from tests.training.town import make_task


class Small:
    """A memory with room for so many windows, which counts how often it was asked."""

    def __init__(self, room: int, error: Exception) -> None:
        self.room, self.error, self.asked = room, error, list[int]()

    def __call__(self, windows: int) -> str:
        self.asked.append(windows)
        if windows > self.room:
            raise self.error
        return "done"


OUT_OF_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory"),
    MemoryError(),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
)


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["GPU", "Python", "CPU"])
def test_T5_windows_are_halved_until_they_fit_with_one_message(error: Exception) -> None:
    messages: list[str] = []
    micro_batches, job = MicroBatches(make_task(batch=11), messages.append), Small(2, error)
    assert micro_batches.run(job) == micro_batches.run(job) == "done"
    assert job.asked == [11, 6, 3, 2, 2]  # and it is remembered
    assert messages == [
        "out of memory: 11 windows are now split into micro-batches, which gives the same result"
    ]


def test_T5_one_window_that_does_not_fit_ends_with_an_estimate() -> None:
    micro_batches = MicroBatches(make_task(), lambda _: None)
    expected = re.escape("out of memory with one window at a time: it needs about ")
    with pytest.raises(RunError, match=expected + r"\d+ MB, weights and optimiser \d+ MB more"):
        micro_batches.run(Small(0, OUT_OF_MEMORY[0]))


def test_T5_another_error_is_not_taken_for_memory() -> None:
    job = Small(0, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1"):
        MicroBatches(make_task(), lambda _: None).run(job)
    assert job.asked == [8]


def test_T5_the_estimate_of_a_window_is_within_twice_what_is_saved_for_the_way_back() -> None:
    task, saved = make_task(), {}
    parameters = {p.untyped_storage().data_ptr() for p in task.network.parameters()}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = task.batches.cut(task.train)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        forecast = task.teacher_forced(batch).forecast
    assert forecast.requires_grad
    measured = sum(saved.values()) / len(task.train)
    assert measured / 2 < estimate_bytes(task)[0] < 2 * measured
