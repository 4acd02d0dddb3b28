"""One state of the data after another, none of which ever changes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import NEVER, Overlay
from forecaster.synthetic.city import make_city

HOURS = 53
PANEL = make_city(11, "2015-03-01", HOURS).panel


def test_rows_beyond_the_panel_extend_it() -> None:
    overlay = Overlay(PANEL).with_cells([(HOURS + 2, 3, 7.0)], 1)
    part = overlay.panel(HOURS - 2, HOURS + 3, HOURS + 5)
    assert part.times[-1] == PANEL.start + np.timedelta64(HOURS + 2, "h")
    assert part.values[-1, 3] == 7.0
    assert np.isnan(part.values[-1]).sum() == 10
    assert np.isnan(part.values[2]).all()  # nothing is known of the hours between
    assert np.array_equal(part.values[:2], PANEL.values[-2:])


def test_null_takes_a_value_away() -> None:
    overlay = Overlay(PANEL).with_cells([(5, 0, None), (6, 0, 0.0)], 1)
    assert np.isnan(overlay.values(5, 6)[0, 0])
    assert overlay.values(6, 7)[0, 0] == 0.0


def test_an_earlier_state_stays_as_it_was() -> None:
    first = Overlay(PANEL).with_cells([(HOURS, 0, 1.0)], 1)
    second = first.with_cells([(HOURS, 0, 2.0), (HOURS, 1, 3.0)], 2)
    assert first.values(HOURS, HOURS + 1)[0, 0] == 1.0
    assert np.isnan(first.values(HOURS, HOURS + 1)[0, 1])
    assert second.values(HOURS, HOURS + 1)[0, :2].tolist() == [2.0, 3.0]


def test_a_forecast_begins_where_nine_tenths_are_known() -> None:
    overlay = Overlay(PANEL)
    assert overlay.newest(HOURS + 9) == HOURS - 1
    assert overlay.newest(HOURS - 3) == HOURS - 4
    ten = overlay.with_cells([(HOURS, n, 1.0) for n in range(10)], 1)
    assert ten.newest(HOURS + 9) == HOURS  # one of eleven is missing
    assert ten.newest(HOURS) == HOURS - 1  # that hour is not over
    nine = overlay.with_cells([(HOURS, n, 1.0) for n in range(9)], 1)
    assert nine.newest(HOURS + 9) == HOURS - 1
    lost = overlay.with_cells([(HOURS - 1, n, None) for n in range(2)], 1)
    assert lost.newest(HOURS + 9) == HOURS - 2


def test_one_of_a_few_places_does_not_hold_a_forecast_back() -> None:
    few = Overlay(PANEL.select(PANEL.locations.ids[:3]))
    two = few.with_cells([(HOURS, n, 1.0) for n in range(2)], 1)
    assert two.newest(HOURS + 9) == HOURS
    one = few.with_cells([(HOURS, 0, 1.0)], 1)
    assert one.newest(HOURS + 9) == HOURS - 1
    single = Overlay(PANEL.select(PANEL.locations.ids[:1])).with_cells([(HOURS - 1, 0, None)], 1)
    assert single.newest(HOURS + 9) == HOURS - 2


def test_covariates_reach_ahead() -> None:
    overlay = Overlay(PANEL).with_covariates([(HOURS + 80, 1, 5.0)], 1)
    part = overlay.panel(0, HOURS, HOURS + 81)
    assert part.covariates.values[HOURS + 80, 1] == 5.0
    assert np.isnan(part.covariates.values[HOURS + 80, 0])
    assert np.array_equal(part.covariates.values[: HOURS + 72], PANEL.covariates.values)


def test_a_version_knows_what_changed_since() -> None:
    overlay = Overlay(PANEL, version=7)
    later = overlay.with_cells([(40, 0, 1.0)], 8).with_covariates([(30, 0, 1.0)], 9)
    assert later.changed_since(9, horizon=3) == NEVER
    assert later.changed_since(8, horizon=3) == 27  # its weather was forecast three hours before
    assert later.changed_since(7, horizon=3) == 27
    assert later.changed_since(6, horizon=3) == 0  # before anything it remembers
    assert overlay.changed_since(9, horizon=3) == 0


def test_instants_are_steps_or_not() -> None:
    overlay = Overlay(PANEL)
    assert overlay.step_at(overlay.start_seconds + 7200) == 2
    assert overlay.step_at(overlay.start_seconds - 3600) == -1
    assert overlay.step_at(overlay.start_seconds + 60) is None


Cells = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 10), st.integers(0, 9)), max_size=30)


@given(Cells, st.data())
def test_V3_cells_may_come_in_any_parts(
    cells: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    unique = list({(step, n): (step, n, float(value)) for step, n, value in cells}.values())
    at_once = Overlay(PANEL).with_cells(unique, 1)
    parts: Overlay = Overlay(PANEL)
    for version, cell in enumerate(data.draw(st.permutations(unique)), start=1):
        parts = parts.with_cells([cell], version)
    assert np.array_equal(at_once.values(0, 71), parts.values(0, 71), equal_nan=True)


def test_a_panel_is_not_touched(panel: Panel) -> None:
    before = panel.values.copy()
    Overlay(panel).with_cells([(3, 1, 99.0)], 1)
    assert np.array_equal(panel.values, before)


def test_steps_before_the_panel_are_unknown_and_shift_nothing() -> None:
    values = Overlay(PANEL).values(-3, 2)
    assert np.isnan(values[:3]).all()
    assert np.array_equal(values[3:], PANEL.values[:2])


def test_what_came_before_its_step_was_over_is_not_final_until_it_comes_again() -> None:
    cells = [(HOURS, n, 1.0) for n in range(11)]
    early = Overlay(PANEL).with_cells(cells, 1, {(step, n) for step, n, _ in cells})
    assert early.newest(HOURS + 1) == HOURS - 1
    assert early.values(HOURS, HOURS + 1)[0, 0] == 1.0
    assert np.isnan(early.final(HOURS, HOURS + 1)).all()
    most = early.with_cells(cells[:10], 2)
    assert most.newest(HOURS + 1) == HOURS
    assert np.isnan(most.final(HOURS, HOURS + 1)).sum() == 1
    assert not early.with_cells(cells, 2).early
