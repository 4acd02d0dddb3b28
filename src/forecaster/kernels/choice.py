"""Which backend computes, and why: said once for each device and kind of numbers."""

import logging
from functools import cache

import torch

from forecaster.kernels import gpu

COMPILED = (torch.float32, torch.float64)  # what the CPU's loops are compiled for
log = logging.getLogger(__name__)


@cache
def choose_backend(device: torch.device, dtype: torch.dtype) -> str:
    """Return "numba", "triton" or "reference", whichever is best for a device and numbers."""
    log.info(describe_backend(device, dtype))
    return _choose(device, dtype)[0]


def describe_backend(device: torch.device, dtype: torch.dtype) -> str:
    """Say which backend it is, and why."""
    name, why = _choose(device, dtype)
    return f"sparse layers and norms on {device} in {dtype}: {name} ({why})"


def _choose(device: torch.device, dtype: torch.dtype) -> tuple[str, str]:
    if device.type == "cpu" and dtype in COMPILED:
        return "numba", "compiled for this processor"
    reason = f"there is no compiled code for {dtype} on a {device.type}"
    if device.type == "cuda":
        missing = gpu.why_not(device, dtype)
        if missing is None:
            return "triton", gpu.version()
        reason = missing
    return "reference", f"plain torch, much slower: {reason}"
