"""Pictures of drift: scores by week, and a map of changed edges."""

from typing import Any

import numpy as np
from jaxtyping import Float64

from forecaster.evaluation.drift.drift import Drift
from forecaster.evaluation.drift.edges import EdgeKind
from forecaster.evaluation.drift.sequential import WEEK_DAYS, Watch
from forecaster.panel.panel import Panel
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, GREEN, INK, MISSING, ORANGE, TEXT, WIDTH
from forecaster.report.draw.maps import new_map, write_names
from forecaster.report.draw.sample import MOST_SHOWN

ROWS = {
    "errors larger": "error, % of size",
    "forecasts too high": "bias, %",
    "intervals too narrow": "inside, %",
}
LINES: dict[EdgeKind, tuple[str, str]] = {
    "appeared": (GREEN, "-"),
    "vanished": (ORANGE, "--"),
    "changed sign": (BLUE, ":"),
}
NAMED = 8  # locations with their names


def draw_weeks(drift: Drift) -> Any:
    """Draw error, bias and coverage by week, with those of validation and the alarms."""
    watches = {watch.name: watch for watch in drift.watches}
    rows = [name for name in ROWS if name in watches]
    figure = canvas.new_figure(1.2 * WIDTH, 1.4 * len(rows) + 0.5)
    all_axes = np.atleast_1d(figure.subplots(len(rows), sharex=True))
    starts = drift.first_day + np.arange(drift.weeks) * np.timedelta64(WEEK_DAYS, "D")
    for axes, name in zip(all_axes, rows, strict=True):
        watch = watches[name]
        values, reference = _per_cent(watch)
        axes.axhline(reference, color=FAINT, linestyle="--", linewidth=1.2, label="validation")
        axes.plot(
            starts, values, color=BLUE, marker="o", markersize=3, linewidth=1.5, label="week"
        )
        alarmed = [w for w in drift.watches if ROWS.get(w.name) == ROWS[name] or _mirrors(w, name)]
        _shade(axes, starts, alarmed)
        canvas.style(axes, "", ROWS[name])
    all_axes[-1].set_xlabel("week", color=INK, fontsize=TEXT)
    figure.align_ylabels()
    handles, labels = all_axes[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    canvas.write_legend(figure, list(unique.values()), columns=4)
    return figure


def draw_changes(drift: Drift, panel: Panel) -> Any | None:
    """Map changed edges and the locations to look at; None without coordinates."""
    locations = (
        panel.select(drift.ids).locations if {*drift.ids} == {*panel.locations.ids} else None
    )
    if locations is None or not locations.placed.any():
        return None
    figure, axes = new_map(locations)
    at = np.column_stack([locations.lon, locations.lat])
    axes.scatter(*at.T, s=14, color=FAINT, linewidths=0, rasterized=len(at) > MOST_SHOWN)
    for kind, (colour, line) in LINES.items():
        changes = [c for c in drift.edges.changes if c.kind == kind]
        for number, change in enumerate(changes):
            label = f"edge {kind}" if not number else None
            ends = at[[change.source, change.target]]
            axes.plot(*ends.T, color=colour, linestyle=line, linewidth=2, label=label)
    columns = {identity: n for n, identity in enumerate(drift.ids)}
    ids = list(dict.fromkeys(place.id for place in drift.places))
    if ids:
        rings = at[[columns[identity] for identity in ids]]
        axes.scatter(*rings.T, s=70, facecolors="none", edgecolors=MISSING, linewidths=1.5,
                     label="location to look at")  # fmt: skip
    names = {columns[i]: locations.names[columns[i]] for i in ids}
    write_names(axes, locations, names, NAMED)
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        canvas.write_legend(figure, handles, columns=2)
    return figure


def _per_cent(watch: Watch) -> tuple[Float64[np.ndarray, " W"], float]:
    """The weeks of a watch and its reference in per cent, coverage as the share inside."""
    if watch.name == "errors larger":
        return 100 * np.exp(watch.weeks), 100 * float(np.exp(watch.reference))
    if watch.name == "intervals too narrow":
        return 100 * (1 - watch.weeks), 100 * (1 - watch.reference)
    return 100 * watch.weeks, 100 * watch.reference


def _mirrors(watch: Watch, name: str) -> bool:
    """Whether a watch looks at the same score in the other direction."""
    return watch.name == "forecasts too low" and name == "forecasts too high"


def _shade(axes: Any, starts: Any, watches: list[Watch]) -> None:
    """Shade the weeks since a change that gave an alarm."""
    for watch in watches:
        if watch.alarm is None:
            continue
        axes.axvspan(starts[watch.since or 0], starts[-1], color=MISSING, alpha=0.13, linewidth=0,
                     label="changed")  # fmt: skip
        axes.axvline(starts[watch.alarm], color=MISSING, linewidth=1, label="told")
