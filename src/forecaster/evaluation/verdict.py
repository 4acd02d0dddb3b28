"""The conclusions of a comparison in one or two sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forecaster.evaluation.bootstrap import ErrorDifference, RelativeDifference

TOLERANCE = 0.02  # a simpler model within 2 % of the best, by both metrics, is recommended
# Simplest first.
SIMPLE_MODELS = ("LastValue", "SeasonalNaive", "HistoricalMean", "Ridge", "VAR", "Boosting")

Compare = Callable[[str, str], ErrorDifference]


@dataclass(frozen=True)
class ModelScore:
    """The errors of a model, averaged over its seeds."""

    name: str
    estimator: str
    rmse: float
    mape: float  # infinite without terms
    of: str | None = None  # the model that this one is an ablation of


def describe_ranking(scores: Sequence[ModelScore], compare: Compare) -> list[str]:
    """Return sentences on which model to use and how certain that is; by RMSE, as in the paper.

    Args:
        scores: of the models that were tested.
        compare: returns the difference of two models by their names.
    """
    models = _ranked_models(scores)
    if not models:
        return ["No model was tested."]
    lines = _best_ablation(scores, compare)
    if models[1:]:
        sentences = [_recommendation(models, compare), *_against_simple(models, compare)]
        return [*sentences, *_best_by_mape(models, compare), *lines]
    return lines or [f"Only {models[0].name} was tested: there is nothing to compare it with."]


def recommend(scores: Sequence[ModelScore]) -> str | None:
    """Return the name of the simplest model within 2 % of the lowest RMSE and its MAPE."""
    models = _ranked_models(scores)
    if not models:
        return None
    best, factor = models[0], 1 + TOLERANCE
    close = [m for m in models if m.rmse <= best.rmse * factor and m.mape <= best.mape * factor]
    return min(close, key=lambda model: (_simplicity_rank(model), model.rmse)).name


def strongest_simple(scores: Sequence[ModelScore], besides: str | None = None) -> str | None:
    """Return the name of the simple model with the lowest RMSE; None without any.

    Args:
        scores: of the models that were tested.
        besides: a model that does not count, as it is the one to compare.
    """
    ranked = _ranked_models(scores)
    simple = [m.name for m in ranked if m.estimator in SIMPLE_MODELS and m.name != besides]
    return next(iter(simple), None)


def describe_coverage(name: str, nominal: float, static: float, online: float) -> str:
    """Return a sentence that compares the coverage of a model's intervals with the nominal one."""
    target, fixed, updated = (f"{100 * share:.3g}" for share in (nominal, static, online))
    return (
        f"The {target} % interval of {name} contained {fixed} % of the observed values when "
        f"calibrated once on validation (static), and {updated} % when updated at every forecast "
        "origin (online)."
    )


def describe_randomised(static: float, online: float) -> str:
    """Return a sentence on the coverage of counts, each spread evenly over ± ½."""
    fixed, updated = (f"{100 * share:.3g}" for share in (static, online))
    return f"With every count spread evenly over ± ½ it contained {fixed} % and {updated} %."


def _ranked_models(scores: Sequence[ModelScore]) -> list[ModelScore]:
    """The models by RMSE; an ablation counts as a model if the one it varies has failed."""
    names = {score.name for score in scores}
    return sorted((s for s in scores if s.of not in names), key=lambda s: s.rmse)


def _recommendation(models: Sequence[ModelScore], compare: Compare) -> str:
    """Recommend the simplest model close to the best, or say how much better the best is."""
    best, second, *_ = models
    name = recommend(models)
    simple = next(model for model in models if model.name == name)
    if simple.rmse == best.rmse:
        rival = second if simple is best else best
        return _better(simple, rival, compare(simple.name, rival.name).rmse)
    difference = compare(simple.name, best.name).rmse
    gap = f"RMSE {100 * (simple.rmse / best.rmse - 1):.1f} % higher{_interval_text(difference)}"
    return f"Use {simple.name}: it is within 2 % of the best model, {best.name} ({gap})."


def _against_simple(models: Sequence[ModelScore], compare: Compare) -> list[str]:
    """Compare a network that is the best model with the strongest simple one, if not done yet."""
    best, second, *_ = models
    name = strongest_simple(models)
    if recommend(models) != best.name or name in (None, best.name, second.name):
        return []
    rival = next(model for model in models if model.name == name)
    text = _better(best, rival, compare(best.name, rival.name).rmse)
    return [f"Against the strongest simple model: {text}"]


def _best_by_mape(models: Sequence[ModelScore], compare: Compare) -> list[str]:
    """Name the best model by MAPE, if it is not the best by RMSE."""
    best, first = min(models, key=lambda model: model.mape), models[0]
    if best is first or best.mape == first.mape:
        return []
    return [_better(best, first, compare(best.name, first.name).mape, by_mape=True)]


def _best_ablation(scores: Sequence[ModelScore], compare: Compare) -> list[str]:
    """Say whether any ablation is better than the model that it varies."""
    by_name = {score.name: score for score in scores}
    ablations = sorted((s for s in scores if s.of in by_name), key=lambda s: s.rmse)
    if not ablations or ablations[0].of is None:
        return []
    best, base = ablations[0], by_name[ablations[0].of]
    if best.rmse >= base.rmse:
        return [f"None of the ablations is better than {base.name} itself."]
    return [f"Of the ablations: {_better(best, base, compare(best.name, base.name).rmse)}"]


def _better(
    model: ModelScore,
    rival: ModelScore,
    difference: RelativeDifference | None,
    *,
    by_mape: bool = False,
) -> str:
    """Return by how much a model is better than another, as `A is 5.0 % better than B`."""
    error, rival_error = (model.mape, rival.mape) if by_mape else (model.rmse, rival.rmse)
    by = " by MAPE" if by_mape else ""
    if error == rival_error:
        return f"{model.name} and {rival.name} have equal errors{by}."
    doubt = ", which may be chance" if difference is not None and not difference.is_clear else ""
    share = f"{100 * (1 - error / rival_error):.1f} % "
    text = _interval_text(difference)
    return f"{model.name} is {share}better than {rival.name}{by}{doubt}{text}."


def _interval_text(difference: RelativeDifference | None) -> str:
    """Return the interval with the sign that the sentence uses."""
    if difference is None:
        return "; too few days for an interval"
    low, high = 100 * difference.low, 100 * difference.high
    if difference.value < 0:
        low, high = -high, -low
    return f", interval {low:.1f} … {high:.1f} %"


def _simplicity_rank(model: ModelScore) -> int:
    """The position in `SIMPLE_MODELS`; networks come after all of them."""
    names = (*SIMPLE_MODELS, model.estimator)
    return names.index(model.estimator)
