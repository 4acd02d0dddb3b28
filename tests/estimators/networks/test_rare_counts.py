"""Forecasts of `best` on counts so rare that most are zero."""

import numpy as np
import pytest

from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.graph.dependency import DependencyGraph
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows

PLACES, WEEKS, DAY = 60, 16, 24
HOURS = WEEKS * 7 * DAY


@pytest.fixture(scope="module")
def rates() -> np.ndarray:
    """Expected counts: means from 0.1 to 2 an hour, in the shape of a day."""
    means = np.geomspace(0.1, 2, PLACES)
    shape = 1 + 0.8 * np.sin(2 * np.pi * np.arange(HOURS) / DAY)
    return shape[:, None] * means


@pytest.mark.slow
def test_L8_the_mean_of_rare_counts_is_unbiased_at_every_size(rates: np.ndarray) -> None:
    import pandas as pd  # noqa: PLC0415

    counts = np.random.default_rng(0).poisson(rates)
    times = pd.date_range("2024-01-01", periods=HOURS, freq="h")
    table = pd.DataFrame(counts, columns=[f"p{n:02}" for n in range(PLACES)])
    panel = Panel.from_wide(table.assign(time=times), timezone="UTC")
    splits = Splits.by_share(panel, validation=0.2, test=0.2)
    content = {"preset": "best", "training": {"epochs": 12}, "metrics": {"mape_cut": 3.0}}
    recipe = Recipe.of(content)
    pair = [(panel.locations.ids[0], panel.locations.ids[1])]
    model = Forecaster(DependencyGraph.from_edges(pair, panel), recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    ahead = origins[:, None] + np.arange(1, 4)
    forecast, expected = model.predict(panel, origins), rates[ahead]
    errors = (forecast - expected).sum(axis=(0, 1)), expected.sum(axis=(0, 1))
    bias, by_fifth = (
        errors[0].reshape(parts, -1).sum(axis=1) / errors[1].reshape(parts, -1).sum(axis=1)
        for parts in (1, 5)
    )
    assert np.abs(bias).max() < 0.01  # the floor of L8
    assert np.abs(by_fifth).max() < 0.05
    assert forecast.min() > 0
