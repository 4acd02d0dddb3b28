import numpy as np
import pytest

from forecaster.synthetic.holidays import federal_holidays


def test_a_year_has_the_holidays_of_its_calendar():
    table = federal_holidays(2014, 2014)
    # Golden: Office of Personnel Management, federal holidays of 2014.
    assert [day for day in table.dates if day.startswith("2014")] == [
        "2014-01-01", "2014-01-20", "2014-02-17", "2014-05-26", "2014-07-04",
        "2014-09-01", "2014-10-13", "2014-11-11", "2014-11-27", "2014-12-25",
    ]  # fmt: skip


def test_holidays_reach_ten_years_ahead():
    table = federal_holidays(2009, 2016)
    assert (table.country, table.first_year, table.last_year) == ("US", 2009, 2026)
    assert table.dates[0] == "2009-01-01"
    assert table.dates[-1] == "2026-12-25"
    assert list(table.dates) == sorted(set(table.dates))


def test_weekend_holidays_are_observed_on_the_nearest_workday():
    falls_on = federal_holidays(2009, 2016).falls_on
    days = np.array(["2010-07-05", "2010-12-24", "2010-12-31"], dtype="datetime64[s]")
    assert falls_on(days).all()  # Sunday 4 July; Saturdays 25 December and 1 January


def test_juneteenth_is_a_holiday_since_2021():
    dates = federal_holidays(2019, 2019).dates
    assert "2020-06-19" not in dates
    assert {"2021-06-18", "2021-06-19", "2022-06-20"} <= set(dates)


def test_the_calendar_library_agrees():
    library = pytest.importorskip("holidays")
    table = federal_holidays(1987, 2040)
    known = library.country_holidays("US", years=range(1987, 2051))
    assert list(table.dates) == sorted(day.isoformat() for day in known if day.year >= 1987)
