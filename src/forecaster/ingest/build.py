"""A recipe and its files → a panel: trips or a table, then weather."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecaster.config import Recipe
from forecaster.errors import ConfigError, DataError
from forecaster.ingest.candidates import read_candidates
from forecaster.ingest.engine import EngineName, open_engine
from forecaster.ingest.files import open_inputs
from forecaster.ingest.station import parse_mapping
from forecaster.ingest.tables import ingest_table
from forecaster.ingest.trips import Trips, ingest_trips
from forecaster.ingest.weather import add_weather
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import Progress

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sources:
    """The files that a recipe speaks of."""

    values: Sequence[Path]  # trips, or one table
    places: Path | None = None  # candidates, or locations
    weather: Path | None = None


def find_sources(recipe: Recipe, data: Path) -> Sources:
    """Return the files of a recipe in the data folder; patterns are expanded."""
    if recipe.trips is not None:
        names, places = recipe.trips.files, recipe.trips.candidates
    elif recipe.table is not None:
        names, places = (recipe.table.file,), recipe.table.locations
    else:
        raise ConfigError("the recipe has neither [trips] nor [table]; nothing to ingest")
    found = [path for name in names for path in sorted(data.glob(name))]
    lacking = [name for name in names if not list(data.glob(name))]
    if lacking or not found:
        what = ", ".join(lacking) or "any file"
        raise DataError(f"{data}: no {what}; give the folder with --data or FORECASTER_DATA")
    weather = data / recipe.weather.file if recipe.weather is not None else None
    return Sources(found, data / places if places else None, weather)


def build_panel(
    recipe: Recipe,
    sources: Sources,
    engine: EngineName = "duckdb",
    say: Say = lambda _: None,
    progress: Progress | None = None,
) -> Panel:
    """Return the panel that a recipe describes."""
    if recipe.trips is not None:
        rules = recipe.trips
        places = (
            read_candidates(sources.places, rules.candidate_columns) if sources.places else None
        )
        inputs = open_inputs(sources.values, rules.covers, progress)
        panel = ingest_trips(Trips(inputs, places, recipe.panel, rules, open_engine(engine)), say)
    elif recipe.table is not None:
        columns = recipe.table.location_columns
        places = read_candidates(sources.places, columns) if sources.places else None
        panel, layout = ingest_table(sources.values[0], recipe.panel, recipe.table, places)
        say(f"read as {layout}")
    else:
        raise ConfigError("the recipe has neither [trips] nor [table]; nothing to ingest")
    if recipe.weather is not None and sources.weather is not None:
        panel = join_weather(panel, recipe, sources.weather)[0]
    return panel


def join_weather(panel: Panel, recipe: Recipe, path: Path) -> tuple[Panel, Any]:
    """Return the panel with the weather of a file, and the report of what became of its rows."""
    rules = recipe.weather
    if rules is None:
        raise ConfigError("the recipe has no [weather]")
    mapping = parse_mapping(rules.columns)
    return add_weather(panel, path, mapping, timezone=rules.timezone, max_gap=rules.max_gap)
