"""The oracle of the clock tests: Python's zoneinfo, one instant at a time (seconds since 1970)."""

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

DAY = 86400


@cache
def zone_of(name: str) -> ZoneInfo:
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def shown_at(name: str, instant: int) -> int:
    """Return what the clock of a zone shows at an instant."""
    local = datetime.fromtimestamp(instant, zone_of(name))
    return int(local.replace(tzinfo=UTC).timestamp())


def showings(name: str, local: int) -> list[int]:
    """Return the instants at which the clock of a zone shows a local time: none, one or two."""
    time = datetime.fromtimestamp(local, UTC).replace(tzinfo=zone_of(name))
    meant = {int(time.replace(fold=fold).timestamp()) for fold in (0, 1)}
    return sorted(instant for instant in meant if shown_at(name, instant) == local)


def first_past(name: str, local: int) -> int:
    """Return the first instant past a local time that the clock of a zone skips."""
    low, high = local - 2 * DAY, local + 2 * DAY  # no zone is two days off UTC
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown_at(name, middle) >= local else (middle, high)
    return high


@cache
def days_of_change(name: str, year: int) -> list[int]:
    """Return the days of a year on which a zone's clock changes, else its first day."""
    first = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    probes = range(first, first + 366 * DAY, DAY // 4)
    gained = [shown_at(name, instant) - instant for instant in probes]
    found = [k for k in range(len(probes) - 1) if gained[k] != gained[k + 1]]
    return [probes[k] // DAY * DAY for k in found] or [first]


@pytest.fixture(scope="session")
def oracle() -> SimpleNamespace:
    """Return the functions above."""
    return SimpleNamespace(
        shown_at=shown_at, showings=showings, first_past=first_past, days_of_change=days_of_change
    )
