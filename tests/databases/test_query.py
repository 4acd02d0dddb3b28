import sqlite3
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from forecaster.databases.query import Query, Watermark
from forecaster.errors import ConfigError, DataError, ForecasterError, RunError
from tests.servers import PASSWORD, Proxy, Server

READINGS = """
CREATE TABLE readings (
    sensor VARCHAR(20), ds TIMESTAMP, flow {double}, lanes INTEGER, price NUMERIC(8, 2), note TEXT
)
"""
VALUES = """
INSERT INTO readings VALUES
    ('007', '2024-01-01 00:00:00', 1.5, 2, 3.25, 'first, "quoted"'),
    ('007', '2024-01-01 01:00:00', NULL, 0, NULL, ''),
    ('Ümläut', '2024-03-31 02:30:00', -0.1, -7, 100, NULL)
"""


@pytest.fixture(params=["postgres", "mariadb", "duckdb", "sqlite"])
def readings(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The address of a database with three readings."""
    monkeypatch.setenv("FORECASTER_DATABASE_PASSWORD", PASSWORD)
    if request.param in ("postgres", "mariadb"):
        server: Server = request.getfixturevalue(request.param)
        double = "DOUBLE PRECISION"
        server.execute("DROP TABLE IF EXISTS readings", READINGS.format(double=double), VALUES)
        return server.url()
    path = tmp_path / f"readings.{request.param}"
    connect: Callable[..., object] = {"duckdb": duckdb, "sqlite": sqlite3}[request.param].connect
    connection = connect(str(path))
    connection.execute(READINGS.format(double="DOUBLE"))  # type: ignore[attr-defined]
    connection.execute(VALUES)  # type: ignore[attr-defined]
    connection.commit()  # type: ignore[attr-defined]
    connection.close()  # type: ignore[attr-defined]
    return f"{request.param}://{path}"


@pytest.mark.servers
@pytest.mark.parametrize("sql", ["readings", "SELECT * FROM readings;"])
def test_every_database_gives_the_same_rows(readings: str, sql: str) -> None:
    table = Query.parse(readings, sql).read().sort_by("ds")
    assert table["sensor"].to_pylist() == ["007", "007", "Ümläut"]
    assert table["flow"].to_pylist() == [1.5, None, -0.1]
    assert table["lanes"].to_pylist() == [2, 0, -7]
    assert [None if p is None else float(p) for p in table["price"].to_pylist()] == [
        3.25,
        None,
        100,
    ]
    assert table["note"].to_pylist() == ['first, "quoted"', "", None]
    times = [str(time)[:19] for time in table["ds"].to_pylist()]
    assert times == ["2024-01-01 00:00:00", "2024-01-01 01:00:00", "2024-03-31 02:30:00"]
    assert (table.schema.metadata or {})[b"forecaster.source"].decode() in readings.replace(
        "owner@", ""
    )


@pytest.mark.servers
def test_tables_have_schemas_and_queries_have_comments(readings: str) -> None:
    kind = readings.partition(":")[0]
    schema = {"postgresql": "public", "mariadb": "test"}.get(kind, "main")
    for sql in (
        f"{schema}.readings",
        "-- those of today\n/* and of\nyesterday */ SELECT * FROM readings -- all",
    ):
        assert Query.parse(readings, sql).read().num_rows == 3


@pytest.mark.servers
def test_rows_from_a_watermark_on_are_read_alone(readings: str) -> None:
    query, mark = Query.parse(readings, "readings"), Watermark("lanes", 0)
    table = query.read(mark)
    assert sorted(table["lanes"].to_pylist()) == [0, 2]
    assert mark.newest(table) == 2
    assert mark.newest(table.slice(0, 0)) == 0
    times = Watermark("ds", Watermark("ds").newest(query.read()))
    rows = query.read(times)
    assert rows["sensor"].to_pylist() == ["Ümläut"]
    with pytest.raises(ConfigError, match="no column line; found: sensor, ds"):
        query.read(Watermark("line"))


@pytest.mark.servers
@pytest.mark.parametrize("sql", ["SELECT sensr FROM readings", "SELECT * FROM reading", "reading"])
def test_a_changed_schema_is_a_data_error(readings: str, sql: str) -> None:
    with pytest.raises(DataError, match="compare their columns"):
        Query.parse(readings, sql).read()


@pytest.mark.servers
def test_a_query_cannot_write(readings: str) -> None:
    with pytest.raises(ConfigError, match="--query begins with 'DELETE'; give a SELECT"):
        Query.parse(readings, "DELETE FROM readings")
    hidden = "WITH gone AS (DELETE FROM readings RETURNING *) SELECT * FROM gone"
    with pytest.raises(ForecasterError):
        Query.parse(readings, hidden).read()
    assert Query.parse(readings, "readings").read().num_rows == 3


def test_an_address_without_a_query_asks_for_it() -> None:
    with pytest.raises(ConfigError, match="give --query 'select …'"):
        Query.parse("postgresql://host/db", " ; ")


@pytest.mark.servers
def test_a_zone_of_a_time_is_kept(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    sql = (
        "SELECT TIMESTAMPTZ '2024-06-01 08:00:00-04' AS at, true AS open, DATE '2024-06-01' AS day"
    )
    table = Query.parse(postgres.url(), sql).read()
    assert table.schema.field("at").type.tz == "UTC"
    (row,) = table.to_pylist()
    assert row["at"].isoformat() == "2024-06-01T12:00:00+00:00"
    assert row["open"] is True
    assert row["day"].isoformat() == "2024-06-01"


@pytest.mark.servers
@pytest.mark.parametrize("readings", ["postgres", "mariadb"], indirect=True)  # not files
def test_a_wrong_password_is_told_without_it(
    readings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORECASTER_DATABASE_PASSWORD", "falsch-5521")
    with pytest.raises(ConfigError, match="the password in FORECASTER_DATABASE") as refusal:
        Query.parse(readings, "readings").read()
    assert "falsch" not in str(refusal.value)


@pytest.mark.servers
def test_a_slow_query_is_ended(readings: str) -> None:
    slow = {
        "postgresql": "SELECT pg_sleep(30)::text AS x",
        "mariadb": "SELECT SLEEP(30) AS x FROM readings",
    }
    slow |= {
        "duckdb": "SELECT count(*) AS x FROM range(10000000) a, range(10000000) b",
        "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT max(x) AS x FROM n",
    }
    sql = slow[readings.partition(":")[0]]
    with pytest.raises(RunError, match=r"took too long.*\?timeout=SECONDS"):
        Query.parse(f"{readings}?timeout=1", sql).read()


@pytest.mark.servers
def test_a_lock_ends_the_wait(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    postgres.execute("CREATE TABLE IF NOT EXISTS held (x INTEGER)")
    with postgres.connect() as holder, holder.transaction():
        holder.execute("LOCK TABLE held")
        with pytest.raises(RunError, match="another program holds a lock"):
            Query.parse(f"{postgres.url()}?timeout=4", "held").read()


def test_texts_of_sqlite_with_an_offset_stay_as_they_are(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.sqlite") as writer:
        writer.execute("CREATE TABLE t (a TIMESTAMP, b TIMESTAMP)")
        writer.execute("INSERT INTO t VALUES ('2024-01-01T08:00', '2024-01-01 08:00-05:00')")
    (row,) = Query.parse(f"sqlite://{tmp_path / 'a.sqlite'}", "t").read().to_pylist()
    assert (str(row["a"]), row["b"]) == ("2024-01-01 08:00:00", "2024-01-01 08:00-05:00")


def test_a_database_file_in_use_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as holder:
        holder.execute("CREATE TABLE t (x INTEGER)")
        holder.commit()
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RunError, match="another program holds a lock"):
            Query.parse(f"sqlite://{path}?timeout=2", "t").read()


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_lost_connection_is_told(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORECASTER_DATABASE_PASSWORD", PASSWORD)
    server: Server = request.getfixturevalue(kind)
    server.execute(
        "DROP TABLE IF EXISTS many",
        "CREATE TABLE many AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n "
        "WHERE x < 1000) SELECT x, CONCAT('some text of row ', x) AS text FROM n",
    )
    with Proxy(server.port, limit=20_000) as proxy:
        query = Query.parse(server.url(port=proxy.port), "many")
        with pytest.raises(RunError, match="run the same command again"):
            query.read()
    assert isinstance(Query.parse(server.url(), "many").read(), pa.Table)
