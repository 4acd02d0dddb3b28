"""Appending a day to a panel of 996 locations × 65,711 hours: time, memory, bytes, and equality.

python -m benchmarks.append [--quick]
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.recipe import Recipe

STEPS, PLACES, DAY = 65_711, 996, 24
QUICK = 4_001, 97


def make_panel(steps: int, places: int) -> Panel:
    """Return counts with two covariates; a hundredth is missing."""
    generator = np.random.default_rng(1)
    values = generator.poisson(20.0, (places, steps)).astype(np.float32).T
    values[generator.random(values.shape, dtype=np.float32) < 0.01] = np.nan  # noqa: PLR2004
    ds = pd.date_range("2009-01-01", periods=2, freq="h", tz="UTC")
    first = pd.DataFrame({"time": ds, **{f"p{n:04}": 1.0 for n in range(places)}})
    small = Panel.from_wide(
        first, timezone="America/New_York", step_minutes=60, hours="always", country="US"
    )
    weather = generator.random((steps, 2), dtype=np.float32)
    none = LocalCovariates.empty(steps, places)
    return replace(
        small, values=values, covariates=Covariates(("rain", "wind"), weather),
        local_covariates=none,
    )  # fmt: skip


def measure(job: Any, *words: Any) -> dict[str, float]:
    """Return the seconds and the peak MiB of a job in a process of its own."""
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        job(*words)
        os._exit(0)
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit("the measured process failed")
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mib": round(usage.ru_maxrss / 1024),
    }


def written(folder: Path, before: set[str]) -> int:
    """Return the bytes of the files that are new."""
    return sum(p.stat().st_size for p in folder.iterdir() if p.name not in before)


def main() -> None:
    """Print a line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    steps, places = QUICK if quick else (STEPS, PLACES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = make_panel(steps, places)
        old = folder / "old"
        whole.steps(0, steps - 7 * DAY, steps - 7 * DAY).save(old, Recipe.of({"table": {}}))
        whole.save(folder / "once")
        files = [write_day(folder, whole, steps - (7 - day) * DAY) for day in range(7)]
        del whole
        for day, (values, weather) in enumerate(files):
            before = {p.name for p in old.iterdir()}
            line = {"day": day + 1, **measure(command, old, values, weather)}
            line["written_mb"] = round(written(old, before) / 1e6, 3)
            print(json.dumps(line), flush=True)
        once, grown = Panel.open(folder / "once"), Panel.open(old)
        same = np.array_equal(once.values, grown.values, equal_nan=True)
        same &= np.array_equal(once.covariates.values, grown.covariates.values, equal_nan=True)
        print(json.dumps({"shape": grown.shape, "equal_to_built_at_once": same}))


def command(*words: Path) -> None:
    """Run `forecaster append` as a program: the imports count."""
    folder, values, weather = words
    arguments = ["append", str(folder), str(values), "--covariates", str(weather)]
    os.execv(sys.executable, [sys.executable, "-m", "forecaster", "-q", *arguments])  # noqa: S606


def write_day(folder: Path, whole: Panel, first: int) -> tuple[Path, Path]:
    """Write the tables of one day."""
    times = pd.DatetimeIndex(whole.times[first : first + DAY]).tz_localize("UTC")
    frame = pd.DataFrame(whole.values[first : first + DAY], columns=list(whole.locations.ids))
    frame.insert(0, "time", times)
    paths = folder / f"values_{first}.csv", folder / f"weather_{first}.csv"
    frame.to_csv(paths[0], index=False)
    values = whole.covariates.values[first : first + DAY]
    covariates = pd.DataFrame(values, columns=list(whole.covariates.names))
    covariates.insert(0, "time", times)
    covariates.to_csv(paths[1], index=False, float_format="%.9g")
    return paths


if __name__ == "__main__":
    main()
