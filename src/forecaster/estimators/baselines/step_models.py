"""The steps ahead that have a model of their own, and forecasts of the steps between them.

Ridge and Boosting have one model per step ahead. Up to `ALL_STEPS` every step has its own. Of a
longer horizon only the steps of `SPACED_STEPS` have one, and the last. A step k between two of
them, k1 < k < k2, is forecast by the model of k2 from the earlier origin t − (k2 − k): its step
k2 is the same target, t + k. Such a forecast is exact, and only its information is older.

Windows from neighbouring origins share most of these forecasts: each is made once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int64

from forecaster.errors import ArtifactError
from forecaster.estimators.forecast_inputs import ForecastInputs, known_covariates
from forecaster.estimators.scaled_inputs import scale_ahead
from forecaster.panel.panel import Panel
from forecaster.windows.scaling import Scaler

ALL_STEPS = 24  # horizons up to this have a model for every step
SPACED_STEPS = (1, 3, 6, 12, 24, 48, 96, 168, 336)


def modelled_steps(horizon: int) -> tuple[int, ...]:
    """The steps ahead with a model of their own; the last is the horizon."""
    if horizon <= ALL_STEPS:
        return tuple(range(1, horizon + 1))
    return *(step for step in SPACED_STEPS if step < horizon), horizon


def steps_of_models(models: int, horizon: int) -> tuple[int, ...]:
    """The steps ahead of a run's models; runs of earlier versions have one for every step."""
    for steps in (modelled_steps(horizon), tuple(range(1, horizon + 1))):
        if len(steps) == models:
            return steps
    raise ArtifactError(f"the run has {models} models, which are not those of {horizon} steps")


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """The scaled inputs of one model: R forecasts, which serve B windows and G steps ahead."""

    origins: Int64[np.ndarray, " R"]  # up to which the model sees the past
    auxiliary: Float32[np.ndarray, "R A"]  # a of the target
    local: Float32[np.ndarray, "R Q N"]
    columns: slice  # the steps of the horizon that the model forecasts
    number: Int64[np.ndarray, "B G"]  # which of the R forecasts each window and step takes

    @staticmethod
    def of_step(
        origins: Int64[np.ndarray, " R"],
        auxiliary: Float32[np.ndarray, "R A"],
        local: Float32[np.ndarray, "R Q N"],
        step: int,
    ) -> "ModelInputs":
        """The inputs of the model's own step, each for one window."""
        number = np.arange(len(origins))[:, None]
        return ModelInputs(origins, auxiliary, local, slice(step - 1, step), number)

    def spread(self, forecasts: Float[np.ndarray, "R N"]) -> Float[np.ndarray, "B G N"]:
        """The forecasts of every window and step."""
        return np.asarray(forecasts[self.number])


def training_inputs(
    panel: Panel, origins: Int64[np.ndarray, " B"], steps: tuple[int, ...], scaler: Scaler
) -> tuple[Float32[np.ndarray, "B S A"], Float32[np.ndarray, "B S Q N"]]:
    """The scaled covariates of the targets t + k, for some steps k; past-only ones are those of t.

    Args:
        panel: with every missing value filled.
        origins: t.
        steps: k.
        scaler: fitted on training steps.
    """
    parts = []
    for step in steps:
        ahead = known_covariates(panel, origins, origins[:, None] + step)
        inputs = ForecastInputs(panel, origins + step - 1, *ahead)
        parts.append(scale_ahead(inputs, scaler))
    auxiliary, local = zip(*parts, strict=True)
    return np.concatenate(auxiliary, axis=1), np.concatenate(local, axis=1)


def model_inputs(
    inputs: ForecastInputs, scaler: Scaler, steps: tuple[int, ...]
) -> Iterator[ModelInputs]:
    """The inputs of the model of each step, which together forecast the whole horizon.

    Args:
        inputs: of B windows.
        scaler: fitted on training steps.
        steps: those with a model, ascending.
    """
    auxiliary, local = scale_ahead(inputs, scaler)
    first = 0
    for step in steps:
        columns = slice(first, step)
        earlier = inputs.origins[:, None] - np.arange(step - first)[::-1]
        parts = auxiliary[:, columns], local[:, columns]
        if step - first > 1:
            parts = _hold_earlier(inputs.panel, earlier, scaler, *parts)
        yield _share(earlier, *parts, columns)
        first = step


def _hold_earlier(
    panel: Panel,
    earlier: Int64[np.ndarray, "B G"],
    scaler: Scaler,
    auxiliary: Float32[np.ndarray, "B G A"],
    local: Float32[np.ndarray, "B G Q N"],
) -> tuple[Float32[np.ndarray, "B G A"], Float32[np.ndarray, "B G Q N"]]:
    """The scaled covariates with past-only ones as they are at the earlier origins."""
    auxiliary, local = auxiliary.copy(), local.copy()
    for column in panel.covariates.past_columns:
        scaled = scaler.covariates.apply(panel.covariates.values)
        auxiliary[..., column] = scaled[earlier, column]
    for layer in panel.local_covariates.past_layers:
        scale, values = scaler.local_covariates, panel.local_covariates.values[layer]
        local[:, :, layer] = ((values - scale.mean[layer]) / scale.deviation[layer])[earlier]
    return auxiliary, local


def _share(
    origins: Int64[np.ndarray, "B G"],
    auxiliary: Float32[np.ndarray, "B G A"],
    local: Float32[np.ndarray, "B G Q N"],
    columns: slice,
) -> ModelInputs:
    """The forecasts of a model, equal ones once: of equal origins and covariates."""
    B, G = auxiliary.shape[:2]
    auxiliary, local = auxiliary.reshape(B * G, -1), local.reshape(B * G, *local.shape[2:])
    if G == 1:
        return ModelInputs.of_step(origins[:, 0], auxiliary, local, columns.stop)
    inputs = np.concatenate([auxiliary, local.reshape(B * G, -1)], axis=1)
    key = np.concatenate([origins.reshape(-1, 1), inputs.view(np.int32)], axis=1)
    _, rows, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return ModelInputs(
        origins=origins.reshape(-1)[rows],
        auxiliary=auxiliary[rows],
        local=local[rows],
        columns=columns,
        number=number.reshape(B, G),
    )
