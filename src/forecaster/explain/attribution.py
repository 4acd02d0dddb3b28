"""What a forecast owes to the history of each location: by gradient × input, and by ablation.

Both are measured twice: with held what sees every location at once, so that values alone travel,
along the edges of the graph; and with everything free, as the network forecasts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from forecaster.models.frozen import FrozenNetwork, freeze, without_gradients
from forecaster.models.network import Network
from forecaster.models.neurons import State

RollOut = Callable[[State, State], Float[Tensor, "N B K"]]
PARTS = 8  # of the way from the usual history to the real one
BATCH = 64  # changed histories that are forecast from at a time


@dataclass(frozen=True, eq=False)
class Window:
    """One origin as its network is shown it, and the location whose forecast is asked about."""

    network: Network
    history: State  # one window
    ahead: State
    usual: State  # the history, had every location been at its mean of that hour of the week
    place: int
    unit: float  # of the location, per scaled one

    @cached_property
    def free(self) -> Network:
        """The network as it is."""
        return without_gradients(self.network)

    @cached_property
    def held(self) -> FrozenNetwork:
        """The network with what sees every location as it is for this window."""
        return freeze(self.network, self.history, self.ahead)


def credit(window: Window, roll_out: RollOut) -> Float64[np.ndarray, "K N L"]:
    """Return ∂x̂_{t+k} / ∂x_s · (x_s − usual) of every location and past step, in its units.

    The slope is the mean of those on the straight way from the usual history to the real one, at
    the middles of equal parts: between them ReLUs open and close, and a slope at the end alone
    would not know of it. So these add up to what the whole history adds to the usual forecast,
    the nearer the more parts there are.
    """
    K, P = window.ahead.auxiliary.shape[2], PARTS
    history, ahead = _repeat(window.history, K * P), _repeat(window.ahead, K * P)
    usual, way = window.usual.signal, (torch.arange(P) + 0.5) / P
    way = way.repeat(K)[:, None].to(usual)  # of step k: k·P … k·P + P − 1
    x = torch.lerp(usual, history.signal, way).requires_grad_()
    forecast = roll_out(State(x, history.auxiliary), ahead)[window.place]  # [K·P, K]
    (slope,) = torch.autograd.grad(forecast.view(K, P, K).diagonal(dim1=0, dim2=2).sum(), x)
    mean = slope.view(*x.shape[:2], K, P, -1).mean(dim=3)  # [N, C, K, L]
    parts = mean * (window.history.signal - usual)
    return _numbers(window.unit * parts.sum(dim=1).transpose(0, 1))


def ablate(
    window: Window, roll_out: RollOut, masks: Bool[np.ndarray, "V N L"]
) -> Float64[np.ndarray, "V K"]:
    """Return how much larger a forecast is than with the usual in place of what each mask marks.

    A location's covariates go with its values.
    """
    effects = []
    with torch.inference_mode():
        for start in range(0, len(masks), BATCH):
            # Among them the window as it is: alone it would be rounded in another way.
            some = np.concatenate([np.zeros_like(masks[:1]), masks[start : start + BATCH]])
            gone = torch.from_numpy(some).to(window.usual.signal.device).permute(1, 0, 2)
            history, ahead = (_repeat(one, len(some)) for one in (window.history, window.ahead))
            signal = torch.where(gone[:, None], window.usual.signal, history.signal)
            forecast = roll_out(State(signal, history.auxiliary), ahead)[window.place]
            effects.append(forecast[:1] - forecast[1:])
    return _numbers(window.unit * torch.cat(effects))


def hops_from(
    place: int, pairs: Int64[np.ndarray, "E 2"], count: int
) -> Float64[np.ndarray, " N"]:
    """Return over how many edges each location lies from one of them; infinite: no path."""
    first, second = pairs.T
    edges = coo_array((np.ones(len(pairs)), (first, second)), shape=(count, count))
    return np.asarray(dijkstra(edges.tocsr(), directed=False, indices=place, unweighted=True))


def _repeat(state: State, count: int) -> State:
    """Return the one window of a state `count` times."""
    return State(
        state.signal.expand(-1, -1, count, -1).clone(),
        state.auxiliary.expand(-1, count, -1).clone(),
    )


def _numbers(tensor: Float[Tensor, "*shape"]) -> Float64[np.ndarray, "*shape"]:
    return np.asarray(tensor.detach().cpu().double().numpy())
