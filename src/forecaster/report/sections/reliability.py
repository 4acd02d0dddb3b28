"""Checks of the recommended model: arguments for and against using it, and its key figures."""

from collections.abc import Iterator

import numpy as np

from forecaster.errors import count_of, name_some
from forecaster.estimators.registry import find_estimator
from forecaster.evaluation.comparison import ModelResult
from forecaster.evaluation.tables import interval_name
from forecaster.graph.dependency import DependencyGraph
from forecaster.report.data import mean_rmse
from forecaster.report.doctor.checkup import Finding, Severity
from forecaster.report.formatting import (
    less_or_more,
    number,
    percent,
    tenth_percent,
    with_minus,
)

FEW_DAYS, MANY_DAYS = 7, 28  # of test
MOST_LOCATIONS, SOME_LOCATIONS = 0.9, 0.75  # share where the model should beat SeasonalNaive
WIDE = 0.05  # deviation over trainings, or increase without known weather, relative to RMSE
FAR_OFF = 0.05  # deviation from the nominal coverage that is a warning; TOLERANCE is good
MANY_MISSING = 0.1  # of the target values
FEW_TARGETS = 0.1  # share of the target values that count for MAPE
YEAR_DAYS = 365
SEVERITIES: tuple[Severity, ...] = ("warning", "note", "good")


def check_reliability(data: Material, best: ModelResult) -> list[Finding]:
    """Return what to know before the recommended model is used."""
    found = [
        *_against_naive(data, best),
        *_against_next(data, best),
        _test_size(best),
        *_trainings(data, best),
        *_intervals(data, best),
        _missing(best),
        _weather(data, best),
        _mape_targets(data, best),
        *_graph(data.graph if best.estimator == "Forecaster" else None),
        _failures(data, best),
    ]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.level))


def _against_naive(data: Material, best: ModelResult) -> Iterator[Finding]:
    naive, topic = data.naive, "Against the naive"
    if naive is None:
        text = "SeasonalNaive was not tested: nobody knows what repeating last week would do"
        yield Finding(topic, "note", text)
        return
    if naive is best:
        text = "nothing that was learned is better than repeating last week"
        yield Finding(topic, "warning", text)
        return
    found = data.comparison.compare(best, naive).rmse
    if found is None:
        yield Finding(topic, "note", "too few days to compare it with repeating last week")
        return
    text = f"its RMSE is {less_or_more(found)} than SeasonalNaive's"
    clear = found.is_clear and found.value < 0
    yield Finding(topic, "good" if clear else "warning", text + ("" if clear else ": no better"))
    yield _everywhere(data, best, naive)


def _against_next(data: Material, best: ModelResult) -> Iterator[Finding]:
    """Say how sure it is that this model is better than the next."""
    comparison = data.comparison
    others = [row for row in comparison.tested if row.of is None and row is not best]
    others = sorted(others, key=lambda row: mean_rmse(row, comparison))
    found = comparison.compare(best, others[0]).rmse if others else None
    if found is None or others[0] is data.naive:
        return
    text = f"its RMSE is {less_or_more(found)} than that of {others[0].name}"
    if not found.is_clear:
        yield Finding("Against the next", "note", f"{text}: that may be chance")
    elif found.value > 0:
        yield Finding("Against the next", "note", f"{text}, but it is simpler")
    else:
        yield Finding("Against the next", "good", text)


def _everywhere(data: Material, best: ModelResult, naive: ModelResult) -> Finding:
    """Say at how many locations the model beats the naive one."""
    ours, theirs = place_rmse(best), place_rmse(naive)
    known = np.isfinite(ours + theirs)
    better = known & (ours < theirs)
    share = better.sum() / max(known.sum(), 1)
    levels: tuple[Level, ...] = ("warning", "note", "good")
    level = levels[int(share >= SOME_PLACES) + int(share >= MOST_PLACES)]
    all_of_them = count_of(int(known.sum()), "location")
    text = f"better than SeasonalNaive at {better.sum():,} of {all_of_them}"
    worse = [label(data.panel, n) for n in np.flatnonzero(known & ~better).tolist()]
    return Finding(
        "At every place", level, text + (f"; not at {name_some(worse, 3)}" if worse else "")
    )


def _test_size(best: ModelResult) -> Finding:
    days = len(set(best.first.days.tolist()))
    levels: tuple[Level, ...] = ("warning", "note", "good")
    level = levels[int(days >= FEW_DAYS) + int(days >= MANY_DAYS)]
    text = f"{count_of(days, 'day')} that no model had seen"
    season = "; other seasons may differ" if days < 365 else ""  # noqa: PLR2004 (a year)
    return Finding("Length of test", level, text + season)


def _trainings(data: Material, best: ModelResult) -> Iterator[Finding]:
    if len(best.results) > 1:
        spread = best.seed_means("rmse", data.comparison.weathers[0])[0]
        share = (spread.deviation or 0.0) / max(spread.mean or 0.0, 1e-9)
        text = f"trained {len(best.results)} times: RMSE varies by ± {percent(share)}"
        yield Finding("Chance", "good" if share < WIDE else "note", text)
    elif find_estimator(best.estimator).seeded:
        yield Finding("Chance", "note", "trained once: another seed may do better or worse")


def _intervals(data: Material, best: ModelResult) -> Iterator[Finding]:
    """Say whether as much lay within the intervals as should: at every step, at every hour."""
    known = best.first.interval_results
    if data.comparison.interval_verdict is None or known is None:
        return
    steps = best.interval_seed_means("coverage", "online")[1:]
    shares = [spread.mean for spread in steps if spread.mean is not None]
    off = max(abs(share - known.nominal_coverage) for share in shares)
    levels: tuple[Level, ...] = ("warning", "note", "good")
    level = levels[int(off <= FAR_OFF) + int(off <= NEAR)]
    text = f"its {interval_name(known.levels)} held {span_of(shares)} of what came, by step ahead"
    hours = group_hours(best.first, data.panel)
    if hours is not None:
        held = held_in(best, hours)
        beyond = np.abs(held.shares["online"] - known.nominal_coverage)
        worst = int(np.argmax(beyond))
        if beyond[worst] > FAR_OFF:
            level = "note" if level == "good" else level
            text += f", but {tenth_percent(held.shares['online'][worst])} at {held.labels[worst]}"
    yield Finding("Intervals", level, f"{text} (online)")


def _missing(best: ModelResult) -> Finding:
    errors = best.first.by_location
    steps, places = errors.values.shape
    asked = steps * places * len(best.first.origins)
    share = 1 - int(errors.values.sum()) / asked
    if not share:
        return Finding("Missing values", "good", "every value to forecast was observed")
    level: Level = "warning" if share > MUCH_MISSING else "good"
    return Finding(
        "Missing values", level, f"{percent(share)} of the values to forecast were not observed"
    )


def _weather(data: Material, best: ModelResult) -> Finding:
    names = [*data.panel.covariates.names, *data.panel.local_covariates.names]
    weathers = data.comparison.weathers
    topic = "Weather"
    if not names:
        return Finding(topic, "good", "forecasts need nothing but the past and the calendar")
    if weathers[0] != "observed":
        return Finding(topic, "good", f"forecasts did not know the coming weather ({weathers[0]})")
    text = f"forecasts here knew the coming weather ({name_some(names, 4)})"
    others = [weather for weather in weathers if weather != "observed"]
    if not others:
        return Finding(topic, "note", f"{text}; with a forecast of it errors will be larger")
    known, kept = (best.seed_means("rmse", weather)[0].mean for weather in ("observed", others[0]))
    cost = (kept or 0.0) / max(known or 0.0, 1e-9) - 1
    level: Level = "warning" if cost > WIDE else "note"
    without = with_minus(f"without ({others[0]}) RMSE is {100 * cost:+.1f} %")
    return Finding(topic, level, f"{text}; {without}")


def _targets(data: Material, best: ModelResult) -> Finding:
    scores = best.first.errors[data.comparison.weathers[0]].scores()
    share = scores.mape.terms / max(scores.rmse.terms, 1)
    text = (
        f"MAPE rests on {percent(share)} of the values: those ≥ {material.comparison.mape_cut:g}"
    )
    if not share:
        text = f"no value is ≥ {material.comparison.mape_cut:g}: there is no MAPE"
    return Finding("MAPE", "note" if share < HARDLY_ANY_TARGETS else "good", text)


def _graph(graph: DependencyGraph | None) -> Iterator[Finding]:
    if graph is not None and graph.about.converged is False:
        yield Finding("Graph", "warning", "the graph is not exact: its solver did not converge")


def _failures(data: Material, best: ModelResult) -> Finding:
    failed = [row.name for row in data.comparison.rows for _ in row.failures]
    if not failed:
        return Finding("Failures", "good", "every training came to its end")
    rows = name_some(dict.fromkeys(failed), 3)
    level: Level = "warning" if best.failures else "note"
    return Finding("Failures", level, f"{count_of(len(failed), 'training')} failed: {rows}")


def key_figures(data: Material, best: ModelResult) -> dict[str, str]:
    """Return the few numbers to remember of the recommended model, by what they are."""
    comparison, naive = data.comparison, data.naive
    mape = best.seed_means("mape", comparison.weathers[0])[0].mean
    days = len(set(best.first.days.tolist()))
    figures = {
        "RMSE, all steps ahead": number(mean_rmse(best, comparison)),
        f"MAPE of values ≥ {comparison.mape_cut:g}": "n/a" if mape is None else percent(mape),
    }
    found = comparison.compare(best, naive).rmse if naive is not None else None
    if found is not None and naive is not best:
        figures["RMSE against SeasonalNaive"] = with_minus(f"{100 * found.value:+.0f} %")
    held = best.interval_seed_means("coverage", "online")
    if held and held[0].mean is not None:
        figures[f"within the {interval_name(comparison.levels)}"] = tenth_percent(held[0].mean)
    return figures | {"day of test" if days == 1 else "days of test": f"{days:,}"}
