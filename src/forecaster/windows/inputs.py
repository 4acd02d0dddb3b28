"""The scaled inputs of windows: one table of steps, or of locations, from which they are gathered.

Training puts every step of a panel into the table once and gathers batches from it; a forecast
puts in the few steps it needs, with the covariates assumed ahead. A step holds the signal of each
location (its value, then its local covariates), location by location, and then the auxiliary
inputs of all: weather and calendar. Gathered windows are location-major, as models consume them.

Where batches are of some of the locations, the values of a location follow each other, as they
are: they are scaled when they are gathered, so that there is no second copy of them.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64, Shaped
from torch import Tensor

from forecaster.windows.scaling import Scaler

_ROWS = 512  # locations gathered at a time, so that little is copied beside the result
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


def scale_auxiliary(
    covariates: Float32[np.ndarray, "T P"],
    calendar: Float32[np.ndarray, "S 32"],
    scaler: Scaler,
) -> Float32[np.ndarray, "S A"]:
    """The auxiliary inputs of S steps, as in `scale_steps`."""
    weather = np.zeros((len(calendar), covariates.shape[1]), dtype=np.float32)
    weather[: len(covariates)] = scaler.covariates.apply(covariates)
    return np.concatenate([weather, calendar], axis=1)


def turn(
    by_step: Float32[np.ndarray, "T N"], steps: int, first: int = 0, beyond: float = np.nan
) -> Float32[np.ndarray, "N S"]:
    """The values location by location.

    Args:
        by_step: the values.
        steps: S.
        first: where they begin.
        beyond: the value of steps before and after them.
    """
    T, N = by_step.shape
    turned = np.full((N, steps), beyond, dtype=np.float32)
    for start in range(0, T, _BLOCK):
        block = by_step[start : start + _BLOCK]
        turned[:, first + start : first + start + len(block)] = block.T
    return turned


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
        self, steps: Int64[Tensor, "B T"], locations: Int64[Tensor, " m"] | None = None
    ) -> tuple[Float32[Tensor, "m C B T"], Float32[Tensor, "A B T"]]:
        """The signal of each location and the auxiliary inputs of B windows of T steps.

        Args:
            steps: of the windows.
            locations: their numbers; None: all.
        """
        inputs = gather_steps(self._table, steps)
        N, C = self._shape
        signal = inputs[: N * C].view(N, C, *steps.shape)
        if locations is not None:
            signal = signal.index_select(0, locations)
        return signal, inputs[N * C :]


class LocationInputs:
    """The values and local covariates of locations, by location, and the inputs of all."""

    def __init__(
        self,
        series: Sequence[Float32[np.ndarray, "N S"]],
        auxiliary: Float32[np.ndarray, "S A"],
        scaler: Scaler,
    ) -> None:
        """Hold the inputs; `to` puts them on another device.

        Args:
            series: the values, NaN where missing, then each local covariate; none is scaled.
            auxiliary: weather, scaled, and calendar.
            scaler: of the series.
        """
        self._series = [torch.from_numpy(part) for part in series]
        self._auxiliary = torch.from_numpy(auxiliary)
        scale, shape = scaler.local_covariates, (len(scaler.values.mean),)
        means = [np.broadcast_to(mean, shape) for mean in (scaler.values.mean, *scale.mean)]
        deviations = (scaler.values.deviation, *scale.deviation)
        widths = [np.broadcast_to(deviation, shape) for deviation in deviations]
        self._scales = torch.from_numpy(np.stack([np.stack(means), np.stack(widths)]))

    def to(self, device: str) -> "LocationInputs":
        """Put the inputs on a device."""
        self._series = [part.to(device) for part in self._series]
        self._auxiliary = put_steps(self._auxiliary, device)
        self._scales = self._scales.to(device)
        return self

    def gather(
        self, steps: Int64[Tensor, "B T"], locations: Int64[Tensor, " m"] | None = None
    ) -> tuple[Float32[Tensor, "m C B T"], Float32[Tensor, "A B T"]]:
        """As `StepInputs.gather`."""
        scales = self._scales if locations is None else self._scales.index_select(2, locations)
        signal = scales.new_empty(scales.shape[2], len(self._series), *steps.shape)
        for channel, part in enumerate(self._series):
            mean, deviation = scales[:, channel, :, None, None]
            values = gather_locations(part, steps, locations)
            torch.div(values.sub_(mean), deviation, out=signal[:, channel])
        return signal, gather_steps(self._auxiliary, steps)

    def outcomes(
        self, steps: Int64[Tensor, "B T"], locations: Int64[Tensor, " m"] | None = None
    ) -> tuple[Float32[Tensor, "m B T"], Bool[Tensor, "m B T"]]:
        """The values of B windows in their own units, 0 where missing, and which are observed."""
        values = gather_locations(self._series[0], steps, locations)
        return values.nan_to_num(0.0), values.isfinite()


def put_steps(by_step: Shaped[Tensor, "S n"], device: str) -> Shaped[Tensor, "rows columns"]:
    """Put an array on its device: by step on a CPU, else by column, as `gather_steps` reads it."""
    tensor = by_step.to(device)
    return tensor if tensor.device.type == "cpu" else tensor.T.contiguous()


def gather_locations(
    stored: Float32[Tensor, "N S"],
    steps: Int64[Tensor, "B T"],
    locations: Int64[Tensor, " m"] | None,
) -> Float32[Tensor, "m B T"]:
    """The columns of the given steps, in the rows of some locations; None: of all."""
    flat, count = steps.reshape(-1), len(stored) if locations is None else len(locations)
    rows = stored.new_empty(count, len(flat))
    for start in range(0, count, _ROWS):
        block = slice(start, start + _ROWS)
        part = stored[block] if locations is None else stored.index_select(0, locations[block])
        torch.index_select(part, 1, flat, out=rows[block])
    return rows.view(count, *steps.shape)


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
