"""Forecaster: the graph Transformer of the paper as an estimator."""

import hashlib
from typing import Literal

import numpy as np
from jaxtyping import Int64
from torch import Generator

from forecaster.config import GraphConfig, Recipe
from forecaster.errors import ArtifactError, ConfigError, nearest_name
from forecaster.estimators.lesson import Arrays, Learned, Lesson
from forecaster.estimators.neural import LINEARS, Neural, levels_of
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.forecaster import build_forecaster
from forecaster.models.neurons import NeuronLayout
from forecaster.models.transformer import Transformer

Preset = Literal["paper"]
# The sizes of section 3.2.1 and all choices for what the paper leaves open are a recipe's
# defaults. What is left for the preset is the graph: the paper takes demand as it is.
PRESETS: dict[Preset, Recipe] = {"paper": Recipe(graph=GraphConfig(subtract="nothing"))}


class Forecaster(Neural):
    """The Transformer whose linear layers are pruned by the dependency graph (section 2)."""

    def __init__(
        self,
        graph: DependencyGraph | None = None,
        recipe: Recipe | None = None,
        *,
        preset: Preset | None = None,
    ) -> None:
        """Say what is to be learned.

        Args:
            graph: which locations depend on each other; None: learned from the training steps.
            recipe: every choice; None: the paper's network and training.
            preset: in place of a recipe, `paper`: the graph too is learned as the paper does,
                from demand as it is.
        """
        if recipe is not None and preset is not None:
            raise ConfigError("Forecaster: a recipe and a preset; each decides all: give one")
        if preset is not None and preset not in PRESETS:
            hint = nearest_name(preset, list(PRESETS))
            raise ConfigError(f"Forecaster: no preset {preset!r}{hint}; there is paper")
        super().__init__(PRESETS[preset] if preset is not None else recipe)
        self.graph = graph

    def suppose(self, lesson: Lesson) -> Learned:
        """Return the graph: the given one, if it fits, or that of the training steps."""
        graph = self.graph
        if graph is None:
            graph = learn_graph(lesson.panel, lesson.splits, self.recipe.graph)
        graph.match(lesson.panel, lesson.splits)
        return Learned(
            {"graph.pairs": graph.pairs, "graph.strengths": graph.strengths},
            {"graph": graph.about.model_dump(mode="json")},
            {"graph": graph.digest or _digest(graph)},
        )

    def build(self, inputs: NeuronLayout, known: Arrays, generator: Generator) -> Transformer:
        """Return the network with fresh weights."""
        pattern = BlockPattern.from_pairs(inputs.n_locations, _pairs(known))
        model, lags, levels = self.recipe.model, self.recipe.lags, levels_of(known)
        return build_forecaster(model, lags, inputs, pattern, generator, levels)

    def size(self, inputs: NeuronLayout, known: Arrays) -> int:
        """Return how many weights the layers between two states have: E·C² + A² each."""
        model, edges = self.recipe.model, inputs.n_locations + 2 * len(_pairs(known))
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
