"""Figures of a panel: observed, zero and missing values, and a map of the locations."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int64

from forecaster.explain.past_steps import name_step
from forecaster.panel.panel import Panel
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, INK, WIDTH, new_figure
from forecaster.report.draw.charts import shorten
from forecaster.report.draw.sample import choose_shown

MAX_COLUMNS, MAX_ROWS = 900, 400  # most cells of the heat map
MOST_NAMES = 30  # locations whose names are readable beside their rows
NAME_INCHES, MAP_INCHES, TOTAL_INCHES = 0.19, (1.3, 3.2), 1.5  # heights
MOSTLY = 0.5
# Cells are pixels, which a dark page cannot replace: these are readable on white and on black, and
# none of them is among the colours that it does.
OBSERVED, ZERO, MISSING, CLOSED = "#3b82a6", "#f2c14e", "#d6455a", "#a9b4be"


def draw_coverage(panel: Panel) -> Any:
    """Draw missing and zero values of each location, and the sum of all, over time."""
    least, most = MAP_INCHES
    rows = min(max(NAME_INCHES * len(panel.locations), least), most)
    if len(panel.locations) <= MOST_NAMES:
        rows = max(NAME_INCHES * len(panel.locations), least)
    figure = new_figure(WIDTH, rows + TOTAL_INCHES + 0.6)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[rows, TOTAL_INCHES])
    _draw_map(figure, upper, panel)
    _draw_total(lower, panel)
    return figure


def _draw_map(figure: Any, axes: Any, panel: Panel) -> None:
    """Colour each cell by its shares of missing and zero steps; busy locations on top."""
    from matplotlib.patches import Patch  # noqa: PLC0415 (an extra)

    alive = panel.alive(0, len(panel.values))
    mean = np.nan_to_num(np.nansum(panel.values, axis=0) / len(panel.values)).astype(np.float64)
    shown = choose_shown(mean, (np.isnan(panel.values) & alive).mean(axis=0))
    order = shown[np.argsort(-mean[shown], kind="stable")]
    axes.imshow(
        coverage_colours(panel.values[:, order], alive[:, order]),
        aspect="auto",
        interpolation="nearest",
        extent=(*_days(panel), len(order), 0),
    )
    canvas.style(axes)
    axes.grid(visible=False)
    axes.tick_params(labelbottom=False)
    if len(order) <= MOST_NAMES:
        names = [shorten(panel.locations.names[n]) for n in order.tolist()]
        axes.set_yticks(np.arange(len(order)) + 0.5, names, parse_math=False)
    else:
        of_all = f" of {len(mean):,}" if len(mean) > len(order) else ""
        axes.set_ylabel(f"{len(order):,}{of_all} locations, busiest first", color=INK)
        axes.set_yticks([])
    states = [(OBSERVED, "observed, not zero"), (ZERO, "zero"), (MISSING, "missing")]
    states += [] if alive.all() else [(CLOSED, "closed")]
    patches = [Patch(color=colour, label=label) for colour, label in states]
    canvas.write_legend(figure, patches, columns=4)


def _draw_total(axes: Any, panel: Panel) -> None:
    """Draw the sum of counts, or the mean of measurements; by day if there are too many steps."""
    M, day = len(panel.values), max(24 * 60 // panel.clock.step_minutes, 1)
    width = 1 if M <= MAX_COLUMNS else day * -(-M // (MAX_COLUMNS * day))
    bins = np.arange(0, M, width)
    observed_values = np.isfinite(panel.values)
    total = np.where(observed_values, panel.values, 0).sum(axis=1, dtype=np.float64)
    observed = np.add.reduceat(observed_values.mean(axis=1), bins) / _sizes(bins, M)
    level = np.add.reduceat(total, bins) / _sizes(bins, M) / np.maximum(observed, 1e-9)
    level[observed < MOSTLY] = np.nan  # a gap in the line
    level /= 1 if panel.kind == "count" else len(panel.locations)
    first, last = _days(panel)
    middle = first + (last - first) * (bins + _sizes(bins, M) / 2) / M
    axes.plot(middle, level, color=BLUE, linewidth=1)
    axes.set_ylim(bottom=0 if panel.kind == "count" else None)
    by = name_step(panel.clock) if width == 1 else "day" if width == day else f"{width} steps"
    canvas.style(axes, up=f"{'sum' if panel.kind == 'count' else 'mean'} of all,\nmean per {by}")
    canvas.date_axis(axes)


def coverage_colours(
    values: Float32[np.ndarray, "M N"], alive: Bool[np.ndarray, "M N"]
) -> Float[np.ndarray, "rows columns 3"]:
    """Return one colour per cell of steps × locations: a mix of its steps' states.

    Args:
        values: NaN where missing or closed.
        alive: whether a location is open at a step.
    """
    missing = _cell_shares(np.isnan(values) & alive)
    zero, closed = _cell_shares(values == 0), _cell_shares(np.isnan(values) & ~alive)
    parts = np.stack([1 - missing - zero - closed, zero, missing, closed], axis=-1)
    palette = np.array(
        [
            [int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)]
            for c in (OBSERVED, ZERO, MISSING, CLOSED)
        ]
    )
    # A floor keeps a single missing step visible in a wide cell.
    parts[..., 2] = np.where(missing > 0, np.maximum(missing, 0.35), 0)
    parts /= parts.sum(axis=-1, keepdims=True)
    return np.asarray(np.clip(parts @ palette, 0, 1))


def _cell_shares(where: np.ndarray) -> Float64[np.ndarray, "rows columns"]:
    """Return the share of true in each cell, locations down and time across."""
    steps, places = (
        _bins(n, most) for n, most in zip(where.shape, (MAX_COLUMNS, MAX_ROWS), strict=True)
    )
    sums = np.add.reduceat(
        np.add.reduceat(where.astype(np.float64), steps, axis=0), places, axis=1
    )
    sizes = np.outer(_sizes(steps, where.shape[0]), _sizes(places, where.shape[1]))
    return np.asarray((sums / sizes).T)


def _bins(count: int, most: int) -> Int64[np.ndarray, " K"]:
    return np.unique(np.linspace(0, count, min(count, most), endpoint=False).astype(np.int64))


def _sizes(bins: Int64[np.ndarray, " K"], count: int) -> Int64[np.ndarray, " K"]:
    return np.diff(np.append(bins, count))


def _days(panel: Panel) -> tuple[float, float]:
    """Return the first and last local time as days since 1970, as matplotlib counts them."""
    local = panel.clock.local(panel.clock.axis(panel.start, len(panel.values) + 1)[[0, -1]])
    first, last = local.astype(np.int64) / 86400
    return float(first), float(last)
