"""Opening a panel of the paper's size against the bare read of its largest file."""

import tempfile
from pathlib import Path

from benchmarks.measure import Result, at_most, medians, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the number of threads is set)
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from forecaster.clock.clock import Clock  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.panel.parts import Covariates, LocalCovariates, Locations  # noqa: E402

LOCATIONS, HOURS = 996, 65_711
MISSING = 0.01


def main() -> None:
    """Save a panel once, then time opening it in three ways."""
    pa.set_cpu_count(2)
    pa.set_io_thread_count(2)
    repeats = 5 if OPTIONS.quick else 15
    with tempfile.TemporaryDirectory() as folder:
        _panel().save(folder)
        file = next(Path(folder).glob("values-*.parquet"))

        def bare() -> np.ndarray:  # np.stack, the faster way; np.column_stack takes twice as long
            return np.stack([column.to_numpy() for column in pq.read_table(file).columns[1:]])

        seconds = medians(
            {
                "bare": bare,
                "open": lambda: Panel.open(folder, verify=False),
                "verified": lambda: Panel.open(folder),
            },
            repeats,
        )
        size = file.stat().st_size / 1e6
    memory = LOCATIONS * HOURS * 4 / 1e6
    notes = [
        f"{LOCATIONS} × {HOURS:,}: {memory:.0f} MB in memory, {size:.0f} MB on disk",
        *(f"{name:10} {taken * 1e3:8.0f} ms" for name, taken in seconds.items()),
    ]
    bare_name = "read_table + one float32 array"
    results = [
        at_most("Panel.open(verify=False)", seconds["open"] / seconds["bare"], bare_name, 1.5),
        Result("Panel.open()", round(seconds["verified"] / seconds["bare"], 3), bare_name),
    ]
    report(OPTIONS, notes, results)


def _panel() -> Panel:
    """Counts of the paper's size with one hour in a hundred missing."""
    generator = np.random.default_rng(0)
    mean = generator.lognormal(3.0, 1.0, LOCATIONS)
    values = np.empty((LOCATIONS, HOURS), dtype=np.float32)
    for row, rate in zip(values, mean, strict=True):
        row[:] = generator.poisson(rate, HOURS)
        row[generator.random(HOURS) < MISSING] = np.nan
    empty = np.empty((0, HOURS, LOCATIONS), dtype=np.float32)
    weather = generator.normal(size=(HOURS, 7)).astype(np.float32)
    return Panel(
        values=values.T,
        start=np.datetime64("2009-01-01T05", "s"),
        clock=Clock("America/New_York"),
        kind="count",
        locations=Locations.of_ids(str(i) for i in range(LOCATIONS)),
        covariates=Covariates(tuple(f"w{i}" for i in range(7)), weather),
        local_covariates=LocalCovariates((), empty),
    )


if __name__ == "__main__":
    main()
