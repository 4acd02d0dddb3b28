"""Which locations carried a forecast: along the graph's edges, and through what sees them all."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from forecaster.explain.attribution import ablate, hops_from
from forecaster.explain.case import Case
from forecaster.explain.explanation import (
    Agreement,
    CityWide,
    Felt,
    Place,
    compare_orders,
)

MOST = 60  # other locations that are ablated one by one: those with the largest gradient
NAMED = 5  # locations with the largest city-wide part


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The part of each location of a case, in units of the forecast."""

    case: Case
    hops: Float64[np.ndarray, " N"]  # infinite: no path
    held: Float64[np.ndarray, "K N"]  # by gradient
    free: Float64[np.ndarray, "K N"]
    chosen: Int64[np.ndarray, " V"]  # others, the largest gradient first
    ablated: Float64[np.ndarray, " W"]  # held: own, all others, each of the chosen
    ablated_free: Float64[np.ndarray, " W"]

    @property
    def own(self) -> Place:
        """The location itself."""
        return self._place(self.case.window.place, 0)

    def others(self) -> tuple[Place, ...]:
        """Return the others, the largest gradient first."""
        return tuple(self._place(n, 2 + row) for row, n in enumerate(self.chosen.tolist()))

    def city_wide(self) -> CityWide:
        """Return what others do through what sees every location: free less held."""
        others = _others(self.case)
        apart = (self.free - self.held).mean(axis=0) * others
        along = np.abs(self.held.mean(axis=0) * others).sum()
        total = along + np.abs(apart).sum()
        largest = np.argsort(-np.abs(apart), kind="stable")[:NAMED]
        places = self.case.known.locations
        return CityWide(
            share=float(np.abs(apart).sum() / total) if total else 0.0,
            gradient=float(apart.sum()),
            ablation=float(self.ablated_free[1] - self.ablated[1]),
            places=tuple(
                Felt(places.ids[n], places.names[n], float(apart[n]))
                for n in largest.tolist()
                if apart[n]
            ),
        )

    def agreement(self) -> list[Agreement]:
        """Return how far gradient and ablation agree, held and free, where these differ."""
        gradient = self.held.mean(axis=0)[self.chosen]
        free = self.free.mean(axis=0)[self.chosen]
        pairs = {("gradient", "ablation"): (gradient, self.ablated[2:])}
        if self.case.window.held.parts:
            pairs |= {
                ("free gradient", "free ablation"): (free, self.ablated_free[2:]),
                ("gradient", "free ablation"): (gradient, self.ablated_free[2:]),
            }
        return [compare_orders("neighbours", names, *sizes) for names, sizes in pairs.items()]

    def _place(self, n: int, row: int) -> Place:
        places, held = self.case.known.locations, self.held.mean(axis=0)
        others = np.abs(held[_others(self.case)]).sum()
        own = n == self.case.window.place
        return Place(
            id=places.ids[n],
            name=places.names[n],
            hops=int(self.hops[n]) if np.isfinite(self.hops[n]) else None,
            strength=_strength(self.case, n),
            gradient=float(held[n]),
            gradients=tuple(self.held[:, n].tolist()),
            share=float(abs(held[n]) / others) if others and not own else 0.0,
            ablation=float(self.ablated[row]),
            ablation_free=float(self.ablated_free[row]),
            city_wide=float((self.free - self.held)[:, n].mean()),
        )


def measure_neighbours(case: Case) -> Neighbours:
    """Return the part of each location; the most important ones are ablated one by one."""
    window, others = case.window, _others(case)
    N, L = len(others), case.held.shape[2]
    held = case.held.sum(axis=2)
    size = np.abs(held.mean(axis=0))
    ranked = np.lexsort((-size, ~_joined(case)))  # neighbours in the graph before all others
    chosen = ranked[others[ranked] & (size[ranked] > 0)][:MOST]
    chosen = chosen[np.argsort(-size[chosen], kind="stable")]
    masks = np.zeros((2 + len(chosen), N, L), dtype=np.bool_)
    masks[0, window.place], masks[1, others] = True, True
    masks[np.arange(len(chosen)) + 2, chosen] = True
    ablated_free = ablate(window, window.free.roll_out, masks).mean(axis=1)
    ablated = ablated_free
    if window.held.parts:
        ablated = ablate(window, window.held.roll_out, masks).mean(axis=1)
    return Neighbours(
        case,
        hops=_hops(case),
        held=held,
        free=case.free.sum(axis=2),
        chosen=chosen,
        ablated=ablated,
        ablated_free=ablated_free,
    )


def find_reach(case: Case) -> tuple[int | None, int]:
    """Return over how many edges values can come, and how many locations lie within."""
    edges = case.window.network.reach(len(case.forecast))
    if case.graph is None or edges is None:
        return None, len(case.known.locations)
    return edges, int((_hops(case) <= edges).sum())


def _hops(case: Case) -> Float64[np.ndarray, " N"]:
    N = len(case.known.locations)
    return (
        np.full(N, np.inf)
        if case.graph is None
        else hops_from(case.window.place, case.graph[0], N)
    )


def _joined(case: Case) -> Bool[np.ndarray, " N"]:
    """Tell which locations an edge joins to the one asked about."""
    return np.asarray(_hops(case) == 1)


def _others(case: Case) -> Bool[np.ndarray, " N"]:
    return np.asarray(np.arange(len(case.known.locations)) != case.window.place)


def _strength(case: Case, n: int) -> float | None:
    """Return the strength of the edge between a location and the one asked about."""
    if case.graph is None:
        return None
    pairs, strengths = case.graph
    between = (np.sort(pairs, axis=1) == sorted((n, case.window.place))).all(axis=1)
    return float(strengths[between][0]) if between.any() else None
