"""A real browser before a stub of the service. Without chromium these tests are skipped."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.serve.page.stub import Stub, serve
from tests.serve.page.town import Town, make_town

HINT = "browser tests need chromium (Debian: apt-get install chromium) and playwright (pip)"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CURRENT = (
    "body[data-state='current']"  # waiting for a script's word would need eval, which CSP bars
)


@pytest.fixture(scope="module")  # its event loop must not outlive the file: others run their own
def browser() -> Iterator[Any]:
    """Return Debian's chromium, run through Playwright."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    playwright = pytest.importorskip("playwright.sync_api", reason=HINT)
    if program is None:
        pytest.skip(HINT)
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def town() -> Town:
    """Return a small town; tests change it before or while the page looks at it."""
    return make_town(locations=23)


@pytest.fixture
def stub(town: Town) -> Iterator[Stub]:
    """Return the running stub of the service."""
    with serve(town) as running:
        yield running


@pytest.fixture
def tab(browser: Any, stub: Stub) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the page; errors and questions to outside fail the test.

    Keywords are those of a browser context: viewport, color_scheme, timezone_id. `script` runs
    before the page's own, `ready` selects what to wait for.
    """
    faults: list[str] = []
    with ExitStack() as opened:

        def open_tab(
            script: str = "", ready: str = CURRENT, path: str = "", **context: Any
        ) -> Any:
            held = browser.new_context(reduced_motion="reduce", **context)
            page = opened.enter_context(held).new_page()
            page.set_default_timeout(15_000)
            page.on("pageerror", lambda error: faults.append(f"error: {error}"))
            page.on("console", lambda said: _complain(said, faults))
            page.on("request", lambda asked: _stay_inside(asked, stub.url, faults))
            page.add_init_script(script)
            page.goto(stub.url + path)
            page.wait_for_selector(ready)
            return page

        yield open_tab
    assert not faults


def _complain(said: Any, faults: list[str]) -> None:
    if "Content Security Policy" in said.text or "Content-Security-Policy" in said.text:
        faults.append(said.text)


def _stay_inside(asked: Any, url: str, faults: list[str]) -> None:
    if not asked.url.startswith((url, "data:", "blob:")):
        faults.append(f"asked outside: {asked.url}")
