"""The dense Transformer as an estimator: the baseline of section 3.2.4."""

from torch import Generator

from forecaster.estimators.lesson import Arrays
from forecaster.estimators.neural import LINEARS, Neural, levels_of
from forecaster.models import transformer
from forecaster.models.dense import build_dense
from forecaster.models.neurons import NeuronLayout


class Transformer(Neural):
    """The same network without a graph; `model.width` of the recipe says how wide it is."""

    def build(
        self, inputs: NeuronLayout, known: Arrays, generator: Generator
    ) -> transformer.Transformer:
        """Return the network with fresh weights."""
        model, lags, levels = self.recipe.model, self.recipe.lags, levels_of(known)
        return build_dense(model, lags, inputs, generator, levels)

    def size(self, inputs: NeuronLayout, known: Arrays) -> int:
        """Return how many weights the layers between two states have: D² each."""
        del known
        model = self.recipe.model
        D = model.width or inputs.n_locations * model.per_location + model.auxiliary
        return int(D**2 * LINEARS * model.n_layers)
