"""Forecast inputs as the states that a network is given."""

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from forecaster.clock.clock import WEEK_HOURS, Clock
from forecaster.config import LagConfig
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.scaled_inputs import assumed_calendar, calendar_of
from forecaster.models.layers.neurons import State
from forecaster.panel.panel import Panel
from forecaster.splits import history_steps
from forecaster.windows.inputs import StepInputs, scale_steps
from forecaster.windows.scaling import Scaler


def window_states(
    inputs: ForecastInputs,
    scaler: Scaler,
    lags: LagConfig,
    device: str = "cpu",
    *,
    masks: bool = False,
    slots: int | None = None,
) -> tuple[State, State]:
    """The L past and K coming steps of each origin, as a network is given them.

    With `masks`, missing values of the past stay NaN; otherwise they are filled. With `slots`, the
    length of the profile that the network has, the steps of the season are given too.

    Built as batches of training are (`windows.inputs`): one table of the past steps, each once,
    and of the coming ones, whose covariates may be assumed, and windows gathered from it.
    """
    panel, (B, K, _) = inputs.panel, inputs.covariates.shape
    steps = history_steps(panel, lags, inputs.origins)  # [B, L]
    ahead = inputs.origins[:, None] + np.arange(1, K + 1)
    if inputs.holiday is None:
        past, rows = np.unique(steps, return_inverse=True)
        calendar = calendar_of(inputs, np.concatenate([past, ahead.reshape(-1)]))
    else:  # of one step, different origins may assume different holidays
        past, rows = steps.reshape(-1), np.arange(steps.size)
        calendars = (assumed_calendar(inputs, s).reshape(s.size, -1) for s in (steps, ahead))
        calendar = np.concatenate(list(calendars))
    local = inputs.local_covariates.reshape(B * K, *inputs.local_covariates.shape[2:])
    local_past = panel.local_covariates.values[:, past]
    values = panel.values if inputs.observed is None or not masks else inputs.observed
    table = scale_steps(
        values[past],
        np.concatenate([local_past, local.transpose(1, 0, 2)], axis=1),
        np.concatenate([panel.covariates.values[past], inputs.covariates.reshape(B * K, -1)]),
        calendar,
        scaler,
    )
    windows = StepInputs(table, panel.values.shape[1], 1 + len(local_past)).to(device)
    coming = torch.arange(len(past), len(table)).view(B, K)
    signal, auxiliary = windows.gather(torch.from_numpy(rows.reshape(steps.shape)).to(device))
    next_signal, next_auxiliary = windows.gather(coming.to(device))
    seasons = [None if slots is None else _slots(panel, s, slots, device) for s in (steps, ahead)]
    is_open = panel.open_at(ahead)
    opening = None if is_open is None else torch.from_numpy(is_open).permute(2, 0, 1).to(device)
    return (
        State(signal, auxiliary, seasons[0]),
        State(next_signal[:, 1:].contiguous(), next_auxiliary, seasons[1], opening),
    )


def _slots(
    panel: Panel, steps: Int64[np.ndarray, "B T"], count: int, device: str
) -> Int64[Tensor, "B T"]:
    """The step of the season of each step; runs of earlier versions know hours of the week."""
    clock = panel.clock
    if count == WEEK_HOURS != clock.season_slots:
        clock = Clock(clock.zone)
    slots = clock.slot_of_season(panel.instants(steps.reshape(-1))).reshape(steps.shape)
    return torch.from_numpy(slots).to(device)
