"""The simplest baselines: the last value, that of the last season, a mean over past seasons."""

from itertools import product

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, DataError
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.match import Sizes
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.metrics import score
from forecaster.panel.panel import Panel

MAX_CHOOSING = 1_000  # validation windows, evenly spaced, on which counts are chosen


class _Naive(Estimator):
    """A baseline without anything to fit."""

    accepts_new_locations = True

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Return no arrays: there is nothing to fit."""
        del data
        return FitResult({})


class LastValue(_Naive):
    """The value at the forecast origin, repeated for every step ahead.

    A missing value at the origin is filled as for every model, with the location's usual value.
    """

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """x_t for every step."""
        del arrays
        return _repeat_last(inputs, self.recipe.lags.horizon)


class SeasonalNaive(_Naive):
    """The value at the same wall-clock time one season before: a week, with the paper's lags."""

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """x_{t+k−season}; without seasons the last value."""
        del arrays
        lags = self.recipe.lags
        days = max((season.days for season in lags.seasons), default=0)
        if not days:
            return _repeat_last(inputs, lags.horizon)
        steps = _season_steps(inputs.panel, inputs.origins, days, 1, lags.horizon)
        return np.asarray(inputs.panel.values[steps[:, 0]])


class HistoricalMean(Estimator):
    """The mean of some recent steps and of the same time on some past days and weeks.

    The number of each, from 0 to the recipe's, is chosen on validation.
    """

    accepts_new_locations = True

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shape of the counts: recent steps, and each season."""
        del sizes
        return {"counts": (1 + len(self.recipe.lags.seasons),)}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Choose the number of steps of each kind by the lowest validation RMSE."""
        lags = self.recipe.lags
        origins = data.windows.validation
        origins = origins[:: -(-len(origins) // MAX_CHOOSING)]
        truth = data.panel.values[origins[:, None] + np.arange(1, lags.horizon + 1)]
        sums = _running_sums(data.filled, origins, lags)
        best: tuple[float, tuple[int, ...]] = (np.inf, ())
        for counts in product(*(_few(len(running) - 1) for running in sums)):
            if sum(counts):
                rmse = score(truth, _mean(sums, counts), mape_cut=1.0).rmse.value
                best = min(best, (np.inf if rmse is None else rmse, counts))
        return FitResult({"counts": np.array(best[1] or [1] * len(sums), dtype=np.int64)})

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The mean over the chosen steps."""
        sums = _running_sums(inputs.panel, inputs.origins, self.recipe.lags)
        counts = arrays["counts"].tolist()
        if not sum(counts) or any(
            c not in range(len(s)) for c, s in zip(counts, sums, strict=True)
        ):
            raise ArtifactError(f"counts {counts} do not fit the lags of the run")
        return _mean(sums, tuple(counts))


def _repeat_last(inputs: ForecastInputs, horizon: int) -> Float32[np.ndarray, "B K N"]:
    return np.repeat(inputs.panel.values[inputs.origins][:, None], horizon, axis=1)


def _season_steps(
    panel: Panel, origins: Int64[np.ndarray, " B"], days: int, count: int, horizon: int
) -> Int64[np.ndarray, "B J K"]:
    """The steps at the time of day of t+1…t+K, j·days before, none of them after t.

    With opening hours they are the last such days at which that time was open.
    """
    if panel.clock.hours:
        lags = panel.clock.similar_open_steps(
            np.arange(1, horizon + 1), days, count, panel.times[origins]
        )
        return _inside(origins[:, None, None] - lags, horizon)
    ahead_days = horizon * panel.clock.step_minutes / (24 * 60)
    first = int(np.ceil(ahead_days / days)) or 1  # a horizon beyond the season goes back further
    back = np.arange(first, first + count) * days
    lags = panel.clock.same_time_steps(np.arange(1, horizon + 1), back, panel.times[origins])
    # Never after t, whatever the clock does.
    return _inside(origins[:, None, None] - np.maximum(lags, 0), horizon)


def _inside(steps: Int64[np.ndarray, "B J K"], horizon: int) -> Int64[np.ndarray, "B J K"]:
    """The steps; those before the panel are refused."""
    if steps.size and steps.min() < 0:
        message = f"a horizon of {horizon} steps needs {-int(steps.min())} more steps of history"
        raise DataError(f"{message} than the first origin has; begin later")
    return np.asarray(steps)


def _running_sums(
    panel: Panel, origins: Int64[np.ndarray, " B"], lags: LagConfig
) -> list[np.ndarray]:
    """The sums of the first 0, 1, 2, … recent steps, and of each season's: [J B K N] each."""
    last = LagConfig(recent=lags.recent, seasons=())
    back = panel.clock.lag_steps(last, panel.times[origins])[:, ::-1]  # the last step first
    recent = (origins[:, None] - back)[:, :, None].repeat(lags.horizon, axis=2)
    kinds = [recent]
    for season in lags.seasons:
        kinds.append(_season_steps(panel, origins, season.days, season.count, lags.horizon))
    sums = []
    for steps in kinds:  # [B, J, K]
        values = panel.values[steps].transpose(1, 0, 2, 3)
        zero = np.zeros((1, *values.shape[1:]), dtype=np.float32)
        sums.append(np.concatenate([zero, np.cumsum(values, axis=0, dtype=np.float32)]))
    return sums


def _mean(sums: list[np.ndarray], counts: tuple[int, ...]) -> Float32[np.ndarray, "B K N"]:
    total = sum(running[count] for running, count in zip(sums, counts, strict=True))
    return np.asarray(total / np.float32(sum(counts)), dtype=np.float32)


def _few(most: int) -> list[int]:
    """A few counts from none to all."""
    return sorted({0, 1, 2, most // 2, most} & set(range(most + 1)))
