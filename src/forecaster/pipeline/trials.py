"""One cell of the table: a model of one seed, trained and tested in a folder of its own."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from forecaster.artifact import UNFINISHED
from forecaster.errors import ArtifactError, ForecasterError
from forecaster.evaluation.backtest import Assessment, assess
from forecaster.evaluation.model_specs import Entry
from forecaster.evaluation.storage import load_assessment, save_assessment
from forecaster.pipeline.experiment import Study
from forecaster.pipeline.train import Ground, Say, train_run
from forecaster.publish.manifest import MANIFEST, read_manifest
from forecaster.publish.writing import bytes_writer, replace_file
from forecaster.recipe import Recipe, change
from forecaster.training.progress import ProgressCallback

TEST, TRAINING = "test", "training"  # folders of a cell
SECONDS = "seconds.json"  # how long its training took: no second one would repeat that
MOST_LETTERS = 2_000  # of a reason


@dataclass(frozen=True)
class Cell:
    """A model of one seed."""

    name: str
    estimator: str
    recipe: Recipe
    folder: Path
    tested: bool = True  # else it is trained only, for validation to choose from

    @property
    def seed(self) -> int:
        """Return what its weights are drawn by."""
        return self.recipe.training.seed

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


def make_cell(study: Study, entry: Entry, seed: int, *, tested: bool = True) -> Cell:
    """Return the cell of a row and a seed."""
    recipe = change(entry.recipe, {"training": {"seed": seed}}, source=entry.name)
    folder = study.cell_folder(entry.estimator, recipe)
    return Cell(entry.name, entry.estimator, recipe, folder, tested)


def run_cell(cell: Cell, study: Study, say: Say, watch: ProgressCallback | None = None) -> None:
    """Train and test a cell; what is there already is not done again."""
    if is_done(cell, study):
        return
    graph = study.graph(cell.recipe, say) if cell.estimator == "Forecaster" else None
    ground = Ground(panel=study.panel, graph=graph)
    trained = train_run(cell.estimator, cell.recipe, cell.folder, ground, say, watch)
    estimator, seconds = trained.estimator, cell.folder / SECONDS
    if not trained.already:
        replace_file(seconds, bytes_writer(json.dumps(estimator.seconds).encode()))
    if cell.tested and estimator.run is not None:
        say(f"testing {cell}")
        found = assess(estimator, study.panel, study.origins, study.usable_weathers)
        found = replace(found, seconds=_read_seconds(seconds))
        save_assessment(place_of_test(cell, study), found, str(estimator.run.digest))
    shutil.rmtree(cell.folder / TRAINING, ignore_errors=True)  # checkpoints of what is saved whole


def is_done(cell: Cell, study: Study) -> bool:
    """Tell whether a cell is trained, and tested if it has to be."""
    if run_hash(cell, study) is None:
        return False
    return not cell.tested or result(cell, study) is not None


def result(cell: Cell, study: Study) -> Assessment | None:
    """Return what a cell did, if it was tested on the study's windows with all its weathers.

    What is damaged is as good as absent: it is tested again.
    """
    try:
        run = run_hash(cell, study)
        found = load_assessment(place_of_test(cell, study), run) if run is not None else None
    except ArtifactError:
        return None
    if found is None or found.weather != study.usable_weathers[0]:
        return None
    if any(weather not in found.errors for weather in study.usable_weathers):
        return None
    times = study.panel.times[study.origins].astype("datetime64[s]").astype(np.int64)
    if not np.array_equal(found.origins, times):
        return None
    return replace(found, errors={w: found.errors[w] for w in study.usable_weathers})


def place_of_test(cell: Cell, study: Study) -> Path:
    """Return where lies what a cell did on the study's test windows."""
    return cell.folder / f"{TEST}{study.suffix}"


def run_hash(cell: Cell, study: Study) -> str | None:
    """Return the hash of a cell's run, once it is trained on the study's panel."""
    if not (cell.folder / MANIFEST).exists():
        return None
    manifest = read_manifest(cell.folder, kind="run")
    if UNFINISHED in manifest.about:
        return None
    if manifest.parents.get("panel") != study.panel.digest:
        message = f"{cell.folder}: a run of another panel, not of {study.panel_folder}"
        raise ArtifactError(f"{message}; remove that folder")
    return manifest.digest


def validation_loss(cell: Cell) -> float:
    """Return the lowest validation loss of a trained network."""
    learned = read_manifest(cell.folder, kind="run").about["learned"]
    return min(float(epoch["validation_loss"]) for epoch in learned["training"]["epochs"])


def explain(error: Exception) -> str:
    """Return why a cell failed, for the table."""
    if isinstance(error, ForecasterError):
        return str(error)[:MOST_LETTERS]
    if isinstance(error, MemoryError):
        return "out of memory"
    return f"{type(error).__name__}: {error}"[:MOST_LETTERS]


def _read_seconds(path: Path) -> float | None:
    try:
        seconds = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return float(seconds) if isinstance(seconds, int | float) else None
