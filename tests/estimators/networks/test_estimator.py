import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forecaster.artifact import Run, save_run
from forecaster.config import DCRNNConfig, GraphConfig, ModelConfig, TrainingConfig
from forecaster.errors import ArtifactError, ConfigError, ForecasterError
from forecaster.estimators.checks.sample import HOURS, LOCATIONS, RECIPE, small_city
from forecaster.estimators.ensemble.ensemble import Ensemble
from forecaster.estimators.networks.dcrnn import DCRNN
from forecaster.estimators.networks.estimator import (
    NetworkEstimator,
    best_device,
    fit_mean_factor,
)
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.networks.peers import STID, GraphWaveNet, STAEformer
from forecaster.estimators.networks.transformer import Transformer
from forecaster.estimators.registry import load_estimator
from forecaster.graph.dependency import DependencyGraph
from forecaster.models.network import Heads
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits
from forecaster.training.progress import ProgressUpdate

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)
TRANSFORMERS = [Forecaster, Transformer]
NETWORKS = [*TRANSFORMERS, DCRNN]
QUERY = "model.encoder.0.attention.query.weight"
STEPS = RECIPE.model_copy(
    update={
        "training": TrainingConfig(epochs=2, batch=200, seed=3),
        "graph": GraphConfig(kind="complete"),
        "dcrnn": DCRNNConfig(units=3, n_layers=1, sampling_decay=3.0),  # about half at step 3
    }
)


@cache
def fitted(kind: type[NetworkEstimator]) -> NetworkEstimator:
    estimator = kind(recipe=RECIPE)
    if isinstance(estimator, Forecaster):
        edges = [("place 0", "place 3"), ("place 1", "place 2")]
        estimator.graph = DependencyGraph.from_edges(edges, PANEL)
    return estimator.fit(PANEL, SPLITS)


def run_of(estimator: NetworkEstimator) -> Run:
    assert estimator.run is not None
    return estimator.run


@pytest.fixture
def panel(tmp_path: Path) -> Panel:
    return PANEL.save(tmp_path / "panel")


# ------------------------------------------------------------------------------ answering


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_fitted_network_is_built_once(
    kind: type[NetworkEstimator], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = run_of(fitted(kind))
    estimator = kind.from_run(
        replace(known, recipe=STEPS.model_copy(update={"model": RECIPE.model}))
    )
    built: list[None] = []
    build = kind.build
    monkeypatch.setattr(kind, "build", lambda *args: (built.append(None), build(*args))[1])
    for origin in (900, 901, 902):
        estimator.predict(PANEL, np.array([origin]))
    assert not built  # it was ready when it was loaded
    before = estimator.predict(PANEL, np.array([900]))
    after = estimator.fit(PANEL, SPLITS).predict(PANEL, np.array([900]))
    assert len(built) == 2  # to learn, and to answer: never with the weights of before
    assert not np.array_equal(before, after)


def test_the_answer_is_the_same_when_dropout_was_learned_with() -> None:
    recipe = RECIPE.model_copy(
        update={"model": ModelConfig(per_location=2, auxiliary=4, heads=2, dropout=0.4)}
    )
    estimator = Transformer(recipe).fit(PANEL, SPLITS)
    one, other = (estimator.predict(PANEL, np.array([900])) for _ in range(2))
    assert np.array_equal(one, other)


@settings(max_examples=settings().max_examples // 5)
@given(values=arrays(np.float32, (30, LOCATIONS), elements=st.floats(0, 2.0**127, width=32)))
def test_P4_any_panel_gives_finite_counts_or_a_typed_error(values: np.ndarray) -> None:
    whole = PANEL.values.copy()
    whole[900 - 29 : 901] = values
    try:
        forecast = fitted(Forecaster).predict(replace(PANEL, values=whole), np.array([900]))
    except ForecasterError:
        return
    assert np.isfinite(forecast).all()
    assert (forecast >= 0).all()


@pytest.mark.parametrize("kind", NETWORKS)
def test_P6_a_thousand_origins_agree_with_one_at_a_time(
    kind: type[NetworkEstimator], rounds: Callable[[int, int], int]
) -> None:
    origins = np.random.default_rng(0).integers(60, HOURS - 2, rounds(70, 1_000))
    together = fitted(kind).predict(PANEL, origins)
    for row in range(0, len(origins), rounds(13, 1)):
        alone = fitted(kind).predict(PANEL, origins[[row]])[0]
        assert np.allclose(together[row], alone, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------- quantiles


@pytest.mark.parametrize("kind", TRANSFORMERS)
@pytest.mark.parametrize("changes", [{}, {"ema": 0.5}, {"precision": "bf16"}, {"relative": True}])
def test_quantiles_change_no_bit_of_the_forecast(
    kind: type[NetworkEstimator], changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = TrainingConfig(epochs=2, batch=100, **changes)
    recipe = STEPS.model_copy(update={"training": training})
    with_head = run_of(kind(recipe=recipe).fit(PANEL, SPLITS)).arrays
    heads = Heads(relative=training.relative)
    monkeypatch.setattr(f"{kind.__module__}.heads_of", lambda _: heads)
    plain = run_of(kind(recipe=recipe).fit(PANEL, SPLITS)).arrays
    weights = [name for name in plain if name.startswith("model.")]
    beside = [name for name in with_head if name.startswith("model.") and name not in plain]
    assert all(np.array_equal(plain[name], with_head[name]) for name in weights)
    assert beside
    assert all(name.startswith("model.quantiles.") for name in beside)
    assert "intervals.offsets" in plain
    assert "intervals.offsets" not in with_head


def test_quantiles_come_with_the_forecasts_of_the_same_pass() -> None:
    estimator = fitted(Forecaster)
    run = run_of(estimator)
    origins = np.array([900, 950, 1000])
    outputs = estimator.forecast_origins(run, PANEL, "observed", origins)
    assert np.allclose(outputs.mean, estimator.predict(PANEL, origins), rtol=1e-5)
    assert outputs.quantiles.shape == (3, 3, 2, LOCATIONS)
    assert (np.diff(outputs.quantiles, axis=1) > 0).all()


# ------------------------------------------------------------- an output for relative error

ORIGINS = np.array([900, 950, 1000])
AT = "2021-04-10T12:00Z"
BEST = change(
    RECIPE,
    {"preset": "best", "mixer": {"hidden": 8}, "training": {"epochs": 3, "batch": 64}},
    source="test",
)


@cache
def fitted_twice(
    kind: type[NetworkEstimator], *, best: bool = False, values: str = "count"
) -> NetworkEstimator:
    """Return a network with an output for relative error beside its forecast."""
    recipe = BEST if best else change(STEPS, {"training": {"relative": True}}, source="test")
    return kind(recipe=recipe).fit(small_city(values), SPLITS)


def with_arrays(estimator: NetworkEstimator, arrays: dict[str, np.ndarray]) -> NetworkEstimator:
    """Return the estimator of the same run with other arrays."""
    return type(estimator).from_run(replace(run_of(estimator), arrays=arrays))


@pytest.mark.parametrize(
    ("kind", "best"), [(Forecaster, True), *((kind, False) for kind in NETWORKS)]
)
def test_a_second_output_is_forecast_beside_the_mean(
    kind: type[NetworkEstimator], best: bool, tmp_path: Path
) -> None:
    estimator = fitted_twice(kind, best=best)
    assert run_of(estimator).arrays["outputs.relative"]
    table = estimator.forecast(PANEL, AT)
    assert np.isfinite(table["y_relative"]).all()
    assert (table["y_relative"] >= 0).all()
    assert not np.allclose(table["y_relative"], table["y_hat"])
    prediction = estimator.predict_all(PANEL, ORIGINS)
    assert prediction.relative.shape == prediction.forecast.shape == (3, 2, LOCATIONS)
    assert not np.allclose(prediction.relative, prediction.forecast)
    assert np.array_equal(prediction.forecast, estimator.predict(PANEL, ORIGINS))
    estimator.save(tmp_path)
    loaded = load_estimator(tmp_path)
    assert loaded.forecast(PANEL, AT).equals(table)


def test_the_preset_best_has_a_second_output_and_the_paper_has_not() -> None:
    assert Forecaster(preset="best").recipe.training.relative
    assert not Forecaster(preset="paper").recipe.training.relative


def test_the_second_output_has_the_lower_relative_error_and_the_mean_the_lower_squares() -> None:
    recipe = change(BEST, {"training": {"epochs": 12}}, source="test")
    estimator = Forecaster(recipe=recipe).fit(PANEL, SPLITS)
    origins = np.arange(100, 700)  # in training
    prediction = estimator.predict_all(PANEL, origins)
    truth = np.stack([PANEL.values[origins + k] for k in (1, 2)], axis=1)
    busy = truth >= 10
    squares, shares = {}, {}
    for name in ("forecast", "relative"):
        error = getattr(prediction, name) - truth
        squares[name] = np.nanmean(np.square(error))
        shares[name] = (np.abs(error[busy]) / truth[busy]).mean()
    assert squares["forecast"] < squares["relative"]
    assert shares["relative"] < shares["forecast"]


class Validation(NamedTuple):
    """The parts of training data that a factor of the mean is fitted on."""

    panel: Panel
    windows: Any


def factor(bias: float, noise: float, days: int = 20) -> float:
    """Return the factor for forecasts that are too high by a share, and by noise on each day."""
    origins = np.arange(100, 100 + 24 * days)
    truth = PANEL.values[origins[:, None] + [1, 2]]
    daily = np.random.default_rng(0).normal(0, noise, HOURS)[origins // 24]
    forecast = np.nan_to_num(truth) * (1 + bias + daily[:, None, None])
    data = Validation(PANEL, SimpleNamespace(validation=origins))
    unchecked = inspect.unwrap(fit_mean_factor)
    return float(unchecked(data, forecast.astype(np.float32)))


def test_a_certain_bias_is_taken_from_the_mean_and_chance_is_not() -> None:
    assert factor(0.2, 0.0) == pytest.approx(1 / 1.2, rel=1e-4)
    assert factor(-0.2, 0.0) == pytest.approx(1 / 0.8, rel=1e-4)
    assert factor(0.0, 0.0) == 1.0
    assert abs(factor(0.01, 0.5) - 1) < 0.1
    assert 1 / 1.2 < factor(0.2, 0.3) < 1  # a part of it
    assert factor(0.2, 0.0, days=5) == 1.0  # too few to tell


def test_days_that_share_an_error_count_once() -> None:
    origins = np.arange(100, 100 + 24 * 21)
    truth = np.nan_to_num(PANEL.values[origins[:, None] + [1, 2]])
    weekly = np.random.default_rng(0).normal(0, 0.3, 4)[(origins - 100) // (24 * 7)]
    forecast = truth * (1.1 + weekly[:, None, None])
    data = Validation(PANEL, SimpleNamespace(validation=origins))
    unchecked = inspect.unwrap(fit_mean_factor)
    by_day, by_week = (
        abs(float(unchecked(data, forecast.astype(np.float32), [1], days)) - 1) for days in (1, 7)
    )
    assert 0 < by_week < by_day
    assert unchecked(data, forecast.astype(np.float32), [1], 14) == 1  # two blocks tell nothing


def test_each_step_of_a_long_horizon_has_a_factor_of_its_own() -> None:
    recipe = change(RECIPE, {"preset": "best", "lags": {"horizon": 13}}, source="test")
    panel = small_city()
    estimator = Forecaster(recipe=recipe).fit(panel, Splits.by_share(panel, validation=0.35))
    run = run_of(estimator)
    assert run.arrays["outputs.mean_factor"].shape == (13,)
    factors = np.linspace(1, 2, 13, dtype=np.float32)
    plain, grown = (
        with_arrays(estimator, {**run.arrays, "outputs.mean_factor": f})
        for f in (np.ones(13, np.float32), factors)
    )
    origins = np.array([500, 511])
    means = [e.own_forecasts(run_of(e), panel, "observed", origins).mean for e in (plain, grown)]
    np.testing.assert_allclose(means[1], means[0] * factors[:, None], rtol=1e-6)


def test_the_factor_of_a_run_multiplies_its_mean_alone() -> None:
    estimator = fitted_twice(Forecaster, best=True)
    run = run_of(estimator)
    assert run.arrays["outputs.mean_factor"].shape == ()
    plain, doubled = (
        with_arrays(estimator, {**run.arrays, "outputs.mean_factor": np.array(f, np.float32)})
        for f in (1, 2)
    )
    inputs = [e.own_forecasts(run_of(e), PANEL, "observed", ORIGINS) for e in (plain, doubled)]
    np.testing.assert_allclose(inputs[1].mean, 2 * inputs[0].mean, rtol=1e-6)
    assert np.array_equal(inputs[1].quantiles, inputs[0].quantiles)
    assert np.array_equal(inputs[1].relative, inputs[0].relative)
    measured = fitted_twice(Forecaster, best=True, values="measurement")
    assert "outputs.mean_factor" not in run_of(measured).arrays
    assert "outputs.mean_factor" not in run_of(fitted(Forecaster)).arrays


@pytest.mark.parametrize(
    "damaged",
    [
        np.array(1.0),  # float64
        np.ones(1, np.float32),
        np.ones(LOCATIONS, np.float32),  # neither one nor one for each step
        *(np.array(number, np.float32) for number in (0, -1, np.nan, np.inf)),
    ],
)
def test_C4_a_damaged_factor_of_the_mean_is_refused(damaged: np.ndarray) -> None:
    estimator = fitted_twice(Forecaster, best=True)
    given_arrays = {**run_of(estimator).arrays, "outputs.mean_factor": damaged}
    with pytest.raises(ArtifactError, match=r"outputs\.mean_factor is .*, not a factor above 0"):
        with_arrays(estimator, given_arrays)


@pytest.mark.parametrize("kind", NETWORKS)
def test_with_one_output_the_mean_serves_relative_error(kind: type[NetworkEstimator]) -> None:
    estimator = fitted(kind)
    assert not run_of(estimator).arrays["outputs.relative"]
    assert "y_relative" not in estimator.forecast(PANEL, AT)
    prediction = estimator.predict_all(PANEL, ORIGINS)
    assert prediction.relative is prediction.forecast


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_run_of_before_there_were_two_outputs_forecasts_as_before(
    kind: type[NetworkEstimator], tmp_path: Path
) -> None:
    estimator = fitted(kind)
    older = with_arrays(estimator, without(run_of(estimator), "outputs.relative"))
    older.save(tmp_path)
    loaded = load_estimator(tmp_path)
    assert loaded.forecast(PANEL, AT).equals(estimator.forecast(PANEL, AT))
    assert "outputs.relative" not in run_of(loaded).arrays


def test_a_run_of_best_with_one_output_and_no_bounds_still_loads(tmp_path: Path) -> None:
    estimator = fitted_twice(Forecaster, best=True)
    bounds = ("level.ranges", "level.deviations", "level.known", "level.city", "model.unknown")
    added = ("outputs.relative", "model.relative", "outputs.mean_factor", *bounds)
    kept = {n: a for n, a in run_of(estimator).arrays.items() if n not in added}
    assert len(kept) == len(run_of(estimator).arrays) - 8
    lags = estimator.recipe.lags
    masks = lags.length + lags.horizon + 1 + np.arange(lags.length)  # columns, after the level's
    kept["model.from_location"] = np.delete(kept["model.from_location"], masks, axis=1)
    older = with_arrays(estimator, kept)
    older.save(tmp_path)
    loaded = load_estimator(tmp_path)
    table = loaded.forecast(PANEL, AT)
    assert "y_relative" not in table
    assert np.isfinite(table["y_hat"]).all()
    assert table.equals(older.forecast(PANEL, AT))


@pytest.mark.parametrize(
    ("kind", "best", "values"),
    [(Forecaster, True, "measurement"), *((kind, False, "count") for kind in NETWORKS)],
)
def test_without_its_second_output_a_network_forecasts_the_same_mean(
    kind: type[NetworkEstimator], best: bool, values: str
) -> None:
    """Only the counts of `best` are kept above zero if there are two outputs."""
    estimator, panel = fitted_twice(kind, best=best, values=values), small_city(values)
    kept = without(run_of(estimator), "outputs.relative")
    one = with_arrays(
        estimator, {n: a for n, a in kept.items() if not n.startswith("model.relative")}
    )
    table = estimator.forecast(panel, AT)
    assert one.forecast(panel, AT).equals(table.drop(columns="y_relative"))


@pytest.mark.parametrize("kind", NETWORKS)
def test_C4_a_second_output_without_weights_or_weights_without_it_are_refused(
    kind: type[NetworkEstimator],
) -> None:
    run = run_of(fitted_twice(kind))
    weights = [name for name in run.arrays if name.startswith("model.relative")]
    spoiled = [without(run, weights[0]), without(run, "outputs.relative")]
    spoiled += [{**run.arrays, "outputs.relative": np.array(v)} for v in (False, [True] * 3)]
    for given_arrays in spoiled:
        with pytest.raises(ArtifactError, match=f"not a forecaster run of a {kind.__name__}"):
            with_arrays(fitted_twice(kind), given_arrays)


# --------------------------------------------------------------- another machine and device


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_C8_a_run_holds_float32_and_answers_as_before_it_was_saved(
    tmp_path: Path, precision: str
) -> None:
    training = {"epochs": 1, "batch": 256, "precision": precision}
    recipe = STEPS.model_copy(update={"training": TrainingConfig(**training)})  # type: ignore[arg-type]
    estimator = Forecaster(recipe=recipe).fit(PANEL, SPLITS)
    here = estimator.predict(PANEL, np.array([900, 950]))
    estimator.save(tmp_path)
    loaded = load_estimator(tmp_path)
    assert np.array_equal(loaded.predict(PANEL, np.array([900, 950])), here)
    weights = [a for name, a in run_of(estimator).arrays.items() if name.startswith("model.")]
    assert {array.dtype for array in weights} == {np.dtype(np.float32)}


@pytest.mark.gpu
def test_C8_P6_a_run_trained_on_a_gpu_answers_the_same_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origins = np.arange(700, HOURS - 2)
    best = change(STEPS, {"preset": "best"}, source="test")
    for number, estimator in enumerate(
        [Forecaster(recipe=best), *(k(recipe=STEPS) for k in NETWORKS)]
    ):
        there = estimator.fit(PANEL, SPLITS).predict(PANEL, origins)
        estimator.save(tmp_path / str(number))
        with monkeypatch.context() as bare:
            bare.setattr(torch.cuda, "is_available", lambda: False)
            here = load_estimator(tmp_path / str(number)).predict(PANEL, origins)
        assert np.allclose(here, there, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
def test_T10_two_trainings_of_best_on_a_gpu_are_equal(caplog: pytest.LogCaptureFixture) -> None:
    best = change(STEPS, {"preset": "best"}, source="test")
    one, other = (run_of(Forecaster(recipe=best).fit(PANEL, SPLITS)).arrays for _ in range(2))
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert "no CUDA graph" not in caplog.text


# --------------------------------------------------------------- weights of another network


def without(run: Run, name: str) -> dict[str, np.ndarray]:
    return {key: array for key, array in run.arrays.items() if key != name}


def change_recipe(run: Run, **model: Any) -> Run:
    given = {**run.recipe.model.model_dump(), **model}
    return replace(
        run, recipe=run.recipe.model_copy(update={"model": ModelConfig.model_construct(**given)})
    )


MISFITS: dict[str, Callable[[Run], Run]] = {
    "a weight is missing": lambda run: replace(run, arrays=without(run, QUERY)),
    "one too many": lambda run: replace(
        run, arrays={**run.arrays, "model.more": np.zeros(3, np.float32)}
    ),
    "another shape": lambda run: replace(
        run, arrays={**run.arrays, QUERY: run.arrays[QUERY][:-1]}
    ),
    "another type": lambda run: replace(
        run, arrays={**run.arrays, QUERY: run.arrays[QUERY].astype(np.float64)}
    ),
    "no scale": lambda run: replace(run, arrays=without(run, "values.mean")),
    "the scale of another city": lambda run: replace(
        run, arrays={**run.arrays, "values.mean": np.zeros(6, np.float32)}
    ),
    "wider locations": lambda run: change_recipe(run, per_location=4),
    "locations wider than memory": lambda run: change_recipe(run, per_location=2**40),
    "more auxiliary neurons than memory": lambda run: change_recipe(run, auxiliary=2**40),
    "more layers": lambda run: change_recipe(run, n_layers=2),
    "layers without end": lambda run: change_recipe(run, n_layers=10**12),
    "heads that share nothing": lambda run: change_recipe(run, heads=3),
}
GRAPHS: dict[str, Callable[[Run], Run]] = {
    "no graph": lambda run: replace(run, arrays=without(run, "graph.pairs")),
    "a graph of other locations": lambda run: with_pairs(run, np.array([[0, 5]])),
    "negative locations": lambda run: with_pairs(run, np.array([[-1, 2]])),
    "numbers that are no locations": lambda run: with_pairs(run, np.array([[0.5, 1.5]])),
    "triples": lambda run: with_pairs(run, np.array([[0, 1, 2]])),
    "no list of pairs": lambda run: with_pairs(run, np.array(3)),
    "fewer edges": lambda run: with_pairs(run, np.empty((0, 2), dtype=np.int64)),
    "far too many edges": lambda run: with_pairs(run, np.zeros((10**6, 2), dtype=np.int64)),
}


def with_pairs(run: Run, pairs: np.ndarray) -> Run:
    return replace(run, arrays={**run.arrays, "graph.pairs": pairs})


@pytest.mark.parametrize("spoil", MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_C4_weights_that_do_not_fit_the_network_are_refused(
    kind: type[NetworkEstimator], spoil: Callable[[Run], Run]
) -> None:
    with pytest.raises(ArtifactError, match=f"not a forecaster run of a {kind.__name__}"):
        kind.from_run(spoil(run_of(fitted(kind))))


@pytest.mark.parametrize("spoil", GRAPHS.values(), ids=GRAPHS)
def test_C4_weights_that_do_not_fit_the_graph_are_refused(spoil: Callable[[Run], Run]) -> None:
    run = run_of(fitted(Forecaster))
    assert len(run.arrays["graph.pairs"]) == 2
    with pytest.raises(ArtifactError, match="not a forecaster run of a Forecaster"):
        Forecaster.from_run(spoil(run))


def test_C4_every_misfit_is_named_with_both_sides() -> None:
    run = run_of(fitted(Transformer))
    spoiled = {**without(run, "model.output.bias"), QUERY: run.arrays[QUERY][:, :-1]}
    with pytest.raises(ArtifactError) as refused:
        Transformer.from_run(replace(run, arrays=spoiled))
    assert "2 faults" in str(refused.value)
    assert f"{QUERY.removeprefix('model.')}: float32 (14, 13); needed: float32 (14, 14)" in str(
        refused.value
    )
    assert "output.bias: nothing; needed: float32 (5, 1, 1)" in str(refused.value)


def test_C4_a_run_of_one_network_is_not_loaded_as_another(tmp_path: Path) -> None:
    save_run(tmp_path, run_of(fitted(Transformer)))
    with pytest.raises(ArtifactError, match="the run of a Transformer, not of a Forecaster"):
        Forecaster.load(tmp_path)


# ------------------------------------------------------------------------------- resuming


class PowerCutError(Exception):
    """Stands for anything that may end a training."""


def crash_at(step: int) -> Callable[[ProgressUpdate], None]:
    def on_progress(moment: ProgressUpdate) -> None:
        if moment.step >= step:
            raise PowerCutError

    return on_progress


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_training_that_died_goes_on_to_the_same_bytes(
    kind: type[NetworkEstimator], panel: Panel, tmp_path: Path
) -> None:
    training = STEPS.training.model_copy(update={"checkpoint_steps": 2})
    recipe = STEPS.model_copy(update={"training": training})
    with pytest.raises(PowerCutError):
        kind(recipe=recipe).fit(panel, SPLITS, folder=tmp_path / "a", on_progress=crash_at(5))
    moments: list[ProgressUpdate] = []
    again = kind(recipe=recipe).fit(
        panel, SPLITS, folder=tmp_path / "a", on_progress=moments.append
    )
    assert "resuming from step 4" in (moments[0].message or "")
    whole = kind(recipe=recipe).fit(panel, SPLITS)
    digests = [save_run(tmp_path / str(n), run_of(e)).digest for n, e in enumerate((again, whole))]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("changed", ["recipe", "panel", "graph"])
def test_T7_a_training_is_not_resumed_with_anything_else(
    panel: Panel, tmp_path: Path, changed: str
) -> None:
    graphs = [
        DependencyGraph.from_edges(edges, panel)
        for edges in ([("place 0", "place 1")], [("place 0", "place 2")])
    ]
    other = replace(PANEL, values=PANEL.values + 1).save(tmp_path / "other")
    folder = tmp_path / "training"
    Forecaster(graphs[0], RECIPE).fit(panel, SPLITS, folder=folder)
    graph = graphs[changed == "graph"]
    recipe = STEPS if changed == "recipe" else RECIPE
    with pytest.raises(ArtifactError, match=rf"{changed}: was \w+, is \w+"):
        Forecaster(graph, recipe).fit(
            other if changed == "panel" else panel, SPLITS, folder=folder
        )


def test_a_panel_that_was_not_saved_cannot_be_known_again(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="save the panel first"):
        Transformer(RECIPE).fit(PANEL, SPLITS, folder=tmp_path)


def test_the_run_remembers_its_learning_curve_without_the_clock() -> None:
    training = run_of(fitted(Transformer)).about["training"]
    assert training["why"] == "all 1 epoch done"
    (epoch,) = training["epochs"]
    assert "seconds" not in epoch
    assert epoch["validation_loss"] > 0


def test_T3_without_a_target_for_mape_it_learns_from_rmse(make_panel: Any) -> None:
    values = np.random.default_rng(0).poisson(2, (HOURS, 3)).clip(0, 9)
    panel = make_panel(values)
    estimator = Transformer(Recipe(lags=RECIPE.lags, model=RECIPE.model, training=RECIPE.training))
    run = run_of(estimator.fit(panel, Splits.by_share(panel)))
    (epoch,) = run.about["training"]["epochs"]
    assert epoch["terms"] == 0
    assert epoch["mape"] is None


# ---------------------------------------------------------------------------- long horizons


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (DCRNN, "DCRNN rolls out 29 steps one after another: a training step, as a forecast"),
        (Transformer, "Transformer learns 29 steps at once"),
    ],
)
def test_the_cost_of_a_long_roll_out_is_said_before_training(
    kind: type[NetworkEstimator], words: str
) -> None:
    messages: list[str] = []

    def listen(update: ProgressUpdate) -> None:
        messages.append(update.message or "")

    recipe = change(RECIPE, {"lags": {"horizon": 29}, "dcrnn": {"recent": 3}}, source="test")
    fitted = kind(recipe).fit(PANEL, SPLITS, on_progress=listen)
    assert messages[0].startswith(words)
    assert fitted.predict(PANEL, np.array([997])).shape == (1, 29, LOCATIONS)


def test_networks_that_forecast_all_steps_at_once_or_few_say_nothing() -> None:
    for kind, horizon, preset in ((Forecaster, 29, "best"), (DCRNN, 2, None)):
        messages: list[str] = []
        values = {"lags": {"horizon": horizon}, "preset": preset}
        kind(recipe=change(RECIPE, values, source="test")).fit(
            PANEL,
            SPLITS,
            on_progress=lambda update, log=messages: log.append(update.message or ""),
        )
        assert not [text for text in messages if "at once" in text or "rolls out" in text]


def test_kernels_are_named_of_networks_that_have_some_only() -> None:
    peers = [STID(), DCRNN(), GraphWaveNet(), STAEformer()]
    for network in (*peers, Forecaster(preset="quick")):
        assert network.backend == f"on {best_device()} in torch.float32"
    for network in (Transformer(), Forecaster()):
        assert network.backend.startswith(f"sparse layers and norms on {best_device()} in ")
    recipes = [Recipe.of({"ensemble": {"members": members}}) for members in (["STID"], ["Ridge"])]
    described = [Ensemble(recipe=recipe).backend for recipe in recipes]
    assert described == [STID().backend, ""]
