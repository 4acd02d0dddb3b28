"""Batches as index vectors into a scaled panel that stays on the device.

The panel lies there by time, so that a step is one piece of memory; batches are location-major, as
the models consume them. Picking steps and turning them is the only work a batch costs.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from forecaster.config import LagConfig
from forecaster.panel.panel import Panel
from forecaster.splits import Fill, fill_missing
from forecaster.windows.scaling import Scaler

_PART = 512  # steps turned at a time on a CPU: about what its cache holds


@dataclass(frozen=True)
class Batch:
    """B windows of L past and K coming steps at N locations."""

    signal: Float32[Tensor, "N C B L"]  # scaled; channel 0 the values, then their covariates
    auxiliary: Float32[Tensor, "P B L"]  # scaled weather, then the calendar: a_t
    next_auxiliary: Float32[Tensor, "P B K"]  # a_{t+1…t+K}, known ahead
    next_local: Float32[Tensor, "N Q B K"]  # the same of each location
    target: Float32[Tensor, "N B K"]  # in the panel's units; 0 where missing
    observed: Bool[Tensor, "N B K"]  # which targets count
    filled: Int64[Tensor, " B"]  # how many values of the history had been missing


class Batches:
    """A panel on its device, ready to be cut into batches."""

    def __init__(
        self, panel: Panel, scaler: Scaler, fill: Fill, lags: LagConfig, device: str = "cpu"
    ) -> None:
        """Put the panel on the device once.

        Args:
            panel: values, covariates and clock.
            scaler: fitted on training steps.
            fill: what stands for missing values, fitted on training steps.
            lags: which past steps a window sees.
            device: where the tensors live.
        """
        S = max(len(panel.covariates.values), len(panel.values) + lags.horizon)
        self._lag_steps = panel.clock.lag_steps(lags, panel.times).astype(np.int32)
        whole = fill_missing(panel, fill)
        weather = _lengthen(scaler.covariates.apply(whole.covariates.values), S)
        calendar = panel.clock.calendar(panel.clock.axis(panel.start, S))

        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        self._auxiliary = put(np.concatenate([weather, calendar], axis=1))  # [S, P]
        self._channels = put(_lengthen(_channels(whole, scaler), S))  # [S, N, C]
        self._raw = put(_lengthen(np.nan_to_num(panel.values), S))  # [S, N]
        self._observed = put(_lengthen(np.isfinite(panel.values), S))  # [S, N]
        self._missing = put(np.isnan(panel.values).sum(axis=1))
        self._lags = put(self._lag_steps)
        self._ahead = torch.arange(1, lags.horizon + 1, device=device)

    def cut(self, origins: Int64[np.ndarray, " B"]) -> Batch:
        """Return the windows of the given origins, which must have their whole history."""
        if len(origins) and (origins - self._lag_steps[origins, 0]).min() < 0:
            raise ValueError(
                "an origin lies too early for its history; take them from cut_windows"
            )
        at = torch.from_numpy(origins).to(self._lags.device)
        past = at[:, None] - self._lags[at]
        ahead = at[:, None] + self._ahead
        return Batch(
            signal=_gather(self._channels, past),
            auxiliary=_gather(self._auxiliary, past),
            next_auxiliary=_gather(self._auxiliary, ahead),
            next_local=_gather(self._channels, ahead)[:, 1:].contiguous(),
            target=_gather(self._raw, ahead),
            observed=_gather(self._observed, ahead),
            filled=self._missing[past].sum(dim=1),
        )


def _channels(panel: Panel, scaler: Scaler) -> Float32[np.ndarray, "S N C"]:
    """Return what each location knows of itself, scaled: its values, then its covariates."""
    scale = scaler.local_covariates
    layers = [scaler.values.apply(panel.values)]
    for layer, mean, deviation in zip(
        panel.local_covariates.values, scale.mean, scale.deviation, strict=True
    ):
        layers.append((layer - mean) / deviation)
    S = len(panel.covariates.values)
    channels = np.zeros((S, len(panel.locations), len(layers)), dtype=np.float32)
    for number, layer in enumerate(layers):
        channels[: len(layer), :, number] = layer
    return channels


def _lengthen(array: np.ndarray, length: int) -> np.ndarray:
    """Return the array with its first axis filled up with zeros: steps that nobody knows yet."""
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _gather(source: Tensor, steps: Int64[Tensor, "B T"]) -> Tensor:
    """Return the given steps of the first axis as two axes at the end."""
    rows, flat = source.flatten(1), steps.reshape(-1)
    turned = rows.new_empty(rows.shape[1], len(flat))
    part = _PART if rows.device.type == "cpu" else max(len(flat), 1)
    for start in range(0, len(flat), part):
        place = slice(start, start + part)
        turned[:, place] = rows.index_select(0, flat[place]).T
    return turned.view(*source.shape[1:], *steps.shape)
