import logging
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.clock.holidays import Holidays
from forecaster.errors import ConfigError, DataError
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE
from forecaster.estimators.what_if import (
    add_changed,
    read_changes,
    training_ranges,
    warn_extreme_changes,
)
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.splits import Splits
from tests.report.comparisons import bare_panel

HOURS, PLACES, ORIGIN, HORIZON = 24 * 43, 5, 1009, 2
NAMES = ("temperature_c", "wind_mps", "precipitation_mm", "visibility_km", "rain", "windows_open")


@pytest.fixture(scope="module")
def panel() -> Panel:
    """Return counts that rain doubles, with weather and a covariate of each location."""
    generator = np.random.default_rng(0)
    world = generator.random((HOURS + 7, len(NAMES))).astype(np.float32)
    world[:, 4] = world[:, 4] > 0.7
    own = generator.random((1, HOURS + 7, PLACES)).astype(np.float32)
    values = generator.poisson(20 * (1 + world[:HOURS, 4])[:, None], (HOURS, PLACES))
    return replace(
        bare_panel(values),
        covariates=Covariates(NAMES, world),
        local_covariates=LocalCovariates(("queue",), own),
    )


@pytest.fixture(scope="module")
def fitted(panel: Panel) -> Ridge:
    return Ridge(RECIPE).fit(panel, Splits.by_share(panel))


def at(panel: Panel, step: int = ORIGIN) -> str:
    return f"{panel.times[step]}Z"


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("rain=1", "rain", 1.0),
        ("precip=5mm", "precipitation_mm", 5.0),
        ("precip=0.2in", "precipitation_mm", 5.08),
        ("temperature=70F", "temperature_c", 190 / 9),
        ("temp=-4 °F", "temperature_c", -20.0),
        ("TEMP=21c", "temperature_c", 21.0),
        ("temperature_c=21", "temperature_c", 21.0),
        ("wind_m=10mph", "wind_mps", 4.4704),
        ("wind_mps=3mps", "wind_mps", 3.0),
        ("wind_mps=3m/s", "wind_mps", 3.0),
        ("vis=2mi", "visibility_km", 3.218688),
        ("vis=5km", "visibility_km", 5.0),
        ("vis=5e-1", "visibility_km", 0.5),
        ("queue=7", "queue", 7.0),
    ],
)
def test_a_value_comes_in_the_unit_of_its_covariate(
    panel: Panel, text: str, name: str, value: float
) -> None:
    changes = read_changes(text, panel, ORIGIN, HORIZON)
    assert list(changes) == [name]
    assert changes[name] == pytest.approx([value] * HORIZON, rel=1e-6)


def test_a_mapping_says_the_same_as_a_text(panel: Panel) -> None:
    texts, mapped = (
        read_changes(given, panel, ORIGIN, HORIZON)
        for given in ("rain=1,precip=5mm", {"rain": 1.0, "precip": "5mm"})
    )
    assert list(texts) == list(mapped) == ["rain", "precipitation_mm"]
    assert all(np.array_equal(texts[name], mapped[name]) for name in texts)


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("rian=1", ["rian: no such covariate; did you mean 'rain'?"]),
        ("percip=1", ["percip: no such covariate; did you mean 'precipitation_mm'?"]),
        ("sun=1", ["sun: no such covariate; known: temperature_c, wind_mps, "]),
        ("wind=3", ["wind: several begin so: wind_mps, windows_open; write more of it"]),
        ("rain", ["'rain' changes nothing"]),
        ("rain=", ["'rain=' changes nothing"]),
        ("", ["'' changes nothing"]),
        ("=1", ["'=1' changes nothing"]),
        ("rain=1,rain=0", ["rain: given twice, as '1' and '0'"]),
        ("rain=1,rai=0", ["rai: rain is given twice"]),
        ("precip=5F", ["precipitation_mm: unknown unit 'F'; known: mm, in"]),
        ("precip=900mm", ["precipitation_mm: 900 is outside 0…200"]),
        ("temp=nan", ["temperature_c: 'nan' is not a number"]),
        ("rain=1mm", ["rain: '1mm' has a unit, but the unit of rain is unknown"]),
        ("rain=1e99", ["rain: '1e99' is too large"]),
        ("temp=x,sun=1,precip=5F", ["3 faults", "temperature_c: 'x'", "sun: no", "unit 'F'"]),
    ],
)
def test_faults_of_a_text_are_named_together(
    panel: Panel, text: str, complaints: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        read_changes(text, panel, ORIGIN, HORIZON)
    assert all(complaint in str(error.value) for complaint in complaints)


@cache  # fixtures are not for @given
def dry_panel() -> Panel:
    return replace(
        bare_panel(np.zeros((11, 2))), covariates=Covariates(("rain",), np.zeros((11, 1), "f4"))
    )


@given(text=st.text(max_size=23))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        changes = read_changes(f"{text}=1", dry_panel(), 5, HORIZON)
    except ConfigError:
        return
    assert list(changes) == ["rain"]


def test_a_panel_without_covariates_says_so() -> None:
    bare = bare_panel(np.zeros((HOURS, PLACES)))
    with pytest.raises(ConfigError, match="rain: no such covariate; the run knows none"):
        read_changes("rain=1", bare, ORIGIN, HORIZON)
    with pytest.raises(ConfigError, match="no covariate is given"):
        read_changes({}, bare, ORIGIN, HORIZON)


def test_a_table_changes_step_by_step(panel: Panel, tmp_path: Path) -> None:
    times = panel.known_times[ORIGIN + 1 : ORIGIN + 5]
    rows = {"rain": [1.0, None, 0.0, 1.0], "temp": [1.5, 2.5, None, 9.0]}
    table = pd.DataFrame({"ds": [f"{time}Z" for time in times], **rows}).iloc[[2, 0, 1, 3]]
    table.to_csv(tmp_path / "x=1.csv", index=False)
    for given_table in (table, str(tmp_path / "x=1.csv"), tmp_path / "x=1.csv"):
        changes = read_changes(given_table, panel, ORIGIN, HORIZON)
        np.testing.assert_array_equal(changes["rain"], [1, np.nan])
        np.testing.assert_array_equal(changes["temperature_c"], [1.5, 2.5])


def test_a_table_in_local_time_means_the_panels_zone(panel: Panel) -> None:
    local = panel.clock.local(panel.known_times[ORIGIN + 1 : ORIGIN + 2])
    table = pd.DataFrame({"ds": [str(local[0])], "rain": [1.0]})
    np.testing.assert_array_equal(read_changes(table, panel, ORIGIN, HORIZON)["rain"], [1, np.nan])


def test_a_table_of_other_steps_names_those_that_are_needed(panel: Panel) -> None:
    table = pd.DataFrame({"ds": ["2031-01-01T00:00Z"], "rian": [1.0]})
    with pytest.raises(DataError) as error:
        read_changes(table, panel, ORIGIN, HORIZON)
    assert "2 faults" in str(error.value)
    assert "did you mean 'rain'" in str(error.value)
    assert f"{panel.times[ORIGIN + 1]}Z" in str(error.value)


def test_a_table_without_times_is_refused(panel: Panel) -> None:
    with pytest.raises(DataError, match="no column 'ds'"):
        read_changes(pd.DataFrame({"rain": [1.0]}), panel, ORIGIN, HORIZON)


def test_a_forecast_tells_the_difference(panel: Panel, fitted: Ridge) -> None:
    usual = fitted.forecast(panel, at(panel))
    dry, wet = (fitted.forecast(panel, at(panel), what_if=f"rain={n}") for n in (0, 1))
    for table in (dry, wet):
        assert np.array_equal(table["y_hat"], usual["y_hat"])
        assert np.array_equal(table["difference"], table["y_hat_what_if"] - table["y_hat"])
    effect = wet["y_hat_what_if"] - dry["y_hat_what_if"]
    assert effect.to_numpy() == pytest.approx(np.full(len(effect), 20), rel=0.25)  # made above


def test_what_is_so_anyway_makes_no_difference(
    panel: Panel, fitted: Ridge, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = panel.covariates.values[ORIGIN + 1 : ORIGIN + 1 + HORIZON]
    times = [f"{time}Z" for time in panel.times[ORIGIN + 1 : ORIGIN + 1 + HORIZON]]
    same = pd.DataFrame(ahead, columns=list(NAMES)).assign(ds=times)
    table = fitted.forecast(panel, at(panel), what_if=same)
    assert not table["difference"].any()
    assert "Ridge forecasts the same: it does not use" in caplog.text


def test_an_estimator_without_covariates_says_that_nothing_changes(
    panel: Panel, caplog: pytest.LogCaptureFixture
) -> None:
    naive = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel))
    table = naive.forecast(panel, at(panel), what_if="rain=1")
    assert not table["difference"].any()
    assert "SeasonalNaive forecasts the same: it does not use rain" in caplog.text


def test_values_outside_training_are_warned_of(
    panel: Panel, fitted: Ridge, caplog: pytest.LogCaptureFixture
) -> None:
    fitted.forecast(panel, at(panel), what_if="rain=1,precip=0.5,queue=0.5")
    assert not caplog.text
    fitted.forecast(panel, at(panel), what_if="rain=1,precip=5mm,queue=-3")
    assert "precipitation_mm = 5 lies outside training (" in caplog.text
    assert "queue = -3 lies outside training (" in caplog.text
    assert "rain =" not in caplog.text


def test_ranges_see_the_training_steps_only(panel: Panel) -> None:
    train = np.arange(HOURS) < 701
    ranges = training_ranges(panel, train)
    world, own = panel.covariates.values[:701], panel.local_covariates.values[:, :701]
    np.testing.assert_array_equal(
        ranges["shared.covariate_range"], [world.min(axis=0), world.max(axis=0)]
    )
    np.testing.assert_array_equal(ranges["shared.local_range"], [[own.min()], [own.max()]])


def test_a_run_from_before_ranges_warns_of_nothing(
    panel: Panel, fitted: Ridge, caplog: pytest.LogCaptureFixture
) -> None:
    run = fitted.run
    assert run is not None
    arrays = {n: a for n, a in run.arrays.items() if not n.endswith("_range")}
    old = type(run)(run.estimator, run.recipe, run.about, arrays)
    warn_extreme_changes(old, read_changes("precip=99", panel, ORIGIN, HORIZON))
    assert not caplog.text
    assert Ridge.from_run(old).forecast(panel, at(panel), what_if="rain=0.5")["difference"].any()


def test_the_columns_follow_the_locations_of_the_table(fitted: Ridge) -> None:
    run = fitted.run
    assert run is not None
    changed = np.arange(6, dtype=np.float32).reshape(2, 3)  # [K, N]
    table = pd.DataFrame({"y_hat": np.float32([0, 3, 1, 4, 2, 7])})  # location by location
    with_it = add_changed(table.assign(degraded="so"), changed, {0.025: changed + 7}, run, {})
    columns = ["y_hat", "y_hat_what_if", "q2.5_what_if", "difference", "degraded"]
    assert with_it.columns.tolist() == columns
    assert with_it["y_hat_what_if"].tolist() == [0, 3, 1, 4, 2, 5]
    assert with_it["q2.5_what_if"].tolist() == [7, 10, 8, 11, 9, 12]
    assert with_it["difference"].tolist() == [0, 0, 0, 0, 0, -2]


def test_what_is_supposed_has_quantiles_of_the_same_calibration(
    panel: Panel, fitted: Ridge
) -> None:
    ahead = panel.covariates.values[ORIGIN + 1 : ORIGIN + 1 + HORIZON]
    times = [f"{time}Z" for time in panel.times[ORIGIN + 1 : ORIGIN + 1 + HORIZON]]
    same = pd.DataFrame(ahead, columns=list(NAMES)).assign(ds=times)
    table = fitted.forecast(panel, at(panel), what_if=same)
    for level in ("q10", "q50", "q90"):
        assert np.array_equal(table[f"{level}_what_if"], table[level])
    wet = fitted.forecast(panel, at(panel), what_if="rain=1")
    truth = fitted.forecast(with_rain(panel), at(panel))  # rain that is known of ahead
    for level in ("y_hat", "q10", "q50", "q90"):
        assert wet[f"{level}_what_if"].to_numpy() == pytest.approx(truth[level].to_numpy())


def with_rain(panel: Panel) -> Panel:
    """Return the panel with rain after the origin."""
    world = panel.covariates.values.copy()
    world[ORIGIN + 1 :, 4] = 1
    return replace(panel, covariates=Covariates(NAMES, world))


# --------------------------------------------------------------------------------- holidays

FREE = Holidays("DE", 2021, 2031, ("2021-03-08", "2021-03-17", "2021-04-13"))


@pytest.fixture(scope="module")
def feasts() -> tuple[Panel, Ridge]:
    """Return counts that are half as large on holidays, and who has learned from them."""
    generator = np.random.default_rng(0)
    bare = bare_panel(np.zeros((HOURS, PLACES)))
    clock = replace(bare.clock, holidays=FREE)
    free = clock.calendar(bare.times)[:, -1] > 0
    values = generator.poisson(np.where(free, 20, 40)[:, None], (HOURS, PLACES))
    panel = replace(bare, values=values.astype(np.float32), clock=clock)
    return panel, Ridge(RECIPE).fit(panel, Splits.by_share(panel))


@pytest.mark.parametrize("text", ["holiday=1", "holi=1.0", "Holiday=1"])
def test_a_day_may_be_supposed_to_be_a_holiday(feasts: tuple[Panel, Ridge], text: str) -> None:
    panel, ridge = feasts
    table = ridge.forecast(panel, at(panel, 1000), what_if=text)
    share = float((table["y_hat_what_if"] / table["y_hat"]).mean())
    assert share == pytest.approx(0.5, abs=0.2)  # made above; the penalty takes some of it
    assert (table["q90_what_if"] < table["q90"]).all()


def test_a_holiday_may_be_supposed_to_be_a_plain_day(feasts: tuple[Panel, Ridge]) -> None:
    panel, ridge = feasts
    origin = 24 * 43 - 2  # 2021-04-13T00:00 in Berlin
    table = ridge.forecast(panel, at(panel, origin), what_if="holiday=0")
    assert (table["difference"] > 0).all()


def test_a_holiday_is_one_or_not(feasts: tuple[Panel, Ridge]) -> None:
    panel, _ = feasts
    for text in ("holiday=2", "holiday=0.5", "holiday=-1"):
        with pytest.raises(ConfigError, match=r"holiday: 1 \(a holiday\) or 0"):
            read_changes(text, panel, ORIGIN, HORIZON)
    table = pd.DataFrame({"ds": [f"{panel.times[ORIGIN + 1]}Z"], "holiday": [7.0]})
    with pytest.raises(DataError, match=r"holiday: 1 \(a holiday"):
        read_changes(table, panel, ORIGIN, HORIZON)


def test_a_run_without_holidays_says_what_to_do(panel: Panel) -> None:
    with pytest.raises(ConfigError, match=r"no holidays; make its panel with a country and train"):
        read_changes("holiday=1", panel, ORIGIN, HORIZON)


def test_a_training_without_any_holiday_is_warned_of(
    feasts: tuple[Panel, Ridge], caplog: pytest.LogCaptureFixture
) -> None:
    panel, ridge = feasts
    ridge.forecast(panel, at(panel, 1000), what_if="holiday=1")
    assert not caplog.text
    late = replace(FREE, dates=("2021-04-13",))
    plain = replace(panel, clock=replace(panel.clock, holidays=late))
    other = Ridge(RECIPE).fit(plain, Splits.by_share(plain))
    other.forecast(plain, at(plain, 1000), what_if="holiday=0")
    assert "no day of training was a holiday" not in caplog.text
    other.forecast(plain, at(plain, 1000), what_if="holiday=1")
    assert "no day of training was a holiday; the effect of holiday is a guess" in caplog.text


@pytest.fixture(autouse=True)
def _hear_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def test_a_past_only_covariate_is_refused_by_name(panel: Panel) -> None:
    with pytest.raises(ConfigError, match="queue: past-only, so that no value ahead of the orig"):
        read_changes("rain=1,queue=2", panel.with_past_only(("queue",)), ORIGIN, HORIZON)
