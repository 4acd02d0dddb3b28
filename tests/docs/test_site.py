"""The documentation site: built strictly, complete, and without a request to elsewhere."""

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

import forecaster
from forecaster.recipe import Recipe

ROOT = Path(__file__).parents[2]
FETCHED = {  # attributes by which a browser loads something
    "script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src",
    "video": "src", "audio": "src", "object": "data", "embed": "src", "use": "href",
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does: a broken link or name raises."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The hook that generates reference pages."""
    spec = importlib.util.spec_from_file_location("hook", ROOT / "docs/hooks/reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Fetches(HTMLParser):
    """What a page makes a browser load, and the addresses in its own styles."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if address := given.get(FETCHED.get(tag, "")):
            self.addresses.append(address)
        self.addresses += re.findall(r"url\(([^)]+)\)", given.get("style") or "")


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        parser = Fetches()
        parser.feed(page.read_text(encoding="utf-8"))
        outside = [a for a in parser.addresses if re.match(r"\s*(https?:)?//", a)]
        assert not outside, f"{page.name}: {outside}"
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", text), style.name
    for script in site.rglob("*.js"):
        if "search_index" not in script.name:
            assert "unpkg.com" not in script.read_text(encoding="utf-8"), script.name


def test_every_public_name_is_documented(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in forecaster.__all__:
        assert re.search(rf'id="forecaster\.([a-z_]+\.)*{name}"', page), name


def test_every_public_name_that_a_page_uses_exists() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        names = set(re.findall(r"\bfc\.(\w+)", page.read_text(encoding="utf-8")))
        assert names <= set(forecaster.__all__), page.name


def test_every_command_is_documented(reference: ModuleType) -> None:
    text = reference.commands()
    for name in ("run", "ingest trips", "ingest recipe", "serve", "explain", "download nyc-taxi"):
        assert f"## `forecaster {name}`" in text
    assert "`--token-file`" in text


def test_every_field_of_a_recipe_is_documented(reference: ModuleType) -> None:
    text = reference.recipe()
    for name, field in Recipe.model_fields.items():
        section = reference._section(field)
        assert f"`[{name}]`" in text if section else f"`{name}`" in text
        assert section or field.description, name
        for key, inner in section.model_fields.items() if section else ():
            assert f"| `{key}` |" in text, f"{name}.{key}"
            assert inner.description, f"{name}.{key}"


def test_every_endpoint_is_documented(reference: ModuleType) -> None:
    text = reference.http()
    document = reference.openapi()
    assert len(document["paths"]) > 8
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"### `{method.upper()} {path}`" in text
    for name in re.findall(r"\(#(schema-\w+)\)", text):
        assert f"{{ #{name} }}" in text, name


def test_equations_are_part_of_the_page(site: Path) -> None:
    page = (site / "understand" / "model.html").read_text(encoding="utf-8")
    assert page.count("<math") > 10
    assert "arithmatex" not in page
    text = re.sub(r"<[^>]+>", "", "".join(re.findall(r"<math.*?</math>", page, re.DOTALL)))
    assert "\\" not in text  # a command that was not understood


def test_figures_follow_the_palette(site: Path) -> None:
    figures = sorted((ROOT / "docs" / "figures").glob("*.svg"))
    styles = {re.findall(r"<style>.*?</style>", f.read_text(), re.DOTALL)[0] for f in figures}
    assert len(styles) == 1
    site_style = (ROOT / "docs" / "assets" / "site.css").read_text()
    for name, color in re.findall(r"(--fig-[\w-]+): (#\w+)", styles.pop()):
        assert f"{name}: {color};" in site_style
    page = (site / "understand" / "model.html").read_text(encoding="utf-8")
    assert '<svg role="img" aria-label="' in page


@pytest.mark.browser
def test_search_works_without_a_server(site: Path) -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    requests: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        page = browser.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"file://{site / 'index.html'}")
        page.click("input.md-search__input")  # loads the index
        page.keyboard.type("graphical lasso")
        page.wait_for_selector(".md-search-result__item", state="attached", timeout=20_000)
        browser.close()
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]
