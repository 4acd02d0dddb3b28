"""Scaled forecast inputs, and the scales as arrays of a run."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from forecaster.errors import ArtifactError
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.match import Sizes
from forecaster.estimators.training_data import Arrays, TrainingData
from forecaster.windows.scaling import Scale, Scaler, bound_values

HOUR_MINUTES = 60
_SCALES = ("values", "covariates", "local_covariates")
_STATISTICS = ("mean", "deviation")
_RANGE = ("values.least", "values.most")


def scale_ahead(
    inputs: ForecastInputs, scaler: Scaler
) -> tuple[Float32[np.ndarray, "B K A"], Float32[np.ndarray, "B K Q N"]]:
    """The scaled covariates ahead: a_{t+1…t+K} (weather, then calendar), and the local ones."""
    ahead = inputs.origins[:, None] + np.arange(1, inputs.covariates.shape[1] + 1)
    calendar = assumed_calendar(inputs, ahead)
    auxiliary = np.concatenate([scaler.covariates.apply(inputs.covariates), calendar], axis=2)
    scale = scaler.local_covariates
    local = (inputs.local_covariates - scale.mean[:, None]) / scale.deviation[:, None]
    return auxiliary, np.asarray(local, dtype=np.float32)


def scale_arrays(scaler: Scaler) -> dict[str, np.ndarray]:
    """The scales as arrays of a run."""
    return {
        f"{name}.{statistic}": getattr(getattr(scaler, name), statistic)
        for name in _SCALES
        for statistic in _STATISTICS
    }


def scale_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shapes of `scale_arrays`."""
    lengths = dict(zip(_SCALES, (sizes.N, sizes.P, sizes.Q), strict=True))
    return {f"{name}.{s}": (lengths[name],) for name in _SCALES for s in _STATISTICS}


def scaler_of(arrays: Arrays) -> Scaler:
    """The scales of a run; deviations must be positive."""
    scales = [Scale(arrays[f"{n}.mean"], arrays[f"{n}.deviation"]) for n in _SCALES]
    if any((scale.deviation <= 0).any() for scale in scales):
        raise ArtifactError("the run's scales have a deviation of 0 or less")
    return Scaler(*scales)


def range_arrays(data: TrainingData) -> dict[str, np.ndarray]:
    """The smallest and largest training value of each location, as arrays of a run."""
    values = data.panel.values[data.train]
    ends = (np.fmin.reduce, np.fmax.reduce)  # which ignore NaN
    return {
        name: np.nan_to_num(end(values, axis=0)) for name, end in zip(_RANGE, ends, strict=True)
    }


def bound_inputs(arrays: Arrays, inputs: ForecastInputs) -> ForecastInputs:
    """The inputs with bounded values, so that no location reaches others without limit.

    Within the range of training nothing changes, nor in runs without that range.
    """
    if not all(name in arrays for name in _RANGE):
        return inputs
    panel = inputs.panel
    least, most = (arrays[name] for name in _RANGE)
    if {least.shape, most.shape} != {panel.values.shape[1:]} or not (least <= most).all():
        raise ArtifactError(
            f"{' and '.join(_RANGE)} are no ranges of {panel.values.shape[1]} locations"
        )
    bounded = panel.with_data(values=bound_values(panel.values, least, most))
    if inputs.observed is None:
        return replace(inputs, panel=bounded)
    return replace(inputs, panel=bounded, observed=bound_values(inputs.observed, least, most))


def calendar_of(
    inputs: ForecastInputs, steps: Int64[np.ndarray, " T"]
) -> Float32[np.ndarray, "T 32"]:
    """The calendar columns of steps, without changed holidays."""
    clock = inputs.panel.clock
    if inputs.whole_hours and clock.step_minutes < HOUR_MINUTES:
        clock = replace(clock, step_minutes=HOUR_MINUTES)
    return clock.calendar(inputs.panel.instants(steps))


def assumed_calendar(
    inputs: ForecastInputs, steps: Int64[np.ndarray, "B T"]
) -> Float32[np.ndarray, "B T 32"]:
    """The calendar columns of steps with changed holidays, each a whole local day."""
    calendar = calendar_of(inputs, steps.reshape(-1)).reshape(*steps.shape, -1)
    if inputs.holiday is None:
        return calendar
    ahead = inputs.origins[:, None] + np.arange(1, inputs.covariates.shape[1] + 1)
    days, coming_days = _local_days(inputs, steps), _local_days(inputs, ahead)
    for k, holiday in enumerate(inputs.holiday):
        if np.isfinite(holiday):
            calendar[days == coming_days[:, k, None], -1] = holiday
    return calendar


def _local_days(
    inputs: ForecastInputs, steps: Int64[np.ndarray, "B T"]
) -> Shaped[np.ndarray, "B T"]:
    panel = inputs.panel
    local = panel.clock.local(panel.instants(steps.reshape(-1)))
    return local.astype("datetime64[D]").reshape(steps.shape)
