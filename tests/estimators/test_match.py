from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.artifact import Run
from forecaster.clock.holidays import Holidays
from forecaster.clock.lags import choose_lags
from forecaster.config import LagConfig, Season
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.match import (
    Sizes,
    check_run,
    country_of,
    explain_lags,
    location_order,
    match,
    with_lags,
    with_meaning,
)
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits


def no_more(_: Sizes) -> dict[str, tuple[int, ...]]:
    return {}


@pytest.fixture
def run() -> Run:
    panel = small_city()
    own = np.random.default_rng(0).normal(size=(2, 1036, 5)).astype(np.float32)
    panel = replace(panel, local_covariates=LocalCovariates(("queue", "price"), own))
    fitted = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel))
    assert fitted.run is not None
    return fitted.run


def test_covariates_of_locations_are_matched_by_name(run: Run) -> None:
    panel = small_city()
    own = np.arange(3 * 1036 * 5, dtype=np.float32).reshape(3, 1036, 5)
    names = ("price", "noise", "queue")
    matched = match(run, replace(panel, local_covariates=LocalCovariates(names, own)))
    assert matched.local_covariates.names == ("queue", "price")
    assert np.array_equal(matched.local_covariates.values, own[[2, 0]])


def test_lacking_covariates_of_both_kinds_are_named(run: Run) -> None:
    panel = small_city()
    bare = replace(panel, covariates=Covariates((), panel.covariates.values[:, :0]))
    with pytest.raises(
        ArtifactError, match="lacks the covariates temperature, rain, queue, price"
    ):
        match(run, bare)


@pytest.mark.parametrize(
    "name", ["ids", "kind", "timezone", "step_minutes", "lag_clock", "holidays", "covariates"]
)
def test_a_run_that_lacks_a_word_is_refused(run: Run, name: str) -> None:
    check_run(run, no_more)
    about = {key: value for key, value in run.about.items() if key != name}
    with pytest.raises(ArtifactError, match="not a forecaster run of a SeasonalNaive"):
        check_run(replace(run, about=about), no_more)


@pytest.mark.parametrize(
    "name", ["shared.fill", "shared.climatology", "shared.most", "intervals.spread"]
)
def test_a_run_whose_arrays_have_other_shapes_is_refused(run: Run, name: str) -> None:
    arrays = {**run.arrays, name: np.zeros((3, 1), dtype=np.float32)}
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        check_run(replace(run, arrays=arrays), no_more)


def test_a_panel_without_holidays_has_no_country() -> None:
    assert country_of(small_city()) is None


def with_holidays(panel: Panel, *dates: str, years: tuple[int, int] = (2020, 2031)) -> Panel:
    return replace(panel, clock=replace(panel.clock, holidays=Holidays("DE", *years, dates)))


def test_a_run_remembers_every_holiday() -> None:
    panel = with_holidays(small_city(), "2021-04-02", "2021-04-05")
    run = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel)).run
    assert run is not None
    assert run.about["holidays"]["dates"] == ["2021-04-02", "2021-04-05"]
    assert match(run, panel) is panel


def test_a_panel_with_other_holidays_is_refused_by_date() -> None:
    panel = with_holidays(small_city(), "2021-04-02", "2021-04-05")
    run = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel)).run
    assert run is not None
    with pytest.raises(ArtifactError, match=r"1 fault\n  holidays: 2021-04-05 is one in the run"):
        match(run, with_holidays(small_city(), "2021-04-02"))


def test_holidays_of_years_that_only_one_has_do_not_matter() -> None:
    panel = with_holidays(small_city(), "2021-04-02")
    run = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel)).run
    assert run is not None
    longer = with_holidays(small_city(), "2021-04-02", "2035-01-01", years=(2020, 2040))
    assert match(run, longer) is longer


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ids", "abcde"),
        ("ids", [1, 2, 3, 4, 5]),
        ("ids", [{}, {}, {}, {}, {}]),
        ("covariates", [None, None]),
        ("kind", 7),
        ("timezone", None),
        ("step_minutes", "60"),
        ("holidays", 7),
        ("holidays", {"dates": ["soon"]}),
        ("holidays", {"country": "DE", "first_year": "x", "last_year": 3, "dates": []}),
    ],
)
def test_C4_a_run_with_words_of_another_kind_is_refused(run: Run, name: str, value: Any) -> None:
    with pytest.raises(ArtifactError, match="not a forecaster run of a SeasonalNaive"):
        check_run(replace(run, about={**run.about, name: value}), no_more)


def test_C4_arrays_that_its_estimator_needs_must_be_there(run: Run) -> None:
    def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {"weights": (sizes.K, sizes.L, sizes.N, sizes.Q, sizes.P)}

    check_run(replace(run, arrays={**run.arrays, "weights": np.ones((2, 9, 5, 2, 2))}), shapes)
    for arrays in (run.arrays, {**run.arrays, "weights": np.ones((2, 9, 5, 2, 3))}):
        with pytest.raises(ArtifactError, match="weights"):
            check_run(replace(run, arrays=arrays), shapes)


def test_C3_lags_that_would_fill_the_memory_are_refused(run: Run) -> None:
    season = Season(days=3_660, count=1_000, before=10_000, after=10_000)
    lags = LagConfig(recent=3, seasons=(season,) * 5, horizon=2)
    assert lags.length == 3 + 5 * 1_000 * 20_001
    recipe = run.recipe.model_copy(update={"lags": lags})
    with pytest.raises(ArtifactError, match="wrong: lags"):
        check_run(replace(run, recipe=recipe), no_more)


def test_locations_are_found_by_id() -> None:
    panel = small_city()
    other = panel.select(("place 4", "place 0", "place 2", "place 1", "place 3"))
    assert location_order(panel.locations.ids, other) == [4, 0, 2, 1, 3]


def past_only_run(names: tuple[str, ...]) -> Run:
    panel = small_city().with_past_only(names)
    run = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel)).run
    assert run is not None
    return run


def test_what_a_run_calls_past_only_is_so_in_every_panel() -> None:
    run = past_only_run(("rain",))
    assert run.about["past_only"] == ["rain"]
    assert run.recipe.panel.past_only == ("rain",)
    check_run(run, no_more)
    assert match(run, small_city()).past_only == ("rain",)
    plain = past_only_run(())
    assert "past_only" not in plain.about


def test_a_panel_that_lacks_the_future_of_a_covariate_is_refused() -> None:
    with pytest.raises(ArtifactError, match="the run needs rain ahead of an origin, and the pan"):
        match(past_only_run(()), small_city().with_past_only(("rain",)))


def test_a_run_with_past_only_covariates_that_it_lacks_is_refused() -> None:
    run = past_only_run(("rain",))
    with pytest.raises(ArtifactError, match="wrong: past_only"):
        check_run(replace(run, about={**run.about, "past_only": ["snow"]}), no_more)


def test_a_recipe_of_other_past_only_covariates_is_refused() -> None:
    recipe = change(RECIPE, {"panel": {"past_only": ["rain"]}}, source="test")
    panel = small_city()
    with pytest.raises(ConfigError, match=r"panel\.past_only = rain"):
        SeasonalNaive(recipe).fit(panel, Splits.by_share(panel))


def test_lags_that_a_recipe_does_not_set_suit_the_panel() -> None:
    panel = panel_of_days()
    recipe = Recipe.of({"lags": {"horizon": 5}})
    lags = with_lags(recipe, panel).lags
    assert lags == choose_lags(panel.clock, len(panel.values), 5).lags
    assert lags.horizon == 5
    assert with_meaning(recipe, panel).lags == lags
    assert "5 ahead: 7 recent steps of 1 day" in explain_lags(recipe, panel)


def test_lags_that_a_recipe_sets_are_kept() -> None:
    panel = panel_of_days()
    some = with_lags(Recipe.of({"lags": {"recent": 3}}), panel).lags
    assert some.recent == 3
    assert some.seasons == choose_lags(panel.clock, len(panel.values), 3).lags.seasons
    every = Recipe.of({"lags": {"recent": 3, "seasons": []}})
    assert with_lags(every, panel) is every
    assert "by the recipe" in explain_lags(every, panel)


def panel_of_days() -> Panel:
    days = pd.date_range("2021-01-01", periods=211, freq="D")
    table = pd.DataFrame({"time": days, "a": range(211), "b": 7})
    return Panel.from_wide(table, timezone="UTC")


def test_a_run_of_weeks_from_before_they_had_a_yearly_season_is_refused() -> None:
    weeks = pd.date_range("2017-01-02", periods=173, freq="7D")
    table = pd.DataFrame({"time": weeks, "a": range(173), "b": 7})
    panel = Panel.from_wide(table, timezone="UTC")
    lags = {"recent": 2, "seasons": [{"days": 7, "count": 1, "before": 0, "after": 0}]}
    fitted = SeasonalNaive(Recipe.of({"lags": lags})).fit(panel, Splits.by_share(panel))
    assert fitted.run is not None
    match(fitted.run, panel)
    arrays = {**fitted.run.arrays, "shared.fill": fitted.run.arrays["shared.fill"][:1]}
    with pytest.raises(ArtifactError, match=r"season: 1 step in the run.*53 steps: train the run"):
        match(replace(fitted.run, arrays=arrays), panel)
