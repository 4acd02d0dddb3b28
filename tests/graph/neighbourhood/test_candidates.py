from dataclasses import replace

import numpy as np
import pytest

from forecaster.graph.neighbourhood import candidates
from forecaster.graph.neighbourhood.candidates import NONE, find_candidates
from forecaster.graph.neighbourhood.series import TrainingSeries
from forecaster.panel.parts import Locations

PLACES = 23


def quiet(_: str) -> None:
    return None


def series_of(values: np.ndarray) -> TrainingSeries:
    values = values - values.mean(axis=1, keepdims=True)
    length = np.sqrt((values**2).sum(axis=1, keepdims=True))
    constant = length[:, 0] == 0
    return TrainingSeries((values / np.where(length > 0, length, 1)).astype(np.float32), constant)


def ring(steps: int) -> TrainingSeries:
    """Every location has something of the next one."""
    draws = np.random.default_rng(1).standard_normal((PLACES, steps))
    return series_of(draws + 0.8 * np.roll(draws, 1, axis=0))


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "NEAREST", 2)
    monkeypatch.setattr(candidates, "CORRELATED", 2)


def on_a_line(placed: int = PLACES) -> Locations:
    lat = np.where(np.arange(PLACES) < placed, 40 + np.arange(PLACES) / 100, np.nan)
    plain = Locations.of_ids(f"p{n}" for n in range(PLACES))
    return replace(plain, lat=lat, lon=np.where(np.isfinite(lat), -73.0, np.nan))


@pytest.mark.parametrize("steps", [401, 4_001])  # without and with a sketch
def test_candidates_are_the_most_correlated(steps: int) -> None:
    found = find_candidates(ring(steps), on_a_line(0), quiet)
    for n, row in enumerate(found):
        assert {(n - 1) % PLACES, (n + 1) % PLACES} == set(row[row != NONE].tolist())


def test_the_nearest_are_candidates_too() -> None:
    found = find_candidates(ring(401), on_a_line(), quiet)
    assert {11, 13} <= set(found[12].tolist())
    assert {1, 2, PLACES - 1} == set(found[0][found[0] != NONE].tolist())
    for n, row in enumerate(found):
        numbers = row[row != NONE].tolist()
        assert n not in numbers
        assert len(numbers) == len(set(numbers))


def test_locations_without_coordinates_have_correlated_candidates_alone() -> None:
    found = find_candidates(ring(401), on_a_line(placed=5), quiet)
    assert {(9 - 1), (9 + 1)} == set(found[9][found[9] != NONE].tolist())
    assert {0, 2} <= set(found[1].tolist())


def test_many_locations_at_one_point_are_not_their_own_candidates() -> None:
    places = replace(on_a_line(), lat=np.full(PLACES, 40.0))
    found = find_candidates(ring(401), places, quiet)
    assert not (found == np.arange(PLACES)[:, None]).any()


def test_constant_locations_neither_have_nor_are_candidates() -> None:
    values = np.random.default_rng(2).standard_normal((PLACES, 307))
    values[4] = 7.0
    found = find_candidates(series_of(values), on_a_line(), quiet)
    assert (found[4] == NONE).all()
    assert not (found == 4).any()
