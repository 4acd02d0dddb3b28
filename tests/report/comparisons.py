"""Small comparisons, as `forecaster evaluate` leaves them in a folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.clock.clock import Clock
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.evaluation.model_specs import Ablations, list_models
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.pipeline.evaluate import evaluate_models
from forecaster.pipeline.experiment import Experiment
from forecaster.recipe import Recipe, change

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=y>', "$x_1$ & co", "漢字", "d")


def placed_city() -> Panel:
    """Return the small city on a map, with names that mean harm."""
    panel = small_city()
    lat, lon = np.linspace(52.4, 52.6, 5), np.linspace(13.2, 13.5, 5)
    lat[-1] = lon[-1] = np.nan  # nobody knows where the last one is
    return replace(panel, locations=Locations(panel.locations.ids, HOSTILE, lat, lon))


def bare_panel(values: np.ndarray, step_minutes: int = 60, kind: Any = "count") -> Panel:
    """Return a panel of nothing but values."""
    steps, places = values.shape
    return Panel(
        values=values.astype(np.float32),
        start=np.datetime64("2021-03-01T00", "s"),
        clock=Clock("Europe/Berlin", step_minutes),
        kind=kind,
        locations=Locations.of_ids(f"p{n}" for n in range(places)),
        covariates=Covariates((), np.empty((steps, 0), np.float32)),
        local_covariates=LocalCovariates((), np.empty((0, steps, places), np.float32)),
    )


def compare(
    folder: Path,
    panel: Panel,
    models: Sequence[str],
    ablations: Ablations | None = None,
    **changes: Any,
) -> Path:
    """Return a folder with a comparison of some models on a panel, by a recipe with changes."""
    recipe: Recipe = change(RECIPE, {"evaluation": {"seeds": 2}}, changes, source="test")
    panel.save(folder / "panel")
    (folder / "recipe.toml").write_text(recipe.to_toml())
    study = Experiment(folder, folder / "panel", recipe, ("observed", "persist"))
    evaluate_models(list_models(recipe, models, ablations=ablations), study, 1, lambda _: None)
    return folder


def daily_cycle(places: int = 3) -> np.ndarray:
    """Return 43 days of hourly counts with a daily cycle."""
    hours = np.arange(24 * 43)
    level = 20 + 15 * np.sin(hours / 24 * 2 * np.pi)
    return np.random.default_rng(0).poisson(level[:, None], (len(hours), places)).astype(float)
