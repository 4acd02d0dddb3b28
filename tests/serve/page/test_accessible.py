"""WCAG 2.1 AA of the page and of the page about the API, by axe-core in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.serve.page.stub import Answer, Stub, problem
from tests.serve.page.town import make_town

pytestmark = pytest.mark.browser

STANDARD = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 400, "height": 800}
SCREENS = [(view, scheme) for view in (WIDE, NARROW) for scheme in ("light", "dark")]


def violations(page: Any) -> list[str]:
    """Return each rule that is broken, with its elements."""
    base = pytest.importorskip("axe_playwright_python.base")
    page.evaluate(base.AXE_FILE_PATH.read_text(encoding="utf-8"))
    page.mouse.move(0, 0)
    found = page.evaluate("(options) => axe.run(document, options)", STANDARD)["violations"]
    return [
        f"{rule['id']}: {node['html'][:150]} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"][:4]
    ]


@pytest.mark.parametrize(("viewport", "color_scheme"), SCREENS)
def test_the_page_passes_wcag_aa(
    tab: Callable[..., Any], stub: Stub, viewport: dict[str, int], color_scheme: str
) -> None:
    town = stub.town
    town.new, town.doubts = {town.ids[4]}, {town.ids[2]: "implausible value (4,000 at noon)"}
    stub.routes["/v1/explanation"] = lambda query: Answer(town.explanation(query))
    page = tab(viewport=viewport, color_scheme=color_scheme, ready="#scores dd")
    assert violations(page) == []
    page.locator("#rows li", has=page.locator(".doubt")).first.click()
    page.wait_for_selector("rect.observed")
    page.wait_for_selector("#explanation .apart")
    page.click("summary")
    assert violations(page) == []


@pytest.mark.parametrize(("viewport", "color_scheme"), SCREENS)
def test_the_page_of_many_locations_passes_wcag_aa(
    tab: Callable[..., Any], stub: Stub, viewport: dict[str, int], color_scheme: str
) -> None:
    stub.show(make_town(locations=8_011))
    page = tab(viewport=viewport, color_scheme=color_scheme, ready="#clusters:not([hidden])")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_pale_text_is_found(tab: Callable[..., Any]) -> None:
    page = tab(ready="#scores dd")
    page.evaluate("document.querySelector('h1').style.color = '#bbb'")
    assert any(fault.startswith("color-contrast") for fault in violations(page))


@pytest.mark.parametrize(("viewport", "color_scheme"), SCREENS)
def test_an_outdated_forecast_and_the_page_of_the_api_pass_wcag_aa(
    tab: Callable[..., Any], stub: Stub, viewport: dict[str, int], color_scheme: str
) -> None:
    town = stub.town
    town.stale, town.age_seconds = True, 10_800
    page = tab(
        viewport=viewport, color_scheme=color_scheme, ready="body[data-state='outdated'] #rows li"
    )
    assert violations(page) == []
    stub.routes["/v1/openapi.json"] = lambda _: Answer(DOCUMENT)
    page = tab("docs", viewport=viewport, color_scheme=color_scheme, ready="#endpoints section")
    page.click("summary")
    assert violations(page) == []
    stub.routes["/v1/openapi.json"] = lambda _: problem(503, "busy")
    page = tab("docs", ready="#version:not(:empty)")
    page.locator("#version", has_text="not available: the service answered 503: busy").wait_for()


def test_the_page_of_the_api_shows_parameters_and_fields(
    tab: Callable[..., Any], stub: Stub
) -> None:
    stub.routes["/v1/openapi.json"] = lambda _: Answer(DOCUMENT)
    page = tab("docs", ready="#endpoints section")
    section = page.locator("#endpoints section").first
    assert section.locator("h2").text_content() == "GET/v1/forecast"
    assert section.locator("p code").all_text_contents() == ["at"]
    rows = [row.locator("td").all_text_contents() for row in section.locator("tr:has(td)").all()]
    assert rows == [
        ["at", "none", "string or null", "a step"],
        ["steps", "always", "list of Step", ""],
        ["ds", "may be absent", "string", ""],
    ]
    assert page.locator("a", has_text="Try it").get_attribute("href") == "v1/forecast"


OPTIONAL = {"anyOf": [{"type": "string", "description": "a step"}, {"type": "null"}]}
DOCUMENT = {
    "info": {"version": "0.1.0"},
    "paths": {
        "/v1/forecast": {
            "get": {
                "description": "The coming steps, from `at`.\n\nMore.",
                "parameters": [{"name": "at", "required": False, "schema": OPTIONAL}],
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}
                        }
                    },
                    "503": {},
                },
            }
        }
    },
    "components": {
        "schemas": {
            "Answer": {
                "required": ["steps"],
                "properties": {
                    "steps": {"type": "array", "items": {"$ref": "#/components/schemas/Step"}}
                },
            },
            "Step": {"properties": {"ds": {"type": "string"}}},
        }
    },
}
