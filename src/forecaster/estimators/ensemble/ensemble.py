"""Ensemble: models of several kinds, whose forecasts are averaged with weights."""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.artifact import Run
from forecaster.choices import MemberName
from forecaster.config import EnsembleConfig
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.base import BLOCK, Estimator
from forecaster.estimators.ensemble.average import MemberForecasts, average, average_means
from forecaster.estimators.ensemble.fitting import MemberFits, announce, fit_members
from forecaster.estimators.ensemble.judge import describe, fit_factors, judge
from forecaster.estimators.ensemble.members import Member, MemberArrays, make_members
from forecaster.estimators.forecast_inputs import ForecastInputs, prepare_inputs
from forecaster.estimators.intervals.calibration import LEVELS
from forecaster.estimators.match import Sizes
from forecaster.estimators.networks.estimator import (
    LoadedNetwork,
    NetworkEstimator,
    describe_device,
)
from forecaster.estimators.predictor import WindowForecasts, join_blocks
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.graph.dependency import DependencyGraph
from forecaster.models.average import AverageNetwork
from forecaster.recipe import Preset, Recipe

MEAN, RELATIVE = "ensemble.mean", "ensemble.relative"  # weights: of y_hat, and of y_relative
FACTOR = "ensemble.factor"  # of a member, by location: its mean times this for relative error
MAX_VIEWS = 3  # runs whose members' arrays are kept: of a run, and of it with new locations
TOLERANCE = 1e-6  # of the sum of stored weights
# Where the recipe names no members: one with large models, and how many are too many to wait for.
SLOW: MemberName = "Boosting"
STAND_IN: MemberName = "Ridge"
MANY_STEPS = 24  # ahead, each of them a model
REPLACED = (
    f"{STAND_IN} stands in for {SLOW} in the ensemble at {MANY_STEPS} steps ahead and more, where "
    f"trees take hours; name {SLOW} in ensemble.members to have it"
)
log = logging.getLogger(__name__)


class Ensemble(Estimator):
    """A weighted average of several models: ŷ = Σ_m w_m ŷ_m with w_m ≥ 0 and Σ_m w_m = 1.

    The mean and the forecast with the lowest relative error have weights of their own, chosen on
    the validation windows (`weights`). The members' quantiles move with the mean, are averaged
    with the same weights and calibrated as one. A member that cannot forecast a location is left
    out there, and the weights of the others are scaled up.
    """

    seeded = True
    falls_back = True
    takes_graph = True

    def __init__(
        self,
        graph: DependencyGraph | None = None,
        recipe: Recipe | None = None,
        *,
        preset: Preset | None = None,
    ) -> None:
        """Choose the graph and the members.

        Args:
            graph: of members that need one; None: learned from the training steps.
            recipe: all settings, those of the members in its section `ensemble`; None: the preset
                `best`.
            preset: in place of a recipe, by which the networks among the members are trained.
        """
        if recipe is not None and preset is not None:
            raise ConfigError("Ensemble: a recipe and a preset; give only one of them")
        super().__init__(complete(recipe or Recipe(preset=preset or "best")))
        self.graph = graph
        self._names_members = recipe is not None and _names_members(recipe)
        self._made: tuple[Recipe, tuple[Member, ...]] | None = None
        self._views: tuple[tuple[Arrays, Mapping[str, MemberArrays]], ...] = ()  # latest last

    @property
    def members(self) -> tuple[Member, ...]:
        """The members that the recipe names; a run may lack some of them."""
        if self._made is None or self._made[0] is not self.recipe:
            self._made = self.recipe, make_members(self.recipe)
        return self._made[1]

    @property
    def accepts_new_locations(self) -> bool:  # type: ignore[override]
        """Whether a member forecasts locations that it was not fitted to."""
        return any(member.estimator.accepts_new_locations for member in self._fitted_members)

    @property
    def masks_missing(self) -> bool:  # type: ignore[override]
        """Whether a member masks missing history; the others are left out where it has gaps."""
        return any(member.estimator.masks_missing for member in self._fitted_members)

    @property
    def backend(self) -> str:
        """The device and kernels of the networks among the members, in words; empty: none."""
        estimators = [member.estimator for member in self._fitted_members]
        networks = [each for each in estimators if isinstance(each, NetworkEstimator)]
        return describe_device(self.recipe.training.precision, networks)

    @property
    def _fitted_members(self) -> tuple[Member, ...]:
        return self.members if self.run is None else self.members_in(self.run.arrays)

    def members_in(self, arrays: Arrays) -> tuple[Member, ...]:
        """The members of a run, in the order of their weights."""
        return tuple(member for member in self.members if member.is_in(arrays))

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights and of the members' arrays."""
        shapes: dict[str, tuple[int, ...]] = {}
        for member in self._fitted_members:
            shapes |= member.put(member.estimator.shapes(sizes))
        count = (len(self._fitted_members),)
        return {**shapes, MEAN: count, RELATIVE: count}

    def check_arrays(self, arrays: Arrays) -> None:
        """Refuse weights that are none, and arrays that a member cannot use."""
        members = self.members_in(arrays)
        if not members:
            names = ", ".join(member.name for member in self.members)
            raise ArtifactError(f"the arrays of no member; needed: of one or more of {names}")
        for name in (MEAN, RELATIVE):
            weights = arrays[name]
            is_share = weights.dtype == np.float64 and (weights >= 0).all()
            if not is_share or abs(weights.sum() - 1) > TOLERANCE:
                raise ArtifactError(f"{name}: {weights} are not weights ≥ 0 that add up to 1")
        for member in members:
            member.estimator.check_arrays(self._view(member, arrays))

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Fit every member; one that these data or this installation do not allow is left out."""
        began = time.monotonic()
        if not self._names_members and self.recipe.lags.horizon >= MANY_STEPS:
            log.info("%s", REPLACED)
            announce(data, REPLACED)
        self._give_graph(data)
        fits = fit_members(self.members, data, self.start)
        return self.join(fits, max(fits.seconds, time.monotonic() - began))

    def join(self, fits: MemberFits, seconds: float) -> FitResult:
        """The fits of the members as one, with equal weights.

        Args:
            fits: of one member or more.
            seconds: of all fits together.
        """
        fitted = [member for member in self.members if member.name in fits.results]
        if not fitted:
            raise next(iter(fits.failures.values()))
        arrays, parents = dict[str, np.ndarray](), dict[str, str]()
        about: dict[str, Any] = {"members": []}
        for member in fitted:
            result = fits.results[member.name]
            arrays |= member.put(result.arrays)
            parents |= result.parents
            shared = {"graph"} & result.about.keys()
            about |= {name: result.about[name] for name in shared}
            member_about = {
                name: part for name, part in result.about.items() if name not in shared
            }
            about["members"].append({"name": member.name, **member_about})
        if fits.failures:
            about["left_out"] = {name: str(error) for name, error in fits.failures.items()}
        equal = np.full(len(fitted), 1 / len(fitted))
        arrays |= {LEVELS: np.array(self.recipe.intervals.quantiles)}
        arrays |= {MEAN: equal, RELATIVE: equal}
        return FitResult(arrays, about, parents, seconds)

    def _give_graph(self, data: TrainingData) -> None:
        """Give the graph to the members that need one; it is learned once for all of them."""
        needing = [member for member in self.members if member.estimator.takes_graph]
        if not needing:
            return
        graph = self.graph
        if graph is None:
            recipe = self.recipe
            from forecaster.graph.learn import learn_graph  # noqa: PLC0415 (only fits need it)

            graph = learn_graph(data.panel, data.splits, recipe.graph, lags=recipe.lags)
        for member in needing:
            cast(Any, member.estimator).graph = graph

    def adjust_outputs(
        self, run: Run, data: TrainingData, forecasts: WindowForecasts
    ) -> FitResult:
        """Each member's own adjustment, then the weights, by the validation windows."""
        del forecasts
        outputs, arrays = self.judged_forecasts(run, data)
        mean_weights, relative_weights = judge(data, outputs, self.recipe.metrics.mape_cut)
        arrays[MEAN] = mean_weights.weights
        if relative_weights is not None:
            arrays[RELATIVE] = relative_weights.weights
        names = [member.name for member in self.members_in(run.arrays)]
        return FitResult(arrays, {"ensemble": describe(names, mean_weights, relative_weights)})

    def judged_forecasts(
        self, run: Run, data: TrainingData
    ) -> tuple[list[WindowForecasts], dict[str, np.ndarray]]:
        """The members' forecasts of the validation windows, and the arrays of their adjustments.

        A member without a forecast of the lowest relative error gets one, its mean times a factor
        of each location, where another member has one.
        """
        members, arrays = self.members_in(run.arrays), dict[str, np.ndarray]()
        outputs = []
        for member in members:
            own = self._validation_forecasts(member, run, data)
            adjusted = member.estimator.adjust_outputs(member.run_of(run), data, own)
            if adjusted.arrays:
                arrays |= member.put(adjusted.arrays)
                own = self._validation_forecasts(
                    member, replace(run, arrays={**run.arrays, **arrays}), data
                )
            outputs.append(own)
        cut = self.recipe.metrics.mape_cut
        if any(own.relative is not None for own in outputs):
            for n, member in enumerate(members):
                if outputs[n].relative is None:
                    mean = outputs[n].mean
                    factors = fit_factors(data, mean, cut)
                    arrays |= member.put({FACTOR: factors})
                    outputs[n] = outputs[n]._replace(relative=mean * factors)
        return outputs, arrays

    def _validation_forecasts(
        self, member: Member, run: Run, data: TrainingData
    ) -> WindowForecasts:
        """A member's mean and relative forecasts of the validation windows, without quantiles."""
        origins, blocks = data.windows.validation, []
        for first in range(0, len(origins), BLOCK):
            inputs = prepare_inputs(run, data.panel, origins[first : first + BLOCK], "observed")
            outputs = self._outputs_of(member, run.arrays, inputs).outputs
            blocks.append(outputs._replace(quantiles=outputs.quantiles[:, :0]))
        return join_blocks(blocks)

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The weighted means of the members."""
        means = []
        for member in self.members_in(arrays):
            view, seen = self._view(member, arrays), self._seen(member, arrays, inputs)
            mean = member.estimator.predict_windows(view, seen)
            available = member.can_forecast(inputs, mean.shape[2], masked=self.masks_missing)
            means.append((_bounded(mean, inputs), available))
        return average_means(means, arrays[MEAN])

    def predict_outputs(self, arrays: Arrays, inputs: ForecastInputs) -> WindowForecasts:
        """All outputs of the members, averaged."""
        members = self.members_in(arrays)
        forecasts = [self._outputs_of(member, arrays, inputs) for member in members]
        outputs = average(forecasts, arrays[MEAN], arrays[RELATIVE])
        if LEVELS in arrays:
            return outputs
        return outputs._replace(quantiles=outputs.quantiles[:, :0])

    def _outputs_of(
        self, member: Member, arrays: Arrays, inputs: ForecastInputs
    ) -> MemberForecasts:
        """What a member forecasts, and where."""
        view, seen = self._view(member, arrays), self._seen(member, arrays, inputs)
        outputs = member.estimator.predict_outputs(view, seen)
        mean = _bounded(outputs.mean, inputs)
        available = member.can_forecast(inputs, mean.shape[2], masked=self.masks_missing)
        relative = outputs.relative
        if relative is None and FACTOR in view:
            relative = mean * view[FACTOR]
        relative = None if relative is None else _bounded(relative, inputs)
        return MemberForecasts(outputs._replace(mean=mean, relative=relative), available)

    def _seen(self, member: Member, arrays: Arrays, inputs: ForecastInputs) -> ForecastInputs:
        """The inputs of a member: without new locations, if it cannot forecast them."""
        if member.estimator.accepts_new_locations:
            return inputs
        return inputs.locations(count_known(arrays))

    def _view(self, member: Member, arrays: Arrays) -> MemberArrays:
        """A member's part of a run's arrays, the same object each time, so that it loads once."""
        if count_known(arrays) < arrays["shared.fill"].shape[1] and (
            not member.estimator.accepts_new_locations
        ):
            arrays = self._fitted.arrays
        for known, views in self._views:
            if known is arrays:
                return views[member.name]
        views = {m.name: m.arrays_of(arrays) for m in self.members}
        # Replaced as a whole: threads of a service ask for the run with and without new locations.
        self._views = (*self._views[-MAX_VIEWS + 1 :], (arrays, views))
        return views[member.name]

    def weights_of(self, arrays: Arrays) -> dict[str, float]:
        """The weights of the mean, by the names of the members."""
        names = [member.name for member in self.members_in(arrays)]
        return dict(zip(names, arrays[MEAN].tolist(), strict=True))

    def explained_members(self, arrays: Arrays) -> tuple[Member, ...]:
        """The networks among the members, as far as they see the same past steps."""
        known = count_known(arrays) == arrays["shared.fill"].shape[1]
        return tuple(
            member
            for member in self.members_in(arrays)
            if isinstance(member.estimator, NetworkEstimator)
            and member.estimator.lags == self.lags
            and (known or member.estimator.accepts_new_locations)
        )

    def load_network(self, arrays: Arrays) -> LoadedNetwork:
        """The average of the networks among the members, which an explanation is of."""
        by_name, members = self.weights_of(arrays), self.explained_members(arrays)
        if not members:
            raise ConfigError(
                f"none of {', '.join(by_name)} is a network with all lags; explain the run of one"
            )
        weights = np.array([by_name[member.name] for member in members])
        shares = weights / weights.sum() if weights.any() else weights + 1 / len(weights)
        loaded = [
            cast(NetworkEstimator, member.estimator).load_network(self._view(member, arrays))
            for member in members
        ]
        network = AverageNetwork([each.network for each in loaded], shares.tolist(), self.lags)
        return replace(loaded[0], network=network.eval())

    def extend_arrays(
        self, run: Run, n: int, neighbours: Int64[np.ndarray, "E 2"]
    ) -> dict[str, np.ndarray]:
        """The arrays with further locations, of the members that can forecast them."""
        extended = dict(super().extend_arrays(run, n, neighbours))
        for member in self.members_in(run.arrays):
            if member.estimator.accepts_new_locations:
                member_arrays = member.estimator.extend_arrays(member.run_of(run), n, neighbours)
                extended |= member.put(member_arrays)
        return extended


def complete(recipe: Recipe) -> Recipe:
    """The recipe of an ensemble, with the members that it has when none are named.

    Far ahead `Ridge` stands in for the one that has a large model of each step.
    """
    config = recipe.ensemble or EnsembleConfig()
    if not _names_members(recipe) and recipe.lags.horizon >= MANY_STEPS:
        names = tuple(STAND_IN if name == SLOW else name for name in config.members)
        config = config.model_copy(update={"members": names})
    return recipe.model_copy(update={"ensemble": config})


def _names_members(recipe: Recipe) -> bool:
    return recipe.ensemble is not None and "members" in recipe.ensemble.model_fields_set


def count_known(arrays: Arrays) -> int:
    """The number of locations that a run was fitted to; new ones come after them."""
    return int((~np.isnan(arrays["shared.fill"]).any(axis=0)).sum())


def _bounded(
    forecast: Float32[np.ndarray, "B K N"], inputs: ForecastInputs
) -> Float32[np.ndarray, "B K N"]:
    """The forecast, of counts not below 0, as the member alone would give it."""
    if inputs.panel.kind != "count":
        return forecast
    return np.asarray(np.maximum(forecast, np.float32(0)))
