"""The start of a network from a trained run: its weights, and the scales that they belong to.

A weight means something only in the units that it was trained in. So a location that the run
knows keeps its scale, its profile and its bounds, and the network forecasts as the run does until
training goes on. Locations that are new to the run get those of their own training steps.
"""

from collections.abc import Sequence

import numpy as np

from forecaster.config import TrainingConfig
from forecaster.errors import ArtifactError
from forecaster.estimators.networks.profile import (
    CITY,
    DEVIATIONS,
    KNOWN,
    PROFILE,
    RANGES,
    SEEN_ONCE,
    YEARLY,
)
from forecaster.estimators.training_data import Arrays
from forecaster.models.carried import Kept

EPOCHS_SHARE = 0.1  # of the recipe's epochs, for each span of training weeks
RATE_SHARE = 0.3  # of the recipe's learning rate
KERNEL = "diffusion.kernel"  # of networks that diffuse between nearby locations
# Arrays of a run with an entry for each location, and the axes of these.
BY_LOCATION = {
    "values.mean": (0,),
    "values.deviation": (0,),
    "values.least": (0,),
    "values.most": (0,),
    PROFILE: (0,),
    RANGES: (1,),
    DEVIATIONS: (1,),
    KNOWN: (0,),
    KERNEL: (0, 1),
}
SHARED = ("covariates.", "local_covariates.", CITY)


def find_kept(before: Sequence[str], after: Sequence[str]) -> Kept:
    """The locations that two runs share."""
    number = {identity: n for n, identity in enumerate(before)}
    pairs = [(number[i], n) for n, i in enumerate(after) if i in number]
    numbers = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Kept(numbers[:, 0], numbers[:, 1])


def keep_statistics(trained: Arrays, fitted: Arrays, kept: Kept) -> dict[str, np.ndarray]:
    """The arrays of a run with the scales, profiles and bounds of an earlier one.

    Args:
        trained: of the earlier run.
        fitted: of the coming one, from its own training steps.
        kept: the locations of both; of these, those that the earlier one hardly knew are as new.
    """
    was_known = trained[KNOWN][kept.before] if KNOWN in trained else np.ones(len(kept.before))
    before, after = kept.before[was_known >= 1], kept.after[was_known >= 1]
    arrays = dict(fitted)
    for name in ("covariates.mean", "local_covariates.mean"):
        if trained[name].shape != fitted[name].shape:
            counts = f"{len(trained[name])} in the run, {len(fitted[name])} in the panel"
            raise ArtifactError(f"{name.partition('.')[0]}: {counts}; train a new run")
    for name, axes in BY_LOCATION.items():
        if name in fitted and name in trained:
            arrays[name] = fitted[name].copy()
            whole = [np.arange(size) for size in trained[name].shape]
            old = [before if axis in axes else all_of for axis, all_of in enumerate(whole)]
            new = [after if axis in axes else all_of for axis, all_of in enumerate(whole)]
            arrays[name][np.ix_(*new)] = trained[name][np.ix_(*old)]
    arrays |= {n: array for n, array in trained.items() if n in fitted and n.startswith(SHARED)}
    for name in (SEEN_ONCE, YEARLY):
        arrays.pop(name, None)
        if name in trained:
            arrays[name] = trained[name]
    return arrays


def shorten(config: TrainingConfig) -> TrainingConfig:
    """The training of a network that goes on: a tenth of the epochs, at a lower rate."""
    epochs = max(int(EPOCHS_SHARE * config.epochs), 1)
    rate = RATE_SHARE * config.learning_rate
    return config.model_copy(update={"epochs": epochs, "learning_rate": rate})
