"""The code of the guides runs as it is printed, block after block, in an empty folder."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forecaster.cli.app import main
from forecaster.serve.http.schemas import Observations

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A function that executes a page; a service is started once its run and panel are there."""
    monkeypatch.chdir(tmp_path)
    services: list[subprocess.Popen[str]] = []

    def execute(page: str, *, served: bool = False) -> dict[str, object]:
        names: dict[str, object] = {"__name__": "guide"}
        blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
        assert blocks
        for language, code in blocks:
            if served and ADDRESS in code:
                services.append(_serve())
                url = services[-1].stdout.readline().split()[0]  # type: ignore[union-attr]
                code = code.replace(ADDRESS, url)  # noqa: PLW2901 (any free port)
            if language == "python":
                exec(compile(code, page, "exec"), names)  # noqa: S102 (our own guide)
            else:
                for line in code.splitlines():
                    _command(line)
        return names

    yield execute
    for service in services:
        service.terminate()
        service.communicate(timeout=30)


def _serve() -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "forecaster", "serve", "run", "--panel", "panel"]
    return subprocess.Popen([*words, "--replay", "60", "--port", "0"], stdout=-1, text=True)


def _command(line: str) -> None:
    program, *words = shlex.split(line, comments=True)
    assert program == "forecaster"
    with pytest.raises(SystemExit) as left:
        main(words)
    assert not left.value.code, line


@pytest.mark.parametrize(
    "page", ["start.md", "guides/table.md", "guides/trips.md", "guides/estimator.md"]
)
def test_the_code_of_a_page_runs(page: str, follow: Callable[..., None]) -> None:
    follow(page)


def test_the_protocol_of_the_paper_is_the_default(follow: Callable[..., None]) -> None:
    follow("guides/paper.md")


def test_the_observations_of_the_guide_are_valid() -> None:
    text = (DOCS / "guides" / "serving.md").read_text(encoding="utf-8")
    body = re.search(r"-d '(.*?)'", text, re.DOTALL)
    assert body is not None
    assert len(Observations.model_validate_json(body[1]).observations) == 1


def test_the_service_answers_as_the_guide_says(follow: Callable[..., None]) -> None:
    follow("guides/serving.md", served=True)
