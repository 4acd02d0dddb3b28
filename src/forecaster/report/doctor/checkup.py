"""What a person should know of a panel before trusting it, on one page."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64

from forecaster.clock.zone import changes_between
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, count_of, name_some
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.report.doctor.scan import (
    OUTLIER_SCALES,
    STUCK_STEPS,
    UNLIKELY_ZEROS,
    Odd,
    label,
    local_text,
    runs,
    scan,
)

Level = Literal["good", "note", "warning"]

MANY_MISSING = 0.1  # above this share of its history a window is not used
MANY_OUTLIERS = 1e-3
FEW_TARGETS, HARDLY_ANY_TARGETS = 0.2, 0.01
MAX_DETAILS = 6
DOUBLE = 1.8  # a naive source puts two hours into one where clocks go back


@dataclass(frozen=True)
class Finding:
    """One thing to know, and how much it should worry."""

    topic: str
    level: Level
    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkup:
    """The whole page."""

    facts: dict[str, str]
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> int:
        """How many findings should be looked into before the data is used."""
        return sum(finding.level == "warning" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the page as data."""
        findings = [asdict(finding) for finding in self.findings]
        return {"facts": self.facts, "warnings": self.warnings, "findings": findings}


def examine(
    panel: Panel, recipe: Recipe, progress: Callable[[int], None] | None = None
) -> Checkup:
    """Return everything worth knowing; `progress` is called with locations just examined."""
    odd = scan(panel, progress)
    findings = (
        _missing(panel),
        _clock_changes(panel, odd),
        _zeros(panel, odd),
        _places(panel),
        _outliers(panel, odd),
        _targets(panel, recipe.metrics.mape_cut),
        _history(panel, recipe.lags),
        _covariates(panel),
        _holidays(panel),
    )
    return Checkup({**describe_panel(panel), "hash": (panel.digest or "not saved")[:12]}, findings)


def describe_panel(panel: Panel) -> dict[str, str]:
    """Return what a panel holds, by topic."""
    M, N = panel.values.shape
    days = M * panel.clock.step_minutes / (24 * 60)
    return {
        "span": f"{local_text(panel, 0)} … {local_text(panel, M - 1)} {panel.clock.zone}",
        "size": f"{count_of(M, 'step')} of {panel.clock.step_minutes} min ({days:,.0f} days) × "
        f"{count_of(N, 'location')}",
        "kind": panel.kind + _level_text(panel),
        "observed": f"{100 * np.isfinite(panel.values).mean():.2f} %",
    }


def _level_text(panel: Panel) -> str:
    if not np.isfinite(panel.values).any():
        return ", nothing observed"
    mean, largest = np.nanmean(panel.values, dtype=np.float64), np.nanmax(panel.values)
    return f", mean {mean:,.2f}, largest {largest:,.0f}"


def _missing(panel: Panel) -> Finding:
    missing = np.isnan(panel.values)
    share = missing.mean()
    if not missing.any():
        return Finding("gaps", "good", "every step of every location is observed")
    dark = missing.all(axis=1)
    longest = sorted(runs(dark), key=lambda run: run[0] - run[1])[:5]
    details = [
        f"{count_of(end - start, 'step')} without any value: {_span(panel, start, end)}"
        for start, end in longest
    ]
    by_place = missing.mean(axis=0)
    worst = [n for n in np.argsort(-by_place, kind="stable")[:5].tolist() if by_place[n] > share]
    details += [f"{label(panel, n)}: {100 * by_place[n]:.1f} % missing" for n in worst]
    text = f"{100 * share:.2f} % of values are missing"
    text += f", {count_of(int(dark.sum()), 'step')} at every location" if dark.any() else ""
    return Finding("gaps", "warning" if share > MANY_MISSING else "note", text, tuple(details))


def _clock_changes(panel: Panel, odd: Odd) -> Finding:
    changes = changes_between(panel.clock.zone, panel.times[0], panel.times[-1])
    if not changes:
        return Finding("clock changes", "good", f"none in this span ({panel.clock.zone})")
    details, suspicious = [], 0
    for stamp, gained in changes:
        first = np.datetime64(stamp) - np.timedelta64(max(-gained, 0), "s")
        last = np.datetime64(stamp) + np.timedelta64(max(abs(gained), 3600), "s")
        rows = np.flatnonzero((panel.times >= first) & (panel.times < last))
        state, wrong = _state(panel, odd, rows)
        suspicious += wrong
        way = f"{'forward' if gained > 0 else 'back'} {abs(gained) // 60} min"
        details.append(f"{stamp[:10]}, clocks {way}: {state}")
    text = f"{count_of(len(changes), 'change')}; lags and calendar follow the wall clock"
    if suspicious:
        text += f"; {count_of(suspicious, 'change')} with odd values, as naive sources leave them"
    return Finding("clock changes", "warning" if suspicious else "good", text, tuple(details))


def _state(panel: Panel, odd: Odd, rows: Int64[np.ndarray, " K"]) -> tuple[str, bool]:
    """Say what the steps around a clock change hold, and whether that is suspicious."""
    values = panel.values[rows]
    if np.isnan(values).all():
        return "missing", False
    if panel.kind != "count":
        return "observed", False
    total = float(np.nansum(values))
    # The clock moved and people did not: the usual of the hour before or after will do as well.
    shifted = [np.clip(rows + shift, 0, len(panel.values) - 1) for shift in (-1, 0, 1)]
    usual = max(float(odd.usual_total[steps].sum()) for steps in shifted)
    words = f"{total:,.0f} counted, up to {usual:,.0f} usual"
    false_zero = total == 0 and usual > UNLIKELY_ZEROS
    return words, false_zero or (usual > UNLIKELY_ZEROS and total > DOUBLE * usual)


def _zeros(panel: Panel, odd: Odd) -> Finding:
    if panel.kind == "measurement":
        if not odd.stuck:
            return Finding(
                "stuck values", "good", f"no location repeats one value for {STUCK_STEPS} steps"
            )
        text = f"{count_of(len(odd.stuck), 'run')} of one value, {STUCK_STEPS} steps or longer"
        return Finding("stuck values", "warning", text, _largest(odd.stuck))
    seen = np.isfinite(panel.values)
    share = float((panel.values == 0).sum() / max(seen.sum(), 1))
    silent = ((panel.values == 0) | ~seen).all(axis=1) & seen.any(axis=1)
    silent &= odd.usual_total > UNLIKELY_ZEROS
    text = f"{100 * share:.2f} % of values are zero"
    if not odd.zeros and not silent.any():
        return Finding("zeros", "good", f"{text}, none where many were usual")
    details = [f"zero everywhere: {_span(panel, a, b)}" for a, b in runs(silent)][:5]
    text += (
        f"; {count_of(len(odd.zeros), 'run')} of zeros where {UNLIKELY_ZEROS:g} or more were usual"
    )
    return Finding(
        "zeros", "warning", f"{text}: missing is not zero", (*details, *_largest(odd.zeros))
    )


def _places(panel: Panel) -> Finding:
    groups: dict[str, list[str]] = {"never observed": [], "always zero": [], "constant": []}
    for n, column in enumerate(panel.values.T):
        seen = column[np.isfinite(column)]
        if not len(seen):
            groups["never observed"].append(label(panel, n))
        elif seen.min() == seen.max():
            groups["always zero" if seen[0] == 0 else "constant"].append(label(panel, n))
    bare = int((~panel.locations.placed).sum())
    details = [f"{what}: {name_some(names, 8)}" for what, names in groups.items() if names]
    if bare:
        details.append(f"{count_of(bare, 'location')} without coordinates: not on any map")
    dead = sum(map(len, groups.values()))
    if dead:
        text = (
            f"{count_of(dead, 'location')} of {len(panel.locations)} say nothing; leave them out"
        )
        return Finding("locations", "warning", text, tuple(details))
    text = f"all {len(panel.locations)} vary"
    return Finding("locations", "note" if bare else "good", text, tuple(details))


def _outliers(panel: Panel, odd: Odd) -> Finding:
    if not odd.outlier_count:
        return Finding("outliers", "good", "no value is far from what its hour of the week has")
    text = f"{count_of(odd.outlier_count, 'value')} over {OUTLIER_SCALES:g} robust deviations"
    share = odd.outlier_count / max(np.isfinite(panel.values).sum(), 1)
    level: Level = "warning" if share > MANY_OUTLIERS else "note"
    details = _largest(odd.outliers, odd.outlier_count)
    return Finding("outliers", level, f"{text} from the usual", details)


def _targets(panel: Panel, cut: float) -> Finding:
    seen = np.isfinite(panel.values)
    share = float((panel.values >= cut).sum() / max(seen.sum(), 1))
    text = f"{100 * share:.1f} % of values are ≥ {cut:g} and count for MAPE"
    if share < FEW_TARGETS:
        remedy = "lower metrics.mape_cut or choose busier places, and say so"
        level: Level = "warning" if share < HARDLY_ANY_TARGETS else "note"
        return Finding("MAPE targets", level, f"{text}; {remedy}")
    return Finding("MAPE targets", "good", text)


def _history(panel: Panel, lags: LagConfig) -> Finding:
    try:
        need = panel.clock.needed_steps(lags, panel.times)
    except ConfigError as fault:  # lags of hours on a panel of days
        return Finding("history", "warning", f"these lags do not fit its step: {fault}")
    windows = len(panel.values) - need - lags.horizon + 1
    text = f"a forecast looks back {need} steps and {lags.horizon} ahead"
    if windows < 1:
        lack = need + lags.horizon - len(panel.values)
        return Finding("history", "warning", f"{text}: {count_of(lack, 'step')} too few")
    level: Level = "good" if windows >= 10 * need else "note"
    return Finding("history", level, f"{text}: {count_of(windows, 'window')} fit into the span")


def _covariates(panel: Panel) -> Finding:
    names = (*panel.covariates.names, *panel.local_covariates.names)
    if not names:
        return Finding("covariates", "note", "none; the calendar is computed from the clock")
    M = len(panel.values)
    ahead = len(panel.covariates.values) - M
    layers = [*panel.covariates.values.T, *panel.local_covariates.values]
    holes = {n: float(np.isnan(v[:M]).mean()) for n, v in zip(names, layers, strict=True)}
    details = tuple(f"{n}: {100 * share:.2f} % missing" for n, share in holes.items() if share)
    text = f"{name_some(names, 12)}; known {count_of(ahead, 'step')} past the last value"
    level: Level = (
        "warning" if max(holes.values()) > MANY_MISSING else "note" if details else "good"
    )
    return Finding("covariates", level, text, details)


def _holidays(panel: Panel) -> Finding:
    holidays = panel.clock.holidays
    if holidays is None:
        text = "no list: the holiday column is 0 throughout; give a country to record one"
        return Finding("holidays", "note", text)
    days = np.unique(panel.clock.local(panel.times).astype("datetime64[D]"))
    count = int(np.isin(days, np.array(holidays.dates, dtype="datetime64[D]")).sum())
    text = f"{count_of(count, 'day')} in this span; {holidays.country} is recorded"
    return Finding("holidays", "good", f"{text} for {holidays.first_year}…{holidays.last_year}")


def _span(panel: Panel, start: int, end: int) -> str:
    return f"{local_text(panel, start)} … {local_text(panel, end - 1)}"


def _largest(found: list[tuple[float, str]], count: int | None = None) -> tuple[str, ...]:
    """Return the words of the weightiest, and how many were left out."""
    words = [text for _, text in sorted(found, key=lambda item: -item[0])[:MAX_DETAILS]]
    rest = (len(found) if count is None else count) - len(words)
    return (*words, *([f"… and {rest:,} more"] if rest else []))
