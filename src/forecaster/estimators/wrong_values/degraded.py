"""The reasons why a forecast rests on less than usual: doubtful values, and a feed that is out."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float32

from forecaster.config import LagConfig
from forecaster.errors import count_of, name_some
from forecaster.estimators.wrong_values.plausible import (
    RUN_DAYS,
    Judgement,
    Plausibility,
    day_steps,
)
from forecaster.estimators.wrong_values.value_ranges import run_lengths
from forecaster.panel.panel import Panel, local_texts
from forecaster.panel.past_only import carried_steps

SILENT_SHARE, SILENT_LEAST = 0.25, 3  # of the locations that could be heard: a feed outage
MISSING_SHARE = 0.25  # of the past values of a window, beyond which it is said
NEW_LOCATION = "new location"  # one that the run has never met
log = logging.getLogger(__name__)


def describe_doubts(plausibility: Plausibility, panel: Panel, origin: int) -> dict[int, str]:
    """The implausible and repeated values of the day before an origin, by column.

    Args:
        plausibility: of the run.
        panel: matched to the run.
        origin: the last observed step.
    """
    first = max(origin + 1 - day_steps(panel.clock), 0)
    judgement = plausibility.judge(panel, first, origin + 1)
    columns = np.unique(judgement.marks.columns).tolist()
    return {column: _describe(judgement, panel, first, column) for column in columns}


def _describe(judgement: Judgement, panel: Panel, first: int, column: int) -> str:
    """The last implausible and the last repeated value of a location, as text."""
    texts = []
    marks = judgement.marks
    of_column = marks.columns == column
    for chosen in (of_column & (marks.lengths == 0), of_column & (marks.lengths > 0)):
        numbers = np.flatnonzero(chosen)
        if not len(numbers):
            continue
        last = numbers[-1]  # marks are ordered by step
        step = first + int(marks.steps[last])
        value, length = float(panel.values[step, column]), int(marks.lengths[last])
        if length:
            texts.append(describe_repeated(panel, step, value, length))
        else:
            text = describe_implausible(panel, step, value, float(marks.limits[last]))
            more = f", {len(numbers) - 1} more in the last day)" if len(numbers) > 1 else ")"
            texts.append(text[:-1] + more)
    return "; ".join(texts)


def describe_history(panel: Panel, lags: LagConfig, origin: int) -> dict[int, str]:
    """The locations without recent values, or without many past ones: in words, by column.

    Args:
        panel: observed values.
        lags: the past steps of a window.
        origin: the last observed step.
    """
    steps = origin - panel.clock.lag_steps(lags, panel.times[[origin]])[0]
    inside = np.maximum(steps, 0)
    observed = np.isfinite(panel.values[inside]) & (steps >= 0)[:, None]
    if panel.locations.has_hours:  # nothing is expected of a closed location
        observed |= ~panel.within_hours(0, len(panel.values))[inside]
    missing, silent = (~observed).sum(axis=0), ~observed[-lags.recent :].any(axis=0)
    texts = {
        column: f"{missing[column]} of {len(steps)} past values missing"
        for column in np.flatnonzero(missing > MISSING_SHARE * len(steps)).tolist()
    }
    recent = f"no value in the last {count_of(lags.recent, 'step')}"
    for column in np.flatnonzero(silent).tolist():
        texts[column] = f"{recent}; {texts[column]}" if column in texts else recent
    return texts


def describe_unheard_covariates(panel: Panel, origin: int) -> str | None:
    """Past-only covariates without any value in the day before an origin; None: all have one.

    Args:
        panel: matched to the run.
        origin: the last observed step.
    """
    recent = slice(max(origin - carried_steps(panel.clock), 0), origin + 1)
    shared, local = panel.covariates, panel.local_covariates
    unheard = [
        shared.names[column]
        for column in shared.past_columns
        if np.isnan(shared.values[recent, column]).all()
    ]
    unheard += [
        local.names[layer]
        for layer in local.past_layers
        if np.isnan(local.values[layer, recent]).all()
    ]
    return f"covariates: {name_some(unheard)} not observed, usual values" if unheard else None


def warn_of_absent(ids: Sequence[str]) -> None:
    """Warn of locations of the run that the panel lacks."""
    if ids:
        count = count_of(len(ids), "location")
        log.warning("the panel lacks %s of the run: %s", count, name_some(ids))


def warn_of_doubts(panel: Panel, doubts: Mapping[int, str]) -> None:
    """Warn of locations with implausible or repeated values."""
    if doubts:
        names = (f"{panel.locations.ids[column]}: {text}" for column, text in doubts.items())
        count = count_of(len(doubts), "location")
        log.warning("doubtful values of %s: %s", count, name_some(names))


def describe_implausible(panel: Panel, step: int, value: float, limit: float) -> str:
    """`implausible value (4,000 at 2019-12-24T08:00:00-05:00, at most 180 is plausible)`."""
    side = "at most" if value > limit else "at least"
    digits = ".0f" if panel.kind == "count" else ".4g"
    edge = np.floor(limit) if panel.kind == "count" and value > limit else limit
    return (
        f"implausible value ({value:,.6g} at {_time(panel, step)}, "
        f"{side} {edge:,{digits}} is plausible)"
    )


def describe_repeated(panel: Panel, step: int, value: float, length: int) -> str:
    """`repeated value (37 for 31 steps up to 2019-12-24T08:00:00-05:00)`."""
    at_least = "at least " if length >= RUN_DAYS * day_steps(panel.clock) else ""
    steps = count_of(length, "step")
    return f"repeated value ({value:,.6g} for {at_least}{steps} up to {_time(panel, step)})"


def describe_outage(
    panel: Panel, origin: int, plausibility: Plausibility | None = None
) -> str | None:
    """Many locations silent at once: `feed outage: 31 of 57 locations silent since …`; else None.

    A silent location has no value, or zeros where a zero is implausible. One that has been silent
    for two weeks is not counted, nor one whose zero is nothing unusual.

    Args:
        panel: observed values; matched to the run, if there is one.
        origin: the last observed step.
        plausibility: of the run; None: only missing values are silent.
    """
    first = max(origin + 1 - RUN_DAYS * day_steps(panel.clock), 0)
    values = panel.values[first : origin + 1]
    silent = np.isnan(values)
    if not silent[-1].any() and (plausibility is None or not (values[-1] == 0).any()):
        return None
    if plausibility is not None:
        silent |= _implausible_silence(plausibility.judge(panel, first, origin + 1), values)
    alive = ~silent.all(axis=0) & panel.alive(origin, origin + 1)[0]
    now = silent[-1] & alive
    heard = alive & (now | (values[-1] != 0))
    least = max(SILENT_LEAST, SILENT_SHARE * heard.sum())
    if now.sum() < least:
        return None
    is_outage = (silent[:, now].sum(axis=1) >= least)[::-1]
    since = first if is_outage.all() else origin + 1 - int(np.argmin(is_outage))
    silent_count = f"{int(now.sum()):,} of {int(heard.sum()):,} locations"
    return f"feed outage: {silent_count} silent since {_time(panel, since)}"


def _implausible_silence(
    judgement: Judgement, values: Float32[np.ndarray, "T N"]
) -> Bool[np.ndarray, "T N"]:
    """Zeros of a run in which a zero was marked before."""
    zero = values == 0
    marked = np.cumsum(judgement.marked & zero, axis=0)
    start = np.arange(len(values))[:, None] - run_lengths(values)  # the step before the run
    before = np.where(start >= 0, np.take_along_axis(marked, np.maximum(start, 0), axis=0), 0)
    return np.asarray(zero & (marked > before))


def _time(panel: Panel, step: int) -> str:
    """The local time of a step with its offset."""
    time = panel.instants(np.array([step]))
    return local_texts(panel, time)[0]
