"""What all tests share: how long a campaign runs, and how many known faults have a test.

Two harnesses: `failing` makes a file operation fail, `processes` kills a program at any moment.
"""

import gc
import multiprocessing
import os
import re
import resource
import signal
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
from hypothesis import settings

from tests.servers import mariadb, postgres  # noqa: F401 (fixtures)
from tests.shapes import checked
from tests.stores import bucket, s3_server, secure_web, web  # noqa: F401 (fixtures)

FAULTS = tomllib.loads((Path(__file__).parent / "faults.toml").read_text(encoding="utf-8"))
FAULT_ID = re.compile(r"test_([A-Z]\d+)_")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# The import hook that the Makefile asks for wraps what is imported from here on in this.
jaxtyping.jaxtyped = checked

settings.register_profile("test", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("torture", deadline=None, max_examples=2_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--torture", action="store_true", help="run the long campaigns")


def pytest_configure(config: pytest.Config) -> None:
    # Only a power loss needs the wait for the disk, and tests of `publish` simulate those.
    pytest.MonkeyPatch().setattr(os, "fsync", lambda _: None)
    settings.load_profile("torture" if config.getoption("--torture") else "test")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs under test inherit it
    if config.getoption("numprocesses", None):  # of pytest-xdist
        for name in THREADS:  # of each process: more would wait for those of the others
            os.environ.setdefault(name, "1")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each would compile all that it imports
        config.option.loadscopereorder = False  # else the order below is lost


def _put_slow_files_first(items: list[pytest.Item]) -> None:
    """Begin with the files of long tests: at the end, short ones keep all processes busy."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Return a function that picks a count: the first in `make test`, the second in torture."""
    torture = request.config.getoption("--torture")
    return lambda quick, full: full if torture else quick


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _put_slow_files_first(items)
    named = {found[1] for item in items if (found := FAULT_ID.match(item.name))}
    unknown = named - FAULTS.keys()
    if unknown:
        raise pytest.UsageError(f"tests name faults that tests/faults.toml lacks: {unknown}")
    config.stash[NAMED] = named
    if hasattr(config, "workeroutput"):  # one of several processes, which tells the first
        config.workeroutput["named"] = sorted(named)


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that was imported, half a million objects."""
    gc.freeze()


NAMED = pytest.StashKey[set[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take in what a process of pytest-xdist has found."""
    known = node.config.stash.get(NAMED, set())
    output = getattr(node, "workeroutput", {})  # a process that died has none
    node.config.stash[NAMED] = known | set(output.get("named", ()))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    named = config.stash.get(NAMED, set())
    total = Counter(row["priority"] for row in FAULTS.values())
    covered = Counter(FAULTS[fault]["priority"] for fault in named)
    text = ", ".join(f"{p} {covered[p]}/{total[p]}" for p in sorted(total))
    terminalreporter.write_line(f"known faults with a named test: {text}")


OPERATIONS = ("open", "write", "fsync", "close", "replace", "unlink", "mkdir", "ftruncate")


class FailingOs:
    """Stands in for `os`: the k-th file operation is never done, and fails in the given way."""

    def __init__(self, at: int, fault: int | signal.Signals) -> None:
        self.done, self.at, self.fault = 0, at, fault

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in OPERATIONS:
            return real

        def operation(*args: Any) -> Any:
            self.done += 1
            if self.done != self.at + 1:
                return real(*args)
            if self.fault is signal.SIGKILL:
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "close":
                real(*args)  # a failing close has closed all the same
            raise OSError(self.fault, os.strerror(self.fault))

        return operation


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int | signal.Signals], FailingOs]:
    """Return a function that makes the k-th file operation from now on fail."""

    from forecaster.publish import writing  # noqa: PLC0415 (after the shape checker is installed)

    def install(at: int, fault: int | signal.Signals) -> FailingOs:
        disk = FailingOs(at, fault)
        monkeypatch.setattr(writing, "os", disk)
        return disk

    return install


class Processes:
    """Runs functions in processes of their own, which can be killed at any moment.

    They are forked from a server that has imported torch and forecaster and done nothing else, so
    that a start costs milliseconds and no thread is lost. A function must be importable by name;
    what it finds out it writes to a file.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.warm"])
        self._started: list[BaseProcess] = []

    def start(self, function: Callable[..., object], *args: Any) -> BaseProcess:
        """Return a running process."""
        process = self._context.Process(target=function, args=args)
        process.start()
        self._started.append(process)
        return process

    def run(
        self, function: Callable[..., object], *args: Any, kill_after: float | None = None
    ) -> int | None:
        """Return how a process ended: 0, 1 after an error, −9 if the SIGKILL came first."""
        process = self.start(function, *args)
        process.join(300 if kill_after is None else kill_after)
        process.kill()
        process.join()
        return process.exitcode

    def end(self) -> None:
        """End what a test has left behind, suspended or not."""
        for process in self._started:
            process.kill()
            process.join()


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Return the harness; see its class for what it can do."""
    harness = Processes()
    yield harness
    harness.end()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let one thread do these small sums: two would mostly wait for each other."""
    import torch  # noqa: PLC0415 (most tests do without)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


MEMORY = 512 << 20  # bytes that reading a hostile file may add to the address space


@pytest.fixture
def bounded() -> Iterator[None]:
    """Let a test ask for half a gigabyte more than it has, and no more (on Linux)."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        yield
        return
    size = int(statm.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
