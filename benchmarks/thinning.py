"""Forecasts of `best` at a level that it was not trained on: validation counts thinned to a share.

`python -m benchmarks.thinning PANEL RECIPE` trains it with its input level clipped at 0.5, 0.25, 0
and not at all, and prints RMSE and bias of each at every share.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.models.mixer import seasonal
from forecaster.panel.panel import Panel
from forecaster.recipe import change, read_recipe
from forecaster.splits import Splits, cut_windows

BOUNDS = (np.inf, 0.5, 0.25, 0.0)
SHARES = (1.0, 0.3, 0.1, 0.03)
STRIDE = 3  # every third validation window


def main() -> None:
    """Train with every bound, and test at every share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("panel", type=Path)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()
    panel = Panel.open(arguments.panel)
    changes = {"preset": "best", "training": {"epochs": arguments.epochs}}
    recipe = change(read_recipe(arguments.recipe), changes, source="thinning")
    splits = Splits.from_config(panel, recipe.splits)
    origins = cut_windows(panel, splits, recipe.lags).validation[::STRIDE]
    steps = origins[:, None] + np.arange(1, recipe.lags.horizon + 1)
    for bound in BOUNDS:
        with patch.object(seasonal, "MAX_LOG_LEVEL", bound):
            model = Forecaster(recipe=recipe).fit(panel, splits)
            for share in SHARES:
                thinned = thin(panel, share)
                errors = model.predict(thinned, origins) - thinned.values[steps]
                rmse, bias = np.sqrt(np.nanmean(errors**2)), np.nanmean(errors)
                print(f"bound {bound:g}, share {share:g}: RMSE {rmse:.3f}, bias {bias:+.3f}")


def thin(panel: Panel, share: float) -> Panel:
    """The panel with a random share of all events."""
    values, observed = panel.values.copy(), np.isfinite(panel.values)
    drawn = np.random.default_rng(0).binomial(values[observed].astype(np.int64), share)
    values[observed] = drawn if share < 1 else values[observed]
    return replace(panel, values=values)


if __name__ == "__main__":
    main()
