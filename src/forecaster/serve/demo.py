"""`serve --demo`: the built-in city, a small model of it, and a clock that runs fast."""

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
LEARNED_DAYS, CHOSEN_DAYS = 84, 14  # what the model learns from; what it is chosen on
STEP_SECONDS = 3.0  # of an hour
TRAINING = TrainingConfig(epochs=3, batch=32, learning_rate=1e-2)
Say = Callable[[str], None]
log = logging.getLogger(__name__)


def prepare_demo(say: Say) -> tuple[Path, Panel, int]:
    """Return the folder of the run, the city's panel and how much of it the model knows."""
    say("generating a city")
    panel = make_city(LOCATIONS, START, DAYS * 24).panel
    shown = (LEARNED_DAYS + CHOSEN_DAYS) * 24
    recipe = Recipe(training=TRAINING)
    folder = own_folder(f"forecaster-demo-{__version__}-{recipe.digest()[:12]}") / "run"
    try:
        Forecaster.load(folder)
    except ArtifactError:
        say("training a model of it, which takes half a minute")
        learn(panel, shown, recipe).save(folder)
    return folder, panel, shown


def learn(panel: Panel, shown: int, recipe: Recipe) -> Forecaster:
    """Return a small model of the first steps."""
    known = panel.steps(0, shown)
    stamps = [f"{time}Z" for time in known.times]
    border = LEARNED_DAYS * 24
    last = 4  # steps that nothing is learned from: a split may not be empty
    splits = Splits(
        train=[(stamps[0], stamps[border - 1])],
        validation=[(stamps[border], stamps[shown - last - 1])],
        test=[(stamps[shown - last], stamps[shown - 1])],
    )
    return Forecaster(recipe=recipe).fit(known, splits)


def own_folder(name: str) -> Path:
    """Return a temporary folder of the user's own; one that somebody else made is refused."""
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise RunError(f"{folder}: not a folder of yours alone; remove it, or set TMPDIR")
    return folder
