"""A city of seven locations, and a Transformer small enough to be looked at number by number."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from forecaster.config import LagConfig, ModelConfig, Season
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers import attention, encoder_decoder
from forecaster.models.layers.neurons import NeuronLayout, State

# N = 7 locations, 1 + Q = 3 values of each, P = 11 auxiliary values; C = 4 and A = 6 neurons for
# H = 2 heads; B = 5 windows of L = 13 past and K = 3 coming steps.
PAIRS = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (0, 5)])  # location 6 has no neighbour
WINDOWS = 5


@pytest.fixture(autouse=True)
def _small_sums(one_thread: None) -> None:
    """Compute with one thread in all of these tests."""


@pytest.fixture
def pattern() -> BlockPattern:
    return BlockPattern.from_pairs(7, PAIRS)


@pytest.fixture
def inputs() -> NeuronLayout:
    return NeuronLayout(7, 3, 11)


@pytest.fixture
def lags() -> LagConfig:
    return LagConfig(recent=4, seasons=(Season(days=1, count=3, before=1, after=1),), horizon=3)


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(per_location=4, auxiliary=6, heads=2)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20)


@pytest.fixture
def draw(generator: torch.Generator) -> Callable[..., torch.Tensor]:
    """Return a function that draws normal numbers of a shape, in double precision."""
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.fixture
def states(draw: Callable[..., torch.Tensor]) -> Callable[[NeuronLayout, int], State]:
    """Return a function that draws a state of a layout with some steps."""

    def make(layout: NeuronLayout, steps: int) -> State:
        signal = draw(layout.n_locations, layout.per_location, WINDOWS, steps)
        return State(signal, draw(layout.auxiliary, WINDOWS, steps))

    return make


@pytest.fixture
def network_inputs(states: Callable[[NeuronLayout, int], State]) -> tuple[State, State]:
    """Return a history of 13 steps and what is known of the 3 that come."""
    return states(NeuronLayout(7, 3, 11), 13), states(NeuronLayout(7, 2, 11), 3)


@pytest.fixture
def hold_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no gradient through attention weights and through the norm's mean and variance."""
    weights = attention.attention_weights

    def held_norm(x: State) -> State:
        whole = x.join().detach()
        mean, deviation = whole.mean(dim=0), whole.var(dim=0, correction=0).sqrt()
        return x.each(lambda part: (part - mean) / deviation)

    monkeypatch.setattr(encoder_decoder, "normalise", held_norm)
    monkeypatch.setattr(
        attention, "attention_weights", lambda *given, **mask: weights(*given, **mask).detach()
    )
