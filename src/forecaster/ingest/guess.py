"""A recipe inferred from a table: columns, kind, step, lags and MAPE threshold."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from forecaster.config import LagConfig, MetricConfig
from forecaster.errors import DataError, count_of
from forecaster.ingest.tables import TableLayout, read_rows
from forecaster.panel.axis import VALUES, SeriesTable
from forecaster.recipe import CLOCK_CHANGE_MINUTES, Recipe, check_stage

DAY_MINUTES = 24 * 60
HISTORY_SHARE = (
    0.35  # largest reach of a window as a share of all steps: half of the training steps
)
LEARNED_SHARE = 0.7  # the training steps, as split by share


def guess_recipe(path: Path, timezone: str | None = None, country: str | None = None) -> Recipe:
    """Return the inferred recipe of a long or wide table.

    Args:
        path: a CSV or Parquet file.
        timezone: of times without an offset. Default: UTC, which is also used for daily steps.
        country: country of the holidays, such as "US".
    """
    rows, layout = read_rows(path, "measurement")
    values, step = rows.layers[VALUES], _step_minutes(rows, path.name)
    learned = values[: max(int(LEARNED_SHARE * len(values)), 1)]  # no test steps
    days = (int(rows.seconds[-1]) - int(rows.seconds[0])) / 86_400
    if timezone is None or (rows.naive and step >= DAY_MINUTES):
        timezone = "UTC"
    panel: dict[str, Any] = {"timezone": timezone, "step_minutes": step, "gaps": "null"}
    panel |= {"kind": "count" if _is_count(values) else "measurement"}
    panel |= {"nonexistent": "null"} if rows.naive else {}
    panel |= {"country": country} if country else {}
    content = {
        "preset": "best",
        "panel": panel,
        "table": {"file": path.name, "columns": _columns(layout)},
        "lags": _lags(step, days),
        "metrics": {"mape_cut": _mape_cut(learned)},
        "evaluation": {"seeds": 1},
    }
    return check_stage(Recipe, content, source=f"the recipe guessed for {path.name}")


def guess_step(path: Path, columns: str | None = None) -> int:
    """Return the length of a table's steps in minutes."""
    return _step_minutes(read_rows(path, "measurement", columns)[0], path.name)


def _step_minutes(rows: SeriesTable, name: str) -> int:
    """Return the most frequent difference between successive times."""
    gaps = np.diff(rows.seconds)
    if not len(gaps):
        raise DataError(f"{name}: {count_of(len(rows.seconds), 'time')}; at least two are needed")
    sizes, counts = np.unique(gaps, return_counts=True)
    seconds = int(sizes[np.argmax(counts)])
    minutes, remainder = divmod(seconds, 60)
    if remainder or not minutes or (DAY_MINUTES % minutes and minutes % DAY_MINUTES):
        message = f"{name}: most times are {seconds} s apart; steps must divide a day"
        raise DataError(f"{message} or be whole days; aggregate the values first")
    return minutes


def _is_count(values: Float32[np.ndarray, "U N"]) -> bool:
    observed = values[np.isfinite(values)]
    return bool((observed >= 0).all() and (observed == np.round(observed)).all())


def _columns(layout: TableLayout) -> str:
    named = {"time": layout.time, "id": layout.id, "value": layout.value}
    return ",".join(f"{name}={column}" for name, column in named.items() if column is not None)


def _lags(step: int, days: float) -> dict[str, Any]:
    """Return the paper's lags, with as many days and weeks as the span allows."""
    paper, reach = LagConfig(), HISTORY_SHARE * days
    seasons = []
    for season in paper.seasons:
        count = min(season.count, int(reach // season.days))
        after = min(season.after, (season.days * DAY_MINUTES - CLOCK_CHANGE_MINUTES) // step)
        if count and season.days * DAY_MINUTES > step:
            before = min(season.before, after)
            seasons.append({"days": season.days, "count": count, "before": before, "after": after})
    return {"recent": paper.recent, "seasons": seasons, "horizon": paper.horizon}


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
