"""A network with attention weights and norm statistics frozen at those of one window.

Attention weights, norms and every `CrossLocationModule` let each location influence each
forecast. With these frozen, values reach a forecast along the edges of the graph only. The network
itself is not changed: a copy is.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle
from typing import Generic, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.models.layers.attention import Attention, Memory, attention_weights, mix
from forecaster.models.layers.encoder_decoder import EPSILON, AddNorm, DecoderLayer, EncoderLayer
from forecaster.models.layers.neurons import State
from forecaster.models.mixer.seasonal import DeviationNetwork
from forecaster.models.network import CrossLocationModule, Network
from forecaster.models.transformer import TransformerNetwork

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")


class CallReplay(Generic[T]):
    """Records the results of a module call by call in a first run, and replays them later."""

    def __init__(self) -> None:
        self.results: list[T] = []
        self._replayed: Iterator[T] | None = None

    def start(self) -> None:
        """Replay the recorded calls from now on."""
        self._replayed = cycle(self.results)

    def take(self, make: Callable[[], T]) -> T:
        """The result of this call, or of the same call in the first run."""
        if self._replayed is not None:
            return next(self._replayed)
        self.results.append(make())
        return self.results[-1]


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """The input, the values and the weights of one call of an attention."""

    x: State  # of the queries
    value: State  # W^V v_s of each step s
    weights: Float[Tensor, "H B T S"]


class FrozenAttention(nn.Module):
    """An attention that reuses the weights of the first run."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.replay = CallReplay[AttentionCall]()

    @property
    def calls(self) -> list[AttentionCall]:
        """The calls of the first run."""
        return self.replay.results

    def remember(self, source: State) -> Memory:
        """Keys and values for later calls."""
        return self.attention.remember(source)

    def forward(self, x: State, memory: Memory, *, causal: bool = False) -> State:
        inner, B = self.attention, x.auxiliary.shape[1]

        def attend() -> AttentionCall:
            weights = attention_weights(inner.layout, inner.query(x), memory.key, causal=causal)
            return AttentionCall(x, memory.value, weights)

        weights = self.replay.take(attend).weights.expand(-1, B, -1, -1)
        mixed: State = inner.output(memory.value.each(lambda value: mix(value, weights)))
        return mixed


class FrozenNorm(nn.Module):
    """A norm that reuses the mean and the scale of the first run."""

    def __init__(self, norm: AddNorm) -> None:
        super().__init__()
        self.norm = norm
        self.replay = CallReplay[tuple[Tensor, Tensor]]()

    def forward(self, x: State, y: State) -> State:
        total = State(x.signal + y.signal, x.auxiliary + y.auxiliary)

        def measure() -> tuple[Tensor, Tensor]:
            variance, mean = torch.var_mean(total.join(), dim=0, correction=0)
            return mean, torch.rsqrt(variance + EPSILON)

        mean, scale = self.replay.take(measure)
        gain, bias = self.norm.layout.split(self.norm.gain), self.norm.layout.split(self.norm.bias)
        return State(
            gain.signal * ((total.signal - mean) * scale) + bias.signal,
            gain.auxiliary * ((total.auxiliary - mean) * scale) + bias.auxiliary,
        )


class FrozenModule(nn.Module):
    """A cross-location module that reuses its outputs of the first run."""

    def __init__(self, part: CrossLocationModule) -> None:
        super().__init__()
        self.part = part
        self.replay = CallReplay[Tensor]()

    def forward(self, *inputs: Tensor) -> Tensor:
        output: Tensor = self.part(*inputs)
        return self.replay.take(lambda: output).expand_as(output)


@dataclass(frozen=True, eq=False)
class FrozenNetwork:
    """A network with its cross-location modules frozen at those of one window."""

    network: Network
    parts: int  # number of frozen modules

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """The forecasts of any windows with the frozen modules."""
        return self.network.roll_out(history, ahead)

    @property
    def _transformer(self) -> Network:
        """The network itself, or the one that it wraps."""
        return self.network.core if isinstance(self.network, DeviationNetwork) else self.network

    @property
    def attends(self) -> bool:
        """Whether there is attention to past steps."""
        return isinstance(self._transformer, TransformerNetwork)

    @property
    def encoder(self) -> list[FrozenAttention]:
        """The attention of each encoder layer of a Transformer, with its calls."""
        layers = cast(Iterable[EncoderLayer], self._transformer.encoder)
        return [cast(FrozenAttention, layer.attention) for layer in layers]

    @property
    def histories(self) -> list[FrozenAttention]:
        """The attention of each decoder layer to the history, called once for each step."""
        layers = cast(Iterable[DecoderLayer], self._transformer.decoder)
        return [cast(FrozenAttention, layer.history) for layer in layers]


def freeze(network: Network, history: State, ahead: State) -> FrozenNetwork:
    """Freeze attention weights, norms and cross-location modules at those of one window."""
    frozen = without_gradients(network)
    parts: list[FrozenAttention | FrozenNorm | FrozenModule] = []
    for module in list(frozen.modules()):
        for name, child in list(module.named_children()):
            part = _freeze(child)
            if part is not None:
                parts.append(part)
                setattr(module, name, part)
    with torch.no_grad():
        frozen.roll_out(history, ahead)
    for part in parts:
        part.replay.start()
    return FrozenNetwork(frozen, len(parts))


def _freeze(module: nn.Module) -> FrozenAttention | FrozenNorm | FrozenModule | None:
    """The frozen replacement of a module that sees all locations; None for others."""
    if isinstance(module, Attention):
        return FrozenAttention(module)
    if isinstance(module, AddNorm):
        return FrozenNorm(module)
    return FrozenModule(module) if isinstance(module, CrossLocationModule) else None


def without_gradients(network: M) -> M:
    """A copy that shares the weights and computes no gradient of them."""
    shared = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in network.parameters()}
    return deepcopy(network, memo=dict(shared))
