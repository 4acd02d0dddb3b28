from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.config import LagConfig, MetricConfig
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.report.doctor.checkup import Checkup, Finding, examine

HOURS, PLACES = 24 * 7 * 11, 7
Change = Callable[[np.ndarray, pd.DatetimeIndex], None]


@pytest.fixture
def checkup() -> Callable[..., Checkup]:
    """Return a function that examines an ordinary city after a change to its values."""

    def make(change: Change | None = None, recipe: Recipe | None = None, **given: Any) -> Checkup:
        times = pd.date_range("2015-02-01", periods=HOURS, freq="h", tz="America/New_York")
        generator = np.random.default_rng(3)
        hourly = 30 + 20 * np.sin(times.hour.to_numpy() / 24 * 2 * np.pi)
        values = generator.poisson(np.outer(hourly, np.linspace(1, 3, PLACES))).astype(float)
        if change is not None:
            change(values, times)
        frame = pd.DataFrame(values, columns=[f"p{n}" for n in range(PLACES)])
        frame.insert(0, "time", times.tz_convert("UTC"))
        given = {"timezone": "America/New_York", **given}
        return examine(Panel.from_wide(frame, **given), recipe or Recipe())

    return make


def topic(checkup: Checkup, name: str) -> Finding:
    return next(finding for finding in checkup.findings if finding.topic == name)


def test_an_ordinary_city_has_no_warning(checkup: Callable[..., Checkup]) -> None:
    found = checkup()
    assert [finding for finding in found.findings if finding.level == "warning"] == []
    assert found.facts["span"].startswith("2015-02-01 00:00 …")
    assert found.facts["observed"] == "100.00 %"


def test_missing_hours_are_listed(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[100:103] = np.nan
        values[200:300, 4] = np.nan

    gaps = topic(checkup(change), "gaps")
    assert gaps.level == "note"
    assert "3 steps at every location" in gaps.text
    assert "3 steps without any value: 2015-02-05 04:00 … 2015-02-05 06:00" in gaps.details
    assert any(detail.startswith("p4: 5.6 % missing") for detail in gaps.details)


def test_many_missing_values_are_a_warning(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[: HOURS // 5] = np.nan

    assert topic(checkup(change), "gaps").level == "warning"


def test_zeros_where_many_were_usual_are_named(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[400:405, 2] = 0
        values[600:602] = 0

    zeros = topic(checkup(change), "zeros")
    assert zeros.level == "warning"
    assert any(d.startswith("zero everywhere: 2015-02-26 00:00") for d in zeros.details)
    assert any(d.startswith("p2: 2015-02-17 16:00, 5 steps") for d in zeros.details)


def test_a_quiet_place_may_have_zeros(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[:, 2] = np.random.default_rng(5).poisson(0.2, HOURS)

    zeros = topic(checkup(change), "zeros")
    assert zeros.level == "good"
    assert "of values are zero, none where many are expected" in zeros.text


def test_the_clock_changes_of_the_span_are_listed(checkup: Callable[..., Checkup]) -> None:
    changes = topic(checkup(), "clock changes")
    assert changes.level == "good"
    assert len(changes.details) == 1
    assert changes.details[0].startswith("2015-03-08, clocks forward 60 min: ")


def test_a_false_zero_at_a_clock_change_is_a_warning(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, times: pd.DatetimeIndex) -> None:
        values[times.tz_convert("UTC") == pd.Timestamp("2015-03-08T07:00Z")] = 0

    changes = topic(checkup(change), "clock changes")
    assert changes.level == "warning"
    assert "0 counted" in changes.details[0]


def test_two_hours_in_one_at_a_clock_change_are_a_warning(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, times: pd.DatetimeIndex) -> None:
        values[times.tz_convert("UTC") == pd.Timestamp("2015-03-08T07:00Z")] *= 2

    assert topic(checkup(change), "clock changes").level == "warning"


def test_places_that_say_nothing_are_named(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[:, 1], values[:, 3], values[:, 5] = 0, 17, np.nan

    places = topic(checkup(change), "locations")
    assert places.level == "warning"
    assert places.text.startswith("3 locations of 7 are constant or empty")
    assert places.details[:3] == ("never observed: p5", "always zero: p1", "constant: p3")


def test_doubtful_values_are_shown_where_there_are_any(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[HOURS - 90 : HOURS - 40, 2] = 57
        values[HOURS - 30 : HOURS - 10 : 2, 5] = 4_000

    topics = {"implausible values", "repeated values"}
    assert not topics & {finding.topic for finding in checkup().findings}
    found = checkup(change)
    implausible, repeated = topic(found, "implausible values"), topic(found, "repeated values")
    assert implausible.text == "10 values outside what is plausible by training"
    assert [detail.startswith("p5, 2015-04-") for detail in implausible.details[:6]] == [True] * 6
    assert implausible.details[6:] == ("… and 4 more",)
    assert (repeated.level, len(repeated.details)) == ("warning", 1)
    assert repeated.text == "1 run of one value, longer than training has"


def test_an_outlier_is_shown_beside_the_usual(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[500, 6] = 5_000

    outliers = topic(checkup(change), "outliers")
    assert outliers.text.startswith("1 value over 10 robust deviations")
    assert outliers.details[0].startswith("p6, 2015-02-21 20:00: 5,000 where ")


def test_the_share_of_mape_targets_is_told(checkup: Callable[..., Checkup]) -> None:
    recipe = Recipe(metrics=MetricConfig(mape_cut=1_000.0))
    targets = topic(checkup(recipe=recipe), "MAPE targets")
    assert targets.level == "warning"
    assert targets.text.startswith("0.0 % of values are ≥ 1000")
    assert topic(checkup(), "MAPE targets").level == "good"


def test_the_history_is_counted_in_windows(checkup: Callable[..., Checkup]) -> None:
    history = topic(checkup(), "history")
    assert (
        "needs 506 past steps and 3 future steps" in history.text
    )  # three weeks of 77 days; 507 after an autumn change
    assert f"{HOURS - 506 - 3 + 1:,} windows" in history.text
    short = Recipe(lags=LagConfig(recent=HOURS, seasons=()))
    assert topic(checkup(recipe=short), "history").text.endswith("3 steps too few")


def test_covariates_and_their_holes_are_listed(checkup: Callable[..., Checkup]) -> None:
    times = pd.date_range("2015-02-01", periods=HOURS + 5, freq="h", tz="America/New_York")
    weather = pd.DataFrame({"ds": times, "rain": np.arange(len(times), dtype=float)})
    weather.loc[:9, "rain"] = np.nan
    covariates = topic(checkup(covariates=weather), "covariates")
    assert covariates.text == "rain; available 5 steps beyond the last value"
    assert covariates.details == ("rain: 0.54 % missing",)


def test_holidays_are_counted_or_said_to_be_lacking(checkup: Callable[..., Checkup]) -> None:
    assert topic(checkup(), "holidays").text.startswith("none recorded")
    assert topic(checkup(country="US"), "holidays").text.startswith("1 day in this span; US")


def test_a_stuck_sensor_is_named(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values += np.random.default_rng(1).normal(size=values.shape)
        values[300:330, 2] = 21.5

    found = checkup(change, kind="measurement")
    stuck = topic(found, "stuck values")
    assert stuck.level == "warning"
    assert stuck.details == ("p2: 21.5 from 2015-02-13 12:00, 30 steps",)


def test_a_panel_without_any_value_can_be_examined(checkup: Callable[..., Checkup]) -> None:
    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[:] = np.nan

    found = checkup(change)
    assert found.facts["kind"] == "count, nothing observed"
    assert topic(found, "locations").level == "warning"


def test_the_page_is_data_too(checkup: Callable[..., Checkup]) -> None:
    found = checkup()
    data = found.to_json()
    assert data["warnings"] == 0
    assert "gaps" in {finding["topic"] for finding in data["findings"]}


def test_openings_closings_and_censored_hours_are_told(checkup: Callable[..., Checkup]) -> None:
    topics = {finding.topic for finding in checkup().findings}
    assert not topics & {"openings", "closings", "censored values"}

    def change(values: np.ndarray, _: pd.DatetimeIndex) -> None:
        values[-24 * 5 :, 2] = 0

    places = pd.DataFrame({"id": [f"p{n}" for n in range(PLACES)]})
    places["opens"] = [None, "2015-02-08", *[None] * (PLACES - 2)]
    found = checkup(change, locations=places)
    assert topic(found, "gaps").level == "good"  # before it opens there is no gap
    openings = topic(found, "openings")
    assert "1 location with a date of opening in this span, 0 locations" in openings.text
    assert "168 values outside these lives left out" in openings.text
    closings = topic(found, "closings")
    assert closings.details[0].startswith("p2: closed: no value above 0 since 2015-04-14T01:00")
    assert found.facts["observed"] == "100.00 %"


def test_censored_hours_are_counted() -> None:
    times = pd.date_range("2015-02-01", periods=HOURS, freq="h", tz="UTC")
    rows = pd.DataFrame(
        {"unique_id": "a", "ds": times, "y": 5, "full": [1] * 10 + [0] * (HOURS - 10)}
    )
    panel = Panel.from_long(rows, timezone="UTC", censored="full")
    censored = topic(examine(panel, Recipe()), "censored values")
    assert censored.text == "10 values (0.54 %) by full are no targets"


def test_L10_opening_hours_are_told_and_closed_steps_are_no_gaps(
    checkup: Callable[..., Checkup],
) -> None:
    def change(values: np.ndarray, times: pd.DatetimeIndex) -> None:
        values[times.hour < 6] = np.nan

    found = checkup(change)
    assert topic(found, "gaps").level == "good"
    hours = topic(found, "opening hours")
    assert hours.text == "06:00-24:00 (found in regular gaps); 25 % of steps are closed"
    wrong = topic(checkup(hours="07:00-24:00"), "opening hours")
    assert wrong.level == "warning"
    assert "(given); 29 % of steps are closed; 3,773 values there left out" in wrong.text


def test_past_only_covariates_are_told_apart(checkup: Callable[..., Checkup]) -> None:
    times = pd.date_range("2015-02-01", periods=HOURS + 5, freq="h", tz="America/New_York")
    weather = pd.DataFrame({"ds": times, "rain": 1.0, "humidity": 7.0})
    covariates = topic(checkup(covariates=weather, past_only=("humidity",)), "covariates")
    known = "rain; available 5 steps beyond the last value"
    assert covariates.text == f"{known}; past-only, unknown ahead: humidity"
