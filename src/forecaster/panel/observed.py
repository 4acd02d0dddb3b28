"""Values that are no observations of demand: outside a location's life, or censored.

A location that has not opened yet or has closed has no demand. A dock that is empty, or a shop
that is sold out, has a demand that nobody counted: its value is a lower bound. Both become
missing, so that they are no targets, and are counted in the ledger of the panel.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float32

from forecaster.clock.clock import DAY_MINUTES, Clock
from forecaster.clock.zone import Times
from forecaster.errors import DataError, count_of, name_some

OUTSIDE, OUTSIDE_SUM = "values_outside_life", "sum_outside_life"  # in the ledger
CLOSED, CLOSED_SUM = "values_at_closed_hours", "sum_at_closed_hours"
CENSORED_BY, CENSORED = "censored_by", "censored_values"


def hide_outside_life(
    values: Float32[np.ndarray, "M N"], alive: Bool[np.ndarray, "M N"]
) -> tuple[Float32[np.ndarray, "M N"], dict[str, Any]]:
    """The values, missing where a location is not open, and the counts of those hidden."""
    hidden = ~alive & np.isfinite(values)
    total = float(values[hidden].sum(dtype=np.float64))
    counts = {OUTSIDE: int(hidden.sum()), OUTSIDE_SUM: total}
    return _hide(values, hidden), counts


def hide_closed(
    values: Float32[np.ndarray, "M N"], is_open: Bool[np.ndarray, "M N"]
) -> tuple[Float32[np.ndarray, "M N"], dict[str, Any]]:
    """The values, missing outside opening hours, and the counts of those hidden."""
    hidden = ~is_open & np.isfinite(values)
    if not hidden.any():
        return values, {}
    total = float(np.abs(values[hidden]).sum(dtype=np.float64))
    return _hide(values, hidden), {CLOSED: int(hidden.sum()), CLOSED_SUM: total}


def absent_as_zero(
    values: Float32[np.ndarray, "M N"],
    times: Times,
    clock: Clock,
    alive: Bool[np.ndarray, "M N"],
) -> Float32[np.ndarray, "M N"]:
    """The values with 0 at open steps without one, from the first of each location on.

    After its last value it has 0 as far as it has been without one before. A day without any value
    at steps shorter than a day is missing: nobody may have counted then.
    """
    observed = np.isfinite(values)
    counts = np.zeros(observed.shape, dtype=bool)
    for n in range(observed.shape[1]):
        at = np.flatnonzero(observed[:, n])
        if len(at):
            longest = int(np.diff(at).max(initial=1))
            end = len(observed) if len(observed) - at[-1] <= longest else at[-1]
            counts[at[0] : end, n] = True
    zero = ~observed & counts & alive
    if clock.step_minutes < DAY_MINUTES:
        _, day = np.unique(clock.local(times).astype("datetime64[D]"), return_inverse=True)
        counted = np.bincount(day, weights=observed.any(axis=1)) > 0
        zero &= counted[day][:, None]
    return np.where(zero, np.float32(0), values)


def hide_censored(
    values: Float32[np.ndarray, "M N"], flags: Float32[np.ndarray, "M N"], name: str
) -> tuple[Float32[np.ndarray, "M N"], dict[str, Any]]:
    """The values, missing where the flag of a covariate is 1, and the counts of those hidden.

    Args:
        values: as observed.
        flags: 1 where the location could not serve, 0 or missing elsewhere.
        name: of the covariate.
    """
    wrong = np.unique(flags[np.isfinite(flags) & (flags != 0) & (flags != 1)])
    if len(wrong):
        problem = f"censored = {name!r}: {count_of(len(wrong), 'value')} other than 0 and 1"
        raise DataError(
            f"{problem}: {name_some(f'{value:g}' for value in wrong)}; give 1 for steps at which "
            "a location could not serve, else 0"
        )
    hidden = (flags == 1) & np.isfinite(values)
    return _hide(values, hidden), {CENSORED_BY: name, CENSORED: int(hidden.sum())}


def _hide(
    values: Float32[np.ndarray, "M N"], hidden: Bool[np.ndarray, "M N"]
) -> Float32[np.ndarray, "M N"]:
    shown = values.copy(order="K")
    shown[hidden] = np.nan
    return shown
