"""What a table means, in a line or two."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forecaster.evaluation.paired import Difference, Interval

NEAR = 0.02  # a simpler model within 2 % of the best is the one to use
SIMPLE = ("SeasonalNaive", "HistoricalMean", "Ridge", "VAR", "Boosting")  # the simplest first

Compare = Callable[[str, str], Difference]


@dataclass(frozen=True)
class Standing:
    """How well a model did, on average over its trainings."""

    name: str
    estimator: str
    rmse: float
    mape: float  # infinite without terms
    of: str | None = None  # the model that it is an ablation of


def give_verdict(standings: Sequence[Standing], compare: Compare) -> list[str]:
    """Return which model to use, and how sure that is; by RMSE, the first metric of the paper.

    Args:
        standings: at least what was tested.
        compare: gives the difference of two models by their names.
    """
    models = sorted((s for s in standings if s.of is None), key=lambda s: s.rmse)
    if not models:
        return ["No model was tested."]
    lines = _best_ablation(standings, compare)
    if models[1:]:
        return [_first(models, compare), *_by_mape(models, compare), *lines]
    return lines or [f"{models[0].name} is the only model that was tested: nothing to compare."]


def recommend(standings: Sequence[Standing]) -> str | None:
    """Return the name of the model to use: the simplest within 2 % of the lowest RMSE."""
    models = [s for s in standings if s.of is None]
    if not models:
        return None
    reach = min(model.rmse for model in models) * (1 + NEAR)
    near = [model for model in models if model.rmse <= reach]
    return min(near, key=lambda model: (_rank(model), model.rmse)).name


def _first(models: Sequence[Standing], compare: Compare) -> str:
    """Return the simplest model within reach of the best, or by how much the best is better."""
    best, second, *_ = models
    simple = recommend(models)
    if simple is not None and simple != best.name:
        found = compare(simple, best.name).rmse
        behind = f" ({_percent(found)} behind{_show(found)})" if found else ""
        return f"{simple} is within 2 % of the best, {best.name}{behind}: use it."
    return _better(best.name, second.name, compare(best.name, second.name).rmse, "")


def _by_mape(models: Sequence[Standing], compare: Compare) -> list[str]:
    """Return which model is best by MAPE, if that is another."""
    best, second = sorted(models, key=lambda model: model.mape)[:2]
    if best.name == models[0].name or best.mape == second.mape:
        return []
    return [
        _better(best.name, models[0].name, compare(best.name, models[0].name).mape, " by MAPE")
    ]


def _best_ablation(standings: Sequence[Standing], compare: Compare) -> list[str]:
    variants = sorted((s for s in standings if s.of is not None), key=lambda s: s.rmse)
    if not variants or variants[0].of is None:
        return []
    name, base = variants[0].name, variants[0].of
    found = compare(name, base).rmse
    if found is None:
        return []
    if found.value >= 0:
        return [f"None of the variants is better than {base} itself."]
    return [f"Of the variants: {_better(name, base, found, '')}"]


def _better(name: str, other: str, found: Interval | None, by: str) -> str:
    """Return by how much a model is better than another, as `A is 5.0 % better than B`."""
    if found is None:
        return f"{name} is better than {other}{by}; too few days for an interval."
    doubt = "" if found.is_clear else ", which may be chance"
    return f"{name} is {_percent(found)} better than {other}{by}{doubt}{_show(found)}."


def _percent(found: Interval) -> str:
    return f"{abs(100 * found.value):.1f} %"


def _show(found: Interval) -> str:
    """Return the interval on the side that the words speak of."""
    low, high = 100 * found.low, 100 * found.high
    if found.value < 0:
        low, high = -high, -low
    return f", interval {low:.1f} … {high:.1f} %"


def _rank(model: Standing) -> int:
    return SIMPLE.index(model.estimator) if model.estimator in SIMPLE else len(SIMPLE)
