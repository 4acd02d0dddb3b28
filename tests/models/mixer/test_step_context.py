from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import gelu

from forecaster.config import LagConfig, MixerConfig, Season
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.mixer.mixer import Mixer, MixerPrerequisites
from forecaster.models.mixer.seasonal import SeasonalProfile
from forecaster.models.mixer.step_context import LONG_HORIZON, StepContext
from forecaster.models.network import Heads

Draw = Callable[..., Tensor]
N, B, H, A, K = 7, 5, 11, 3, 13


@pytest.fixture
def context(generator: Generator) -> StepContext:
    """Return a context in which nothing is zero."""
    module = StepContext(H, A, K, generator).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return module


def test_the_context_is_the_equation_of_its_docstring(context: StepContext, draw: Draw) -> None:
    z, a = draw(N, B, H), draw(A, B, K)
    effect = context(z, a)
    assert effect.shape == (N, B, K)
    for k in range(K):
        e = context.outer @ gelu(context.inner @ a[:, 2, k] + context.step[k])
        torch.testing.assert_close(effect[4, 2, k], (context.interest @ z[4, 2]) @ e)


def test_the_covariates_of_a_step_act_on_that_step_only(context: StepContext, draw: Draw) -> None:
    z, a = draw(N, B, H), draw(A, B, K).requires_grad_()
    context(z, a)[:, :, 5].sum().backward()
    assert a.grad is not None
    assert a.grad.abs().sum(dim=(0, 1)).nonzero().flatten().tolist() == [5]


def test_training_starts_without_effect_and_can_learn_one(generator: Generator) -> None:
    module = StepContext(H, A, K, generator)
    effect = module(torch.randn(N, B, H), torch.randn(A, B, K))
    assert not effect.any()
    effect.sum().backward()
    assert module.interest.grad is not None
    assert module.interest.grad.any()


def draw_network(
    horizon: int, pattern: BlockPattern, generator: Generator, draw: Draw, heads: Heads
) -> Mixer:
    """Return a network for a horizon."""
    lags = LagConfig(recent=4, seasons=(Season(days=1, count=1),), horizon=horizon)
    profile = SeasonalProfile(
        9 + draw(N, 168).tanh(), 9 + draw(N).tanh(), 1 + draw(N) ** 2, counts=True, recent=4
    )
    fitted = MixerPrerequisites(profile, pattern)
    config = MixerConfig(dropout=0)
    return Mixer(config, lags, NeuronLayout(N, 1, 35), fitted, generator, heads)


@pytest.mark.parametrize("horizon", [LONG_HORIZON, LONG_HORIZON + 1])
def test_only_a_long_horizon_has_a_context(
    horizon: int, pattern: BlockPattern, generator: Generator, draw: Draw
) -> None:
    network = draw_network(horizon, pattern, generator, draw, Heads(relative=True))
    names = {name.split(".")[0] for name, _ in network.named_parameters()}
    contexts = {"context", "relative_context"}
    assert names & contexts == (contexts if horizon > LONG_HORIZON else set())


@pytest.mark.parametrize("horizon", [LONG_HORIZON, LONG_HORIZON + 1])
def test_quantiles_of_a_long_horizon_learn_from_a_quarter_of_the_windows(
    horizon: int, pattern: BlockPattern, generator: Generator, draw: Draw
) -> None:
    network = draw_network(horizon, pattern, generator, draw, Heads((0.1, 0.9))).double()
    slots = torch.arange(B)[:, None]
    history = State(
        draw(N, 1, B, network.L),
        draw(35, B, network.L),
        slots + torch.zeros(network.L, dtype=torch.int64),
    )
    ahead = State(draw(N, 0, B, horizon), draw(35, B, horizon), slots + torch.arange(horizon))
    whole = network.eval()(history, ahead).quantiles
    assert whole.shape == (N, 2, B, horizon)
    learned = network.train()(history, ahead).quantiles
    windows = 2 if horizon > LONG_HORIZON else B  # a quarter of five, rounded up
    torch.testing.assert_close(learned, whole[:, :, :windows])
