"""The scaled inputs of windows: one table of steps, from which windows are gathered.

Training puts every step of a panel into the table once and gathers batches from it; a forecast
puts in the few steps it needs, with the covariates assumed ahead. A step holds the signal of each
location (its value, then its local covariates), location by location, and then the auxiliary
inputs of all: weather and calendar. Gathered windows are location-major, as models consume them.
"""

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped
from torch import Tensor

from forecaster.windows.scaling import Scaler

_BLOCK = 512  # steps transposed at a time on a CPU, which fit into its cache


def scale_steps(
    values: Float32[np.ndarray, "V N"],
    local_covariates: Float32[np.ndarray, "Q T N"],
    covariates: Float32[np.ndarray, "T P"],
    calendar: Float32[np.ndarray, "S 32"],
    scaler: Scaler,
) -> Float32[np.ndarray, "S n"]:
    """The scaled inputs of S steps; 0 where values or covariates end before the calendar does."""
    scale = scaler.local_covariates
    layers = [scaler.values.apply(values)]
    for layer, mean, deviation in zip(local_covariates, scale.mean, scale.deviation, strict=True):
        layers.append((layer - mean) / deviation)
    weather = scaler.covariates.apply(covariates)
    signal = values.shape[1] * len(layers)
    shared = signal + weather.shape[1]
    inputs = np.zeros((len(calendar), shared + calendar.shape[1]), dtype=np.float32)
    for channel, layer in enumerate(layers):
        inputs[: len(layer), channel : signal : len(layers)] = layer
    inputs[: len(weather), signal:shared] = weather
    inputs[:, shared:] = calendar
    return inputs


class StepInputs:
    """The scaled inputs of some steps on a device."""

    def __init__(self, inputs: Float32[np.ndarray, "S n"], locations: int, channels: int) -> None:
        """Hold the inputs; `to` puts them on another device.

        Args:
            inputs: from `scale_steps`.
            locations: N.
            channels: C, the value and local covariates of a location.
        """
        self._shape = locations, channels
        self._table = torch.from_numpy(inputs)

    def to(self, device: str) -> "StepInputs":
        """Put the inputs on a device."""
        self._table = put_steps(self._table, device)
        return self

    def gather(
        self, steps: Int64[Tensor, "B T"]
    ) -> tuple[Float32[Tensor, "N C B T"], Float32[Tensor, "A B T"]]:
        """The signal of each location and the auxiliary inputs of B windows of T steps."""
        inputs = gather_steps(self._table, steps)
        N, C = self._shape
        return inputs[: N * C].view(N, C, *steps.shape), inputs[N * C :]


def put_steps(by_step: Shaped[Tensor, "S n"], device: str) -> Shaped[Tensor, "rows columns"]:
    """Put an array on its device: by step on a CPU, else by column, as `gather_steps` reads it."""
    tensor = by_step.to(device)
    return tensor if tensor.device.type == "cpu" else tensor.T.contiguous()


def gather_steps(
    stored: Shaped[Tensor, "rows columns"], steps: Int64[Tensor, "B T"]
) -> Shaped[Tensor, "n B T"]:
    """The columns of the given steps.

    A GPU reads across steps nearly as fast as along them. On a CPU a step is contiguous in memory
    and transposed after reading, which takes a third of the time.
    """
    flat = steps.reshape(-1)
    if stored.device.type != "cpu":
        return stored.index_select(1, flat).view(len(stored), *steps.shape)
    columns = stored.new_empty(stored.shape[1], len(flat))
    for start in range(0, len(flat), _BLOCK):
        block = slice(start, start + _BLOCK)
        columns[:, block] = stored.index_select(0, flat[block]).T
    return columns.view(len(columns), *steps.shape)
