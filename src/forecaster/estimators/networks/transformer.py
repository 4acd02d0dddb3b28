"""The dense Transformer as an estimator: the baseline of section 3.2.4."""

from torch import Generator

from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.estimator import LINEARS, NetworkEstimator, heads_of
from forecaster.estimators.networks.profile import profile_arrays, profile_of, profile_shapes
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.models.mixer.seasonal import DeviationNetwork
from forecaster.models.network import Network
from forecaster.models.transformer import build_dense_transformer


class Transformer(NetworkEstimator):
    """The dense Transformer: the paper's network without a graph, of width `model.width`."""

    @property
    def has_kernels(self) -> bool:
        """True: its norms."""
        return True

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and of the seasonal profile."""
        return {
            **super().shapes(sizes),
            **(profile_shapes(sizes) if self.recipe.model.level else {}),
        }

    def prerequisites(self, data: TrainingData) -> FitResult:
        """The seasonal profile, if deviations from it are forecast."""
        return FitResult(profile_arrays(data) if self.recipe.model.level else {})

    def build(self, layout: NeuronLayout, arrays: Arrays, generator: Generator) -> Network:
        """The network with new weights."""
        model, lags, heads = self.recipe.model, self.recipe.lags, heads_of(arrays)
        network = build_dense_transformer(model, lags, layout, generator, heads)
        return DeviationNetwork(network, profile_of(arrays)) if model.level else network

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the layers between two states: D² each."""
        del arrays
        model = self.recipe.model
        D = model.width or layout.n_locations * model.per_location + model.auxiliary
        return int(D**2 * LINEARS * model.n_layers)
