"""Places that were renamed, merged or split: their history goes on under the new ids.

A table `old,new,from` tells of them. From the moment `from` on, rows have the new id; the values
before it are moved there:

- one row: renamed;
- several rows with the same `new` and `from`: merged. Counts are added, measurements averaged. A
  count is missing where a part is missing that had values before and after: a sum without one of
  its parts would be too low. A part that had not opened yet, or no longer existed, adds nothing;
- several rows with the same `old` and `from`: split. Counts are divided in proportion to the sums
  of the first four weeks after `from`, into whole numbers whose sum at every step is the old value
  and whose remainders are carried to later steps; measurements are inherited.

An id that goes on existing is its own successor: `A,A` and `A,B` split B off A; `A,A` and `B,A`
merge B into A. Chains (A to B, later B to C) are followed.

With its history a successor inherits when its predecessors opened: `opens` of its own is the day
of the new id, and would cut the history off.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

import numpy as np
from jaxtyping import Bool, Float32, Float64

from forecaster.choices import Kind
from forecaster.errors import DataError, Faults, count_of, name_some, nearest_name
from forecaster.panel.axis import VALUES, SeriesTable
from forecaster.panel.parts import Locations
from forecaster.panel.tables.columns import encode_ids, need_columns
from forecaster.panel.tables.readers import read_instants, sort_ids
from forecaster.reading.load import Table, load

COLUMNS = ("old", "new", "from")
SHARE_DAYS = 28  # after a split, by whose sums the history is divided
FLAGS = (0.0, 1.0)

Column = Float32[np.ndarray, " _"]  # some steps of one layer of one location
Series = dict[str, Column]  # of one location, by layer


@dataclass(frozen=True)
class Rename:
    """One row of the table: a place, its successor, and when it took over."""

    old: str
    new: str
    since: np.datetime64  # UTC


def read_renames(source: Table, zone: str) -> tuple[Rename, ...]:
    """Return the rows of a table `old,new,from` in the order of time.

    Args:
        source: a table or its path.
        zone: of times without an offset.
    """
    table, name = load(source, texts=COLUMNS)
    need_columns(table, COLUMNS, name)
    faults = Faults(name)
    (old_codes, olds), (new_codes, news) = (encode_ids(table[c], faults) for c in COLUMNS[:2])
    moments = read_instants(table["from"], "from", zone, faults)
    undated = np.flatnonzero(np.isnat(moments))
    if len(undated):
        rows = name_some(f"row {n + 1}" for n in undated)
        faults.add(f"{count_of(len(undated), 'row')} without a time in 'from': {rows}")
    faults.raise_any(DataError)
    codes = zip(old_codes, new_codes, moments, strict=True)
    renames = [Rename(olds[old], news[new], since) for old, new, since in codes]
    renames.sort(key=lambda rename: rename.since)
    _check(renames, faults)
    return tuple(renames)


def apply_renames(rows: SeriesTable, renames: Sequence[Rename], kind: Kind) -> SeriesTable:
    """Return the rows under the new ids, with a count of the renames in the ledger.

    Renames after the last row are still to come, and are left out.

    Args:
        rows: on a regular axis in UTC, with or without a layer of values.
        renames: in the order of time.
        kind: of the values.
    """
    if not renames:
        return rows
    history = _History(rows, kind)
    for since, event in _events(renames, int(rows.seconds[-1])).items():
        history.apply(event, int(np.searchsorted(rows.seconds, since.astype(np.int64))))
    return history.table()


def inherit_opens(locations: Locations, renames: Sequence[Rename], last: int) -> Locations:
    """Return the locations with `opens` of each successor: the earliest of its predecessors.

    It is unknown where that of a predecessor is unknown.

    Args:
        locations: old and new ones.
        renames: in the order of time.
        last: seconds of the last row; later renames are still to come.
    """
    opens = dict(zip(locations.ids, locations.opens, strict=True))
    unknown = np.datetime64("NaT", "s")
    for event in _events(renames, last).values():
        before = dict(opens)
        for new in {rename.new for rename in event}:
            dates = [before.get(rename.old, unknown) for rename in event if rename.new == new]
            opens[new] = np.min(dates)  # NaT if one of them is
    inherited = np.array([opens[identity] for identity in locations.ids], dtype="datetime64[s]")
    if np.array_equal(inherited, locations.opens, equal_nan=True):
        return locations
    return replace(locations, opens=inherited)


def linked_ids(ids: Sequence[str], renames: Sequence[Rename]) -> list[str]:
    """Return for each id a common name of all ids that renames link it with."""
    group = {identity: identity for identity in ids}
    for rename in renames:
        old, new = (group.setdefault(i, i) for i in (rename.old, rename.new))
        group = {i: new if name == old else name for i, name in group.items()}
    return [group[identity] for identity in ids]


def _events(renames: Sequence[Rename], last: int) -> dict[np.datetime64, list[Rename]]:
    """The renames up to the last row, by their moment."""
    events: dict[np.datetime64, list[Rename]] = defaultdict(list)
    for rename in renames:
        if rename.since.astype(np.int64) <= last:
            events[rename.since].append(rename)
    return events


class _History:
    """The series of all locations while renames are applied, one moment after the other."""

    def __init__(self, rows: SeriesTable, kind: Kind) -> None:
        self._rows, self._kind = rows, kind
        self._series: dict[str, Series] = {
            identity: {name: layer[:, n] for name, layer in rows.layers.items()}
            for n, identity in enumerate(rows.ids)
        }
        self._applied = self._incomplete = 0

    def table(self) -> SeriesTable:
        """The rows as they are now, their ids sorted."""
        ids = tuple(sort_ids(list(self._series)))
        layers = {
            name: np.column_stack([self._series[identity][name] for identity in ids])
            for name in self._rows.layers
        }
        counts = {"renames": self._applied, "merged_incomplete": self._incomplete}
        counts = counts if VALUES in layers else {}
        return replace(self._rows, ids=ids, layers=layers, counts={**self._rows.counts, **counts})

    def apply(self, event: Sequence[Rename], at: int) -> None:
        """Apply the renames of one moment, which lies at a step of the axis."""
        event = [r for r in event if {r.old, r.new} & self._series.keys()]  # others: not here
        faults = Faults("renames")
        news = dict.fromkeys(rename.new for rename in event)
        olds = dict.fromkeys(rename.old for rename in event)
        self._check_rows(list(olds), list(news), at, faults)
        faults.raise_any(DataError)
        parts: dict[str, list[Series]] = defaultdict(list)
        for old in olds:
            targets = [rename.new for rename in event if rename.old == old]
            for new, part in zip(targets, self._divide(old, targets, at), strict=True):
                parts[new].append(part)
        merged = {new: self._join(parts[new], self._series.get(new), at) for new in news}
        self._series = {i: s for i, s in self._series.items() if i not in olds} | merged
        self._applied += len(event)

    def _check_rows(
        self, olds: Sequence[str], news: Sequence[str], at: int, faults: Faults
    ) -> None:
        """Add a fault for ids without rows, and for values on the wrong side of the moment."""
        absent = [old for old in olds if old not in self._series]
        if absent and VALUES in self._rows.layers:
            hint = nearest_name(absent[0], list(self._series))
            problem = f"{count_of(len(absent), 'old id')} without a row: {name_some(absent)}"
            faults.add(f"{problem}{hint}; remove them from the renames")
        sides = (
            (
                olds,
                news,
                slice(at, None),
                "after",
                "give the moment of the first value of the new",
            ),
            (news, olds, slice(0, at), "before", "a place that goes on needs a row old = new"),
        )
        for ids, exempt, side, word, remedy in sides:
            for identity in ids:
                if identity not in self._series or identity in exempt:
                    continue
                count = int(self._holds(self._series[identity], side).sum())
                if count:
                    time = self._time(at)
                    problem = f"{identity}: {count_of(count, 'value')} {word} {time}"
                    faults.add(f"{problem}, when it {_ROLE[word]}; {remedy}")

    def _holds(self, series: Series, side: slice) -> Bool[np.ndarray, " _"]:
        """Which steps have a value; of counts, one above zero."""
        values = series.get(VALUES, np.empty(0, np.float32))[side]
        return np.asarray(np.isfinite(values) & ((values != 0) | (self._kind != "count")))

    def _time(self, at: int) -> str:
        return f"{self._rows.seconds[at].astype('datetime64[s]')}Z"

    def _divide(self, old: str, targets: Sequence[str], at: int) -> list[Series]:
        """The history of a place, one part for each of its successors."""
        if old not in self._series:
            return [{} for _ in targets]
        before = {name: column[:at] for name, column in self._series[old].items()}
        if len(targets) == 1 or self._kind != "count" or VALUES not in before:
            return [before for _ in targets]
        shares = self._shares(targets, at)
        divided = divide_counts(before[VALUES], shares)
        return [{**before, VALUES: values} for values in divided]

    def _shares(self, targets: Sequence[str], at: int) -> Float64[np.ndarray, " P"]:
        """The shares of the successors in the first weeks; equal ones without any value."""
        seconds = self._rows.seconds
        end = np.searchsorted(seconds, seconds[at] + SHARE_DAYS * 86_400)
        series = (self._series.get(target, {}) for target in targets)
        sums = [
            np.nansum(s[VALUES][at:end], dtype=np.float64) if VALUES in s else 0.0 for s in series
        ]
        total = sum(sums)
        return np.array(sums) / total if total else np.full(len(sums), 1 / len(sums))

    def _join(self, parts: Sequence[Series], later: Series | None, at: int) -> Series:
        """The parts of a place's history as one, followed by its later values."""
        joined = {}
        for name, layer in self._rows.layers.items():
            columns = [part[name] for part in parts if name in part]
            after = (
                np.full(len(layer) - at, np.nan, np.float32) if later is None else later[name][at:]
            )
            joined[name] = np.concatenate([self._merge(name, columns, at), after])
        return joined

    def _merge(self, name: str, columns: Sequence[Column], at: int) -> Column:
        if not columns:
            return np.full(at, np.nan, dtype=np.float32)
        if len(columns) == 1:
            return columns[0]
        stacked = np.stack(columns)
        if name != VALUES:
            return merge_covariates(stacked)
        if self._kind != "count":
            return _mean(stacked)
        merged = add_counts(stacked)
        self._incomplete += int((np.isnan(merged) & np.isfinite(stacked).any(axis=0)).sum())
        return merged


_ROLE = {"after": "was renamed", "before": "took over"}


def divide_counts(
    counts: Float32[np.ndarray, " T"], shares: Float64[np.ndarray, " P"]
) -> list[Float32[np.ndarray, " T"]]:
    """Divide counts by shares: whole numbers with the same sum at every step.

    What rounding leaves over is carried to later steps, so that each part also has its share of
    the total. A count that is no whole number is divided as it is.
    """
    unassigned, parts = counts.astype(np.float64), []
    for number in range(len(shares) - 1):
        remaining = shares[number:].sum()
        share = shares[number] / remaining if remaining > 0 else 0.0
        whole = np.where(unassigned % 1 == 0, unassigned, 0)  # of NaN: 0
        due = np.floor(np.cumsum(np.nan_to_num(whole)) * share + 0.5)
        part = np.where(
            unassigned % 1 == 0, np.diff(due, prepend=0), (unassigned * share).astype(np.float32)
        )
        parts.append(part.astype(np.float32))
        unassigned -= part
    return [*parts, unassigned.astype(np.float32)]


def add_counts(parts: Float32[np.ndarray, "P T"]) -> Float32[np.ndarray, " T"]:
    """Add the counts of places; missing where a part is missing that existed then."""
    observed = np.isfinite(parts)
    begun = np.maximum.accumulate(observed, axis=1)
    not_over = np.maximum.accumulate(observed[:, ::-1], axis=1)[:, ::-1]
    unknown = (begun & not_over & ~observed).any(axis=0) | ~observed.any(axis=0)
    total = np.where(observed, parts, 0).sum(axis=0, dtype=np.float64)
    return np.where(unknown, np.nan, total).astype(np.float32)


def merge_covariates(parts: Float32[np.ndarray, "P T"]) -> Float32[np.ndarray, " T"]:
    """Average the covariates of places; a flag holds where it holds for any of them."""
    observed = parts[np.isfinite(parts)]
    if np.isin(observed, FLAGS).all():
        return np.asarray(np.fmax.reduce(parts, axis=0))
    return _mean(parts)


def _mean(parts: Float32[np.ndarray, "P T"]) -> Float32[np.ndarray, " T"]:
    """The mean of the observed parts; missing without any."""
    observed = np.isfinite(parts)
    total = np.where(observed, parts, 0).sum(axis=0, dtype=np.float64)
    count = observed.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)


def _check(renames: Sequence[Rename], faults: Faults) -> None:
    """Refuse rows given twice, cycles, and a place that is split and merged at once."""
    pairs = Counter((rename.old, rename.new) for rename in renames)
    doubled = [f"{old} → {new}" for (old, new), count in pairs.items() if count > 1]
    if doubled:
        faults.add(f"{count_of(len(doubled), 'rename')} given twice: {name_some(doubled)}")
    moments: Mapping[str, set[np.datetime64]] = defaultdict(set)
    for rename in renames:
        moments[rename.old].add(rename.since)
    again = [old for old, times in moments.items() if len(times) > 1]
    if again:
        faults.add(f"{name_some(again)}: renamed at several moments; give one for each old id")
    links: dict[str, set[str]] = defaultdict(set)
    for rename in renames:
        if rename.old != rename.new:
            links[rename.new].add(rename.old)
    try:
        TopologicalSorter(links).prepare()
    except CycleError as error:
        cycle = " → ".join(error.args[1])
        faults.add(f"a cycle, {cycle}; an id may not come back: give the later place another id")
    _refuse_tangled(renames, faults)
    faults.raise_any(DataError)


def _refuse_tangled(renames: Sequence[Rename], faults: Faults) -> None:
    olds = Counter((rename.old, rename.since) for rename in renames)
    news = Counter((rename.new, rename.since) for rename in renames)
    tangled = [
        f"{r.old} → {r.new}"
        for r in renames
        if olds[r.old, r.since] > 1 and news[r.new, r.since] > 1
    ]
    if tangled:
        problem = f"{name_some(tangled)}: part of a split and of a merger at one moment"
        faults.add(
            f"{problem}; split it under an id of its own first, and merge that a step later"
        )
