import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from statsmodels.tsa import api as statsmodels

from forecaster.artifact import Run
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, DataError
from forecaster.estimators.baselines import var
from forecaster.estimators.baselines.var import VAR
from forecaster.estimators.checks.suite import CHECKS, check_forecaster
from forecaster.estimators.forecast_inputs import ForecastInputs, fill_of, look_ahead
from forecaster.estimators.training_data import hide_test
from forecaster.panel.fill import fill_missing
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows

HOURS = 24 * 47
CALENDAR = len(CALENDAR_COLUMNS)
MakePanel = Callable[..., Panel]
# 1 + 32 columns are known without covariates; these three of them say nothing new.
REDUNDANT = ["weekday_sunday", "hour_23", "holiday"]


@pytest.fixture
def recipe() -> Recipe:
    return Recipe(lags=LagConfig(recent=2, seasons=(), horizon=3))


def autoregression(places: int, seed: int = 0) -> np.ndarray:
    """Return values of order 2 around 50, in which each place follows the one before it."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(HOURS, places))
    for t in range(2, HOURS):
        x[t] += 0.3 * np.roll(x[t - 1], 1) - 0.5 * x[t - 2]
    return 50 + 5 * x


def fitted_run(fitted: VAR) -> Run:
    assert fitted.run is not None
    return fitted.run


def about_of(fitted: VAR) -> dict[str, Any]:
    assert fitted.run is not None
    return dict(fitted.run.about["var"])


# ---------------------------------------------------------------------------- what is learned


def test_the_suite_passes_with_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    # The suite's city is noise around the hour of the day: order 0 would be chosen.
    monkeypatch.setattr(var, "_validate", lambda *_: [np.inf, 2.0, 1.0, 3.0])
    assert check_forecaster(VAR) == list(CHECKS)


def test_the_order_of_an_autoregression_is_found(make_panel: MakePanel, splits: Splits) -> None:
    recipe = Recipe(lags=LagConfig(recent=4, seasons=(), horizon=3))
    panel = make_panel(autoregression(7), "measurement")
    fitted = VAR(recipe).fit(panel, splits)
    about = about_of(fitted)
    assert about["order"] == 2
    errors = about["validation_rmse"]
    assert len(errors) == 5
    assert errors[2] == min(errors)
    origins = cut_windows(panel, splits, recipe.lags).test
    error = fitted.predict(panel, origins)[:, 0] - panel.values[origins + 1]
    assert np.sqrt(np.mean(error**2)) == pytest.approx(5.0, rel=0.1)  # the noise's own size


def test_noise_around_the_calendar_needs_no_lag(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    hours = np.arange(HOURS)[:, None] % 24
    panel = make_panel(np.random.default_rng(1).poisson(20 + hours, (HOURS, 5)))
    assert about_of(VAR(recipe).fit(panel, splits))["order"] == 0


def test_L10_mornings_are_learned_from_the_evenings_before(
    make_panel: MakePanel, splits: Splits
) -> None:
    panel = make_panel(np.ones((HOURS, 3)), "measurement")
    local = panel.clock.local(panel.times)
    hours = (local - local.astype("datetime64[D]")).astype(np.int64)[:, None] // 3600
    noise = np.random.default_rng(4).normal(size=(HOURS, 3))
    values = (100 + 10 * hours + noise).astype(np.float32)
    metro = panel.with_data(values).with_hours(["05:00-24:00"] * 3)
    recipe = Recipe(lags=LagConfig(recent=9, seasons=(), horizon=7))
    fitted = VAR(recipe).fit(metro, splits)
    before_opening = np.flatnonzero(hours[:, 0] == 4)[-9:-1]
    ahead = before_opening[:, None] + np.arange(1, 8)
    error = fitted.predict(metro, before_opening) - metro.values[ahead]
    assert np.abs(error).max() < 6  # nine open steps before 05:00 are of the day before
    evenings = before_opening - 7  # 21:00: two open steps, then five closed ones
    assert (
        np.isnan(fitted.predict(metro, evenings)).all(axis=(0, 2)).tolist()
        == [False] * 2 + [True] * 5
    )


def test_the_cost_of_a_long_horizon_is_said(make_panel: MakePanel, splits: Splits) -> None:
    panel, messages = make_panel(autoregression(3), "measurement"), list[str]()
    for horizon in (12, 24):
        recipe = Recipe(lags=LagConfig(recent=2, seasons=(), horizon=horizon))
        VAR(recipe).fit(panel, splits, on_progress=lambda u: messages.append(u.message or ""))
    (said,) = (text for text in messages if "rolling out" in text)
    assert said.startswith("VAR learns one step")
    assert "24 steps one after another: about 8 × the time of 3 steps" in said


def test_covariates_ahead_are_used(make_panel: MakePanel, splits: Splits, recipe: Recipe) -> None:
    weather = np.random.default_rng(2).normal(10, 3, (HOURS, 1)).astype(np.float32)
    values = autoregression(3) + 7 * weather
    panel = make_panel(values, "measurement", covariates=Covariates(("wind",), weather))
    fitted = VAR(recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    truth = panel.values[origins + 1]
    seeing, blind = (fitted.predict(panel, origins, w)[:, 0] for w in ("observed", "none"))
    assert np.sqrt(np.mean((seeing - truth) ** 2)) < 7
    assert np.sqrt(np.mean((blind - truth) ** 2)) > 15


def test_forecasts_are_those_of_statsmodels(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    weather = np.random.default_rng(3).normal(10, 3, (HOURS, 2)).astype(np.float32)
    values = autoregression(5) + weather[:, :1]
    beside = {"covariates": Covariates(("wind", "heat"), weather)}
    panel = make_panel(values, "measurement", **beside)
    fitted = VAR(recipe).fit(panel, splits)
    assert about_of(fitted)["order"] == 2
    train = splits.mask("train", panel.clock, panel.times)
    needed = [n for n, name in enumerate(CALENDAR_COLUMNS) if name not in REDUNDANT]
    known = np.hstack([weather, panel.clock.calendar(panel.times)[:, needed]]).astype(np.float64)
    end = int(train.sum())
    oracle = statsmodels.VAR(panel.values[:end].astype(np.float64), exog=known[:end]).fit(2)
    for origin in (end + 100, HOURS - 4):
        ahead = known[origin + 1 : origin + 4]
        past = panel.values[: origin + 1].astype(np.float64)
        expected = oracle.forecast(past, steps=3, exog_future=ahead)
        found = fitted.predict(panel, np.array([origin]))[0]
        assert np.allclose(found, expected, rtol=1e-5)


def test_forecasts_follow_the_equation(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    panel = make_panel(autoregression(3), "measurement")
    fitted = VAR(recipe).fit(panel, splits)
    assert fitted.run is not None
    arrays, origin = fitted.run.arrays, 1000
    B = arrays["weights"][: 1 + CALENDAR]
    A_1, A_2 = arrays["weights"][1 + CALENDAR :].reshape(2, 3, 3)
    mean, deviation = arrays["values.mean"], arrays["values.deviation"]
    x = list((panel.values[origin - 1 : origin + 1] - mean) / deviation)
    for a in panel.clock.calendar(panel.times[origin + 1 : origin + 4]):
        x.append(np.append(1, a) @ B + x[-1] @ A_1 + x[-2] @ A_2)
    expected = np.stack(x[2:]) * deviation + mean
    assert np.allclose(fitted.predict(panel, np.array([origin]))[0], expected, rtol=1e-5)


def test_another_order_of_locations_forecasts_the_same(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    panel = make_panel(autoregression(7), "measurement")
    turned = panel.select(tuple(panel.locations.ids[n] for n in (3, 0, 6, 2, 5, 1, 4)))
    origins = np.array([900, 1100])
    here = VAR(recipe).fit(panel, splits).predict(panel, origins)
    there = VAR(recipe).fit(turned, splits).predict(turned, origins)
    assert np.allclose(there, here[:, :, [3, 0, 6, 2, 5, 1, 4]], rtol=1e-5)


def test_covariates_of_single_locations_are_left_out(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    own = np.random.default_rng(4).normal(size=(2, HOURS, 3)).astype(np.float32)
    bare = make_panel(autoregression(3), "measurement")
    panel = replace(bare, local_covariates=LocalCovariates(("queue", "price"), own))
    origins = np.array([900, 1100])
    forecast = VAR(recipe).fit(panel, splits).predict(panel, origins)
    assert np.array_equal(forecast, VAR(recipe).fit(bare, splits).predict(bare, origins))


# ------------------------------------------------------------------------ what it is learned from

BROKEN = Splits(  # 40 days of training in two ranges, 576 h and 385 h: an hour was shown twice
    train=[("2015-10-01", "2015-10-24"), ("2015-10-29", "2015-11-13")],
    validation=[("2015-10-25", "2015-10-28")],
    test=[("2015-11-14", "2015-11-16")],
)


def test_validation_steps_choose_the_order_and_nothing_else(
    make_panel: MakePanel, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    solutions, validate = [], var._validate

    def spy(given: list[np.ndarray], *rest: Any) -> list[float]:
        solutions.append(given)
        return validate(given, *rest)

    monkeypatch.setattr(var, "_validate", spy)
    panel = make_panel(autoregression(5), "measurement")
    held_out = BROKEN.mask("validation", panel.clock, panel.times)
    level = replace(panel, values=np.where(held_out[:, None], np.float32(50), panel.values))
    orders = [about_of(VAR(recipe).fit(p, BROKEN))["order"] for p in (panel, level)]
    assert orders[0] == 2
    assert orders[1] < 2
    assert all(np.array_equal(*pair) for pair in zip(*solutions, strict=True))


def test_steps_need_their_lags_in_training(make_panel: MakePanel, recipe: Recipe) -> None:
    panel = make_panel(autoregression(5), "measurement")
    assert about_of(VAR(recipe).fit(panel, BROKEN))["rows"] == (576 - 2) + (385 - 2)


def test_steps_observed_at_too_few_locations_are_not_learned(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    values = autoregression(11)
    values[100:107, :2] = np.nan  # two in eleven
    values[200:213, 2] = np.nan  # one in eleven
    about = about_of(VAR(recipe).fit(make_panel(values, "measurement"), splits))
    assert about["rows"] == 864 + 1 - 2 - 7  # with the hour that was shown twice


def test_a_training_without_any_such_step_is_refused(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    panel = make_panel(autoregression(5), "measurement")
    data = hide_test(panel, splits, cut_windows(panel, splits, recipe.lags))
    values = panel.values.copy()
    values[:, :2] = np.nan  # two locations in five are never observed
    with pytest.raises(
        DataError, match=r"no training step, .*, is observed at nine locations in ten; leave"
    ):
        VAR(recipe).fit_windows(replace(data, panel=replace(panel, values=values)))


# ------------------------------------------------------------------------- dependent columns


def test_P9_what_a_full_one_hot_repeats_is_named(
    make_panel: MakePanel, splits: Splits, recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    about = about_of(VAR(recipe).fit(make_panel(autoregression(7), "measurement"), splits))
    assert about["dropped"] == REDUNDANT
    assert (about["columns"], about["rank"]) == (1 + CALENDAR + 2 * 7, 1 + CALENDAR + 2 * 7 - 3)
    assert "3 dependent and without weight: weekday_sunday, hour_23, holiday" in caplog.text


def test_P9_twins_and_constant_locations_are_named(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    values = autoregression(7)
    values[:, 3], values[:, 5] = 2 * values[:, 1], 17
    panel = make_panel(values, "measurement")
    fitted = VAR(recipe).fit(panel, splits)
    lags = [f"p{n} lag {lag}" for lag in (1, 2) for n in (3, 5)]
    assert about_of(fitted)["dropped"] == [*REDUNDANT, *lags]
    forecast = fitted.predict(panel, np.arange(900, 1100, 7))
    assert np.allclose(forecast[..., 3], 2 * forecast[..., 1], rtol=1e-5)
    assert np.allclose(forecast[..., 5], 17)


def test_P9_more_columns_than_steps_do_not_make_forecasts_explode(
    make_panel: MakePanel, recipe: Recipe
) -> None:
    splits = Splits(
        train=[("2015-10-01", "2015-10-10")],
        validation=[("2015-10-11", "2015-10-17")],
        test=[("2015-10-18", "2015-11-16")],
    )
    panel = make_panel(np.random.default_rng(5).poisson(9, (HOURS, 251)))
    fitted = VAR(recipe).fit(panel, splits)
    about = about_of(fitted)
    assert (about["order"], about["rows"]) == (0, 238)  # order 1 has 284 columns
    alone, *with_lags = about["validation_rmse"]
    assert alone == pytest.approx(3, rel=0.1)  # the noise's own size
    assert min(with_lags) > 5 * alone
    assert np.abs(fitted.predict(panel, np.arange(500, 1000, 7)) - 9).max() < 9


def test_an_order_whose_forecasts_overflow_is_not_chosen(make_panel: MakePanel) -> None:
    splits = Splits(
        train=[("2015-10-01", "2015-10-02")],
        validation=[("2015-10-03", "2015-10-07")],
        test=[("2015-10-08", "2015-11-16")],
    )
    values = np.ones((HOURS, 2))
    values[:48] = 10 ** np.linspace(0, 36, 48)[:, None]  # times 5.8 every hour, then no more
    recipe = Recipe(lags=LagConfig(recent=1, seasons=(), horizon=37))
    about = about_of(VAR(recipe).fit(make_panel(values, "measurement"), splits))
    assert about["order"] == 0
    assert about["validation_rmse"][1] is None


def test_orders_beyond_memory_are_not_tried(
    make_panel: MakePanel,
    splits: Splits,
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(var, "MAX_COLUMNS", 1 + CALENDAR + 2 * 7 - 1)
    about = about_of(VAR(recipe).fit(make_panel(autoregression(7), "measurement"), splits))
    errors = about["validation_rmse"]
    assert len(errors) == 2
    assert "orders up to 1 of 2 are tried: at most 46 columns" in caplog.text


# -------------------------------------------------------------------------------- runs of others


@pytest.mark.parametrize(
    "spoil",
    [
        {"order": np.array([1])},
        {"order": np.array([-1])},
        {"order": np.array([3])},
        {"order": np.array([2.0])},
        {"order": np.array([2, 2])},
        {"weights": np.zeros((1 + CALENDAR + 2 * 3, 2), np.float32)},
        {"weights": np.zeros((1 + CALENDAR + 2 * 3, 3), np.float64)},
        {"weights": np.zeros((1 + CALENDAR + 3 * 3, 3), np.float32), "order": np.array([3])},
        {"weights": np.zeros(7, np.float32)},
        {"weights": None},
    ],
)
def test_a_run_whose_weights_do_not_fit_its_order_is_refused(
    make_panel: MakePanel, splits: Splits, recipe: Recipe, spoil: dict[str, np.ndarray | None]
) -> None:
    fitted = VAR(recipe).fit(make_panel(autoregression(3), "measurement"), splits)
    run = fitted.run
    assert run is not None
    assert run.arrays["order"].tolist() == [2]
    VAR.from_run(run)  # as it is
    arrays = {name: a for name, a in {**run.arrays, **spoil}.items() if a is not None}
    with pytest.raises(ArtifactError, match="not a forecaster run of a VAR"):
        VAR.from_run(replace(run, arrays=arrays))


def test_L1_no_value_reaches_the_others_without_limit(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    panel = make_panel(50 + 5 * autoregression(4), "measurement")
    fitted = VAR(recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test[:1]
    forecasts = []
    for factor in (1e3, 1e6):
        values = panel.values.copy()
        values[origins[0] - 1 : origins[0] + 1, 0] *= factor
        inputs = ForecastInputs(
            fill_missing(panel.with_data(values=values), fill_of(fitted_run(fitted))),
            origins,
            *look_ahead(panel, origins, recipe.lags.horizon),
        )
        forecasts.append(fitted.predict_windows(fitted_run(fitted).arrays, inputs))
    assert np.allclose(forecasts[0], forecasts[1], atol=0.5)  # σ = 5
