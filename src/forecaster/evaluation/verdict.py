"""What a table means, in a line or two."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forecaster.evaluation.bootstrap import Difference, Interval

NEAR = 0.02  # a simpler model within 2 % of the best, by both metrics, is the one to use
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
        standings: what was tested.
        compare: gives the difference of two models by their names.
    """
    models = _models(standings)
    if not models:
        return ["No model was tested."]
    lines = _best_ablation(standings, compare)
    if models[1:]:
        return [_first(models, compare), *_by_mape(models, compare), *lines]
    return lines or [f"{models[0].name} is the only model that was tested: nothing to compare."]


def recommend(standings: Sequence[Standing]) -> str | None:
    """Return the name of the model to use: the simplest within 2 % of that of lowest RMSE."""
    models = _models(standings)
    if not models:
        return None
    best, reach = models[0], 1 + NEAR
    near = [m for m in models if m.rmse <= best.rmse * reach and m.mape <= best.mape * reach]
    return min(near, key=lambda model: (_rank(model), model.rmse)).name


def say_how_sure(name: str, wanted: float, static: float, online: float) -> str:
    """Return how many of 100 values lay within a model's intervals, and how many should."""
    aim, fixed, moving = (f"{100 * share:.3g}" for share in (wanted, static, online))
    return (
        f"Of 100 values, {aim} should lie within the {aim} % interval of {name}: {fixed} did as "
        f"it was set on validation (static), {moving} with corrections on the way (online)."
    )


def _models(standings: Sequence[Standing]) -> list[Standing]:
    """Return the models, the best first; a variant whose own model failed stands for itself."""
    names = {standing.name for standing in standings}
    return sorted((s for s in standings if s.of not in names), key=lambda s: s.rmse)


def _first(models: Sequence[Standing], compare: Compare) -> str:
    """Return the simplest model within reach of the best, or by how much the best is better."""
    best, second, *_ = models
    name = recommend(models)
    simple = next(model for model in models if model.name == name)
    if simple.rmse == best.rmse:
        other = second if simple is best else best
        return _better(simple, other, compare(simple.name, other.name).rmse)
    found = compare(simple.name, best.name).rmse
    behind = f"{100 * (simple.rmse / best.rmse - 1):.1f} % behind{_show(found)}"
    return f"{simple.name} is within 2 % of the best, {best.name} ({behind}): use it."


def _by_mape(models: Sequence[Standing], compare: Compare) -> list[str]:
    """Return which model is best by MAPE, if that is another."""
    best, first = min(models, key=lambda model: model.mape), models[0]
    if best is first or best.mape == first.mape:
        return []
    return [_better(best, first, compare(best.name, first.name).mape, by_mape=True)]


def _best_ablation(standings: Sequence[Standing], compare: Compare) -> list[str]:
    """Return whether any variant is better than the model that it varies."""
    named = {standing.name: standing for standing in standings}
    variants = sorted((s for s in standings if s.of in named), key=lambda s: s.rmse)
    if not variants or variants[0].of is None:
        return []
    best, base = variants[0], named[variants[0].of]
    if best.rmse >= base.rmse:
        return [f"None of the variants is better than {base.name} itself."]
    return [f"Of the variants: {_better(best, base, compare(best.name, base.name).rmse)}"]


def _better(
    one: Standing, other: Standing, found: Interval | None, *, by_mape: bool = False
) -> str:
    """Return by how much a model is better than another, as `A is 5.0 % better than B`."""
    ours, theirs = (one.mape, other.mape) if by_mape else (one.rmse, other.rmse)
    by = " by MAPE" if by_mape else ""
    if ours == theirs:
        return f"{one.name} and {other.name} err alike{by}."
    doubt = ", which may be chance" if found is not None and not found.is_clear else ""
    share = f"{100 * (1 - ours / theirs):.1f} % "
    return f"{one.name} is {share}better than {other.name}{by}{doubt}{_show(found)}."


def _show(found: Interval | None) -> str:
    """Return the interval on the side that the words speak of."""
    if found is None:
        return "; too few days for an interval"
    low, high = 100 * found.low, 100 * found.high
    if found.value < 0:
        low, high = -high, -low
    return f", interval {low:.1f} … {high:.1f} %"


def _rank(model: Standing) -> int:
    return SIMPLE.index(model.estimator) if model.estimator in SIMPLE else len(SIMPLE)
