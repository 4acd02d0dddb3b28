"""Daily errors, bias and coverage of a run's forecasts, in validation and since."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.errors import DataError, count_of
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import fill_of
from forecaster.estimators.intervals.online import can_count
from forecaster.estimators.match import splits_of, training_steps
from forecaster.estimators.predictor import Predictor
from forecaster.panel.panel import Panel, local_texts

BLOCK = 256  # origins forecast at a time
SUMS = ("values", "absolutes", "signed", "sizes", "spans", "inside")


@dataclass(frozen=True, eq=False)
class DaySums:
    """Sums over the targets of each local day, by location."""

    first_day: int  # since 1970
    values: Float64[np.ndarray, "D N"]  # number of targets
    absolutes: Float64[np.ndarray, "D N"]  # of errors
    signed: Float64[np.ndarray, "D N"]  # forecast minus observed
    sizes: Float64[np.ndarray, "D N"]  # of counts; of measurements: how far from what is usual
    spans: Float64[np.ndarray, "D N"]  # number of targets with an interval
    inside: Float64[np.ndarray, "D N"]  # number of targets inside it

    @property
    def errors(self) -> Float64[np.ndarray, " D"]:
        """The logarithm of the error relative to the size, of all locations together."""
        return np.asarray(np.log(_ratio(self.absolutes.sum(axis=1), self.sizes.sum(axis=1))))

    @property
    def bias(self) -> Float64[np.ndarray, " D"]:
        """Forecast minus observed relative to the size."""
        return _ratio(self.signed.sum(axis=1), self.sizes.sum(axis=1))

    @property
    def outside(self) -> Float64[np.ndarray, " D"]:
        """The share of targets outside their interval."""
        spans = self.spans.sum(axis=1)
        return _ratio(spans - self.inside.sum(axis=1), spans)


@dataclass(frozen=True, eq=False)
class Spans:
    """The steps of a panel that a run was validated on, and those that came later."""

    learned: Bool[np.ndarray, " M"]  # of training and validation
    validation: Int64[np.ndarray, " V"]
    first_new: int  # the step after the last of training and validation


def find_spans(run: Run, panel: Panel) -> Spans:
    """The steps of validation and those since; a panel without either is refused."""
    splits = splits_of(run)
    train, validation = (
        splits.mask(name, panel.clock, panel.times) for name in ("train", "validation")
    )
    learned = np.flatnonzero(train | validation)
    if not validation.any():
        raise DataError(
            "the panel has none of the steps that the run was validated on "
            f"({run.about['splits']['validation']}); give the panel that it was trained on, with "
            "what came since"
        )
    first = int(learned[-1]) + 1
    if first >= len(panel.values):
        last = local_texts(panel, panel.times[-1:])[0]
        raise DataError(
            f"the panel ends with the steps that the run has learned ({last}); append what came "
            "since"
        )
    return Spans(train | validation, np.flatnonzero(validation), first)


def score_days(
    estimator: Estimator,
    panel: Panel,
    steps: tuple[int, int],
    advance: Callable[[int], None] | None = None,
) -> DaySums:
    """The sums of the days of steps first…end−1; each is forecast once, as early as possible.

    Args:
        estimator: fitted.
        panel: observed values.
        steps: the first target, and the step after the last.
        advance: called with the number of origins just forecast.
    """
    predictor = estimator.predictor(panel, "observed", steps[1])
    run, matched = estimator.adapt(panel, steps[1])
    horizon = run.recipe.lags.horizon
    origins = np.arange(steps[0] - 1, steps[1] - horizon, horizon)
    origins = origins[origins >= 0]
    lags, training = run.recipe.lags, training_steps(run, matched)
    origins = origins[can_count(matched, lags, "observed", training, origins)]
    days = local_days(matched, np.arange(steps[0], steps[1]))
    sums = _no_sums(int(days[0]), int(days[-1] - days[0]) + 1, len(matched.locations))
    if not len(origins):
        raise DataError(
            f"no forecast among {count_of(steps[1] - steps[0], 'step')} has its history and the "
            "covariates ahead; see what `forecaster doctor` says about the panel"
        )
    for first in range(0, len(origins), BLOCK):
        block = origins[first : first + BLOCK]
        _add(sums, predictor, run, block)
        if advance is not None:
            advance(len(block))
    return sums


def local_days(panel: Panel, steps: Int64[np.ndarray, " T"]) -> Int64[np.ndarray, " T"]:
    """The local days of steps, since 1970."""
    local = panel.clock.local(panel.instants(steps))
    return np.asarray(local.astype("datetime64[D]").astype(np.int64))


def usual_values(
    run: Run, panel: Panel, steps: Int64[np.ndarray, " T"]
) -> Float32[np.ndarray, "T N"]:
    """The training means of the time of the week of steps."""
    slots = panel.clock.slot_of_season(panel.instants(steps))
    return np.asarray(fill_of(run).values[slots])


def _add(sums: DaySums, predictor: Predictor, run: Run, origins: Int64[np.ndarray, " B"]) -> None:
    """Add the outcomes of forecasts from some origins to the sums of their days."""
    panel, base = predictor.panel, predictor.base(origins)
    B, K, N = base.forecast.shape
    ahead = (origins[:, None] + np.arange(1, K + 1)).reshape(-1)
    truth = panel.values[ahead].reshape(B, K, N)
    usual = usual_values(run, panel, ahead).reshape(B, K, N)
    observed = np.isfinite(truth) & np.isfinite(base.forecast)
    if base.closed is not None:
        observed &= ~base.closed
    error = base.forecast - truth
    size = np.abs(truth) if run.about["kind"] == "count" else np.abs(truth - usual)
    parts = {"values": observed, "absolutes": np.abs(error), "signed": error, "sizes": size}
    calibration = predictor.calibration
    if calibration.levels:
        quantiles = calibration.correct(base, calibration.corrections)
        inside = (truth >= quantiles[:, 0]) & (truth <= quantiles[:, -1])
        parts |= {"spans": np.isfinite(quantiles[:, 0]), "inside": inside}
    day = local_days(panel, ahead) - sums.first_day
    for name, part in parts.items():
        counted = np.where(observed, part, 0).reshape(B * K, N)
        np.add.at(getattr(sums, name), day, counted)


def _no_sums(first_day: int, days: int, locations: int) -> DaySums:
    return DaySums(first_day, *(np.zeros((days, locations)) for _ in SUMS))


def _ratio(
    sums: Float64[np.ndarray, "*shape"], sizes: Float64[np.ndarray, "*shape"]
) -> Float64[np.ndarray, "*shape"]:
    """The quotient; NaN where nothing is there to divide."""
    has_sums = (sizes > 0) & (sums != 0)
    return np.asarray(np.divide(sums, sizes, out=np.where(sizes > 0, 0.0, np.nan), where=has_sums))
