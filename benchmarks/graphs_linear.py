"""The linear rows of `benchmarks.graphs`: what `quick` over a lagged graph begins as.

Least squares on the last deviations of a location, of its neighbours in a graph and of a few
factors of the city; nothing is trained, so a table takes seconds.
"""

import numpy as np
from scipy.sparse import csr_array

from forecaster.config import LagConfig
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.lagged.covariances import find_factors, sum_products
from forecaster.graph.lagged.deviations import take_deviations
from forecaster.graph.lagged.linear import LinearForecasts, fit_linear
from forecaster.kernels.pattern import BlockPattern
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Splits, assign_splits
from forecaster.windows.profile import SPREAD_FLOOR, fit_profile
from forecaster.windows.scaling import fit_values


class LinearModel:
    """A linear forecast of every location, fitted to the training steps."""

    def __init__(
        self,
        panel: Panel,
        splits: Splits,
        lags: LagConfig,
        graph: DependencyGraph,
        factors: int,
    ) -> None:
        train = assign_splits(panel, splits) == SPLITS.index("train")
        K, R, N = lags.horizon, lags.recent, len(panel.locations)
        self.panel, self.recent, self.horizon = panel, R, K
        self.sample = take_deviations(panel, train, R + K)
        sums = sum_products(self.sample, self.sample.whole_runs, R + K - 1)
        pattern = BlockPattern.from_pairs(N, graph.pairs, directed=graph.is_directed)
        ends = pattern.source.numpy(), pattern.target.numpy()
        fitted = fit_linear(sums, find_factors(sums, factors), ends, R)
        self.weights = [_matrix(fitted, ends, k) for k in range(K)]
        self.open_steps = np.flatnonzero(panel.clock.is_open(panel.times))
        self.profile, self.scale = fit_profile(panel, train), fit_values(panel, train)

    def forecast(self, origins: np.ndarray) -> np.ndarray:
        """The forecasts of the steps after each origin: [B, K, N]."""
        last = np.searchsorted(self.open_steps, origins, side="right") - 1
        past = np.stack([self.sample.deviations[:, last - back] for back in range(self.recent)])
        past = past.transpose(1, 0, 2).reshape(-1, len(origins))  # [N·R, B]
        ahead = np.stack([weights @ past for weights in self.weights])  # [K, N, B]
        forecasts = []
        for k in range(1, self.horizon + 1):
            target = np.searchsorted(self.open_steps, origins + k, side="right") - 1
            steps = np.clip(target - last, 1, self.horizon) - 1  # open ones
            forecasts.append(self._restore(ahead[steps, :, np.arange(len(origins))], origins + k))
        return np.stack(forecasts, axis=1)

    def _restore(self, deviations: np.ndarray, steps: np.ndarray) -> np.ndarray:
        slots = self.panel.clock.slot_of_season(self.panel.times[steps])
        usual = self.profile[:, slots].T
        spread = self.sample.scale
        if self.panel.kind == "count":
            spread = spread * np.sqrt(usual / self.scale.mean + SPREAD_FLOOR)
        forecast = usual + spread * deviations
        return np.asarray(np.maximum(forecast, 0) if self.panel.kind == "count" else forecast)


def _matrix(fitted: LinearForecasts, ends: tuple[np.ndarray, np.ndarray], step: int) -> csr_array:
    """The weights of all locations' last steps for one step ahead: [N, N·R]."""
    (source, target), (_, _, R) = ends, fitted.edges.shape
    N = len(fitted.loadings)
    columns = source[:, None] * R + np.arange(R)
    rows = np.broadcast_to(target[:, None], columns.shape)
    along_edges = csr_array(
        (fitted.edges[:, step].ravel(), (rows.ravel(), columns.ravel())), shape=(N, N * R)
    )
    if not len(fitted.factors):
        return along_edges
    city = np.einsum("ifr,fj->ijr", fitted.loadings[:, step], fitted.factors)
    return csr_array(along_edges + csr_array(city.reshape(N, N * R)))
