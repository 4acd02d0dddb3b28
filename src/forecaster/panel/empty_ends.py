"""Long ends of a panel of counts at which everything is zero: perhaps nothing was counted then."""

import numpy as np

from forecaster.clock.clock import DAY_MINUTES
from forecaster.errors import count_of
from forecaster.panel.panel import Panel

_LEAST_DAYS, _LEAST_STEPS = 2, 3
_TIMES = 2  # as long as the longest such run inside the panel


def find_empty_ends(panel: Panel) -> list[tuple[int, int]]:
    """Return the first and end step of the beginning and of the end, if they are long and zero.

    They are longer than two days, and than twice the longest run of zeros inside.
    """
    if panel.kind != "count":
        return []
    values = panel.values
    busy = np.flatnonzero((values > 0).any(axis=1))
    if not len(busy):
        return []
    inside = int(np.diff(busy).max(initial=1)) - 1
    days = _LEAST_DAYS * DAY_MINUTES // panel.clock.step_minutes
    longest = max(days, _LEAST_STEPS, _TIMES * inside)
    ends = []
    for first, end in ((0, int(busy[0])), (int(busy[-1]) + 1, len(values))):
        zeros = np.flatnonzero((values[first:end] == 0).any(axis=1))
        if len(zeros) > longest:
            ends.append((first + int(zeros[0]), first + int(zeros[-1]) + 1))
    return ends


def describe_empty_ends(panel: Panel) -> list[str]:
    """Return a sentence for each end that is long and zero."""
    texts = []
    for first, end in find_empty_ends(panel):
        local = panel.clock.local(panel.times[[first, end - 1]]).astype("datetime64[D]")
        which = "first" if first == 0 else "last"
        texts.append(
            f"the {which} {count_of(end - first, 'step')}, {local[0]} … {local[1]}, are zero at "
            "all locations: if nothing was counted then, leave them out (of trips, --covers "
            "FROM:TO are the days for which the files are complete)"
        )
    return texts
