"""Asking a service for a thousand places, three hours ahead: an Arrow stream against JSON."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

from benchmarks.measure import (
    Result,
    at_most,
    medians,
    processor_seconds,
    read_options,
    report,
)

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the threads are set)
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.ipc  # noqa: E402

from forecaster import Panel, SeasonalNaive, Splits  # noqa: E402
from forecaster.panel.panel import local_texts  # noqa: E402

PLACES, HOURS = 1_000, 24 * 35
GOAL = 1 / 3
MANY = 50  # answers between two readings of processor time
ARROW = "application/vnd.apache.arrow.stream"


def main() -> None:
    """Take answers in turns, from a service that has computed the forecast already."""
    with tempfile.TemporaryDirectory() as name, _service(Path(name)) as (url, origin, pid):
        results = _compare(url, pid, f"/v1/forecast?at={quote(origin)}")
    report(OPTIONS, *results)


def _compare(url: str, pid: int, path: str) -> tuple[list[str], list[Result]]:
    connection = HTTPConnection(urlsplit(url).netloc)

    def ask(accept: str) -> bytes:
        connection.request("GET", path, headers={"Accept": accept})
        return connection.getresponse().read()

    def arrow() -> pa.Table:
        return pa.ipc.open_stream(ask(ARROW)).read_all()

    def table_of_json() -> pd.DataFrame:
        content = json.loads(ask("application/json"))
        steps = [step["ds"] for step in content["steps"]]
        rows = pd.DataFrame(content["forecasts"]).drop(columns=["last", "usual"])
        numbers = [name for name in rows if name not in ("id", "days")]
        rows["ds"] = [steps] * len(rows)
        return rows.explode([*numbers, "ds"])

    read: dict[str, Callable[[], object]] = {
        "arrow": arrow,
        "json": lambda: json.loads(ask("application/json")),
    }
    frames: dict[str, Callable[[], object]] = {
        "arrow as a data frame": lambda: arrow().to_pandas(),
        "json as a data frame": table_of_json,
    }
    jobs, repeats = read | frames, 20 if OPTIONS.quick else 200
    passed = medians(read, repeats) | medians(frames, repeats)  # pandas would leave cold caches
    many = {name: partial(_repeat, job) for name, job in jobs.items()}
    used = medians(many, repeats // 20, lambda: processor_seconds(pid) / MANY)
    sizes = {"arrow": len(ask(ARROW)), "json": len(ask("application/json"))}
    connection.close()
    notes = [f"{n}: {passed[n] * 1e3:.2f} ms, {used[n] * 1e3:.2f} ms of processors" for n in jobs]
    notes += [f"{name}: {size:,} bytes" for name, size in sizes.items()]
    return notes, [*_ratios("time", passed), *_ratios("processor time", used)]


def _ratios(name: str, seconds: dict[str, float]) -> list[Result]:
    frames = seconds["arrow as a data frame"] / seconds["json as a data frame"]
    return [
        at_most(f"{name}, read", seconds["arrow"] / seconds["json"], "JSON, parsed", GOAL),
        at_most(f"{name}, as a data frame", frames, "JSON, as a data frame", GOAL),
    ]


def _repeat(job: Callable[[], object]) -> None:
    for _ in range(MANY):
        job()


@contextmanager
def _service(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Serve a run with quantiles on a free port; yield its URL, the last step and its process."""
    generator = np.random.default_rng(0)
    rate = 20 + 15 * np.sin(np.arange(HOURS) / 24 * 2 * np.pi)[:, None]
    counts = generator.poisson(rate, (HOURS, PLACES)).astype(np.float64)
    wide = pd.DataFrame(counts, columns=[f"place {n}" for n in range(PLACES)])
    last = pd.Timestamp.now("UTC").floor("h") - pd.Timedelta("1h")  # as where data comes in
    wide.insert(0, "time", pd.date_range(end=last, periods=HOURS, freq="h"))
    panel = Panel.from_wide(wide, timezone="UTC").save(folder / "panel")
    SeasonalNaive().fit(panel, Splits.by_share(panel)).save(folder / "run")
    words = ["-m", "forecaster", "serve", folder / "run", "--panel", folder / "panel"]
    service = subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, *map(str, words), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    printed = service.stdout
    try:
        yield (
            printed.readline().split()[0] if printed else "",
            local_texts(panel, panel.times[-1:])[0],
            service.pid,
        )
    finally:
        service.send_signal(signal.SIGINT)
        service.wait(30)


if __name__ == "__main__":
    main()
