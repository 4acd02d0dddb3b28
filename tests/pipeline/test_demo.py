from pathlib import Path

import numpy as np
import pytest

from forecaster.config import PanelConfig, TrainingConfig, TripsConfig
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.pipeline import demo
from forecaster.recipe import Recipe
from forecaster.synthetic.city import make_city


@pytest.mark.slow
def test_the_demo_leaves_a_panel_and_runs_that_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "DEMO_LOCATIONS", 5)
    monkeypatch.setattr(demo, "DEMO_DAYS", 100)
    monkeypatch.setattr(demo, "DEMO_TRAINING", TrainingConfig(epochs=1, batch=512))
    messages: list[str] = []
    result = demo.run_demo(tmp_path, messages.append)
    panel = Panel.open(tmp_path / "panel")
    assert panel.digest == result.panel.digest
    assert messages[0] == "generating the city"
    assert [row.name for row in result.comparison.rows] == list(demo.DEMO_MODELS)
    rmse = {}
    for row in result.comparison.rows:
        fitted = load_estimator(tmp_path / row.runs[0])
        assert fitted.run is not None
        assert fitted.run.parents["panel"] == panel.digest
        report = row.first.errors["observed"].report()
        rmse[row.name] = report.average.rmse.value or np.inf
        for score, floor in zip(report.steps, result.floor, strict=True):
            assert score.rmse.value is not None
            assert score.rmse.value > floor  # the floor knows more than any forecast
    assert rmse["Ridge"] < min(rmse["SeasonalNaive"], rmse["HistoricalMean"])
    assert (tmp_path / "table.md").exists()
    again: list[str] = []
    demo.run_demo(tmp_path, again.append)
    assert not any("training" in line for line in again)


@pytest.mark.slow
def test_the_demo_has_missing_hours_to_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "DEMO_LOCATIONS", 3)
    monkeypatch.setattr(demo, "DEMO_DAYS", 150)
    monkeypatch.setattr(demo, "DEMO_MODELS", ("SeasonalNaive",))
    result = demo.run_demo(tmp_path, lambda _: None)
    assert np.isnan(result.panel.values[demo.LOST_FEED]).all()
    assert result.windows.dropped["too little history observed"] > 0


@pytest.mark.slow
def test_the_trips_of_a_city_are_counted_back() -> None:
    city = make_city(3, "2014-10-20", 24 * 20 + 1)
    trips = TripsConfig(files=("trips.parquet",), min_demand=0.0, covers="2014-10-20:2014-11-08")
    recipe = Recipe(panel=PanelConfig(timezone="America/New_York"), trips=trips)
    panel = demo.ingest_city(city, recipe, lambda _: None)
    observed = np.isfinite(panel.values)
    assert np.array_equal(panel.values[observed], city.panel.values[observed])
    assert (~observed).any(axis=1).sum() == 2  # the doubled hour of 2014-11-02
    assert panel.covariates.names == city.panel.covariates.names
