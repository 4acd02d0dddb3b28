"""Forecaster: the Transformer whose linear layers are pruned by the dependency graph."""

from collections.abc import Sequence
from functools import partial

from torch import Generator

from forecaster.config import LagConfig, ModelConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.neurons import NeuronLayout
from forecaster.models.sparse_linear import SparseLinear
from forecaster.models.transformer import Transformer


def build_forecaster(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    generator: Generator,
    levels: Sequence[float] = (),
) -> Transformer:
    """Return the graph Transformer of section 2.4 with fresh weights.

    Args:
        config: neurons, heads and layers; as it comes, the paper's.
        lags: how many steps are seen and forecast.
        inputs: the neurons of a step: 1 + Q of each location, P auxiliary ones.
        pattern: which locations depend on each other.
        generator: what the weights are drawn from.
        levels: of the quantiles beside the forecast.
    """
    layout = NeuronLayout(inputs.n_locations, config.per_location, config.auxiliary, config.heads)
    linear = partial(SparseLinear, pattern=pattern, generator=generator)
    return Transformer(config, lags, inputs, layout, linear, levels)
