import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.artifact import Run
from forecaster.clock.clock import Clock
from forecaster.clock.holidays import Holidays
from forecaster.errors import ArtifactError, ConfigError, DataError
from forecaster.estimators.baselines import boosting as module
from forecaster.estimators.baselines.boosting import (
    PATIENCE,
    TOLD_TREES,
    Boosting,
    BoostingProgress,
    OriginLocations,
    _weigh,
    draw_rows,
    make_inputs,
)
from forecaster.estimators.baselines.step_models import ModelInputs, training_inputs
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.registry import load_estimator
from forecaster.estimators.training_data import Arrays, FitResult, hide_test
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows, history_steps
from forecaster.training.progress import ProgressUpdate
from forecaster.windows.scaling import fit_scaler

HOURS = 24 * 47
MakePanel = Callable[..., Panel]
PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)


@pytest.fixture(autouse=True)
def _its_own_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few trees forecast themselves, however bad: they are what is tested."""
    monkeypatch.setattr(Boosting, "falls_back", False)


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fit end after a few trees, where what they say is not at stake."""
    monkeypatch.setattr(module, "ROUNDS", 7)


@pytest.fixture
def some_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fit end when most of what can be learned was."""
    monkeypatch.setattr(module, "ROUNDS", 89)


def with_seed(seed: int) -> Recipe:
    training = RECIPE.training.model_copy(update={"seed": seed})
    return RECIPE.model_copy(update={"training": training})


def arrays_of(estimator: Boosting) -> dict[str, np.ndarray]:
    assert estimator.run is not None
    return dict(estimator.run.arrays)


# ---------------------------------------------------------------------------- what it learns


@pytest.mark.usefixtures("some_trees")
def test_a_rule_with_a_step_is_learned(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    generator = np.random.default_rng(1)
    x = np.zeros((HOURS, 3))
    noise = generator.normal(size=x.shape)
    for t in range(1, HOURS):
        x[t] = np.where(x[t - 1] > 0, -4, 4) + noise[t]  # no straight line through it is right
    panel = make_panel(50 + 5 * x, "measurement")
    fitted = Boosting(recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    error = fitted.predict(panel, origins) - panel.values[origins[:, None] + np.arange(1, 4)]
    assert np.sqrt(np.mean(error**2, axis=(0, 2))) == pytest.approx(5.0, rel=0.1)  # the noise's


@pytest.mark.usefixtures("some_trees")
def test_covariates_ahead_are_used(make_panel: MakePanel, splits: Splits, recipe: Recipe) -> None:
    generator = np.random.default_rng(2)
    weather = generator.normal(10, 3, (HOURS + 5, 1)).astype(np.float32)
    own = generator.normal(-2, 4, (1, HOURS + 5, 3)).astype(np.float32)
    values = 100 + 7 * weather[:HOURS] + 3 * own[0, :HOURS]  # σ = 24
    beside = {
        "covariates": Covariates(("wind",), weather),
        "local_covariates": LocalCovariates(("queue",), own),
    }
    panel = make_panel(values, "measurement", **beside)
    fitted = Boosting(recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    error = fitted.predict(panel, origins)[:, 2] - panel.values[origins + 3]
    assert np.sqrt(np.mean(error**2)) < 5
    blind = fitted.predict(panel, origins, weather="none")[:, 2] - panel.values[origins + 3]
    assert np.sqrt(np.mean(blind**2)) > 15


@pytest.mark.usefixtures("some_trees")
def test_a_constant_location_stays_what_it_is(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    values = np.random.default_rng(3).poisson(9, (HOURS, 3))
    values[:, 1] = 17
    panel = make_panel(values)
    fitted = Boosting(recipe).fit(panel, splits)
    assert np.allclose(fitted.predict(panel, np.array([1000]))[0, :, 1], 17)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("constant", [False, True])
def test_another_unit_gives_the_same_forecasts_in_that_unit(constant: bool) -> None:
    values = PANEL.values.copy()
    if constant:
        values[:, [1, 3]] = 16
    plain = replace(PANEL, values=values, kind="measurement")  # counts have no other unit
    micro = replace(PANEL, values=values * np.float32(2.0**-20), kind="measurement")
    here, there = (
        Boosting(RECIPE).fit(panel, SPLITS).predict(panel, np.array([900, 950]))
        for panel in (plain, micro)
    )
    assert np.allclose(there * 2.0**20, here, rtol=1e-5)


# -------------------------------------------------------------------------- what it sees


def test_a_row_sees_its_lags_and_what_is_known_of_the_step_ahead(
    make_panel: MakePanel, recipe: Recipe
) -> None:
    generator = np.random.default_rng(4)
    weather = generator.normal(5, 2, (HOURS, 2)).astype(np.float32)
    own = generator.normal(5, 2, (1, HOURS, 3)).astype(np.float32)
    panel = make_panel(
        generator.poisson(9, (HOURS, 3)),
        clock=Clock("America/New_York", 60, Holidays("US", 2015, 2016, ("2015-10-26",))),
        covariates=Covariates(("wind", "heat"), weather),
        local_covariates=LocalCovariates(("queue",), own),
    )
    scaler = fit_scaler(panel, np.ones(HOURS, dtype=bool))
    origins = np.array([701, 24 * 25 + 11])  # the second is 2015-10-26 11:00, on a Monday
    auxiliary, local = training_inputs(panel, origins, (2,), scaler)
    coming = ModelInputs.of_step(origins, auxiliary[:, 0], local[:, 0], 2)
    pairs = OriginLocations(np.array([1]), np.array([2]))
    row = make_inputs(panel, coming, scaler, recipe.lags, pairs)[0]
    L, history = recipe.lags.length, history_steps(panel, recipe.lags, origins[1:])[0]
    scale = scaler.local_covariates
    assert np.allclose(row[:L], scaler.values.apply(panel.values)[history, 2])
    assert np.allclose(row[L : L + 2], scaler.covariates.apply(weather)[origins[1] + 2])
    assert row[L + 2 : L + 5].tolist() == [0, 13, 1]  # weekday, hour, holiday
    assert row[L + 5] == (own[0, origins[1] + 2, 2] - scale.mean[0]) / scale.deviation[0]
    assert row[L + 6 :].tolist() == [scaler.values.mean[2], scaler.values.deviation[2]]


def test_trees_see_the_time_of_day_with_its_minutes() -> None:
    clock = Clock("UTC", 5)
    day = clock.axis(np.datetime64("2015-10-27T00:00:00"), 288)
    numbers = module._number_calendar(clock.calendar(day))
    assert (numbers[:, 0] == 1).all()  # Tuesday
    np.testing.assert_allclose(numbers[:, 1], np.arange(288) / 12, atol=1e-5)
    hours = module._number_calendar(Clock("UTC").calendar(day[::12]))
    assert hours[:, 1].tolist() == list(range(24))


def test_rows_without_a_target_are_left_out_and_others_weigh_by_their_variance() -> None:
    data = hide_test(PANEL, SPLITS, cut_windows(PANEL, SPLITS, RECIPE.lags))
    scaler = fit_scaler(data.panel, data.train)
    rows = draw_rows(data.windows.train, np.arange(5), 10**6, np.random.default_rng(0))
    table = Boosting(RECIPE)._make_table(data, scaler, rows, 2)
    truth = PANEL.values[data.windows.train + 2].reshape(-1)
    seen = np.isfinite(truth)
    assert not seen.all()
    place = np.tile(np.arange(5), len(data.windows.train))[seen]
    scale = scaler.values
    assert sum(map(len, table.inputs)) == len(table.target) == seen.sum()
    again = table.target * scale.deviation[place] + scale.mean[place]
    assert np.allclose(again, truth[seen], atol=1e-5)
    assert np.array_equal(table.weight, _weigh(scale.deviation, place))


def test_a_row_weighs_the_variance_of_its_location_within_limits() -> None:
    deviation = np.array([1, 2, 4, 1e-9, 1e30], dtype=np.float32)
    weights = _weigh(deviation, np.arange(5))
    assert weights.tolist() == [0.25, 1, 4, 1e-3, 1e3]
    assert _weigh(deviation, np.array([2, 1, 2])).tolist() == [16 / 9, 4 / 9, 16 / 9]


def test_a_step_ahead_that_nobody_observed_is_refused() -> None:
    data = hide_test(PANEL, SPLITS, cut_windows(PANEL, SPLITS, RECIPE.lags))
    scaler = fit_scaler(data.panel, data.train)
    origin = int(data.windows.train[3])
    values = data.panel.values.copy()
    values[origin + 2] = np.nan
    data = replace(data, panel=replace(data.panel, values=values))
    rows = OriginLocations(np.full(5, origin), np.arange(5))
    assert len(Boosting(RECIPE)._make_table(data, scaler, rows, 1).target) > 0
    with pytest.raises(DataError, match="no value 2 steps ahead is observed in 5 rows"):
        Boosting(RECIPE)._make_table(data, scaler, rows, 2)


# ------------------------------------------------------------------------------ how many rows


def test_all_rows_are_taken_where_they_fit() -> None:
    rows = draw_rows(np.array([11, 17, 19]), np.array([0, 1]), 6, np.random.default_rng(0))
    assert rows.origin.tolist() == [11, 11, 17, 17, 19, 19]
    assert rows.location.tolist() == [0, 1, 0, 1, 0, 1]


@given(
    windows=st.integers(1, 97),
    places=st.integers(1, 13),
    most=st.integers(1, 307),
    seed=st.integers(0, 9),
)
def test_drawn_rows_are_different_ones_and_spread_evenly(
    windows: int, places: int, most: int, seed: int
) -> None:
    origins = np.arange(windows) * 3 + 700
    rows = draw_rows(origins, np.arange(places), most, np.random.default_rng(seed))
    number = (rows.origin - 700) // 3 * places + rows.location
    total, count = windows * places, min(most, windows * places)
    assert len(number) == count
    assert (np.diff(number) > 0).all()  # in order, and none twice
    few = total / count
    assert (np.abs(number - np.arange(count) * few) <= few).all()


@pytest.mark.usefixtures("few_trees")
def test_no_more_rows_are_made_than_drawn_and_a_run_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []

    def spy(*args: object) -> np.ndarray:
        inputs = make_inputs(*args)  # type: ignore[arg-type]
        made.append(len(inputs))
        return inputs

    monkeypatch.setattr(module, "make_inputs", spy)
    monkeypatch.setattr(module, "MAX_TRAINING", 211)
    monkeypatch.setattr(module, "MAX_VALIDATION", 101)
    monkeypatch.setattr(module, "ROWS", 67)
    # Forecasts of the validation windows, for comparison and calibration, see rows too.
    monkeypatch.setattr(Boosting, "own_forecasts", lambda *_: None)
    monkeypatch.setattr(Boosting, "adjust_outputs", lambda *_: FitResult({}))
    monkeypatch.setattr(Boosting, "calibrate", lambda *_: {})
    fitted = Boosting(RECIPE).fit(PANEL, SPLITS)
    assert max(made) <= 67
    assert sum(made) <= RECIPE.lags.horizon * (211 + 101)
    assert fitted.run is not None
    counts = fitted.run.about["windows"]
    assert fitted.run.about["rows"] == {
        "train": {"used": 211, "of": 5 * counts["train"]},
        "validation": {"used": 101, "of": 5 * counts["validation"]},
    }


# ---------------------------------------------------------------------------- seeds and threads


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("most", [10**6, 1009])
def test_a_seed_changes_the_trees_and_nothing_else(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TRAINING", most)
    one, same, other = (
        arrays_of(Boosting(with_seed(seed)).fit(PANEL, SPLITS)) for seed in (3, 3, 2**63 - 1)
    )
    assert all(np.array_equal(one[name], same[name]) for name in one)
    changed = {name for name in one if not np.array_equal(one[name], other[name])}
    assert changed
    assert all(name.startswith(("trees.", "intervals.")) for name in changed)


@pytest.mark.usefixtures("few_trees")
def test_more_threads_give_the_same_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = arrays_of(Boosting(RECIPE).fit(PANEL, SPLITS))
    monkeypatch.setattr(module, "MAX_SINGLE_THREAD", 0)
    together = arrays_of(Boosting(RECIPE).fit(PANEL, SPLITS))
    assert all(np.array_equal(alone[name], together[name]) for name in alone)


# ---------------------------------------------------------------------------- saved and loaded


@cache
def fitted() -> Boosting:
    return Boosting(RECIPE).fit(PANEL, SPLITS)


def test_a_run_answers_the_same_where_lightgbm_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origins = np.array([900, 950])
    here = fitted().predict(PANEL, origins)
    fitted().save(tmp_path)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert np.array_equal(load_estimator(tmp_path).predict(PANEL, origins), here)
    with pytest.raises(
        ConfigError, match=r"needs lightgbm.*pip install 'forecaster\[baselines\]'"
    ):
        Boosting(RECIPE).fit(PANEL, SPLITS)


def test_the_trees_of_a_run_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run, checked = fitted().run, list[int]()
    assert run is not None
    from_arrays = module.Trees.from_arrays

    def count(fields: Arrays, inputs: int) -> module.Trees:
        checked.append(inputs)
        return from_arrays(fields, inputs)

    monkeypatch.setattr(module.Trees, "from_arrays", count)
    loaded = Boosting.from_run(run)
    for origin in (900, 950, 951):
        assert np.array_equal(
            loaded.predict(PANEL, np.array([origin])), fitted().predict(PANEL, np.array([origin]))
        )
    assert len(checked) <= 2


def change(name: str, spoil: Callable[[np.ndarray], np.ndarray]) -> Callable[[Run], Run]:
    def spoiled(run: Run) -> Run:
        return replace(run, arrays={**run.arrays, name: spoil(run.arrays[name].copy())})

    return spoiled


def to_zero(children: np.ndarray) -> np.ndarray:
    children[5] = 0
    return children


HOSTILE: dict[str, Callable[[Run], Run]] = {
    "no children": lambda run: replace(
        run, arrays={n: a for n, a in run.arrays.items() if n != "trees.children"}
    ),
    "children that turn back": change("trees.children", to_zero),
    "children beyond all nodes": change("trees.children", lambda a: a + 10**6),
    "an input beyond the row": change("trees.feature", lambda a: a + 17),
    "the trees of one step": change("trees.count", lambda a: a.sum(keepdims=True)),
    "the trees of three steps": change("trees.count", lambda a: np.append(a, 1)),
    "another type": change("trees.value", lambda a: a.astype(np.float32)),
    "a node too few": change("trees.value", lambda a: a[:-1]),
    "the scale of another city": change("values.mean", lambda a: a[:-1]),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_C3_a_run_whose_trees_are_none_is_refused(spoil: Callable[[Run], Run]) -> None:
    run = fitted().run
    assert run is not None
    Boosting.from_run(run)
    with pytest.raises(ArtifactError, match="not a forecaster run of a Boosting"):
        Boosting.from_run(spoil(run))


@given(
    models=st.integers(3, 24),
    trees=st.integers(240, 520),
    uneven=st.lists(st.floats(0.9, 1.1), min_size=24, max_size=24),
)
def test_the_time_left_is_within_twice_after_a_tenth(
    models: int, trees: int, uneven: list[float]
) -> None:
    """All trees take a second; the error of a model falls up to its last but PATIENCE trees."""
    sizes = [max(round(trees * share), PATIENCE + 1) for share in uneven[:models]]
    now, whole = [0.0], float(sum(sizes))
    progress = BoostingProgress(models, None, lambda: now[0])
    for number, size in enumerate(sizes):
        for tree in range(size):
            now[0] += 1
            error = max(1 - (tree + 1) / (size - PATIENCE), 0.0)
            progress.count_tree(
                SimpleNamespace(iteration=tree, evaluation_result_list=[("", "l2", error, False)])
            )
            if tree % TOLD_TREES:
                continue
            estimate, truth = progress.seconds_left(), whole - now[0]
            if whole / 10 <= now[0] < whole:
                assert estimate is not None
                if truth > whole / 10:  # the last model may be larger than the mean: nobody knows
                    assert truth / 2 <= estimate <= 2 * truth
        progress.end_model(number + 1)
    assert progress.seconds_left() == 0.0


@pytest.mark.usefixtures("few_trees")
def test_every_model_is_told_with_its_trees() -> None:
    updates: list[ProgressUpdate] = []
    panel = small_city()
    splits = Splits.by_share(panel, validation=0.15, test=0.2)
    Boosting(RECIPE).fit(panel, splits, on_progress=updates.append)
    told = [update for update in updates if update.unit == "model"]
    messages = [update.message for update in told if update.message]
    K = RECIPE.lags.horizon
    assert len(messages) == K
    assert messages[0].startswith(f"Boosting: 1 of {K} models, step 1 ahead: ")
    assert told[-1].step == told[-1].steps
    assert told[-1].seconds_left == 0.0
