import math
from itertools import permutations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Int64

from forecaster.errors import DataError
from forecaster.ingest.hot_locations import cells as cell_module
from forecaster.ingest.hot_locations.cells import CandidatePoints, Cells
from forecaster.ingest.hot_locations.selection import (
    Selection,
    _nearest,
    candidates_from_cells,
    select_hot,
)
from forecaster.panel.parts import Locations

SOUTH, WEST = 407_500, -739_900  # Manhattan, degrees × 10⁴
METRES = math.radians(6_371_008.8) / 1e7  # of 1e-7° to the north
NORTH_M = 1_000 * METRES  # of one cell to the north, about 11 m
INT64 = st.integers(-(2**63), 2**63 - 1)


def grid(points: list[tuple[int, int]], rides: list[int] | None = None) -> Cells:
    """Return cells so many steps north and east of the corner, one ride each."""
    lat, lon = np.array(points, dtype=np.int64).reshape(-1, 2).T
    counts = np.ones(len(lat), dtype=np.int64) if rides is None else np.array(rides, np.int64)
    return Cells(SOUTH + lat, WEST + lon, counts)


def cells_near(
    cells: Cells, candidates: Locations, max_distance_m: float
) -> Int64[np.ndarray, " C"]:
    """Return the candidate nearest to every cell, −1 if it is farther than the distance."""
    points = CandidatePoints.of(candidates)
    nearest = _nearest(cells, points, max_distance_m)
    return np.asarray(np.append(points.index, -1)[nearest])  # rank −1 is the last


def at(points: list[tuple[float, float]], ids: list[str] | None = None) -> Locations:
    lat, lon = np.array(points, dtype=float).reshape(-1, 2).T
    names = tuple(ids or (f"p{n:02d}" for n in range(len(lat))))
    return Locations(names, names, (SOUTH + lat) / 1e4, (WEST + lon) / 1e4)


def metres(cells: Cells, c: int, places: Locations, p: int) -> float:
    """Return the distance of one cell and one place in plain Python."""
    weight = math.cos(math.radians(int(cells.lat[c]) / 1e4)) ** 2
    dy = float(int(cells.lat[c]) * 1_000 - round(float(places.lat[p]) * 1e7))
    dx = float(int(cells.lon[c]) * 1_000 - round(float(places.lon[p]) * 1e7))
    return math.sqrt(dy * dy + dx * dx * weight) * METRES


class Literal:
    """The footnote word for word: every ride is remapped for every candidate."""

    def __init__(self, cells: Cells, places: Locations, max_distance_m: float) -> None:
        numbers = all(name.isdigit() for name in places.ids)
        key = [int(name) if numbers else name for name in places.ids]
        self.rides = cells.rides.tolist()
        self.by_id = sorted(range(len(key)), key=key.__getitem__)
        rank = {p: r for r, p in enumerate(self.by_id)}
        self.far = [
            [(metres(cells, c, places, p), rank[p]) for p in range(len(key))]
            for c in range(len(self.rides))
        ]
        self.near = [min(far)[0] <= max_distance_m for far in self.far]

    def owners(self, pool: set[int]) -> list[int]:
        pairs = zip(self.far, self.near, strict=True)
        return [min(pool, key=far.__getitem__) if near else -1 for far, near in pairs]

    def demand(self, pool: set[int]) -> dict[int, int]:
        total = dict.fromkeys(pool, 0)
        for owner, rides in zip(self.owners(pool), self.rides, strict=True):
            if owner >= 0:
                total[owner] += rides
        return total

    def select(self, min_rides: float, passes: int = 1) -> set[int]:
        initial = self.demand(set(self.by_id))
        pool: set[int] = set()
        for _ in range(passes):
            for place in sorted(self.by_id, key=lambda p: -initial[p]):  # stable: ties by id
                if min(self.demand(pool | {place}).values()) >= min_rides:
                    pool.add(place)
        return pool


def assert_literal(
    cells: Cells, places: Locations, min_rides: float, max_distance_m: float
) -> None:
    literal = Literal(cells, places, max_distance_m)
    everyone = set(range(len(places)))
    assert cells_near(cells, places, max_distance_m).tolist() == literal.owners(everyone)
    pool = literal.select(min_rides)
    if not pool:
        with pytest.raises(DataError, match="needed at each location"):
            select_hot(cells, places, min_rides, max_distance_m)
        return
    hot = select_hot(cells, places, min_rides, max_distance_m)
    assert hot.chosen.tolist() == [p for p in literal.by_id if p in pool]
    assert np.append(hot.chosen, -1)[hot.location_of_cell].tolist() == literal.owners(pool)
    assert dict(zip(hot.chosen.tolist(), hot.rides.tolist(), strict=True)) == literal.demand(pool)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Cells, Locations, float, float]:
    """Return a few cells and places on a lattice so narrow that distances are often equal."""
    side = draw(st.sampled_from([1, 3, 11]))
    step = st.integers(0, side)
    half = st.integers(-2, 2 * side + 2).map(lambda halves: halves / 2)
    points = draw(st.lists(st.tuples(step, step), max_size=23))
    rides = draw(st.lists(st.integers(0, 7), min_size=len(points), max_size=len(points)))
    places = draw(st.lists(st.tuples(half, half), min_size=1, max_size=7, unique=True))
    ids = draw(st.permutations([str(number) for number in range(7, 7 + len(places))]))
    min_rides = draw(st.sampled_from([0.0, 1.0, 2.5, 5.0, 13.0, 1e9]))
    distance = draw(st.sampled_from([0.0, 1e-3, NORTH_M, 2 * NORTH_M, 50.0, 1e308, math.inf]))
    return grid(points, rides), at(places, ids), min_rides, distance


@given(case=cases(), block=st.sampled_from([1, 2, 5, 128]))
def test_the_selection_is_the_literal_procedure(case, block) -> None:
    with patch.object(cell_module, "BLOCK", block):
        assert_literal(*case)


def random_case(generator: np.random.Generator, cells: int, places: int, side: int):
    rides = generator.geometric(0.2, cells) * generator.integers(0, 2, cells)
    corners = generator.permutation((side + 1) ** 2)[:places]
    ids = generator.permutation(len(corners)).astype(str).tolist()
    spots = at(np.column_stack(np.divmod(corners, side + 1)).tolist(), ids)
    return grid(generator.integers(0, side + 1, (cells, 2)).tolist(), rides.tolist()), spots


def test_hundreds_of_random_cities_are_selected_as_by_the_literal_procedure(rounds) -> None:
    generator = np.random.default_rng(11)
    for _ in range(rounds(300, 5_000)):
        count, spots, side = generator.integers((1, 1, 2), (61, 14, 20)).tolist()
        cells, places = random_case(generator, count, spots, side)
        min_rides = cells.rides.sum() / generator.choice([1, 2, 5, 11])
        with patch.object(cell_module, "BLOCK", int(generator.choice([1, 3, 7, 19]))):
            assert_literal(cells, places, min_rides, float(generator.choice([5.0, 30.0, 1e4])))


def test_a_city_of_many_blocks_is_selected_as_by_the_literal_procedure() -> None:
    cells, places = random_case(np.random.default_rng(12), 1_009, 61, 53)
    assert_literal(cells, places, cells.rides.sum() / 31, 40.0)
    assert_literal(cells, places, cells.rides.sum() / 3, 40.0)


def test_a_rejected_candidate_is_never_feasible_later(rounds) -> None:
    generator = np.random.default_rng(13)
    for _ in range(rounds(60, 1_000)):
        cells, places = random_case(generator, 41, 11, 7)
        literal = Literal(cells, places, 1e4)
        min_rides = cells.rides.sum() / generator.choice([2, 5, 11])
        assert literal.select(min_rides, passes=3) == literal.select(min_rides)


def named(hot: Selection, cells: Cells, places: Locations) -> tuple[object, ...]:
    """Return a selection in words that no order can change."""
    ids = [*(places.ids[p] for p in hot.chosen), None]
    spots = zip(cells.lat.tolist(), cells.lon.tolist(), hot.location_of_cell, strict=True)
    return ids, hot.rides.tolist(), {(y, x): ids[k] for y, x, k in spots}


def test_I12_the_order_of_cells_and_candidates_changes_nothing() -> None:
    generator = np.random.default_rng(14)
    cells, places = random_case(generator, 997, 53, 41)
    wanted = named(select_hot(cells, places, 60.0, 40.0), cells, places)
    assert len(wanted[0]) > 10
    for _ in range(20):
        order = generator.permutation(997)
        mixed = Cells(cells.lat[order], cells.lon[order], cells.rides[order])
        others = places.take(generator.permutation(53).tolist())
        assert named(select_hot(mixed, others, 60.0, 40.0), mixed, others) == wanted


def test_every_selected_location_has_enough_and_no_ride_is_lost() -> None:
    cells, places = random_case(np.random.default_rng(15), 997, 53, 67)
    hot = select_hot(cells, places, 100.0, 60.0)
    assert hot.rides.min() >= 100
    near = cells_near(cells, places, 60.0) >= 0
    assert 0 < near.sum() < 997
    assert np.array_equal(hot.location_of_cell >= 0, near)
    assert hot.rides.sum() == cells.rides[near].sum()


def test_newcomers_touch_few_cells() -> None:
    generator = np.random.default_rng(16)
    points = np.column_stack(np.divmod(np.arange(200 * 200), 200))
    cells = grid(points.tolist())
    places = at((generator.permutation(points)[:499] + 0.3).tolist())
    hot = select_hot(cells, places, 200.0, math.inf)
    assert len(hot.chosen) > 50
    assert hot.touched < 0.1 * 499 * len(points)


def test_a_candidate_that_starves_a_member_is_rejected() -> None:
    cells = grid([(0, 0), (0, 10), (0, 14), (0, 20)], [5, 6, 2, 4])  # west to east
    places = at([(0, 0), (0, 10), (0, 20)])
    hot = select_hot(cells, places, 5.0, 200.0)  # 8 rides at p01, 5 at p00, 4 at p02: too few
    assert (hot.chosen.tolist(), hot.rides.tolist()) == ([0, 1], [5, 12])
    hot = select_hot(cells, places, 6.0, 200.0)  # p00 too; p01 has all
    assert (hot.chosen.tolist(), hot.rides.tolist()) == ([1], [17])


def test_rides_near_a_rejected_candidate_count_at_a_farther_location() -> None:
    cells = grid([(0, 0), (9, 0), (18, 0)], [7, 1, 1])
    hot = select_hot(cells, at([(0, 0), (9, 0)]), 2.0, 50.0)  # 100 m to p00, 50 m allowed
    assert hot.location_of_cell.tolist() == [0, 0, -1]
    assert hot.rides.tolist() == [8]


@pytest.mark.parametrize("step", [(18, 0), (-18, 0), (0, 23), (0, -23), (13, -16)])
def test_I10_a_cell_is_near_up_to_the_distance_and_not_beyond(step) -> None:
    cells, places = grid([step]), at([(0, 0)])
    d = metres(cells, 0, places, 0)
    assert 190 < d < 210
    distances = [d - 0.01, math.nextafter(d, 0.0), d, math.nextafter(d, 1e9), d + 0.01]
    near = [cells_near(cells, places, distance).item() for distance in distances]
    assert near == [-1, -1, 0, 0, 0]


def test_I10_the_count_of_rides_too_far_is_what_no_location_has() -> None:
    boston = Cells(np.array([SOUTH, 423_600]), np.array([WEST, -710_600]), np.array([5, 3]))
    hot = select_hot(boston, at([(0, 0)]), 1.0, 200.0)
    assert (hot.location_of_cell.tolist(), hot.rides.tolist()) == ([0, -1], [5])


def test_I10_ties_go_to_the_lowest_id_in_any_order() -> None:
    around = {"10": (3, 4), "9": (-3, 4), "11": (3, -4), "12": (-3, -4)}
    for ids in permutations(around):
        places = at([around[name] for name in ids], list(ids))
        assert ids[cells_near(grid([(0, 0)]), places, 200.0).item()] == "9"
        hot = select_hot(grid([(0, 0)], [3]), places, 0.0, 200.0)
        assert [ids[p] for p in hot.chosen] == ["9", "10", "11", "12"]
        assert hot.rides.tolist() == [3, 0, 0, 0]


def test_ids_are_texts_where_one_of_them_is_no_number() -> None:
    places = at([(2, 0), (-2, 0), (0, 9)], ["9", "10", "x"])
    assert cells_near(grid([(0, 0)]), places, 200.0).tolist() == [1]  # "10" < "9"


def test_distances_agree_with_haversine_over_new_york() -> None:
    generator = np.random.default_rng(18)
    low, high = np.array([405_000, -742_600]), np.array([409_200, -737_000])  # the five boroughs
    for _ in range(200):
        lat, lon = generator.integers(low, high)
        place = np.array([lat, lon]) + generator.uniform(-90, 90, 2)  # up to a kilometre each way
        cells = Cells(np.array([lat]), np.array([lon]), np.array([1]))
        places = Locations(("a",), ("a",), place[:1] / 1e4, place[1:] / 1e4)
        a, b = np.deg2rad([lat, lon]) / 1e4, np.deg2rad(place) / 1e4
        chord = np.sin((a - b) / 2) ** 2
        angle = 2 * math.asin(math.sqrt(chord[0] + math.cos(a[0]) * math.cos(b[0]) * chord[1]))
        true = 6_371_008.8 * angle
        assert cells_near(cells, places, true * 1.0002 + 0.01).tolist() == [0]  # 1 cm: rounding
        assert cells_near(cells, places, true * 0.9998 - 0.01).tolist() == [-1]


WILD = [
    (0, 0),
    (WEST, SOUTH),  # swapped
    (SOUTH, WEST + 3_600_000),  # once around the world
    (SOUTH, -WEST),
    (-SOUTH, WEST),
    (900_000, WEST),  # poles
    (-900_000, WEST),
    (SOUTH, 1_800_000),  # date line
    (SOUTH, -1_800_000),
    (2**63 - 1, -(2**63)),
    (SOUTH, 2**63 - 1),
]


def test_I9_wild_coordinates_never_land_in_a_location() -> None:
    lat, lon = np.array([*WILD, (SOUTH, WEST)], dtype=np.int64).T
    cells = Cells(lat, lon, np.arange(1, len(lat) + 1))
    places = at([(0, 0), (3, 3)])
    assert cells_near(cells, places, 200.0).tolist() == [-1] * len(WILD) + [0]
    hot = select_hot(cells, places, 1.0, 200.0)
    assert hot.rides.tolist() == [len(lat)]
    assert hot.location_of_cell.tolist() == [-1] * len(WILD) + [0]


@given(spots=st.lists(st.tuples(INT64, INT64), min_size=1, max_size=5))
def test_I9_cells_from_anywhere_are_far_unless_both_coordinates_are_close(spots) -> None:
    lat, lon = np.array(spots, dtype=np.int64).T
    near = cells_near(Cells(lat, lon, np.ones_like(lat)), at([(0, 0)]), 200.0)
    close = [abs(y - SOUTH) < 19 and abs(x - WEST) < 25 for y, x in spots]
    assert all(close[c] for c in np.flatnonzero(near == 0))


def test_places_on_a_pole_and_on_the_date_line_have_neighbours_on_their_own_side() -> None:
    cells = Cells(np.array([900_000, 0, 0]), np.array([5, 1_799_999, -1_799_999]), np.ones(3, int))
    places = Locations(("p", "q"), ("p", "q"), np.array([90.0, 0.0]), np.array([-120.0, 180.0]))
    assert cells_near(cells, places, 200.0).tolist() == [0, 1, -1]


def test_candidates_closer_than_a_centimetre_are_one_place() -> None:
    places = at([(1, 0), (1 + 1e-5, 0)])  # 1e-9°
    with pytest.raises(DataError, match="1 location at the coordinates of another: p01 = p00"):
        cells_near(grid([(0, 0)]), places, 200.0)


def test_I23_faulty_candidates_are_refused_all_at_once() -> None:
    nan = math.nan
    places = at([(nan, 0), (1, 1), (5, nan), (1, 1), (1, 1)], ["e", "d", "c", "b", "a"])
    for ask in (
        lambda: cells_near(grid([]), places, 1.0),
        lambda: select_hot(grid([]), places, 0.0, 1.0),
    ):
        with pytest.raises(DataError) as caught:
            ask()
        assert str(caught.value).splitlines() == [
            "candidates: 2 faults",
            "  2 locations without coordinates: e, c; give lat and lon or drop them",
            "  2 locations at the coordinates of another: b = a, d = a; keep one of each",
        ]


def test_I23_no_candidate_is_refused_and_one_is_enough() -> None:
    with pytest.raises(DataError, match="candidates: 1 fault\n  0 locations"):
        select_hot(grid([(0, 0)]), at([]), 1.0, 200.0)
    hot = select_hot(grid([(0, 0)]), at([(1, 1)]), 1.0, 200.0)
    assert (hot.chosen.tolist(), hot.rides.tolist()) == ([0], [1])


def test_too_few_rides_for_any_location_are_refused_with_a_remedy() -> None:
    cells = grid([(0, 0), (5, 0), (500, 0)], [1_500, 700, 90])
    message = (
        "candidates: 2,200 rides within 30 m of a candidate (the busiest has 1,500 rides), "
        "2,200.5 are needed at each location; lower the minimum demand, "
        "allow a larger distance or add candidates"
    )
    with pytest.raises(DataError) as caught:
        select_hot(cells, at([(0, 0), (5, 0)]), 2_200.5, 30.0)
    assert str(caught.value) == message


def test_no_cells_at_all_are_too_few() -> None:
    assert cells_near(grid([]), at([(0, 0)]), 200.0).tolist() == []
    with pytest.raises(DataError, match="0 rides within 200 m of a candidate"):
        select_hot(grid([]), at([(0, 0)]), 1.0, 200.0)


def test_candidates_from_cells_are_the_centres_of_rides_in_a_square() -> None:
    cells = Cells(
        np.array([407_501, 407_509, 407_510, 407_505]),
        np.array([-739_900, -739_896, -739_901, -739_900]),
        np.array([3, 1, 2, 0]),  # the last was occupied outside the demand hours only
    )
    places = candidates_from_cells(cells)
    assert places.ids == places.names == ("40.750_-73.990", "40.751_-73.991")
    assert places.lat.tolist() == [40.7503, 40.751]  # (3 × 1 + 1 × 9) / 4 = 3
    assert places.lon.tolist() == [-73.9899, -73.9901]


def test_candidates_from_cells_depend_on_no_order() -> None:
    generator = np.random.default_rng(19)
    lat, lon = generator.integers(-40, 40, (2, 997))  # around the zero of both
    rides = generator.integers(1, 2**40, 997)
    wanted = candidates_from_cells(Cells(lat, lon, rides))
    assert len(wanted) == 64
    assert (wanted.ids[0], wanted.ids[-1]) == ("-0.001_-0.001", "0.003_0.003")
    order = generator.permutation(997)
    found = candidates_from_cells(Cells(lat[order], lon[order], rides[order]))
    assert found.ids == wanted.ids
    assert np.array_equal(found.lat, wanted.lat)
    assert np.array_equal(found.lon, wanted.lon)


def test_candidates_from_cells_are_near_their_cells() -> None:
    cells, _ = random_case(np.random.default_rng(20), 499, 1, 83)
    places = candidates_from_cells(cells)
    assert (cells_near(cells, places, 150.0)[cells.rides > 0] >= 0).all()
    assert select_hot(cells, places, 20.0, 200.0).rides.min() >= 20


def test_candidates_from_no_rides_are_refused() -> None:
    with pytest.raises(DataError, match="no rides in the demand hours"):
        candidates_from_cells(grid([(0, 0)], [0]))
