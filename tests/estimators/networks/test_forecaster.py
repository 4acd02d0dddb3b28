import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import Generator

from forecaster.artifact import load_run
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import GraphConfig, ModelConfig, TrainingConfig
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.registry import find_estimator
from forecaster.estimators.training_data import hide_test
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.graph.storage import save_graph
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows
from tests.estimators import directed

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)
BEST = change(RECIPE, {"preset": "best", "mixer": {"hidden": 8}}, source="test")
EDGES = [("place 0", "place 3"), ("place 1", "place 2"), ("place 3", "place 4")]


def given_graph() -> DependencyGraph:
    return DependencyGraph.from_edges(EDGES, PANEL)


def test_the_preset_has_the_papers_sizes() -> None:
    estimator = Forecaster(preset="paper")
    pairs = np.array([[0, 1], [3, 995]])
    known = {"graph.pairs": pairs}
    network = estimator.build(NeuronLayout(996, 1, 39), known, Generator())  # section 3.2.1
    state = network.state_dict()
    assert len(state["encoder.0.norm_attention.gain"]) == 4048
    assert len(state["output.bias"]) == 996
    assert len(network.encoder) == len(network.decoder) == 1
    assert (network.L, network.K) == (76, 3)


def test_the_preset_is_the_defaults_but_for_the_graph() -> None:
    recipe = Forecaster(preset="paper").recipe
    assert recipe.model == ModelConfig()
    assert recipe.training == TrainingConfig()
    assert recipe.graph == GraphConfig(subtract="nothing")
    assert Forecaster().recipe == Recipe()


def test_the_best_preset_is_another_network_over_the_same_graph(tmp_path: Path) -> None:
    Forecaster(given_graph(), BEST).fit(PANEL, SPLITS).save(tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert run.arrays["model.neighbours.weight"].shape == (5 + 2 * 3, 2, 1)
    assert run.arrays["level.profile"].shape == (5, 168)
    assert run.arrays["level.counts"]


def test_a_level_of_other_numbers_is_refused() -> None:
    estimator = Forecaster(given_graph(), BEST).fit(PANEL, SPLITS)
    assert estimator.run is not None
    arrays = {**estimator.run.arrays, "level.counts": np.array(1.0)}
    with pytest.raises(ArtifactError, match="are float32 and float64, not float32 and bool"):
        Forecaster.from_run(replace(estimator.run, arrays=arrays))


@pytest.mark.parametrize(
    ("name", "array", "fault"),
    [
        ("level.profile", np.ones((1, 168), np.float32), r"level\.profile"),
        ("level.profile", np.ones((5, 100), np.float32), r"level\.profile"),
        ("level.profile", np.full((5, 168), -1, np.float32), "below zero or not finite"),
        ("level.counts", np.ones(3, bool), r"level\.counts"),
        (
            "level.ranges",
            np.zeros((2, 5, 23), np.float32),
            r"level\.ranges is float32 \(2, 5, 23\)",
        ),
        ("level.ranges", np.zeros((2, 5, 24)), r"level\.ranges is float64"),
        ("level.ranges", np.full((2, 5, 24), np.nan, np.float32), r"level\.ranges has values"),
        (
            "level.deviations",
            np.zeros((2, 4), np.float32),
            r"level\.deviations is float32 \(2, 4\)",
        ),
        ("level.deviations", np.full((2, 5), np.inf, np.float32), r"level\.deviations has values"),
        ("level.known", np.ones(4, np.float32), r"level\.known is float32 \(4,\)"),
        ("level.known", np.ones(5, bool), r"level\.known is bool \(5,\)"),
        ("level.known", np.full(5, np.nan, np.float32), r"level\.known has values"),
    ],
)
def test_a_damaged_level_is_refused(name: str, array: np.ndarray, fault: str) -> None:
    estimator = Forecaster(given_graph(), BEST).fit(PANEL, SPLITS)
    assert estimator.run is not None
    with pytest.raises(ArtifactError, match=fault):
        Forecaster.from_run(replace(estimator.run, arrays={**estimator.run.arrays, name: array}))


@pytest.mark.parametrize("name", ["level.deviations", "level.known"])
def test_bounds_of_which_a_part_is_missing_are_refused(name: str) -> None:
    estimator = Forecaster(given_graph(), BEST).fit(PANEL, SPLITS)
    assert estimator.run is not None
    arrays = {n: a for n, a in estimator.run.arrays.items() if n != name}
    with pytest.raises(ArtifactError, match=f"{re.escape(name)} is missing"):
        Forecaster.from_run(replace(estimator.run, arrays=arrays))


def test_a_place_that_never_had_demand_is_learned_with_the_others() -> None:
    values = PANEL.values.copy()
    values[:, 4] = np.where(np.isnan(values[:, 4]), np.nan, 0)
    panel = replace(PANEL, values=values)
    estimator = Forecaster(recipe=BEST).fit(panel, SPLITS)
    assert estimator.run is not None
    arrays = estimator.run.arrays
    table = estimator.forecast(panel, "2021-04-10T12:00Z")
    assert np.isfinite(table["y_hat"]).all()
    assert arrays["values.mean"][4] == np.float32(0.1)
    assert arrays["level.profile"][4].mean() == pytest.approx(0.1, rel=0.1)
    assert not arrays["level.ranges"][:, 4].any()
    assert arrays["level.deviations"][1, 4] < 0  # it is always below its profile
    assert arrays["level.known"].tolist() == [1, 1, 1, 1, 0]


def test_L1_a_place_silent_in_training_opens_and_reaches_no_other() -> None:
    values = PANEL.values.copy()
    values[:, 4] = np.where(np.isnan(values[:, 4]), np.nan, 0)
    panel = replace(PANEL, values=values)
    estimator = Forecaster(recipe=BEST).fit(panel, SPLITS)
    origin, forecasts = 960, []
    for demand in (0.0, 200.0, 100_000.0):
        awake = values.copy()
        # For three days, so that it is no longer implausible, and not the same, as if stuck.
        awake[origin - 71 : origin + 1, 4] = demand + np.arange(72) % 7 * demand / 100
        forecasts.append(estimator.predict(replace(panel, values=awake), np.array([origin]))[0])
    asleep, one, other = forecasts
    for awake_forecast in (one, other):
        np.testing.assert_array_equal(awake_forecast[:, :4], asleep[:, :4])
    assert (other[:, 4] > 100 * one[:, 4]).all()  # its own forecast follows
    assert (one[:, 4] > 10 * asleep[:, 4]).all()


def test_a_preset_beside_a_recipe_is_refused() -> None:
    with pytest.raises(ConfigError, match="a recipe and a preset"):
        Forecaster(recipe=Recipe(), preset="paper")


def test_an_unknown_preset_is_refused() -> None:
    unchecked = inspect.unwrap(Forecaster.__init__)  # the shape checker would refuse it first
    with pytest.raises(ConfigError, match="no preset 'papers'; did you mean 'paper'"):
        unchecked(Forecaster(), preset="papers")


def test_a_given_graph_travels_in_the_run(tmp_path: Path) -> None:
    graph = save_graph(given_graph(), tmp_path / "graph")
    Forecaster(graph, RECIPE).fit(PANEL, SPLITS).save(tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert np.array_equal(run.arrays["graph.pairs"], [[0, 3], [1, 2], [3, 4]])
    assert run.arrays["graph.strengths"].tolist() == [1.0, 1.0, 1.0]
    assert run.about["graph"]["kind"] == "given"
    assert run.parents["graph"] == graph.digest


def test_without_a_graph_one_is_learned_from_the_training_steps() -> None:
    recipe = RECIPE.model_copy(update={"graph": GraphConfig()})
    fitted = Forecaster(recipe=recipe).fit(PANEL, SPLITS)
    assert fitted.run is not None
    learned = learn_graph(PANEL, SPLITS)
    assert np.array_equal(fitted.run.arrays["graph.pairs"], learned.pairs)
    assert fitted.run.about["graph"]["kind"] == "lasso"
    assert fitted.run.about["graph"]["hours"][0][0] == f"{PANEL.times[0]}Z"
    assert len(fitted.run.parents["graph"]) == 64


def test_another_graph_gives_another_network_and_another_hash() -> None:
    one = Forecaster(given_graph(), RECIPE).fit(PANEL, SPLITS)
    other = Forecaster(DependencyGraph.from_edges(EDGES[:2], PANEL), RECIPE).fit(PANEL, SPLITS)
    assert one.run is not None
    assert other.run is not None
    name = "model.encoder.0.attention.query.weight"
    assert len(one.run.arrays[name]) == 5 + 2 * 3  # itself, and both ways
    assert len(other.run.arrays[name]) == 5 + 2 * 2
    assert one.run.parents["graph"] != other.run.parents["graph"]


def test_G8_a_graph_of_other_locations_is_refused_with_both_hashes() -> None:
    moved = PANEL.select(tuple(reversed(PANEL.locations.ids)))
    with pytest.raises(ArtifactError, match=r"hash \w{12}\), panel has 5 \(hash \w{12}\)"):
        Forecaster(given_graph(), RECIPE).fit(moved, SPLITS)


def test_G6_a_graph_that_saw_held_out_steps_is_refused() -> None:
    later = Splits.by_share(PANEL, validation=0.1, test=0.1)
    graph = learn_graph(PANEL, later)
    with pytest.raises(ArtifactError, match="steps of validation or"):
        Forecaster(graph, RECIPE).fit(PANEL, SPLITS)


def test_its_network_has_at_least_the_weights_that_a_run_must_hold() -> None:
    inputs, known = NeuronLayout(7, 3, 11), {"graph.pairs": np.array([[0, 3], [1, 2], [3, 6]])}
    for model in (ModelConfig(), ModelConfig(per_location=6, auxiliary=10, heads=2, n_layers=3)):
        estimator = Forecaster(recipe=Recipe(model=model))
        network = estimator.build(inputs, known, Generator())
        held = sum(tensor.numel() for tensor in network.state_dict().values())
        least = estimator.size(inputs, known)
        assert least <= held < 2 * least


# ------------------------------------------------------------------------- directed graphs

PRESETS = pytest.mark.parametrize("recipe", [RECIPE, directed.BEST], ids=["paper", "best"])


@PRESETS
def test_a_run_of_a_directed_graph_forecasts_the_same_bits_when_it_is_loaded(
    recipe: Recipe, tmp_path: Path
) -> None:
    estimator = directed.fitted(recipe)
    estimator.save(tmp_path / "run")
    loaded = Forecaster.from_run(load_run(tmp_path / "run"))
    assert loaded.run is not None
    assert loaded.run.arrays["graph.delays"].tolist() == [1, 3, 3, 1, 2]
    origins = np.array([directed.ORIGIN])
    forecasts = [one.predict(directed.PANEL, origins) for one in (estimator, loaded)]
    assert np.isfinite(forecasts[0]).all()
    assert np.array_equal(*forecasts)


@PRESETS
def test_its_network_has_every_link_of_a_directed_graph_once(recipe: Recipe) -> None:
    run = directed.fitted(recipe).run
    assert run is not None
    name = "linear.edges" if recipe.preset else "encoder.0.attention.query.weight"
    assert len(run.arrays[f"model.{name}"]) == 7 + 4  # itself; 0 → 1 has two delays


@PRESETS
def test_nothing_after_the_origin_reaches_the_network_of_a_directed_graph(recipe: Recipe) -> None:
    estimator, origins = directed.fitted(recipe), np.array([directed.ORIGIN])
    values = directed.PANEL.values.copy()
    values[directed.ORIGIN + 1 :] = 1e6
    changed = directed.PANEL.with_data(values)
    forecasts = [estimator.predict(panel, origins) for panel in (directed.PANEL, changed)]
    assert np.array_equal(*forecasts)


def test_other_delays_are_another_graph() -> None:
    graph, panel, splits = directed.directed_graph(), directed.PANEL, directed.SPLITS
    assert graph.delays is not None
    data = hide_test(panel, splits, cut_windows(panel, splits, RECIPE.lags))
    undirected = DependencyGraph.from_edges([("place 0", "place 1")], panel)
    one_way = replace(undirected, delays=np.array([1]))
    graphs = graph, replace(graph, delays=graph.delays + 1), undirected, one_way
    hashes = {Forecaster(one, RECIPE).prerequisites(data).parents["graph"] for one in graphs}
    assert len(hashes) == 4


@PRESETS
def test_its_size_counts_the_links_of_a_directed_graph(recipe: Recipe) -> None:
    estimator = directed.fitted(recipe)
    assert estimator.run is not None
    arrays = estimator.run.arrays
    held = sum(array.size for name, array in arrays.items() if name.startswith("model."))
    least = estimator.size(NeuronLayout(7, 1, 2 + len(CALENDAR_COLUMNS)), arrays)
    assert least <= held < 2 * least


def test_C4_a_run_with_damaged_delays_is_refused() -> None:
    run = directed.fitted().run
    assert run is not None
    arrays = {**run.arrays, "graph.delays": np.zeros(5, np.int64)}
    with pytest.raises(ArtifactError, match="a delay is 0 steps; an edge has at least one"):
        Forecaster.from_run(replace(run, arrays=arrays))
    without = {name: array for name, array in run.arrays.items() if name != "graph.delays"}
    with pytest.raises(ArtifactError, match="not a forecaster run of a Forecaster"):
        Forecaster.from_run(replace(run, arrays=without))


def test_a_lagged_graph_is_learned_from_the_training_steps() -> None:
    values = {"graph": {"kind": "lagged"}, "lags": {"recent": 2}}
    for recipe in (RECIPE, BEST):
        estimator = Forecaster(recipe=change(recipe, values, source="test")).fit(PANEL, SPLITS)
        assert estimator.run is not None
        record = estimator.run.about["graph"]["lagged"]
        assert record["max_delay"] == 2  # the network sees no further back
        assert (estimator.run.arrays["graph.delays"] <= 2).all()
    assert Recipe.of(values).graph.kind == "lagged"


def test_the_preset_best_is_an_ensemble_and_a_recipe_of_earlier_versions_one_network() -> None:
    graph = DependencyGraph.from_edges([("place 0", "place 3")], small_city())
    best = Forecaster(graph, preset="best")
    assert type(best) is find_estimator("Ensemble")
    assert best.graph is graph
    assert best.recipe.preset == "best"
    assert type(Forecaster(graph, preset="quick")) is Forecaster
    assert type(Forecaster(graph, Recipe(preset="best"))) is Forecaster  # a member, or a saved run
    with pytest.raises(ConfigError, match="give only one of them"):
        Forecaster(graph, Recipe(), preset="best")
    unchecked = inspect.unwrap(Forecaster.__init__)  # the shape checker would refuse it first
    with pytest.raises(ConfigError, match="did you mean 'best'"):
        unchecked(Forecaster(), preset="bets")


# ------------------------------------------------------------------------------ samples


def with_locations(recipe: Recipe, locations: int) -> Recipe:
    return change(recipe, {"training": {"locations": locations}}, source="test")


def test_trained_on_samples_of_all_locations_it_is_as_without_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Forecaster, "falls_back", False)
    recipes = BEST, with_locations(BEST, 5), with_locations(BEST, 9)
    origins = np.array([900, 950])
    first, *others = (
        Forecaster(given_graph(), each).fit(PANEL, SPLITS).predict(PANEL, origins)
        for each in recipes
    )
    assert all(np.array_equal(each, first) for each in others)


def test_trained_on_samples_it_forecasts_all_locations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forecaster, "falls_back", False)
    sampled = Forecaster(given_graph(), with_locations(BEST, 2)).fit(PANEL, SPLITS)
    table = sampled.forecast(PANEL)
    assert table["unique_id"].nunique() == 5
    again = Forecaster(given_graph(), with_locations(BEST, 2)).fit(PANEL, SPLITS)
    assert again.forecast(PANEL).equals(table)


def test_many_locations_are_forecast_in_blocks_as_they_are_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Forecaster, "falls_back", False)
    estimator = Forecaster(given_graph(), BEST).fit(PANEL, SPLITS)
    origins = np.arange(900, 911)
    whole = estimator.predictor(PANEL, "observed").base(origins)
    monkeypatch.setattr("forecaster.models.mixer.mixer.MOST_AT_ONCE", 4)
    monkeypatch.setattr("forecaster.models.mixer.mixer.PAIRS_AT_ONCE", 22)
    monkeypatch.setattr("forecaster.estimators.networks.estimator.MAX_WHOLE", 1)
    blocks = estimator.predictor(PANEL, "observed").base(origins)
    np.testing.assert_allclose(blocks.forecast, whole.forecast, rtol=2e-5)
    np.testing.assert_allclose(blocks.quantiles, whole.quantiles, rtol=2e-4, atol=1e-4)
    alone = [estimator.predictor(PANEL, "observed").base(origins[n : n + 1]) for n in range(11)]
    assert np.array_equal(blocks.quantiles, np.concatenate([each.quantiles for each in alone]))


def test_corrections_of_many_locations_that_were_kept_are_those_computed_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Forecaster, "falls_back", False)
    monkeypatch.setattr("forecaster.estimators.networks.estimator.MAX_WHOLE", 4)
    estimator = Forecaster(given_graph(), BEST).fit(PANEL, SPLITS)
    estimator.save(tmp_path / "run")
    for origin in range(1000, 1010):
        seen = PANEL.steps(0, origin + 1)
        stored = estimator.forecast(seen, weather="persist", state=tmp_path / "state")
        assert stored.equals(estimator.forecast(seen, weather="persist"))


def test_of_many_locations_it_trains_on_samples_and_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Forecaster, "falls_back", False)
    monkeypatch.setattr("forecaster.estimators.networks.estimator.MAX_WHOLE", 4)
    monkeypatch.setattr("forecaster.estimators.networks.estimator.SAMPLED", 2)
    with caplog.at_level("INFO"):
        chosen = Forecaster(given_graph(), BEST).fit(PANEL, SPLITS)
    assert "Forecaster: 2 of 5 locations in each training step (training.locations)" in caplog.text
    asked = Forecaster(given_graph(), with_locations(BEST, 2)).fit(PANEL, SPLITS)
    origins = np.array([900])
    assert np.array_equal(chosen.predict(PANEL, origins), asked.predict(PANEL, origins))


@pytest.mark.parametrize("name", ["Forecaster", "Transformer", "DCRNN", "STID"])
def test_networks_whose_weights_see_all_locations_refuse_samples(name: str) -> None:
    estimator = find_estimator(name)(recipe=with_locations(RECIPE, 2))
    with pytest.raises(ConfigError, match=r"training\.locations = 2: .*leave the setting out"):
        estimator.fit(PANEL, SPLITS)
