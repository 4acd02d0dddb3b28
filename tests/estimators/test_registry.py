from pathlib import Path

import pytest

from forecaster.artifact import load_run, save_run
from forecaster.errors import ArtifactError
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.registry import ESTIMATORS, find_estimator, load_estimator
from forecaster.splits import Splits


def test_every_estimator_is_known_by_its_own_name() -> None:
    for name in ESTIMATORS:
        estimator = find_estimator(name)
        assert estimator.__name__ == name
        assert issubclass(estimator, Estimator)


def test_a_run_of_an_unknown_estimator_is_refused(tmp_path: Path) -> None:
    panel = small_city()
    SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel)).save(tmp_path)
    run = load_run(tmp_path)
    save_run(tmp_path, type(run)("Oracle", run.recipe, run.about, run.arrays))
    with pytest.raises(ArtifactError, match="the run of a Oracle; this program knows Last"):
        load_estimator(tmp_path)
