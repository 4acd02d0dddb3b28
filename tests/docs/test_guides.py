"""The code of the guides runs as it is printed, block after block, in an empty folder."""

import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forecaster import Recipe, SeasonalNaive, Splits, check_forecaster
from forecaster.cli.app import main
from forecaster.synthetic.city import make_city
from tests.servers import PASSWORD, Server
from tests.stores import Bucket

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh|console|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:\n .*)*)((?:\n[^$].*)*)$", re.MULTILINE)  # and its output
ADDRESS = "http://127.0.0.1:8000"


def _blocks(page: str) -> list[tuple[str, str]]:
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert blocks
    return blocks


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """A function that executes the code of a page and returns its variables."""
    monkeypatch.chdir(tmp_path)

    def execute(page: str) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "guide"}
        for language, code in _blocks(page):
            if language == "python":
                _python(code, page, names)
            elif language == "sh":
                for line in code.splitlines():
                    _command(line)
        return names

    return execute


class Terminal:
    """Executes console blocks; the last service that a block started runs until the next."""

    def __init__(self) -> None:
        self.url = ADDRESS
        self.compared = 0  # commands whose printed output is in the guide
        self._service: subprocess.Popen[str] | None = None

    def run(self, block: str) -> None:
        """Run every command of a block, and compare what it prints with the block."""
        for command, output in COMMAND.findall(block):
            if command.startswith("forecaster serve"):
                printed = self._serve(command)
            else:
                printed = self._run(command.replace(ADDRESS, self.url))
            if output:
                assert printed.strip() == output.strip()
                self.compared += 1

    def close(self) -> None:
        """Stop the service."""
        if self._service is not None:
            self._service.send_signal(signal.SIGINT)
            self._service.communicate(timeout=30)

    def _serve(self, command: str) -> str:
        self.close()
        words = [sys.executable, "-m", *shlex.split(command), "--port", "0"]
        self._service = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._service.stdout is not None
        line = self._service.stdout.readline()
        self.url = line.split()[0]
        return line.replace(self.url, ADDRESS)

    @staticmethod
    def _run(command: str) -> str:
        command = command.replace("curl ", "curl --silent --show-error --fail ")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # of `forecaster`
        words, environment = ["bash", "-c", command], os.environ | {"PATH": path}
        answer = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
        return answer.stdout


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal, whose service is stopped in the end."""
    terminal = Terminal()
    yield terminal
    terminal.close()


def _python(code: str, page: str, names: dict[str, Any]) -> None:
    exec(compile(code, page, "exec"), names)  # noqa: S102 (our own guide)


def _command(line: str) -> None:
    program, *words = shlex.split(line, comments=True)
    assert program == "forecaster"
    with pytest.raises(SystemExit) as left:
        main(words)
    assert not left.value.code, line


@pytest.mark.parametrize(
    ("page", "files"),
    [
        ("start.md", ["panel/manifest.json", "checkup/doctor.html", "checkup/doctor.png"]),
        ("guides/table.md", ["run/manifest.json", "panel/manifest.json", "next.csv"]),
        ("guides/trips.md", ["panel/manifest.json", "checkup/doctor.html"]),
    ],
)
def test_the_code_of_a_page_runs_and_writes_what_it_says(
    page: str, files: list[str], follow: Callable[[str], dict[str, Any]]
) -> None:
    follow(page)
    assert [name for name in files if not Path(name).is_file()] == []


def test_the_estimator_of_the_guide_passes_every_check_and_is_compared(
    follow: Callable[[str], dict[str, Any]],
) -> None:
    names = follow("guides/estimator.md")
    assert set(names["passed"]) == set(check_forecaster(SeasonalNaive))
    assert "MeanReversion" in names["comparison"].to_markdown()


def test_the_protocol_of_the_paper_is_the_default(
    follow: Callable[[str], dict[str, Any]],
) -> None:
    assert follow("guides/paper.md")["recipe"] == Recipe()  # the page itself asserts the numbers


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_service_answers_as_the_guide_says(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, code in _blocks("guides/serving.md"):
        if language == "python":
            _python(code.replace(ADDRESS, terminal.url), "guides/serving.md", names)
        elif "--demo" not in code:  # trains for half a minute
            terminal.run(code)
    assert terminal.compared, "the guide shows no output of a command"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
@pytest.mark.parametrize(
    ("page", "shape"),
    [
        ("guides/arrow.md", lambda names: (names["table"].num_rows,)),
        ("guides/inference.md", lambda names: names["result"].as_numpy("y_hat").shape),
    ],
)
def test_the_protocols_of_the_guides_are_spoken(
    page: str,
    shape: Callable[[dict[str, Any]], tuple[int, ...]],
    terminal: Terminal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, code in _blocks(page):
        if language == "console":
            terminal.run(code)
            continue
        host = ADDRESS.removeprefix("http://")
        here = code.replace(host, terminal.url.removeprefix("http://"))
        _python(here, page, names)
    assert shape(names) in ((9,), (3, 3))


def test_the_guide_of_remote_files_reads_what_it_says(
    bucket: Bucket, tmp_path: Path, follow: Callable[[str], dict[str, Any]]
) -> None:
    panel = make_city(locations=3, hours=24 * 60, seed=3).panel.save(tmp_path / "a" / "panel")
    SeasonalNaive().fit(panel, Splits.by_share(panel)).save(tmp_path / "a" / "run")
    sales = panel.to_long().rename(columns={"unique_id": "shop", "ds": "at", "y": "sold"})
    sales[["shop", "at", "sold"]].to_parquet(tmp_path / "a" / "sales.parquet")
    bucket.put(tmp_path / "a", "")
    names = follow("guides/remote.md")
    assert names["last_day"].shape == (24, 3)
    assert Path("panel/manifest.json").is_file()
    assert Path("next.csv").read_text().count("\n") == 10


@pytest.mark.slow
def test_what_the_guide_of_mlflow_runs_is_recorded(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("alembic", reason="alembic is not installed")
    monkeypatch.chdir(tmp_path)
    _, *blocks = _blocks("guides/mlflow.md")  # the first installs the extra
    for language, code in blocks:
        if language == "python":
            _python(code, "guides/mlflow.md", {})
        else:
            terminal.run(code)
    with sqlite3.connect("mlflow.db") as store:
        names = [name for (name,) in store.execute("SELECT name FROM runs")]
        assert sorted(names) == ["compared", "run", "v0002"]
        metrics = {name for (name,) in store.execute("SELECT DISTINCT key FROM metrics")}
        assert {"rmse", "SeasonalNaive/observed/rmse"} <= metrics
        tags = {name for (name,) in store.execute("SELECT DISTINCT key FROM tags")}
        assert {"verdict", "reason"} <= tags


@pytest.mark.servers
def test_the_guide_of_databases_reads_and_writes_what_it_says(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    postgres.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    names: dict[str, Any] = {"__name__": "guide"}
    _, *blocks = _blocks("guides/databases.md")  # the first installs the extras
    for language, code in blocks:
        if language == "sql":
            postgres.execute(code)
        elif language == "python":
            _python(code, "guides/databases.md", names)
        else:
            _command(code.replace("postgresql://analyst@db.example/shop", postgres.url()))
    assert postgres.execute("SELECT count(*) FROM forecasts") == [(9,)]
    assert (tmp_path / "rides" / "manifest.json").exists()
