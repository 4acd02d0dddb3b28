"""The live data: what is safe on disk, laid over the panel, written by one thread."""

import asyncio
import hashlib
import logging
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from forecaster.panel.panel import Panel
from forecaster.serve.data.moment import AHEAD_SECONDS
from forecaster.serve.data.snapshot import Cell, Overlay
from forecaster.serve.data.store import (
    Entry,
    FullError,
    KeyReusedError,
    Receipt,
    Store,
    Table,
    Ticket,
)
from forecaster.serve.problems import Problem

MAX_WRITES = 32  # that may wait for the disk
log = logging.getLogger(__name__)


class Live:
    """One state of the data after another; `overlay` is always a whole one."""

    def __init__(self, base: Panel, store: Store) -> None:
        self._store = store
        self._columns: dict[Table, dict[str, int]] = {
            "observations": {name: n for n, name in enumerate(base.locations.ids)},
            "covariates": {name: n for n, name in enumerate(base.covariates.names)},
        }
        self.overlay = Overlay(base, store.version)
        for table in self._columns:
            self.overlay = self._lay(table, list(store.read(table)), store.version)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._waiting = 0
        self.broken: str | None = None  # why nothing can be written any more

    async def write(
        self, table: Table, entries: Sequence[Entry], received: int, ticket: Ticket | None
    ) -> Receipt:
        """Return the receipt of a batch that is safe on disk and seen by every later forecast."""
        if self._waiting >= MAX_WRITES:
            raise Problem(503, "busy", "too many writes wait for the disk; send it again")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(
                self._writer, self._write, table, entries, received, ticket
            )
            return await asyncio.shield(work)  # whoever leaves early does not stop it
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Finish what is being written, and let go of the file."""
        self._writer.shutdown()
        self._store.close()

    def _write(
        self, table: Table, entries: Sequence[Entry], received: int, ticket: Ticket | None
    ) -> Receipt:
        try:
            receipt, repeated = self._store.write(table, entries, received, ticket)
        except KeyReusedError:
            raise Problem(
                422, "key_reused", "this Idempotency-Key came with another body before"
            ) from None
        except FullError as error:
            log.error("observations: %s", error)
            raise Problem(507, "disk_full", "the disk is full; nothing was written") from None
        except sqlite3.Error as error:
            self.broken = "observations cannot be written; the log says why"
            log.error("observations: %s", error)
            raise Problem(503, "store_broken", self.broken) from None
        self.broken = None
        changed = receipt.accepted + receipt.revised > 0
        if not repeated and (changed or self.overlay.early):  # the same may now be final
            rows = [(entry, received) for entry in entries]
            self.overlay = self._lay(table, rows, receipt.data_version)
        return receipt

    def _lay(self, table: Table, rows: Sequence[tuple[Entry, int]], version: int) -> Overlay:
        """Return the state with entries laid over it, each with when it came."""
        columns, length = self._columns[table], self.overlay.step_seconds
        slack = min(AHEAD_SECONDS, length // 10)  # clocks may differ a little
        cells: list[Cell] = []
        unfinished: set[tuple[int, int]] = set()
        for (name, time, value), received in rows:
            step = self.overlay.step_at(time)
            if step is not None and name in columns:
                cells.append((step, columns[name], value))
                if time + length > received + slack:
                    unfinished.add((step, columns[name]))
        if table == "observations":
            return self.overlay.with_cells(cells, version, unfinished)
        return self.overlay.with_covariates(cells, version)


def identify(panel: Panel) -> str:
    """Return what tells panels apart whose observations must not be mixed."""
    parts = (panel.clock.zone, str(panel.clock.step_minutes), panel.kind, *panel.locations.ids)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
