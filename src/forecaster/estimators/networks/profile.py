"""The seasonal profile as arrays of a run, for networks that forecast deviations from it."""

import numpy as np
import torch

from forecaster.clock.clock import WEEK_HOURS
from forecaster.errors import ArtifactError
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import scaler_of
from forecaster.estimators.training_data import Arrays, TrainingData
from forecaster.models.seasonal import SeasonalProfile
from forecaster.windows.profile import fit_profile

PROFILE, COUNTS = "level.profile", "level.counts"


def profile_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shapes of `profile_arrays`."""
    return {PROFILE: (sizes.N, WEEK_HOURS), COUNTS: ()}


def profile_arrays(data: TrainingData) -> Arrays:
    """The profile of the training steps, and whether values are counts (levels multiply)."""
    counts = np.array(data.panel.kind == "count")
    return {PROFILE: fit_profile(data.panel, data.train), COUNTS: counts}


def profile_of(arrays: Arrays) -> SeasonalProfile:
    """The seasonal profile of a run, in its scales; impossible values are refused."""
    profile, counts = arrays[PROFILE], arrays[COUNTS]
    if profile.dtype != np.float32 or counts.dtype != np.bool_:
        types = f"{profile.dtype} and {counts.dtype}"
        raise ArtifactError(f"{PROFILE} and {COUNTS} are {types}, not float32 and bool")
    if not np.isfinite(profile).all() or (counts and (profile < 0).any()):
        raise ArtifactError(f"{PROFILE} has values below zero or not finite")
    scale = scaler_of(arrays).values
    tensors = map(torch.from_numpy, (profile, scale.mean, scale.deviation))
    return SeasonalProfile(*tensors, counts=bool(counts))
