"""The SQLite tables of the store; every row has a checksum, and the rows together have one.

SQLite notices damage of its own structures only. With these checksums a changed value and a
missing row are noticed too.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Literal
from zlib import crc32

from forecaster.serve.data.registration import Registration

Entry = tuple[str, int, float | None]  # location or covariate, seconds since 1970, value
Table = Literal["observations", "covariates"]
Row = Sequence[Any]  # of any table, without its checksum
FORMAT = 2  # 1: without checksums
APPLICATION = 0x666F7265  # "fore": marks SQLite files of this program
SCORES = "scores/"  # begins the names of facts that are rows of the ledger
KEY_DAYS = 7  # for which a repeated request is recognised
DAY_SECONDS = 24 * 3600
CHUNK_ROWS = 400  # looked up together: SQLite takes at most 999 values
KEYS = {  # the primary keys
    "observations": ("name", "time"),
    "covariates": ("name", "time"),
    "keys": ("key",),
    "locations": ("number",),
    "facts": ("name",),
}
COLUMNS = {  # what the checksum of a row covers
    "observations": ("name", "time", "value", "revision", "received"),
    "covariates": ("name", "time", "value", "revision", "received"),
    "keys": ("key", "digest", "receipt", "received"),
    "locations": ("number", "id", "registration"),
    "facts": ("name", "fact"),
}
SCHEMA = """
CREATE TABLE IF NOT EXISTS observations (
    name TEXT NOT NULL, time INTEGER NOT NULL, value REAL, revision INTEGER NOT NULL,
    received INTEGER NOT NULL, PRIMARY KEY (name, time)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS covariates (
    name TEXT NOT NULL, time INTEGER NOT NULL, value REAL, revision INTEGER NOT NULL,
    received INTEGER NOT NULL, PRIMARY KEY (name, time)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, receipt TEXT NOT NULL,
    received INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, fact TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS locations (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, registration TEXT NOT NULL);
"""  # format 1; format 2 adds the column `checksum` to each table


@dataclass(frozen=True)
class Receipt:
    """The counts of a write, once it is on disk."""

    accepted: int  # new entries
    revised: int  # entries that had another value
    unchanged: int  # entries that had this value
    data_version: int  # after the write


@dataclass(frozen=True)
class IdempotencyKey:
    """A client's key for a write, by which a repeated request is recognised."""

    key: str
    digest: str  # of the body, which must be the same


@dataclass(frozen=True)
class Batch:
    """Entries that are written together."""

    table: Table
    entries: Sequence[Entry]
    received: int
    key: IdempotencyKey | None = None


@dataclass(frozen=True)
class Content:
    """The state of a database after a write."""

    writes: int = 0  # committed so far
    version: int = 0  # grows with every write that changes a value
    rows: int = 0
    digest: int = 0  # sum of the rows' checksums

    def to_json(self) -> str:
        """Return its fields as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Content":
        """Return the content of some JSON."""
        return Content(**json.loads(text))


@dataclass(frozen=True)
class Written:
    """What a write has changed: enough to write it once more."""

    rows: Mapping[str, Sequence[Row]]  # by table, as they are now
    forgotten: Sequence[str]  # keys that are too old
    content: Content  # after the write


def checksum(row: Row) -> int:
    """Return the checksum of a row's values, numbers and text as Python writes them."""
    return crc32(repr(tuple(row)).encode("utf-8", "surrogatepass"))


class Database:
    """The tables of one store. It commits nothing: transactions are the caller's."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.run = connection.execute
        self.content = Content()
        self._rows: dict[str, list[Row]] = {}  # changed by the current write
        self._forgotten: list[str] = []

    def create(self, panel: str) -> None:
        """Create the tables."""
        for statement in filter(str.strip, SCHEMA.split(";")):
            self.run(statement)
        self.run(f"PRAGMA application_id = {APPLICATION}")
        for table in COLUMNS:
            self.run(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
        self.run(f"PRAGMA user_version = {FORMAT}")
        self.set_fact("panel", panel)
        self.set_fact("open", "")
        self.set_content(Content())

    def migrate(self) -> None:
        """Add checksums to the rows of format 1."""
        panel, version = self.fact("panel"), self.fact("data_version")
        self._connection.create_function("row_checksum", -1, lambda *row: checksum(row))
        self.create(panel or "")
        content = Content(version=int(version or 0))
        for table in COLUMNS.keys() - {"facts"}:
            columns = ", ".join(COLUMNS[table])
            self.run(f"UPDATE {table} SET checksum = row_checksum({columns})")  # noqa: S608 (ours)
            total = f"SELECT count(*), ifnull(sum(checksum), 0) FROM {table}"  # noqa: S608 (ours)
            rows, digest = self.run(total).fetchone()
            content = replace(content, rows=content.rows + rows, digest=content.digest + digest)
        self.run("DELETE FROM facts WHERE checksum IS NULL")
        self.set_content(content)

    def load_content(self) -> None:
        """Read the content that was stored with the last write."""
        self.content = Content.from_json(self.fact("content") or "{}")

    def set_content(self, content: Content) -> None:
        """Store the content."""
        self.content = content
        self.set_fact("content", content.to_json())

    def apply(self, change: Batch | Registration) -> tuple[Receipt, Written]:
        """Write a change; return the receipt, and all that has changed."""
        self._rows, self._forgotten = {}, []
        before = self.content
        counts = Counter(accepted=0, revised=0, unchanged=0)
        if isinstance(change, Registration):
            self._register(change)
            counts["accepted"] += 1
        else:
            for keys, entries in _distinct(change.entries):
                counts.update(self._put_entries(change.table, keys, entries, change.received))
        changed = counts["accepted"] + counts["revised"] > 0
        receipt = Receipt(**counts, data_version=before.version + changed)
        if isinstance(change, Batch) and change.key is not None:
            self._put_receipt(change.key, receipt, change.received)
        after = replace(self.content, writes=before.writes + 1, version=receipt.data_version)
        self.set_content(after)
        return receipt, Written(self._rows, self._forgotten, after)

    def redo(self, written: Written) -> None:
        """Write once more what was written before; rows that are there already stay."""
        for table, rows in written.rows.items():
            self.put(table, rows)
        for key in written.forgotten:
            self._forget(key)
        self.set_content(
            replace(self.content, writes=written.content.writes, version=written.content.version)
        )

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows, in place of those with their primary keys."""
        keys = [tuple(row[: len(KEYS[table])]) for row in rows]
        stored = self._stored(table, keys)
        self._insert(table, rows, [stored[key][-1] for key in keys if key in stored])

    def rows(self, table: str, order: str = "") -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table, each with its checksum at the end."""
        yield from self.run(f"SELECT * FROM {table} {order}")  # noqa: S608 (ours)

    def receipt(self, key: str) -> tuple[str, Receipt] | None:
        """Return the body's digest and the receipt of an earlier write with this key."""
        row = self.run("SELECT digest, receipt FROM keys WHERE key = ?", (key,)).fetchone()
        return None if row is None else (row[0], Receipt(**json.loads(row[1])))

    def fact(self, name: str) -> str | None:
        """Return a fact about the store itself."""
        row = self.run("SELECT fact FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def facts(self, prefix: str) -> list[str]:
        """Return the facts whose names begin so, in the order of the names."""
        query = "SELECT fact FROM facts WHERE substr(name, 1, ?) = ? ORDER BY name"
        return [str(row[0]) for row in self.run(query, (len(prefix), prefix))]

    def set_fact(self, name: str, fact: str) -> None:
        """Store a fact; its row is no part of the content."""
        row = name, fact
        self.run("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (*row, checksum(row)))

    def pragma(self, name: str) -> int | str:
        """Return a setting of SQLite, or the result of one of its checks."""
        value: int | str = self.run(f"PRAGMA {name}").fetchone()[0]
        return value

    def _put_entries(
        self, table: Table, keys: Sequence[Row], entries: Sequence[Entry], received: int
    ) -> list[str]:
        """Insert entries, no two of the same key, and return what each of them is."""
        stored = self._stored(table, keys)
        rows: list[Row] = []
        verdicts: list[str] = []
        for key, (name, time, entered) in zip(keys, entries, strict=True):
            value = None if entered is None else entered + 0.0  # SQLite knows no -0.0
            earlier = stored.get(key)
            verdict, revision = "accepted", 1
            if earlier is not None:  # the same value may be final now: its step may be over
                verdict = "unchanged" if earlier[2] == value else "revised"
                revision = earlier[3] + (verdict == "revised")
            verdicts.append(verdict)
            rows.append((name, time, value, revision, received))
        self._insert(table, rows, [row[-1] for row in stored.values()])
        return verdicts

    def _stored(self, table: str, keys: Sequence[Row]) -> dict[Row, Row]:
        """Return the rows with these primary keys, by key."""
        columns, width = ", ".join(KEYS[table]), len(KEYS[table])
        stored: dict[Row, Row] = {}
        for first in range(0, len(keys), CHUNK_ROWS):
            part = keys[first : first + CHUNK_ROWS]
            marks = ", ".join([f"({', '.join('?' * width)})"] * len(part))
            wanted = f"WITH wanted({columns}) AS (VALUES {marks})"
            query = f"SELECT stored.* FROM wanted CROSS JOIN {table} AS stored USING ({columns})"  # noqa: S608 (ours)
            rows = self.run(f"{wanted} {query}", list(chain.from_iterable(part)))
            stored |= {row[:width]: row for row in rows}
        return stored

    def _put_receipt(self, key: IdempotencyKey, receipt: Receipt, received: int) -> None:
        oldest = received - KEY_DAYS * DAY_SECONDS
        for (old,) in self.run("SELECT key FROM keys WHERE received < ?", (oldest,)).fetchall():
            self._forget(old)
            self._forgotten.append(old)
        self._insert("keys", [(key.key, key.digest, json.dumps(asdict(receipt)), received)])

    def _forget(self, key: str) -> None:
        stored = self.run("DELETE FROM keys WHERE key = ? RETURNING checksum", (key,)).fetchone()
        if stored is not None:
            self._count(-1, -stored[0])

    def _register(self, registration: Registration) -> None:
        """Insert a location; one that is registered already is refused by SQLite."""
        number = self.run("SELECT ifnull(max(number), 0) + 1 FROM locations").fetchone()[0]
        self._insert("locations", [(number, registration.id, registration.to_json())])

    def _insert(self, table: str, rows: Sequence[Row], replaced: Sequence[int] = ()) -> None:
        """Insert rows; those that they replace had these checksums."""
        added = [checksum(row) for row in rows]
        verb = "INSERT OR REPLACE" if replaced else "INSERT"
        marks = ", ".join("?" * (len(COLUMNS[table]) + 1))
        complete = ((*row, mark) for row, mark in zip(rows, added, strict=True))
        self._connection.executemany(f"{verb} INTO {table} VALUES ({marks})", complete)
        self._rows.setdefault(table, []).extend(rows)
        self._count(len(rows) - len(replaced), sum(added) - sum(replaced))

    def _count(self, rows: int, digest: int) -> None:
        content = self.content
        self.content = replace(content, rows=content.rows + rows, digest=content.digest + digest)


def _distinct(entries: Sequence[Entry]) -> Sequence[tuple[Sequence[Row], Sequence[Entry]]]:
    """Return the keys and entries of parts that give no step twice."""
    keys = [entry[:2] for entry in entries]
    if len(set(keys)) == len(keys):
        return [(keys, entries)]
    return [([key], [entry]) for key, entry in zip(keys, entries, strict=True)]
