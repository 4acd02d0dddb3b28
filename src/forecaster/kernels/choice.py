"""Choice of the backend, with its reason, once per device and data type."""

import logging
from functools import cache

import torch

from forecaster.kernels import gpu

COMPILED = (torch.float32, torch.float64)  # types of the compiled CPU loops
log = logging.getLogger(__name__)


@cache
def choose_backend(device: torch.device, dtype: torch.dtype) -> str:
    """Return the best of "numba", "triton" and "reference" for a device and data type."""
    log.info(describe_backend(device, dtype))
    return _choose(device, dtype)[0]


def describe_backend(device: torch.device, dtype: torch.dtype) -> str:
    """Describe the chosen backend and the reason."""
    name, why = _choose(device, dtype)
    return f"sparse layers and norms on {device} in {dtype}: {name} ({why})"


def _choose(device: torch.device, dtype: torch.dtype) -> tuple[str, str]:
    if device.type == "cpu" and dtype in COMPILED:
        return "numba", "compiled for this processor"
    reason = f"no compiled code for {dtype} on {device.type}"
    if device.type == "cuda":
        missing = gpu.why_not(device, dtype)
        if missing is None:
            return "triton", gpu.version()
        reason = missing
    return "reference", f"plain torch, much slower: {reason}"
