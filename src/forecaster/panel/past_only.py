"""Past-only covariates: seen up to the origin of a forecast, unknown ahead of it.

Drop-offs, humidity or a neighbour's price are measured like the values themselves. Ahead of an
origin such a covariate keeps its last value: that of the origin or, if it is missing there, the
last one of the day before. Without any it has its usual value, as missing covariates have.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float32

from forecaster.clock.clock import Clock
from forecaster.panel.parts import Covariates, LocalCovariates, stack_layers

UNSEEN = "past_only_values_left_out"  # in the ledger
DAY_MINUTES = 24 * 60


def known_columns(covariates: Covariates) -> Float32[np.ndarray, "S p"]:
    """The values of the covariates that are known ahead."""
    if not covariates.past_only:
        return covariates.values
    return np.delete(covariates.values, covariates.past_columns, axis=1)


def known_layers(covariates: LocalCovariates) -> Float32[np.ndarray, "q S N"]:
    """The values of the local covariates that are known ahead."""
    if not covariates.past_only:
        return covariates.values
    return np.delete(covariates.values, covariates.past_layers, axis=0)


def carried_steps(clock: Clock) -> int:
    """The number of steps for which a missing value is replaced by the last: a day, at least 1."""
    return max(DAY_MINUTES // clock.step_minutes, 1)


def carry_covariates(covariates: Covariates, most: int) -> Covariates:
    """The covariates; missing values of past-only ones are the last before, up to `most` steps."""
    columns = list(covariates.past_columns)
    if not np.isnan(covariates.values[:, columns]).any():
        return covariates
    values = covariates.values.copy(order="K")
    values[:, columns] = carry(values[:, columns], most)
    return replace(covariates, values=values)


def carry_local(covariates: LocalCovariates, most: int) -> LocalCovariates:
    """The same of local covariates."""
    layers = list(covariates.values)
    for layer in covariates.past_layers:
        layers[layer] = carry(layers[layer], most)
    if not covariates.past_only:
        return covariates
    steps, locations = covariates.values.shape[1:]
    stacked = stack_layers(layers, steps, locations)
    return LocalCovariates(covariates.names, stacked, covariates.past_only)


def carry(values: Float32[np.ndarray, "S n"], most: int) -> Float32[np.ndarray, "S n"]:
    """The values, missing ones replaced by the last before them, up to so many steps later."""
    if not np.isnan(values).any():
        return values
    steps = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(np.isfinite(values), steps, -most - 1), axis=0)
    carried = np.take_along_axis(values, np.maximum(last, 0), axis=0)
    return np.where(steps - last <= most, carried, np.float32(np.nan))


def hide_unseen(
    values: Float32[np.ndarray, "M N"], covariates: Covariates, local: LocalCovariates
) -> tuple[Covariates, LocalCovariates, dict[str, int]]:
    """Past-only covariates, missing after the last step with any value, and the count of those."""
    observed = np.flatnonzero(np.isfinite(values).any(axis=1))
    end = int(observed[-1]) + 1 if len(observed) else 0
    columns, layers = list(covariates.past_columns), list(local.past_layers)
    shared_values, local_values = covariates.values.copy(order="K"), local.values.copy(order="K")
    unseen = int(np.isfinite(shared_values[end:, columns]).sum())
    unseen += int(np.isfinite(local_values[layers, end:]).sum())
    shared_values[end:, columns] = np.nan
    local_values[layers, end:] = np.nan
    return (
        replace(covariates, values=shared_values),
        LocalCovariates(local.names, local_values, local.past_only),
        {UNSEEN: unseen},
    )
