"""A recipe and its files → a panel: trips or a table, then weather."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from forecaster.choices import EngineName
from forecaster.clock.zone import to_local
from forecaster.databases.connection import is_database
from forecaster.databases.query import Query
from forecaster.errors import ConfigError, DataError
from forecaster.ingest.demand.engine import open_engine
from forecaster.ingest.demand.schemas import possible_columns
from forecaster.ingest.demand.trips import TripIngest, ingest_trips
from forecaster.ingest.files import (
    UNKNOWN,
    InputFile,
    InputQuery,
    TimeSpan,
    open_inputs,
    parse_span,
    verify_file,
)
from forecaster.ingest.hot_locations.candidates import read_candidates
from forecaster.ingest.station import parse_mapping
from forecaster.ingest.tables import ingest_table
from forecaster.ingest.weather import WEATHER_NAMES, add_weather
from forecaster.panel.axis import clock_of
from forecaster.panel.empty_ends import describe_empty_ends
from forecaster.panel.panel import HOURS_FOUND, Panel, describe_hours
from forecaster.panel.tables.renames import read_renames
from forecaster.panel.tables.table_rows import needed_columns
from forecaster.publish.manifest import Progress
from forecaster.recipe import Recipe
from forecaster.remote import RemoteFile, is_remote
from forecaster.splits import Splits

Say = Callable[[str], None]
log = logging.getLogger(__name__)
CHOSEN_BY_ALL_HOURS = (
    "locations are chosen by their mean over all hours, test hours too; demand_hours "
    "(--demand-hours FROM:TO) or ranges in [splits] take those of training alone"
)


@dataclass(frozen=True)
class Sources:
    """The input files of a recipe."""

    values: Sequence[Path | Query | RemoteFile | pa.Table]  # trips, or the files of a table
    places: Path | None = None  # candidates, or locations
    weather: Path | None = None
    renames: Path | None = None  # table `old,new,from`
    covariates: Path | None = None  # shared by all locations

    @property
    def tables(self) -> tuple[Path, ...]:
        """The files beside the values."""
        beside = (self.places, self.weather, self.renames, self.covariates)
        return tuple(path for path in beside if path is not None)

    @property
    def files(self) -> list[Path]:
        """The values that lie in files."""
        return [source for source in self.values if isinstance(source, Path)]

    def read(self) -> list[Path | pa.Table]:
        """Return the values as files, or as the tables that queries give."""
        values = (s.read() if isinstance(s, Query) else s for s in self.values)
        return [s.fetch() if isinstance(s, RemoteFile) else s for s in values]

    def fetched(self, columns: Sequence[str] | None) -> "Sources":
        """Return the sources with remote files as files here.

        Args:
            columns: of the values that are needed; None: all.
        """
        values = [s.fetch(columns) if isinstance(s, RemoteFile) else s for s in self.values]
        beside = {
            name: RemoteFile.parse(path).fetch()
            for name in ("places", "weather", "renames", "covariates")
            if is_remote(path := getattr(self, name))
        }
        return replace(self, values=values, **beside)


def find_sources(recipe: Recipe, data: Path) -> Sources:
    """Return the files of a recipe in the data folder; patterns are expanded."""
    if recipe.trips is not None:
        names, places = recipe.trips.files, recipe.trips.candidates
    elif recipe.table is not None:
        names, places = recipe.table.files or (recipe.table.file,), recipe.table.locations
    else:
        raise ConfigError("the recipe has neither [trips] nor [table]; nothing to ingest")
    weather = recipe.weather.file if recipe.weather is not None else None
    covariates = recipe.table.covariates if recipe.table is not None else None
    beside = (places, weather, recipe.panel.renames, covariates)
    optional = [name for name in beside if name is not None]
    paths = [(Path(name) if is_remote(name) else data / name) if name else None for name in beside]
    if query := recipe_query(recipe):
        _refuse_missing(data, optional)
        return Sources([query], *paths)
    if not names or any(not name or Path(name).is_absolute() for name in (*names, *optional)):
        listed = ", ".join(map(repr, (*names, *optional))) or "none"
        raise ConfigError(f"files of the recipe: {listed}; give names relative to the data folder")
    remote_files = [RemoteFile.parse(name) for name in names if is_remote(name)]
    matches = {name: _expand(data, name) for name in names if not is_remote(name)}
    _refuse_missing(data, optional, [name for name, found in matches.items() if not found])
    files = [path for found in matches.values() for path in found]
    return Sources([*remote_files, *files], *paths)


def recipe_query(recipe: Recipe) -> Query | None:
    """Return the query of a recipe whose values lie in a database."""
    if recipe.table is not None and is_database(recipe.table.file):
        return Query.parse(recipe.table.file, recipe.table.query)
    if recipe.trips is None or not any(map(is_database, recipe.trips.files)):
        return None
    if len(recipe.trips.files) > 1:
        raise ConfigError(
            f"{len(recipe.trips.files)} sources of trips; a database is a single one"
        )
    return Query.parse(recipe.trips.files[0], recipe.trips.query)


def _refuse_missing(data: Path, optional: Sequence[str], missing: Sequence[str] = ()) -> None:
    local_names = (name for name in optional if not is_remote(name))
    absent = [*missing, *(name for name in local_names if not (data / name).is_file())]
    if absent:
        raise DataError(
            f"{data}: no {', '.join(absent)}; give the folder with --data or FORECASTER_DATA"
        )


def _expand(data: Path, name: str) -> list[Path]:
    """Return the file of that name, or else those that match it as a pattern."""
    if (data / name).is_file():
        return [data / name]
    return sorted(path for path in data.glob(name) if path.is_file())


def _chooses_by_all_hours(recipe: Recipe) -> bool:
    """Whether busy locations are chosen by test hours too."""
    rules = recipe.trips or recipe.table
    names_hours = rules is not None and (rules.demand_hours or recipe.splits.train)
    return rules is not None and bool(rules.min_demand) and not names_hours


def _training_spans(recipe: Recipe) -> tuple[TimeSpan, ...]:
    """The local times of the training ranges of a recipe; empty if it has none."""
    config, zone = recipe.splits, recipe.panel.timezone
    if not config.train:
        return ()
    splits = Splits(config.train, config.validation, config.test)
    instants = splits.instants("train", clock_of(recipe.panel))
    return tuple(TimeSpan(*to_local(zone, np.array(ends))) for ends in instants)


def build_panel(
    recipe: Recipe,
    sources: Sources,
    engine: EngineName = "duckdb",
    say: Say = lambda _: None,
    progress: Progress | None = None,
) -> Panel:
    """Return the panel that a recipe describes."""
    sources = sources.fetched(_needed_columns(recipe))
    for path in (*(() if recipe.trips else sources.files), *sources.tables):
        _verify_table(path)
    zone = recipe.panel.timezone
    if _chooses_by_all_hours(recipe):
        say(CHOSEN_BY_ALL_HOURS)
    if recipe.trips is not None:
        rules, columns = recipe.trips, recipe.trips.candidate_columns
        places = read_candidates(sources.places, columns, zone) if sources.places else None
        renames = read_renames(sources.renames, zone) if sources.renames else ()
        with _open_trips(sources, rules.covers, progress) as inputs:
            trips = TripIngest(
                inputs, places, recipe.panel, rules, open_engine(engine), renames,
                learned=_training_spans(recipe),
            )  # fmt: skip
            panel = ingest_trips(trips, say)
        for text in describe_empty_ends(panel):
            log.warning(text)
    elif recipe.table is not None:
        columns, extra = recipe.table.location_columns, recipe.table.static
        places = read_candidates(sources.places, columns, zone, extra) if sources.places else None
        beside = tuple(n for n in recipe.panel.past_only if n not in _coming_with_weather(recipe))
        config = recipe.panel.model_copy(update={"past_only": beside})
        panel, rows = ingest_table(
            sources.read(), config, recipe.table, places, sources.renames, sources.covariates,
            learned=_training_spans(recipe),
        )  # fmt: skip
        say(f"read as {rows}")
        if panel.counts.get(HOURS_FOUND):
            remedy = "panel.hours (--hours) gives others, or always: the gaps are missing values"
            say(f"opening hours found: {describe_hours(panel)}; {remedy}")
    else:
        raise ConfigError("the recipe has neither [trips] nor [table]; nothing to ingest")
    if recipe.weather is not None and sources.weather is not None:
        return join_weather(panel, recipe, sources.weather)[0]
    return panel.with_past_only(_past_only(recipe))


def count_trips(
    panel: Panel,
    recipe: Recipe,
    sources: Sources,
    engine: EngineName,
    say: Say,
    progress: Progress | None,
) -> Panel:
    """Return new trips of a saved panel, counted at its locations.

    Args:
        panel: whose locations they are counted at; none is selected anew.
        recipe: of the trips.
        sources: the trips, and the candidates that the panel's locations were selected from.
        engine: that reads them.
        say: is told what is read.
        progress: of the files.
    """
    rules, zone = recipe.trips, recipe.panel.timezone
    if rules is None:
        raise ConfigError("the recipe has no [trips]; nothing to count")
    candidates = None
    if sources.places is not None:
        candidates = read_candidates(sources.places, rules.candidate_columns, zone)
    elif rules.candidates is not None and not rules.zones:
        raise ConfigError(
            f"trips near any candidate count at the nearest location; give the candidates again: "
            f"--locations {rules.candidates}"
        )
    with _open_trips(sources, rules.covers, progress) as inputs:
        trips = TripIngest(
            inputs, candidates, recipe.panel, rules, open_engine(engine), places=panel.locations
        )
        return ingest_trips(trips, say)


def _needed_columns(recipe: Recipe) -> Sequence[str] | None:
    """The columns that are read of trips, or of a long table; None: all."""
    if recipe.trips is not None:
        return possible_columns(recipe.trips.columns)
    if recipe.table is None:
        return None
    further = (*recipe.panel.past_only, *recipe.table.known_ahead, recipe.panel.censored or "")
    return needed_columns(recipe.table.columns, further)


def _past_only(recipe: Recipe) -> tuple[str, ...]:
    """The names of all past-only covariates; what never changes is carried ahead as one."""
    static = () if recipe.table is None else recipe.table.static
    return (*recipe.panel.past_only, *static)


def _verify_table(path: Path) -> None:
    """Refuse a Parquet file that is cut short; of text files the reader tells."""
    if path.suffix == ".parquet":
        verify_file(path)


@contextmanager
def _open_trips(
    sources: Sources, covers: str | None, progress: Progress | None
) -> Iterator[Sequence[InputFile | InputQuery]]:
    """Check the files of trips, or open their query."""
    query = sources.values[0] if sources.values else None
    if not isinstance(query, Query):
        yield open_inputs(sources.files, covers, progress)
        return
    with query.scan() as scan:
        yield [InputQuery(scan, parse_span(covers) if covers else UNKNOWN)]


def _coming_with_weather(recipe: Recipe) -> tuple[str, ...]:
    """The names of covariates that a station gives, if the recipe has one."""
    return () if recipe.weather is None else WEATHER_NAMES


def join_weather(panel: Panel, recipe: Recipe, path: Path) -> tuple[Panel, Any]:
    """Return the panel with the weather of a file, and the counts of the file's rows."""
    rules = recipe.weather
    if rules is None:
        raise ConfigError("the recipe has no [weather]")
    _verify_table(path)
    mapping = parse_mapping(rules.columns)
    joined, report = add_weather(
        panel, path, mapping, timezone=rules.timezone, max_gap=rules.max_gap
    )
    marked = joined.with_past_only(_past_only(recipe))
    return (joined if marked is joined else marked.without_unseen()), report
