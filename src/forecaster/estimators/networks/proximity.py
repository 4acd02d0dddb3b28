"""The base of networks that diffuse between nearby locations, and the kernel of distances."""

import logging
from abc import abstractmethod

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from forecaster.choices import GraphKind
from forecaster.config import GraphConfig, KernelConfig
from forecaster.errors import ArtifactError, DataError
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.past import PastEstimator
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.graph.dependency import DependencyGraph

log = logging.getLogger(__name__)
KERNEL = "diffusion.kernel"  # the proximity of locations, an array of a run


class KernelEstimator(PastEstimator):
    """A network whose random walks follow the proximity of locations."""

    @property
    @abstractmethod
    def config(self) -> KernelConfig:
        """Its section of the recipe."""

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

    def _proximity_graph(self, data: TrainingData) -> DependencyGraph:
        """The pairs of nearby locations, with their proximity."""
        from forecaster.graph.learn import learn_graph  # noqa: PLC0415 (only fits need it)

        kinds: tuple[GraphKind, ...] = ("distance", "pearson")
        cut = self.config.kernel_threshold
        by_distance, by_values = (GraphConfig(kind=kind, threshold=cut) for kind in kinds)
        try:
            return learn_graph(data.panel, data.splits, by_distance)
        except DataError as error:  # some locations lack coordinates
            name = type(self).__name__
            log.warning("%s: %s; it diffuses by the correlation of training values", name, error)
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


def kernel_of(arrays: Arrays) -> Float[Tensor, "N N"]:
    """The kernel of a run; impossible values are refused."""
    kernel = arrays[KERNEL]
    if kernel.dtype != np.float32 or not ((kernel >= 0) & (kernel <= 1)).all():
        raise ArtifactError(f"{KERNEL}: {kernel.dtype}, not float32 weights from 0 to 1")
    return torch.from_numpy(kernel)
