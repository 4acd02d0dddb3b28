"""The linear part of `best` before training, in a city where much travels."""

from dataclasses import replace

import numpy as np
import torch

from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.training_data import TrainingData, hide_test
from forecaster.graph.dependency import About, DependencyGraph, bare
from forecaster.models.mixer.mixer import Mixer
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows
from forecaster.synthetic.city import make_city

RECIPE = Recipe.of({"preset": "best", "mixer": {"hidden": 8, "factors": 3}})
CITY = make_city(57, hours=24 * 150, travel=1.0)
SPLITS = Splits.by_share(CITY.panel, validation=0.1, test=0.2)


def lagged_graph(*, is_empty: bool = False) -> DependencyGraph:
    edges = CITY.lagged_edges
    order = np.lexsort((edges.delays, edges.pairs[:, 1], edges.pairs[:, 0]))
    order = order[:0] if is_empty else order
    return DependencyGraph(
        bare(CITY.locations),
        edges.pairs[order],
        edges.strengths[order],
        About(kind="given"),
        delays=edges.delays[order],
    )


def training_data() -> TrainingData:
    windows = cut_windows(CITY.panel, SPLITS, RECIPE.lags)
    return hide_test(CITY.panel, SPLITS, windows)


def untrained_errors(graph: DependencyGraph, *, is_linear: bool = True) -> np.ndarray:
    """The RMSE of each step ahead on validation before training, with or without linear part."""
    data, estimator = training_data(), Forecaster(graph, RECIPE)
    _, task = estimator.make_task(data, estimator.prerequisites(data))
    assert isinstance(task.network, Mixer)
    assert task.network.linear is not None
    task.network.eval()
    batch = task.batches.cut(data.windows.validation)
    with torch.no_grad():
        if not is_linear:
            for weight in task.network.linear.parameters():
                weight.zero_()
        error = task.roll_out(batch).forecast - batch.target
    return error.square().mean(dim=(0, 1)).sqrt().numpy()


def test_it_forecasts_well_before_training() -> None:
    usual = untrained_errors(lagged_graph(), is_linear=False)
    alone = untrained_errors(lagged_graph(is_empty=True))
    linear = untrained_errors(lagged_graph())
    assert (alone < 0.95 * usual).all()  # own past and factors
    assert linear[0] < 0.985 * alone[0]  # and the sources


def test_values_after_training_do_not_move_it() -> None:
    data, estimator = training_data(), Forecaster(lagged_graph(), RECIPE)
    values = data.panel.values.copy()
    values[~data.train] *= 3
    changed = replace(data, panel=data.panel.with_data(values))
    weights = []
    for one in (data, changed):
        _, task = estimator.make_task(one, estimator.prerequisites(data))
        assert isinstance(task.network, Mixer)
        assert task.network.linear is not None
        part, factors = task.network.linear, task.network.city.weight
        weights.append([w.detach().numpy() for w in (part.edges, part.loadings, factors)])
    for before, after in zip(*weights, strict=True):
        assert np.array_equal(before, after)
        assert before.any()


def test_further_factors_than_tell_begin_as_drawn_without_loadings() -> None:
    recipe = change(RECIPE, {"mixer": {"factors": 40}}, source="test")
    data, estimator = training_data(), Forecaster(lagged_graph(), recipe)
    _, task = estimator.make_task(data, estimator.prerequisites(data))
    assert isinstance(task.network, Mixer)
    assert task.network.linear is not None
    loadings = task.network.linear.loadings.detach().view(57, 3, 40, 6)
    assert (loadings[:, :, -20:] == 0).all()
    assert loadings[:, :, 0].any()
    assert task.network.city.weight[-20:].any()
