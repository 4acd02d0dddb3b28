from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.errors import ConfigError, DataError
from forecaster.estimators.areas import (
    Areas,
    add_areas,
    area_predictors,
    calibrate_area,
    match_areas,
    read_areas,
    sum_members,
    sum_observed,
)
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import HOURS, RECIPE, small_city
from forecaster.estimators.forecast_inputs import Changes, ForecastInputs, prepare_inputs
from forecaster.estimators.intervals.calibration import Calibration
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.predictor import Prediction
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.recipe import change
from forecaster.splits import Splits, cut_windows
from forecaster.synthetic.city import make_city

PLACES = Locations.of_ids(["a", "b", "c", "7"])
Rows = dict[str, pd.DataFrame]
ORIGINS = np.array([HOURS - 41, HOURS - 7])


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_city()


@pytest.fixture(scope="module")
def fitted(panel: Panel) -> Ridge:
    return Ridge(RECIPE).fit(panel, Splits.by_share(panel, validation=0.15))


def predict_areas(
    estimator: Estimator,
    panel: Panel,
    origins: np.ndarray,
    areas: Areas,
    weather: Weather = "observed",
) -> list[Prediction]:
    """Return what is forecast of each area."""
    predictor, run = estimator.predictor(panel, weather), estimator.run
    assert run is not None
    matched = match_areas(areas, panel, predictor.panel)
    return [area.predict(origins) for area in area_predictors(run, predictor, matched)]


def areas_of(**members: list[int]) -> Areas:
    chosen = np.zeros((len(members), 5), dtype=bool)
    for row, places in zip(chosen, members.values(), strict=True):
        row[places] = True
    return Areas(tuple(members), chosen)


@pytest.mark.parametrize("column", ["id", "unique_id"])
def test_areas_may_overlap(column: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"area": ["x", "w", "x", "1"], column: ["b", "b", "7", "a"]})
    table.to_csv(tmp_path / "areas.csv", index=False)
    for source in (table, tmp_path / "areas.csv"):
        areas = read_areas(source, PLACES)
        assert areas.names == ("x", "w", "1")
        expected = [[0, 1, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0]]
        assert np.array_equal(areas.members, np.array(expected, dtype=bool))


def test_all_faults_of_the_areas_are_named_at_once() -> None:
    rows = [("x", "a"), ("x", "a"), ("w", "place c"), ("c", "b"), (" z", "nobody")]
    with pytest.raises(DataError) as error:
        read_areas(pd.DataFrame(rows, columns=["area", "id"]), PLACES)
    for complaint in (
        "table: 4 faults",
        "1 area not usable: ' z'",
        "1 area named like a location: c; give it another name",
        "1 row given twice: row 2 (x, a)",
        "2 unknown ids: place c, nobody; known: a, b, c, 7",
    ):
        assert complaint in str(error.value)


def test_a_misspelt_id_has_a_hint() -> None:
    table = pd.DataFrame({"area": ["x"], "id": ["plaza"]})
    with pytest.raises(DataError, match="unknown id: plaza; did you mean 'plaza 1'"):
        read_areas(table, Locations.of_ids(["plaza 1", "b"]))


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"area": ["x", "y"], "id": ["a", None]}, "1 row without an id: row 2"),
        ({"area": [None, "y"], "id": ["a", "b"]}, "1 row without an id: row 1"),
        ({"area": [], "id": []}, "no rows"),
        ({"area": ["x"]}, "no column 'id'"),
        ({"id": ["a"]}, "no column 'area'"),
    ],
)
def test_an_empty_area_is_refused(columns: dict[str, list[str]], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        read_areas(pd.DataFrame(columns, dtype="string"), PLACES)


def test_the_others_stand_for_a_few_missing_locations() -> None:
    values = np.ones((3, 20), dtype=np.float32)
    values[1, :2], values[2, :3] = np.nan, np.nan  # 10 % may be missing
    np.testing.assert_allclose(sum_observed(values), [20, 20, np.nan])


def test_the_only_location_of_a_panel_is_an_area_like_itself() -> None:
    whole = small_city()
    alone = replace(
        whole.select(("place 3",)),
        local_covariates=LocalCovariates((), np.empty((0, len(whole.known_times), 1), np.float32)),
    )
    estimator = HistoricalMean(RECIPE).fit(alone, Splits.by_share(alone))
    area = Areas(("x",), np.array([[True]]))
    (found,), own = (
        predict_areas(estimator, alone, ORIGINS, area),
        estimator.predict_all(alone, ORIGINS),
    )
    assert np.array_equal(found.forecast, own.forecast)
    assert np.array_equal(found.static, own.static)
    assert np.array_equal(found.online, own.online)


def test_an_area_does_not_depend_on_the_others(panel: Panel, fitted: Ridge) -> None:
    _, both = predict_areas(fitted, panel, ORIGINS, areas_of(x=[0, 3], y=[1, 2, 3]))
    (alone,) = predict_areas(fitted, panel, ORIGINS, areas_of(y=[1, 2, 3]))
    assert both.online.shape == (2, 3, 2, 1)  # [B, Q, K, 1]
    assert np.array_equal(both.online, alone.online)
    assert (np.diff(both.online, axis=1) >= 0).all()


def test_locations_are_found_in_any_order(panel: Panel, fitted: Ridge) -> None:
    (here,) = predict_areas(fitted, panel, ORIGINS, areas_of(x=[0, 3]))
    turned = panel.select(panel.locations.ids[::-1])
    (there,) = predict_areas(fitted, turned, ORIGINS, areas_of(x=[4, 1]))
    assert np.array_equal(here.online, there.online)


def test_doubtful_values_of_a_location_are_no_outcomes_of_its_area(
    panel: Panel, fitted: Ridge
) -> None:
    def observed(steps: np.ndarray) -> np.ndarray:
        values = panel.values[steps].copy()
        values[steps == HOURS - 50, 3] = np.nan
        return values

    def counts(steps: np.ndarray) -> np.ndarray:
        return (steps != HOURS - 60)[:, None] | (np.arange(5) != 3)

    predictor = replace(fitted.predictor(panel, "observed"), observed=observed, counts=counts)
    areas = areas_of(x=[0, 3], y=[1, 2])
    assert fitted.run is not None
    with_it, without = area_predictors(fitted.run, predictor, areas)
    steps = np.array([HOURS - 60, HOURS - 50, HOURS - 49])
    assert np.isnan(with_it.outcomes(steps)[:, 0]).tolist() == [False, True, False]
    assert with_it.counts(steps).tolist() == [False, True, True]
    np.testing.assert_array_equal(without.outcomes(steps), without.panel.values[steps])
    assert without.counts(steps).all()


def test_nothing_after_the_origin_is_seen(panel: Panel, fitted: Ridge) -> None:
    values = panel.values.copy()
    values[ORIGINS[0] + 1 :] = 977
    later = replace(panel, values=values)
    (here,), (there,) = (
        predict_areas(fitted, p, ORIGINS[:1], areas_of(x=[0, 3])) for p in (panel, later)
    )
    assert np.array_equal(here.online, there.online)


def test_too_few_validation_windows_name_the_number_needed(fitted: Ridge) -> None:
    run = fitted.run
    assert run is not None
    seen = run.arrays["intervals.observed"].copy()
    seen[17:, :, 3] = False  # a location that fell silent
    silent = replace(run, arrays={**run.arrays, "intervals.observed": seen})
    with pytest.raises(
        DataError, match=r"area 'x': .* validation windows .* need ≥ 18; leave out"
    ):
        calibrate_area(silent, "x", np.arange(5) == 3)
    calibrate_area(silent, "y", np.arange(5) == 2)


def test_a_run_from_before_intervals_has_to_be_trained_again(panel: Panel, fitted: Ridge) -> None:
    run = fitted.run
    assert run is not None
    kept = {n: a for n, a in run.arrays.items() if not n.startswith("intervals.")}
    old = Ridge.from_run(replace(run, arrays=kept))
    with pytest.raises(ConfigError, match=r"stores no validation residuals .* train it again"):
        predict_areas(old, panel, ORIGINS, areas_of(x=[0]))


def test_rows_of_areas_follow_those_of_locations(panel: Panel, fitted: Ridge) -> None:
    at = f"{panel.times[ORIGINS[1]]}Z"
    table = fitted.forecast(panel, at, weather="persist", what_if="rain=1")
    areas = areas_of(x=[0, 3], whole=[0, 1, 2, 3, 4])
    longer = add_areas(table, areas, fitted, panel, "persist", "rain=1")
    assert longer.columns.tolist() == table.columns.tolist()
    pd.testing.assert_frame_equal(longer.iloc[: len(table)], table)
    rows = longer.iloc[len(table) :]
    assert rows["unique_id"].tolist() == ["x", "x", "whole", "whole"]
    for column in ("y_hat", "y_hat_what_if", "difference"):
        sums = table.pivot_table(index="ds", columns="unique_id", values=column)
        expected = [*sums[["place 0", "place 3"]].sum(axis=1), *sums.sum(axis=1)]
        assert rows[column].tolist() == pytest.approx(expected, rel=1e-5)
    assert longer.columns[-2:].tolist() == ["difference", "degraded"]
    assert set(rows["degraded"]) == {"weather persist"}
    assert rows["ds"].tolist() == table["ds"].tolist()[:2] * 2
    found = predict_areas(fitted, panel, ORIGINS[1:], areas, "persist")
    for number, column in ((0, "q10"), (2, "q90")):
        expected = [q for area in found for q in area.online[0, number, :, 0]]
        assert rows[column].tolist() == expected


def test_areas_have_intervals_of_what_is_supposed_too(panel: Panel, fitted: Ridge) -> None:
    at = f"{panel.times[ORIGINS[1]]}Z"
    table = fitted.forecast(panel, at, what_if="rain=1")
    rows = add_areas(table, areas_of(x=[0, 3]), fitted, panel, what_if="rain=1").iloc[-2:]
    assert rows["difference"].any()
    for level in ("q10", "q50", "q90"):  # a Ridge is as sure in rain as without
        moved = (rows[f"{level}_what_if"] - rows[level]).tolist()
        assert moved == pytest.approx(rows["difference"].tolist(), abs=1e-3)


def test_L7_sums_lie_within_their_intervals_though_they_are_rounded(
    panel: Panel, fitted: Ridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Quantiles at the forecast itself: the sums of float32 numbers in another order differ.
    areas = areas_of(x=[0, 3], whole=[0, 1, 2, 3, 4])
    for number in range(30):
        at = f"{panel.times[HOURS - 7 - number]}Z"
        with monkeypatch.context() as patch:
            patch.setattr(
                Calibration,
                "shift",
                lambda _, base, __: np.repeat(base.forecast[..., None, :, :], 3, axis=-3),
            )
            table = fitted.forecast(panel, at, what_if="rain=1")
            rows = add_areas(table, areas, fitted, panel, what_if="rain=1")
        for suffix in ("", "_what_if"):
            low, mean, high = (rows[f"{name}{suffix}"] for name in ("q10", "y_hat", "q90"))
            assert ((low <= mean) & (mean <= high)).all()
            assert {low.dtype.name, mean.dtype.name, high.dtype.name} == {"float32"}


def test_the_relative_forecast_of_an_area_is_its_sum(panel: Panel, fitted: Ridge) -> None:
    table = fitted.forecast(panel, f"{panel.times[ORIGINS[1]]}Z")
    rows = add_areas(table.assign(y_relative=-1.0), areas_of(x=[0, 3]), fitted, panel).iloc[-2:]
    assert rows["y_relative"].tolist() == rows["y_hat"].tolist()


def test_what_is_supposed_is_answered_once_for_all_areas(
    panel: Panel, fitted: Ridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = f"{panel.times[ORIGINS[1]]}Z"
    table = fitted.forecast(panel, at, what_if="rain=1")
    areas = areas_of(x=[0, 3], y=[1], z=[0, 1, 2])
    asked: list[tuple[int, bool]] = []

    def note(
        run: Run, panel: Panel, origins: np.ndarray, weather: Weather, changes: Changes | None
    ) -> ForecastInputs:
        asked.extend((step, changes is not None) for step in origins.tolist())
        return prepare_inputs(run, panel, origins, weather, changes)

    monkeypatch.setattr("forecaster.estimators.base.prepare_inputs", note)
    add_areas(table, areas, fitted, panel, what_if="rain=1")
    assert sum(supposed for _, supposed in asked) == 1
    assert len(asked) == len(set(asked))


# Locations that the run has never met, and such that the panel lacks.


@pytest.fixture(scope="module", params=["count", "measurement"])
def city(request: pytest.FixtureRequest) -> Panel:
    return small_city(request.param)


@pytest.fixture(scope="module")
def network(city: Panel) -> Forecaster:
    settings = {"preset": "best", "training": {"epochs": 2}, "mixer": {"hidden": 8}}
    estimator = Forecaster(recipe=change(RECIPE, settings, source="test"))
    estimator.falls_back = False
    return estimator.fit(city, Splits.by_share(city))


def with_new(panel: Panel, *columns: int) -> Panel:
    """The panel with further locations `new 0`, `new 1` …, which have the values of these."""
    ids = (*panel.locations.ids, *(f"new {k}" for k in range(len(columns))))
    return replace(
        panel,
        values=np.concatenate([panel.values, panel.values[:, list(columns)]], axis=1),
        locations=Locations.of_ids(ids),
        local_covariates=LocalCovariates.empty(len(panel.covariates.values), len(ids)),
        digest=None,
    )


def forecast_area(model: Estimator, panel: Panel, *ids: str, what_if: str | None = None) -> Rows:
    """The rows of an area of these locations, after those of the locations, by id."""
    table = model.forecast(panel, panel.times[1000], what_if=what_if)
    areas = read_areas(pd.DataFrame({"area": "x", "id": list(ids)}), panel.locations)
    table = add_areas(table, areas, model, panel, what_if=what_if)
    return {str(name): rows.reset_index(drop=True) for name, rows in table.groupby("unique_id")}


def distances(rows: pd.DataFrame, column: str) -> np.ndarray:
    return (rows[column].astype(float) - rows["y_hat"]).to_numpy()


def test_L2_areas_without_a_new_location_are_as_before(city: Panel, network: Forecaster) -> None:
    members = "place 0", "place 3"
    before, after = (forecast_area(network, p, *members) for p in (city, with_new(city, 2)))
    np.testing.assert_allclose(after["x"]["y_hat"], before["x"]["y_hat"], rtol=1e-4)
    # Online, a step counts by the share of missing values, to which the new location adds.
    for column in ("q10", "q50", "q90"):
        np.testing.assert_allclose(after["x"][column], before["x"][column], rtol=0.01)
    assert set(after["x"]["degraded"]) == {""}


def test_areas_are_summed_though_the_panel_lacks_a_location(
    city: Panel, network: Forecaster
) -> None:
    for panel in (
        city.select(city.locations.ids[:3]),
        with_new(city.select(city.locations.ids[:3]), 1),
    ):
        rows = forecast_area(network, panel, "place 0", "place 2")
        sums = rows["place 0"]["y_hat"] + rows["place 2"]["y_hat"]
        np.testing.assert_allclose(rows["x"]["y_hat"], sums, rtol=1e-5)
        assert np.isfinite(rows["x"][["q10", "q50", "q90"]]).all(axis=None)


def test_L2_a_new_location_widens_the_interval_of_its_area(
    city: Panel, network: Forecaster
) -> None:
    panel = with_new(city, 3, 4)
    part = forecast_area(network, panel, "place 0", "place 2")["x"]
    rows = forecast_area(network, panel, "place 0", "new 0", "place 2", "new 1")
    area, new = rows["x"], [rows["new 0"], rows["new 1"]]
    np.testing.assert_allclose(area["y_hat"], part["y_hat"] + sum(r["y_hat"] for r in new), 1e-5)
    assert set(area["degraded"]) == {"new 0: new location, new 1: new location"}
    for column, side in (("q10", -1), ("q90", 1)):
        squares = [distances(r, column) ** 2 for r in (part, *new)]
        np.testing.assert_allclose(distances(area, column), side * np.sqrt(sum(squares)), 1e-4)
    assert (np.diff(area[["q10", "q50", "q90"]]) >= 0).all()


def test_L2_an_area_of_new_locations_has_their_intervals(city: Panel, network: Forecaster) -> None:
    rows = forecast_area(network, with_new(city, 3), "new 0", what_if="rain=1")
    for suffix in ("", "_what_if"):
        numbers = [f"{name}{suffix}" for name in ("y_hat", "q10", "q50", "q90")]
        np.testing.assert_allclose(rows["x"][numbers], rows["new 0"][numbers], rtol=1e-5)
    assert set(rows["x"]["degraded"]) == {"new location"}


def test_L7_the_sums_of_areas_with_new_locations_lie_within_their_intervals(
    city: Panel, network: Forecaster
) -> None:
    panel = with_new(city, 3, 4)
    members = ["place 0", "new 0", "new 1", "new 0", "new 1", "place 3"]
    areas = pd.DataFrame({"area": ["x", "x", "w", "z", "z", "z"], "id": members})
    for origin in range(960, 1000, 5):
        table = network.forecast(panel, panel.times[origin], what_if="rain=1")
        summed = read_areas(areas, panel.locations)
        rows = add_areas(table, summed, network, panel, what_if="rain=1")
        for suffix in ("", "_what_if"):
            low, mean, high = (rows[f"{name}{suffix}"] for name in ("q10", "y_hat", "q90"))
            assert ((low <= mean) & (mean <= high)).all()
            assert (low >= 0).all() or panel.kind == "measurement"


def test_L2_nothing_after_the_origin_reaches_an_area_with_a_new_location(
    city: Panel, network: Forecaster
) -> None:
    panel = with_new(city, 3)
    values = panel.values.copy()
    values[1001:] = 977
    here, there = (
        forecast_area(network, p, "place 0", "new 0")["x"]
        for p in (panel, panel.with_data(values))
    )
    pd.testing.assert_frame_equal(here, there)


@pytest.mark.slow
def test_areas_hold_their_level_and_sums_of_quantiles_are_too_wide() -> None:
    city = make_city(13, "2014-09-01", 24 * 160)
    panel = replace(
        city.panel, covariates=Covariates((), np.empty((24 * 160 + 72, 0), np.float32))
    )
    splits = Splits.by_share(panel, validation=0.25, test=0.3)
    estimator = HistoricalMean().fit(panel, splits)
    origins = cut_windows(panel, splits, estimator.lags).test
    whole = np.ones(13, dtype=bool)
    truth = panel.values[origins[:, None] + np.arange(1, 4)].sum(axis=2)
    (found,) = predict_areas(estimator, panel, origins, Areas(("x",), whole[None]))
    own = found.online[..., 0]
    sums = estimator.predict_quantiles(panel, origins).sum(axis=-1)
    held, added = (np.mean((truth >= q[:, 0]) & (truth <= q[:, 2])) for q in (own, sums))
    assert held == pytest.approx(0.8, abs=0.02)
    assert added > 0.9
    assert np.mean(sums[:, 2] - sums[:, 0]) > 1.4 * np.mean(own[:, 2] - own[:, 0])


def test_a_location_adds_nothing_to_its_area_at_hours_at_which_it_is_never_open() -> None:
    panel = small_city().with_hours(["06:00-22:00", "08:00-16:00", "06:00-22:00", "", ""])
    run = HistoricalMean(RECIPE).fit(panel, Splits.by_share(panel)).run
    assert run is not None
    hours, residuals = run.arrays["intervals.hours"], run.arrays["intervals.residuals"]
    sums = sum_members(run, np.arange(5) < 2)
    observed = run.arrays["intervals.observed"]
    morning, night = (hours == 7) & observed[..., 0], (hours < 6) | (hours > 21)
    np.testing.assert_array_equal(sums[morning], residuals[morning][:, 0])
    assert np.isnan(sums[night]).all()
    both = observed[..., :2].all(axis=-1)
    expected = residuals[both][:, :2].sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(sums[both], expected, rtol=1e-5, atol=1e-4)
