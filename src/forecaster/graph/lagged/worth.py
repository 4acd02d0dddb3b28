"""What the past of others is worth on held-out weeks, some steps ahead, before anybody trains."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Float64, Int64
from scipy.sparse import csr_array

from forecaster.graph.lagged.deviations import Bounds, LaggedSample
from forecaster.graph.lagged.regressions import Regressions

MAX_ORIGINS = 2_048  # of a quarter: enough for a mean over all locations


def sum_ahead(
    regressions: Regressions, sample: LaggedSample, runs: Bounds, horizon: int
) -> tuple[Float64[np.ndarray, " K"], Float64[np.ndarray, " K"]]:
    """The squared errors of each step ahead over all locations, and the numbers of targets.

    Forecasts of one step are the past of the next; factors follow from the locations.

    Args:
        regressions: fitted to other steps.
        sample: the deviations.
        runs: the steps to forecast.
        horizon: K.
    """
    inputs = regressions.inputs
    N, P, D = inputs.n_locations, inputs.lags.shape[1], inputs.max_delay
    origins = _space_out(runs, D, horizon)
    weights, squares, counts = _matrix(regressions), np.zeros(horizon), np.zeros(horizon)
    if not len(origins):
        return squares, counts
    unit = inputs.scale[:, None]
    state = np.empty((D, P, len(origins)), np.float32)  # the newest step first
    for back in range(D):
        state[back, :N] = sample.deviations[:, origins - back] / unit
    state[:, N:] = inputs.factors @ state[:, :N]
    for step in range(horizon):
        forecast: Float32[np.ndarray, "N B"] = weights @ state.reshape(D * P, -1)
        steps = origins + step + 1
        is_target = sample.observed[:, steps] & np.isfinite(unit)
        error = np.where(is_target, sample.deviations[:, steps] / unit - forecast, 0)
        squares[step] = np.square(error, dtype=np.float64).sum()
        counts[step] = is_target.sum()
        state = np.roll(state, 1, axis=0)
        state[0, :N], state[0, N:] = forecast, inputs.factors @ forecast
    return squares, counts


def _matrix(regressions: Regressions) -> csr_array:
    """The coefficients of x_{t−1} … x_{t−D}: one row a location."""
    inputs = regressions.inputs
    rows, places = np.nonzero(regressions.used)
    size = len(regressions.counts), inputs.max_delay * inputs.lags.shape[1]
    values = regressions.beta[rows, places].astype(np.float32)
    return csr_array((values, (rows, regressions.codes[rows, places])), shape=size)


def _space_out(runs: Bounds, past: int, horizon: int) -> Int64[np.ndarray, " B"]:
    """Evenly spaced origins whose past and targets lie within a run."""
    spans: Sequence[np.ndarray] = [
        np.arange(start + past - 1, stop - horizon) for start, stop in runs.tolist()
    ]
    origins = np.concatenate([np.empty(0, np.int64), *spans])
    return origins[:: max(-(-len(origins) // MAX_ORIGINS), 1)]
