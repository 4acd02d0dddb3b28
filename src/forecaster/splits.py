"""Training, validation and test steps, and the windows of each split.

A window belongs to the split that contains all its target steps. Its history may reach into any
earlier steps, except that a training window whose history touches validation or test steps, or
a validation window whose history touches test steps, is dropped. Windows with too little observed
history are dropped from every split. All dropped windows are counted. Steps at which all places
are closed are neither targets nor gaps: without any open target there is no window.

Training windows whose history begins before the panel, or of which too little is observed, are
kept apart: networks that mask missing values learn from them too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.clock.clock import Clock
from forecaster.clock.lags import HISTORY_SHARE
from forecaster.clock.zone import SECOND, Times, to_utc
from forecaster.config import LagConfig, SplitsConfig
from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some
from forecaster.panel.panel import Panel
from forecaster.panel.past_only import known_columns, known_layers

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
MAX_FILLED = 0.1  # share of a window's history, or of its origin's locations, that may be missing
VALIDATION_SHARE, VALIDATION_WINDOWS = 0.1, 20  # the latter for the quantiles of short panels
TRAINING_SHARE, TEST_SHARE = 0.5, 0.2  # at least, where validation needs more than its share
BLOCK_STEPS = 2**22  # of the windows that are judged at a time, to bound memory
_NAMED = 5  # most locations that an error names
_DAY = np.timedelta64(1, "D")
DAY_MINUTES = 24 * 60
YEAR_MINUTES = 365 * DAY_MINUTES
VALIDATION_DAYS = 28  # at most, of a later fit; at least half of that
VALIDATION_LARGEST = 0.2  # of what a later fit learns from, to reach that


@dataclass(frozen=True)
class Splits:
    """Ranges of time, several per split, both ends included.

    A date stands for its whole local day; a time without an offset is local.
    """

    train: Sequence[tuple[str, str]]
    validation: Sequence[tuple[str, str]]
    test: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        faults = Faults("splits")
        for name in SPLITS:
            if not getattr(self, name):
                faults.add(f"{name}: no range; give one such as ('2013-01-01', '2013-12-31')")
            for pair in getattr(self, name):
                match pair:
                    case str(first), str(last):
                        for text in filter(_is_no_time, (first, last)):
                            faults.add(f"{name}: {text!r} is not a time; give e.g. 2013-01-01")
                    case _:
                        form = "('2013-01-01', '2013-12-31')"
                        faults.add(f"{name}: {pair!r} is not a range; give e.g. {form}")
        faults.raise_any(ConfigError)

    @staticmethod
    def by_share(
        panel: Panel, validation: float | None = None, test: float = TEST_SHARE, horizon: int = 3
    ) -> "Splits":
        """Split by share: test is the end, validation comes before it, the rest is training.

        Args:
            panel: whose steps are split.
            validation: its share. Default: a tenth, and as much as 20 windows need where training
                keeps half of the steps.
            test: its share.
            horizon: the number of steps of a window's targets.
        """
        steps = len(panel.values)
        if validation is None:
            enough = (VALIDATION_WINDOWS + horizon - 1) / steps
            validation = max(VALIDATION_SHARE, min(enough, 1 - TRAINING_SHARE - test))
        ends = [0, round(steps * (1 - validation - test)), round(steps * (1 - test)), steps]
        if min(np.diff(ends)) < 1:
            message = f"shares {validation:g} and {test:g} leave a split empty"
            raise ConfigError(f"splits: {message}; the panel has {count_of(steps, 'step')}")
        stamps = [f"{time}Z" for time in panel.times]
        ranges = [[(stamps[a], stamps[b - 1])] for a, b in pairwise(ends)]
        return Splits(*ranges)

    @staticmethod
    def from_config(panel: Panel, config: SplitsConfig, horizon: int = 3) -> "Splits":
        """The ranges of a recipe, or `by_share` if it has none."""
        if not config.train:
            return Splits.by_share(panel, horizon=horizon)
        return Splits(config.train, config.validation, config.test)

    def until(self, panel: Panel, step: int, horizon: int) -> "Splits":
        """The splits of a later fit: all before a step is learned from, the rest is test.

        Learning begins where it began before. Its newest part validates: as much as before, but
        at most four weeks, or as much as 20 windows need; and at least two weeks, which judging
        drift takes, if these are no more than a fifth.

        Args:
            panel: whose steps are split.
            step: the first that the later fit must not see.
            horizon: the number of steps of a window's targets.
        """
        learned, validated = (
            self.mask(name, panel.clock, panel.times[:step]) for name in ("train", "validation")
        )
        first = int(np.argmax(learned))
        validation = step - _validation_steps(
            int(validated.sum()), step - first, panel.clock, horizon
        )
        if not learned.any() or validation <= first:
            raise DataError(
                f"splits: too few steps before {panel.instant(step)}Z; the first training step "
                f"is {panel.times[first]}Z and the last {step - validation} steps validate"
            )
        stamps = [f"{time}Z" for time in panel.times]
        borders = [first, validation, step, len(stamps)]
        return Splits(*([(stamps[a], stamps[b - 1])] for a, b in pairwise(borders)))

    def mask(self, split: Split, clock: Clock, times: Times) -> Bool[np.ndarray, " M"]:
        """A mask of the steps in a split."""
        inside = np.zeros(len(times), dtype=bool)
        for begin, end in self.instants(split, clock):
            inside |= (times >= begin) & (times < end)
        return inside

    def instants(self, split: Split, clock: Clock) -> list[tuple[np.datetime64, np.datetime64]]:
        """The instants at which each range of a split begins and has ended."""
        ranges = getattr(self, split)
        return [(_begin(first, clock), _end(last, clock)) for first, last in ranges]


def _validation_steps(before: int, learned: int, clock: Clock, horizon: int) -> int:
    """The length of a later validation split, in whole days where a step is shorter."""
    day = max(DAY_MINUTES // clock.step_minutes, 1)
    most = VALIDATION_DAYS * DAY_MINUTES // clock.step_minutes
    least = most // 2 if most // 2 <= VALIDATION_LARGEST * learned else 1
    steps = min(max(before, least), max(most, VALIDATION_WINDOWS + horizon - 1))
    return -(-steps // day) * day


@dataclass(frozen=True)
class Windows:
    """The origins of each split, as steps of the panel, and the number dropped by reason."""

    train: Int64[np.ndarray, " B1"]
    validation: Int64[np.ndarray, " B2"]
    test: Int64[np.ndarray, " B3"]
    dropped: dict[str, int]
    # Further origins of training, of whose history a part is missing or before the panel.
    partial: Int64[np.ndarray, " B4"] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {len(getattr(self, name)):,}" for name in SPLITS)
        counts += f"; with partial history {len(self.partial):,}" if len(self.partial) else ""
        drops = ", ".join(f"{reason} {count:,}" for reason, count in self.dropped.items() if count)
        return f"windows: {counts}" + (f"; dropped: {drops}" if drops else "")


def cut_windows(
    panel: Panel, splits: Splits, lags: LagConfig, needed: Sequence[Split] = SPLITS
) -> Windows:
    """The windows of each split, by the rule above.

    A step in two splits is refused, and so is a needed split without any window.
    """
    split_of_step = assign_splits(panel, splits)
    origins, split, reasons = _judge_all(panel, lags, split_of_step)
    is_dropped = np.zeros(len(origins), dtype=bool)
    dropped = {}
    for reason, rows in reasons.items():  # a window counts for the first reason that applies
        dropped[reason] = int((rows & ~is_dropped).sum())
        is_dropped |= rows
    within = split >= 0
    usable = within & ~is_dropped
    train, validation, test = (origins[usable & (split == n)] for n in range(len(SPLITS)))
    windows = Windows(
        train, validation, test, dropped, _partial(panel, split_of_step, lags, train)
    )
    empty = [name for name in needed if not len(getattr(windows, name))]
    if empty:
        gaps = dropped["too little history observed"] > 0
        hint = name_most_missing(panel, split_of_step >= 0) if gaps else ""
        hint = hint or explain_short(panel, lags)
        raise DataError(f"splits: no window left for {name_some(empty)} ({windows}){hint}")
    return windows


def explain_short(panel: Panel, lags: LagConfig) -> str:
    """What a short panel lacks for training, validation and test; empty if it is long enough."""
    steps, clock = len(panel.values), panel.clock
    validated = VALIDATION_WINDOWS + lags.horizon - 1
    needed = math.ceil(validated / (1 - TRAINING_SHARE - TEST_SHARE))
    if steps >= needed:
        return ""
    has = f"The panel has {count_of(steps, 'step')} of {clock.step_text}"
    advice = f"forecasts {count_of(lags.horizon, 'step')} ahead need about {needed}, of which "
    advice += f"{validated} validate"
    if clock.has_yearly_season:
        year = round(YEAR_MINUTES / clock.step_minutes / HISTORY_SHARE)
        advice += f"; a yearly season alone needs about {year}"
    return f". {has}: {advice}; give a longer table, or smaller steps"


def _partial(
    panel: Panel,
    split_of_step: Int64[np.ndarray, " M"],
    lags: LagConfig,
    whole: Int64[np.ndarray, " B"],
) -> Int64[np.ndarray, " B4"]:
    """The other training origins: at least half of the locations are observed there.

    Their targets are training steps, and so is their history as far as the panel reaches back.
    """
    observed = np.isfinite(panel.values)
    origins = np.arange(lags.recent - 1, len(panel.values) - lags.horizon)
    origins = np.setdiff1d(origins, whole)
    seen = observed[np.maximum(origins - panel.clock.last_open(panel.times[origins]), 0)]
    origins = origins[2 * seen.sum(axis=1) >= observed.shape[1]]
    ahead = origins[:, None] + np.arange(1, lags.horizon + 1)
    past = origins[:, None] - panel.clock.lag_steps(lags, panel.times[origins])
    usable = (split_of_step[ahead] == 0).all(axis=1)
    usable &= ((past < 0) | (split_of_step[np.maximum(past, 0)] == 0)).all(axis=1)
    usable &= observed.any(axis=1)[ahead].any(axis=1)  # so one of them is open
    usable &= ~_lacks_covariates(panel, origins, ahead)
    return np.asarray(origins[usable])


def history_steps(panel: Panel, lags: LagConfig, origins: Int64[np.ndarray, " B"]) -> np.ndarray:
    """The past steps of each origin's window, ordered as in `Clock.lag_steps`: Int64[B L]."""
    steps = origins[:, None] - panel.clock.lag_steps(lags, panel.times[origins])
    if steps.size and steps.min() < 0:
        lacking = int(-steps.min())
        origin = int(origins[np.argmin(steps.min(axis=1))])
        needed = origin + 1 + lacking
        message = f"need ≥ {needed} steps of history up to {panel.times[origin]}Z"
        remedy = "use a later origin, add earlier steps, or use shorter lags"
        raise DataError(f"{message}, have {needed - lacking}; {remedy}")
    return np.asarray(steps)


def is_incomplete(
    panel: Panel, history: Int64[np.ndarray, "B L"], origins: Int64[np.ndarray, " B"]
) -> Bool[np.ndarray, " B"]:
    """Which windows lack more than a tenth of the values of their history, or of their origin.

    Only locations that are open count, and only those with any value since the window's oldest
    step: others are not there. With two to nine of them, one missing value per step is tolerated.
    A closed origin stands for the last open step before it.
    """
    last_open = origins - panel.clock.last_open(panel.times[origins])
    steps = np.concatenate([history, last_open[:, None]], axis=1)
    lacking, expected = (count[steps] for count in _count_missing(panel.values, living(panel)))
    gone = _count_gone(panel, steps)
    lacking, expected = lacking - gone, expected - gone
    nobody = (expected[:, -1] == 0) & (not panel.locations.has_hours)  # else it is night
    tolerated = _tolerated(expected)
    lacking, expected = np.maximum(lacking - tolerated, 0), expected - tolerated
    few = lacking[:, :-1].sum(axis=1) > MAX_FILLED * expected[:, :-1].sum(axis=1)
    return np.asarray(few | (lacking[:, -1] > MAX_FILLED * expected[:, -1]) | nobody)


def _count_gone(panel: Panel, steps: Int64[np.ndarray, "B T"]) -> Int64[np.ndarray, "B t"]:
    """How many open locations have no value from the oldest of some steps to the last."""
    observed = np.isfinite(panel.values)
    columns = np.flatnonzero(~observed.all(axis=0))
    counts = np.zeros((len(observed) + 1, len(columns)), dtype=np.int32)
    np.cumsum(observed[:, columns], axis=0, out=counts[1:])
    gone = counts[steps[:, -1] + 1] == counts[steps.min(axis=1)]  # [B n]
    alive = living(panel)
    if alive is None:
        return np.asarray(gone.sum(axis=1, keepdims=True))
    total = np.zeros(steps.shape, dtype=np.int64)
    for number in np.flatnonzero(gone.any(axis=0)).tolist():
        rows = np.flatnonzero(gone[:, number])
        total[rows] += alive[steps[rows], columns[number]]
    return total


def living(panel: Panel) -> Bool[np.ndarray, "M N"] | None:
    """Which locations are open at which steps; None: none can be closed."""
    return panel.alive(0, len(panel.values)) if panel.locations.can_close else None


def is_well_observed(
    values: Float32[np.ndarray, "T N"], alive: Bool[np.ndarray, "T N"] | None = None
) -> Bool[np.ndarray, " T"]:
    """Which steps have enough values to be an origin, by the same rule.

    Args:
        values: NaN: missing.
        alive: which locations are open, of which values are expected; None: all.
    """
    missing, counted = _missing(values, alive)
    return np.asarray((missing <= MAX_FILLED * counted) & (counted > 0))


def _tolerated(N: Int64[np.ndarray, "*T"]) -> Int64[np.ndarray, "*T"]:
    """The number of N locations that may be missing beyond a tenth: 1 of two to nine, else 0.

    A tenth of fewer than ten locations is none: one dead sensor would stop all forecasts.
    """
    return ((N > 1) & (N < 1 / MAX_FILLED)).astype(np.int64)


def _missing(
    values: Float32[np.ndarray, "T N"], alive: Bool[np.ndarray, "T N"] | None
) -> tuple[Int64[np.ndarray, " T"], Int64[np.ndarray, " T"]]:
    """The number of missing and of expected values of each step; a tolerated one is in neither."""
    lacking, expected = _count_missing(values, alive)
    tolerated = _tolerated(expected)
    return np.maximum(lacking - tolerated, 0), expected - tolerated


def _count_missing(
    values: Float32[np.ndarray, "T N"], alive: Bool[np.ndarray, "T N"] | None
) -> tuple[Int64[np.ndarray, " T"], Int64[np.ndarray, " T"]]:
    """The number of missing and of expected values of each step."""
    missing, (T, N) = np.isnan(values), values.shape
    if alive is None:
        return missing.sum(axis=1), np.full(T, N)
    return (missing & alive).sum(axis=1), alive.sum(axis=1)


def name_most_missing(panel: Panel, steps: Bool[np.ndarray, " M"]) -> str:
    """A hint that names the locations with most missing values; empty if none has any."""
    alive = panel.alive(0, len(panel.values))[steps]
    names = worst_locations(panel.locations.ids, panel.values[steps], alive)
    return f". Missing most: {names}; leave those out" if names else ""


def worst_locations(
    ids: Sequence[str], values: Float32[np.ndarray, "T N"], alive: Bool[np.ndarray, "T N"]
) -> str:
    """The locations with most missing values and their shares of them: `L0007 100 %`.

    Args:
        ids: of the locations.
        values: NaN: missing.
        alive: which locations are open; others have no missing values.
    """
    missing = (np.isnan(values) & alive).sum(axis=0) / np.maximum(alive.sum(axis=0), 1)
    worst = [n for n in np.argsort(-missing, kind="stable")[:_NAMED].tolist() if missing[n] > 0]
    return name_some(f"{ids[n]} {100 * missing[n]:.0f} %" for n in worst)


def _lacks_covariates(
    panel: Panel, origins: Int64[np.ndarray, " B"], ahead: Int64[np.ndarray, "B K"]
) -> Bool[np.ndarray, " B"]:
    """Which windows lack a covariate ahead that is known ahead, or was at their origin."""
    lacks = _lacking_steps(panel)[ahead].any(axis=1)
    vintages = panel.covariates.vintages and panel.covariates.vintages.select(panel.known_ahead)
    if vintages is None:
        return np.asarray(lacks)
    for steps in ahead.T:  # one step ahead at a time, to bound memory
        unknown = np.isnan(vintages.seen(origins, steps)).any(axis=1)
        lacks |= unknown & panel.clock.is_open(panel.instants(steps))
    return np.asarray(lacks)


def _lacking_steps(panel: Panel) -> Bool[np.ndarray, " S"]:
    """Which steps lack a covariate that is known ahead, or one of a location that is open."""
    missing = np.isnan(known_columns(panel.covariates)).any(axis=1)
    if panel.clock.hours:
        missing &= panel.clock.is_open(panel.known_times)
    absent = np.isnan(known_layers(panel.local_covariates))
    if panel.locations.can_close:
        absent &= panel.alive(0, len(missing))
    missing |= absent.any(axis=(0, 2))
    return np.asarray(missing)


def assign_splits(panel: Panel, splits: Splits) -> Int64[np.ndarray, " M"]:
    """The number of each step's split, −1 for none; a step in two splits is refused."""
    number = np.full(len(panel.values), -1, dtype=np.int64)
    faults = Faults("splits")
    for index, name in enumerate(SPLITS):
        inside = splits.mask(name, panel.clock, panel.times)
        taken = inside & (number >= 0)
        if taken.any():
            earlier, first = SPLITS[number[np.argmax(taken)]], panel.times[np.argmax(taken)]
            steps = f"{count_of(int(taken.sum()), 'step')} in both {earlier} and {name}"
            faults.add(f"{steps}, the first at {first}Z; each step may be in one split")
        if not inside.any():
            span = f"{panel.times[0]}Z … {panel.times[-1]}Z"
            faults.add(
                f"{name}: {list(getattr(splits, name))} holds no step of the panel ({span})"
            )
        for first, last in getattr(splits, name):
            if _begin(first, panel.clock) >= _end(last, panel.clock):
                faults.add(f"{name}: {first} … {last} ends before it begins; swap its ends")
        number[inside] = index
    faults.raise_any(DataError)
    return number


def _judge_all(
    panel: Panel, lags: LagConfig, split_of_step: Int64[np.ndarray, " M"]
) -> tuple[Int64[np.ndarray, " B"], Int64[np.ndarray, " B"], dict[str, np.ndarray]]:
    """The origins with their whole history and horizon inside the panel, and `_judge` of each."""
    steps = np.arange(len(panel.values) - lags.horizon)
    parts, size = [], max(BLOCK_STEPS // max(lags.length, lags.horizon), 1)
    for block in np.split(steps, range(size, len(steps), size)):
        history = block[:, None] - panel.clock.lag_steps(lags, panel.times[block])
        fits = (history >= 0).all(axis=1)
        if fits.any():
            origins, history = block[fits], history[fits]
            parts.append((origins, *_judge(panel, lags, split_of_step, origins, history)))
    if not parts:
        needed = panel.clock.needed_steps(lags, panel.times) + lags.horizon
        raise DataError(
            f"need ≥ {needed} steps for one window, have {len(panel.values)}; add earlier data"
            f"{explain_short(panel, lags)}"
        )
    all_origins, splits, reasons = zip(*parts, strict=True)
    joined = {name: np.concatenate([part[name] for part in reasons]) for name in reasons[0]}
    return np.concatenate(all_origins), np.concatenate(splits), joined


def _judge(
    panel: Panel,
    lags: LagConfig,
    split_of_step: Int64[np.ndarray, " M"],
    origins: Int64[np.ndarray, " B"],
    history: Int64[np.ndarray, "B L"],
) -> tuple[Int64[np.ndarray, " B"], dict[str, np.ndarray]]:
    """The split of each window, −1 for none, and by reason which are dropped: Bool[B]."""
    ahead = origins[:, None] + np.arange(1, lags.horizon + 1)
    target = split_of_step[ahead]  # [B, K]
    split = target[:, 0]
    same_split = (target == split[:, None]).all(axis=1) & (split >= 0)
    history_split = split_of_step[history]  # [B, L]
    held_out = history_split > SPLITS.index("train")
    in_test = history_split == SPLITS.index("test")
    unobserved = np.isnan(panel.values).all(axis=1)[ahead].all(axis=1)
    within = same_split & panel.clock.is_open(panel.times)[ahead].any(axis=1)  # else no window
    return np.where(within, split, -1), {
        "targets across a border": ~same_split & (target >= 0).any(axis=1),
        "no target observed": within & unobserved,
        "covariates ahead missing": within & _lacks_covariates(panel, origins, ahead),
        "too little history observed": within & is_incomplete(panel, history, origins),
        "training history in held-out steps": within & (split == 0) & held_out.any(axis=1),
        "validation history in test steps": within & (split == 1) & in_test.any(axis=1),
    }


def _begin(text: str, clock: Clock) -> np.datetime64:
    """The instant at which a range begins."""
    return _instants(text, clock)[0]


def _end(text: str, clock: Clock) -> np.datetime64:
    """The instant at which a range has ended: after its last day, or past its last time."""
    if _is_date(text):
        return _instants(text, clock, days=1)[0]
    return _instants(text, clock)[1] + SECOND


def _instants(text: str, clock: Clock, days: int = 0) -> tuple[np.datetime64, np.datetime64]:
    """The first and last instant of a time; they differ only for repeated local times."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        instant = np.datetime64(int(moment.timestamp()), "s")
        return instant, instant
    utc = to_utc(clock.zone, np.array([moment], dtype="datetime64[s]") + days * _DAY)
    return np.datetime64(utc.first[0]), np.datetime64(utc.second[0])


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_no_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return True
    return False
