"""The SQLite file of live observations, covariates and registered locations, with one writer.

A write is acknowledged after its line in the redo log is on disk, so it survives a kill, a power
loss, and damage of one of the two files. Only one service at a time can open them.
"""

import errno
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from forecaster.errors import ArtifactError, RunError
from forecaster.serve.data import acknowledged
from forecaster.serve.data.acknowledged import Acknowledged
from forecaster.serve.data.database import (
    FORMAT,
    SCORES,
    Batch,
    Database,
    Entry,
    IdempotencyKey,
    Receipt,
    Table,
)
from forecaster.serve.data.recovery import recover
from forecaster.serve.data.redo_log import OWNER_ONLY, SUFFIX, RedoLog
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.scores import DayScore

EarlierDigests = Callable[[Collection[str]], set[str]]  # of a panel without some locations
MAX_LOG_BYTES = 8 << 20  # then SQLite's file is completed, and the log begins anew
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class KeyReusedError(Exception):
    """An idempotency key was used again with another body."""


class DiskFullError(Exception):
    """The disk is full; nothing was written."""


class Store:
    """The observations and covariates of one panel; to be used by one thread at a time."""

    def __init__(
        self,
        path: Path | None,
        panel: str,
        earlier: EarlierDigests | None = None,
        *,
        accept_loss: bool = False,
    ) -> None:
        """Open or create the file.

        Args:
            path: of the file; None: in memory only.
            panel: its digest; a file of another panel is refused.
            earlier: gives the digests of the panel without its newest locations, and without some
                others: a panel that has grown, or was built again with locations that are
                registered here, is the same one. None: no such panel.
            accept_loss: open a damaged file without what is lost.
        """
        self.path = path
        self._log = None if path is None else RedoLog(path.with_name(path.name + SUFFIX), panel)
        self._acknowledged: Acknowledged | None = None
        try:
            if path is not None and self._log is not None:
                _prepare(path, panel, self._log, accept_loss=accept_loss)
            self._connection = _connect(path)
        except BaseException:
            self._release()
            raise
        self._database = Database(self._connection)
        try:
            self._open(panel, earlier)
        except BaseException as error:
            self._connection.close()
            self._release()
            if isinstance(error, sqlite3.DatabaseError):
                raise _to_error(str(path), error) from error
            raise

    def write(
        self,
        table: Table,
        entries: Sequence[Entry],
        received: int,
        key: IdempotencyKey | None = None,
    ) -> tuple[Receipt, bool]:
        """Commit entries, all or none; return the receipt, and whether the request is a repeat."""
        if key is not None and (earlier := self._database.receipt(key.key)) is not None:
            digest, receipt = earlier
            if digest != key.digest:
                raise KeyReusedError
            return receipt, True
        return self._commit(Batch(table, entries, received, key)), False

    def read(self, table: Table) -> Iterator[tuple[Entry, int]]:
        """Yield the latest revision of every entry, and when it was last received."""
        for name, time, value, _, received, _ in self._database.rows(table):
            yield (name, time, value), received

    def register(self, registration: Registration) -> None:
        """Commit a location that is not registered yet."""
        self._commit(registration)

    def registrations(self) -> list[Registration]:
        """Return the registered locations, in the order in which they came."""
        rows = self._database.rows("locations", "ORDER BY number")
        try:
            return [Registration.from_json(text) for _, _, text, _ in rows]
        except (TypeError, ValueError) as error:
            raise sqlite3.DatabaseError(f"a registered location: {error}") from error

    def write_scores(self, scores: Sequence[DayScore]) -> None:
        """Store rows of the ledger; they can be measured again, so no redo log has them."""
        with self._transaction():
            for score in scores:
                name = f"{SCORES}{score.model}/{score.day}"
                self._database.set_fact(name, score.to_json())

    def scores(self) -> list[DayScore]:
        """Return the rows of the ledger, by run and day."""
        return [DayScore.from_json(text) for text in self._database.facts(SCORES)]

    @property
    def version(self) -> int:
        """The data version, which grows with every write that changes a value."""
        return self._database.content.version

    def close(self) -> None:
        """Complete SQLite's file, and close both files."""
        with suppress(sqlite3.Error, RunError):  # a full disk: the redo log has what is missing
            self._complete(is_open=False)
        self._connection.close()
        self._release()

    def _open(self, panel: str, earlier: EarlierDigests | None) -> None:
        run, database = self._database.run, self._database
        run("PRAGMA busy_timeout = 0")
        run("PRAGMA locking_mode = EXCLUSIVE")  # a second service is refused at once
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")  # the redo log is waited for at every commit
        run("BEGIN EXCLUSIVE")  # takes the lock, and keeps it
        if database.pragma("schema_version") == 0:
            database.create(panel)
        elif database.pragma("user_version") != FORMAT:
            database.migrate()
        database.load_content()
        self._check(panel, earlier)
        logged = None if self._log is None else self._log.read()
        for written in logged.later_than(database.content.writes) if logged else ():
            database.redo(written)
        run("COMMIT")
        self._complete(is_open=True)

    def _check(self, panel: str, earlier: EarlierDigests | None) -> None:
        """Refuse a file of another panel."""
        registered = {one.id for one in self.registrations()}
        digests = {panel} if earlier is None else {panel, *earlier(registered)}
        if self._database.fact("panel") not in digests:
            message = f"{self.path}: holds observations of another panel"
            raise ArtifactError(f"{message}; give another file with --store")

    def _complete(self, *, is_open: bool) -> None:
        """Complete SQLite's file on disk, and begin the redo log anew."""
        if self._log is None:
            return
        database = self._database
        database.run("PRAGMA wal_checkpoint(TRUNCATE)")
        self._log.begin(database.content)
        self._note_acknowledged()
        if bool(database.fact("open")) != is_open:  # after that the log must be there
            database.set_fact("open", "yes" if is_open else "")
            database.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def _commit(self, change: Batch | Registration) -> Receipt:
        """Commit a change to the redo log and the database, or to neither."""
        with self._transaction():
            receipt, written = self._database.apply(change)
            if self._log is not None:
                self._log.append(written)
        if self._log is not None:
            self._log.commit()
            self._note_acknowledged()
            if self._log.size > MAX_LOG_BYTES:
                with suppress(sqlite3.Error, RunError):  # a full disk: at the next write
                    self._complete(is_open=True)
        return receipt

    def _note_acknowledged(self) -> None:
        if self._acknowledged is None and self.path is not None:
            file = self.path.with_name(self.path.name + acknowledged.SUFFIX)
            try:
                self._acknowledged = Acknowledged(file)
            except OSError as error:
                raise _cannot_open(str(file), error.strerror or error) from error
        if self._acknowledged is not None:
            self._acknowledged.write(self._database.content)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        before = self._database.content
        try:
            self._database.run("BEGIN IMMEDIATE")
            yield
            self._database.run("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._database.content = before
            if self._log is not None:
                self._log.undo()
            if _is_full(error):
                raise DiskFullError(str(error)) from error
            raise

    def _release(self) -> None:
        for file in (self._log, self._acknowledged):
            if file is not None:
                file.close()


def _prepare(path: Path, panel: str, log: RedoLog, *, accept_loss: bool) -> None:
    """Recover the file, or create one that only its owner may read."""
    try:
        recover(path, panel, log.read(), accept_loss=accept_loss)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, OWNER_ONLY))
    except OSError as error:
        raise _cannot_open(str(path), error.strerror or error) from error


def _connect(path: Path | None) -> sqlite3.Connection:
    where = ":memory:" if path is None else str(path)
    try:
        return sqlite3.connect(where, isolation_level=None, check_same_thread=False)
    except sqlite3.DatabaseError as error:
        raise _to_error(where, error) from error


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in FULL
    return isinstance(error, sqlite3.Error) and "full" in str(error)


def _to_error(path: str, error: sqlite3.DatabaseError) -> Exception:
    """Return an error with a remedy; nothing is deleted."""
    if "locked" in str(error):
        return RunError(f"{path}: another service uses it; stop it, or give another --store")
    if isinstance(error, sqlite3.OperationalError):
        return _cannot_open(path, error)
    advice = "nothing was changed; restore a backup, or move it away and send its data again"
    return ArtifactError(f"{path}: damaged ({error}); {advice}")


def _cannot_open(path: str, reason: object) -> RunError:
    advice = "give a file in a folder you may write to"
    return RunError(f"{path}: cannot be opened ({reason}); {advice}")
