"""`forecaster run FILE --quick` on tables as people have them: which get a forecast.

And a table of 100,000 rows from a cold start to its forecast, with the processor time.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measure import Result, at_least, at_most, read_options, report
from tests.everyday_tables import FURTHER, TABLES
from tests.harder_tables import HARDER

FORECASTS, SENTENCES = 18, 2  # of twenty tables
LARGE_ROWS, GOAL_SECONDS = 100_000, 60.0


@dataclass(frozen=True)
class Outcome:
    """What came of a table: a forecast, a question, or neither."""

    verdict: str
    text: str
    seconds: float
    processor: float


def run_table(paths: Sequence[Path], out: Path) -> Outcome:
    """Run the command on files, as a user without options does."""
    words = [sys.executable, "-m", "forecaster", "run", *map(str, paths), "--quick"]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*words, "--out", str(out)], capture_output=True, text=True, check=False)  # noqa: S603 (our own program)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode == 0 and (out / "forecast.csv").exists():
        return Outcome("forecast", "", seconds, processor)
    asks = done.returncode in (2, 3) and "give " in done.stderr
    last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    return Outcome("sentence" if asks else "neither", last, seconds, processor)


def write_large(folder: Path) -> Path:
    """Write a table of hours at 25 sensors, 100,000 rows."""
    times = pd.date_range("2023-01-01", periods=LARGE_ROWS // 25, freq="h")
    generator, hour = np.random.default_rng(0), times.hour.to_numpy()
    parts = []
    for number in range(25):
        usual = 20 * (number + 1) * (1 + 0.6 * np.sin(2 * np.pi * (hour - 7) / 24))
        values = generator.poisson(usual)
        parts.append(pd.DataFrame({"sensor": f"s{number:02d}", "time": times, "flow": values}))
    path = folder / "sensors.csv"
    pd.concat(parts).to_csv(path, index=False)
    return path


def main() -> None:
    """Run all tables, or with --quick five of them."""
    options = read_options(__doc__)
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    notes, counts = [], {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, tables in (("first", TABLES), ("further", FURTHER), ("harder", HARDER)):
            chosen = tables[:5] if options.quick else tables
            outcomes = []
            for number, table in enumerate(chosen):
                folder = Path(scratch) / name / str(number)
                folder.mkdir(parents=True)
                outcome = run_table(table.write(folder)[0], folder / "out")
                outcomes.append(outcome.verdict)
                times = f"{outcome.seconds:5.1f} s, {outcome.processor:5.1f} s of processor"
                notes.append(f"{table.name:32} {outcome.verdict:9} {times}  {outcome.text[:150]}")
                print(notes[-1], file=sys.stderr, flush=True)
            counts[name] = [outcomes.count(v) for v in ("forecast", "sentence")]
        large = run_table([write_large(Path(scratch))], Path(scratch) / "large")
    size = 5 if options.quick else len(TABLES)
    notes.append(f"{LARGE_ROWS:,} rows: {large.verdict}, {large.seconds:.1f} s, "
                 f"{large.processor:.1f} s of processor")  # fmt: skip
    results = [
        at_least("forecasts", counts["first"][0], f"{size} tables", FORECASTS * size / 20),
        at_least("forecasts or sentences", sum(counts["first"]), f"{size} tables", size),
        Result("further forecasts", counts["further"][0], "ten more tables"),
        at_least("harder forecasts", counts["harder"][0], f"{size} harder tables", 0.9 * size),
        at_most("100,000 rows, seconds of processor", large.processor, "60 s", GOAL_SECONDS),
    ]
    report(options, notes, results)


if __name__ == "__main__":
    main()
