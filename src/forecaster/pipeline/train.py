"""The whole path on one page: panel, graph and training of a run; the built-in city with all."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq

from forecaster.artifact import begin_run
from forecaster.config import PanelConfig, Recipe, TrainingConfig, TripsConfig
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.contract import Estimator, with_meaning
from forecaster.estimators.forecaster import Forecaster
from forecaster.estimators.registry import find_estimator, load_estimator
from forecaster.evaluation.backtest import backtest
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.graph.storage import open_graph, save_graph
from forecaster.ingest.build import build_panel, find_sources
from forecaster.ingest.engine import open_engine
from forecaster.ingest.files import open_inputs, parse_span
from forecaster.ingest.plan import Grid
from forecaster.ingest.trips import Trips, ingest_trips
from forecaster.metrics import Report
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST
from forecaster.report.doctor import Checkup, examine
from forecaster.splits import Splits, Windows, cut_windows
from forecaster.synthetic.city import City, make_city
from forecaster.synthetic.dependencies import describe_edges
from forecaster.training.distributed import is_first_process
from forecaster.training.progress import Moment, Watch

DEMO_LOCATIONS = 40
DEMO_START, DEMO_DAYS = "2014-09-01", 365  # both clock changes lie within
LOST_FEED = slice(24 * 75, 24 * 76 + 7)  # 31 hours that no place reported
LOST_SENSOR = slice(24 * 130, 24 * 139)  # nine days of one place
DEMO_ESTIMATORS = ("SeasonalNaive", "HistoricalMean", "Ridge", "Forecaster")
DEMO_TRAINING = TrainingConfig(epochs=5, batch=32)  # about a minute on two cores

Say = Callable[[str], None]

# ------------------------------------------------------------------------------ one run


@dataclass(frozen=True, eq=False)
class Ground:
    """What a run is trained on. What is None is made from the recipe, inside the run's folder."""

    panel: Panel | None = None  # as saved
    graph: DependencyGraph | None = None  # as saved
    data: Path | None = None  # folder with the files that the recipe names


@dataclass(frozen=True, eq=False)
class Trained:
    """A run that can forecast."""

    estimator: Estimator
    already: bool  # there was nothing left to do


def train_run(
    name: str, recipe: Recipe, folder: Path, ground: Ground, say: Say, watch: Watch | None = None
) -> Trained:
    """Train an estimator in a folder; the same call on the same folder goes on where it ended.

    The folder becomes the run. Beside its manifest lie `panel` and `graph`, if they had to be
    made, and `training`, with the checkpoints and the log.
    """
    kind = _find(name, ground)
    if ground.panel is not None:
        recipe = with_meaning(recipe, ground.panel)
    if not is_first_process():
        _wait(folder)
    if begin_run(folder, name, recipe):
        return Trained(_finished(folder, ground), already=True)
    panel = ground.panel
    if panel is None:
        panel = _panel(folder / "panel", recipe, ground, say)
    splits = Splits.from_config(panel, recipe.splits)
    estimator = kind(recipe=recipe)
    if isinstance(estimator, Forecaster):
        estimator.graph = ground.graph
        if ground.graph is None:
            estimator.graph = _graph(folder / "graph", panel, splits, recipe, say)
    say(f"training {name}")
    estimator.fit(panel, splits, folder=folder / "training", watch=watch)
    if is_first_process():
        estimator.save(folder)
    return Trained(estimator, already=False)


def _find(name: str, ground: Ground) -> type[Estimator]:
    kind = find_estimator(name)
    if ground.graph is not None and not issubclass(kind, Forecaster):
        raise ConfigError(f"{name} has no graph; leave it out, or train Forecaster")
    return kind


def _panel(folder: Path, recipe: Recipe, ground: Ground, say: Say) -> Panel:
    """Return the panel of a recipe, made if nobody has yet; it must mean what the recipe says."""
    if not (folder / MANIFEST).exists() and is_first_process():
        if ground.data is None:
            raise ConfigError("which panel? give one, or the folder with the recipe's files")
        say("building the panel")
        panel = build_panel(recipe, find_sources(recipe, ground.data), say=say)
        meant = with_meaning(recipe, panel).panel
        if meant != recipe.panel:
            raise ConfigError(f"the recipe's panel is {recipe.panel}, what it builds is {meant}")
        return panel.save(folder, recipe)
    _wait(folder)
    return Panel.open(folder)


def _graph(
    folder: Path, panel: Panel, splits: Splits, recipe: Recipe, say: Say
) -> DependencyGraph:
    """Return the graph of a panel's training steps, learned if nobody has yet."""
    if not (folder / MANIFEST).exists() and is_first_process():
        return save_graph(learn_graph(panel, splits, recipe.graph, progress=say), folder, recipe)
    _wait(folder)
    return open_graph(folder)


def _finished(folder: Path, ground: Ground) -> Estimator:
    """Return the estimator of a trained run, unless it was trained on something else."""
    estimator = load_estimator(folder)
    for name, given in (("panel", ground.panel), ("graph", ground.graph)):
        known = estimator.run.parents.get(name, "none") if estimator.run is not None else "none"
        if given is not None and given.digest != known:
            message = f"{folder}: trained on {name} {known[:12]}, and {str(given.digest)[:12]}"
            raise ArtifactError(f"{message} was given; choose another folder")
    return estimator


def _wait(folder: Path) -> None:
    """Wait until the first of several processes has made an artifact."""
    while not (folder / MANIFEST).exists():
        time.sleep(0.1)


# ---------------------------------------------------------------------- the built-in city


@dataclass(frozen=True)
class Demo:
    """What the demonstration made."""

    city: str  # what is known of its hidden structure
    panel: Panel
    checkup: Checkup
    windows: Windows
    reports: dict[str, Report]  # by estimator
    floor: np.ndarray  # RMSE per step that no forecast can be below


def run_demo(folder: Path, say: Say) -> Demo:
    """Generate a city, examine its panel, and compare the estimators on its last fifth."""
    say("generating the city")
    last = np.datetime64(DEMO_START, "D") + DEMO_DAYS - 1
    trips = TripsConfig(files=("trips.parquet",), min_demand=0.0, covers=f"{DEMO_START}:{last}")
    recipe = Recipe(
        panel=PanelConfig(timezone="America/New_York"), trips=trips, training=DEMO_TRAINING
    )
    first, end = Grid.of(recipe.panel.timezone, np.datetime64(DEMO_START, "s")).span(
        parse_span(f"{DEMO_START}:{last}")
    )
    city = make_city(DEMO_LOCATIONS, DEMO_START, end - first)
    panel = lose_feeds(ingest_city(city, recipe, say)).save(folder / "panel", recipe)
    say("examining the panel")
    checkup = examine(panel, recipe)
    splits = Splits.by_share(panel)
    windows = cut_windows(panel, splits, recipe.lags)
    reports = {}
    for name in DEMO_ESTIMATORS:
        fitted = _fit(name, recipe, panel, splits, say)
        fitted.save(folder / "runs" / name)
        reports[name] = backtest(fitted, panel, windows.test)
    floor = city.floor(windows.test, recipe.lags.horizon)
    return Demo(
        describe_edges(city.edges, len(panel.locations)), panel, checkup, windows, reports, floor
    )


def ingest_city(city: City, recipe: Recipe, say: Say) -> Panel:
    """Return the panel of the city's raw trips, counted back, with the city's weather."""
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
        panel = ingest_trips(Trips(inputs, city.locations, recipe.panel, rules, engine), say)
    return replace(
        panel.select(city.locations.ids),
        clock=city.panel.clock,
        covariates=city.panel.covariates,
        local_covariates=city.panel.local_covariates,
    )


def lose_feeds(panel: Panel) -> Panel:
    """Return the panel with an outage: missing values, as real feeds have them."""
    values = panel.values.copy()
    values[LOST_FEED] = np.nan
    values[LOST_SENSOR, int(np.argmax(values[:24].sum(axis=0)))] = np.nan
    return replace(panel, values=values)


def _fit(name: str, recipe: Recipe, panel: Panel, splits: Splits, say: Say) -> Estimator:
    """Return an estimator fitted to the city, telling of each epoch that it takes."""
    told: set[int] = set()

    def watch(moment: Moment) -> None:
        if moment.epoch not in told:
            told.add(moment.epoch)
            say(f"fitting {name}: epoch {moment.epoch} of {recipe.training.epochs}")

    say(f"fitting {name}")
    return find_estimator(name)(recipe=recipe).fit(panel, splits, watch=watch)
