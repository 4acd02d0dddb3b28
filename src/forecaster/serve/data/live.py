"""The live data: a panel, the observations stored since, and how old they are now."""

import asyncio
import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from forecaster.estimators.wrong_values.degraded import describe_outage
from forecaster.estimators.wrong_values.plausible import RUN_DAYS, day_steps
from forecaster.panel.panel import Panel
from forecaster.serve.data.database import Entry, IdempotencyKey, Receipt, Table
from forecaster.serve.data.registration import TRAIN_AGAIN, Registration
from forecaster.serve.data.scores import DayScore
from forecaster.serve.data.snapshot import REPORTING_DAYS, CellUpdate, Snapshot
from forecaster.serve.data.store import DiskFullError, KeyReusedError, Store
from forecaster.serve.problems import Problem
from forecaster.serve.tracing import span
from forecaster.splits import worst_locations

T = TypeVar("T")
Now = Callable[[], float]  # seconds since 1970, UTC
AHEAD_SECONDS = 300  # by which a client's clock may be ahead
MAX_WRITES = 32  # that may wait for the disk
MIN_ROOM = 1_000  # registered locations that are taken; more if the panel has more
ENOUGH = f"half of the locations that have reported in the last {REPORTING_DAYS} days"
STALE_STEPS = 2  # without a forecast origin: forecasts are marked as stale
DEAD_STEPS = 24  # without a forecast origin: there is no forecast of now
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Freshness:
    """The newest forecast origin, and how old it is."""

    newest: int | None  # the last step from which a forecast may be made
    age_seconds: int | None  # since that step was over
    stale: bool
    fault: str | None  # reason why there is no current forecast
    outage: str | None = None  # many locations are silent at once


class LiveData:
    """The current data; `snapshot` is replaced after every write.

    One thread writes to the store.
    """

    def __init__(self, base: Panel, store: Store, now: Now = time.time) -> None:
        """Read the store.

        Args:
            base: the panel.
            store: observations and covariates received since.
            now: the time, real or replayed.
        """
        self.now = now
        self.broken: str | None = None  # reason why nothing can be written any more
        self._store = store
        self._panel_columns = len(base.locations)
        self._columns: dict[Table, dict[str, int]] = {
            "observations": {name: n for n, name in enumerate(base.locations.ids)},
            "covariates": {name: n for n, name in enumerate(base.covariates.names)},
        }
        self._registrations = {one.id: one for one in store.registrations()}
        added = [one for name, one in self._registrations.items() if not self._is_known(name)]
        self.snapshot = Snapshot(base).with_locations(added, store.version)
        self._columns["observations"] |= _columns(self.snapshot, self._panel_columns)
        for table in self._columns:
            self.snapshot = self._updated(table, list(store.read(table)), store.version)
        self.scores = {(one.model, one.day): one for one in store.scores()}  # the ledger
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._waiting = 0
        self._newest: tuple[Snapshot, int, int | None] = (self.snapshot, -1, None)
        self._outage: tuple[Snapshot, int, str | None] = (self.snapshot, -1, None)

    def closed_steps(self) -> int:
        """Return the number of steps that are over."""
        snapshot = self.snapshot
        return snapshot.count_over(self.now())

    def count_steps(self, hours: int) -> int:
        """Return the number of steps in some hours, at least one."""
        return max(hours * 60 // self.snapshot.base.clock.step_minutes, 1)

    def freshness(self, snapshot: Snapshot | None = None) -> Freshness:
        """Return the age of a snapshot, by default the current one."""
        snapshot = snapshot or self.snapshot
        newest = self._newest_origin(snapshot)
        if newest is None:
            return Freshness(None, None, True, f"no step has been observed at {ENOUGH}")
        over = snapshot.end_of(newest)
        age = max(int(self.now() - over), 0)
        steps, fault = age / snapshot.step_seconds, None
        stale = steps >= STALE_STEPS
        outage = self._find_outage(snapshot) if stale else None
        if steps >= DEAD_STEPS:
            last = f"{snapshot.time_of(newest)}Z"
            missing = "; ".join(filter(None, (self._name_missing(snapshot), outage)))
            fault = f"{missing}; the newest forecast origin, {last}, is too long ago for a"
            fault += f" forecast of now; /v1/forecast?at={last} forecasts from it"
        return Freshness(newest, age, stale, fault, outage)

    def find_origin(self, seconds: int) -> int:
        """Return the step that begins at an instant; it must be over."""
        snapshot = self.snapshot
        step = snapshot.step_at(seconds)
        if step is None:
            length = snapshot.base.clock.step_text
            raise Problem(422, "off_step", f"the time is not the start of a step of {length}")
        if step < 0:
            raise Problem(422, "too_old", f"the data begins at {snapshot.time_of(0)}Z")
        if step >= self.closed_steps():
            raise Problem(422, "in_future", "that step is not over yet")
        return step

    async def write(
        self, table: Table, entries: Sequence[Entry], received: int, key: IdempotencyKey | None
    ) -> Receipt:
        """Return the receipt of a batch, once it is on disk and in the snapshot."""
        return await self._submit(partial(self._write, table, entries, received, key))

    async def register(self, registration: Registration) -> tuple[Registration, bool]:
        """Return a location as it is registered, and whether it is new, once it is on disk."""
        return await self._submit(partial(self._register, registration))

    async def record(self, scores: Sequence[DayScore]) -> None:
        """Write rows of the ledger that are new or have more terms than before."""
        new = [s for s in scores if self._is_better_known(s)]
        if new:
            await self._submit(partial(self._record, new))

    def _record(self, scores: Sequence[DayScore]) -> None:
        with self._storing():
            self._store.write_scores(scores)
        self.scores = {**self.scores, **{(s.model, s.day): s for s in scores}}

    def _is_better_known(self, score: DayScore) -> bool:
        earlier = self.scores.get((score.model, score.day))
        return earlier is None or earlier.terms < score.terms

    async def _submit(self, job: Callable[[], T]) -> T:
        """Return the result of a job of the writing thread."""
        if self._waiting >= MAX_WRITES:
            raise Problem(503, "busy", "too many writes wait for the disk; send it again")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._writer, copy_context().run, job)
            return await asyncio.shield(running)  # a disconnected client does not cancel it
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Finish the current write, and close the store."""
        self._writer.shutdown()
        self._store.close()

    def _newest_origin(self, snapshot: Snapshot) -> int | None:
        """Return the newest forecast origin; it is searched again only if it may have changed."""
        end = self.closed_steps()
        known_snapshot, known_end, newest = self._newest
        if known_snapshot is not snapshot or known_end != end:
            newest = snapshot.newest_origin(end)
            self._newest = snapshot, end, newest
        return newest

    def _find_outage(self, snapshot: Snapshot) -> str | None:
        """Describe a feed outage at the last step but one: the last may still arrive."""
        end = self.closed_steps() - 1
        known_snapshot, known_end, outage = self._outage
        if known_snapshot is not snapshot or known_end != end:
            first = max(end - RUN_DAYS * day_steps(snapshot.base.clock), 0)
            outage = describe_outage(snapshot.panel(first, end, end), end - 1 - first)
            self._outage = snapshot, end, outage
        return outage

    def _name_missing(self, snapshot: Snapshot) -> str:
        """Say what the last steps lack to be forecast origins."""
        end = self.closed_steps()
        values = snapshot.final_values(end - DEAD_STEPS, end)
        if np.isnan(values).all():
            return f"no data in the last {DEAD_STEPS} steps"
        reporting = np.flatnonzero(snapshot.is_reporting(end - 1))
        ids = [snapshot.locations.ids[n] for n in reporting]
        alive = snapshot.alive(end - DEAD_STEPS, end)
        worst = worst_locations(ids, values[:, reporting], alive[:, reporting])
        return f"none of the last {DEAD_STEPS} steps has data of {ENOUGH} (missing: {worst})"

    def _write(
        self, table: Table, entries: Sequence[Entry], received: int, key: IdempotencyKey | None
    ) -> Receipt:
        with span("store.write", table=table, entries=len(entries)), self._storing():
            receipt, repeated = self._store.write(table, entries, received, key)
        changed = receipt.accepted + receipt.revised > 0
        if not repeated and (changed or self.snapshot.partial):  # the same value may now be final
            rows = [(entry, received) for entry in entries]
            self.snapshot = self._updated(table, rows, receipt.data_version)
        return receipt

    def _register(self, registration: Registration) -> tuple[Registration, bool]:
        """Commit a new location, or return the stored one that says the same."""
        name, panel = registration.id, self.snapshot.base.locations
        stored = self._registrations.get(name)
        if stored is not None and registration.is_same(stored):
            return stored, False
        if self._is_known(name):
            stored = Registration.of_panel(panel, name)
            if registration.fits(panel):
                return stored, False
        if stored is not None:
            detail = "this id is taken by a location with other data"
            raise Problem(409, "location_differs", f"{detail}: {_describe(stored)}")
        room = max(MIN_ROOM, len(panel))
        if len(self.snapshot.registered) >= room:
            detail = f"{room:,} locations are registered, the most that are taken"
            raise Problem(409, "too_many_locations", f"{detail}; {TRAIN_AGAIN}")
        with span("store.register"), self._storing():
            self._store.register(registration)
        self._registrations[name] = registration
        self.snapshot = self.snapshot.with_locations([registration], self._store.version)
        self._columns["observations"] |= _columns(self.snapshot, len(self.snapshot.locations) - 1)
        return registration, True

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Turn the faults of a write into problems."""
        try:
            yield
        except KeyReusedError:
            raise Problem(
                422, "key_reused", "this Idempotency-Key was used before with another body"
            ) from None
        except DiskFullError as error:
            log.error("nothing was written: %s", error)
            raise Problem(507, "disk_full", "the disk is full; nothing was written") from None
        except (sqlite3.Error, OSError) as error:
            self.broken = "observations cannot be written; see the service's log"
            log.error("nothing was written: %s", error)
            raise Problem(503, "store_broken", self.broken) from None
        self.broken = None

    def _is_known(self, name: str) -> bool:
        """Whether the panel itself has a location."""
        return self._columns["observations"].get(name, self._panel_columns) < self._panel_columns

    def _updated(self, table: Table, rows: Sequence[tuple[Entry, int]], version: int) -> Snapshot:
        """Return the snapshot with entries added, each with the time it was received."""
        columns, length = self._columns[table], self.snapshot.step_seconds
        tolerance = tolerance_seconds(length)
        cells: list[CellUpdate] = []
        arrivals: list[int] = []
        unfinished: set[tuple[int, int]] = set()
        for (name, begins, value), received in rows:
            step = self.snapshot.step_at(begins)
            if step is not None and name in columns:
                cells.append((step, columns[name], value))
                arrivals.append(received)
                if self.snapshot.end_of(step) > received + tolerance:
                    unfinished.add((step, columns[name]))
        if table == "observations":
            return self.snapshot.with_observations(cells, version, unfinished)
        return self.snapshot.with_covariates(cells, version, arrivals)


def panel_digest(panel: Panel) -> str:
    """Return a hash of the panel's identity, by which a store of another panel is refused."""
    return list(_digests(panel, panel.locations.ids))[-1]


def earlier_digests(panel: Panel, without: Collection[str] = ()) -> set[str]:
    """Return the hashes of the panel before each of its locations joined.

    Args:
        panel: the panel; new locations are the last ones.
        without: locations that are left out.
    """
    return {*_digests(panel, [name for name in panel.locations.ids if name not in without])}


def _digests(panel: Panel, ids: Sequence[str]) -> Iterator[str]:
    """Yield the hash of the panel with the first locations, one more each time."""
    parts = panel.clock.zone, str(panel.clock.step_minutes), panel.kind
    digest = hashlib.sha256("\n".join(parts).encode())
    for name in ids:
        digest.update(f"\n{name}".encode())
        yield digest.hexdigest()


def tolerance_seconds(step_seconds: int) -> int:
    """Return by how much a value may be received before its step is over: clocks differ."""
    return min(AHEAD_SECONDS, step_seconds // 10)


def _columns(snapshot: Snapshot, first: int) -> dict[str, int]:
    """Return the columns from `first` on by their ids."""
    return {name: n for n, name in enumerate(snapshot.locations.ids[first:], start=first)}


def _describe(registration: Registration) -> str:
    """Return a location as JSON without what it does not say."""
    fields = asdict(registration)
    del fields["since"]
    return json.dumps({name: value for name, value in fields.items() if value not in (None, {})})
