"""DCRNN as an estimator: the recurrent baseline of section 3.2.3."""

import logging
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float32
from torch import Generator

from forecaster.choices import GraphKind
from forecaster.config import GraphConfig, LagConfig
from forecaster.errors import ArtifactError, ConfigError, DataError
from forecaster.estimators.match import MAX_HISTORY, Sizes
from forecaster.estimators.networks.estimator import NetworkEstimator, heads_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.models import dcrnn
from forecaster.models.network import Heads
from forecaster.models.neurons import NeuronLayout
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Windows, assign_splits, history_steps, is_incomplete

log = logging.getLogger(__name__)
KERNEL = "diffusion.kernel"  # the proximity of locations, an array of a run


class DCRNN(NetworkEstimator):
    """The diffusion convolutional recurrent network (baseline); settings: `[dcrnn]` of the recipe.

    Differs: it is trained like every network here (Eq. 7, AdamW, one cycle). Its authors minimise
    the mean absolute error by Adam, with a learning rate that falls in steps.
    """

    @property
    def lags(self) -> LagConfig:
        """The past steps that the network sees: only the most recent, or the recipe's lags."""
        config, lags = self.recipe.dcrnn, self.recipe.lags
        if config.inputs == "lags":
            return lags
        return LagConfig(recent=config.recent, seasons=(), horizon=lags.horizon)

    @property
    def bounds_values(self) -> bool:
        """True: it has neither levels nor presets of its own."""
        return True

    @property
    def sampling_decay(self) -> float:
        """The decay of scheduled sampling, in steps."""
        return self.recipe.dcrnn.sampling_decay

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and of the kernel."""
        return {**super().shapes(sizes), KERNEL: (sizes.N, sizes.N)}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Train the network on the windows that suit its own lags."""
        self._refuse_short_lags(data.panel)
        return super().fit_windows(replace(data, windows=self._own_windows(data)))

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
        if self.lags.length > MAX_HISTORY:
            raise ConfigError(f"dcrnn.recent = {self.lags.length:,}; at most {MAX_HISTORY:,}")
        kernel = torch.from_numpy(_kernel(arrays))
        heads = Heads(relative=heads_of(arrays).relative)
        return dcrnn.DCRNNNetwork(self.recipe.dcrnn, self.lags, layout, kernel, generator, heads)

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the network."""
        del arrays
        return dcrnn.count_weights(self.recipe.dcrnn, layout)

    def _refuse_short_lags(self, panel: Panel) -> None:
        """Refuse `dcrnn.recent` beyond the reach of the lags by which windows are cut."""
        reach = int(panel.clock.lag_steps(self.recipe.lags, panel.times).max(axis=1).min()) + 1
        if self.lags.length > reach and self.recipe.dcrnn.inputs == "recent":
            message = f"dcrnn.recent = {self.lags.length} steps, but lags reach back only {reach}"
            raise ConfigError(f"{message}; lower dcrnn.recent, or add to lags")

    def _own_windows(self, data: TrainingData) -> Windows:
        """The windows whose history, by this network's lags, has no held-out or missing steps."""
        panel, windows = data.panel, data.windows
        split = assign_splits(panel, data.splits)
        usable = {}
        for number, name in enumerate(SPLITS[:2]):
            origins = getattr(windows, name)
            history = history_steps(panel, self.lags, origins)
            held_out = (split[history] > number).any(axis=1)
            usable[name] = origins[~held_out & ~is_incomplete(panel, history, origins)]
        return replace(windows, **usable)

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
