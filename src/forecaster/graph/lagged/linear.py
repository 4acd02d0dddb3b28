"""Linear forecasts some steps ahead from a location's own past, its sources and the factors."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.graph.lagged.covariances import LaggedCovariances, LaggedSums, to_covariances


@dataclass(frozen=True, eq=False)
class LinearForecasts:
    """x̂_{i,t+k} = Σ_e Σ_l w_ekl x_{j,t−l} + Σ_f Σ_l b_ifkl f_{t−l}, f = V x; lags 0 first."""

    edges: Float32[np.ndarray, "E K R"]
    loadings: Float32[np.ndarray, "N K F R"]
    factors: Float32[np.ndarray, "F N"]  # V


def fit_linear(
    sums: LaggedSums,
    factors: Float32[np.ndarray, "F N"],
    ends: tuple[Int64[np.ndarray, " E"], Int64[np.ndarray, " E"]],
    recent: int,
) -> LinearForecasts:
    """Fit one regression for each location and step ahead, all steps at once.

    A ridge of as many steps as there are terms keeps few data from being fitted to their noise.

    Args:
        sums: up to recent + K − 1 steps apart.
        factors: of the city.
        ends: source and target of each edge, sorted by target, self-edges included.
        recent: R, the number of past steps.
    """
    inputs = to_covariances(sums, factors)
    N, F, K = inputs.n_locations, len(factors), inputs.max_delay - recent + 1
    source, target = ends
    edges = np.zeros((len(source), K, recent), np.float32)
    loadings = np.zeros((N, K, F, recent), np.float32)
    starts = np.searchsorted(target, np.arange(N + 1))
    for n in range(N):
        incoming = slice(starts[n], starts[n + 1])
        series = np.concatenate([source[incoming], np.arange(N, N + F)])
        weights = _regress(inputs, n, series, recent).transpose(0, 2, 1)  # [series, K, R]
        edges[incoming], loadings[n] = (
            weights[: len(weights) - F],
            weights[len(weights) - F :].transpose(1, 0, 2),
        )
    unit = inputs.scale
    finite = np.where(np.isfinite(unit), unit, 0)
    return LinearForecasts(
        edges * (finite[target] / unit[source])[:, None, None],
        loadings * finite[:, None, None, None],
        inputs.factors / unit,
    )


def _regress(
    inputs: LaggedCovariances, location: int, series: Int64[np.ndarray, " S"], recent: int
) -> Float64[np.ndarray, "S R K"]:
    """The coefficients of the last steps of some series for each step ahead."""
    K = inputs.max_delay - recent + 1
    places, lags = np.repeat(series, recent), np.tile(np.arange(recent), len(series))
    apart, terms = lags[None] - lags[:, None], len(places)
    row, column = np.broadcast_arrays(places[:, None], places[None])
    covariance = np.where(
        apart >= 0,
        inputs.lags[np.abs(apart), row, column],
        inputs.turned[np.abs(apart), row, column],
    ).astype(np.float64)
    covariance[np.diag_indices(terms)] += terms / max(inputs.steps, 1)
    ahead = lags[:, None] + np.arange(1, K + 1)
    targets = inputs.lags[ahead, location, places[:, None]].astype(np.float64)
    return np.linalg.solve(covariance, targets).reshape(len(series), recent, K)
