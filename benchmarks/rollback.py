"""Rollback of a service under load: seconds until all answers are of the other version; errors.

python -m benchmarks.rollback [--moves 20] [--locations 100]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from forecaster.estimators.baselines.ridge import Ridge
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city
from forecaster.versions import Versions

CLIENTS = 4
READY_SECONDS = 120


class Client(threading.Thread):
    """Asks for the forecast without end."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.ended = url, threading.Event()
        self.answers: list[tuple[float, str]] = []  # when, and by which model
        self.errors = 0

    def run(self) -> None:
        """Ask until the end."""
        while not self.ended.is_set():
            try:
                with urlopen(f"{self.url}/v1/forecast", timeout=30) as response:  # noqa: S310
                    model = response.headers["X-Forecast-model"]
                    response.read()
                self.answers.append((time.monotonic(), model))
            except (HTTPError, URLError, OSError):
                self.errors += 1


def make_runs(folder: Path, locations: int) -> tuple[Versions, Path]:
    """Save a panel and two versions of a run."""
    panel = make_city(locations, start="2024-03-01", hours=24 * 80 + 7).panel.save(
        folder / "panel"
    )
    versions = Versions.begin(folder / "runs")
    for share in (0.1, 0.15):
        splits = Splits.by_share(panel, validation=share, test=0.2)
        Ridge(Recipe()).fit(panel, splits).save(folder / f"run{share}")
        versions.add(folder / f"run{share}")
    return versions, folder / "panel"


def start(runs: Path, panel: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the service on a free port; return its URL too."""
    words = ["serve", str(runs), "--panel", str(panel), "--replay", "600", "--port", "0"]
    command = [sys.executable, "-m", "forecaster", "-q", *words]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})  # noqa: S603
    if service.stdout is None:
        sys.exit("no output")
    url = service.stdout.readline().split()[0]
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        try:
            urlopen(f"{url}/v1/forecast", timeout=30).read()  # noqa: S310
            return service, url
        except (HTTPError, URLError, OSError):
            time.sleep(0.2)
    sys.exit("the service has no forecast")


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--locations", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        versions, panel = make_runs(Path(name), given.locations)
        digests = {v.name: v.manifest.digest[:12] for v in versions.entries()}
        service, url = start(versions.folder, panel)
        clients = [Client(url) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        seconds = []
        for number in range(given.moves):
            time.sleep(3)
            if number % 2 == 0:
                versions.promote("v0001")
            else:
                versions.rollback()
            moved, wanted = time.monotonic(), digests[versions.current or ""]
            time.sleep(6)
            late = [when for c in clients for when, model in c.answers if model != wanted]
            seconds.append(max([when - moved for when in late if when > moved], default=0.0))
        for client in clients:
            client.ended.set()
            client.join()
        service.terminate()
        service.wait()
        answers = sum(len(client.answers) for client in clients)
        figures = {
            "moves": given.moves, "answers": answers, "errors": sum(c.errors for c in clients),
            "first_seconds": round(seconds[0], 2), "median_seconds":
            round(statistics.median(seconds), 2), "longest_seconds": round(max(seconds), 2),
            "load_average": round(os.getloadavg()[0], 1),
        }  # fmt: skip
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
