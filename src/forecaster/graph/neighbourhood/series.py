"""The training steps as one series of each location, in single precision, read in blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.graph.covariance import ROUNDING, Sample
from forecaster.graph.neighbourhood import loops
from forecaster.panel.panel import Panel

_VALUES = 2**24  # of the panel at a time

Products = Float64[np.ndarray, "k k"]


@dataclass(frozen=True, eq=False)
class TrainingSeries:
    """Deviations from what is usual, of mean 0 and length 1: products are correlations."""

    values: Float32[np.ndarray, "N T"]
    constant: Bool[np.ndarray, " N"]  # their series is 0

    @staticmethod
    def of(sample: Sample) -> "TrainingSeries":
        """The series of a sample's steps."""
        N, T = len(sample.panel.locations), len(sample.steps)
        values = np.empty((N, T), np.float32)
        for first, block in _blocks(sample):
            values[:, first : first + len(block)] = block.T
        level = np.abs(sample.usual).max(axis=0)
        constant = np.empty(N, np.bool_)
        rows = max(_VALUES // T, 1)
        for first in range(0, N, rows):
            part = slice(first, first + rows)
            values[part] -= values[part].mean(axis=1, dtype=np.float64, keepdims=True)
            length = np.sqrt(np.square(values[part]).sum(axis=1, dtype=np.float64))
            constant[part] = length <= ROUNDING * level[part] * np.sqrt(T - 1)
            values[part] /= np.where(constant[part], np.inf, length)[:, None]
        return TrainingSeries(values, constant)

    def correlations(self, numbers: Int64[np.ndarray, " k"]) -> Products:
        """The correlations of every two of some locations; 1 with itself, if constant too."""
        matrix = loops.products(self.values, numbers)
        np.fill_diagonal(matrix, 1.0)
        return matrix

    def correlations_at(
        self, places: Int64[np.ndarray, " T"], numbers: Int64[np.ndarray, " k"]
    ) -> Products:
        """The correlations of every two of some locations, in some of the steps alone."""
        rows = self.values[numbers].take(places, axis=1)
        rows -= rows.mean(axis=1, dtype=np.float64, keepdims=True)
        length = np.sqrt(np.square(rows).sum(axis=1, dtype=np.float64, keepdims=True))
        rows /= np.where(length > ROUNDING, length, np.inf)
        matrix = loops.products(rows, np.arange(len(rows)))
        np.fill_diagonal(matrix, 1.0)
        return matrix


def _blocks(sample: Sample) -> Iterator[tuple[int, Float32[np.ndarray, "_ N"]]]:
    """Yield the place of each block of steps and its deviations; 0 where a value is missing."""
    panel: Panel = sample.panel
    slots, N = panel.clock.slot_of_season(panel.times), len(panel.locations)
    size = max(_VALUES // N, 1)
    for first in range(0, len(sample.steps), size):
        steps = sample.steps[first : first + size]
        block = panel.values[steps]
        usual, base = sample.usual[slots[steps]], sample.base[slots[steps]]
        block = np.where(np.isnan(block), usual, block)
        block -= base
        yield first, block
