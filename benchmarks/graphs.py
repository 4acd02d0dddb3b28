"""Who tells about whom: networks with different graphs on cities and on real panels.

`python -m benchmarks.graphs DATA OUT --set zones` trains every row of `--models` as often as
`--seeds` says, one file of scores for each (what is there is not trained again), and prints a
table: RMSE by step ahead, MAPE, and the RMSE against that of a location alone, with the 95 %
interval over days and seeds where there are seven days. `--set city` is the generated city
(`--travel`, `--locations`, a year), with the share of the way from `alone` to the floor; panels of
recipes are read from OUT/panels, where `--prepare` builds them. Validation windows, by which
choices are made, and test windows are scored after one training; `--on` says which are printed.
`--table` only prints.

Rows are a preset and a graph; the ensemble `best` is made of the network of `quick`. `alone` has
neither edges nor factors of the city, `factors` has factors alone, `both` lagged edges and
factors, `lasso+factors` those of the graphical lasso. `linear` trains no network
(`benchmarks.graphs_linear`); `dcrnn-lags` takes the kernel of distances.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import hangzhou, los_loop, sparse
from benchmarks.graphs_linear import LinearModel
from benchmarks.proofs import Options, print_table, show
from forecaster.estimators.base import Estimator
from forecaster.estimators.match import with_meaning
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.backtest import targets
from forecaster.evaluation.bootstrap import RelativeDifference, compare_errors
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.metrics import ErrorSums, sum_errors
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
SETS = ("city", *RECIPES, "uber996", "los", "hangzhou")
FACTORS = 4
# The graph of each row of `quick`, and the number of factors
QUICK = {
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
DCRNN = "dcrnn-lags"
ROWS = (
    *(f"{of}-{row}" for of in ("linear", "quick") for row in QUICK),
    *(f"paper-{row}" for row in PAPER),
    DCRNN,
)
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
    floors = options.out / "floors.json"
    if options.models:
        panel, splits, recipe, city = _open(arguments, panels)
        recipe = change(recipe, {"lags": {"horizon": arguments.horizon}}, source="graphs")
        if city is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            floors.write_text(json.dumps(_floors(city, splits, recipe)), encoding="utf-8")
        options.run(_measurer(panel, splits, recipe, options), is_network=True)
    bounds = json.loads(floors.read_text(encoding="utf-8")) if floors.exists() else {}
    _print(options.results(), arguments.horizon, arguments.on, bounds.get(arguments.on))


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
    if arguments.set == "uber996":
        recipe = Recipe.of({"splits": sparse.SPLITS, "metrics": {"mape_cut": 3.0}})
        panel = sparse.read_panel(arguments.data, panels / "uber996")
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
        if name == DCRNN:
            model = options.fit("DCRNN-lags", seed, recipe, panel, splits)
            return {on: _score_model(model, panel, splits, on) for on in SPLITS[1:]} | {
                "edges": None
            }
        preset, _, row = name.partition("-")
        kind, factors = (PAPER[row], 0) if preset == "paper" else QUICK[row]
        if preset == "linear":
            base = with_meaning(recipe, panel)
            linear = LinearModel(panel, splits, base.lags, graph_of(kind, base), factors)
            scores = {on: _score(linear.forecast, panel, splits, base, on) for on in SPLITS[1:]}
            return scores | {"edges": len(graph_of(kind, base))}
        training = {"seed": seed} | ({} if options.epochs is None else {"epochs": options.epochs})
        values: dict[str, object] = {"preset": preset, "training": training}
        if preset == "quick":
            edges = {"edges": 0} if row == "alone" else {}
            values["mixer"] = {"factors": factors, **edges}
        own = with_meaning(change(recipe, values, source=name), panel)
        forecaster = Forecaster(graph_of(kind, own), own)
        forecaster.falls_back = False
        forecaster.fit(panel, splits)
        scores = {on: _score_model(forecaster, panel, splits, on) for on in SPLITS[1:]}
        return scores | {"edges": len(graph_of(kind, own))}

    return measure


def _score_model(model: Estimator, panel: Panel, splits: Splits, on: str) -> dict[str, Any]:
    def forecast(origins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prediction = model.predict_all(panel, origins)
        return prediction.forecast, prediction.relative

    return _score(forecast, panel, splits, model.recipe, on)


def _score(
    forecast: Callable[[np.ndarray], np.ndarray | tuple[np.ndarray, np.ndarray]],
    panel: Panel,
    splits: Splits,
    recipe: Recipe,
    on: str,
) -> dict[str, Any]:
    """The error sums of every day and step ahead."""
    windows = cut_windows(panel, splits, recipe.lags)
    origins = windows.test if on == "test" else windows.validation
    forecasts = forecast(origins)
    mean, relative = forecasts if isinstance(forecasts, tuple) else (forecasts, None)
    truth = targets(panel, origins, recipe.lags.horizon)
    errors = sum_errors(truth, mean, recipe.metrics.mape_cut, relative)
    days = panel.clock.local(panel.times[origins]).astype("datetime64[D]")
    first = np.unique(days, return_index=True)[1]
    return {
        name: np.add.reduceat(sums, first, axis=0).tolist() for name, sums in vars(errors).items()
    }


def _floors(city: City, splits: Splits, recipe: Recipe) -> dict[str, list[float]]:
    """The RMSE by step ahead that no forecast falls below, on the windows of each part."""
    windows = cut_windows(city.panel, splits, recipe.lags)
    parts = {"test": windows.test, "validation": windows.validation}
    horizon = recipe.lags.horizon
    return {on: city.floor(origins, horizon).tolist() for on, origins in parts.items()}


def _print(
    results: Mapping[str, Sequence[Mapping[str, Any]]],
    horizon: int,
    on: str,
    floor: Sequence[float] | None,
) -> None:
    """Print RMSE by step and MAPE, and each row against its preset's `alone`."""
    steps = [(0, "all"), *((k, f"+{k}") for k in STEPS if k <= horizon)]
    errors = {name: [_sums(scores[on]) for scores in seeds] for name, seeds in results.items()}
    rows = []
    for name, by_seed in errors.items():
        alone = errors.get(f"{name.split('-')[0]}-alone", errors.get("quick-alone", []))
        edges = results[name][0]["edges"]
        cells = [show([_rmse(sums, k) for sums in by_seed], 3) for k, _ in steps]
        mape = show([100 * sums.shares.sum() / max(sums.terms.sum(), 1) for sums in by_seed])
        against = [_compare(by_seed, alone, k) for k, _ in steps]
        closed = [_closed(by_seed, alone, floor, k) for k, _ in steps] if floor else []
        rows.append(["–" if edges is None else f"{edges:,}", *cells, mape, *against, *closed])
    names = [name for _, name in steps]
    header = ["", "edges", *names, "MAPE %", *(f"{name} against alone" for name in names)]
    header += [f"{name} closed" for name in names] if floor else []
    if floor:
        bound = [_floor_of(floor, k) for k, _ in steps]
        rows.append(["", *(f"{value:.3f}" for value in bound), *[""] * (2 * len(names) + 1)])
    labels = [f"{name} ({len(by_seed)})" for name, by_seed in errors.items()] + ["floor"]
    print_table(header, [[label, *row] for label, row in zip(labels, rows, strict=False)])


def _sums(scores: Mapping[str, Any]) -> ErrorSums:
    return ErrorSums(**{name: np.asarray(values) for name, values in scores.items()})


def _rmse(errors: ErrorSums, step: int) -> float:
    """The RMSE of a step ahead, or of all (0)."""
    part = errors.step(step - 1) if step else errors
    return float(np.sqrt(part.squares.sum() / part.values.sum()))


def _floor_of(floor: Sequence[float], step: int) -> float:
    return floor[step - 1] if step else float(np.sqrt(np.square(floor).mean()))


def _compare(rows: Sequence[ErrorSums], alone: Sequence[ErrorSums], step: int) -> str:
    """The relative difference, with its interval over days and seeds where there are enough."""
    if not alone or rows is alone:
        return ""
    first = max(step, 1)
    last = step or rows[0].squares.shape[1]
    models = [[errors.steps(first, last) for errors in model] for model in (rows, alone)]
    days = np.arange(len(rows[0].squares))
    difference = compare_errors(models[0], models[1], days).rmse
    if difference is not None:
        return _describe(difference)
    mean, reference = (np.mean([_rmse(errors, step) for errors in part]) for part in (rows, alone))
    return f"{100 * (mean / reference - 1):+.1f} %"


def _describe(difference: RelativeDifference) -> str:
    value, low, high = (100 * end for end in (difference.value, difference.low, difference.high))
    text = f"{value:+.1f} % ({low:+.1f} … {high:+.1f})"
    return f"**{text}**" if difference.is_clear else text


def _closed(
    rows: Sequence[ErrorSums], alone: Sequence[ErrorSums], floor: Sequence[float], step: int
) -> str:
    """The share of the way from `alone` to the floor."""
    if not alone or rows is alone:
        return ""
    mean, reference = (np.mean([_rmse(errors, step) for errors in part]) for part in (rows, alone))
    return f"{100 * (reference - mean) / (reference - _floor_of(floor, step)):.0f} %"


if __name__ == "__main__":
    main()
