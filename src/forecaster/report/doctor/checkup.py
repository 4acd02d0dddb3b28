"""The checkup of a panel: gaps, clock changes, zeros, doubtful values, history, covariates."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64

from forecaster.clock.zone import changes_between
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, count_of, name_some
from forecaster.estimators.match import with_lags
from forecaster.explain.past_steps import name_step
from forecaster.panel.empty_ends import describe_empty_ends
from forecaster.panel.observed import CENSORED, CLOSED, CLOSED_SUM, OUTSIDE, OUTSIDE_SUM
from forecaster.panel.panel import HOURS_FOUND, Panel, describe_hours
from forecaster.recipe import Recipe
from forecaster.report.doctor.doubtful import find_doubtful, find_silenced
from forecaster.report.doctor.scan import (
    OUTLIER_SCALES,
    STUCK_STEPS,
    UNLIKELY_ZEROS,
    Anomalies,
    find_anomalies,
    local_time_text,
    location_label,
    true_runs,
)

Severity = Literal["good", "note", "warning"]
LEVELS: tuple[Severity, ...] = ("warning", "note", "good")

MANY_MISSING = 0.1  # above this share of its history a window is not used
MANY_OUTLIERS = 1e-3
FEW_TARGETS, HARDLY_ANY_TARGETS = 0.2, 0.01
MAX_DETAILS = 6
DOUBLE = 1.8  # a source in naive local time counts two hours as one when clocks go back


@dataclass(frozen=True)
class Finding:
    """The result of one check, with its severity."""

    topic: str
    level: Severity
    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkup:
    """All results, with the facts of the panel."""

    facts: dict[str, str]
    findings: tuple[Finding, ...]
    advice: str | None = None  # what to do; None: what the number of warnings says

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.advice is not None:
            return self.advice
        if not self.warnings:
            return "No warnings: the panel is ready to use"
        return f"{count_of(self.warnings, 'warning')}: check the data before using this panel"

    @property
    def verdict_level(self) -> Severity:
        """How serious the result is."""
        return "warning" if self.warnings else "good"

    @property
    def by_level(self) -> tuple[Finding, ...]:
        """The findings, warnings first, then notes."""
        return tuple(sorted(self.findings, key=lambda finding: LEVELS.index(finding.level)))

    @property
    def warnings(self) -> int:
        """The number of findings that are warnings."""
        return sum(finding.level == "warning" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the checkup as plain data."""
        findings = [asdict(finding) for finding in self.by_level]
        return {"facts": self.facts, "warnings": self.warnings, "findings": findings}


def examine(
    panel: Panel, recipe: Recipe, progress: Callable[[int], None] | None = None
) -> Checkup:
    """Check a panel; `progress` is called with the number of locations just scanned."""
    anomalies = find_anomalies(panel, progress)
    findings = (
        _missing(panel),
        _clock_changes(panel, anomalies),
        _zeros(panel, anomalies),
        *_empty_ends(panel),
        _places(panel),
        *_lives(panel, recipe),
        _outliers(panel, anomalies),
        *_doubtful(panel, recipe),
        _targets(panel, recipe.metrics.mape_cut),
        _history(panel, with_lags(recipe, panel).lags),
        _covariates(panel),
        _holidays(panel),
    )
    return Checkup({**describe_panel(panel), "hash": (panel.digest or "not saved")[:12]}, findings)


def describe_panel(panel: Panel) -> dict[str, str]:
    """Describe the span, size, kind and share of observed values of a panel."""
    M, N = panel.values.shape
    days = (panel.instant(M) - panel.start) / np.timedelta64(1, "D")
    return {
        "span": f"{_span(panel, 0, M)} {panel.clock.zone}",
        "size": f"{count_of(M, 'step')} of {panel.clock.step_text} ({days:,.0f} days) × "
        f"{count_of(N, 'location')}",
        "kind": panel.kind + _level_text(panel),
        "observed": f"{_observed_share(panel):.2f} %",
    }


def _observed_share(panel: Panel) -> float:
    """The share of the values of open locations that are observed, in per cent."""
    alive = panel.alive(0, len(panel.values))
    return float(100 * (np.isfinite(panel.values) & alive).sum() / max(alive.sum(), 1))


def _level_text(panel: Panel) -> str:
    if not np.isfinite(panel.values).any():
        return ", nothing observed"
    mean, largest = np.nanmean(panel.values, dtype=np.float64), np.nanmax(panel.values)
    return f", mean {mean:,.2f}, largest {largest:,.0f}"


def _missing(panel: Panel) -> Finding:
    alive = panel.alive(0, len(panel.values))
    missing = np.isnan(panel.values) & alive
    share = missing.sum() / max(alive.sum(), 1)
    if not missing.any():
        return Finding("gaps", "good", "every step of every location is observed")
    dark = (missing == alive).all(axis=1) & alive.any(axis=1)
    longest = sorted(true_runs(dark), key=lambda run: run[0] - run[1])[:5]
    details = [
        f"{count_of(end - start, 'step')} without any value: {_span(panel, start, end)}"
        for start, end in longest
    ]
    by_place = missing.sum(axis=0) / np.maximum(alive.sum(axis=0), 1)
    worst = [n for n in np.argsort(-by_place, kind="stable")[:5].tolist() if by_place[n] > share]
    details += [f"{location_label(panel, n)}: {100 * by_place[n]:.1f} % missing" for n in worst]
    text = f"{100 * share:.2f} % of values are missing"
    text += f", {count_of(int(dark.sum()), 'step')} at every location" if dark.any() else ""
    return Finding("gaps", "warning" if share > MANY_MISSING else "note", text, tuple(details))


def _clock_changes(panel: Panel, anomalies: Anomalies) -> Finding:
    changes = changes_between(panel.clock.zone, panel.times[0], panel.times[-1])
    if not changes:
        return Finding("clock changes", "good", f"none in this span ({panel.clock.zone})")
    details, suspicious = [], 0
    for stamp, gained in changes:
        first = np.datetime64(stamp) - np.timedelta64(max(-gained, 0), "s")
        last = np.datetime64(stamp) + np.timedelta64(max(abs(gained), 3600), "s")
        rows = np.flatnonzero((panel.times >= first) & (panel.times < last))
        state, implausible = _state(panel, anomalies, rows)
        suspicious += implausible
        direction = f"{'forward' if gained > 0 else 'back'} {abs(gained) // 60} min"
        details.append(f"{stamp[:10]}, clocks {direction}: {state}")
    text = f"{count_of(len(changes), 'change')}; lags and calendar follow the wall clock"
    if suspicious:
        text += f"; {count_of(suspicious, 'change')} with implausible values"
    return Finding("clock changes", "warning" if suspicious else "good", text, tuple(details))


def _state(panel: Panel, anomalies: Anomalies, rows: Int64[np.ndarray, " K"]) -> tuple[str, bool]:
    """Describe the values around a clock change, and whether they are implausible."""
    values = panel.values[rows]
    if np.isnan(values).all():
        return "missing", False
    if panel.kind != "count":
        return "observed", False
    total = float(np.nansum(values))
    # Demand may follow the old or the new time: also compare with the hour before and after.
    shifted = [np.clip(rows + shift, 0, len(panel.values) - 1) for shift in (-1, 0, 1)]
    usual = max(float(anomalies.usual_total[steps].sum()) for steps in shifted)
    text = f"{total:,.0f} counted, up to {usual:,.0f} expected"
    false_zero = total == 0 and usual > UNLIKELY_ZEROS
    return text, false_zero or (usual > UNLIKELY_ZEROS and total > DOUBLE * usual)


def _zeros(panel: Panel, anomalies: Anomalies) -> Finding:
    if panel.kind == "measurement":
        if not anomalies.stuck:
            return Finding(
                "stuck values", "good", f"no location repeats one value for {STUCK_STEPS} steps"
            )
        text = (
            f"{count_of(len(anomalies.stuck), 'run')} of one value, {STUCK_STEPS} steps or longer"
        )
        return Finding("stuck values", "warning", text, _largest(anomalies.stuck))
    observed = np.isfinite(panel.values)
    share = float((panel.values == 0).sum() / max(observed.sum(), 1))
    silent = ((panel.values == 0) | ~observed).all(axis=1) & observed.any(axis=1)
    silent &= anomalies.usual_total > UNLIKELY_ZEROS
    text = f"{100 * share:.2f} % of values are zero"
    if not anomalies.zeros and not silent.any():
        return Finding("zeros", "good", f"{text}, none where many are expected")
    details = [f"zero everywhere: {_span(panel, a, b)}" for a, b in true_runs(silent)][:5]
    runs = count_of(len(anomalies.zeros), "run")
    text += f"; {runs} of zeros where {UNLIKELY_ZEROS:g} or more are expected"
    return Finding(
        "zeros",
        "warning",
        f"{text}: check whether they are missing values",
        (*details, *_largest(anomalies.zeros)),
    )


def _empty_ends(panel: Panel) -> list[Finding]:
    return [Finding("ends", "warning", text) for text in describe_empty_ends(panel)]


def _places(panel: Panel) -> Finding:
    groups: dict[str, list[str]] = {"never observed": [], "always zero": [], "constant": []}
    for n, column in enumerate(panel.values.T):
        values = column[np.isfinite(column)]
        if not len(values):
            groups["never observed"].append(location_label(panel, n))
        elif values.min() == values.max():
            groups["always zero" if values[0] == 0 else "constant"].append(
                location_label(panel, n)
            )
    unplaced = int((~panel.locations.placed).sum())
    details = [f"{state}: {name_some(names, 8)}" for state, names in groups.items() if names]
    if unplaced:
        details.append(f"{count_of(unplaced, 'location')} without coordinates are not on the map")
    useless = sum(map(len, groups.values()))
    if useless:
        count = f"{count_of(useless, 'location')} of {len(panel.locations)}"
        text = f"{count} are constant or empty; remove them"
        return Finding("locations", "warning", text, tuple(details))
    text = f"all {len(panel.locations)} vary"
    return Finding("locations", "note" if unplaced else "good", text, tuple(details))


def _lives(panel: Panel, recipe: Recipe) -> list[Finding]:
    """Locations that open and close, and censored values; no finding where there are none."""
    findings, M, locations = [], len(panel.values), panel.locations
    inside = [(dates > panel.times[0]) & (dates <= panel.times[-1])
              for dates in (locations.opens, locations.closes)]  # fmt: skip
    if locations.dated:
        opening, closing = (count_of(int(rows.sum()), "location") for rows in inside)
        text = f"{opening} with a date of opening in this span, {closing} with one of closing"
        if hidden := panel.counts.get(OUTSIDE, 0):
            total = f"together {panel.counts[OUTSIDE_SUM]:,.6g}"
            text += f"; {count_of(hidden, 'value')} outside these lives left out, {total}"
        findings.append(Finding("openings", "note", text))
    findings += _opening_hours(panel)
    silent = find_silenced(panel, recipe)
    if silent:
        count = count_of(len(silent), "location")
        text = f"{count} silent at the end, though never for a day in training: closed"
        details = tuple(f"{location_label(panel, n)}: {reason}" for n, reason in silent.items())
        findings.append(Finding("closings", "note", text, details[:MAX_DETAILS]))
    if panel.censored_by is not None:
        hidden = panel.counts[CENSORED]
        share = 100 * hidden / max(M * len(locations), 1)
        text = f"{count_of(hidden, 'value')} ({share:.2f} %) by {panel.censored_by} are no targets"
        findings.append(Finding("censored values", "note", text))
    return findings


def _opening_hours(panel: Panel) -> list[Finding]:
    """Opening hours, whether found or given; no finding where all places are always open."""
    if not panel.locations.has_hours:
        return []
    is_open = panel.within_hours(0, len(panel.values))
    source = "found in regular gaps" if panel.counts.get(HOURS_FOUND) else "given"
    share = 100 * (1 - is_open.mean())
    text = f"{describe_hours(panel)} ({source}); {share:.0f} % of steps are closed"
    if hidden := panel.counts.get(CLOSED, 0):
        total = f"together {panel.counts[CLOSED_SUM]:,.6g}"
        text += f"; {count_of(hidden, 'value')} there left out, {total}"
    level: Severity = "warning" if panel.counts.get(CLOSED_SUM) else "note"
    return [Finding("opening hours", level, text)]


def _outliers(panel: Panel, anomalies: Anomalies) -> Finding:
    length = "year" if panel.clock.has_yearly_season else "week"
    season = f"{name_step(panel.clock)} of the {length}"
    if not anomalies.outlier_count:
        return Finding("outliers", "good", f"no value is far from the median of its {season}")
    text = (
        f"{count_of(anomalies.outlier_count, 'value')} over {OUTLIER_SCALES:g} robust deviations"
    )
    share = anomalies.outlier_count / max(np.isfinite(panel.values).sum(), 1)
    level: Severity = "warning" if share > MANY_OUTLIERS else "note"
    details = _largest(anomalies.outliers, anomalies.outlier_count)
    return Finding("outliers", level, f"{text} from the median of their {season}", details)


def _doubtful(panel: Panel, recipe: Recipe) -> list[Finding]:
    """The values that forecasts would not take as they are; no finding where there are none."""
    implausible, repeated = find_doubtful(panel, recipe)
    share = len(implausible) / max(np.isfinite(panel.values).sum(), 1)
    findings = []
    if implausible:
        level: Severity = "warning" if share > MANY_OUTLIERS else "note"
        text = f"{count_of(len(implausible), 'value')} outside what is plausible by training"
        findings.append(Finding("implausible values", level, text, _largest(implausible)))
    if repeated:
        text = f"{count_of(len(repeated), 'run')} of one value, longer than training has"
        findings.append(Finding("repeated values", "warning", text, _largest(repeated)))
    return findings


def _targets(panel: Panel, cut: float) -> Finding:
    observed = np.isfinite(panel.values)
    share = float((panel.values >= cut).sum() / max(observed.sum(), 1))
    text = f"{100 * share:.1f} % of values are ≥ {cut:g} and count for MAPE"
    if share < FEW_TARGETS:
        remedy = "lower metrics.mape_cut or choose busier locations"
        level: Severity = "warning" if share < HARDLY_ANY_TARGETS else "note"
        return Finding("MAPE targets", level, f"{text}; {remedy}")
    return Finding("MAPE targets", "good", text)


def _history(panel: Panel, lags: LagConfig) -> Finding:
    try:
        need = panel.clock.needed_steps(lags, panel.times)
    except ConfigError as fault:  # lags of hours on a panel of days
        return Finding("history", "warning", f"these lags do not fit the panel's step: {fault}")
    windows = len(panel.values) - need - lags.horizon + 1
    text = f"a window needs {need} past steps and {lags.horizon} future steps"
    if windows < 1:
        lack = need + lags.horizon - len(panel.values)
        return Finding("history", "warning", f"{text}: {count_of(lack, 'step')} too few")
    level: Severity = "good" if windows >= 10 * need else "note"
    return Finding("history", level, f"{text}: {count_of(windows, 'window')} fit into the panel")


def _covariates(panel: Panel) -> Finding:
    names = (*panel.covariates.names, *panel.local_covariates.names)
    if not names:
        return Finding("covariates", "note", "none; the calendar is computed from the clock")
    M = len(panel.values)
    ahead = len(panel.covariates.values) - M
    layers = [*panel.covariates.values.T, *panel.local_covariates.values]
    missing = {n: float(np.isnan(v[:M]).mean()) for n, v in zip(names, layers, strict=True)}
    details = tuple(f"{n}: {100 * share:.2f} % missing" for n, share in missing.items() if share)
    known_ahead = [name for name in names if name not in panel.past_only]
    text = (
        f"{name_some(known_ahead, 12)}; available {count_of(ahead, 'step')} beyond the last value"
    )
    if panel.past_only:
        seen = f"past-only, unknown ahead: {name_some(panel.past_only, 12)}"
        text = f"{text}; {seen}" if known_ahead else seen
    level: Severity = (
        "warning" if max(missing.values()) > MANY_MISSING else "note" if details else "good"
    )
    return Finding("covariates", level, text, details)


def _holidays(panel: Panel) -> Finding:
    holidays = panel.clock.holidays
    if holidays is None:
        text = "none recorded, the holiday covariate is 0; set a country to record them"
        return Finding("holidays", "note", text)
    days = np.unique(panel.clock.local(panel.times).astype("datetime64[D]"))
    count = int(np.isin(days, np.array(holidays.dates, dtype="datetime64[D]")).sum())
    text = f"{count_of(count, 'day')} in this span; {holidays.country} is recorded"
    return Finding("holidays", "good", f"{text} for {holidays.first_year}…{holidays.last_year}")


def _span(panel: Panel, start: int, end: int) -> str:
    return f"{local_time_text(panel, start)} … {local_time_text(panel, end - 1)}"


def _largest(anomalies: list[tuple[float, str]], count: int | None = None) -> tuple[str, ...]:
    """Return the texts of the largest anomalies, and the number of the others."""
    texts = [text for _, text in sorted(anomalies, key=lambda item: -item[0])[:MAX_DETAILS]]
    omitted = (len(anomalies) if count is None else count) - len(texts)
    return (*texts, *([f"… and {omitted:,} more"] if omitted else []))
