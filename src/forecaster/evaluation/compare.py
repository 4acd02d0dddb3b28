"""Several estimators on the same test windows: `evaluate([model, …], panel, splits)`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64

from forecaster.choices import Weather
from forecaster.errors import ConfigError, DataError
from forecaster.estimators.base import Estimator
from forecaster.evaluation.backtest import Assessment, assess
from forecaster.evaluation.comparison import Comparison, Row
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows


def evaluate(
    models: Sequence[Estimator],
    panel: Panel,
    splits: Splits,
    *,
    weather: Sequence[Weather] = ("observed",),
) -> Comparison:
    """Compare estimators on the test windows that all of them can be asked about.

    Args:
        models: fitted ones are tested as they are, others are fitted first. Those that differ in
            nothing but `training.seed` share a row: mean ± deviation over them.
        panel: what was observed.
        splits: which steps are for what; only test steps are scored.
        weather: what to take for covariates ahead; the first is what the verdict is about.
    """
    if not models:
        raise ConfigError("no model to evaluate; give some, as in evaluate([SeasonalNaive()], …)")
    cuts = {model.recipe.metrics.mape_cut for model in models}
    if len(cuts) > 1:
        raise ConfigError(f"models differ in metrics.mape_cut ({sorted(cuts)}); give all the same")
    levels = {_levels(model) for model in models} - {()}
    if len(levels) > 1:
        named = f"models differ in intervals.quantiles ({sorted(levels)})"
        raise ConfigError(f"{named}; give all the same")
    origins = common_windows(panel, splits, [model.recipe for model in models])
    rows: dict[tuple[str, str], dict[int, Assessment]] = {}
    for model in models:
        if model.run is None:
            model.fit(panel, splits)
        seed = model.recipe.training.seed if model.seeded else 0
        row = rows.setdefault((type(model).__name__, _key(model)), {})
        if seed in row:
            raise ConfigError(f"{type(model).__name__} with seed {seed} is there twice")
        row[seed] = assess(model, panel, origins, given_weather(panel, weather))
    names = _name([name for name, _ in rows])
    found = [Row(n, k[0], row) for n, (k, row) in zip(names, rows.items(), strict=True)]
    return Comparison(found, cuts.pop(), describe_panel(panel))


def describe_panel(panel: Panel) -> dict[str, Any]:
    """Return what a comparison says of its panel."""
    names = [*panel.covariates.names, *panel.local_covariates.names]
    return {"panel": panel.digest, "locations": len(panel.locations), "covariates": names}


def common_windows(
    panel: Panel, splits: Splits, recipes: Sequence[Recipe]
) -> Int64[np.ndarray, " B"]:
    """Return the test windows that all recipes' lags have in common."""
    horizons = {recipe.lags.horizon for recipe in recipes}
    if len(horizons) > 1:
        raise ConfigError(f"models forecast {sorted(horizons)} steps ahead; give all the same")
    unlike = {recipe.lags.model_dump_json(): recipe.lags for recipe in recipes}
    windows = [set(cut_windows(panel, splits, lags).test.tolist()) for lags in unlike.values()]
    common = sorted(set.intersection(*windows))
    if not common:
        raise DataError("models have no test window in common; test on a longer span")
    return np.array(common, dtype=np.int64)


def given_weather(panel: Panel, weather: Sequence[Weather]) -> list[Weather]:
    """Return what can be taken for the coming weather: without any there is no difference."""
    wanted = list(dict.fromkeys(weather))
    if not wanted:
        raise ConfigError("weather: none given; observed, persist, climatology or none is needed")
    has_any = panel.covariates.names or panel.local_covariates.names
    return wanted if has_any else wanted[:1]


def _levels(model: Estimator) -> tuple[float, ...]:
    """Return the quantiles of a model; none if it was saved before there were any."""
    return model.levels if model.run is not None else model.recipe.intervals.quantiles


def _key(model: Estimator) -> str:
    """Return what models of one row share: all of the recipe but the seed, and the graph."""
    recipe = change(model.recipe, {"training": {"seed": 0}}, source="the recipe")
    graph = model.run.parents.get("graph", "") if model.run is not None else ""
    return recipe.digest() + graph


def _name(names: list[str]) -> list[str]:
    """Return names that are told apart: the second Forecaster is `Forecaster 2`."""
    numbered = []
    for index, name in enumerate(names):
        count = names[: index + 1].count(name)
        numbered.append(name if count == 1 else f"{name} {count}")
    return numbered
