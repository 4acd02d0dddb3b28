from torch import Generator

from forecaster.config import ModelConfig
from forecaster.estimators.networks.transformer import Transformer
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.recipe import Recipe

INPUTS = NeuronLayout(7, 3, 11)


def width_of(recipe: Recipe) -> int:
    network = Transformer(recipe).build(INPUTS, {}, Generator())
    return len(network.state_dict()["encoder.0.norm_attention.gain"])


def test_it_is_as_wide_as_the_recipe_says() -> None:
    assert width_of(Recipe(model=ModelConfig(width=24))) == 24


def test_without_a_width_it_is_as_wide_as_forecaster() -> None:
    assert width_of(Recipe()) == 7 * 4 + 64


def test_its_network_has_at_least_the_weights_that_a_run_must_hold() -> None:
    for model in (ModelConfig(), ModelConfig(width=20, n_layers=3)):
        estimator = Transformer(Recipe(model=model))
        network = estimator.build(INPUTS, {}, Generator())
        held = sum(tensor.numel() for tensor in network.state_dict().values())
        least = estimator.size(INPUTS, {})
        assert least <= held < 3 * least
