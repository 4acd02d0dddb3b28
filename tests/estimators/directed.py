"""A city of seven locations whose demand travels, as its directed graph says, and its runs."""

from dataclasses import replace
from functools import cache

import numpy as np

from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.graph.dependency import About, DependencyGraph
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates, Locations
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits

# 0 → 1 → 2, and 3 ⇄ 4; 5 and 6 have no edge: source, target, delay
EDGES = [(0, 1, 1), (0, 1, 3), (1, 2, 3), (3, 4, 1), (4, 3, 2)]
STRENGTHS = [0.5, -0.75, 0.25, 0.375, -0.125]
BEST = change(RECIPE, {"preset": "best", "mixer": {"hidden": 8}}, source="test")
ORIGIN = 896


def travel_city() -> Panel:
    """A few weeks of seven locations."""
    city, more = small_city(), small_city(seed=1)
    steps = len(city.covariates.values)
    return replace(
        city,
        values=np.concatenate([city.values, more.values[:, 2:4]], axis=1),
        locations=Locations.of_ids(f"place {n}" for n in range(7)),
        local_covariates=LocalCovariates.empty(steps, 7),
    )


PANEL = travel_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)


def directed_graph() -> DependencyGraph:
    """The graph of the edges above."""
    *ends, delays = np.array(EDGES).T
    pairs, about = np.column_stack(ends), About(kind="given")
    return DependencyGraph(PANEL.locations, pairs, np.array(STRENGTHS), about=about, delays=delays)


@cache
def fitted(recipe: Recipe = RECIPE) -> Forecaster:
    """A network that was trained for a moment, however bad its forecasts are."""
    estimator = Forecaster(directed_graph(), recipe)
    estimator.falls_back = False
    return estimator.fit(PANEL, SPLITS)
