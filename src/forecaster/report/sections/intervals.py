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
from forecaster.report.data import ReportData
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, INK, ORANGE, WIDTH
from forecaster.report.draw.charts import both_ends, draw_breakdown, shorten
from forecaster.report.draw.maps import location_means, map_values
from forecaster.report.draw.sample import describe_shown
from forecaster.report.formatting import duration, join_names, number, percent_range, tenth_percent
from forecaster.report.groups import (
    FEWEST_STEPS,
    Breakdown,
    Grouping,
    group_by_hour,
    group_by_steps,
    group_by_weather,
    ratio,
)
from forecaster.report.sections.errors import MOST_COVARIATES
from forecaster.report.sections.section import Picture, Section
from forecaster.report.tables import interval_table

TOLERANCE = 0.02  # a coverage within ± this of the nominal one is shaded as calibrated
LEAST_REACH = 0.04  # of the axis, to either side: a small difference must not look large
FEW_LABELS = 6  # of groups, in letters of the usual size
MOST_LABELS = 9  # of groups, below the bars: hours of the first day and six days
BAR = 0.8  # share of a group's room that its bars fill
HOUR = "hour of day, local time"
LABEL = "coverage, %"
COLOURS: dict[CalibrationMode, str] = {"static": ORANGE, "online": BLUE}

Shares = Float64[np.ndarray, " G"]


@dataclass(frozen=True, eq=False)
class Coverage:
    """The share of observed values within a model's intervals, by group of target steps."""

    labels: tuple[str, ...]
    steps: Int64[np.ndarray, " G"]  # number of target steps in each group
    shares: Mapping[CalibrationMode, Shares]  # mean over trainings

    @property
    def contrast(self) -> float:
        """The largest difference of the online coverage between groups."""
        return float(np.ptp(self.shares["online"]))


def interval_section(data: ReportData) -> Section:
    """Return the coverage of the recommended model's intervals; empty if it has none."""
    title, best, summary = "Prediction intervals", data.best, data.comparison.interval_verdict
    if best is None or summary is None:
        return Section("intervals", title, "", [])
    scores = interval_scores_of(best)[0]
    nominal = f"{100 * scores.nominal_coverage:g} %"
    text = (
        f"{summary} An interval that covers more than {nominal} is too wide, one that covers less "
        "is too narrow. Static intervals are calibrated once, on validation; online intervals "
        "are recalibrated at every forecast origin with the values observed until then."
    )
    if np.isfinite(scores.by_window["online"].overlaps).all():
        text += " The charts spread every count evenly over ± ½."
    coverage = coverage_by_group(best, group_by_steps(best.first, data.panel))
    pictures = list(_pictures(data, best, scores))
    table, reading = interval_table(data.comparison), _describe_ranges(coverage)
    return Section("intervals", title, text, pictures, table=table, summary=reading)


def interval_scores_of(row: ModelResult) -> list[IntervalResults]:
    """Return the interval scores of each training; empty for models without intervals."""
    scores = [assessment.interval_results for assessment in row.results.values()]
    return [s for s in scores if s is not None and s.nominal_coverage > 0]


def coverage_by_group(row: ModelResult, grouping: Grouping) -> Coverage:
    """Return Σ covered / Σ spans of every group in which something was observed."""
    shares = {form: _mean_by_group(row, form, grouping, "covered") for form in CALIBRATION_MODES}
    observed = np.flatnonzero(np.isfinite(shares["online"]))
    labels = tuple(grouping.labels[g] for g in observed)
    by_form = {form: shares[form][observed] for form in CALIBRATION_MODES}
    return Coverage(labels, grouping.steps[observed], by_form)


def coverage_by_weather(row: ModelResult, panel: Panel) -> dict[str, Coverage]:
    """Return the coverage by low and high values of each covariate, largest contrast first."""
    coverages = {}
    for name, grouping in group_by_weather(row.first, panel).items():
        coverage = coverage_by_group(row, grouping)
        if len(coverage.labels) > 1 and coverage.steps.min() >= FEWEST_STEPS:
            coverages[name] = coverage
    ranked = sorted(coverages, key=lambda name: -coverages[name].contrast)
    return {name: coverages[name] for name in ranked[:MOST_COVARIATES]}


def coverage_by_location(row: ModelResult) -> Float64[np.ndarray, " N"]:
    """Return the online coverage of each location over all steps; NaN without observations."""
    sums = [scores.by_location["online"] for scores in interval_scores_of(row)]
    trainings = [ratio(part.covered.sum(axis=0), part.spans.sum(axis=0)) for part in sums]
    return np.asarray(np.mean(trainings, axis=0))


def widths_by_group(rows: Sequence[ModelResult], grouping: Grouping) -> Breakdown:
    """Return the mean online width Σ widths / Σ spans of every group with observations."""
    widths = {row.name: _mean_by_group(row, "online", grouping, "widths") for row in rows}
    observed = np.flatnonzero(np.isfinite(next(iter(widths.values()))))
    labels = tuple(grouping.labels[g] for g in observed)
    by_model = {name: width[observed] for name, width in widths.items()}
    return Breakdown(labels, grouping.steps[observed], by_model)


def _mean_by_group(
    row: ModelResult, form: CalibrationMode, grouping: Grouping, part: str
) -> Shares:
    """Return Σ part / Σ spans by group, the mean over trainings."""
    sums: list[IntervalSums] = [scores.by_window[form] for scores in interval_scores_of(row)]
    trainings = [ratio(grouping.sum(getattr(s, part)), grouping.sum(s.spans)) for s in sums]
    return np.asarray(np.mean(trainings, axis=0))


def draw_coverage_by_group(coverage: Coverage, nominal: float, axis: str) -> Any:
    """Draw upright bars from the nominal to the actual coverage.

    Args:
        coverage: the shares of each group.
        nominal: the share that should lie within.
        axis: what the groups are.
    """
    figure = canvas.new_figure(WIDTH, canvas.HEIGHT)
    axes = figure.subplots()
    at = np.arange(len(coverage.labels))
    width = BAR / len(coverage.shares)
    for n, (form, shares) in enumerate(coverage.shares.items()):
        centres = at + (n + 0.5) * width - BAR / 2
        excess = 100 * (shares - nominal)
        axes.bar(centres, excess, width, bottom=100 * nominal, color=COLOURS[form], label=form)
    _mark_nominal(axes.axhspan, axes.axhline, nominal)
    axes.set_ylim(*_limits(coverage.shares, nominal))
    every = 1 if len(coverage.labels) <= MOST_LABELS else 3
    axes.set_xticks(at[::every], coverage.labels[::every])
    canvas.style(axes, axis, LABEL)
    if FEW_LABELS < len(coverage.labels) <= MOST_LABELS:
        axes.tick_params(axis="x", labelsize=canvas.TEXT - 2.5)
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
    shares: Mapping[CalibrationMode, Shares],
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


def _limits(shares: Mapping[CalibrationMode, Shares], nominal: float) -> tuple[float, float]:
    """Return the limits of the axis: symmetric around the nominal coverage, within 0 … 100."""
    furthest = max(float(np.abs(s - nominal).max(initial=0)) for s in shares.values())
    reach = 1.1 * max(furthest, LEAST_REACH)
    return 100 * max(nominal - reach, 0.0), 100 * min(nominal + reach, 1.0)


def _write_legend(figure: Any, axes: Any) -> None:
    handles, _ = axes.get_legend_handles_labels()
    canvas.write_legend(figure, handles, columns=3)


def _pictures(data: ReportData, best: ModelResult, scores: IntervalResults) -> Iterator[Picture]:
    panel, nominal = data.panel, scores.nominal_coverage
    interval = f"the {interval_name(scores.levels)} of {best.name}"
    alt = f"Bar chart of the coverage of {interval}, static and online, by"
    steps = f"steps of {duration(panel.clock.step_minutes)} ahead"
    by_step = coverage_by_group(best, group_by_steps(best.first, panel))
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


def _by_location(data: ReportData, best: ModelResult, nominal: float) -> Iterator[Picture]:
    panel, shares = data.panel, coverage_by_location(best)
    observed = np.flatnonzero(np.isfinite(shares))
    if len(observed) < 2:  # noqa: PLR2004 (nothing to compare)
        return
    low, high = (int(observed[find(shares[observed])]) for find in (np.argmin, np.argmax))
    ends = [f"{tenth_percent(shares[n])} at {panel.locations.names[n]}" for n in (low, high)]
    quartiles = np.quantile(shares[observed], [0.25, 0.75]).tolist()
    middle = " and ".join(tenth_percent(quartile) for quartile in quartiles)
    text = f"Online coverage ranges from {ends[0]} to {ends[1]}; half of the locations are "
    text += f"between {middle}."
    text += " Blue: below nominal; orange: above." if panel.locations.placed.any() else ""
    count = int((panel.locations.placed & np.isfinite(shares)).sum())
    text = f"{text} {describe_shown(count, 'the coverage farthest from nominal')}".rstrip()
    sizes = np.abs(location_means(panel))
    figure = draw_coverage_by_location(panel.locations, shares, sizes, nominal)
    alt = f"Map or bar chart of the coverage of the interval of {best.name} by location"
    yield Picture("23-coverage-by-location", "Coverage by location", text, alt, figure)


def _widths(data: ReportData, best: ModelResult) -> Picture:
    """Return the mean interval width of the drawn models, by hour or else by step."""
    rows = [row for row in data.drawn if interval_scores_of(row)]
    hours = group_by_hour(best.first, data.panel)
    axis = HOUR if hours is not None else "step ahead"
    steps = group_by_steps(best.first, data.panel)
    widths = widths_by_group(rows, steps if hours is None else hours)
    alt = f"Line chart of the mean interval width by {axis} for "
    alt += join_names([row.name for row in rows])
    figure = draw_breakdown(widths, axis, f"mean width, {data.unit}")
    text = _describe_widths(widths, best)
    return Picture("24-interval-width", "Interval width", text, alt, figure)


def _describe_widths(widths: Breakdown, best: ModelResult) -> str:
    low, high = int(np.argmin(widths.first)), int(np.argmax(widths.first))
    narrowest, widest = (f"({number(widths.first[n])}) at {widths.labels[n]}" for n in (low, high))
    return (
        f"The interval of {best.name} is narrowest {narrowest} and widest {widest}: mean width, "
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
    lowest, highest = (f"{tenth_percent(shares[n])} at {coverage.labels[n]}" for n in (low, high))
    return f"Online coverage is lowest with {lowest} and highest with {highest}."


def _describe_weather(coverages: dict[str, Coverage]) -> str:
    """Name the covariate with the largest contrast."""
    name, coverage = next(iter(coverages.items()))
    pairs = zip(coverage.shares["online"], coverage.labels, strict=True)
    parts = [f"{tenth_percent(share)} where {label}" for share, label in pairs]
    return (
        f"Online coverage differs most by {name}: {join_names(parts)}. "
        "Number of steps in brackets."
    )
