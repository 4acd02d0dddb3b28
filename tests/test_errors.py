from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import (
    ArtifactError,
    ConfigError,
    DataError,
    Faults,
    ForecasterError,
    RunError,
    count_of,
    message_lines,
    name_some,
    naming_options,
    nearest_name,
    need_extra,
    printable,
    setting,
    visible,
)


@pytest.mark.parametrize(
    ("error", "code"), [(ConfigError, 2), (DataError, 3), (ArtifactError, 4), (RunError, 5)]
)
def test_each_error_has_the_exit_code_of_the_design(
    error: type[ForecasterError], code: int
) -> None:
    assert error("text").exit_code == code


@pytest.mark.parametrize("error", [ConfigError, DataError, ArtifactError, RunError])
def test_every_typed_error_is_caught_as_one_kind(error: type[ForecasterError]) -> None:
    with pytest.raises(ForecasterError, match=r"^what came$"):
        raise error("what came")


def test_an_error_without_a_kind_counts_as_a_failed_run() -> None:
    assert ForecasterError("text").exit_code == 5


def test_faults_are_listed_together_in_the_order_found() -> None:
    faults = Faults("trips.csv")
    for fault in ("row 41: no time", "column 'lat' is missing", "row 43: no time"):
        faults.add(fault)
    with pytest.raises(DataError) as caught:
        faults.raise_any(DataError)
    assert str(caught.value) == (
        "trips.csv: 3 faults\n  row 41: no time\n  column 'lat' is missing\n  row 43: no time"
    )


def test_one_fault_is_not_called_faults() -> None:
    faults = Faults("trips.csv", ["row 41: no time"])
    with pytest.raises(ArtifactError) as caught:
        faults.raise_any(ArtifactError)
    assert str(caught.value) == "trips.csv: 1 fault\n  row 41: no time"


def test_nothing_is_raised_without_a_fault() -> None:
    faults = Faults("trips.csv")
    faults.raise_any(DataError)
    assert not faults.messages


def test_two_inputs_do_not_share_their_faults() -> None:
    Faults("a.csv").add("row 1: no time")
    assert Faults("b.csv").messages == []


def test_some_names_end_in_a_mark_where_others_were_left_out() -> None:
    assert name_some(["a", "b", "c", "d"], limit=3) == "a, b, c, …"


def test_all_names_are_given_up_to_the_limit() -> None:
    assert name_some(["a", "b", "c"], limit=3) == "a, b, c"


def test_five_names_are_given_unless_told_otherwise() -> None:
    assert name_some(range(7)) == "0, 1, 2, 3, 4, …"


def test_no_names_give_an_empty_text() -> None:
    assert name_some([]) == ""


def test_naming_some_of_many_reads_no_further_than_needed() -> None:
    assert name_some(count(11), limit=2) == "11, 12, …"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 hours"), (1, "1 hour"), (2, "2 hours"), (1234, "1,234 hours")],
)
def test_a_count_agrees_with_its_noun(number: int, text: str) -> None:
    assert count_of(number, "hour") == text


def test_a_wrong_name_gets_the_nearest_known_one() -> None:
    known = ["panel", "lags", "metrics"]
    assert nearest_name("metric", known) == "; did you mean 'metrics'?"


def test_a_name_like_no_other_gets_no_hint() -> None:
    assert nearest_name("xyzzy", ["panel", "lags", "metrics"]) == ""


def test_an_installed_extra_is_returned_as_its_module() -> None:
    assert need_extra("json", extra="ingest").loads("[7]") == [7]


def test_a_missing_extra_is_named_in_one_line() -> None:
    with pytest.raises(ConfigError) as caught:
        need_extra("no_such_module", extra="ingest")
    assert str(caught.value) == (
        "this needs no_such_module, which is not installed: pip install 'forecaster[ingest]'"
    )


HOSTILE = (
    "\x1b[31mred", "\x07", "\x9b2J", "\u202ecod.exe", "\u2066\u2069", "a\u200bb", "\ufeffid",
    "\u00ad", "\ud800", "\u2028next", "\u3164", "a\ufe0f", "é\u200d\u200d", "\U000e0041",
    "\r\nOK", "\0",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_A2_a_text_from_outside_shows_every_character(text: str) -> None:
    shown = printable(text)
    assert visible(shown) == shown
    assert "\n" not in shown
    assert shown.encode()  # can be written
    assert "\\" in shown


@given(st.text())
def test_A2_every_error_is_free_of_hidden_characters(text: str) -> None:
    faults = Faults(text)
    faults.add(text)
    with pytest.raises(DataError) as caught:
        faults.raise_any(DataError)
    told = f"{caught.value}{ConfigError(text)}{name_some([text])}"
    assert visible(told) == told


@pytest.mark.parametrize(
    "text", ["Neubau, Straße 3", "東京 駅", "a\u00a0b\u202fc", "Ω ≤ 3 – ×", "🚕🏳️‍🌈", "می‌خواهم"]
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == visible(text) == message_lines(text) == text


def test_A4_a_long_text_is_cut_and_says_so() -> None:
    assert printable("x" * 300) == "x" * 300
    assert printable("x" * 10**6) == "x" * 300 + "… (1,000,000 characters)"
    told = message_lines("line\n" * 10**5 + "x" * 10**6)
    assert len(told) < 10_000
    assert told.endswith("… (100,001 lines)")
    assert len(str(DataError("x" * 10**6))) < 3_000


def test_a_setting_is_quoted_for_a_shell_on_the_command_line() -> None:
    assert setting("columns", "value=Sum of Units") == 'columns="value=Sum of Units"'
    with naming_options():
        assert setting("columns", "value=Sum of Units") == "--columns 'value=Sum of Units'"
        assert setting("past_only", "a") == "--past-only a"
        assert setting("columns", "time=a b,id=…") == "--columns time=a b,id=…"
