"""Networks of others as estimators: STID, Graph WaveNet and STAEformer."""

from dataclasses import replace
from typing import cast

import numpy as np
from torch import Generator

from forecaster.config import GraphWaveNetConfig, STAEformerConfig, STIDConfig
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.graph_arrays import digest_of
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.estimator import heads_of
from forecaster.estimators.networks.past import PastEstimator
from forecaster.estimators.networks.proximity import KernelEstimator, kernel_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.graph.dependency import DependencyGraph
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.models.peers import graph_wavenet, staeformer, stid
from forecaster.recipe import Recipe
from forecaster.training.micro_batches import estimate_bytes, free_bytes
from forecaster.training.reproducibility import reproducible
from forecaster.training.task import TrainingTask

SLOTS = "season.slots"  # the number of steps of the season, an array of a run
MEASURED = 32  # training windows on which the norms of a network are measured


class SeasonEstimator(PastEstimator):
    """A network with embeddings of the time of day and of the weekday."""

    masks_lags = True

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and of the number of steps of the season."""
        return {**super().shapes(sizes), SLOTS: ()}

    def prerequisites(self, data: TrainingData) -> FitResult:
        """The number of steps of the season."""
        return FitResult({SLOTS: np.array(data.panel.clock.season_slots)})


class STID(SeasonEstimator):
    """STID, spatial and temporal identities (Shao et al. 2022); settings: `[stid]` of the recipe.

    Differs: it is trained like every network here (Eq. 7, AdamW, one cycle), where its authors
    minimise the mean absolute error by Adam with a falling rate.
    """

    section = "stid"

    @property
    def config(self) -> STIDConfig:
        """Its section of the recipe."""
        return self.recipe.stid

    def build(
        self, layout: NeuronLayout, arrays: Arrays, generator: Generator
    ) -> stid.STIDNetwork:
        """The network with new weights."""
        self.refuse_long_history()
        slots, heads = _slots(arrays), heads_of(arrays)
        return stid.STIDNetwork(self.config, self.lags, layout, slots, generator, heads)

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the embeddings and of the residual layers."""
        return stid.count_weights(self.config, layout, _slots(arrays))


class STAEformer(SeasonEstimator):
    """STAEformer (Liu et al. 2023); settings: `[staeformer]` of the recipe.

    Attention over all locations in each step, and over all steps of each location, takes more
    memory than any other network here. Where that is not there, it is refused before training.

    Differs: it is trained like every network here (Eq. 7, AdamW, one cycle), where its authors
    minimise the mean absolute error by Adam with a rate that falls in steps.
    """

    section = "staeformer"

    @property
    def config(self) -> STAEformerConfig:
        """Its section of the recipe."""
        return self.recipe.staeformer

    def build(
        self, layout: NeuronLayout, arrays: Arrays, generator: Generator
    ) -> staeformer.STAEformerNetwork:
        """The network with new weights."""
        self.refuse_long_history()
        slots, heads = _slots(arrays), heads_of(arrays)
        return staeformer.STAEformerNetwork(
            self.config, self.lags, layout, slots, generator, heads
        )

    def make_task(
        self, data: TrainingData, prerequisites: FitResult
    ) -> tuple[Arrays, TrainingTask]:
        """The training, if it fits into memory."""
        arrays, task = super().make_task(data, prerequisites)
        self._refuse_too_large(task)
        return arrays, task

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the embeddings and of the attention layers."""
        return staeformer.count_weights(self.config, layout, self.lags.length, _slots(arrays))

    def _refuse_too_large(self, task: TrainingTask) -> None:
        """Refuse a training that memory is too small for.

        A GPU takes a batch in parts if it has to; a CPU needs memory for all of it.
        """
        window, weights = estimate_bytes(task)
        free, batch = free_bytes(task.device), task.config.batch
        fitting = (free - weights) // window
        if fitting >= (batch if task.device.type == "cpu" else 1):
            return
        sizes = f"{len(task.scale.mean):,} locations × {self.lags.length} past steps"
        need = f"about {window / 1e9:,.2f} GB for each window of {sizes}"
        remedy = f"set training.batch to {fitting}" if fitting > 0 else "take fewer locations"
        if self.config.inputs == "lags":
            remedy += ', or staeformer.inputs = "recent"'
        raise ConfigError(
            f"STAEformer needs {need}, {batch * window / 1e9:,.1f} GB for a batch of {batch}; "
            f"{free / 1e9:,.1f} GB are free. Leave it out, or {remedy}"
        )


class GraphWaveNet(KernelEstimator):
    """Graph WaveNet (Wu et al. 2019); settings: `[graph_wavenet]` of the recipe.

    Differs: it is trained like every network here (Eq. 7, AdamW, one cycle), where its authors
    minimise the mean absolute error by Adam. Its batch normalisation has fixed statistics.
    """

    section = "graph_wavenet"
    masks_lags = True

    def __init__(
        self, recipe: Recipe | None = None, *, graph: DependencyGraph | None = None
    ) -> None:
        """Choose the graph and the hyperparameters.

        Args:
            recipe: all hyperparameters.
            graph: along which values diffuse, beside the graph that the network learns; None: the
                proximity of locations.
        """
        super().__init__(recipe)
        self.graph = graph

    @property
    def config(self) -> GraphWaveNetConfig:
        """Its section of the recipe."""
        return self.recipe.graph_wavenet

    def build(
        self, layout: NeuronLayout, arrays: Arrays, generator: Generator
    ) -> graph_wavenet.GraphWaveNetwork:
        """The network with new weights."""
        self.refuse_long_history()
        kernel, heads = kernel_of(arrays), heads_of(arrays)
        return graph_wavenet.GraphWaveNetwork(
            self.config, self.lags, layout, kernel, generator, heads
        )

    def make_task(
        self, data: TrainingData, prerequisites: FitResult
    ) -> tuple[Arrays, TrainingTask]:
        """The training, with the norms of the network measured on training windows."""
        arrays, task = super().make_task(data, prerequisites)
        if self.start is not None:  # its norms are part of its weights
            return arrays, task
        chosen = np.linspace(0, len(task.train) - 1, min(len(task.train), MEASURED)).astype(int)
        network = cast(graph_wavenet.GraphWaveNetwork, task.network)
        with reproducible(task.device):
            network.fit_norms(*task.inputs(task.batches.cut(task.train[chosen])))
        return arrays, task

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the graph and of all layers."""
        del arrays
        return graph_wavenet.count_weights(self.config, layout, self.lags.length)

    def prerequisites(self, data: TrainingData) -> FitResult:
        """The kernel of the given graph, or of the locations' distances."""
        result = super().prerequisites(data)
        parents = {} if self.graph is None else {"graph": digest_of(self.graph)}
        return replace(result, parents=parents)

    def _proximity_graph(self, data: TrainingData) -> DependencyGraph:
        """The given graph, or the pairs of nearby locations."""
        if self.graph is None:
            return super()._proximity_graph(data)
        self.graph.match(data.panel, data.splits)
        return self.graph


def _slots(arrays: Arrays) -> int:
    """The number of steps of the season of a run; impossible ones are refused."""
    slots = arrays[SLOTS]
    if slots.dtype != np.int64 or slots < 1:
        raise ArtifactError(f"{SLOTS} is {slots} ({slots.dtype}), not an int64 above 0")
    return int(slots)
