"""Recovery of a store after a kill or damage: what is there, what is lost, and how to go on.

The database and the redo log are compared before anything is changed. What one of them lacks is
taken from the other. What neither has is lost, which only the user can accept.
"""

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from forecaster.errors import ArtifactError, count_of, name_some
from forecaster.publish.writing import sync_folder
from forecaster.serve.data import acknowledged
from forecaster.serve.data.acknowledged import read_acknowledged
from forecaster.serve.data.database import (
    APPLICATION,
    COLUMNS,
    FORMAT,
    KEYS,
    SCORES,
    Content,
    Database,
    checksum,
)
from forecaster.serve.data.redo_log import SUFFIX, LogContent

WAL = "-wal"  # SQLite's own log, after the name of the file
FORMATS = range(1, FORMAT + 1)
log = logging.getLogger(__name__)


@dataclass
class Inspection:
    """What the database says of itself, read without changing it."""

    is_new: bool = False  # there is no database, or an empty one
    is_open: bool = False  # it was not closed: a redo log belongs to it
    panel: str | None = None
    content: Content | None = None  # None: of format 1, or damaged
    acknowledged: Content | None = None  # after the last write, as noted; None: unknown
    fault: str | None = None  # reason why it is not as it was written
    damaged: list[str] = field(default_factory=list)  # rows that are not as they were written


def recover(path: Path, panel: str, logged: LogContent | None, *, accept_loss: bool) -> None:
    """Make the database one that the redo log completes, or refuse it.

    Args:
        path: of the database.
        panel: digest of the panel, for a store that cannot say its own.
        logged: the redo log.
        accept_loss: go on without what is lost.
    """
    state = inspect(path, has_log=logged is not None)
    state.acknowledged = read_acknowledged(path.with_name(path.name + acknowledged.SUFFIX))
    reason = _fault_of(path, state, logged) or _missing(state, logged)
    if reason is None:
        return
    rebuilt = path.with_name(f".{path.name}.rebuilt")
    try:
        loss = _rebuild(path, rebuilt, state, logged, panel)
        if loss and not accept_loss:
            raise ArtifactError(_refusal(path, reason, loss))
        kept = _keep_evidence(path)
        path.with_name(path.name + WAL).unlink(missing_ok=True)
        rebuilt.replace(path)
        sync_folder(path.parent)
    finally:
        for left in (rebuilt, rebuilt.with_name(rebuilt.name + WAL)):
            left.unlink(missing_ok=True)
    summary = f"lost: {loss}" if loss else "nothing is lost"
    log.warning("%s: was damaged (%s); %s; its files are kept in %s", path, reason, summary, kept)


def inspect(path: Path, *, has_log: bool = False) -> Inspection:
    """Read a database and every row of it; the file of another program is refused."""
    if not path.exists() or path.stat().st_size == 0:
        return Inspection(is_new=True)
    try:
        with _open_read_only(path) as connection:
            return _inspect(path, Database(connection), has_log=has_log)
    except (sqlite3.DatabaseError, ValueError, TypeError) as error:
        return Inspection(fault=str(error))


def _inspect(path: Path, database: Database, *, has_log: bool) -> Inspection:
    marks = database.pragma("application_id"), database.pragma("user_version")
    if marks == (0, 0) and database.pragma("schema_version") == 0:
        return Inspection(is_new=True)
    if marks[0] != APPLICATION or marks[1] not in FORMATS:
        if has_log:
            return Inspection(fault="its header is not that of a store")
        message = f"{path}: not a store of this program"
        raise ArtifactError(f"{message}; give another file with --store")
    result = str(database.pragma("integrity_check"))
    state = Inspection(
        is_open=bool(database.fact("open")),
        panel=database.fact("panel"),
        fault=None if result == "ok" else result.splitlines()[0],
    )
    if marks[1] == FORMAT:
        _verify(database, state)
    return state


def _verify(database: Database, state: Inspection) -> None:
    """Compare every row with its checksum, and all rows with the content."""
    database.load_content()
    rows = digest = 0
    for table in COLUMNS:
        for row in database.rows(table):
            if not _is_sound(table, row):
                state.damaged.append(_describe(table, row))
            if table != "facts":
                rows, digest = rows + 1, digest + (row[-1] or 0)
    if state.damaged:
        state.fault = f"{count_of(len(state.damaged), 'row')} changed"
    elif (rows, digest) != (database.content.rows, database.content.digest):
        expected = count_of(database.content.rows, "row")
        state.fault = state.fault or f"{rows:,} of {expected} are as they were written"
    state.content = database.content


def _fault_of(path: Path, state: Inspection, logged: LogContent | None) -> str | None:
    """Return why the database and the redo log do not make a whole; None: they do."""
    if state.fault is not None:
        return state.fault
    wal = path.with_name(path.name + WAL)
    if state.is_new and (logged is not None or (wal.exists() and wal.stat().st_size)):
        return "the database is missing"
    if logged is None:
        return f"{path.name}{SUFFIX} is missing or damaged" if state.is_open else None
    return _difference(state.content or Content(), logged)


def _difference(content: Content, logged: LogContent) -> str | None:
    """Return what the redo log knows and the database lacks; None: nothing is lost."""
    expected = logged.content_after(content.writes)
    if expected is not None and expected != content:
        return "the database and the redo log differ"
    if lost := logged.lost_after(content.writes):
        return f"{count_of(len(lost), 'write')} are neither in the database nor in the redo log"
    return None


def _missing(state: Inspection, logged: LogContent | None) -> str | None:
    """Return which acknowledged writes neither the database nor the redo log tells of."""
    held = max((state.content or Content()).writes, logged.last if logged else 0)
    if state.acknowledged is None or state.acknowledged.writes <= held:
        return None
    written = count_of(state.acknowledged.writes, "write")
    return f"{written} were acknowledged, {held:,} are in the database or the redo log"


def _rebuild(
    path: Path, rebuilt: Path, state: Inspection, logged: LogContent | None, panel: str
) -> str:
    """Write a database of all that can be read, and return what is lost."""
    for old in (rebuilt, rebuilt.with_name(rebuilt.name + WAL)):
        old.unlink(missing_ok=True)
    os.close(os.open(rebuilt, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    expected = _expected(state, logged)
    with closing(sqlite3.connect(rebuilt, isolation_level=None)) as connection:
        database = Database(connection)
        database.run("BEGIN")
        database.create(state.panel or (logged.panel if logged else panel))
        for table, row in _readable_rows(path):
            if table != "facts":
                database.put(table, [row])
            elif row[0].startswith(SCORES):  # others are of the store that was damaged
                database.set_fact(*row)
        for written in logged.later_than(0) if logged else ():
            database.redo(written)
        actual = database.content
        if expected is not None:
            database.set_content(replace(actual, version=expected.version, writes=expected.writes))
        database.run("COMMIT")
    return _loss(state, actual, expected, logged)


def _expected(state: Inspection, logged: LogContent | None) -> Content | None:
    """Return the content after the last write that is known of; None: unknown."""
    contents = [logged.base, *(one.content for one in logged.writes.values())] if logged else []
    contents += [one for one in (state.content, state.acknowledged) if one is not None]
    return max(contents, key=lambda content: content.writes, default=None)


def _loss(
    state: Inspection, actual: Content, expected: Content | None, logged: LogContent | None
) -> str:
    """Say what a rebuilt database lacks; an empty text: nothing."""
    if expected is None:
        return f"an unknown number of rows; {count_of(actual.rows, 'row')} can be read"
    last = logged.last if logged else 0
    if (actual.rows, actual.digest) == (
        expected.rows,
        expected.digest,
    ) and last <= expected.writes:
        return "" if logged else f"the writes after number {expected.writes:,}, if there were any"
    names = f" ({name_some(state.damaged)})" if state.damaged else ""
    rows = f"{max(expected.rows - actual.rows, 0):,} of {count_of(expected.rows, 'row')}{names}"
    writes = max(expected.writes, last)
    return f"{rows}, as they were after write {writes:,}"


def _refusal(path: Path, reason: str, loss: str) -> str:
    """Return what is wrong, what is lost, where the evidence is, and how to go on."""
    files = name_some(one.name for one in _files(path))
    evidence = f"nothing was changed: {files} hold what is left"
    advice = "restore a backup, or go on without what is lost by --accept-loss, which keeps a copy"
    return f"{path}: damaged ({reason}); lost: {loss}; {evidence}; {advice} in {_evidence(path)}"


def _files(path: Path) -> list[Path]:
    """Return the files of a store that are there."""
    suffixes = ("", WAL, SUFFIX, acknowledged.SUFFIX)
    files = (path.with_name(path.name + suffix) for suffix in suffixes)
    return [file for file in files if file.exists()]


def _evidence(path: Path) -> Path:
    """Return a folder that is not there yet, for the files of a damaged store."""
    names = (f"{path.name}.damaged-{number}" for number in count(1))
    return next(folder for name in names if not (folder := path.with_name(name)).exists())


def _keep_evidence(path: Path) -> Path:
    """Copy the files of a store to a new folder, and return it."""
    folder = _evidence(path)
    folder.mkdir(mode=0o700)
    for file in _files(path):
        shutil.copy2(file, folder / file.name)
    return folder


@contextmanager
def _open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that nothing is changed, SQLite's own log included.

    The caller holds the store's lock. Without locks SQLite does not copy its log into the file.
    Yet it removes a log without a whole transaction, which is evidence: a second name keeps it.
    """
    wal, kept = path.with_name(path.name + WAL), path.with_name(f".{path.name}{WAL}.kept")
    kept.unlink(missing_ok=True)
    with suppress(OSError):  # there is none, or its file system has no second names
        kept.hardlink_to(wal)
    where = f"file:{quote(str(path))}?mode=ro&vfs=unix-none"
    try:
        with closing(sqlite3.connect(where, uri=True, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # no shared memory
            yield connection
    finally:
        if kept.exists():
            kept.unlink() if wal.exists() else kept.replace(wal)


def _readable_rows(path: Path) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the rows that are as they were written, from both ends of each table."""
    if not path.exists():
        return
    for table in COLUMNS:
        for direction in ("ASC", "DESC"):
            order = " ORDER BY " + ", ".join(f"{key} {direction}" for key in KEYS[table])
            with suppress(sqlite3.DatabaseError), _open_read_only(path) as connection:
                for row in Database(connection).rows(table, order):
                    if _is_sound(table, row):
                        yield table, row[: len(COLUMNS[table])]
                break  # the whole table was read


def _is_sound(table: str, row: Sequence[Any]) -> bool:
    """Whether a row is as it was written; in format 1 rows have no checksum."""
    values = row[: len(COLUMNS[table])]
    return len(row) == len(values) or row[-1] == checksum(values)


def _describe(table: str, row: Sequence[Any]) -> str:
    """Return which row this is."""
    name = f"{table} {row[0]!a:.60}"
    if table in {"observations", "covariates"} and isinstance(row[1], int):
        return f"{name} at {np.datetime64(row[1], 's')}Z"
    return name
