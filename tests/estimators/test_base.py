import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.holidays import Holidays
from forecaster.config import IntervalConfig, LagConfig, PanelConfig, Season
from forecaster.errors import ArtifactError, DataError, RunError
from forecaster.estimators.baselines.naive import HistoricalMean, SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.match import with_meaning
from forecaster.estimators.registry import ESTIMATORS, find_estimator, load_estimator
from forecaster.estimators.training_data import Arrays
from forecaster.estimators.wrong_values.value_ranges import RANGE
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, Locations
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows

HOURS, PLACES = 24 * 47, 5
MakePanel = Callable[..., Panel]


@pytest.fixture
def panel(make_panel: MakePanel) -> Panel:
    weather = np.random.default_rng(1).normal(size=(HOURS + 9, 2)).astype(np.float32)
    empty = np.empty((0, HOURS + 9, PLACES), np.float32)
    values = np.random.default_rng(0).poisson(13, (HOURS, PLACES))
    bare = make_panel(values)
    return replace(
        bare,
        covariates=Covariates(("temperature", "rain"), weather),
        local_covariates=replace(bare.local_covariates, values=empty),
    )


def test_P3_nothing_after_the_origin_reaches_a_forecast(
    panel: Panel, splits: Splits, recipe: Recipe, rounds: Callable[[int, int], int]
) -> None:
    generator = np.random.default_rng(5)
    windows = cut_windows(panel, splits, recipe.lags)
    for name in sorted(ESTIMATORS):
        fitted = find_estimator(name)(recipe=recipe).fit(panel, splits)
        origins = generator.choice(windows.test, size=rounds(7, 1_000))
        together = fitted.predict(panel, origins)
        for number, origin in enumerate(origins):
            values = panel.values.copy()
            values[origin + 1 :] = np.nan
            blinded = replace(panel, values=values)
            alone = fitted.forecast(blinded, f"{panel.times[origin]}Z")
            expected = together[number].T.reshape(-1)
            assert np.allclose(alone["y_hat"], expected, rtol=1e-5)
            assert np.array_equal(fitted.predict(blinded, origins[[number]])[0].T.reshape(-1),
                                  alone["y_hat"])  # fmt: skip


def test_the_times_of_a_panel_and_of_an_earlier_forecast_can_be_asked_for(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    table = fitted.forecast(panel, panel.times[-1])
    assert fitted.forecast(panel, table["cutoff"][0]).equals(table)
    assert fitted.forecast(panel, f"{panel.times[-1]}Z").equals(table)


def test_an_estimator_introduces_itself_in_one_line(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    model = Ridge(recipe)
    assert repr(model) == "Ridge(not fitted yet)"
    assert repr(model.fit(panel, splits)) == "Ridge(fitted)"


class Wild(SeasonalNaive):
    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        y = super().predict_windows(arrays, inputs)
        y[..., 0] = -3.0
        return y


class Broken(SeasonalNaive):
    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        return super().predict_windows(arrays, inputs) * np.float32(np.nan)


def test_without_splits_a_fit_takes_those_of_the_recipe_or_splits_by_share(
    panel: Panel, recipe: Recipe
) -> None:
    by_share = Splits.by_share(panel, horizon=recipe.lags.horizon)
    fitted = SeasonalNaive(recipe).fit(panel)
    assert fitted.run.about == SeasonalNaive(recipe).fit(panel, by_share).run.about
    first, middle, last = (str(panel.times[n])[:10] for n in (0, -500, -250))
    ranges = {"train": [[first, middle]], "validation": [[middle, last]], "test": [[last, last]]}
    day = np.timedelta64(1, "D")
    ranges["validation"][0][0] = str(np.datetime64(middle) + day)
    ranges["test"][0] = [str(np.datetime64(last) + day)] * 2
    told = change(recipe, {"splits": ranges}, source="test")
    about = SeasonalNaive(told).fit(panel).run.about
    assert (
        about == SeasonalNaive(told).fit(panel, Splits.from_config(panel, told.splits)).run.about
    )
    assert about != fitted.run.about


def test_P4_counts_below_zero_are_clipped_and_counted(
    panel: Panel, splits: Splits, recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = Wild(recipe).fit(panel, splits)
    with caplog.at_level(logging.INFO):
        forecast = fitted.predict(panel, np.array([1000]))
    assert (forecast[0, :, 0] == 0).all()
    assert "3 forecasts below zero set to 0" in caplog.text


def test_P4_nan_is_an_error(panel: Panel, splits: Splits, recipe: Recipe) -> None:
    with pytest.raises(RunError, match="gave NaN or infinity"):
        Broken(recipe).fit(panel, splits).predict(panel, np.array([1000]))


@pytest.mark.parametrize("factor", [1e9, 1e30, -1e30])
def test_A8_finite_forecasts_that_are_absurd_are_an_error(
    panel: Panel, splits: Splits, recipe: Recipe, factor: float
) -> None:
    class Absurd(SeasonalNaive):
        def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
            return (super().predict_windows(arrays, inputs) + 1) * np.float32(factor)

    with pytest.raises(RunError, match=r"where training has at most .* train it again"):
        Absurd(recipe).fit(panel, splits).predict(panel, np.array([1000]))


def test_P5_permuted_columns_give_the_same_rows_by_id(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    order = ["p3", "p0", "p4", "p1", "p2"]
    moved = panel.select(tuple(order))
    here, there = (fitted.predict(p, np.array([1000]))[0] for p in (panel, moved))
    assert np.array_equal(there, here[:, [3, 0, 4, 1, 2]])
    table = fitted.forecast(moved, f"{panel.times[1000]}Z")
    assert list(table["unique_id"].unique()) == list(panel.locations.ids)  # the run's own order


def test_P5_a_model_that_cannot_forecast_new_locations_names_them_and_the_remedies(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = Ridge(recipe).fit(panel, splits)
    other = replace(panel, locations=Locations.of_ids(["p0", "p1", "p2", "p3", "q9"]))
    with pytest.raises(ArtifactError) as refused:
        fitted.predict(other, np.array([1000]))
    assert "the run does not know q9, and Ridge cannot" in str(refused.value)
    assert "train again on a panel with them, use a run of the preset best" in str(refused.value)
    assert refused.value.exit_code == 4


def test_P5_a_panel_that_lacks_more_than_half_of_the_locations_is_refused(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    with pytest.raises(ArtifactError, match=r"lacks p2, p3, p4: at most half of them may be abs"):
        fitted.predict(panel.select(("p0", "p1")), np.array([1000]))


def test_a_panel_of_another_kind_zone_or_step_is_refused_with_both_sides(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    other = replace(
        panel, kind="measurement", clock=replace(panel.clock, zone="UTC"),
        covariates=Covariates(("temperature", "snow"), panel.covariates.values),
    )  # fmt: skip
    with pytest.raises(ArtifactError) as refused:
        fitted.predict(other, np.array([1000]))
    text = str(refused.value)
    assert "3 faults" in text
    assert "kind: the run has 'count', the panel 'measurement'" in text
    assert "time zone: the run has 'America/New_York', the panel 'UTC'" in text
    assert "the panel lacks the covariates rain" in text


def test_P6_batches_and_single_origins_agree(panel: Panel, splits: Splits, recipe: Recipe) -> None:
    origins = cut_windows(panel, splits, recipe.lags).test
    for name in sorted(ESTIMATORS):
        fitted = find_estimator(name)(recipe=recipe).fit(panel, splits)
        together = fitted.predict(panel, origins)
        alone = np.concatenate([fitted.predict(panel, origins[[i]]) for i in (0, 17, 101)])
        assert np.allclose(together[[0, 17, 101]], alone, rtol=1e-5)


def test_P10_values_far_outside_the_training_range_are_warned_of(
    panel: Panel, splits: Splits, recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    at = f"{panel.times[1000]}Z"
    assert "degraded" not in fitted.forecast(panel, at)
    assert not caplog.text
    values = panel.values.copy()
    values[1000, 3] *= 10
    table = fitted.forecast(replace(panel, values=values), at)
    reason = "implausible value (150 at 2015-11-11T15:00:00-05:00, at most "
    assert f"doubtful values of 1 location: p3: {reason}" in caplog.text
    doubted = table["unique_id"] == "p3"
    assert table["degraded"][doubted].str.startswith(reason).all()
    assert (table["degraded"][~doubted] == "").all()


def test_P10_a_run_saved_without_ranges_warns_of_values_far_outside_all_of_training(
    panel: Panel, splits: Splits, recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    assert fitted.run is not None
    older = {name: array for name, array in fitted.run.arrays.items() if name != RANGE}
    fitted.run = replace(fitted.run, arrays=older)
    at = f"{panel.times[1000]}Z"
    values = panel.values.copy()
    values[1000, 3] *= 10
    table = fitted.forecast(replace(panel, values=values), at)
    assert "outside training range: recent values of 1 location (p3)" in caplog.text
    assert "degraded" not in table


def test_extra_covariates_of_the_panel_do_not_matter(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = Ridge(recipe).fit(panel, splits)
    more = np.concatenate(
        [panel.covariates.values[:, ::-1], panel.covariates.values[:, :1]], axis=1
    )
    richer = replace(panel, covariates=Covariates(("rain", "temperature", "fog"), more))
    origins = np.array([1000])
    assert np.array_equal(fitted.predict(richer, origins), fitted.predict(panel, origins))


def test_a_saved_estimator_is_found_by_its_name(
    panel: Panel, splits: Splits, recipe: Recipe, tmp_path: object
) -> None:
    folder = f"{tmp_path}/run"
    fitted = Ridge(recipe).fit(panel, splits)
    fitted.save(folder)
    loaded = load_estimator(folder)
    assert type(loaded) is Ridge
    assert loaded.recipe.lags == recipe.lags
    assert loaded.recipe.panel.timezone == panel.clock.zone  # as the panel says, not the recipe
    origins = np.array([900, 1000])
    assert np.array_equal(loaded.predict(panel, origins), fitted.predict(panel, origins))
    with pytest.raises(ArtifactError, match="the run of a Ridge, not of a SeasonalNaive"):
        SeasonalNaive.load(folder)


def test_the_run_remembers_its_panel(
    panel: Panel, splits: Splits, recipe: Recipe, tmp_path: object
) -> None:
    saved = panel.save(f"{tmp_path}/panel")
    fitted = SeasonalNaive(recipe).fit(saved, splits)
    assert fitted.run is not None
    assert fitted.run.parents == {"panel": saved.digest}
    assert fitted.run.about["windows"]["train"] > 0


def test_a_panel_without_the_holidays_of_the_run_is_refused(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    holidays = Holidays("US", 2015, 2025, ("2015-11-11",))
    fitted = SeasonalNaive(recipe).fit(
        replace(panel, clock=replace(panel.clock, holidays=holidays)), splits
    )
    with pytest.raises(ArtifactError, match="holidays: the run has 'US', the panel None"):
        fitted.predict(panel, np.array([1000]))


def test_no_origins_give_no_forecasts(panel: Panel, splits: Splits, recipe: Recipe) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    assert fitted.predict(panel, np.array([], dtype=np.int64)).shape == (0, 3, PLACES)


def test_P10_small_measurements_have_a_range_too(
    make_panel: MakePanel, splits: Splits, recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    values = np.random.default_rng(0).uniform(0.2, 0.4, (HOURS, PLACES))
    panel = make_panel(values, "measurement")
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    changed = panel.values.copy()
    changed[1000, 2] = 0.9
    fitted.forecast(replace(panel, values=changed), f"{panel.times[1000]}Z")
    assert "p2: implausible value (0.9 at " in caplog.text


class Curious(SeasonalNaive):
    """Remembers what it was given to answer from, the latest."""

    asked: ForecastInputs | None = None

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        if self.asked is None or inputs.panel.times[-1] >= self.asked.panel.times[-1]:
            self.asked = inputs
        return super().predict_windows(arrays, inputs)


def test_an_answer_gets_the_history_it_needs_and_nothing_later(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = Curious(recipe).fit(panel, splits)
    fitted.asked = None
    fitted.forecast(panel, f"{panel.times[1000]}Z")
    assert fitted.asked.panel.times[-1] == panel.times[1000]
    fitted.predict(panel, np.array([1000]))
    asked = fitted.asked.panel
    assert asked.times[-1] == panel.times[1000]
    assert len(asked.values) < 24 * (14 + 2) + 5  # two weeks of lags, and a little
    assert asked.known_times[-1] == panel.times[1003]
    fitted.predict(panel, np.array([1000, 900]))
    assert fitted.asked.panel.times[-1] == panel.times[1000]


def test_a_horizon_beyond_the_season_reaches_further_back(make_panel: MakePanel) -> None:
    lags = LagConfig(recent=1, seasons=(Season(days=1, count=1, before=0, after=0),), horizon=55)
    panel = make_panel(np.random.default_rng(0).poisson(13, (HOURS, 2)))
    for kind in (SeasonalNaive, HistoricalMean):
        fitted = kind(Recipe(lags=lags)).fit(panel, Splits.by_share(panel))
        assert fitted.predict(panel, np.array([1000])).shape == (1, 55, 2)


def test_what_the_panel_says_of_itself_counts(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    wrong = recipe.model_copy(update={"panel": PanelConfig(timezone="Asia/Tokyo")})
    fitted = SeasonalNaive(wrong).fit(panel, splits)
    assert fitted.recipe == with_meaning(recipe, panel)
    assert fitted.recipe.panel.timezone == "America/New_York"


# ------------------------------------------------------------------------------- quantiles


def test_quantiles_are_a_function_of_run_panel_and_origin(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = Ridge(recipe).fit(panel, splits)
    origins = np.array([1100, 900, 1100, 1011])
    together = fitted.predict_quantiles(panel, origins)
    assert together.shape == (4, 3, 3, PLACES)
    assert np.array_equal(together[0], together[2])
    for row in (1, 3):
        alone = fitted.predict_quantiles(panel, origins[[row]])[0]
        assert np.allclose(together[row], alone, rtol=1e-5)
    longer = fitted.predict_quantiles(until(panel, 1101), origins[:1])
    assert np.allclose(longer[0], together[0], rtol=1e-5)


def until(panel: Panel, end: int) -> Panel:
    """Return a panel that was observed up to a step."""
    values = panel.values[:end]
    world = replace(panel.covariates, values=panel.covariates.values[: end + 3])
    own = panel.local_covariates
    own = replace(own, values=own.values[:, : end + 3])
    return replace(panel, values=values, covariates=world, local_covariates=own)


@pytest.mark.parametrize("weather", ["observed", "persist"])
def test_an_hour_without_covariates_is_passed_over(
    panel: Panel, splits: Splits, recipe: Recipe, weather: str
) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    covariates = panel.covariates.values.copy()
    covariates[1000] = np.nan
    holed = replace(panel, covariates=replace(panel.covariates, values=covariates))
    asked = np.array([1050])
    here, there = (fitted.predict_quantiles(p, asked, weather) for p in (panel, holed))  # type: ignore[arg-type]
    assert np.isfinite(there).all()
    assert np.array_equal(here, there) == (weather == "persist")


def test_the_first_origin_that_has_a_history_gets_the_static_form(
    panel: Panel, splits: Splits, recipe: Recipe
) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    first = cut_windows(panel, splits, recipe.lags).train[:1]
    online, static = (fitted.predict_quantiles(panel, first, online=o) for o in (True, False))
    assert np.array_equal(online, static)


def test_no_origins_give_no_quantiles(panel: Panel, splits: Splits, recipe: Recipe) -> None:
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    none = np.empty(0, dtype=np.int64)
    assert fitted.predict_quantiles(panel, none).shape == (0, 3, 3, PLACES)


def test_too_few_validation_windows_are_refused_before_anything_is_learned(
    panel: Panel, splits: Splits, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[None] = []
    monkeypatch.setattr(SeasonalNaive, "fit_windows", lambda *_: learned.append(None))
    estimator = SeasonalNaive(recipe)
    with pytest.raises(DataError, match="need ≥ 18"):
        estimator.fit(panel, replace(splits, validation=[("2015-11-06", "2015-11-06T12:00")]))
    assert not learned
    assert estimator.run is None


def test_levels_are_those_of_the_recipe(panel: Panel, splits: Splits, recipe: Recipe) -> None:
    asked = recipe.model_copy(update={"intervals": IntervalConfig(quantiles=(0.25, 0.8))})
    fitted = SeasonalNaive(asked).fit(panel, splits)
    assert fitted.quantile_levels == (0.25, 0.8)
    table = fitted.forecast(panel, f"{panel.times[1000]}Z")
    assert list(table.columns)[5:] == ["q25", "q80"]
    with pytest.raises(RunError, match="not fitted"):
        _ = SeasonalNaive(recipe).quantile_levels


def test_another_fit_takes_the_lags_and_the_meaning_of_its_own_panel(
    make_panel: MakePanel, panel: Panel, splits: Splits
) -> None:
    long_panel = make_panel(np.random.default_rng(2).poisson(13, (24 * 90, PLACES)))
    twice = SeasonalNaive().fit(panel, splits)
    first = twice.recipe
    twice.fit(long_panel, Splits.by_share(long_panel))
    once = SeasonalNaive().fit(long_panel, Splits.by_share(long_panel))
    assert twice.recipe == once.recipe
    assert twice.recipe.lags.seasons != first.lags.seasons
    set_between = LagConfig(recent=5, seasons=())
    twice.recipe = first.model_copy(update={"lags": set_between})
    assert twice.fit(panel, splits).recipe.lags == set_between
