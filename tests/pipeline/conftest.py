from pathlib import Path

import pytest

from forecaster.config import EvaluationConfig, SplitsConfig
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.pipeline.experiment import Experiment
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from tests.ingest.conftest import spark_session  # noqa: F401 (a fixture)


@pytest.fixture(autouse=True)
def _small_sums(one_thread: None) -> None:
    """Compute with one thread in all of these tests."""


@pytest.fixture
def recipe() -> Recipe:
    """Return a recipe of the small city with fixed splits, and two trainings of each network."""
    splits = Splits.by_share(small_city(), validation=0.15, test=0.2)
    ranges = {name: tuple(getattr(splits, name)) for name in ("train", "validation", "test")}
    parts = {"splits": SplitsConfig(**ranges), "evaluation": EvaluationConfig(seeds=2)}
    return RECIPE.model_copy(update=parts)


@pytest.fixture
def experiment(tmp_path: Path, recipe: Recipe) -> Experiment:
    """Return a comparison in an empty folder, on the saved small city."""
    small_city().save(tmp_path / "panel")
    return Experiment(tmp_path / "experiment", tmp_path / "panel", recipe, ("observed", "persist"))
