"""Locations whose values or errors are not what they were, and inputs beyond training.

Each location is compared with itself: the weeks since training with those of validation, by
Welch's t-test of weekly logarithms. Among many locations a few differ by chance; the procedure of
Benjamini & Hochberg (1995) keeps the share of such ones among those reported at 5 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.special import stdtr

from forecaster.artifact import Run
from forecaster.errors import count_of
from forecaster.estimators.closed import Closings
from forecaster.estimators.forecast_inputs import RANGES
from forecaster.estimators.wrong_values.plausible import Plausibility
from forecaster.evaluation.drift.scores import DaySums, Spans, usual_values
from forecaster.evaluation.drift.sequential import WEEK_DAYS
from forecaster.panel.panel import Panel

FALSE_SHARE = 0.05  # of the locations reported
LARGER, ERRORS = 1.3, 1.3  # factors of level and error below which a change does not matter
MISSING = 0.2  # of the values of a location, and at least twice as many as in training
RARE = 0.01  # of the steps beyond the training range: no more is usual
MIN_WEEKS = 2
RECENT_WEEKS = 8  # that are compared with validation and training


@dataclass(frozen=True)
class PlaceChange:
    """What changed at a location."""

    id: str
    kind: str  # silent, missing, error, level
    text: str
    factor: float | None = None
    p_value: float | None = None  # adjusted for the number of locations


@dataclass(frozen=True)
class DataState:
    """Level, spread and missing share of the recent weeks, beside those of training."""

    level: float  # of all locations: mean of recent values / mean of what is usual
    spread: float  # of deviations from what is usual / the same in training
    missing: tuple[float, float]  # shares in training and recently
    beyond: Mapping[str, float]  # share of recent steps beyond the training range, by covariate
    implausible: float  # share of recent values


def recent_steps(panel: Panel, spans: Spans) -> tuple[int, int]:
    """The steps of the last weeks since training: at most eight."""
    end = len(panel.values)
    weeks = RECENT_WEEKS * WEEK_DAYS * 24 * 60 // panel.clock.step_minutes
    return max(spans.first_new, end - weeks), end


def describe_data(run: Run, panel: Panel, spans: Spans) -> DataState:
    """Compare the recent weeks of a panel with its training.

    Args:
        run: fitted.
        panel: matched to it.
        spans: its steps of validation and those since.
    """
    first, end = recent_steps(panel, spans)
    recent, learned = np.arange(first, end), np.flatnonzero(spans.learned)
    parts = [(panel.values[s], usual_values(run, panel, s)) for s in (learned, recent)]
    spread = [float(np.nanstd(np.where(u > 0, v - u, np.nan))) for v, u in parts]
    values, usual = parts[1]
    observed = np.isfinite(values)
    alive = [panel.alive(0, end)[s] for s in (learned, recent)]
    missing = [
        float((np.isnan(v) & a).sum() / max(a.sum(), 1))
        for (v, _), a in zip(parts, alive, strict=True)
    ]
    plausibility = Plausibility.of(run)
    marked = 0.0
    if plausibility is not None:
        marked = len(plausibility.judge(panel, first, end).marks.steps) / max(observed.sum(), 1)
    expected = float(usual[observed].sum(dtype=np.float64))
    return DataState(
        level=float(values[observed].sum(dtype=np.float64)) / expected if expected else 1.0,
        spread=spread[1] / spread[0] if spread[0] else 1.0,
        missing=(missing[0], missing[1]),
        beyond=_beyond_training(run, panel, first, end),
        implausible=float(marked),
    )


def find_places(
    run: Run, panel: Panel, spans: Spans, days: tuple[DaySums, DaySums]
) -> list[PlaceChange]:
    """The locations to look at: silent ones first, then by the size of their change.

    Args:
        run: fitted.
        panel: matched to it.
        spans: its steps of validation and those since.
        days: the sums of the days of validation, and of those since.
    """
    first, end = recent_steps(panel, spans)
    silent = _silent(run, panel, end)
    missing = _missing(panel, spans, first, end)
    quiet = {n for n, _ in (*silent, *missing)}
    names = panel.locations.ids
    changes = [PlaceChange(names[n], "silent", text) for n, text in silent]
    changes += [PlaceChange(names[n], "missing", text) for n, text in missing]
    validation, new = days
    recent = slice(-RECENT_WEEKS * WEEK_DAYS, None)
    errors = [
        weekly_logs(d.absolutes[s], d.sizes[s])
        for d, s in ((validation, slice(None)), (new, recent))
    ]
    levels = _level_weeks(run, panel, spans)
    for kind, (before, after), least, words in (
        ("error", errors, ERRORS, "errors relative to size × {:.2f} since training"),
        ("level", levels, LARGER, "level × {:.2f} since training"),
    ):
        factors, p_values = compare_weeks(before, after)
        clear = (p_values <= FALSE_SHARE) & (np.abs(np.log(factors)) >= np.log(least))
        if kind == "error":
            clear &= factors > 1
        order = np.argsort(-np.abs(np.log(factors)), kind="stable")
        changes += [
            PlaceChange(
                names[n], kind, words.format(factors[n]), float(factors[n]), float(p_values[n])
            )
            for n in order.tolist()
            if clear[n] and n not in quiet
        ]
    return changes


def compare_weeks(
    before: Float64[np.ndarray, "R N"], after: Float64[np.ndarray, "W N"]
) -> tuple[Float64[np.ndarray, " N"], Float64[np.ndarray, " N"]]:
    """Factors between the weeks before and after, and p-values adjusted for their number.

    A location with fewer than two weeks before or after has factor 1 and p-value 1.
    """
    counts, means, variances = ([], [], [])
    for weeks in (before, after):
        observed = np.isfinite(weeks)
        count = observed.sum(axis=0)
        mean = np.where(observed, weeks, 0).sum(axis=0) / np.maximum(count, 1)
        square = np.square(np.where(observed, weeks - mean, 0)).sum(axis=0)
        counts.append(count)
        means.append(mean)
        variances.append(square / np.maximum(count - 1, 1) / np.maximum(count, 1))
    enough = np.minimum(*counts) >= MIN_WEEKS
    error = np.maximum(variances[0] + variances[1], 1e-12)
    difference = np.where(enough, means[1] - means[0], 0.0)
    parts = [v**2 / np.maximum(n - 1, 1) for v, n in zip(variances, counts, strict=True)]
    freedom = np.maximum(error**2 / np.maximum(sum(parts), 1e-24), 1.0)  # Welch–Satterthwaite
    p_values = np.where(enough, 2 * stdtr(freedom, -np.abs(difference) / np.sqrt(error)), 1.0)
    return np.exp(difference), adjust(p_values)


def adjust(p_values: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " N"]:
    """The p-values of Benjamini & Hochberg: the share of false ones if all up to it are taken."""
    N, order = len(p_values), np.argsort(p_values)
    ranked = p_values[order] * N / np.arange(1, N + 1)
    adjusted = np.empty(N)
    adjusted[order] = np.minimum.accumulate(ranked[::-1])[::-1]
    return np.minimum(adjusted, 1.0)


def weekly_logs(
    sums: Float64[np.ndarray, "D N"], sizes: Float64[np.ndarray, "D N"]
) -> Float64[np.ndarray, "W N"]:
    """The logarithms of the quotient by whole weeks; NaN where either is 0."""
    weeks = len(sums) // WEEK_DAYS
    shape = weeks, WEEK_DAYS, sums.shape[1]
    over, under = (part[: weeks * WEEK_DAYS].reshape(shape).sum(axis=1) for part in (sums, sizes))
    return _log_ratio(over, under)


def _level_weeks(
    run: Run, panel: Panel, spans: Spans
) -> tuple[Float64[np.ndarray, "R N"], Float64[np.ndarray, "W N"]]:
    """The weekly logarithms of values over what is usual, in the last learned weeks and since."""
    week = max(WEEK_DAYS * 24 * 60 // panel.clock.step_minutes, 1)
    first, end = recent_steps(panel, spans)
    learned = np.flatnonzero(spans.learned)[-RECENT_WEEKS * week :]
    levels = []
    for steps in (learned, np.arange(first, end)):
        whole = steps[len(steps) % week :]
        values, usual = panel.values[whole], usual_values(run, panel, whole)
        observed = np.isfinite(values)
        totals, expected = (
            np.where(observed, part, 0)
            .reshape(-1, week, values.shape[1])
            .sum(axis=1, dtype=np.float64)
            for part in (values, usual)
        )
        levels.append(_log_ratio(totals, expected))
    return levels[0], levels[1]


def _log_ratio(
    sums: Float64[np.ndarray, "W N"], sizes: Float64[np.ndarray, "W N"]
) -> Float64[np.ndarray, "W N"]:
    """The logarithm of the quotient; NaN where either is not above 0."""
    has_sums = (sums > 0) & (sizes > 0)
    return np.asarray(
        np.log(np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=has_sums))
    )


def _silent(run: Run, panel: Panel, end: int) -> list[tuple[int, str]]:
    """The locations that were never silent for a day in training and are now."""
    closings = Closings.of(run)
    if closings is None:
        return []
    state = closings.judge(panel, end - 1, end)
    alive = panel.alive(end - 1, end)[0]
    columns = np.flatnonzero(state.closed[0] & alive).tolist()
    return [(n, f"silent for {count_of(int(state.lengths[0, n]), 'step')}") for n in columns]


def _missing(panel: Panel, spans: Spans, first: int, end: int) -> list[tuple[int, str]]:
    """The locations that lack many more values than in training."""
    alive = panel.alive(0, end)
    gaps = np.isnan(panel.values) & alive
    shares = []
    for steps in (np.flatnonzero(spans.learned), np.arange(first, end)):
        shares.append(gaps[steps].sum(axis=0) / np.maximum(alive[steps].sum(axis=0), 1))
    before, recent = shares
    columns = np.flatnonzero((recent >= MISSING) & (recent >= 2 * before)).tolist()
    text = "{:.0f} % of recent values are missing, {:.0f} % in training"
    return [(n, text.format(100 * recent[n], 100 * before[n])) for n in columns]


def _beyond_training(run: Run, panel: Panel, first: int, end: int) -> dict[str, float]:
    """The share of recent steps at which a covariate is beyond its training range."""
    local = panel.local_covariates
    layers = {
        "covariates": dict(zip(panel.covariates.names, panel.covariates.values.T, strict=True)),
        "local_covariates": dict(zip(local.names, local.values, strict=True)),
    }
    shares = {}
    for kind, named in layers.items():
        least, most = run.arrays[RANGES[kind]]
        for number, (name, layer) in enumerate(named.items()):
            recent = layer[first:end]
            beyond = (recent < least[number]) | (recent > most[number])
            shares[name] = float(beyond.sum() / max(np.isfinite(recent).sum(), 1))
    return shares
