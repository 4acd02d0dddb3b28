"""Estimators that were fitted to a small city, once for all tests that explain them."""

from functools import cache

from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.graph.dependency import DependencyGraph
from forecaster.splits import Splits

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)
AT, STEP = "2021-04-07T10:00+02:00", 896  # the same: a step of the panel
EDGES = [("place 0", "place 3", 0.25), ("place 3", "place 1", 0.5)]  # 2 and 4 have none


@cache
def fitted(kind: type[NetworkEstimator], *, falls_back: bool = False) -> NetworkEstimator:
    """Return an estimator that was trained for a moment, however bad its forecasts are."""
    estimator = kind(recipe=RECIPE)
    if isinstance(estimator, Forecaster):
        estimator.graph = DependencyGraph.from_edges(EDGES, PANEL)
    estimator.falls_back = falls_back
    return estimator.fit(PANEL, SPLITS)
