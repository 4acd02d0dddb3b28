import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import DataError, RunError
from forecaster.ingest.demand.row_counts import FAULTY, REASONS, RowCounts

Batch = tuple[str, int, tuple[str, ...]]
BATCHES = st.lists(
    st.tuples(
        st.sampled_from(REASONS),
        st.integers(0, 10**12),
        st.lists(st.text("abc", max_size=3), max_size=5).map(tuple),
    ),
    max_size=11,
)


def fill(batches: list[Batch], counted: int = 0) -> RowCounts:
    """Return the counts of batches in which every row is accounted for."""
    row_counts = RowCounts(counted=counted)
    for reason, count, examples in batches:
        row_counts.reject(reason, count, examples)
    row_counts.rows_in = counted + sum(count for _, count, _ in batches)
    return row_counts


# ------------------------------------------------------------------------------ conservation


@given(BATCHES, st.integers(0, 10**12))
def test_I1_every_row_is_counted_or_rejected_for_a_reason(
    batches: list[Batch], counted: int
) -> None:
    row_counts = fill(batches, counted)
    row_counts.check_balance()
    found = row_counts.to_json()
    assert found["rows_in"] == found["counted"] + sum(found["rejected"].values())
    for reason in REASONS:
        assert found["rejected"][reason] == sum(n for r, n, _ in batches if r == reason)


@given(BATCHES, st.integers(0, 10**12), st.integers(-(10**9), 10**9).filter(bool))
def test_I1_a_single_row_lost_or_doubled_stops_everything(
    batches: list[Batch], counted: int, lost: int
) -> None:
    row_counts = fill(batches, counted)
    row_counts.rows_in += lost
    with pytest.raises(RunError, match=rf"^{lost:,} of .* rows are unaccounted for; nothing"):
        row_counts.check_balance()


def test_I1_every_reason_is_recorded_even_if_nothing_was_rejected() -> None:
    assert RowCounts().to_json() == {
        "rows_in": 0,
        "counted": 0,
        "rejected": dict.fromkeys(sorted(REASONS), 0),
        "examples": {},
    }


def test_I1_a_reason_of_another_kind_counts_too() -> None:
    row_counts = RowCounts(rows_in=7, counted=4)
    row_counts.reject("struck_by_lightning", 3)
    row_counts.check_balance()
    assert row_counts.to_json()["rejected"]["struck_by_lightning"] == 3


# ------------------------------------------------------------------------ how many are faulty


@pytest.mark.parametrize("reason", FAULTY)
def test_I1_faulty_rows_are_accepted_up_to_the_share_that_was_allowed(reason: str) -> None:
    at_limit = fill([(reason, 5, ("25:61",))], counted=95)
    at_limit.check_faulty(max_reject=0.05)
    over = fill([(reason, 6, ("25:61", "x"))], counted=94)
    with pytest.raises(DataError) as caught:
        over.check_faulty(max_reject=0.05)
    assert str(caught.value) == (
        f"6.00 % of 100 rows are faulty ({reason} 6), at most 5 % are allowed; e.g. 25:61; x"
    )
    assert caught.value.exit_code == 3


def test_I1_all_kinds_of_faulty_rows_are_summed_and_named() -> None:
    row_counts = fill([("malformed", 1_000, ("a",)), ("non_finite", 2, ("b",))], counted=1_000)
    with pytest.raises(DataError, match=r"50\.05 % of 2,002 rows .*malformed 1,000, non_finite 2"):
        row_counts.check_faulty(max_reject=0.5)


@given(st.sampled_from([r for r in REASONS if r not in FAULTY]), st.integers(1, 10**9))
def test_I1_rows_from_elsewhere_are_not_faulty(reason: str, count: int) -> None:
    fill([(reason, count, ())]).check_faulty(max_reject=0.0)


def test_an_empty_ledger_is_in_order() -> None:
    RowCounts().check_faulty(max_reject=0.0)
    RowCounts().check_balance()


# ---------------------------------------------------------------------------------- examples


@given(BATCHES, st.randoms(use_true_random=False))
def test_I12_the_order_of_files_does_not_change_the_ledger(
    batches: list[Batch], random: Random
) -> None:
    shuffled = random.sample(batches, len(batches))
    assert fill(shuffled).to_json() == fill(batches).to_json()


@given(BATCHES)
def test_I12_how_rows_are_batched_does_not_change_the_ledger(batches: list[Batch]) -> None:
    singly = [(r, 0, (text,)) for r, _, texts in batches for text in texts]
    counts = [(r, count, ()) for r, count, _ in batches]
    assert fill([*counts, *singly]).to_json() == fill(batches).to_json()


@given(BATCHES)
def test_examples_are_the_first_and_the_last_that_were_seen(batches: list[Batch]) -> None:
    row_counts = fill(batches)
    for reason, texts in row_counts.examples.items():
        seen = {text for r, _, examples in batches if r == reason for text in examples}
        assert texts == {*sorted(seen)[:1], *sorted(seen)[-1:]}


def test_what_the_panel_records_is_json() -> None:
    found = fill([("bad_timestamp", 2, ("b", "a")), ("too_far", 3, ())], counted=5).to_json()
    assert json.loads(json.dumps(found)) == found
    assert found["examples"] == {"bad_timestamp": ["a", "b"]}
    assert list(found["rejected"]) == sorted(REASONS)


def test_one_ledger_knows_nothing_of_another() -> None:
    fill([("too_far", 3, ("a",))])
    assert RowCounts().rejected["too_far"] == 0
    assert RowCounts().examples == {}
