"""The effect of each location's history on a forecast: integrated gradients and ablation.

Both are measured twice: in the whole network, and along the value path. There all parts that see
every location at once (attention weights, norms) are frozen, so that values travel along the edges
of the graph only. The baseline is the seasonal profile of each location.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from forecaster.models.frozen import FrozenNetwork, freeze, without_gradients
from forecaster.models.layers.neurons import State
from forecaster.models.network import Network
from forecaster.remaining import Tell, ignore, track

RollOut = Callable[[State, State], Float[Tensor, "N B K"]]
POINTS = 8  # at which gradients are taken between baseline and observed history
BATCH = 64  # ablated histories in one forward pass


@dataclass(frozen=True, eq=False)
class Window:
    """The network's inputs at one origin, and the location whose forecast is explained."""

    network: Network
    history: State  # one window
    ahead: State
    baseline: State  # the history with every location at its seasonal profile
    location: int
    scale: float  # of the location's values

    @cached_property
    def free(self) -> Network:
        """The whole network."""
        return without_gradients(self.network)

    @cached_property
    def frozen(self) -> FrozenNetwork:
        """The network with its cross-location parts frozen at those of this window."""
        return freeze(self.network, self.history, self.ahead)


def integrated_gradients(window: Window, roll_out: RollOut) -> Float64[np.ndarray, "K N L"]:
    """Return mean ∂x̂_{t+k} / ∂x_s · (x_s − baseline) of every location and past step, in units.

    The gradient is averaged over the straight line from the baseline to the observed history, at
    the midpoints of equal parts. The attributions then add up to the difference between the
    forecast and the baseline forecast, up to an error that falls with the number of points.
    """
    K, P = window.ahead.auxiliary.shape[2], POINTS
    history, ahead = _repeat(window.history, K * P), _repeat(window.ahead, K * P)
    baseline, fractions = window.baseline.signal, (torch.arange(P) + 0.5) / P
    fractions = fractions.repeat(K)[:, None].to(baseline)  # of step k: k·P … k·P + P − 1
    x = torch.lerp(baseline, history.signal, fractions).requires_grad_()
    forecast = roll_out(replace(history, signal=x), ahead)[window.location]  # [K·P, K]
    (gradient,) = torch.autograd.grad(forecast.view(K, P, K).diagonal(dim1=0, dim2=2).sum(), x)
    mean = gradient.view(*x.shape[:2], K, P, -1).mean(dim=3)  # [N, C, K, L]
    attribution = mean * (window.history.signal - baseline).nan_to_num(0.0)  # NaN: missing
    return _to_numpy(window.scale * attribution.sum(dim=1).transpose(0, 1))


def ablate(
    window: Window, roll_out: RollOut, masks: Bool[np.ndarray, "V N L"], tell: Tell = ignore
) -> Float64[np.ndarray, "V K"]:
    """Return the change of the forecast due to the history that each mask marks.

    It is the forecast minus the one with the baseline in place of the marked history. A
    location's covariates are replaced together with its values. `tell` is told how far it is.
    """
    effects = []
    with torch.inference_mode():
        for start in track(range(0, len(masks), BATCH), "ablation, part", tell):
            # The unchanged window is in the same batch: another batch size rounds differently.
            batch = np.concatenate([np.zeros_like(masks[:1]), masks[start : start + BATCH]])
            ablated = torch.from_numpy(batch).to(window.baseline.signal.device).permute(1, 0, 2)
            history, ahead = (
                _repeat(state, len(batch)) for state in (window.history, window.ahead)
            )
            signal = torch.where(ablated[:, None], window.baseline.signal, history.signal)
            forecast = roll_out(replace(history, signal=signal), ahead)[window.location]
            effects.append(forecast[:1] - forecast[1:])
    return _to_numpy(window.scale * torch.cat(effects))


def hops_to(
    location: int, pairs: Int64[np.ndarray, "E 2"], count: int, *, directed: bool = False
) -> Float64[np.ndarray, " N"]:
    """Return the number of edges from each location to one; infinite: no path.

    Args:
        location: where the paths end.
        pairs: the edges.
        count: the number of locations.
        directed: whether paths follow edges from the first to the second location only.
    """
    from scipy.sparse import coo_array  # noqa: PLC0415 (takes long)
    from scipy.sparse.csgraph import dijkstra  # noqa: PLC0415 (likewise)

    first, second = pairs.T
    against = coo_array((np.ones(len(pairs)), (second, first)), shape=(count, count)).tocsr()
    return np.asarray(dijkstra(against, directed=directed, indices=location, unweighted=True))


def _repeat(state: State, count: int) -> State:
    """Repeat the single window of a state."""
    return State(
        state.signal.expand(-1, -1, count, -1).clone(),
        state.auxiliary.expand(-1, count, -1).clone(),
        None if state.slots is None else state.slots.expand(count, -1),
        None if state.open is None else state.open.expand(-1, count, -1),
    )


def _to_numpy(tensor: Float[Tensor, "*shape"]) -> Float64[np.ndarray, "*shape"]:
    return np.asarray(tensor.detach().cpu().double().numpy())
