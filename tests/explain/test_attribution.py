from dataclasses import replace

import numpy as np
import pytest
import torch

from forecaster.estimators.checks.sample import RECIPE
from forecaster.explain import attribution
from forecaster.explain.attribution import ablate, hops_to, integrated_gradients
from forecaster.explain.case import open_case
from forecaster.models.layers.neurons import State
from forecaster.recipe import Recipe
from tests.estimators import directed
from tests.explain.windows import K, L, make_window, path

LOCATIONS = 43


@pytest.mark.parametrize("n_layers", [1, 2])
def test_along_the_value_path_effects_come_from_within_reach_only(n_layers: int) -> None:
    window = make_window(path(LOCATIONS), LOCATIONS, location=0, n_layers=n_layers)
    along_path = np.abs(integrated_gradients(window, window.frozen.roll_out)).sum(axis=2)  # [K, N]
    for k in range(K):
        edges = window.network.reach(k + 1)
        assert edges is not None
        assert (along_path[k, : edges + 1] > 0).all()
        assert (along_path[k, edges + 1 :] == 0).all()
    free = np.abs(integrated_gradients(window, window.free.roll_out)).sum(axis=2)
    assert (free > 0).all()  # weights and norms see every location


def test_ablating_unreachable_locations_has_no_effect_along_the_value_path() -> None:
    pairs = np.array([(0, 1), (1, 2), (3, 4)])
    window = make_window(pairs, 5, location=1)
    masks = np.zeros((5, 5, L), dtype=np.bool_)
    masks[np.arange(5), np.arange(5)] = True
    along_path = ablate(window, window.frozen.roll_out, masks)
    free = ablate(window, window.free.roll_out, masks)
    assert (np.abs(along_path[:3]) > 1e-6).all()
    assert (np.abs(along_path[3:]) < 1e-14).all()  # what rounding leaves
    assert (np.abs(free) > 1e-6).all()


@pytest.mark.parametrize("pairs", [path(7), None], ids=["forecaster", "dense"])
def test_attributions_add_up_to_the_effect_of_the_whole_history(
    pairs: np.ndarray | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "POINTS", 211)  # a random network has many kinks on the way
    window = make_window(pairs, 7, location=3)
    everything = np.ones((1, 7, L), dtype=np.bool_)
    for roll_out in (window.frozen.roll_out, window.free.roll_out):
        whole = ablate(window, roll_out, everything)[0]
        assert integrated_gradients(window, roll_out).sum(axis=(1, 2)) == pytest.approx(
            whole, abs=0.01
        )


def test_a_slope_is_that_of_small_differences() -> None:
    window = make_window(path(5), 5, location=2)
    near = torch.lerp(window.history.signal, window.baseline.signal, 1e-6)
    close = make_window(path(5), 5, location=2)
    object.__setattr__(close, "baseline", State(near, window.baseline.auxiliary))
    masks = np.zeros((5, 5, L), dtype=np.bool_)
    masks[np.arange(5), np.arange(5)] = True
    for roll_out in (close.frozen.roll_out, close.free.roll_out):
        slopes = integrated_gradients(close, roll_out).sum(axis=2).T
        assert slopes == pytest.approx(ablate(close, roll_out, masks), rel=1e-3, abs=1e-12)


def test_an_ablation_is_a_forecast_from_another_history() -> None:
    window = make_window(path(5), 5, location=2)
    masks = np.random.default_rng(0).random((67, 5, L)) < 0.3  # more than a batch
    masks[0] = False
    effects = ablate(window, window.free.roll_out, masks)
    assert effects.shape == (67, K)
    assert np.abs(effects[0]).max() < 1e-12
    gone = torch.from_numpy(masks[66])[:, None, None]
    signal = torch.where(gone, window.baseline.signal, window.history.signal)
    with torch.no_grad():
        before = window.network.roll_out(window.history, window.ahead)[2, 0]
        after = window.network.roll_out(State(signal, window.history.auxiliary), window.ahead)
    assert effects[66] == pytest.approx((before - after[2, 0]).numpy())


def test_a_long_ablation_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "BATCH", 1)
    monkeypatch.setattr("forecaster.remaining.Paced", lambda tell: tell)  # at once
    window, told = make_window(path(5), 5, location=2), list[str]()
    ablate(window, window.free.roll_out, np.zeros((5, 5, L), dtype=np.bool_), told.append)
    assert [text.split(",")[1] for text in told] == [f" part {n} of 5" for n in range(2, 6)]


def test_units_are_those_of_the_location() -> None:
    window = make_window(path(5), 5, location=2)
    scaled = make_window(path(5), 5, location=2)
    object.__setattr__(scaled, "scale", 13.0)
    masks = np.ones((1, 5, L), dtype=np.bool_)
    for measure in (integrated_gradients, lambda w, r: ablate(w, r, masks)):
        one, many = (measure(w, w.free.roll_out) for w in (window, scaled))
        assert many == pytest.approx(13 * one)


def test_hops_are_counted_along_edges_both_ways() -> None:
    pairs = np.array([(0, 1), (1, 2), (2, 5), (3, 4)])
    assert hops_to(2, pairs, 6).tolist() == [2, 1, 0, np.inf, np.inf, 1]
    assert hops_to(0, pairs[:0], 3).tolist() == [0, np.inf, np.inf]


def test_hops_of_a_directed_graph_are_counted_from_sources_to_targets() -> None:
    pairs = np.array([(0, 1), (0, 1), (1, 2), (3, 4), (4, 3), (5, 3)])  # one has two delays
    assert hops_to(2, pairs, 6, directed=True).tolist() == [2, 1, 0, np.inf, np.inf, np.inf]
    assert hops_to(3, pairs, 6, directed=True).tolist() == [np.inf] * 3 + [0, 1, 1]
    assert hops_to(0, pairs, 6, directed=True).tolist() == [0] + [np.inf] * 5


@pytest.mark.parametrize(
    ("recipe", "reached"), [(RECIPE, {0, 1, 2}), (directed.BEST, {0, 1})], ids=["paper", "best"]
)
def test_along_the_value_path_values_travel_from_source_to_target_only(
    recipe: Recipe, reached: set[int]
) -> None:
    at = f"{directed.PANEL.times[directed.ORIGIN]}Z"
    window = open_case(directed.fitted(recipe), directed.PANEL, at, "place 0").window
    roll_out, history = window.frozen.roll_out, window.history
    before = roll_out(history, window.ahead)

    def moved_by(location: int) -> set[int]:
        signal = history.signal.clone()
        signal[location] += 0.5
        after = roll_out(replace(history, signal=signal), window.ahead)
        return set(np.flatnonzero((after != before).flatten(1).any(dim=1)).tolist())

    expected = {0: reached, 1: {1, 2}, 2: {2}, 3: {3, 4}, 4: {3, 4}, 5: {5}, 6: {6}}
    assert {location: moved_by(location) for location in expected} == expected
