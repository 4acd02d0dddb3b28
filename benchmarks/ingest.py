"""Ingest of synthetic coordinate rows against the same two passes in bare DuckDB SQL."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Result, at_most, medians, read_options, report

ROWS, GROWTH = 15_000_000, (5_000_000, 15_000_000, 30_000_000, 60_000_000)
QUICK_ROWS, QUICK_GROWTH = 3_000_000, (1_500_000, 3_000_000, 6_000_000)
GIGABYTE = 2**30
FAULTY = 0.01  # share of rows at latitude 0, as real files have them
SPAN = "2014-01-01:2014-12-31"

if __name__ == "__main__" and "--child" not in sys.argv:
    OPTIONS = read_options(__doc__)

import duckdb  # noqa: E402 (after the number of threads is set)
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from forecaster.config import PanelConfig, TripsConfig  # noqa: E402
from forecaster.ingest.demand.engine import open_engine  # noqa: E402
from forecaster.ingest.demand.trips import TripIngest, ingest_trips  # noqa: E402
from forecaster.ingest.files import InputFile, TimeSpan, parse_span  # noqa: E402
from forecaster.ingest.hot_locations.cells import Cells  # noqa: E402
from forecaster.ingest.hot_locations.selection import select_hot  # noqa: E402
from forecaster.panel.parts import Locations  # noqa: E402

CELLS_SQL = """
SELECT CASE WHEN t IS NULL THEN 2
            WHEN y IS NULL OR x IS NULL OR isnan(y) OR isnan(x) OR isinf(y) OR isinf(x) THEN 3
            WHEN NOT (y BETWEEN {south} AND {north} AND x BETWEEN {west} AND {east}) THEN 4
            WHEN NOT (t >= '2014-01-01' AND t < '2015-01-01') THEN 6
            WHEN t >= '2014-11-02 01:00' AND t < '2014-11-02 02:00' THEN 7
            WHEN t >= '2014-03-09 02:00' AND t < '2014-03-09 03:00' THEN 8 ELSE 0 END AS code,
       CASE WHEN code = 0 THEN round(y * 10000)::BIGINT ELSE 0 END AS a,
       CASE WHEN code = 0 THEN round(x * 10000)::BIGINT ELSE 0 END AS b, count(*) AS n
FROM (SELECT pickup_datetime AS t, pickup_latitude AS y, pickup_longitude AS x FROM '{path}')
GROUP BY ALL
"""
HOURS_SQL = """
SELECT location, epoch(t)::BIGINT // 3600 AS hour, count(*) AS n
FROM (SELECT pickup_datetime AS t, pickup_latitude AS y, pickup_longitude AS x FROM '{path}')
JOIN lookup ON round(y * 10000)::BIGINT = a AND round(x * 10000)::BIGINT = b
WHERE y BETWEEN {south} AND {north} AND x BETWEEN {west} AND {east}
  AND t >= '2014-01-01' AND t < '2015-01-01'
  AND NOT (t >= '2014-11-02 01:00' AND t < '2014-11-02 02:00')
  AND NOT (t >= '2014-03-09 02:00' AND t < '2014-03-09 03:00')
GROUP BY ALL
"""


def main() -> None:
    """Compare at one size, then measure time and memory by size, each in a fresh process."""
    rows, growth = (QUICK_ROWS, QUICK_GROWTH) if OPTIONS.quick else (ROWS, GROWTH)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trips.parquet"
        write_trips(path, rows)
        locations = candidates()
        jobs = {"bare": lambda: bare(path, locations), "ingest": lambda: ours(path, locations)}
        seconds = medians(jobs, repeats=1 if OPTIONS.quick else 3)
        notes = [f"{rows:,} rows, {path.stat().st_size / 1e6:.0f} MB of Parquet, 2 threads"]
        notes += [f"{name:10} {taken:8.2f} s" for name, taken in seconds.items()]
        measured = [_measure(Path(folder), size) for size in growth]
    notes += [f"{n:>12,} rows {s:7.2f} s {p:6.2f} GiB" for n, s, p in measured]
    ratio = seconds["ingest"] / seconds["bare"]
    first, last = measured[0], measured[-1]
    per_row = (last[1] / last[0]) / (first[1] / first[0])
    results = [
        at_most("ingest trips", ratio, "the same passes as bare DuckDB SQL", 1.6),
        at_most("peak memory", measured[1][2] / 1.5, "1.5 GiB", 1.0),
        Result(
            f"seconds per row, ×{last[0] // first[0]} rows", round(per_row, 3), "the smallest size"
        ),
        Result(
            f"memory, ×{last[0] // first[0]} rows",
            round(last[2] / first[2], 3),
            "the smallest size",
        ),
    ]
    report(OPTIONS, notes, results)


def ours(path: Path, locations: Locations) -> None:
    """Ingest the trips, without hashing the input."""
    covered: TimeSpan = parse_span(SPAN)
    panel = PanelConfig(timezone="America/New_York", nonexistent="null")
    item, engine = InputFile(path, "", covered), open_engine("duckdb", 2)
    ingest_trips(TripIngest([item], locations, panel, TripsConfig(min_demand=10.0), engine))


def bare(path: Path, locations: Locations) -> None:
    """Run the same counts and the same selection as plain DuckDB SQL."""
    box = {
        "south": locations.lat.min() - 0.002, "north": locations.lat.max() + 0.002,
        "west": locations.lon.min() - 0.0025, "east": locations.lon.max() + 0.0025, "path": path,
    }  # fmt: skip
    with duckdb.connect(config={"threads": 2}) as connection:
        cells = connection.sql(CELLS_SQL.format(**box)).to_arrow_table()
        accepted = cells.filter(pa.compute.field("code") == 0)
        a, b, n = (accepted[name].cast(pa.int64()).to_numpy() for name in ("a", "b", "n"))
        chosen = select_hot(Cells(a, b, n), locations, 10.0 * 8760, 200.0)
        lookup = pa.table({"a": a, "b": b, "location": chosen.location_of_cell})
        connection.register("lookup", lookup.filter(pa.compute.field("location") >= 0))
        connection.sql(HOURS_SQL.format(**box)).to_arrow_table()


def candidates() -> Locations:
    """A grid of 1,200 locations on a strip like Manhattan."""
    lat, lon = np.meshgrid(np.linspace(40.70, 40.86, 60), np.linspace(-74.02, -73.94, 20))
    ids = tuple(f"p{n}" for n in range(lat.size))
    return Locations(ids, ids, lat.ravel(), lon.ravel())


def write_trips(path: Path, rows: int) -> None:
    """Write trips with coordinates, a few of them faulty, in chunks of a million."""
    generator = np.random.default_rng(0)
    locations = candidates()
    weight = generator.lognormal(0, 1, len(locations))
    begin = np.datetime64("2014-01-01", "us")
    schema = pa.schema(
        {
            "pickup_datetime": pa.timestamp("us"),
            "pickup_longitude": pa.float64(),
            "pickup_latitude": pa.float64(),
        }
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, 1_000_000):
            n = min(1_000_000, rows - start)
            location = generator.choice(len(locations), n, p=weight / weight.sum())
            times = begin + (generator.random(n) * 365 * 86400).astype("timedelta64[s]")
            lat = locations.lat[location] + generator.normal(0, 0.0006, n)
            lon = locations.lon[location] + generator.normal(0, 0.0008, n)
            lat[generator.random(n) < FAULTY] = 0.0
            writer.write_table(pa.table([times, lon, lat], schema=schema))


def _measure(folder: Path, rows: int) -> tuple[int, float, float]:
    """The rows, seconds and peak GiB of one ingest in a fresh process."""
    path = folder / f"{rows}.parquet"
    write_trips(path, rows)
    words = [sys.executable, "-m", "benchmarks.ingest", "--child", str(path)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603 (ourselves)
    path.unlink()
    seconds, peak = done.stdout.split()
    return rows, float(seconds), float(peak)


def child(path: str) -> None:
    """Ingest once and print seconds and peak GiB."""
    begin = time.perf_counter()
    ours(Path(path), candidates())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIGABYTE
    print(time.perf_counter() - begin, peak)


if __name__ == "__main__":
    if "--child" in sys.argv:
        child(sys.argv[-1])
    else:
        main()
