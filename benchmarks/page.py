"""The page at 100,000 locations in a browser: the longest script of a frame while it is used.

`python -m benchmarks.page` (Debian: apt-get install chromium) serves a made country to the page
from a stub of the service. The browser's trace tells the processor time of each callback of a
frame and of each task of the page's thread, which others on the machine do not lengthen.
`--shots FOLDER` keeps pictures: light and dark, wide and narrow.
"""

import argparse
import json
import shutil
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from tests.serve.page.stub import Answer, Stub, page, serve
from tests.serve.page.town import Town, make_town

GOAL_MS = 50.0
TOWNS, VILLAGES = 120, 0.05  # and the share of locations outside of towns
TRACED = ["devtools.timeline", "toplevel"]
FRAME, TASK = "FireAnimationFrame", "ThreadControllerImpl::RunTask"
Spans = tuple[list[float], list[float]]  # milliseconds of frames and of tasks
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
VIEWS = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 400, "height": 800}}


def main() -> None:
    """Measure, and take pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locations", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="20,000 locations")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--shots", type=Path, help="folder for pictures")
    arguments = parser.parse_args()
    locations = 20_000 if arguments.quick else arguments.locations
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with serve(make_town(locations=23)) as stub, sync_playwright() as started:
        answer_quickly(stub, make_country(locations))
        browser = started.chromium.launch(executable_path=program, args=FLAGS)
        tab = browser.new_context().new_page()
        tab.set_default_timeout(60_000)
        tab.set_viewport_size({"width": 1280, "height": 800})
        for name, (frames, tasks) in use_page(browser, tab, stub.url).items():
            longest = max([*frames, 0.0])
            row = {
                "name": name, "frames": len(frames), "longest_frame_ms": round(longest, 1),
                "median_frame_ms": round(statistics.median(frames or [0.0]), 1),
                "tasks_above_50_ms": sum(task > GOAL_MS for task in tasks),
                "longest_task_ms": round(max([*tasks, 0.0]), 1),
                "goal_ms": GOAL_MS, "met": longest <= GOAL_MS,
            }  # fmt: skip
            print(json.dumps(row) if arguments.json else _text(row))
        if arguments.shots is not None:
            take_shots(browser, stub.url, arguments.shots)
        browser.close()


def make_country(locations: int) -> Town:
    """A country of towns of many sizes."""
    town = make_town(locations=locations)
    generator = np.random.default_rng(11)
    share = generator.zipf(1.6, TOWNS).clip(1, 60).astype(np.float64)
    home = generator.choice(TOWNS, size=locations, p=share / share.sum())
    centre = generator.uniform((42.0, -3.5), (50.0, 7.0), (TOWNS, 2))
    around = generator.standard_normal((locations, 2)) * (0.012 * np.sqrt(share))[home, None]
    away = generator.random(locations) < VILLAGES
    place = np.where(away[:, None], generator.uniform((42.0, -3.5), (50.0, 7.0), (locations, 2)),
                     centre[home] + around)  # fmt: skip
    town.lat, town.lon = place.T
    size = generator.lognormal(0.0, 0.7, locations)
    town.values = town.values * size
    return town


def answer_quickly(stub: Stub, town: Town) -> None:
    """Answer from lists that are made once: it is the page that is measured."""
    stub.show(town)
    listed, forecast = town.locations(), town.forecast()
    lists = {"/v1/locations": listed, "/v1/forecast": forecast}
    pages: dict[tuple[str, str], Answer] = {}

    def answer(path: str, query: Mapping[str, str]) -> Answer:
        key = path, query.get("after", "")
        if key not in pages:
            made = page(path, lists[path], query)
            pages[key] = Answer(json.dumps(made.body).encode(), headers=made.headers)
        return pages[key]

    stub.routes["/v1/locations"] = lambda query: answer("/v1/locations", query)
    stub.routes["/v1/forecast"] = lambda query: answer("/v1/forecast", query)


def use_page(browser: Any, tab: Page, url: str) -> dict[str, Spans]:
    """What scripts take, by what is done."""
    measured = {}
    for name, act in ACTS.items():
        browser.start_tracing(page=tab, categories=TRACED)
        if name == "loading":
            tab.goto(url, wait_until="commit")
        act(tab)
        tab.wait_for_timeout(300)
        measured[name] = _spans(json.loads(browser.stop_tracing())["traceEvents"])
    return measured


def _load(tab: Page) -> None:
    tab.wait_for_selector("body[data-state='current'] #rows li")
    tab.wait_for_timeout(1_000)


def _zoom(by: int) -> Callable[[Page], None]:
    def act(tab: Page) -> None:
        tab.mouse.move(400, 420)
        for _ in range(40):
            tab.mouse.wheel(0, by)
            tab.wait_for_timeout(30)

    return act


def _pan(tab: Page) -> None:
    for _ in range(3):
        tab.mouse.down()
        for step in range(15):
            tab.mouse.move(400 - 12 * step, 420 - 8 * step)
        tab.mouse.up()
        tab.mouse.move(400, 420)


def _point(tab: Page) -> None:
    for step in range(80):
        tab.mouse.move(150 + 6 * step, 200 + 4 * step)


def _play(tab: Page) -> None:
    for step in ("2", "3", "1", "2"):
        tab.locator("#step").fill(step)
        tab.wait_for_timeout(150)


def _colour(tab: Page) -> None:
    tab.locator("#colour input").nth(1).check()


def _search(tab: Page) -> None:
    tab.locator("#query").type("L0012", delay=120)


def _open(tab: Page) -> None:
    tab.locator("#rows li").first.click()
    tab.wait_for_selector("#neighbours li")


ACTS: dict[str, Callable[[Page], None]] = {
    "loading": _load,
    "zooming in": _zoom(-180),
    "panning": _pan,
    "zooming out": _zoom(180),
    "pointing": _point,
    "another step": _play,
    "colour by change": _colour,
    "searching": _search,
    "opening a location": _open,
}


def _spans(events: list[dict[str, Any]]) -> Spans:
    """The processor milliseconds of the frames and tasks of a page's own thread."""
    threads = [event for event in events if event["name"] == "thread_name"]
    main = {(e["pid"], e["tid"]) for e in threads if e["args"]["name"] == "CrRendererMain"}
    here = [event for event in events if (event["pid"], event["tid"]) in main]
    frames, tasks = (
        [event.get("tdur", 0) / 1e3 for event in here if event["name"] == name]
        for name in (FRAME, TASK)
    )
    return frames, tasks


def take_shots(browser: Any, url: str, folder: Path) -> None:
    """Keep pictures of the whole, of a region and of a location."""
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for name, view in VIEWS.items():
            tab = browser.new_context(color_scheme=scheme, viewport=view).new_page()
            tab.set_default_timeout(60_000)
            tab.goto(url)
            tab.wait_for_selector("body[data-state='current'] #rows li")
            tab.wait_for_timeout(500)
            tab.screenshot(path=folder / f"{name}-{scheme}-all.png")
            for number, clicks in enumerate((4, 5), start=1):
                for _ in range(clicks):
                    tab.locator("#zoom-in").click()
                tab.wait_for_timeout(200)
                tab.screenshot(path=folder / f"{name}-{scheme}-zoom{number}.png")
            tab.locator("#rows li").first.click()
            tab.wait_for_timeout(800)
            tab.screenshot(path=folder / f"{name}-{scheme}-location.png")
            tab.close()


def _text(row: dict[str, Any]) -> str:
    frames = f"longest {row['longest_frame_ms']:6.1f} ms, median {row['median_frame_ms']:5.1f} ms"
    tasks = (
        f"{row['tasks_above_50_ms']} tasks above 50 ms, longest {row['longest_task_ms']:.0f} ms"
    )
    return f"{row['name']:20} {row['frames']:4} frames, {frames}; {tasks}"


if __name__ == "__main__":
    main()
