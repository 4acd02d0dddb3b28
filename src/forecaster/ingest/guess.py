"""A recipe inferred from a table: columns, covariates, kind, step and MAPE threshold."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float32, Shaped

from forecaster.clock.horizon import read_horizon
from forecaster.clock.zone import to_local
from forecaster.config import MONTH_MINUTES, LagConfig, MetricConfig, PanelConfig, TableConfig
from forecaster.databases.query import Query
from forecaster.errors import count_of, name_some
from forecaster.ingest.build import Sources
from forecaster.ingest.hot_locations.candidates import FIELDS
from forecaster.panel.axis import (
    DAY_MINUTES,
    VALUES,
    SeriesTable,
    Step,
    clock_changes,
    clock_of,
    guess_step,
)
from forecaster.panel.panel import Panel
from forecaster.panel.storage.folder import step_fields
from forecaster.panel.tables.absent import judge_absent
from forecaster.panel.tables.combine import Combination
from forecaster.panel.tables.table_rows import (
    Steps,
    TableRows,
    find_kind,
    guess_rows,
    read_shared,
    refuse_markers,
    split_covariates,
)
from forecaster.reading.load import TABLE_SUFFIXES, Table, load
from forecaster.recipe import Recipe, change, check_stage
from forecaster.remote import RemoteFile, is_remote

LEARNED_SHARE = 0.7  # the training steps, as split by share


def guess_recipe(
    sources: Sources, settings: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Recipe, TableRows]:
    """Return the inferred recipe of a table, and how the table was read.

    Args:
        sources: the files of the table, in one folder or below it.
        settings: what is said already, by section of the recipe; `timezone` may be None, and
            `lags.horizon` a text such as `24h`.
    """
    settings = settings or {}
    said, name = dict(settings.get("panel", {})), sources.values[0].name
    reading = {k: v for k, v in settings.get("table", {}).items() if v is not None}
    rules = check_stage(TableConfig, reading, source="options")
    steps = Steps(_said_step(said), said.get("timezone"))
    table = guess_rows(sources.read(), rules, steps)
    rows = table.series
    combination = table.combination
    step = combination.step if combination else steps.step or guess_step(rows, name)
    values = rows.layers[VALUES]
    refuse_markers(rows, name)
    panel: dict[str, Any] = {
        "timezone": _guess_zone(rows, step, said.pop("timezone", None) or table.zone),
        **step.settings(),
        "gaps": "null",
        "kind": said.get("kind") or find_kind(values, name),
        **({"nonexistent": "null"} if rows.naive else {}),
        **{key: value for key, value in said.items() if value is not None},
    }
    if not said.get("gaps"):
        panel["gaps"], absent = judge_absent(table, panel["kind"], step)
        table = replace(table, notes=(*table.notes, *absent))
    config = check_stage(PanelConfig, panel, source="options")
    horizon = _steps_ahead(settings, config)
    shared = None if sources.covariates is None else read_shared(sources.covariates, rules)
    known_ahead, past_only = split_covariates(rows, shared, config, horizon)
    past_only += [name for name in config.past_only if name not in past_only]
    panel |= {"past_only": past_only} if past_only else {}
    learned = values[: max(int(LEARNED_SHARE * len(values)), 1)]  # no test steps
    content: dict[str, Any] = {
        "preset": "best",
        "panel": panel,
        "table": {
            **{key: value for key, value in reading.items() if value},
            **(
                {"combine": combination.how, "nearest": combination.nearest} if combination else {}
            ),
            **({"leave_out": list(table.left_out)} if table.left_out else {}),
            **_named_files(sources),
            "columns": table.layout.mapping(),
            **({"known_ahead": known_ahead} if known_ahead else {}),
            **_static_columns(sources, rules),
        },
        "metrics": {"mape_cut": _mape_cut(learned)},
        "evaluation": {"seeds": 1},
    }
    return check_stage(Recipe, content, source=f"the recipe guessed for {name}"), table


def recipe_of_panel(panel: Panel, saved: Recipe | None) -> Recipe:
    """Return a recipe that suits a panel: the one that it was made by, with a preset."""
    clock = panel.clock
    described = {"timezone": clock.zone, "kind": panel.kind, **step_fields(clock)}
    described |= {"past_only": list(panel.past_only)} if panel.past_only else {}
    base = saved or check_stage(Recipe, {"panel": described}, source="the recipe of the panel")
    values = panel.values[: max(int(LEARNED_SHARE * len(panel.values)), 1)]
    defaults: dict[str, Any] = {"preset": "best", "evaluation": {"seeds": 1}}
    defaults["metrics"] = {"mape_cut": _mape_cut(values)}
    said = {name: values for name, values in defaults.items() if name not in base.model_fields_set}
    return change(base, said, source="the recipe of the panel")


def describe(sources: Sources, recipe: Recipe, rows: TableRows) -> str:
    """Return what was understood of a table, in three lines, and what was taken for granted."""
    names = name_some((path.name for path in sources.values), 3)
    layout, series, panel = rows.layout, rows.series, recipe.panel
    rules = recipe.table or TableConfig()
    parts = [f"known ahead: {name_some(rules.known_ahead)}"] * bool(rules.known_ahead)
    parts += [f"past-only: {name_some(panel.past_only)}"] * bool(panel.past_only)
    parts += [f"of the locations: {name_some(rules.static)}"] * bool(rules.static)
    further = f"; covariates {', '.join(parts)}" if parts else ""
    ends = [str(time)[:16].replace("T", " ") for time in series.seconds[[0, -1]].astype("M8[s]")]
    local = panel.timezone if series.naive else "UTC"
    step = clock_of(panel).step_text
    size = f"{count_of(len(series.ids), 'location')}, steps of {step}, {panel.kind}s"
    lines = [f"{names}: {rows.form}", f"{layout}{further}"]
    lines += [f"{size}, {' … '.join(ends)} ({local})"]
    return "\n".join([*lines, *rows.notes])


def find_step(table: Table, rules: TableConfig | None = None) -> Step:
    """Return the length of a table's steps."""
    rows = guess_rows(table, rules or TableConfig(), Steps())
    if rows.combination is not None:
        return rows.combination.step
    return guess_step(rows.series, table.name if isinstance(table, Path) else "table")


# ------------------------------------------------------------------------------- covariates


def _steps_ahead(settings: Mapping[str, Mapping[str, Any]], config: PanelConfig) -> int:
    horizon = settings.get("lags", {}).get("horizon")
    return read_horizon(horizon, clock_of(config)) if horizon else LagConfig().horizon


def _combined(combination: Combination | None) -> dict[str, Any]:
    """Return the settings by which several rows of a step are combined."""
    if combination is None:
        return {}
    return {"combine": combination.how, "nearest": combination.nearest}


def _static_columns(sources: Sources, rules: TableConfig) -> dict[str, list[str]]:
    """Return the columns of numbers of the locations, complete and not all the same."""
    if sources.places is None or not sources.places.name.lower().endswith(TABLE_SUFFIXES):
        return {}
    table = load(sources.places)[0]
    mapped = (rules.location_columns or "").replace(",", "=").split("=")
    columns = [n for n in table.column_names if n not in (*FIELDS, *mapped)]
    static = [name for name in columns if _tells_apart(table[name])]
    return {"static": static} if static else {}


def _tells_apart(column: pa.ChunkedArray) -> bool:
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return bool(is_number and not column.null_count and len(column.unique()) > 1)


# ---------------------------------------------------------------------------------- settings


def _named_files(sources: Sources) -> dict[str, Any]:
    """Return the names of the files, relative to the folder that holds all of them."""
    folder = common_folder(sources)
    beside = {"locations": sources.places, "covariates": sources.covariates}
    named = {n: _relative(path, folder) for n, path in beside.items() if path is not None}
    if isinstance(query := sources.values[0], Query):
        return named | {"file": query.database.url, "query": query.sql}
    values = [_relative(source, folder) for source in sources.values]
    return named | ({"file": values[0]} if len(values) == 1 else {"files": values})


def _relative(source: Any, folder: Path) -> str:
    """Return the name of a file in a folder, or the address of one elsewhere."""
    if isinstance(source, Path) and not is_remote(source):
        return str(source.relative_to(folder))
    return RemoteFile.parse(source).name if isinstance(source, Path) else str(source.name)


def common_folder(sources: Sources) -> Path:
    """Return the folder that holds all files, or in which their folders are."""
    folders = {path.parent for path in (*sources.files, *sources.tables) if not is_remote(path)}
    if len(folders) <= 1:
        return folders.pop() if folders else Path()
    return Path(os.path.commonpath([folder.resolve() for folder in folders]))


def _said_step(panel: dict[str, Any]) -> Step | None:
    """Return the step of the settings, taken out of them; None if they have none."""
    months, minutes = panel.pop("step_months", None), panel.pop("step_minutes", None)
    if months:
        return Step(months * MONTH_MINUTES, months)
    return Step(minutes) if minutes else None


def _guess_zone(rows: SeriesTable, step: Step, timezone: str | None) -> str:
    """Return the time zone; that of months without a time is UTC.

    So is that of days which the clock makes irregular, and of months whose times are midnight in
    UTC and not in the zone.
    """
    if timezone is None or (rows.naive and step.months):
        return "UTC"
    if rows.naive and step.minutes >= DAY_MINUTES:
        config = PanelConfig(timezone=timezone, step_minutes=step.minutes)
        return "UTC" if clock_changes(rows, config) else timezone
    times = rows.seconds.astype("datetime64[s]")
    if step.months and not _are_midnights(to_local(timezone, times)) and _are_midnights(times):
        return "UTC"
    return timezone


def _are_midnights(times: Shaped[np.ndarray, " U"]) -> bool:
    return bool((times == times.astype("datetime64[D]")).all())


def _mape_cut(values: Float32[np.ndarray, "U N"]) -> float:
    """Return the paper's MAPE threshold, or about the median if that is smaller.

    For values that may be negative MAPE is meaningless: the threshold is above all values.
    """
    if (values < 0).any():
        return _round(10 * float(np.nanmax(np.abs(values))), 1)
    positive, default = values[values > 0], MetricConfig().mape_cut
    median = float(np.median(positive)) if len(positive) else default
    return default if median >= default else _round(median, 1)


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}") if math.isfinite(value) and value else value
