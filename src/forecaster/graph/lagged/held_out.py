"""How well the edges of several graphs forecast steps that none of them was learned from."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.lagged.covariances import find_factors, sum_products, to_covariances
from forecaster.graph.lagged.deviations import at_steps, take_deviations
from forecaster.graph.lagged.regressions import fit_edges, squared_errors
from forecaster.panel.panel import Panel


def edge_errors(
    panel: Panel,
    train: Bool[np.ndarray, " M"],
    held_out: Bool[np.ndarray, " M"],
    graphs: Sequence[DependencyGraph],
    factors: int,
) -> Float64[np.ndarray, "blocks G"]:
    """The squared errors of one step ahead along the edges of each graph, by block of days.

    Every location is regressed on its own past, the factors and the sources of its edges in the
    training steps, and forecast in the held-out ones, in deviations of variance 1.

    Args:
        panel: values of the graphs' locations.
        train: the steps that regressions are fitted to.
        held_out: the steps that are forecast.
        graphs: directed.
        factors: of the city, at most.
    """
    edges = [(graph.pairs, np.asarray(graph.delays)) for graph in graphs]
    reach = max(int(delays.max(initial=1)) for _, delays in edges)
    sample = take_deviations(panel, train)
    sums = sum_products(sample, sample.whole_runs, reach)
    inputs = to_covariances(sums, find_factors(sums, factors))
    series, tested = inputs.series(sample), at_steps(sample, panel, held_out)
    errors = [
        squared_errors(fit_edges(inputs, *ends), tested, series, tested.runs[0]).sum(axis=1)
        for ends in edges
    ]
    return np.column_stack(errors)[: int(tested.blocks.max()) + 1]
