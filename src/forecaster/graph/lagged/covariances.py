"""Covariances of all locations with all others some steps earlier, and with factors of the city."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

from forecaster.graph.lagged.deviations import LaggedSample, Segment


@dataclass(frozen=True, eq=False)
class LaggedCovariances:
    """Γ_d[i, j] = Σ_t x_{i,t} x_{j,t−d} / M of series of variance 1, for d = 0 … D.

    The first N series are locations; the others are factors of the city, f = V x. Sums are over
    steps within a segment, as if everything else were 0: so all Γ_d together, as the covariance of
    x_{t−1} … x_{t−D}, are positive semidefinite.
    """

    lags: Float32[np.ndarray, "D1 P P"]
    turned: Float32[np.ndarray, "D1 P P"]  # Γ_dᵀ, so that rows of either are contiguous
    steps: int  # M
    n_locations: int  # N

    @property
    def max_delay(self) -> int:
        """The largest lag: D."""
        return len(self.lags) - 1

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self.lags.shape[1] - self.n_locations


@dataclass(frozen=True, eq=False)
class LaggedSums:
    """Σ_t x_{i,t} x_{j,t−d} of all locations over some segments; additive."""

    products: Float32[np.ndarray, "D1 N N"]
    steps: int

    def __add__(self, other: "LaggedSums") -> "LaggedSums":
        return LaggedSums(self.products + other.products, self.steps + other.steps)

    def with_factors(self, weights: Float64[np.ndarray, "F N"]) -> LaggedCovariances:
        """The covariances of all locations and of these factors, all scaled to variance 1."""
        V = weights.astype(np.float32)
        blocks = [
            np.block([[product, product @ V.T], [V @ product, V @ product @ V.T]])
            for product in self.products
        ]
        scale = np.sqrt(np.maximum(np.diagonal(blocks[0]), 0))
        scale = np.where(scale > 0, scale, np.inf).astype(np.float32)
        lags = np.stack([block / scale / scale[:, None] for block in blocks])
        turned = np.ascontiguousarray(lags.transpose(0, 2, 1))
        return LaggedCovariances(lags, turned, self.steps, self.products.shape[1])


def sum_products(sample: LaggedSample, segments: Sequence[Segment], max_delay: int) -> LaggedSums:
    """The sums of products of every two locations up to `max_delay` steps apart.

    A segment is read once, in single precision; the sums over segments add up in it too, with an
    error of about 1e-6 of a variance.
    """
    N, steps = len(sample.deviations), 0
    products = np.zeros((max_delay + 1, N, N), np.float32)
    for segment in segments:
        x = sample.deviations[:, segment.start : segment.stop]
        length = x.shape[1]
        steps += length
        for d in range(min(max_delay, length - 1) + 1):
            products[d] += x[:, d:] @ x[:, : length - d].T
    return LaggedSums(products, steps)


def city_factors(sums: LaggedSums, count: int) -> Float64[np.ndarray, "F N"]:
    """Weights V of the factors of the city f = V x: what of its past tells most about others.

    They are the leading eigenvectors of Σ_d Γ°_dᵀ Γ°_d, where Γ°_d is Γ_d for d ≥ 1 without the
    effects of locations on themselves. Lam & Yao (2012) take Γ_d Γ_dᵀ, to find which locations
    follow factors; here it counts which ones lead.
    """
    N = sums.products.shape[1]
    told = np.zeros((N, N))
    for product in sums.products[1:]:
        others = product / np.float32(sums.steps)
        np.fill_diagonal(others, 0)
        told += others.T @ others
    _, vectors = np.linalg.eigh(told)
    leading = vectors[:, ::-1][:, :count].T
    signs = np.sign(leading[np.arange(len(leading)), np.abs(leading).argmax(axis=1)])
    return np.asarray(leading * signs[:, None])  # the largest weight is positive
