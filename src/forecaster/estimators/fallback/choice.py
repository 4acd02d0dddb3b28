"""The locations where a simple model is better than a trained one by more than chance.

After training, a model is compared on the validation windows with the simple ones, at every
location. Where the best of them has a lower squared error than the model by more than chance, the
run serves that one there.

By more than chance: squared errors are summed over blocks of whole local days, because the hours
of a day share weather and events, and so do neighbouring days. A one-sided t-test of the paired
differences of the blocks gives a p-value, multiplied by the number of simple models, since the
best of them was chosen on the same days. Holm's rule then keeps the chance of any wrong fallback,
over all locations together, below 5 %. The model and the simple ones were all tuned on the same
validation windows (the number of epochs; one penalty, a few counts), so none has an advantage.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64, Shaped

from forecaster.artifact import Run
from forecaster.errors import DataError
from forecaster.estimators.fallback.served import (
    FACTORS,
    MODEL,
    NAMES,
    OFFSETS,
    PREFIX,
    SimpleModel,
    fallback_of,
    simple_model,
)
from forecaster.estimators.forecast_inputs import DAY_MINUTES, prepare_inputs
from forecaster.estimators.intervals.calibration import (
    CORRECTIONS,
    SPREAD,
    Outcomes,
    space_out,
)
from forecaster.estimators.intervals.residuals import fit_offsets
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.paired import MAX_BLOCKS, MIN_BLOCKS, block_days, p_values
from forecaster.recipe import Recipe
from forecaster.windows.scaling import fit_values

CHANCE = 0.05  # of any wrong fallback, over all locations
UNCHANGED = 0.5  # error, in deviations or counts, that is too large where nothing ever changed
MIN_TERMS = 30  # values that a factor needs
BLOCK = 256  # origins forecast at a time, to bound memory
BLOCK_VALUES = 2**23  # forecasts of one model at a time, for the same reason
log = logging.getLogger(__name__)


def choose_fallback(run: Run, data: TrainingData, own: Float32[np.ndarray, "V K N"]) -> FitResult:
    """Compare a model with the simple ones: the models to serve, and how many locations have one.

    Empty with too few validation days to tell.

    Args:
        run: of the model, not calibrated yet.
        data: as for its fit.
        own: its forecasts of the validation windows.
    """
    panel, origins, horizon = data.panel, data.windows.validation, own.shape[1]
    first_targets = panel.clock.local(panel.instants(origins + 1))
    days = first_targets.astype("datetime64[D]").astype(np.int64)
    blocks = block_days(days, horizon * panel.clock.step_minutes / DAY_MINUTES)
    if blocks.max() + 1 < MIN_BLOCKS:
        log.info("%s: too few validation days to compare it with simple models", run.estimator)
        return FitResult({})
    truth = panel.values[origins[:, None] + np.arange(1, horizon + 1)]
    fitted = _fit_simple(run.recipe, data)
    simple = _simple_squares(run, data, truth, fitted, blocks)
    squares = np.concatenate([sum_squares(truth, own, blocks)[None], simple])
    counts = sum_windows(np.isfinite(truth).sum(axis=1), blocks)
    unit = fit_values(panel, data.train).deviation
    unit = np.maximum(unit, np.float32(1)) if run.about["kind"] == "count" else unit
    number = choose_models(squares, counts, _varies(truth), unit)
    positions = np.array([0, *(1 + NAMES.index(name) for name in fitted)])
    return _result(positions[number], fitted)


def _result(
    model: Int64[np.ndarray, " N"], fitted: Mapping[str, tuple[SimpleModel, Arrays]]
) -> FitResult:
    """The arrays of the simple models that are served, and the number of their locations."""
    counts = {name: int((model == n).sum()) for n, name in enumerate(NAMES, start=1)}
    served = {name: count for name, count in counts.items() if count}
    about = {"locations": sum(served.values()), "of": len(model), "models": served}
    arrays = {
        f"{PREFIX}{name}.{part}": array
        for name in served
        for part, array in fitted[name][1].items()
    }
    return FitResult({MODEL: model, **arrays} if served else {}, {"fallback": about})


def _fit_simple(recipe: Recipe, data: TrainingData) -> dict[str, tuple[SimpleModel, Arrays]]:
    """The fitted simple models; one that cannot be fitted to these data is left out."""
    fitted = {}
    for name in NAMES:
        model = simple_model(name, recipe)
        try:
            fitted[name] = model, model.fit_windows(data).arrays
        except DataError as error:
            log.info("not compared with %s: %s", name, error)
    return fitted


def _simple_squares(
    run: Run,
    data: TrainingData,
    truth: Float32[np.ndarray, "V K N"],
    fitted: Mapping[str, tuple[SimpleModel, Arrays]],
    blocks: Int64[np.ndarray, " V"],
) -> Float64[np.ndarray, "models D N"]:
    """The squared errors of each simple model in blocks of days; infinite if it cannot forecast.

    A few origins at a time, to bound memory.
    """
    origins = data.windows.validation
    squares = np.zeros((len(fitted), MAX_BLOCKS, truth.shape[2]))
    size = min(BLOCK, max(BLOCK_VALUES // (truth.shape[1] * truth.shape[2]), 1))
    for first in range(0, len(origins), size):
        rows = slice(first, first + size)
        inputs = prepare_inputs(run, data.panel, origins[rows], "observed")
        for number, (model, arrays) in enumerate(fitted.values()):
            try:
                forecast = model.predict_windows(arrays, inputs)
            except DataError:  # a season that reaches back beyond the first step
                forecast = np.full_like(truth[rows], np.inf)
            forecast = np.where(np.isfinite(forecast), forecast, np.float32(np.inf))
            if run.about["kind"] == "count":
                forecast = np.maximum(forecast, np.float32(0))
            squares[number] += sum_squares(truth[rows], forecast, blocks[rows])
    return squares


def sum_squares(
    truth: Float32[np.ndarray, "V K N"],
    forecast: Float32[np.ndarray, "V K N"],
    blocks: Int64[np.ndarray, " V"],
) -> Float64[np.ndarray, "D N"]:
    """The squared errors of observed targets, summed over steps ahead and each block.

    A few windows at a time: double precision takes twice the memory of the forecasts.
    """
    V, K, N = truth.shape
    by_window = np.empty((V, N))
    for rows in _few_windows(V, K * N):
        misses = np.where(
            np.isnan(truth[rows]), 0, truth[rows].astype(np.float64) - forecast[rows]
        )
        by_window[rows] = np.square(misses).sum(axis=1)
    return sum_windows(by_window, blocks)


def _few_windows(windows: int, window_values: int) -> list[slice]:
    """Slices of windows that hold at most `BLOCK_VALUES` values each."""
    size = max(BLOCK_VALUES // window_values, 1)
    return [slice(first, first + size) for first in range(0, windows, size)]


def sum_windows(
    by_window: Shaped[np.ndarray, "V N"], blocks: Int64[np.ndarray, " V"]
) -> Float64[np.ndarray, "D N"]:
    """The sums over the windows of each of `MAX_BLOCKS` blocks."""
    sums = np.zeros((MAX_BLOCKS, by_window.shape[1]))
    np.add.at(sums, blocks, by_window)
    return sums


def _varies(truth: Float32[np.ndarray, "V K N"]) -> Bool[np.ndarray, " N"]:
    """Which locations have more than one value among their targets."""
    return np.asarray(np.fmax.reduce(truth, axis=(0, 1)) > np.fmin.reduce(truth, axis=(0, 1)))


def choose_models(
    squares: Float64[np.ndarray, "models D N"],
    counts: Float64[np.ndarray, "D N"],
    varies: Bool[np.ndarray, " N"],
    unit: Float32[np.ndarray, " N"],
) -> Int64[np.ndarray, " N"]:
    """The model to serve at each location: 0 is the first, unless another is clearly better.

    A location whose values never changed on validation tells nothing about chance: a model keeps
    it as long as it is nearly right there.

    Args:
        squares: the squared errors of each model, in blocks of days.
        counts: the number of observed targets.
        varies: whether the targets vary.
        unit: the deviation of the training values.
    """
    own, simple = squares[0], squares[1:]
    if not len(simple):
        return np.zeros(own.shape[1], dtype=np.int64)
    best = simple.sum(axis=1).argmin(axis=0)
    lower = np.take_along_axis(simple, best[None, None], axis=0)[0]
    with np.errstate(invalid="ignore"):
        p = len(simple) * p_values(own - lower, counts > 0)
    p[~varies] = 1.0
    worse = reject(p)
    rms = np.sqrt(own.sum(axis=0) / np.maximum(counts.sum(axis=0), 1))
    worse |= ~varies & (rms > UNCHANGED * unit) & (lower.sum(axis=0) < own.sum(axis=0))
    return np.where(worse, 1 + best, 0)


def reject(p: Float64[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    """Which of N hypotheses Holm's rule rejects, at `CHANCE` for all of them together."""
    order = np.argsort(p)
    held = p[order] * np.arange(len(p), 0, -1) > CHANCE
    first_held = int(np.argmax(held)) if held.any() else len(p)
    rejected = np.zeros(len(p), dtype=bool)
    rejected[order[:first_held]] = True
    return rejected


def leave_out(run: Run, outcomes: Outcomes) -> Outcomes:
    """The outcomes without the model's own quantiles where simple models are served.

    Corrections that all locations share are then those of the model's quantiles.
    """
    fallback = fallback_of(run)
    if fallback is None or not outcomes.quantiles.shape[1]:
        return outcomes
    quantiles = outcomes.quantiles.copy()
    quantiles[..., fallback.locations] = np.nan
    return replace(outcomes, quantiles=quantiles)


def fit_outputs(
    run: Run,
    served: WindowForecasts,
    outcomes: Outcomes,
    truth: Float32[np.ndarray, "V K N"],
    calibrated: Arrays,
) -> dict[str, np.ndarray]:
    """Quantiles and relative forecasts of the simple models, by their validation residuals.

    Shared corrections are subtracted from the quantiles, which need none.

    Args:
        run: with the simple models that it serves.
        served: the forecasts of the validation windows.
        outcomes: of these forecasts.
        truth: the observed targets.
        calibrated: the arrays of the run's calibration.
    """
    fallback, arrays = fallback_of(run), dict[str, np.ndarray]()
    if fallback is None:
        return arrays
    at = fallback.locations
    if outcomes.quantiles.shape[1]:
        levels, spread = run.recipe.intervals.quantiles, calibrated[SPREAD][:, at]
        residuals = space_out(outcomes.residuals, outcomes.resolution)[..., at]
        offsets = fit_offsets(residuals, outcomes.hours, levels, spread)
        shared = calibrated[CORRECTIONS].astype(np.float32)[..., None] * spread[:, None, None]
        arrays[OFFSETS] = offsets - shared
    if served.relative is not None:
        cut = run.recipe.metrics.mape_cut
        arrays[FACTORS] = np.ones(truth.shape[2], dtype=np.float32)
        for n in at.tolist():
            x, mean, own = (part[..., n] for part in (truth, served.mean, served.relative))
            factor = fit_factor(x, mean, cut)
            lower = relative_error(x, factor * mean, cut) < relative_error(x, own, cut)
            arrays[FACTORS][n] = factor if lower else 0.0
    return arrays


def relative_error(
    truth: Float32[np.ndarray, "V K"], forecast: Float32[np.ndarray, "V K"], cut: float
) -> float:
    """Σ |y − ŷ| / y over targets y ≥ cut."""
    counted = truth >= cut
    return float((np.abs(truth - forecast)[counted] / truth[counted]).sum(dtype=np.float64))


def fit_factor(
    truth: Float32[np.ndarray, "V K"], forecast: Float32[np.ndarray, "V K"], cut: float
) -> float:
    """argmin_c Σ |y − c ŷ| / y over targets y ≥ cut: the median of y / ŷ, weighted by ŷ / y."""
    counted = (truth >= cut) & (forecast > 0)
    if counted.sum() < MIN_TERMS:
        return 1.0
    ratio = np.sort(truth[counted].astype(np.float64) / forecast[counted])
    weights = np.cumsum(1 / ratio)
    return float(ratio[np.searchsorted(weights, weights[-1] / 2)])
