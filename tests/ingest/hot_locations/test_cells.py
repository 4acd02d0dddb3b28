"""Every cell belongs to the nearest of those who have claimed so far."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import DataError
from forecaster.ingest.hot_locations.cells import CandidatePoints, CellAssignment, Cells, id_order
from forecaster.panel.parts import Locations

SIDE = 23  # cells


def square() -> Cells:
    """Return a square of cells on the equator, where all degrees are alike."""
    north, east = np.divmod(np.arange(SIDE * SIDE), SIDE)
    return Cells(north - SIDE // 2, east, np.arange(SIDE * SIDE))


def spots(points: list[tuple[int, int]]) -> CandidatePoints:
    lat, lon = np.array(points, dtype=np.float64).T / 1e4
    ids = tuple(f"p{n:02d}" for n in range(len(points)))
    return CandidatePoints.of(Locations(ids, ids, lat, lon))


points = st.tuples(st.integers(-SIDE, SIDE), st.integers(-SIDE, 2 * SIDE))


@given(st.lists(points, min_size=1, max_size=7, unique=True), st.sampled_from([1, 5, 128]))
def test_the_owner_of_a_cell_is_the_nearest_and_of_equals_the_first_by_id(
    given: list[tuple[int, int]], block: int
) -> None:
    cells, places = square(), spots(given)
    with patch("forecaster.ingest.hot_locations.cells.BLOCK", block):
        shared = CellAssignment.of(cells, np.inf)
        for rank in reversed(range(len(places))):
            shared.grant(shared.claim(rank, places))
    y, x = (1_000.0 * c[:, None] for c in (cells.lat, cells.lon))
    weight = np.cos(np.radians(cells.lat / 1e4))[:, None] ** 2
    squares = (y - places.y) ** 2 + (x - places.x) ** 2 * weight
    assert np.array_equal(shared.owners(), squares.argmin(axis=1))


def test_a_claim_names_who_loses_how_many_rides_and_takes_nothing() -> None:
    shared, places = CellAssignment.of(square(), np.inf), spots([(0, 0), (0, SIDE - 1)])
    first = shared.claim(0, places)
    assert set(first.losers.tolist()) == {-1}  # nobody
    assert first.rides.sum() == sum(range(SIDE * SIDE))
    shared.grant(first)
    second = shared.claim(1, places)
    assert set(second.losers.tolist()) == {0}
    assert set(shared.owners().tolist()) == {0}  # until it is granted
    shared.grant(second)
    mine = shared.owners() == 1
    assert second.rides.sum() == np.arange(SIDE * SIDE)[mine].sum()


def test_nobody_owns_a_cell_beyond_the_reach() -> None:
    shared, places = (
        CellAssignment.of(square(), below=(2_500.0) ** 2),
        spots([(0, 0)]),
    )  # 2.5 cells
    shared.grant(shared.claim(0, places))
    lat, lon = square().lat, square().lon
    assert np.array_equal(shared.owners() == 0, lat**2 + lon**2 < 2.5**2)


def test_every_fault_of_candidates_is_named_at_once() -> None:
    ids = ("3", "1", "2")
    places = Locations(ids, ids, np.array([1.0, 1.0, np.nan]), np.array([2.0, 2.0, 2.0]))
    with pytest.raises(DataError, match=r"(?s)2 faults.*coordinates: 2;.*another: 3 = 1"):
        CandidatePoints.of(places)


def test_ids_are_ordered_as_numbers_if_all_are() -> None:
    assert id_order(("10", "9", "11")) == [1, 0, 2]
    assert id_order(("10", "9", "x")) == [0, 1, 2]
