import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.attention import (
    Attention,
    Memory,
    attention_weights,
    compare,
    mix,
    query_balance,
)
from forecaster.models.layers.linear import DenseLinear, SparseLinear
from forecaster.models.layers.neurons import NeuronLayout, State

Draw = Callable[..., Tensor]
States = Callable[[NeuronLayout, int], State]
LAYOUT = NeuronLayout(7, 4, 6, heads=2)


@pytest.fixture
def attention(pattern: BlockPattern, generator: torch.Generator) -> Attention:
    linear = partial(SparseLinear, pattern=pattern, generator=generator)
    return Attention(LAYOUT, linear).double()


def flat(state: State, window: int, step: int) -> list[float]:
    """Return the neurons of one step in their order: q_t as the appendix has it."""
    return state.join()[:, window, step].tolist()


def as_matrix(layer: SparseLinear) -> list[list[float]]:
    """Return the whole of W, pruned entries as zeros, column by column."""
    columns = torch.eye(LAYOUT.width, dtype=torch.float64)[..., None]  # one window for each
    return layer(LAYOUT.split(columns)).join()[..., 0].tolist()


def times(matrix: list[list[float]], vector: list[float]) -> list[float]:
    return [sum(w * x for w, x in zip(row, vector, strict=True)) for row in matrix]


def inner(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def by_the_appendix(
    attention: Attention, query: list[list[float]], source: list[list[float]]
) -> list[list[float]]:
    """Return e_t by Eq. 9 to 12, one number at a time, with k = v = source."""
    D, H, d_signal, d_aux = 34, 2, 28, 6
    W_Q, W_K = as_matrix(attention.query), as_matrix(attention.key)
    W_V, W_O = as_matrix(attention.value), as_matrix(attention.output)
    r = [math.sqrt(1 / 2 + d_aux / (2 * d_signal))] * d_signal
    r += [math.sqrt(1 / 2 + d_signal / (2 * d_aux))] * d_aux
    heads = [range(h, D, H) for h in range(H)]  # rows of W that make W_(h)
    keys, values = [times(W_K, k) for k in source], [times(W_V, v) for v in source]
    e = []
    for q in query:
        balanced = times(W_Q, [a * b for a, b in zip(r, q, strict=True)])
        joined = [0.0] * D
        for rows in heads:
            asked = [balanced[row] for row in rows]
            alike = [inner(asked, [key[row] for row in rows]) for key in keys]
            power = [math.exp(similarity / math.sqrt(D / H)) for similarity in alike]
            for row in rows:
                joined[row] = inner(power, [value[row] for value in values]) / sum(power)
        e.append(times(W_O, joined))
    return e


def test_attention_is_what_the_appendix_prints(attention: Attention, states: States) -> None:
    x, source = states(LAYOUT, 2), states(LAYOUT, 3)
    y = attention(x, attention.remember(source))
    for window in range(5):
        query = [flat(x, window, t) for t in range(2)]
        expected = by_the_appendix(attention, query, [flat(source, window, s) for s in range(3)])
        for t in range(2):
            assert flat(y, window, t) == pytest.approx(expected[t], rel=1e-12, abs=1e-12)


def test_an_answer_has_the_shape_of_its_question(attention: Attention, states: States) -> None:
    y = attention(states(LAYOUT, 2), attention.remember(states(LAYOUT, 13)))
    assert y.signal.shape == (7, 4, 5, 2)
    assert y.auxiliary.shape == (6, 5, 2)


def test_queries_keys_values_and_outputs_have_no_bias(attention: Attention) -> None:
    assert sum(p.numel() for p in attention.parameters()) == 4 * (17 * 4 * 4 + 6 * 6)


# ------------------------------------------------------------------------------ query balance


def test_the_balance_weighs_signal_and_auxiliary_alike() -> None:
    r_signal, r_aux = query_balance(NeuronLayout(996, 4, 64))
    assert r_signal**2 == pytest.approx(253 / 498)  # 1/2 + 64 / (2 · 3984)
    assert r_aux**2 == pytest.approx(31.625)  # 1/2 + 3984 / (2 · 64)
    assert r_signal**2 * 3984 == pytest.approx(r_aux**2 * 64)


@pytest.mark.parametrize("layout", [NeuronLayout(0, 0, 12), NeuronLayout(7, 4, 0)])
def test_one_kind_of_neurons_has_nothing_to_balance(layout: NeuronLayout) -> None:
    assert query_balance(layout) == (1.0, 1.0)


def test_without_locations_attention_is_torchs_own(
    generator: torch.Generator, states: States
) -> None:
    layout = NeuronLayout(0, 0, 6, heads=2)
    attention = Attention(layout, partial(DenseLinear, generator=generator)).double()
    x, source = states(layout, 3), states(layout, 13)
    theirs = torch.nn.MultiheadAttention(6, 2, bias=False, batch_first=True).double()
    order = torch.arange(6).view(3, 2).T.flatten()  # theirs: heads are runs of neighbours
    with torch.no_grad():
        rows = [layer.weight[order] for layer in (attention.query, attention.key)]
        theirs.in_proj_weight.copy_(torch.cat([*rows, attention.value.weight[order]]))
        theirs.out_proj.weight.copy_(attention.output.weight[:, order])
    q, k = x.auxiliary.permute(1, 2, 0), source.auxiliary.permute(1, 2, 0)
    expected = theirs(q, k, k, need_weights=False)[0]
    y = attention(x, attention.remember(source))
    torch.testing.assert_close(y.auxiliary.permute(1, 2, 0), expected)


# --------------------------------------------------------------------------- mask and memory


def test_weights_are_shares_and_later_steps_get_none(states: States) -> None:
    query, key = states(LAYOUT, 3), states(LAYOUT, 3)
    weights = attention_weights(LAYOUT, query, key, causal=True)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 5, 3, dtype=torch.float64))
    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    assert (weights[..., later] == 0).all()
    assert (weights[..., ~later] > 0).all()


def test_steps_that_come_one_by_one_see_what_all_at_once_see(
    attention: Attention, states: States
) -> None:
    x = states(LAYOUT, 3)
    whole = attention(x, attention.remember(x), causal=True)
    memory: Memory | None = None
    for t in range(3):
        step = x.each(lambda part: part[..., t : t + 1].contiguous())  # noqa: B023
        new = attention.remember(step)
        memory = new if memory is None else memory.followed_by(new)
        assert memory.steps == t + 1
        y = attention(step, memory, causal=True)
        torch.testing.assert_close(y.signal[..., 0], whole.signal[..., t])
        torch.testing.assert_close(y.auxiliary[..., 0], whole.auxiliary[..., t])


def test_steps_that_ask_themselves_get_the_same_answers_and_gradients(
    pattern: BlockPattern, generator: torch.Generator, states: States
) -> None:
    linear = partial(SparseLinear, pattern=pattern, generator=generator)
    own = Attention(LAYOUT, linear, self_attention=True).double()
    other = Attention(LAYOUT, linear).double()
    other.load_state_dict(own.state_dict())
    x = states(LAYOUT, 3)
    assert own.remember(x).query is not None
    assert other.remember(x).query is None
    actual, expected = (one(x, one.remember(x), causal=True) for one in (own, other))
    torch.testing.assert_close(actual.join(), expected.join())
    actual.join().square().sum().backward()
    expected.join().square().sum().backward()
    for a, b in zip(own.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_a_step_after_others_asks_with_its_own_queries(
    pattern: BlockPattern, generator: torch.Generator, states: States
) -> None:
    linear = partial(SparseLinear, pattern=pattern, generator=generator)
    attention = Attention(LAYOUT, linear, self_attention=True).double()
    earlier, x = states(LAYOUT, 2), states(LAYOUT, 1)
    memory = attention.remember(earlier).followed_by(attention.remember(x))
    assert memory.query is not None
    torch.testing.assert_close(memory.query.join(), attention.query(x).join())


# ------------------------------------------------------------------------------ the products


def test_the_products_are_sums_over_neurons_and_over_steps(draw: Draw) -> None:
    q, k = draw(7, 4, 5, 3), draw(7, 4, 5, 13)
    by_head = [part.view(14, 2, 5, -1) for part in (q, k)]
    expected = torch.einsum("nhbt,nhbs->hbts", *by_head)
    torch.testing.assert_close(compare(q, k, 2), expected)
    weights = draw(2, 5, 3, 13)
    expected = torch.einsum("nhbs,hbts->nhbt", by_head[1], weights)
    mixed = mix(k, weights)
    torch.testing.assert_close(mixed, expected.reshape(7, 4, 5, 3))
    assert mixed.is_contiguous()


def test_gradients_of_the_products_are_those_of_differences(draw: Draw) -> None:
    q, k, weights = draw(3, 4, 5, 2), draw(3, 4, 5, 3), draw(2, 5, 2, 3)
    for tensor in (q, k, weights):
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: compare(a, b, 2), (q, k))
    assert torch.autograd.gradcheck(mix, (k, weights))
    assert torch.autograd.gradgradcheck(mix, (k, weights))


def test_gradients_of_attention_are_those_of_differences(attention: Attention, draw: Draw) -> None:
    x = [draw(7, 4, 1, 2).requires_grad_(), draw(6, 1, 2).requires_grad_()]

    def run(signal: Tensor, auxiliary: Tensor) -> tuple[Tensor, Tensor]:
        state = State(signal, auxiliary)
        y = attention(state, attention.remember(state), causal=True)
        return y.signal, y.auxiliary

    assert torch.autograd.gradcheck(run, x, fast_mode=True)
