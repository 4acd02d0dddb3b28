"""Cells of 1e-4°, each assigned to the nearest location of a growing pool.

Cells are grouped in blocks of neighbours: a new location is compared only with nearby blocks.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int64

from forecaster.errors import DataError, Faults, count_of, name_some
from forecaster.panel.parts import Locations
from forecaster.panel.tables.readers import sort_ids

CELLS_PER_DEGREE = 10_000
UNITS_PER_CELL = 1_000  # of 1e-7°, about 1 cm: integers, so that ties are exact
UNITS_PER_DEGREE = CELLS_PER_DEGREE * UNITS_PER_CELL
BLOCK = 128  # cells per bound: smaller blocks compare fewer cells and compute more bounds


@dataclass(frozen=True, eq=False)
class Cells:
    """Squares of 1e-4° with their rides; their order changes no result."""

    lat: Int64[np.ndarray, " C"]  # of the centre, degrees × 10⁴
    lon: Int64[np.ndarray, " C"]  # no wrap-around at the date line
    rides: Int64[np.ndarray, " C"]  # within the demand hours; may be zero


@dataclass(frozen=True, eq=False)
class CandidatePoints:
    """Candidates in the order of their ids (their rank), in whole units of 1e-7°."""

    index: Int64[np.ndarray, " M"]  # position of the candidate in the input
    y: Float64[np.ndarray, " M"]
    x: Float64[np.ndarray, " M"]

    @staticmethod
    def of(candidates: Locations) -> "CandidatePoints":
        """Return the candidates; those without coordinates or with equal ones are refused."""
        faults = Faults("candidates")
        if not len(candidates):
            faults.add("0 locations; at least one is needed")
        nowhere = [candidates.ids[n] for n in np.flatnonzero(~candidates.placed)]
        if nowhere:
            count = f"{count_of(len(nowhere), 'location')} without coordinates"
            faults.add(f"{count}: {name_some(nowhere)}; give lat and lon or drop them")
        index = np.array(id_order(candidates.ids), dtype=np.int64)
        y, x = (np.rint(c[index] * UNITS_PER_DEGREE) for c in (candidates.lat, candidates.lon))
        doubled = _doubled([candidates.ids[n] for n in index], y, x)
        if doubled:
            count = f"{count_of(len(doubled), 'location')} at the coordinates of another"
            faults.add(f"{count}: {name_some(doubled)}; keep one of each")
        faults.raise_any(DataError)
        return CandidatePoints(index, y, x)

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, eq=False)
class Claim:
    """The cells that are nearer to a new location than to their owner."""

    rank: int
    place: tuple[float, float]
    whole: Int64[np.ndarray, " whole"]  # blocks taken entirely from one owner
    parts: Int64[np.ndarray, " parts"]  # blocks compared cell by cell
    where: tuple[
        Int64[np.ndarray, " won"], Int64[np.ndarray, " won"]
    ]  # block and cell within `parts`
    squares: Float64[np.ndarray, " won"]
    losers: Int64[np.ndarray, " lost"]  # owners of the whole blocks, then of the cells
    rides: Int64[np.ndarray, " lost"]


@dataclass(eq=False)
class CellAssignment:
    """Cells in blocks of neighbours, each with its owner: the nearest of the pool so far."""

    cell: Int64[np.ndarray, "blocks size"]  # index among all cells; −1 pads the last block
    y: Float64[np.ndarray, "blocks size"]
    x: Float64[np.ndarray, "blocks size"]
    weight: Float64[np.ndarray, "blocks size"]  # cos² of the latitude
    rides: Int64[np.ndarray, "blocks size"]
    square: Float64[np.ndarray, "blocks size"]  # of the distance to the owner; −1 for padding
    owner: Int64[np.ndarray, "blocks size"]  # rank of a candidate; −1: none
    box: Float64[np.ndarray, "6 blocks"] = field(init=False)  # ends of y, x and weight
    total: Int64[np.ndarray, " blocks"] = field(init=False)  # of `rides`
    best: Float64[np.ndarray, " blocks"] = field(init=False)  # smallest `square`
    worst: Float64[np.ndarray, " blocks"] = field(init=False)
    alike: Bool[np.ndarray, " blocks"] = field(init=False)  # all cells have the same owner
    touched: int = 0

    def __post_init__(self) -> None:
        ends = [(a.min(axis=1), a.max(axis=1)) for a in (self.y, self.x, self.weight)]
        self.box = np.array(ends).reshape(6, len(self.cell))
        self.total = self.rides.sum(axis=1)
        self.best, self.worst = self.square.min(axis=1), self.square.max(axis=1)
        self.alike = np.ones(len(self.cell), dtype=bool)

    @staticmethod
    def of(cells: Cells, below: float) -> "CellAssignment":
        """Return cells without owner, in strips from south to north, each cut from west to east.

        Only a location with a squared distance less than `below` can become the owner of a cell.
        """
        C = len(cells.lat)
        height = BLOCK * max(math.isqrt(C // BLOCK), 1)
        strip = np.empty(C, dtype=np.int64)
        strip[np.argsort(cells.lat, kind="stable")] = np.arange(C) // height
        order = np.lexsort((cells.lon, strip))
        cell = np.pad(order, (0, -C % BLOCK), constant_values=-1).reshape(-1, BLOCK)
        filled = np.where(cell >= 0, cell, cell[:, :1])
        y, x = (c.astype(np.float64)[filled] * UNITS_PER_CELL for c in (cells.lat, cells.lon))
        square = np.where(cell >= 0, below, -1.0)
        owner = np.full(cell.shape, -1, dtype=np.int64)
        weight = _weights(cells.lat)[filled]
        return CellAssignment(cell, y, x, weight, cells.rides[filled], square, owner)

    def claim(self, rank: int, places: CandidatePoints) -> Claim:
        """Return the cells nearer to a new location than to their owner."""
        y, x = place = float(places.y[rank]), float(places.x[rank])
        south, north, west, east, least, _ = self.box
        dy = np.maximum(np.maximum(south - y, y - north), 0.0)
        dx = np.maximum(np.maximum(west - x, x - east), 0.0)
        # rounding is monotone, so both bounds are exact for every cell of a block
        reach = np.flatnonzero(dy * dy + dx * dx * least <= self.worst)
        south, north, west, east, _, most = self.box[:, reach]
        dy, dx = np.maximum(y - south, north - y), np.maximum(x - west, east - x)
        all_won = (dy * dy + dx * dx * most < self.best[reach]) & self.alike[reach]
        whole, parts = reach[all_won], reach[~all_won]

        square, best = self._squares(parts, place), self.square[parts]
        won = (square < best) | ((square == best) & (rank < self.owner[parts]))
        row, column = np.nonzero(won)
        where = (parts[row], column)
        losers = np.concatenate([self.owner[whole, 0], self.owner[where]])
        rides = np.concatenate([self.total[whole], self.rides[where]])
        return Claim(rank, place, whole, parts, where, square[won], losers, rides)

    def grant(self, claim: Claim) -> None:
        """Assign the claimed cells to the new location."""
        self.square[claim.whole] = self._squares(claim.whole, claim.place)
        self.owner[claim.whole] = claim.rank
        self.square[claim.where] = claim.squares
        self.owner[claim.where] = claim.rank
        blocks = np.concatenate([claim.whole, claim.parts])
        square, owner = self.square[blocks], self.owner[blocks]
        self.best[blocks], self.worst[blocks] = square.min(axis=1), square.max(axis=1)
        self.alike[blocks] = (owner == owner[:, :1]).all(axis=1)

    def owners(self) -> Int64[np.ndarray, " C"]:
        """Return the owner of every cell, in the order of the input."""
        real = self.cell >= 0
        owners = np.empty(np.count_nonzero(real), dtype=np.int64)
        owners[self.cell[real]] = self.owner[real]
        return owners

    def _squares(
        self, blocks: Int64[np.ndarray, " some"], place: tuple[float, float]
    ) -> Float64[np.ndarray, "some size"]:
        self.touched += blocks.size * BLOCK
        dy, dx = self.y[blocks] - place[0], self.x[blocks] - place[1]
        return np.asarray(dy * dy + dx * dx * self.weight[blocks])


def id_order(ids: tuple[str, ...]) -> list[int]:
    """Return the positions of the ids in sorted order."""
    position = {identity: n for n, identity in enumerate(ids)}
    return [position[identity] for identity in sort_ids(list(ids))]


def _weights(lat: Int64[np.ndarray, " C"]) -> Float64[np.ndarray, " C"]:
    rows, row = np.unique(lat, return_inverse=True)
    # one by one: the last bit of numpy's vector code may depend on the index in the array
    cosines = [math.cos(math.radians(y / CELLS_PER_DEGREE)) for y in rows.tolist()]
    return np.asarray(np.square(cosines)[row])


def _doubled(ids: list[str], *coordinates: Float64[np.ndarray, " M"]) -> list[str]:
    first: dict[tuple[float, ...], str] = {}
    places = zip(*(c.tolist() for c in coordinates), strict=True)
    pairs = [(i, first.setdefault(place, i)) for i, place in zip(ids, places, strict=True)]
    return [f"{identity} = {twin}" for identity, twin in pairs if identity != twin]
