"""The candidates of each location: the nearest ones, and those that correlate most.

The most correlated are found by a sketch: random sums of a series keep its correlations with all
others up to a small error. Those that seem strongest are then correlated exactly.
"""

import numpy as np
from jaxtyping import Float32, Int64
from scipy.spatial import KDTree

from forecaster.graph.neighbourhood import loops
from forecaster.graph.neighbourhood.series import TrainingSeries
from forecaster.graph.neighbourhood.threads import share_out
from forecaster.graph.selection import MessageCallback
from forecaster.panel.parts import Locations

NEAREST = 16  # locations by coordinates, and
CORRELATED = 64  # by correlation, that may become neighbours
SKETCH = 512  # random sums of a series
LOOKED_AT = 2  # times as many are correlated exactly
_SIMILARITIES = 2**25  # at a time
NONE = -1

Candidates = Int64[np.ndarray, "N k"]  # numbers of locations; −1 where there are fewer


def find_candidates(
    series: TrainingSeries, locations: Locations, tell: MessageCallback
) -> Candidates:
    """Return the candidates of every location, each once, in ascending order."""
    N = len(locations)
    near, like = _nearest(locations), _most_correlated(series, tell)
    both = np.sort(np.concatenate([near, like], axis=1), axis=1)
    both[:, 1:][both[:, 1:] == both[:, :-1]] = NONE
    both[both == np.arange(N)[:, None]] = NONE
    both[series.constant] = NONE
    both[series.constant[both] & (both != NONE)] = NONE
    both.sort(axis=1)
    return both[:, int((both == NONE).sum(axis=1).min(initial=both.shape[1])) :]


def _nearest(locations: Locations) -> Candidates:
    """Return the nearest locations of each; none without coordinates."""
    placed, N = np.flatnonzero(locations.placed), len(locations)
    count = min(NEAREST, len(placed) - 1)
    nearest = np.full((N, max(count, 0)), NONE)
    if count < 1:
        return nearest
    lat, lon = np.radians(locations.lat[placed]), np.radians(locations.lon[placed])
    points = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    _, numbers = KDTree(points).query(points, k=count + 1)
    itself = numbers == np.arange(len(placed))[:, None]
    itself[~itself.any(axis=1), -1] = True  # of many at one point
    nearest[placed] = placed[numbers[~itself].reshape(len(placed), count)]
    return nearest


def _most_correlated(series: TrainingSeries, tell: MessageCallback) -> Candidates:
    """Return those with the largest absolute correlation with each location."""
    sketch = _sketch(series.values)
    N = len(sketch)
    correlated = np.full((N, min(CORRELATED, N - 1)), NONE)
    rows = max(_SIMILARITIES // N, 1)

    def look(first: int) -> None:
        similarity = sketch[first : first + rows] @ sketch.T
        for n, row in enumerate(similarity, start=first):
            likely = loops.strongest(row, n, LOOKED_AT * CORRELATED)
            exact = np.abs(loops.products_with(series.values, n, likely))
            best = likely[np.argsort(-exact, kind="stable")[: correlated.shape[1]]]
            correlated[n, : len(best)] = best

    share_out(list(range(0, N, rows)), look, "candidates, part", tell)
    return correlated


def _sketch(values: Float32[np.ndarray, "N T"]) -> Float32[np.ndarray, "N d"]:
    """Return random sums of each series, of length 1; short series are their own sketch."""
    T = values.shape[1]
    if T <= SKETCH:
        return values
    signs = np.random.default_rng(0).integers(0, 2, (T, SKETCH), dtype=np.int8)
    sketch = values @ (2 * signs - 1).astype(np.float32)
    length = np.sqrt(np.square(sketch).sum(axis=1, keepdims=True))
    return np.asarray(sketch / np.where(length > 0, length, np.inf))
