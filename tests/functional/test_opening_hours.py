"""Forecasts of places that close: a metro at night, shops on Sundays, a school in August."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import GraphConfig, LagConfig, Season
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.boosting import Boosting
from forecaster.estimators.baselines.naive import HistoricalMean, LastValue, SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.baselines.var import VAR
from forecaster.estimators.networks.dcrnn import DCRNN
from forecaster.estimators.networks.transformer import Transformer
from forecaster.graph.learn import learn_graph
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.predictor import SnapshotPredictor
from forecaster.splits import Splits, cut_windows

PLACES = 3


def table(times: pd.DatetimeIndex) -> pd.DataFrame:
    """Return counts that grow with the hour of the day and differ by place."""
    rng = np.random.default_rng(5)
    level = 5 + times.hour.to_numpy()[:, None] * np.array([1, 2, 3])
    frame = pd.DataFrame(rng.poisson(level), columns=list("abc")).astype(float)
    return frame.assign(time=times)


def metro() -> Panel:
    times = pd.date_range("2019-06-03", "2019-07-05 23:00", freq="h")
    frame = table(times)
    time = frame["time"].dt
    is_open = (time.day_of_week < 5) & (time.hour >= 5) & (time.hour < 23)
    return Panel.from_wide(frame[is_open], timezone="UTC")  # 25 working days of 18 hours


DAY, WEEK = Season(days=1, count=2, before=1, after=3), Season(days=7, count=1, before=0, after=3)
LAGS = LagConfig(recent=3, seasons=(DAY, WEEK), horizon=3)
SPLITS = Splits(
    train=[("2019-06-03", "2019-06-23")],
    validation=[("2019-06-24", "2019-06-28")],
    test=[("2019-07-01", "2019-07-05")],
)


def test_L10_every_open_morning_of_a_metro_has_windows() -> None:
    panel = metro()
    windows = cut_windows(panel, SPLITS, LAGS)
    ahead = windows.test[:, None] + np.arange(1, 4)
    targets = np.unique(ahead[np.isfinite(panel.values[ahead]).all(axis=2)])
    assert len(targets) == 5 * 18
    assert windows.dropped["too little history observed"] == 0
    assert np.isfinite(panel.values[ahead]).any(axis=(1, 2)).all()  # none without an open target


MODELS = [LastValue, SeasonalNaive, HistoricalMean, Ridge, VAR, Boosting, DCRNN, Transformer]


@pytest.mark.parametrize("model", MODELS)
def test_L10_a_metro_is_forecast_at_zero_by_night_and_from_the_evening_before(
    model: type[Estimator],
) -> None:
    panel = metro()
    small = {"training": {"epochs": 1}, "dcrnn": {"units": 3, "inputs": "lags"}}
    small |= {"model": {"per_location": 2, "auxiliary": 4, "heads": 2}}
    fitted = model(change(Recipe(lags=LAGS), small, source="test")).fit(panel, SPLITS)
    monday = fitted.forecast(panel, "2019-07-01T03:00+00:00")  # 04:00 is closed
    first = monday[monday["unique_id"] == "c"]
    assert first["degraded"].tolist() == ["closed", "", ""]
    assert first[["y_hat", "q10", "q90"]].iloc[0].tolist() == [0, 0, 0]
    assert (first["y_hat"].iloc[1:] > 0).all()
    if model is LastValue:
        friday = panel.values[panel.times == np.datetime64("2019-06-28T22:00")]
        assert first["y_hat"].tolist() == [0, friday[0, 2], friday[0, 2]]
    if model is SeasonalNaive:
        monday_before = panel.values[panel.times == np.datetime64("2019-06-24T05:00")]
        assert first["y_hat"].iloc[1] == monday_before[0, 2]


def test_L10_a_panel_without_hours_takes_those_of_the_run() -> None:
    panel = metro()
    fitted = SeasonalNaive(Recipe(lags=LAGS)).fit(panel, SPLITS)
    zeros = Panel.from_wide(
        panel.to_wide().fillna(0.0), timezone="UTC", hours="always"
    )  # zeros at night
    origins = np.flatnonzero(panel.times == np.datetime64("2019-07-02T03:00"))
    assert np.array_equal(fitted.predict(zeros, origins), fitted.predict(panel, origins))


def test_L10_closed_measurements_have_no_rows() -> None:
    frame = table(pd.date_range("2019-06-03", "2019-07-05 23:00", freq="h"))
    frame = frame[frame["time"].dt.hour >= 5]
    panel = Panel.from_wide(frame, timezone="UTC", kind="measurement")
    fitted = HistoricalMean(Recipe(lags=LAGS)).fit(panel, SPLITS)
    night = fitted.forecast(panel, "2019-07-02T02:00+00:00")
    assert night["ds_local"].unique().tolist() == ["2019-07-02T05:00:00+00:00"]


def test_L10_shops_that_close_on_sundays_are_not_closed_for_good_and_skip_them() -> None:
    days = pd.date_range("2019-01-01", periods=300, freq="D")
    frame = pd.DataFrame(
        {"time": days, "a": days.day_of_week + 10.0, "b": 20.0 + days.day_of_week}
    )
    frame = frame[frame["time"].dt.day_of_week < 6]
    panel = Panel.from_wide(frame, timezone="UTC", step_minutes=1440)
    lags = LagConfig(recent=7, seasons=(Season(days=7, count=2, before=0, after=0),), horizon=2)
    fitted = SeasonalNaive(Recipe(lags=lags)).fit(panel, Splits.by_share(panel))
    saturday = fitted.forecast(panel, "2019-10-26T00:00+00:00")
    assert saturday["y_hat"].tolist() == [0, 10, 0, 20]  # Sunday, Monday
    assert saturday["degraded"].tolist() == ["closed", "", "closed", ""]


def test_L10_a_school_in_august_has_no_windows_and_begins_with_june() -> None:
    times = pd.date_range("2019-05-06", "2019-09-20 23:00", freq="h")
    panel = Panel.from_wide(table(times), timezone="UTC", hours="06:00-18:00; Jul-Aug off")
    ranges = [("2019-05-06", "2019-06-15")], [("2019-06-16", "2019-06-30")], [
        ("2019-07-01", "2019-09-20")]  # fmt: skip
    splits = Splits(*ranges)
    windows = cut_windows(panel, splits, LAGS)
    assert panel.times[windows.test].min() >= np.datetime64("2019-08-31T00:00")
    fitted = SeasonalNaive(Recipe(lags=LAGS)).fit(panel, splits)
    first = fitted.forecast(panel, "2019-09-01T05:00+00:00")  # a Sunday
    june = panel.values[panel.times == np.datetime64("2019-06-30T06:00")]
    assert first["y_hat"].iloc[0] == june[0, 0]


def test_L10_the_service_answers_before_a_morning_and_marks_the_night() -> None:
    panel = metro()
    fitted = SeasonalNaive(Recipe(lags=LAGS)).fit(panel, SPLITS)
    night = int(np.flatnonzero(panel.times == np.datetime64("2019-07-02T03:00"))[0])
    model, snapshot, predictor = (
        ServedModel(fitted, "0" * 12),
        Snapshot(panel),
        SnapshotPredictor(),
    )
    while (served := predictor.predict(model, snapshot, night)) is None:
        pass
    table = fitted.forecast(panel, "2019-07-02T03:00+00:00")
    assert np.allclose(served.y_hat.T.ravel(), table["y_hat"])
    assert served.closed is not None
    assert served.closed.tolist() == [[True] * PLACES, [False] * PLACES, [False] * PLACES]
    assert served.degraded is None
    assert not served.doubts


def test_L10_a_graph_is_learned_from_open_steps_only() -> None:
    panel = metro()
    graph = learn_graph(panel, SPLITS, GraphConfig(kind="inverse"))
    assert graph.about.steps == 15 * 18
    assert graph.about.dropped_steps == 0  # nights are no gaps


def test_a_run_that_was_fitted_without_hours_keeps_its_lags() -> None:
    times = pd.date_range("2019-06-03", "2019-07-05 23:00", freq="h")
    always = Panel.from_wide(table(times), timezone="UTC")
    fitted = SeasonalNaive(Recipe(lags=LAGS)).fit(always, SPLITS)
    panel = Panel.from_wide(table(times), timezone="UTC", hours="05:00-23:00")
    matched = fitted.adapt(panel)[1]
    assert matched.clock.hours == ()
    assert not matched.alive(0, 5).any()
    night = fitted.forecast(panel, "2019-07-02T03:00+00:00")
    assert night.groupby("unique_id")["degraded"].first().tolist() == ["closed"] * PLACES


def test_L10_ingest_takes_hours_from_an_option_and_from_the_locations(
    tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    times = pd.date_range("2019-06-03", periods=24 * 15, freq="h")
    frame = table(times)
    frame = frame[frame["time"].dt.hour >= 5]
    frame.to_csv(tmp_path / "metro.csv", index=False)
    hours = ["05:00-24:00", "Mon-Fri 05:00-24:00", "05:00-24:00"]
    pd.DataFrame({"id": list("abc"), "hours": hours}).to_csv(tmp_path / "places.csv", index=False)
    holidays = "06:00-20:00; PH off"
    command = "ingest", "table", tmp_path / "metro.csv", "--timezone", "UTC", "--out"
    for name, options, expected in (
        ("found", [], ("05:00-24:00",) * 3),
        ("given", ["--hours", holidays, "--country", "DE"], (holidays,) * 3),
        ("always", ["--hours", "always"], ("",) * 3),
        ("places", ["--locations", tmp_path / "places.csv"], tuple(hours)),
    ):
        code, output, errors = run(*command, tmp_path / name, *options)
        assert code == 0, errors
        assert Panel.open(tmp_path / name).locations.hours == expected
        assert ("opening hours" in output) == (name != "always")
