"""Hot locations: candidates with enough rides when each ride counts at the nearest one.

Distances are metres on an equirectangular projection at the latitude of the cell, so they do not
depend on the other candidates. Every cell has a fixed order of candidates, nearest first and ties
by id; it changes its owner only for a new member, so a larger pool never gives a member more
rides. Hence a rejected candidate stays infeasible: it, or the member that it left with too few
rides, cannot gain rides later. One pass over the candidates suffices.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.errors import DataError, count_of
from forecaster.ingest.hot_locations.cells import (
    CELLS_PER_DEGREE,
    UNITS_PER_DEGREE,
    CandidatePoints,
    CellAssignment,
    Cells,
    Claim,
    id_order,
)
from forecaster.panel.parts import Locations

METRES_PER_UNIT = math.radians(6_371_008.8) / UNITS_PER_DEGREE  # the earth's mean radius
_COARSE = 10  # cells along a side of a 0.001° square


@dataclass(frozen=True, eq=False)
class Selection:
    """The hot locations in the order of their ids, and the location of each cell."""

    chosen: Int64[np.ndarray, " K"]  # indices of the candidates
    location_of_cell: Int64[np.ndarray, " C"]  # index of `chosen`; −1: far from every candidate
    rides: Int64[np.ndarray, " K"]
    touched: int  # number of comparisons of a cell with a new location


def select_hot(
    cells: Cells,
    candidates: Locations,
    min_rides: float,
    max_distance_m: float,
) -> Selection:
    """Select candidates, tried in descending order of initial demand (section 3.1).

    Rides beyond the maximum distance from every candidate are left out first; all others count at
    the nearest selected location. Differs: one pass, since a second changes nothing.
    """
    places = CandidatePoints.of(candidates)
    nearest = _nearest(cells, places, max_distance_m)
    near = np.flatnonzero(nearest >= 0)
    initial = np.zeros(len(places), dtype=np.int64)
    np.add.at(initial, nearest[near], cells.rides[near])
    if initial.sum() < min_rides:  # otherwise the first candidate has enough
        raise DataError(_no_location(initial, min_rides, max_distance_m))

    ground = CellAssignment.of(
        Cells(cells.lat[near], cells.lon[near], cells.rides[near]), math.inf
    )
    demand = np.zeros(len(places), dtype=np.int64)  # of the members of the pool
    pool: list[int] = []
    for rank in np.lexsort((np.arange(len(places)), -initial)).tolist():
        claim = ground.claim(rank, places)
        if not pool or _remap(demand, claim, min_rides):
            demand[rank] = claim.rides.sum()
            ground.grant(claim)
            pool.append(rank)

    ranks = np.sort(np.array(pool, dtype=np.int64))
    location_of_cell = np.full(len(nearest), -1, dtype=np.int64)
    location_of_cell[near] = np.searchsorted(ranks, ground.owners())
    return Selection(places.index[ranks], location_of_cell, demand[ranks], ground.touched)


def assign_cells(
    cells: Cells, candidates: Locations, places: Locations, max_distance_m: float
) -> Int64[np.ndarray, " C"]:
    """Return the nearest location of every cell, as `select_hot` does when it selects these.

    Args:
        cells: with rides.
        candidates: cells that are far from all of them have no location: −1.
        places: those of the candidates that were selected.
        max_distance_m: from the nearest candidate.
    """
    near = _nearest(cells, CandidatePoints.of(candidates), max_distance_m) >= 0
    points = CandidatePoints.of(places)
    location = np.full(len(near), -1, dtype=np.int64)
    if near.any():
        inside = Cells(cells.lat[near], cells.lon[near], cells.rides[near])
        location[near] = points.index[_nearest(inside, points, math.inf)]
    return location


def candidates_from_cells(cells: Cells) -> Locations:
    """Return the ride-weighted centres of all 0.001° squares that have rides.

    A square is named by its south-west corner, so ids depend neither on order nor on counts.
    """
    used = cells.rides > 0
    if not used.any():
        raise DataError("cells: no rides in the demand hours; candidates from trips need rides")
    lat, lon, rides = cells.lat[used], cells.lon[used], cells.rides[used]
    rows, columns = lat // _COARSE, lon // _COARSE
    west, width = columns.min(), np.ptp(columns) + 1
    squares, square = np.unique(rows * width + (columns - west), return_inverse=True)
    south_west = squares // width, squares % width + west

    def centre(
        corner: Int64[np.ndarray, " N"], fine: Int64[np.ndarray, " used"]
    ) -> Float64[np.ndarray, " N"]:
        moment, weight = np.zeros(
            (2, len(squares)), dtype=np.int64
        )  # integers: the order of summation does not matter
        np.add.at(moment, square, rides * (fine % _COARSE))
        np.add.at(weight, square, rides)
        return np.asarray(np.round((corner * _COARSE + moment / weight) / CELLS_PER_DEGREE, 7))

    corners = zip(*(corner.tolist() for corner in south_west), strict=True)
    ids = tuple(f"{y / 1_000:.3f}_{x / 1_000:.3f}" for y, x in corners)
    centres = Locations(ids, ids, centre(south_west[0], lat), centre(south_west[1], lon))
    return centres.take(id_order(ids))


def _nearest(
    cells: Cells, places: CandidatePoints, max_distance_m: float
) -> Int64[np.ndarray, " C"]:
    """Return the rank of the nearest candidate of every cell, −1 where it is too far.

    Of candidates at the same distance the one with the lowest id is taken.
    """
    units = max_distance_m / METRES_PER_UNIT * (1.0 + 1e-9) + 1.0  # an upper bound; exact below
    ground = CellAssignment.of(cells, units * units)
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    # neighbours in id are often neighbours in space: spread them, so that distances shrink early
    for rank in np.argsort(np.arange(len(places)) * golden % 1.0, kind="stable").tolist():
        ground.grant(ground.claim(rank, places))
    too_far = np.sqrt(np.maximum(ground.square, 0.0)) * METRES_PER_UNIT > max_distance_m
    ground.owner[too_far] = -1
    return ground.owners()


def _remap(demand: Int64[np.ndarray, " M"], claim: Claim, min_rides: float) -> bool:
    """Move the claimed rides to the new location if it and all owners then have enough."""
    if claim.rides.sum() < min_rides:
        return False
    np.subtract.at(demand, claim.losers, claim.rides)
    if (demand[claim.losers] >= min_rides).all():
        return True
    np.add.at(demand, claim.losers, claim.rides)
    return False


def _no_location(initial: Int64[np.ndarray, " M"], min_rides: float, max_distance_m: float) -> str:
    near = f"{count_of(int(initial.sum()), 'ride')} within {max_distance_m:g} m of a candidate"
    most = f"the busiest has {count_of(int(initial.max()), 'ride')}"
    remedy = "lower the minimum demand, allow a larger distance or add candidates"
    return f"candidates: {near} ({most}), {min_rides:,.1f} are needed at each location; {remedy}"
