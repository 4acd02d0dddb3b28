"""Forecaster: the graph Transformer of the paper as an estimator."""

import numpy as np
from jaxtyping import Int64
from torch import Generator

from forecaster.artifact import Run
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.errors import ArtifactError, ConfigError, nearest_name
from forecaster.estimators.base import Estimator
from forecaster.estimators.graph_arrays import digest_of, edges_of, graph_arrays
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.estimator import LINEARS, NetworkEstimator, heads_of
from forecaster.estimators.networks.new_locations import extend_network
from forecaster.estimators.networks.profile import (
    CITY,
    has_single_year,
    profile_arrays,
    profile_of,
    profile_shapes,
    sees_repeats,
)
from forecaster.estimators.registry import find_estimator
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.graph.dependency import DependencyGraph
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.models.mixer.mixer import (
    Mixer,
    MixerPrerequisites,
    PastOnlyInputs,
    count_weights,
)
from forecaster.models.mixer.seasonal import DeviationNetwork
from forecaster.models.network import Network
from forecaster.models.transformer import build_forecaster
from forecaster.panel.panel import Panel
from forecaster.recipe import PRESETS, Preset, Recipe

PAST_LOCAL, PAST_SHARED = "past_only.local", "past_only.shared"  # arrays of a run


class Forecaster(NetworkEstimator):
    """The graph Transformer: its linear layers are pruned by the dependency graph (section 2).

    The preset `quick` is another network over the same graph. Recipes and runs of earlier versions
    call it `best`, which is now an `Ensemble` of that network and other models:
    `Forecaster(preset="best")` makes one.
    """

    takes_graph = True

    def __new__(  # type: ignore[misc]
        cls,
        graph: DependencyGraph | None = None,
        recipe: Recipe | None = None,
        *,
        preset: Preset | None = None,
    ) -> Estimator:
        """The estimator of the preset: an `Ensemble` with `best`."""
        if cls is Forecaster and recipe is None and preset == "best":
            return find_estimator("Ensemble")(graph, preset=preset)  # type: ignore[call-arg, arg-type]
        return super().__new__(cls)

    def __init__(
        self,
        graph: DependencyGraph | None = None,
        recipe: Recipe | None = None,
        *,
        preset: Preset | None = None,
    ) -> None:
        """Choose the graph and the hyperparameters.

        Args:
            graph: which locations depend on each other; None: learned from the training steps.
            recipe: all hyperparameters; None: the paper's network and training.
            preset: in place of a recipe, `paper`: the graph too is learned as in the paper, from
                raw demand; `quick`: another network over the same graph; `best`: an `Ensemble`
                of that network and other models.
        """
        if recipe is not None and preset is not None:
            raise ConfigError("Forecaster: a recipe and a preset; give only one of them")
        if preset is not None and preset not in PRESETS:
            hint = nearest_name(preset, list(PRESETS))
            raise ConfigError(
                f"Forecaster: no preset {preset!r}{hint}; there are {', '.join(PRESETS)}"
            )
        super().__init__(Recipe(preset=preset) if preset is not None else recipe)
        self.graph = graph

    @property
    def _has_profile(self) -> bool:
        return self.recipe.uses_mixer or self.recipe.model.level

    @property
    def masks_missing(self) -> bool:  # type: ignore[override]
        """Whether missing history is a masked input: in `quick`, but for older runs."""
        return self.recipe.uses_mixer and (self.run is None or CITY in self.run.arrays)

    @property
    def accepts_new_locations(self) -> bool:  # type: ignore[override]
        """Whether it forecasts locations that it was not fitted to: `quick` is prepared for it."""
        return self.masks_missing

    @property
    def has_kernels(self) -> bool:
        """Whether its layers are pruned by the graph: in the paper's network, not in `quick`."""
        return not self.recipe.uses_mixer

    def extend_arrays(self, run: Run, n: int, neighbours: Int64[np.ndarray, "E 2"]) -> Arrays:
        """The arrays with further locations: scales, profiles, edges and embeddings too."""
        shared = super().extend_arrays(run, n, neighbours)
        return {**shared, **extend_network(run.arrays, n, neighbours)}

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and of the seasonal profile."""
        return {**super().shapes(sizes), **(profile_shapes(sizes) if self._has_profile else {})}

    def prerequisites(self, data: TrainingData) -> FitResult:
        """The graph, given or learned from the training steps, and the seasonal profile."""
        graph = self.graph
        if graph is None:
            from forecaster.graph.learn import learn_graph  # noqa: PLC0415 (only fits need it)

            recipe = self.recipe
            graph = learn_graph(data.panel, data.splits, recipe.graph, lags=recipe.lags)
        graph.match(data.panel, data.splits)
        profile = profile_arrays(data) if self._has_profile else {}
        past_only = _past_only_arrays(data.panel) if self.recipe.uses_mixer else {}
        return FitResult(
            {**graph_arrays(graph), **profile, **past_only},
            {"graph": graph.about.model_dump(mode="json")},
            {"graph": digest_of(graph)},
        )

    def build(self, layout: NeuronLayout, arrays: Arrays, generator: Generator) -> Network:
        """The network with new weights."""
        recipe, heads = self.recipe, heads_of(arrays)
        if recipe.uses_mixer:
            fitted = self._mixer_inputs(layout, arrays)
            return Mixer(recipe.mixer, recipe.lags, layout, fitted, generator, heads)
        pattern = edges_of(arrays).pattern(layout.n_locations)
        network = build_forecaster(recipe.model, recipe.lags, layout, pattern, generator, heads)
        return DeviationNetwork(network, profile_of(arrays)) if recipe.model.level else network

    def prepare(self, network: Network, data: TrainingData) -> None:
        """Let the linear part of `quick` begin as what is fitted to the training steps."""
        if isinstance(network, Mixer) and network.linear is not None:
            from forecaster.estimators.networks.linear_start import (  # noqa: PLC0415 (as above)
                start_linear,
            )

            start_linear(network, data)

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the layers between two states: E·C² + A² each."""
        if self.recipe.uses_mixer:
            fitted = self._mixer_inputs(layout, arrays)
            return count_weights(self.recipe.mixer, self.recipe.lags, layout, fitted)
        model, edges = self.recipe.model, edges_of(arrays).pattern(layout.n_locations).n_edges
        linear = edges * model.per_location**2 + model.auxiliary**2
        return int(linear * LINEARS * model.n_layers)

    def _mixer_inputs(self, layout: NeuronLayout, arrays: Arrays) -> MixerPrerequisites:
        """What the network of `quick` is built on."""
        return MixerPrerequisites(
            profile_of(arrays, self.recipe.lags.recent),
            edges_of(arrays).pattern(layout.n_locations),
            _past_only(layout, arrays),
            sees_repeats(arrays),
            has_single_year(arrays),
        )


def _past_only_arrays(panel: Panel) -> dict[str, Int64[np.ndarray, " n"]]:
    """The numbers of the past-only covariates, as arrays of a run; none without such ones."""
    if not panel.past_only:
        return {}
    return {
        PAST_LOCAL: np.array(panel.local_covariates.past_layers, dtype=np.int64),
        PAST_SHARED: np.array(panel.covariates.past_columns, dtype=np.int64),
    }


def _past_only(layout: NeuronLayout, arrays: Arrays) -> PastOnlyInputs:
    """The past-only covariates of a run; numbers that no covariate has are refused."""
    numbers = []
    counts = layout.per_location - 1, layout.auxiliary - len(CALENDAR_COLUMNS)
    for name, count in zip((PAST_LOCAL, PAST_SHARED), counts, strict=True):
        chosen = arrays.get(name, np.empty(0, dtype=np.int64))
        distinct = np.unique(chosen)
        inside = chosen.dtype == np.int64 and not ((distinct < 0) | (distinct >= count)).any()
        if not inside or chosen.shape != distinct.shape:
            raise ArtifactError(f"{name}: {chosen} are not distinct numbers below {count}")
        numbers.append(tuple(chosen.tolist()))
    return PastOnlyInputs(*numbers)
