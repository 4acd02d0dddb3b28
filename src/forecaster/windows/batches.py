"""Batches of windows, gathered from a scaled panel that stays on the device."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64, Shaped
from torch import Tensor

from forecaster.config import LagConfig
from forecaster.panel.fill import Fill, fill_missing
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates
from forecaster.panel.vintages import ALWAYS, SPAN
from forecaster.windows.inputs import StepInputs, gather_steps, put_steps, scale_steps
from forecaster.windows.scaling import Scaler


@dataclass(frozen=True)
class Batch:
    """B windows of L past and K coming steps at N locations."""

    # Scaled; channel 0 the values, NaN where masked, then their covariates.
    signal: Float32[Tensor, "N C B L"]
    auxiliary: Float32[Tensor, "P B L"]  # scaled weather, then the calendar: a_t
    # a_{t+1…t+K} and local covariates, known ahead; past-only ones as they are at the origin.
    next_auxiliary: Float32[Tensor, "P B K"]
    next_local: Float32[Tensor, "N Q B K"]
    next_values: Float32[Tensor, "N B K"]  # scaled, none missing; for training only
    target: Float32[Tensor, "N B K"]  # in the panel's units; 0 where missing
    observed: Bool[Tensor, "N B K"]  # which targets count
    slots: Int64[Tensor, "B L"]  # the step of the season of each past step
    next_slots: Int64[Tensor, "B K"]
    next_open: Bool[Tensor, "N B K"] | None  # which locations are open; None: all of them


@dataclass(frozen=True)
class ScaledVintages:
    """The vintages of covariates on a device, scaled, with a value of each step at each origin."""

    columns: tuple[int, ...]  # of the covariates
    keys: Int64[Tensor, " R"]  # steps and origins, as `vintage_keys`
    values: Float32[Tensor, "V R"]

    @staticmethod
    def of(covariates: Covariates, scaler: Scaler, device: str) -> "ScaledVintages | None":
        """The vintages of filled covariates; None without any."""
        vintages = covariates.vintages
        if vintages is None:
            return None
        columns = tuple(covariates.names.index(name) for name in vintages.names)
        scale = scaler.covariates
        mean, deviation = scale.mean[list(columns)], scale.deviation[list(columns)]
        values = torch.from_numpy((vintages.values - mean) / deviation).T.contiguous()
        return ScaledVintages(
            columns, torch.from_numpy(vintages.keys).to(device), values.to(device)
        )

    def put(self, auxiliary: Float32[Tensor, "A B K"], coming: Int64[Tensor, "B K"]) -> None:
        """Replace covariates ahead by what was known of them at each origin."""
        keys = coming * SPAN + coming[:, :1] - 1 - ALWAYS  # as `vintage_keys`
        rows = torch.searchsorted(self.keys, keys, right=True) - 1
        for column, values in zip(self.columns, self.values, strict=True):
            auxiliary[column] = values[rows]


class Batches:
    """A panel on its device, ready to be cut into batches."""

    def __init__(
        self,
        panel: Panel,
        scaler: Scaler,
        fill: Fill,
        lags: LagConfig,
        device: str = "cpu",
        *,
        masks: bool = False,
    ) -> None:
        """Put the panel on the device once.

        Args:
            panel: values, covariates and clock.
            scaler: fitted on training steps.
            fill: substitutes for missing values, fitted on training steps.
            lags: the past steps of a window.
            device: of the tensors.
            masks: missing values of the past stay NaN, also those before the panel's beginning;
                otherwise they are filled, and the past must lie inside the panel.
        """
        self.times = panel.times
        self._lags = panel.clock.lag_steps(lags, panel.times).astype(np.int32)
        self._earlier = int(self._lags.max(initial=0)) if masks else 0  # steps before the first
        panel = panel.with_earlier(self._earlier)
        S = max(len(panel.covariates.values), len(panel.values) + lags.horizon)
        filled = fill_missing(panel, fill)
        axis = panel.clock.axis(panel.start, S)
        inputs = scale_steps(
            panel.values if masks else filled.values,
            filled.local_covariates.values,
            filled.covariates.values,
            panel.clock.calendar(axis),
            scaler,
        )
        channels = 1 + len(panel.local_covariates.names)
        self._vintages = ScaledVintages.of(filled.covariates, scaler, device)
        self._past_columns = panel.covariates.past_columns
        self._past_channels = tuple(1 + layer for layer in panel.local_covariates.past_layers)
        self._device = device
        self._inputs = StepInputs(inputs, len(panel.locations), channels).to(device)
        self._targets = _put_longer(np.nan_to_num(panel.values), S, device)
        self._observed = _put_longer(np.isfinite(panel.values), S, device)
        is_open = panel.open_at(np.arange(S)[None])
        self._open = None if is_open is None else put_steps(torch.from_numpy(is_open[0]), device)
        self._slots = torch.from_numpy(panel.clock.slot_of_season(axis)).to(device)
        self._ahead = np.arange(1, lags.horizon + 1)

    def cut(self, origins: Int64[np.ndarray, " B"]) -> Batch:
        """The windows of the given origins."""
        return self.gather(self.locate(origins))

    def locate(self, origins: Int64[np.ndarray, " B"]) -> Int64[Tensor, "B T"]:
        """The L past and K coming steps of each origin, on the device."""
        steps = self._earlier + origins[:, None]
        past, ahead = steps - self._lags[origins], steps + self._ahead
        if past.size and past.min() < 0:
            raise ValueError(
                "an origin lies too early for its history; take them from cut_windows"
            )
        return torch.from_numpy(np.concatenate([past, ahead], axis=1)).to(self._device)

    def gather(self, steps: Int64[Tensor, "B T"]) -> Batch:
        """The windows of the steps from `locate`, gathered on the device."""
        L = self._lags.shape[1]
        history, coming = steps[:, :L], steps[:, L:]
        signal, auxiliary = self._inputs.gather(history)
        signal_ahead, next_auxiliary = self._inputs.gather(coming)
        if self._vintages is not None:
            self._vintages.put(next_auxiliary, coming)
        if self._past_columns or self._past_channels:
            at_origin, auxiliary_at_origin = self._inputs.gather(coming[:, :1] - 1)
            for channel in self._past_channels:
                signal_ahead[:, channel] = at_origin[:, channel]
            for column in self._past_columns:
                next_auxiliary[column] = auxiliary_at_origin[column]
        return Batch(
            signal=signal,
            auxiliary=auxiliary,
            next_auxiliary=next_auxiliary,
            next_local=signal_ahead[:, 1:].contiguous(),
            next_values=signal_ahead[:, 0].nan_to_num(0.0),
            target=gather_steps(self._targets, coming),
            observed=gather_steps(self._observed, coming),
            slots=self._slots_of(history),
            next_slots=self._slots_of(coming),
            next_open=None if self._open is None else gather_steps(self._open, coming),
        )

    def _slots_of(self, steps: Int64[Tensor, "B T"]) -> Int64[Tensor, "B T"]:
        return self._slots.index_select(0, steps.reshape(-1)).view(steps.shape)


def _put_longer(
    array: Shaped[np.ndarray, "M N"], steps: int, device: str
) -> Shaped[Tensor, "rows columns"]:
    """The array on its device, with zeros for steps after its last."""
    longer = np.zeros((steps, array.shape[1]), dtype=array.dtype)
    longer[: len(array)] = array
    return put_steps(torch.from_numpy(longer), device)
