"""A real browser before a stub of the service. Without chromium these tests are skipped.

Browser, server and tabs are shared by the tests of a file: opening them anew takes most of the
time. Between two tests a tab is empty and the stub begins again.
"""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.serve.page.stub import Stub, serve
from tests.serve.page.town import Town, make_town

HINT = "browser tests need chromium (Debian: apt-get install chromium) and playwright (pip)"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
USUAL = {"width": 1280, "height": 720}
CURRENT = (
    "body[data-state='current']"  # waiting for a script's word would need eval, which CSP bars
)
HASTE = """
  for (const name of ["setTimeout", "setInterval"]) {
    const usual = window[name].bind(window);
    window[name] = (act, ms) => usual(act, ms / 10);
  }
"""  # a script for pages whose pauses would be a tenth


class Tabs:
    """Tabs of one browser, used again; errors and questions to outside are remembered."""

    def __init__(self, browser: Any, inside: str) -> None:
        self.browser, self.inside = browser, inside
        self.idle: dict[tuple[str, str | None], list[Any]] = {}
        self.busy: list[tuple[tuple[str, str | None], Any]] = []
        self.faults: list[str] = []

    def take(self, script: str, zone: str | None) -> Any:
        """Return an empty tab in a zone where a script runs before the page's own."""
        key = script, zone
        idle = self.idle.setdefault(key, [])
        page = idle.pop() if idle else self._make(*key)
        self.busy.append((key, page))
        return page

    def rest(self) -> None:
        """Empty the tabs in use and keep them for the next test."""
        for key, page in self.busy:
            page.unroute_all()
            page.goto("about:blank", wait_until="commit")
            page.mouse.move(0, 0)
            self.idle[key].append(page)
        self.busy.clear()

    def _make(self, script: str, zone: str | None) -> Any:
        page = self.browser.new_context(timezone_id=zone).new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", self._complain)
        page.on("request", self._stay_inside)
        page.add_init_script(script)
        return page

    def _complain(self, said: Any) -> None:
        if "Content Security Policy" in said.text or "Content-Security-Policy" in said.text:
            self.faults.append(said.text)

    def _stay_inside(self, asked: Any) -> None:
        if not asked.url.startswith((self.inside, "data:", "blob:")):
            self.faults.append(f"asked outside: {asked.url}")


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


@pytest.fixture(scope="module")
def server() -> Iterator[Stub]:
    """Return the running server of a file's tests; they ask for `stub`, which begins again."""
    with serve(make_town(locations=23)) as running:
        yield running


@pytest.fixture(scope="module")
def tabs(browser: Any, server: Stub) -> Tabs:
    """Return the tabs of a file's tests; they ask for `tab`, which empties them."""
    return Tabs(browser, server.url)


@pytest.fixture
def town() -> Town:
    """Return a small town; tests change it before or while the page looks at it."""
    return make_town(locations=23)


@pytest.fixture
def stub(server: Stub, town: Town) -> Iterator[Stub]:
    """Return the running stub of the service."""
    server.show(town)
    yield server
    server.ended.set()


@pytest.fixture
def tab(tabs: Tabs, stub: Stub) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the page; errors and questions to outside fail the test.

    `script` runs before the page's own, `ready` selects what to wait for.
    """
    tabs.faults.clear()

    def open_tab(
        path: str = "",
        ready: str = CURRENT,
        script: str = "",
        timezone_id: str | None = None,
        viewport: dict[str, int] = USUAL,
        color_scheme: str = "light",
    ) -> Any:
        page = tabs.take(script, timezone_id)
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme, reduced_motion="reduce")
        page.goto(stub.url + path, wait_until="commit")  # what is ready is said next
        page.wait_for_selector(ready)
        return page

    yield open_tab
    tabs.rest()
    assert not tabs.faults
