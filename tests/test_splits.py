import inspect
import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import LagConfig, Season, SplitsConfig
from forecaster.errors import ConfigError, DataError
from forecaster.panel.panel import Panel
from forecaster.panel.vintages import sort_vintages
from forecaster.splits import (
    SPLITS,
    Splits,
    Windows,
    cut_windows,
    explain_short,
    history_steps,
    is_incomplete,
    is_well_observed,
)
from tests.panel.panels import numbers, panel_of, zone_of

NAN = np.float32(np.nan)
NEW_YORK = "America/New_York"
HOUR = np.timedelta64(1, "h")
PAPER = LagConfig()
# Section 3.1: 2012-01…06 is cut out of the training years.
PAPERS_SPLITS = Splits(
    train=[("2009-01-01", "2011-12-31"), ("2012-07-01", "2015-06-30")],
    validation=[("2012-01-01", "2012-06-30")],
    test=[("2015-07-01", "2016-06-30")],
)
# x_t, x_{t−1}; x_{t+i−24j} for j = 1, 2 and i = −1…1; x_{t+i−72} for i = 0…2: L = 11, K = 3.
LAGS = LagConfig(
    recent=2,
    seasons=(
        Season(days=1, count=2, before=1, after=1),
        Season(days=3, count=1, before=0, after=2),
    ),
    horizon=3,
)
LAG_HOURS = [0, 1, *(24 * j - i for j in (1, 2) for i in (-1, 0, 1)), *(72 - i for i in range(3))]


def stretch(panel: Panel, first: int, last: int) -> tuple[str, str]:
    """Return the range of steps from `first` to `last`, both included."""
    return f"{panel.times[first]}Z", f"{panel.times[last]}Z"


def by_steps(panel: Panel, **ranges: list[tuple[int, int]]) -> Splits:
    return Splits(**{name: [stretch(panel, *pair) for pair in ranges[name]] for name in SPLITS})


def stamps(panel: Panel, ranges: list[tuple[str, str]]) -> list[str]:
    """Return the first and the last step in some ranges, and how many there are."""
    splits = Splits(train=ranges, validation=ranges, test=ranges)
    inside = panel.times[splits.mask("validation", panel.clock, panel.times)]
    return [str(inside[0])[:16], str(inside[-1])[:16], str(len(inside))]


@pytest.fixture(scope="module")
def papers_panel() -> Panel:
    """Return the paper's hours, 2009-01-01 … 2016-06-30 in New York, of one location."""
    return panel_of(np.ones((65_711, 1)), "2009-01-01T05", NEW_YORK)


@pytest.fixture(scope="module")
def changes() -> Panel:
    """Return the hours of 2015 in New York: set forward on March 8, back on November 1."""
    return panel_of(np.ones((8_760, 1)), "2015-01-01T05", NEW_YORK)


# ---------------------------------------------------------------------------- date ranges


def test_the_papers_ranges_hold_the_papers_hours(papers_panel: Panel) -> None:
    # By hand: 2 · 1,095 days of 24 h with three clock changes each way per half (PAPER_NOTES:
    # 52,560 h); 182 days less the hour of 2012-03-11; 366 days with one change each way.
    masks = [PAPERS_SPLITS.mask(s, papers_panel.clock, papers_panel.times) for s in SPLITS]
    assert [int(mask.sum()) for mask in masks] == [52_560, 4_367, 8_784]
    assert (np.sum(masks, axis=0) == 1).all()  # each of the 65,711 hours is in exactly one


def test_the_papers_windows_are_those_counted_by_hand(papers_panel: Panel) -> None:
    # 65,711 − 673 − 3 = 65,035 origins (FAULTS, finding 1). A range of n hours has n − 2 windows
    # whose 3 targets lie in it. In training 673 more lack history, or have it in validation.
    windows = cut_windows(papers_panel, PAPERS_SPLITS, PAPER)
    train, validation, test = 2 * (26_280 - 2 - 674), 4_367 - 2, 8_784 - 2
    assert [len(w) for w in (windows.train, windows.validation, windows.test)] == [
        train, validation, test,
    ]  # fmt: skip
    assert {reason: count for reason, count in windows.dropped.items() if count} == {
        "targets across a border": 3 * 2,
        "training history in held-out steps": 674,
    }
    assert train + validation + test + 6 + 674 == 65_035
    assert str(windows) == (
        "windows: train 51,208, validation 4,365, test 8,782; with partial history 668; dropped: "
        "targets across a border 6, training history in held-out steps 674"
    )
    # The first origin has its 6 recent hours; 674 − 6 lack a part of the older ones.
    assert windows.partial.tolist() == list(range(5, 673))


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2015-07-04", ["2015-07-04T04:00", "2015-07-05T03:00", "24"]),
        ("2015-03-08", ["2015-03-08T05:00", "2015-03-09T03:00", "23"]),
        ("2015-11-01", ["2015-11-01T04:00", "2015-11-02T04:00", "25"]),
        ("20150704", ["2015-07-04T04:00", "2015-07-05T03:00", "24"]),
        ("2015-W27-6", ["2015-07-04T04:00", "2015-07-05T03:00", "24"]),
    ],
)
def test_a_date_stands_for_its_whole_local_day(
    changes: Panel, day: str, expected: list[str]
) -> None:
    assert stamps(changes, [(day, day)]) == expected


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("2015-07-01", "2015-07-31"),
        ("2015-07-01T00:00", "2015-07-31T23:00"),
        ("2015-07-01 00:00:00", "2015-07-31 23:00:00"),
        ("2015-07-01T04:00Z", "2015-08-01T03:00Z"),
        ("2015-07-01T00:00-04:00", "2015-07-31"),
        ("2015-07-01", "2015-08-01T08:30+05:30"),
        ("2015-07-01", "2015-07-31T23:59:59"),
        ("2015-06-30T23:00:01", "2015-08-01T03:59Z"),
    ],
)
def test_ends_may_be_dates_local_times_or_times_with_an_offset(
    changes: Panel, first: str, last: str
) -> None:
    july = ["2015-07-01T04:00", "2015-08-01T03:00", "744"]
    assert stamps(changes, [(first, last)]) == july


def test_a_doubled_local_time_begins_at_its_first_showing_and_ends_with_its_second(
    changes: Panel,
) -> None:
    assert stamps(changes, [("2015-11-01T01:00", "2015-11-01T03:00")]) == [
        "2015-11-01T05:00", "2015-11-01T08:00", "4",
    ]  # fmt: skip
    assert stamps(changes, [("2015-11-01T00:00", "2015-11-01T01:00")]) == [
        "2015-11-01T04:00", "2015-11-01T06:00", "3",
    ]  # fmt: skip


def test_a_local_time_that_never_was_stands_for_the_next_hour(changes: Panel) -> None:
    assert stamps(changes, [("2015-03-08T02:00", "2015-03-08T04:00")]) == [
        "2015-03-08T07:00", "2015-03-08T08:00", "2",
    ]  # fmt: skip


def test_a_day_whose_midnight_comes_twice_begins_at_the_first() -> None:
    panel = panel_of(np.ones((97, 1)), "2015-10-31", "America/Havana")  # 01:00 becomes 00:00
    first, second = "2015-10-31T04:00", "2015-11-01T04:00"
    assert stamps(panel, [("2015-10-31", "2015-10-31")]) == [first, "2015-11-01T03:00", "24"]
    assert stamps(panel, [("2015-11-01", "2015-11-01")]) == [second, "2015-11-02T04:00", "25"]


def test_days_of_a_zone_off_the_hour_take_the_steps_that_begin_in_them() -> None:
    panel = panel_of(np.ones((97, 1)), "2015-07-01", "Asia/Kolkata")  # local midnight is 18:30Z
    assert stamps(panel, [("2015-07-02", "2015-07-02")]) == [
        "2015-07-01T19:00", "2015-07-02T18:00", "24",
    ]  # fmt: skip


def test_a_split_may_have_several_ranges_and_they_may_touch(changes: Panel) -> None:
    ranges = [
        ("2015-07-04", "2015-07-05"),
        ("2015-02-01", "2015-02-01"),
        ("2015-07-05", "2015-07-06"),
    ]
    assert stamps(changes, ranges) == ["2015-02-01T05:00", "2015-07-07T03:00", str(24 * 4)]


def test_a_range_may_reach_past_the_panel_on_both_sides(changes: Panel) -> None:
    assert stamps(changes, [("1990-01-01", "2090-12-31")])[2] == "8760"


@given(st.sampled_from([NEW_YORK, "Australia/Sydney", "Asia/Kolkata", "UTC"]), st.data())
def test_a_range_of_dates_holds_the_hours_that_a_calendar_shows_them(
    zone: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, 366 * 24))
    panel = panel_of(np.ones((211, 1)), str(np.datetime64("2015-01-01T00", "h") + start), zone)
    days = st.dates(datetime(2014, 12, 29).date(), datetime(2016, 1, 15).date())
    first, last = sorted([data.draw(days), data.draw(days)])
    splits = Splits(*[[(str(first), str(last))]] * 3)
    place = zone_of(zone)
    shown = [datetime.fromtimestamp(t.astype(int), UTC).astimezone(place) for t in panel.times]
    expected = [first <= local.date() <= last for local in shown]
    assert splits.mask("test", panel.clock, panel.times).tolist() == expected


# ---------------------------------------------------------------------- what is refused


def test_all_faults_of_splits_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Splits(train=[], validation=[("2012-13-01", "2012-06-30")], test=[("2015", "later")])
    assert str(caught.value) == (
        "splits: 4 faults\n"
        "  train: no range; give one such as ('2013-01-01', '2013-12-31')\n"
        "  validation: '2012-13-01' is not a time; give e.g. 2013-01-01\n"
        "  test: '2015' is not a time; give e.g. 2013-01-01\n"
        "  test: 'later' is not a time; give e.g. 2013-01-01"
    )


@pytest.mark.parametrize(
    "pair", ["2013-01-01", ("2013-01-01",), ("2013-01-01",) * 3, (1, 2), None]
)
def test_a_range_that_is_not_two_times_is_refused(pair: Any) -> None:
    good = [("2013-01-01", "2013-12-31")]
    given_by_a_user = SimpleNamespace(train=good, validation=good, test=[pair])
    check = inspect.unwrap(Splits.__post_init__)  # without the type checks of the test run
    with pytest.raises(ConfigError, match=r"splits: 1 fault\n  test: .* is not a range; give e"):
        check(given_by_a_user)


def test_T6_a_step_in_two_splits_is_refused_with_its_count(changes: Panel) -> None:
    splits = Splits(
        train=[("2015-01-01", "2015-03-08")],
        validation=[("2015-03-08", "2015-04-30")],
        test=[("2015-04-30T22:00", "2015-05-31")],
    )
    with pytest.raises(DataError) as caught:
        cut_windows(changes, splits, LAGS)
    assert str(caught.value) == (
        "splits: 2 faults\n"
        "  23 steps in both train and validation, the first at 2015-03-08T05:00:00Z; "
        "each step may be in one split\n"
        "  2 steps in both validation and test, the first at 2015-05-01T02:00:00Z; "
        "each step may be in one split"
    )


def test_a_split_outside_the_panel_is_refused(changes: Panel) -> None:
    splits = Splits(
        train=[("2015-01-01", "2015-06-30")],
        validation=[("2015-07-01", "2015-07-31")],
        test=[("2016-07-01", "2016-07-31"), ("2014-07-01", "2014-07-31")],
    )
    message = r"test: \[\('2016-07-01', .*\] holds no step of the panel \(2015-01-01T05:00:00Z … "
    with pytest.raises(DataError, match=message):
        cut_windows(changes, splits, LAGS)


def test_a_range_that_is_over_before_it_begins_is_refused(changes: Panel) -> None:
    splits = Splits(
        train=[("2015-01-01", "2015-03-31"), ("2015-05-31", "2015-05-30")],
        validation=[("2015-07-01", "2015-07-31")],
        test=[("2015-08-01", "2015-08-31")],
    )
    message = "train: 2015-05-31 … 2015-05-30 ends before it begins; swap its ends"
    with pytest.raises(DataError, match=message):
        cut_windows(changes, splits, LAGS)


def test_a_range_to_the_end_of_time_is_refused_in_words(changes: Panel) -> None:
    splits = Splits(*[[("2015-01-01", "9999-12-31")]] * 3)
    with pytest.raises(DataError, match="check for placeholders"):
        cut_windows(changes, splits, LAGS)


def test_splits_without_a_window_are_refused_with_the_counts(changes: Panel) -> None:
    splits = Splits(
        train=[("2015-01-01", "2015-03-31")],
        validation=[("2015-04-01T00:00", "2015-04-01T01:00")],  # 2 hours, and 3 are to be forecast
        test=[("2015-05-01", "2015-05-01")],
    )
    message = r"splits: no window left for validation \(windows: train 2,084, validation 0, test "
    with pytest.raises(DataError, match=message):
        cut_windows(changes, splits, LAGS)


# ------------------------------------------------------------------------------- by share


def test_shares_cut_the_last_fifth_for_test_and_the_tenth_before_for_validation() -> None:
    panel = panel_of(np.ones((1_000, 1)), "2015-10-20", NEW_YORK)
    splits = Splits.by_share(panel)
    masks = [splits.mask(name, panel.clock, panel.times) for name in SPLITS]
    spans = [(int(np.argmax(mask)), int(mask.sum())) for mask in masks]
    assert spans == [(0, 700), (700, 100), (800, 200)]


def test_a_short_panel_validates_on_enough_windows_if_training_keeps_half() -> None:
    def sizes(steps: int, horizon: int) -> list[int]:
        panel = panel_of(np.ones((steps, 1)))
        splits = Splits.by_share(panel, horizon=horizon)
        return [int(splits.mask(name, panel.clock, panel.times).sum()) for name in SPLITS]

    assert sizes(149, 3) == [97, 22, 30]
    assert sizes(149, 7) == [93, 26, 30]
    assert sizes(41, 3) == [20, 13, 8]  # half: more would be too little to learn from


def test_a_panel_that_is_too_short_says_what_it_needs() -> None:
    panel = panel_of(np.ones((41, 1)), step_minutes=7 * 1440)
    advice = explain_short(panel, LagConfig(recent=2, seasons=(), horizon=3))
    assert "41 steps of 1 week: forecasts 3 steps ahead need about 74" in advice
    assert "a yearly season alone needs about 149" in advice
    assert not explain_short(panel_of(np.ones((79, 1))), LagConfig(horizon=3))


def test_a_later_fit_learns_all_up_to_its_step_and_validates_as_much_as_before() -> None:
    panel = panel_of(np.ones((24 * 89, 1)))
    splits = by_steps(panel, train=[(48, 239)], validation=[(240, 300)], test=[(301, 500)])
    later = splits.until(panel, 24 * 61, horizon=3)
    masks = [later.mask(name, panel.clock, panel.times) for name in SPLITS]
    spans = [(int(np.argmax(mask)), int(mask.sum())) for mask in masks]
    # 61 hours validate: three whole days; learning begins where it began
    assert spans == [(48, 24 * 58 - 48), (24 * 58, 72), (24 * 61, 24 * 28)]


@pytest.mark.parametrize(
    ("step_minutes", "validated"), [(60, 28 * 24), (1440, 28), (7 * 1440, 22)]
)
def test_a_later_fit_validates_four_weeks_at_most_or_as_much_as_calibration_needs(
    step_minutes: int, validated: int
) -> None:
    panel = panel_of(np.ones((2_003, 1)), step_minutes=step_minutes)
    splits = by_steps(panel, train=[(0, 699)], validation=[(700, 1_699)], test=[(1_700, 2_002)])
    later = splits.until(panel, 1_801, horizon=3)
    assert later.mask("validation", panel.clock, panel.times).sum() == validated


@pytest.mark.parametrize(("weeks", "days"), [(16, 14), (9, 3)])
def test_a_later_fit_validates_two_weeks_if_these_are_no_more_than_a_fifth(
    weeks: int, days: int
) -> None:
    panel = panel_of(np.ones((24 * 7 * 20, 1)))
    splits = by_steps(panel, train=[(0, 999)], validation=[(1_000, 1_060)], test=[(1_061, 1_300)])
    later = splits.until(panel, 24 * 7 * weeks, horizon=3)
    assert later.mask("validation", panel.clock, panel.times).sum() == 24 * days


def test_a_later_fit_without_earlier_steps_is_refused() -> None:
    panel = panel_of(np.ones((199, 1)))
    splits = by_steps(panel, train=[(97, 140)], validation=[(141, 160)], test=[(161, 198)])
    for step in (90, 110):
        with pytest.raises(DataError, match="too few steps before"):
            splits.until(panel, step, horizon=3)


@given(
    st.integers(17, 97),
    st.floats(0.1, 0.4),
    st.floats(0.1, 0.4),
    st.sampled_from([15, 60, 1440]),
)
def test_shares_give_every_step_to_exactly_one_split_in_order(
    steps: int, validation: float, test: float, step_minutes: int
) -> None:
    panel = panel_of(np.ones((steps, 1)), "2015-03-07T23", NEW_YORK, step_minutes=step_minutes)
    splits = Splits.by_share(panel, validation, test)
    masks = [splits.mask(name, panel.clock, panel.times) for name in SPLITS]
    assert (np.sum(masks, axis=0) == 1).all()
    assert (np.diff(np.argmax(masks, axis=0)) >= 0).all()
    assert [int(mask.sum()) for mask in masks[1:]] == pytest.approx(
        [validation * steps, test * steps], abs=1
    )


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.0, 0.2), (0.1, 0.0), (-0.1, 0.2), (0.001, 0.2)])
def test_shares_that_leave_a_split_empty_are_refused(shares: tuple[float, float]) -> None:
    message = r"splits: shares .* leave a split empty; the panel has 97 steps"
    with pytest.raises(ConfigError, match=message):
        Splits.by_share(panel_of(np.ones((97, 1))), *shares)


# ---------------------------------------------------------------------- the split rule (T6)


def split_of_steps(panel: Panel, ranges: dict[str, list[tuple[int, int]]]) -> list[str | None]:
    found: list[str | None] = [None] * len(panel.values)
    for name, pairs in ranges.items():
        for first, last in pairs:
            found[first : last + 1] = [name] * (last + 1 - first)
    return found


def reason_to_drop(  # noqa: PLR0911 (a reason each)
    panel: Panel, split_of: list[str | None], t: int
) -> str | None:
    """Return why the window of an origin is dropped, by the words of the module's rule."""
    values, N = panel.values, panel.values.shape[1]
    history, targets = [t - lag for lag in LAG_HOURS], [t + k for k in (1, 2, 3)]
    names = {split_of[s] for s in targets}
    if len(names) > 1:
        return "targets across a border"
    if all(math.isnan(values[s, n]) for s in targets for n in range(N)):
        return "no target observed"
    for s in targets:
        known = [*panel.covariates.values[s], *panel.local_covariates.values[:, s].ravel()]
        if any(math.isnan(value) for value in known):
            return "covariates ahead missing"
    spared = 1 if 1 < N < 10 else 0  # of each step
    holes = {s: sum(map(math.isnan, values[s])) for s in (*history, t)}
    counted = {s: max(count - spared, 0) for s, count in holes.items()}
    limit = N - spared  # a tenth of these
    if 10 * sum(counted[s] for s in history) > len(history) * limit or 10 * counted[t] > limit:
        return "too little history observed"
    if names == {"train"} and any(split_of[s] in ("validation", "test") for s in history):
        return "training history in held-out steps"
    if names == {"validation"} and any(split_of[s] == "test" for s in history):
        return "validation history in test steps"
    return None


def enumerate_windows(
    panel: Panel, split_of: list[str | None]
) -> tuple[dict[str, list[int]], Counter[str]]:
    """Return the kept origins of each split and the number dropped for each reason."""
    kept: dict[str, list[int]] = {name: [] for name in SPLITS}
    dropped: Counter[str] = Counter()
    for t in range(len(panel.values)):
        if t - max(LAG_HOURS) < 0 or t + 3 >= len(panel.values):
            continue
        if not any(split_of[t + k] for k in (1, 2, 3)):
            continue
        reason = reason_to_drop(panel, split_of, t)
        if reason:
            dropped[reason] += 1
        else:
            kept[str(split_of[t + 1])].append(t)
    return kept, dropped


def assert_rule_holds(windows: Windows, split_of: list[str | None]) -> None:
    targets = {
        name: {t + k for t in getattr(windows, name).tolist() for k in (1, 2, 3)}
        for name in SPLITS
    }
    for name, steps in targets.items():
        assert {split_of[s] for s in steps} == {name}
    read = {t - lag for t in windows.train.tolist() for lag in LAG_HOURS} | targets["train"]
    assert not read & {s for s, name in enumerate(split_of) if name in ("validation", "test")}


def test_T6_windows_of_a_training_set_with_a_hole_equal_a_brute_force_enumeration() -> None:
    M, N = 601, 11
    values = numbers(M, N)
    values[np.random.default_rng(1).random((M, N)) < 0.03] = NAN
    values[500:503] = NAN  # nothing to score there
    world, own = numbers(M + 5, 2), numbers(2, M + 5, N)
    world[140, 1], own[1, 400, 7] = NAN, NAN
    panel = panel_of(values, world=world, own=own)
    ranges = {
        "train": [(10, 200), (261, 420)],
        "validation": [(201, 260)],
        "test": [(450, 600)],  # 421…449 is in no split
    }
    split_of = split_of_steps(panel, ranges)
    kept, dropped = enumerate_windows(panel, split_of)
    windows = cut_windows(panel, by_steps(panel, **ranges), LAGS)
    assert {name: getattr(windows, name).tolist() for name in SPLITS} == kept
    assert Counter(windows.dropped) == dropped
    assert len(dropped) == 5  # every reason but that of a test before validation
    assert_rule_holds(windows, split_of)
    considered = sum(any(split_of[t + k] for k in (1, 2, 3)) for t in range(max(LAG_HOURS), M - 3))
    assert considered == sum(map(len, kept.values())) + sum(windows.dropped.values())


@st.composite
def split_ranges(draw: st.DrawFn) -> tuple[int, dict[str, list[tuple[int, int]]]]:
    """Return how many steps there are, and stretches of them given to a split or to none."""
    more = draw(st.lists(st.sampled_from([*SPLITS, None]), max_size=4))
    names = ["train", *draw(st.permutations(["validation", "test", *more]))]
    lengths = [draw(st.integers(1, 90)) for _ in names]
    ends = np.cumsum([max(LAG_HOURS), *lengths]).tolist()
    ranges: dict[str, list[tuple[int, int]]] = {name: [] for name in SPLITS}
    for name, (first, end) in zip(names, pairwise([0, *ends[1:]]), strict=True):
        if name:
            ranges[name].append((first, end - 1))
    return ends[-1], ranges


@given(split_ranges(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.002, 0.02, 0.2]))
def test_T6_windows_of_any_ranges_and_holes_equal_a_brute_force_enumeration(
    drawn: tuple[int, dict[str, list[tuple[int, int]]]], seed: int, holes: float
) -> None:
    (M, ranges), N = drawn, 3
    generator = np.random.default_rng(seed)
    values, world = generator.normal(size=(M, N)), generator.normal(size=(M, 1))
    values[generator.random((M, N)) < holes] = NAN
    world[generator.random((M, 1)) < holes] = NAN
    panel = panel_of(values, world=world)
    split_of = split_of_steps(panel, ranges)
    kept, dropped = enumerate_windows(panel, split_of)
    if not all(kept.values()):
        with pytest.raises(DataError, match=r"no window left for|need ≥ 76 steps for one window"):
            cut_windows(panel, by_steps(panel, **ranges), LAGS)
        return
    windows = cut_windows(panel, by_steps(panel, **ranges), LAGS)
    assert {name: getattr(windows, name).tolist() for name in SPLITS} == kept
    assert Counter(windows.dropped) == dropped
    assert_rule_holds(windows, split_of)


@pytest.mark.parametrize("hours", ["", "05:00-23:00"])
def test_windows_are_the_same_however_many_are_judged_at_a_time(
    monkeypatch: pytest.MonkeyPatch, hours: str
) -> None:
    values = np.random.default_rng(3).poisson(9, (24 * 61, 3)).astype(np.float32)
    values[500:520] = np.nan
    panel = panel_of(values).with_hours([hours] * 3)
    splits = Splits.by_share(panel)
    at_once = cut_windows(panel, splits, LagConfig())
    monkeypatch.setattr("forecaster.splits.BLOCK_STEPS", 76 * 101)
    in_blocks = cut_windows(panel, splits, LagConfig())
    assert str(in_blocks) == str(at_once)
    for name in (*SPLITS, "partial"):
        assert np.array_equal(getattr(in_blocks, name), getattr(at_once, name))


def test_T6_lags_across_a_clock_change_do_not_lead_training_into_held_out_hours() -> None:
    panel = panel_of(np.ones((24 * 24, 1)), "2015-10-20T04", NEW_YORK)
    splits = Splits(
        train=[("2015-10-20", "2015-10-27"), ("2015-10-30", "2015-11-07")],
        validation=[("2015-10-28", "2015-10-29")],
        test=[("2015-11-08", "2015-11-11")],
    )
    windows = cut_windows(panel, splits, LAGS)
    held_out = splits.mask("validation", panel.clock, panel.times)
    held_out |= splits.mask("test", panel.clock, panel.times)
    assert not held_out[history_steps(panel, LAGS, windows.train)].any()
    # By hand: three days before 00:00 −05:00 on November 2 (05:00Z) was 00:00 −04:00 on October
    # 30, 73 hours earlier; with 72 hours the window before it would have been taken too.
    second = windows.train[windows.train > 10 * 24]
    assert str(panel.times[second[0]]) == "2015-11-02T05:00:00"


# ------------------------------------------------------------------- too little history


def history_of(panel: Panel, origin: int) -> tuple[np.ndarray, np.ndarray]:
    origins = np.array([origin])
    return history_steps(panel, LAGS, origins), origins


def test_exactly_a_tenth_of_the_history_may_be_missing_and_no_more() -> None:
    N, origin = 10, 100  # 11 lags × 10 locations: 11 values are a tenth
    values = np.ones((127, N))
    for lag, holes in ((72, 9), (1, 2)):
        values[origin - lag, :holes] = NAN
    assert not is_incomplete(panel_of(values), *history_of(panel_of(values), origin)).any()
    values[origin - 23, 7] = NAN
    assert is_incomplete(panel_of(values), *history_of(panel_of(values), origin)).all()


def test_missing_values_between_the_lags_do_not_count() -> None:
    values = np.full((127, 7), NAN)
    values[[100 - lag for lag in LAG_HOURS]] = 1.0
    assert not is_incomplete(panel_of(values), *history_of(panel_of(values), 100)).any()


@pytest.mark.parametrize(("holes", "poor"), [(3, False), (4, True)])
def test_exactly_a_tenth_of_the_origin_may_be_missing_and_no_more(holes: int, poor: bool) -> None:
    values = np.ones((127, 30))
    values[100, :holes] = NAN
    panel = panel_of(values)
    assert is_incomplete(panel, *history_of(panel, 100)).tolist() == [poor]
    assert is_incomplete(panel, *history_of(panel, 101)).tolist() == [False]


@given(st.integers(1, 13), st.integers(0, 2**32 - 1), st.integers(-1, 1))
def test_the_tenth_is_counted_and_not_rounded(tens: int, seed: int, beyond: int) -> None:
    N = 10 * tens if seed % 2 else 9 + tens
    steps = 10 if seed % 2 else 20
    holes = steps * N // 10 + beyond
    cells = np.zeros((steps, N))
    places = np.random.default_rng(seed).permutation(cells[:-1].size)[:holes]
    cells.ravel()[places] = NAN  # the last step, the origin, is observed
    history = np.arange(steps)[None, :]
    poor = is_incomplete(panel_of(cells), history, np.array([steps - 1]))
    assert poor.tolist() == [beyond > 0]


def test_a_poor_window_is_dropped_in_every_split() -> None:
    values = np.ones((241, 7))
    for origin in (90, 150, 210):
        values[origin, :2] = NAN  # 2 of 7
    panel = panel_of(values)
    splits = by_steps(panel, train=[(0, 120)], validation=[(121, 180)], test=[(181, 240)])
    windows = cut_windows(panel, splits, LAGS)
    assert windows.dropped["too little history observed"] == 3
    kept = np.concatenate([windows.train, windows.validation, windows.test])
    assert not set(kept.tolist()) & {90, 150, 210}


@pytest.mark.parametrize("N", [2, 3, 5, 9, 11])
def test_one_dead_sensor_does_not_silence_a_city(N: int) -> None:
    values = np.ones((241, N))
    values[:, 1] = NAN
    panel = panel_of(values)
    windows = cut_windows(panel, Splits.by_share(panel), LAGS)
    assert windows.dropped["too little history observed"] == 0


@pytest.mark.parametrize(("N", "holes", "poor"), [(1, 1, True), (2, 1, False), (2, 2, True),
                                                  (9, 1, False), (9, 2, True)])  # fmt: skip
def test_of_a_few_locations_one_may_be_missing_at_the_origin(
    N: int, holes: int, poor: bool
) -> None:
    values = np.ones((127, N))
    values[100, :holes] = NAN
    panel = panel_of(values)
    assert is_incomplete(panel, *history_of(panel, 100)).tolist() == [poor]
    assert is_well_observed(panel.values)[[99, 100]].tolist() == [True, not poor]


@pytest.mark.parametrize("N", [2, 3, 5, 9])
def test_an_outage_of_all_of_a_few_locations_is_not_spared(N: int) -> None:
    values = np.ones((127, N))
    values[100 - 1] = NAN  # 1 of 11 lags is less than a tenth
    assert not is_incomplete(panel_of(values), *history_of(panel_of(values), 100)).any()
    values[100 - 72] = NAN  # and 2 are more
    assert is_incomplete(panel_of(values), *history_of(panel_of(values), 100)).all()


def test_locations_that_leave_no_window_are_named_with_a_remedy() -> None:
    values = np.ones((241, 5))
    values[1:, [1, 3]] = np.where(np.arange(240) % 50, NAN, 1)[:, None]  # hardly ever there
    values[:40, 4] = NAN
    panel = panel_of(values)
    ids = panel.locations.ids
    with pytest.raises(DataError, match="too little history observed") as caught:
        cut_windows(panel, Splits.by_share(panel), LAGS)
    worst = f"Missing most: {ids[1]} 98 %, {ids[3]} 98 %, {ids[4]} 17 %; leave those out"
    assert str(caught.value).endswith(worst)


def test_L3_locations_without_any_value_in_a_window_do_not_count_as_missing() -> None:
    values = np.ones((241, 5))
    values[:, [1, 3]] = NAN  # never there
    values[:40, 4] = NAN  # opens later
    windows = cut_windows(panel_of(values), Splits.by_share(panel_of(values)), LAGS)
    whole = cut_windows(panel_of(np.ones((241, 5))), Splits.by_share(panel_of(values)), LAGS)
    assert np.array_equal(windows.test, whole.test)
    values[150:, :] = NAN
    values[160:, 4] = 1.0
    history, origins = history_of(panel_of(values), 240)
    assert not is_incomplete(panel_of(values), history, origins).any()
    values[-1] = NAN
    assert is_incomplete(panel_of(values), history, origins).all()  # nobody is heard


def test_a_window_is_dropped_only_if_no_target_at_all_is_observed() -> None:
    values = np.ones((241, 13))
    values[200:203] = NAN
    values[201, 5] = 1.0
    panel = panel_of(values)
    splits = by_steps(panel, train=[(0, 120)], validation=[(121, 180)], test=[(181, 240)])
    assert 199 in cut_windows(panel, splits, LAGS).test
    values[201, 5] = NAN
    windows = cut_windows(panel_of(values), splits, LAGS)
    assert 199 not in windows.test
    assert windows.dropped["no target observed"] == 1


@pytest.mark.parametrize("local", [False, True])
def test_null_covariates_ahead_drop_the_windows_that_need_them(local: bool) -> None:
    world, own = numbers(241, 2), numbers(1, 241, 7)
    if local:
        own[0, 200, 6] = NAN
    else:
        world[200, 0] = NAN
    panel = panel_of(np.ones((241, 7)), world=world, own=own)
    splits = by_steps(panel, train=[(0, 120)], validation=[(121, 180)], test=[(181, 240)])
    windows = cut_windows(panel, splits, LAGS)
    assert windows.dropped["covariates ahead missing"] == 3
    assert set(range(180, 238)) - set(windows.test.tolist()) == {197, 198, 199}


def test_steps_that_an_origin_knows_nothing_of_drop_its_window() -> None:
    steps = np.arange(241)
    known = np.where(steps == 200, 198, steps - 5)  # the origins 197 and before know nothing
    vintages = sort_vintages(("c0",), steps, known, np.ones((241, 1), dtype=np.float32))
    panel = panel_of(np.ones((241, 7)), world=np.ones((241, 1)))
    (name,) = panel.covariates.names
    shared = replace(panel.covariates, vintages=replace(vintages, names=(name,)))
    splits = by_steps(panel, train=[(0, 120)], validation=[(121, 180)], test=[(181, 240)])
    windows = cut_windows(replace(panel, covariates=shared), splits, LAGS)
    assert windows.dropped["covariates ahead missing"] == 1
    assert set(range(180, 238)) - set(windows.test.tolist()) == {197}


# ------------------------------------------------------------------------ short panels (T15)


@pytest.mark.parametrize(
    ("zone", "start", "need"), [("UTC", "2015-10-20", 677), (NEW_YORK, "2015-10-20", 678)]
)
def test_T15_one_hour_short_of_a_window_is_refused_with_the_numbers(
    zone: str, start: str, need: int
) -> None:
    panel = panel_of(np.ones((need - 1, 1)), start, zone)
    with pytest.raises(DataError, match=f"need ≥ {need} steps for one window, have {need - 1}; a"):
        cut_windows(panel, Splits.by_share(panel), PAPER)
    panel = panel_of(np.ones((need, 1)), start, zone)
    with pytest.raises(DataError, match="no window left for"):  # there is one, but not for each
        cut_windows(panel, Splits.by_share(panel), PAPER)


def test_T15_exactly_enough_hours_give_one_window_to_each_split() -> None:
    ranges = {"train": [(0, 676)], "validation": [(677, 679)], "test": [(680, 682)]}
    panel = panel_of(np.ones((683, 1)))
    windows = cut_windows(panel, by_steps(panel, **ranges), PAPER)
    found = [windows.train.tolist(), windows.validation.tolist(), windows.test.tolist()]
    assert found == [[673], [676], [679]]
    short = panel_of(np.ones((682, 1)))
    with pytest.raises(DataError, match="no window left for test"):
        cut_windows(short, by_steps(panel, **ranges), PAPER)


def test_T15_an_origin_without_its_whole_history_is_refused_by_name() -> None:
    panel = panel_of(np.ones((701, 1)))
    steps = history_steps(panel, PAPER, np.array([700, 673]))
    assert steps.shape == (2, 76)
    assert steps.min(axis=1).tolist() == [27, 0]
    message = "need ≥ 674 steps of history up to 2013-01-28T23:00:00Z, have 672; use a later"
    with pytest.raises(DataError, match=message):
        history_steps(panel, PAPER, np.array([700, 671, 672]))


def test_history_is_oldest_first_and_ends_at_the_origin() -> None:
    panel = panel_of(np.ones((127, 1)))
    steps = history_steps(panel, LAGS, np.array([126, 80]))
    assert steps.tolist() == [sorted(t - lag for lag in LAG_HOURS) for t in (126, 80)]
    assert steps[:, -1].tolist() == [126, 80]


def test_no_origins_have_no_history() -> None:
    panel = panel_of(np.ones((3, 1)))
    assert history_steps(panel, LAGS, np.array([], dtype=np.int64)).shape == (0, 11)


def test_the_splits_of_a_recipe_are_its_ranges() -> None:
    panel = panel_of(np.zeros((24 * 29, 2)))
    config = SplitsConfig(
        train=(("2013-01-01", "2013-01-07"), ("2013-01-11", "2013-01-13")),
        validation=(("2013-01-08", "2013-01-10"),),
        test=(("2013-01-14", "2013-01-29"),),
    )
    splits = Splits.from_config(panel, config)
    days = [int(splits.mask(s, panel.clock, panel.times).sum()) // 24 for s in SPLITS]
    assert days == [10, 3, 16]


def test_a_recipe_without_ranges_splits_by_share() -> None:
    panel = panel_of(np.zeros((101, 2)))
    assert Splits.from_config(panel, SplitsConfig()) == Splits.by_share(panel)
