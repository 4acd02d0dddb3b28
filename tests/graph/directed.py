"""Any directed graph, for round trips."""

import numpy as np
from hypothesis import strategies as st

from forecaster.graph.dependency import About, DependencyGraph
from forecaster.panel.parts import Locations

PLACES = Locations.of_ids(("a", "b", "c", "007", "e", "7", "g"))
NUMBERS = st.integers(0, len(PLACES) - 1)
EDGES = st.tuples(NUMBERS, NUMBERS, st.integers(1, 5)).filter(lambda edge: edge[0] != edge[1])
STRENGTHS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def directed_graphs(draw: st.DrawFn) -> DependencyGraph:
    """Return a graph of seven locations with any edges, also both ways and of several delays."""
    edges = draw(st.dictionaries(EDGES, STRENGTHS, max_size=31))
    rows = np.array(sorted(edges), dtype=np.int64).reshape(-1, 3)
    strengths = np.array([edges[edge] for edge in sorted(edges)], dtype=np.float64)
    return DependencyGraph(PLACES, rows[:, :2], strengths, About(kind="given"), delays=rows[:, 2])


def same(one: DependencyGraph, other: DependencyGraph) -> bool:
    """Whether two directed graphs have the same edges."""
    edges = zip(*((g.pairs, g.strengths, g.delays) for g in (one, other)), strict=True)
    return one.locations.ids == other.locations.ids and all(
        a is not None and b is not None and np.array_equal(a, b) for a, b in edges
    )
