"""The same bits again: on the same machine type, torch build, thread count and process count."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # without it cuBLAS may sum in another order each time
MEMORY: Any = torch.utils.deterministic


@contextmanager
def reproducible(device: torch.device) -> Iterator[None]:
    """Allow operations that repeat their bits and no others, and leave torch as it was found.

    Those on a CPU repeat them anyway. On a GPU torch names an operation that cannot, and raises.
    """
    if device.type != "cuda":
        with torch.random.fork_rng(devices=[]):
            yield
        return
    strict, fill = torch.get_deterministic_debug_mode(), MEMORY.fill_uninitialized_memory
    config = os.environ.get(CUBLAS)
    with torch.random.fork_rng(devices=[device]):
        try:
            os.environ[CUBLAS] = config or ":4096:8"
            torch.use_deterministic_algorithms(True)
            MEMORY.fill_uninitialized_memory = False  # a pass over memory that nobody reads
            yield
        finally:
            torch.set_deterministic_debug_mode(strict)
            MEMORY.fill_uninitialized_memory = fill
            if config is None:
                del os.environ[CUBLAS]


def seed_dropout(device: torch.device, *key: int) -> None:
    """Make what torch draws next on a device a pure function of the key.

    Seeded anew at each step, generators hold nothing that a checkpoint would have to keep.
    """
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
