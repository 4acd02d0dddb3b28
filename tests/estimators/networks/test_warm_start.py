"""A network that goes on from a run forecasts as that run does, until it is trained."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecaster.artifact import Run
from forecaster.errors import ArtifactError
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.forecast_inputs import prepare_inputs
from forecaster.estimators.intervals.calibration import LEVELS
from forecaster.estimators.networks.dcrnn import DCRNN
from forecaster.estimators.networks.estimator import WEIGHTS, NetworkEstimator
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.networks.peers import STID, GraphWaveNet, STAEformer
from forecaster.estimators.networks.profile import KNOWN, PROFILE
from forecaster.estimators.networks.transformer import Transformer
from forecaster.estimators.networks.warm_start import shorten
from forecaster.estimators.training_data import TrainingData, hide_test
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows
from tests.estimators.networks.test_new_locations import with_new

SETTINGS: dict[str, Any] = {
    "training": {"epochs": 1, "batch": 256},
    "mixer": {"hidden": 8},
    "graph_wavenet": {"channels": 4, "skip": 4, "end": 4, "blocks": 1},
    "dcrnn": {"units": 4},
    "stid": {"embedding": 4},
    "staeformer": {"embedding": 2, "adaptive": 2, "hidden": 4, "heads": 2, "n_layers": 1},
    "graph": {"kind": "complete"},
}
QUICK = change(RECIPE, {**SETTINGS, "preset": "quick"}, source="test")
PLAIN = change(RECIPE, SETTINGS, source="test")
LEVEL = change(RECIPE, {**SETTINGS, "model": {"level": True}}, source="test")
KINDS = {
    "quick": (Forecaster, QUICK),
    "paper": (Forecaster, PLAIN),
    "level": (Forecaster, LEVEL),
    "Transformer": (Transformer, PLAIN),
    "DCRNN": (DCRNN, PLAIN),
    "STID": (STID, PLAIN),
    "GraphWaveNet": (GraphWaveNet, PLAIN),
    "STAEformer": (STAEformer, PLAIN),
}
ORIGINS = np.array([700, 713, 901])


@pytest.fixture(scope="module")
def city() -> Panel:
    return small_city("count")


def tripled(panel: Panel) -> Panel:
    """Three times the values from the middle on."""
    values = panel.values.copy()
    values[len(values) // 2 :] *= 3
    return panel.with_data(values)


def reordered(panel: Panel) -> Panel:
    """The locations in another order."""
    return panel.select(tuple(panel.locations.ids[n] for n in (4, 0, 3, 1, 2)))


def fit(kind: str, panel: Panel) -> NetworkEstimator:
    estimator_type, recipe = KINDS[kind]
    model = estimator_type(recipe=recipe)
    model.falls_back = False
    return model.fit(panel, Splits.by_share(panel))


def data_of(panel: Panel, recipe: Recipe) -> TrainingData:
    splits = Splits.by_share(panel)
    return hide_test(panel, splits, cut_windows(panel, splits, recipe.lags))


def begin(model: NetworkEstimator, panel: Panel, run: Run | None = None) -> tuple[Any, Run]:
    """A network that goes on from a run, and its run before any training."""
    coming = type(model)(recipe=model.recipe)
    coming.start = run or model.run
    data = data_of(panel, model.recipe)
    arrays, task = coming.make_task(data, coming.prerequisites(data))
    weights = {f"{WEIGHTS}{n}": w.cpu().numpy() for n, w in task.network.state_dict().items()}
    about = {**model.run.about, "ids": list(panel.locations.ids)}
    arrays = {**arrays, **weights, **data.shared_arrays()}
    return coming, Run("", model.recipe, about, arrays)


def forecast(model: NetworkEstimator, run: Run, panel: Panel) -> np.ndarray:
    """The forecasts of the network alone."""
    later = ("outputs.mean_factor", "intervals.")  # fitted after the training
    arrays = {n: a for n, a in run.arrays.items() if n == LEVELS or not n.startswith(later)}
    inputs = prepare_inputs(replace(run, arrays=arrays), panel, ORIGINS, "observed")
    return model.predict_windows(arrays, inputs)


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, city: Panel) -> NetworkEstimator:
    return fit(request.param, city)


def test_L13_a_changed_scale_leaves_the_forecasts_of_carried_weights(
    model: NetworkEstimator, city: Panel
) -> None:
    panel = tripled(city)
    coming, run = begin(model, panel)
    shared = {name: a for name, a in run.arrays.items() if name.startswith("shared.")}
    champion = replace(model.run, arrays={**model.run.arrays, **shared})  # the same filled gaps
    before, after = forecast(model, champion, panel), forecast(coming, run, panel)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_weights_follow_their_locations_into_another_order(
    model: NetworkEstimator, city: Panel
) -> None:
    panel = reordered(city)
    coming, run = begin(model, panel)
    order = [city.locations.ids.index(identity) for identity in panel.locations.ids]
    before, after = forecast(model, model.run, city), forecast(coming, run, panel)
    np.testing.assert_allclose(after, before[..., order], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["quick", "STID"])
def test_new_locations_leave_the_forecasts_of_others(kind: str, city: Panel) -> None:
    model = fit(kind, city)
    panel = with_new(city, city.values[:, [1, 3]])
    coming, run = begin(model, panel)
    N = len(city.locations)
    before, after = forecast(model, model.run, city), forecast(coming, run, panel)
    np.testing.assert_allclose(after[..., :N], before, rtol=1e-5, atol=1e-5)
    assert np.isfinite(after).all()


def test_weights_of_lost_locations_go(model: NetworkEstimator, city: Panel) -> None:
    panel = city.select(city.locations.ids[1:4])
    if isinstance(model, Transformer):  # its width depends on the number of locations
        with pytest.raises(ArtifactError, match="train a new run"):
            begin(model, panel)
        return
    coming, run = begin(model, panel)
    assert np.isfinite(forecast(coming, run, panel)).all()
    coming.falls_back = False
    coming.fit(panel, Splits.by_share(panel))
    assert coming.run.about["ids"] == list(panel.locations.ids)
    assert coming.run.parents.get("run") == model.run.digest


def test_a_location_that_was_hardly_known_gets_a_profile_of_its_own(city: Panel) -> None:
    values = city.values.copy()
    values[:-60, 2] = np.nan  # it has just opened
    model = fit("quick", city.with_data(values))
    assert model.run.arrays[KNOWN][2] == 0
    _, run = begin(model, city)
    assert run.arrays[KNOWN][2] == 1
    kept = np.array([0, 1, 3, 4])
    np.testing.assert_array_equal(run.arrays[PROFILE][kept], model.run.arrays[PROFILE][kept])


def test_weights_of_other_covariates_are_refused(city: Panel) -> None:
    model = fit("quick", city)
    panel = city.select_covariates(city.covariates.names[:1], ())
    with pytest.raises(ArtifactError, match="train a new run"):
        begin(model, panel)


def test_the_training_that_goes_on_is_a_tenth_of_the_whole() -> None:
    training = shorten(Recipe(preset="quick").training)
    assert training.epochs == 3  # of 30, for each of two spans
    assert training.learning_rate < Recipe(preset="quick").training.learning_rate
