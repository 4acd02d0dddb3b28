"""What is usual, as a run remembers it, for networks that forecast deviations from it."""

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


def level_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what `learn_level` gives."""
    return {PROFILE: (sizes.N, WEEK_HOURS), COUNTS: ()}


def learn_level(data: TrainingData) -> Arrays:
    """Return the profile of the training steps, and whether its levels multiply."""
    counts = np.array(data.panel.kind == "count")
    return {PROFILE: fit_profile(data.panel, data.train), COUNTS: counts}


def level_of(known: Arrays) -> SeasonalProfile:
    """Return what is usual in the scales of a run, if it can be that at all."""
    profile, counts = known[PROFILE], known[COUNTS]
    if profile.dtype != np.float32 or counts.dtype != np.bool_:
        raise ArtifactError(f"a level of {profile.dtype} and {counts.dtype}, not float32 and bool")
    if not np.isfinite(profile).all() or (counts and (profile < 0).any()):
        raise ArtifactError("a level that no values can have: below zero, or not finite")
    scale = scaler_of(known).values
    parts = map(torch.from_numpy, (profile, scale.mean, scale.deviation))
    return SeasonalProfile(*parts, counts=bool(counts))
