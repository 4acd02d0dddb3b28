"""The seasonal profile as arrays of a run, for networks that forecast deviations from it."""

import logging

import numpy as np
import torch

from forecaster.clock.clock import WEEK_HOURS, WEEKDAYS
from forecaster.errors import ArtifactError
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import scaler_of
from forecaster.estimators.training_data import Arrays, TrainingData
from forecaster.models.mixer.seasonal import DAY_HOURS, DeviationBounds, SeasonalProfile
from forecaster.windows.profile import (
    fit_bounds,
    fit_city_shape,
    fit_profile,
    hours_of_day,
    is_seen_once,
    share_known,
)

log = logging.getLogger(__name__)
PROFILE, COUNTS = "level.profile", "level.counts"
RANGES, DEVIATIONS, KNOWN = "level.ranges", "level.deviations", "level.known"
CITY = "level.city"  # absent in runs whose network fills missing values
HOURS = "level.hours"  # of the day, by step of the season; absent: those of a week of hours
YEARLY = "level.yearly"  # True: a season that was seen once is a year; else absent
SEEN_ONCE = "level.seen_once"  # True: training is shorter than two seasons; else absent
MEAN, FILL = "values.mean", "shared.fill"


def profile_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shapes of `profile_arrays`, but for the steps of the season (`profile_slots`)."""
    del sizes
    return {COUNTS: ()}


def profile_slots(arrays: Arrays) -> int:
    """The number of steps of the season in the profile of a run; another shape is refused.

    Runs of earlier versions have hours of the week, whatever the step of their panel.
    """
    shape, N = arrays[PROFILE].shape, len(arrays[MEAN])
    usual = {WEEK_HOURS, len(arrays.get(FILL, arrays[PROFILE].T))}
    if shape not in {(N, slots) for slots in usual}:
        raise ArtifactError(f"{PROFILE} is {shape}, not ({N}, {max(usual)})")
    return shape[1]


def profile_arrays(data: TrainingData) -> Arrays:
    """The profile and bounds of the training steps, and whether values are counts."""
    counts = np.array(data.panel.kind == "count")
    profile = fit_profile(data.panel, data.train)
    ranges, deviations = fit_bounds(data.panel, data.train, profile)
    clock = data.panel.clock
    hours = {} if clock.season_slots == WEEK_HOURS else {HOURS: hours_of_day(clock)}
    seen_once = is_seen_once(data.panel, data.train)
    if seen_once:
        season = "year" if clock.has_yearly_season else "week"
        log.warning(
            "training is shorter than two %ss: what differs within a %s cannot be learned",
            season,
            season,
        )
    return {
        PROFILE: profile,
        COUNTS: counts,
        **hours,
        **({SEEN_ONCE: np.array(True)} if seen_once else {}),
        **({YEARLY: np.array(True)} if seen_once and clock.has_yearly_season else {}),
        RANGES: ranges,
        DEVIATIONS: deviations,
        KNOWN: share_known(data.panel, data.train),
        CITY: fit_city_shape(data.panel, data.train),
    }


def sees_repeats(arrays: Arrays) -> bool:
    """Whether a run was trained on two seasons or more."""
    return not arrays.get(SEEN_ONCE, False)


def has_single_year(arrays: Arrays) -> bool:
    """Whether the season that training has seen once is a year; else it is a week of whole days.

    Runs of earlier versions do not say it, and are told by the number of its steps.
    """
    return YEARLY in arrays or profile_slots(arrays) % len(WEEKDAYS) != 0


def profile_of(arrays: Arrays, recent: int | None = None) -> SeasonalProfile:
    """The seasonal profile of a run, in its scales; impossible values are refused.

    Args:
        arrays: of the run.
        recent: the last steps that other locations see; None: all.
    """
    profile, counts, W = arrays[PROFILE], arrays[COUNTS], profile_slots(arrays)
    if profile.dtype != np.float32 or counts.dtype != np.bool_:
        types = f"{profile.dtype} and {counts.dtype}"
        raise ArtifactError(f"{PROFILE} and {COUNTS} are {types}, not float32 and bool")
    if not np.isfinite(profile).all() or (counts and (profile < 0).any()):
        raise ArtifactError(f"{PROFILE} has values below zero or not finite")
    scale = scaler_of(arrays).values
    tensors = map(torch.from_numpy, (profile, scale.mean, scale.deviation))
    return SeasonalProfile(
        *tensors, counts=bool(counts), bounds=_bounds_of(arrays, W), recent=recent
    )


def _bounds_of(arrays: Arrays, W: int) -> DeviationBounds | None:
    """The bounds of what other locations see; None in runs of earlier versions."""
    if RANGES not in arrays:
        return None
    N = len(arrays[PROFILE])
    needed = {
        RANGES: ("float32", (2, N, DAY_HOURS)),
        DEVIATIONS: ("float32", (2, N)),
        KNOWN: ("float32", (N,)),
    }
    needed |= {CITY: ("float32", (W,))} if CITY in arrays else {}
    needed |= {HOURS: ("int64", (W,))} if HOURS in arrays else {}
    for name, form in needed.items():
        array = arrays.get(name)
        if array is None or (array.dtype.name, array.shape) != form:
            present = "missing" if array is None else f"{array.dtype} {array.shape}"
            raise ArtifactError(f"{name} is {present}, not {form[0]} {form[1]}")
        if not np.isfinite(array).all():
            raise ArtifactError(f"{name} has values that are not finite")
    if HOURS in arrays and not ((arrays[HOURS] >= 0) & (arrays[HOURS] < DAY_HOURS)).all():
        raise ArtifactError(f"{HOURS} has values that are no hours of the day")
    tensors = {name: torch.from_numpy(arrays[name]) for name in needed}
    return DeviationBounds(
        tensors[RANGES], tensors[DEVIATIONS], tensors[KNOWN], tensors.get(CITY), tensors.get(HOURS)
    )
