import numpy as np
import pytest
import torch

from forecaster.explain.attention import attention_rollout, attention_shares, contribution_norms
from forecaster.explain.attribution import Window
from forecaster.models.frozen import AttentionCall, FrozenAttention
from forecaster.models.layers.attention import mix
from tests.explain.windows import K, L, make_window, path


@pytest.fixture(params=["forecaster", "dense", "two layers"])
def window(request: pytest.FixtureRequest) -> Window:
    pairs = None if request.param == "dense" else path(5)
    return make_window(pairs, 5, location=3, n_layers=2 if request.param == "two layers" else 1)


def attend(attention: FrozenAttention, call: AttentionCall, step: int | None) -> torch.Tensor:
    """Return what an attention adds at location 3 of the values of one step, or of all of them."""
    keep = torch.ones(L, dtype=torch.float64) if step is None else torch.eye(L)[step].double()
    value = call.value.each(lambda part: part * keep)
    y = attention.attention.output(value.each(lambda part: mix(part, call.weights)))
    return (y.signal[3] if len(y.signal) else y.auxiliary)[:, 0]  # [n, T]


def test_sizes_are_those_of_what_each_step_adds(window: Window) -> None:
    attention = window.frozen.encoder[0]
    (call,) = attention.calls
    each = torch.stack([attend(attention, call, s) for s in range(L)], dim=2)  # [n, T, S]
    torch.testing.assert_close(each.sum(dim=2), attend(attention, call, None))  # it is exact
    assert contribution_norms(attention, call, 3) == pytest.approx(
        each.norm(dim=0).detach().numpy()
    )


def test_shares_of_all_steps_are_one(window: Window) -> None:
    for shares in (attention_shares(window.frozen, 3), attention_rollout(window.frozen, 3)):
        assert shares.shape == (K, L)
        assert (shares >= 0).all()
        assert shares.sum(axis=1) == pytest.approx(np.ones(K))


def test_an_encoder_that_adds_nothing_moves_no_share(window: Window) -> None:
    with torch.no_grad():
        for name, weight in window.network.named_parameters():
            if name.startswith("encoder.") and ".attention.output" in name:
                weight.zero_()
    shares = attention_shares(window.frozen, 3)
    assert attention_rollout(window.frozen, 3) == pytest.approx(shares)


def test_an_encoder_that_mixes_does(window: Window) -> None:
    assert not np.allclose(attention_rollout(window.frozen, 3), attention_shares(window.frozen, 3))


def test_a_step_with_zero_values_has_no_share() -> None:
    window = make_window(path(5), 5, location=3)
    attention, (call, *_) = window.frozen.histories[0], window.frozen.histories[0].calls
    blank = torch.ones(L, dtype=torch.float64)
    blank[2] = 0
    quiet = AttentionCall(call.x, call.value.each(lambda part: part * blank),
                  call.weights)  # fmt: skip
    sizes = contribution_norms(attention, quiet, 3)
    assert sizes[0, 2] == 0
    assert (np.delete(sizes[0], 2) > 0).all()
