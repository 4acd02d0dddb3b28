"""The section on prediction intervals: coverage and width by time, weather and location."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.evaluation.backtest import CALIBRATION_MODES, CalibrationMode, IntervalResults
from forecaster.evaluation.comparison import ModelResult
from forecaster.evaluation.tables import interval_name
from forecaster.metrics import IntervalSums
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, INK, ORANGE, WIDTH
from forecaster.report.draw.charts import CROWDED, both_ends, draw_breakdown, shorten
from forecaster.report.draw.maps import location_means, map_values
from forecaster.report.formatting import duration, join_names, number, percent_range, tenth_percent
from forecaster.report.groups import (
    Breakdown,
    Grouping,
    group_by_hour,
    group_by_step,
    ratio,
)
from forecaster.report.sections.errors import MOST_COVARIATES
from forecaster.report.sections.section import Picture, Section
from forecaster.report.tables import interval_table

TOLERANCE = 0.02  # a coverage within ± this of the nominal one is shaded as calibrated
LEAST_REACH = 0.04  # of the axis, to either side: a small difference must not look large
BAR = 0.8  # share of a group's room that its bars fill
HOUR = "hour of day, local time"
LABEL = "coverage, %"
COLOURS: dict[Form, str] = {"static": ORANGE, "online": BLUE}

Shares = Float64[np.ndarray, " G"]


@dataclass(frozen=True, eq=False)
class Coverage:
    """The share of observed values within a model's intervals, by group of target steps."""

    labels: tuple[str, ...]
    steps: Int64[np.ndarray, " G"]  # how many target steps there are in each group
    shares: Mapping[CalibrationMode, Shares]  # the mean over trainings

    @property
    def contrast(self) -> float:
        """The largest difference of the online coverage between groups."""
        return float(np.ptp(self.shares["online"]))


def interval_results_of(row: ModelResult) -> list[IntervalResults]:
    """Return what became of the intervals in each training; none if they are none."""
    each = [found.interval_results for found in row.results.values()]
    return [known for known in each if known is not None and known.nominal_coverage > 0]


def coverage_by_group(row: ModelResult, grouping: Grouping) -> Coverage:
    """Return Σ inside / Σ spans of every group in which something was observed."""
    shares = {form: _mean(row, form, grouping, "inside") for form in CALIBRATION_MODES}
    kept = np.flatnonzero(np.isfinite(shares["online"]))
    labels = tuple(grouping.labels[g] for g in kept)
    return Coverage(
        labels, grouping.steps[kept], {form: shares[form][kept] for form in CALIBRATION_MODES}
    )


def coverage_by_weather(row: ModelResult, panel: Panel) -> dict[str, Coverage]:
    """Return the shares with little and much of each covariate, what differs most first."""
    found = {}
    for name, grouping in group_weather(row.first, panel).items():
        parted = coverage_by_group(row, grouping)
        if len(parted.labels) > 1 and parted.steps.min() >= FEWEST:
            found[name] = parted
    ranked = sorted(found, key=lambda name: -found[name].contrast)
    return {name: found[name] for name in ranked[:MOST_COVARIATES]}


def coverage_by_location(row: ModelResult) -> Float64[np.ndarray, " N"]:
    """Return the share of each location, online and over all steps; NaN without any value."""
    sums = [known.by_location["online"] for known in interval_results_of(row)]
    each = [ratio(part.inside.sum(axis=0), part.spans.sum(axis=0)) for part in sums]
    return np.asarray(np.mean(each, axis=0))


def widths_by_group(rows: Sequence[ModelResult], grouping: Grouping) -> Breakdown:
    """Return the mean width Σ widths / Σ spans, online, of every group in which there is any."""
    widths = {row.name: _mean(row, "online", grouping, "widths") for row in rows}
    kept = np.flatnonzero(np.isfinite(next(iter(widths.values()))))
    labels = tuple(grouping.labels[g] for g in kept)
    return Breakdown(labels, grouping.steps[kept], {n: w[kept] for n, w in widths.items()})


def _mean(row: ModelResult, form: CalibrationMode, grouping: Grouping, part: str) -> Shares:
    """Return a part of the sums for each interval, the mean over trainings."""
    sums: list[IntervalSums] = [known.by_window[form] for known in interval_results_of(row)]
    each = [ratio(grouping.sum(getattr(s, part)), grouping.sum(s.spans)) for s in sums]
    return np.asarray(np.mean(each, axis=0))


TOLERANCE = 0.02  # to either side of what is wanted: the ground that is shaded
LEAST_REACH = 0.04  # of the axis, to either side: a small difference must not look large
BAR = 0.8  # of the room of a group that its bars fill
LABEL = "within the interval, %"
COLOURS: dict[CalibrationMode, str] = {"static": ORANGE, "online": BLUE}

SharesByForm = Mapping[CalibrationMode, Float64[np.ndarray, " G"]]


def draw_coverage_by_group(given: Coverage, wanted: float, what: str) -> Any:
    """Return bars that reach from what is wanted to what came within, upright.

    Args:
        coverage: the shares of each group.
        nominal: the share that should lie within.
        axis: what the groups are.
    """
    figure = canvas.new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    at = np.arange(len(coverage.labels))
    width = BAR / len(coverage.shares)
    for n, (form, shares) in enumerate(coverage.shares.items()):
        centres = at + (n + 0.5) * width - BAR / 2
        excess = 100 * (shares - nominal)
        axes.bar(centres, excess, width, bottom=100 * nominal, color=COLOURS[form], label=form)
    _mark_nominal(axes.axhspan, axes.axhline, nominal)
    axes.set_ylim(*_limits(coverage.shares, nominal))
    every = 1 if len(coverage.labels) <= CROWDED else 3
    axes.set_xticks(at[::every], coverage.labels[::every])
    canvas.style(axes, axis, LABEL)
    _write_legend(figure, axes)
    return figure


def draw_coverage_by_weather(coverages: Mapping[str, Coverage], nominal: float) -> Any:
    """Draw the coverage by weather, a row for each group."""
    names: list[str] = []
    at: list[float] = []
    for n, (name, coverage) in enumerate(coverages.items()):
        for label, steps in zip(coverage.labels, coverage.steps.tolist(), strict=True):
            at.append(len(names) + 0.6 * n)  # room between covariates
            names.append(f"{shorten(name)}: {label} ({steps:,})")
    forms = next(iter(coverages.values())).shares
    shares = {f: np.concatenate([c.shares[f] for c in coverages.values()]) for f in forms}
    return _draw_rows(names, np.array(at), shares, nominal)


def draw_coverage_by_location(
    locations: Locations,
    shares: Float64[np.ndarray, " N"],
    sizes: Float64[np.ndarray, " N"],
    nominal: float,
) -> Any:
    """Draw the coverage of all locations on a map, or as bars if none has coordinates.

    Args:
        locations: the sites of the panel.
        shares: the online coverage; NaN is not drawn.
        sizes: sizes of the dots, ≥ 0.
        nominal: the share that should lie within.
    """
    observed = np.flatnonzero(np.isfinite(shares))
    order = observed[np.argsort(shares[observed], kind="stable")].tolist()  # lowest first
    if locations.placed.any():
        return map_values(locations, 100 * shares, sizes, LABEL, order, around=100 * nominal)
    shown = both_ends(order)
    names = [shorten(locations.names[n]) for n in shown]
    at = np.arange(len(shown), dtype=np.float64)
    return _draw_rows(names, at, {"online": shares[shown]}, nominal)


def _draw_rows(
    names: Sequence[str],
    at: Float64[np.ndarray, " G"],
    shares: Mapping[Form, Shares],
    nominal: float,
) -> Any:
    figure = canvas.new_figure(WIDTH, 1.1 + 0.24 * (float(at[-1]) + 1))
    axes = figure.subplots()
    width = BAR / len(shares)
    for n, (form, coverage) in enumerate(shares.items()):
        centres = at + (n + 0.5) * width - BAR / 2
        excess = 100 * (coverage - nominal)
        axes.barh(centres, excess, width, left=100 * nominal, color=COLOURS[form], label=form)
    _mark_nominal(axes.axvspan, axes.axvline, nominal)
    axes.set_xlim(*_limits(shares, nominal))
    canvas.style_rows(axes, at, names, LABEL)
    _write_legend(figure, axes)
    return figure


def _mark_nominal(shade: Any, rule: Any, nominal: float) -> None:
    """Draw the nominal coverage as a line and shade the tolerance around it."""
    low, high = 100 * (nominal - TOLERANCE), 100 * (nominal + TOLERANCE)
    shade(low, high, color=FAINT, alpha=0.2, linewidth=0, zorder=0)
    label = f"nominal: {100 * nominal:g} % (± {100 * TOLERANCE:g})"
    rule(100 * nominal, color=INK, linewidth=1.2, label=label)


def _limits(shares: Mapping[Form, Shares], nominal: float) -> tuple[float, float]:
    """Return the limits of the axis: symmetric around the nominal coverage, within 0 … 100."""
    furthest = max(float(np.abs(s - nominal).max(initial=0)) for s in shares.values())
    reach = 1.1 * max(furthest, LEAST_REACH)
    return 100 * max(nominal - reach, 0.0), 100 * min(nominal + reach, 1.0)


def _write_legend(figure: Any, axes: Any) -> None:
    handles, _ = axes.get_legend_handles_labels()
    canvas.write_legend(figure, handles, columns=3)


HOUR = "hour of the day, local time"


def interval_section(data: Material) -> Section:
    """Return how often the intervals of the model to use held; empty if it has none."""
    title, best, plain = "How sure", data.best, data.comparison.interval_verdict
    if best is None or plain is None:
        return Section("sure", title, "", [])
    interval_results = interval_results_of(best)[0]
    aim = f"{100 * interval_results.nominal_coverage:g} %"
    text = (
        f"{plain} If more than {aim} lies within, the interval is wider "
        "than it need be; if less, it is too sure of itself. Static intervals are set once on "
        "validation; online ones are corrected at every origin with what had come by then."
    )
    pictures = list(_pictures(data, best, interval_results))
    return Section("sure", title, text, pictures, table=interval_table(data.comparison))


def _pictures(
    data: Material, best: ModelResult, interval_results: IntervalResults
) -> Iterator[Picture]:
    panel, wanted = data.panel, interval_results.nominal_coverage
    name = f"the {interval_name(interval_results.levels)} of {best.name}"
    bars = f"Bars of how much of what came lay within {name}, static and online, by"
    steps = f"steps of {duration(panel.clock.step_minutes)} ahead"
    by_step = coverage_by_group(best, group_by_step(best.first))
    yield Picture(
        "20-coverage-steps", "Coverage by step ahead", _describe_ranges(by_step),
        f"{alt} {steps}", draw_coverage_by_group(by_step, nominal, steps),
    )  # fmt: skip
    hours = group_by_hour(best.first, panel)
    if hours is not None:
        by_hour = coverage_by_group(best, hours)
        yield Picture(
            "21-coverage-hours", "Coverage by hour of day", _describe_extremes(by_hour),
            f"{alt} {HOUR}", draw_coverage_by_group(by_hour, nominal, HOUR),
        )  # fmt: skip
    weather = coverage_by_weather(best, panel)
    if weather:
        yield Picture(
            "22-coverage-weather", "Coverage by weather", _describe_weather(weather),
            f"{alt} weather", draw_coverage_by_weather(weather, nominal),
        )  # fmt: skip
    yield from _by_location(data, best, nominal)
    yield _widths(data, best)


def _by_place(data: Material, best: ModelResult, wanted: float) -> Iterator[Picture]:
    panel, shares = data.panel, coverage_by_location(best)
    known = np.flatnonzero(np.isfinite(shares))
    if len(known) < 2:  # noqa: PLR2004 (nothing to compare)
        return
    low, high = (int(observed[find(shares[observed])]) for find in (np.argmin, np.argmax))
    ends = [f"{tenth_percent(shares[n])} at {panel.locations.names[n]}" for n in (low, high)]
    quartiles = np.quantile(shares[observed], [0.25, 0.75]).tolist()
    middle = " and ".join(tenth_percent(quartile) for quartile in quartiles)
    text = f"Online coverage ranges from {ends[0]} to {ends[1]}; half of the locations are "
    text += f"between {middle}."
    text += " Blue: below nominal; orange: above." if panel.locations.placed.any() else ""
    sizes = np.abs(location_means(panel))
    figure = draw_coverage_by_location(panel.locations, shares, sizes, nominal)
    alt = f"Map or bar chart of the coverage of the interval of {best.name} by location"
    yield Picture("23-coverage-by-location", "Coverage by location", text, alt, figure)


def _widths(data: Material, best: ModelResult) -> Picture:
    """Return how wide the intervals of the drawn models are, by hour or else by step."""
    rows = [row for row in data.drawn if interval_results_of(row)]
    hours = group_hours(best.first, data.panel)
    what = HOUR if hours is not None else "step ahead"
    widths = widths_by_group(rows, group_steps(best.first) if hours is None else hours)
    kind = f"Line chart of the mean width of the interval by {what} for "
    kind += list_names([row.name for row in rows])
    figure = draw_breakdown(widths, what, "mean width")
    return Picture("24-interval-width", "How wide it is", _extremes(widths, best), kind, figure)


def _extremes(given: Breakdown, best: ModelResult) -> str:
    low, high = int(np.argmin(given.first)), int(np.argmax(given.first))
    least, most = (f"{number(given.first[n])} at {given.labels[n]}" for n in (low, high))
    return (
        f"The interval of {best.name} is narrowest {least} and widest {most}: mean width, "
        "online. At the same coverage a narrower interval is better."
    )


def _describe_ranges(coverage: Coverage) -> str:
    """Give the range of the coverage over the groups, in both forms."""
    online, static = (percent_range(coverage.shares[f].tolist()) for f in ("online", "static"))
    return f"Coverage by step: {online} online, {static} static."


def _describe_extremes(coverage: Coverage) -> str:
    """Name the groups with the lowest and the highest coverage."""
    shares = coverage.shares["online"]
    low, high = int(np.argmin(shares)), int(np.argmax(shares))
    least, most = (f"{tenth_percent(shares[n])} at {coverage.labels[n]}" for n in (low, high))
    return f"Online coverage is lowest with {least} and highest with {most}."


def _describe_weather(coverages: dict[str, Coverage]) -> str:
    """Name the covariate with the largest contrast."""
    name, coverage = next(iter(coverages.items()))
    pairs = zip(coverage.shares["online"], coverage.labels, strict=True)
    parts = [f"{tenth_percent(share)} where {label}" for share, label in pairs]
    return (
        f"Online coverage differs most by {name}: {join_names(parts)}. "
        "Number of steps in brackets."
    )
