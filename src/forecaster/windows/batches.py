"""Batches of windows, gathered from a scaled panel that stays on the device."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64, Shaped
from torch import Tensor

from forecaster.config import LagConfig
from forecaster.panel.fill import Fill, fill_missing
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates
from forecaster.panel.vintages import ALWAYS, SPAN
from forecaster.windows.inputs import (
    LocationInputs,
    StepInputs,
    gather_steps,
    put_steps,
    scale_auxiliary,
    scale_steps,
    turn,
)
from forecaster.windows.scaling import Scaler


@dataclass(frozen=True)
class Batch:
    """B windows of L past and K coming steps at N locations, whose m are seen in the past."""

    # Scaled; channel 0 the values, NaN where masked, then their covariates.
    signal: Float32[Tensor, "m C B L"]
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


# The numbers of those whose past is seen, and of those that are forecast; None: all.
BatchLocations: TypeAlias = tuple[Tensor | None, Tensor | None]
ALL_LOCATIONS: BatchLocations = (None, None)


class Batches:
    """A panel on its device, ready to be cut into batches."""

    def __init__(  # noqa: PLR0913 (how values are stored is said once, here)
        self,
        panel: Panel,
        scaler: Scaler,
        fill: Fill,
        lags: LagConfig,
        device: str = "cpu",
        *,
        masks: bool = False,
        by_location: bool = False,
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
            by_location: values are held once, location by location, from which batches of some
                locations are gathered; missing ones are masked.
        """
        self.times = panel.times
        self._lags = panel.clock.lag_steps(lags, panel.times).astype(np.int32)
        masks = masks or by_location
        self._earlier = int(self._lags.max(initial=0)) if masks else 0  # steps before the first
        S = self._earlier + max(len(panel.covariates.values), len(panel.values) + lags.horizon)
        whole = panel.values
        if by_location and not (panel.local_covariates.names or panel.locations.has_hours):
            panel, fill = _first_location(panel, fill)  # all that is needed but for the values
        panel = panel.with_earlier(self._earlier)
        filled = fill_missing(panel, fill)
        axis = panel.clock.axis(panel.start, S)
        auxiliary = filled.covariates.values, panel.clock.calendar(axis)
        local = filled.local_covariates.values
        self._vintages = ScaledVintages.of(filled.covariates, scaler, device)
        self._past_columns = panel.covariates.past_columns
        self._past_channels = tuple(1 + layer for layer in panel.local_covariates.past_layers)
        self._device = device
        self._inputs: StepInputs | LocationInputs
        self._outcomes: StepOutcomes | LocationInputs
        if by_location:
            means = scaler.local_covariates.mean.tolist()
            covariates = (
                turn(layer, S, beyond=mean) for layer, mean in zip(local, means, strict=True)
            )
            series = [turn(whole, S, self._earlier), *covariates]
            self._inputs = LocationInputs(series, scale_auxiliary(*auxiliary, scaler), scaler)
            self._outcomes = self._inputs.to(device)
        else:
            values = panel.values if masks else filled.values
            inputs = scale_steps(values, local, *auxiliary, scaler)
            self._inputs = StepInputs(inputs, len(panel.locations), 1 + len(local)).to(device)
            self._outcomes = StepOutcomes(panel.values, S, device)
        is_open = panel.open_at(np.arange(S)[None])
        self._open = None if is_open is None else put_steps(torch.from_numpy(is_open[0]), device)
        self._slots = torch.from_numpy(panel.clock.slot_of_season(axis)).to(device)
        self._ahead = np.arange(1, lags.horizon + 1)

    def cut(
        self, origins: Int64[np.ndarray, " B"], locations: BatchLocations = ALL_LOCATIONS
    ) -> Batch:
        """The windows of the given origins."""
        return self.gather(self.locate(origins), locations)

    def locate(self, origins: Int64[np.ndarray, " B"]) -> Int64[Tensor, "B T"]:
        """The L past and K coming steps of each origin, on the device."""
        steps = self._earlier + origins[:, None]
        past, ahead = steps - self._lags[origins], steps + self._ahead
        if past.size and past.min() < 0:
            raise ValueError(
                "an origin lies too early for its history; take them from cut_windows"
            )
        return torch.from_numpy(np.concatenate([past, ahead], axis=1)).to(self._device)

    def gather(
        self, steps: Int64[Tensor, "B T"], locations: BatchLocations = ALL_LOCATIONS
    ) -> Batch:
        """The windows of the steps from `locate`, gathered on the device.

        Args:
            steps: the past and the coming ones of each window.
            locations: those of the past, and those of the coming steps and targets.
        """
        L, (seen, targets) = self._lags.shape[1], locations
        history, coming = steps[:, :L], steps[:, L:]
        signal, auxiliary = self._inputs.gather(history, seen)
        signal_ahead, next_auxiliary = self._inputs.gather(coming, targets)
        if self._vintages is not None:
            self._vintages.put(next_auxiliary, coming)
        if self._past_columns or self._past_channels:
            at_origin, auxiliary_at_origin = self._inputs.gather(coming[:, :1] - 1, targets)
            for channel in self._past_channels:
                signal_ahead[:, channel] = at_origin[:, channel]
            for column in self._past_columns:
                next_auxiliary[column] = auxiliary_at_origin[column]
        target, observed = self._outcomes.outcomes(coming, targets)
        return Batch(
            signal=signal,
            auxiliary=auxiliary,
            next_auxiliary=next_auxiliary,
            next_local=signal_ahead[:, 1:].contiguous(),
            next_values=signal_ahead[:, 0].nan_to_num(0.0),
            target=target,
            observed=observed,
            slots=self._slots_of(history),
            next_slots=self._slots_of(coming),
            next_open=None if self._open is None else _take_steps(self._open, coming, targets),
        )

    def _slots_of(self, steps: Int64[Tensor, "B T"]) -> Int64[Tensor, "B T"]:
        return self._slots.index_select(0, steps.reshape(-1)).view(steps.shape)


class StepOutcomes:
    """The values of all steps, by step, as targets of training."""

    def __init__(self, values: Float32[np.ndarray, "M N"], steps: int, device: str) -> None:
        self._targets = _put_longer(np.nan_to_num(values), steps, device)
        self._observed = _put_longer(np.isfinite(values), steps, device)

    def outcomes(
        self, steps: Int64[Tensor, "B T"], locations: Int64[Tensor, " m"] | None = None
    ) -> tuple[Float32[Tensor, "m B T"], Bool[Tensor, "m B T"]]:
        """The values, 0 where missing, and which are observed; as `LocationInputs.outcomes`."""
        stored = self._targets, self._observed
        target, observed = (_take_steps(part, steps, locations) for part in stored)
        return target, observed


def _take_steps(
    stored: Shaped[Tensor, "rows columns"],
    steps: Int64[Tensor, "B T"],
    locations: Int64[Tensor, " m"] | None,
) -> Shaped[Tensor, "m B T"]:
    """The columns of steps, of some locations; None: of all."""
    columns = gather_steps(stored, steps)
    return columns if locations is None else columns.index_select(0, locations)


def _first_location(panel: Panel, fill: Fill) -> tuple[Panel, Fill]:
    """The panel of one location, whose covariates are those of all, and its fill."""
    one = panel.select(panel.locations.ids[:1])
    return one, replace(
        fill, values=fill.values[:, :1], local_covariates=fill.local_covariates[..., :1]
    )


def _put_longer(
    array: Shaped[np.ndarray, "M N"], steps: int, device: str
) -> Shaped[Tensor, "rows columns"]:
    """The array on its device, with zeros for steps after its last."""
    longer = np.zeros((steps, array.shape[1]), dtype=array.dtype)
    longer[: len(array)] = array
    return put_steps(torch.from_numpy(longer), device)
