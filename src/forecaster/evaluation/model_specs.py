"""What is compared: the rows of the table, each an estimator by a recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from forecaster.choices import GraphKind, PositionKind
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, nearest_name
from forecaster.estimators.registry import ESTIMATORS, find_estimator
from forecaster.recipe import Recipe, change

Lags = Literal["recent", "daily", "weekly"]
Values = Mapping[str, Any]  # of a recipe, section by section

UNCUT = ("own", "complete", "random")  # graphs that no threshold decides
WEEK_DAYS = 7
DROPOUTS, RATES = (0.0, 0.1), (1e-3, 3e-3)  # the grid of --tune
NEURONS = (48, 96, 192)  # of a location in the network of `best`, with --tune

# Rows that are more than an estimator by the recipe as it is.
VARIANTS: dict[str, tuple[str, Values]] = {
    "DCRNN-lags": ("DCRNN", {"dcrnn": {"inputs": "lags"}}),
    "Transformer-best": ("Transformer", {}),
    # All that `best` has but for its graph and network: levels, loss, rate, decay, averaging.
    "Transformer-level": ("Transformer", {"preset": "best", "model": {"level": True}}),
    "Forecaster-paper": ("Forecaster", {"preset": "paper"}),
    "Forecaster-best": ("Forecaster", {"preset": "best"}),
}
MODELS = (*ESTIMATORS, *VARIANTS)


@dataclass(frozen=True)
class Choice:
    """Something that validation decides: the recipes to choose from, by what they are called."""

    what: str
    options: Mapping[str, Values]


@dataclass(frozen=True)
class Entry:
    """A row: an estimator by a recipe, with what is still to be chosen, one after the other."""

    name: str
    estimator: str
    recipe: Recipe
    choices: tuple[Choice, ...] = ()
    of: str | None = None  # the row that this one is an ablation of

    @property
    def seeded(self) -> bool:
        """Tell whether another seed gives another model."""
        return find_estimator(self.estimator).seeded


@dataclass(frozen=True)
class Choices:
    """What validation decides of the rows."""

    thresholds: Sequence[float] = ()  # of Forecaster's graph (section 3.3)
    tune: bool = False  # dropout and learning rate of every network


@dataclass(frozen=True)
class Ablations:
    """What else Forecaster is tried with, one thing at a time."""

    graph: Sequence[GraphKind] = ()
    lags: Sequence[Lags] = ()
    neurons: Sequence[int] = ()  # of each location
    positions: Sequence[PositionKind] = ()


def list_entries(
    recipe: Recipe,
    models: Sequence[str],
    *,
    choices: Choices | None = None,
    ablations: Ablations | None = None,
) -> list[Entry]:
    """Return the rows of a table.

    Args:
        recipe: what all of them share.
        models: names of estimators, or of variants.
        choices: what validation decides.
        ablations: further rows of Forecaster.
    """
    entries = [_entry(name, recipe, choices or Choices()) for name in dict.fromkeys(models)]
    named = {entry.name: entry for entry in entries}
    wanted = _variants(recipe, ablations or Ablations())
    if wanted and "Forecaster" not in named:
        raise ConfigError("ablations are of Forecaster; add it to --models")
    known = {entry.recipe.digest() for entry in entries if entry.estimator == "Forecaster"}
    for name, values in wanted.items():
        other = change(recipe, values, source=name)
        if other.digest() in known:  # it is what the row itself does
            continue
        known.add(other.digest())
        undecided = tuple(
            choice
            for choice in named["Forecaster"].choices
            if not (choice.what == "threshold" and values.get("graph", {}).get("kind") in UNCUT)
        )
        entries.append(Entry(f"Forecaster, {name}", "Forecaster", other, undecided, "Forecaster"))
    return entries


def _entry(name: str, recipe: Recipe, given: Choices) -> Entry:
    if name not in MODELS:
        hint = nearest_name(name, list(MODELS))
        raise ConfigError(f"no model {name!r}{hint}; there are {', '.join(MODELS)}")
    estimator, own = VARIANTS.get(name, (name, {}))
    choices: list[Choice] = []
    if name in ("Transformer-best", "Transformer-level"):
        choices.append(_widths(recipe))
    if estimator == "Forecaster" and given.thresholds:
        choices.append(_thresholds(given.thresholds))
    if given.tune and is_network(estimator):
        tuned = change(recipe, own, source=name)
        if estimator == "Forecaster" and tuned.preset == "best":
            choices.append(_neurons(tuned))
        choices.append(_grid(estimator, tuned))
    for choice in choices:  # what cannot be chosen is refused before anything is trained
        for option, values in choice.options.items():
            change(recipe, own, values, source=f"{name}, {choice.what} {option}")
    return Entry(name, estimator, change(recipe, own, source=name), tuple(choices))


def is_network(estimator: str) -> bool:
    """Tell whether an estimator is trained by the loop that a recipe's [training] is for."""
    return estimator in ("DCRNN", "Transformer", "Forecaster")


def _widths(recipe: Recipe) -> Choice:
    """Return the widths to choose from (section 3.2.4)."""
    heads, widths = recipe.model.heads, recipe.evaluation.widths
    options = {str(w): {"model": {"width": w}} for w in widths if w % heads == 0}
    if not options:
        raise ConfigError(f"model.heads = {heads} divides none of {list(widths)}")
    return Choice("width", options)


def _thresholds(thresholds: Sequence[float]) -> Choice:
    cuts = {f"{t:g}": {"graph": {"threshold": t, "degree": None}} for t in thresholds}
    return Choice("threshold", cuts)


def _neurons(recipe: Recipe) -> Choice:
    """Return the sizes of the network of `best` to choose from, the recipe's own among them."""
    sizes = sorted({*NEURONS, recipe.mixer.hidden})
    return Choice("neurons", {str(size): {"mixer": {"hidden": size}} for size in sizes})


def _grid(estimator: str, recipe: Recipe) -> Choice:
    """Return dropouts and learning rates; DCRNN has no dropout."""
    options: dict[str, Values] = {}
    rates = sorted({*RATES, recipe.training.learning_rate})  # a preset's own among them
    network = "mixer" if estimator == "Forecaster" and recipe.preset == "best" else "model"
    for dropout, rate in product((None,) if estimator == "DCRNN" else DROPOUTS, rates):
        training = {"training": {"learning_rate": rate}}
        if dropout is None:
            options[f"rate {rate:g}"] = training
        else:
            options[f"dropout {dropout:g}, rate {rate:g}"] = {
                network: {"dropout": dropout},
                **training,
            }
    return Choice("training", options)


def _variants(recipe: Recipe, ablations: Ablations) -> dict[str, Values]:
    """Return what each ablation changes, by its name."""
    wanted: dict[str, Values] = {}
    if recipe.preset == "best" and (ablations.neurons or ablations.positions):
        raise ConfigError("neurons and positions are those of the paper's network, not of best's")
    for kind in ablations.graph:
        wanted[f"graph {kind}"] = {"graph": {"kind": kind}}
    for lags in ablations.lags:
        wanted[f"{lags} lags"] = {"lags": _fewer(recipe.lags, lags)}
    for neurons in ablations.neurons:
        wanted[f"{neurons} neurons"] = {"model": {"per_location": neurons}}
    for positions in ablations.positions:
        wanted[f"{positions} positions"] = {"model": {"positions": positions}}
    return wanted


def _fewer(lags: LagConfig, kept: Lags) -> dict[str, Any]:
    """Return the lags with some seasons only: none, those within a week, or the others."""
    chosen = {
        "recent": [],
        "daily": [season for season in lags.seasons if season.days < WEEK_DAYS],
        "weekly": [season for season in lags.seasons if season.days >= WEEK_DAYS],
    }[kept]
    return {"seasons": [season.model_dump() for season in chosen]}
