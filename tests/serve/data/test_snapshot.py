"""One state of the data after another, none of which ever changes."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates
from forecaster.panel.vintages import sort_vintages
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.snapshot import NEVER, Snapshot
from forecaster.synthetic.city import make_city

HOURS = 53
PANEL = make_city(11, "2015-03-01", HOURS).panel


def test_rows_beyond_the_panel_extend_it() -> None:
    snapshot = Snapshot(PANEL).with_observations([(HOURS + 2, 3, 7.0)], 1)
    part = snapshot.panel(HOURS - 2, HOURS + 3, HOURS + 5)
    assert part.times[-1] == PANEL.start + np.timedelta64(HOURS + 2, "h")
    assert part.values[-1, 3] == 7.0
    assert np.isnan(part.values[-1]).sum() == 10
    assert np.isnan(part.values[2]).all()  # nothing is known of the hours between
    assert np.array_equal(part.values[:2], PANEL.values[-2:])


def test_null_takes_a_value_away() -> None:
    snapshot = Snapshot(PANEL).with_observations([(5, 0, None), (6, 0, 0.0)], 1)
    assert np.isnan(snapshot.values(5, 6)[0, 0])
    assert snapshot.values(6, 7)[0, 0] == 0.0


def test_an_earlier_state_stays_as_it_was() -> None:
    first = Snapshot(PANEL).with_observations([(HOURS, 0, 1.0)], 1)
    second = first.with_observations([(HOURS, 0, 2.0), (HOURS, 1, 3.0)], 2)
    assert first.values(HOURS, HOURS + 1)[0, 0] == 1.0
    assert np.isnan(first.values(HOURS, HOURS + 1)[0, 1])
    assert second.values(HOURS, HOURS + 1)[0, :2].tolist() == [2.0, 3.0]


def test_a_forecast_begins_where_half_are_known() -> None:
    snapshot = Snapshot(PANEL)
    assert snapshot.newest_origin(HOURS + 9) == HOURS - 1
    assert snapshot.newest_origin(HOURS - 3) == HOURS - 4
    six = snapshot.with_observations([(HOURS, n, 1.0) for n in range(6)], 1)
    assert six.newest_origin(HOURS + 9) == HOURS  # of eleven
    assert six.newest_origin(HOURS) == HOURS - 1  # that hour is not over
    five = snapshot.with_observations([(HOURS, n, 1.0) for n in range(5)], 1)
    assert five.newest_origin(HOURS + 9) == HOURS - 1
    lost = snapshot.with_observations([(HOURS - 1, n, None) for n in range(6)], 1)
    assert lost.newest_origin(HOURS + 9) == HOURS - 2


def test_L3_locations_that_are_silent_for_two_weeks_hold_no_forecast_back() -> None:
    two_weeks = 14 * 24
    cells = [(HOURS + hour, n, 1.0) for hour in range(two_weeks) for n in range(3)]
    silent = Snapshot(PANEL).with_observations(cells, 1)  # eight of eleven
    end = HOURS + two_weeks
    assert silent.is_reporting(end - 2).all()
    assert silent.newest_origin(end - 1) == HOURS - 1
    assert silent.is_reporting(end - 1).tolist() == [True] * 3 + [False] * 8
    assert silent.newest_origin(end) == end - 1
    one = silent.with_observations([(end, 0, 1.0)], 2)
    assert one.newest_origin(end + 1) == end - 1  # one of three
    two = one.with_observations([(end, 1, 1.0)], 3)
    assert two.newest_origin(end + 1) == end
    none = Snapshot(PANEL).with_observations([(HOURS + 9999, 0, None)], 1)
    assert none.newest_origin(HOURS + 10_000) == HOURS - 1  # nobody has reported: no origin


def test_one_of_a_few_places_does_not_hold_a_forecast_back() -> None:
    few = Snapshot(PANEL.select(PANEL.locations.ids[:3]))
    two = few.with_observations([(HOURS, n, 1.0) for n in range(2)], 1)
    assert two.newest_origin(HOURS + 9) == HOURS
    one = few.with_observations([(HOURS, 0, 1.0)], 1)
    assert one.newest_origin(HOURS + 9) == HOURS - 1


def test_L2_a_registered_location_is_a_column_of_missing_values() -> None:
    new = Registration("new", "Neubau", 40.5, -73.5)
    early = {(HOURS, 2)}
    before = Snapshot(PANEL).with_observations([(HOURS, 2, 3.0), (4, 2, 5.0)], 1, early)
    after = before.with_locations([new], 2)
    assert after.locations.ids == (*PANEL.locations.ids, "new")
    assert after.values(0, HOURS + 2).shape == (HOURS + 2, 12)
    assert np.isnan(after.values(0, HOURS + 2)[:, 11]).all()
    for read in ("values", "final_values"):
        old, wide = (getattr(state, read)(-3, HOURS + 2) for state in (before, after))
        assert np.array_equal(old, wide[:, :11], equal_nan=True)
    assert before.values(HOURS, HOURS + 1).shape == (1, 11)  # an earlier state stays as it was
    later = after.with_observations([(HOURS, 11, 9.0)], 3, {(HOURS, 11)})
    row = later.values(HOURS, HOURS + 1)[0]
    assert (row[2], row[11]) == (3.0, 9.0)
    assert np.isnan(later.final_values(HOURS, HOURS + 1)).all()
    assert later.first_changed_origin(1, horizon=3) == HOURS  # registering changes no forecast
    part = later.panel(HOURS - 2, HOURS + 1, HOURS + 3)
    assert (part.locations.names[11], part.values[-1, 11]) == ("Neubau", 9.0)
    assert later.values_at(np.array([[HOURS], [-1]])).shape == (2, 1, 12)


def test_covariates_of_a_registered_location_are_the_same_at_all_steps() -> None:
    layers = np.arange(2 * (HOURS + 9) * 11, dtype=np.float32).reshape(2, HOURS + 9, 11)
    shared = PANEL.covariates.values[: HOURS + 9]
    local = replace(
        PANEL,
        covariates=replace(PANEL.covariates, values=shared),
        local_covariates=LocalCovariates(("docks", "open"), layers),
    )
    new = Registration("new", "new", covariates={"docks": 17.0, "open": 1.0})
    part = Snapshot(local).with_locations([new], 1).panel(HOURS - 2, HOURS, HOURS + 20)
    values = part.local_covariates.values
    assert (values[0, :, 11] == 17.0).all()
    assert (values[1, :, 11] == 1.0).all()
    assert np.array_equal(values[:, :11, :11], layers[:, HOURS - 2 :])
    assert np.isnan(values[:, 11:, :11]).all()
    single = Snapshot(PANEL.select(PANEL.locations.ids[:1])).with_observations(
        [(HOURS - 1, 0, None)], 1
    )
    assert single.newest_origin(HOURS + 9) == HOURS - 2


def test_covariates_reach_ahead() -> None:
    snapshot = Snapshot(PANEL).with_covariates([(HOURS + 80, 1, 5.0)], 1, [0])
    part = snapshot.panel(0, HOURS, HOURS + 81)
    assert part.covariates.values[HOURS + 80, 1] == 5.0
    assert np.isnan(part.covariates.values[HOURS + 80, 0])
    assert np.array_equal(part.covariates.values[: HOURS + 72], PANEL.covariates.values)


def test_covariates_received_are_vintages_of_a_panel_that_has_them() -> None:
    names, steps = PANEL.covariates.names[:1], np.arange(HOURS + 9)
    values = steps[:, None].astype(np.float32)
    vintages = sort_vintages(names, steps, steps - 5, values)
    shared = replace(PANEL.covariates, vintages=vintages)
    dated = replace(PANEL, covariates=shared)
    end = PANEL.instants(np.array([HOURS]))[0].astype(int)  # of the last step
    snapshot = Snapshot(dated).with_covariates([(HOURS + 2, 0, 700.0)], 1, [int(end) + 60])
    part = snapshot.panel(HOURS - 9, HOURS + 1, HOURS + 4).covariates
    assert part.vintages is not None
    origins, step = np.array([8, 9]), np.array([11, 11])  # the last of the panel, the next
    assert part.vintages.seen(origins, step)[:, 0].tolist() == [HOURS + 2, 700.0]
    assert part.values[11, 0] == 700.0


def test_a_version_knows_what_changed_since() -> None:
    snapshot = Snapshot(PANEL, version=7)
    later = snapshot.with_observations([(40, 0, 1.0)], 8).with_covariates([(30, 0, 1.0)], 9, [0])
    assert later.first_changed_origin(9, horizon=3) == NEVER
    assert (
        later.first_changed_origin(8, horizon=3) == 27
    )  # its weather was forecast three hours before
    assert later.first_changed_origin(7, horizon=3) == 27
    assert later.first_changed_origin(6, horizon=3) == 0  # before anything it remembers
    assert snapshot.first_changed_origin(9, horizon=3) == 0


def test_instants_are_steps_or_not() -> None:
    snapshot = Snapshot(PANEL)
    assert snapshot.step_at(snapshot.start_seconds + 7200) == 2
    assert snapshot.step_at(snapshot.start_seconds - 3600) == -1
    assert snapshot.step_at(snapshot.start_seconds + 60) is None


Cells = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 10), st.integers(0, 9)), max_size=30)


@given(Cells, st.data())
def test_V3_cells_may_come_in_any_parts(
    cells: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    unique = list({(step, n): (step, n, float(value)) for step, n, value in cells}.values())
    at_once = Snapshot(PANEL).with_observations(unique, 1)
    parts: Snapshot = Snapshot(PANEL)
    for version, cell in enumerate(data.draw(st.permutations(unique)), start=1):
        parts = parts.with_observations([cell], version)
    assert np.array_equal(at_once.values(0, 71), parts.values(0, 71), equal_nan=True)


def test_a_panel_is_not_touched(panel: Panel) -> None:
    before = panel.values.copy()
    Snapshot(panel).with_observations([(3, 1, 99.0)], 1)
    assert np.array_equal(panel.values, before)


def test_steps_before_the_panel_are_unknown_and_shift_nothing() -> None:
    values = Snapshot(PANEL).values(-3, 2)
    assert np.isnan(values[:3]).all()
    assert np.array_equal(values[3:], PANEL.values[:2])


def test_what_came_before_its_step_was_over_is_not_final_until_it_comes_again() -> None:
    cells = [(HOURS, n, 1.0) for n in range(11)]
    early = Snapshot(PANEL).with_observations(cells, 1, {(step, n) for step, n, _ in cells})
    assert early.newest_origin(HOURS + 1) == HOURS - 1
    assert early.values(HOURS, HOURS + 1)[0, 0] == 1.0
    assert np.isnan(early.final_values(HOURS, HOURS + 1)).all()
    most = early.with_observations(cells[:10], 2)
    assert most.newest_origin(HOURS + 1) == HOURS
    assert np.isnan(most.final_values(HOURS, HOURS + 1)).sum() == 1
    assert not early.with_observations(cells, 2).partial


def test_a_week_before_is_at_the_same_time_of_the_clock(panel: Panel) -> None:
    # The clock goes back after the panel's end: 01:00 comes twice, then 02:00.
    snapshot = Snapshot(panel)
    found = snapshot.values_at(snapshot.week_before(np.array([len(panel.values) - 1]), 3))[0]
    assert np.array_equal(found, panel.values[len(panel.values) + np.arange(3) - [168, 169, 169]])


def test_a_week_before_the_panel_nothing_is_known(panel: Panel) -> None:
    snapshot = Snapshot(panel)
    steps = snapshot.week_before(np.array([160, 166]), 3)
    found = snapshot.values_at(steps)
    assert np.isnan(found[0]).all()
    assert np.isnan(found[1]).all(axis=1).tolist() == [True, False, False]


def test_a_week_before_far_steps_is_not_known_at_the_origin(panel: Panel) -> None:
    steps = Snapshot(panel).week_before(np.array([500]), 200)[0]
    assert steps[:168].tolist() == list(range(333, 501))
    assert (steps[168:] == -1).all()


def test_what_arrives_outside_the_life_of_a_location_is_no_value(panel: Panel) -> None:
    closes = np.full(len(panel.locations), "NaT", dtype="datetime64[s]")
    closes[0] = panel.times[-1] + panel.clock.step
    dated = replace(panel, locations=replace(panel.locations, closes=closes))
    steps, N = len(panel.values), len(panel.locations)
    cells = [(steps, n, 5.0) for n in range(N)]
    snapshot = Snapshot(dated).with_observations(cells, 1)
    assert np.isnan(snapshot.values(steps, steps + 1)[0]).tolist() == [True] + [False] * (N - 1)
    nulls = [(steps, n, None if n == 0 else 5.0) for n in range(N)]
    assert Snapshot(dated).with_observations(nulls, 1).newest_origin(steps + 1) == steps


def test_L10_the_origin_is_the_last_closed_step_while_all_places_are_closed() -> None:
    panel = PANEL.with_hours(("06:00-22:00",) * 11)
    closing, opening = 2 * 24 + 22, 3 * 24 + 6  # the panel begins at midnight
    served = Snapshot(panel).with_observations(
        [(step, n, 1.0) for step in range(HOURS, closing + 5) for n in range(11)], 1
    )
    assert np.isnan(served.values(closing, closing + 1)).all()  # outside the hours
    for end in (closing + 3, opening):
        assert served.newest_origin(end) == end - 1
        assert served.is_reporting(end - 1).all()
    assert served.newest_origin(opening + 5) == opening - 1  # nothing came in the morning
