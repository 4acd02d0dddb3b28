import numpy as np
import pytest
import torch

from forecaster.explain.attention import attended, norms, rolled_through
from forecaster.explain.attribution import Window
from forecaster.models.attention import mix
from forecaster.models.frozen import AttentionCall, FrozenAttention
from forecaster.models.neurons import State
from tests.explain.windows import K, L, make_window, path


@pytest.fixture(params=["forecaster", "dense", "two layers"])
def window(request: pytest.FixtureRequest) -> Window:
    pairs = None if request.param == "dense" else path(5)
    return make_window(pairs, 5, location=3, n_layers=2 if request.param == "two layers" else 1)


def answer(attention: FrozenAttention, asked: AttentionCall, step: int | None) -> torch.Tensor:
    """Return what an attention adds at location 3 of the values of one step, or of all of them."""
    keep = torch.ones(L, dtype=torch.float64) if step is None else torch.eye(L)[step].double()
    value = asked.value.each(lambda part: part * keep)
    y = attention.attention.output(value.each(lambda part: mix(part, asked.weights)))
    return (y.signal[3] if len(y.signal) else y.auxiliary)[:, 0]  # [n, T]


def test_sizes_are_those_of_what_each_step_adds(window: Window) -> None:
    attention = window.held.encoder[0]
    (asked,) = attention.asked
    each = torch.stack([answer(attention, asked, s) for s in range(L)], dim=2)  # [n, T, S]
    torch.testing.assert_close(each.sum(dim=2), answer(attention, asked, None))  # it is exact
    assert norms(attention, asked, 3) == pytest.approx(each.norm(dim=0).detach().numpy())


def test_shares_of_all_steps_are_one(window: Window) -> None:
    for shares in (attended(window.held, 3), rolled_through(window.held, 3)):
        assert shares.shape == (K, L)
        assert (shares >= 0).all()
        assert shares.sum(axis=1) == pytest.approx(np.ones(K))


def test_an_encoder_that_adds_nothing_moves_no_share(window: Window) -> None:
    with torch.no_grad():
        for name, weight in window.network.named_parameters():
            if name.startswith("encoder.") and ".attention.output" in name:
                weight.zero_()
    shares = attended(window.held, 3)
    assert rolled_through(window.held, 3) == pytest.approx(shares)


def test_an_encoder_that_mixes_does(window: Window) -> None:
    assert not np.allclose(rolled_through(window.held, 3), attended(window.held, 3))


def test_a_step_whose_values_are_nothing_has_no_share() -> None:
    window = make_window(path(5), 5, location=3)
    attention, (asked, *_) = window.held.histories[0], window.held.histories[0].asked
    blank = torch.ones(L, dtype=torch.float64)
    blank[2] = 0
    quiet = AttentionCall(asked.x, State(*(part * blank for part in vars(asked.value).values())),
                  asked.weights)  # fmt: skip
    sizes = norms(attention, quiet, 3)
    assert sizes[0, 2] == 0
    assert (np.delete(sizes[0], 2) > 0).all()
