"""A process that has loaded the service once, and forks one whenever it is told to.

Run as a program: each line of its input is the JSON of one service, each line of its output the
process id of one. What a service finds out it writes to files.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from forecaster.panel.panel import Panel
from forecaster.serve.http.server import Address, serve
from forecaster.serve.service import open_engine
from tests.serve.client import SETTINGS, Client


def serve_one(run: str, panel: str, store: str, port_file: str) -> None:
    """Serve until the end, as the command does."""
    engine = open_engine(Path(run), Panel.open(panel), Path(store))
    snapshot = engine.data.snapshot
    # The clock stands a minute after the panel's end, so that the data is always fresh.
    end = snapshot.start_seconds + len(snapshot.base.values) * 3600.0 + 60
    engine.data.now = lambda: end
    ready = Path(port_file)

    def tell(url: str) -> None:
        ready.with_suffix(".new").write_text(url.rpartition(":")[2])
        ready.with_suffix(".new").rename(ready)

    serve(engine, Address(port=0), SETTINGS, tell)


class NotStartedError(Exception):
    """A service has ended before it listened."""


@dataclass
class ServiceProcess(Client):
    """A service in a process of its own."""

    pid: int

    def end(self, how: signal.Signals) -> None:
        os.kill(self.pid, how)


class ServiceProcesses:
    """Starts services, each in a fresh process."""

    def __init__(self, run: Path, panel: Path, folder: Path) -> None:
        self._known = {"run": str(run), "panel": str(panel)}
        self._folder, self._number = folder, 0
        command = [sys.executable, "-m", "tests.serve.processes"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, store: Path) -> ServiceProcess:
        """Return a service once it listens."""
        self._number += 1
        ready = self._folder / f"port-{self._number}"
        words = {**self._known, "store": str(store), "port_file": str(ready)}
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("no pipes")
        self._process.stdin.write(json.dumps(words) + "\n")
        pid = int(self._process.stdout.readline())
        for _ in range(6_000):
            if ready.exists():
                return ServiceProcess(ready.read_text(), pid)
            if (self._folder / f"status-{pid}").exists():
                raise NotStartedError
            time.sleep(0.01)
        raise TimeoutError("the service has not started")

    def wait(self, child: ServiceProcess) -> int:
        """Return how a service ended, once it has."""
        status = self._folder / f"status-{child.pid}"
        for _ in range(6_000):
            if status.exists() and status.read_text().endswith("\n"):
                return int(status.read_text())
            time.sleep(0.005)
        raise TimeoutError("the service has not ended")

    def close(self) -> None:
        """End the processes."""
        if self._process.stdin is not None and self._process.stdout is not None:
            self._process.stdin.close()
            self._process.stdout.close()
        self._process.wait()


def main() -> None:
    """Fork a service for each line that comes in."""
    for line in sys.stdin:
        words = json.loads(line)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            child = os.fork()
            if child == 0:
                sys.stdin.close()
                serve_one(**words)
                os._exit(0)
            print(child, flush=True)  # noqa: T201 (its output)
            _, status = os.waitpid(child, 0)
            folder = Path(words["port_file"]).parent
            (folder / f"status-{child}").write_text(f"{os.waitstatus_to_exitcode(status)}\n")
            os._exit(0)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


if __name__ == "__main__":
    main()
