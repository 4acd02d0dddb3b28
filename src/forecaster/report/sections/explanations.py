"""The section on explanations: the past steps and locations that determined a forecast."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from forecaster.errors import DataError, count_of
from forecaster.estimators.base import Estimator
from forecaster.evaluation.backtest import BacktestResult, targets
from forecaster.evaluation.tables import MISSING
from forecaster.explain.case import EXPLAINABLE
from forecaster.explain.explain import explain_forecast
from forecaster.explain.explanation import (
    Explanation,
    LocationEffect,
    StepEffect,
    name_method,
)
from forecaster.panel.panel import Panel
from forecaster.report.data import ReportData
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, GREEN, ORANGE, WIDTH
from forecaster.report.draw.charts import shorten
from forecaster.report.formatting import join_names, number, percent, with_minus
from forecaster.report.sections.forecasts import Period, typical_period, worst_period
from forecaster.report.sections.section import Picture, Section

WEEK_DAYS, YEAR_DAYS = 7, 365
MOST_NEIGHBOURS = 8  # that are drawn
MOST_LABELS = 9  # below the past steps, which then stand apart
MOST_NUMBERS = 4  # intervals of an axis beside long names
MOST_STEPS = 7  # ahead, whose values are all written
GAP = 1.5  # width in bars between steps that are days apart
NAME_INCHES, ROW_INCHES = 0.24, 0.17  # heights of a location, and of a second line of its name
# A method has one colour in every picture.
METHOD_COLOURS = {"attention": GREEN, "gradient": BLUE, "ablation": ORANGE}


@dataclass(frozen=True)
class ExplainedForecast:
    """A forecast to explain: its origin, its location and a title with the reason."""

    name: str
    title: str
    origin: int  # a step of the panel
    location: int


def explanation_section(data: ReportData) -> Section:
    """Explain a few forecasts of the first model for which explanations are available."""
    text = (
        "The past steps and the locations that determined a forecast, relative to what is usual "
        "at their times: by attention (if the model has it), by gradient and by ablation."
    )
    row = next((row for row in data.drawn if row.estimator in EXPLAINABLE), None)
    if row is None:
        return Section("explanations", "Explanations", text, [])
    estimator = data.estimator_of(row)
    cases: dict[tuple[int, int], ExplainedForecast] = {}
    for case in _choose_cases(data, estimator, row.first):
        cases.setdefault((case.origin, case.location), case)  # the busiest may be the worst
    explained = dict(_explain_cases(data.panel, estimator, list(cases.values())))
    pictures = [_picture(case, explanation) for case, explanation in explained.items()]
    city_wide = {case.title: city_wide_sentence(e) for case, e in explained.items()}
    facts = {
        "City-wide part": city_wide,
        "Agreement of the methods": _list_agreement(list(explained.values())),
    }
    summary = f"{count_of(len(pictures), 'forecast')}: the past and the places that made them."
    title = f"Explanations of {row.name}"
    return Section("explanations", title, text, pictures, facts, summary=summary)


def explanation_sentences(explanation: Explanation) -> list[str]:
    """Summarise an explanation in three sentences: the forecast, past steps, locations."""
    sentences = _describe_forecast, _describe_steps, _describe_locations
    return [with_minus(describe(explanation)) for describe in sentences]


def explanation_title(explanation: Explanation) -> tuple[str, str]:
    """Return what is explained, and whose forecast of when it is."""
    origin_text = explanation.origin_local[:16].replace("T", " ")
    ahead = count_of(len(explanation.forecast), explanation.step)
    return (
        f"Why this forecast? {shorten(explanation.name)}",
        f"{explanation.estimator}, made {origin_text} for the next {ahead.removeprefix('1 ')}",
    )


def city_wide_sentence(explanation: Explanation) -> str:
    """Describe the influence through layers that see all locations at once."""
    part = explanation.city_wide
    if not part.places:
        return "Other locations have no influence through city-wide layers."
    names = [f"{place.name} ({_signed(place.gradient)})" for place in part.places[:3]]
    largest = f", mostly of {join_names(names)}" if names else ""
    return with_minus(
        f"{percent(part.share)} of the influence of other locations passes through layers that "
        f"see all locations at once{largest}; in total {_signed(part.ablation)}, by ablation."
    )


def draw_explanation(explanation: Explanation) -> Any:
    """Draw the shares of the past steps, and below them the effects of the neighbours."""
    neighbours = explanation.neighbours[:MOST_NEIGHBOURS]
    rows = [explanation.own, *neighbours]
    names = [f"{shorten(explanation.own.name)} (itself)"]
    names += [_source_lines(shorten(place.name), place, explanation.step) for place in neighbours]
    height = NAME_INCHES * len(rows) + ROW_INCHES * sum("\n" in name for name in names)
    figure = canvas.new_figure(WIDTH, 3.0 + 0.9 + height)
    above, below = figure.subfigures(2, 1, height_ratios=[2.6, 0.7 + height])
    canvas.write_title(figure, *explanation_title(explanation))
    _draw_steps(above.subplots(), explanation)  # full width, however long the names below are
    _draw_locations(below.subplots(), rows, names, city_wide=bool(explanation.city_wide.places))
    return figure


def _describe_forecast(explanation: Explanation) -> str:
    """Give the forecast, and the forecast from a usual history."""
    steps = explanation.forecast
    forecast = _join_steps([number(s.y_hat) if s.is_open else "closed" for s in steps])
    usual = _join_steps([number(s.usual) if s.is_open else "closed" for s in steps])
    return f"Forecast: {forecast}; with usual past values: {usual}."


def _join_steps(texts: Sequence[str]) -> str:
    """Join the values of steps ahead, of many the first and the last: `5 → 7 → 4 → … → 9`."""
    shown = [*texts[:3], "…", texts[-1]] if len(texts) > MOST_STEPS else texts
    return " → ".join(shown)


def _describe_steps(explanation: Explanation) -> str:
    names = {
        "recent": "recent steps",
        "days": "days before",
        "weeks": "weeks before",
        "years": "years before",
    }
    parts = [f"{names.get(n, n)} ({percent(share)})" for n, share in explanation.groups.items()]
    largest = max(explanation.hours, key=lambda hour: hour.share)
    shares = f"{join_names(parts)}, most {{}} {largest.lag} ({percent(largest.share)})"
    if explanation.shares_by != "attention":
        return f"By ablation the forecast depends on {shares.format('on')}."
    lags = (hour.lag for hour in explanation.hours)
    share, lag = max(zip(explanation.ablation_shares, lags, strict=True))
    return (
        f"Attention goes to {shares.format('to')}; by ablation {lag} has the largest effect "
        f"({percent(share)})."
    )


def _describe_locations(explanation: Explanation) -> str:
    effect = f"The location's own past contributes {_signed(explanation.own.gradient)}"
    if not explanation.neighbours:
        return f"{effect}; no other location contributes."
    names = [
        f"{_source_name(place.name, place, explanation.step)} ({_signed(place.gradient)})"
        for place in explanation.neighbours[:3]
    ]
    return f"{effect}; the largest contributions of others are {join_names(names)}."


def _source_name(name: str, place: LocationEffect, step: str) -> str:
    """Return a name with the delays of its edges: `Zone A, 1 and 3 hours earlier`."""
    if not place.delays:
        return name
    *earlier, last = place.delays
    return f"{name}, {join_names([*map(str, earlier), count_of(last, step)])} earlier"


def _source_lines(name: str, place: LocationEffect, step: str) -> str:
    """Return a name, and its delays in a line of their own, so that long ones leave room."""
    delays = _source_name("", place, step).removeprefix(", ")
    return f"{name}\n{delays}" if delays else name


def _signed(value: float) -> str:
    """Format a contribution: `+0.266`, `-1,153`."""
    return f"{'-' if value < 0 else '+'}{number(abs(value))}"


def _draw_steps(axes: Any, explanation: Explanation) -> None:
    """Draw the shares of past steps as bars, and a second method as dots."""
    hours, method = explanation.hours, explanation.shares_by
    days = _season_days(hours)
    at = np.arange(len(hours)) + GAP * np.cumsum(np.diff(days, prepend=days[0]) != 0)
    second_method = "ablation" if method == "attention" else "gradient"
    effects = np.abs([getattr(hour, second_method) for hour in hours])
    shares = np.array([hour.share for hour in hours])
    axes.bar(at, 100 * shares, width=0.9, color=METHOD_COLOURS[method], label=method)
    second_shares = 100 * effects / max(float(effects.sum()), 1e-12)
    axes.plot(at, second_shares, "o", color=METHOD_COLOURS[second_method], markersize=4,
              markeredgecolor="white", label=second_method)  # fmt: skip
    ticks = {_days_earlier(day): at[days == day].mean() for day in dict.fromkeys(days.tolist())}
    if len(ticks) == 1:  # recent steps only: each is labelled
        ticks = {hour.lag: x for hour, x in zip(hours, at, strict=True)}
    every = -(-len(ticks) // MOST_LABELS)
    shown = list(ticks.items())[::-1][::every][::-1]  # the last one is the latest step
    axes.set_xticks([x for _, x in shown], [label for label, _ in shown])
    across = "how much earlier" if np.ptp(days) else f"past {explanation.step}s"
    canvas.style(axes, across, "share of the influence, %")
    _write_legend(axes, 2)


def _draw_locations(
    axes: Any, rows: Sequence[LocationEffect], names: Sequence[str], *, city_wide: bool
) -> None:
    """Draw the effect of each location by gradient and by ablation.

    With a city-wide part, also by ablation without holding that part fixed.
    """
    at = np.arange(len(rows), dtype=np.float64)
    by_gradient, by_ablation = (METHOD_COLOURS[name] for name in ("gradient", "ablation"))
    axes.barh(at, [row.gradient for row in rows], height=0.7, color=by_gradient, label="gradient")
    axes.plot([row.ablation for row in rows], at, "o", color=by_ablation, markersize=5,
              markeredgecolor="white", label="ablation")  # fmt: skip
    if city_wide:
        axes.plot([row.ablation_free for row in rows], at, "D", color=by_ablation, markersize=6,
                  markerfacecolor="none", label="ablation incl. city-wide")  # fmt: skip
    axes.axvline(0, color=FAINT, linewidth=0.8)
    axes.locator_params(axis="x", nbins=MOST_NUMBERS)
    canvas.style_rows(axes, at, names, "contribution to the forecast")
    _write_legend(axes, 3)


def _write_legend(axes: Any, columns: int) -> None:
    """Write the methods above the axes, bars first."""
    handles, _ = axes.get_legend_handles_labels()
    order = np.argsort([not hasattr(handle, "patches") for handle in handles], kind="stable")
    canvas.write_legend(axes.figure, [handles[n] for n in order], columns)


def _season_days(steps: Sequence[StepEffect]) -> Int64[np.ndarray, " L"]:
    """Return by how many days past steps are earlier, whole weeks or years for those groups.

    Where closed steps are skipped, steps of one week lie a few days nearer or further.
    """
    units = {"weeks": WEEK_DAYS, "years": YEAR_DAYS}
    days = [(step.days, units.get(step.group, 1)) for step in steps]
    return np.array([unit * max(round(day / unit), min(day, 1)) for day, unit in days])


def _days_earlier(days: int) -> str:
    """Abbreviate how much earlier a step is: `now`, `2 d`, `3 w`, `1 y`."""
    if not days:
        return "now"
    for unit, length in (("y", YEAR_DAYS), ("w", WEEK_DAYS)):
        if days % length == 0:
            return f"{days // length} {unit}"
    return f"{days} d"


def _explain_cases(
    panel: Panel, estimator: Estimator, cases: Sequence[ExplainedForecast]
) -> Iterator[tuple[ExplainedForecast, Explanation]]:
    """Yield each case with its explanation; skip those without future weather in the panel."""
    for case in cases:
        at, location = f"{panel.times[case.origin]}Z", panel.locations.ids[case.location]
        try:
            yield case, explain_forecast(estimator, panel, at, location)
        except DataError:
            continue


def _choose_cases(
    data: ReportData, estimator: Estimator, assessment: BacktestResult
) -> Iterator[ExplainedForecast]:
    """Yield the busiest location and a hub in a typical week, and the largest error of all."""
    panel, graph = data.panel, data.graph
    sums = assessment.by_location
    sizes = sums.sizes.sum(axis=0) / np.maximum(sums.values.sum(axis=0), 1)
    busiest, period = int(np.argmax(sizes)), typical_period(assessment, panel)[0]
    busiest_case = "31-why-busiest", "busiest location", busiest
    yield _busiest_hour(panel, assessment, period, busiest_case)
    yield _largest_error(panel, estimator, assessment)
    if graph is not None and len(graph):
        hub = panel.locations.ids.index(graph.locations.ids[int(np.argmax(graph.degrees))])
        role = "most sources of the graph" if graph.is_directed else "hub of the graph"
        if hub != busiest:
            yield _busiest_hour(panel, assessment, period, ("33-why-hub", role, hub))


def _busiest_hour(
    panel: Panel, assessment: BacktestResult, period: Period, subject: tuple[str, str, int]
) -> ExplainedForecast:
    """Return the forecast before the largest values of a location within a period.

    Args:
        panel: the observed values.
        assessment: the tested origins.
        period: the days to look at.
        subject: name of the picture, description and index of the location.
    """
    name, description, location = subject
    origins = _tested_origins(panel, assessment)[_origins_within(assessment, period)]
    observed = targets(panel, origins, assessment.by_location.values.shape[0])[:, :, location]
    origin = int(origins[np.argmax(np.nan_to_num(observed).sum(axis=1))])
    title = f"{shorten(panel.locations.names[location])}, {description}"
    return ExplainedForecast(name, title, origin, location)


def _largest_error(
    panel: Panel, estimator: Estimator, assessment: BacktestResult
) -> ExplainedForecast:
    """Return the forecast with the largest error, from the worst origin of the worst day."""
    inside = _origins_within(assessment, worst_period(assessment, panel))
    squares = assessment.errors[assessment.weather].squares.sum(axis=1)
    origin = _tested_origins(panel, assessment)[[int(np.argmax(np.where(inside, squares, -1.0)))]]
    forecast = estimator.predict(panel, origin, assessment.weather)[0]
    errors = np.abs(forecast - targets(panel, origin, len(forecast))[0])
    location = int(np.argmax(np.nan_to_num(errors).sum(axis=0)))
    title = f"{shorten(panel.locations.names[location])}, largest error"
    return ExplainedForecast("32-why-worst", title, int(origin[0]), location)


def _list_agreement(explanations: Sequence[Explanation]) -> dict[str, str]:
    """Return the rank correlation of each pair of methods, one value per explained forecast."""
    values: dict[str, list[str]] = {}
    for agreement in (a for explanation in explanations for a in explanation.agreement):
        correlation = agreement.correlation
        text = MISSING if correlation is None else with_minus(f"{correlation:.2f}")
        methods = " and ".join(map(name_method, agreement.methods))
        values.setdefault(f"{agreement.of}: {methods}", []).append(text)
    correlations = {methods: " · ".join(texts) for methods, texts in values.items()}
    legend = "1: same order, 0: unrelated; one value per forecast, in the order above"
    return {"rank correlation": legend} | correlations


def _picture(case: ExplainedForecast, explanation: Explanation) -> Picture:
    origin = explanation.origin_local[:16].replace("T", " ")
    text = f"Forecast origin {origin}. {' '.join(explanation_sentences(explanation))}"
    alt = f"Bar charts of the shares of past {explanation.step}s and of contributions by location"
    return Picture(case.name, case.title, text, alt, draw_explanation(explanation))


def _tested_origins(panel: Panel, assessment: BacktestResult) -> Int64[np.ndarray, " B"]:
    """Return the tested origins as steps of the panel."""
    return panel.step_index(assessment.origins)


def _origins_within(assessment: BacktestResult, period: Period) -> Bool[np.ndarray, " B"]:
    """Return a mask of the windows that begin within a period; of all, if none does."""
    days = assessment.days
    inside = (days >= period.first) & (days < period.first + period.days)
    return np.asarray(inside if inside.any() else np.ones_like(inside))
