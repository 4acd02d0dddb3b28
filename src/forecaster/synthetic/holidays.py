"""United States federal holidays, computed from their rules."""

from datetime import date, timedelta

from forecaster.clock.holidays import YEARS_AHEAD, Holidays

_MONDAY, _THURSDAY, _SATURDAY, _SUNDAY = 0, 3, 5, 6
_FIXED = ((1, 1), (7, 4), (11, 11), (12, 25))  # month and day
_MOVING = (  # month, weekday, which one; the last is -1
    (1, _MONDAY, 3),
    (2, _MONDAY, 3),
    (5, _MONDAY, -1),
    (9, _MONDAY, 1),
    (10, _MONDAY, 2),
    (11, _THURSDAY, 4),
)
_JUNETEENTH_SINCE = 2021


def federal_holidays(first_year: int, last_data_year: int) -> Holidays:
    """Return the federal holidays and their observed days, until ten years after the data."""
    last_year = last_data_year + YEARS_AHEAD
    years = range(first_year, last_year + 1)
    # A New Year's Day on a Saturday is observed on the last day of the year before.
    days = {day for year in range(first_year, last_year + 2) for day in _days_of(year)}
    return Holidays(
        country="US",
        first_year=first_year,
        last_year=last_year,
        dates=tuple(sorted(day.isoformat() for day in days if day.year in years)),
    )


def _days_of(year: int) -> list[date]:
    fixed = [date(year, month, day) for month, day in _FIXED]
    if year >= _JUNETEENTH_SINCE:
        fixed.append(date(year, 6, 19))
    moving = [_nth_weekday(year, *rule) for rule in _MOVING]
    return [*fixed, *map(_observed, fixed), *moving]


def _observed(day: date) -> date:
    shift = {_SATURDAY: -1, _SUNDAY: 1}.get(day.weekday(), 0)
    return day + timedelta(days=shift)


def _nth_weekday(year: int, month: int, weekday: int, which: int) -> date:
    first = date(year, month, 1)
    day = first + timedelta(days=(weekday - first.weekday()) % 7)
    if which > 0:
        return day + timedelta(weeks=which - 1)
    fifth = day + timedelta(weeks=4)
    return fifth if fifth.month == month else day + timedelta(weeks=3)
