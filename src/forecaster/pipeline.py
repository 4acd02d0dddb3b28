"""The whole path on one page: a city, its panel, its checkup, models, and their errors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from forecaster.config import PanelConfig, Recipe
from forecaster.estimators.registry import ESTIMATORS
from forecaster.evaluation.backtest import backtest
from forecaster.metrics import Report
from forecaster.panel.panel import Panel
from forecaster.report.doctor import Checkup, examine
from forecaster.splits import Splits, Windows, cut_windows
from forecaster.synthetic.city import City, make_city

DEMO_LOCATIONS, DEMO_START, DEMO_HOURS = (
    60,
    "2014-09-01",
    24 * 400,
)  # both clock changes lie within
LOST_FEED = slice(24 * 75, 24 * 76 + 7)  # 31 hours that no place reported
LOST_SENSOR = slice(24 * 130, 24 * 139)  # nine days of one place

Say = Callable[[str], None]


@dataclass(frozen=True)
class Demo:
    """What the demonstration made."""

    panel: Panel
    checkup: Checkup
    windows: Windows
    reports: dict[str, Report]  # by estimator
    floor: np.ndarray  # RMSE per step that no forecast can be below


def run_demo(folder: Path, say: Say) -> Demo:
    """Generate a city, examine its panel, and compare the estimators on its last fifth."""
    say("generating the city")
    recipe = Recipe(panel=PanelConfig(timezone="America/New_York"))
    city = make_city(DEMO_LOCATIONS, DEMO_START, DEMO_HOURS)
    panel = lose_feeds(city).save(folder / "panel", recipe)
    say("examining the panel")
    checkup = examine(panel, recipe)
    splits = Splits.by_share(panel)
    windows = cut_windows(panel, splits, recipe.lags)
    reports = {}
    for name, report in _compare(folder, panel, splits, windows, recipe, say):
        reports[name] = report
    floor = city.floor(windows.test, recipe.lags.horizon)
    return Demo(panel, checkup, windows, reports, floor)


def lose_feeds(city: City) -> Panel:
    """Return the city's panel with an outage: missing values, as real feeds have them."""
    values = city.panel.values.copy()
    values[LOST_FEED] = np.nan
    values[LOST_SENSOR, int(np.argmax(values[:24].sum(axis=0)))] = np.nan
    return replace(city.panel, values=values)


def _compare(
    folder: Path, panel: Panel, splits: Splits, windows: Windows, recipe: Recipe, say: Say
) -> Iterator[tuple[str, Report]]:
    for name, estimator in ESTIMATORS.items():
        say(f"fitting {name}")
        fitted = estimator(recipe).fit(panel, splits)
        fitted.save(folder / "runs" / name)
        yield name, backtest(fitted, panel, windows.test)
