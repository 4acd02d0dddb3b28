"""The demo: counts the raw trips of a synthetic city, checks its panel and compares models."""

from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq

from forecaster.config import EvaluationConfig, PanelConfig, TrainingConfig, TripsConfig
from forecaster.estimators.match import with_lags
from forecaster.evaluation.comparison import Comparison
from forecaster.evaluation.model_specs import list_models
from forecaster.ingest.demand.engine import open_engine
from forecaster.ingest.demand.plan import HourGrid
from forecaster.ingest.demand.trips import TripIngest, ingest_trips
from forecaster.ingest.files import open_inputs, parse_span
from forecaster.panel.panel import Panel
from forecaster.pipeline.evaluate import evaluate_models
from forecaster.pipeline.experiment import PANEL, Experiment
from forecaster.pipeline.train import MessageCallback
from forecaster.publish.writing import bytes_writer, replace_file
from forecaster.recipe import Recipe
from forecaster.report.doctor.checkup import Checkup, examine
from forecaster.splits import Windows, cut_windows
from forecaster.synthetic.city import City, make_city
from forecaster.synthetic.dependencies import describe_edges
from forecaster.training.progress import ProgressCallback

DEMO_LOCATIONS = 40
DEMO_START, DEMO_DAYS = "2014-09-01", 365  # both clock changes lie within
LOST_FEED = slice(24 * 75, 24 * 76 + 7)  # 31 hours without any report
LOST_SENSOR = slice(24 * 130, 24 * 139)  # nine days of one location
DEMO_MODELS = (
    "LastValue", "SeasonalNaive", "HistoricalMean", "Ridge", "VAR", "Forecaster-paper",
    "Forecaster",
)  # fmt: skip
DEMO_TRAINING = TrainingConfig(epochs=5, batch=32)  # about two minutes on two cores


@dataclass(frozen=True)
class Demo:
    """The results of the demo."""

    city: str  # its dependencies in one line
    panel: Panel
    checkup: Checkup
    windows: Windows
    comparison: Comparison
    floor: np.ndarray  # lower bound of the RMSE of each step


def run_demo(
    folder: Path, say: MessageCallback, on_progress: ProgressCallback | None = None
) -> Demo:
    """Generate a city, check its panel, and compare models on its last fifth."""
    say("generating the city")
    last = np.datetime64(DEMO_START, "D") + DEMO_DAYS - 1
    recipe = Recipe(
        preset="quick",
        panel=PanelConfig(timezone="America/New_York"),
        trips=TripsConfig(files=("trips.parquet",), min_demand=0.0, covers=f"{DEMO_START}:{last}"),
        training=DEMO_TRAINING,
        evaluation=EvaluationConfig(models=DEMO_MODELS, seeds=1),
    )
    first, end = HourGrid.of(recipe.panel.timezone, np.datetime64(DEMO_START, "s")).span(
        parse_span(f"{DEMO_START}:{last}")
    )
    city = make_city(DEMO_LOCATIONS, DEMO_START, end - first)
    panel = lose_feeds(ingest_city(city, recipe, say)).save(folder / PANEL, recipe)
    say("examining the panel")
    checkup = examine(panel, recipe)
    replace_file(folder / "recipe.toml", bytes_writer(recipe.to_toml().encode()))
    recipe = with_lags(recipe, panel)
    experiment = Experiment(folder, folder / PANEL, recipe, recipe.evaluation.weather)
    comparison = evaluate_models(list_models(recipe, DEMO_MODELS), experiment, 1, say, on_progress)
    return Demo(
        city=describe_edges(city.edges, len(panel.locations)),
        panel=panel,
        checkup=checkup,
        windows=cut_windows(panel, experiment.splits, recipe.lags),
        comparison=comparison,
        floor=city.floor(experiment.origins, recipe.lags.horizon),
    )


def ingest_city(city: City, recipe: Recipe, say: MessageCallback) -> Panel:
    """Write the city's raw trips, ingest them, and add the city's weather to the panel."""
    rules = recipe.trips or TripsConfig()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trips.parquet"
        say("writing its raw trips")
        chunks = city.trips(0, len(city.panel.values) - 1)
        first = next(chunks)
        with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
            for chunk in chain([first], chunks):
                writer.write_table(chunk)
        inputs, engine = open_inputs([path], rules.covers), open_engine("duckdb")
        panel = ingest_trips(TripIngest(inputs, city.locations, recipe.panel, rules, engine), say)
    return replace(
        panel.select(city.locations.ids),
        clock=city.panel.clock,
        covariates=city.panel.covariates,
        local_covariates=city.panel.local_covariates,
    )


def lose_feeds(panel: Panel) -> Panel:
    """Remove values, as outages of real feeds do."""
    values = panel.values.copy()
    values[LOST_FEED] = np.nan
    values[LOST_SENSOR, int(np.argmax(values[:24].sum(axis=0)))] = np.nan
    return panel.with_data(values)
