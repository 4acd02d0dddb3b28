"""The models of a comparison: estimators with their recipes, hyperparameters and ablations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

from forecaster.choices import GraphKind, MemberName, PositionKind
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, nearest_name
from forecaster.estimators.registry import ESTIMATORS, LAGGED, find_estimator
from forecaster.recipe import Recipe, change

LagSubset = Literal["recent", "daily", "weekly"]
RecipeValues = Mapping[str, Any]  # by section of the recipe

GRAPHS_WITHOUT_THRESHOLD = ("own", "complete", "random", "lagged")
WEEK_DAYS = 7
DROPOUTS, RATES = (0.0, 0.1), (1e-3, 3e-3)  # the grid of --tune
NEURONS = (48, 96, 192)  # of a location in the network of `best`, with --tune

PEERS = {
    "STID": "stid",
    "GraphWaveNet": "graph_wavenet",
    "STAEformer": "staeformer",
}  # networks of others with dropout: their sections of the recipe

# Models that change the recipe: estimator and changed values.
VARIANTS: dict[str, tuple[str, RecipeValues]] = {
    **LAGGED,
    "Boosting-poisson": ("Boosting", {"boosting": {"objective": "poisson"}}),  # counts only
    "Transformer-best": ("Transformer", {}),
    # The levels, loss, learning rate, decay and averaging of `best`, not its graph and network.
    "Transformer-level": ("Transformer", {"preset": "best", "model": {"level": True}}),
    "Forecaster-paper": ("Forecaster", {"preset": "paper"}),
    "quick": ("Forecaster", {"preset": "quick"}),
    "best": ("Ensemble", {"preset": "best"}),
    # One number for both terms of Eq. 7, as in the paper.
    "Forecaster-one-number": ("Forecaster", {"preset": "best", "training": {"relative": False}}),
}
MODELS = (*ESTIMATORS, *VARIANTS)
_REPEATED = re.compile(r"([1-9]\d*)x(.+)")  # 3xSTID-lags: an ensemble of three trainings of one


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter that validation chooses: the recipe values of each option."""

    name: str
    options: Mapping[str, RecipeValues]


@dataclass(frozen=True)
class ModelSpec:
    """A model of the comparison: estimator, recipe, and hyperparameters to choose in turn."""

    name: str
    estimator: str
    recipe: Recipe
    hyperparameters: tuple[Hyperparameter, ...] = ()
    of: str | None = None  # the model that this one is an ablation of

    @property
    def seeded(self) -> bool:
        """Whether another seed gives another model."""
        return find_estimator(self.estimator).seeded


@dataclass(frozen=True)
class TuningOptions:
    """The hyperparameters that validation chooses."""

    thresholds: Sequence[float] = ()  # of Forecaster's graph (section 3.3)
    tune: bool = False  # dropout and learning rate of every network


@dataclass(frozen=True)
class Ablations:
    """Variants of Forecaster, each with one change."""

    graph: Sequence[GraphKind] = ()
    lags: Sequence[LagSubset] = ()
    neurons: Sequence[int] = ()  # of each location
    positions: Sequence[PositionKind] = ()


def list_models(
    recipe: Recipe,
    models: Sequence[str],
    *,
    tuning: TuningOptions | None = None,
    ablations: Ablations | None = None,
) -> list[ModelSpec]:
    """Return the models of a comparison.

    Args:
        recipe: shared by all models.
        models: names of estimators or of `VARIANTS`; `3xSTID-lags` is the average of three
            trainings of one, an `Ensemble`.
        tuning: the hyperparameters that validation chooses.
        ablations: further variants of Forecaster.
    """
    specs = [
        _repeated_spec(name, repeated, recipe)
        if (repeated := _REPEATED.fullmatch(name))
        else _model_spec(name, recipe, tuning or TuningOptions())
        for name in dict.fromkeys(models)
    ]
    by_name = {spec.name: spec for spec in specs}
    changes = _ablation_values(recipe, ablations or Ablations())
    if changes and "Forecaster" not in by_name:
        raise ConfigError("ablations need Forecaster; add it to --models")
    digests = {spec.recipe.digest() for spec in specs if spec.estimator == "Forecaster"}
    for name, values in changes.items():
        ablated = change(recipe, values, source=name)
        if ablated.digest() in digests:  # the change is already part of the recipe
            continue
        digests.add(ablated.digest())
        graph_kind = values.get("graph", {}).get("kind")
        hyperparameters = tuple(
            hyperparameter
            for hyperparameter in by_name["Forecaster"].hyperparameters
            if not (hyperparameter.name == "threshold" and graph_kind in GRAPHS_WITHOUT_THRESHOLD)
        )
        specs.append(
            ModelSpec(
                f"Forecaster, {name}", "Forecaster", ablated, hyperparameters, of="Forecaster"
            )
        )
    return specs


def _model_spec(name: str, recipe: Recipe, tuning: TuningOptions) -> ModelSpec:
    if name not in MODELS:
        hint = nearest_name(name, list(MODELS))
        raise ConfigError(f"no model {name!r}{hint}; there are {', '.join(MODELS)}")
    estimator, changes = VARIANTS.get(name, (name, {}))
    hyperparameters: list[Hyperparameter] = []
    if name in ("Transformer-best", "Transformer-level"):
        hyperparameters.append(_widths(recipe))
    if estimator == "Forecaster" and tuning.thresholds:
        hyperparameters.append(_thresholds(tuning.thresholds))
    if tuning.tune and is_network(estimator):
        tuned = change(recipe, changes, source=name)
        if estimator == "Forecaster" and tuned.uses_mixer:
            hyperparameters.append(_neurons(tuned))
        hyperparameters.append(_grid(estimator, tuned))
    for hyperparameter in hyperparameters:  # invalid options are refused before any training
        for option, values in hyperparameter.options.items():
            change(recipe, changes, values, source=f"{name}, {hyperparameter.name} {option}")
    return ModelSpec(name, estimator, change(recipe, changes, source=name), tuple(hyperparameters))


def _repeated_spec(name: str, repeated: re.Match[str], recipe: Recipe) -> ModelSpec:
    """The ensemble of several trainings of one model."""
    member = repeated[2]
    members = [member_name for member_name in get_args(MemberName) if member_name != "Ridge"]
    if member not in members:
        hint = nearest_name(member, members)
        raise ConfigError(
            f"{name}: {member!r} cannot be averaged over trainings{hint}; {', '.join(members)} can"
        )
    ensemble = {"ensemble": {"members": [member], "seeds": int(repeated[1])}}
    return ModelSpec(name, "Ensemble", change(recipe, ensemble, source=name))


def is_network(estimator: str) -> bool:
    """Whether an estimator is a network, trained as the recipe's [training] section says."""
    return estimator in ("DCRNN", "Transformer", "Forecaster", *PEERS)


def _widths(recipe: Recipe) -> Hyperparameter:
    """Return the widths that the number of heads divides (section 3.2.4)."""
    heads, widths = recipe.model.heads, recipe.evaluation.widths
    options = {str(w): {"model": {"width": w}} for w in widths if w % heads == 0}
    if not options:
        raise ConfigError(
            f"model.heads = {heads} divides none of evaluation.widths = {list(widths)}"
        )
    return Hyperparameter("width", options)


def _thresholds(thresholds: Sequence[float]) -> Hyperparameter:
    cuts = {f"{t:g}": {"graph": {"threshold": t, "degree": None}} for t in thresholds}
    return Hyperparameter("threshold", cuts)


def _neurons(recipe: Recipe) -> Hyperparameter:
    """Return sizes of the network of `best`, the recipe's own among them."""
    sizes = sorted({*NEURONS, recipe.mixer.hidden})
    return Hyperparameter("neurons", {str(size): {"mixer": {"hidden": size}} for size in sizes})


def _grid(estimator: str, recipe: Recipe) -> Hyperparameter:
    """Return the grid of dropouts and learning rates; DCRNN has no dropout.

    Of a network with a dropout of its authors, that is among the options.
    """
    options: dict[str, RecipeValues] = {}
    rates = sorted({*RATES, recipe.training.learning_rate})  # a preset's own among them
    is_mixer = estimator == "Forecaster" and recipe.uses_mixer
    network = PEERS.get(estimator, "mixer" if is_mixer else "model")
    dropouts: Sequence[float | None] = (None,) if estimator == "DCRNN" else DROPOUTS
    if estimator in PEERS:
        dropouts = sorted({*DROPOUTS, getattr(recipe, network).dropout})
    for dropout, rate in product(dropouts, rates):
        training = {"training": {"learning_rate": rate}}
        if dropout is None:
            options[f"rate {rate:g}"] = training
        else:
            options[f"dropout {dropout:g}, rate {rate:g}"] = {
                network: {"dropout": dropout},
                **training,
            }
    return Hyperparameter("training", options)


def _ablation_values(recipe: Recipe, ablations: Ablations) -> dict[str, RecipeValues]:
    """Return the recipe values of each ablation, by its name."""
    changes: dict[str, RecipeValues] = {}
    if recipe.uses_mixer and (ablations.neurons or ablations.positions):
        raise ConfigError(
            "ablations of neurons and positions need the paper's network; preset best has none"
        )
    for kind in ablations.graph:
        changes[f"graph {kind}"] = {"graph": {"kind": kind}}
    for lags in ablations.lags:
        changes[f"{lags} lags"] = {"lags": _select_seasons(recipe.lags, lags)}
    for neurons in ablations.neurons:
        changes[f"{neurons} neurons"] = {"model": {"per_location": neurons}}
    for positions in ablations.positions:
        changes[f"{positions} positions"] = {"model": {"positions": positions}}
    return changes


def _select_seasons(lags: LagConfig, subset: LagSubset) -> dict[str, Any]:
    """Return the lags with a part of the seasons: none, the daily ones, or the weekly ones."""
    seasons = {
        "recent": [],
        "daily": [season for season in lags.seasons if season.days < WEEK_DAYS],
        "weekly": [season for season in lags.seasons if season.days >= WEEK_DAYS],
    }[subset]
    return {"seasons": [season.model_dump() for season in seasons]}
