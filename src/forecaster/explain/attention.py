"""The share of attention that each past step has in the forecast of a location.

An attention adds Σ_s u_s to the neurons of a location, u_s = W^O [α_s^(1) v_s^(1) ‖ … ‖ α_s^(H)
v_s^(H)]: exact, whatever the weights. The share of step s is ‖u_s‖ / Σ_s ‖u_s‖ over the neurons
of that location, or over all neurons where none belongs to a location.
"""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecaster.models.frozen import AttentionCall, FrozenAttention, FrozenNetwork
from forecaster.models.layers.neurons import State


def attention_shares(frozen: FrozenNetwork, location: int) -> Float64[np.ndarray, "K L"]:
    """Return the share of each encoded step of the history, for each forecast step.

    Where the decoder has several layers, their norms are summed.
    """
    layers = [
        np.concatenate([contribution_norms(attention, call, location) for call in attention.calls])
        for attention in frozen.histories
    ]
    return as_shares(np.sum(layers, axis=0))


def attention_rollout(frozen: FrozenNetwork, location: int) -> Float64[np.ndarray, "K L"]:
    """Return the share of each past step before the encoder mixes them (attention rollout).

    An encoder layer adds Σ_s u_s to x_t. The output at step t is attributed to step s in
    proportion to ‖u_s‖, and to step t itself in proportion to ‖x_t + u_t‖. The shares of several
    layers are multiplied as matrices.
    """
    shares = attention_shares(frozen, location)
    for attention in reversed(frozen.encoder):
        (call,) = attention.calls
        shares = shares @ as_shares(contribution_norms(attention, call, location, with_input=True))
    return shares


def contribution_norms(
    attention: FrozenAttention, call: AttentionCall, location: int, *, with_input: bool = False
) -> Float64[np.ndarray, "T S"]:
    """Return ‖u_s‖ of each step s for each query step t; u_t includes x_t if `with_input`."""
    T, rows = call.weights.shape[2], []
    with torch.inference_mode():
        for t in range(T):
            weights = call.weights[:, :, t]
            parts = _neurons_of(attention.attention.output(_weigh(call.value, weights)), location)
            if with_input:
                parts[:, t] += _neurons_of(call.x, location)[:, t]
            rows.append(parts.norm(dim=0))
    return np.asarray(torch.stack(rows).cpu().double().numpy())


def _weigh(value: State, weights: Float[Tensor, "H 1 S"]) -> State:
    """Multiply each value by the weight of its step; every H-th neuron is of the same head."""

    def times(part: Float[Tensor, "*neurons 1 S"]) -> Float[Tensor, "*neurons 1 S"]:
        each = part.shape[:-2].numel() // len(weights)  # neurons of a head
        return (part.view(each, *weights.shape) * weights).view(part.shape)

    return value.each(times)


def _neurons_of(state: State, location: int) -> Float[Tensor, "n S"]:
    """Return the neurons of a location; all neurons, where none belongs to a location."""
    neurons = state.signal[location] if len(state.signal) else state.auxiliary
    return neurons[:, 0].clone()


def as_shares(sizes: Float64[np.ndarray, "T S"]) -> Float64[np.ndarray, "T S"]:
    """Normalise the sizes of each row to sum 1; equal shares where all are 0."""
    total = sizes.sum(axis=1, keepdims=True)
    equal = np.full_like(sizes, 1 / sizes.shape[1])
    return np.asarray(np.divide(sizes, total, out=equal, where=total > 0))
