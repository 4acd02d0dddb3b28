"""What a training was begun with: it goes on with the same, or not at all."""

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

from forecaster.config import PACE
from forecaster.kernels import gpu
from forecaster.kernels.choice import choose_backend
from forecaster.training.distributed import Team
from forecaster.training.task import Task


def describe_task(task: Task, identity: Mapping[str, str]) -> dict[str, str]:
    """Return everything on which the result depends, large things by their hash."""
    decisive = task.config.model_dump(exclude=PACE)
    config = {f"training.{name}": str(value) for name, value in decisive.items()}
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


def describe_machine(team: Team) -> dict[str, str]:
    """Return what the last bits of the result depend on, beside the task."""
    cuda = team.device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(team.device) if cuda else platform.machine(),
        "torch": torch.__version__,
        "sparse layers": _backend(team.device),
        "threads": str(torch.get_num_threads()),
        "processes": str(team.size),
    }


def differences(then: Mapping[str, Any], now: Mapping[str, str]) -> list[str]:
    """Return a line for everything that is not as it was."""
    return [
        f"{name}: was {then.get(name, 'nothing')}, is {now.get(name, 'nothing')}"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]


def _backend(device: torch.device) -> str:
    """Return what computes the sparse layers, with its version where that is not torch's."""
    name = choose_backend(device, torch.float32)
    return gpu.version() if name == "triton" else name


def _release() -> str:
    try:
        return version("forecaster")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
