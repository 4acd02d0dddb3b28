"""Locations that are closed: by their dates, or because they have fallen silent.

*Dates.* Before `opens` and from `closes` on there is nothing to forecast, nor outside opening
hours; their steps neither count for a silence nor end it.

*Silence.* A location that was never silent for a day in training and has been silent for two whole
days has closed; with its next value it is open again. Silent are missing values and, of counts,
zeros. Where a day has fewer than seven steps, a week stands for a day, and where a step is a week
or longer, three steps do (`day_steps`).

Many locations that are silent at once are an outage of the feed, not closings: a quarter of those
that could be heard, three at least, or all of them. A location closes only if there was no outage
at some step since its second day of silence; a silence of two weeks is a closing in any case,
unless it is that of more than half of all locations. In training, days at which half of all
locations were silent are outages too, unless they are more than one step in twenty.

A closed location is forecast at zero (counts) or not at all (measurements). From its third silent
day on its values enter windows as missing, so that its neighbours do not take them for demand, and
that its own history is not empty when it comes back.

The state of a step depends on values up to it and at most four weeks back.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.artifact import Run
from forecaster.errors import count_of, name_some
from forecaster.estimators.wrong_values.plausible import RUN_DAYS, day_steps
from forecaster.panel.panel import Panel, local_texts

LONGEST = "shared.longest_silence"  # of training, in steps
CLOSED_DAYS = 2  # of silence
OUTAGE_SHARE, OUTAGE_LEAST = 0.25, 3  # of the locations that could be heard
OVER_SHARE = 0.5  # of all locations, silent for two weeks: still an outage
TRAINING_SHARE, TRAINING_MOST = 0.5, 0.05  # of the locations; of the training steps
_COLUMNS = 128  # locations at a time
_SAMPLES = 8  # steps of two days by which a silence is ruled out quickly
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Silences:
    """The silences of T steps: how long they last up to each step, and which are closings."""

    lengths: Int64[np.ndarray, "T N"]  # in steps, at most two weeks; of closed locations
    closed: Bool[np.ndarray, "T N"]


@dataclass(frozen=True, eq=False)
class Closings:
    """What a run knows about silent locations."""

    kind: str
    longest: Int64[np.ndarray, " N"]  # silence of training, in steps

    @staticmethod
    def of(run: Run) -> "Closings | None":
        """The closings that a run can tell; None for older runs."""
        if LONGEST not in run.arrays:
            return None
        return Closings(run.about["kind"], run.arrays[LONGEST])

    def judge(self, panel: Panel, first: int, end: int) -> Silences:
        """Judge the steps first…end−1.

        Args:
            panel: matched to the run.
            first: the first step to judge; four weeks before it are looked at.
            end: the step after the last.
        """
        day, N = day_steps(panel.clock), len(self.longest)
        reach = RUN_DAYS * day
        begin = max(first - 2 * reach, 0)
        lengths = np.zeros((end - first, N), dtype=np.int64)
        closed = np.zeros((end - first, N), dtype=bool)
        steady = self.longest < day
        columns = np.flatnonzero(steady & self._may_be_closed(panel, begin, end))
        if not len(columns):  # as usual
            return Silences(lengths, closed)
        silent, asleep = find_silent(panel, begin, end), _is_asleep(panel, begin, end)
        awake = ~asleep[:, steady].all(axis=1)  # steps at which anybody could be heard
        step = np.cumsum(awake) - 1
        none = np.zeros(len(silent), dtype=bool)
        lengths_here = _count_silent(silent[:, columns], none, asleep[:, columns])
        lasting = np.minimum(lengths_here, reach)
        over = (lasting >= reach).sum(axis=1)
        over = np.where((over > OVER_SHARE * steady.sum()) & (steady.sum() > 1), 0, over)
        few = awake & _are_few(silent[:, steady].sum(axis=1) - over, steady.sum() - over)
        since_few = step - np.maximum.accumulate(np.where(few, step, -1))
        beyond = lasting - CLOSED_DAYS * day
        # Since its second day there was a step without an outage.
        is_over = (lasting >= reach) & (over > 0)[:, None]
        is_closing = (beyond >= 0) & ((since_few[:, None] <= beyond) | is_over)
        lengths[:, columns] = lasting[first - begin :]
        closed[:, columns] = is_closing[first - begin :]
        return Silences(lengths, closed)

    def _may_be_closed(self, panel: Panel, begin: int, end: int) -> Bool[np.ndarray, " N"]:
        """Which locations are silent at all sampled steps of two days, as closed ones must be."""
        length = CLOSED_DAYS * day_steps(panel.clock)
        samples = min(_SAMPLES, length)
        stride = length // samples
        silent = find_silent(panel, begin, end, stride) | _is_asleep(panel, begin, end, stride)
        if len(silent) < samples:
            return np.zeros(silent.shape[1], dtype=bool)
        steps = len(silent) - samples + 1
        return np.asarray(
            np.logical_and.reduce([silent[n : n + steps] for n in range(samples)]).any(axis=0)
        )

    def hide(
        self, panel: Panel, first: int, values: Float32[np.ndarray, "T N"]
    ) -> Float32[np.ndarray, "T N"]:
        """The values of steps from `first` on, missing where a location is closed."""
        closed = self.judge(panel, first, first + len(values)).closed
        return np.where(closed, np.float32(np.nan), values) if closed.any() else values

    def describe(self, panel: Panel, origin: int) -> dict[int, str]:
        """Since when locations have been silent, by column; of those that are closed."""
        silences = self.judge(panel, origin, origin + 1)
        columns = np.flatnonzero(silences.closed[0]).tolist()
        lengths = silences.lengths[0]
        return {n: _describe_silence(panel, origin, int(lengths[n])) for n in columns}


def find_silent(panel: Panel, first: int, end: int, stride: int = 1) -> Bool[np.ndarray, "T N"]:
    """Which locations are silent at steps first…end−1: no value, or of counts none above 0.

    One that is not open by its dates is not silent, nor is a missing value of a panel whose
    values are censored: there may have been demand.

    Args:
        panel: observed values.
        first: the first step.
        end: the step after the last.
        stride: the distance from one step to the next that is looked at.
    """
    values = panel.values[first:end:stride]
    silent = np.zeros(values.shape, dtype=bool) if panel.censored_by else np.isnan(values)
    if panel.kind == "count":
        silent |= values == 0
    return np.asarray(silent & panel.alive(first, end)[::stride])


def fit_silence(panel: Panel, train: Bool[np.ndarray, " M"]) -> dict[str, np.ndarray]:
    """The longest silence of each location in training, in steps, without outages of the feed.

    A silence of two days or more that training ends with is a closing, and no habit: it does not
    count at a location that was heard for as many steps as two weeks have.
    """
    day, (M, N) = day_steps(panel.clock), panel.values.shape
    everybody, asleep = find_silent(panel, 0, M) & train[:, None], _is_asleep(panel, 0, M)
    blocks = [slice(n, n + _COLUMNS) for n in range(0, N, _COLUMNS)]
    none = np.zeros(M, dtype=bool)
    long = np.zeros(M, dtype=np.int64)
    for block in blocks:
        long += (_count_silent(everybody[:, block], none, asleep[:, block]) >= day).sum(axis=1)
    outage = long >= TRAINING_SHARE * max(N, OUTAGE_LEAST)
    outage = _extend_back(outage, day)
    if outage.sum() > TRAINING_MOST * max(train.sum(), 1):
        outage = none  # the usual silence of a quiet panel
    heard = train[:, None] & ~everybody & ~asleep
    parts = [
        _longest_silence(
            _count_silent(everybody[:, block], outage, asleep[:, block]), heard[:, block], day
        )
        for block in blocks
    ]
    longest, observed = np.concatenate(parts), panel.alive(0, M) & train[:, None]
    if panel.censored_by:
        observed &= np.isfinite(panel.values)
    unknown = observed.sum(axis=0) < RUN_DAYS * day  # too short to say that it is never silent
    return {LONGEST: np.where(unknown, np.maximum(longest, day), longest)}


def find_wrong(arrays: Mapping[str, np.ndarray], N: int) -> list[str]:
    """The names of arrays that cannot come from `fit_silence`; older runs have none."""
    longest = arrays.get(LONGEST)
    if longest is None:
        return []
    fits = longest.dtype == np.int64 and longest.shape == (N,) and (longest >= 0).all()
    return [] if fits else [LONGEST]


def find_closed(
    run: Run, panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int
) -> Bool[np.ndarray, "B K N"] | None:
    """Which targets lie outside a location's life or hours or in a closing; None: none can.

    Args:
        run: which may know about silences.
        panel: matched to the run.
        origins: the last observed steps.
        horizon: the number of coming steps.
    """
    closings, can_close = Closings.of(run), panel.locations.can_close
    if not len(origins) or (closings is None and not can_close):
        return None
    first, end = int(origins.min()), int(origins.max()) + 1
    closed = np.zeros((len(origins), horizon, len(panel.locations)), dtype=bool)
    if closings is not None:
        closed |= closings.judge(panel, first, end).closed[origins - first][:, None]
    if can_close:
        ahead = origins[:, None] + np.arange(1, horizon + 1)
        closed |= ~panel.alive(first, end + horizon)[ahead - first]
    return closed if closed.any() else None


def open_ids(run: Run, panel: Panel, origin: int) -> tuple[str, ...]:
    """The locations that have not fallen silent for good, whose values a history needs.

    Args:
        run: which may know about silences.
        panel: matched to the run.
        origin: the last observed step.
    """
    closings, ids = Closings.of(run), panel.locations.ids
    if closings is None:
        return ids
    closed = closings.judge(panel, origin, origin + 1).closed[0]
    return tuple(i for i, is_closed in zip(ids, closed, strict=True) if not is_closed) or ids


def describe_closed(run: Run, panel: Panel, origin: int, horizon: int) -> dict[int, str]:
    """Why locations have no forecast other than zero, by column.

    Args:
        run: which may know about silences.
        panel: matched to the run.
        origin: the last observed step.
        horizon: the number of coming steps.
    """
    closings, locations = Closings.of(run), panel.locations
    texts = {} if closings is None else closings.describe(panel, origin)
    times = panel.instants(np.arange(origin + 1, origin + 1 + horizon))
    absent = ~locations.alive(times)  # opening hours are told step by step
    for n in np.flatnonzero(absent.any(axis=0)).tolist():
        closes, opens = locations.closes[n], locations.opens[n]
        last = panel.instant(origin + horizon)
        over = not np.isnat(closes) and closes <= last
        moment = local_texts(panel, np.array([closes if over else opens]))[0]
        texts[n] = f"closed since {moment}" if over else f"not open before {moment}"
    return texts


def warn_of_closed(panel: Panel, texts: Mapping[int, str]) -> None:
    """Warn of closed locations."""
    if texts:
        names = (f"{panel.locations.ids[column]}: {text}" for column, text in texts.items())
        log.warning("%s not open: %s", count_of(len(texts), "location"), name_some(names))


def _describe_silence(panel: Panel, origin: int, length: int) -> str:
    """`closed: no value above 0 since 2020-01-03T05:00:00-05:00`."""
    no_value = "no value above 0" if panel.kind == "count" else "no value"
    if length >= RUN_DAYS * day_steps(panel.clock):
        return f"closed: {no_value} for at least {count_of(length, 'step')}"
    moment = panel.instant(origin + 1 - length)
    return f"closed: {no_value} since {local_texts(panel, np.array([moment]))[0]}"


def _are_few(
    silent: Int64[np.ndarray, " T"], heard: Int64[np.ndarray, " T"]
) -> Bool[np.ndarray, " T"]:
    """Whether so few of the locations that could be heard are silent that the feed is not out."""
    least = np.maximum(OUTAGE_SHARE * heard, OUTAGE_LEAST)
    return np.asarray(silent < np.where(heard > 1, np.minimum(least, heard), least))


def _count_silent(
    silent: Bool[np.ndarray, "M n"],
    outage: Bool[np.ndarray, " M"],
    asleep: Bool[np.ndarray, "M n"],
) -> Int64[np.ndarray, "M n"]:
    """The silent steps up to each step since the last that was not, without those of an outage.

    Steps outside opening hours neither count nor end a silence.
    """
    counts = np.cumsum(silent & ~outage[:, None], axis=0)
    pausing = silent | asleep
    return np.asarray(counts - np.maximum.accumulate(np.where(pausing, 0, counts), axis=0))


def _longest_silence(
    counts: Int64[np.ndarray, "M n"], heard: Bool[np.ndarray, "M n"], day: int
) -> Int64[np.ndarray, " n"]:
    """The longest silence of each location, without the one that it has closed with.

    Args:
        counts: of silent steps up to each step (`_count_silent`).
        heard: the training steps with a value.
        day: the steps of a day.
    """
    last_heard = len(heard) - 1 - np.argmax(heard[::-1], axis=0)
    before = np.arange(len(heard))[:, None] <= last_heard
    final = np.where(before, 0, counts).max(axis=0)
    has_closed = (final >= CLOSED_DAYS * day) & (heard.sum(axis=0) >= RUN_DAYS * day)
    return np.asarray(np.where(before | ~has_closed, counts, 0).max(axis=0))


def _is_asleep(panel: Panel, first: int, end: int, stride: int = 1) -> Bool[np.ndarray, "T N"]:
    """Which locations are outside their opening hours at steps first…end−1."""
    return np.asarray(~panel.within_hours(first, end)[::stride])


def _extend_back(steps: Bool[np.ndarray, " M"], by: int) -> Bool[np.ndarray, " M"]:
    """The steps, and as many as `by` before each of them."""
    counts = np.concatenate([[0], np.cumsum(steps)])
    ends = np.minimum(np.arange(len(steps)) + 1 + by, len(steps))
    return np.asarray(counts[ends] > counts[:-1])
