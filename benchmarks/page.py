"""The page at 100,000 locations in a browser: the longest script of a frame while it is used.

`python -m benchmarks.page` (Debian: apt-get install chromium) serves a made country to the page
from a stub of the service. It measures what the callbacks of each frame take, and tasks of 50 ms
and more, by the browser's clock. `--shots FOLDER` keeps pictures: light and dark, wide and narrow.
"""

import argparse
import json
import shutil
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from tests.serve.page.stub import Answer, Stub, page, serve
from tests.serve.page.town import Town, make_town

GOAL_MS = 50.0
TOWNS = 120
MEASURE = """
  window.frames_ms = []; window.tasks_ms = [];
  const usual = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (act) => usual((at) => {
    const began = performance.now(); act(at); window.frames_ms.push(performance.now() - began);
  });
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.tasks_ms.push(task.duration);
  }).observe({ entryTypes: ["longtask"] });
"""
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
        tab.set_viewport_size(VIEWS["wide"])
        tab.add_init_script(MEASURE)
        for name, (frames, tasks) in use_page(tab, stub.url).items():
            longest = max([*frames, 0.0])
            row = {
                "name": name, "frames": len(frames), "longest_frame_ms": round(longest, 1),
                "median_frame_ms": round(statistics.median(frames or [0.0]), 1),
                "tasks_of_50_ms": len(tasks), "longest_task_ms": round(max([*tasks, 0.0]), 1),
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
    away = generator.random(locations) < 0.05  # villages
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


def use_page(tab: Page, url: str) -> dict[str, tuple[list[float], list[float]]]:
    """The milliseconds of frames and of long tasks, by what is done."""
    tab.goto(url, wait_until="commit")
    tab.wait_for_selector("body[data-state='current'] #rows li")
    tab.wait_for_timeout(1_000)
    measured = {"loading": _read(tab)}
    tab.mouse.move(400, 420)
    for _ in range(40):
        tab.mouse.wheel(0, -180)
        tab.wait_for_timeout(30)
    measured["zooming in"] = _read(tab)
    for _ in range(3):
        tab.mouse.down()
        for step in range(15):
            tab.mouse.move(400 - 12 * step, 420 - 8 * step)
        tab.mouse.up()
        tab.mouse.move(400, 420)
    measured["panning"] = _read(tab)
    for _ in range(40):
        tab.mouse.wheel(0, 180)
        tab.wait_for_timeout(30)
    measured["zooming out"] = _read(tab)
    for step in range(80):
        tab.mouse.move(150 + 6 * step, 200 + 4 * step)
    measured["pointing"] = _read(tab)
    for step in ("2", "3", "1", "2"):
        tab.locator("#step").fill(step)
        tab.wait_for_timeout(150)
    measured["another step"] = _read(tab)
    tab.locator("#colour input").nth(1).check()
    tab.wait_for_timeout(300)
    measured["colour by change"] = _read(tab)
    tab.locator("#query").type("L0012", delay=120)
    tab.wait_for_timeout(300)
    measured["searching"] = _read(tab)
    tab.locator("#rows li").first.click()
    tab.wait_for_selector("#neighbours li")
    tab.wait_for_timeout(500)
    measured["opening a location"] = _read(tab)
    return measured


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


def _read(tab: Page) -> tuple[list[float], list[float]]:
    """The milliseconds since the last call."""
    tab.wait_for_timeout(200)
    frames, tasks = tab.evaluate("[frames_ms.splice(0), tasks_ms.splice(0)]")
    return frames, tasks


def _text(row: dict[str, Any]) -> str:
    return (
        f"{row['name']:20} {row['frames']:4} frames, longest {row['longest_frame_ms']:6.1f} ms, median "
        f"{row['median_frame_ms']:5.1f} ms; {row['tasks_of_50_ms']} tasks of 50 ms and more, longest "
        f"{row['longest_task_ms']:.0f} ms"
    )


if __name__ == "__main__":
    main()
