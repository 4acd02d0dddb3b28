"""A network in which what sees every location at once is held: values alone travel.

Attention weights and norms, and whatever else a network marks as city-wide, let every location
have a say in every forecast. With these held a forecast is reached along the graph's edges alone.
The network itself is not touched: a copy of it is.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle
from typing import Generic, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.models.attention import Attention, Memory, attention_weights, mix
from forecaster.models.layers import EPSILON, AddNorm, DecoderLayer, EncoderLayer
from forecaster.models.network import CrossLocationModule, Network
from forecaster.models.neurons import State
from forecaster.models.seasonal import DeviationNetwork
from forecaster.models.transformer import TransformerNetwork

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")


class Replay(Generic[T]):
    """What a part made call by call in its network's first run, and gives again in later ones."""

    def __init__(self) -> None:
        self.kept: list[T] = []
        self._again: Iterator[T] | None = None

    def start(self) -> None:
        """Let the calls so far decide all later ones."""
        self._again = cycle(self.kept)

    def take(self, make: Callable[[], T]) -> T:
        """Return what this call makes, or has made in the first run."""
        if self._again is not None:
            return next(self._again)
        self.kept.append(make())
        return self.kept[-1]


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What one call of an attention mixed: its values and their weights."""

    x: State  # that asked
    value: State  # W^V v_s of each step s
    weights: Float[Tensor, "H B T S"]


class FrozenAttention(nn.Module):
    """An attention that later runs of its network find with the weights of the first one."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.tape = Replay[AttentionCall]()

    @property
    def asked(self) -> list[AttentionCall]:
        """The calls of the first run."""
        return self.tape.kept

    def remember(self, source: State) -> Memory:
        """Return what later calls can attend to."""
        return self.attention.remember(source)

    def forward(self, x: State, memory: Memory, *, causal: bool = False) -> State:
        own, B = self.attention, x.auxiliary.shape[1]

        def attend() -> AttentionCall:
            weights = attention_weights(own.layout, own.query(x), memory.key, causal=causal)
            return AttentionCall(x, memory.value, weights)

        weights = self.tape.take(attend).weights.expand(-1, B, -1, -1)
        answer: State = own.output(memory.value.each(lambda value: mix(value, weights)))
        return answer


class FrozenNorm(nn.Module):
    """A norm that later runs of its network find with the mean and the scale of the first one."""

    def __init__(self, norm: AddNorm) -> None:
        super().__init__()
        self.norm = norm
        self.tape = Replay[tuple[Tensor, Tensor]]()

    def forward(self, x: State, y: State) -> State:
        total = State(x.signal + y.signal, x.auxiliary + y.auxiliary)

        def measure() -> tuple[Tensor, Tensor]:
            variance, mean = torch.var_mean(total.join(), dim=0, correction=0)
            return mean, torch.rsqrt(variance + EPSILON)

        mean, scale = self.tape.take(measure)
        gain, bias = self.norm.layout.split(self.norm.gain), self.norm.layout.split(self.norm.bias)
        return State(
            gain.signal * ((total.signal - mean) * scale) + bias.signal,
            gain.auxiliary * ((total.auxiliary - mean) * scale) + bias.auxiliary,
        )


class FrozenModule(nn.Module):
    """A city-wide part that later runs of its network find with the answers of the first one."""

    def __init__(self, part: CrossLocationModule) -> None:
        super().__init__()
        self.part = part
        self.tape = Replay[Tensor]()

    def forward(self, *inputs: Tensor) -> Tensor:
        answer: Tensor = self.part(*inputs)
        return self.tape.take(lambda: answer).expand_as(answer)


@dataclass(frozen=True, eq=False)
class FrozenNetwork:
    """A network in which what sees every location is as it is for one window."""

    network: Network
    parts: int  # that are held; none: every value travels along the same path

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return the forecasts of any windows by what is held of the one."""
        return self.network.roll_out(history, ahead)

    @property
    def _transformer(self) -> Network:
        """The network itself, or that which forecasts deviations for it."""
        return self.network.core if isinstance(self.network, DeviationNetwork) else self.network

    @property
    def attends(self) -> bool:
        """Whether there is attention to past steps."""
        return isinstance(self._transformer, TransformerNetwork)

    @property
    def encoder(self) -> list[FrozenAttention]:
        """The attention of each encoder layer of a Transformer, with what it was asked."""
        layers = cast(Iterable[EncoderLayer], self._transformer.encoder)
        return [cast(FrozenAttention, layer.attention) for layer in layers]

    @property
    def histories(self) -> list[FrozenAttention]:
        """The attention of each decoder layer to the history, asked once for each step."""
        layers = cast(Iterable[DecoderLayer], self._transformer.decoder)
        return [cast(FrozenAttention, layer.history) for layer in layers]


def freeze(network: Network, history: State, ahead: State) -> FrozenNetwork:
    """Return the network with what sees every location as it is for one window."""
    held = without_gradients(network)
    parts: list[FrozenAttention | FrozenNorm | FrozenModule] = []
    for module in list(held.modules()):
        for name, child in list(module.named_children()):
            part = _freeze(child)
            if part is not None:
                parts.append(part)
                setattr(module, name, part)
    with torch.no_grad():
        held.roll_out(history, ahead)
    for part in parts:
        part.tape.start()
    return FrozenNetwork(held, len(parts))


def _freeze(module: nn.Module) -> FrozenAttention | FrozenNorm | FrozenModule | None:
    """Return what a module that sees every location is replaced by; None: it does not."""
    if isinstance(module, Attention):
        return FrozenAttention(module)
    if isinstance(module, AddNorm):
        return FrozenNorm(module)
    return FrozenModule(module) if isinstance(module, CrossLocationModule) else None


def without_gradients(network: M) -> M:
    """Return a copy that computes with the same weights and asks for no gradient of them."""
    shared = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in network.parameters()}
    return deepcopy(network, memo=dict(shared))
