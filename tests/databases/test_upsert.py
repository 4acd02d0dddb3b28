import sqlite3
import threading
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from forecaster.databases.query import Query
from forecaster.databases.upsert import ForecastTable
from forecaster.errors import ConfigError, DataError, RunError
from tests.servers import PASSWORD, Proxy, Server

CUTOFF = pd.Timestamp("2024-03-31T00:00Z")


def forecast(level: float = 0.0) -> pd.DataFrame:
    ids, steps = ["a", "A", "ä", "日本"], 2
    ds = [CUTOFF + pd.Timedelta(hours=k + 1) for _ in ids for k in range(steps)]
    y_hat = level + np.arange(len(ds), dtype=np.float32) / 3
    y_hat[-1] = np.nan
    return pd.DataFrame(
        {
            "unique_id": np.repeat(np.array(ids, dtype=object), steps), "ds": ds,
            "ds_local": [str(t) for t in ds], "cutoff": CUTOFF, "y_hat": y_hat, "q2.5": y_hat - 1,
        }
    )  # fmt: skip


@pytest.fixture(params=["postgres", "mariadb", "duckdb", "sqlite"])
def database(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The address of a database without a table of forecasts."""
    monkeypatch.setenv("FORECASTER_DATABASE_PASSWORD", PASSWORD)
    if request.param in ("postgres", "mariadb"):
        server: Server = request.getfixturevalue(request.param)
        server.execute("DROP TABLE IF EXISTS forecasts")
        return server.url()
    return f"{request.param}://{tmp_path / 'x'}.{request.param}"


def execute(database: str, statement: str, request: pytest.FixtureRequest) -> None:
    kind, _, path = database.partition("://")
    if kind == "sqlite":
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
    elif kind == "duckdb":
        with duckdb.connect(path) as connection:
            connection.execute(statement)
    else:
        request.getfixturevalue({"postgresql": "postgres"}.get(kind, kind)).execute(statement)


def read(database: str) -> pd.DataFrame:
    table = Query.parse(database, "forecasts").read().to_pandas()
    table["ds"] = pd.to_datetime(table["ds"], utc=True)
    return table.sort_values(["unique_id", "ds"], ignore_index=True)


@pytest.mark.servers
def test_a_forecast_written_twice_is_there_once(database: str) -> None:
    target = ForecastTable.parse(f"{database}/forecasts")
    assert target.upsert(forecast()) == 8
    assert target.upsert(forecast()) == 8
    table, expected = (
        read(database),
        forecast().sort_values(["unique_id", "ds"], ignore_index=True),
    )
    assert table["unique_id"].tolist() == expected["unique_id"].tolist()  # a, A and ä are three
    assert (table["ds"] == expected["ds"]).all()
    assert np.allclose(table["y_hat"], expected["y_hat"], equal_nan=True)
    assert table["y_hat"].isna().sum() == 1
    assert table["degraded"].isna().all()


@pytest.mark.servers
def test_new_numbers_replace_those_of_the_same_step_and_origin(database: str) -> None:
    target = ForecastTable.parse(f"{database}/forecasts")
    target.upsert(forecast())
    target.upsert(forecast(level=100).iloc[:3])
    target.upsert(forecast().assign(cutoff=CUTOFF - pd.Timedelta(hours=1)))
    table = read(database)
    assert len(table) == 16
    assert (table["y_hat"] >= 100).sum() == 3


@pytest.mark.servers
def test_a_table_with_other_columns_is_refused_and_left_as_it_is(
    database: str, request: pytest.FixtureRequest
) -> None:
    execute(database, "CREATE TABLE forecasts (unique_id VARCHAR(9), y_hat FLOAT)", request)
    with pytest.raises(DataError, match=r"no column ds, .*nothing is written: add the columns"):
        ForecastTable.parse(f"{database}/forecasts").upsert(forecast())
    assert Query.parse(database, "forecasts").read().num_rows == 0


@pytest.mark.servers
def test_a_table_without_a_key_is_refused(database: str, request: pytest.FixtureRequest) -> None:
    columns = (
        "unique_id VARCHAR(9), ds TIMESTAMP, ds_local VARCHAR(40), cutoff TIMESTAMP, y_hat FLOAT"
    )
    quoted = "`q2.5`" if "mariadb" in database else '"q2.5"'
    statement = f"CREATE TABLE forecasts ({columns}, {quoted} FLOAT, degraded VARCHAR(9))"
    execute(database, statement, request)
    with pytest.raises(DataError, match=r"a unique index of \(unique_id, ds, cutoff\)"):
        ForecastTable.parse(f"{database}/forecasts").upsert(forecast())


@pytest.mark.servers
def test_a_failing_row_leaves_nothing(database: str) -> None:
    target = ForecastTable.parse(f"{database}/forecasts")
    broken = forecast()
    broken.loc[7, "unique_id"] = None
    with pytest.raises(DataError):
        target.upsert(broken)
    with pytest.raises(DataError, match="compare their columns"):
        Query.parse(database, "forecasts").read()


@pytest.mark.servers
def test_a_line_cut_while_writing_leaves_nothing(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    postgres.execute("DROP TABLE IF EXISTS forecasts")
    ForecastTable.parse(postgres.url("test/forecasts")).upsert(forecast())
    many = pd.concat([forecast().assign(cutoff=CUTOFF + pd.Timedelta(days=d)) for d in range(500)])
    with Proxy(postgres.port, limit=8_000) as proxy:
        target = ForecastTable.parse(postgres.url("test/forecasts", port=proxy.port))
        with pytest.raises(RunError, match="run the same command again"):
            target.upsert(many)
    assert postgres.execute("SELECT count(*) FROM forecasts") == [(8,)]


@pytest.mark.servers
def test_two_writers_of_one_forecast_leave_it_once(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    target = ForecastTable.parse(postgres.url("test/public.forecasts"))
    postgres.execute("DROP TABLE IF EXISTS forecasts")
    target.upsert(forecast())
    writers = [threading.Thread(target=target.upsert, args=(forecast(),)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert postgres.execute("SELECT count(*) FROM forecasts") == [(8,)]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://host/table", "no table; give its name behind that of the database"),
        ("postgresql://host/db/a;drop", "no table"),
        ("out.csv", r"--to takes a table of a database, .*; --out a file"),
        ("s3://bucket/forecasts", "--to takes a table of a database"),
        ("clickhouse://host/db/forecasts", "postgresql, mariadb, duckdb and sqlite only"),
    ],
)
def test_an_address_without_a_table_is_refused(address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ForecastTable.parse(address)
