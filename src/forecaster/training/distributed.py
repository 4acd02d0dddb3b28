"""Several processes that train one network, as `torchrun` starts them.

Every process takes its share of each batch. Errors, counts and gradients are added over all of
them before anything is divided, so that a masked mean is that of the whole batch.
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
    """The processes that train together; alone, nothing is exchanged."""

    device: torch.device
    rank: int = 0
    size: int = 1
    timeout_seconds: int = 0

    @property
    def is_first(self) -> bool:
        """Tell whether this process is the one that reads and writes files."""
        return self.rank == 0

    def share(self, origins: Int64[np.ndarray, " B"]) -> Int64[np.ndarray, " B1"]:
        """Return this process's windows of a batch."""
        return origins[self.rank :: self.size]

    def add(self, numbers: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """Sum the numbers over all processes, in place."""
        self.exchange(lambda: dist.all_reduce(numbers))
        return numbers

    def spread(self, numbers: Shaped[Tensor, "..."]) -> None:
        """Overwrite the numbers by those of the first process."""
        self.exchange(lambda: dist.broadcast(numbers, src=0))

    def tell(self, text: str) -> str:
        """Return the text of the first process."""
        if self.size == 1:
            return text
        content = torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device)
        length = torch.tensor(len(content), device=self.device)
        self.spread(length)
        content = content if self.is_first else content.new_empty(int(length))
        self.spread(content)
        return bytes(content.tolist()).decode()

    def any(self, flag: bool) -> bool:
        """Tell whether it holds in any process; all must ask."""
        if self.size == 1:
            return flag
        return bool(self.add(torch.tensor(float(flag), device=self.device)).item())

    def exchange(self, act: Callable[[], object]) -> None:
        """Do something that all processes do together, or say that one of them did not."""
        if self.size == 1:
            return
        try:
            act()
        except RuntimeError as error:  # what every fault of a backend is
            who = f"process {self.rank + 1} of {self.size}"
            what = (
                f"another one ended or was silent for {count_of(self.timeout_seconds, 'second')}"
            )
            reason = str(error).strip().splitlines()[0]
            message = f"{who}: {what}; see its own message. The same command resumes ({reason})"
            raise RunError(message) from error


@contextmanager
def join_process_group(device: torch.device, timeout_seconds: int) -> Iterator[ProcessGroup]:
    """Join the processes that `torchrun` started, or be alone."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    team = ProcessGroup(device, rank, size, timeout_seconds)
    backend, own = ("nccl", device) if device.type == "cuda" else ("gloo", None)
    patience = timedelta(seconds=timeout_seconds)
    team.exchange(lambda: dist.init_process_group(backend, timeout=patience, device_id=own))
    try:
        yield team
    finally:
        if size > 1:
            dist.destroy_process_group()


def is_first_process() -> bool:
    """Tell whether this process, alone or under `torchrun`, is the one that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def local_device(kind: str) -> str:
    """Return the device of this process: under `torchrun` each has a GPU of its own."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if kind == "cuda" else kind
