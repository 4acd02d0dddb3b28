"""What it is worth to refit a model while it is in use, and what that costs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from forecaster.evaluation.backtest import BacktestResult
from forecaster.evaluation.bootstrap import ErrorDifference, RelativeDifference, compare_errors
from forecaster.metrics import ErrorSums, Scores


@dataclass(frozen=True)
class Pair:
    """An error of a model that stays as it was fitted, and of the same model refitted."""

    unchanged: float | None  # None: no terms
    refitted: float | None

    @property
    def change(self) -> float | None:
        """The relative change: −0.05 is five per cent lower."""
        if not self.unchanged or self.refitted is None:
            return None
        return self.refitted / self.unchanged - 1


@dataclass(frozen=True)
class MonthErrors:
    """The errors of the windows of a local month."""

    month: str  # 2020-03
    rmse: Pair
    mape: Pair


@dataclass(frozen=True)
class Freshness:
    """What the refits of a model are worth and cost."""

    model: str
    days: int  # between two refits
    refits: int
    rmse: Pair
    mape: Pair
    difference: ErrorDifference  # of the refitted model, relative to the unchanged one
    months: tuple[MonthErrors, ...]
    seconds: float | None  # of a refit, the median; None: unknown
    full_seconds: float | None  # of the training of the unchanged model

    @property
    def share(self) -> float | None:
        """The time of a refit as a share of a full training."""
        if not self.full_seconds or self.seconds is None:
            return None
        return self.seconds / self.full_seconds


def measure_freshness(
    model: str, unchanged: Sequence[BacktestResult], refitted: Sequence[BacktestResult]
) -> Freshness:
    """Compare a model that is refitted on the way with itself as it was fitted.

    Args:
        model: its name.
        unchanged: the backtest of each seed.
        refitted: likewise, of the same test windows.
    """
    first, weather = unchanged[0], unchanged[0].weather
    errors = [[result.errors[weather] for result in side] for side in (unchanged, refitted)]
    months = first.days.astype("datetime64[D]").astype("datetime64[M]")
    refits = [result.refits for result in refitted if result.refits is not None]
    seconds = [time for each in refits for time in each.seconds if time is not None]
    full = [result.seconds for result in unchanged if result.seconds is not None]
    everywhere = np.ones(len(months), dtype=bool)
    return Freshness(
        model=model,
        days=refits[0].days,
        refits=len(refits[0].dates),
        rmse=_pair(errors, "rmse", everywhere),
        mape=_pair(errors, "mape", everywhere),
        difference=compare_errors(errors[1], errors[0], first.days),
        months=tuple(
            MonthErrors(
                str(m), _pair(errors, "rmse", months == m), _pair(errors, "mape", months == m)
            )
            for m in np.unique(months)
        ),
        seconds=statistics.median(seconds) if seconds else None,
        full_seconds=statistics.fmean(full) if full else None,
    )


def describe_freshness(fresh: Freshness) -> str:
    """A sentence on what the refits are worth and cost."""
    difference, share = fresh.difference.rmse, fresh.share
    change = fresh.rmse.change or 0.0
    sentence = f"Refitted every {_days(fresh.days)}, {fresh.model} has an RMSE "
    sentence += f"{100 * abs(change):.1f} % {'lower' if change < 0 else 'higher'}"
    sentence += _interval(difference)
    if share is None:
        return f"{sentence}."
    return f"{sentence}; a refit takes {100 * share:.0f} % of the time of a full training."


def refit_name(model: str, days: int) -> str:
    """The name of the row of a refitted model."""
    return f"{model}, refit every {_days(days)}"


def _days(days: int) -> str:
    return "day" if days == 1 else f"{days} days"


def _interval(difference: RelativeDifference | None) -> str:
    if difference is None:
        return " (too few days for an interval)"
    ends = f"{100 * difference.low:+.1f} … {100 * difference.high:+.1f}".replace("-", "−")
    doubt = "" if difference.is_clear else ", which may be chance"
    return f" (95 % interval {ends} %{doubt})"


def _pair(
    errors: Sequence[Sequence[ErrorSums]], metric: str, rows: Bool[np.ndarray, " B"]
) -> Pair:
    """A metric of some windows, of both sides: the mean over seeds."""
    return Pair(*(_mean([_scores(each, rows) for each in side], metric) for side in errors))


def _scores(errors: ErrorSums, rows: Bool[np.ndarray, " B"]) -> Scores:
    return ErrorSums(**{name: array[rows] for name, array in vars(errors).items()}).scores()


def _mean(seeds: Sequence[Scores], metric: str) -> float | None:
    values = [getattr(scores, metric).value for scores in seeds]
    measured = [value for value in values if value is not None]
    return statistics.fmean(measured) if measured else None
