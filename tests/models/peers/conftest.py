"""Windows of seven locations with a calendar, for networks that are told the time."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import Network

# N = 7 locations, 1 + Q = 3 values of each, 2 + 32 auxiliary values; B = 5 windows of L = 13 past
# and K = 3 coming steps.
INPUTS = NeuronLayout(7, 3, 2 + 32)
WEEK, WINDOWS, PAST, COMING = 168, 5, 13, 3
NetworkInputs = tuple[State, State]


@pytest.fixture
def network_inputs(draw: Callable[..., Tensor]) -> NetworkInputs:
    """Return a history of 13 steps and what is known of the 3 that come, with a calendar."""

    def at(signal: Tensor, first: int) -> State:
        steps = signal.shape[3]
        hours = (torch.arange(WINDOWS)[:, None] * 31 + first + torch.arange(steps)) % WEEK
        calendar = torch.zeros(32, WINDOWS, steps, dtype=torch.float64)
        calendar.scatter_(0, (hours // 24)[None], 1.0)
        calendar.scatter_(0, 7 + (hours % 24)[None], 1.0)
        return State(signal, torch.cat([draw(2, WINDOWS, steps), calendar]), hours)

    return at(draw(7, 3, WINDOWS, PAST), 0), at(draw(7, 2, WINDOWS, COMING), PAST)


def take_windows(inputs: NetworkInputs, windows: slice) -> NetworkInputs:
    """Return some of the windows."""
    history, ahead = (
        State(s.signal[:, :, windows], s.auxiliary[:, windows], s.slots[windows])
        for s in inputs
        if s.slots is not None
    )
    return history, ahead


def with_missing(inputs: NetworkInputs) -> NetworkInputs:
    """Return the windows with some values missing."""
    history, ahead = inputs
    signal = history.signal.clone()
    signal[2, 0, :, 4], signal[5, 0, 1] = torch.nan, torch.nan
    return State(signal, history.auxiliary, history.slots), ahead


def count_saved(network: Network, inputs: NetworkInputs) -> float:
    """Return how many numbers are held of a window for the backward pass."""
    weights = {p.data_ptr() for p in network.parameters()}

    def of_windows(windows: int) -> int:
        saved: dict[int, int] = {}

        def hold(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                saved[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
            forecast = network(*take_windows(inputs, slice(windows))).forecast
        assert forecast.requires_grad
        return sum(saved.values())

    return (of_windows(WINDOWS) - of_windows(3)) / 2
