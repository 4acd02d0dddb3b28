"""Locations that close and come back, by their dates and by their silence."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError
from forecaster.estimators.areas import add_areas, read_areas
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.closed import LONGEST, Closings, fit_silence
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.backtest import backtest
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.recipe import change
from forecaster.splits import Splits

DAY, DAYS, N = 24, 77, 20
START = np.datetime64("2015-08-31T04", "s")
SPLITS = Splits(
    train=[("2015-08-31", "2015-10-09")],
    validation=[("2015-10-10", "2015-10-18")],
    test=[("2015-10-19", "2015-11-15")],
)
TRAINED = 40 * DAY
END = 51 * DAY  # when places close
BACK = END + 21 * DAY
GONE = (2, 3, 5, 7)
OTHERS = [n for n in range(N) if n not in GONE]
LEVELS = np.linspace(8, 40, N)


def city(kind: str = "count") -> Panel:
    """Eleven weeks of Poisson counts, or of normal measurements, with a daily course."""
    generator, T = np.random.default_rng(3), DAYS * DAY
    clock = Clock("America/New_York")
    local = clock.local(clock.axis(START, T))
    hours = (local - local.astype("datetime64[D]")).astype(np.int64) / 3600
    rate = LEVELS * (1.2 + np.sin(hours / 24 * 2 * np.pi))[:, None]
    counts, measured = generator.poisson(rate), rate + generator.normal(0, 2, rate.shape)
    return Panel(
        values=(counts if kind == "count" else measured).astype(np.float32),
        start=START,
        clock=clock,
        kind="count" if kind == "count" else "measurement",
        locations=Locations.of_ids(f"p{n}" for n in range(N)),
        covariates=Covariates.empty(T),
        local_covariates=LocalCovariates.empty(T, N),
    )


CITIES = {kind: city(kind) for kind in ("count", "measurement")}


def changed(panel: Panel, change_values: Callable[[np.ndarray], None]) -> Panel:
    values = panel.values.copy()
    change_values(values)
    return replace(panel, values=values)


def silenced(panel: Panel, value: float, places: tuple[int, ...] = GONE, end: int = BACK) -> Panel:
    """The panel with places that end at END and return at `end`."""

    def silence(values: np.ndarray) -> None:
        values[END:end, places] = value

    return changed(panel, silence)


@pytest.fixture(scope="module")
def fitted() -> dict[str, Ridge]:
    return {kind: Ridge(recipe=RECIPE).fit(p, SPLITS) for kind, p in CITIES.items()}


def closings_of(estimator: Estimator) -> Closings:
    assert estimator.run is not None
    closings = Closings.of(estimator.run)
    assert closings is not None
    return closings


@pytest.mark.parametrize("value", [0.0, np.nan], ids=["zeros", "nulls"])
def test_L4_a_place_that_closes_is_forecast_at_zero_within_two_days(
    fitted: dict[str, Ridge], value: float
) -> None:
    model, panel = fitted["count"], silenced(CITIES["count"], value)
    origins = np.arange(END + 2 * DAY - 1, BACK)  # two days of silence and more
    prediction = model.predict_all(panel, origins)
    assert not prediction.forecast[..., GONE].any()
    assert not prediction.online[..., GONE].any()
    assert not prediction.static[..., GONE].any()
    np.testing.assert_array_equal(model.predict(panel, origins), prediction.forecast)
    before = model.predict(panel, origins[:1] - 1)
    assert (before[..., GONE] > 0).any()
    table = model.forecast(panel, panel.times[END + 2 * DAY - 1])
    closed = table[table["unique_id"] == "p3"]
    assert (closed[["y_hat", "q10", "q50", "q90"]] == 0).all(axis=None)
    assert set(closed["degraded"]) == {"closed: no value above 0 since 2015-10-21T00:00:00-04:00"}
    assert set(table[table["unique_id"] == "p0"]["degraded"]) == {""}


@pytest.mark.parametrize("value", [0.0, np.nan], ids=["zeros", "nulls"])
def test_L4_the_others_stay_and_the_place_comes_back(
    fitted: dict[str, Ridge], value: float
) -> None:
    model, untouched = fitted["count"], CITIES["count"]
    panel = silenced(untouched, value)
    horizon = RECIPE.lags.horizon
    origins = np.arange(END, DAYS * DAY - horizon)
    here, there = (model.predict(p, origins) for p in (panel, untouched))
    np.testing.assert_array_equal(here[..., OTHERS], there[..., OTHERS])  # Ridge sees own lags
    first = origins == BACK
    assert (here[first][..., GONE] > 0).all()  # one value above zero opens it again
    settled = origins >= BACK + 2 * DAY
    ahead = origins[settled][:, None] + np.arange(1, horizon + 1)
    truth = untouched.values[ahead][..., GONE]
    rmse, usual = (
        float(np.sqrt(np.square(f[settled][..., GONE] - truth).mean())) for f in (here, there)
    )
    assert rmse <= 1.3 * usual


def test_L4_a_measured_place_that_closes_is_not_forecast(fitted: dict[str, Ridge]) -> None:
    model, panel = fitted["measurement"], silenced(CITIES["measurement"], np.nan, (2,))
    origin = END + 2 * DAY
    prediction = model.predict_all(panel, np.array([origin]))
    assert np.isnan(prediction.forecast[..., 2]).all()
    assert np.isnan(prediction.online[..., 2]).all()
    assert np.isfinite(np.delete(prediction.online, 2, axis=-1)).all()
    table = model.forecast(panel, panel.times[origin])
    assert "p2" not in set(table["unique_id"])
    assert len(table) == (N - 1) * RECIPE.lags.horizon
    zeros = silenced(CITIES["measurement"], 0.0, (2,))  # zero is a measurement like any other
    assert np.isfinite(model.predict(zeros, np.array([origin]))).all()


def test_a_network_forecasts_a_closed_place_at_zero() -> None:
    settings = {"preset": "best", "mixer": {"hidden": 8}, "training": {"epochs": 1}}
    model = Forecaster(recipe=change(RECIPE, settings, source="test")).fit(CITIES["count"], SPLITS)
    panel = silenced(CITIES["count"], 0.0)
    prediction = model.predict_all(panel, np.array([END + 3 * DAY, BACK]))
    assert not prediction.forecast[0][:, GONE].any()
    assert not prediction.relative[0][:, GONE].any()
    assert (prediction.forecast[1][:, GONE] > 0).all()
    assert (prediction.forecast[..., OTHERS] > 0).all()


# Outages, quiet places.


def test_an_outage_of_the_feed_closes_nobody(fitted: dict[str, Ridge]) -> None:
    closings = closings_of(fitted["count"])
    everybody = silenced(CITIES["count"], 0.0, tuple(range(N)))
    assert not closings.judge(everybody, 0, BACK).closed.any()  # three weeks long
    quarter = silenced(CITIES["count"], 0.0, (0, 1, 2, 3, 4))
    assert not closings.judge(quarter, 0, END + 13 * DAY).closed.any()
    assert closings.judge(quarter, 0, BACK).closed[-1].sum() == 5  # two weeks are no outage
    fewer = silenced(CITIES["count"], 0.0, (0, 1, 2, 3))
    assert closings.judge(fewer, 0, END + 13 * DAY).closed[END + 3 * DAY].sum() == 4


def test_a_place_that_stays_silent_after_an_outage_has_closed(fitted: dict[str, Ridge]) -> None:
    def silence(values: np.ndarray) -> None:
        values[END : END + 3 * DAY] = np.nan
        values[END + 3 * DAY :, 4] = np.nan

    panel = changed(CITIES["count"], silence)
    closed = closings_of(fitted["count"]).judge(panel, 0, DAYS * DAY).closed
    assert not closed[: END + 3 * DAY].any()
    assert closed[END + 3 * DAY :, 4].all()
    assert closed[:, :4].sum() == 0


def test_a_closed_place_stays_closed_through_an_outage(fitted: dict[str, Ridge]) -> None:
    def silence(values: np.ndarray) -> None:
        values[END:, 4] = 0
        values[END + 5 * DAY : END + 8 * DAY] = 0

    closed = closings_of(fitted["count"]).judge(changed(CITIES["count"], silence), 0, 75 * DAY)
    assert closed.closed[END + 2 * DAY :, 4].all()
    assert not np.delete(closed.closed, 4, axis=1).any()


def test_two_sensors_that_fall_silent_together_are_an_outage() -> None:
    panel = silenced(CITIES["count"], 0.0, (0, 1)).select(("p0", "p1"))
    closings = Closings("count", np.zeros(2, dtype=np.int64))
    assert not closings.judge(panel, 0, END + 5 * DAY).closed.any()
    alone = silenced(CITIES["count"], 0.0, (0,)).select(("p0", "p1"))
    assert closings.judge(alone, 0, END + 5 * DAY).closed[-1].tolist() == [True, False]


def test_a_place_that_was_silent_for_a_day_in_training_does_not_close() -> None:
    def silence(values: np.ndarray) -> None:
        values[100 : 100 + DAY, 2] = 0
        values[100 : 100 + DAY - 1, 3] = np.nan

    panel = changed(silenced(CITIES["count"], 0.0, (2, 3)), silence)
    train = np.arange(DAYS * DAY) < TRAINED
    longest = fit_silence(panel, train)[LONGEST]
    assert longest[2] >= DAY
    assert longest[3] < DAY
    closed = Closings("count", longest).judge(panel, 0, END + 5 * DAY).closed
    assert not closed[:, 2].any()
    assert closed[-1, 3]


def test_a_silence_that_training_ends_with_is_a_closing_and_not_a_habit() -> None:
    def silence(values: np.ndarray) -> None:
        values[TRAINED - 3 * DAY :, 2] = np.nan
        values[TRAINED - 3 * DAY :, 3] = 0
        values[TRAINED - DAY - 5 :, 4] = 0  # not two days before training ends
        values[: TRAINED - 10 * DAY, 5] = 0  # heard for a week alone
        values[TRAINED - 3 * DAY :, 5] = 0
        values[TRAINED - 3 * DAY :, 6] = 0
        values[100 : 100 + 30, 6] = 0  # silent now and then

    panel = changed(CITIES["count"], silence)
    train = np.arange(DAYS * DAY) < TRAINED
    longest = fit_silence(panel, train)[LONGEST]
    assert (longest[[2, 3]] < DAY).all()
    assert (longest[[4, 5, 6]] >= DAY).all()
    closed = Closings("count", longest).judge(panel, 0, DAYS * DAY).closed[-1]
    assert closed[[2, 3]].all()
    assert not closed[[4, 5, 6]].any()


def test_outages_of_training_are_not_the_silences_of_places() -> None:
    def silence(values: np.ndarray) -> None:
        values[200 : 200 + 40] = np.nan
        values[240:245, 2] = 0  # and a quiet night after it

    train = np.arange(DAYS * DAY) < TRAINED
    longest = fit_silence(changed(CITIES["count"], silence), train)[LONGEST]
    assert longest.max() < DAY


def test_days_of_silence_that_are_usual_are_no_outages() -> None:
    def silence(values: np.ndarray) -> None:
        for week in range(DAYS // 7):
            values[week * 7 * DAY : week * 7 * DAY + 30, :12] = 0  # most are shut on Mondays

    train = np.arange(DAYS * DAY) < TRAINED
    longest = fit_silence(changed(CITIES["count"], silence), train)[LONGEST]
    assert (longest[:12] >= 30).all()
    assert (longest[12:] < DAY).all()


def test_the_state_of_a_step_depends_on_no_later_value(fitted: dict[str, Ridge]) -> None:
    closings, panel = closings_of(fitted["count"]), silenced(CITIES["count"], 0.0)
    whole = closings.judge(panel, 0, DAYS * DAY).closed
    for step in (END + DAY, END + 2 * DAY - 1, END + 2 * DAY, BACK - 1, BACK, BACK + 1):
        cut = panel.steps(step - 28 * DAY, step + 1)
        np.testing.assert_array_equal(
            closings.judge(cut, 28 * DAY, 28 * DAY + 1).closed[0], whole[step]
        )


def test_days_of_a_panel_of_days_are_weeks() -> None:
    daily = CITIES["count"].values.reshape(DAYS, DAY, N).sum(axis=1)
    daily[40:, 1] = 0
    panel = replace(
        CITIES["count"],
        values=daily,
        clock=Clock("America/New_York", DAY * 60),
        covariates=Covariates.empty(DAYS),
        local_covariates=LocalCovariates.empty(DAYS, N),
    )
    closed = Closings("count", np.zeros(N, dtype=np.int64)).judge(panel, 0, DAYS).closed
    assert np.flatnonzero(closed[:, 1])[0] == 40 + 14 - 1


# Scores and calibration.


def test_closed_places_do_not_move_the_online_calibration(fitted: dict[str, Ridge]) -> None:
    origin = np.array([BACK - 1])  # corrected by the outcomes of the two weeks before it
    zeros, nulls = (
        fitted["count"].predict_all(silenced(CITIES["count"], value, (2,)), origin).corrections
        for value in (0.0, np.nan)
    )
    np.testing.assert_array_equal(zeros, nulls)


def test_a_closed_place_scores_by_what_is_served(fitted: dict[str, Ridge]) -> None:
    origins = np.arange(END + 2 * DAY, BACK - RECIPE.lags.horizon)
    result = backtest(fitted["count"], silenced(CITIES["count"], 0.0), origins)
    assert not result.by_location.squares[:, GONE].any()
    assert result.interval_results is not None
    assert not result.interval_results.by_location["online"].widths[:, GONE].any()
    measured = silenced(CITIES["measurement"], np.nan, (2,))
    around = np.arange(BACK - 5, BACK + 5)
    result = backtest(fitted["measurement"], measured, around)
    assert np.isfinite(result.by_location.squares).all()
    assert result.by_location.values[0, 2] < result.by_location.values[0, 3]  # not forecast: none


def test_an_area_is_the_sum_of_its_open_places(fitted: dict[str, Ridge]) -> None:
    areas = pd.DataFrame({"area": ["x", "x", "z"], "id": ["p2", "p4", "p2"]})
    for kind, value in (("count", 0.0), ("measurement", np.nan)):
        model, panel = fitted[kind], silenced(CITIES[kind], value, (2,))
        table = model.forecast(panel, panel.times[END + 2 * DAY])
        wide = add_areas(table, read_areas(areas, panel.locations), model, panel)
        rows = {name: wide[wide["unique_id"] == name] for name in ("x", "z", "p4")}
        np.testing.assert_allclose(rows["x"]["y_hat"], rows["p4"]["y_hat"], rtol=1e-6)
        assert (rows["x"]["q90"] >= rows["x"]["y_hat"]).all()
        if kind == "count":
            assert (rows["z"][["y_hat", "q10", "q90"]] == 0).all(axis=None)
        else:
            assert rows["z"].empty


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_L4_an_area_says_which_of_its_places_is_closed_and_is_as_sure_as_the_others(
    fitted: dict[str, Ridge], kind: str
) -> None:
    areas = pd.DataFrame({"area": list("xxxzz"), "id": ["p2", "p4", "p0", "p4", "p0"]})
    model, panel = fitted[kind], silenced(CITIES[kind], np.nan, (2,))
    table = model.forecast(panel, panel.times[END + 2 * DAY])
    wide = add_areas(table, read_areas(areas, panel.locations), model, panel)
    all_of_them, open_ones = (wide[wide["unique_id"] == name] for name in ("x", "z"))
    (reason,) = set(all_of_them["degraded"])
    assert reason.startswith("p2: closed: no value")
    assert set(open_ones["degraded"]) == {""}
    numbers = ["y_hat", "q10", "q50", "q90"]
    np.testing.assert_allclose(all_of_them[numbers], open_ones[numbers], rtol=1e-5)


# Dates.


def dated(panel: Panel, **dates: str) -> Panel:
    """The panel with the dates of p1, and what is outside its life missing."""
    columns = {
        name: np.array(["NaT", moment, *["NaT"] * (N - 2)], "datetime64[s]")
        for name, moment in dates.items()
    }
    return replace(panel, locations=replace(panel.locations, **columns)).within_lives()


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_a_place_is_forecast_up_to_the_step_at_which_it_closes(kind: str) -> None:
    panel = dated(CITIES[kind], closes="2015-10-22T02:00")  # 22:00 on the day before, local
    model = Ridge(recipe=RECIPE).fit(panel, SPLITS)
    origin = int(np.searchsorted(panel.times, np.datetime64("2015-10-22T00:00", "s")))
    forecast = model.predict(panel, np.array([origin]))[0, :, 1]
    assert forecast[0] > 0  # 21:00, the last hour
    assert not np.nan_to_num(forecast[1:]).any()
    table = model.forecast(panel, panel.times[origin])
    here = table[table["unique_id"] == "p1"]
    assert len(here) == (RECIPE.lags.horizon if kind == "count" else 1)
    assert set(here["degraded"]) == {"closed since 2015-10-21T22:00:00-04:00"}


def test_a_place_is_not_forecast_before_it_opens(fitted: dict[str, Ridge]) -> None:
    panel = dated(CITIES["count"], opens="2015-10-30T04:00")
    origin = int(np.searchsorted(panel.times, np.datetime64("2015-10-25T04:00", "s")))
    table = fitted["count"].forecast(panel, panel.times[origin])
    here = table[table["unique_id"] == "p1"]
    assert not here["y_hat"].any()
    assert set(here["degraded"]) == {"not open before 2015-10-30T00:00:00-04:00"}


def test_a_place_needs_no_covariates_outside_its_life() -> None:
    panel = dated(CITIES["count"], opens="2015-09-20T04:00", closes="2015-10-25T04:00")
    heat = np.random.default_rng(1).normal(size=(1, DAYS * DAY, N)).astype(np.float32)
    heat[0][~panel.alive(0, DAYS * DAY)] = np.nan
    panel = replace(panel, local_covariates=LocalCovariates(("heat",), heat))
    model = Ridge(recipe=RECIPE).fit(panel, SPLITS)
    table = model.forecast(panel, panel.times[END + 5 * DAY])
    here = table[table["unique_id"] == "p1"]
    assert not here["y_hat"].any()
    assert np.isfinite(table["y_hat"]).all()


def test_runs_without_silences_know_dates_only(fitted: dict[str, Ridge]) -> None:
    run = fitted["count"].run
    assert run is not None
    arrays = {name: array for name, array in run.arrays.items() if name != LONGEST}
    old = Ridge.from_run(replace(run, arrays=arrays))
    panel = silenced(CITIES["count"], 0.0, (3,))
    origin = np.array([END + 2 * DAY])
    assert old.predict_all(panel, origin).base.closed is None
    closed = old.predict_all(dated(panel, closes="2015-10-19T00:00"), origin).base.closed
    assert closed is not None
    assert np.flatnonzero(closed.any(axis=(0, 1))).tolist() == [1]


def test_a_damaged_silence_is_refused(fitted: dict[str, Ridge]) -> None:
    run = fitted["count"].run
    assert run is not None
    for longest in (np.zeros(N), np.zeros(N + 1, np.int64), np.full(N, -1)):
        with pytest.raises(ArtifactError, match=LONGEST):
            Ridge.from_run(replace(run, arrays={**run.arrays, LONGEST: longest}))


# Censored values.


def test_hours_without_stock_are_no_silence() -> None:
    def silence(values: np.ndarray) -> None:
        values[END : END + 5 * DAY, 1] = 2
        values[END : END + 5 * DAY, 2] = 0

    values = changed(CITIES["count"], silence)
    flags = np.zeros((1, *values.values.shape), dtype=np.float32)
    flags[0, END : END + 5 * DAY, 1] = 1
    panel = replace(values, local_covariates=LocalCovariates(("sold_out",), flags))
    model = Ridge(recipe=RECIPE).fit(panel.censor("sold_out"), SPLITS)
    assert model.recipe.panel.censored == "sold_out"
    forecast = model.predict(panel.censor("sold_out"), np.array([END + 4 * DAY]))[0]
    assert (forecast[:, 1] > 2).all()  # of demand, not of what was left of it
    assert not forecast[:, 2].any()
    with pytest.raises(ArtifactError, match=r"use panel\.censor"):
        model.predict(panel, np.array([END]))


def test_L4_a_location_that_closes_in_validation_does_not_change_the_others() -> None:
    city = small_city()
    splits = Splits.by_share(city, validation=0.35)
    recipe = change(RECIPE, {"preset": "best", "mixer": {"hidden": 8}}, source="test")
    values = city.values.copy()
    values[560:, -1] = 0
    factors, fallbacks = [], []
    for panel in (city, city.with_data(values)):
        run = Forecaster(recipe=recipe).fit(panel, splits).run
        assert run is not None
        factors.append(float(run.arrays["outputs.mean_factor"]))
        fallbacks.append(run.about["fallback"]["locations"])
    assert factors[1] == pytest.approx(factors[0], abs=0.05)
    assert fallbacks[1] <= fallbacks[0]


def test_L4_a_location_with_a_short_life_in_training_is_not_known_to_be_never_silent() -> None:
    city = small_city()
    train = np.arange(len(city.values)) < 700
    opens = np.full(len(city.locations), "NaT", dtype="datetime64[s]")
    opens[0] = city.times[650]
    dated = replace(city, locations=replace(city.locations, opens=opens)).within_lives()
    longest = fit_silence(dated, train)["shared.longest_silence"]
    assert longest[0] >= 24
    assert (longest[1:] < 24).all()


def test_L10_nights_and_weekends_neither_end_a_silence_nor_begin_one() -> None:
    panel = city().with_hours(("Mon-Fri 06:00-23:00",) * N)
    values = panel.values.copy()
    values[END:, 3] = np.where(np.isnan(values[END:, 3]), np.nan, 0)
    silent = panel.with_data(values)
    train = np.arange(len(values)) < TRAINED
    longest = fit_silence(panel, train)[LONGEST]
    assert (longest < DAY).all()  # though each weekend has no value
    closed = Closings("count", longest).judge(silent, END, len(values)).closed
    assert np.flatnonzero(closed.any(axis=0)).tolist() == [3]
    assert closed[14 * DAY :, 3].all()
    values[END : END + 5 * DAY] = np.where(np.isnan(values[END : END + 5 * DAY]), np.nan, 0)
    outage = Closings("count", longest).judge(panel.with_data(values), END, END + 5 * DAY)
    assert not outage.closed.any()  # the feed is out, and the nights do not tell otherwise
