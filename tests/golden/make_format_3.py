"""Write the golden artifacts of format 3: python -m tests.golden.make_format_3 FOLDER.

A panel in blocks of steps that has grown, with its older versions; an ensemble, and a network over
a graph with delays, with their forecasts.
"""

import sys
from itertools import pairwise
from pathlib import Path

from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.sample import HOURS, RECIPE
from forecaster.estimators.ensemble.ensemble import Ensemble
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.panel.append import append_panel
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from tests.golden.make_format_1 import save_forecasts
from tests.golden.make_format_2 import announced, directed

BORDERS = (0, 24 * 30, 24 * 36, HOURS)  # steps of the versions
RUNS = ("ensemble", "delayed")


def grow(folder: Path) -> Panel:
    """The panel of format 2, saved in three versions, of which the last revises a value."""
    panel = announced()
    first, end = BORDERS[0], BORDERS[1]
    part(panel, first, end).save(folder, RECIPE)
    for first, end in pairwise(BORDERS[1:]):
        append_panel(folder, part(panel, first, end))
    return append_panel(folder, part(revised(panel), 24 * 40, 24 * 40 + 2), revised=True)[0]


def part(panel: Panel, first: int, end: int) -> Panel:
    """Some steps, with the covariates known ahead of them only at the panel's end."""
    return panel.steps(first, end, None if end == HOURS else end)


def revised(panel: Panel) -> Panel:
    """The panel with one other value."""
    values = panel.values.copy()
    values[24 * 40, 3] = 31
    return panel.with_data(values)


def fit(name: str, panel: Panel) -> Estimator:
    """A small run."""
    settings = RECIPE.model_dump(exclude_unset=True)
    if name == "ensemble":
        members = {"members": ["Ridge", "STID-lags"]}
        small = {"embedding": 3, "n_layers": 1}
        recipe = Recipe.of({**settings, "ensemble": members, "stid": small})
        return Ensemble(recipe=recipe).fit(panel, Splits.by_share(panel))
    recipe = Recipe.of({**settings, "preset": "best", "mixer": {"hidden": 8}})
    return Forecaster(recipe=recipe, graph=directed()).fit(panel, Splits.by_share(panel))


def main(folder: Path) -> None:
    """Write all artifacts, and the forecasts of the runs."""
    panel = grow(folder / "panels" / "grown")
    runs = {name: fit(name, panel) for name in RUNS}
    for name, run in runs.items():
        run.save(folder / "runs" / name)
    save_forecasts(folder / "forecasts", runs, panel)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
