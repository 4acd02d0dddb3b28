"""Some of the locations, with those that they see along the edges of a graph."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from forecaster.kernels.pattern import BlockPattern


@dataclass(frozen=True, eq=False)
class LocationSample:
    """The locations that are forecast, the targets, and the sources of edges into them.

    Values of m locations are needed to forecast n targets.
    """

    locations: Int64[Tensor, " m"]  # their numbers among all N, ascending
    targets: Int64[Tensor, " n"]  # likewise
    rows: Int64[Tensor, " n"]  # of the targets among the m locations
    share: float  # of all locations that are targets: n / N
    edges: Int64[Tensor, " E"] | None = None  # those into targets, and self-edges, by number
    pattern: BlockPattern | None = None  # of these edges, by rows of the m locations

    @staticmethod
    def of(targets: Int64[np.ndarray, " n"], count: int) -> "LocationSample":
        """The sample of some of `count` locations that see no others.

        Args:
            targets: their numbers, ascending.
            count: N.
        """
        numbers, rows = torch.from_numpy(targets), torch.arange(len(targets))
        return LocationSample(numbers, numbers, rows, len(targets) / count)

    @staticmethod
    def along(pattern: BlockPattern, targets: Int64[np.ndarray, " n"]) -> "LocationSample":
        """The sample with the sources of all edges into the targets.

        Args:
            pattern: of all N locations, on the CPU.
            targets: their numbers, ascending.
        """
        source, target, starts = (
            edges.numpy() for edges in (pattern.source, pattern.target, pattern.starts)
        )
        first, counts = starts[targets], starts[targets + 1] - starts[targets]
        before = np.cumsum(counts) - counts
        into = np.repeat(first - before, counts) + np.arange(counts.sum())
        locations = np.union1d(targets, source[into])
        sources_only = np.setdiff1d(locations, targets, assume_unique=True)
        edges = np.sort(np.concatenate([into, pattern.self_edges.numpy()[sources_only]]))
        ends = (np.searchsorted(locations, end[edges]) for end in (target, source))
        return LocationSample(
            locations=torch.from_numpy(locations),
            targets=torch.from_numpy(targets),
            rows=torch.from_numpy(np.searchsorted(locations, targets)),
            share=len(targets) / pattern.n_locations,
            edges=torch.from_numpy(edges),
            pattern=BlockPattern.from_sorted(len(locations), *ends),
        )

    def to(self, device: torch.device) -> "LocationSample":
        """The sample on a device."""
        if device == self.rows.device:
            return self
        edges, pattern = self.edges, self.pattern
        return LocationSample(
            self.locations.to(device),
            self.targets.to(device),
            self.rows.to(device),
            self.share,
            None if edges is None else edges.to(device),
            None if pattern is None else pattern.to(device),
        )
