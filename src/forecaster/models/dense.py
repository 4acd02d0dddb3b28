"""The baseline Transformer: the same network, fully connected (section 3.2.4)."""

from collections.abc import Sequence
from functools import partial

from torch import Generator

from forecaster.config import LagConfig, ModelConfig
from forecaster.models.neurons import NeuronLayout
from forecaster.models.sparse_linear import DenseLinear
from forecaster.models.transformer import Transformer


def build_dense(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    generator: Generator,
    levels: Sequence[float] = (),
) -> Transformer:
    """Return the dense Transformer with fresh weights, as wide as Forecaster if no width is given.

    Differs from Forecaster in more than its weights: no neuron belongs to a location, so that
    there are no queries to balance (Eq. 10).
    """
    same = inputs.n_locations * config.per_location + config.auxiliary
    layout = NeuronLayout(0, 0, config.width or same, config.heads)
    linear = partial(DenseLinear, generator=generator)
    return Transformer(config, lags, inputs, layout, linear, levels)
