"""Drives the command with databases: the same panels as from files, and nothing secret written."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from forecaster import SeasonalNaive, Splits
from forecaster.panel.panel import Panel
from forecaster.serve.http.metrics import Metrics
from forecaster.serve.service import open_engine
from forecaster.synthetic.city import City, make_city
from tests.servers import PASSWORD, Proxy, Server

Run = Callable[..., tuple[int, str, str]]
HOURS = 24 * 20
RULES = (
    "--timezone",
    "America/New_York",
    "--covers",
    "2015-10-20:2015-11-08",
    "--min-demand",
    "0",
)
TRIPS = """
CREATE TABLE trips (
    pickup_datetime {time}, pickup_longitude {double}, pickup_latitude {double}, driver VARCHAR(80)
)
"""
SALES = (
    "CREATE TABLE sales AS SELECT 's' || s AS shop, TIMESTAMPTZ '2024-01-01 00:00Z' "
    "+ h * INTERVAL '1 hour' AS at, (h * 7 + s) % 11 AS sold "
    "FROM generate_series(0, 999) AS h, generate_series(1, 3) AS s"
)
COLUMNS = ("pickup_datetime", "pickup_longitude", "pickup_latitude")

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def city() -> City:
    return make_city(locations=5, start="2015-10-20", hours=HOURS + 1)  # a clock change within


@pytest.fixture(scope="module")
def trips(city: City, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of trips, beside the candidates; some are far away, late, or without a place."""
    folder = tmp_path_factory.mktemp("trips")
    table = pa.concat_tables(city.trips(0, HOURS)).select(COLUMNS)
    table = table.take(np.arange(0, table.num_rows, 17))
    odd = table.slice(0, 30).to_pandas()
    odd.loc[:9, "pickup_latitude"] = 0.0
    odd.loc[10:19, "pickup_datetime"] += np.timedelta64(400, "D")
    odd.loc[20:, "pickup_longitude"] = None
    table = pa.concat_tables(
        [table, pa.Table.from_pandas(odd, table.schema, preserve_index=False)]
    )
    pq.write_table(table, folder / "trips.parquet")
    locations = city.locations
    places = pa.table({"id": locations.ids, "lat": locations.lat, "lon": locations.lon})
    pyarrow.csv.write_csv(places, folder / "places.csv")
    return folder / "trips.parquet"


@pytest.fixture
def panel(trips: Path, tmp_path: Path, run: Run) -> Panel:
    """The panel of the file."""
    assert ingest(run, trips, trips, tmp_path / "of-file")[0] == 0
    return Panel.open(tmp_path / "of-file")


def ingest(run: Run, trips: Path, source: object, out: Path, *more: str) -> tuple[int, str, str]:
    places = trips.parent / "places.csv"
    return run("ingest", "trips", source, "--out", out, "--candidates", places, *RULES, *more)


def fill(server: Server, trips: Path) -> None:
    """Put the trips into a table of a server, each with a long text that no one needs."""
    kinds = {"time": "TIMESTAMP", "double": "DOUBLE PRECISION"}
    if server.scheme == "mariadb":
        kinds = {"time": "DATETIME", "double": "DOUBLE"}
    server.execute("DROP TABLE IF EXISTS trips", TRIPS.format(**kinds))
    rows = [tuple(row.values()) for row in pq.read_table(trips).to_pylist()]
    connection = server.connect()
    cursor = connection.cursor()
    cursor.executemany(
        f"INSERT INTO trips VALUES (%s, %s, %s, '{'a driver' * 10}')",  # noqa: S608
        rows,
    )
    connection.close()


def same(one: Panel, other: Panel) -> bool:
    return (
        np.array_equal(one.values, other.values, equal_nan=True)
        and one.locations.ids == other.locations.ids
        and one.counts["rejected"] == other.counts["rejected"]
        and one.counts["rows_in"] == other.counts["rows_in"]
    )


def leaks(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and PASSWORD.encode() in p.read_bytes()]


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_trips_of_a_server_give_the_panel_of_their_file(  # noqa: PLR0913, PLR0917 (fixtures)
    kind: str,
    trips: Path,
    panel: Panel,
    tmp_path: Path,
    run: Run,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server: Server = request.getfixturevalue(kind)
    fill(server, trips)
    monkeypatch.setenv("FORECASTER_DATABASE_PASSWORD", PASSWORD)
    with Proxy(server.port) as proxy:
        url = server.url(port=proxy.port)
        code, _, errors = ingest(run, trips, url, tmp_path / "panel", "--query", "trips")
    assert code == 0, errors
    assert same(Panel.open(tmp_path / "panel"), panel)
    assert panel.counts["rejected"]["non_finite"] == 10
    # Only cells and counts travel: of over 100 bytes a row in the table, fewer than 10.
    assert proxy.received < 10 * panel.counts["rows_in"]
    assert not leaks(tmp_path)


def test_trips_of_database_files_give_the_panel_of_their_file(
    trips: Path, panel: Panel, tmp_path: Path, run: Run
) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute(f"CREATE TABLE trips AS FROM '{trips}'")
    rows = [
        (str(time), *place)
        for time, *place in (row.values() for row in pq.read_table(trips).to_pylist())
    ]
    with sqlite3.connect(tmp_path / "a.sqlite") as writer:
        writer.execute(TRIPS.format(time="TIMESTAMP", double="DOUBLE"))
        writer.executemany("INSERT INTO trips VALUES (?, ?, ?, NULL)", rows)
    query = "SELECT pickup_datetime AS t, pickup_latitude AS y, pickup_longitude AS x FROM trips"
    for kind in ("duckdb", "sqlite"):
        out, url = tmp_path / kind, f"{kind}://{tmp_path / f'a.{kind}'}"
        columns = ("--columns", "time=t,lat=y,lon=x")
        code, _, errors = ingest(run, trips, url, out, "--query", query, *columns)
        assert code == 0, errors
        assert same(Panel.open(out), panel)


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "duckdb", "sqlite"])
def test_trips_of_a_database_cover_the_first_event_to_the_last(
    kind: str,
    tmp_path: Path,
    run: Run,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORECASTER_DATABASE_PASSWORD", PASSWORD)
    times = pd.date_range("2015-10-20 06:00", "2015-10-23 09:20", freq="7min")  # ends in an hour
    times = times[times.day != 22]
    rows = [f"('{time}', -74.0, 40.7, NULL)" for time in times]
    names = {"time": "TIMESTAMP", "double": "DOUBLE"}
    if kind == "postgres":
        names["double"] = "DOUBLE PRECISION"
    statements = (
        "DROP TABLE IF EXISTS trips",
        TRIPS.format(**(names | {"time": "DATETIME"} if kind == "mariadb" else names)),
        f"INSERT INTO trips VALUES {', '.join(rows)}",  # noqa: S608 (our own)
    )
    if kind in ("postgres", "mariadb"):
        server: Server = request.getfixturevalue(kind)
        server.execute(*statements)
        url = server.url()
    else:
        file, url = tmp_path / "trips", f"{kind}://{tmp_path / 'trips'}"
        module: Any = duckdb if kind == "duckdb" else sqlite3
        with closing(module.connect(str(file))) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
    rules = ("--timezone", "America/New_York", "--min-demand", "0", "--bbox", "40,-75,41,-73")
    words = ("--query", "trips", "--out", tmp_path / "panel", "--candidates", "from-trips")
    code, _, errors = run("ingest", "trips", url, *words, *rules)
    assert code == 0, errors
    panel = Panel.open(tmp_path / "panel")
    assert panel.counts["covers_found"] == "2015-10-20 06:00 … 2015-10-23 08:00"
    assert panel.counts["days_without_events"] == ["2015-10-22"]
    assert panel.counts["counted"] == (times < "2015-10-23 09:00").sum()
    assert "2015-10-23 09:00 left out: the data ends within this hour" in caplog.text
    days = panel.clock.local(panel.times).astype("datetime64[D]")
    unknown = days == np.datetime64("2015-10-22")
    assert np.isnan(panel.values[unknown]).all()
    assert np.isfinite(panel.values[~unknown]).all()


def test_a_table_of_a_server_gives_the_panel_of_its_file(
    postgres: Server, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    postgres.execute(
        "DROP TABLE IF EXISTS sales",
        "CREATE TABLE sales AS SELECT 's' || s AS shop, TIMESTAMPTZ '2024-01-01 00:00Z' "
        "+ h * INTERVAL '1 hour' AS at, (h * 7 + s) % 11 AS sold, NULL::text AS note "
        "FROM generate_series(0, 99) AS h, generate_series(1, 3) AS s WHERE h <> 50",
    )
    with postgres.connect() as connection, (tmp_path / "sales.csv").open("wb") as file:
        copied = connection.cursor().copy(
            "COPY (SELECT shop, at, sold FROM sales) TO STDOUT CSV HEADER"
        )
        with copied as blocks:
            file.writelines(bytes(block).replace(b"+00", b"+00:00") for block in blocks)
    words = ("--timezone", "UTC", "--columns", "time=at,id=shop,value=sold")
    panels = []
    for out, source, more in (
        ("a", tmp_path / "sales.csv", ()),
        ("b", postgres.url(), ("--query", "SELECT shop, at, sold FROM sales")),
    ):
        code, _, errors = run("ingest", "table", source, "--out", tmp_path / out, *words, *more)
        assert code == 0, errors
        panels.append(Panel.open(tmp_path / out))
    assert np.array_equal(panels[0].values, panels[1].values, equal_nan=True)
    assert not leaks(tmp_path)
    (recipe,) = (tmp_path / "b").glob("recipe-*.toml")  # says where the values came from
    again = run("ingest", "recipe", recipe, "--data", tmp_path, "--out", tmp_path / "c")
    assert again[0] == 0, again[2]
    assert Panel.open(tmp_path / "c").digest == panels[1].digest


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_failure_leaves_no_panel_and_no_password(  # noqa: PLR0913, PLR0917 (fixtures)
    kind: str,
    trips: Path,
    tmp_path: Path,
    run: Run,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Credentials reach neither artifacts nor messages, whatever goes wrong."""
    server: Server = request.getfixturevalue(kind)
    fill(server, trips)
    texts: list[str] = []

    def attempt(url: str, query: str, expected: int, password: str = PASSWORD) -> None:
        with monkeypatch.context() as patch:
            patch.setenv("FORECASTER_DATABASE_PASSWORD", password)
            words = ("--debug", "--query", query)
            code, output, errors = ingest(run, trips, url, tmp_path / "panel", *words)
        assert code == expected, errors
        texts.extend((output, errors))
        assert not (tmp_path / "panel").exists()

    slow = "SELECT * FROM trips WHERE SLEEP(9) = 0"
    if kind == "postgres":
        slow = "SELECT * FROM trips WHERE pg_sleep(9)::text = ''"
    attempt(server.url(), "SELECT * FROM trip", 3)
    attempt(server.url(), "SELECT driver FROM trips", 3)
    attempt(server.url(), "trips", 2, f"{PASSWORD}-wrong")
    attempt(server.url().replace("owner@", f"owner:{PASSWORD}@"), "trips", 2)
    attempt(f"{server.url()}?password={PASSWORD}", "trips", 2)
    attempt(server.url("nosuch"), "trips", 2)
    attempt(f"{server.url()}?timeout=1", slow, 5)
    with Proxy(server.port, limit=5_000) as proxy:  # lost in the first pass
        attempt(server.url(port=proxy.port), "trips", 5)
    with Proxy(server.port, limit=30_000) as proxy:  # lost in the second
        attempt(server.url(port=proxy.port), "trips", 5)
    attempt(server.url(port=1), "trips", 5)
    assert not any(PASSWORD in text for text in (*texts, caplog.text))
    assert not leaks(tmp_path)


def test_no_command_tells_a_password_when_it_fails(  # noqa: PLR0915 (one failure each)
    postgres: Server,
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The failures of `append`, `run`, `forecast --to` and `--mlflow`, and a service's metrics."""
    postgres.execute("DROP TABLE IF EXISTS sales, forecasts", SALES)
    url, panel, saved = postgres.url(), tmp_path / "panel", tmp_path / "run"
    columns = ("--columns", "time=at,id=shop,value=sold", "--timezone", "UTC")
    texts: list[str] = []

    def attempt(expected: int, *words: object, password: str = PASSWORD) -> None:
        with monkeypatch.context() as patch:
            patch.setenv("FORECASTER_DATABASE_PASSWORD", password)
            patch.setenv("MLFLOW_TRACKING_PASSWORD", password)
            patch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
            code, output, errors = run("--debug", *words)
        assert code == expected, errors
        texts.extend((output, errors))

    attempt(0, "ingest", "table", url, "--query", "sales", *columns, "--out", panel)
    opened = Panel.open(panel)
    SeasonalNaive().fit(opened, Splits.by_share(opened)).save(saved)
    attempt(0, "forecast", saved, "--panel", panel, "--to", f"{url}/forecasts")
    with Proxy(postgres.port, limit=3_000) as proxy:
        lost = postgres.url(port=proxy.port)
        for command in (("append", panel), ("run", "--out", tmp_path / "out")):
            attempt(3, *command, url, "--query", "SELECT nothing FROM sales")
            attempt(2, *command, url, "--query", "sales", password=f"{PASSWORD}-wrong")
            attempt(2, *command, f"{url}?password={PASSWORD}", "--query", "sales")
            attempt(5, *command, lost, "--query", "sales")
    write = ("forecast", saved, "--panel", panel, "--to")
    with Proxy(postgres.port, limit=1_000) as proxy:
        attempt(5, *write, postgres.url("test/forecasts", port=proxy.port))
    with closing(postgres.connect()) as connection, connection.transaction():
        connection.execute("LOCK TABLE forecasts")
        attempt(5, *write, f"{url}/forecasts?timeout=2")
    assert "another program holds a lock" in texts[-1]
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("")
    train = ("train", recipe, "--panel", panel, "--out", tmp_path / "trained", "--mlflow")
    attempt(2, *train, f"https://u:{PASSWORD}@127.0.0.1:1")
    attempt(2, *train, f"https://127.0.0.1:1/?token={PASSWORD}")
    attempt(5, *train, "http://127.0.0.1:1")
    engine = open_engine(saved, Panel.open(panel), tmp_path / "store.sqlite")
    texts.append(Metrics().render(engine, None, "")[0].decode())
    engine.close()
    assert "forecaster_" in texts[-1]
    assert not any(PASSWORD in text for text in (*texts, caplog.text))
    assert not leaks(tmp_path)


def test_a_query_is_for_databases_alone(tmp_path: Path, run: Run) -> None:
    words: tuple[Any, ...] = ("--zones", "--timezone", "UTC", "--out", tmp_path / "p")
    code, _, errors = run("ingest", "trips", "a.csv", "--query", "t", *words)
    assert (code, "--query is for databases" in errors) == (2, True)


def test_a_forecast_is_upserted_by_the_command(
    postgres: Server, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    postgres.execute("DROP TABLE IF EXISTS forecasts")
    panel = make_city(locations=2, hours=24 * 60, seed=3).panel.save(tmp_path / "panel")
    SeasonalNaive().fit(panel, Splits.by_share(panel)).save(tmp_path / "run")
    words = ("forecast", tmp_path / "run", "--panel", tmp_path / "panel")
    for _ in range(2):
        code, output, errors = run(*words, "--to", postgres.url("test/forecasts"))
        assert (code, output) == (0, ""), errors
    assert f"6 rows in postgresql://127.0.0.1:{postgres.port}/test/forecasts" in errors
    assert postgres.execute("SELECT count(*), count(DISTINCT cutoff) FROM forecasts") == [(6, 1)]
    code, _, errors = run(*words, "--to", postgres.url("test/forecasts"), "--by", "day")
    assert (code, "leave out --by day" in errors) == (2, True)
    code, _, errors = run(*words, "--to", f"postgresql://owner:{PASSWORD}@127.0.0.1/test/x")
    assert code == 2
    assert PASSWORD not in errors
    assert not leaks(tmp_path)


def test_a_query_is_run_to_its_forecast(
    postgres: Server, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    postgres.execute("DROP TABLE IF EXISTS sales", SALES)
    words = ("run", postgres.url(), "--query", "SELECT at, shop, sold FROM sales", "--quick")
    code, output, errors = run(*words, "--out", tmp_path / "out")
    assert code == 0, errors
    assert "Forecast of" in output
    assert f"127.0.0.1:{postgres.port}" in (tmp_path / "out" / "recipe.toml").read_text()
    code, _, errors = run("run", postgres.url(), "--out", tmp_path / "none")
    assert (code, "give --query" in errors) == (2, True)
    assert not leaks(tmp_path)


def test_an_append_reads_from_the_watermark_on(
    postgres: Server, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    rows = (
        "SELECT 's' || s AS shop, TIMESTAMPTZ '2024-01-01 00:00Z' + h * INTERVAL '1 hour' AS at, "
        "h * 100 + s AS number, (h * 7 + s) % 11 AS sold "
        "FROM generate_series({}, {}) AS h, generate_series(1, 3) AS s"
    )
    postgres.execute("DROP TABLE IF EXISTS sales", f"CREATE TABLE sales AS {rows.format(0, 499)}")
    words = ("--query", "sales", "--columns", "time=at,id=shop,value=sold")
    panel, more = tmp_path / "panel", ("--query", "sales", "--watermark", "number")

    def append(*hours: int) -> tuple[str, str]:
        if hours:
            postgres.execute(f"INSERT INTO sales {rows.format(*hours)}")
        code, output, errors = run("append", panel, postgres.url(), *more)
        assert code == 0, errors
        return output, errors

    made = run("ingest", "table", postgres.url(), "--out", panel, "--timezone", "UTC", *words)
    assert made[0] == 0, made[2]
    output, errors = append()  # without a mark all rows are read, and it is noted
    assert "1,500 rows" in errors
    assert "nothing new" in output
    for hours in ((500, 509), (510, 519)):
        output, errors = append(*hours)
        assert "31 rows" in errors  # with that of the mark itself
        assert "10 steps more" in output
    version = Panel.open(panel).digest
    output, errors = append()
    assert "1 row read" in errors
    assert "number ≥ 51903" in errors
    assert "stays" in output
    assert (Panel.open(panel).digest, Panel.open(panel).shape) == (version, (520, 3))
    assert not leaks(tmp_path)
    code, _, errors = run("append", panel, tmp_path / "a.csv", "--watermark", "number")
    assert (code, "is for the rows of one database" in errors) == (2, True)


def test_an_ingest_sets_the_first_watermark(
    postgres: Server, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    rows = (
        "SELECT 's' || s AS shop, TIMESTAMPTZ '2024-01-01 00:00Z' + h * INTERVAL '1 hour' AS at, "
        "(h * 7 + s) % 11 AS sold FROM generate_series({}, {}) AS h, generate_series(1, 3) AS s"
    )
    postgres.execute("DROP TABLE IF EXISTS sales", f"CREATE TABLE sales AS {rows.format(0, 499)}")
    panel = tmp_path / "panel"
    with Proxy(postgres.port) as proxy:
        words = (postgres.url(port=proxy.port), "--query", "sales", "--watermark", "at")
        columns = ("--columns", "time=at,id=shop,value=sold", "--timezone", "UTC")
        code, _, errors = run("ingest", "table", *words, *columns, "--out", panel)
        assert code == 0, errors
        postgres.execute(f"INSERT INTO sales {rows.format(500, 509)}")
        all_rows = proxy.received
        code, _, errors = run("append", panel, *words)
        assert code == 0, errors
        assert proxy.received - all_rows < all_rows / 4
    assert "33 rows" in errors
    assert Panel.open(panel).shape == (510, 3)
    code, _, errors = run("ingest", "table", "a.csv", "--watermark", "at", *columns, "--out", "p")
    assert (code, "is for the rows of one database" in errors) == (2, True)
