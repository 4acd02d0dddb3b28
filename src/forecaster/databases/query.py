"""The rows of a query, read as an Arrow table; aggregation stays in the database."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from forecaster.databases.connection import (
    MARKS,
    TABLE_NAME,
    Database,
    connect,
    explained,
    open_table,
)
from forecaster.errors import ConfigError, name_some

ARROW_SOURCE = b"forecaster.source"
WATERMARKS = "watermarks"  # in a panel's manifest: up to where each query was read
_COMMENTS = r"(\s|--[^\n]*\n|/\*.*?\*/)*"
_READS = re.compile(_COMMENTS + r"((select|with|values|table|from)\b|\()", re.I | re.S)


@dataclass(frozen=True)
class Watermark:
    """A column that grows with what is new, and where reading goes on."""

    column: str
    value: Any = None  # as JSON has it; rows from it on are read, those of the same value again

    def __str__(self) -> str:
        return f"{self.column} ≥ {self.value}" if self.value is not None else "all of them"

    def newest(self, rows: pa.Table) -> Any:
        """Return the largest value of the rows as JSON has it; without any it stays."""
        value = pc.max(rows[self.column]).as_py()
        if value is None:
            return self.value
        return value if isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class Query:
    """A query of a database, whose rows are a table."""

    database: Database
    sql: str  # a SELECT, or the name of a table

    @classmethod
    def parse(cls, url: str, sql: str | None) -> "Query":
        """Return the query of an address; without one, there is nothing to read."""
        database = Database.parse(url)
        if not sql or not sql.strip().rstrip(";"):
            raise ConfigError(
                f"{database.name}: what to read is missing; give --query 'select …' (in a recipe: "
                "query), or the name of a table"
            )
        plain = sql.strip().rstrip("; \n")
        if not TABLE_NAME.fullmatch(plain) and not _READS.match(plain):
            raise ConfigError(
                f"{database.name}: --query begins with {plain.split()[0]!r}; give a SELECT, or "
                "the name of a table"
            )
        return cls(database, plain)

    @property
    def name(self) -> str:
        """The database, for messages and panels."""
        return self.database.name

    @property
    def key(self) -> str:
        """The database, and a hash of what is read there, by which a panel notes a watermark."""
        return f"{self.name} {hashlib.sha256(self.sql.encode()).hexdigest()[:12]}"

    def read(self, mark: Watermark | None = None) -> pa.Table:
        """Return all rows, or those from a watermark on."""
        with self.scan() as scan:
            rows = scan.run(scan.table if mark is None else scan.since(mark))
        return rows.replace_schema_metadata({ARROW_SOURCE: self.name.encode()})

    def read_since(
        self, column: str, about: Mapping[str, Any]
    ) -> tuple[pa.Table, Watermark, dict[str, Any]]:
        """Return the rows from the watermark of a panel on, that mark, and what is noted next.

        Args:
            column: that grows with what is new.
            about: of the panel's manifest, which notes the marks of its queries.
        """
        marks = about.get(WATERMARKS, {})
        mark = Watermark(column, marks.get(self.key))
        rows = self.read(mark)
        return rows, mark, {WATERMARKS: {**marks, self.key: mark.newest(rows)}}

    @contextmanager
    def scan(self) -> Iterator["QueryScan"]:
        """Open the query; everything that is read until the end sees the same data."""
        with connect(self.database) as connection:
            if self.database.backend == "postgres":
                server = connection.con
                server.read_only, server.isolation_level = True, 4  # repeatable read
                with server.transaction():
                    yield QueryScan(self, connection, _relation(connection, self.sql))
                return
            if self.database.backend == "mysql":
                connection.raw_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT").close()
            table = _relation(connection, self.sql)
            if self.database.backend == "sqlite":
                with explained(self.database):
                    table = _with_one_form(table)
            yield QueryScan(self, connection, table)


@dataclass
class QueryScan:
    """A query open in its database."""

    query: Query
    connection: Any
    table: Any  # of Ibis

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of the columns."""
        schema = self.table.schema().to_pyarrow()
        return dict(zip(schema.names, schema.types, strict=True))

    def since(self, watermark: Watermark) -> Any:
        """Return the rows from a watermark on, which the database selects."""
        from ibis import literal  # noqa: PLC0415 (an extra)

        if watermark.column not in self.table.columns:
            present = name_some(self.table.columns, 20)
            raise ConfigError(f"{self.query.name}: no column {watermark.column}; found: {present}")
        if watermark.value is None:
            return self.table
        column = self.table[watermark.column]
        return self.table.filter(column >= literal(watermark.value, type=column.type()))

    def run(self, expression: Any) -> pa.Table:
        """Return the rows of an expression; only these leave the database."""
        with explained(self.query.database):
            if self.connection.name == "postgres":
                return _copy_postgres(self.connection, expression)
            if self.connection.name in ("mysql", "sqlite"):
                expression = _with_indices(self.connection, expression)
            return expression.to_pyarrow()


def _relation(connection: Any, sql: str) -> Any:
    """Return a query, or a table by its name, as a table of Ibis."""
    if TABLE_NAME.fullmatch(sql):
        return open_table(connection, sql)
    describe = {"postgres": _describe_postgres, "duckdb": _describe_duckdb}.get(connection.name)
    return connection.sql(sql, schema=None if describe is None else describe(connection, sql))


def _with_one_form(table: Any) -> Any:
    """Return a table of SQLite, whose times are texts of any form, with times that compare.

    Where one has an offset, they stay texts.
    """
    times = [name for name, kind in table.schema().items() if kind.is_timestamp()]
    texts = {name: table[name].cast("string") for name in times}
    for name, text in texts.items():
        if not text.like(["%Z", "%+__:__", "%-__:__"]).any().to_pyarrow().as_py():
            texts[name] = text.cast("timestamp")
    return table.mutate(**texts)


def _describe_postgres(connection: Any, sql: str) -> dict[str, Any]:
    """Return the columns of a query; Ibis makes a view, which a read-only server refuses."""
    described = connection.con.execute(f"SELECT * FROM ({sql}\n) AS q LIMIT 0")  # noqa: S608
    kinds, mapper = connection.con.adapters.types, connection.compiler.type_mapper
    return {
        column.name: mapper.from_string(
            kind.name if (kind := kinds.get(column.type_code)) else "text"
        )
        for column in described.description
    }


def _describe_duckdb(connection: Any, sql: str) -> Any:
    """Return the columns of a query; Ibis 12 asks DuckDB 2 for what it no longer has."""
    from ibis import Schema  # noqa: PLC0415 (an extra)

    described = connection.con.sql(f"SELECT * FROM ({sql}\n) LIMIT 0")  # noqa: S608
    return Schema.from_pyarrow(described.to_arrow_table().schema)


def _with_indices(connection: Any, expression: Any) -> Any:
    """Return an expression whose tables in memory are temporary ones with an index.

    Without it, these databases compare each of their rows with each row in memory.
    """
    from ibis.expr.operations import InMemoryTable  # noqa: PLC0415 (an extra)

    stored = {}
    for table in expression.op().find(InMemoryTable):
        columns = table.data.to_pyarrow(table.schema)
        names, marks = columns.column_names, [MARKS[connection.name]] * columns.num_columns
        kinds = ", ".join(f"{name} BIGINT" for name in names)
        name = f"forecaster_{table.name}"
        connection.raw_sql(
            f"CREATE TEMPORARY TABLE {name} ({kinds}, PRIMARY KEY ({', '.join(names)}))"
        ).close()
        with closing(connection.con.cursor()) as cursor:
            rows = list(zip(*(column.to_pylist() for column in columns.columns), strict=True))
            cursor.executemany(f"INSERT INTO {name} VALUES ({', '.join(marks)})", rows)  # noqa: S608
        stored[table] = connection.table(name).op()
    return expression.op().replace(stored).to_expr()


def _copy_postgres(connection: Any, expression: Any) -> pa.Table:
    """Return the rows by COPY: several times faster than rows of Python, and run in parallel.

    Tables in memory travel in the statement, since a read-only server has no temporary ones.
    """
    from ibis.expr.operations import InMemoryTable  # noqa: PLC0415 (an extra)

    sql = connection.compile(expression)
    lookups = [_unnest(table) for table in expression.op().find(InMemoryTable)]
    if lookups:
        sql = f"WITH {', '.join(lookups)} SELECT * FROM ({sql}) AS q"  # noqa: S608 (the user's own)
    schema = expression.schema().to_pyarrow()
    copied = BytesIO()
    rows = f"COPY ({sql}) TO STDOUT (FORMAT csv, HEADER)"
    with connection.con.cursor() as cursor, cursor.copy(rows) as copy:
        copied.writelines(copy)
    convert = pyarrow.csv.ConvertOptions(
        column_types=schema, true_values=["t"], false_values=["f"], null_values=[""],
        strings_can_be_null=True, quoted_strings_can_be_null=False,
    )  # fmt: skip
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(
        pa.BufferReader(copied.getbuffer()), convert_options=convert, parse_options=parse
    )
    return table.cast(schema)


def _unnest(table: Any) -> str:
    """Return a table of integers in memory as a part of WITH, which one process makes once."""
    columns = table.data.to_pyarrow(table.schema)
    arrays = ", ".join(
        f"'{{{','.join(column.cast(pa.string()).to_pylist())}}}'::bigint[]"
        for column in columns.columns
    )
    names = ", ".join(f'"{name}"' for name in columns.column_names)
    return f'"{table.name}" ({names}) AS MATERIALIZED (SELECT * FROM unnest({arrays}))'  # noqa: S608
