"""A location that a run has never met is forecast once it has a day of data."""

from dataclasses import replace

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.first_day import measure_first_day
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.snapshot import Snapshot
from forecaster.synthetic.city import make_city

HOURS = 24 * 40
PANEL = make_city(3, "2015-03-01", HOURS).panel


def after(steps: list[int], panel: Panel = PANEL) -> Snapshot:
    """Return a panel with a fourth location, observed at some steps."""
    wide = Snapshot(panel).with_locations([Registration("new", "new")], 1)
    return wide.with_observations([(step, 3, 1.0) for step in steps], 2)


@pytest.mark.parametrize(
    ("steps", "is_over", "text"),
    [
        ([], False, "0 of 24 hours observed"),
        (list(range(701, 724)), False, "23 of 24 hours observed"),
        (list(range(700, 724)), True, "24 of 24 hours observed"),
        (list(range(700, 724, 2)), True, "12 of 24 hours observed"),
        ([*range(700, 710), 723], False, "11 of 24 hours observed; 12 are needed"),
        ([*range(712, 724)], False, "12 of 24 hours observed"),
        ([*range(600, 724)], True, "24 of 24 hours observed"),
        ([*range(700, 712), *range(724, 800)], True, "12 of 24 hours observed"),
        ([*range(100, 300)], False, "0 of 24 hours observed"),  # silent for two weeks since
    ],
)
def test_a_day_of_steps_of_which_half_are_observed(
    steps: list[int], is_over: bool, text: str
) -> None:
    snapshot = after(steps)
    first_day = measure_first_day(snapshot, 723)  # nothing later is looked at
    assert first_day.is_over(snapshot).tolist() == [True] * 3 + [is_over]
    assert first_day.describe(snapshot, 3) == text


def test_values_from_before_the_end_of_their_step_do_not_count() -> None:
    cells = [(step, 3, 1.0) for step in range(700, 724)]
    early = {(step, n) for step, n, _ in cells}
    wide = Snapshot(PANEL).with_locations([Registration("new", "new")], 1)
    partial = wide.with_observations(cells, 2, early)
    assert measure_first_day(partial, 723).observed[3] == 0


@pytest.mark.parametrize(("minutes", "day"), [(15, 96), (120, 12), (24 * 60, 1), (7 * 24 * 60, 1)])
def test_a_day_has_as_many_steps_as_fit(minutes: int, day: int) -> None:
    panel = replace(PANEL, clock=replace(PANEL.clock, step_minutes=minutes))
    for count, is_over in ((day, True), (day - 1, False)):
        snapshot = after(list(range(900 - count, 900)), panel)
        first_day = measure_first_day(snapshot, 899)
        assert first_day.is_over(snapshot)[3] == is_over
    assert f"of {day} steps of {panel.clock.step_text} observed" in first_day.describe(snapshot, 3)
    assert np.array_equal(first_day.passed[:3], [min(14 * day, 900)] * 3)
