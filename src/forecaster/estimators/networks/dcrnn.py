"""DCRNN as an estimator: the recurrent baseline of section 3.2.3."""

from torch import Generator

from forecaster.config import DCRNNConfig
from forecaster.estimators.networks.estimator import heads_of
from forecaster.estimators.networks.proximity import KernelEstimator, kernel_of
from forecaster.estimators.training_data import Arrays
from forecaster.models import dcrnn
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.models.network import Heads


class DCRNN(KernelEstimator):
    """The diffusion convolutional recurrent network (baseline); settings: `[dcrnn]` of the recipe.

    Differs: it is trained like every network here (Eq. 7, AdamW, one cycle). Its authors minimise
    the mean absolute error by Adam, with a learning rate that falls in steps.
    """

    section = "dcrnn"

    @property
    def config(self) -> DCRNNConfig:
        """Its section of the recipe."""
        return self.recipe.dcrnn

    @property
    def sampling_decay(self) -> float:
        """The decay of scheduled sampling, in steps."""
        return self.recipe.dcrnn.sampling_decay

    def build(
        self, layout: NeuronLayout, arrays: Arrays, generator: Generator
    ) -> dcrnn.DCRNNNetwork:
        """The network with new weights."""
        self.refuse_long_history()
        kernel = kernel_of(arrays)
        heads = Heads(relative=heads_of(arrays).relative)
        return dcrnn.DCRNNNetwork(self.recipe.dcrnn, self.lags, layout, kernel, generator, heads)

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the network."""
        del arrays
        return dcrnn.count_weights(self.recipe.dcrnn, layout)
