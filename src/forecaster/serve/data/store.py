"""The SQLite file of live observations, covariates and registered locations, with one writer.

A write is acknowledged after its commit to a synchronised write-ahead log, so it survives a kill
or a power loss. Only one service at a time can open the file.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from forecaster.errors import ArtifactError, RunError
from forecaster.serve.data.registration import Registration

Entry = tuple[str, int, float | None]  # location or covariate, seconds since 1970, value
Table = Literal["observations", "covariates"]
DigestWithout = Callable[[Collection[str]], str]  # of a panel without some of its locations
FORMAT = 1
APPLICATION = 0x666F7265  # "fore": marks SQLite files of this program
KEY_DAYS = 7  # for which a repeated request is recognised
DAY_SECONDS = 24 * 3600
SCHEMA = """
CREATE TABLE observations (
    name TEXT NOT NULL, time INTEGER NOT NULL, value REAL, revision INTEGER NOT NULL,
    received INTEGER NOT NULL, PRIMARY KEY (name, time)) WITHOUT ROWID;
CREATE TABLE covariates (
    name TEXT NOT NULL, time INTEGER NOT NULL, value REAL, revision INTEGER NOT NULL,
    received INTEGER NOT NULL, PRIMARY KEY (name, time)) WITHOUT ROWID;
CREATE TABLE keys (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, receipt TEXT NOT NULL,
    received INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, fact TEXT NOT NULL) WITHOUT ROWID;
"""
# Created with the first registration: the first versions of this program made no such table.
LOCATIONS = """
CREATE TABLE IF NOT EXISTS locations (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, registration TEXT NOT NULL)
"""


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


class KeyReusedError(Exception):
    """An idempotency key was used again with another body."""


class DiskFullError(Exception):
    """The disk is full; nothing was written."""


class Store:
    """The observations and covariates of one panel; to be used by one thread at a time."""

    def __init__(
        self, path: Path | None, panel: str, without: DigestWithout | None = None
    ) -> None:
        """Open or create the file.

        Args:
            path: of the file; None: in memory only.
            panel: its digest; a file of another panel is refused.
            without: gives the digest of the panel without some locations: a panel built again
                with locations that are registered here is the same one. None: no such panel.
        """
        self.path = path
        where = ":memory:" if path is None else str(path)
        try:
            self._connection = sqlite3.connect(
                where, isolation_level=None, check_same_thread=False
            )
        except sqlite3.DatabaseError as error:
            raise _to_error(where, error) from error
        try:
            self._open(panel, without)
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise _to_error(where, error) from error
            raise

    def write(
        self,
        table: Table,
        entries: Sequence[Entry],
        received: int,
        key: IdempotencyKey | None = None,
    ) -> tuple[Receipt, bool]:
        """Commit entries, all or none; return the receipt, and whether the request is a repeat."""
        with self._transaction():
            if key is not None and (earlier := self._receipt(key)) is not None:
                return earlier, True
            counts = {"accepted": 0, "revised": 0, "unchanged": 0}
            for entry in entries:
                counts[self._put(table, entry, received)] += 1
            changed = counts["accepted"] + counts["revised"] > 0
            receipt = Receipt(**counts, data_version=self.version + changed)
            self._set_fact("data_version", str(receipt.data_version))
            if key is not None:
                self._store_receipt(key, receipt, received)
        return receipt, False

    def read(self, table: Table) -> Iterator[tuple[Entry, int]]:
        """Yield the latest revision of every entry, and when it was last received."""
        rows = self._connection.execute(f"SELECT name, time, value, received FROM {table}")  # noqa: S608 (ours)
        for name, time, value, received in rows:
            yield (name, time, value), received

    def register(self, registration: Registration) -> None:
        """Commit a location that is not registered yet."""
        with self._transaction():
            self._connection.execute(LOCATIONS)
            self._connection.execute(
                "INSERT INTO locations (id, registration) VALUES (?, ?)",
                (registration.id, registration.to_json()),
            )
            self._set_fact("data_version", str(self.version + 1))

    def registrations(self) -> list[Registration]:
        """Return the registered locations, in the order in which they came."""
        tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'locations'"
        if self._connection.execute(tables).fetchone() is None:
            return []
        rows = self._connection.execute("SELECT registration FROM locations ORDER BY number")
        try:
            return [Registration.from_json(text) for (text,) in rows]
        except (TypeError, ValueError) as error:
            raise sqlite3.DatabaseError(f"a registered location: {error}") from error

    @property
    def version(self) -> int:
        """The data version, which grows with every write that changes a value."""
        return int(self._fact("data_version") or 0)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _open(self, panel: str, without: DigestWithout | None) -> None:
        run = self._connection.execute
        run("PRAGMA busy_timeout = 0")
        run("PRAGMA locking_mode = EXCLUSIVE")  # a second service is refused at once
        self._refuse_foreign()  # before anything changes the file
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("BEGIN EXCLUSIVE")  # takes the lock, and keeps it
        fresh = run("PRAGMA schema_version").fetchone() == (0,)
        if fresh:
            for statement in filter(str.strip, SCHEMA.split(";")):
                run(statement)
            run(f"PRAGMA application_id = {APPLICATION}")
            run(f"PRAGMA user_version = {FORMAT}")
            self._set_fact("panel", panel)
        run("COMMIT")
        self._check(panel, without)

    def _refuse_foreign(self) -> None:
        """Refuse the file of another program; an empty one is taken."""
        marks = self._pragma("application_id"), self._pragma("user_version")
        empty = marks == (0, 0) and self._pragma("schema_version") == 0
        if not empty and marks != (APPLICATION, FORMAT):
            raise ArtifactError(
                f"{self.path}: not a store of this program; give another file with --store"
            )

    def _check(self, panel: str, without: DigestWithout | None) -> None:
        """Refuse a file that is damaged or of another panel."""
        result = self._pragma("integrity_check")
        if result != "ok":
            raise sqlite3.DatabaseError(str(result))
        registered = {one.id for one in self.registrations()}
        digests = {panel} if without is None else {panel, without(registered)}
        if self._fact("panel") not in digests:
            message = f"{self.path}: holds observations of another panel"
            raise ArtifactError(f"{message}; give another file with --store")

    def _pragma(self, name: str) -> int | str:
        value: int | str = self._connection.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error) and "full" in str(error):
                raise DiskFullError(str(error)) from error
            raise

    def _put(self, table: Table, entry: Entry, received: int) -> str:
        name, time, value = entry
        stored = self._connection.execute(
            f"SELECT value, revision FROM {table} WHERE name = ? AND time = ?",  # noqa: S608 (ours)
            (name, time),
        ).fetchone()
        if stored is not None and stored[0] == value:
            self._connection.execute(  # a value received before its step was over may be final now
                f"UPDATE {table} SET received = ? WHERE name = ? AND time = ?",  # noqa: S608 (ours)
                (received, name, time),
            )
            return "unchanged"
        revision = 1 if stored is None else stored[1] + 1
        self._connection.execute(
            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?)",  # noqa: S608 (ours)
            (name, time, value, revision, received),
        )
        return "accepted" if stored is None else "revised"

    def _receipt(self, key: IdempotencyKey) -> Receipt | None:
        stored = self._connection.execute(
            "SELECT digest, receipt FROM keys WHERE key = ?", (key.key,)
        ).fetchone()
        if stored is None:
            return None
        if stored[0] != key.digest:
            raise KeyReusedError
        return Receipt(**json.loads(stored[1]))

    def _store_receipt(self, key: IdempotencyKey, receipt: Receipt, received: int) -> None:
        oldest = received - KEY_DAYS * DAY_SECONDS
        self._connection.execute("DELETE FROM keys WHERE received < ?", (oldest,))
        row = key.key, key.digest, json.dumps(asdict(receipt)), received
        self._connection.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", row)

    def _fact(self, name: str) -> str | None:
        row = self._connection.execute("SELECT fact FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _set_fact(self, name: str, fact: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, fact))


def _to_error(path: str, error: sqlite3.DatabaseError) -> Exception:
    """Return an error with a remedy; nothing is deleted."""
    if "locked" in str(error):
        return RunError(f"{path}: another service uses it; stop it, or give another --store")
    if isinstance(error, sqlite3.OperationalError):
        return RunError(
            f"{path}: cannot be opened ({error}); give a file in a folder you may write to"
        )
    advice = "nothing was changed; restore a backup, or move it away and send its data again"
    return ArtifactError(f"{path}: damaged ({error}); {advice}")
