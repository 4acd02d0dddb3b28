"""Covariances of all locations with others some steps earlier, and with factors of the city."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from forecaster.graph.lagged.deviations import Bounds, LaggedSample

BROAD, FEWEST = 0.25, 3  # share and number of locations that a factor tells about, at least


@dataclass(frozen=True, eq=False)
class LaggedSums:
    """Σ_t x_{i,t} x_{j,t−d} of all locations over some runs of steps, for d = 0 … D; additive.

    Sums are over steps within a run, as if everything else were 0: so all of them together, as the
    covariance of x_t … x_{t−D}, are positive semidefinite.
    """

    products: Float32[np.ndarray, "D1 N N"]  # [d, i, j]
    steps: int

    def __add__(self, other: "LaggedSums") -> "LaggedSums":
        return LaggedSums(self.products + other.products, self.steps + other.steps)

    @property
    def scale(self) -> Float32[np.ndarray, " N"]:
        """The root mean square of each location; infinite where it is 0."""
        squares = np.diagonal(self.products[0]) / np.float32(max(self.steps, 1))
        return np.where(squares > 0, np.sqrt(np.maximum(squares, 0)), np.float32(np.inf))


@dataclass(frozen=True, eq=False)
class LaggedCovariances:
    """Γ_d[i, j] = Σ_t x_{i,t} x_{j,t−d} / M for d = 0 … D, of series of variance 1.

    The first N series are locations; the others are factors of the city, f = V x.
    """

    lags: Float32[np.ndarray, "D1 P P"]
    turned: Float32[np.ndarray, "D1 P P"]  # Γ_dᵀ, so that rows of either are contiguous
    factors: Float32[np.ndarray, "F N"]  # V, for locations of variance 1
    scale: Float32[np.ndarray, " N"]  # of the locations
    steps: int  # M

    @property
    def n_locations(self) -> int:
        """The number of locations: N."""
        return len(self.scale)

    @property
    def max_delay(self) -> int:
        """The largest lag: D."""
        return int(self.lags.shape[0]) - 1

    def series(self, sample: LaggedSample) -> Float32[np.ndarray, "P T"]:
        """The locations and the factors, scaled, at all steps of a sample."""
        scaled = sample.deviations / self.scale[:, None]
        return np.concatenate([scaled, self.factors @ scaled])


def sum_products(sample: LaggedSample, runs: Bounds, max_delay: int) -> LaggedSums:
    """The sums of products of every two locations up to `max_delay` steps apart.

    A run is read once, in single precision, with an error of about 1e-6 of a variance.
    """
    N, steps = len(sample.deviations), 0
    products = np.zeros((max_delay + 1, N, N), np.float32)
    for start, stop in runs.tolist():
        x = sample.deviations[:, start:stop]
        length = stop - start
        steps += length
        for d in range(min(max_delay, length - 1) + 1):
            products[d] += x[:, d:] @ x[:, : length - d].T
    return LaggedSums(products, steps)


def find_factors(sums: LaggedSums, count: int) -> Float32[np.ndarray, "F N"]:
    """Weights V of the factors of the city, f = V x: what of its past tells most about others.

    They are the leading eigenvectors of Σ_d Γ°_dᵀ Γ°_d, where Γ°_d is Γ_d for d ≥ 1 without the
    effects of locations on themselves. Lam & Yao (2012) take Γ_d Γ_dᵀ, to find which locations
    follow factors; here it counts which ones lead. Those that tell about few locations are left
    out, since these effects are edges, and so are more factors than a quarter of the locations.

    Args:
        sums: of some steps.
        count: how many factors are wanted, at most.
    """
    N, unit = sums.products.shape[1], np.float32(sums.steps) * np.outer(sums.scale, sums.scale)
    explained, effects = np.zeros((N, N)), np.zeros((N, N))
    for product in sums.products[1:]:
        from_others = _without_own(product / unit)
        explained += from_others.T @ from_others
    vectors = np.linalg.eigh(explained).eigenvectors[:, ::-1].astype(np.float32)
    for product in sums.products[1:]:
        effects += np.square(_without_own(product / unit) @ vectors)  # of each factor, by target
    targets = effects.sum(axis=0) ** 2 / np.maximum(np.square(effects).sum(axis=0), 1e-30)
    leading = vectors[:, targets >= max(BROAD * N, FEWEST)]
    leading = leading[:, : min(count, int(BROAD * N))].T
    signs = np.sign(leading[np.arange(len(leading)), np.abs(leading).argmax(axis=1)])
    return np.asarray(leading * signs[:, None], dtype=np.float32)  # the largest is positive


def _without_own(gamma: Float32[np.ndarray, "N N"]) -> Float32[np.ndarray, "N N"]:
    """Γ_d with 0 for the effects of locations on themselves, in place."""
    np.fill_diagonal(gamma, 0)
    return gamma


def to_covariances(sums: LaggedSums, factors: Float32[np.ndarray, "F N"]) -> LaggedCovariances:
    """The covariances of all locations and of factors, all scaled to variance 1."""
    unit = np.float32(max(sums.steps, 1)) * np.outer(sums.scale, sums.scale)
    gammas = sums.products / unit
    variance = np.einsum("fi,ij,fj->f", factors, gammas[0].astype(np.float64), factors)
    V = (factors / np.sqrt(np.maximum(variance, 1e-12))[:, None]).astype(np.float32)
    lags = np.stack([np.block([[g, g @ V.T], [V @ g, V @ g @ V.T]]) for g in gammas])
    turned = np.ascontiguousarray(lags.transpose(0, 2, 1))
    return LaggedCovariances(lags, turned, V, sums.scale, sums.steps)
