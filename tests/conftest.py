"""What all tests share: how long a campaign runs, and how many known faults have a test."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

FAULTS = tomllib.loads((Path(__file__).parent / "faults.toml").read_text(encoding="utf-8"))
FAULT_ID = re.compile(r"test_([A-Z]\d+)_")

settings.register_profile("test", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("torture", deadline=None, max_examples=2_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--torture", action="store_true", help="run the long campaigns")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("torture" if config.getoption("--torture") else "test")


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Return a function that picks a count: the first in `make test`, the second in torture."""
    torture = request.config.getoption("--torture")
    return lambda quick, full: full if torture else quick


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = {found[1] for item in items if (found := FAULT_ID.match(item.name))}
    unknown = named - FAULTS.keys()
    if unknown:
        raise pytest.UsageError(f"tests name faults that tests/faults.toml lacks: {unknown}")
    config.stash[NAMED] = named


NAMED = pytest.StashKey[set[str]]()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    named = config.stash.get(NAMED, set())
    total = Counter(row["priority"] for row in FAULTS.values())
    covered = Counter(FAULTS[fault]["priority"] for fault in named)
    text = ", ".join(f"{p} {covered[p]}/{total[p]}" for p in sorted(total))
    terminalreporter.write_line(f"known faults with a named test: {text}")
