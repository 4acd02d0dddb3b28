"""What members are worth on the validation windows: their weights, and what each of them adds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64

from forecaster.estimators.ensemble.weights import FOLDS, Errors, Loss, choose_weights
from forecaster.estimators.fallback.choice import fit_factor
from forecaster.estimators.forecast_inputs import DAY_MINUTES
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import TrainingData
from forecaster.paired import block_days

MOST_WEIGHED = 2**20  # forecasts of a member by which weights are chosen, of all its windows


@dataclass(frozen=True, eq=False)
class Judgement:
    """The weights for one measure, and errors on days that they were not fitted to."""

    weights: Float64[np.ndarray, " M"]
    penalty: float  # λ
    error: float  # of the ensemble: RMSE, or MAPE as a fraction
    equal: float  # with equal weights
    alone: Sequence[float]  # of each member
    without: Sequence[float]  # of the others, with weights of their own; NaN: there are none


def judge_members(folds: Sequence[Errors], loss: Loss) -> Judgement:
    """Choose the weights for one measure, and compare the ensemble with parts of it.

    Args:
        folds: the members' errors at the targets of each fold of days.
        loss: `squares` for RMSE, or `sizes` of relative errors for MAPE.
    """
    members = range(len(folds[0]))

    def error_of(chosen: Sequence[int]) -> float:
        if not chosen:
            return math.nan
        held_out = choose_weights([fold[list(chosen)] for fold in folds], loss).held_out
        return math.sqrt(held_out) if loss == "squares" else held_out

    best = choose_weights(folds, loss)
    mean = [fold.mean(axis=0, keepdims=True) for fold in folds]
    equal = choose_weights(mean, loss).held_out
    return Judgement(
        weights=best.weights,
        penalty=best.penalty,
        error=error_of(members),
        equal=math.sqrt(equal) if loss == "squares" else equal,
        alone=[error_of([m]) for m in members],
        without=[error_of([n for n in members if n != m]) for m in members],
    )


def judge(
    data: TrainingData, forecasts: Sequence[WindowForecasts], cut: float
) -> tuple[Judgement, Judgement | None]:
    """The weights of the mean, and of the forecasts for relative error if there are any.

    Args:
        data: with the validation windows.
        forecasts: of each member, of these windows.
        cut: the smallest target that counts for MAPE.
    """
    panel, origins = data.panel, data.windows.validation
    _, K, N = forecasts[0].mean.shape
    count = max(MOST_WEIGHED // (K * N), FOLDS)
    rows = np.linspace(0, len(origins) - 1, min(count, len(origins))).astype(np.int64)
    origins = origins[rows]
    first = panel.clock.local(panel.instants(origins + 1))
    days = first.astype("datetime64[D]").astype(np.int64)
    block = block_days(days, K * panel.clock.step_minutes / DAY_MINUTES)
    fold = block * min(FOLDS, int(block.max()) + 1) // (int(block.max()) + 1)
    truth = panel.values[origins[:, None] + np.arange(1, K + 1)]

    def errors_of(
        parts: Sequence[Float32[np.ndarray, "V K N"]], *, relative: bool
    ) -> list[Errors]:
        by_fold = []
        for number in np.unique(fold):
            chosen = fold == number
            target = truth[chosen]
            counted = (target >= cut) if relative else np.isfinite(target)
            errors = np.stack([(part[rows[chosen]] - target)[counted] for part in parts])
            by_fold.append(errors / target[counted] if relative else errors)
        return by_fold

    mean = judge_members(errors_of([own.mean for own in forecasts], relative=False), "squares")
    relatives = [own.relative for own in forecasts if own.relative is not None]
    if len(relatives) < len(forecasts):
        return mean, None
    return mean, judge_members(errors_of(relatives, relative=True), "sizes")


def fit_factors(
    data: TrainingData, mean: Float32[np.ndarray, "V K N"], cut: float
) -> Float32[np.ndarray, " N"]:
    """By location, the factor from a member's mean to its lowest relative error."""
    origins = data.windows.validation
    truth = data.panel.values[origins[:, None] + np.arange(1, mean.shape[1] + 1)]
    factors = [fit_factor(truth[..., n], mean[..., n], cut) for n in range(mean.shape[2])]
    return np.array(factors, dtype=np.float32)


def describe(names: Sequence[str], mean: Judgement, relative: Judgement | None) -> dict[str, Any]:
    """The weights and what each member adds, for a run's description; numbers of validation."""
    measures = {"rmse": mean, **({} if relative is None else {"mape": relative})}
    return {
        measure: {
            "error": _number(judged.error),
            "equal": _number(judged.equal),
            "penalty": _number(judged.penalty),
            "members": {
                name: {
                    "weight": float(judged.weights[m]),
                    "alone": _number(judged.alone[m]),
                    "without": _number(judged.without[m]),
                }
                for m, name in enumerate(names)
            },
        }
        for measure, judged in measures.items()
    }


def _number(value: float) -> float | None:
    """A number as JSON; None: infinite, or not known."""
    return value if math.isfinite(value) else None
