"""Raw trips to hourly demand at the locations with high demand (section 3.1.1)."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float32, Int64

from forecaster.clock.zone import to_local, to_utc
from forecaster.config import PanelConfig, TripsConfig
from forecaster.databases.query import QueryScan
from forecaster.errors import ConfigError, DataError, count_of, name_some, setting
from forecaster.ingest.demand.engine import Engine, MalformedRows, Scan
from forecaster.ingest.demand.plan import (
    HOUR,
    BoundingBox,
    HourGrid,
    HourRules,
    classify,
    count_cells,
    count_cells_apart,
    count_hours,
    count_times,
    reason_of,
)
from forecaster.ingest.demand.row_counts import BELOW_MIN_DEMAND, RowCounts
from forecaster.ingest.demand.schemas import Schema, parse_columns, recognise
from forecaster.ingest.files import InputFile, InputQuery, TimeSpan, parse_span
from forecaster.ingest.hot_locations.cells import CELLS_PER_DEGREE, Cells
from forecaster.ingest.hot_locations.selection import (
    assign_cells,
    candidates_from_cells,
    select_hot,
)
from forecaster.panel.axis import EMPTY_DAYS, FOUND_COVERAGE, VALUES, SeriesTable
from forecaster.panel.hours import given_hours
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.panel.tables.assemble import make_clock
from forecaster.panel.tables.renames import Rename, apply_renames, inherit_opens, linked_ids

MIN_HOURS, CUT_SHARE = 21, 0.05  # to tell whether the data ends within an hour
MAX_EMPTY_DAYS = 366  # between events whose coverage is not said
METRES_PER_DEGREE = 111_195.0  # of latitude, on a sphere of 6,371 km
Say = Callable[[str], None]
_QUIET = -2  # in place of a location: below the minimum demand
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FoundCoverage:
    """What trips cover that do not say it: from the first event to the last."""

    span: TimeSpan  # local time
    empty_days: tuple[np.datetime64, ...]  # local days without any event: unknown, not zero

    def to_json(self) -> dict[str, Any]:
        """Return the coverage as the panel's manifest records it."""
        last = self.span.end - np.timedelta64(1, "h")
        return {
            FOUND_COVERAGE: " … ".join(
                str(time)[:16].replace("T", " ") for time in (self.span.first, last)
            ),
            EMPTY_DAYS: [str(day) for day in self.empty_days],
        }


@dataclass(frozen=True)
class TripIngest:
    """Input files, candidates, rules and engine of one ingestion."""

    inputs: Sequence[InputFile | InputQuery]
    candidates: Locations | None  # None: derived from the pickups
    panel: PanelConfig
    rules: TripsConfig
    engine: Engine
    renames: Sequence[Rename] = ()  # of locations, in the order of time
    places: Locations | None = None  # at which trips are counted; None: the candidates in demand
    learned: tuple[TimeSpan, ...] = ()  # the training hours, if the recipe says them
    found: FoundCoverage | None = None  # of inputs that do not say what they cover

    @contextmanager
    def scan(self, item: InputFile | InputQuery) -> Iterator[Scan]:
        """Open a file with the engine, or go on with an open query."""
        if isinstance(item, InputQuery):
            yield item.scan
            return
        with self.engine.scan(item) as scan:
            yield scan

    @property
    def mapped_schema(self) -> Schema | None:
        """The schema mapped by the user, if any."""
        return parse_columns(self.rules.columns) if self.rules.columns else None

    @property
    def zones(self) -> bool:
        """Whether positions are zone ids, by the option or the mapping."""
        return self.rules.zones or (
            self.mapped_schema is not None and not self.mapped_schema.has_coordinates
        )

    @property
    def demand_spans(self) -> tuple[TimeSpan, ...]:
        """Where rides count for the selection: as said, or in training; empty: everywhere."""
        said = self.rules.demand_hours
        return (parse_span(said),) if said else self.learned

    @property
    def grid(self) -> HourGrid:
        """The hours of the panel."""
        return HourGrid.of(self.panel.timezone, min(item.covered.first for item in self.inputs))


def ingest_trips(trips: TripIngest, say: Say = lambda _: None) -> Panel:
    """Return the panel of all trips, with the counts of accepted and rejected rows."""
    if trips.panel.step_minutes * 60 != HOUR:
        raise ConfigError("trips are counted by the hour; step_minutes must be 60")
    if trips.candidates is not None and not trips.zones and not trips.candidates.placed.all():
        unplaced = np.array(trips.candidates.ids)[~trips.candidates.placed]
        raise DataError(f"candidates without coordinates: {name_some(unplaced)}; give lat and lon")
    trips = _find_coverage(trips, say)
    row_counts = RowCounts()
    cells = _count_all_cells(trips, row_counts, say)
    places, lookup = _choose(trips, cells, row_counts)
    say(f"counting rides at {count_of(len(places), 'location')}")
    rides = _count_all_hours(trips, lookup, say)
    row_counts.counted = int(rides["rides"].sum())
    row_counts.check_balance()
    start, values = _place(trips, rides, len(places))
    steps = len(values)
    seconds = int(start.astype(np.int64)) + np.arange(steps) * HOUR
    ledger = row_counts.to_json() | ({} if trips.found is None else trips.found.to_json())
    rows = SeriesTable(seconds, False, places.ids, {VALUES: values}, ledger)
    rows = apply_renames(rows, trips.renames, "count")
    panel = Panel(
        values=np.asfortranarray(rows.layers[VALUES]),
        start=start,
        clock=make_clock(trips.panel, start, steps),
        kind="count",
        locations=_follow(trips, places, rows),
        covariates=Covariates.empty(steps),
        local_covariates=LocalCovariates.empty(steps, len(rows.ids)),
        counts=rows.counts,
    )
    hours = given_hours(panel.locations, trips.panel.hours)
    return (panel if hours is None else panel.with_hours(hours)).within_lives()


def _follow(trips: TripIngest, places: Locations, rows: SeriesTable) -> Locations:
    """Return the locations of the rows, whose ids and dates renames may have changed."""
    ids, candidates = rows.ids, trips.candidates
    before = trips.places or candidates or places
    described = inherit_opens(before, trips.renames, int(rows.seconds[-1]))
    if ids == places.ids and described is before:
        return places
    nowhere = [identity for identity in ids if identity not in described.ids]
    if candidates is not None and nowhere:
        count = count_of(len(nowhere), "new id")
        raise DataError(f"renames: {count} not among the candidates: {name_some(nowhere)}")
    if nowhere:
        return Locations.of_ids(ids)
    return described.take([described.ids.index(identity) for identity in ids])


# ------------------------------------------------------------------------ covered hours


def _find_coverage(trips: TripIngest, say: Say) -> TripIngest:
    """Return the ingestion with the hours that inputs cover which do not say it.

    They cover the hours from the first event to the last; a day without any event is unknown, and
    so is an hour at an end in which the inputs just begin or end.
    """
    silent = [item for item in trips.inputs if not item.covered.is_known]
    if not silent:
        return trips
    events = pd.concat([_events(trips, item, say) for item in silent])
    if events.empty:
        raise DataError(f"{silent[0].name}: no event has a time; give the columns that are meant")
    hours = events.groupby("hour").agg({"rows": "sum", "first": "min", "last": "max"})
    covers = setting("covers", "FROM:TO")
    times = _without_cut(hours, covers).index.to_numpy().astype("datetime64[s]")
    span = TimeSpan(times.min(), times.max() + np.timedelta64(1, "h"))
    days = np.unique(times.astype("datetime64[D]"))
    holes = np.diff(days).astype(np.int64) - 1
    if holes.max(initial=0) > MAX_EMPTY_DAYS:
        last = days[int(holes.argmax())]
        raise DataError(
            f"{silent[0].name}: no event in the {holes.max():,} days after {last}; check the "
            f"times, or give {covers}: the days for which the files are complete"
        )
    empty = np.setdiff1d(np.arange(days[0], days[-1]), days)
    coverage = FoundCoverage(span, tuple(empty))
    say(f"no {covers}: from the first event to the last, {coverage.to_json()[FOUND_COVERAGE]}")
    if len(empty):
        log.warning(
            "%s without any event, taken as missing and not as zero: %s; %s says that they "
            "were complete", count_of(len(empty), "day"), name_some(map(str, empty)), covers,
        )  # fmt: skip
    inputs = [replace(i, covered=i.covered if i.covered.is_known else span) for i in trips.inputs]
    return replace(trips, inputs=inputs, found=coverage)


def _events(trips: TripIngest, item: InputFile | InputQuery, say: Say) -> pd.DataFrame:
    """Return the local hours of an input with any event, each with the seconds of its events."""
    say(f"finding the days of events: {Path(item.name).name}")
    zone = trips.panel.timezone
    grid = HourGrid.of(zone, np.datetime64("2000-01-01", "s"))
    with trips.scan(item) as scan:
        schema = recognise(item.name, scan.table.columns, trips.zones, trips.mapped_schema)
        table = scan.run(count_times(scan.table, schema, scan.types, grid.phase))
    hours, rows = (table[name].cast(pa.int64()).to_numpy() for name in ("hour", "rows"))
    aware = table["aware"].cast(pa.bool_()).to_numpy()
    local = (hours * HOUR).astype("datetime64[s]")
    local[aware] = to_local(zone, grid.instants(hours[aware]))
    events = pd.DataFrame({"hour": local.astype("datetime64[h]").astype("datetime64[s]")})
    for name in ("first", "last"):
        moments, begin = table[name], hours * HOUR
        if pa.types.is_timestamp(moments.type):  # others are seconds, less the phase if UTC
            moments = moments.cast(pa.timestamp("us", moments.type.tz), safe=False)
            moments = moments.cast(pa.int64()).to_numpy() / 1e6
            begin = begin + np.where(aware, grid.phase, 0)
        events[name] = np.asarray(moments, dtype=np.float64) - begin
    return events.assign(rows=rows)


def _without_cut(hours: pd.DataFrame, covers: str) -> pd.DataFrame:
    """Return the hours without the first and the last one where the inputs begin or end in it.

    That is so where it begins or ends without events for longer than all but a twentieth of the
    hours with as few events, or of the quietest: of fewer than 21 hours none is taken out.
    """
    cut = []
    quiet = hours["rows"].nsmallest(MIN_HOURS).iloc[-1]
    for place, verb, silence in (
        (0, "begins", hours["first"]),
        (-1, "ends", HOUR - hours["last"]),
    ):
        alike = silence[hours["rows"] <= max(hours["rows"].iloc[place], quiet)]
        if (alike >= silence.iloc[place]).mean() < CUT_SHARE:
            cut.append(hours.index[place])
            log.warning(
                "%s left out: the data %s within this hour, %d minutes of which are without "
                "events; %s says that it is complete",
                str(cut[-1])[:16], verb, silence.iloc[place] // 60, covers,
            )  # fmt: skip
    return hours.drop(cut)


# ------------------------------------------------------------------- pass 1: rides per cell


def _count_all_cells(trips: TripIngest, row_counts: RowCounts, say: Say) -> dict[str, np.ndarray]:
    """Return a, b, rows and rides of every occupied cell, and count rejected rows."""
    parts = []
    for number, item in enumerate(trips.inputs, start=1):
        say(f"pass 1 of 2, file {number} of {len(trips.inputs)}: {Path(item.name).name}")
        with trips.scan(item) as scan:
            rows, malformed = _rows(trips, item, scan), MalformedRows()
            if isinstance(scan, QueryScan):
                tables = [scan.run(query) for query in count_cells_apart(rows)]
            else:
                tables, malformed = [scan.run(count_cells(rows))], scan.malformed()
        counts = pa.concat_tables(tables, promote_options="permissive")
        read = pa.compute.sum(counts["rows"]).as_py() or 0
        # A stray quote swallows lines up to the next one: lines that were not read are malformed.
        unread = max(malformed.rows, (item.lines or 0) - read)
        row_counts.rows_in += unread + read
        row_counts.reject("malformed", unread, malformed.examples)
        for row in counts.filter(pa.compute.field("code") != 0).to_pylist():
            texts = {text for text in (row["low"], row["high"]) if text}
            row_counts.reject(reason_of(row["code"]), row["rows"], tuple(texts))
        parts.append(counts.filter(pa.compute.field("code") == 0))
    if trips.panel.nonexistent == "refuse" and row_counts.rejected["nonexistent_local_time"]:
        count = count_of(row_counts.rejected["nonexistent_local_time"], "trip")
        message = f"{count} at local times that do not occur in {trips.panel.timezone}"
        shown = "; ".join(sorted(row_counts.examples["nonexistent_local_time"]))
        raise DataError(f'{message} ({shown}); set nonexistent = "null" or "next"')
    row_counts.check_faulty(trips.rules.max_reject)  # before the second pass
    cells = (
        pa.concat_tables(parts).group_by(["a", "b"]).aggregate([("rows", "sum"), ("rides", "sum")])
    )
    columns = {"a": "a", "b": "b", "rows": "rows_sum", "rides": "rides_sum"}
    return {k: cells[v].cast(pa.int64()).to_numpy() for k, v in columns.items()}


def _rows(trips: TripIngest, item: InputFile | InputQuery, scan: Scan) -> object:
    """Return the classified rows of one file, the same in both passes."""
    schema: Schema = recognise(item.name, scan.table.columns, trips.zones, trips.mapped_schema)
    hours = HourRules(
        grid=trips.grid,
        covered=item.covered,
        demand=trips.demand_spans,
        keep_ambiguous=trips.panel.ambiguous == "split",
        keep_nonexistent=trips.panel.nonexistent == "next",
    )
    area = _area(trips) if schema.has_coordinates else None
    return classify(scan.table, schema, scan.types, area, hours)


def _area(trips: TripIngest) -> BoundingBox:
    """Return the box of valid pickups: from the settings, or around the candidates."""
    if trips.rules.bbox is not None:
        south, west, north, east = trips.rules.bbox
        if not (south < north and west < east):
            raise ConfigError(f"bbox {trips.rules.bbox}: give south, west, north, east")
        return BoundingBox(south, west, north, east)
    if trips.candidates is None:
        message = "candidates from trips need a bbox, since many files contain points such as 0, 0"
        raise ConfigError(f"{message}; give --bbox south,west,north,east")
    lat, lon = trips.candidates.lat, trips.candidates.lon
    margin = trips.rules.max_distance_m / METRES_PER_DEGREE + 1 / CELLS_PER_DEGREE
    wider = margin / max(np.cos(np.radians(np.abs(lat).max())), 0.01)
    return BoundingBox(
        float(lat.min() - margin), float(lon.min() - wider),
        float(lat.max() + margin), float(lon.max() + wider),
    )  # fmt: skip


# ------------------------------------------------------------------- choice of locations


def _choose(
    trips: TripIngest, cells: dict[str, np.ndarray], row_counts: RowCounts
) -> tuple[Locations, pa.Table]:
    """Return the chosen locations and the table that gives each cell its location."""
    if trips.places is not None:
        places, location = trips.places, _assign(trips, trips.places, cells)
        return places, _to_lookup(trips, cells, location, row_counts)
    hours = _demand_hours(trips)
    if trips.zones:
        places, location = _choose_zones(trips, cells, hours)
    else:
        occupied = Cells(lat=cells["a"], lon=cells["b"], rides=cells["rides"])
        candidates = trips.candidates or candidates_from_cells(occupied)
        min_rides = trips.rules.min_demand * hours
        selection = select_hot(occupied, candidates, min_rides, trips.rules.max_distance_m)
        places, location = candidates.take(selection.chosen.tolist()), selection.location_of_cell
    return places, _to_lookup(trips, cells, location, row_counts)


def _to_lookup(
    trips: TripIngest,
    cells: dict[str, np.ndarray],
    location: Int64[np.ndarray, " C"],
    row_counts: RowCounts,
) -> pa.Table:
    """Return the table that gives each cell its location, and count the rows of the others."""
    outside, quiet = location < 0, location == _QUIET
    reason = "out_of_area" if trips.zones else "too_far"
    elsewhere = outside & ~quiet
    examples = _busiest(trips, cells, elsewhere)
    row_counts.reject(reason, int(cells["rows"][elsewhere].sum()), examples)
    if quiet.any():
        examples = _busiest(trips, cells, quiet)
        row_counts.reject(BELOW_MIN_DEMAND, int(cells["rows"][quiet].sum()), examples)
    columns = {"a": cells["a"], "b": cells["b"], "location": location}
    return pa.table({name: column[~outside] for name, column in columns.items()})


def _assign(
    trips: TripIngest, places: Locations, cells: dict[str, np.ndarray]
) -> Int64[np.ndarray, " C"]:
    """Return the location of each cell or zone, −1 where there is none."""
    if trips.zones:
        column = {identity: n for n, identity in enumerate(places.ids)}
        zones = cells["a"].tolist()
        location = np.array([column.get(str(zone), -1) for zone in zones], dtype=np.int64)
        if (location < 0).all():
            raise DataError(
                f"none of the zones {name_some(map(str, zones))} is in the panel "
                f"({name_some(places.ids)}): another city"
            )
        return location
    occupied = Cells(lat=cells["a"], lon=cells["b"], rides=cells["rides"])
    candidates = trips.candidates or candidates_from_cells(occupied)
    location = assign_cells(occupied, candidates, places, trips.rules.max_distance_m)
    if (location < 0).all():
        raise DataError(
            f"no trip is within {trips.rules.max_distance_m:g} m of a candidate: another city"
        )
    return location


def _busiest(
    trips: TripIngest, cells: dict[str, np.ndarray], outside: np.ndarray
) -> tuple[str, ...]:
    """Return the busiest cell or zone without a location, as an example."""
    if not outside.any():
        return ()
    where = np.flatnonzero(outside)
    busiest = where[np.lexsort((cells["b"][where], cells["a"][where], -cells["rows"][where]))[0]]
    rides = count_of(int(cells["rows"][busiest]), "ride")
    if trips.zones:
        return (f"zone {cells['a'][busiest]}: {rides}",)
    lat, lon = (cells[name][busiest] / CELLS_PER_DEGREE for name in "ab")
    return (f"{lat:.4f}, {lon:.4f}: {rides}",)


def _choose_zones(
    trips: TripIngest, cells: dict[str, np.ndarray], hours: int
) -> tuple[Locations, Int64[np.ndarray, " C"]]:
    """Return the zones with enough demand; others are too quiet, or out of the area."""
    candidates = trips.candidates
    ids = [str(zone) for zone in cells["a"].tolist()]
    _, group = np.unique(linked_ids(ids, trips.renames), return_inverse=True)
    rides = np.bincount(group, weights=cells["rides"])[group]  # of a place under all its ids
    is_candidate = np.ones(len(ids), bool) if candidates is None else np.isin(ids, candidates.ids)
    enough = (rides >= trips.rules.min_demand * hours) & is_candidate
    if candidates is not None and not is_candidate.any():
        message = f"none of the zones {name_some(ids)} is among the candidates"
        raise DataError(
            f"{message} {name_some(candidates.ids)}; map their id with --candidate-columns"
        )
    if not enough.any():
        largest = cells["rides"].max(initial=0) / max(hours, 1)
        raise DataError(
            f"no zone has {trips.rules.min_demand:g} rides per hour; the most is {largest:g}"
        )
    order = np.argsort(np.where(enough, cells["a"], np.iinfo(np.int64).max), kind="stable")
    selected = order[: int(enough.sum())]
    location = np.where(is_candidate, _QUIET, -1).astype(np.int64)
    location[selected] = np.arange(len(selected))
    chosen = [ids[n] for n in selected]
    if candidates is None:
        return Locations.of_ids(chosen), location
    return candidates.take([candidates.ids.index(identity) for identity in chosen]), location


def _demand_hours(trips: TripIngest) -> int:
    """Return the number of covered hours over which the mean demand is taken."""
    covered, spans = _covered_hours(trips), trips.demand_spans
    if not spans:
        return len(covered)
    hours = np.concatenate([np.arange(*trips.grid.span(span)) for span in spans])
    count = int(np.isin(covered, hours).sum())
    if not count:
        said = trips.rules.demand_hours or "of training"
        raise ConfigError(f"demand hours {said}: no file covers any of them")
    return count


# ------------------------------------------------------- pass 2: rides per location and hour


def _count_all_hours(trips: TripIngest, lookup: pa.Table, say: Say) -> dict[str, np.ndarray]:
    """Return location, hour, aware and rides of all files."""
    parts = []
    for number, item in enumerate(trips.inputs, start=1):
        say(f"pass 2 of 2, file {number} of {len(trips.inputs)}: {Path(item.name).name}")
        with trips.scan(item) as scan:
            parts.append(scan.run(count_hours(_rows(trips, item, scan), lookup)))
    table = pa.concat_tables(parts)
    types = {"location": pa.int64(), "hour": pa.int64(), "aware": pa.bool_(), "rides": pa.int64()}
    return {k: table[k].cast(v).to_numpy() for k, v in types.items()}


def _place(
    trips: TripIngest, rides: dict[str, np.ndarray], places: int
) -> tuple[np.datetime64, Float32[np.ndarray, "M N"]]:
    """Return demand on the UTC axis: zero in covered hours without rides, else missing."""
    covered = _covered_hours(trips)
    first, steps = int(covered[0]), int(covered[-1] - covered[0]) + 1
    counts = np.zeros((steps, places), dtype=np.int64)
    early, late, twice = _instants(trips, rides)
    later = np.where(twice, rides["rides"] // 2, 0)  # odd counts: the first hour has one more
    np.add.at(counts, (early - first, rides["location"]), rides["rides"] - later)
    np.add.at(counts, (late[twice] - first, rides["location"][twice]), later[twice])
    values = np.full((places, steps), np.nan, dtype=np.float32).T
    rows = covered - first
    values[rows] = counts[rows]
    if trips.panel.ambiguous == "null" and not rides["aware"].all():
        values[_doubled_hours(trips, covered) - first] = np.nan
    return trips.grid.instants(np.array([first]))[0], values


def _instants(
    trips: TripIngest, rides: dict[str, np.ndarray]
) -> tuple[Int64[np.ndarray, " R"], Int64[np.ndarray, " R"], np.ndarray]:
    """Return the UTC hour of each count, the second one of a repeated local hour, and a mask."""
    local = (rides["hour"] * HOUR).astype("datetime64[s]")
    meant = to_utc(trips.panel.timezone, local)
    first, second = (trips.grid.hours(instants) for instants in (meant.first, meant.second))
    aware = rides["aware"]
    early, late = np.where(aware, rides["hour"], first), np.where(aware, rides["hour"], second)
    return early, late, meant.ambiguous & ~aware


def _covered_hours(trips: TripIngest) -> Int64[np.ndarray, " H"]:
    """Return the distinct UTC hours that the files cover."""
    coverage, zone = trips.found, trips.panel.timezone
    said = {item.covered for item in trips.inputs} - ({coverage.span} if coverage else set())
    hours = [np.arange(*trips.grid.span(span)) for span in said]
    if coverage is not None:
        inside = np.arange(*trips.grid.span(coverage.span))
        days = to_local(zone, trips.grid.instants(inside)).astype("datetime64[D]")
        hours.append(inside[~np.isin(days, np.array(coverage.empty_days, dtype="datetime64[D]"))])
    return np.unique(np.concatenate(hours))


def _doubled_hours(trips: TripIngest, covered: Int64[np.ndarray, " H"]) -> Int64[np.ndarray, " K"]:
    """Return the covered UTC hours whose local time occurs twice."""
    zone = trips.panel.timezone
    doubled = to_utc(zone, to_local(zone, trips.grid.instants(covered))).ambiguous
    return np.asarray(covered[doubled])
