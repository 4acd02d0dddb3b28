"""Writing observations to the store against a SQLite table that is synced at every commit."""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from benchmarks.measure import at_most, medians, read_options, report

OPTIONS = read_options(__doc__)

from forecaster.serve.data.database import Entry  # noqa: E402 (after the threads are set)
from forecaster.serve.data.store import Store  # noqa: E402

GOAL = 1.2
SIZES = {1: 100, 100: 50, 1_000: 20, 10_000: 10}  # entries of a batch: repeats
TABLE = """
CREATE TABLE observations (
    name TEXT NOT NULL, time INTEGER NOT NULL, value REAL, revision INTEGER NOT NULL,
    received INTEGER NOT NULL, PRIMARY KEY (name, time)) WITHOUT ROWID
"""


class PlainTable:
    """One table in a write-ahead log, each entry looked up and written: no checksums."""

    def __init__(self, path: Path) -> None:
        self._run = sqlite3.connect(path, isolation_level=None).execute
        self._run("PRAGMA locking_mode = EXCLUSIVE")
        self._run("PRAGMA journal_mode = WAL")
        self._run("PRAGMA synchronous = FULL")
        self._run(TABLE)

    def write(self, entries: Sequence[Entry]) -> None:
        """Commit entries."""
        self._run("BEGIN IMMEDIATE")
        for entry in entries:
            query = "SELECT value, revision FROM observations WHERE name = ? AND time = ?"
            stored = self._run(query, entry[:2]).fetchone()
            revision = 1 if stored is None else stored[1] + 1
            row = (*entry, revision, 0)
            self._run("INSERT OR REPLACE INTO observations VALUES (?, ?, ?, ?, ?)", row)
        self._run("COMMIT")


def main() -> None:
    """Write batches of each size to both, taking turns."""
    notes, results = [], []
    for size, repeats in SIZES.items():
        seconds = _time(size, repeats // 2 if OPTIONS.quick else repeats)
        milliseconds = ", ".join(f"{name} {taken * 1e3:.2f} ms" for name, taken in seconds.items())
        notes.append(f"{size:6,} entries: {milliseconds}")
        ratio = seconds["store"] / seconds["plain"]
        results.append(at_most(f"Store.write, {size:,} entries", ratio, "SQLite, synced", GOAL))
    report(OPTIONS, notes, results)


def _time(size: int, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        plain, store = PlainTable(Path(folder) / "plain"), Store(Path(folder) / "store", "")
        ours, theirs = _batches(size), _batches(size)
        jobs: dict[str, Callable[[], object]] = {
            "store": lambda: store.write("observations", next(ours), 0),
            "plain": lambda: plain.write(next(theirs)),
        }
        seconds = medians(jobs, repeats)
        store.close()
    return seconds


def _batches(size: int) -> Iterator[list[Entry]]:
    """Yield the steps of a feed, one after another."""
    for step in count():
        yield [(f"place {n}", step * 3600, float(step % 7 + n)) for n in range(size)]


if __name__ == "__main__":
    main()
