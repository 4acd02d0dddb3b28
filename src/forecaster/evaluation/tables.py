"""A comparison as text: the paper's table in Markdown, one line a model in CSV."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forecaster.errors import count_of

DIGITS, MOST_WHOLE = 4, 7  # significant ones; those before the point, beyond them 1.234e+09
TITLES = {"rmse": "RMSE", "mape": "MAPE %", "mae": "MAE", "wape": "WAPE %"}
PERCENT = ("mape", "wape", "coverage")  # fractions, shown as per cent

Content = Mapping[str, Any]  # what `Comparison.to_dict` gives


def markdown_text(content: Content) -> str:
    """Return the verdict, the table of the paper, costs, differences and failures."""
    tested = [row for row in content["rows"] if row["seeds"]]
    parts = [f"**{line}**" for line in content["verdict"]]
    if tested:
        weathers = list(tested[0]["weather"])
        parts += [_caption(content, weathers[0]), _block(content["rows"], weathers[0], "rmse")]
        parts += [_block(content["rows"], weathers[0], "mape"), *_intervals(content)]
        parts += [_costs(tested, weathers[0])]
        parts += [_weathers(tested, weathers)] if weathers[1:] else []
        parts += _differences(content)
    return "\n\n".join([*parts, *_failures(content["rows"])]) + "\n"


def csv_text(content: Content) -> str:
    """Return a line for each model and coming weather; MAPE and WAPE are in per cent."""
    lines = [line for row in content["rows"] for line in _flat(row)]
    names = dict.fromkeys(name for line in lines for name in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def show(spread: Content, figure: str) -> str:
    """Return `5.188 ± 0.008`, or that no target counted."""
    if spread["mean"] is None:
        return "n/a (0 terms)"
    mean, deviation = (_scaled(spread[part], figure) for part in ("mean", "deviation"))
    whole = math.floor(math.log10(abs(mean))) + 1 if mean else 1
    form = f".{max(DIGITS - whole, 0)}f" if -DIGITS < whole <= MOST_WHOLE else f".{DIGITS - 1}e"
    return f"{mean:{form}}" + ("" if deviation is None else f" ± {deviation:{form}}")


def label(row: Content) -> str:
    """Return a model's name with what validation chose for it."""
    chosen = (what if w == "training" else f"{w} {what}" for w, what in row["chosen"].items())
    words = "; ".join(chosen)
    return f"{row['model']} ({words})" if words else str(row["model"])


def interval_name(levels: Sequence[float]) -> str:
    """Return what the outermost two quantiles are called: `80 % interval`."""
    if len(levels) == 1:
        return f"{100 * levels[0]:g} % quantile"
    return f"{100 * (levels[-1] - levels[0]):g} % interval"


def _caption(content: Content, weather: str) -> str:
    size = f"{count_of(content['windows'], 'test window')} on {count_of(content['days'], 'day')}"
    rules = f"MAPE over targets ≥ {content['mape_cut']:g}; ± is the deviation over trainings"
    known = (
        f"coming weather: {weather}" if content["covariates"] else "no covariates but the calendar"
    )
    return f"{size}; {known}; {rules}."


def _block(rows: Iterable[Content], weather: str, figure: str) -> str:
    """Return one figure of every model: average, and each step ahead."""
    rows = list(rows)
    steps = max(len(r["weather"][weather][figure]) for r in rows if r["seeds"])
    lines = []
    for row in rows:
        found = row["weather"][weather][figure] if row["seeds"] else None
        shown = [show(s, figure) for s in found] if found else ["failed"] * steps
        lines.append([label(row), *shown])
    return _table([TITLES[figure], "average", *(f"+{k}" for k in range(1, steps))], lines)


def _intervals(content: Content) -> list[str]:
    """Return how often the intervals of every model held, how wide they are, what they lose."""
    levels = content["quantiles"]
    found = [row["intervals"] for row in content["rows"] if row.get("intervals")]
    if not found:
        return []
    steps = len(found[0]["online"]["coverage"])
    lines = []
    for row in content["rows"]:
        known = row.get("intervals")
        cells = [("coverage", k) for k in range(steps)] + [("width", 0), ("pinball", 0)]
        lines.append([row["model"], *(_pair(known, *c) if known else "–" for c in cells)])
    head = [interval_name(levels), "coverage %", *(f"+{k}" for k in range(1, steps))]
    return [
        *([content["sureness"]] if content["sureness"] else []),
        _table([*head, "width", "pinball"], lines),
        "Each cell is static / online: set once on validation, or corrected at every origin with "
        f"what had come by then. {_wanted(levels)}Width and pinball loss are in units of the "
        "data; lower is better.",
    ]


def _wanted(levels: Sequence[float]) -> str:
    if len(levels) == 1:
        return ""
    aim = f"{100 * (levels[-1] - levels[0]):g}"
    return (
        f"Coverage is the share of values within the interval: {aim} % is wanted, no more and no "
        "less, and of two that have it the narrower says more. "
    )


def _pair(known: Content, figure: str, k: int) -> str:
    """Return a figure of both forms: `78.9 / 80.2`."""
    means = [known[form][figure][k]["mean"] for form in ("static", "online")]
    return " / ".join(show_mean(mean, figure) for mean in means)


def show_mean(mean: float | None, figure: str) -> str:
    """Return a figure of intervals without its deviation: `80.2`."""
    if mean is None:
        return "n/a"
    if figure == "coverage":
        return f"{100 * mean:.1f}"
    return show({"mean": mean, "deviation": None}, figure)


def _costs(rows: Iterable[Content], weather: str) -> str:
    head = ["", "MAE", "WAPE %", "terms", "MAPE terms", "trainings", "parameters"]
    lines = []
    for row in rows:
        figures = [show(row["weather"][weather][f][0], f) for f in ("mae", "wape")]
        counts = [row["terms"], row["mape_terms"], len(row["seeds"]), row["parameters"]]
        costs = [_brief(row["seconds"]), _brief(row["milliseconds"])]
        lines.append([row["model"], *figures, *(f"{count:,}" for count in counts), *costs])
    return _table([*head, "training s", "forecast ms"], lines)


def _weathers(rows: Iterable[Content], weathers: list[str]) -> str:
    """Return the averages with each knowledge of the coming weather."""
    columns = [(weather, figure) for weather in weathers for figure in ("rmse", "mape")]
    lines = [[r["model"], *(show(r["weather"][w][f][0], f) for w, f in columns)] for r in rows]
    return _table(["coming weather", *(f"{w}: {TITLES[f]}" for w, f in columns)], lines)


def _differences(content: Content) -> list[str]:
    if not content["differences"]:
        return []
    lines = [
        [name, *(_interval(found[figure]) for figure in ("rmse", "mape"))]
        for name, found in content["differences"].items()
    ]
    note = (
        "Differences are paired over days (block bootstrap, 95 % interval); + is a larger error."
    )
    return [_table([f"against {content['against']}", "RMSE", "MAPE"], lines), note]


def _failures(rows: Iterable[Content]) -> list[str]:
    lines = [
        f"- {row['model']}, {what}: {' '.join(reason.split())}"
        for row in rows
        for what, reason in row["failures"].items()
    ]
    return ["\n".join(["Failed:", "", *lines])] if lines else []


def _flat(row: Content) -> list[dict[str, Any]]:
    """Return the lines of a model in CSV."""
    failures = "; ".join(f"{what}: {reason}" for what, reason in row["failures"].items())
    named = {"model": row["model"], "chosen": label(row).removeprefix(row["model"]).strip(" ()")}
    if not row["seeds"]:
        return [{**named, "failures": failures}]
    costs = ("terms", "mape_terms", "parameters", "seconds", "milliseconds")
    lines: list[dict[str, Any]] = []
    for weather, figures in row["weather"].items():
        line: dict[str, Any] = {**named, "weather": weather, "trainings": len(row["seeds"])}
        line |= _spread_cells(figures)
        if not lines:  # quantiles are of the first weather
            for form, known in row["intervals"].items():
                line |= _spread_cells(known, f"{form}_")
        lines.append({**line, **{name: row[name] for name in costs}, "failures": failures})
    return lines


def _spread_cells(figures: Content, prefix: str = "") -> dict[str, float | None]:
    """Return figures with their deviations by name: `rmse`, `rmse_deviation`, `rmse_1`."""
    cells: dict[str, float | None] = {}
    for figure, spreads in figures.items():
        for k, spread in enumerate(spreads):
            name = f"{prefix}{figure}_{k}" if k else f"{prefix}{figure}"
            cells[name] = _scaled(spread["mean"], figure)
            cells[f"{name}_deviation"] = _scaled(spread["deviation"], figure)
    return cells


def _scaled(value: float | None, figure: str) -> float | None:
    return None if value is None else value * (100 if figure in PERCENT else 1)


def _brief(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004


def _interval(found: Content | None) -> str:
    if found is None:
        return "–"
    value, low, high = (100 * found[part] for part in ("value", "low", "high"))
    return f"{value:+.1f} % ({low:+.1f} … {high:+.1f})"


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))
