"""The ledger: what the forecasts of each run were worth, by local day, once the day is over."""

from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.estimators.forecast_inputs import fill_of
from forecaster.serve.data.scores import DayScore, add_up
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.accuracy import Outcomes, PastForecast
from forecaster.serve.forecasting.forecast import ServedModel

LISTED_DAYS = 28  # in a response


def score_days(
    model: ServedModel, snapshot: Snapshot, forecasts: dict[int, PastForecast], closed: int
) -> list[DayScore]:
    """Return the scores of the whole days that lie after the oldest origin and are over.

    Args:
        model: the model of the forecasts.
        snapshot: the observations.
        forecasts: by origin.
        closed: number of steps that are over.
    """
    if not forecasts:
        return []
    outcomes = Outcomes.of(model, snapshot, forecasts, closed)
    observed, y_hat = outcomes.observed, outcomes.y_hat
    compared = np.isfinite(observed) & np.isfinite(y_hat)
    error = np.where(compared, y_hat - observed, 0.0).astype(np.float64)
    size = np.where(compared, _sizes(model, snapshot, outcomes), 0.0)
    inside = outcomes.inside
    sums = {
        "terms": compared.sum(axis=2),
        "squares": (error**2).sum(axis=2),
        "absolutes": np.abs(error).sum(axis=2),
        "signed": error.sum(axis=2),
        "sizes": size.sum(axis=2, dtype=np.float64),
        "spans": np.isfinite(inside).sum(axis=2),
        "inside": np.nansum(inside, axis=2),
    }
    days = local_days(snapshot, outcomes.steps)
    scores = []
    for day in _whole_days(snapshot, min(forecasts) + 1, closed):
        of_day = days == day
        totals = {name: part[of_day].sum().item() for name, part in sums.items()}
        if totals["terms"]:
            totals["inside"] = int(totals["inside"])
            scores.append(DayScore(model=model.digest, day=str(day), **totals))
    return scores


def compare(served: str, challenger: str, scores: list[DayScore]) -> dict[str, Any] | None:
    """Return the scores of two runs on the days that both have; None: there are none yet.

    Args:
        served: digest of the run that answers.
        challenger: digest of the run in the shadow.
        scores: of the ledger.
    """
    by_run = [{s.day: s for s in scores if s.model == model} for model in (served, challenger)]
    common = sorted(by_run[0].keys() & by_run[1].keys())[-LISTED_DAYS:]
    sums = [add_up([run[day] for day in common]) for run in by_run]
    if sums[0] is None or sums[1] is None:
        return None
    return {
        "days": len(common),
        "served": figures(sums[0]),
        "challenger": figures(sums[1]),
    }


def figures(score: DayScore) -> dict[str, Any]:
    """Return what a score says, as JSON content."""
    return {
        "terms": score.terms, "rmse": _round(score.rmse), "bias": _round(score.bias),
        "coverage": _round(score.coverage),
    }  # fmt: skip


def rows(scores: list[DayScore], models: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the last days of some runs, as JSON content."""
    chosen = [score for score in scores if score.model in models]
    days = sorted({score.day for score in chosen})[-LISTED_DAYS:]
    listed = sorted((s for s in chosen if s.day in days), key=lambda s: (s.day, s.model))
    return [{"day": s.day, "model": s.model, **figures(s)} for s in listed]


def local_days(
    snapshot: Snapshot, steps: Int64[np.ndarray, "*shape"]
) -> np.ndarray:  # datetime64[D]
    """Return the local days of steps."""
    local = snapshot.base.clock.local(snapshot.base.instants(steps.reshape(-1)))
    return np.asarray(local.astype("datetime64[D]").reshape(steps.shape))


def _whole_days(snapshot: Snapshot, first: int, end: int) -> list[np.datetime64]:
    """Return the local days all of whose steps are among first…end−1."""
    if end - first < 1:
        return []
    around = np.arange(first - 1, end + 1)
    days = local_days(snapshot, around)
    cut = {days[0], days[-1]}  # a day that goes on before or after
    return [day for day in np.unique(days[1:-1]) if day not in cut]


def _sizes(
    model: ServedModel, snapshot: Snapshot, outcomes: Outcomes
) -> Float32[np.ndarray, "B K N"]:
    """Return counts, or how far measurements are from the training mean of their hour."""
    run, base = model.estimator.run, snapshot.base
    if run is None or base.kind == "count":
        return np.asarray(np.abs(outcomes.observed))
    slots = base.clock.slot_of_season(base.instants(outcomes.steps.reshape(-1)))
    usual = fill_of(run).values[slots]
    column = {identity: n for n, identity in enumerate(run.about["ids"])}
    order = [column.get(identity, -1) for identity in snapshot.locations.ids]
    placed = np.where(np.array(order) >= 0, usual[:, order], np.nan)
    placed = placed.reshape(*outcomes.steps.shape, len(order))
    return np.asarray(np.nan_to_num(np.abs(outcomes.observed - placed)), dtype=np.float32)


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
