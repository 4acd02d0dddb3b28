"""The sparsity pattern of every sparse layer, as sorted lists of edges."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from forecaster.errors import ConfigError, count_of


@dataclass(frozen=True, eq=False)
class BlockPattern:
    """Edge e goes from `source[e]` to `target[e]`; edges are sorted by target, then by source.

    The pattern has all self-edges. `turned` has the same edges the other way round: its edge k is
    edge `reverse[k]` of this one. An undirected pattern has every edge in both directions and is
    equal to the turned one, so that `reverse` is then the edge in the other direction.
    """

    source: Int64[Tensor, " E"]
    target: Int64[Tensor, " E"]
    reverse: Int64[Tensor, " E"]  # the edges sorted by source, then by target
    starts: Int64[Tensor, " bounds"]  # the edges of target i are starts[i] … starts[i + 1] − 1
    is_directed: bool = False  # whether an edge need not have one in the other direction
    _elsewhere: dict[torch.device, "BlockPattern"] = field(
        default_factory=dict, init=False, repr=False
    )

    @staticmethod
    def from_pairs(
        count: int, pairs: Int64[np.ndarray, "E0 2"], *, directed: bool = False
    ) -> "BlockPattern":
        """Return the pattern of `count` locations with edges in both directions for each pair.

        A pair given twice, either way round, counts once.

        Args:
            count: the number of locations.
            pairs: the edges but for self-edges, which are added.
            directed: whether a pair is an edge from the first to the second location only.
        """
        if count < 1:
            raise ConfigError(f"a pattern of {count} locations; give at least one")
        if pairs.size and (pairs.min() < 0 or pairs.max() >= count):
            row = pairs[((pairs < 0) | (pairs >= count)).any(axis=1)][0]
            message = f"the pair {tuple(row.tolist())} is out of range"
            raise ConfigError(f"{message}; {count_of(count, 'location')}: 0 … {count - 1}")
        first, second, itself = pairs[:, 0], pairs[:, 1], np.arange(count)
        both_ways = () if directed else (first * count + second,)
        codes = (*both_ways, second * count + first, itself * count + itself)
        ends = np.divmod(np.unique(np.concatenate(codes)), count)
        return _sort_edges(count, *ends, directed=directed)

    @staticmethod
    def from_sorted(
        count: int, target: Int64[np.ndarray, " E"], source: Int64[np.ndarray, " E"]
    ) -> "BlockPattern":
        """Return the pattern of directed edges, self-edges included, in the order of a pattern."""
        return _sort_edges(count, target, source, directed=True)

    @cached_property
    def self_edges(self) -> Int64[Tensor, " N"]:
        """The number of the edge from each location to itself."""
        return (self.source == self.target).nonzero()[:, 0]

    @cached_property
    def turned(self) -> "BlockPattern":
        """The pattern with all edges the other way round; of an undirected one, itself."""
        if not self.is_directed:
            return self
        source, target = (end[self.reverse].cpu().numpy() for end in (self.source, self.target))
        turned = _sort_edges(self.n_locations, source, target, directed=True)
        return turned._move(self.source.device)

    @property
    def n_locations(self) -> int:
        """The number of locations: N."""
        return len(self.starts) - 1

    @property
    def n_edges(self) -> int:
        """The number of edges including self-edges: E."""
        return len(self.source)

    @cached_property
    def walk(self) -> Int64[Tensor, " N"]:
        """All locations in depth-first order from those with most edges: neighbours are close."""
        source, starts = self.source.tolist(), self.starts.tolist()
        by_degree = np.argsort(-np.diff(starts), kind="stable").tolist()
        order, visited = list[int](), [False] * self.n_locations
        ahead = by_degree[::-1]
        while ahead:
            i = ahead.pop()
            if not visited[i]:
                visited[i] = True
                order.append(i)
                ahead += source[starts[i] : starts[i + 1]]
        return torch.tensor(order, device=self.source.device)

    def to(self, device: torch.device) -> "BlockPattern":
        """Return the pattern on a device; the copy is cached."""
        if device == self.source.device:
            return self
        if device not in self._elsewhere:
            moved = self._move(device)
            # Not computed there, so that a CUDA graph never has to wait for it.
            moved.__dict__["turned"] = moved if self.turned is self else self.turned._move(device)
            self._elsewhere[device] = moved
        return self._elsewhere[device]

    def _move(self, device: torch.device) -> "BlockPattern":
        lists = (self.source, self.target, self.reverse, self.starts)
        source, target, reverse, starts = (edges.to(device) for edges in lists)
        return BlockPattern(source, target, reverse, starts, self.is_directed)


def _sort_edges(
    count: int, target: Int64[np.ndarray, " E"], source: Int64[np.ndarray, " E"], *, directed: bool
) -> BlockPattern:
    """Return the pattern of edges that are sorted by target, then by source."""
    reverse = np.argsort(source * count + target)
    starts = np.searchsorted(target, np.arange(count + 1))
    tensors = [torch.from_numpy(edges) for edges in (source, target, reverse, starts)]
    return BlockPattern(tensors[0], tensors[1], tensors[2], tensors[3], directed)
