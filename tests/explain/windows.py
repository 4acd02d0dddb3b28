"""A small Transformer and one window of it, in double precision."""

import numpy as np
import torch

from forecaster.config import LagConfig, ModelConfig, Season
from forecaster.explain.attribution import Window
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.transformer import (
    TransformerNetwork,
    build_dense_transformer,
    build_forecaster,
)

LAGS = LagConfig(recent=4, seasons=(Season(days=1, count=1, before=0, after=2),), horizon=3)
L, K, CHANNELS, AUXILIARY = 7, 3, 2, 5


def make_window(
    pairs: np.ndarray | None, n_locations: int, location: int, n_layers: int = 1, seed: int = 0
) -> Window:
    """Return a window of random numbers and the network of a graph; without one, the dense one."""
    generator = torch.Generator().manual_seed(seed)
    config = ModelConfig(per_location=4, auxiliary=6, heads=2, n_layers=n_layers)
    inputs = NeuronLayout(n_locations, CHANNELS, AUXILIARY)
    network: TransformerNetwork
    if pairs is None:
        network = build_dense_transformer(config, LAGS, inputs, generator)
    else:
        pattern = BlockPattern.from_pairs(n_locations, pairs)
        network = build_forecaster(config, LAGS, inputs, pattern, generator)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    past = draw(AUXILIARY, 1, L)
    return Window(
        network=network.double(),
        history=State(draw(n_locations, CHANNELS, 1, L), past),
        ahead=State(draw(n_locations, CHANNELS - 1, 1, K), draw(AUXILIARY, 1, K)),
        baseline=State(draw(n_locations, CHANNELS, 1, L), past),
        location=location,
        scale=1.0,
    )


def path(n_locations: int) -> np.ndarray:
    """Return the edges of a row of locations."""
    return np.stack([np.arange(n_locations - 1), np.arange(1, n_locations)], axis=1)
