"""What to do when memory runs out: take fewer windows at a time.

The result is the same, unless dropout draws for every part anew.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from forecaster.errors import RunError, count_of
from forecaster.training.task import TrainingTask

T = TypeVar("T")
# As long as the weights: they, their gradient and its sum, two moments, the average, the best.
VECTORS = 7


class MicroBatches:
    """How many windows are worked on at a time."""

    def __init__(self, task: TrainingTask, say: Callable[[str], None]) -> None:
        self.windows = task.config.batch
        self._task, self._say = task, say

    def serve(self, job: Callable[[int], T]) -> T:
        """Return what a job makes of so many windows at a time, of fewer if memory runs out."""
        while True:
            try:
                return job(self.windows)
            except (RuntimeError, MemoryError) as error:
                if not _ran_out(error):
                    raise
                if self.windows == 1:
                    raise RunError(self._explain()) from error
            self._halve()  # outside the clause, whose error holds on to what filled the memory

    def _halve(self) -> None:
        if self.windows == self._task.config.batch:
            count = count_of(self.windows, "window")
            alike = "with the same result"
            if _draws(self._task.network):
                alike = "and dropout draws otherwise for each"
            self._say(f"out of memory: {count} are now done in parts, {alike}")
        self.windows = -(-self.windows // 2)
        if self._task.device.type == "cuda":
            torch.cuda.empty_cache()

    def _explain(self) -> str:
        window, rest = (f"{size / 1e6:,.0f} MB" for size in estimate_bytes(self._task))
        need = f"it needs about {window}, weights and optimiser {rest} more"
        return f"out of memory with one window at a time: {need}; use a smaller network"


def estimate_bytes(task: TrainingTask) -> tuple[int, int]:
    """Return about what one window takes, and what there is whatever the batch."""
    network, first = task.network, next(task.network.parameters())
    weights = sum(parameter.numel() for parameter in network.parameters())
    return network.window_numbers * first.element_size(), VECTORS * weights * first.element_size()


def _draws(network: nn.Module) -> bool:
    """Tell whether dropout makes a network draw numbers."""
    return any(isinstance(module, nn.Dropout) and module.p > 0 for module in network.modules())


def _ran_out(error: Exception) -> bool:
    """Tell whether it was memory that failed; a CPU's allocator has no type of its own for it."""
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or "DefaultCPUAllocator" in str(error)
