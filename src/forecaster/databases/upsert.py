"""Forecasts written to a table of a database: new rows, and new numbers in rows that are there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from forecaster.databases.connection import (
    MARKS,
    TABLE_NAME,
    Database,
    connect,
    explained,
    is_database,
    open_table,
)
from forecaster.errors import ConfigError, DataError, name_some

EXAMPLE = "postgresql://user@host/database/forecasts"
KEY = ("unique_id", "ds", "cutoff")
_TIMES = {
    "postgres": "TIMESTAMPTZ",
    "duckdb": "TIMESTAMPTZ",
    "mysql": "DATETIME",
    "sqlite": "TIMESTAMP",
}


@dataclass(frozen=True)
class ForecastTable:
    """A table of a database that takes forecasts, one row per location, step and origin."""

    database: Database
    table: str  # with its schema, if need be

    @classmethod
    def parse(cls, text: str) -> "ForecastTable":
        """Return the table of `postgresql://user@host/database/table`."""
        if not is_database(text):
            raise ConfigError(f"--to takes a table of a database, as in {EXAMPLE}; --out a file")
        address = urlsplit(Database.parse(text).url)
        path, _, table = address.path.rpartition("/")
        database = Database(address._replace(path=path).geturl())
        if database.backend not in MARKS:
            kinds = "postgresql, mariadb, duckdb and sqlite"
            raise ConfigError(f"{database.name}: forecasts are written to {kinds} only")
        if not path.strip("/") or not TABLE_NAME.fullmatch(table):
            raise ConfigError(
                f"{database.name}: no table; give its name behind that of the database, as in "
                f"{EXAMPLE}"
            )
        return cls(database, table)

    @property
    def name(self) -> str:
        """The table, for messages."""
        return f"{self.database.name}/{self.table}"

    def upsert(self, forecast: pd.DataFrame) -> int:
        """Write a forecast in one transaction; return its number of rows.

        A table that does not exist is made. Written twice, a forecast is there once.
        """
        missing = [column for column in KEY if column not in forecast]
        if missing:
            raise ConfigError(f"{self.name}: the forecast has no {name_some(missing)}; use --out")
        if "degraded" not in forecast:  # so that the table has it from the beginning
            forecast = forecast.assign(degraded=None)
        with connect(self.database, writing=True) as connection, explained(self.database):
            present = self._columns(connection)
            if present is not None:
                self._check(connection, forecast, present)
            with _transaction(connection) as cursor:
                self._write(cursor, forecast, is_new=present is None)
        return len(forecast)

    def _write(self, cursor: Any, forecast: pd.DataFrame, *, is_new: bool) -> None:
        """Write the rows; MariaDB, which would keep a new table, makes it with its rows."""
        backend = self.database.backend
        columns, table = _columns_of(forecast, backend), _quote(self.table, backend)
        rows = _rows(forecast, backend)
        if is_new and backend == "mysql":
            cursor.execute(f"CREATE TEMPORARY TABLE forecaster_rows ({columns})")
            cursor.executemany(_insert(forecast, "forecaster_rows", backend), rows)
            copied = "SELECT * FROM forecaster_rows"
            cursor.execute(f"CREATE TABLE {table} ({columns}) {copied}")
            return
        if is_new:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        cursor.executemany(_insert(forecast, table, backend), rows)

    def _columns(self, connection: Any) -> Sequence[str] | None:
        """Return the columns of the table, None if there is no such table."""
        from ibis.common.exceptions import TableNotFound  # noqa: PLC0415 (an extra)

        try:
            columns: Sequence[str] = open_table(connection, self.table).columns
        except TableNotFound:
            return None
        return columns

    def _check(self, connection: Any, forecast: pd.DataFrame, present: Sequence[str]) -> None:
        """Refuse a table that lacks columns, or a unique key."""
        missing = [column for column in map(str, forecast) if column not in present]
        if missing:
            raise DataError(
                f"{self.name}: no column {name_some(missing)}; found: {name_some(present, 20)}; "
                "nothing is written: add the columns, or give another table"
            )
        if connection.name == "mysql" and not _has_key(connection, self.table):
            raise DataError(
                f"{self.name}: no unique key; nothing is written: give it a unique index of "
                f"({', '.join(KEY)})"
            )


@contextmanager
def _transaction(connection: Any) -> Iterator[Any]:
    """Yield a cursor; what it wrote is kept if nothing fails, else dropped with the connection."""
    if connection.name == "sqlite":
        connection.con.isolation_level = None  # else it begins transactions by itself
    cursor = connection.con if connection.name == "duckdb" else connection.con.cursor()
    cursor.execute("BEGIN")
    yield cursor
    cursor.execute("COMMIT")


def _columns_of(forecast: pd.DataFrame, backend: str) -> str:
    """Return the columns of a new table, and its key, in SQL."""
    kinds = {column: _kind(forecast[column], column, backend) for column in map(str, forecast)}
    columns = [f"{_quote_part(name, backend)} {kind}" for name, kind in kinds.items()]
    return f"{', '.join(columns)}, PRIMARY KEY ({', '.join(KEY)})"


def _insert(forecast: pd.DataFrame, table: str, backend: str) -> str:
    """Return the statement that inserts a row, or replaces the numbers of the one there."""
    names = [_quote_part(column, backend) for column in map(str, forecast)]
    changed = [_quote_part(column, backend) for column in map(str, forecast) if column not in KEY]
    marks = ", ".join([MARKS[backend]] * len(names))
    rule, form = f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET", "{0} = excluded.{0}"
    if backend == "mysql":
        rule, form = "ON DUPLICATE KEY UPDATE", "{0} = VALUES({0})"
    updates = ", ".join(map(form.format, changed))
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) {rule} {updates}"  # noqa: S608


def _kind(column: "pd.Series[Any]", name: str, backend: str) -> str:
    if pd.api.types.is_datetime64_any_dtype(column):
        return f"{_TIMES[backend]} NOT NULL" if name in KEY else _TIMES[backend]
    if pd.api.types.is_numeric_dtype(column):
        return "DOUBLE PRECISION"
    if name not in KEY:
        return "TEXT"
    exact = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" if backend == "mysql" else ""
    return f"VARCHAR(255){exact} NOT NULL"  # without it, MariaDB takes A and ä for a


def _quote(table: str, backend: str) -> str:
    return ".".join(_quote_part(part, backend) for part in table.split("."))


def _quote_part(name: str, backend: str) -> str:
    mark = "`" if backend == "mysql" else '"'
    return f"{mark}{name}{mark}"


def _has_key(connection: Any, table: str) -> bool:
    """Whether a table of MariaDB, which does not ask for it, has the unique key."""
    cursor = connection.con.cursor()
    cursor.execute(f"SHOW INDEX FROM {_quote(table, 'mysql')}")
    indices: dict[str, set[str]] = {}
    for _, is_repeated, index, _, column, *_ in cursor.fetchall():
        if not is_repeated:
            indices.setdefault(index, set()).add(column)
    return set(KEY) in indices.values()


def _rows(forecast: pd.DataFrame, backend: str) -> list[tuple[Any, ...]]:
    """Return the rows as values of Python, with None for what is missing."""
    rows = forecast.copy(deep=False)
    if backend in ("mysql", "sqlite"):  # which have no zones
        for name, times in forecast.select_dtypes("datetimetz").items():
            rows[name] = times.dt.tz_convert(None).dt.strftime("%Y-%m-%d %H:%M:%S")
    rows = rows.astype(object)
    return list(rows.where(rows.notna(), None).itertuples(index=False, name=None))
