"""The page in a real browser: what it shows, to whom, and what hostile data cannot do."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecaster.estimators.table import quantile_name
from forecaster.serve.http.tiles import Tiles
from tests.serve.page.conftest import HASTE
from tests.serve.page.stub import Answer, Stub, problem
from tests.serve.page.town import Town, make_town

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 400, "height": 800}
HOSTILE = [
    '<img src=x onerror="window.hurt = 1">',
    '"><script>window.hurt = 1</script>',
    "<svg onload=window.hurt=1>",
    "__proto__",
    "javascript:window.hurt=1",
    "'; window.hurt = 1; //",
    "=cmd()|' /C calc'!A0",
    "\u202eleft to right\u202c \u0000 \U0001f695",
    "x" * 3_000,
    "long words " * 300,
]
PAINTED = """(() => {
  const canvas = document.getElementById("dots");
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((value, i) => i % 4 === 3 && value > 200).length;
})()"""  # pixels of dots that cover the ground
MARKS = """(() => {
  const canvas = document.getElementById("dots");
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const warn = [0x8a, 0x4b, 0x00, 0xff];
  let count = 0;
  for (let i = 0; i < data.length; i += 4)
    count += warn.every((value, c) => data[i + c] === value);
  return count;
})()"""  # pixels of marks of doubtful values, in the light scheme


@pytest.fixture(scope="module")
def town_of_many() -> Town:
    return make_town(locations=8_011)


@pytest.fixture
def many(town_of_many: Town) -> Town:
    """Return a town with so many locations that neighbours are drawn as clusters."""
    return replace(town_of_many)


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW])
def test_the_page_fits_the_screen_and_draws_dots(
    tab: Callable[..., Any], viewport: dict[str, int], color_scheme: str
) -> None:
    page = tab(viewport=viewport, color_scheme=color_scheme)
    page.locator("#rows li").first.click()
    page.wait_for_selector("rect.observed")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert page.evaluate(PAINTED) > 1_000
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) is (color_scheme == "dark")


def test_accuracy_is_held_against_the_stronger_simple_forecast_and_tells_bias(
    tab: Callable[..., Any], stub: Stub, town: Town
) -> None:
    page = tab(ready="#scores dd")
    text = page.text_content("#scores")
    assert "20 %better than the last value" in text  # 8.41 against 10.5; last week's is worse
    assert "1.2 % too high on average" in text
    stub.routes["/v1/accuracy"] = lambda _: Answer(
        town.accuracy() | {"last_value_rmse": 20.0, "bias": -0.004}
    )
    page = tab(ready="#scores dd")
    text = page.text_content("#scores")
    assert "33 %better than last week’s value" in text
    assert "0.4 % too low on average" in text


def test_the_page_tells_drift_the_challenger_and_a_refused_version(
    tab: Callable[..., Any], stub: Stub, town: Town
) -> None:
    page = tab(ready="#run-state h3")
    text = page.text_content("#run-state")
    assert "No drift" in text
    assert "As on validation: nothing to do." in text
    assert "errors larger31 %" in text
    served, challenger = {"rmse": 8.0, "terms": 99}, {"rmse": 6.0, "terms": 99, "coverage": 0.79}
    compared = {"days": 5, "served": served, "challenger": challenger}
    shadow = {"model": "ba", "version": "v0004", "refused": None}
    stub.routes["/v1/accuracy"] = lambda _: Answer(
        town.accuracy() | {"shadow": {"model": "ba", "version": "v0004", "compared": compared}}
    )
    drift = town.run()["drift"] | {
        "advice": "look", "text": "2 locations silent for 2 days: look at their sensors",
        "silent": ["<b>a", "c"], "silent_locations": 5,
    }  # fmt: skip
    refused = {"version": "v0005", "reason": "its forecast is not finite", "since": "2015-10-01"}
    stub.routes["/v1/run"] = lambda _: Answer(
        town.run() | {"shadow": shadow, "drift": drift, "refused": refused}
    )
    page = tab(ready="#run-state dd")
    text = page.text_content("#run-state")
    assert "Version v0005 failed its trial; v0003 goes on: its forecast is not finite" in text
    assert "Silent: <b>a, c and 3 others." in text
    assert "Challenger v0004 in the shadow" in text
    assert "25 %better than the served run" in text
    assert "Both over 5 days of the ledger" in text


def test_W1_markup_in_names_stays_text(tab: Callable[..., Any], town: Town) -> None:
    town.names[: len(HOSTILE)] = HOSTILE
    town.ids[: len(HOSTILE)] = HOSTILE
    town.edges = [{"a": a, "b": b, "strength": 0.5} for a in HOSTILE for b in HOSTILE if a < b]
    page = tab(viewport=NARROW)
    for name in HOSTILE:
        page.fill("#query", name.strip())
        shown = page.locator("#rows li .name").first
        assert shown.text_content() == name
        shown.click()
        page.wait_for_selector("rect.observed")
        assert page.text_content("#name") == name
        page.hover("#dots", position={"x": 200, "y": 200})
    assert page.evaluate("window.hurt") is None
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_neighbours_in_a_directed_graph_come_earlier_or_later(
    tab: Callable[..., Any], town: Town
) -> None:
    here, source, target = (town.ids[n] for n in (3, 5, 7))
    town.edges = [
        {"a": source, "b": here, "strength": 0.5, "delay": 3},
        {"a": source, "b": here, "strength": -0.75, "delay": 1},
        {"a": here, "b": target, "strength": 0.25, "delay": 1},
    ]
    page = tab(path=f"#{here}")
    page.wait_for_selector("#neighbours .name")
    assert page.locator("#neighbours .name").all_text_contents() == [
        f"{town.names[5]}, 1 and 3 hours earlier",
        f"{town.names[7]}, 1 hour later",
    ]


def test_W1_markup_in_explanations_and_problems_stays_text(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.routes["/v1/explanation"] = lambda _: Answer({"detail": HOSTILE[0]}, 400)
    page = tab(path="#L0003")
    page.locator("#explanation", has_text="onerror").wait_for()
    assert page.evaluate("window.hurt") is None


def test_a_location_with_doubtful_values_is_marked(
    tab: Callable[..., Any], stub: Stub, town: Town
) -> None:
    page = tab(path="#L0003")
    assert page.is_hidden("#doubtful")
    assert page.is_hidden("#doubt")
    unmarked, change = page.evaluate(MARKS), totals_change(page)
    reason = "implausible value (4,000 at 2014-10-15T14:00:00-04:00, at most 180 is plausible)"
    final = town.forecast()
    final["forecasts"][2] |= {"last": 4_000.0, "degraded": reason}
    stub.routes["/v1/forecast"] = lambda _: Answer(final)
    page = tab(path="#L0003", ready="#doubt:not([hidden])")
    assert page.text_content("#doubt") == f"This forecast is degraded: {reason}."
    assert page.text_content("#doubtful") == "! marks 1 location with missing or doubtful values"
    assert page.is_hidden("#banner")  # the others are as usual
    assert page.evaluate(MARKS) > unmarked + 50
    assert page.text_content("#figures").count("4,000") == 1
    # No base of the change of all: without it the change hardly differs.
    shares = [float(re.sub(r"[^\d.]", "", text)) for text in (change, totals_change(page))]
    assert shares[0] == pytest.approx(shares[1], abs=5.0)
    page.click("#back")
    marked = page.locator("#rows li", has=page.locator(".doubt"))
    assert marked.count() == 1
    assert marked.locator(".name").text_content() == f"! {town.names[2]}"
    marked.hover()
    assert reason in page.text_content("#tip")


def test_a_doubtful_value_ends_at_the_edge_of_the_chart_with_a_mark(
    tab: Callable[..., Any], stub: Stub, town: Town
) -> None:
    def heights(page: Any) -> list[float]:
        page.wait_for_selector("#chart rect.observed")
        bars = "[...document.querySelectorAll('#chart rect.observed')]"
        return list(
            page.evaluate(f"{bars}.slice(-24, -1).map((bar) => +bar.getAttribute('height'))")
        )

    usual = heights(tab(path="#L0003"))
    wrong, final = town.history({"location": "L0003"}), town.forecast()
    wrong["values"][-1] = 4_000.0
    reason = "implausible value (4,000 at 2014-10-15T14:00:00-04:00, at most 180 is plausible)"
    stub.routes["/v1/history"] = lambda _: Answer(wrong)
    unmarked = tab(path="#L0003")
    assert max(heights(unmarked)) < max(usual) / 4  # a plausible peak sets the scale
    assert unmarked.locator("#chart .beyond").count() == 0
    wrong["implausible"] = [False] * (len(wrong["values"]) - 1) + [True]
    final["forecasts"][2] |= {"degraded": reason}
    stub.routes["/v1/forecast"] = lambda _: Answer(final)
    page = tab(path="#L0003", ready="#doubt:not([hidden])")
    assert heights(page) == usual
    assert page.locator("#chart .beyond").all_text_contents() == ["! 4,000"]


def test_an_implausible_value_a_week_before_takes_no_room_either(
    tab: Callable[..., Any], stub: Stub, town: Town
) -> None:
    def places(page: Any) -> list[str]:
        page.wait_for_selector("#weeks .forecast")
        left = "nodes => nodes.map((node) => node.style.left)"
        return list(page.eval_on_selector_all("#weeks .forecast", left))

    history, final = town.history({"location": "L0003"}), town.forecast()
    step = len(history["values"]) - 168  # a week before the first step ahead
    history["values"][step], history["implausible"] = None, [False] * len(history["values"])
    final["forecasts"][2]["usual"][0] = None
    stub.routes["/v1/history"] = lambda _: Answer(history)
    stub.routes["/v1/forecast"] = lambda _: Answer(final)
    usual = places(tab(path="#L0003"))
    history["values"][step], history["implausible"][step] = 4_000.0, True
    final["forecasts"][2]["usual"][0] = 4_000.0
    assert places(tab(path="#L0003")) == usual


def test_zooming_in_names_more_places(tab: Callable[..., Any], town: Town) -> None:
    page = tab(script=WRITTEN, path="#L0003")
    page.wait_for_selector("rect.observed")
    first = names_written(page, town)
    assert 3 <= len(first) <= 14
    for _ in range(3):
        page.click("#zoom-in")
    page.wait_for_timeout(100)
    closer = names_written(page, town)
    visible = page.evaluate("window.boxes")
    for n, (left, top, right, bottom) in enumerate(visible):  # none lies on another
        assert all(
            right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            for other in visible[:n]
        )
    assert len(closer - first) >= 1


WRITTEN = """
  const usual = CanvasRenderingContext2D.prototype.fillText;
  const cleared = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...box) {
    if (this.canvas.id === "dots") [window.names, window.boxes] = [[], []];
    return cleared.apply(this, box);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    if (text.length > 1) {
      window.names.push(text);
      window.boxes.push([x, y - 7, x + this.measureText(text).width, y + 7]);
    }
    return usual.call(this, text, x, y);
  };
"""  # remembers the names on the canvas


def names_written(page: Any, town: Town) -> set[str]:
    names = set(page.evaluate("window.names"))
    assert names <= set(town.names)
    return names


def test_tiles_are_loaded_from_the_named_server_alone(
    tab: Callable[..., Any], stub: Stub, tabs: Any, town: Town
) -> None:
    stub.tiles = Tiles.parse("http://tiles.test/{z}/{x}/{y}.png", "© whoever drew them")
    asked: list[str] = []

    def give(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(body=PIXEL, content_type="image/png")

    page = tab(ready="#scores dd")  # opened once, so that its requests can be answered
    page.route("http://tiles.test/**", give)
    page.reload()
    page.wait_for_selector("#credit:not([hidden])")
    assert page.text_content("#credit") == "© whoever drew them"
    page.wait_for_timeout(300)
    level, column, row = map(int, re.findall(r"/(\d+)", asked[0]))
    lat, lon = float(np.nanmean(town.lat)), float(np.nanmean(town.lon))
    tiles = [tuple(map(int, re.findall(r"/(\d+)", url))) for url in asked]
    x = int((lon + 180) / 360 * 2**level)
    y = int((1 - np.arcsinh(np.tan(np.radians(lat))) / np.pi) / 2 * 2**level)
    assert (level, x, y) in tiles  # the tile in the middle of the town
    assert 0 < column < 2**level
    assert 0 < row < 2**level
    other = page.evaluate(
        "new Promise((done) => { const image = new Image();"
        "image.onload = () => done('loaded'); image.onerror = () => done('refused');"
        "image.src = 'http://elsewhere.test/1.png'; })"
    )
    assert other == "refused"
    outside = [fault for fault in tabs.faults if "http://tiles.test/" in fault]
    refused = [fault for fault in tabs.faults if "elsewhere" in fault]
    assert outside
    assert refused
    tabs.faults[:] = [fault for fault in tabs.faults if fault not in (*outside, *refused)]


def test_without_a_server_of_tiles_nothing_is_asked_outside(tab: Callable[..., Any]) -> None:
    page = tab(ready="#scores dd")
    assert page.is_hidden("#credit")


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)  # a PNG of one pixel


def totals_change(page: Any) -> str:
    return str(page.text_content("#totals div:nth-child(2) dd"))


def test_L2_a_registered_location_is_on_the_page_before_and_after_its_first_forecast(
    tab: Callable[..., Any], stub: Stub, town: Town
) -> None:
    stub.hurry()
    last, name = town.ids.pop(), town.names.pop()
    lat, lon, values = town.lat, town.lon, town.values
    town.lat, town.lon, town.values = lat[:-1], lon[:-1], values[:, :-1]
    page = tab(path=f"#{town.ids[2]}")
    assert page.is_hidden("#added")
    town.ids.append(last)
    town.names.append(name)
    town.lat, town.lon, town.values = lat, lon, values
    town.new, town.waiting, town.data_version = {last}, {last}, 2  # as after a registration
    page.wait_for_selector("#added:not([hidden])")
    assert page.text_content("#title") == "Forecast for 23 locations"
    assert page.text_content("#added") == "+ marks 1 new location, 1 waiting for a day of data"
    assert page.is_visible("#location")  # the selected one stays selected
    assert page.is_hidden("#newness")
    page.click("#back")
    row = page.locator("#rows li", has=page.locator(".new"))
    assert row.text_content() == f"new {name}waiting for a day of data–"
    row.hover()
    assert "+ new location: waiting for a day of data" in page.text_content("#tip")
    row.click()
    assert page.text_content("#newness") == "This is a new location: waiting for a day of data."
    page.wait_for_selector("rect.observed")
    assert page.text_content("#figures .main dd") == "–"
    town.waiting, town.data_version = set(), 3
    page.wait_for_selector("#newness:text('was not trained on it')")
    assert page.text_content("#added") == "+ marks 1 new location"
    assert page.is_hidden("#doubt")  # it is new, not doubtful
    assert page.is_hidden("#doubtful")
    assert page.text_content("#figures .main dd") != "–"


def test_unchanged_locations_are_not_loaded_again(
    tab: Callable[..., Any], stub: Stub, town: Town
) -> None:
    stub.hurry()
    page = tab()
    town.data_version = 2
    page.wait_for_selector("#model:text('data version 2')")
    assert (stub.count("/v1/locations"), stub.count("/v1/locations", 304)) == (1, 1)
    assert stub.count("/v1/graph") == 1


def test_W1_markup_in_reasons_stays_text(tab: Callable[..., Any], town: Town) -> None:
    town.doubts = dict(zip(town.ids, HOSTILE, strict=False))
    page = tab(path=f"#{town.ids[0]}", viewport=NARROW, ready="#doubt:not([hidden])")
    for identity, reason in town.doubts.items():
        page.fill("#query", identity)
        row = page.locator("#rows li").first
        row.hover()
        assert page.text_content("#tip .doubt") == f"! {reason}"
        row.click()
        assert page.text_content("#doubt") == f"This forecast is degraded: {reason}."
    assert page.evaluate("window.hurt") is None
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 400


@pytest.mark.slow
def test_W6_5464_locations_are_drawn_without_outside_hosts(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.show(make_town(5_464))
    page = tab(viewport=WIDE)  # fails on a request to another host
    page.fill("#query", "L5464")
    page.locator("#rows li").first.click()
    page.wait_for_selector("rect.observed")
    assert page.evaluate(PAINTED) > 10_000


def test_many_locations_are_clusters_that_open_as_one_zooms(
    tab: Callable[..., Any], stub: Stub, many: Town
) -> None:
    stub.show(many)
    page = tab(ready="#clusters:not([hidden])")
    assert page.text_content("#title") == "Forecast for 8,011 locations"
    assert stub.count("/v1/forecast") == stub.count("/v1/locations") == 2  # pages
    page.focus("#dots")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#tip:not([hidden])")
    count = int(re.fullmatch(r"([\d,]+) locations", page.text_content("#tip strong"))[1])
    assert count > 4
    for _ in range(5):  # clusters of clusters
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("#tip:not([hidden])")
        name = page.text_content("#tip strong")
        if name in many.names:
            break
    assert name in many.names
    page.keyboard.press("0")
    page.wait_for_selector("#clusters:not([hidden])")


def test_of_many_locations_the_neighbours_of_the_opened_one_are_asked_for(
    tab: Callable[..., Any], stub: Stub, many: Town
) -> None:
    stub.show(many)
    many.edges = [{"a": many.ids[5], "b": many.ids[7_000], "strength": 0.5}]
    page = tab(path=f"#{many.ids[7_000]}", ready="#neighbours .name")
    assert page.locator("#neighbours .name").all_text_contents() == [many.names[5]]
    assert [query for path, query, _ in stub.asked if path == "/v1/graph"] == [
        {"location": many.ids[7_000]}
    ]
    page.wait_for_selector("#clusters", state="hidden")  # it is drawn on its own


def test_pages_of_a_forecast_that_is_kept_no_more_begin_again(
    tab: Callable[..., Any], stub: Stub, many: Town
) -> None:
    stub.show(many)
    usual = stub.routes["/v1/forecast"]

    def changed_once(query: Mapping[str, str]) -> Answer:
        if "after" in query and many.data_version == 1:
            many.data_version = 2
            return problem(409, "the data has changed")
        return usual(query)

    stub.routes["/v1/forecast"] = changed_once
    page = tab()
    page.locator("#model", has_text="data version 2").wait_for()
    assert stub.count("/v1/forecast") == 3


def test_everything_can_be_reached_by_keyboard(tab: Callable[..., Any]) -> None:
    page = tab(viewport=WIDE)
    page.keyboard.press("/")
    page.keyboard.type("avenue 1")
    page.keyboard.press("Enter")
    first = page.evaluate("document.activeElement.querySelector('.name').textContent")
    page.keyboard.press("ArrowDown")
    second = page.evaluate("document.activeElement.querySelector('.name').textContent")
    assert first != second
    page.keyboard.press("Enter")
    assert page.text_content("#name") == second
    assert page.evaluate("document.activeElement.id") == "name"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.querySelector('.name').textContent") == second
    page.focus("#dots")
    page.keyboard.press("ArrowRight")
    there = page.text_content("#tip strong")
    page.keyboard.press("Enter")
    assert page.text_content("#name") == there


def test_every_stop_of_the_keyboard_shows_where_it_is(tab: Callable[..., Any]) -> None:
    page = tab(viewport=WIDE, path="#L0003")
    page.wait_for_selector("rect.observed")
    seen = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        where = page.evaluate(
            """(() => {
              const node = document.activeElement;
              const marked = node.matches(".choice input") ? node.nextSibling : node;
              return [node.id || node.name || node.tagName, getComputedStyle(marked).outlineStyle];
            })()"""
        )
        seen.add(where[0])
        assert where[1] != "none" or where[0] in ("name", "BODY"), where
    assert {"query", "dots", "play", "step", "colour", "back", "range", "csv"} <= seen


def test_the_slider_moves_map_list_and_place_together(tab: Callable[..., Any], town: Town) -> None:
    page = tab(path="#L0003")
    expected = town.forecast()["forecasts"][2]["y_hat"]
    page.focus("#step")
    for k, clock in enumerate(["15:00", "16:00", "17:00"]):
        assert page.text_content("#time") == f"{clock} UTC−4"
        shown = page.text_content("#figures .main dd").replace("−", "-")
        assert float(shown) == pytest.approx(expected[k], abs=0.51)
        page.keyboard.press("ArrowRight")


def test_playing_goes_round(tab: Callable[..., Any]) -> None:
    page = tab(script=HASTE)
    page.click("#play")
    for clock in ("17:00", "15:00"):
        page.locator("#time", has_text=clock).wait_for()
    page.click("#play")
    assert page.get_attribute("#play", "aria-pressed") == "false"


@pytest.mark.parametrize(
    ("unplaced", "said"), [(23, "No coordinates"), (5, "5 locations without")]
)
def test_places_without_coordinates_stand_in_a_grid_that_says_so(
    tab: Callable[..., Any], town: Town, unplaced: int, said: str
) -> None:
    town.lat[:unplaced] = np.nan
    page = tab()
    assert said in page.text_content("#layout")
    assert page.evaluate(PAINTED) > 500


def test_a_place_with_no_forecast_shows_none(tab: Callable[..., Any], stub: Stub) -> None:
    body = stub.town.forecast()
    body["forecasts"][2] |= {name: [None] * 3 for name in ("y_hat", "q10", "q50", "q90")}
    del body["forecasts"][3]
    stub.routes["/v1/forecast"] = lambda _: Answer(body)
    page = tab(path="#L0003")
    assert page.text_content("#figures .main dd") == "–"
    page.goto(stub.url + "#L0004")
    page.reload()
    page.locator("#location-id", has_text="L0004").wait_for()
    assert page.text_content("#figures .main dd") == "–"


def test_a_run_without_quantiles_shows_no_range(tab: Callable[..., Any], stub: Stub) -> None:
    stub.routes["/v1/locations"] = lambda _: Answer(stub.town.locations() | {"quantiles": []})
    page = tab(path="#L0003")
    page.wait_for_selector("path.forecast")
    assert "interval" not in page.text_content("#figures")
    assert page.locator("path.band").count() == 0


@pytest.mark.parametrize(
    ("level", "column"), [(0.025, "q2.5"), (0.1586553, "q15.86553"), (0.001, "q0.1")]
)
def test_the_interval_is_found_by_the_exact_name_of_its_quantiles(
    tab: Callable[..., Any], stub: Stub, level: float, column: str
) -> None:
    assert quantile_name(level) == column
    levels = [level, 0.5, 0.9]
    body = stub.town.forecast()
    for row in body["forecasts"]:
        row[column] = row.pop("q10")
    stub.routes["/v1/locations"] = lambda _: Answer(stub.town.locations() | {"quantiles": levels})
    stub.routes["/v1/forecast"] = lambda _: Answer(body)
    page = tab(path="#L0003", ready="path.band")
    assert f"{100 * (0.9 - level):.0f} % interval" in page.text_content("#figures")


def test_the_value_a_week_before_is_the_services(tab: Callable[..., Any], stub: Stub) -> None:
    body = stub.town.forecast()
    body["forecasts"][2]["usual"] = [771.0, 772.0, 773.0]
    stub.routes["/v1/forecast"] = lambda _: Answer(body)
    page = tab(path="#L0003", ready="rect.observed")
    assert "from last week (771)" in page.text_content("#figures")
    label = page.locator(".week").first.get_attribute("aria-label")
    assert "weeks before 771, " in label


def test_another_run_brings_its_own_places(tab: Callable[..., Any], stub: Stub) -> None:
    town = stub.town
    page = tab(path="#L0003")
    town.names[2] = "Renamed by the new run"
    stub.routes["/v1/forecast"] = lambda _: Answer(town.forecast() | {"model": "another"})
    page.evaluate("dispatchEvent(new Event('online'))")
    page.locator("#name", has_text="Renamed").wait_for()
    assert "Renamed by the new run" in (page.locator("#name").text_content() or "")


def test_what_is_not_known_of_a_place_is_said(tab: Callable[..., Any], stub: Stub) -> None:
    stub.routes["/v1/history"] = lambda _: problem(503, "the disk is full")
    page = tab(path="#L0003")
    page.locator(
        ".plot", has_text="Not available: the service answered 503: the disk is full."
    ).wait_for()
    page.locator("#explanation", has_text="Not available").wait_for()
    assert page.locator("#figures .main dd").text_content() != "–"


def test_reasons_tell_hours_places_and_the_whole_city_apart(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.routes["/v1/explanation"] = lambda query: Answer(stub.town.explanation(query))
    page = tab(path="#L0003")
    why = page.locator("#explanation")
    page.locator(
        "#explanation .apart", has_text="37 % of the influence of other locations"
    ).wait_for()
    assert "this location" in why.text_content()
    first = page.locator("#explanation .rows").first.locator("li")
    assert (
        first.first.locator(".change").text_content() == "60 %"
    )  # 0.4 + 0.2: one hour, looked at twice
    assert "rank correlation" in why.text_content()
    headings = why.locator("h4").all_text_contents()
    assert headings == [
        "Past hours with the largest influence, by attention",
        "Locations with the largest influence, by gradient",
    ]


def test_reasons_are_told_in_the_words_of_the_service(tab: Callable[..., Any], stub: Stub) -> None:
    apart = {"share": 0.0, "gradient": 0.0, "places": []}
    told = {"step": "day", "shares_by": "ablation", "city_wide": apart}
    stub.routes["/v1/explanation"] = lambda query: Answer(stub.town.explanation(query) | told)
    page = tab(path="#L0003")
    page.locator("#explanation .apart", has_text="No influence of other locations").wait_for()
    assert (
        page.text_content("#explanation h4") == "Past days with the largest influence, by ablation"
    )
    first = page.text_content("#explanation .quiet")
    assert first.startswith("With the usual value in every past day")


def test_an_explanation_names_its_place_and_time_and_a_colour_means_one_thing(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.routes["/v1/explanation"] = lambda query: Answer(stub.town.explanation(query))
    page = tab(path="#L0003")
    page.locator("#explanation .apart").wait_for()
    name = page.text_content("#name")
    subject = page.text_content("#explanation .subject")
    assert re.fullmatch(rf"{re.escape(name)}, .+ \d\d:00, as forecast .+ \d\d:00", subject)
    lists = page.locator("#explanation .rows")
    colour = "bars => [...new Set(bars.map(bar => getComputedStyle(bar).backgroundColor))]"
    shares = lists.first.locator(".amount").evaluate_all(colour)
    effects = lists.last.locator(".amount").evaluate_all(colour)
    assert len(shares) == 1
    assert not set(shares) & set(effects)


def test_measurements_below_zero_are_shown_as_they_are(
    tab: Callable[..., Any], stub: Stub
) -> None:
    town = stub.town
    body = town.forecast()
    town.values -= 1_000.0
    stub.routes["/v1/locations"] = lambda _: Answer(town.locations() | {"kind": "measurement"})
    for row in body["forecasts"]:
        row |= {name: [-1_000.0, -900.0, -800.0] for name in ("y_hat", "q10", "q50", "q90")}
    stub.routes["/v1/forecast"] = lambda _: Answer(body)
    page = tab(path="#L0003")
    page.wait_for_selector("rect.observed")
    assert page.text_content("#totals dd") == "−1,000"
    assert page.text_content("#totals dt") == "on average at 15:00"
    assert page.text_content("#figures .main dd") == "−1,000"
    assert page.locator("text.label.end", has_text="−").count() > 0
