"""New data for a saved panel, as a new version of it (`append_panel`).

What the panel has stays in its files. New steps come behind it, missing values may be filled, and
a value that changes is a revision, which must be asked for. A new location joins with missing
values before. The older version can still be opened.
"""

import logging
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.clock.clock import Clock
from forecaster.clock.holidays import YEARS_AHEAD, Holidays, expand_holidays
from forecaster.clock.zone import to_utc, tz_version
from forecaster.errors import DataError, Faults, count_of, name_some, nearest_name
from forecaster.panel.axis import EMPTY_DAYS, FOUND_COVERAGE, GAPS, MAX_FUTURE, count_gaps
from forecaster.panel.hours import shared_hours
from forecaster.panel.panel import Panel, refuse_inconsistent, saved_recipe
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.panel.storage.blocks import StoredMatrix
from forecaster.panel.storage.folder import (
    COVARIATES,
    FORMAT,
    LOCATIONS,
    VALUES,
    VINTAGES,
    StoredPanel,
    local_layer,
    matrix_files,
    open_stored,
)
from forecaster.panel.storage.growth import Growth, Incoming, differs
from forecaster.panel.storage.tables import locations_writer
from forecaster.panel.vintages import Vintages, vintages_writer
from forecaster.publish.manifest import Manifest, read_manifest
from forecaster.publish.writing import Draft, Writer, revise

SHOWN = 6  # first changed values
MIN_TIMES = 3  # from which their distance tells the step
_BESIDE = (LOCATIONS, VINTAGES, "recipe.toml")  # files that are no blocks
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Appended:
    """The counts of an append, as the new version records them."""

    steps: int = 0  # new ones
    values: int = 0  # observed at new steps
    completed: int = 0  # steps between the old data and the new, at which all is missing
    covariates: int = 0  # of covariates: values at new steps and ahead of them
    filled: int = 0  # values and covariates that were missing, at steps that the panel had
    revised: int = 0  # those that were others
    withdrawn: int = 0  # those that are missing from now on
    locations: tuple[str, ...] = ()  # new ones
    first_revised: tuple[str, ...] = ()  # the first that were revised or withdrawn, as text

    def __bool__(self) -> bool:
        """Whether the panel has changed."""
        return any(asdict(self).values())


def append_panel(
    folder: Path | str,
    new: Panel,
    *,
    revised: bool = False,
    withdrawn: Bool[np.ndarray, "T n"] | None = None,
    about: Mapping[str, Any] | None = None,
) -> tuple[Panel, Appended]:
    """Add new data to a saved panel as a new version; return the panel and the counts.

    The work and the bytes written are those of the new data, however long the panel is. If nothing
    is new, there is no new version, unless `about` says something new.

    Args:
        folder: of the panel.
        new: the new data. A missing value says nothing about a step that the panel has.
        revised: whether values that the panel has may change.
        withdrawn: which values are known to be missing from now on.
        about: what the manifest of the new version says of its source.
    """
    folder = Path(folder)
    _write_blocks(folder)
    counts: list[Appended] = []

    def change(manifest: Manifest) -> Draft:
        with refuse_inconsistent(folder):
            stored = open_stored(folder, manifest)
        addition = _Addition(stored, *_align(stored, new, withdrawn))
        appended = addition.count()
        counts.append(appended)
        if (appended.revised or appended.withdrawn) and not revised:
            raise DataError(_name_revisions(folder, appended))
        return addition.draft(appended, new.counts, about or {})

    revise(folder, change)
    return Panel.open(folder, verify=False), counts[-1]


def _write_blocks(folder: Path) -> None:
    """Write a panel of an earlier format anew, in blocks."""
    manifest = read_manifest(folder, kind="panel", reads=FORMAT)
    if manifest.version < FORMAT:
        log.info("%s: written anew in blocks of steps, as format %d", folder, FORMAT)
        parents = {**manifest.parents, "panel": manifest.digest}
        Panel.open(folder).save(folder, saved_recipe(folder), parents)


def _name_revisions(folder: Path, appended: Appended) -> str:
    count = count_of(appended.revised + appended.withdrawn, "value")
    first = name_some(appended.first_revised)
    remedy = "ask for revisions (--revise) if the new values are right, or leave these rows out"
    return f"{folder}: the new data differs from the panel at {count}: {first}; {remedy}"


# ------------------------------------------------------------------------------- alignment


def _align(
    stored: StoredPanel, new: Panel, withdrawn: Bool[np.ndarray, "T n"] | None
) -> tuple[int, Locations, Panel, Bool[np.ndarray, "T N"]]:
    """Return the first step of the new data, all locations, the data in their order, and a mask.

    The mask is of values that are known to be missing.
    """
    new = _like(stored, new)
    first = _check(stored, new)
    locations = _join(stored, new)
    column = {identity: n for n, identity in enumerate(locations.ids)}
    columns = [column[identity] for identity in new.locations.ids]
    T, N, S = len(new.values), len(locations), len(new.covariates.values)
    values = np.full((T, N), np.nan, dtype=np.float32)
    values[:, columns] = new.values
    missing = np.zeros((T, N), dtype=bool)
    if withdrawn is not None:
        missing[:, columns] = withdrawn & np.isnan(new.values)
    layers = np.full((len(stored.local_names), S, N), np.nan, dtype=np.float32)
    numbers = [stored.local_names.index(name) for name in new.local_covariates.names]
    layers[np.ix_(numbers, range(S), columns)] = new.local_covariates.values
    aligned = Panel(
        values=values,
        start=new.start,
        clock=stored.clock,
        kind=stored.kind,
        locations=locations,
        covariates=new.covariates,
        local_covariates=LocalCovariates(stored.local_names, layers),
    )
    if locations.has_hours:
        aligned = aligned.with_hours(locations.hours)
    return first, locations, aligned.within_lives(), missing


def _like(stored: StoredPanel, new: Panel) -> Panel:
    """Return the new data with censored values and past-only covariates as in the panel."""
    censored = stored.manifest.about["counts"].get("censored_by")
    if censored in new.local_covariates.names:
        new = new.censor(censored)
    names = (*new.covariates.names, *new.local_covariates.names)
    past_only = [name for name in stored.past_only if name in names]
    return new.with_past_only(past_only).without_unseen()


def _check(stored: StoredPanel, new: Panel) -> int:
    """Return the step at which the new data begins; data of another panel is refused."""
    faults, clock, M = Faults(f"new data for {stored.folder}"), stored.clock, stored.values.steps
    for noun, here, there in (
        ("the time zone", clock.zone, new.clock.zone),
        ("the kind of values", stored.kind, new.kind),
        ("the step", clock.step_text, _step_text(new)),
    ):
        if here != there:
            faults.add(
                f"{noun} is {there}, that of the panel {here}; give data of the same {noun[4:]}"
            )
    faults.raise_any(DataError)
    first = int(clock.step_index(stored.start, np.array([new.start]))[0])
    if clock.instants(stored.start, np.array([first]))[0] != new.start:
        faults.add(f"it begins at {new.start}Z, between two steps of the panel; round the times")
    if first < 0:
        count = count_of(min(-first, len(new.values)), "step")
        times = name_some(f"{time}Z" for time in new.times[:6])
        faults.add(
            f"{count} before the panel's first, {stored.start}Z: {times}; leave them out, or "
            "build the panel anew"
        )
    end = clock.instants(stored.start, np.array([M]))[0]
    if first > M + MAX_FUTURE // clock.step:
        faults.add(f"it begins at {new.start}Z, over 366 days after the panel's end, {end}Z")
    if not {*new.locations.ids} & {*stored.locations.ids}:
        ids = name_some(new.locations.ids), name_some(stored.locations.ids)
        faults.add(f"none of its locations ({ids[0]}) is in the panel ({ids[1]}): another city")
    _check_names(new.covariates.names, stored.covariate_names, "covariate", faults)
    _check_names(new.local_covariates.names, stored.local_names, "local covariate", faults)
    dated, issued = stored.vintage_names, new.covariates.vintages
    names = () if issued is None else issued.names
    if dated != names and {*dated, *names} & {*new.covariates.names}:
        faults.add(
            f"the panel's vintages are of {name_some(dated) or 'no covariate'}, those of the data "
            f"of {name_some(names) or 'none'}; give `known_at` with these covariates alone"
        )
    faults.raise_any(DataError)
    return first


def _check_names(
    names: tuple[str, ...], known: tuple[str, ...], noun: str, faults: Faults
) -> None:
    for name in names:
        if name not in known:
            has = name_some(known) if known else "none"
            faults.add(f"{name!r}: no such {noun}{nearest_name(name, known)}; the panel has {has}")


def _step_text(new: Panel) -> str:
    """Return the step of some data: that at which it has values, if this is longer."""
    observed = np.flatnonzero(np.isfinite(new.values).any(axis=1))
    every = math.gcd(*np.diff(observed).tolist()) if len(observed) >= MIN_TIMES else 1
    return new.clock.step_text if every <= 1 else f"{every} × {new.clock.step_text}"


def _join(stored: StoredPanel, new: Panel) -> Locations:
    """Return the panel's locations, and then the new ones.

    Without a date a new location opens on the day of its first value. It has the opening hours of
    the others, if these have the same.
    """
    known, shared = {*stored.locations.ids}, {*stored.locations.hours}
    columns = [n for n, identity in enumerate(new.locations.ids) if identity not in known]
    if not columns:
        return stored.locations
    joining = new.locations.take(columns)
    usual = shared.pop() if len(shared) == 1 else ""
    first = np.isfinite(new.values[:, columns]).argmax(axis=0)
    days = stored.clock.local(new.times[first]).astype("datetime64[D]").astype("datetime64[s]")
    opens = np.where(np.isnat(joining.opens), to_utc(stored.clock.zone, days).first, joining.opens)
    hours = tuple(text or usual for text in joining.hours)
    return stored.locations.join(replace(joining, opens=opens, hours=hours))


# -------------------------------------------------------------------------------- addition


@dataclass(frozen=True, eq=False)
class _Addition:
    """Aligned data, and the panel that it is added to."""

    stored: StoredPanel
    first: int  # the step of the panel at which the data begins
    locations: Locations  # from now on
    data: Panel  # of all locations
    missing: Bool[np.ndarray, "T N"]  # values that are known to be missing

    @property
    def past(self) -> int:
        """The number of steps with values so far."""
        return self.stored.values.steps

    @property
    def steps(self) -> int:
        """The number of steps with values from now on."""
        return max(self.past, self.first + len(self.data.values))

    @property
    def known_steps(self) -> int:
        """The number of steps with values or covariates from now on."""
        ends = self.steps, self.stored.known_steps, self.first + len(self.data.covariates.values)
        return max(ends)

    @cached_property
    def growths(self) -> dict[str, Growth]:
        """What becomes of each matrix."""
        stored, data = self.stored, self.data
        given = np.isfinite(data.values) | self.missing
        shared = _spread(data.covariates, stored.covariate_names)
        growths = {
            VALUES: self._growth(stored.values, data.values, given, self.steps),
            COVARIATES: self._growth(
                stored.covariates, shared, np.isfinite(shared), self.known_steps
            ),
        }
        layers = zip(stored.local_covariates, data.local_covariates.values, strict=True)
        for q, (matrix, layer) in enumerate(layers):
            growth = self._growth(matrix, layer, np.isfinite(layer), self.known_steps)
            growths[local_layer(q)] = growth
        return growths

    def _growth(
        self,
        matrix: StoredMatrix,
        values: Float32[np.ndarray, "T n"],
        given: Bool[np.ndarray, "T n"],
        end: int,
    ) -> Growth:
        stored, incoming = self.stored, Incoming(self.first, values, given)
        return Growth(stored.folder, stored.manifest, matrix, incoming, self.past, self.steps, end)

    def count(self) -> Appended:
        """Count what is new and what changes."""
        counts: Counter[str] = Counter()
        first_revised: list[str] = []
        for layer, growth in self.growths.items():
            before, after = growth.compare(0, self.past)
            changed, had, has = differs(before, after), ~np.isnan(before), ~np.isnan(after)
            counts["filled"] += int((changed & ~had).sum())
            counts["revised"] += int((changed & had & has).sum())
            counts["withdrawn"] += int((changed & ~has).sum())
            cells = np.argwhere(changed & had)[:SHOWN]
            first_revised += [self._name_cell(layer, before, after, cell) for cell in cells]
            before, after = growth.compare(self.past, self.known_steps)
            later = "values" if layer == VALUES else "covariates"
            counts[later] += int(differs(before, after).sum())
        return Appended(
            **counts,
            steps=self.steps - self.past,
            completed=len(self._hole()),
            locations=self.locations.ids[len(self.stored.locations) :],
            first_revised=tuple(first_revised[:SHOWN]),
        )

    def _name_cell(
        self,
        layer: str,
        before: Float32[np.ndarray, "U n"],
        after: Float32[np.ndarray, "U n"],
        cell: Int64[np.ndarray, " 2"],
    ) -> str:
        """Return the location, time and values of a changed cell as text."""
        step, column = cell.tolist()
        time = self.stored.clock.instants(self.stored.start, np.array([self.first + step]))[0]
        name = self._columns(layer)[column]
        if layer not in (VALUES, COVARIATES):
            name = f"{self.stored.local_names[_number(layer)]} of {name}"
        new = "missing" if np.isnan(after[step, column]) else f"{after[step, column]:g}"
        return f"{name} at {time}Z: {before[step, column]:g} → {new}"

    def _columns(self, layer: str) -> tuple[str, ...]:
        return self.stored.covariate_names if layer == COVARIATES else self.locations.ids

    def _hole(self) -> Int64[np.ndarray, " H"]:
        """The steps between the old data and the new at which any location is open."""
        steps = np.arange(self.past, max(self.first, self.past))
        clock = self.data.clock
        is_open = clock.is_open(clock.instants(self.stored.start, steps))
        return np.asarray(steps[is_open])

    def _count_gaps(self, ledger: Mapping[str, Any]) -> dict[str, Any]:
        """Return the gaps among the new steps: earlier ones are no gaps, the panel has them."""
        clock, start = self.stored.clock, self.stored.start
        absent = np.zeros(self.steps - self.past, dtype=bool)
        absent[: max(self.first - self.past, 0)] = True
        for time, length in ledger.get(GAPS, ()):
            first = clock.step_index(start, np.array([time[:-1]], dtype="datetime64[s]")).item()
            absent[max(first - self.past, 0) : max(first + length - self.past, 0)] = True
        times = clock.instants(start, self.past + np.arange(len(absent)))
        absent &= self.data.clock.is_open(times)
        return count_gaps(times, absent) if absent.any() or GAPS in ledger else {}

    def draft(
        self, appended: Appended, ledger: Mapping[str, Any], source: Mapping[str, Any]
    ) -> Draft:
        """Return the new version; without any change it is the current one."""
        manifest, clock, start = self.stored.manifest, self.stored.clock, self.stored.start
        if not appended:
            return _same(manifest, source)
        files: dict[str, Writer] = {}
        blocks, kept = {}, {n: f for n, f in manifest.files.items() if n in _BESIDE}
        for layer, growth in self.growths.items():
            grown, written = growth.blocks()
            blocks[layer] = grown.to_json()
            files |= matrix_files(written, self._columns(layer), clock, start, growth.content)
            names = {grown.file(block) for block in grown.blocks} - files.keys()
            kept |= {name: manifest.files[name] for name in names}
        about = {**manifest.about, **source, **self._about(appended, ledger), "blocks": blocks}
        if self.locations is not self.stored.locations:
            files[LOCATIONS] = locations_writer(self.locations)
        vintages = self._vintages()
        if vintages is not None:
            files[VINTAGES] = vintages_writer(vintages, clock, start)
            about["vintages"] = len(vintages.steps)
        return Draft(
            kind="panel",
            version=FORMAT,
            files=files,
            about=about,
            parents={"panel": manifest.digest},
            recipe=manifest.recipe,
            about_bytes=self.data.values.nbytes,
            kept={name: file for name, file in kept.items() if name not in files},
            keeps_versions=True,
        )

    def _about(self, appended: Appended, ledger: Mapping[str, Any]) -> dict[str, Any]:
        """Return what changes in the description of the panel."""
        counted = {**ledger, **self._count_gaps(ledger)}
        counts = add_counts(self.stored.manifest.about["counts"], counted)
        counts = add_counts(counts, self.data.counts)
        holidays = _extend(self.stored.clock, self.stored.start, self.steps)
        hours = self.locations.has_hours
        return {
            "steps": self.steps,
            "known_steps": self.known_steps,
            "locations": len(self.locations),
            "tzdata": tz_version(),
            "holidays": None if holidays is None else holidays.to_json(),
            "counts": counts,
            **({"hours": list(shared_hours(self.locations.hours))} if hours else {}),
            "appended": {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in asdict(appended).items()
            },
        }

    def _vintages(self) -> Vintages | None:
        """Return the vintages from now on; None if there are no new ones."""
        new = self.data.covariates.vintages
        if new is None:
            return None
        shifted = new.between(-self.first, None)
        old = self.stored.read_vintages()
        return shifted if old is None else old.add(shifted)


def _same(manifest: Manifest, source: Mapping[str, Any]) -> Draft:
    """Return the current version, or if more is known of its source, one of the same data."""
    about = {**manifest.about, **source}
    is_current = about == manifest.about
    parents = manifest.parents if is_current else {"panel": manifest.digest}
    return Draft(
        manifest.kind, manifest.version, {}, about, parents, manifest.recipe,
        kept=manifest.files, keeps_versions=not is_current,
    )  # fmt: skip


def _number(layer: str) -> int:
    return int(layer.rsplit("_", 1)[1])


def _spread(covariates: Covariates, names: tuple[str, ...]) -> Float32[np.ndarray, "S P"]:
    """Return covariates in the columns of a panel, missing in all others."""
    values = np.full((len(covariates.values), len(names)), np.nan, dtype=np.float32)
    values[:, [names.index(name) for name in covariates.names]] = covariates.values
    return values


def add_counts(counts: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ledger with the counts of new data added; texts and flags stay as they are."""
    total = dict(counts)
    for name, value in new.items():
        before = total.get(name)
        if isinstance(value, Mapping):
            total[name] = add_counts(before or {}, value)
        elif name == FOUND_COVERAGE:
            total[name] = _join_spans(*(before.split(", ") if before else ()), *value.split(", "))
        elif name == EMPTY_DAYS:
            total[name] = sorted({*(before or ()), *value})
        elif name not in total:
            total[name] = value
        elif isinstance(value, list) and all(isinstance(item, list) for item in value):
            total[name] = [*total[name], *value]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            total[name] += value
    return total


def _join_spans(*spans: str) -> str:
    """Return spans such as `2014-01-01 00:00 … 2014-01-31 23:00`, those that meet as one."""
    ends = sorted(tuple(np.array(span.split(" … "), "datetime64[m]")) for span in spans)
    joined = ends[:1]
    for first, last in ends[1:]:
        before = joined[-1]
        if first > before[1] + np.timedelta64(1, "h"):
            joined.append((first, last))
        else:
            joined[-1] = before[0], max(before[1], last)
    texts = (f"{first} … {last}".replace("T", " ") for first, last in joined)
    return ", ".join(texts)


def _extend(clock: Clock, start: np.datetime64, steps: int) -> Holidays | None:
    """Return the holidays of a panel through ten years after its last step."""
    holidays = clock.holidays
    if holidays is None:
        return None
    ends = clock.local(clock.instants(start, np.array([0, steps - 1])))
    first, last = (ends.astype("datetime64[Y]").astype(np.int64) + 1970).tolist()
    if last + YEARS_AHEAD <= holidays.last_year:
        return holidays
    later = expand_holidays(holidays.country, first, last)
    dates = [day for day in later.dates if int(day[:4]) > holidays.last_year]
    return replace(
        holidays,
        last_year=max(later.last_year, holidays.last_year),
        dates=(*holidays.dates, *dates),
    )
