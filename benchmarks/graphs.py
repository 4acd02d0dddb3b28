"""Who tells about whom: networks with different graphs on cities and on real panels.

`python -m benchmarks.graphs DATA OUT --set zones` trains every row of `--models` as often as
`--seeds` says, one file of scores for each, and prints RMSE and MAPE by step ahead, and each row's
RMSE against a location alone, paired by seed. `--set city` is the generated city (`--travel`,
`--locations`, a year); panels of recipes are read from OUT/panels, where `--prepare` builds them.
Validation windows, by which choices are made, and test windows are scored after one training;
`--on` says which are printed. `--table` only prints.

Rows are a preset and a graph. `alone` has neither edges nor factors of the city, `factors` has
factors alone, `both` lagged edges and factors, `lasso+factors` those of the graphical lasso.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import hangzhou, los_loop
from benchmarks.proofs import Options, print_table, show
from forecaster.estimators.base import Estimator
from forecaster.estimators.match import with_meaning
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.backtest import targets
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.metrics import sum_errors
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change, read_recipe
from forecaster.splits import SPLITS, Splits, cut_windows
from forecaster.synthetic.city import City, make_city

RECIPES = {
    "zones": "zone_taxi_2019",
    "grid": "grid_taxi_2010",
    "melbourne": "melbourne_2022",
    "uber": "uber_2014",
}
SETS = ("city", *RECIPES, "los", "hangzhou")
FACTORS = 4
# The graph of each row of `best`, and the number of factors
BEST = {
    "alone": ("own", 0),
    "lasso": ("lasso", 0),
    "lagged": ("lagged", 0),
    "factors": ("none", FACTORS),
    "both": ("lagged", FACTORS),
    "lasso+factors": ("lasso", FACTORS),
    "distance": ("distance", 0),
    "complete": ("complete", 0),
}
PAPER = {"alone": "own", **{kind: kind for kind in ("lasso", "lagged", "distance", "complete")}}
ROWS = (*(f"best-{row}" for row in BEST), *(f"paper-{row}" for row in PAPER))
YEAR_HOURS = 8_760
STEPS = (1, 3, 12)


def main() -> None:
    """Train the rows and print the table."""
    parser = Options.parser(__doc__, ROWS)
    parser.add_argument("--set", choices=SETS, required=True)
    parser.add_argument("--horizon", type=int, default=3)
    parser.add_argument("--travel", type=float, default=1.0, help="of the city")
    parser.add_argument("--locations", type=int, default=200, help="of the city")
    parser.add_argument("--on", choices=SPLITS[1:], default="test", help="windows of the table")
    parser.add_argument("--prepare", action="store_true", help="build the panel and stop")
    arguments = parser.parse_args()
    panels = arguments.out / "panels"
    if arguments.prepare:
        _prepare(arguments.data, panels, arguments.set)
        return
    name = arguments.set
    if name == "city":
        name = f"city-{arguments.locations}-{arguments.travel:g}"
    arguments.out = arguments.out / f"{name}-{arguments.horizon}"
    options = Options.of(arguments)
    if options.models:
        panel, splits, recipe, city = _open(arguments, panels)
        recipe = change(recipe, {"lags": {"horizon": arguments.horizon}}, source="graphs")
        measure = _measurer(panel, splits, recipe, options)
        if city is not None:
            _print_floors(city, splits, recipe)
        options.run(measure, is_network=True)
    _print(options.results(), arguments.horizon, arguments.on)


def _prepare(data: Path, panels: Path, name: str) -> None:
    """Build the panel of a recipe, unless it is there."""
    from forecaster.ingest.build import build_panel, find_sources  # noqa: PLC0415 (needs duckdb)

    recipe = read_recipe(_recipe_path(name))
    if not (panels / name).exists():
        panels.mkdir(parents=True, exist_ok=True)
        build_panel(recipe, find_sources(recipe, data)).save(panels / name, recipe)
    print(Panel.open(panels / name))


def _recipe_path(name: str) -> Path:
    return Path(__file__).parents[1] / "recipes" / f"{RECIPES[name]}.toml"


def _open(
    arguments: argparse.Namespace, panels: Path
) -> tuple[Panel, Splits, Recipe, City | None]:
    """The panel of a set, its splits and recipe, and the city that it is of."""
    if arguments.set == "city":
        city = make_city(arguments.locations, hours=YEAR_HOURS, travel=arguments.travel)
        splits = Splits.by_share(city.panel, validation=0.1, test=0.15)
        return city.panel, splits, Recipe(), city
    if arguments.set in RECIPES:
        panel, recipe = (
            Panel.open(panels / arguments.set),
            read_recipe(_recipe_path(arguments.set)),
        )
        return panel, Splits.from_config(panel, recipe.splits), recipe, None
    if arguments.set == "los":
        table = pd.read_parquet(arguments.data / "los_loop_2012" / "speed.parquet")
        panel = Panel.from_wide(
            table, timezone="America/Los_Angeles", kind="measurement", step_minutes=5
        )
        return panel, los_loop.split(panel), Recipe(), None
    panel = hangzhou.read_both(arguments.data)
    splits = Splits(
        train=[("2019-01-01", "2019-01-18")],
        validation=[("2019-01-19", "2019-01-20")],
        test=[("2019-01-21", "2019-01-25")],
    )
    return panel, splits, Recipe(), None


def _measurer(
    panel: Panel, splits: Splits, recipe: Recipe, options: Options
) -> Callable[[str, int], Mapping[str, Any]]:
    """A function that trains a row and scores it."""
    graphs: dict[str, DependencyGraph] = {}

    def graph_of(kind: str, base: Recipe) -> DependencyGraph:
        if kind not in graphs:
            name = "lagged" if kind == "none" else kind
            config = base.graph.model_copy(update={"kind": name})
            if kind == "none":  # a directed graph without edges
                config = config.model_copy(update={"penalty": 1e3})
            graphs[kind] = learn_graph(panel, splits, config, lags=base.lags)
        return graphs[kind]

    def measure(name: str, seed: int) -> Mapping[str, Any]:
        preset, _, row = name.partition("-")
        kind, factors = BEST[row] if preset == "best" else (PAPER[row], 0)
        training = {"seed": seed} | ({} if options.epochs is None else {"epochs": options.epochs})
        values: dict[str, object] = {"preset": preset, "training": training}
        if preset == "best":
            edges = {"edges": 0} if row == "alone" else {}
            values["mixer"] = {"factors": factors, **edges}
        own = with_meaning(change(recipe, values, source=name), panel)
        model = Forecaster(graph_of(kind, own), own)
        model.falls_back = False
        model.fit(panel, splits)
        scores = {on: _score(model, panel, splits, on) for on in SPLITS[1:]}
        return scores | {"edges": len(graph_of(kind, own))}

    return measure


def _score(model: Estimator, panel: Panel, splits: Splits, on: str) -> dict[str, Any]:
    windows = cut_windows(panel, splits, model.recipe.lags)
    origins = windows.test if on == "test" else windows.validation
    prediction = model.predict_all(panel, origins)
    truth = targets(panel, origins, model.recipe.lags.horizon)
    cut = model.recipe.metrics.mape_cut
    errors = sum_errors(truth, prediction.forecast, cut, prediction.relative)
    return {name: sums.sum(axis=0).tolist() for name, sums in vars(errors).items()}


def _print_floors(city: City, splits: Splits, recipe: Recipe) -> None:
    """Print the bounds of all forecasts and of those from each location alone."""
    origins = cut_windows(city.panel, splits, recipe.lags).test
    for name, bound in (("floor", city.floor), ("floor alone", city.floor_alone)):
        steps = bound(origins, recipe.lags.horizon)
        mean = np.sqrt(np.square(steps).mean())
        print(f"{name}: {mean:.3f}, by step {np.round(steps, 3).tolist()}")


def _print(results: Mapping[str, Sequence[Mapping[str, Any]]], horizon: int, on: str) -> None:
    """Print RMSE by step and MAPE, and each row against its preset's `alone`."""
    steps = [k for k in STEPS if k <= horizon]
    rows = []
    for name, seeds in results.items():
        by_seed = [_rmse(scores[on], horizon) for scores in seeds]
        alone = results.get(f"{name.split('-')[0]}-alone", ())
        mape = [100 * sum(s[on]["shares"]) / max(sum(s[on]["terms"]), 1) for s in seeds]
        cells = [show([one[k] for one in by_seed], 3) for k in (0, *steps)]
        against = [
            f"{_change(by_seed, [_rmse(s[on], horizon) for s in alone], k)}" for k in (0, *steps)
        ]
        rows.append([name, str(seeds[0]["edges"]), *cells, show(mape), *against])
    names = ["all", *(f"+{k}" for k in steps)]
    versus = [f"{name} against alone" for name in names]
    print_table(["", "edges", *names, "MAPE %", *versus], rows)


def _rmse(scores: Mapping[str, Any], horizon: int) -> dict[int, float]:
    """The RMSE of each step ahead, and of all (0)."""
    squares, values = scores["squares"], scores["values"]
    by_step = {k + 1: (squares[k] / values[k]) ** 0.5 for k in range(horizon)}
    return {0: (sum(squares) / sum(values)) ** 0.5, **by_step}


def _change(
    rows: Sequence[Mapping[int, float]], alone: Sequence[Mapping[int, float]], step: int
) -> str:
    """The relative difference, paired by seed."""
    pairs = list(zip(rows, alone, strict=False))
    return show([100 * (a[step] / b[step] - 1) for a, b in pairs], 1) + " %" if pairs else ""


if __name__ == "__main__":
    main()
