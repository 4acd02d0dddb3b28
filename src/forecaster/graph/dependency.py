"""The dependency graph: edges between conditionally dependent locations (Eq. 3)."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from pydantic import field_validator, model_serializer

from forecaster.config import Stage
from forecaster.errors import ArtifactError, DataError, Faults, count_of, name_some
from forecaster.graph.edges import (
    Delays,
    Pairs,
    Strengths,
    as_table,
    distance_km,
    read_edges,
)
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations, read_only
from forecaster.reading.load import Table
from forecaster.splits import SPLITS, Splits, assign_splits


class PathStep(Stage):
    """One penalty that was tried."""

    penalty: float
    score: float  # the larger, the better
    edges: int  # before the threshold
    converged: bool


class InverseComparison(Stage):
    """The thresholded inverse covariance, for comparison with the graphical lasso."""

    edges: int | None  # None: there is no inverse
    average_degree: float | None
    overlap: float | None  # edges in both, as a share of the edges in either
    note: str = ""


class Worth(Stage):
    """Root mean squared errors some steps ahead on held-out weeks, in deviations."""

    step: int
    own: float  # of a linear forecast from a location's own past
    factors: float  # and from factors of the city
    edges: float  # and from others' past along the edges


class LaggedRecord(Stage):
    """How lagged edges were learned, and what they are worth."""

    max_delay: int  # largest delay that was looked at, in steps
    factors: int  # of the city, whose effects are no edges
    penalty: float | None  # of others' past; None: no edge helps
    gap: float | None  # largest duality gap of a regression, as a share of a variance
    p_value: float  # of edges being of use on held-out weeks
    blocks: int  # of held-out days
    path: tuple[PathStep, ...] = ()
    worth: tuple[Worth, ...] = ()


class About(Stage):
    """The record of how a graph was learned; JSON in its manifest."""

    kind: str  # as in GraphConfig, or "given"
    subtracted: str | None = None
    penalise_diagonal: bool | None = None
    penalty: float | None = None  # λ of Eq. 4, on the correlation scale
    chosen_by: str | None = None  # criterion of its choice
    path: tuple[PathStep, ...] = ()
    threshold: float | None = None  # on |Eq. 3|
    degree: float | None = None  # the wanted average degree, if it set the threshold
    gap: float | None = None  # of the graphical lasso, per location: a certificate
    gap_tolerance: float | None = None
    iterations: int | None = None
    converged: bool | None = None
    steps: int | None = None  # M of Eq. 5
    dropped_steps: int = 0  # training steps with too little observed
    filled_values: int = 0
    hours: tuple[tuple[str, str], ...] = ()  # the training ranges: first and last step, UTC
    panel: str | None = None  # hash of the panel, if it was saved
    beside: InverseComparison | None = None
    notes: tuple[str, ...] = ()
    learned_on: tuple[str, ...] = ()  # ids, where places have come or gone since; empty: all
    lagged: LaggedRecord | None = None  # of lagged edges; left out for other kinds

    @model_serializer(mode="wrap")
    def _leave_out(self, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """The records of other kinds, and so their hashes, stay as they were."""
        content = write(self)
        if self.lagged is None:
            del content["lagged"]
        return content

    @field_validator("hours")
    @classmethod
    def _are_times(cls, hours: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for text in chain.from_iterable(hours):
            _instant(text)  # pydantic reports a ValueError
        return hours


@dataclass(frozen=True, eq=False)
class DependencyGraph:
    """Locations and the edges between them; every location depends on itself too.

    Edges with delays are directed: the past of the first location tells about the future of the
    second, so many steps later. Edges without delays are undirected.
    """

    locations: Locations  # ids, names and coordinates
    pairs: Pairs  # numbers of locations, sorted: first < second, or source and target if directed
    strengths: Strengths  # of the edges, signed: conditional correlations or effects, if learned
    about: About  # how it was learned
    digest: str | None = None  # hash of its manifest, once it is saved
    delays: Delays | None = None  # steps from source to target; None: the edges are undirected

    def __post_init__(self) -> None:
        N, (first, second) = len(self.locations), self.pairs.T
        faults = Faults("graph")
        if len(self.pairs) != len(self.strengths):
            faults.add(f"{len(self.pairs)} edges with {len(self.strengths)} strengths")
        if len(self.pairs) and (self.pairs.min() < 0 or self.pairs.max() >= N):
            faults.add(f"edges refer to more than {count_of(N, 'location')}")
        if self.delays is not None:
            self._check_delays(self.delays, faults)
        elif (first >= second).any() or (np.diff(first * N + second) <= 0).any():
            faults.add("edges are not sorted, distinct pairs of two locations")
        if not np.isfinite(self.strengths).all():
            faults.add("strengths are not all finite")
        faults.raise_any(DataError)
        for name in ("pairs", "strengths", *(("delays",) if self.is_directed else ())):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def _check_delays(self, delays: Delays, faults: Faults) -> None:
        if len(delays) != len(self.pairs):
            faults.add(f"{len(self.pairs)} edges with {len(delays)} delays")
            return
        if len(delays) and delays.min() < 1:
            faults.add("delays are not all at least one step")
        source, target = self.pairs.T
        order = np.lexsort((delays, target, source))
        rows = np.column_stack([self.pairs, delays])
        is_sorted = (order == np.arange(len(order))).all()
        if not is_sorted or (source == target).any() or len(np.unique(rows, axis=0)) < len(rows):
            faults.add("edges are not sorted, distinct sources, targets and delays")

    def __repr__(self) -> str:
        edges = count_of(len(self), "directed edge" if self.is_directed else "edge")
        sizes = f"{count_of(len(self.locations), 'location')}, {edges}"
        degree = f"average degree {self.average_degree:.3g}"
        return f"DependencyGraph({self.about.kind}, {sizes}, {degree})"

    def __len__(self) -> int:
        return len(self.pairs)

    @staticmethod
    def from_edges(
        table: Table | Sequence[tuple[Any, ...]], places: Panel | Locations
    ) -> "DependencyGraph":
        """Return the graph of a table of edges.

        Args:
            table: columns `source`, `target` and optionally `strength` and `delay`: a DataFrame,
                an Arrow table, the path of a CSV or Parquet file, or a sequence of tuples. With
                delays (whole steps, at least 1) the graph is directed; without them an edge may
                be given one way or both.
            places: the panel or its locations, which give the order.
        """
        locations = places.locations if isinstance(places, Panel) else places
        edges, delays = read_edges(as_table(table), locations)
        return DependencyGraph(bare(locations), *edges, About(kind="given"), delays=delays)

    # ----------------------------------------------------------------------------- description

    @property
    def is_directed(self) -> bool:
        """Whether edges lead from a source to a target, with a delay."""
        return self.delays is not None

    @cached_property
    def links(self) -> Pairs:
        """The pairs joined by an edge, each once whatever its delays; if directed, as directed."""
        return np.unique(self.pairs, axis=0) if self.is_directed else self.pairs

    @cached_property
    def link_strengths(self) -> Strengths:
        """The strength of each link; of several delays the one with the largest size."""
        if not self.is_directed:
            return self.strengths
        order = np.lexsort((-np.abs(self.strengths), *self.pairs.T[::-1]))
        _, strongest = np.unique(self.pairs[order], axis=0, return_index=True)
        return self.strengths[order[strongest]]

    @cached_property
    def degrees(self) -> Int64[np.ndarray, " N"]:
        """The number of neighbours of each location; if directed, of those that lead to it."""
        ends = self.links[:, 1] if self.is_directed else self.pairs.reshape(-1)
        return np.bincount(ends, minlength=len(self.locations))

    @cached_property
    def out_degrees(self) -> Int64[np.ndarray, " N"]:
        """The number of neighbours of each location; if directed, of those it leads to."""
        if not self.is_directed:
            return self.degrees
        return np.bincount(self.links[:, 0], minlength=len(self.locations))

    @property
    def learned_on(self) -> tuple[str, ...]:
        """The places that it was learned on; others have got edges since (`extend_graph`)."""
        return self.about.learned_on or self.locations.ids

    @property
    def average_degree(self) -> float:
        """The mean of the degrees; 2.5 in the paper (section 3.3)."""
        return len(self.links) * (1 if self.is_directed else 2) / len(self.locations)

    @cached_property
    def components(self) -> Int64[np.ndarray, " N"]:
        """The index of each location's component, whatever the directions; 0 is the largest."""
        from scipy.sparse import coo_array  # noqa: PLC0415 (forecasts do without)
        from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 (likewise)

        N, (first, second) = len(self.locations), self.pairs.T
        matrix = coo_array((np.ones(len(first)), (first, second)), shape=(N, N))
        count, label = connected_components(matrix, directed=False)
        rank = np.empty(count, dtype=np.int64)
        rank[np.argsort(-np.bincount(label, minlength=count), kind="stable")] = np.arange(count)
        return np.asarray(rank[label])

    def hubs(self, count: int = 5) -> list[tuple[str, int]]:
        """Return the names and degrees of the locations with the most neighbours.

        If directed, of those that tell about the most others, with the number of these.
        """
        degrees = self.out_degrees
        order = np.argsort(-degrees, kind="stable")[:count]
        return [(self.locations.names[n], int(degrees[n])) for n in order if degrees[n]]

    @cached_property
    def lengths_km(self) -> Strengths:
        """The length of each edge; NaN where coordinates are unknown."""
        return distance_km(self.locations, *self.pairs.T)

    def matrix(self) -> Float64[np.ndarray, "N N"]:
        """Return the strengths as a matrix, zero where there is no edge.

        If directed, rows are sources and columns targets, and of several delays the strength with
        the largest size is taken; else the matrix is symmetric.
        """
        N, (first, second) = len(self.locations), self.links.T
        matrix = np.zeros((N, N))
        matrix[first, second] = self.link_strengths
        if not self.is_directed:
            matrix[second, first] = self.link_strengths
        return matrix

    def overlap(self, other: "DependencyGraph") -> float:
        """Return the Jaccard index of two edge sets: common edges as a share of all.

        Directed graphs are compared by their links, whatever the delays; a directed with an
        undirected one by the pairs that they join, whatever the directions.
        """
        N = len(self.locations)
        if self.location_digest != other.location_digest:
            raise ArtifactError(
                "graphs of different locations cannot be compared; learn both from one panel"
            )
        sets = [graph.links for graph in (self, other)]
        if self.is_directed != other.is_directed:
            sets = [np.sort(links, axis=1) for links in sets]
        codes = [links[:, 0] * N + links[:, 1] for links in sets]
        union = len(np.union1d(*codes))
        return len(np.intersect1d(*codes)) / union if union else 1.0

    # -------------------------------------------------------------------------------- matching

    @property
    def location_digest(self) -> str:
        """The hash of the ids in their order."""
        return location_digest(self.locations)

    def match(self, panel: Panel, splits: Splits | None = None) -> None:
        """Raise if locations differ, or if steps of validation or test were learned from."""
        if self.location_digest != location_digest(panel.locations):
            raise ArtifactError(_misfit(self.locations, panel.locations))
        if splits is None or not self.about.hours:
            return
        held_out = panel.times[assign_splits(panel, splits) > SPLITS.index("train")]
        for first, last in self.about.hours:
            seen = held_out[(held_out >= _instant(first)) & (held_out <= _instant(last))]
            if len(seen):
                problem = f"graph was learned from {count_of(len(seen), 'step')} of validation or"
                when = f"test, the first at {seen[0]}Z"
                raise ArtifactError(f"{problem} {when}; learn it again from these splits")


def bare(locations: Locations) -> Locations:
    """Return the locations without extra columns, as a graph stores them."""
    return Locations(locations.ids, locations.names, locations.lat, locations.lon)


def location_digest(locations: Locations) -> str:
    """Return the hash of the ids in their order."""
    return hashlib.sha256(json.dumps(locations.ids).encode()).hexdigest()


def _misfit(expected: Locations, actual: Locations) -> str:
    """Describe how the locations of a graph and of a panel differ."""
    a, b = (location_digest(locations)[:12] for locations in (expected, actual))
    message = f"graph is for {count_of(len(expected), 'location')} (hash {a})"
    message += f", panel has {len(actual)} (hash {b})"
    lacking, unknown = (
        sorted({*expected.ids} - {*actual.ids}),
        sorted({*actual.ids} - {*expected.ids}),
    )
    if not (lacking or unknown):
        return f"{message}; the order differs; use Panel.select(graph.locations.ids)"
    message += f"; the panel lacks {name_some(lacking)}" if lacking else ""
    message += f"; the graph lacks {name_some(unknown)}" if unknown else ""
    remedy = "learn a graph from this panel, or extend it (forecaster.graph.extend)"
    return f"{message}; {remedy}"


def _instant(text: str) -> np.datetime64:
    instant = np.datetime64(text.removesuffix("Z"), "s")
    if np.isnat(instant):
        raise ValueError(f"{text!r} is not a time")
    return instant
