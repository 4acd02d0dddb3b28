"""A city of half a year of training, two months of validation and five months since."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.graph_arrays import PAIRS, STRENGTHS
from forecaster.panel.panel import Panel
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city

WEEK = 24 * 7
TRAINED, VALIDATED, WEEKS = 22, 30, 52


@dataclass(frozen=True, eq=False)
class DriftCase:
    """A fitted run and its panel, in which nothing changed."""

    estimator: Estimator
    panel: Panel
    splits: Splits

    def changed(self, values: np.ndarray) -> Panel:
        """The panel with other values."""
        return self.panel.with_data(values.astype(np.float32))


@pytest.fixture(scope="session")
def drift_case() -> DriftCase:
    city = make_city(locations=13, hours=WEEK * WEEKS, seed=3)
    panel = city.panel
    times = [f"{panel.instant(WEEK * week)}Z" for week in (0, TRAINED, VALIDATED, WEEKS)]
    lasts = [f"{panel.instant(WEEK * week - 1)}Z" for week in (TRAINED, VALIDATED, WEEKS)]
    splits = Splits(*([(a, b)] for a, b in zip(times[:3], lasts, strict=True)))
    fitted = HistoricalMean().fit(panel, splits)
    pairs = np.array([[0, 1], [2, 3], [4, 7]])
    run = fitted.run
    assert run is not None
    fitted.run = replace(run, arrays={**run.arrays, PAIRS: pairs, STRENGTHS: np.full(3, 0.3)})
    return DriftCase(fitted, panel, splits)
