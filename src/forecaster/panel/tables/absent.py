"""What steps without a row mean: that nothing is known of them, or that nothing happened.

Missing is not zero. Zero is taken only where rows are events, or where counts look as if their
zeros had been left out: there is none, ones are frequent, and rows are absent at irregular steps.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.choices import Kind
from forecaster.errors import DataError, count_of, setting
from forecaster.panel.axis import DAY_MINUTES, VALUES, Step
from forecaster.panel.tables.table_rows import TableRows

_ONES, _ONES_OF_ABSENT = 0.05, 0.1  # share of ones: of the values, and of the share of absent rows
_MANY = 0.02  # of the rows are absent: it is said
_WEEK = 7 * DAY_MINUTES


def judge_absent(
    rows: TableRows, kind: Kind, step: Step
) -> tuple[Literal["null", "zero"], Sequence[str]]:
    """Return what steps without a row are taken for, and how that is said and changed."""
    values = rows.series.layers[VALUES]
    share, count = _absent(values, rows.series.seconds, step)
    told = f"{count_of(count, 'step')} of locations without a row"
    combination = rows.combination
    events = combination is not None and combination.how != "mean" and not combination.nearest
    if not count or not (events or kind == "count"):
        return "null", ()
    observed = values[np.isfinite(values)]
    ones = float((observed == 1).mean()) if len(observed) else 0.0
    no_zeros = not rows.null_rows and not (observed == 0).any()
    if events or (no_zeros and ones >= max(_ONES, _ONES_OF_ABSENT * share)):
        why = "each row is an event" if events else "no value is 0, and many are 1"
        other = setting("gaps", "null")
        return "zero", (f"{told} are 0, not missing: {why} (or give {other})",)
    if share < _MANY:
        return "null", ()
    other = setting("gaps", "zero")
    return "null", (f"{told} are missing; if nothing happened there give {other}",)


def refuse_null_rows(rows: TableRows) -> None:
    """Refuse rows without a value where steps without a row are zero: both cannot be told."""
    if rows.null_rows:
        count = count_of(rows.null_rows, "row")
        raise DataError(
            f"{rows.name}: {count} without a value, which {setting('gaps', 'zero')} would make 0; "
            f"leave them out, or write 0, or give {setting('gaps', 'null')}"
        )


def _absent(
    values: Float32[np.ndarray, "U N"], seconds: Int64[np.ndarray, " U"], step: Step
) -> tuple[float, int]:
    """Return share and number of absent steps between the first and last row of each location.

    A step of the week at which there is never a row is closed, and no absent one.
    """
    observed = np.isfinite(values)
    if step.months:
        number = seconds.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
        number = (number - number[0]) // step.months
        open_steps = np.ones(int(number[-1]) + 1, dtype=bool)
    else:
        number = (seconds - seconds[0]) // (step.minutes * 60)
        per_week = max(_WEEK // step.minutes, 1)
        slots = np.zeros(per_week, dtype=bool)
        slots[number % per_week] = True
        open_steps = slots[np.arange(int(number[-1]) + 1) % per_week]
    before = np.concatenate([[0], np.cumsum(open_steps)])
    expected = present = 0
    for column in observed.T:
        at = number[column]
        if len(at):
            expected += int(before[at[-1] + 1] - before[at[0]])
            present += len(np.unique(at))
    return (expected - present) / max(expected, 1), expected - present
