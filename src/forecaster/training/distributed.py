"""Data-parallel training in several processes, as `torchrun` starts them.

Every process takes its share of each batch. Errors, counts and gradients are summed over all
processes before anything is divided, so that a masked mean is that of the whole batch.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Int64, Shaped
from torch import Tensor

from forecaster.errors import RunError, count_of


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train together; a single process exchanges nothing."""

    device: torch.device
    rank: int = 0
    size: int = 1
    timeout_seconds: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that reads and writes files."""
        return self.rank == 0

    def share(self, origins: Int64[np.ndarray, " B"]) -> Int64[np.ndarray, " B1"]:
        """This process's windows of a batch."""
        return origins[self.rank :: self.size]

    def all_reduce(self, numbers: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """Sum a tensor over all processes, in place."""
        self.exchange(lambda: dist.all_reduce(numbers))
        return numbers

    def broadcast(self, numbers: Shaped[Tensor, "..."]) -> None:
        """Overwrite a tensor with that of the first process."""
        self.exchange(lambda: dist.broadcast(numbers, src=0))

    def broadcast_text(self, text: str) -> str:
        """The text of the first process."""
        if self.size == 1:
            return text
        content = torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device)
        length = torch.tensor(len(content), device=self.device)
        self.broadcast(length)
        content = content if self.is_first else content.new_empty(int(length))
        self.broadcast(content)
        return bytes(content.tolist()).decode()

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process; all processes must call this."""
        if self.size == 1:
            return flag
        return bool(self.all_reduce(torch.tensor(float(flag), device=self.device)).item())

    def exchange(self, operation: Callable[[], object]) -> None:
        """Run a collective operation; raise a RunError if another process does not take part."""
        if self.size == 1:
            return
        try:
            operation()
        except RuntimeError as error:  # the type of every backend error
            process = f"process {self.rank + 1} of {self.size}"
            silence = count_of(self.timeout_seconds, "second")
            reason = str(error).strip().splitlines()[0]
            message = f"{process}: another one ended or was silent for {silence}"
            raise RunError(
                f"{message}; see its message. The same command resumes ({reason})"
            ) from error


@contextmanager
def join_process_group(device: torch.device, timeout_seconds: int) -> Iterator[ProcessGroup]:
    """Join the processes that `torchrun` started, or train alone."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    group = ProcessGroup(device, rank, size, timeout_seconds)
    backend, device_id = ("nccl", device) if device.type == "cuda" else ("gloo", None)
    timeout = timedelta(seconds=timeout_seconds)
    group.exchange(lambda: dist.init_process_group(backend, timeout=timeout, device_id=device_id))
    try:
        yield group
    finally:
        if size > 1:
            dist.destroy_process_group()


def is_first_process() -> bool:
    """Whether this process, alone or under `torchrun`, is the one that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def local_device(kind: str) -> str:
    """The device of this process; under `torchrun` each has its own GPU."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if kind == "cuda" else kind
