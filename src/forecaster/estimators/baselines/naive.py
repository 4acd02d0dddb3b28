"""The simplest baselines: the last value, that of the last season, a mean over past seasons."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, DataError, count_of
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.choosing import choosing_origins
from forecaster.estimators.forecast_inputs import DAY_MINUTES, ForecastInputs
from forecaster.estimators.match import Sizes
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.panel.panel import Panel

BLOCK_VALUES = 2**24  # of the sums of past steps at a time, to bound memory


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
        lags, panel = self.recipe.lags, data.panel
        most = (lags.recent, *(season.count for season in lags.seasons))
        choices = [counts for counts in product(*map(_few, most)) if sum(counts)]
        squares, targets = np.zeros(len(choices)), 0
        origins = choosing_origins(data.windows.validation, lags.horizon * len(panel.locations))
        for block in _blocks(origins, lags, len(panel.locations)):
            truth = panel.values[block[:, None] + np.arange(1, lags.horizon + 1)]
            observed = np.isfinite(truth)
            targets += int(observed.sum())
            sums = _running_sums(data.filled, block, lags)
            for number, counts in enumerate(choices):
                misses = (_mean(sums, counts, lags.horizon) - truth)[observed].astype(np.float64)
                squares[number] += np.square(misses).sum()
        chosen = choices[int(np.argmin(squares))] if targets else [1] * len(most)
        return FitResult({"counts": np.array(chosen, dtype=np.int64)})

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The mean over the chosen steps."""
        lags, panel, counts = self.recipe.lags, inputs.panel, arrays["counts"].tolist()
        most = (lags.recent, *(season.count for season in lags.seasons))
        if not sum(counts) or any(
            c not in range(m + 1) for c, m in zip(counts, most, strict=True)
        ):
            raise ArtifactError(f"counts {counts} do not fit the lags of the run")
        blocks = _blocks(inputs.origins, lags, len(panel.locations))
        return np.concatenate(
            [_mean(_running_sums(panel, block, lags), counts, lags.horizon) for block in blocks]
        )


def _repeat_last(inputs: ForecastInputs, horizon: int) -> Float32[np.ndarray, "B K N"]:
    return np.repeat(inputs.panel.values[inputs.origins][:, None], horizon, axis=1)


def _season_steps(
    panel: Panel, origins: Int64[np.ndarray, " B"], days: int, count: int, horizon: int
) -> Int64[np.ndarray, "B J K"]:
    """The steps at the time of day of t+1…t+K, j·days before, none of them after t.

    The steps ahead that lie beyond the season go back further. With opening hours they are the
    last such days at which that time was open.
    """
    ahead = np.arange(1, horizon + 1)
    if panel.clock.hours:
        lags = panel.clock.similar_open_steps(ahead, days, count, panel.times[origins])
    else:
        seasons_ahead = ahead * panel.clock.step_minutes / (DAY_MINUTES * days)
        if panel.clock.step_months:  # twelve months are a year, also of 365 days
            seasons_ahead = np.round(seasons_ahead, 1)
        first = np.ceil(seasons_ahead).astype(np.int64)
        back = np.arange(1, first[-1] + count) * days
        lags = panel.clock.same_time_steps(ahead, back, panel.times[origins])
        number = first - 1 + np.arange(count)[:, None]  # [J, K]
        lags = np.maximum(lags[:, number, ahead - 1], 0)  # never after t, whatever the clock does
    steps = origins[:, None, None] - lags
    if steps.size and steps.min() < 0:
        least = int((origins[:, None, None] - steps).max()) + 1
        lacking = -int(steps.min())
        raise DataError(
            f"{count_of(horizon, 'step')} ahead by {count} × {count_of(days, 'day')} before: need "
            f"≥ {least:,} steps of history, {lacking:,} more than the first origin has; begin "
            "later, or use fewer seasons"
        )
    return np.asarray(steps)


def _blocks(
    origins: Int64[np.ndarray, " B"], lags: LagConfig, locations: int
) -> list[Int64[np.ndarray, " b"]]:
    """The origins, as many at a time as memory allows."""
    seasons = sum(1 + season.count for season in lags.seasons)
    values = (1 + lags.recent + lags.horizon * seasons) * locations  # of an origin
    return np.split(origins, range(size := max(BLOCK_VALUES // values, 1), len(origins), size))


def _running_sums(
    panel: Panel, origins: Int64[np.ndarray, " B"], lags: LagConfig
) -> list[np.ndarray]:
    """The sums of the first 0, 1, 2, … recent steps, and of each season's: [J B K N] each.

    Those of recent steps are the same for all steps ahead: [J B 1 N].
    """
    last = LagConfig(recent=lags.recent, seasons=())
    back = panel.clock.lag_steps(last, panel.times[origins])[:, ::-1]  # the last step first
    kinds = [(origins[:, None] - back)[..., None]]
    for season in lags.seasons:
        kinds.append(_season_steps(panel, origins, season.days, season.count, lags.horizon))
    sums = []
    for steps in kinds:  # [B, J, K]
        values = panel.values[steps].transpose(1, 0, 2, 3)
        zero = np.zeros((1, *values.shape[1:]), dtype=np.float32)
        sums.append(np.concatenate([zero, np.cumsum(values, axis=0, dtype=np.float32)]))
    return sums


def _mean(
    sums: list[np.ndarray], counts: Sequence[int], horizon: int
) -> Float32[np.ndarray, "B K N"]:
    total = sum(running[count] for running, count in zip(sums, counts, strict=True))
    mean = np.asarray(total / np.float32(sum(counts)), dtype=np.float32)
    return np.broadcast_to(mean, (len(mean), horizon, mean.shape[2]))


def _few(most: int) -> list[int]:
    """A few counts from none to all."""
    return sorted({0, 1, 2, most // 2, most} & set(range(most + 1)))
