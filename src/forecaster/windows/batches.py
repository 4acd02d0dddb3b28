"""Batches as index vectors into a scaled panel that stays on the device.

Batches are location-major, as the models consume them: picking steps is the only work they cost.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64, Shaped
from torch import Tensor

from forecaster.config import LagConfig
from forecaster.panel.fill import Fill, fill_missing
from forecaster.panel.panel import Panel
from forecaster.windows.scaling import Scaler

_PART = 512  # steps turned at a time on a CPU: about what its cache holds


@dataclass(frozen=True)
class Batch:
    """B windows of L past and K coming steps at N locations."""

    signal: Float32[Tensor, "N C B L"]  # scaled; channel 0 the values, then their covariates
    auxiliary: Float32[Tensor, "P B L"]  # scaled weather, then the calendar: a_t
    next_auxiliary: Float32[Tensor, "P B K"]  # a_{t+1…t+K}, known ahead
    next_local: Float32[Tensor, "N Q B K"]  # the same of each location
    next_values: Float32[Tensor, "N B K"]  # scaled and filled: nothing that a forecast may see
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
        whole = fill_missing(panel, fill)
        calendar = panel.clock.calendar(panel.clock.axis(panel.start, S))
        self.times = panel.times
        self._device = device
        self._signal_shape = len(panel.locations), 1 + len(panel.local_covariates.names)  # N, C
        self._inputs = _put(_inputs(whole, scaler, calendar), device)
        self._raw = _put(_lengthen(np.nan_to_num(panel.values), S), device)
        self._observed = _put(_lengthen(np.isfinite(panel.values), S), device)
        self._lags = panel.clock.lag_steps(lags, panel.times).astype(np.int32)
        self._ahead = np.arange(1, lags.horizon + 1)
        missing, steps = np.isnan(panel.values).sum(axis=1), np.arange(len(panel.values))
        filled = missing[np.maximum(steps[:, None] - self._lags, 0)].sum(axis=1)
        self._filled = torch.from_numpy(filled).to(device)

    def cut(self, origins: Int64[np.ndarray, " B"]) -> Batch:
        """Return the windows of the given origins, which must have their whole history."""
        return self.gather(self.locate(origins))

    def locate(self, origins: Int64[np.ndarray, " B"]) -> Int64[Tensor, "B T"]:
        """Return, on the device, each origin, its L past steps and its K coming ones."""
        past, ahead = origins[:, None] - self._lags[origins], origins[:, None] + self._ahead
        if past.size and past.min() < 0:
            raise ValueError(
                "an origin lies too early for its history; take them from cut_windows"
            )
        places = np.concatenate([origins[:, None], past, ahead], axis=1)
        return torch.from_numpy(places).to(self._device)

    def gather(self, places: Int64[Tensor, "B T"]) -> Batch:
        """Return the windows of what `locate` gave; the device does it without the host."""
        end = 1 + self._lags.shape[1]
        origins, history, coming = places[:, 0], places[:, 1:end], places[:, end:]
        known, known_ahead = _pick(self._inputs, history), _pick(self._inputs, coming)
        N, C = self._signal_shape
        own_ahead = known_ahead[: N * C].view(N, C, *coming.shape)
        return Batch(
            signal=known[: N * C].view(N, C, *history.shape),
            auxiliary=known[N * C :],
            next_auxiliary=known_ahead[N * C :],
            next_local=own_ahead[:, 1:].contiguous(),
            next_values=own_ahead[:, 0].contiguous(),
            target=_pick(self._raw, coming),
            observed=_pick(self._observed, coming),
            filled=self._filled[origins],
        )


def _inputs(
    panel: Panel, scaler: Scaler, calendar: Float32[np.ndarray, "S 32"]
) -> Float32[np.ndarray, "S n"]:
    """Return what is known at each step, scaled; what nobody knows yet is 0.

    First what each location knows of itself (its value, then its covariates), location by
    location; then what holds for all: the weather and the calendar.
    """
    scale = scaler.local_covariates
    layers = [scaler.values.apply(panel.values)]
    for layer, mean, deviation in zip(
        panel.local_covariates.values, scale.mean, scale.deviation, strict=True
    ):
        layers.append((layer - mean) / deviation)
    weather = scaler.covariates.apply(panel.covariates.values)
    own = len(panel.locations) * len(layers)
    shared = own + weather.shape[1]
    inputs = np.zeros((len(calendar), shared + calendar.shape[1]), dtype=np.float32)
    for number, layer in enumerate(layers):
        inputs[: len(layer), number : own : len(layers)] = layer
    inputs[: len(weather), own:shared] = weather
    inputs[:, shared:] = calendar
    return inputs


def _lengthen(array: Shaped[np.ndarray, "M N"], steps: int) -> Shaped[np.ndarray, "S N"]:
    """Return the array with zeros for steps that nobody knows yet."""
    longer = np.zeros((steps, array.shape[1]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _put(array: Shaped[np.ndarray, "S n"], device: str) -> Shaped[Tensor, "rows columns"]:
    """Return the array on its device: by step on a CPU, else by column, as `_pick` reads it."""
    tensor = torch.from_numpy(array).to(device)
    return tensor if tensor.device.type == "cpu" else tensor.T.contiguous()


def _pick(
    stored: Shaped[Tensor, "rows columns"], steps: Int64[Tensor, "B T"]
) -> Shaped[Tensor, "n B T"]:
    """Return what is stored of the given steps.

    A GPU reads across steps nearly as fast as along them. A CPU does not, so there a step is one
    piece of memory, and is turned after it was read: a third of the time.
    """
    flat = steps.reshape(-1)
    if stored.device.type != "cpu":
        return stored.index_select(1, flat).view(len(stored), *steps.shape)
    turned = stored.new_empty(stored.shape[1], len(flat))
    for start in range(0, len(flat), _PART):
        part = slice(start, start + _PART)
        turned[:, part] = stored.index_select(0, flat[part]).T
    return turned.view(len(turned), *steps.shape)
