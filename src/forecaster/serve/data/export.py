"""What a service has received, as new data of its panel (`read_store`)."""

import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError, DataError
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.panel.vintages import Vintages, first_origins, sort_vintages
from forecaster.serve.data.backup import back_up
from forecaster.serve.data.database import Table
from forecaster.serve.data.live import earlier_digests, panel_digest, tolerance_seconds
from forecaster.serve.data.registration import Registration, to_locations
from forecaster.serve.data.store import Store

Cells = tuple[
    Int64[np.ndarray, " R"], list[str], Float32[np.ndarray, " R"], Int64[np.ndarray, " R"]
]


@dataclass(frozen=True, eq=False)
class StoredData:
    """The observations and covariates of a store."""

    panel: Panel  # as new data of the panel that the store belongs to
    withdrawn: Bool[np.ndarray, "T N"]  # values that a client has said to be missing
    unfinished: int  # values received before their step was over, which are left out
    received: int  # seconds since 1970: when the last of all was received


def read_store(path: Path, panel: Panel, since: int = 0) -> StoredData | None:
    """Return what a store has received; None: nothing. Its service may go on.

    Args:
        path: of the store.
        panel: that the service began with, or a later version of it.
        since: what was received earlier is left out, in seconds since 1970.
    """
    with tempfile.TemporaryDirectory(prefix="forecaster-store-") as folder:
        copy = Path(folder) / "store.sqlite"
        back_up(path, copy)
        store = _open(copy, path, panel)
        try:
            return _Received(store, panel, since).data()
        finally:
            store.close()


def _open(copy: Path, path: Path, panel: Panel) -> Store:
    """Open the copy of a store; the panel may have its locations by now, in any number."""
    try:
        return Store(copy, panel_digest(panel), partial(earlier_digests, panel))
    except ArtifactError as error:
        if "another panel" not in str(error):
            raise
        raise DataError(
            f"{path}: the store of another panel: its locations, time zone, step or kind differ "
            "from this one's; give the store of the service that serves this panel"
        ) from error


class _Received:
    """The rows of a store, by step of a panel."""

    def __init__(self, store: Store, panel: Panel, since: int) -> None:
        self._store, self._panel, self._since = store, panel, since
        self._last = 0
        self.unfinished = 0

    def data(self) -> StoredData | None:
        """Return all rows as a panel."""
        cells = self._observations()
        ahead = self._rows("covariates")
        registered = [one for one in self._store.registrations() if one.id in {*cells[1]}]
        steps = np.concatenate([cells[0], ahead[0]])
        if not len(steps):
            return None
        M = self._panel.shape[0]
        # Covariates alone begin at the panel's last step, or before.
        first = int(steps.min()) if len(cells[0]) else min(int(steps.min()), M - 1)
        end = int(cells[0].max()) + 1 if len(cells[0]) else first + 1
        known_end = max(int(steps.max()) + 1, end)
        ids = tuple(dict.fromkeys(cells[1])) or self._panel.locations.ids[:1]
        values, missing = _place(cells, ids, first, end)
        panel = Panel(
            values=values,
            start=self._panel.instant(first),
            clock=replace(self._panel.clock, hours=()),
            kind=self._panel.kind,
            locations=_locations(ids, self._panel.locations, registered),
            covariates=self._covariates(ahead, first, known_end),
            local_covariates=self._local(ids, registered, known_end - first),
        )
        return StoredData(panel, missing, self.unfinished, self._last)

    def _observations(self) -> Cells:
        """Return the observations of steps that were over when they were received."""
        steps, names, values, received = self._rows("observations")
        clock: Clock = self._panel.clock
        over = self._panel.instants(steps + 1).astype(np.int64)
        final = over <= received + tolerance_seconds(clock.step_minutes * 60)
        self.unfinished = int((~final).sum())
        final_names = [
            name for name, is_final in zip(names, final.tolist(), strict=True) if is_final
        ]
        return steps[final], final_names, values[final], received[final]

    def _rows(self, table: Table) -> Cells:
        """Return step, name, value and receipt of the rows that the panel's axis has."""
        rows = [row for row in self._store.read(table) if row[1] >= self._since]
        self._last = max([self._last, *(received for _, received in rows)])
        times = np.array([entry[1] for entry, _ in rows], dtype=np.int64).astype("datetime64[s]")
        steps = self._panel.step_index(times) if rows else np.empty(0, dtype=np.int64)
        inside = (steps >= 0) & (self._panel.instants(steps) == times)
        chosen = [row for row, is_inside in zip(rows, inside.tolist(), strict=True) if is_inside]
        values = [np.nan if entry[2] is None else entry[2] for entry, _ in chosen]
        return (
            steps[inside],
            [entry[0] for entry, _ in chosen],
            np.array(values, dtype=np.float32),
            np.array([received for _, received in chosen], dtype=np.int64),
        )

    def _covariates(self, cells: Cells, first: int, end: int) -> Covariates:
        """Return covariates; those with vintages are known from when they were received."""
        steps, names, values, received = cells
        if not len(steps):
            return Covariates.empty(end - first)
        columns = tuple(dict.fromkeys(names))
        placed, _ = _place(cells, columns, first, end)
        issued = self._panel.covariates.vintages
        vintages: Vintages | None = None
        if issued is not None and {*columns} & {*issued.names}:
            columns = tuple(self._panel.covariates.names)
            placed, _ = _place(cells, columns, first, end)
            origins = first_origins(
                self._panel.clock, self._panel.instant(first), received.astype("datetime64[s]")
            )
            rows = np.full((len(steps), len(issued.names)), np.nan, dtype=np.float32)
            place = {name: n for n, name in enumerate(issued.names)}
            for row, (name, value) in enumerate(zip(names, values.tolist(), strict=True)):
                if name in place:
                    rows[row, place[name]] = value
            vintages = sort_vintages(issued.names, steps - first, origins, rows)
        return Covariates(columns, placed, vintages=vintages)

    def _local(
        self, ids: tuple[str, ...], registered: list[Registration], steps: int
    ) -> LocalCovariates:
        """Return the local covariates of registered locations, the same at all steps."""
        names = self._panel.local_covariates.names
        given = [n for n in names if any(n in one.covariates for one in registered)]
        layers = np.full((len(given), steps, len(ids)), np.nan, dtype=np.float32)
        for one in registered:
            for q, name in enumerate(given):
                layers[q, :, ids.index(one.id)] = one.covariates.get(name, np.nan)
        return LocalCovariates(tuple(given), layers)


def _place(
    cells: Cells, names: tuple[str, ...], first: int, end: int
) -> tuple[Float32[np.ndarray, "T n"], Bool[np.ndarray, "T n"]]:
    """Return the values at their steps and columns, and which are said to be missing."""
    steps, rows, values, _ = cells
    column = {name: n for n, name in enumerate(names)}
    at = steps - first, np.array([column[name] for name in rows], dtype=np.int64)
    placed = np.full((end - first, len(names)), np.nan, dtype=np.float32)
    missing = np.zeros(placed.shape, dtype=bool)
    placed[at], missing[at] = values, np.isnan(values)
    return placed, missing


def _locations(
    ids: tuple[str, ...], known: Locations, registered: list[Registration]
) -> Locations:
    """Return the locations of ids, those that the panel lacks as they were registered."""
    new = [one for one in registered if one.id not in {*known.ids}]
    joined = known.join(to_locations(new)) if new else known
    column = {identity: n for n, identity in enumerate(joined.ids)}
    return replace(joined.take([column[i] for i in ids]), hours=())
