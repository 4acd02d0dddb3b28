"""Drift in a service: the weeks of the ledger against the run's validation, and silent places."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from forecaster.clock.clock import DAY_MINUTES
from forecaster.errors import DataError, count_of
from forecaster.estimators.match import splits_of
from forecaster.evaluation.drift.drift import watch_scores
from forecaster.evaluation.drift.scores import SUMS, DaySums, score_days
from forecaster.evaluation.drift.sequential import WEEK_DAYS, Watch
from forecaster.serve.data.scores import DayScore
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.predictor import cut_panel

SILENT_DAYS, HEARD_DAYS = 2, 14  # without a value, though there was one in the days before
LISTED = 20  # silent locations
UPDATE = "the run is out of date: append the newest data and run `forecaster update`"


def validation_parts(model: ServedModel, snapshot: Snapshot) -> list[tuple[int, int]]:
    """Return the steps that the run was validated on, a week at a time; none if it is unknown."""
    run, base = model.estimator.run, snapshot.base
    if run is None or base.clock.step_minutes > DAY_MINUTES:
        return []
    chosen = np.flatnonzero(splits_of(run).mask("validation", base.clock, base.times))
    if not len(chosen):
        return []
    week = WEEK_DAYS * max(DAY_MINUTES // base.clock.step_minutes, 1)
    first, end = int(chosen[0]), int(chosen[-1]) + 1
    return [(a, min(a + week, end)) for a in range(first, end, week)]


def score_part(model: ServedModel, snapshot: Snapshot, steps: tuple[int, int]) -> DaySums | None:
    """Return the sums of the days of some validation steps; None: nothing could be forecast."""
    panel, last = cut_panel(model, snapshot, steps[1] - 1, steps[0])
    end = last + 1
    judged = model.estimator.as_judged()
    try:
        return score_days(judged, panel, (end - (steps[1] - steps[0]), end))
    except DataError:
        return None


def join_days(parts: Sequence[DaySums]) -> DaySums:
    """Return the sums of the days of several parts; a day may be in two of them."""
    first = min(part.first_day for part in parts)
    D = max(part.first_day + len(part.values) for part in parts) - first
    total = {name: np.zeros((D, 1)) for name in SUMS}
    for part in parts:
        days = slice(part.first_day - first, part.first_day - first + len(part.values))
        for name in SUMS:
            total[name][days] += getattr(part, name).sum(axis=1, keepdims=True)
    return DaySums(first_day=first, **total)


def judge(
    reference: DaySums | None, scores: Sequence[DayScore], snapshot: Snapshot, closed: int
) -> dict[str, Any]:
    """Return the state of drift, and what to do, as JSON content.

    Args:
        reference: the days of validation; None: they cannot be scored.
        scores: of the run, from the ledger.
        snapshot: the observations.
        closed: number of steps that are over.
    """
    silent = list(find_silent(snapshot, closed))
    watches, reason = _watch(reference, scores)
    drifting = [watch.name for watch in watches if watch.is_drifting]
    advice = "update" if drifting else "look" if silent else "nothing" if watches else "unknown"
    return {
        "advice": advice,
        "text": _advise(drifting, silent, reason),
        "weeks": len(watches[0].weeks) if watches else 0,
        "watches": [_to_json(watch) for watch in watches],
        "silent": silent[:LISTED],
        "silent_locations": len(silent),
    }


def find_silent(snapshot: Snapshot, closed: int) -> Iterator[str]:
    """Yield the open locations without a value in the last days, though they had one before."""
    day = max(DAY_MINUTES // snapshot.base.clock.step_minutes, 1)
    middle, first = closed - SILENT_DAYS * day, closed - (SILENT_DAYS + HEARD_DAYS) * day
    heard = np.isfinite(snapshot.final_values(first, middle)).any(axis=0)
    recent = np.isfinite(snapshot.final_values(middle, closed)).any(axis=0)
    if not recent.any():  # the whole feed is out: nothing is said of single places
        return
    is_open = snapshot.alive(middle, closed).all(axis=0)
    for n in np.flatnonzero(heard & ~recent & is_open).tolist():
        yield snapshot.locations.ids[n]


def _watch(
    reference: DaySums | None, scores: Sequence[DayScore]
) -> tuple[tuple[Watch, ...], str | None]:
    """Return the sequential tests of whole weeks, or why there are none."""
    if reference is None:
        return (), "the panel lacks the days that the run was validated on"
    days = len({score.day for score in scores})
    if days < WEEK_DAYS:
        return (), f"{days} of {count_of(WEEK_DAYS, 'day')} in the ledger; judged by whole weeks"
    try:
        return watch_scores(reference, _to_sums(scores)), None
    except DataError as error:
        return (), str(error)


def _to_sums(scores: Sequence[DayScore]) -> DaySums:
    days = [int(np.datetime64(score.day, "D").astype(np.int64)) for score in scores]
    first = min(days)
    total = {name: np.zeros((max(days) - first + 1, 1)) for name in SUMS}
    fields = {"values": "terms"}
    for day, score in zip(days, scores, strict=True):
        for name in SUMS:
            total[name][day - first] = getattr(score, fields.get(name, name))
    return DaySums(first_day=first, **total)


def _advise(drifting: Sequence[str], silent: Sequence[str], reason: str | None) -> str:
    if drifting:
        return f"{', '.join(drifting)} than on validation: {UPDATE}"
    if silent:
        count = count_of(len(silent), "location")
        return f"{count} silent for {SILENT_DAYS} days: look at their sensors and feeds"
    return reason or "as on validation: nothing to do"


def _to_json(watch: Watch) -> dict[str, Any]:
    last = float(watch.weeks[-1]) if len(watch.weeks) else float("nan")
    total = float(watch.sums[-1]) if len(watch.sums) else 0.0
    return {
        "name": watch.name,
        "validation": watch.reference,
        "last_week": last if np.isfinite(last) else None,
        "alarm_share": total / watch.limit,
        "is_drifting": watch.is_drifting,
    }
