"""What a question says to a model that works on scaled numbers: past and coming steps."""

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from forecaster.config import LagConfig
from forecaster.errors import ArtifactError
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.match import Sizes
from forecaster.estimators.training_data import Arrays
from forecaster.splits import history_steps
from forecaster.windows.scaling import Scale, Scaler

_SCALES = ("values", "covariates", "local_covariates")
_PARTS = ("mean", "deviation")


def past(
    question: ForecastInputs, scaler: Scaler, lags: LagConfig
) -> tuple[Float32[np.ndarray, "B L C N"], Float32[np.ndarray, "B L A"]]:
    """Return x_s with the covariates of each location, and a_s, of the L past steps."""
    panel, steps = question.panel, history_steps(question.panel, lags, question.origins)
    values = scaler.values.apply(panel.values[steps])[:, :, None]  # [B, L, 1, N]
    own = panel.local_covariates.values.transpose(1, 0, 2)[steps]  # [B, L, Q, N]
    signal = np.concatenate([values, _scale_own(own, scaler.local_covariates)], axis=2)
    return signal, _auxiliary(question, steps, panel.covariates.values[steps], scaler)


def coming(
    question: ForecastInputs, scaler: Scaler
) -> tuple[Float32[np.ndarray, "B K A"], Float32[np.ndarray, "B K Q N"]]:
    """Return a_{t+1…t+K}, and the covariates of each location, of the K coming steps."""
    ahead = question.origins[:, None] + np.arange(1, question.covariates.shape[1] + 1)
    auxiliary = _auxiliary(question, ahead, question.covariates, scaler)
    return auxiliary, _scale_own(question.local_covariates, scaler.local_covariates)


def scale_arrays(scaler: Scaler) -> dict[str, np.ndarray]:
    """Return the scales as a run remembers them."""
    return {
        f"{name}.{part}": getattr(getattr(scaler, name), part)
        for name in _SCALES
        for part in _PARTS
    }


def scale_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what `scale_arrays` gives."""
    lengths = dict(zip(_SCALES, (sizes.N, sizes.P, sizes.Q), strict=True))
    return {f"{n}.{part}": (lengths[n],) for n in _SCALES for part in _PARTS}


def scaler_of(arrays: Arrays) -> Scaler:
    """Return the scales that a run remembers; they divide, so none may be 0."""
    scales = [Scale(arrays[f"{n}.mean"], arrays[f"{n}.deviation"]) for n in _SCALES]
    if any((scale.deviation <= 0).any() for scale in scales):
        raise ArtifactError("a run whose scales have a deviation of 0 or less")
    return Scaler(*scales)


def _auxiliary(
    question: ForecastInputs,
    steps: Int64[np.ndarray, "B T"],
    weather: Float32[np.ndarray, "B T P"],
    scaler: Scaler,
) -> Float32[np.ndarray, "B T A"]:
    """Return a_s: the scaled weather, then the calendar."""
    clock, panel = question.panel.clock, question.panel
    calendar = clock.calendar(panel.start + steps.reshape(-1) * clock.step)
    calendar = calendar.reshape(*steps.shape, -1)
    if question.holiday is not None:
        _suppose_holidays(question, steps, calendar)
    return np.concatenate([scaler.covariates.apply(weather), calendar], axis=2)


def _suppose_holidays(
    question: ForecastInputs,
    steps: Int64[np.ndarray, "B T"],
    calendar: Float32[np.ndarray, "B T 32"],
) -> None:
    """Say of the local days of the coming steps what is supposed: a holiday is a whole day."""
    ahead = question.origins[:, None] + np.arange(1, question.covariates.shape[1] + 1)
    days, coming_days = _local_days(question, steps), _local_days(question, ahead)
    for k, holiday in enumerate(question.holiday if question.holiday is not None else ()):
        if np.isfinite(holiday):
            calendar[days == coming_days[:, k, None], -1] = holiday


def _local_days(
    question: ForecastInputs, steps: Int64[np.ndarray, "B T"]
) -> Shaped[np.ndarray, "B T"]:
    panel = question.panel
    local = panel.clock.local(panel.start + steps.reshape(-1) * panel.clock.step)
    return local.astype("datetime64[D]").reshape(steps.shape)


def _scale_own(
    own: Float32[np.ndarray, "B T Q N"], scale: Scale
) -> Float32[np.ndarray, "B T Q N"]:
    scaled = (own - scale.mean[:, None]) / scale.deviation[:, None]
    return np.asarray(scaled, dtype=np.float32)
