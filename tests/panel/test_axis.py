from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.clock.zone import to_local
from forecaster.config import PanelConfig
from forecaster.errors import DataError
from forecaster.panel.axis import (
    VALUES,
    SeriesTable,
    align_to_axis,
    check_axis,
    place_on_axis,
    resolve_local_times,
)

HOUR = 3600
NEW_YORK = "America/New_York"
# Clock changes of New York in 2015, as the tz database has them: 02:00 EST → 03:00 EDT on March 8
# (07:00Z), 02:00 EDT → 01:00 EST on November 1 (06:00Z).
SPRING, AUTUMN = "2015-03-08", "2015-11-01"


def axis(start: str, steps: int, step_minutes: int = 60) -> np.ndarray:
    first = int(np.datetime64(start, "s").astype(np.int64))
    return first + np.arange(steps, dtype=np.int64) * step_minutes * 60


def rows(seconds: np.ndarray, *, naive: bool, **layers: np.ndarray) -> SeriesTable:
    layers = layers or {VALUES: np.arange(len(seconds) * 2.0).reshape(-1, 2)}
    layers = {name: layer.astype(np.float32) for name, layer in layers.items()}
    ids = tuple(f"p{n}" for n in range(next(iter(layers.values())).shape[1]))
    return SeriesTable(seconds, naive, ids, layers)


def local_day(day: str, values: list[float] | None = None) -> SeriesTable:
    """Return the 24 hours that a clock without a rule would show on that day."""
    column = np.arange(100.0, 124.0) if values is None else np.array(values)
    return rows(axis(day, len(column)), naive=True, y=column[:, None])


def config(**given_fields: str | int) -> PanelConfig:
    return PanelConfig.model_validate({"timezone": NEW_YORK, **given_fields})


def stamps(seconds: np.ndarray) -> list[str]:
    return [str(time)[:16] for time in seconds.astype("datetime64[s]")]


# -------------------------------------------------------------------------- a regular axis


@pytest.mark.parametrize("step_minutes", [1, 5, 15, 60, 1440, 2880])
@pytest.mark.parametrize("start", ["1969-12-30T07:00", "2014-06-01T08:30"])
def test_a_regular_axis_of_any_step_and_phase_is_accepted(start: str, step_minutes: int) -> None:
    check_axis(axis(start, 29, step_minutes), Clock("UTC", step_minutes), "axis")
    check_axis(axis(start, 1, step_minutes), Clock("UTC", step_minutes), "axis")


def test_S5_an_axis_without_rows_is_refused() -> None:
    with pytest.raises(DataError, match="axis: no rows; at least one time is needed"):
        check_axis(axis("2014-06-01", 0), Clock("UTC", 60), "axis")
    for rule in ("refuse", "null"):
        with pytest.raises(DataError, match="time axis: no rows"):
            place_on_axis(rows(axis("2014-06-01", 0), naive=False), config(gaps=rule))


def test_S5_missing_steps_are_counted_and_the_first_few_named() -> None:
    seconds = np.delete(axis("2014-06-01", 29), [3, 4, 11, 12, 13, 14, 15])
    with pytest.raises(DataError) as caught:
        check_axis(seconds, Clock("UTC", 60), "time axis")
    assert str(caught.value) == (
        "time axis: 1 fault\n  missing 7 steps: 2014-06-01T03:00:00Z, 2014-06-01T04:00:00Z, "
        "2014-06-01T11:00:00Z, 2014-06-01T12:00:00Z, 2014-06-01T13:00:00Z, …; "
        'give rows without a value for steps that were not observed, or gaps="null"'
    )


def test_S5_times_off_the_step_are_told_from_the_many_on_it() -> None:
    seconds = axis("2014-06-01T00:30", 29)
    seconds[[7, 13]] += 60
    message = r"2 times off the step of 60 min: 2014-06-01T07:31:00Z, 2014-06-01T13:31:00Z; give"
    with pytest.raises(DataError, match=message):
        check_axis(seconds, Clock("UTC", 60), "axis")


def test_S5_a_finer_axis_than_the_step_is_refused() -> None:
    with pytest.raises(DataError, match="21 times off the step of 60 min"):
        check_axis(axis("2014-06-01", 29, 15), Clock("UTC", 60), "axis")


def test_S5_a_coarser_axis_than_the_step_is_refused() -> None:
    with pytest.raises(DataError, match="missing 84 steps"):
        check_axis(axis("2014-06-01", 29, 60), Clock("UTC", 15), "axis")


def test_S5_doubled_and_unsorted_times_are_named_with_the_gaps_they_leave() -> None:
    seconds = axis("2014-06-01", 29)
    seconds[5] = seconds[3]
    with pytest.raises(DataError) as caught:
        check_axis(seconds, Clock("UTC", 60), "axis")
    assert "missing 2 steps" in str(caught.value)
    assert "1 time doubled or unsorted: 2014-06-01T03:00:00Z" in str(caught.value)


def test_S5_doubled_times_do_not_hide_missing_ones() -> None:
    seconds = axis("2014-06-01", 7)[[0, 1, 1, 4, 5, 6]]
    with pytest.raises(DataError) as caught:
        check_axis(seconds, Clock("UTC", 60), "axis")
    assert "missing 2 steps: 2014-06-01T02:00:00Z, 2014-06-01T03:00:00Z;" in str(caught.value)
    assert "1 time doubled or unsorted: 2014-06-01T01:00:00Z" in str(caught.value)


def test_S5_a_gap_of_eight_thousand_years_is_named_without_writing_it_out() -> None:
    seconds = np.concatenate([axis("2014-06-01", 5, 1), axis("9998-01-01", 2, 1)])
    message = r"missing 4,198,960,795 steps: 2014-06-01T00:05:00Z, 2014-06-01T00:06:00Z, "
    with pytest.raises(DataError, match=message):
        check_axis(seconds, Clock("UTC", 1), "axis")


def test_S5_gaps_are_completed_with_null_rows_only_if_asked_for() -> None:
    kept = [0, 1, 4, 5, 7]
    gappy = rows(axis("2014-06-01", 8)[kept], naive=False)
    with pytest.raises(DataError, match="missing 3 steps"):
        place_on_axis(gappy, config())
    placed = place_on_axis(gappy, config(gaps="null"))
    assert placed.seconds.tolist() == axis("2014-06-01", 8).tolist()
    np.testing.assert_array_equal(placed.layers[VALUES][kept], gappy.layers[VALUES])
    assert np.isnan(placed.layers[VALUES]).sum() == 3 * 2
    assert placed.counts["completed_steps"] == 3
    assert placed.counts["gaps"] == [["2014-06-01T02:00:00Z", 2], ["2014-06-01T06:00:00Z", 1]]


def test_S5_an_axis_without_gaps_is_left_as_it_is() -> None:
    whole = rows(axis("2014-06-01", 7), naive=False)
    placed = place_on_axis(whole, config(gaps="null"))
    assert placed.seconds.tolist() == whole.seconds.tolist()
    np.testing.assert_array_equal(placed.layers[VALUES], whole.layers[VALUES])
    assert (placed.counts["completed_steps"], placed.counts["gaps"]) == (0, [])


@pytest.mark.parametrize("stray", ["2014-06-01T03:30", "2015-06-03T00:00", "2088-06-01T00:00"])
def test_S5_a_stray_time_is_refused_even_if_gaps_are_completed(stray: str) -> None:
    seconds = np.sort(np.concatenate([axis("2014-06-01", 5), axis(stray, 1)]))
    with pytest.raises(DataError, match=r"off the step|missing"):
        place_on_axis(rows(seconds, naive=False), config(gaps="null"))


EDITS: dict[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "drop": lambda seconds, at, _: np.delete(seconds, at),
    "double": lambda seconds, at, _: np.insert(seconds, at, seconds[at]),
    "shift": lambda seconds, at, by: seconds + np.where(np.arange(len(seconds)) == at, by, 0),
    "swap": lambda seconds, at, _: seconds[_swapped(len(seconds), at)],
    "reverse": lambda seconds, _at, _by: seconds[::-1],
}


def _swapped(count: int, at: int) -> np.ndarray:
    order = np.arange(count)
    order[[at, at + 1]] = order[[at + 1, at]]
    return order


@given(st.sampled_from(sorted(EDITS)), st.integers(1, 27), st.integers(-5 * HOUR, 5 * HOUR))
def test_S5_any_edit_of_the_axis_is_refused(edit: str, at: int, by: int) -> None:
    assume(by != 0)
    edited = EDITS[edit](axis("2014-06-01", 29), at, by)
    with pytest.raises(DataError, match="axis: "):
        check_axis(edited, Clock("UTC", 60), "axis")


# ------------------------------------------------------------------- local times, to UTC


def test_times_with_an_offset_are_left_alone() -> None:
    given_rows = rows(axis(AUTUMN, 29), naive=False)
    assert resolve_local_times(given_rows, config()) is given_rows


def test_I2_the_hour_shown_twice_becomes_two_missing_hours() -> None:
    placed = place_on_axis(local_day(AUTUMN), config())
    assert len(placed.seconds) == 25
    assert stamps(placed.seconds[[0, 1, 2, 24]]) == [
        "2015-11-01T04:00",
        "2015-11-01T05:00",
        "2015-11-01T06:00",
        "2015-11-02T04:00",
    ]
    values = placed.layers[VALUES][:, 0]
    np.testing.assert_array_equal(values[:4], [100, np.nan, np.nan, 102])
    assert placed.counts == {"ambiguous_local_time": 1, "nonexistent_local_time": 0}


def test_I2_split_gives_the_first_hour_the_odd_one_and_keeps_the_sum() -> None:
    placed = place_on_axis(local_day(AUTUMN), config(ambiguous="split"))
    values = placed.layers[VALUES][:, 0]
    assert values[:4].tolist() == [100.0, 51.0, 50.0, 102.0]  # 101 trips at 01:xx
    assert values.sum() == np.arange(100, 124).sum()
    assert placed.counts["ambiguous_local_time"] == 1


def test_I2_split_halves_what_is_not_whole() -> None:
    day = local_day(AUTUMN, [1.0, 2.5, 3.0])
    assert place_on_axis(day, config(ambiguous="split")).layers[VALUES][:, 0].tolist() == [
        1.0, 1.25, 1.25, 3.0,
    ]  # fmt: skip


@given(st.lists(st.integers(0, 10**6), min_size=24, max_size=24))
def test_I2_split_conserves_every_sum(trips: list[int]) -> None:
    placed = place_on_axis(local_day(AUTUMN, [float(n) for n in trips]), config(ambiguous="split"))
    values = placed.layers[VALUES][:, 0].astype(np.int64)
    assert values.sum() == sum(trips)
    assert 0 <= values[1] - values[2] <= 1
    assert values[1] + values[2] == trips[1]


def test_I2_a_missing_hour_shown_twice_is_not_counted() -> None:
    for rule in ("null", "split"):
        placed = place_on_axis(local_day(AUTUMN, [1.0, np.nan, 3.0]), config(ambiguous=rule))
        np.testing.assert_array_equal(
            placed.layers[VALUES][:, 0], np.array([1, np.nan, np.nan, 3], np.float32)
        )
        assert placed.counts["ambiguous_local_time"] == 0


def test_I2_covariates_hold_in_both_hours() -> None:
    column = np.arange(24.0)[:, None]
    day = rows(axis(AUTUMN, 24), naive=True, y=column, rain=column + 7)
    for rule in ("null", "split"):
        rain = place_on_axis(day, config(ambiguous=rule)).layers["rain"][:, 0]
        assert rain[:4].tolist() == [7.0, 8.0, 8.0, 9.0]


def test_I2_every_place_is_counted() -> None:
    values = np.array([[1.0, 2.0, 3.0], [4.0, np.nan, 0.0], [5.0, 6.0, 7.0]])
    placed = place_on_axis(rows(axis(AUTUMN, 3), naive=True, y=values), config())
    assert placed.counts["ambiguous_local_time"] == 2  # a zero is a value, a null is none


def test_I2_half_hours_shown_twice_come_in_their_order() -> None:
    day = rows(axis(f"{AUTUMN}T00:30", 5, 30), naive=True, y=np.array([[9.0], [3], [5], [8], [8]]))
    placed = place_on_axis(day, config(ambiguous="split", step_minutes=30))
    assert placed.layers[VALUES][:, 0].tolist() == [9.0, 2.0, 3.0, 1.0, 2.0, 8.0, 8.0]


def test_I3_a_false_zero_at_the_hour_never_shown_is_dropped() -> None:
    values = [100.0, 101.0, 0.0, *np.arange(103.0, 124.0)]
    placed = place_on_axis(local_day(SPRING, values), config())
    assert len(placed.seconds) == 23
    assert placed.layers[VALUES][:3, 0].tolist() == [100.0, 101.0, 103.0]
    assert (placed.layers[VALUES] != 0).all()
    assert placed.counts == {"ambiguous_local_time": 0, "nonexistent_local_time": 0}


def test_I3_a_value_at_the_hour_never_shown_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        place_on_axis(local_day(SPRING), config())
    assert str(caught.value) == (
        "time axis: 1 value at local times that do not occur in America/New_York: "
        '2015-03-08T02:00:00; give offsets, or nonexistent="null" or "next"'
    )


def test_I3_the_values_refused_are_those_of_any_place() -> None:
    values = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 5.0], [1.0, 1.0]])
    with pytest.raises(DataError, match=r"1 value at local times .*: 2015-03-08T02:00:00; give"):
        place_on_axis(rows(axis(SPRING, 4), naive=True, y=values), config())


def test_I3_null_drops_the_value_and_counts_it() -> None:
    placed = place_on_axis(local_day(SPRING), config(nonexistent="null"))
    assert placed.layers[VALUES][:3, 0].tolist() == [100.0, 101.0, 103.0]
    assert placed.counts == {"ambiguous_local_time": 0, "nonexistent_local_time": 1}


def test_I3_next_adds_the_value_to_the_hour_that_followed() -> None:
    placed = place_on_axis(local_day(SPRING), config(nonexistent="next"))
    assert placed.layers[VALUES][:3, 0].tolist() == [100.0, 101.0, 205.0]
    assert placed.layers[VALUES].sum() == np.arange(100, 124).sum()
    assert placed.counts == {"ambiguous_local_time": 0, "nonexistent_local_time": 1}


def test_I3_next_gathers_every_step_of_the_hour_never_shown() -> None:
    values = np.array([[1.0], [2.0], [4.0], [8.0], [16.0]])
    day = rows(axis(f"{SPRING}T01:30", 5, 30), naive=True, y=values)
    placed = place_on_axis(day, config(nonexistent="next", step_minutes=30))
    assert placed.layers[VALUES][:, 0].tolist() == [1.0, 14.0, 16.0]
    assert placed.counts["nonexistent_local_time"] == 2


def test_I3_next_leaves_an_unknown_hour_unknown() -> None:
    placed = place_on_axis(local_day(SPRING, [1.0, 1.0, 5.0, np.nan]), config(nonexistent="next"))
    np.testing.assert_array_equal(placed.layers[VALUES][:, 0], [1, 1, np.nan])
    assert placed.counts["nonexistent_local_time"] == 1


def test_I3_next_does_not_lose_the_value_of_the_last_row() -> None:
    with pytest.raises(DataError, match="no row past 2015-03-08T02:00:00 to add its values to"):
        place_on_axis(local_day(SPRING, [1.0, 1.0, 5.0]), config(nonexistent="next"))
    placed = place_on_axis(local_day(SPRING, [1.0, 1.0, 0.0]), config(nonexistent="next"))
    assert len(placed.seconds) == 2


def test_I3_next_does_not_skip_a_gap() -> None:
    seconds = axis(SPRING, 6)[[0, 1, 2, 4, 5]]  # 03:00, which followed 01:59, has no row
    gappy = rows(seconds, naive=True, y=np.array([[1.0], [1.0], [5.0], [7.0], [7.0]]))
    for rule in ("refuse", "null"):
        with pytest.raises(DataError, match="no row past 2015-03-08T02:00:00 to add its values"):
            place_on_axis(gappy, config(nonexistent="next", gaps=rule))


def test_I3_covariates_at_the_hour_never_shown_are_dropped() -> None:
    column = np.zeros((24, 1))
    day = rows(axis(SPRING, 24), naive=True, y=column, rain=column + np.arange(24)[:, None])
    assert place_on_axis(day, config()).layers["rain"][:3, 0].tolist() == [0.0, 1.0, 3.0]


@pytest.mark.parametrize("step_minutes", [120, 1440, 7 * 1440])
def test_I2_local_steps_that_cannot_follow_the_clock_are_told_of_utc(step_minutes: int) -> None:
    days = rows(axis("2015-01-01", 400 * 1440 // step_minutes, step_minutes), naive=True)
    rules = config(step_minutes=step_minutes, nonexistent="null")
    with pytest.raises(DataError) as caught:
        place_on_axis(days, rules)
    assert f"the clock in {NEW_YORK} changes" in str(caught.value)
    assert "give timezone UTC" in str(caught.value)
    placed = place_on_axis(days, config(step_minutes=step_minutes, timezone="UTC"))
    np.testing.assert_array_equal(placed.seconds, days.seconds)
    assert len(
        place_on_axis(days, config(step_minutes=step_minutes, timezone="Asia/Tokyo")).seconds
    )


def test_S5_local_times_that_are_off_the_step_by_themselves_are_named() -> None:
    days = axis("2015-01-01", 400, 1440)
    days[7] += 1800
    with pytest.raises(DataError, match="off the step of 1 day"):
        place_on_axis(rows(days, naive=True), config(step_minutes=1440))


@pytest.mark.parametrize("zone", [NEW_YORK, "Asia/Kolkata", "Australia/Sydney", "UTC"])
@given(st.integers(0, 365 * 24), st.integers(1, 53))
def test_local_times_come_back_as_the_clock_showed_them(zone: str, begin: int, steps: int) -> None:
    local = axis("2015-01-01", steps) + begin * HOUR
    zeros = rows(local, naive=True, y=np.zeros((steps, 2)))
    placed = resolve_local_times(zeros, config(timezone=zone))
    shown = to_local(zone, placed.seconds.astype("datetime64[s]")).astype(np.int64)
    assert set(shown.tolist()) <= set(local.tolist())
    assert (np.diff(placed.seconds) == HOUR).all()


# --------------------------------------------------------------- covariates on a given axis

START = np.datetime64("2014-06-01T00:00:00", "s")


def lay(seconds: np.ndarray, steps: int = 7, **given_fields: str | int) -> np.ndarray:
    column = np.arange(1.0, len(seconds) + 1)[:, None]
    rows_of = rows(seconds, naive=bool(given_fields), weather=column)
    return align_to_axis(rows_of, config(**given_fields), START, steps)["weather"][:, 0]


def test_covariates_before_the_axis_are_left_out() -> None:
    np.testing.assert_array_equal(lay(axis("2014-05-31T22:00", 5), 3), [3, 4, 5])


def test_covariates_after_the_axis_make_it_longer() -> None:
    np.testing.assert_array_equal(lay(axis("2014-06-01T00:00", 5), 3), [1, 2, 3, 4, 5])


def test_steps_without_a_covariate_are_missing() -> None:
    seconds = axis("2014-06-01T01:00", 5)[[0, 2, 4]]
    np.testing.assert_array_equal(
        lay(seconds, 7), np.array([np.nan, 1, np.nan, 2, np.nan, 3, np.nan])
    )


def test_no_covariates_at_all_are_missing_at_every_step() -> None:
    assert np.isnan(lay(axis("2014-06-01", 0), 7)).all()


def test_covariates_of_local_times_land_on_their_instant() -> None:
    found = lay(axis("2014-05-31T20:00", 3), 3, timezone=NEW_YORK)  # 00:00Z is 20:00 EDT
    np.testing.assert_array_equal(found, [1, 2, 3])


def test_S5_covariates_off_the_steps_are_counted_and_refused() -> None:
    seconds = axis("2014-06-01", 5)
    seconds[[1, 3]] += 60
    message = r"2 times off the panel's steps of 60 min: 2014-06-01T01:01:00Z, 2014-06-01T03:01"
    with pytest.raises(DataError, match=message):
        lay(seconds)


def test_S5_covariates_follow_the_phase_of_the_axis() -> None:
    start = START + np.timedelta64(600, "s")
    column = np.arange(1.0, 4.0)[:, None]
    at_ten_past = rows(axis("2014-06-01T00:10", 3), naive=False, weather=column)
    found = align_to_axis(at_ten_past, config(), start, 3)["weather"][:, 0]
    np.testing.assert_array_equal(found, [1, 2, 3])
    on_the_hour = rows(axis("2014-06-01T00:00", 3), naive=False, weather=column)
    with pytest.raises(DataError, match="3 times off the panel's steps of 60 min"):
        align_to_axis(on_the_hour, config(), start, 3)


def test_covariates_reach_a_year_ahead_and_no_further() -> None:
    last = START + np.timedelta64(6 * HOUR, "s")  # of 7 values
    furthest = str(last + np.timedelta64(366, "D"))
    assert len(lay(axis(furthest, 1))) == 7 + 366 * 24
    beyond = str(last + np.timedelta64(366, "D") + np.timedelta64(HOUR, "s"))
    with pytest.raises(DataError, match=f"1 time over 366 days past the last value: {beyond}Z"):
        lay(axis(beyond, 1))


# ---------------------------------------------------------------------- completing an axis


@given(st.sets(st.integers(0, 28), min_size=1), st.sampled_from([5, 60, 1440]))
def test_S5_completing_puts_every_row_at_its_time_and_counts_the_rest(
    kept: set[int], step_minutes: int
) -> None:
    at = sorted(kept)
    whole = axis("2014-06-01T00:00", 29, step_minutes)
    gappy = rows(whole[at], naive=False)
    placed = place_on_axis(gappy, config(gaps="null", step_minutes=step_minutes))
    assert placed.seconds.tolist() == whole[at[0] : at[-1] + 1].tolist()
    here = np.isin(placed.seconds, gappy.seconds)
    np.testing.assert_array_equal(placed.layers[VALUES][here], gappy.layers[VALUES])
    assert np.isnan(placed.layers[VALUES][~here]).all()
    listed = [
        first + n * step_minutes * 60
        for text, count in placed.counts["gaps"]
        for first in [int(np.datetime64(text.removesuffix("Z"), "s").astype(np.int64))]
        for n in range(count)
    ]
    assert listed == placed.seconds[~here].tolist()
    assert placed.counts["completed_steps"] == len(listed)


def test_S5_completing_leaves_every_layer_missing_there() -> None:
    column = np.arange(3.0)[:, None]
    gappy = rows(axis("2014-06-01", 5)[[0, 1, 4]], naive=False, y=column, rain=column + 7)
    layers = place_on_axis(gappy, config(gaps="null")).layers
    np.testing.assert_array_equal(layers["rain"][:, 0], [7, 8, np.nan, np.nan, 9])
    np.testing.assert_array_equal(layers[VALUES][:, 0], [0, 1, np.nan, np.nan, 2])


def test_S5_gaps_of_up_to_a_year_are_completed() -> None:
    year = rows(axis("2014-06-01", 366 * 24 + 1)[[0, -1]], naive=False)
    assert place_on_axis(year, config(gaps="null")).counts["completed_steps"] == 366 * 24 - 1
    longer = rows(axis("2014-06-01", 366 * 24 + 2)[[0, -1]], naive=False)
    with pytest.raises(DataError, match="missing 8,784 steps"):
        place_on_axis(longer, config(gaps="null"))


def test_S5_doubled_times_are_refused_even_if_gaps_are_completed() -> None:
    with pytest.raises(DataError, match="1 time doubled or unsorted"):
        place_on_axis(rows(axis("2014-06-01", 5)[[0, 1, 1, 4]], naive=False), config(gaps="null"))


@pytest.mark.parametrize(("day", "missing"), [(SPRING, 20), ("2015-06-01", 21), (AUTUMN, 22)])
def test_I2_a_gap_across_a_clock_change_has_the_hours_that_passed(day: str, missing: int) -> None:
    local = np.concatenate([axis(day, 1), axis(f"{day}T22:00", 2)])
    placed = place_on_axis(rows(local, naive=True), config(gaps="null"))
    assert placed.counts["completed_steps"] == missing
    assert [count for _, count in placed.counts["gaps"]] == [missing]
    assert placed.counts["ambiguous_local_time"] == 0


def test_I2_the_hour_shown_twice_is_unknown_and_not_a_gap() -> None:
    placed = place_on_axis(local_day(AUTUMN), config(gaps="null"))
    assert placed.counts == {
        "ambiguous_local_time": 1,
        "nonexistent_local_time": 0,
        "completed_steps": 0,
        "gaps": [],
    }
    assert np.isnan(placed.layers[VALUES]).sum() == 2


# -------------------------------------------------------------------------------- months


def month_rows(texts: list[str]) -> SeriesTable:
    return rows(np.array(texts, dtype="datetime64[s]").astype(np.int64), naive=True)


MONTHS = {"timezone": NEW_YORK, "step_months": 1}


@pytest.mark.parametrize("day", ["01", "15", "28"])
def test_a_time_on_any_day_stands_for_its_month(day: str) -> None:
    table = month_rows([f"2021-{month:02d}-{day}" for month in range(1, 6)])
    placed = place_on_axis(table, config(**MONTHS))
    assert stamps(placed.seconds) == [
        "2021-01-01T05:00", "2021-02-01T05:00", "2021-03-01T05:00", "2021-04-01T04:00",
        "2021-05-01T04:00",
    ]  # fmt: skip


def test_month_ends_end_their_quarter() -> None:
    table = month_rows(["2021-03-31", "2021-06-30", "2021-09-30"])
    placed = place_on_axis(table, config(timezone="UTC", step_months=3))
    assert stamps(placed.seconds) == ["2021-01-01T00:00", "2021-04-01T00:00", "2021-07-01T00:00"]


def test_missing_months_are_completed_and_counted() -> None:
    table = month_rows(["2021-01-01", "2021-02-01", "2021-05-01"])
    placed = place_on_axis(table, config(timezone="UTC", step_months=1, gaps="null"))
    assert len(placed.seconds) == 5
    assert placed.counts["gaps"] == [["2021-03-01T00:00:00Z", 2]]
    with pytest.raises(DataError, match=r"missing 2 steps: 2021-03-01T00:00:00Z"):
        place_on_axis(table, config(timezone="UTC", step_months=1))


def test_days_that_are_called_months_are_refused_in_plain_words() -> None:
    table = month_rows([f"2021-01-{day:02d}" for day in range(1, 8)])
    with pytest.raises(DataError, match=r"6 further times in one step of 1 month.*add the values"):
        place_on_axis(table, config(timezone="UTC", step_months=1))


def test_a_month_between_quarters_is_named() -> None:
    table = month_rows(["2021-01-01", "2021-04-01", "2021-06-01", "2021-10-01"])
    with pytest.raises(DataError, match=r"1 time off the step of 3 months: 2021-06-01"):
        place_on_axis(table, config(timezone="UTC", step_months=3))


def test_covariates_of_months_reach_ahead() -> None:
    table = month_rows(["2021-02-28", "2021-03-31", "2021-04-30"])
    start = np.datetime64("2021-01-01", "s")
    laid = align_to_axis(table, config(timezone="UTC", step_months=1), start, 3)[VALUES]
    np.testing.assert_array_equal(laid[:, 0], [np.nan, 0, 2, 4])
