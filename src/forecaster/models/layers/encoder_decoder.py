"""Encoder and decoder layers: attention and feed-forward, each added to its input and normed."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from forecaster.kernels.norm import add_norm, norm_is_fused
from forecaster.models.layers.attention import Attention, Memory
from forecaster.models.layers.neurons import LinearFactory, NeuronLayout, State
from forecaster.models.layers.randomness import Dropout

EPSILON = 1e-5  # under the root of the variance


class EncoderLayer(nn.Module):
    """Every step of the history attends to all of them; then the feed-forward layer."""

    def __init__(self, layout: NeuronLayout, linear: LinearFactory, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(layout, linear, self_attention=True)
        self.feed_forward = FeedForward(layout, linear)
        self.norm_attention, self.norm_feed_forward = AddNorm(layout), AddNorm(layout)
        self.dropout = Dropout(dropout)  # of the residual branch, as in the original Transformer

    def forward(self, x: State) -> State:
        y: State = self.attention(x, self.attention.remember(x))
        x = self.norm_attention(x, y.each(self.dropout))
        y = self.feed_forward(x)
        z: State = self.norm_feed_forward(x, y.each(self.dropout))
        return z


class DecoderLayer(nn.Module):
    """Coming steps attend to those before them, then to the history; then the feed-forward."""

    def __init__(self, layout: NeuronLayout, linear: LinearFactory, dropout: float) -> None:
        super().__init__()
        self.own = Attention(layout, linear, self_attention=True)
        self.history = Attention(layout, linear)
        self.feed_forward = FeedForward(layout, linear)
        self.norm_own, self.norm_history = AddNorm(layout), AddNorm(layout)
        self.norm_feed_forward = AddNorm(layout)
        self.dropout = Dropout(dropout)

    def forward(self, x: State, history: Memory, earlier: Memory | None) -> tuple[State, Memory]:
        """The new states of the steps, and their memory for the steps after them."""
        memory = self.own.remember(x)
        memory = memory if earlier is None else earlier.followed_by(memory)
        y: State = self.own(x, memory, causal=True)
        x = self.norm_own(x, y.each(self.dropout))
        y = self.history(x, history)
        x = self.norm_history(x, y.each(self.dropout))
        y = self.feed_forward(x)
        return self.norm_feed_forward(x, y.each(self.dropout)), memory


class FeedForward(nn.Module):
    """W_2 max(W_1 x + b_1, 0) + b_2. Differs: the paper gives no inner width; here it is D."""

    def __init__(self, layout: NeuronLayout, linear: LinearFactory) -> None:
        super().__init__()
        self.inner = linear(layout, layout, relu=True)
        self.outer = linear(layout, layout)

    def forward(self, x: State) -> State:
        y: State = self.outer(self.inner(x))
        return y


class AddNorm(nn.Module):
    """LayerNorm(x + y): over all D neurons of a step, then a gain and a bias of each neuron."""

    def __init__(self, layout: NeuronLayout) -> None:
        super().__init__()
        self.layout = layout
        self.gain = nn.Parameter(torch.ones(layout.width, 1, 1))
        self.bias = nn.Parameter(torch.zeros(layout.width, 1, 1))

    def forward(self, x: State, y: State) -> State:
        if norm_is_fused(x.auxiliary):
            parts = (x.signal, x.auxiliary), (y.signal, y.auxiliary)
            return State(*add_norm(*parts, self.gain, self.bias, EPSILON))
        z = normalise(State(x.signal + y.signal, x.auxiliary + y.auxiliary))
        gain, bias = self.layout.split(self.gain), self.layout.split(self.bias)
        return State(
            torch.addcmul(bias.signal, gain.signal, z.signal),
            torch.addcmul(bias.auxiliary, gain.auxiliary, z.auxiliary),
        )


def normalise(x: State) -> State:
    """Return (x − mean) / √(variance + ε), both over all neurons of a step."""
    return State(*_Normalise.apply(x.signal, x.auxiliary))  # type: ignore[no-untyped-call]


class _Normalise(Function):
    """With a gradient of its own: that of autograd would read the state twice as often."""

    @staticmethod
    def forward(ctx: Any, *parts: Tensor) -> tuple[Tensor, ...]:
        mean = _mean(parts)
        z = [part - mean for part in parts]
        scale = torch.rsqrt(_mean([part.square() for part in z]) + EPSILON)
        z = [part.mul_(scale) for part in z]
        ctx.save_for_backward(scale, *z)
        return tuple(z)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        # ∂x = (∂z − mean(∂z) − z · mean(∂z · z)) · scale
        scale, *z = ctx.saved_tensors
        offset = -scale * _mean(grads)
        slope = -scale * _mean([grad * part for grad, part in zip(grads, z, strict=True)])
        return tuple(
            torch.addcmul(offset, part, slope).addcmul_(grad, scale)
            for grad, part in zip(grads, z, strict=True)
        )


def _mean(parts: Sequence[Tensor]) -> Float[Tensor, "B T"]:
    """The mean over the neurons of all parts."""
    neurons = [part.flatten(0, -3) for part in parts]
    total = torch.stack([part.sum(dim=0) for part in neurons]).sum(dim=0)
    return total / sum(len(part) for part in neurons)
