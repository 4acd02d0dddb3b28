"""Deterministic operations, and the identity of a training that a resumed one must match."""

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from forecaster.config import PACE
from forecaster.kernels import gpu
from forecaster.kernels.choice import choose_backend
from forecaster.models.layers.randomness import forget_draws, seed_draws
from forecaster.training.distributed import ProcessGroup
from forecaster.training.task import TrainingTask

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # unset, cuBLAS may sum in a different order each time
MEMORY: Any = torch.utils.deterministic


@contextmanager
def reproducible(device: torch.device) -> Iterator[None]:
    """Allow deterministic operations only, and restore the settings of torch afterwards.

    A CPU is deterministic anyway. On a GPU torch raises for an operation that is not.
    """
    if device.type != "cuda":
        try:
            yield
        finally:
            forget_draws()
        return
    strict, fill = torch.get_deterministic_debug_mode(), MEMORY.fill_uninitialized_memory
    config = os.environ.get(CUBLAS)
    with torch.random.fork_rng(devices=[device]):
        try:
            os.environ[CUBLAS] = config or ":4096:8"
            torch.use_deterministic_algorithms(True)
            MEMORY.fill_uninitialized_memory = False  # filling costs time, and nothing reads it
            yield
        finally:
            torch.set_deterministic_debug_mode(strict)
            MEMORY.fill_uninitialized_memory = fill
            if config is None:
                del os.environ[CUBLAS]


def seed_dropout(device: torch.device, *key: int) -> None:
    """Seed what this thread draws on a device by a key, such as the step.

    Seeded at each step, generators have no state that a checkpoint would have to hold.
    """
    seed_draws(device, int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]))


def describe_task(task: TrainingTask, identity: Mapping[str, str]) -> dict[str, str]:
    """Everything that the result depends on, large values by their hash."""
    settings = task.config.model_dump(exclude=PACE)
    settings["locations"] = task.locations or task.config.locations
    if settings["locations"] is None:  # as in checkpoints of earlier versions
        del settings["locations"]
    config = {f"training.{name}": str(value) for name, value in settings.items()}
    sampling = {} if task.sampling_decay is None else {"sampling_decay": str(task.sampling_decay)}
    levels = {} if not task.network.levels else {"quantiles": str(task.network.levels)}
    layout = [[n, str(p.dtype), list(p.shape)] for n, p in task.network.named_parameters()]
    return {
        **identity,
        **config,
        **sampling,
        **levels,
        "steps of a window": f"{task.network.L} past, {task.network.K} ahead",
        "network": _hash(json.dumps(layout).encode()),
        "training windows": _hash(task.train.tobytes()),
        "validation windows": _hash(task.validation.tobytes()),
        "scale": _hash(np.stack([task.scale.mean, task.scale.deviation]).tobytes()),
        "mape_cut": str(task.mape_cut),
        "forecaster": _release(),
    }


def describe_machine(group: ProcessGroup) -> dict[str, str]:
    """The hardware and libraries that the last bits of the result depend on."""
    cuda = group.device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(group.device) if cuda else platform.machine(),
        "torch": torch.__version__,
        "sparse layers": _backend(group.device),
        "threads": str(torch.get_num_threads()),
        "processes": str(group.size),
    }


def differences(old: Mapping[str, Any], new: Mapping[str, str]) -> list[str]:
    """One line for each value that has changed."""
    return [
        f"{name}: was {old.get(name, 'nothing')}, is {new.get(name, 'nothing')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def _backend(device: torch.device) -> str:
    """The backend of the sparse layers, with its version if it is not torch."""
    name = choose_backend(device, torch.float32)
    return gpu.version() if name == "triton" else name


def _release() -> str:
    try:
        return version("forecaster")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
