"""Totals forecast on earlier days and what became of them, by which intervals of totals move.

The quantiles of a total start as validation left them. Then, for each of the last weeks' days in
order, the total that was forecast at the same hour of that day is compared with its outcome, and a
level moves as the levels of single steps do (`intervals.online`). Only outcomes of steps up to the
origin count. A day is one outcome for a total, so one day moves a level as far as many steps do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.clock.clock import Clock
from forecaster.estimators.intervals.calibration import Base, Calibration
from forecaster.estimators.intervals.online import count_sides, push_levels
from forecaster.estimators.predictor import Predictor
from forecaster.estimators.wrong_values.plausible import day_steps

PAST_DAYS = 28  # by which totals are corrected
# The step size γ, in spreads of a total. Chosen by the pinball loss on the second half of
# validation (zones, Melbourne; three models): 0.05 to 2.4 were tried.
GAMMA = 0.8


@dataclass(frozen=True, eq=False)
class PastTotals:
    """The forecasts from earlier origins, a day apart, and the outcomes known by now."""

    forecasts: Float32[np.ndarray, "D K N"]  # NaN: not compared
    outcomes: Float32[np.ndarray, "D K N"]  # NaN: missing, or not known yet
    closed: Bool[np.ndarray, "D K N"]  # known steps outside opening hours, which add nothing

    def locations(self, columns: Sequence[int]) -> "PastTotals":
        """The part of some locations, in this order."""
        parts = (self.forecasts, self.outcomes, self.closed)
        return PastTotals(*(part[..., list(columns)] for part in parts))

    def sum_of(self, members: Bool[np.ndarray, " N"]) -> "PastTotals":
        """The sums of some locations, as those of one location."""
        closed = self.closed[..., members]
        forecasts, outcomes = (
            np.where(closed, np.float32(0), part[..., members]).sum(axis=-1, keepdims=True)
            for part in (self.forecasts, self.outcomes)
        )
        return PastTotals(forecasts, outcomes, np.asarray(closed.all(axis=-1, keepdims=True)))

    def of_steps(
        self, steps: slice
    ) -> tuple[Float32[np.ndarray, "D N"], Float32[np.ndarray, "D N"]]:
        """The forecast totals of some steps ahead, and their outcomes; NaN: none to compare."""
        closed = self.closed[:, steps]
        forecast, outcome = (
            np.where(closed, np.float32(0), part[:, steps]).sum(axis=1)
            for part in (self.forecasts, self.outcomes)
        )
        return forecast, np.where(closed.all(axis=1), np.float32(np.nan), outcome)


def correct_levels(
    corrections: Float64[np.ndarray, " Q"],
    forecast: Float32[np.ndarray, "D N"],
    outcome: Float32[np.ndarray, "D N"],
    offsets: Float32[np.ndarray, "Q N"],
    spread: Float32[np.ndarray, " N"],
    calibration: Calibration,
) -> Float64[np.ndarray, " Q"]:
    """The corrections of a total's levels after the outcomes of the last days, the oldest first.

    Args:
        corrections: as calibrated on validation, in spreads.
        forecast: the totals forecast on earlier days.
        outcome: what they became; NaN: not known.
        offsets: of the quantiles from a total.
        spread: of the total.
        calibration: whose levels and resolution are taken.
    """
    corrected, levels = corrections.copy(), np.array(calibration.levels)
    compared = np.isfinite(forecast + outcome) & np.isfinite(offsets[0])
    for d in np.flatnonzero(compared.any(axis=1))[-PAST_DAYS:].tolist():
        n = compared[d]
        base = Base(
            forecast[d : d + 1, n], (forecast[d, n] + offsets[:, n])[:, None], spread[None, n]
        )
        quantiles = calibration.shift(base, corrected[:, None]).swapaxes(0, 1)
        above, below = count_sides(outcome[d, n], quantiles, calibration.resolution)
        corrected += GAMMA * push_levels(above / n.sum(), below / n.sum(), levels)[0]
    return corrected


class PastForecasts:
    """Forecasts from the same hour of earlier days; each step is forecast from once."""

    def __init__(self, predictor: Predictor, horizon: int) -> None:
        self._predictor, self._horizon = predictor, horizon
        self._forecasts: dict[int, np.ndarray] = {}  # by step: Float32[K N]

    def at(self, origin: int) -> PastTotals:
        """The forecasts of the days before an origin, by the predictor's locations.

        Args:
            origin: the last observed step.
        """
        origins = earlier_origins(origin, self._horizon, self._predictor.panel.clock)
        origins = origins[origins >= 0]
        new = np.array([o for o in origins.tolist() if o not in self._forecasts], dtype=np.int64)
        self._forecasts = {o: f for o, f in self._forecasts.items() if o in {*origins.tolist()}}
        added = forecast_days(self._predictor, new, self._horizon)
        self._forecasts |= dict(zip(new.tolist(), added, strict=True))
        shape = len(origins), self._horizon, len(self._predictor.panel.locations)
        forecasts = np.array([self._forecasts[o] for o in origins.tolist()], dtype=np.float32)
        return add_outcomes(self._predictor, origins, origin, forecasts.reshape(shape))


def earlier_origins(origin: int, horizon: int, clock: Clock) -> Int64[np.ndarray, " D"]:
    """The same hour of earlier days, the oldest first: of each step ahead, so many are known."""
    day = day_steps(clock)
    days = PAST_DAYS + -(-horizon // day) - 1
    return np.asarray(origin - day * np.arange(days, 0, -1))


def forecast_days(
    predictor: Predictor, origins: Int64[np.ndarray, " D"], horizon: int
) -> Float32[np.ndarray, "D K N"]:
    """The forecasts from some origins; NaN at locations that are not compared."""
    shape = len(origins), horizon, len(predictor.panel.locations)
    forecasts = np.full(shape, np.nan, dtype=np.float32)
    if not len(origins):
        return forecasts
    counts = predictor.counts(origins)
    rows = np.flatnonzero(counts.any(axis=1))
    if len(rows):
        base = predictor.base(origins[rows])
        forecasts[rows] = np.where(counts[rows][:, None], base.forecast, np.float32(np.nan))
    return forecasts


def add_outcomes(
    predictor: Predictor,
    origins: Int64[np.ndarray, " D"],
    origin: int,
    forecasts: Float32[np.ndarray, "D K N"],
) -> PastTotals:
    """Forecasts with the outcomes that are known at an origin.

    Args:
        predictor: of the values up to the origin.
        origins: of the forecasts, in order.
        origin: the last observed step.
        forecasts: NaN: not compared.
    """
    outcomes = np.full(forecasts.shape, np.nan, dtype=np.float32)
    closed = np.zeros(forecasts.shape, dtype=bool)
    if len(origins):
        first = int(origins[0]) + 1
        ahead = origins[:, None] - first + np.arange(1, forecasts.shape[1] + 1)
        is_observed = ahead <= origin - first
        observed = predictor.outcomes(np.arange(first, origin + 1))
        outcomes[is_observed] = observed[ahead[is_observed]]
        is_open = predictor.panel.alive(first, origin + 1)
        closed[is_observed] = ~is_open[ahead[is_observed]]
    return PastTotals(forecasts, outcomes, closed)
