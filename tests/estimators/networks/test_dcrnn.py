import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from torch import Generator

from forecaster.artifact import Run
from forecaster.choices import InputKind
from forecaster.config import DCRNNConfig, LagConfig, Season, TrainingConfig
from forecaster.errors import ArtifactError, ConfigError, DataError
from forecaster.estimators.checks.sample import HOURS, RECIPE, small_city
from forecaster.estimators.checks.suite import CHECKS, check_forecaster
from forecaster.estimators.networks.dcrnn import DCRNN
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.estimators.networks.proximity import KERNEL
from forecaster.estimators.training_data import TrainingData, hide_test
from forecaster.graph.covariance import take_sample
from forecaster.graph.edges import EARTH_KM
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows
from forecaster.training import loop
from forecaster.training.task import TrainingTask
from tests.estimators import directed

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)
GATES = "model.decoder.0.gates.weight"
MakePanel = Callable[..., Panel]


def with_dcrnn(recipe: Recipe = RECIPE, **changes: Any) -> Recipe:
    small = RECIPE.dcrnn.model_copy(update=changes)
    return recipe.model_copy(update={"dcrnn": small})


@cache
def fitted(inputs: InputKind = "recent") -> DCRNN:
    return DCRNN(with_dcrnn(inputs=inputs)).fit(PANEL, SPLITS)


def run_of(estimator: DCRNN) -> Run:
    assert estimator.run is not None
    return estimator.run


def place(panel: Panel, lat: list[float], lon: list[float], **extra: Any) -> Panel:
    ids = panel.locations.ids
    return replace(panel, locations=Locations(ids, ids, np.array(lat), np.array(lon), extra))


def prerequisites(panel: Panel, recipe: Recipe = RECIPE) -> tuple[np.ndarray, str]:
    """Return the kernel of a panel, and where it comes from."""
    learned = DCRNN(recipe).prerequisites(
        hide_test(panel, SPLITS, cut_windows(panel, SPLITS, recipe.lags))
    )
    return learned.arrays[KERNEL], learned.about["graph"]["kind"]


def test_it_passes_the_public_suite_with_the_lags_of_others() -> None:
    def make(recipe: Recipe) -> DCRNN:
        return DCRNN(with_dcrnn(recipe, inputs="lags"))

    assert check_forecaster(make) == list(CHECKS)


# ------------------------------------------------------------------------------- the kernel


def test_the_kernel_falls_with_the_square_of_the_distance() -> None:
    panel = place(PANEL, [40.7, 40.71, 40.73, 40.76, 40.6], [-74.0] * 5)
    kernel, kind = prerequisites(panel)
    apart = np.radians(np.abs(np.subtract.outer(panel.locations.lat, panel.locations.lat)))
    km = EARTH_KM * apart  # along a meridian
    sigma = np.std(km[np.triu_indices(5, k=1)])
    expected = np.exp(-((km / sigma) ** 2))
    assert 0 < (expected < 0.1).sum() < 20
    np.testing.assert_allclose(kernel, np.where(expected < 0.1, 0, expected), rtol=1e-6)
    assert kind == "distance"
    assert np.array_equal(kernel, kernel.T)
    assert (np.diag(kernel) == 1).all()


def test_a_grid_has_distances_too() -> None:
    nowhere = [np.nan] * 5
    kernel, kind = prerequisites(
        place(PANEL, nowhere, nowhere, row=(0, 0, 0, 1, 9), col=(0, 1, 2, 0, 9))
    )
    assert kind == "distance"
    assert kernel[0, 1] == kernel[0, 3] > kernel[0, 2] > 0
    assert not kernel[:4, 4].any()


def test_a_higher_threshold_leaves_fewer_neighbours() -> None:
    panel = place(PANEL, [40.7, 40.71, 40.73, 40.76, 40.6], [-74.0] * 5)
    few, many = (prerequisites(panel, with_dcrnn(kernel_threshold=cut))[0] for cut in (0.8, 0.1))
    assert np.array_equal(few, np.where(many < 0.8, 0, many))
    assert 5 < (few > 0).sum() < (many > 0).sum()


def test_without_coordinates_the_correlation_of_training_values_stands_for_nearness(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    generator = np.random.default_rng(3)
    noise = generator.normal(size=(HOURS, 5))
    values = 100 + noise + np.array([3, 2, -2, 0, 0]) * generator.normal(size=(HOURS, 1))
    panel = replace(PANEL, values=values.astype(np.float32))
    kernel, kind = prerequisites(panel)
    data = hide_test(panel, SPLITS, cut_windows(panel, SPLITS, RECIPE.lags))
    sample = take_sample(data.panel, data.train, "hour_of_week")
    slots = panel.clock.slot_of_season(panel.times)[sample.steps]
    expected = np.corrcoef((panel.values[sample.steps] - sample.base[slots]).T)
    assert kind == "pearson"
    assert kernel[0, 1] == pytest.approx(expected[0, 1], rel=1e-4)
    assert expected[0, 2] < -0.5
    assert not kernel[:2, 2].any()  # what moves the other way is no neighbour
    assert kernel[3, 4] == 0  # below the threshold
    assert "no coordinates of place 0" in caplog.text


def test_a_directed_graph_leads_from_source_to_target(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = directed.directed_graph()
    monkeypatch.setattr(DCRNN, "_proximity_graph", lambda *_: graph)
    estimator = DCRNN(RECIPE).fit(directed.PANEL, directed.SPLITS)
    kernel = run_of(estimator).arrays[KERNEL]
    expected = np.eye(7)
    ends = (0, 1, 3, 4), (1, 2, 4, 3)
    expected[ends] = [0.75, 0.25, 0.375, 0.125]  # of two delays the larger size
    assert np.array_equal(kernel, expected)
    assert np.isfinite(estimator.predict(directed.PANEL, np.array([directed.ORIGIN]))).all()


def test_the_run_remembers_its_kernel_and_where_that_comes_from() -> None:
    run = run_of(fitted())
    assert run.arrays[KERNEL].dtype == np.float32
    assert run.arrays[KERNEL].shape == (5, 5)
    assert run.about["graph"]["kind"] == "pearson"
    assert run.about["graph"]["threshold"] == 0.1


def test_numbers_of_half_the_length_learn_about_the_same() -> None:
    training = RECIPE.training.model_copy(update={"precision": "bf16"})
    estimator = DCRNN(RECIPE.model_copy(update={"training": training})).fit(PANEL, SPLITS)
    origins = np.arange(880, 900)
    here, there = estimator.predict(PANEL, origins), fitted().predict(PANEL, origins)
    assert not np.array_equal(here, there)
    assert np.allclose(here, there, rtol=0.05, atol=0.5)
    arrays = run_of(estimator).arrays
    assert {a.dtype for name, a in arrays.items() if "model." in name} == {np.dtype(np.float32)}


# ------------------------------------------------------------------------------ what it sees


@pytest.mark.parametrize(
    ("inputs", "seen"),
    [("recent", set(range(12))), ("lags", {0, 1, 2, 24, 23, 22, 48, 47, 46})],
)
def test_it_sees_its_own_steps_and_no_others(inputs: InputKind, seen: set[int]) -> None:
    origin = 850
    before = fitted(inputs).predict(PANEL, np.array([origin]))
    for lag in range(60):
        values = PANEL.values.copy()
        values[origin - lag] += 0.25  # more might be implausible, which depends on other steps
        after = fitted(inputs).predict(replace(PANEL, values=values), np.array([origin]))
        assert bool((after != before).any()) == (lag in seen), lag


def test_weather_ahead_is_for_those_who_see_it() -> None:
    origins = np.arange(890, 900)
    for inputs in ("recent", "lags"):
        estimator = fitted(inputs)
        observed, none = (estimator.predict(PANEL, origins, w) for w in ("observed", "none"))
        assert np.array_equal(observed, none) == (inputs == "recent")


def test_all_networks_learn_from_the_same_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[TrainingTask] = []
    monkeypatch.setattr(loop, "describe_task", lambda task, _: (tasks.append(task), {})[1])
    for inputs in ("recent", "lags"):
        DCRNN(with_dcrnn(inputs=inputs)).fit(PANEL, SPLITS)
    windows = cut_windows(PANEL, SPLITS, RECIPE.lags)
    for task in tasks:
        assert np.array_equal(task.train, windows.train)
        assert np.array_equal(task.validation, windows.validation)
    assert [task.network.L for task in tasks] == [12, RECIPE.lags.length]
    assert [task.sampling_decay for task in tasks] == [2_000.0, 2_000.0]


def test_T6_no_training_window_reads_held_out_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    day = PANEL.times[20 * 24].astype("datetime64[D]")
    between = (f"{day}T05:00Z", f"{day}T06:00Z")  # two hours within the training steps
    splits = Splits(
        train=[(f"{PANEL.times[0]}Z", f"{day}T04:59Z"), (f"{day}T07:00Z", "2021-03-31")],
        validation=[between, ("2021-04-01", "2021-04-04")],
        test=[("2021-04-05", "2021-04-09")],
    )
    seen: list[TrainingData] = []
    begin_fit = NetworkEstimator.begin_fit
    monkeypatch.setattr(
        NetworkEstimator,
        "begin_fit",
        lambda self, data: (seen.append(data), begin_fit(self, data))[1],
    )
    DCRNN(RECIPE).fit(PANEL, splits)
    others = cut_windows(PANEL, splits, RECIPE.lags).train
    held_out = np.flatnonzero(splits.mask("validation", PANEL.clock, PANEL.times))
    reads = np.isin(others[:, None] - np.arange(12), held_out).any(axis=1)
    assert 0 < reads.sum() < 20
    assert np.array_equal(seen[0].windows.train, others[~reads])


@pytest.mark.slow
def test_it_learns_what_diffuses(make_panel: MakePanel, splits: Splits) -> None:
    generator = np.random.default_rng(1)
    x = np.zeros((24 * 47, 7))
    for t in range(1, len(x)):  # in a row, each from its neighbours alone
        x[t, 1:-1] = 0.49 * (x[t - 1, :-2] + x[t - 1, 2:])
        x[t, [0, -1]] = 0.98 * x[t - 1, [1, -2]]
        x[t] += generator.normal(size=7)
    panel = place(make_panel(x, "measurement"), [0.0] * 7, (np.arange(7) / 100).tolist())
    training = TrainingConfig(epochs=8, batch=32, learning_rate=2e-2)
    recipe = Recipe(lags=RECIPE.lags, training=training)
    origins, errors = cut_windows(panel, splits, RECIPE.lags).test, []
    for cut in (0.1, 0.999):  # with neighbours, and without
        own = with_dcrnn(recipe, units=8, recent=3, kernel_threshold=cut)
        forecast = DCRNN(own).fit(panel, splits).predict(panel, origins)[:, 0]
        errors.append(float(np.sqrt(np.mean((forecast - panel.values[origins + 1]) ** 2))))
    assert errors[0] < 1.2  # the noise's own size is 1
    assert errors[1] > 1.2 * errors[0]


# ---------------------------------------------------------------------------------- refusal


def test_looking_further_back_than_the_lags_is_refused() -> None:
    season = (Season(days=1, count=1, before=0, after=0),)
    recipe = RECIPE.model_copy(update={"lags": LagConfig(recent=2, seasons=season, horizon=2)})
    # The shortest day of the panel, that of the clock change, has 23 hours.
    with pytest.raises(ConfigError, match=r"recent = 25 steps, but lags reach back only 24") as no:
        DCRNN(with_dcrnn(recipe, recent=25)).fit(PANEL, SPLITS)
    assert str(no.value).endswith("; lower dcrnn.recent, or add to lags")
    DCRNN(with_dcrnn(recipe, recent=24)).fit(PANEL, SPLITS).predict(PANEL, np.array([900]))
    DCRNN(with_dcrnn(recipe, recent=25, inputs="lags")).fit(PANEL, SPLITS)


def with_array(run: Run, name: str, array: np.ndarray | None) -> Run:
    arrays = {key: held for key, held in run.arrays.items() if key != name}
    return replace(run, arrays=arrays if array is None else {**arrays, name: array})


def claim(run: Run, **changes: Any) -> Run:
    given = {**run.recipe.dcrnn.model_dump(), **changes}
    config = DCRNNConfig.model_construct(**given)
    return replace(run, recipe=run.recipe.model_copy(update={"dcrnn": config}))


EYE = np.eye(5, dtype=np.float32)
MISFITS: dict[str, Callable[[Run], Run]] = {
    "a weight is missing": lambda run: with_array(run, GATES, None),
    "one too many": lambda run: with_array(run, "model.more", np.zeros(3, np.float32)),
    "another shape": lambda run: with_array(run, GATES, run.arrays[GATES][:-1]),
    "another type": lambda run: with_array(run, GATES, run.arrays[GATES].astype(np.float64)),
    "other units": lambda run: claim(run, units=4),
    "units beyond memory": lambda run: claim(run, units=2**40),
    "more layers": lambda run: claim(run, n_layers=2),
    "layers without end": lambda run: claim(run, n_layers=10**12),
    "other steps": lambda run: claim(run, diffusion_steps=3),
    "steps without end": lambda run: claim(run, diffusion_steps=10**12),
    "other inputs": lambda run: claim(run, inputs="lags"),
    "a history beyond memory": lambda run: claim(run, recent=100_000),
    "no scale": lambda run: with_array(run, "values.mean", None),
    "no kernel": lambda run: with_array(run, KERNEL, None),
    "the kernel of another city": lambda run: with_array(run, KERNEL, EYE[:4, :4]),
    "a kernel of another type": lambda run: with_array(run, KERNEL, EYE.astype(np.float64)),
    "a kernel below zero": lambda run: with_array(run, KERNEL, -EYE),
    "a kernel above one": lambda run: with_array(run, KERNEL, EYE * 1e38),
    "a kernel that is no number": lambda run: with_array(run, KERNEL, EYE * np.float32(np.nan)),
}


@pytest.mark.parametrize("spoil", MISFITS.values(), ids=MISFITS)
def test_C4_weights_that_do_not_fit_the_network_are_refused(spoil: Callable[[Run], Run]) -> None:
    with pytest.raises(ArtifactError, match="not a forecaster run of a DCRNN"):
        DCRNN.from_run(spoil(run_of(fitted())))


@pytest.mark.parametrize("inputs", ["recent", "lags"])
def test_its_network_has_the_weights_that_a_run_must_hold(inputs: InputKind) -> None:
    layout, known = NeuronLayout(5, 3, 34), {KERNEL: EYE}
    estimator = DCRNN(Recipe(dcrnn=DCRNNConfig(inputs=inputs)))
    network = estimator.build(layout, known, Generator())
    held = sum(tensor.numel() for tensor in network.state_dict().values())
    assert held == estimator.size(layout, known)


def test_P1_history_that_only_this_network_sees_may_not_be_missing_either() -> None:
    fitted = DCRNN(RECIPE).fit(PANEL, SPLITS)
    assert fitted.lags.recent == 12
    origin = len(PANEL.values) - 9
    values = PANEL.values.copy()
    values[origin - 11 : origin - 2] = np.nan  # outside the recipe's lags, within the last twelve
    panel = replace(PANEL, values=values)
    at = f"{panel.times[origin]}Z"
    with pytest.raises(DataError, match="history incomplete"):
        fitted.forecast(panel, at)
    assert "degraded" in fitted.forecast(panel, at, allow_missing=True)
