import json
from collections.abc import Callable, Iterable
from datetime import date
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from forecaster.clock import holidays as module
from forecaster.clock.holidays import Holidays, expand_holidays
from forecaster.errors import ConfigError, DataError

FOURTH = Holidays("US", 2014, 2016, ("2014-07-04", "2015-07-04", "2016-07-04"))


def local(*texts: str) -> np.ndarray:
    return np.array(texts, dtype="datetime64[s]")


def use_library(monkeypatch: pytest.MonkeyPatch, country_holidays: Callable[..., Any]) -> None:
    """Put another library in the place of `holidays`."""
    library = SimpleNamespace(
        list_supported_countries=lambda: {"US": ["NY"]}, country_holidays=country_holidays
    )
    monkeypatch.setattr(module, "need_extra", lambda _module, extra: library if extra else None)


def test_a_holiday_lasts_its_local_day() -> None:
    found = FOURTH.falls_on(
        local("2014-07-03T23:59:59", "2014-07-04T00:00", "2014-07-04T23:59:59", "2014-07-05T00:00")
    )
    assert found.tolist() == [False, True, True, False]


def test_a_holiday_belongs_to_its_year() -> None:
    once = Holidays("XX", 2014, 2016, ("2015-06-19",))
    found = once.falls_on(local("2014-06-19T12", "2015-06-19T12", "2016-06-19T12"))
    assert found.tolist() == [False, True, False]


def test_a_table_without_dates_knows_no_holiday() -> None:
    assert not Holidays("XX", 2015, 2015, ()).falls_on(local("2015-12-25T12")).any()


@pytest.mark.parametrize("time", ["2013-12-31T23:59:59", "2017-01-01T00:00"])
def test_I22_a_time_outside_the_table_is_an_error(time: str) -> None:
    with pytest.raises(DataError, match=f"no holiday table for {time[:4]}; US is known for") as e:
        FOURTH.falls_on(local("2015-07-04T12", time))
    assert "2014…2016" in str(e.value)
    assert e.value.exit_code == 3


@pytest.mark.parametrize("time", ["2014-01-01T00:00", "2016-12-31T23:59:59"])
def test_the_first_and_the_last_year_are_in_the_table(time: str) -> None:
    assert FOURTH.falls_on(local(time)).tolist() == [False]


def test_every_missing_year_is_named() -> None:
    with pytest.raises(DataError, match="no holiday table for 1969, 2017, 2019;"):
        FOURTH.falls_on(local("2019-01-01", "1969-07-20", "2015-01-01", "2017-01-01"))


def test_I22_a_year_missing_from_the_calendar_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_2016(_code: str, subdiv: str | None, years: Iterable[int]) -> list[date]:
        assert subdiv is None
        return [date(year, 7, 4) for year in years if year != 2016]

    use_library(monkeypatch, without_2016)
    with pytest.raises(DataError, match=r"no holiday table of US for 2016; leave it out$") as e:
        expand_holidays("US", 2014, 2016)
    assert e.value.exit_code == 3
    ahead = expand_holidays("US", 2014, 2015)  # the data do not reach the lacking year
    assert (ahead.last_year, ahead.dates[-1]) == (2015, "2015-07-04")
    with pytest.raises(DataError, match="no holiday table for 2016"):
        ahead.falls_on(local("2016-01-01"))


def test_days_outside_the_span_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_eves(_code: str, subdiv: str | None, years: Iterable[int]) -> list[date]:
        assert subdiv == "NY"
        days = [(date(year - 1, 12, 31), date(year, 1, 1)) for year in years]
        return [day for pair in days for day in pair]

    use_library(monkeypatch, with_eves)
    dates = expand_holidays("US-NY", 2014, 2015).dates
    assert dates[:2] == ("2014-01-01", "2014-12-31")


def test_holidays_are_recorded_ten_years_past_the_data() -> None:
    found = expand_holidays("US", first_year=2009, last_data_year=2016)
    assert (found.country, found.first_year, found.last_year) == ("US", 2009, 2026)
    assert {int(day[:4]) for day in found.dates} == set(range(2009, 2027))


def test_recorded_dates_are_sorted_and_single() -> None:
    dates = expand_holidays("US-NY", 2009, 2016).dates
    assert list(dates) == sorted(set(dates))


def test_the_holidays_of_the_united_states_are_the_federal_ones() -> None:
    dates = expand_holidays("US", 2015, 2015).dates
    assert [day for day in dates if day < "2016"] == [  # 5 U.S.C. § 6103; July 4 was a Saturday
        "2015-01-01",
        "2015-01-19",
        "2015-02-16",
        "2015-05-25",
        "2015-07-03",
        "2015-07-04",
        "2015-09-07",
        "2015-10-12",
        "2015-11-11",
        "2015-11-26",
        "2015-12-25",
    ]


def test_a_part_of_a_country_has_its_own_holidays() -> None:
    state, country = expand_holidays("US-NY", 2015, 2015), expand_holidays("US", 2015, 2015)
    assert state.country == "US-NY"
    assert "2015-02-12" in set(state.dates) - set(country.dates)  # Lincoln's birthday
    assert set(country.dates) < set(state.dates)


@pytest.mark.parametrize("country", ["US", "US-NY", "AU", "IN", "GB"])
def test_a_year_has_the_same_holidays_in_any_span(country: str) -> None:
    wide, narrow = expand_holidays(country, 2009, 2022), expand_holidays(country, 2011, 2011)
    shared = [day for day in wide.dates if "2011" <= day < "2022"]
    assert list(narrow.dates) == shared


@pytest.mark.parametrize(
    ("country", "remedy"),
    [
        ("us", "did you mean 'US'?"),
        ("USS", "did you mean 'US'?"),
        ("Atlantis", "give a code such as US or US-NY"),
        ("", "give a code such as US or US-NY"),
    ],
)
def test_an_unknown_country_is_refused_with_a_remedy(country: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as e:
        expand_holidays(country, 2015, 2015)
    assert str(e.value) == f"country {country!r} has no holiday calendar; {remedy}"


def test_an_unknown_part_is_refused_with_the_known_parts() -> None:
    with pytest.raises(ConfigError, match=r"'US-ZZ' has no .*; parts of US: AK, AL, .*, WY$"):
        expand_holidays("US-ZZ", 2015, 2015)


def test_holidays_read_back_from_a_manifest_are_the_same() -> None:
    found = expand_holidays("US-NY", 2015, 2015)
    assert Holidays.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_manifest_names_its_holidays_by_plain_keys() -> None:
    assert FOURTH.to_json() == {
        "country": "US",
        "first_year": 2014,
        "last_year": 2016,
        "dates": ["2014-07-04", "2015-07-04", "2016-07-04"],
    }
