"""The engines that run the Ibis plan: DuckDB in this process, or Spark on many machines."""

import csv
import gzip
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from forecaster.choices import EngineName
from forecaster.databases.query import QueryScan
from forecaster.errors import ConfigError, DataError, need_extra
from forecaster.ingest.files import InputFile

MAX_LINE_BYTES = 1_000_000


@dataclass(frozen=True)
class MalformedRows:
    """Rows that could not be split into columns."""

    rows: int = 0
    examples: tuple[str, ...] = ()


def stored_columns(item: InputFile) -> dict[str, pa.DataType] | None:
    """Return the columns of a Parquet file and their types; None for CSV, all of it text."""
    if not item.is_parquet:
        return None
    try:
        schema = pq.read_schema(item.path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(
            f"{item.path}: not readable as Parquet ({error}); fetch it again"
        ) from error
    return {name.strip(): kind for name, kind in zip(schema.names, schema.types, strict=True)}


@dataclass
class DuckScan:
    """A file open in DuckDB."""

    path: Path
    connection: Any
    table: Any
    types: dict[str, pa.DataType] | None  # None: all columns are text
    is_csv: bool

    def run(self, expression: Any) -> pa.Table:
        """Run one query; a DuckDB failure is raised as an error of the file."""
        try:
            return expression.to_pyarrow()
        except Exception as error:  # each engine has its own error types
            raise _explain(self.path, error) from error

    def malformed(self) -> MalformedRows:
        """Return the rows that the last run rejected, each line once."""
        if not self.is_csv:
            return MalformedRows()
        rejects = self.connection.raw_sql(
            "SELECT line, min(error_type::VARCHAR), min(csv_line) FROM reject_errors "
            "WHERE scan_id = (SELECT max(scan_id) FROM reject_errors) GROUP BY line ORDER BY line"
        ).fetchall()
        for line, kind, _ in rejects:
            if "LINE SIZE" in kind:
                raise _too_long(self.path, line)
        texts = sorted(str(text)[:120] for _, _, text in rejects)
        return MalformedRows(len(rejects), (*texts[:1], *texts[-1:]))


class DuckDb:
    """DuckDB in this process."""

    def __init__(self, threads: int | None) -> None:
        self._ibis = need_extra("ibis", extra="ingest")
        need_extra("duckdb", extra="ingest")
        self._threads = threads

    @contextmanager
    def scan(self, item: InputFile) -> Iterator[DuckScan]:
        """Open a file in a new connection, which is closed afterwards."""
        settings = {"threads": self._threads} if self._threads else {}
        connection = self._ibis.duckdb.connect(**settings)
        try:
            table = self._read(connection, item)
            yield DuckScan(
                item.path, connection, _strip(table), stored_columns(item), not item.is_parquet
            )
        finally:
            connection.disconnect()

    def _read(self, connection: Any, item: InputFile) -> Any:
        try:
            if item.is_parquet:
                return connection.read_parquet(item.path)
            columns = dict.fromkeys(_header(item.path), "VARCHAR")
            return connection.read_csv(
                item.path, columns=columns, auto_detect=False, header=True,
                delim=",", quote='"', escape='"', nullstr="",
                ignore_errors=True, store_rejects=True, max_line_size=MAX_LINE_BYTES,
            )  # fmt: skip
        except DataError:
            raise
        except Exception as error:  # each engine has its own error types
            raise _explain(item.path, error) from error


@dataclass
class SparkScan:
    """A file open in Spark."""

    path: Path
    table: Any
    types: dict[str, pa.DataType] | None

    def run(self, expression: Any) -> pa.Table:
        """Run one query."""
        try:
            return expression.to_pyarrow()
        except Exception as error:  # each engine has its own error types
            message = f"{self.path}: cannot be read by Spark ({_first_line(error)})"
            raise DataError(f"{message}; malformed CSV needs the engine duckdb") from error

    def malformed(self) -> MalformedRows:
        """Return no rows: Spark is configured to fail on a malformed row."""
        return MalformedRows()


class Spark:
    """Spark: the active session, or a new local one."""

    def __init__(self, threads: int | None) -> None:
        ibis = need_extra("ibis", extra="ingest")
        session = spark_session(threads)
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.ansi.enabled", "false")
        self._connection = ibis.pyspark.connect(session)

    @contextmanager
    def scan(self, item: InputFile) -> Iterator[SparkScan]:
        """Open a file in the shared session."""
        if item.is_parquet:
            table = self._connection.read_parquet(str(item.path))
        else:
            table = self._connection.read_csv(
                str(item.path), header=True, inferSchema=False, mode="FAILFAST", multiLine=True
            )
        yield SparkScan(item.path, _strip(table), stored_columns(item))


Scan = DuckScan | SparkScan | QueryScan
Engine = DuckDb | Spark


def open_engine(name: EngineName, threads: int | None = None) -> Engine:
    """Return the engine of that name."""
    if name == "duckdb":
        return DuckDb(threads)
    if name == "spark":
        return Spark(threads)
    raise ConfigError(f"unknown engine {name!r}; choose duckdb or spark")


def spark_session(threads: int | None = None) -> Any:
    """Return the active Spark session, or a new one on this machine."""
    sql = need_extra("pyspark.sql", extra="spark")
    session = sql.SparkSession.getActiveSession()
    return _local_session(sql, threads) if session is None else session


def _local_session(sql: Any, threads: int | None) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has this package
    return (
        sql.SparkSession.builder.master(f"local[{threads or '*'}]")
        .appName("forecaster")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def _header(path: Path) -> list[str]:
    """Return the column names of a CSV file, so that the engine does not infer them."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        line = file.readline(MAX_LINE_BYTES)
    names = next(csv.reader([line.decode("utf-8-sig", errors="replace").rstrip("\r\n")]), [])
    if not names or len(set(names)) != len(names):
        raise DataError(f"{path}: the header has an empty or repeated column name")
    return names


def _strip(table: Any) -> Any:
    """Return the table with column names stripped of spaces."""
    spaced = {name.strip(): name for name in table.columns if name != name.strip()}
    return table.rename(spaced) if spaced else table


def _explain(path: Path, error: Exception) -> DataError:
    if "aximum line size" in str(error):
        match = re.search(r"Line: (\d+)", str(error))
        return _too_long(path, int(match[1]) if match else None)
    return DataError(f"{path}: cannot be read ({_first_line(error)})")


def _too_long(path: Path, line: int | None) -> DataError:
    where = "a line" if line is None else f"line {line}"
    message = f"{path}: {where} is longer than {MAX_LINE_BYTES:,} bytes"
    return DataError(f"{message}; this is not a table of trips")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
