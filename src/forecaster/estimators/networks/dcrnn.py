"""DCRNN as an estimator: the recurrent baseline of section 3.2.3."""

import logging

import numpy as np
import torch
from jaxtyping import Float32
from torch import Generator

from forecaster.choices import GraphKind
from forecaster.config import DCRNNConfig, GraphConfig
from forecaster.errors import ArtifactError, DataError
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.estimator import heads_of
from forecaster.estimators.networks.past import PastEstimator
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.models import dcrnn
from forecaster.models.network import Heads
from forecaster.models.neurons import NeuronLayout

log = logging.getLogger(__name__)
KERNEL = "diffusion.kernel"  # the proximity of locations, an array of a run


class DCRNN(PastEstimator):
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

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and of the kernel."""
        return {**super().shapes(sizes), KERNEL: (sizes.N, sizes.N)}

    def prerequisites(self, data: TrainingData) -> FitResult:
        """The kernel of the locations' distances.

        Differs: without coordinates, the correlation of training values is used instead.
        """
        graph = self._proximity_graph(data)
        return FitResult(
            {KERNEL: _proximity(graph)}, {"graph": graph.about.model_dump(mode="json")}
        )

    def build(
        self, layout: NeuronLayout, arrays: Arrays, generator: Generator
    ) -> dcrnn.DCRNNNetwork:
        """The network with new weights."""
        self.refuse_long_history()
        kernel = torch.from_numpy(_kernel(arrays))
        heads = Heads(relative=heads_of(arrays).relative)
        return dcrnn.DCRNNNetwork(self.recipe.dcrnn, self.lags, layout, kernel, generator, heads)

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the network."""
        del arrays
        return dcrnn.count_weights(self.recipe.dcrnn, layout)

    def _proximity_graph(self, data: TrainingData) -> DependencyGraph:
        """The pairs of nearby locations, with their proximity."""
        kinds: tuple[GraphKind, ...] = ("distance", "pearson")
        cut = self.recipe.dcrnn.kernel_threshold
        by_distance, by_values = (GraphConfig(kind=kind, threshold=cut) for kind in kinds)
        try:
            return learn_graph(data.panel, data.splits, by_distance)
        except DataError as error:  # some locations lack coordinates
            log.warning("DCRNN: %s; it diffuses by the correlation of training values", error)
            return learn_graph(data.panel, data.splits, by_values)


def _proximity(graph: DependencyGraph) -> Float32[np.ndarray, "N N"]:
    """The proximity of each source, or first location, to each target.

    Of a directed graph it is the largest size of their edges, 1 at most: signs tell what follows,
    not how near it is.
    """
    kernel = np.eye(len(graph.locations), dtype=np.float32)
    first, second = graph.pairs.T
    if graph.is_directed:
        np.maximum.at(kernel, (first, second), np.minimum(np.abs(graph.strengths), 1))
    else:
        kernel[first, second] = kernel[second, first] = np.maximum(graph.strengths, 0)
    return kernel


def _kernel(arrays: Arrays) -> Float32[np.ndarray, "N N"]:
    """The kernel of a run; impossible values are refused."""
    kernel = arrays[KERNEL]
    if kernel.dtype != np.float32 or not ((kernel >= 0) & (kernel <= 1)).all():
        raise ArtifactError(f"{KERNEL}: {kernel.dtype}, not float32 weights from 0 to 1")
    return kernel
