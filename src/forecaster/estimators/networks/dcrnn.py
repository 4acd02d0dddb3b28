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
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.models import dcrnn
from forecaster.models.neurons import NeuronLayout
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Windows, assign_splits, history_steps, is_poor

log = logging.getLogger(__name__)
KERNEL = "diffusion.kernel"  # how near the locations are to each other, in a run


class DCRNN(NetworkEstimator):
    """The diffusion convolutional recurrent network over distances of locations (baseline).

    Its settings are `[dcrnn]` of the recipe.

    Differs: it is trained as every network here (Eq. 7, AdamW, one cycle). Its authors use the
    mean absolute error, Adam and a learning rate that falls in steps.
    """

    @property
    def lags(self) -> LagConfig:
        """Which past steps the network sees: the last ones alone, or the recipe's."""
        config, lags = self.recipe.dcrnn, self.recipe.lags
        if config.inputs == "lags":
            return lags
        return LagConfig(recent=config.recent, seasons=(), horizon=lags.horizon)

    @property
    def sampling_decay(self) -> float:
        """The decay of scheduled sampling, in steps."""
        return self.recipe.dcrnn.sampling_decay

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the scales and of the kernel."""
        return {**super().shapes(sizes), KERNEL: (sizes.N, sizes.N)}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Return the weights with the lowest validation loss, and what they rest on."""
        self._refuse_short_lags(data.panel)
        return super().fit_windows(replace(data, windows=self._own_windows(data)))

    def prerequisites(self, data: TrainingData) -> FitResult:
        """Return the kernel of the locations' distances.

        Differs: where places are unknown, the correlation of training values stands for it.
        """
        graph = self._neighbours(data)
        first, second = graph.pairs.T
        kernel = np.eye(len(data.panel.locations), dtype=np.float32)
        kernel[first, second] = kernel[second, first] = np.maximum(graph.strengths, 0)
        return FitResult({KERNEL: kernel}, {"graph": graph.about.model_dump(mode="json")})

    def build(
        self, layout: NeuronLayout, known: Arrays, generator: Generator
    ) -> dcrnn.DCRNNNetwork:
        """Return the network with fresh weights."""
        if self.lags.length > MAX_HISTORY:
            raise ConfigError(f"dcrnn.recent = {self.lags.length:,}; at most {MAX_HISTORY:,}")
        kernel = torch.from_numpy(_kernel(known))
        return dcrnn.DCRNNNetwork(self.recipe.dcrnn, self.lags, layout, kernel, generator)

    def size(self, layout: NeuronLayout, known: Arrays) -> int:
        """Return how many weights the network has."""
        del known
        return dcrnn.count_weights(self.recipe.dcrnn, layout)

    def _refuse_short_lags(self, panel: Panel) -> None:
        """Refuse to look further back than the lags, by which windows are cut, reach."""
        reach = int(panel.clock.lag_steps(self.recipe.lags, panel.times).max(axis=1).min()) + 1
        if self.lags.length > reach and self.recipe.dcrnn.inputs == "recent":
            message = f"dcrnn.recent = {self.lags.length} steps, and lags reach back {reach}"
            raise ConfigError(f"{message}; lower dcrnn.recent, or add to lags")

    def _own_windows(self, data: TrainingData) -> Windows:
        """Drop windows in which this network, unlike others, sees held-out steps or too little."""
        panel, windows = data.panel, data.windows
        split = assign_splits(panel, data.splits)
        kept = {}
        for number, name in enumerate(SPLITS[:2]):
            origins = getattr(windows, name)
            history = history_steps(panel, self.lags, origins)
            later = (split[history] > number).any(axis=1)
            kept[name] = origins[~later & ~is_poor(panel, history, origins)]
        return replace(windows, **kept)

    def _neighbours(self, data: TrainingData) -> DependencyGraph:
        """Return the pairs of locations that are near each other, and how near."""
        kinds: tuple[GraphKind, ...] = ("distance", "pearson")
        cut = self.recipe.dcrnn.kernel_threshold
        by_distance, by_values = (GraphConfig(kind=kind, threshold=cut) for kind in kinds)
        try:
            return learn_graph(data.panel, data.splits, by_distance)
        except DataError as error:  # some places are unknown
            log.warning("DCRNN: %s; it diffuses by the correlation of training values", error)
            return learn_graph(data.panel, data.splits, by_values)


def _kernel(known: Arrays) -> Float32[np.ndarray, "N N"]:
    """Return the kernel that a run remembers, if it can be one at all."""
    kernel = known[KERNEL]
    if kernel.dtype != np.float32 or not ((kernel >= 0) & (kernel <= 1)).all():
        raise ArtifactError(f"{KERNEL}: {kernel.dtype}, not float32 weights from 0 to 1")
    return kernel
