"""A recipe inferred from a table: columns, kind, step and MAPE threshold."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Shaped

from forecaster.clock.zone import to_local
from forecaster.config import MetricConfig
from forecaster.ingest.tables import TableLayout, read_rows
from forecaster.panel.axis import DAY_MINUTES, VALUES, SeriesTable, Step, guess_step
from forecaster.recipe import Recipe, check_stage

LEARNED_SHARE = 0.7  # the training steps, as split by share


def guess_recipe(path: Path, timezone: str | None = None, country: str | None = None) -> Recipe:
    """Return the inferred recipe of a long or wide table.

    Args:
        path: a CSV or Parquet file.
        timezone: of times without an offset. Default: UTC, also of days without a time.
        country: country of the holidays, such as "US".
    """
    rows, layout = read_rows(path, "measurement")
    values, step = rows.layers[VALUES], guess_step(rows, path.name)
    learned = values[: max(int(LEARNED_SHARE * len(values)), 1)]  # no test steps
    timezone = _guess_zone(rows, step, timezone)
    panel: dict[str, Any] = {"timezone": timezone, **step.settings(), "gaps": "null"}
    panel |= {"kind": "count" if _is_count(values) else "measurement"}
    panel |= {"nonexistent": "null"} if rows.naive else {}
    panel |= {"country": country} if country else {}
    content = {
        "preset": "best",
        "panel": panel,
        "table": {"file": path.name, "columns": _columns(layout)},
        "metrics": {"mape_cut": _mape_cut(learned)},
        "evaluation": {"seeds": 1},
    }
    return check_stage(Recipe, content, source=f"the recipe guessed for {path.name}")


def find_step(path: Path, columns: str | None = None) -> Step:
    """Return the length of a table's steps."""
    return guess_step(read_rows(path, "measurement", columns)[0], path.name)


def _guess_zone(rows: SeriesTable, step: Step, timezone: str | None) -> str:
    """Return the time zone; that of days and months without a time is UTC.

    So is that of months whose times are midnight in UTC and not in the zone.
    """
    if timezone is None or (rows.naive and step.minutes >= DAY_MINUTES):
        return "UTC"
    times = rows.seconds.astype("datetime64[s]")
    if step.months and not _are_midnights(to_local(timezone, times)) and _are_midnights(times):
        return "UTC"
    return timezone


def _are_midnights(times: Shaped[np.ndarray, " U"]) -> bool:
    return bool((times == times.astype("datetime64[D]")).all())


def _is_count(values: Float32[np.ndarray, "U N"]) -> bool:
    observed = values[np.isfinite(values)]
    return bool((observed >= 0).all() and (observed == np.round(observed)).all())


def _columns(layout: TableLayout) -> str:
    named = {"time": layout.time, "id": layout.id, "value": layout.value}
    return ",".join(f"{name}={column}" for name, column in named.items() if column is not None)


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
