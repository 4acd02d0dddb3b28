"""Forecasts written to a table of a database: new rows, and new numbers in rows that are there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from forecaster.databases.connection import (
    Database,
    connect,
    explained,
)
from forecaster.errors import ConfigError, DataError, name_some

KEY = ("unique_id", "ds", "cutoff")
_TIMES = {
    "postgres": "TIMESTAMPTZ",
    "duckdb": "TIMESTAMPTZ",
    "mysql": "DATETIME",
    "sqlite": "TIMESTAMP",
}
_MARKS = {"postgres": "%s", "mysql": "%s", "duckdb": "?", "sqlite": "?"}


@dataclass(frozen=True)
class ForecastTable:
    """A table of a database that takes forecasts, one row per location, step and origin."""

    database: Database
    parts: tuple[str, ...]  # schema, if any, and name

    @classmethod
    def parse(cls, text: str) -> "ForecastTable":
        """Return the table of `postgresql://user@host/database/table`."""
        address = urlsplit(Database.parse(text).url)
        path, _, table = address.path.rpartition("/")
        database = Database(address._replace(path=path).geturl())
        parts = tuple(table.split("."))
        if not path.strip("/") or not all(part.isidentifier() for part in parts):
            raise ConfigError(
                f"{database.name}: no table; give its name behind that of the database, as in "
                "postgresql://user@host/database/forecasts"
            )
        if database.backend not in _MARKS:
            kinds = "postgresql, mariadb, duckdb and sqlite"
            raise ConfigError(f"{database.name}: forecasts are written to {kinds} only")
        return cls(database, parts)

    @property
    def name(self) -> str:
        """The table, for messages."""
        return f"{self.database.name}/{'.'.join(self.parts)}"

    def upsert(self, forecast: pd.DataFrame) -> int:
        """Write a forecast in one transaction; return its number of rows.

        A table that does not exist is made. Written twice, a forecast is there once.
        """
        missing = [column for column in KEY if column not in forecast]
        if missing:
            raise ConfigError(f"{self.name}: the forecast has no {name_some(missing)}; use --out")
        if "degraded" not in forecast:  # so that the table has it from the beginning
            forecast = forecast.assign(degraded=None)
        backend = self.database.backend
        with connect(self.database, writing=True) as connection, explained(self.database):
            present = self._columns(connection)
            if present is not None:
                self._check(connection, forecast, present)
            with _transaction(connection) as cursor:
                if present is None:
                    cursor.execute(self._create(forecast, backend))
                cursor.executemany(self._insert(forecast, backend), _rows(forecast, backend))
        return len(forecast)

    def _create(self, forecast: pd.DataFrame, backend: str) -> str:
        kinds = {column: _kind(forecast[column], column, backend) for column in map(str, forecast)}
        columns = [f"{_quote(name, backend)} {kind}" for name, kind in kinds.items()]
        key = ", ".join(KEY)
        table = self._quoted(backend)
        return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)}, PRIMARY KEY ({key}))"

    def _columns(self, connection: Any) -> Sequence[str] | None:
        """Return the columns of the table, None if there is no such table."""
        from ibis.common.exceptions import TableNotFound  # noqa: PLC0415 (an extra)

        schema = self.parts[0] if len(self.parts) > 1 else None
        try:
            columns: Sequence[str] = connection.table(self.parts[-1], database=schema).columns
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
        if connection.name == "mysql" and not _has_key(connection, self.parts):
            raise DataError(
                f"{self.name}: no unique key; nothing is written: give it a unique index of "
                f"({', '.join(KEY)})"
            )

    def _insert(self, forecast: pd.DataFrame, backend: str) -> str:
        names = [_quote(column, backend) for column in map(str, forecast)]
        changed = [_quote(column, backend) for column in map(str, forecast) if column not in KEY]
        marks = ", ".join([_MARKS[backend]] * len(names))
        if backend == "mysql":
            updates = ", ".join(f"{name} = VALUES({name})" for name in changed)
            rule = f"ON DUPLICATE KEY UPDATE {updates}"
        else:
            updates = ", ".join(f"{name} = excluded.{name}" for name in changed)
            rule = f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {updates}"
        table = self._quoted(backend)
        return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) {rule}"  # noqa: S608

    def _quoted(self, backend: str) -> str:
        return ".".join(_quote(part, backend) for part in self.parts)


@contextmanager
def _transaction(connection: Any) -> Iterator[Any]:
    """Yield a cursor; what it wrote is kept if nothing fails, else dropped with the connection."""
    if connection.name == "sqlite":
        connection.con.isolation_level = None  # else it begins transactions by itself
    cursor = connection.con if connection.name == "duckdb" else connection.con.cursor()
    cursor.execute("BEGIN")
    yield cursor
    cursor.execute("COMMIT")


def _kind(column: "pd.Series[Any]", name: str, backend: str) -> str:
    if pd.api.types.is_datetime64_any_dtype(column):
        return f"{_TIMES[backend]} NOT NULL" if name in KEY else _TIMES[backend]
    if pd.api.types.is_numeric_dtype(column):
        return "DOUBLE PRECISION"
    if name not in KEY:
        return "TEXT"
    exact = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" if backend == "mysql" else ""
    return f"VARCHAR(255){exact} NOT NULL"  # without it, MariaDB takes A and ä for a


def _quote(name: str, backend: str) -> str:
    mark = "`" if backend == "mysql" else '"'
    return f"{mark}{name}{mark}"


def _has_key(connection: Any, parts: tuple[str, ...]) -> bool:
    """Whether a table of MariaDB, which does not ask for it, has the unique key."""
    cursor = connection.con.cursor()
    cursor.execute(f"SHOW INDEX FROM {'.'.join(_quote(part, 'mysql') for part in parts)}")
    indices: dict[str, set[str]] = {}
    for _, is_repeated, index, _, column, *_ in cursor.fetchall():
        if not is_repeated:
            indices.setdefault(index, set()).add(column)
    return set(KEY) in indices.values()


def _rows(forecast: pd.DataFrame, backend: str) -> list[tuple[Any, ...]]:
    """Return the rows as values of Python, with None for what is missing."""
    columns = []
    for name in forecast:
        column = forecast[name]
        if pd.api.types.is_datetime64_any_dtype(column):
            times = column if backend in ("postgres", "duckdb") else column.dt.tz_convert(None)
            values = (
                list(times.dt.to_pydatetime()) if backend != "sqlite" else list(map(str, times))
            )
        else:
            values = column.astype(object).where(column.notna(), None).tolist()
        columns.append(values)
    return list(zip(*columns, strict=True))
