"""A network whose attention weights and norms are held: what is left is the path of the values.

With both held a forecast is reached along the graph's edges alone; free, they let every location
have a say in every forecast. The network itself is not touched: a copy of it is.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle
from typing import TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.models.attention import Attention, Memory, attention_weights, mix
from forecaster.models.layers import EPSILON, AddNorm, DecoderLayer, EncoderLayer
from forecaster.models.neurons import State
from forecaster.models.transformer import Transformer

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Asked:
    """What one call of an attention mixed: its values and their weights."""

    x: State  # that asked
    value: State  # W^V v_s of each step s
    weights: Float[Tensor, "H B T S"]


class HeldAttention(nn.Module):
    """An attention that later runs of its network find with the weights of the first one."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.asked: list[Asked] = []  # call by call of the first run
        self._again: Iterator[Asked] | None = None

    def remember(self, source: State) -> Memory:
        """Return what later calls can attend to."""
        return self.attention.remember(source)

    def hold(self) -> None:
        """Let the calls so far decide all later ones."""
        self._again = cycle(self.asked)

    def forward(self, x: State, memory: Memory, *, causal: bool = False) -> State:
        own = self.attention
        if self._again is None:
            weights = attention_weights(own.layout, own.query(x), memory.key, causal=causal)
            self.asked.append(Asked(x, memory.value, weights))
        else:
            B = x.auxiliary.shape[1]
            weights = next(self._again).weights.expand(-1, B, -1, -1)
        answer: State = own.output(memory.value.each(lambda value: mix(value, weights)))
        return answer


class HeldNorm(nn.Module):
    """A norm that later runs of its network find with the mean and the scale of the first one."""

    def __init__(self, norm: AddNorm) -> None:
        super().__init__()
        self.norm = norm
        self._known: list[tuple[Tensor, Tensor]] = []
        self._again: Iterator[tuple[Tensor, Tensor]] | None = None

    def hold(self) -> None:
        """Let the calls so far decide all later ones."""
        self._again = cycle(self._known)

    def forward(self, x: State, y: State) -> State:
        total = State(x.signal + y.signal, x.auxiliary + y.auxiliary)
        if self._again is None:
            neurons = total.join()
            variance, mean = torch.var_mean(neurons, dim=0, correction=0)
            self._known.append((mean, torch.rsqrt(variance + EPSILON)))
            mean, scale = self._known[-1]
        else:
            mean, scale = next(self._again)
        gain, bias = self.norm.layout.split(self.norm.gain), self.norm.layout.split(self.norm.bias)
        return State(
            gain.signal * ((total.signal - mean) * scale) + bias.signal,
            gain.auxiliary * ((total.auxiliary - mean) * scale) + bias.auxiliary,
        )


@dataclass(frozen=True, eq=False)
class Held:
    """A network that keeps the attention weights and the norms of one window."""

    network: Transformer

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return the forecasts of any windows by the weights and norms of the one."""
        return self.network.roll_out(history, ahead)

    @property
    def encoder(self) -> list[HeldAttention]:
        """The attention of each encoder layer, with what it was asked."""
        layers = cast(Iterable[EncoderLayer], self.network.encoder)
        return [cast(HeldAttention, layer.attention) for layer in layers]

    @property
    def histories(self) -> list[HeldAttention]:
        """The attention of each decoder layer to the history, asked once for each step."""
        layers = cast(Iterable[DecoderLayer], self.network.decoder)
        return [cast(HeldAttention, layer.history) for layer in layers]


def hold(network: Transformer, history: State, ahead: State) -> Held:
    """Return the network with its attention weights and norms as they are for one window."""
    held = without_gradients(network)
    kept: list[HeldAttention | HeldNorm] = []
    for module in list(held.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Attention | AddNorm):
                kept.append(
                    HeldAttention(child) if isinstance(child, Attention) else HeldNorm(child)
                )
                setattr(module, name, kept[-1])
    with torch.no_grad():
        held.roll_out(history, ahead)
    for one in kept:
        one.hold()
    return Held(held)


def without_gradients(network: M) -> M:
    """Return a copy that computes with the same weights and asks for no gradient of them."""
    shared = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in network.parameters()}
    return deepcopy(network, memo=dict(shared))
