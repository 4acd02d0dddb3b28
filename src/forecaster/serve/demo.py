"""`serve --demo`: the synthetic city, and a small model of it."""

import logging
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from forecaster import __version__
from forecaster.config import TrainingConfig
from forecaster.errors import ArtifactError, RunError
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city

LOCATIONS, START, DAYS = 40, "2014-07-01", 365
TRAINING_DAYS, VALIDATION_DAYS = 84, 14
STEP_SECONDS = 3.0  # in which the replay shows an hour
TRAINING = TrainingConfig(epochs=3, batch=32, learning_rate=1e-2)
Say = Callable[[str], None]
log = logging.getLogger(__name__)


def prepare_demo(say: Say) -> tuple[Path, Panel, int]:
    """Return the folder of the run, the city's panel and the number of fitted steps."""
    say("generating a city")
    panel = make_city(LOCATIONS, START, DAYS * 24).panel
    shown = (TRAINING_DAYS + VALIDATION_DAYS) * 24
    recipe = Recipe(training=TRAINING)
    folder = private_folder(f"forecaster-demo-{__version__}-{recipe.digest()[:12]}") / "run"
    try:
        Forecaster.load(folder)
    except ArtifactError:
        say("training a small model, which takes half a minute")
        fit_demo(panel, shown, recipe).save(folder)
    return folder, panel, shown


def fit_demo(panel: Panel, shown: int, recipe: Recipe) -> Forecaster:
    """Return a small model, fitted on the first steps."""
    past = panel.steps(0, shown)
    stamps = [f"{time}Z" for time in past.times]
    border = TRAINING_DAYS * 24
    last = 4  # test steps: a split may not be empty
    splits = Splits(
        train=[(stamps[0], stamps[border - 1])],
        validation=[(stamps[border], stamps[shown - last - 1])],
        test=[(stamps[shown - last], stamps[shown - 1])],
    )
    return Forecaster(recipe=recipe).fit(past, splits)


def private_folder(name: str) -> Path:
    """Return a temporary folder of the user; a folder that others may write to is refused."""
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    writable = status.st_mode & 0o022
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or writable:
        raise RunError(f"{folder}: others may write to it; remove it, or set TMPDIR")
    return folder
