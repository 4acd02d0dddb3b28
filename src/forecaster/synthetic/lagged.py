"""Dependencies on the past of others: lagged edges along the map, and factors of the whole city.

Edges run from a location to one farther out, so they form no cycles and no pair has both
directions. The numbers are fixed so that results stay comparable: 0 to 3 edges into a location,
1.7 on average; delays of 1 to 3 hours; a fifth of the strengths negative.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.synthetic.locations import LENGTH_KM, NEIGHBOURHOODS, StreetGrid

MAX_DELAY = 3  # hours
IN_DEGREES = (0.10, 0.30, 0.40, 0.20)  # shares of the locations with 0, 1, 2, 3 edges into them
NEGATIVE_SHARE = 0.2
TOTAL_STRENGTH = 0.60  # of the edges into a location, at most
EDGE_STRENGTH = 0.35  # of one edge, at most
STRENGTH_RANGE = (0.85, 1.0)  # of what is possible under both limits
LOADINGS = (0.04, 0.12)  # of the factors, uniform
FACTOR_AR = 0.9  # ψ
FACTORS = ("crowds leave the centre", "rain crosses the city", "inflow becomes outflow")
_NEAR_SOURCES = 12  # sources are drawn among so many of the nearest locations upstream
_ACROSS = 2.0  # a kilometre across counts as so many along: flows follow the avenues
_DETOUR = 0.05  # deviation of the order outward, in half lengths of the strip
_METRO_DELAYS = {"business": 0, "visitors": 1, "nightlife": 2, "residential": 3}


@dataclass(frozen=True, eq=False)
class LaggedEdges:
    """Effects of one location's noise on that of another some hours later."""

    pairs: Int64[np.ndarray, "E 2"]  # source, target
    delays: Int64[np.ndarray, " E"]  # hours, from 1 to 3
    strengths: Float64[np.ndarray, " E"]  # on the target's noise, per unit of the source's

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, eq=False)
class LaggedFactors:
    """Effects of hidden series of the whole city, which reach each location after a delay."""

    loadings: Float64[np.ndarray, "N F"]
    delays: Int64[np.ndarray, "N F"]  # hours, from 0 to 3


def no_edges() -> LaggedEdges:
    """Return the edges of a city where nothing travels."""
    nothing = np.empty(0, dtype=np.int64)
    return LaggedEdges(nothing.reshape(0, 2), nothing, np.empty(0))


def draw_lagged_edges(grid: StreetGrid, generator: np.random.Generator) -> LaggedEdges:
    """Draw the edges into every location, with the strengths of the full travel.

    Positive edges stand for crowds and congestion that move on, negative ones for demand that
    was served at the source and is missing at the target.
    """
    N = len(grid.along)
    outward = np.abs(grid.along) / (LENGTH_KM / 2.0) + generator.normal(0.0, _DETOUR, N)
    in_degrees = generator.choice(len(IN_DEGREES), N, p=IN_DEGREES).tolist()
    drawn = [
        _draw_sources(grid, outward, target, in_degrees[target], generator) for target in range(N)
    ]
    counts = np.array([len(sources) for sources, _ in drawn])
    targets = np.repeat(np.arange(N), counts)
    share = np.repeat(np.minimum(EDGE_STRENGTH, TOTAL_STRENGTH / np.maximum(counts, 1)), counts)
    sign = np.where(generator.random(len(targets)) < NEGATIVE_SHARE, -1.0, 1.0)
    return LaggedEdges(
        pairs=np.column_stack([np.concatenate([sources for sources, _ in drawn]), targets]),
        delays=np.concatenate([delays for _, delays in drawn]),
        strengths=sign * share * generator.uniform(*STRENGTH_RANGE, len(targets)),
    )


def _draw_sources(
    grid: StreetGrid,
    outward: Float64[np.ndarray, " N"],
    target: int,
    count: int,
    generator: np.random.Generator,
) -> tuple[Int64[np.ndarray, " S"], Int64[np.ndarray, " S"]]:
    """Draw a target's sources among the nearest locations upstream, and their delays.

    The nearest third of them is one hour away, the next two, the farthest three.
    """
    across, along = grid.across - grid.across[target], grid.along - grid.along[target]
    nearest = np.argsort(np.hypot(_ACROSS * across, along), kind="stable")
    upstream = nearest[outward[nearest] < outward[target]][:_NEAR_SOURCES]
    ranks = generator.choice(len(upstream), min(count, len(upstream)), replace=False)
    ranks = np.asarray(ranks, dtype=np.int64)
    return upstream[ranks], 1 + ranks * MAX_DELAY // _NEAR_SOURCES


def no_factors(count: int) -> LaggedFactors:
    """Return the factors of a city of `count` locations where nothing travels."""
    return LaggedFactors(np.empty((count, 0)), np.empty((count, 0), dtype=np.int64))


def draw_lagged_factors(grid: StreetGrid, generator: np.random.Generator) -> LaggedFactors:
    """Draw the loadings of the full travel; the delays follow from the map (see `FACTORS`)."""
    kinds = [NEIGHBOURHOODS[i][1] for i in grid.neighbourhoods]
    delays = np.column_stack(
        [
            _quarters(np.abs(grid.along)),
            _quarters(grid.along),
            np.array([_METRO_DELAYS[kind] for kind in kinds]),
        ]
    )
    return LaggedFactors(generator.uniform(*LOADINGS, delays.shape), delays)


def _quarters(values: Float64[np.ndarray, " N"]) -> Int64[np.ndarray, " N"]:
    """Return which quarter of all values each one lies in, from 0 to 3."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return np.asarray(ranks * (MAX_DELAY + 1) // len(values))
