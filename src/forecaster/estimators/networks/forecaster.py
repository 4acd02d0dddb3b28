"""Forecaster: the graph Transformer of the paper as an estimator."""

import hashlib

import numpy as np
from jaxtyping import Int64
from torch import Generator

from forecaster.errors import ArtifactError, ConfigError, nearest_name
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.estimator import LINEARS, NetworkEstimator, levels_of
from forecaster.estimators.networks.level import learn_level, level_of, level_shapes
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.mixer import Mixer, MixerPrerequisites, count_weights
from forecaster.models.network import Network
from forecaster.models.neurons import NeuronLayout
from forecaster.models.seasonal import DeviationNetwork
from forecaster.models.transformer import build_forecaster
from forecaster.recipe import PRESETS, Preset, Recipe


class Forecaster(NetworkEstimator):
    """The graph Transformer: its linear layers are pruned by the dependency graph (section 2).

    The preset `best` is another network over the same graph.
    """

    def __init__(
        self,
        graph: DependencyGraph | None = None,
        recipe: Recipe | None = None,
        *,
        preset: Preset | None = None,
    ) -> None:
        """Choose graph and settings.

        Args:
            graph: the dependency graph; None: it is learned from the training steps.
            recipe: all settings; None: the paper's network and training.
            preset: in place of a recipe. `paper`: the graph is learned from raw demand, as in the
                paper; `best`: another network over the same graph.
        """
        if recipe is not None and preset is not None:
            raise ConfigError("Forecaster: a recipe and a preset; each decides all: give one")
        if preset is not None and preset not in PRESETS:
            hint = nearest_name(preset, list(PRESETS))
            raise ConfigError(f"Forecaster: no preset {preset!r}{hint}; there are paper and best")
        super().__init__(Recipe(preset=preset) if preset is not None else recipe)
        self.graph = graph

    @property
    def _knows_the_usual(self) -> bool:
        return self.recipe.preset == "best" or self.recipe.model.level

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the scales and of what is usual."""
        return {**super().shapes(sizes), **(level_shapes(sizes) if self._knows_the_usual else {})}

    def prerequisites(self, data: TrainingData) -> FitResult:
        """Return the graph: the given one, if it fits, or that of the training steps."""
        graph = self.graph
        if graph is None:
            graph = learn_graph(data.panel, data.splits, self.recipe.graph)
        graph.match(data.panel, data.splits)
        usual = learn_level(data) if self._knows_the_usual else {}
        return FitResult(
            {"graph.pairs": graph.pairs, "graph.strengths": graph.strengths, **usual},
            {"graph": graph.about.model_dump(mode="json")},
            {"graph": graph.digest or _digest(graph)},
        )

    def build(self, layout: NeuronLayout, known: Arrays, generator: Generator) -> Network:
        """Return the network with fresh weights."""
        pattern = BlockPattern.from_pairs(layout.n_locations, _pairs(known))
        recipe, levels = self.recipe, levels_of(known)
        if recipe.preset == "best":
            prerequisites = MixerPrerequisites(level_of(known), pattern)
            return Mixer(recipe.mixer, recipe.lags, layout, prerequisites, generator, levels)
        network = build_forecaster(recipe.model, recipe.lags, layout, pattern, generator, levels)
        return DeviationNetwork(network, level_of(known)) if recipe.model.level else network

    def size(self, layout: NeuronLayout, known: Arrays) -> int:
        """Return how many weights the layers between two states have: E·C² + A² each."""
        model, edges = self.recipe.model, layout.n_locations + 2 * len(_pairs(known))
        if self.recipe.preset == "best":
            return count_weights(self.recipe.mixer, self.recipe.lags, layout, edges)
        one = edges * model.per_location**2 + model.auxiliary**2
        return int(one * LINEARS * model.n_layers)


def _pairs(known: Arrays) -> Int64[np.ndarray, "E 2"]:
    """Return the edges that a run remembers, if they can be edges at all."""
    pairs = known["graph.pairs"]
    if pairs.dtype != np.int64 or pairs.ndim != 2 or pairs.shape[1] != 2:  # noqa: PLR2004 (ends)
        raise ArtifactError(f"edges are {pairs.dtype} {pairs.shape}, not pairs of locations")
    return pairs


def _digest(graph: DependencyGraph) -> str:
    """Return a hash of a graph that was not saved: its locations and edges."""
    edges = np.ascontiguousarray(graph.pairs).tobytes()
    return hashlib.sha256(graph.location_digest.encode() + edges).hexdigest()
