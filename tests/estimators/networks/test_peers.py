"""Networks of others as estimators, each with its authors' inputs and with the lags of all."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Generator

from forecaster.artifact import Run
from forecaster.choices import InputKind
from forecaster.errors import ArtifactError, ConfigError, DataError, StoppedError
from forecaster.estimators.checks.sample import LOCATIONS, RECIPE, small_city
from forecaster.estimators.checks.suite import CHECKS, check_forecaster
from forecaster.estimators.networks import peers
from forecaster.estimators.networks.past import PastEstimator
from forecaster.estimators.networks.peers import SLOTS, STID, GraphWaveNet, STAEformer
from forecaster.estimators.networks.proximity import KERNEL
from forecaster.estimators.registry import load_estimator
from forecaster.explain.explain import explain_forecast
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows
from forecaster.training import loop
from forecaster.training.progress import ProgressUpdate
from forecaster.training.task import TrainingTask
from tests.estimators import directed

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)
AT, ORIGINS = "2021-04-10T12:00Z", np.array([900, 950, 1000])
SMALL: dict[type[PastEstimator], dict[str, Any]] = {
    STID: {"embedding": 3, "n_layers": 1},
    GraphWaveNet: {"channels": 3, "skip": 4, "end": 5, "blocks": 2, "embedding": 2},
    STAEformer: {"embedding": 2, "adaptive": 2, "hidden": 5, "heads": 2, "n_layers": 1},
}
PEERS = list(SMALL)
KINDS: tuple[InputKind, ...] = ("recent", "lags")


def small(kind: type[PastEstimator], inputs: InputKind, recipe: Recipe = RECIPE) -> Recipe:
    """Return the recipe of a small network."""
    return change(recipe, {kind.section: {**SMALL[kind], "inputs": inputs}}, source="test")


@cache
def fitted(kind: type[PastEstimator], inputs: InputKind) -> PastEstimator:
    recipe = change(RECIPE, {"training": {"relative": True, "batch": 64}}, source="test")
    return kind(small(kind, inputs, recipe)).fit(PANEL, SPLITS)


def run_of(estimator: PastEstimator) -> Run:
    assert estimator.run is not None
    return estimator.run


@pytest.mark.parametrize("inputs", [pytest.param("recent", marks=pytest.mark.slow), "lags"])
@pytest.mark.parametrize("kind", PEERS)
def test_it_passes_the_public_suite(kind: type[PastEstimator], inputs: InputKind) -> None:
    assert check_forecaster(lambda recipe: kind(small(kind, inputs, recipe))) == list(CHECKS)


@pytest.mark.parametrize("inputs", KINDS)
@pytest.mark.parametrize("kind", PEERS)
def test_a_saved_run_forecasts_the_same_two_numbers(
    kind: type[PastEstimator], inputs: InputKind, tmp_path: Path
) -> None:
    estimator = fitted(kind, inputs)
    table = estimator.forecast(PANEL, AT)
    assert np.isfinite(table["y_relative"]).all()
    prediction = estimator.predict_all(PANEL, ORIGINS)
    assert prediction.forecast.shape == prediction.relative.shape == (3, 2, LOCATIONS)
    estimator.save(tmp_path)
    loaded = load_estimator(tmp_path)
    assert type(loaded) is kind
    assert loaded.forecast(PANEL, AT).equals(table)


@pytest.mark.parametrize(
    ("inputs", "seen"),
    [("recent", set(range(12))), ("lags", {0, 1, 2, 24, 23, 22, 48, 47, 46})],
)
@pytest.mark.parametrize("kind", PEERS)
def test_it_sees_its_own_steps_and_no_others(
    kind: type[PastEstimator], inputs: InputKind, seen: set[int]
) -> None:
    estimator = fitted(kind, inputs)
    run, origin = run_of(estimator), np.array([850])
    before = estimator.own_forecasts(run, PANEL, "observed", origin).mean
    for lag in range(60):
        values = PANEL.values.copy()
        values[origin - lag] += 0.25  # more might be implausible, which depends on other steps
        changed = replace(PANEL, values=values)
        after = estimator.own_forecasts(run, changed, "observed", origin).mean
        assert bool((after != before).any()) == (lag in seen), lag


@pytest.mark.parametrize("kind", PEERS)
def test_weather_ahead_is_for_those_who_see_it(kind: type[PastEstimator]) -> None:
    for inputs in KINDS:
        estimator = fitted(kind, inputs)
        observed, none = (
            estimator.own_forecasts(run_of(estimator), PANEL, weather, ORIGINS).mean
            for weather in ("observed", "none")
        )
        assert np.array_equal(observed, none) == (inputs == "recent")


@pytest.mark.parametrize("kind", PEERS)
def test_missing_history_is_masked_with_lags_and_filled_otherwise(
    kind: type[PastEstimator],
) -> None:
    values = PANEL.values.copy()
    values[898:901] = np.nan
    panel, at = replace(PANEL, values=values), f"{PANEL.times[900]}Z"
    masked, filled = (fitted(kind, inputs) for inputs in ("lags", "recent"))
    assert masked.masks_missing
    assert np.isfinite(masked.forecast(panel, at)["y_hat"]).all()
    assert not filled.masks_missing
    with pytest.raises(DataError, match="history incomplete"):
        filled.forecast(panel, at)


@pytest.mark.parametrize("kind", PEERS)
def test_a_value_beyond_training_is_bounded(kind: type[PastEstimator]) -> None:
    for inputs in KINDS:
        estimator = fitted(kind, inputs)
        forecasts = []
        for value in (1e4, 1e8):
            values = PANEL.values.copy()
            values[900, 2] = value
            changed = replace(PANEL, values=values)
            outputs = estimator.own_forecasts(
                run_of(estimator), changed, "observed", np.array([900])
            )
            forecasts.append(outputs.mean)
        assert np.allclose(*forecasts, rtol=0.05, atol=1.0)


@pytest.mark.parametrize("kind", PEERS)
def test_all_learn_from_the_same_origins_and_masks_from_partial_windows_too(
    kind: type[PastEstimator], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[TrainingTask] = []
    monkeypatch.setattr(loop, "describe_task", lambda task, _: (tasks.append(task), {})[1])
    for inputs in KINDS:
        kind(small(kind, inputs)).fit(PANEL, SPLITS)
    windows = cut_windows(PANEL, SPLITS, RECIPE.lags)
    assert [task.network.L for task in tasks] == [12, RECIPE.lags.length]
    assert np.array_equal(tasks[0].train, windows.train)
    assert np.array_equal(tasks[1].train, np.union1d(windows.train, windows.partial))
    assert len(windows.partial)
    assert all(np.array_equal(task.validation, windows.validation) for task in tasks)


@pytest.mark.parametrize("kind", PEERS)
def test_an_interrupted_training_resumes_to_the_same_bits(
    kind: type[PastEstimator], tmp_path: Path
) -> None:
    panel = PANEL.save(tmp_path / "panel")
    training = {"epochs": 2, "batch": 200, "ema": 0.5, "checkpoint_steps": 1, "relative": True}
    recipe = small(kind, "lags", change(RECIPE, {"training": training}, source="test"))
    whole = kind(recipe).fit(panel, SPLITS, folder=tmp_path / "whole")

    def stop(update: ProgressUpdate) -> None:
        if update.step == 3:
            raise StoppedError("test")

    with pytest.raises(StoppedError):
        kind(recipe).fit(panel, SPLITS, folder=tmp_path / "parts", on_progress=stop)
    resumed = kind(recipe).fit(panel, SPLITS, folder=tmp_path / "parts")
    arrays = run_of(resumed).arrays
    for name, array in run_of(whole).arrays.items():
        assert np.array_equal(arrays[name], array), name


@pytest.mark.parametrize("kind", PEERS)
def test_its_forecast_is_explained(kind: type[PastEstimator]) -> None:
    content = explain_forecast(fitted(kind, "lags"), PANEL, AT, "place 3").to_dict()
    assert (content["estimator"], content["shares_by"]) == (kind.__name__, "ablation")
    assert len(content["hours"]) == RECIPE.lags.length


@pytest.mark.parametrize("inputs", KINDS)
@pytest.mark.parametrize("kind", PEERS)
def test_a_run_holds_at_least_the_weights_that_are_counted(
    kind: type[PastEstimator], inputs: InputKind
) -> None:
    layout, known = NeuronLayout(5, 3, 34), run_of(fitted(kind, inputs)).arrays
    estimator = kind(small(kind, inputs))
    network = estimator.build(layout, known, Generator())
    held = sum(tensor.numel() for tensor in network.state_dict().values())
    assert held / 3 < estimator.size(layout, known) <= held


# ---------------------------------------------------------------------------------- refusal


def with_array(run: Run, name: str, array: np.ndarray | None) -> Run:
    arrays = {key: held for key, held in run.arrays.items() if key != name}
    return replace(run, arrays=arrays if array is None else {**arrays, name: array})


def claim(run: Run, kind: type[PastEstimator], **changes: Any) -> Run:
    section = getattr(run.recipe, kind.section)
    config = type(section).model_construct(**{**section.model_dump(), **changes})
    return replace(run, recipe=run.recipe.model_copy(update={kind.section: config}))


EYE = np.eye(5, dtype=np.float32)
MISFITS: dict[str, tuple[str, np.ndarray | None]] = {
    "a weight is missing": ("model.output.weight", None),
    "one too many": ("model.more", np.zeros(3, np.float32)),
}
SEASONS: dict[str, tuple[str, np.ndarray | None]] = {
    "no season": (SLOTS, None),
    "a season of another length": (SLOTS, np.array(167)),
    "a season without steps": (SLOTS, np.array(0)),
    "a season beyond memory": (SLOTS, np.array(2**50)),
    "a season that is no number": (SLOTS, np.array(168.0)),
}
KERNELS: dict[str, tuple[str, np.ndarray | None]] = {
    "no kernel": (KERNEL, None),
    "the kernel of another city": (KERNEL, EYE[:4, :4]),
    "a kernel below zero": (KERNEL, -EYE),
    "no norm": ("model.norms.0.mean", None),
}
SPOILED = [
    *((kind, *misfit) for kind in SMALL for misfit in MISFITS.values()),
    *((kind, *misfit) for kind in (STID, STAEformer) for misfit in SEASONS.values()),
    *((GraphWaveNet, *misfit) for misfit in KERNELS.values()),
]
CLAIMS: dict[str, dict[str, Any]] = {
    "other inputs": {"inputs": "recent"},
    "a history beyond memory": {"inputs": "recent", "recent": 100_000},
    "a width beyond memory": {"embedding": 2**40},
    "layers without end": {"n_layers": 10**12},
}


@pytest.mark.parametrize(("kind", "name", "array"), SPOILED)
def test_C4_arrays_that_do_not_fit_the_network_are_refused(
    kind: type[PastEstimator], name: str, array: np.ndarray | None
) -> None:
    with pytest.raises(ArtifactError, match=f"not a forecaster run of a {kind.__name__}"):
        kind.from_run(with_array(run_of(fitted(kind, "lags")), name, array))


@pytest.mark.parametrize("changes", CLAIMS.values(), ids=CLAIMS)
@pytest.mark.parametrize("kind", PEERS)
def test_C4_settings_that_do_not_fit_the_weights_are_refused(
    kind: type[PastEstimator], changes: dict[str, Any]
) -> None:
    with pytest.raises(ArtifactError, match=f"not a forecaster run of a {kind.__name__}"):
        kind.from_run(claim(run_of(fitted(kind, "lags")), kind, **changes))


@pytest.mark.parametrize("kind", PEERS)
def test_looking_further_back_than_the_lags_is_refused(kind: type[PastEstimator]) -> None:
    recipe = change(RECIPE, {kind.section: {"recent": 1_000}}, source="test")
    with pytest.raises(ConfigError, match=rf"lower {kind.section}\.recent, or add to lags"):
        kind(recipe).fit(PANEL, SPLITS)


def test_days_have_no_time_and_months_no_weekday(make_panel: Callable[..., Panel]) -> None:
    values = np.random.default_rng(0).poisson(20, (500, 3))
    for step, rows in (({"step_minutes": 24 * 60}, (1, 7)), ({"step_months": 1}, (12, 1))):
        panel = make_panel(values)
        panel = replace(
            panel, clock=replace(panel.clock, **step), start=np.datetime64("1980-01-01", "s")
        )
        lags = {"lags": {"recent": 12, "seasons": [], "horizon": 2}}
        recipe = change(small(STID, "recent"), lags, source="test")
        run = run_of(STID(recipe).fit(panel, Splits.by_share(panel)))
        shapes = [run.arrays[f"model.season.{name}"].shape[0] for name in ("time", "weekday")]
        assert tuple(shapes) == rows


# --------------------------------------------------------------------------------- STAEformer


def test_attention_that_does_not_fit_into_memory_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = change(RECIPE, {"staeformer": {"inputs": "lags"}}, source="test")
    monkeypatch.setattr(peers, "free_bytes", lambda _: 400_000_000)
    with pytest.raises(ConfigError, match=r"of 5 locations × 9 past steps.*GB are free.*batch to"):
        STAEformer(recipe).fit(PANEL, SPLITS)
    monkeypatch.setattr(peers, "free_bytes", lambda _: 0)
    with pytest.raises(
        ConfigError, match=r'take fewer locations, or staeformer\.inputs = "recent"'
    ):
        STAEformer(recipe).fit(PANEL, SPLITS)


# ------------------------------------------------------------------------------ Graph WaveNet


def test_values_diffuse_along_a_given_graph_from_source_to_target() -> None:
    recipe = small(GraphWaveNet, "lags")
    estimator = GraphWaveNet(recipe, graph=directed.directed_graph())
    run = run_of(estimator.fit(directed.PANEL, directed.SPLITS))
    expected = np.eye(7)
    ends = (0, 1, 3, 4), (1, 2, 4, 3)
    expected[ends] = [0.75, 0.25, 0.375, 0.125]  # of two delays the larger size
    assert np.array_equal(run.arrays[KERNEL], expected)
    assert run.parents["graph"]


def test_the_graph_of_another_panel_is_refused() -> None:
    estimator = GraphWaveNet(small(GraphWaveNet, "recent"), graph=directed.directed_graph())
    with pytest.raises(ArtifactError, match="graph is for 7 locations"):
        estimator.fit(PANEL, SPLITS)


def test_norms_are_those_of_training_windows_and_saved_with_the_weights() -> None:
    run = run_of(fitted(GraphWaveNet, "recent"))
    for number in range(3):
        assert (run.arrays[f"model.norms.{number}.scale"] != 1).all()
