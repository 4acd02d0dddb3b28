"""Edges between locations: from a matrix of correlations (Eq. 3), or from a table."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64, Int64

from forecaster.errors import DataError, Faults, count_of, name_some
from forecaster.panel.parts import Locations
from forecaster.panel.tables.columns import encode_ids, need_columns, numbers
from forecaster.reading.load import Table, load

EARTH_KM = 6371.0088  # mean radius
ENDS = ("source", "target")
STRENGTH, DELAY = "strength", "delay"
LONGEST_DELAY = 2**53  # steps; beyond it floats are no longer exact

Pairs = Int64[np.ndarray, "E 2"]
Strengths = Float64[np.ndarray, " E"]
Delays = Int64[np.ndarray, " E"]


class EdgeList(NamedTuple):
    """Edges, each once."""

    pairs: Pairs  # sorted: first < second, or source and target if they have delays
    strengths: Strengths  # signed


def conditional_correlation(
    precision: Float64[np.ndarray, "N N"],
) -> Float64[np.ndarray, "N N"]:
    """Return the correlation of every pair of locations given all others (Eq. 3)."""
    scale = 1.0 / np.sqrt(np.diag(precision))
    correlation = -precision * np.outer(scale, scale)
    np.fill_diagonal(correlation, 1.0)  # Eq. 3 is for i ≠ j only
    return correlation


def edges_above(strengths: Float64[np.ndarray, "N N"] | EdgeList, threshold: float) -> EdgeList:
    """Return the pairs with an absolute strength above a threshold (section 2.2)."""
    if isinstance(strengths, EdgeList):
        strong = np.abs(strengths.strengths) > threshold
        return EdgeList(strengths.pairs[strong], strengths.strengths[strong])
    pairs = np.argwhere(np.triu(np.abs(strengths) > threshold, k=1))
    return EdgeList(pairs, strengths[pairs[:, 0], pairs[:, 1]])


def threshold_for_degree(
    strengths: Float64[np.ndarray, "N N"] | EdgeList, degree: float, locations: int | None = None
) -> float:
    """Return the threshold that gives an average degree.

    It lies half way between the weakest edge kept and the strongest one left out, so that rounding
    does not change the edges; if those two are equal, both are kept.

    Args:
        strengths: of all pairs, or of those where they are not zero.
        degree: wanted.
        locations: their number, if not all pairs are given.
    """
    if isinstance(strengths, EdgeList):
        N, sizes = locations or 0, np.abs(strengths.strengths)
    else:
        N = len(strengths)
        sizes = np.abs(strengths[np.triu(np.ones((N, N), dtype=bool), k=1)])
    wanted = round(degree * N / 2)
    if wanted >= np.count_nonzero(sizes):
        return 0.0
    if wanted == 0:
        return float(sizes.max())
    weakest, next_one = -np.partition(-sizes, (wanted - 1, wanted))[[wanted - 1, wanted]]
    middle = (weakest + next_one) / 2
    return float(middle if middle < weakest else np.nextafter(weakest, 0.0))


def distance_km(
    locations: Locations, first: Int64[np.ndarray, " K"], second: Int64[np.ndarray, " K"]
) -> Float64[np.ndarray, " K"]:
    """Return great-circle distances of pairs of locations; NaN where coordinates are unknown."""
    lat, lon = np.radians(locations.lat), np.radians(locations.lon)
    across = np.sin((lat[first] - lat[second]) / 2) ** 2
    along = np.sin((lon[first] - lon[second]) / 2) ** 2
    chord = across + np.cos(lat[first]) * np.cos(lat[second]) * along
    return np.asarray(2 * EARTH_KM * np.arcsin(np.sqrt(np.minimum(chord, 1.0))))


def as_table(source: Table | Sequence[tuple[Any, ...]]) -> Table:
    """Return a table of a sequence of (source, target), maybe with strength, or with delay too."""
    if isinstance(source, str) or not isinstance(source, Sequence):
        return source
    names = (*ENDS, STRENGTH, DELAY)
    malformed = [row for row in source if not len(ENDS) <= len(row) <= len(names)]
    if malformed or len({len(row) for row in source}) > 1:
        message = "edges: each must be (source, target), or each (source, target, strength)"
        message += ", or each (source, target, strength, delay)"
        raise DataError(f"{message}; found {name_some(malformed or source)}")
    columns = list(zip(*source, strict=True)) or [(), ()]
    ends = [pa.array(map(str, column), pa.string()) for column in columns[: len(ENDS)]]
    values = [pa.array(column, pa.float64(), from_pandas=False) for column in columns[len(ENDS) :]]
    return pa.table([*ends, *values], names=names[: len(columns)])


def read_edges(source: Table, locations: Locations) -> tuple[EdgeList, Delays | None]:
    """Return the edges of a table and, if it has any, their delays; the error lists all faults."""
    table, name = load(source, texts=ENDS)
    need_columns(table, ENDS, name)
    faults = Faults(name)
    place = {identity: n for n, identity in enumerate(locations.ids)}
    first, second = (_positions(table[end], end, place, faults) for end in ENDS)
    strengths, delays = np.ones(len(table)), None
    if STRENGTH in table.column_names:
        strengths = numbers(table[STRENGTH], STRENGTH, faults, digits=np.float64)
        nulls = np.flatnonzero(np.isnan(strengths))
        if len(nulls) and not faults.messages:
            faults.add(f"{count_of(len(nulls), 'edge')} without a strength: {_rows(nulls)}")
    if DELAY in table.column_names:
        delays = _read_delays(table[DELAY], faults)
    faults.raise_any(DataError)
    _refuse_loops(first, second, faults)
    if delays is None:
        edges = _merge(first, second, strengths, locations, faults)
    else:
        pairs, delays = np.stack([first, second], axis=1), delays.astype(np.int64)
        _refuse_repeated(pairs, delays, locations, faults)
        order = np.lexsort((delays, second, first))
        edges, delays = EdgeList(pairs[order], strengths[order]), delays[order]
    faults.raise_any(DataError)
    return edges, delays


def _positions(
    column: pa.ChunkedArray, name: str, place: dict[str, int], faults: Faults
) -> Int64[np.ndarray, " rows"]:
    codes, ids = encode_ids(column, faults)
    unknown = [identity for identity in ids if identity not in place]
    if unknown:
        problem = f"column {name!r}: {count_of(len(unknown), 'unknown id')}: {name_some(unknown)}"
        faults.add(f"{problem}; the panel has {name_some(place)}")
    positions = np.array([place.get(identity, 0) for identity in ids], dtype=np.int64)
    return np.asarray(positions[codes])


def _read_delays(column: pa.ChunkedArray, faults: Faults) -> Float64[np.ndarray, " rows"]:
    """Return a column of whole steps, at least one; others are added to the faults."""
    delays = numbers(column, DELAY, faults, digits=np.float64)
    nulls = np.flatnonzero(pc.is_null(column).to_numpy())
    if len(nulls):
        faults.add(f"{count_of(len(nulls), 'edge')} without a delay: {_rows(nulls)}")
    whole = (delays >= 1) & (delays <= LONGEST_DELAY) & (delays == np.floor(delays))
    wrong = np.flatnonzero(np.isfinite(delays) & ~whole)
    if len(wrong):
        first = name_some(f"row {i + 1} ({delays[i]:g})" for i in wrong)
        problem = f"column {DELAY!r}: {count_of(len(wrong), 'value')} not whole steps: {first}"
        faults.add(f"{problem}; give the number of steps from source to target, at least 1")
    return np.asarray(delays)


def _refuse_loops(
    source: Int64[np.ndarray, " rows"], target: Int64[np.ndarray, " rows"], faults: Faults
) -> None:
    loops = np.flatnonzero(source == target)
    if len(loops):
        problem = f"{count_of(len(loops), 'edge')} from a location to itself: {_rows(loops)}"
        faults.add(f"{problem}; remove them (every location depends on itself)")


def _refuse_repeated(pairs: Pairs, delays: Delays, locations: Locations, faults: Faults) -> None:
    """Refuse a source, target and delay that are given twice."""
    edges, edge_of, counts = np.unique(
        np.column_stack([pairs, delays]), axis=0, return_inverse=True, return_counts=True
    )
    repeated = np.flatnonzero(counts > 1)
    if len(repeated):
        named = (
            f"{locations.ids[source]} → {locations.ids[target]} after {count_of(delay, 'step')} "
            f"({_rows(np.flatnonzero(edge_of.reshape(-1) == n))})"
            for n, (source, target, delay) in zip(repeated, edges[repeated].tolist(), strict=True)
        )
        faults.add(f"{count_of(len(repeated), 'edge')} given twice: {name_some(named)}")


def _merge(
    source: Int64[np.ndarray, " rows"],
    target: Int64[np.ndarray, " rows"],
    strengths: Float64[np.ndarray, " rows"],
    locations: Locations,
    faults: Faults,
) -> EdgeList:
    """Return each edge once; given in both directions, it must have one strength."""
    N = len(locations)
    directed, counts = np.unique(source * N + target, return_counts=True)
    if (counts > 1).any():
        twice = (f"{locations.ids[c // N]} → {locations.ids[c % N]}" for c in directed[counts > 1])
        faults.add(f"{count_of(int((counts > 1).sum()), 'edge')} given twice: {name_some(twice)}")
    first, second = np.sort([source, target], axis=0)
    code, at, back = np.unique(first * N + second, return_index=True, return_inverse=True)
    conflicting = np.unique(code[back[strengths != strengths[at][back]]])
    if len(conflicting):
        named = (f"{locations.ids[c // N]} – {locations.ids[c % N]}" for c in conflicting)
        problem = f"{count_of(len(conflicting), 'edge')} with two strengths: {name_some(named)}"
        faults.add(f"{problem}; the graph is undirected: give one strength")
    return EdgeList(np.stack([code // N, code % N], axis=1), strengths[at])


def _rows(at: Int64[np.ndarray, " K"]) -> str:
    return name_some(f"row {i + 1}" for i in at)
