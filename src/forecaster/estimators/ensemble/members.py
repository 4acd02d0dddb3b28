"""The members of an ensemble: estimators whose arrays share one run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool

from forecaster.artifact import Run
from forecaster.config import EnsembleConfig
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.registry import LAGGED, find_estimator
from forecaster.estimators.training_data import Arrays
from forecaster.recipe import Recipe
from forecaster.splits import MAX_FILLED, history_steps

T = TypeVar("T")
PREFIX = "member."  # of the names of the members' arrays in a run: member.Ridge.weights
SHARED = ("shared.", "graph.")  # of the names of arrays that all members read
SEEDS = 2**63  # that a recipe may have
SEEDED = " seed "  # between the name of a network and the number of its training


class MemberArrays(Mapping[str, np.ndarray]):
    """The arrays of a run as one member reads them: its own without their prefix, and shared ones.

    A view: arrays that a fit adds later are seen too.
    """

    def __init__(self, arrays: Arrays, name: str) -> None:
        self._arrays, self._prefix = arrays, f"{PREFIX}{name}."

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._arrays.get(self._prefix + name)
        if array is None and name.startswith(SHARED):
            return self._arrays[name]
        if array is None:
            raise KeyError(name)
        return array

    def __iter__(self) -> Iterator[str]:
        for name in self._arrays:
            if name.startswith(self._prefix):
                yield name.removeprefix(self._prefix)
            elif name.startswith(SHARED):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, eq=False)
class Member:
    """An estimator that is a member, and its name in the run."""

    name: str
    estimator: Estimator

    @property
    def folder(self) -> str:
        """The folder of its checkpoints in that of the training."""
        return self.name.lower().replace(" ", "-")

    def arrays_of(self, arrays: Arrays) -> MemberArrays:
        """Its part of a run's arrays."""
        return MemberArrays(arrays, self.name)

    def run_of(self, run: Run) -> Run:
        """The run as if it were this member's alone."""
        arrays = self.arrays_of(run.arrays)
        name = type(self.estimator).__name__
        return replace(run, estimator=name, recipe=self.estimator.recipe, arrays=arrays)

    def put(self, parts: Mapping[str, T]) -> dict[str, T]:
        """Arrays of the member alone, or shapes of them, by their names in the run.

        Those that all members share keep their names.
        """
        return {
            name if name.startswith(SHARED) else f"{PREFIX}{self.name}.{name}": part
            for name, part in parts.items()
        }

    def is_in(self, arrays: Arrays) -> bool:
        """Whether a run has this member."""
        return any(name.startswith(f"{PREFIX}{self.name}.") for name in arrays)

    def can_forecast(self, inputs: ForecastInputs, known: int, *, masked: bool) -> "Available":
        """Where the member can forecast.

        Args:
            inputs: of the forecasts.
            known: the number of locations that the run was fitted to; new ones come after them.
            masked: whether others can forecast from a history with gaps, so that a member that
                needs a filled one is left out where more than a tenth of it is missing.
        """
        B, N = len(inputs.origins), len(inputs.panel.locations)
        available = np.ones((B, N), dtype=bool)
        if not self.estimator.accepts_new_locations:
            available[:, known:] = False
        if masked and not self.estimator.masks_missing:
            available[:, :known] &= ~_has_gaps(inputs, self.estimator.recipe)[:, :known]
        return available


Available = Bool[np.ndarray, "B N"]


def make_members(recipe: Recipe) -> tuple[Member, ...]:
    """The members that a recipe asks for, not fitted yet.

    Trainings of one member have consecutive seeds, and ensembles with different seeds of the
    recipe have no training in common.
    """
    config, members = recipe.ensemble or EnsembleConfig(), []
    for kind in config.members:
        name, section = LAGGED.get(kind, (kind, {}))
        estimator_type = find_estimator(name)
        seeds = config.seeds if estimator_type.seeded else 1
        for number in range(seeds):
            seed = (recipe.training.seed * seeds + number) % SEEDS
            training = recipe.training.model_copy(update={"seed": seed})
            changes: dict[str, Any] = {"ensemble": None, "training": training}
            for part, values in section.items():
                changes[part] = getattr(recipe, part).model_copy(update=values)
            estimator = estimator_type(recipe=recipe.model_copy(update=changes))
            members.append(Member(f"{kind}{SEEDED}{number}" if seeds > 1 else kind, estimator))
    return tuple(members)


def own_name(name: str) -> str:
    """The name of a run's array without the prefix of a member."""
    return name.removeprefix(PREFIX).split(".", 1)[1] if name.startswith(PREFIX) else name


def _has_gaps(inputs: ForecastInputs, recipe: Recipe) -> Available:
    """Where more than a tenth of the history of an open location is missing."""
    panel, origins = inputs.panel, inputs.origins
    gaps = np.zeros((len(origins), len(panel.locations)), dtype=np.int32)
    if inputs.observed is None:
        return gaps > 0
    missing = np.isnan(inputs.observed) & panel.alive(0, len(panel.values))
    columns = np.flatnonzero(missing.any(axis=0))
    if not len(columns):
        return gaps > 0
    steps = history_steps(panel, recipe.lags, origins)
    for lag in steps.T:
        gaps[:, columns] += missing[lag][:, columns]
    return np.asarray(gaps > MAX_FILLED * steps.shape[1])
