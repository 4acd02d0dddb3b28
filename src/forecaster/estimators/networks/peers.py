"""Networks of others as estimators: STID."""

import numpy as np
from torch import Generator

from forecaster.config import STIDConfig
from forecaster.errors import ArtifactError
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.estimator import heads_of
from forecaster.estimators.networks.past import PastEstimator
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.models.neurons import NeuronLayout
from forecaster.models.peers import stid

SLOTS = "season.slots"  # the number of steps of the season, an array of a run


class PeerEstimator(PastEstimator):
    """A network that is told the time of day and the weekday of its steps."""

    @property
    def masks_missing(self) -> bool:  # type: ignore[override]
        """Whether missing history is a masked input: with the lags of all others."""
        return self.config.inputs == "lags"

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and of the number of steps of the season."""
        return {**super().shapes(sizes), SLOTS: ()}

    def prerequisites(self, data: TrainingData) -> FitResult:
        """The number of steps of the season."""
        return FitResult({SLOTS: np.array(data.panel.clock.season_slots)})


class STID(PeerEstimator):
    """STID, spatial and temporal identities (Shao et al. 2022); settings: `[stid]` of the recipe.

    Differs: it is trained like every network here (Eq. 7, AdamW, one cycle), where its authors
    minimise the mean absolute error by Adam with a falling rate.
    """

    section = "stid"

    @property
    def config(self) -> STIDConfig:
        """Its section of the recipe."""
        return self.recipe.stid

    def build(
        self, layout: NeuronLayout, arrays: Arrays, generator: Generator
    ) -> stid.STIDNetwork:
        """The network with new weights."""
        self.refuse_long_history()
        slots, heads = _slots(arrays), heads_of(arrays)
        return stid.STIDNetwork(self.config, self.lags, layout, slots, generator, heads)

    def size(self, layout: NeuronLayout, arrays: Arrays) -> int:
        """The number of weights of the embeddings and of the residual layers."""
        return stid.count_weights(self.config, layout, _slots(arrays))


def _slots(arrays: Arrays) -> int:
    """The number of steps of the season of a run; impossible ones are refused."""
    slots = arrays[SLOTS]
    if slots.dtype != np.int64 or slots < 1:
        raise ArtifactError(f"{SLOTS} is {slots} ({slots.dtype}), not an int64 above 0")
    return int(slots)
