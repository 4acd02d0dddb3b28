"""Forecasts of many origins and runs, one after the other and on Spark."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import ConfigError, DataError
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.panel.panel import Panel
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.forecast_jobs import ForecastJob, forecast_jobs, read_jobs
from forecaster.recipe import Recipe
from forecaster.splits import Splits


@pytest.fixture
def jobs(experiment: Experiment, recipe: Recipe, tmp_path: Path) -> pd.DataFrame:
    """Return jobs of two runs and three origins, one of which is before the panel."""
    panel = Panel.open(experiment.panel_folder)
    splits = Splits.from_config(panel, recipe.splits, recipe.lags.horizon)
    for kind in (Ridge, SeasonalNaive):
        kind(recipe).fit(panel, splits).save(tmp_path / kind.__name__)
    origins = [f"{panel.times[n]}+00:00" for n in (-30, -7)]
    runs = ["Ridge", "Ridge", "SeasonalNaive", "Ridge"]
    return pd.DataFrame({
        "run": [str(tmp_path / run) for run in runs],
        "panel": str(experiment.panel_folder),
        "at": [*origins, origins[1], "1999-01-01T00:00+00:00"],
    })  # fmt: skip


def test_the_forecasts_are_those_of_each_job_alone(jobs: pd.DataFrame, tmp_path: Path) -> None:
    text = forecast_jobs(read_jobs(jobs), tmp_path / "out")
    written = pd.read_parquet(tmp_path / "out")
    assert "1 forecast failed" in text
    assert "lies outside the panel" in written["failure"].dropna().item()
    for run, panel, at in jobs.itertuples(index=False):
        own = written[(written["run"] == run) & (written["at"] == at)]
        if at.startswith("1999"):
            assert len(own) == 1
            continue
        kind = Ridge if run.endswith("Ridge") else SeasonalNaive
        alone = kind.load(run).forecast(Panel.open(panel), at)
        assert own["unique_id"].tolist() == alone["unique_id"].tolist()
        assert own["ds"].tolist() == alone["ds"].tolist()
        for name in ("y_hat", "q10", "q90"):
            assert np.array_equal(own[name].to_numpy(np.float32), alone[name].to_numpy())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # pyspark and py4j warn of their own code
@pytest.mark.usefixtures("spark_session")
def test_spark_gives_the_forecasts_that_one_process_gives(
    jobs: pd.DataFrame, tmp_path: Path
) -> None:
    alone = forecast_jobs(read_jobs(jobs), tmp_path / "alone")
    shared = forecast_jobs(read_jobs(jobs), tmp_path / "shared", "spark")
    assert alone == shared
    keys = ["run", "at", "unique_id", "ds"]
    tables = [
        pd.read_parquet(tmp_path / name).sort_values(keys, ignore_index=True)
        for name in ("alone", "shared")
    ]
    pd.testing.assert_frame_equal(*tables)


def test_faults_of_all_rows_are_told_together(jobs: pd.DataFrame, tmp_path: Path) -> None:
    jobs["weather"] = ["persist", "sunny", None, None]
    jobs.loc[3, "run"] = str(tmp_path / "nowhere")
    with pytest.raises(DataError) as told:
        read_jobs(jobs)
    assert "row 2: weather 'sunny'" in str(told.value)
    assert "nowhere' is no folder" in str(told.value)
    with pytest.raises(DataError, match="no column panel"):
        read_jobs(jobs[["run"]])


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        forecast_jobs([ForecastJob("run", "panel")], tmp_path)
