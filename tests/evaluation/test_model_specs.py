import pytest

from forecaster.config import (
    DCRNNConfig,
    EnsembleConfig,
    GraphConfig,
    LagConfig,
    MixerConfig,
    ModelConfig,
    STIDConfig,
)
from forecaster.errors import ConfigError
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.estimators.registry import ESTIMATORS, find_estimator
from forecaster.evaluation.model_specs import (
    MODELS,
    Ablations,
    ModelSpec,
    TuningOptions,
    is_network,
    list_models,
)
from forecaster.recipe import Recipe, change


def test_a_name_is_an_estimator_by_the_recipe_as_it_is() -> None:
    recipe = Recipe(model=ModelConfig(per_location=8))
    (spec,) = list_models(recipe, ["Forecaster", "Forecaster"])
    assert spec == ModelSpec("Forecaster", "Forecaster", recipe)
    assert spec.seeded


def test_only_models_with_random_initial_weights_are_seeded() -> None:
    seeded = {spec.name for spec in list_models(Recipe(), MODELS) if spec.seeded}
    simple = {"LastValue", "SeasonalNaive", "HistoricalMean", "Ridge", "VAR"}
    assert seeded == {*MODELS} - simple
    for name in ESTIMATORS:
        assert is_network(name) == issubclass(find_estimator(name), NetworkEstimator)


def test_variants_change_what_they_are_named_for() -> None:
    lags, best = list_models(Recipe(), ["DCRNN-lags", "Transformer-best"])
    assert lags.estimator == "DCRNN"
    assert lags.recipe.dcrnn == DCRNNConfig(inputs="lags")
    (stid,) = list_models(Recipe(), ["STID-lags"])
    assert stid.recipe == Recipe(stid=STIDConfig(inputs="lags"))
    (choice,) = best.hyperparameters
    assert choice.name == "width"
    widths = ["64", "128", "256", "512", "1024", "2048", "4096"]  # section 3.2.4
    assert list(choice.options) == widths


def test_presets_can_stand_in_one_table() -> None:
    recipe = Recipe(graph=GraphConfig(kind="own"))
    level, paper, quick, best = list_models(
        recipe, ["Transformer-level", "Forecaster-paper", "quick", "best"]
    )
    assert paper.recipe == Recipe(preset="paper", graph=GraphConfig(kind="own"))
    assert (quick.estimator, best.estimator) == ("Forecaster", "Ensemble")
    assert quick.recipe == Recipe(preset="quick", graph=GraphConfig(kind="own"))
    assert best.recipe == Recipe(preset="best", graph=GraphConfig(kind="own"))
    assert level.recipe.model.level
    assert level.recipe.training == quick.recipe.training == best.recipe.training
    assert [choice.name for choice in level.hyperparameters] == ["width"]


def test_what_only_the_papers_network_has_is_not_ablated_of_best() -> None:
    with pytest.raises(ConfigError, match="need the paper's network"):
        list_models(Recipe(preset="best"), ["Forecaster"], ablations=Ablations(neurons=(8,)))


def test_tuning_gives_networks_the_same_grid() -> None:
    specs = list_models(Recipe(), MODELS, tuning=TuningOptions(tune=True))
    grids = {spec.name: spec.hyperparameters[-1] for spec in specs if is_network(spec.estimator)}
    assert len(grids) == 15
    assert grids["Forecaster-one-number"] == grids["quick"]
    first = grids["Forecaster"]
    assert first == grids["Transformer"] == grids["Transformer-best"]
    assert first == grids["Forecaster-paper"]
    assert grids["DCRNN"] == grids["DCRNN-lags"]  # which has no dropout
    best = grids["quick"].options
    assert list(best) == list(grids["Transformer-level"].options)
    assert len(best) == 2 * 3  # of the rates the second is the preset's own
    assert best["dropout 0, rate 0.002"] == {
        "mixer": {"dropout": 0.0},
        "training": {"learning_rate": 2e-3},
    }
    (neurons,) = (spec.hyperparameters[0] for spec in specs if spec.name == "quick")
    assert list(neurons.options) == ["48", "96", "192"]
    assert list(grids["DCRNN"].options) == ["rate 0.001", "rate 0.003"]
    assert grids["STID"] == grids["STID-lags"]
    assert list(grids["STID"].options) == [  # the authors' dropout among them
        f"dropout {dropout}, rate {rate}" for dropout in (0, 0.1, 0.15) for rate in (0.001, 0.003)
    ]
    assert grids["STID"].options["dropout 0.15, rate 0.003"]["stid"] == {"dropout": 0.15}
    assert list(first.options) == [
        "dropout 0, rate 0.001",
        "dropout 0, rate 0.003",
        "dropout 0.1, rate 0.001",
        "dropout 0.1, rate 0.003",
    ]
    assert not any(spec.hyperparameters for spec in specs if not is_network(spec.estimator))


def test_tuning_chooses_among_the_recipes_own_number_of_neurons_too() -> None:
    recipe = Recipe(preset="best", mixer=MixerConfig(hidden=7))
    (spec,) = list_models(recipe, ["Forecaster"], tuning=TuningOptions(tune=True))
    neurons, _ = spec.hyperparameters
    assert neurons.name == "neurons"
    assert neurons.options["7"] == {"mixer": {"hidden": 7}}
    assert list(neurons.options) == ["7", "48", "96", "192"]


def test_thresholds_are_a_choice_of_forecaster_alone() -> None:
    degree = Recipe(graph=GraphConfig(degree=2.5))
    forecaster, transformer = list_models(
        degree, ["Forecaster", "Transformer"], tuning=TuningOptions(thresholds=[0.05, 0.2])
    )
    (choice,) = forecaster.hyperparameters
    assert choice.options["0.05"] == {"graph": {"threshold": 0.05, "degree": None}}
    assert not transformer.hyperparameters


def test_ablations_change_one_thing_each_and_skip_what_the_row_does_already() -> None:
    tried = Ablations(
        graph=["lasso", "own"], lags=["recent", "daily", "weekly"], neurons=[4, 8],
        positions=["location", "literal"],
    )  # fmt: skip
    specs = {e.name: e for e in list_models(Recipe(), ["Forecaster"], ablations=tried)}
    assert list(specs) == [
        "Forecaster",
        "Forecaster, graph own",
        "Forecaster, recent lags",
        "Forecaster, daily lags",
        "Forecaster, weekly lags",
        "Forecaster, 8 neurons",
        "Forecaster, literal positions",
    ]
    plain = Recipe()
    lengths = {"recent": 6, "daily": 6 + 42, "weekly": 6 + 28}  # section 3.1.2
    for name, length in lengths.items():
        spec = specs[f"Forecaster, {name} lags"]
        assert spec.recipe.lags.length == length
        assert spec.recipe.graph == plain.graph
        assert spec.of == "Forecaster"
    assert specs["Forecaster, 8 neurons"].recipe.lags == LagConfig()


def test_a_graph_of_another_kind_has_no_threshold_to_choose() -> None:
    specs = list_models(
        Recipe(),
        ["Forecaster"],
        tuning=TuningOptions(thresholds=[0.1, 0.2]),
        ablations=Ablations(["own", "pearson", "lagged"], neurons=[8]),
    )
    assert [len(spec.hyperparameters) for spec in specs] == [1, 0, 1, 0, 1]


def test_a_lagged_graph_is_an_ablation_of_both_presets() -> None:
    for preset in ("paper", "best"):
        own, lagged = list_models(
            Recipe(preset=preset), ["Forecaster"], ablations=Ablations(["own", "lasso", "lagged"])
        )[1:]
        assert (own.name, lagged.name) == ("Forecaster, graph own", "Forecaster, graph lagged")
        assert (lagged.recipe.preset, lagged.recipe.graph.kind) == (preset, "lagged")


@pytest.mark.parametrize(
    ("models", "ablations", "message"),
    [
        (["Forcaster"], None, "no model 'Forcaster'; did you mean 'Forecaster'"),
        (["Ridge"], Ablations(graph=["own"]), "add it to --models"),
        (["Forecaster"], Ablations(neurons=[3]), "heads = 4 must divide per_location = 3"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    models: list[str], ablations: Ablations | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        list_models(Recipe(), models, ablations=ablations)


def test_a_threshold_that_cannot_be_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"Forecaster, threshold 1\.5: 1 fault"):
        list_models(Recipe(), ["Forecaster"], tuning=TuningOptions(thresholds=[0.1, 1.5]))


def test_widths_that_heads_do_not_divide_are_left_out() -> None:
    recipe = Recipe(model=ModelConfig(heads=3, per_location=3, auxiliary=6))
    with pytest.raises(ConfigError, match="heads = 3 divides none of"):
        list_models(recipe, ["Transformer-best"])
    few = change(recipe, {"evaluation": {"widths": [64, 48]}}, source="")
    (best,) = list_models(few, ["Transformer-best"])
    assert list(best.hyperparameters[0].options) == ["48"]


def test_a_count_before_a_name_is_the_average_of_so_many_trainings() -> None:
    (triple,) = list_models(Recipe(preset="best"), ["3xSTID-lags"])
    assert (triple.name, triple.estimator, triple.seeded) == ("3xSTID-lags", "Ensemble", True)
    assert triple.recipe.ensemble == EnsembleConfig(members=("STID-lags",), seeds=3)
    names = ("Forecaster", "STAEformer", "GraphWaveNet-lags", "DCRNN-lags", "Boosting")
    assert [spec.name for spec in list_models(Recipe(), [f"2x{name}" for name in names])] == [
        f"2x{name}" for name in names
    ]
    for wrong in ("3xRidge", "3xquick", "3xSTID-lag"):
        with pytest.raises(ConfigError, match="cannot be averaged over trainings"):
            list_models(Recipe(), [wrong])
    with pytest.raises(ConfigError, match="no model '0xSTID'"):
        list_models(Recipe(), ["0xSTID"])
    with pytest.raises(ConfigError, match="less than or equal to 20"):
        list_models(Recipe(), ["21xSTID"])
