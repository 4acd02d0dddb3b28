"""Micro-batches: fewer windows at a time when memory runs out.

Gradients are summed over them, so that only dropout masks differ from those of a whole batch.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from forecaster.errors import RunError, count_of
from forecaster.training.task import TrainingTask

T = TypeVar("T")
# Vectors as long as the weights: weights, gradient, its sum, two moments, average, best.
VECTORS = 7


class MicroBatches:
    """The number of windows that fit into memory at a time, halved when they do not."""

    def __init__(self, task: TrainingTask, say: Callable[[str], None]) -> None:
        self.windows = task.config.batch
        self._task, self._say = task, say

    def run(self, job: Callable[[int], T]) -> T:
        """Run a job on micro-batches; halve them and retry when memory runs out."""
        while True:
            try:
                return job(self.windows)
            except (RuntimeError, MemoryError) as error:
                if not _is_out_of_memory(error):
                    raise
                if self.windows == 1:
                    raise RunError(self._explain()) from error
            self._halve()  # outside the clause: the error holds references to the tensors

    def _halve(self) -> None:
        if self.windows == self._task.config.batch:
            count = count_of(self.windows, "window")
            effect = "which gives the same result"
            if _has_dropout(self._task.network):
                effect = "each with its own dropout masks"
            self._say(f"out of memory: {count} are now split into micro-batches, {effect}")
        self.windows = -(-self.windows // 2)
        if self._task.device.type == "cuda":
            torch.cuda.empty_cache()

    def _explain(self) -> str:
        window, optimiser = (f"{size / 1e6:,.0f} MB" for size in estimate_bytes(self._task))
        need = f"it needs about {window}, weights and optimiser {optimiser} more"
        return f"out of memory with one window at a time: {need}; use a smaller network"


def estimate_bytes(task: TrainingTask) -> tuple[int, int]:
    """Estimated bytes of one window, and of weights and optimiser."""
    network, first = task.network, next(task.network.parameters())
    weights = sum(parameter.numel() for parameter in network.parameters())
    return network.window_numbers * first.element_size(), VECTORS * weights * first.element_size()


def free_bytes(device: torch.device) -> int:
    """The bytes of memory that are free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    names = os.sysconf_names if hasattr(os, "sysconf") else {}
    if "SC_AVPHYS_PAGES" not in names:
        return sys.maxsize  # not told by this system
    cached = _read_available()
    return cached or os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read_available() -> int:
    """The bytes that Linux could free for a program, caches included; 0: not known."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    kibibytes = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return 1024 * int(next(kibibytes, 0))


def _has_dropout(network: nn.Module) -> bool:
    """Whether the network has active dropout."""
    return any(isinstance(module, nn.Dropout) and module.p > 0 for module in network.modules())


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; the CPU allocator has no error type of its own."""
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or "DefaultCPUAllocator" in str(error)
