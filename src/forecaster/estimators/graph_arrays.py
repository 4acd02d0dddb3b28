"""The dependency graph among the arrays of a run; delays only if it is directed."""

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from forecaster.artifact import Run
from forecaster.errors import ArtifactError
from forecaster.estimators.training_data import Arrays
from forecaster.graph.dependency import About, DependencyGraph, bare
from forecaster.kernels.pattern import BlockPattern
from forecaster.panel.parts import Locations

PAIRS, STRENGTHS, DELAYS = "graph.pairs", "graph.strengths", "graph.delays"


@dataclass(frozen=True, eq=False)
class RunEdges:
    """The edges of a run's graph, as in `DependencyGraph`."""

    pairs: Int64[np.ndarray, "E 2"]  # of locations; source and target if directed
    delays: Int64[np.ndarray, " E"] | None  # steps from source to target; None: undirected

    @property
    def is_directed(self) -> bool:
        """Whether edges lead from a source to a target, with a delay."""
        return self.delays is not None

    def degrees(self, count: int) -> Int64[np.ndarray, " N"]:
        """The number of neighbours of each of `count` locations; if directed, of its sources."""
        ends = np.unique(self.pairs, axis=0)[:, 1] if self.is_directed else self.pairs.ravel()
        return np.bincount(ends, minlength=count)

    def pattern(self, count: int) -> BlockPattern:
        """The pattern of a network of `count` locations: every link once, whatever its delays."""
        return BlockPattern.from_pairs(count, self.pairs, directed=self.is_directed)


def graph_arrays(graph: DependencyGraph) -> dict[str, np.ndarray]:
    """Return the arrays of a run that hold a graph."""
    edges: dict[str, np.ndarray] = {PAIRS: graph.pairs, STRENGTHS: graph.strengths}
    return edges if graph.delays is None else {**edges, DELAYS: graph.delays}


def edges_of(arrays: Arrays) -> RunEdges:
    """Return the edges of a run; arrays that cannot hold edges are refused."""
    pairs, delays = arrays[PAIRS], arrays.get(DELAYS)
    if pairs.dtype != np.int64 or pairs.ndim != 2 or pairs.shape[1] != 2:  # noqa: PLR2004 (ends)
        raise ArtifactError(f"edges are {pairs.dtype} {pairs.shape}, not pairs of locations")
    if delays is not None:
        if delays.dtype != np.int64 or delays.shape != pairs.shape[:1]:
            form = f"{delays.dtype} {delays.shape}, not one int64 for each of {len(pairs)} edges"
            raise ArtifactError(f"delays are {form}")
        if (delays < 1).any():
            raise ArtifactError(f"a delay is {delays.min()} steps; an edge has at least one")
    return RunEdges(pairs, delays)


def graph_of(run: Run, locations: Locations) -> DependencyGraph:
    """Return the graph of a run.

    Args:
        run: with a graph among its arrays.
        locations: of the run, in its order.
    """
    edges, strengths = edges_of(run.arrays), run.arrays[STRENGTHS]
    about = About.model_validate_json(json.dumps(run.about["graph"]))
    return DependencyGraph(bare(locations), edges.pairs, strengths, about, None, edges.delays)


def digest_of(graph: DependencyGraph) -> str:
    """The hash of a graph; of one that was not saved, that of its locations and edges."""
    if graph.digest is not None:
        return graph.digest
    edges = np.ascontiguousarray(graph.pairs).tobytes()
    edges += b"" if graph.delays is None else np.ascontiguousarray(graph.delays).tobytes()
    return hashlib.sha256(graph.location_digest.encode() + edges).hexdigest()
