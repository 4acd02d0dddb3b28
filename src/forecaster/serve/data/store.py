"""Live observations on disk: SQLite, one writer, acknowledged only after they are committed.

Written ahead and synchronised at every commit, so that neither a kill nor a power loss takes
back what was acknowledged. The file belongs to one service at a time.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from forecaster.errors import ArtifactError, RunError

Entry = tuple[str, int, float | None]  # location or covariate, seconds since 1970, value
Table = Literal["observations", "covariates"]
FORMAT = 1
APPLICATION = 0x666F7265  # "fore", by which SQLite files of ours are known
KEY_DAYS = 7  # how long a repeated request is recognised
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


@dataclass(frozen=True)
class Receipt:
    """What became of a request to write."""

    accepted: int  # not known before
    revised: int  # known with another value
    unchanged: int
    data_version: int


@dataclass(frozen=True)
class Ticket:
    """By which a repeated request is recognised."""

    key: str
    digest: str  # of the body, which must be the same


class KeyReusedError(Exception):
    """An idempotency key came back with another body."""


class FullError(Exception):
    """The disk is full; nothing was written."""


class Store:
    """The observations and covariates of one panel; to be used by one thread at a time."""

    def __init__(self, path: Path | None, panel: str) -> None:
        """Open or create the file.

        Args:
            path: where it lies; None: in memory only.
            panel: names what the observations are of; those of another panel are refused.
        """
        self.path = path
        where = ":memory:" if path is None else str(path)
        try:
            self._base = sqlite3.connect(where, isolation_level=None, check_same_thread=False)
        except sqlite3.DatabaseError as error:
            raise _explain(where, error) from error
        try:
            self._open(panel)
        except BaseException as error:
            self._base.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise _explain(where, error) from error
            raise

    def write(
        self, table: Table, entries: Sequence[Entry], received: int, ticket: Ticket | None = None
    ) -> tuple[Receipt, bool]:
        """Commit entries, all or none; return the receipt, and whether it is that of a repeat."""
        with self._transaction():
            if ticket is not None and (known := self._receipt(ticket)) is not None:
                return known, True
            counts = {"accepted": 0, "revised": 0, "unchanged": 0}
            for entry in entries:
                counts[self._put(table, entry, received)] += 1
            changed = counts["accepted"] + counts["revised"] > 0
            receipt = Receipt(**counts, data_version=self.version + changed)
            self._state("data_version", str(receipt.data_version))
            if ticket is not None:
                self._remember(ticket, receipt, received)
        return receipt, False

    def read(self, table: Table) -> Iterator[tuple[Entry, int]]:
        """Yield everything that is known, the latest revision of each, and when it came last."""
        rows = self._base.execute(f"SELECT name, time, value, received FROM {table}")  # noqa: S608 (ours)
        for name, time, value, received in rows:
            yield (name, time, value), received

    @property
    def version(self) -> int:
        """A number that grows with every write that changes something."""
        return int(self._fact("data_version") or 0)

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()

    def _open(self, panel: str) -> None:
        run = self._base.execute
        run("PRAGMA busy_timeout = 0")
        run("PRAGMA locking_mode = EXCLUSIVE")  # a second service is refused at once
        self._refuse_foreign()  # before anything changes the file
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("BEGIN EXCLUSIVE")  # takes the lock, which is kept
        fresh = run("PRAGMA schema_version").fetchone() == (0,)
        if fresh:
            for statement in filter(str.strip, SCHEMA.split(";")):
                run(statement)
            run(f"PRAGMA application_id = {APPLICATION}")
            run(f"PRAGMA user_version = {FORMAT}")
            self._state("panel", panel)
        run("COMMIT")
        self._check(panel)

    def _refuse_foreign(self) -> None:
        """Refuse the file of another program; one that holds nothing is nobody's."""
        marks = self._pragma("application_id"), self._pragma("user_version")
        empty = marks == (0, 0) and self._pragma("schema_version") == 0
        if not empty and marks != (APPLICATION, FORMAT):
            raise ArtifactError(f"{self.path}: not a store of this program; name another file")

    def _check(self, panel: str) -> None:
        """Refuse a file that is damaged or of another panel."""
        found = self._pragma("integrity_check")
        if found != "ok":
            raise sqlite3.DatabaseError(str(found))
        if self._fact("panel") != panel:
            message = f"{self.path}: holds observations of another panel"
            raise ArtifactError(f"{message}; name another file for this one")

    def _pragma(self, name: str) -> int | str:
        found: int | str = self._base.execute(f"PRAGMA {name}").fetchone()[0]
        return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._base.execute("BEGIN IMMEDIATE")
            yield
            self._base.execute("COMMIT")
        except BaseException as error:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error) and "full" in str(error):
                raise FullError(str(error)) from error
            raise

    def _put(self, table: Table, entry: Entry, received: int) -> str:
        name, time, value = entry
        found = self._base.execute(
            f"SELECT value, revision FROM {table} WHERE name = ? AND time = ?",  # noqa: S608 (ours)
            (name, time),
        ).fetchone()
        if found is not None and found[0] == value:
            self._base.execute(  # what came before its hour was over may be final now
                f"UPDATE {table} SET received = ? WHERE name = ? AND time = ?",  # noqa: S608 (ours)
                (received, name, time),
            )
            return "unchanged"
        revision = 1 if found is None else found[1] + 1
        self._base.execute(
            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?)",  # noqa: S608 (ours)
            (name, time, value, revision, received),
        )
        return "accepted" if found is None else "revised"

    def _receipt(self, ticket: Ticket) -> Receipt | None:
        found = self._base.execute(
            "SELECT digest, receipt FROM keys WHERE key = ?", (ticket.key,)
        ).fetchone()
        if found is None:
            return None
        if found[0] != ticket.digest:
            raise KeyReusedError
        return Receipt(**json.loads(found[1]))

    def _remember(self, ticket: Ticket, receipt: Receipt, received: int) -> None:
        oldest = received - KEY_DAYS * DAY_SECONDS
        self._base.execute("DELETE FROM keys WHERE received < ?", (oldest,))
        row = ticket.key, ticket.digest, json.dumps(asdict(receipt)), received
        self._base.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", row)

    def _fact(self, name: str) -> str | None:
        found = self._base.execute("SELECT fact FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def _state(self, name: str, fact: str) -> None:
        self._base.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, fact))


def _explain(path: str, error: sqlite3.DatabaseError) -> Exception:
    """Return an error that says what to do; nothing is ever deleted."""
    if "locked" in str(error):
        return RunError(f"{path}: another service uses it; stop that one or name another file")
    if isinstance(error, sqlite3.OperationalError):
        return RunError(f"{path}: cannot be opened ({error}); name a file in a folder of yours")
    advice = "nothing was changed: bring back a copy, or move it away and send its data again"
    return ArtifactError(f"{path}: damaged ({error}); {advice}")
