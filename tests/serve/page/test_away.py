"""When the service is late, broken or away: old numbers are never shown as new."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from tests.serve.page.stub import Answer, Stub, problem
from tests.serve.page.town import Town

pytestmark = pytest.mark.browser

OLD = "body[data-state='old']"
CURRENT = "body[data-state='current']"
NONE = "#banner:not([hidden])"
ONLINE = "dispatchEvent(new Event('online'))"  # the page asks at once when the network is back
IMPATIENT = """
  const wait = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (ms) => wait(ms / 5);  // two seconds, not ten
"""


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


@pytest.mark.parametrize("trouble", TROUBLES)
def test_W2_trouble_marks_the_forecast_as_old_until_it_is_over(
    tab: Callable[..., Any], stub: Stub, trouble: str
) -> None:
    stub.town.age_seconds = 7_200
    page = tab(script=IMPATIENT)
    fine = stub.routes["/v1/forecast"]
    stub.routes["/v1/forecast"], reason = TROUBLES[trouble]
    page.evaluate(ONLINE)
    page.wait_for_selector(OLD)
    said = page.text_content("#trouble")
    assert said.startswith("No current forecast, last from 14:00 (2 h old): ")
    assert reason in said
    assert page.text_content("#age") == "old: from 14:00 (2 h old)"
    for shown in ("#totals", "#rows", "#dots"):
        assert float(page.eval_on_selector(shown, "node => getComputedStyle(node).opacity")) < 1
    stub.routes["/v1/forecast"] = fine
    page.click("#retry")
    page.wait_for_selector(CURRENT)
    assert page.is_hidden("#banner")


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": [{"ds": "tomorrow", "ds_local": "noon"}]},
        {"forecasts": [{"id": "L0001", "y_hat": ["12", "13", "14"]}]},
        {"forecasts": [{"id": "L0001", "y_hat": [1.0]}]},
        {"data_age_seconds": None},
        {"origin_local": "14:00"},
    ],
)
def test_W2_half_an_answer_is_none(
    tab: Callable[..., Any], stub: Stub, changes: dict[str, Any]
) -> None:
    stub.routes["/v1/forecast"] = lambda _: Answer(stub.town.forecast() | changes)
    page = tab(ready=NONE)
    assert page.text_content("#trouble").startswith("No forecast: the answer has no usable")
    assert page.text_content("#totals") == ""


def test_W2_a_service_that_was_never_there_is_said_to_be_away(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.routes["/v1/forecast"] = lambda _: problem(503, "the model is being loaded")
    page = tab(ready=NONE)
    said = "No forecast: the service answered 503: the model is being loaded."
    assert page.text_content("#trouble") == said
    assert page.locator("#rows li").count() == 0


def test_W2_a_connection_that_breaks_is_said_to_be_away(tab: Callable[..., Any]) -> None:
    page = tab()
    page.route("**/v1/forecast", lambda route: route.abort("connectionrefused"))
    page.evaluate(ONLINE)
    page.wait_for_selector(OLD)
    assert "the service does not answer" in page.text_content("#trouble")


def test_W2_stale_data_is_said_to_be_stale(tab: Callable[..., Any], town: Town) -> None:
    town.stale, town.age_seconds = True, 10_800
    town.degraded = "data: the last steps have not come"
    page = tab(ready=OLD)
    assert page.text_content("#trouble") == (
        "No current forecast, last from 14:00 (3 h old): no newer observations have come in "
        "(data: the last steps have not come)."
    )


def test_W2_a_degraded_forecast_is_shown_with_its_reason(
    tab: Callable[..., Any], town: Town
) -> None:
    town.degraded = "the weather forecast is missing"
    page = tab(ready="body[data-state='noted']")
    assert "the weather forecast is missing" in page.text_content("#trouble")
    assert page.is_hidden("#age")


def test_W2_a_computer_that_slept_calls_nothing_current(
    tab: Callable[..., Any], stub: Stub
) -> None:
    page = tab()
    stub.routes["/v1/forecast"] = lambda _: Answer({}, delay_seconds=30)
    page.evaluate("const now = Date.now; Date.now = () => now() + 3_600_000")
    page.wait_for_selector(OLD)
    assert page.text_content("#trouble") == (
        "No current forecast, last from 14:00 (65 min old): "
        "nothing was heard from the service since."
    )


def test_W2_pauses_double_with_jitter_and_heed_the_service(tab: Callable[..., Any]) -> None:
    page = tab()
    pauses = page.evaluate(
        """async () => {
          const { pause } = await import("/page/poll.js");
          const after = (chance) => [1, 2, 3, 20].map((n) => pause(n, 15, 0, () => chance));
          return [after(0), after(1), [pause(1, 15, 120, () => 0)]];
        }"""
    )
    assert pauses == [[15, 30, 60, 150], [30, 60, 120, 300], [120]]


def test_W3_the_last_of_quick_clicks_wins(tab: Callable[..., Any], stub: Stub) -> None:
    slow, quick = stub.town.ids[2], stub.town.ids[3]
    history = stub.routes["/v1/history"]
    stub.routes["/v1/history"] = lambda query: Answer(
        history(query).body, delay_seconds=0.8 if query["location"] == slow else 0.0
    )
    page = tab()
    for place in (slow, quick):
        page.fill("#wanted", place)
        page.locator("#rows li").first.click()
    page.click("summary")
    page.wait_for_selector("details td")
    page.wait_for_timeout(1_200)  # the first answer has come by now
    asked = [query["location"] for path, query, _ in stub.asked if path == "/v1/history"]
    assert asked == [slow, quick]
    assert page.text_content("#ident") == quick
    last = stub.town.values[stub.town.origin, 3]
    row = page.locator("details tr", has_text="Wed 15 Oct 14:00")
    assert float(row.locator("td").nth(1).text_content()) == pytest.approx(last, abs=0.51)


@pytest.mark.slow
def test_W7_many_tabs_ask_once_per_interval_and_get_304(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.hurry()
    tabs = [tab(ready="#scores dd") for _ in range(3)]
    stub.asked.clear()
    began = monotonic()
    while len(stub.asked) < 6:
        tabs[0].wait_for_timeout(100)
    most = (monotonic() - began) / 0.9 + 1  # polls of one tab: one every 0.9 … 1.1 s
    assert stub.count("/v1/forecast", 304) <= 3 * most
    assert stub.count("/v1/forecast", 200) == 0
    assert stub.count("/v1/locations") == stub.count("/v1/accuracy") == 0


@pytest.mark.slow
def test_W7_a_hidden_tab_asks_nothing_until_it_is_seen(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.hurry()
    page = tab()
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.wait_for_timeout(1_300)  # a question may have been under way
    stub.asked.clear()
    page.wait_for_timeout(1_500)
    assert stub.asked == []
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false})")
    with page.expect_response("**/v1/forecast") as answer:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert answer.value.status == 304
