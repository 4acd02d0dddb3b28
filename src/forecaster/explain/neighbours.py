"""The effects of locations on a forecast: along the graph's edges, and city-wide."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from forecaster.estimators.graph_arrays import STRENGTHS
from forecaster.explain.attribution import ablate, hops_to
from forecaster.explain.case import Case
from forecaster.explain.explanation import (
    Agreement,
    CityWideEffect,
    CityWideLocation,
    LocationEffect,
    compare_orders,
)
from forecaster.remaining import Tell, ignore

MAX_ABLATED = 60  # other locations that are ablated one by one: largest gradients first
MAX_CITY_WIDE = 5  # locations that are named for their city-wide effect


@dataclass(frozen=True, eq=False)
class LocationEffects:
    """The effect of each location on a forecast, in its units."""

    case: Case
    hops: Float64[np.ndarray, " N"]  # infinite: no path
    path_gradients: Float64[np.ndarray, "K N"]
    total_gradients: Float64[np.ndarray, "K N"]
    ranked: Int64[np.ndarray, " V"]  # other locations, the largest gradient first
    path_ablation: Float64[np.ndarray, " W"]  # of itself, of all others, of each ranked one
    total_ablation: Float64[np.ndarray, " W"]

    @property
    def own(self) -> LocationEffect:
        """The effect of the location itself."""
        return self._effect(self.case.window.location, 0)

    def neighbours(self) -> tuple[LocationEffect, ...]:
        """Return the effects of other locations, the largest gradient first."""
        return tuple(self._effect(n, 2 + row) for row, n in enumerate(self.ranked.tolist()))

    def city_wide(self) -> CityWideEffect:
        """Return the effect outside the value path: whole network minus value path."""
        is_other = _is_other(self.case)
        city_wide = (self.total_gradients - self.path_gradients).mean(axis=0) * is_other
        along_path = np.abs(self.path_gradients.mean(axis=0) * is_other).sum()
        total = along_path + np.abs(city_wide).sum()
        largest = np.argsort(-np.abs(city_wide), kind="stable")[:MAX_CITY_WIDE]
        locations = self.case.panel.locations
        return CityWideEffect(
            share=float(np.abs(city_wide).sum() / total) if total else 0.0,
            gradient=float(city_wide.sum()),
            ablation=float(self.total_ablation[1] - self.path_ablation[1]),
            places=tuple(
                CityWideLocation(locations.ids[n], locations.names[n], float(city_wide[n]))
                for n in largest.tolist()
                if city_wide[n]
            ),
        )

    def agreement(self) -> list[Agreement]:
        """Compare gradient and ablation, along the value path and in the whole network."""
        gradient = self.path_gradients.mean(axis=0)[self.ranked]
        free = self.total_gradients.mean(axis=0)[self.ranked]
        pairs = {("gradient", "ablation"): (gradient, self.path_ablation[2:])}
        if self.case.window.frozen.parts:
            pairs |= {
                ("free gradient", "free ablation"): (free, self.total_ablation[2:]),
                ("gradient", "free ablation"): (gradient, self.total_ablation[2:]),
            }
        return [compare_orders("neighbours", names, *sizes) for names, sizes in pairs.items()]

    def _effect(self, n: int, row: int) -> LocationEffect:
        locations, gradients = self.case.panel.locations, self.path_gradients.mean(axis=0)
        all_others = np.abs(gradients[_is_other(self.case)]).sum()
        is_own = n == self.case.window.location
        strength, delays = _edge(self.case, n)
        return LocationEffect(
            id=locations.ids[n],
            name=locations.names[n],
            hops=int(self.hops[n]) if np.isfinite(self.hops[n]) else None,
            strength=strength,
            gradient=float(gradients[n]),
            gradients=tuple(self.path_gradients[:, n].tolist()),
            share=float(abs(gradients[n]) / all_others) if all_others and not is_own else 0.0,
            ablation=float(self.path_ablation[row]),
            ablation_free=float(self.total_ablation[row]),
            city_wide=float((self.total_gradients - self.path_gradients)[:, n].mean()),
            delays=delays,
        )


def measure_locations(case: Case, tell: Tell = ignore) -> LocationEffects:
    """Measure the effect of each location; the most important ones are ablated one by one."""
    window, is_other = case.window, _is_other(case)
    N, L = len(is_other), case.path_gradients.shape[2]
    path_gradients = case.path_gradients.sum(axis=2)
    size = np.abs(path_gradients.mean(axis=0))
    order = np.lexsort((-size, ~_is_adjacent(case)))  # neighbours in the graph before all others
    ranked = order[is_other[order] & (size[order] > 0)][:MAX_ABLATED]
    ranked = ranked[np.argsort(-size[ranked], kind="stable")]
    masks = np.zeros((2 + len(ranked), N, L), dtype=np.bool_)
    masks[0, window.location], masks[1, is_other] = True, True
    masks[np.arange(len(ranked)) + 2, ranked] = True
    total_ablation = ablate(window, window.free.roll_out, masks, tell).mean(axis=1)
    path_ablation = total_ablation
    if window.frozen.parts:
        path_ablation = ablate(window, window.frozen.roll_out, masks, tell).mean(axis=1)
    return LocationEffects(
        case,
        hops=_hops(case),
        path_gradients=path_gradients,
        total_gradients=case.total_gradients.sum(axis=2),
        ranked=ranked,
        path_ablation=path_ablation,
        total_ablation=total_ablation,
    )


def find_reach(case: Case) -> tuple[int | None, int]:
    """Return the number of edges over which values can travel, and of locations within reach."""
    edges = case.window.network.reach(len(case.forecast))
    if case.edges is None or edges is None:
        return None, len(case.panel.locations)
    return edges, int((_hops(case) <= edges).sum())


def _hops(case: Case) -> Float64[np.ndarray, " N"]:
    edges, N = case.edges, len(case.panel.locations)
    if edges is None:
        return np.full(N, np.inf)
    return hops_to(case.window.location, edges.pairs, N, directed=edges.is_directed)


def _is_adjacent(case: Case) -> Bool[np.ndarray, " N"]:
    """Whether an edge leads from each location to the explained one."""
    return np.asarray(_hops(case) == 1)


def _is_other(case: Case) -> Bool[np.ndarray, " N"]:
    return np.asarray(np.arange(len(case.panel.locations)) != case.window.location)


def _edge(case: Case, n: int) -> tuple[float | None, tuple[int, ...] | None]:
    """Return strength and delays of the edges from a location to the explained one."""
    edges, explained = case.edges, case.window.location
    if edges is None:
        return None, None
    leads_here = (edges.pairs == [n, explained]).all(axis=1)
    if not edges.is_directed:
        leads_here |= (edges.pairs == [explained, n]).all(axis=1)
    strengths = case.run.arrays[STRENGTHS][leads_here].tolist()
    strength = float(max(strengths, key=abs)) if strengths else None
    if edges.delays is None:
        return strength, None
    return strength, tuple(sorted(edges.delays[leads_here].tolist()))
