"""The page about a challenger and the current version: the verdict, with its figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forecaster.errors import count_of, need_extra
from forecaster.evaluation.challenge import EVERYWHERE, MEASURE_NAMES, RELATIVE
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, INK, ORANGE, WIDTH
from forecaster.report.draw.svg import inline_svg
from forecaster.report.formatting import number, tenth_percent, with_minus
from forecaster.report.html import render_template
from forecaster.report.sections.section import Picture

SHOWN = ("rmse", "mape", "pinball")  # whose intervals are drawn
Content = Mapping[str, Any]


def render_challenge(verdict: Content) -> str:
    """Render the page of a verdict; all text from the data is escaped."""
    pictures = [_intervals(verdict), _daily(verdict)] if verdict["promises"] else []
    promote = verdict["verdict"] == "promote"
    names = verdict["champion"], verdict["challenger"]
    headline = f"Promote {names[1]}" if promote else f"Keep {names[0]}"
    return render_template(
        "forecaster.report",
        "challenge.html",
        title=f"{names[1]} against {names[0]}",
        headline=headline,
        level="good" if promote else "note",
        reason=with_minus(verdict["reason"]),
        facts=_facts(verdict),
        names=names,
        rows=[_row(promise) for promise in verdict["promises"]],
        pictures=pictures,
        draw=_inline,
    )


def _inline(picture: Picture) -> Any:
    """Return a picture as markup of the page; its text is escaped where it is drawn."""
    markup = need_extra("markupsafe", extra="report").Markup
    return markup(inline_svg(picture.svg, picture.alternative))


def _facts(verdict: Content) -> dict[str, str]:
    more, (first, last) = verdict["more"], verdict["held_out"]
    knows = []
    if more["weeks"]:
        knows.append(f"{more['weeks']:+.1f} weeks")
    if more["locations"]:
        knows.append(f"{more['locations']:+d} locations")
    return {
        "Compared on": f"{count_of(verdict['windows'], 'window')} of "
        f"{count_of(verdict['days'], 'day')}, from {first} to {last}; neither learned from them",
        "The challenger knows": with_minus(", ".join(knows)) or "the same weeks and locations",
    }


def _row(promise: Content) -> dict[str, str]:
    """A row of the table: both values, and their difference with its interval."""
    difference, is_relative = promise["difference"], promise["measure"] in RELATIVE
    show = number if promise["measure"] in ("rmse", "pinball") else tenth_percent
    ends = f"{100 * difference['low']:+.1f} … {100 * difference['high']:+.1f}"
    unit = " %" if is_relative else " points"
    sign = "better" if difference["high"] < 0 else "worse" if difference["low"] > 0 else ""
    return {
        "group": promise["group"],
        "measure": MEASURE_NAMES[promise["measure"]],
        "champion": with_minus(show(promise["champion"])),
        "challenger": with_minus(show(promise["challenger"])),
        "difference": with_minus(f"{100 * difference['value']:+.1f}{unit}"),
        "interval": with_minus(f"{ends}{unit}"),
        "level": {"better": "good", "worse": "warning", "": ""}[sign],
    }


def _intervals(verdict: Content) -> Picture:
    """The relative differences with their intervals, by group of locations."""
    rows = [p for p in verdict["promises"] if p["measure"] in SHOWN]
    labels = [f"{MEASURE_NAMES[p['measure']]}, {_group(p['group'])}" for p in rows]
    rows_at = np.arange(len(rows), dtype=np.float64)
    figure = canvas.new_figure(2 * WIDTH, 0.9 + 0.24 * len(rows))
    axes = figure.subplots()
    for height, row in zip(rows_at, rows, strict=True):
        low, value, high = (100 * row["difference"][end] for end in ("low", "value", "high"))
        colour = BLUE if high < 0 else ORANGE if low > 0 else FAINT
        axes.plot([low, high], [height, height], color=colour, linewidth=2)
        axes.plot([value], [height], color=colour, marker="o", markersize=5)
    axes.axvline(0, color=INK, linewidth=0.8)
    canvas.style_rows(axes, rows_at, labels, "challenger against champion, % (left: better)")
    better = sum(row["difference"]["high"] < 0 for row in rows)
    worse = sum(row["difference"]["low"] > 0 for row in rows)
    text = f"Of {len(rows)} differences {better} are better and {worse} worse by more than chance."
    alternative = "Intervals of the differences by measure and fifth of the locations"
    title = "Differences with 95 % intervals"
    return Picture("challenge-intervals", title, text, alternative, figure)


def _daily(verdict: Content) -> Picture:
    """RMSE of both on each held-out day."""
    daily, names = verdict["daily"], ("champion", "challenger")
    figure = canvas.new_figure(2 * WIDTH, 2.6)
    axes = figure.subplots()
    for name, colour, mark in zip(names, (ORANGE, BLUE), ("s", "o"), strict=True):
        values = [np.nan if value is None else value for value in daily[name]]
        label = f"{verdict[name]} ({name})"
        axes.plot(values, color=colour, marker=mark, markersize=4, linewidth=1.5, label=label)
    axes.set_ylim(bottom=0)
    days = daily["days"]
    ticks = np.arange(0, len(days), max(len(days) // 7, 1))
    axes.set_xticks(ticks, [days[n] for n in ticks])
    canvas.style(axes, "day of the first forecast step", "RMSE")
    canvas.write_legend(figure, axes.get_lines(), columns=2)
    lower = _count_lower(daily["challenger"], daily["champion"])
    text = f"The challenger has the lower RMSE on {lower} of {count_of(len(days), 'day')}."
    alternative = "Line chart of RMSE by day for both models"
    return Picture("challenge-days", "RMSE by day", text, alternative, figure)


def _count_lower(values: Sequence[float | None], others: Sequence[float | None]) -> int:
    pairs = zip(values, others, strict=True)
    return sum(a is not None and b is not None and a < b for a, b in pairs)


def _group(name: str) -> str:
    return "all locations" if name == EVERYWHERE else name
