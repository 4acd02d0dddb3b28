"""The dense Transformer as an estimator: the baseline of section 3.2.4."""

from torch import Generator

from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.estimator import LINEARS, NetworkEstimator, levels_of
from forecaster.estimators.networks.level import learn_level, level_of, level_shapes
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.models.network import Network
from forecaster.models.neurons import NeuronLayout
from forecaster.models.seasonal import DeviationNetwork
from forecaster.models.transformer import build_dense_transformer


class Transformer(NetworkEstimator):
    """The dense Transformer: the network of the paper without a graph (baseline).

    `model.width` of the recipe sets its width; without it, that of `Forecaster`.
    """

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the scales and of what is usual."""
        return {
            **super().shapes(sizes),
            **(level_shapes(sizes) if self.recipe.model.level else {}),
        }

    def prerequisites(self, data: TrainingData) -> FitResult:
        """Return what is usual, if deviations from it are forecast."""
        return FitResult(learn_level(data) if self.recipe.model.level else {})

    def build(self, layout: NeuronLayout, known: Arrays, generator: Generator) -> Network:
        """Return the network with fresh weights."""
        model, lags, levels = self.recipe.model, self.recipe.lags, levels_of(known)
        network = build_dense_transformer(model, lags, layout, generator, levels)
        return DeviationNetwork(network, level_of(known)) if model.level else network

    def size(self, layout: NeuronLayout, known: Arrays) -> int:
        """Return how many weights the layers between two states have: D² each."""
        del known
        model = self.recipe.model
        D = model.width or layout.n_locations * model.per_location + model.auxiliary
        return int(D**2 * LINEARS * model.n_layers)
