"""Which past steps a forecast attends to, as far as their values reach the location asked about.

An attention adds Σ_s u_s to the neurons of a location, u_s = W^O [α_s^(1) v_s^(1) ‖ … ‖ α_s^(H)
v_s^(H)]: exact, whatever the weights. The share of step s is ‖u_s‖ / Σ_s ‖u_s‖ over the neurons
of that location (all neurons, where none belongs to a location).
"""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecaster.models.frozen import AttentionCall, FrozenAttention, FrozenNetwork
from forecaster.models.neurons import State


def attended(held: FrozenNetwork, place: int) -> Float64[np.ndarray, "K L"]:
    """Return the share of each encoded step of the history, for each forecast step.

    Where the decoder has several layers, their norms are summed.
    """
    layers = [
        np.concatenate([norms(attention, asked, place) for asked in attention.asked])
        for attention in held.histories
    ]
    return as_shares(np.sum(layers, axis=0))


def rolled_through(held: FrozenNetwork, place: int) -> Float64[np.ndarray, "K L"]:
    """Return the share of each past step before the encoder has mixed them.

    An encoder layer keeps x_t and adds Σ_s u_s to it; what is step t's afterwards is step s's as
    ‖u_s‖, or ‖x_t + u_t‖, is to their sum. Layers follow each other as matrices are multiplied.
    """
    shares = attended(held, place)
    for attention in reversed(held.encoder):
        (asked,) = attention.asked
        shares = shares @ as_shares(norms(attention, asked, place, keeps=True))
    return shares


def norms(
    attention: FrozenAttention, asked: AttentionCall, place: int, *, keeps: bool = False
) -> Float64[np.ndarray, "T S"]:
    """Return ‖u_s‖ of each step s for each step t that asks; with x_t in u_t if it is kept."""
    T, rows = asked.weights.shape[2], []
    with torch.inference_mode():
        for t in range(T):
            weights = asked.weights[:, :, t]
            parts = _of_place(attention.attention.output(_weigh(asked.value, weights)), place)
            if keeps:
                parts[:, t] += _of_place(asked.x, place)[:, t]
            rows.append(parts.norm(dim=0))
    return np.asarray(torch.stack(rows).cpu().double().numpy())


def _weigh(value: State, weights: Float[Tensor, "H 1 S"]) -> State:
    """Return each value times the weight of its step, by head: every H-th neuron has the same."""

    def times(part: Float[Tensor, "*place 1 S"]) -> Float[Tensor, "*place 1 S"]:
        each = part.shape[:-2].numel() // len(weights)  # neurons of a head
        return (part.view(each, *weights.shape) * weights).view(part.shape)

    return value.each(times)


def _of_place(state: State, place: int) -> Float[Tensor, "n S"]:
    """Return the neurons of a location; all of them, where none belongs to one."""
    neurons = state.signal[place] if len(state.signal) else state.auxiliary
    return neurons[:, 0].clone()


def as_shares(sizes: Float64[np.ndarray, "T S"]) -> Float64[np.ndarray, "T S"]:
    """Return sizes as parts of one; alike where all are 0."""
    total = sizes.sum(axis=1, keepdims=True)
    alike = np.full_like(sizes, 1 / sizes.shape[1])
    return np.asarray(np.divide(sizes, total, out=alike, where=total > 0))
