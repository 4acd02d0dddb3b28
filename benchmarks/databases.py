"""Trips counted in PostgreSQL by the command, against the same two queries sent by hand."""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import BytesIO, StringIO
from math import inf
from pathlib import Path

from benchmarks.measure import at_most, processor_seconds, read_options, report

OPTIONS = read_options(__doc__)

import pyarrow as pa  # noqa: E402 (after the number of threads is set)
import pyarrow.csv  # noqa: E402

from benchmarks.ingest import SPAN, candidates  # noqa: E402
from forecaster.cli.app import main as command  # noqa: E402
from forecaster.ingest.hot_locations.cells import Cells  # noqa: E402
from forecaster.ingest.hot_locations.selection import select_hot  # noqa: E402
from tests.servers import PASSWORD, Proxy, Server, serve_postgres  # noqa: E402

ROWS, QUICK_ROWS = int(os.environ.get("ROWS", "15_000_000")), 300_000
MIN_DEMAND = 0.01  # rides per hour, so that small tables have locations too
TABLE_SQL = """
CREATE TABLE trips AS
SELECT TIMESTAMP '2014-01-01' + floor(random() * 365 * 86400) * INTERVAL '1 second'
         AS pickup_datetime,
       -74.02 + place % 20 * 0.08 / 19 + noise * cos(turn) * 0.0008 AS pickup_longitude,
       CASE WHEN random() < 0.01 THEN 0
            ELSE 40.70 + place / 20 * 0.16 / 59 + noise * sin(turn) * 0.0006 END
         AS pickup_latitude,
       'CMT'::text AS vendor, 1 + (random() * 4)::int AS passengers, random() * 40 AS fare
FROM (SELECT floor(1200 * random() ^ 2)::int AS place, sqrt(-2 * ln(1 - random())) AS noise,
             random() * 2 * pi() AS turn FROM generate_series(1, {rows})) AS drawn
"""
WITHIN = """
pickup_latitude BETWEEN {south} AND {north} AND pickup_longitude BETWEEN {west} AND {east}
"""
AUTUMN = "pickup_datetime >= '2014-11-02 01:00' AND pickup_datetime < '2014-11-02 02:00'"
SPRING = "pickup_datetime >= '2014-03-09 02:00' AND pickup_datetime < '2014-03-09 03:00'"
YEAR = "pickup_datetime >= '2014-01-01' AND pickup_datetime < '2015-01-01'"
CELLS_SQL = f"""
SELECT code, CASE WHEN code = 0 THEN round(pickup_latitude * 10000)::bigint END AS a,
       CASE WHEN code = 0 THEN round(pickup_longitude * 10000)::bigint END AS b, count(*) AS n
FROM (SELECT *, CASE WHEN pickup_datetime IS NULL THEN 2
                     WHEN pickup_latitude IS NULL OR pickup_longitude IS NULL THEN 3
                     WHEN NOT ({{within}}) THEN 4 WHEN NOT ({YEAR}) THEN 6
                     WHEN {AUTUMN} THEN 7 WHEN {SPRING} THEN 8 ELSE 0 END AS code
      FROM trips) AS judged GROUP BY 1, 2, 3
"""  # noqa: S608 (our own)
HOURS_SQL = f"""
SELECT location, floor(date_part('epoch', pickup_datetime) / 3600)::bigint AS hour, count(*) AS n
FROM trips JOIN lookup ON round(pickup_latitude * 10000)::bigint = a
                      AND round(pickup_longitude * 10000)::bigint = b
WHERE {{within}} AND {YEAR} AND NOT ({AUTUMN}) AND NOT ({SPRING}) GROUP BY 1, 2
"""  # noqa: S608 (our own)


def main() -> None:
    """Fill a table in a server of our own, and count its trips in turns."""
    rows = QUICK_ROWS if OPTIONS.quick else ROWS
    os.environ["PGPASSWORD"] = PASSWORD
    with serve_postgres() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server.execute(TABLE_SQL.format(rows=rows), "VACUUM ANALYZE trips")
        size = server.execute("SELECT pg_table_size('trips')")[0][0]
        _write_candidates(folder / "places.csv")
        lookup = _choose_cells(by_hand(server, CELLS_SQL))
        with Proxy(server.port) as proxy:
            ingest(server.url(port=proxy.port), folder)
            received = proxy.received
        jobs = {
            "by hand": lambda: both_by_hand(server, lookup),
            "command": lambda: ingest(server.url(), folder),
        }
        passed, used = _measure(jobs, 3 if OPTIONS.quick else 2, server.pid)
    notes = [f"{rows:,} rows, {size / 1e6:,.0f} MB in PostgreSQL, {len(lookup):,} cells chosen"]
    notes += [f"received by the command: {received:,} bytes, {received / rows:.2f} a row"]
    notes += [f"{name:8} {passed[name]:8.2f} s, {used[name]:.2f} s of processors" for name in jobs]
    hand = "the same SQL by hand"
    results = [
        at_most(name, seconds["command"] / seconds["by hand"], hand, 1.3)
        for name, seconds in (("time", passed), ("processor time", used))
    ]
    report(OPTIONS, notes, results)


def _measure(
    jobs: dict[str, Callable[[], None]], repeats: int, server: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the shortest time of each job, and its processor time; the jobs take turns."""
    passed, used = dict.fromkeys(jobs, inf), dict.fromkeys(jobs, inf)
    for _ in range(repeats):
        for name, job in jobs.items():
            begin, before = time.perf_counter(), processor_seconds(server)
            job()
            passed[name] = min(passed[name], time.perf_counter() - begin)
            used[name] = min(used[name], processor_seconds(server) - before)
    return passed, used


def ingest(url: str, folder: Path) -> None:
    """Run the command in this process."""
    words = ["ingest", "trips", url, "--query", "trips", "--covers", SPAN, "--out"]
    words += [f"{folder / 'panel'}", "--candidates", f"{folder / 'places.csv'}"]
    words += ["--timezone", "America/New_York", "--nonexistent", "null"]
    words += ["--min-demand", f"{MIN_DEMAND}"]
    printed = StringIO()
    with redirect_stderr(StringIO()), redirect_stdout(printed), suppress(SystemExit):
        command(words)
    if "location" not in printed.getvalue():
        raise RuntimeError(printed.getvalue())


def both_by_hand(server: Server, lookup: pa.Table) -> None:
    """Count cells, send those that are chosen, and count hours."""
    by_hand(server, CELLS_SQL)
    by_hand(server, HOURS_SQL, lookup)


def by_hand(server: Server, sql: str, lookup: pa.Table | None = None) -> pa.Table:
    """Return the rows of a query, copied as text."""
    places, edge = candidates(), 0.0025
    box = WITHIN.format(
        south=places.lat.min() - edge, north=places.lat.max() + edge,
        west=places.lon.min() - edge, east=places.lon.max() + edge,
    )  # fmt: skip
    with server.connect() as connection, connection.cursor() as cursor:
        if lookup is not None:
            cursor.execute("CREATE TEMPORARY TABLE lookup (a bigint, b bigint, location bigint)")
            sink = pa.BufferOutputStream()
            pa.csv.write_csv(lookup, sink, pa.csv.WriteOptions(include_header=False))
            with cursor.copy("COPY lookup FROM STDIN (FORMAT csv)") as copy:
                copy.write(sink.getvalue().to_pybytes())
            cursor.execute("ANALYZE lookup")
        sink = BytesIO()
        rows = f"COPY ({sql.format(within=box)}) TO STDOUT (FORMAT csv, HEADER)"
        with cursor.copy(rows) as copy:
            sink.writelines(copy)
    return pa.csv.read_csv(pa.BufferReader(sink.getbuffer()))


def _choose_cells(cells: pa.Table) -> pa.Table:
    """Return the cells near the busy candidates, with the numbers of these."""
    accepted = cells.filter(pa.compute.equal(cells["code"], 0))
    a, b, n = (accepted[name].to_numpy() for name in ("a", "b", "n"))
    chosen = select_hot(Cells(a, b, n), candidates(), MIN_DEMAND * 8760, 200.0)
    lookup = pa.table({"a": a, "b": b, "location": chosen.location_of_cell})
    return lookup.filter(pa.compute.field("location") >= 0)


def _write_candidates(path: Path) -> None:
    places = candidates()
    pa.csv.write_csv(pa.table({"id": places.ids, "lat": places.lat, "lon": places.lon}), path)


if __name__ == "__main__":
    main()
