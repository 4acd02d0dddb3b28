"""When the service is late, broken or away: old numbers are never shown as new."""

import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import pytest

from tests.serve.page.conftest import CURRENT, HASTE
from tests.serve.page.stub import Answer, Stub, problem
from tests.serve.page.town import Town

pytestmark = pytest.mark.browser

OLD = "body[data-state='outdated']"
NONE = "#banner:not([hidden])"
ONLINE = "dispatchEvent(new Event('online'))"  # the page asks at once when the network is back
IMPATIENT = """
  const wait = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (ms) => wait(document.body.dataset.impatient ? 100 : ms);
"""
PAUSES = """
  const later = setTimeout;
  window.pauses = [];
  window.setTimeout = (act, ms) => later(act, window.pauses.push(ms) < 3 ? 0 : ms);
"""  # the first pauses are remembered, not made
SEEN = """
  const tenth = setTimeout;
  window.setTimeout = (act, ms) =>
    tenth(() => {
      act();
      if (document.hidden) document.documentElement.dataset.due = "";
    }, ms);
"""  # tells that a question came due while nobody saw the page


TROUBLES = {
    "503": (
        lambda _: problem(503, "the queue is full", **{"Retry-After": "1"}),
        "the queue is full",
    ),
    "500 without words": (lambda _: Answer(b"oops", 500, "text/plain"), "answered 500"),
    "half sent": (
        lambda _: Answer({"steps": []}, headers={"Content-Length": "9999"}),
        "too long",
    ),
    "late": (lambda _: Answer({}, delay_seconds=30), "too long"),
    "cut off": (lambda _: Answer(b'{"steps": [', 200), "not JSON"),
    "HTML": (lambda _: Answer(b"<html>proxy login</html>", 200, "text/html"), "not JSON"),
    "NaN": (lambda _: Answer(b'{"steps": NaN}', 200), "not JSON"),
    "empty": (lambda _: Answer({}), "no usable steps"),
    "null": (lambda _: Answer(None), "no usable steps"),
    "a list": (lambda _: Answer([1, 2, 3]), "no usable steps"),
}


def test_W2_trouble_marks_the_forecast_as_old_until_it_is_over(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.town.age_seconds = 7_200
    page = tab(script=IMPATIENT)
    fine = stub.routes["/v1/forecast"]
    for trouble, (route, reason) in TROUBLES.items():
        stub.routes["/v1/forecast"] = route
        if reason == "too long":
            page.evaluate("document.body.dataset.impatient = 'yes'")
        page.evaluate(ONLINE)
        page.wait_for_selector(OLD)
        said = page.text_content("#problem")
        assert said.startswith("No current forecast, last from 14:00 (2 h old): "), trouble
        assert reason in said, trouble
        assert page.text_content("#age") == "outdated: from 14:00 (2 h old)", trouble
        grey = "nodes => nodes.every((node) => getComputedStyle(node).filter === 'grayscale(1)')"
        assert page.eval_on_selector_all("#totals, #rows, #dots", grey), trouble
        stub.routes["/v1/forecast"] = fine
        page.evaluate("delete document.body.dataset.impatient")
        page.click("#retry")
        page.wait_for_selector(CURRENT)
        assert page.is_hidden("#banner"), trouble


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": [{"ds": "tomorrow", "ds_local": "noon"}]},
        {"forecasts": [{"id": "L0001", "y_hat": ["12", "13", "14"]}]},
        {"forecasts": [{"id": "L0001", "y_hat": [1.0]}]},
        {"data_age_seconds": None},
        {"origin_local": "14:00"},
        {"origin": None},
    ],
)
def test_W2_half_an_answer_is_none(
    tab: Callable[..., Any], stub: Stub, changes: dict[str, Any]
) -> None:
    stub.routes["/v1/forecast"] = lambda _: Answer(stub.town.forecast() | changes)
    page = tab(ready=NONE)
    assert page.text_content("#problem").startswith("No forecast: the answer has no usable")
    assert page.text_content("#totals") == ""


def test_W2_a_service_that_was_never_there_is_said_to_be_away(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.routes["/v1/forecast"] = lambda _: problem(503, "the model is being loaded")
    page = tab(ready=NONE)
    said = "No forecast: the service answered 503: the model is being loaded."
    assert page.text_content("#problem") == said
    assert page.locator("#rows li").count() == 0


def test_W2_a_connection_that_breaks_is_said_to_be_away(tab: Callable[..., Any]) -> None:
    page = tab()
    page.route("**/v1/forecast?**", lambda route: route.abort("connectionrefused"))
    page.evaluate(ONLINE)
    page.wait_for_selector(OLD)
    assert "the service does not answer" in page.text_content("#problem")


def test_data_too_old_for_a_forecast_of_now_shows_the_last_possible_one(
    tab: Callable[..., Any], stub: Stub
) -> None:
    town = stub.town
    town.age_seconds, origin = 400 * 86_400, town.forecast()["origin"]

    def forecast(query: Mapping[str, str]) -> Answer:
        if query.get("at") == origin:
            return Answer(town.forecast())
        return problem(503, "no data in the last 24 steps", **{"X-Forecast-origin": origin})

    stub.routes["/v1/forecast"] = forecast
    page = tab(path="#L0003", ready=OLD)
    assert page.text_content("#problem") == (
        "No forecast of now: the data ends at Wed 15 Oct 2014 14:00 (400 days old). The forecast "
        "made from there is shown; newer observations bring a current one."
    )
    page.wait_for_selector("rect.observed")
    assert float(page.text_content("#figures .main dd")) == pytest.approx(
        town.forecast()["forecasts"][2]["y_hat"][0], abs=0.51
    )
    (asked,) = (query for path, query, _ in stub.asked if path == "/v1/history")
    assert asked["until"] == origin
    assert page.text_content("#scores") == "No accuracy of the last week: the data ends before it."
    assert stub.count("/v1/accuracy") == 0
    stub.routes["/v1/forecast"] = lambda _: Answer(town.forecast())  # observations have come
    town.age_seconds = 300
    page.evaluate(ONLINE)
    page.wait_for_selector(CURRENT)
    assert page.is_hidden("#banner")


def test_W2_stale_data_is_said_to_be_stale(tab: Callable[..., Any], town: Town) -> None:
    town.stale, town.age_seconds = True, 10_800
    town.degraded = "data: too few observations in the last 2 steps"
    page = tab(ready=OLD)
    assert page.text_content("#problem") == (
        "No current forecast, last from 14:00 (3 h old): no newer observations have arrived "
        "(data: too few observations in the last 2 steps)."
    )


def test_W2_a_degraded_forecast_is_shown_with_its_reason(
    tab: Callable[..., Any], town: Town
) -> None:
    town.degraded = "the weather forecast is missing"
    page = tab(ready="body[data-state='degraded']")
    assert "the weather forecast is missing" in page.text_content("#problem")
    assert page.is_hidden("#age")


def test_W2_a_computer_that_slept_calls_nothing_current(
    tab: Callable[..., Any], stub: Stub
) -> None:
    page = tab(script=HASTE)
    stub.routes["/v1/forecast"] = lambda _: Answer({}, delay_seconds=30)
    page.evaluate("const now = Date.now; Date.now = () => now() + 3_600_000")
    page.wait_for_selector(OLD)
    assert page.text_content("#problem") == (
        "No current forecast, last from 14:00 (65 min old): no response from the service since."
    )


def test_W2_pauses_double_with_jitter_and_heed_the_service(tab: Callable[..., Any]) -> None:
    page = tab()
    pauses = page.evaluate(
        """async () => {
          const { retryDelay } = await import("/page/data/polling.js");
          const after = (chance) => [1, 2, 3, 20].map((n) => retryDelay(n, 15, 0, () => chance));
          return [after(0), after(1), [retryDelay(1, 15, 120, () => 0)]];
        }"""
    )
    assert pauses == [[15, 30, 60, 150], [30, 60, 120, 300], [120]]


def test_W2_a_provisional_forecast_gives_way_to_the_final_one(
    tab: Callable[..., Any], stub: Stub
) -> None:
    final = stub.town.forecast()
    rows = [row | {"y_hat": [500.0] * 3} for row in final["forecasts"]]
    first = final | {"degraded": "intervals: not yet adjusted", "forecasts": rows}
    stub.routes["/v1/forecast"] = lambda _: Answer(first)
    page = tab(path="#L0003", ready="body[data-state='degraded']")
    assert page.text_content("#figures .main dd") == "500"
    stub.routes["/v1/forecast"] = lambda _: Answer(final)
    page.evaluate(ONLINE)
    page.wait_for_selector(CURRENT)
    shown = float(page.text_content("#figures .main dd"))
    assert shown == pytest.approx(final["forecasts"][2]["y_hat"][0], abs=0.51)


def test_W2_the_page_asks_as_often_as_the_service_says(
    tab: Callable[..., Any], stub: Stub
) -> None:
    fresh = {"Cache-Control": "max-age=7"}

    def first_only(_: Mapping[str, str]) -> Answer:
        again = stub.count("/v1/forecast") > 0  # "as it was" need not say it again
        return Answer(stub.town.forecast(), headers={} if again else fresh)

    stub.routes["/v1/forecast"] = first_only
    page = tab(script=PAUSES)
    while stub.count("/v1/forecast", 304) < 2:
        page.wait_for_timeout(10)
    page.evaluate("fetch('v1/locations')")
    pauses = page.evaluate("window.pauses")
    assert len(pauses) >= 2
    assert all(6_300 <= pause <= 7_700 for pause in pauses)


def test_W3_the_last_of_quick_clicks_wins(tab: Callable[..., Any], stub: Stub) -> None:
    slow, quick = stub.town.ids[2], stub.town.ids[3]
    history, released = stub.routes["/v1/history"], threading.Event()

    def slow_first(query: Mapping[str, str]) -> Answer:
        if query["location"] == slow:
            released.wait(15)
        return history(query)

    stub.routes["/v1/history"] = slow_first
    page = tab()
    page.fill("#query", slow)
    page.locator("#rows li").first.click()
    page.fill("#query", quick)
    with page.expect_event("requestfailed", lambda asked: f"location={slow}" in asked.url):
        page.locator("#rows li").first.click()  # ends the first transfer
    page.click("summary")
    page.wait_for_selector("details td")
    released.set()
    while stub.count("/v1/history") < 2:
        page.wait_for_timeout(10)
    page.evaluate("fetch('v1/locations')")  # what was sent before this has come
    assert page.text_content("#location-id") == quick
    last = stub.town.values[stub.town.origin, 3]
    row = page.locator("details tr", has_text="Wed 15 Oct 14:00")
    assert float(row.locator("td").nth(1).text_content()) == pytest.approx(last, abs=0.51)


def test_W3_one_places_numbers_never_stand_under_anothers_name(
    tab: Callable[..., Any], stub: Stub
) -> None:
    released = threading.Event()
    stub.routes["/v1/explanation"] = lambda query: Answer(stub.town.explanation(query))
    page = tab(path="#L0003")
    page.click("summary")
    page.wait_for_selector("details td")
    page.wait_for_selector("#explanation .apart")

    def late(_: Mapping[str, str]) -> Answer:
        released.wait(15)
        return problem(503, "busy")

    stub.routes["/v1/history"] = stub.routes["/v1/explanation"] = late
    page.click("#back")
    page.locator("#rows li", has_text=stub.town.names[3]).first.click()
    page.wait_for_selector("#table div.waiting", state="attached")
    assert page.text_content("#location-id") == "L0004"
    left = "#chart rect, #table td, #weeks .week, #explanation *"
    assert page.locator(left).count() == 0
    page.check("#range input[value='72']", force=True)  # draws what is there
    assert page.locator(left).count() == 0
    released.set()
    page.locator("#chart", has_text="Not available: the service answered 503: busy.").wait_for()
    assert page.locator("#table td, #weeks .week").count() == 0
    assert page.locator("#chart.waiting, #weeks.waiting, #table .waiting").count() == 0


def test_W3_a_history_that_fails_takes_the_older_one_away(
    tab: Callable[..., Any], stub: Stub
) -> None:
    page = tab(path="#L0003")
    page.click("summary")
    page.wait_for_selector("details td")
    stub.routes["/v1/history"] = lambda _: problem(503, "busy")
    stub.town.data_version += 1
    page.evaluate(ONLINE)
    page.locator("#chart", has_text="Not available").wait_for()
    assert page.locator("#table td, #weeks .week").count() == 0
    assert page.locator("#chart.waiting, #weeks.waiting, #table .waiting").count() == 0


def test_W3_reasons_and_the_file_are_of_the_forecast_shown(
    tab: Callable[..., Any], stub: Stub
) -> None:
    origin = stub.town.forecast()["origin"]
    page = tab(path="#L0003")
    page.locator("#explanation", has_text="Not available").wait_for()
    asked = [query for path, query, _ in stub.asked if path == "/v1/explanation"]
    assert asked == [{"location": "L0003", "at": origin}]
    with page.expect_request("**/v1/forecast?*") as file:
        page.evaluate("fetch(document.getElementById('csv').href)")
    assert file.value.url.endswith("?format=csv&at=" + origin.replace(":", "%3A"))


def test_W7_many_tabs_ask_once_per_interval_and_get_304(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.hurry()
    tabs = [tab(script=HASTE, ready="#scores dd") for _ in range(3)]
    stub.asked.clear()
    began = monotonic()
    while len(stub.asked) < 12:
        tabs[0].wait_for_timeout(10)
    most = (monotonic() - began) / 0.09 + 1  # polls of one tab: one every 0.09 … 0.11 s
    assert stub.count("/v1/forecast", 304) <= 3 * most
    assert stub.count("/v1/forecast", 200) == 0
    assert stub.count("/v1/locations") == stub.count("/v1/accuracy") == 0


def test_W7_a_hidden_tab_asks_nothing_until_it_is_seen(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.hurry()
    page = tab(script=HASTE + SEEN)
    asked: list[str] = []
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_selector("html[data-due]")
    page.evaluate("fetch('v1/locations')")
    assert asked == [stub.url + "v1/locations"]
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false})")
    with page.expect_response("**/v1/forecast?**") as answer:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert answer.value.status == 304
