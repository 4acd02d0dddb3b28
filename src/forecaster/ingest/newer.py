"""New files for a saved panel, read as those that it was made of (`read_newer`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float32

from forecaster.choices import EngineName
from forecaster.clock.hours import ALWAYS
from forecaster.config import TableConfig
from forecaster.errors import ConfigError, DataError, count_of, name_some
from forecaster.ingest.build import Say, Sources, count_trips
from forecaster.ingest.hot_locations.candidates import read_candidates
from forecaster.ingest.station import parse_mapping, read_reports
from forecaster.ingest.tables import ingest_table, with_static
from forecaster.ingest.weather import add_weather
from forecaster.panel.append import add_counts
from forecaster.panel.axis import VALUES, SeriesTable
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.panel.storage.folder import step_fields
from forecaster.panel.tables.assemble import SideTables
from forecaster.panel.tables.table_rows import read_shared
from forecaster.publish.manifest import Progress
from forecaster.recipe import Recipe, change, check_stage

HOUR = np.timedelta64(3600, "s")


def newer_recipe(
    panel: Panel, saved: Recipe | None, settings: Mapping[str, Mapping[str, Any]] | None = None
) -> Recipe:
    """Return the recipe by which new files of a panel are read: as those before.

    Args:
        panel: whose time zone, step, kind and covariates the files have.
        saved: the recipe that it was made by, if any.
        settings: what is other, by section of the recipe.
    """
    clock, local = panel.clock, panel.local_covariates
    static = () if saved is None or saved.table is None else saved.table.static
    beside = [name for name in local.names if name not in static]
    base = saved or check_stage(Recipe, {"table": {}}, source="the panel")
    reading: dict[str, Any] = {
        "panel": {
            "timezone": clock.zone, **step_fields(clock), "kind": panel.kind,
            "gaps": "zero" if saved is not None and saved.panel.gaps == "zero" else "null",
            "hours": ALWAYS, "censored": None, "country": None, "renames": None,
            "past_only": [name for name in beside if name in local.past_only],
        },
    }  # fmt: skip
    if base.trips is None:
        known_ahead = [name for name in beside if name not in local.past_only]
        reading["table"] = {"known_ahead": known_ahead, "covariates": None}
    else:
        reading["trips"] = {"covers": None, "min_demand": 0.0, "demand_hours": None}
    return change(base, reading, settings or {}, source="the recipe of the panel")


def read_newer(
    panel: Panel,
    recipe: Recipe,
    sources: Sources,
    engine: EngineName = "duckdb",
    say: Say = lambda _: None,
    progress: Progress | None = None,
) -> Panel:
    """Return the data of new files as a panel that `append_panel` takes.

    Args:
        panel: the saved one, of which only the description is read.
        recipe: of the files (`newer_recipe`).
        sources: values, covariates and weather; of each there may be none. `places` describes new
            locations, or lists the candidates that trips are near to.
        engine: that reads trips.
        say: is told what is read.
        progress: of the files of trips.
    """
    values = covariates = weather = None
    if sources.values and recipe.trips is not None:
        values = count_trips(panel, recipe, sources, engine, say, progress)
    elif sources.values:
        values = _read_table(panel, recipe, sources, say)
    if sources.covariates is not None:
        covariates = _read_covariates(panel, recipe, sources)
    if sources.weather is not None:
        say(f"reading {sources.weather.name}")
        weather = _read_weather(panel, recipe, sources)
    return _Parts(panel, values, [part for part in (covariates, weather) if part]).joined()


# ---------------------------------------------------------------------------------- tables


def _read_table(panel: Panel, recipe: Recipe, sources: Sources, say: Say) -> Panel:
    """Return the values of tables at the locations that the panel takes."""
    rules = recipe.table or TableConfig()
    plain = rules.model_copy(update={"static": (), "min_demand": None, "demand_hours": None})
    newer, rows = ingest_table(sources.read(), recipe.panel, plain, None, sources.renames)
    say(f"read as {rows}")
    places = _described(recipe, rules, sources)
    locations = panel.locations if places is None else _join_new(panel.locations, places)
    column = {identity: n for n, identity in enumerate(locations.ids)}
    ids = newer.locations.ids
    if rules.min_demand is not None and not column.keys().isdisjoint(ids):  # others were left out
        newer = newer.select(tuple(i for i in ids if i in column))
    elif places is not None and (unknown := [i for i in ids if i not in column]):
        raise DataError(
            f"{count_of(len(unknown), 'location')} of the values neither in the panel nor in "
            f"--locations: {name_some(unknown)}; add them there, or leave their rows out"
        )
    if column.keys() >= {*newer.locations.ids}:
        described = locations.take([column[i] for i in newer.locations.ids])
        newer = replace(newer, locations=described, digest=None)
    return with_static(newer, rules.static)


def _described(recipe: Recipe, rules: TableConfig, sources: Sources) -> Locations | None:
    """Return the locations of the table beside the values."""
    if sources.places is None:
        return None
    zone = recipe.panel.timezone
    return read_candidates(sources.places, rules.location_columns, zone, rules.static)


def _join_new(locations: Locations, places: Locations) -> Locations:
    """Return the known locations and then those that are new, with their further columns."""
    new = places.take([n for n, i in enumerate(places.ids) if i not in {*locations.ids}])
    joined = locations.join(new)
    extra = {
        name: (*column[: len(locations)], *new.extra.get(name, (None,) * len(new)))
        for name, column in joined.extra.items()
    }
    return replace(joined, extra=extra)


# ------------------------------------------------------------------------------- covariates


@dataclass(frozen=True, eq=False)
class _Ahead:
    """Covariates of all locations from a step of the panel on, and their counts."""

    first: int
    covariates: Covariates
    counts: Mapping[str, Any]

    @property
    def end(self) -> int:
        """The step after the last."""
        return self.first + len(self.covariates.values)


def _read_covariates(panel: Panel, recipe: Recipe, sources: Sources) -> _Ahead:
    """Return a table of covariates, with when each was known if it says so."""
    rules, path = recipe.table or TableConfig(), sources.covariates
    if path is None:
        raise ConfigError("no table of covariates")
    shared = read_shared(path, rules)
    M, config = panel.shape[0], recipe.panel.model_copy(update={"past_only": ()})
    seconds = panel.times.astype(np.int64)
    nothing = {VALUES: np.full((M, 1), np.nan, dtype=np.float32)}
    rows = SeriesTable(seconds, False, panel.locations.ids[:1], nothing)
    read = Panel.from_series(rows, config, SideTables(covariates=shared)).covariates
    if np.isnan(read.values).all():
        raise DataError(f"{path}: no value at or after the panel's first step, {panel.start}Z")
    return _Ahead(0, read, {})


def _read_weather(panel: Panel, recipe: Recipe, sources: Sources) -> _Ahead:
    """Return the weather of the steps that the reports of a station cover."""
    rules, path = recipe.weather, sources.weather
    if rules is None or path is None:
        raise ConfigError(
            "the panel has no weather of a station; `forecaster ingest weather` adds it first"
        )
    mapping = parse_mapping(rules.columns)
    reports = read_reports(path, mapping, rules.timezone)
    if not len(reports.seconds):
        raise DataError(f"{path}: no report at an unambiguous time")
    hours = reports.seconds[[reports.seconds.argmin(), reports.seconds.argmax()]] // 3600 * 3600
    begin, end = hours.astype("datetime64[s]") + np.array([0 * HOUR, HOUR])
    first, stop = panel.step_index(np.array([begin, end])).tolist()
    first = max(first + int(panel.instant(first) < begin), 0)
    stop -= int(panel.instant(stop) > end)
    if stop <= first:
        raise DataError(f"{path}: covers no whole step of {panel.clock.step_text} of the panel")
    joined, report = add_weather(
        _without_values(panel, first, stop), path, mapping, timezone=rules.timezone,
        max_gap=rules.max_gap,
    )  # fmt: skip
    return _Ahead(first, joined.covariates, report.counts())


def _without_values(panel: Panel, first: int, end: int) -> Panel:
    """Return steps of the panel's axis with a location that has no value."""
    return Panel(
        values=np.full((end - first, 1), np.nan, dtype=np.float32),
        start=panel.instant(first),
        clock=panel.clock,
        kind=panel.kind,
        locations=panel.locations.take([0]),
        covariates=Covariates.empty(end - first),
        local_covariates=LocalCovariates.empty(end - first, 1),
    )


# ------------------------------------------------------------------------------- the whole


@dataclass(frozen=True, eq=False)
class _Parts:
    """What was read: values, covariates, weather."""

    panel: Panel  # the saved one
    values: Panel | None
    ahead: Sequence[_Ahead]

    def joined(self) -> Panel:
        """Return one panel of all parts, on the steps that any of them changes."""
        if not self.ahead:
            if self.values is None:
                raise ConfigError("nothing to append; give tables, trips or --store STORE")
            return self.values
        shared = self._shared()
        last = self.panel.shape[0] - 1
        base = self.values or _without_values(self.panel, last, last + 1)
        at = int(self.panel.step_index(np.array([base.start]))[0])
        first = min(at, self._first_change(shared))
        end = max(at + len(base.covariates.values), len(shared.values))
        names = (*base.covariates.names, *shared.names)
        vintages = shared.vintages and shared.vintages.between(first, end)
        values = np.full((end - first, len(names)), np.nan, dtype=np.float32)
        values[: len(shared.values) - first, len(base.covariates.names) :] = shared.values[first:]
        local = base.local_covariates
        layers = np.full((len(local.names), end - first, len(base.locations)), np.nan, np.float32)
        layers[:, at - first : at - first + local.values.shape[1]] = local.values
        return replace(
            base,
            values=_pad_front(base.values, at - first),
            start=self.panel.instant(first),
            covariates=Covariates(names, values, vintages=vintages),
            local_covariates=replace(local, values=layers),
            counts=self._counts(base),
            digest=None,
        )

    def _shared(self) -> Covariates:
        """Return all covariates from the panel's first step on."""
        end = max(part.end for part in self.ahead)
        names: tuple[str, ...] = ()
        columns, vintages = [], None
        for part in self.ahead:
            given = part.covariates
            if doubled := [name for name in given.names if name in names]:
                raise DataError(
                    f"{name_some(doubled)}: both in the covariates and in the weather; leave "
                    "one out"
                )
            names = (*names, *given.names)
            padded = np.full((end, len(given.names)), np.nan, dtype=np.float32)
            padded[part.first : part.end] = given.values
            columns.append(padded)
            vintages = vintages or given.vintages
        return Covariates(names, np.concatenate(columns, axis=1), vintages=vintages)

    def _first_change(self, shared: Covariates) -> int:
        """Return the first step at which a covariate is other than in the panel."""
        stored, last = self.panel.covariates, self.panel.shape[0] - 1
        shared_names = [name for name in shared.names if name in stored.names]
        if len(shared_names) < len(shared.names):
            return last  # refused later, by name
        before = stored.values[:, [stored.names.index(name) for name in shared_names]]
        steps = min(len(before), len(shared.values), last)
        is_given = np.isfinite(shared.values[:steps])
        apart = (is_given & (shared.values[:steps] != before[:steps])).any(axis=1)
        return int(np.argmax(apart)) if apart.any() else last

    def _counts(self, base: Panel) -> Mapping[str, Any]:
        counts = dict(base.counts)
        for part in self.ahead:
            counts = add_counts(counts, part.counts)
        return counts


def _pad_front(values: Float32[np.ndarray, "T n"], steps: int) -> Float32[np.ndarray, "U n"]:
    return np.pad(values, ((steps, 0), (0, 0)), constant_values=np.nan)
