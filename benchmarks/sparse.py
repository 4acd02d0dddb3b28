"""Sparse counts: Uber pickups of 2014 at 996 intersections, half a ride an hour on average.

`python -m benchmarks.sparse DATA OUT` snaps every pickup to the nearest of Manhattan's
intersections within 200 m, keeps the 996 busiest of the training weeks, trains `best` with several
seeds, HistoricalMean, Ridge and Boosting, and prints RMSE, bias (overall and by fifth of location
size) and coverage (raw, and randomised: a count x stands for x ± ½) of the test weeks.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.boosting import Boosting
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.backtest import backtest, targets
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows

PLACES, METRES, DEGREE = 996, 200, 111_320
SPLITS = {
    "train": [["2014-04-01", "2014-06-09"]],
    "validation": [["2014-06-10", "2014-06-16"]],
    "test": [["2014-06-17", "2014-06-30"]],
}


def main() -> None:
    """Build the panel, train every model, and print what the test weeks say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="for a quick try")
    parser.add_argument("--simple", action="store_true", help="leave out the network")
    arguments = parser.parse_args()
    panel = read_panel(arguments.data, arguments.out)
    recipe = Recipe.of({"splits": SPLITS, "metrics": {"mape_cut": 3.0}})
    models: dict[str, Estimator] = {
        "HistoricalMean": HistoricalMean(recipe),
        "Ridge": Ridge(recipe),
        "Boosting": Boosting(recipe),
    }
    for seed in range(0 if arguments.simple else arguments.seeds):
        training = {"seed": seed} | ({"epochs": arguments.epochs} if arguments.epochs else {})
        best = change(recipe, {"preset": "best", "training": training}, source="sparse")
        models[f"best, seed {seed}"] = Forecaster(recipe=best)
    splits = Splits.from_config(panel, recipe.splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    train = splits.mask("train", panel.clock, panel.times)
    fifths = np.array_split(np.argsort(np.nanmean(panel.values[train], axis=0)), 5)
    for name, model in models.items():
        print(f"{name}: {_describe(model.fit(panel, splits), panel, origins, fifths)}", flush=True)


def read_panel(data: Path, out: Path) -> Panel:
    """The panel of the busiest intersections, built once."""
    if (out / "manifest.json").exists():
        return Panel.open(out)
    rides = pd.read_parquet(data / "uber_nyc_2014/uber-raw-data-apr-jun14.parquet")
    nodes = pd.read_parquet(data / "nyc_geo/manhattan_intersections_4091.parquet")
    metres = np.array([DEGREE, np.cos(np.radians(nodes["lat"].mean())) * DEGREE])
    tree = cKDTree(nodes[["lat", "lon"]].to_numpy() * metres)
    apart, nearest = tree.query(
        rides[["Lat", "Lon"]].to_numpy() * metres, distance_upper_bound=METRES
    )
    near = np.isfinite(apart)
    hours = pd.to_datetime(rides["Date/Time"]).dt.floor("h")[near]
    counts = pd.crosstab(hours, nodes["node"].to_numpy()[nearest[near]])
    training = counts.index <= f"{SPLITS['train'][0][1]} 23:00"
    busiest = sorted(counts[training].sum().nlargest(PLACES).index)
    table = counts[busiest].rename(columns=str).rename_axis("time").reset_index()
    places = nodes[nodes["node"].isin(busiest)]
    locations = places.assign(id=places["node"].astype(str))[["id", "lat", "lon"]]
    panel = Panel.from_wide(table, timezone="America/New_York", country="US", locations=locations)
    return panel.save(out)


def _describe(
    model: Estimator, panel: Panel, origins: np.ndarray, fifths: list[np.ndarray]
) -> str:
    """The errors, biases and coverages of a model, as text."""
    result = backtest(model, panel, origins)
    scores = result.errors["observed"].scores()
    forecast = model.predict(panel, origins).astype(np.float64)
    truth = targets(panel, origins, forecast.shape[1]).astype(np.float64)
    error, size = (part.sum(axis=(0, 1)) for part in (forecast - truth, truth))
    biases = [100 * error[fifth].sum() / size[fifth].sum() for fifth in fifths]
    texts = [
        f"RMSE {scores.rmse.show()[:6]}",
        f"MAE {scores.mae}",
        f"MAPE {scores.mape.show(True)}",
    ]
    texts += [f"bias {100 * error.sum() / size.sum():+.2f} %"]
    texts += ["by fifth " + ", ".join(f"{bias:+.1f}" for bias in biases)]
    intervals = result.interval_results
    if intervals is not None:
        online = intervals.by_window["online"].scores()
        texts.append(f"coverage {online.coverage.show(True)}, {online.randomised.show(True)}")
    return f"RMSE {scores.rmse}; " + "; ".join(texts[1:])


if __name__ == "__main__":
    main()
