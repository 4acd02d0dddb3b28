"""Checks of the recommended model: arguments for and against using it, and its key figures."""

from collections.abc import Iterator

import numpy as np

from forecaster.errors import count_of, name_some
from forecaster.estimators.registry import find_estimator
from forecaster.evaluation.comparison import ModelResult
from forecaster.evaluation.tables import format_bias, interval_name
from forecaster.evaluation.verdict import SIMPLE_MODELS
from forecaster.explain.past_steps import name_step
from forecaster.graph.dependency import DependencyGraph
from forecaster.report.data import ReportData, mean_rmse
from forecaster.report.doctor.checkup import Finding, Severity
from forecaster.report.doctor.scan import location_label
from forecaster.report.formatting import (
    change,
    less_or_more,
    number,
    percent,
    percent_range,
    tenth_percent,
    too_high_or_low,
    with_minus,
)
from forecaster.report.groups import DAY_MINUTES, group_by_hour
from forecaster.report.sections.bias import overall_bias
from forecaster.report.sections.errors import location_rmse
from forecaster.report.sections.intervals import TOLERANCE, coverage_by_group

FEW_DAYS, MANY_DAYS = 7, 28  # of test
MOST_LOCATIONS, SOME_LOCATIONS = 0.9, 0.5  # share where it should beat the strongest simple model
SMALL_BIAS, LARGE_BIAS = 0.01, 0.05  # overall
SMALL_SIZE_BIAS, LARGE_SIZE_BIAS = 0.05, 0.2  # of a fifth of the locations
REPEATING = ("LastValue", "SeasonalNaive")  # models without anything fitted
WIDE = 0.05  # deviation over trainings, or increase without known weather, relative to RMSE
FAR_OFF = 0.05  # deviation from the nominal coverage that is a warning; TOLERANCE is good
MANY_MISSING = 0.1  # of the target values
FEW_TARGETS = 0.1  # share of the target values that count for MAPE
YEAR_DAYS = 365
SEVERITIES: tuple[Severity, ...] = ("warning", "note", "good")


def check_reliability(data: ReportData, best: ModelResult) -> list[Finding]:
    """Check the recommended model; the findings come with warnings first."""
    findings = [
        *_against_simple(data, best),
        *_against_next(data, best),
        _test_length(data, best),
        *_trainings(data, best),
        *_bias(best),
        *_intervals(data, best),
        _missing(data, best),
        _weather(data, best),
        _mape_targets(data, best),
        *_graph(data.graph if find_estimator(best.estimator).takes_graph else None),
        _failures(data, best),
    ]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.level))


def key_figures(data: ReportData, best: ModelResult) -> dict[str, str]:
    """Return the main figures of the recommended model, by name."""
    comparison, rival = data.comparison, data.rival
    mape = best.seed_means("mape", comparison.weathers[0])[0].mean
    dates, unit = _tested_dates(data, best)
    figures = {
        f"RMSE, all steps ahead, {data.unit}": number(mean_rmse(best, comparison)),
        f"MAPE of values ≥ {comparison.mape_cut:g}": "n/a" if mape is None else percent(mape),
    }
    difference = comparison.compare(best, rival).rmse if rival is not None else None
    if difference is not None and rival is not None:
        figures[f"RMSE relative to {_name_rival(rival, best)}"] = change(1 + difference.value)
    bias = overall_bias(best)
    if bias is not None:
        figures["bias"] = f"{format_bias(bias)} %"
    coverage = best.interval_seed_means("coverage", "online")
    if coverage and coverage[0].mean is not None:
        name = f"coverage of the {interval_name(comparison.levels)}"
        figures[name] = tenth_percent(coverage[0].mean)
    return figures | {f"test {unit}" if dates == 1 else f"test {unit}s": f"{dates:,}"}


def _tested_dates(data: ReportData, best: ModelResult) -> tuple[int, str]:
    """Return the number of tested days, weeks or months, and which of them they are."""
    dates, step = len(set(best.first.days.tolist())), name_step(data.panel.clock)
    return dates, step if data.panel.clock.step_minutes > DAY_MINUTES else "day"


def _against_simple(data: ReportData, best: ModelResult) -> Iterator[Finding]:
    """Compare the recommended model with the strongest simple one."""
    rival, topic = data.rival, "Simple models"
    if best.estimator in REPEATING:
        text = "no trained model is better than repeating past values"
        yield Finding(topic, "warning", text)
        return
    if rival is None:
        yield Finding(topic, "note", "no other simple model was tested, so there is no baseline")
        return
    difference = data.comparison.compare(best, rival).rmse
    if difference is None:
        yield Finding(topic, "note", f"too few test days to compare the model with {rival.name}")
        return
    text = f"its RMSE is {less_or_more(difference)} than that of {_name_rival(rival, best)}"
    better = difference.is_clear and difference.value < 0
    verdict = "" if better else ": not clearly better"
    yield Finding(topic, "good" if better else "warning", text + verdict)
    yield _by_location(data, best, rival)


def _name_rival(rival: ModelResult, best: ModelResult) -> str:
    """Name the strongest simple model, besides the recommended one if that is simple itself."""
    qualifier = "other " if best.estimator in SIMPLE_MODELS else ""
    return f"{rival.name}, the strongest {qualifier}simple model"


def _against_next(data: ReportData, best: ModelResult) -> Iterator[Finding]:
    """Compare the recommended model with the best of the others."""
    comparison = data.comparison
    runners_up = [row for row in comparison.tested if row.of is None and row is not best]
    runners_up = sorted(runners_up, key=lambda row: mean_rmse(row, comparison))
    difference = comparison.compare(best, runners_up[0]).rmse if runners_up else None
    if difference is None or runners_up[0] is data.rival:
        return
    text = f"its RMSE is {less_or_more(difference)} than that of {runners_up[0].name}"
    if not difference.is_clear:
        yield Finding("Next best model", "note", f"{text}: not significant")
    elif difference.value > 0:
        yield Finding("Next best model", "note", f"{text}, but it is simpler")
    else:
        yield Finding("Next best model", "good", text)


def _by_location(data: ReportData, best: ModelResult, rival: ModelResult) -> Finding:
    """Count the locations at which the model beats the strongest simple one."""
    model, baseline = location_rmse(best), location_rmse(rival)
    observed = np.isfinite(model + baseline)
    better = observed & (model < baseline)
    share = better.sum() / max(observed.sum(), 1)
    level = SEVERITIES[int(share >= SOME_LOCATIONS) + int(share >= MOST_LOCATIONS)]
    total = count_of(int(observed.sum()), "location")
    text = f"better than {rival.name} at {better.sum():,} of {total}"
    worse = [location_label(data.panel, n) for n in np.flatnonzero(observed & ~better).tolist()]
    return Finding("Locations", level, text + (f"; not at {name_some(worse, 3)}" if worse else ""))


def _test_length(data: ReportData, best: ModelResult) -> Finding:
    dates, unit = _tested_dates(data, best)
    days = dates * max(data.panel.clock.step_minutes // DAY_MINUTES, 1)
    level = SEVERITIES[int(days >= FEW_DAYS) + int(days >= MANY_DAYS)]
    text = f"tested on {count_of(dates, unit)} not used for training"
    season = "; other seasons may differ" if days < YEAR_DAYS else ""
    return Finding("Test length", level, text + season)


def _trainings(data: ReportData, best: ModelResult) -> Iterator[Finding]:
    if len(best.results) > 1:
        spread = best.seed_means("rmse", data.comparison.weathers[0])[0]
        share = (spread.deviation or 0.0) / max(spread.mean or 0.0, 1e-9)
        text = f"trained {len(best.results)} times: RMSE varies by ± {percent(share)}"
        yield Finding("Random seed", "good" if share < WIDE else "note", text)
    elif find_estimator(best.estimator).seeded:
        text = "trained once: another seed may give another error"
        yield Finding("Random seed", "note", text)


def _bias(best: ModelResult) -> Iterator[Finding]:
    """Check the bias overall, and of every fifth of the locations."""
    overall = overall_bias(best)
    if overall is None:
        return
    sizes = [group.bias for group in best.size_bias() if group.bias is not None]
    largest = max(map(abs, sizes), default=0.0)
    level = SEVERITIES[
        int(abs(overall) <= LARGE_BIAS and largest <= LARGE_SIZE_BIAS)
        + int(abs(overall) <= SMALL_BIAS and largest <= SMALL_SIZE_BIAS)
    ]
    text = f"forecasts are {too_high_or_low(overall)} overall"
    if len(sizes) > 1:
        ends = " … ".join(format_bias(bias) for bias in (min(sizes), max(sizes)))
        text += f"; {ends} % by size of the locations"
    yield Finding("Bias", level, text)


def _intervals(data: ReportData, best: ModelResult) -> Iterator[Finding]:
    """Check the online coverage at every step ahead and at every hour of day."""
    scores = best.first.interval_results
    if data.comparison.interval_verdict is None or scores is None:
        return
    steps = best.judged_coverage("online")[1:]
    shares = [spread.mean for spread in steps if spread.mean is not None]
    deviation = max(abs(share - scores.nominal_coverage) for share in shares)
    level = SEVERITIES[int(deviation <= FAR_OFF) + int(deviation <= TOLERANCE)]
    name = interval_name(scores.levels)
    text = f"online coverage of the {name} is {percent_range(shares)} by step ahead"
    hours = group_by_hour(best.first, data.panel)
    if hours is not None:
        coverage = coverage_by_group(best, hours)
        deviations = np.abs(coverage.shares["online"] - scores.nominal_coverage)
        worst = int(np.argmax(deviations))
        if deviations[worst] > FAR_OFF:
            level = "note" if level == "good" else level
            share = tenth_percent(coverage.shares["online"][worst])
            text += f", but {share} at {coverage.labels[worst]}"
    yield Finding("Intervals", level, text)


def _missing(data: ReportData, best: ModelResult) -> Finding:
    """Give the share of the targets without a value; closed steps are no targets."""
    errors, panel = best.first.by_location, data.panel
    ahead = 1 + np.arange(errors.values.shape[0])
    open_places = panel.alive(0, len(panel.values)).sum(axis=1)
    targets = open_places[panel.step_index(best.first.origins)[:, None] + ahead].sum()
    share = max(1 - int(errors.values.sum()) / max(int(targets), 1), 0.0)
    if not share:
        return Finding("Missing values", "good", "every target value was observed")
    level: Severity = "warning" if share > MANY_MISSING else "good"
    return Finding("Missing values", level, f"{percent(share)} of the target values are missing")


def _weather(data: ReportData, best: ModelResult) -> Finding:
    names = data.panel.known_ahead
    weathers, topic = data.comparison.weathers, "Weather"
    if not names:
        return Finding(topic, "good", "forecasts use past values and the calendar only")
    if weathers[0] != "observed":
        text = f"forecasts did not use the future weather ({weathers[0]})"
        return Finding(topic, "good", text)
    text = f"forecasts used the observed future weather ({name_some(names, 4)})"
    substitutes = [weather for weather in weathers if weather != "observed"]
    if not substitutes:
        return Finding(topic, "note", f"{text}; with forecast weather errors will be larger")
    with_weather, without = (
        best.seed_means("rmse", weather)[0].mean for weather in ("observed", substitutes[0])
    )
    increase = (without or 0.0) / max(with_weather or 0.0, 1e-9) - 1
    level: Severity = "warning" if increase > WIDE else "note"
    effect = with_minus(f"without it ({substitutes[0]}) RMSE changes by {100 * increase:+.1f} %")
    return Finding(topic, level, f"{text}; {effect}")


def _mape_targets(data: ReportData, best: ModelResult) -> Finding:
    scores = best.first.errors[data.comparison.weathers[0]].scores()
    share = scores.mape.terms / max(scores.rmse.terms, 1)
    cut = f"{data.comparison.mape_cut:g}"
    text = f"MAPE uses the values ≥ {cut}: {percent(share)} of all"
    if not share:
        text = f"no value is ≥ {cut}, so there is no MAPE"
    return Finding("MAPE", "note" if share < FEW_TARGETS else "good", text)


def _graph(graph: DependencyGraph | None) -> Iterator[Finding]:
    if graph is not None and graph.about.converged is False:
        text = "the solver of the dependency graph did not converge; the graph is approximate"
        yield Finding("Graph", "warning", text)


def _failures(data: ReportData, best: ModelResult) -> Finding:
    failed = [row.name for row in data.comparison.rows for _ in row.failures]
    if not failed:
        return Finding("Failures", "good", "no training failed")
    rows = name_some(dict.fromkeys(failed), 3)
    level: Severity = "warning" if best.failures else "note"
    return Finding("Failures", level, f"{count_of(len(failed), 'training')} failed: {rows}")
