"""The page shows the city's time, wherever the browser is."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.serve.page.stub import Stub
from tests.serve.page.town import make_town

pytestmark = pytest.mark.browser

ZONES = ["America/New_York", "Asia/Kolkata", "Pacific/Auckland"]


def open_place(tab: Callable[..., Any], zone: str) -> Any:
    page = tab(path="#L0003", ready="rect.observed", timezone_id=zone)
    page.check("#range input[value='72']", force=True)
    page.click("summary")
    page.wait_for_selector("details td")
    return page


@pytest.mark.parametrize(
    ("origin", "day", "bars", "twice"),
    [
        ("2014-11-03T14:00:00-05:00", "Sun 2 Nov", 25, ["01:00 UTC−4", "01:00 UTC−5"]),
        ("2014-03-10T14:00:00-04:00", "Sun 9 Mar", 23, ["01:00 UTC−5", "03:00 UTC−4"]),
    ],
)
def test_W4_the_day_of_a_clock_change_has_all_its_hours_in_every_zone(
    tab: Callable[..., Any], stub: Stub, origin: str, day: str, bars: int, twice: list[str]
) -> None:
    stub.show(make_town(23, origin))
    shown = []
    for zone in ZONES:
        page = open_place(tab, zone)
        times = page.locator("details td:first-child").all_text_contents()
        assert sum(time.startswith(day) for time in times) == bars
        assert {f"{day} {clock}" for clock in twice} <= set(times)
        assert f"{day} 02:00 UTC−4" not in times or bars == 25
        assert page.locator("rect.observed").count() == 72
        shown.append((times, page.text_content("#origin"), page.text_content("#time")))
    assert shown[0] == shown[1] == shown[2]


def test_W4_last_week_is_the_same_reading_of_the_clock(
    tab: Callable[..., Any], stub: Stub
) -> None:
    town = make_town(23, "2014-11-03T14:00:00-05:00")
    stub.show(town)
    page = open_place(tab, ZONES[1])
    said = page.locator(".week").first.get_attribute("aria-label")
    hours = [168 * week + 1 for week in (1, 2, 3, 4)]  # one more: New York fell back between
    values = [town.values[town.origin + 1 - hour, 2] for hour in hours]
    assert said.endswith("weeks before " + ", ".join(f"{value:.0f}" for value in values))


TIMES = {
    "2014-10-15T15:00:00-04:00": "Wed 15 Oct 15:00 UTC−4",
    "2014-12-31T23:30:00+05:30": "Wed 31 Dec 23:30 UTC+5:30",
    "2016-02-29T00:00:00+00:00": "Mon 29 Feb 00:00 UTC",
    "2016-02-29T00:00:00Z": "Mon 29 Feb 00:00 UTC",
}


def test_W4_times_are_read_as_they_are_written(tab: Callable[..., Any]) -> None:
    page = tab(timezone_id="Pacific/Auckland")
    read = "async (texts) => texts.map((await import('/page/format.js')).dateTimeText)"
    assert page.evaluate(read, list(TIMES)) == list(TIMES.values())
