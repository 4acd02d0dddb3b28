import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import DataError, Faults
from forecaster.panel.parts import (
    MAX_NAME_LENGTH,
    RESERVED,
    Covariates,
    LocalCovariates,
    Locations,
    check_names,
    read_only,
    stack_layers,
)


def at(lat: list[float], lon: list[float]) -> Locations:
    ids = tuple(f"p{number}" for number in range(len(lat)))
    return Locations(ids, ids, np.array(lat), np.array(lon))


def faults_of(*names: str) -> list[str]:
    faults = Faults("names")
    check_names(names, "id", faults)
    return faults.messages


def test_locations_of_ids_have_a_name_but_no_place() -> None:
    places = Locations.of_ids(["b", "a"])
    assert (places.ids, places.names, len(places)) == (("b", "a"), ("b", "a"), 2)
    assert not places.placed.any()


def test_a_location_is_placed_only_where_both_coordinates_are_known() -> None:
    places = at([40.7, 40.7, np.nan], [-74.0, np.nan, -74.0])
    assert places.placed.tolist() == [True, False, False]


def test_coordinates_may_lie_on_the_poles_and_the_date_line() -> None:
    assert at([90.0, -90.0], [180.0, -180.0]).placed.all()


def test_swapped_coordinates_are_refused_with_a_hint() -> None:
    with pytest.raises(
        DataError, match=r"2 locations with lat beyond ±90°: p0 -91\.5, p2 inf; check"
    ):
        at([-91.5, 40.0, np.inf], [0.0, 0.0, 0.0])


def test_all_faults_of_a_location_table_are_named_at_once() -> None:
    with pytest.raises(DataError) as caught:
        Locations(("a", "a", "y"), ("", "", ""), np.full(3, 95.0), np.full(3, 190.0))
    text = str(caught.value)
    assert "locations: 4 faults" in text
    assert "1 location id given twice: a" in text
    assert "location id y: reserved" in text
    assert "3 locations with lat beyond ±90°" in text
    assert "3 locations with lon beyond ±180°" in text


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_name_of_our_own_columns_is_reserved(name: str) -> None:
    assert faults_of("a", name) == [f"id {name}: reserved column names; rename them"]


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a\n", "a\tb", "a\0b", "\x85", "\ud800", "x" * (MAX_NAME_LENGTH + 1)]
)
def test_a_name_that_cannot_be_printed_is_refused(name: str) -> None:
    assert len(faults_of("a", name)) == 1
    assert repr(name)[:200] in faults_of("a", name)[0]


@pytest.mark.parametrize(
    "name",
    ["=cmd()", "<script>", "5 Ave & 42 St", "🚕", 'a"b', "a,b", "..", "x" * MAX_NAME_LENGTH],
)
def test_I23_a_name_that_can_be_printed_is_allowed(name: str) -> None:
    assert faults_of("a", name) == []


def test_I23_doubled_ids_are_counted_and_the_first_few_named() -> None:
    doubled = [str(number) for number in range(7)]
    [fault] = faults_of(*doubled, "x", *doubled)
    assert fault == "7 ids given twice: 0, 1, 2, 3, 4, …"


@given(st.lists(st.text(max_size=7), max_size=5))
def test_names_that_pass_are_unique_and_fit_into_any_file(names: list[str]) -> None:
    if faults_of(*names):
        return
    assert len(set(names)) == len(names)
    for name in names:
        assert name.encode().decode() == name
        assert len(name.splitlines()) == 1 or "\u2028" in name or "\u2029" in name
        assert "\0" not in name
        assert name not in RESERVED


def test_locations_are_taken_in_the_order_asked_for() -> None:
    places = Locations(
        ("a", "b", "c"), ("A", "B", "C"), np.arange(3.0), np.arange(3.0) + 5, {"zone": (7, 8, 9)}
    ).take([2, 0])
    assert (places.ids, places.names) == (("c", "a"), ("C", "A"))
    assert (places.lat.tolist(), places.lon.tolist()) == ([2.0, 0.0], [7.0, 5.0])
    assert places.extra == {"zone": (9, 7)}


def test_parts_cannot_be_written_to_but_the_callers_array_can() -> None:
    mine = np.zeros((5, 2), np.float32)
    part = Covariates(("a", "b"), mine)
    with pytest.raises(ValueError, match="read-only"):
        part.values[0, 0] = 1.0
    mine[0, 0] = 1.0
    assert not read_only(mine).flags.writeable


def test_layers_stack_in_their_order() -> None:
    first, second = np.zeros((5, 3), np.float32), np.ones((5, 3), np.float32)
    stacked = stack_layers([first, second], 5, 3)
    assert stacked.shape == (2, 5, 3)
    assert stacked[:, 0, 0].tolist() == [0.0, 1.0]


def test_no_layers_still_have_a_shape() -> None:
    assert stack_layers([], 5, 3).shape == (0, 5, 3)


def test_covariates_may_be_missing() -> None:
    assert np.isnan(Covariates(("wind",), np.full((5, 1), np.nan, np.float32)).values).all()


def test_infinite_covariates_are_counted_and_refused() -> None:
    values = np.array([[1.0, np.inf], [-np.inf, 2.0]], np.float32)
    with pytest.raises(DataError, match="covariates: 1 fault\n  2 infinite values; use null"):
        Covariates(("a", "b"), values)
    with pytest.raises(DataError, match="local covariates: 1 fault\n  2 infinite values"):
        LocalCovariates(("a",), values[None])


def test_covariate_names_follow_the_rule_of_ids() -> None:
    with pytest.raises(DataError, match="1 covariate given twice: a"):
        Covariates(("a", "a"), np.zeros((2, 2), np.float32))
    with pytest.raises(DataError, match="covariate y: reserved"):
        LocalCovariates(("y",), np.zeros((1, 2, 3), np.float32))


def test_I23_a_name_may_not_command_a_terminal() -> None:
    with pytest.raises(DataError, match=r"1 name with control characters: 'x\\x1b\]0;pwned'"):
        Locations(("a",), ("x\x1b]0;pwned",), np.array([1.0]), np.array([2.0]))


def test_empty_covariates_have_the_shape_of_their_panel() -> None:
    assert Covariates.empty(5).values.shape == (5, 0)
    assert LocalCovariates.empty(5, 3).values.shape == (0, 5, 3)


def dated(opens: list[str | None], closes: list[str | None]) -> Locations:
    ids = tuple("abc"[: len(opens)])
    nowhere = np.full(len(ids), np.nan)
    dates = (np.array([d or "NaT" for d in days], "datetime64[s]") for days in (opens, closes))
    opens_at, closes_at = dates
    return Locations(ids, ids, nowhere, nowhere, {}, opens_at, closes_at)


def test_a_location_is_open_from_its_first_moment_up_to_its_last() -> None:
    locations = dated(["2020-01-02", None, None], [None, "2020-01-03", None])
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[s]")
    expected = [[False, True, True], [True, True, True], [True, False, True]]
    assert locations.dated
    assert locations.alive(days).tolist() == expected


def test_locations_keep_their_dates_in_another_order() -> None:
    locations = dated(["2020-01-02", None, None], [None, "2020-01-03", None]).take([2, 1, 0])
    assert np.isnat(locations.opens).tolist() == [True, True, False]
    assert locations.closes[1] == np.datetime64("2020-01-03", "s")
    assert not Locations.of_ids("ab").dated


def test_a_location_that_closes_before_it_opens_is_refused() -> None:
    with pytest.raises(DataError, match=r"closes before it opens: a 2020-01-02"):
        dated(["2020-01-02"], ["2020-01-02"])


@pytest.mark.parametrize(
    "name", ["\u200b", "a\u200bb", "a\u202eb", "\u2066a", "a\ufe0f", "\ufeffa"]
)
def test_A7_an_id_of_hidden_characters_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"1 location id not usable: '.*\\u"):
        Locations.of_ids([name, "b"])


def test_A4_a_long_id_or_name_is_refused_in_a_short_message() -> None:
    nowhere = np.full(1, np.nan)
    for ids, names in ((("x" * 10**7,), ("x",)), (("x",), ("x" * 10**7,))):
        with pytest.raises(DataError, match="10,000,000 characters") as refusal:
            Locations(ids, names, nowhere, nowhere)
        assert len(str(refusal.value)) < 1_000
