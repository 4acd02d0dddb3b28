import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forecaster.graph.edges import (
    as_table,
    conditional_correlation,
    distance_km,
    edges_above,
    read_edges,
    threshold_for_degree,
)
from forecaster.panel.parts import Locations


def symmetric(values: np.ndarray) -> np.ndarray:
    upper = np.triu(values, 1)
    return upper + upper.T + np.eye(len(values))


matrices = st.integers(1, 11).flatmap(
    lambda n: arrays(np.float64, (n, n), elements=st.floats(-1, 1)).map(symmetric)
)


def test_conditional_correlation_follows_equation_3() -> None:
    # Figure 1: 1–2–3. −Q_12 / √(Q_11 Q_22) = 2/√(4·1), −Q_23 / √(Q_22 Q_33) = −0.9/√(1·9)
    precision = np.array([[4.0, -1.0, 0.0], [-1.0, 1.0, 0.9], [0.0, 0.9, 9.0]])
    expected = [[1.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.0]]
    assert conditional_correlation(precision) == pytest.approx(np.array(expected), rel=1e-15)


def test_locations_depend_on_each_other_above_the_threshold_whatever_the_sign() -> None:
    correlation = symmetric(np.array([[0, 0.3, -0.2], [0, 0, 0.1], [0, 0, 0]]))
    edges = edges_above(correlation, 0.1)
    assert edges.pairs.tolist() == [[0, 1], [0, 2]]
    assert edges.strengths.tolist() == [0.3, -0.2]


@given(matrices, st.floats(0, 1.01))
def test_edges_are_sorted_pairs_above_any_threshold(matrix: np.ndarray, threshold: float) -> None:
    edges = edges_above(matrix, threshold)
    expected = [
        [i, j]
        for i in range(len(matrix))
        for j in range(i + 1, len(matrix))
        if abs(matrix[i, j]) > threshold
    ]
    assert edges.pairs.tolist() == expected


@given(matrices, st.floats(0, 12))
def test_the_threshold_gives_the_wanted_degree(matrix: np.ndarray, degree: float) -> None:
    N = len(matrix)
    strengths = np.sort(np.abs(matrix[np.triu_indices(N, 1)]))[::-1]
    kept = len(edges_above(matrix, threshold_for_degree(matrix, degree)).pairs)
    wanted = min(round(degree * N / 2), int(np.count_nonzero(strengths)))
    ties = int((strengths == strengths[wanted - 1]).sum()) if wanted else 1
    assert wanted <= kept < wanted + ties or (wanted == kept == 0)


def test_the_threshold_lies_between_the_last_edge_kept_and_the_first_left_out() -> None:
    matrix = symmetric(np.array([[0, 0.8, 0.4, 0.2], [0] * 4, [0] * 4, [0] * 4], dtype=float))
    assert threshold_for_degree(matrix, 1.0) == pytest.approx(0.3)  # two edges of four locations


def test_a_degree_of_latitude_is_a_ninetieth_of_a_quarter_circle() -> None:
    places = Locations(("a", "b", "c"), ("a", "b", "c"), np.array([0, 1, 90.0]), np.zeros(3))
    km = distance_km(places, np.array([0, 0]), np.array([1, 2]))
    assert km == pytest.approx([np.pi * 6371.0088 / 180, np.pi * 6371.0088 / 2])


def test_edges_have_delays_only_if_the_table_has_them() -> None:
    places = Locations.of_ids("abc")
    edges, delays = read_edges(as_table([("c", "a", 0.5)]), places)
    assert (edges.pairs.tolist(), delays) == ([[0, 2]], None)
    edges, delays = read_edges(as_table([("c", "a", 0.5, 3)]), places)
    assert edges.pairs.tolist() == [[2, 0]]
    assert delays is not None
    assert delays.tolist() == [3]
