"""Multi-head attention over neurons of locations and of the auxiliary information (appendix)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from forecaster.models.layers.neurons import (
    LinearFactory,
    NeuronLayout,
    State,
    apply_jointly,
    split_heads,
)


@dataclass(frozen=True, eq=False)
class Memory:
    """The keys W^K k_j and values W^V v_j of S steps that can be attended to."""

    key: State
    value: State
    query: State | None = None  # W^Q of the last steps, for self-attention

    @property
    def steps(self) -> int:
        """The number of steps: S."""
        return self.key.signal.shape[-1]

    def followed_by(self, later: "Memory") -> "Memory":
        """These steps, followed by later ones."""
        key, value = _join(self.key, later.key), _join(self.value, later.value)
        return Memory(key, value, later.query)


class Attention(nn.Module):
    """e_t = W^O [e_t^(1) ‖ … ‖ e_t^(H)]: every step attends to every step of a memory.

    If a memory holds queries, they are those of x and are used as they are.
    Differs: e_t^(h) has D/H entries, as W^V_(h) gives; the paper prints D.
    """

    def __init__(
        self, layout: NeuronLayout, linear: LinearFactory, *, self_attention: bool = False
    ) -> None:
        """Build the layers.

        Args:
            layout: the neurons of all states.
            linear: builds a layer.
            self_attention: computes queries, keys and values of the same steps in one pass.
        """
        super().__init__()
        self.layout, self._with_query = layout, self_attention
        self.query = linear(layout, layout, bias=False)
        self.key = linear(layout, layout, bias=False)
        self.value = linear(layout, layout, bias=False)
        self.output = linear(layout, layout, bias=False)

    def remember(self, source: State) -> Memory:
        """Keys and values of steps, for later calls."""
        layers = [self.key, self.value, self.query] if self._with_query else [self.key, self.value]
        return Memory(*apply_jointly(layers, source))

    def forward(self, x: State, memory: Memory, *, causal: bool = False) -> State:
        query = self.query(x) if memory.query is None else memory.query
        weights = attention_weights(self.layout, query, memory.key, causal=causal)
        mixed: State = self.output(memory.value.each(lambda value: mix(value, weights)))
        return mixed


def query_balance(layout: NeuronLayout) -> tuple[float, float]:
    """The factors r of signal and auxiliary neurons (Eq. 10); 1 where one kind is absent."""
    d_signal, d_aux = layout.signal, layout.auxiliary
    if not d_signal or not d_aux:
        return 1.0, 1.0
    return math.sqrt(0.5 + d_aux / (2 * d_signal)), math.sqrt(0.5 + d_signal / (2 * d_aux))


def attention_weights(
    layout: NeuronLayout, query: State, key: State, *, causal: bool
) -> Float[Tensor, "H B T S"]:
    """Return α = softmax(⟨W^Q (r ∘ q_t), W^K k_j⟩ / √(D/H)) over the steps j (Eq. 9 and 10).

    W^Q has no weights between signal and auxiliary neurons (and r = 1 where it has), so that r may
    scale each part's inner products instead of its queries, which are far more numbers.
    """
    H = layout.heads
    r_signal, r_aux = (r / math.sqrt(layout.width / H) for r in query_balance(layout))
    similarity = r_signal * compare(query.signal, key.signal, H)
    similarity = similarity + r_aux * compare(query.auxiliary, key.auxiliary, H)
    if causal:
        T, S = similarity.shape[2:]
        later = torch.ones(T, S, dtype=torch.bool, device=similarity.device).triu(S - T + 1)
        similarity = similarity.masked_fill(later, -math.inf)
    return similarity.softmax(dim=-1)


def compare(
    query: Float[Tensor, "*neurons B T"], key: Float[Tensor, "*neurons B S"], heads: int
) -> Float[Tensor, "H B T S"]:
    """Return ⟨q_t, k_s⟩ over the neurons of each head."""
    return _Compare.apply(query, key, heads)  # type: ignore[no-any-return, no-untyped-call]


def mix(
    value: Float[Tensor, "*neurons B S"], weights: Float[Tensor, "H B T S"]
) -> Float[Tensor, "*neurons B T"]:
    """Return e_t = Σ_s α_ts v_s, each head's neurons by its own weights (Eq. 11)."""
    return _Mix.apply(value, weights)  # type: ignore[no-any-return, no-untyped-call]


# The products read and write every H-th neuron in place, which autograd would copy, and all heads
# and windows in one launch; each is the other's gradient.


class _Compare(Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, heads: int) -> Tensor:
        ctx.save_for_backward(query, key)
        (B, T), S = query.shape[-2:], key.shape[-1]
        similarity = torch.bmm(_matrices(query, heads).mT, _matrices(key, heads))
        return similarity.view(heads, B, T, S)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        query, key = ctx.saved_tensors
        return mix(key, grads[0]), mix(query, grads[0].mT), None


class _Mix(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(value, weights)
        H, _, T, _ = weights.shape
        mixed = value.new_empty(*value.shape[:-1], T)
        torch.bmm(_matrices(value, H), weights.flatten(0, 1).mT, out=_matrices(mixed, H))
        return mixed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        value, weights = ctx.saved_tensors
        grad = grads[0].contiguous()
        return mix(grad, weights.mT), compare(grad, value, len(weights))


def _matrices(neurons: Float[Tensor, "*neurons B T"], heads: int) -> Float[Tensor, "HB n T"]:
    """A view of the neurons as one matrix for each head of each window."""
    matrices = split_heads(neurons, heads)
    return matrices.view(matrices.shape[:2].numel(), *matrices.shape[2:])


def _join(earlier: State, later: State) -> State:
    """The steps of both states, one after the other."""
    return State(
        torch.cat([earlier.signal, later.signal], dim=-1),
        torch.cat([earlier.auxiliary, later.auxiliary], dim=-1),
    )
