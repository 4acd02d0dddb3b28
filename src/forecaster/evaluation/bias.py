"""Bias by size of the locations and by hour of the day: whether forecasts are too high or too low.

Bias is Σ (x̂ − x) / Σ |x| of the mean x̂; + 0.05 is five per cent too high.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.artifact import Run
from forecaster.estimators.forecast_inputs import fill_of
from forecaster.estimators.match import location_order
from forecaster.metrics import ErrorSums
from forecaster.panel.panel import Panel

SIZE_GROUPS = 5  # fifths of the locations
MIDDLE = ("2nd", "3rd", "4th")
DAY_HOURS = 24


@dataclass(frozen=True)
class SizeBias:
    """The bias at the locations of one fifth."""

    locations: int
    size: float  # their mean value in training
    bias: float | None  # None: nothing observed but zeros


def location_sizes(run: Run, panel: Panel) -> Float64[np.ndarray, " N"]:
    """The mean |value| of each of the panel's locations in training, by their hours of the week.

    Training, because that is known before any forecast is made. NaN: a new location.
    """
    sizes = np.abs(fill_of(run).values).mean(axis=0, dtype=np.float64)
    return np.asarray(sizes[location_order(run.about["ids"], panel)])


def group_sizes(sizes: Float64[np.ndarray, " N"]) -> Int64[np.ndarray, " N"]:
    """The fifth of each location, 0 for the smallest; of fewer than five locations, its rank."""
    N = len(sizes)
    ranks = np.empty(N, dtype=np.int64)
    ranks[np.argsort(sizes, kind="stable")] = np.arange(N)
    return np.asarray(ranks * min(SIZE_GROUPS, N) // max(N, 1))


def name_sizes(count: int) -> list[str]:
    """Name the groups of locations, the smallest first."""
    if count == 1:
        return ["all"]
    fifth = " fifth" if count == SIZE_GROUPS else ""
    return [f"smallest{fifth}", *MIDDLE[: count - 2], f"largest{fifth}"]


def bias_by_size(by_location: ErrorSums, sizes: Float64[np.ndarray, " N"]) -> list[SizeBias]:
    """The bias of each fifth of the locations, the smallest locations first.

    Args:
        by_location: sums with the locations on the last axis.
        sizes: of the locations; those without one (NaN) are left out.
    """
    sized = np.isfinite(sizes)
    sums = {name: array[..., sized] for name, array in vars(by_location).items()}
    by_location, sizes = ErrorSums(**sums), sizes[sized]
    count = min(SIZE_GROUPS, len(sizes))
    group = group_sizes(sizes)
    groups = np.broadcast_to(group, by_location.squares.shape)
    return [
        SizeBias(int((group == g).sum()), float(sizes[group == g].mean()), bias)
        for g, bias in enumerate(_bias_by_group(by_location, groups, count))
    ]


def bias_by_hour(errors: ErrorSums, hours: Int64[np.ndarray, "*windows"]) -> list[float | None]:
    """The bias of the steps in each hour of the local day, 0 to 23; None without any value."""
    return _bias_by_group(errors, hours, DAY_HOURS)


def _bias_by_group(
    errors: ErrorSums, groups: Int64[np.ndarray, "*windows"], count: int
) -> list[float | None]:
    signed, sizes = (
        np.bincount(groups.ravel(), weights=part.ravel(), minlength=count)
        for part in (errors.signed, errors.sizes)
    )
    has_bias = (sizes > 0) & np.isfinite(signed)
    bias = np.divide(signed, sizes, out=np.zeros(count), where=has_bias)
    return [
        value if k else None for value, k in zip(bias.tolist(), has_bias.tolist(), strict=True)
    ]
