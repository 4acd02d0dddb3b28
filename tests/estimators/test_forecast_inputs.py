import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.config import LagConfig, Season
from forecaster.errors import ConfigError, DataError
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.forecast_inputs import (
    At,
    ForecastInputs,
    await_opening,
    bounded_history,
    choose_weather,
    fill_of,
    find_origin,
    fit_climatology,
    label_missing,
    look_ahead,
    look_back,
    prepare_inputs,
    reach_origin,
    refuse_missing,
    refuse_unknown_future,
    with_changes,
    with_weather,
)
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.splits import Splits, cut_windows, history_steps

HOURS, PLACES = 24 * 31, 11
CITY = small_city()
LAGS = LagConfig(recent=3, seasons=(Season(days=1, count=2, before=0, after=1),), horizon=2)
MakePanel = Callable[..., Panel]


@pytest.fixture
def panel(make_panel: MakePanel) -> Panel:
    steps = np.arange(HOURS + 3)
    weather = np.stack([steps, steps % 2], axis=1).astype(np.float32)
    own = np.arange((HOURS + 3) * PLACES, dtype=np.float32).reshape(1, HOURS + 3, PLACES)
    return make_panel(
        np.random.default_rng(0).poisson(9, (HOURS, PLACES)),
        covariates=Covariates(("temperature", "rain"), weather),
        local_covariates=LocalCovariates(("queue",), own),
    )


@pytest.mark.parametrize(
    ("at", "step"),
    [
        ("2015-10-01T04:00Z", 0),
        ("2015-10-01T00:00-04:00", 0),
        ("2015-10-01T05:00+00:00", 1),
        ("2015-10-31T23:00-04:00", HOURS - 1),
    ],
)
def test_P7_an_origin_is_found_in_any_offset(panel: Panel, at: str, step: int) -> None:
    assert find_origin(panel, at) == step


@pytest.mark.parametrize(
    "at",
    [
        np.datetime64("2015-10-05T04"),
        np.datetime64("2015-10-05T04:00:00.000000000"),
        pd.Timestamp("2015-10-05T04:00Z"),
        pd.Timestamp("2015-10-05", tz="America/New_York"),
        datetime(2015, 10, 5, 4, tzinfo=UTC),
    ],
)
def test_an_origin_may_be_any_kind_of_time(panel: Panel, at: At) -> None:
    assert find_origin(panel, at) == find_origin(panel, "2015-10-05T00:00-04:00")


def test_every_step_of_a_panel_is_an_origin_of_it(panel: Panel) -> None:
    assert [find_origin(panel, time) for time in panel.times] == list(range(HOURS))


@pytest.mark.parametrize("at", [5, "soon"])
def test_P7_what_is_no_time_at_all_is_refused(panel: Panel, at: object) -> None:
    unchecked = inspect.unwrap(find_origin)  # the shape checker would refuse it first
    with pytest.raises(ConfigError, match=r"is not a time.*2015-10-31T23:00:00-04:00"):
        unchecked(panel, at)  # type: ignore[arg-type]


def test_without_a_time_the_origin_is_the_last_step_with_a_value(panel: Panel) -> None:
    values = panel.values.copy()
    values[-7:] = np.nan
    assert find_origin(panel.with_data(values), None) == HOURS - 8
    with pytest.raises(ConfigError, match="has no offset from UTC"):
        find_origin(panel, date(2015, 10, 5))  # of hours a day is not enough


NIGHT = 7  # hours up to 6:00 of the day on which clocks go back


@pytest.mark.parametrize(("horizon", "awaits"), [(5, True), (7, True), (8, False)])
def test_L10_an_evening_awaits_the_opening_that_a_short_horizon_does_not_reach(
    panel: Panel, horizon: int, awaits: bool
) -> None:
    metro = panel.with_hours(["06:00-24:00"] * PLACES)  # its last step is 23:00
    longer, origin = await_opening(metro, horizon)
    assert origin - (HOURS - 1) == (NIGHT if awaits else 0)
    assert len(longer.values) == origin + 1
    assert np.array_equal(longer.values[:HOURS], metro.values, equal_nan=True)
    assert np.isnan(longer.values[HOURS:]).all()
    for part, later in (
        (metro.covariates.values, longer.covariates.values),
        (metro.local_covariates.values[0], longer.local_covariates.values[0]),
    ):
        assert np.array_equal(later[: len(part)], part)  # known ahead: nothing is lost
        assert len(later) == max(len(part), len(longer.values))
    cutoff = pd.Timestamp(longer.times[origin]).tz_localize("UTC")
    again, step = reach_origin(metro, cutoff)
    assert (len(again.values), step) == (len(longer.values), origin)


def test_a_panel_that_is_always_open_or_never_again_awaits_nothing(panel: Panel) -> None:
    assert await_opening(panel, 3) == (panel, HOURS - 1)
    closed = panel.with_hours(["2015-10-01 - 2015-10-31"] * PLACES)
    assert await_opening(closed, 3)[1] == HOURS - 1


def test_L10_steps_of_the_panel_after_its_last_value_are_awaited_too(panel: Panel) -> None:
    metro = panel.with_hours(["06:00-22:00"] * PLACES)  # 22:00 and 23:00 are closed
    longer, origin = await_opening(metro, 2)
    assert np.isfinite(metro.values).any(axis=1).nonzero()[0][-1] == HOURS - 3
    assert origin == HOURS - 1 + NIGHT
    assert len(longer.values) == origin + 1


@pytest.mark.parametrize("at", ["2024-12-01", date(2024, 12, 1), "2024-12-01T00:00+09:00"])
def test_a_day_of_daily_data_needs_no_offset(at: At) -> None:
    days = pd.date_range("2024-11-01", periods=41, freq="D")
    table = pd.DataFrame({"unique_id": "a", "ds": days, "y": 1.0})
    daily = Panel.from_long(table, timezone="Asia/Tokyo")
    assert find_origin(daily, at) == 30


def test_a_month_of_monthly_data_is_enough() -> None:
    months = pd.date_range("2023-01-01", periods=31, freq="MS")
    monthly = Panel.from_long(
        pd.DataFrame({"unique_id": "a", "ds": months, "y": 1.0}), timezone="UTC"
    )
    assert find_origin(monthly, "2024-12") == find_origin(monthly, "2024-12-01") == 23


def test_P7_an_origin_outside_the_panel_is_told_the_span_on_the_wall(panel: Panel) -> None:
    span = re.escape("2015-10-01T00:00:00-04:00 … 2015-10-31T23:00:00-04:00")
    with pytest.raises(ConfigError, match=rf"lies outside the panel \({span}\)"):
        find_origin(panel, "2016-10-05T04:00Z")


@pytest.mark.parametrize(
    ("at", "complaint"),
    [
        ("2015-10-05T04:00", "has no offset"),
        ("2015-10-05", "has no offset"),
        ("noon", "is not a time"),
        (datetime(2015, 10, 5, 4), "has no offset"),
        (pd.NaT, "is not a time"),
        (np.datetime64("NaT"), "is not a time"),
        (np.datetime64("2015-10-05T04:30"), "lies between two steps"),
        ("2015-10-05T04:30Z", "lies between two steps"),
        ("2015-09-30T04:00Z", "lies outside the panel"),
        ("2115-10-05T04:00Z", "lies outside the panel"),
    ],
)
def test_P7_a_wrong_origin_names_the_accepted_form(panel: Panel, at: At, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"{complaint}.*2015-10-31T23:00:00-04:00"):
        find_origin(panel, at)


def test_what_an_origin_can_know_ends_there(panel: Panel) -> None:
    part, origins = look_back(panel, LAGS, np.array([401, 400, 407]))
    assert part.times[origins].tolist() == panel.times[[401, 400, 407]].tolist()
    assert np.array_equal(part.values[origins], panel.values[[401, 400, 407]])
    assert part.times[-1] == panel.times[407]
    assert part.known_times[-1] == panel.times[407 + LAGS.horizon]
    here, there = (
        p.values[history_steps(p, LAGS, o)]
        for p, o in ((panel, np.array([401, 400, 407])), (part, origins))
    )
    assert np.array_equal(here, there)
    ahead = (look_ahead(p, o, 2) for p, o in ((panel, np.array([407])), (part, origins[2:])))
    for one, other in zip(*ahead, strict=True):
        assert np.array_equal(one, other)


def test_one_origin_takes_little_of_a_panel(panel: Panel) -> None:
    part, origins = look_back(panel, LAGS, np.array([700]))
    assert len(part.values) == 48 + 1 + LAGS.horizon + 24  # lags, origin, horizon, a day
    assert origins.tolist() == [len(part.values) - 1]
    assert part.values.base is not None  # a view: nothing is copied


def test_T15_history_before_the_panel_is_missing(panel: Panel) -> None:
    for origin in (47, 5):
        part, (step,) = look_back(panel, LAGS, np.array([origin]))
        assert part.times[step] == panel.times[origin]
        earlier = part.times < panel.start
        assert step - 48 >= 0
        assert earlier.sum() == step - origin
        assert np.isnan(part.values[earlier]).all()
        assert np.array_equal(part.values[~earlier], panel.values[: origin + 1], equal_nan=True)
        with pytest.raises(DataError, match="history incomplete"):
            refuse_missing(part, LAGS, int(step))


def test_P1_each_lag_position_counts_for_the_rule(panel: Panel) -> None:
    origin = 400
    looks_at = sorted({origin - int(lag) for lag in (0, 1, 2, 23, 24, 47, 48)})
    for step in looks_at:
        values = panel.values.copy()
        values[step] = np.nan  # one of seven steps: 14 % of the history
        with pytest.raises(DataError, match=r"history incomplete: .*1 step: "):
            refuse_missing(replace(panel, values=values), LAGS, origin)
        values[step] = panel.values[step]
        values[step, :1] = np.nan  # one location of eleven: within the rule
        refuse_missing(replace(panel, values=values), LAGS, origin)


def test_P1_a_missing_origin_is_refused_although_the_history_is_not(panel: Panel) -> None:
    values = panel.values.copy()
    values[400, :2] = np.nan  # 2 of 11 at the origin, 2.6 % of the history
    with pytest.raises(DataError, match="18 % of the origin"):
        refuse_missing(replace(panel, values=values), LAGS, 400)


def test_a_missing_hour_outside_the_lags_does_not_matter(panel: Panel) -> None:
    values = panel.values.copy()
    values[390] = np.nan  # 400 looks at 377, 376, 353, 352 and the last three steps
    gap = replace(panel, values=values)
    refuse_missing(gap, LAGS, 400)
    with pytest.raises(DataError, match="history incomplete"):
        refuse_missing(gap, LAGS, 391)  # which does look at it


def test_what_is_filled_is_told_if_it_is_allowed(panel: Panel) -> None:
    values = panel.values.copy()
    values[500, :3] = np.nan
    holed = replace(panel, values=values)
    assert label_missing(panel, (LAGS,), 500, allowed=False) == []
    assert label_missing(holed, (LAGS,), 500, allowed=True) == ["3 missing values filled"]
    with pytest.raises(DataError, match="history incomplete"):
        label_missing(holed, (LAGS,), 500, allowed=False)
    other = LagConfig(recent=1, seasons=(), horizon=2)
    assert label_missing(holed, (LAGS, other), 501, allowed=True) == []  # one step of nine
    narrow = LagConfig(recent=2, seasons=(), horizon=2)
    with pytest.raises(DataError, match="history incomplete"):  # that a network looks at
        label_missing(holed, (LAGS, narrow), 501, allowed=False)


@pytest.mark.parametrize("absent", [1, 2, 3])
def test_P2_absent_covariates_ahead_are_listed(panel: Panel, absent: int) -> None:
    origin = HOURS - 1  # the panel knows three steps more
    short = panel.covariates.values.copy()
    short[HOURS + 3 - absent :] = np.nan
    changed = replace(panel, covariates=Covariates(("temperature", "rain"), short))
    with pytest.raises(DataError, match=r"temperature, rain at .*add them to the panel") as e:
        refuse_unknown_future(changed, origin, horizon=3)
    assert str(e.value).count("Z") == absent


def test_P2_beyond_the_known_steps_everything_is_lacking(panel: Panel) -> None:
    with pytest.raises(DataError, match="temperature, rain, queue at"):
        refuse_unknown_future(panel, HOURS - 1, horizon=4)


def test_weather_is_taken_to_stay_where_none_is_known_ahead(panel: Panel) -> None:
    assert choose_weather(panel, HOURS - 1, 3) == ("observed", None)
    weather, reason = choose_weather(panel, HOURS - 1, 4)
    assert (weather, str(reason).partition(":")[0]) == ("persist", "covariates")


def test_what_lies_ahead_is_taken_from_the_panel(panel: Panel) -> None:
    world, local = look_ahead(panel, np.array([5, HOURS + 1]), horizon=2)
    assert np.array_equal(world[0, :, 0], [6, 7])
    assert world[1, 0, 0] == HOURS + 2
    assert np.isnan(world[1, 1]).all()
    assert np.array_equal(local[0, 1, 0], panel.local_covariates.values[0, 7])
    assert np.isnan(local[1, 1]).all()


def test_weather_can_be_replaced(panel: Panel) -> None:
    origins = np.array([30, 200])
    inputs = ForecastInputs(panel, origins, *look_ahead(panel, origins, 2))
    climate = fit_climatology(panel, np.ones(HOURS, dtype=bool))
    persisted = with_weather(inputs, "persist", climate)
    assert np.array_equal(persisted.covariates[:, :, 0], [[30, 30], [200, 200]])
    assert np.array_equal(
        persisted.local_covariates[1, 1, 0], panel.local_covariates.values[0, 200]
    )
    usual = with_weather(inputs, "climatology", climate)
    hour = (panel.times[31] - np.timedelta64(4, "h")).astype("datetime64[h]").astype(int) % 24
    same_hour = panel.covariates.values[:HOURS][hour::24, 0]  # the panel begins at local midnight
    assert usual.covariates[0, 0, 0] == pytest.approx(same_hour.mean(), rel=1e-5)
    none = with_weather(inputs, "none", climate)
    assert np.ptp(none.covariates[:, :, 0]) == 0


def test_changes_replace_what_they_name_and_nothing_else(panel: Panel) -> None:
    origins = np.array([30, 200, 300])
    inputs = ForecastInputs(panel, origins, *look_ahead(panel, origins, 2))
    rain, queue = np.float32([7, np.nan]), np.float32([np.nan, 5])
    changed = with_changes(inputs, {"rain": rain, "queue": queue})
    assert (changed.covariates[:, 0, 1] == 7).all()
    assert np.array_equal(changed.covariates[:, 1, 1], inputs.covariates[:, 1, 1])
    assert np.array_equal(changed.covariates[..., 0], inputs.covariates[..., 0])
    assert (changed.local_covariates[:, 1] == 5).all()
    assert np.array_equal(changed.local_covariates[:, 0], inputs.local_covariates[:, 0])
    assert not (inputs.covariates == 7).any()  # the question itself stays
    assert changed.panel is panel


def test_an_unknown_weather_is_refused(panel: Panel) -> None:
    inputs = ForecastInputs(panel, np.array([30]), *look_ahead(panel, np.array([30]), 2))
    climate = fit_climatology(panel, np.ones(HOURS, dtype=bool))
    unchecked = inspect.unwrap(with_weather)  # the shape checker would refuse it first
    with pytest.raises(ConfigError, match="'sunny'"):
        unchecked(inputs, "sunny", climate)


def test_climatology_never_looks_at_held_out_steps(panel: Panel) -> None:
    train = np.arange(HOURS) < 500
    values = panel.covariates.values.copy()
    values[500:] = 1e6
    changed = replace(panel, covariates=Covariates(("temperature", "rain"), values))
    assert np.array_equal(fit_climatology(panel, train), fit_climatology(changed, train))


def test_locations_and_covariates_are_selected_by_name(panel: Panel) -> None:
    chosen = panel.select(("p7", "p2"))
    assert chosen.locations.ids == ("p7", "p2")
    assert np.array_equal(chosen.values, panel.values[:, [7, 2]])
    assert np.array_equal(
        chosen.local_covariates.values, panel.local_covariates.values[:, :, [7, 2]]
    )
    rain = panel.select_covariates(("rain",), ())
    assert rain.local_covariates.names == ()
    assert np.array_equal(rain.covariates.values[:, 0], panel.covariates.values[:, 1])


@pytest.fixture(scope="module")
def run() -> Run:
    fitted = SeasonalNaive(RECIPE).fit(CITY, Splits.by_share(CITY))
    assert fitted.run is not None
    return fitted.run


def test_inputs_have_no_holes_and_ends_at_its_last_origin(run: Run) -> None:
    inputs = prepare_inputs(run, CITY, np.array([700, 731]), "observed")
    assert np.isfinite(inputs.panel.values).all()
    assert inputs.panel.times[inputs.origins[1]] == CITY.times[731]
    assert len(inputs.panel.values) == inputs.origins[1] + 1
    np.testing.assert_array_equal(inputs.covariates[0], CITY.covariates.values[701:703])


def test_holes_are_filled_with_the_means_that_the_run_remembers(run: Run) -> None:
    values = CITY.values.copy()
    values[700, 3] = np.nan
    inputs = prepare_inputs(run, replace(CITY, values=values), np.array([700]), "observed")
    slot = CITY.clock.slot_of_season(CITY.times[700:701])[0]
    assert inputs.panel.values[-1, 3] == fill_of(run).values[slot, 3]


def test_covariates_that_nobody_knows_are_refused(run: Run) -> None:
    weather = CITY.covariates.values.copy()
    weather[702, 1] = np.nan
    holed = replace(CITY, covariates=replace(CITY.covariates, values=weather))
    prepare_inputs(run, holed, np.array([699]), "observed")
    with pytest.raises(DataError, match="covariates ahead are missing"):
        prepare_inputs(run, holed, np.array([699, 700]), "observed")
    prepare_inputs(run, holed, np.array([699, 700]), "persist")


def test_covariates_missing_while_all_are_closed_are_usual_as_in_training() -> None:
    weather, local = CITY.covariates.values.copy(), CITY.local_covariates.values.copy()
    closed = ~CITY.with_hours(["06:00-21:00"] * len(CITY.locations)).clock.is_open(
        CITY.clock.axis(CITY.start, len(weather))
    )
    missing = np.where(closed[:, None], np.float32(np.nan), weather)
    local[:, closed] = np.nan
    panel = CITY.with_data(covariates=missing, local_covariates=local)
    panel = panel.with_hours(["06:00-21:00"] * len(CITY.locations))
    run = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel)).run
    assert run is not None
    origin = 700 + int(np.argmax(closed[700:]) - 1)  # the last open step of a day
    inputs = prepare_inputs(run, panel, np.array([origin]), "observed")
    slots = panel.clock.slot_of_season(panel.times[origin + 1 : origin + 3])
    np.testing.assert_array_equal(inputs.covariates[0], fill_of(run).covariates[slots])
    usual = fill_of(run).local_covariates[:, slots].swapaxes(0, 1)
    np.testing.assert_array_equal(inputs.local_covariates[0], usual)
    refuse_unknown_future(panel, origin, 2)


def test_L6_windows_see_bounded_values_and_fill_repeated_ones() -> None:
    splits = Splits.by_share(CITY, validation=0.15, test=0.2)
    run = SeasonalNaive(recipe=RECIPE).fit(CITY, splits).run
    assert run is not None
    origin, values = len(CITY.values) - 3, CITY.values.copy()
    values[origin, 4] = 5000
    values[origin - 29 : origin + 1, 3] = 31
    wrong = replace(CITY, values=values)
    inputs = prepare_inputs(run, wrong, np.array([origin - 40, origin]), "observed")
    assert inputs.doubt is not None
    assert inputs.doubt.tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]
    assert inputs.rows(1, 2).doubt is not None
    assert inputs.rows(1, 2).doubt.tolist() == [[0, 0, 0, 1, 1]]  # type: ignore[union-attr]
    last = inputs.origins[1]
    assert 20 < inputs.panel.values[last, 4] < 200
    usual = fill_of(run).values[CITY.clock.slot_of_season(CITY.times[[origin]])[0]]
    assert inputs.panel.values[last, 3] == usual[3]
    assert wrong.values[origin, 4] == 5000
    assert np.isfinite(inputs.panel.values).all()


def test_L6_an_older_run_cannot_tell_which_values_are_implausible() -> None:
    splits = Splits.by_share(CITY, validation=0.15, test=0.2)
    run = SeasonalNaive(recipe=RECIPE).fit(CITY, splits).run
    assert run is not None
    ours = {n: a for n, a in run.arrays.items() if n not in ("shared.range", "shared.longest_run")}
    origin, values = len(CITY.values) - 3, CITY.values.copy()
    values[origin, 4] = 5000
    origins = np.array([origin])
    older = replace(run, arrays=ours)
    recent, steps, doubt = bounded_history(older, replace(CITY, values=values), origins)
    assert doubt is None
    assert recent.values[steps[0], 4] == 5000


# ---------------------------------------------------------------- past-only covariates

ORIGINS = np.array([601, 703, 997])


@pytest.fixture(scope="module")
def past_only_run() -> Run:
    panel = small_city().with_past_only(("temperature",))
    run = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel)).run
    assert run is not None
    return run


def test_past_only_covariates_ahead_are_those_of_the_origin() -> None:
    panel = CITY.with_past_only(("temperature",))
    covariates, _ = look_ahead(panel, ORIGINS, 2)
    at_origin = CITY.covariates.values[ORIGINS]
    assert np.array_equal(covariates[..., 0], np.stack([at_origin[:, 0]] * 2, axis=1))
    assert np.array_equal(covariates[..., 1], look_ahead(CITY, ORIGINS, 2)[0][..., 1])


def test_the_last_value_is_carried_to_the_origin_and_ahead(past_only_run: Run) -> None:
    shared = CITY.covariates.values.copy()
    shared[998:, 0], shared[598:602, 0], shared[670:704, 0] = np.nan, np.nan, np.nan
    panel = CITY.with_past_only(("temperature",)).with_data(covariates=shared)
    inputs = prepare_inputs(past_only_run, panel, ORIGINS, "observed")
    slot = panel.clock.slot_of_season(panel.times[[703]])
    usual = past_only_run.arrays["shared.fill_covariates"][slot, 0]
    expected = np.array([shared[597, 0], usual[0], shared[997, 0]])
    assert np.array_equal(inputs.covariates[:, 0, 0], expected)
    assert np.array_equal(inputs.covariates[:, 1, 0], expected)


@pytest.mark.parametrize("weather", ["persist", "climatology", "none"])
def test_assumed_weather_leaves_past_only_covariates_at_their_last_value(
    past_only_run: Run, weather: Weather
) -> None:
    panel = CITY.with_past_only(("temperature",))
    inputs = prepare_inputs(past_only_run, panel, ORIGINS, weather)
    at_origin = CITY.covariates.values[ORIGINS, 0]
    assert np.array_equal(inputs.covariates[..., 0], np.stack([at_origin] * 2, axis=1))


def test_a_future_of_past_only_covariates_is_not_needed() -> None:
    shared = CITY.covariates.values.copy()
    shared[990:, 0] = np.nan
    panel = CITY.with_data(covariates=shared)
    with pytest.raises(DataError, match="temperature"):
        refuse_unknown_future(panel, 990, 2)
    refuse_unknown_future(panel.with_past_only(("temperature",)), 990, 2)


def test_windows_do_not_need_past_only_covariates() -> None:
    shared = CITY.covariates.values.copy()
    shared[::2, 0] = np.nan
    panel, splits = CITY.with_data(covariates=shared), Splits.by_share(CITY)
    windows = cut_windows(panel.with_past_only(("temperature",)), splits, RECIPE.lags)
    assert np.array_equal(windows.train, cut_windows(CITY, splits, RECIPE.lags).train)
    with pytest.raises(DataError, match="covariates ahead missing"):
        cut_windows(panel, splits, RECIPE.lags)


def test_a_past_only_covariate_cannot_be_changed_ahead(past_only_run: Run) -> None:
    panel = CITY.with_past_only(("temperature",))
    changes = {"temperature": np.ones(2, dtype=np.float32)}
    with pytest.raises(ConfigError, match="what if: temperature: past-only"):
        prepare_inputs(past_only_run, panel, ORIGINS, "observed", changes)
