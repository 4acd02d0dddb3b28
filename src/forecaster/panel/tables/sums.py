"""Locations and covariates that add others up: totals, and what holds values of later steps."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from forecaster.errors import DataError, name_some, nearest_name
from forecaster.panel.axis import VALUES, SeriesTable

_MOST = 0.99  # of the cells that must agree
_FEWEST = 8  # cells by which sums are told from chance
_ROUNDING = 1e-4  # of a sum
_PERIODS = ("D", "W", "M", "Y")  # whose sums a covariate may hold


def find_totals(rows: SeriesTable) -> tuple[str, ...]:
    """Return the location that is the sum of all others at every time, if there is one."""
    values = rows.layers[VALUES].astype(np.float64)
    if values.shape[1] < 3:  # noqa: PLR2004 (two parts and their sum)
        return ()
    total = np.nansum(values, axis=1)
    complete = np.asarray(np.isfinite(values).all(axis=1))
    return tuple(
        identity
        for n, identity in enumerate(rows.ids)
        if _agree(values[:, n], total - np.nan_to_num(values[:, n]), complete)
    )[:1]


def leave_out(rows: SeriesTable, names: Sequence[str]) -> SeriesTable:
    """Return the rows without some locations."""
    if not names:
        return rows
    unknown = [name for name in names if name not in rows.ids]
    if unknown:
        hint = nearest_name(unknown[0], rows.ids)
        raise DataError(
            f"leave_out: no location {name_some(map(repr, unknown))}{hint}; locations: "
            f"{name_some(rows.ids)}"
        )
    kept = [n for n, identity in enumerate(rows.ids) if identity not in names]
    if not kept:
        raise DataError("leave_out: no location is left; name fewer of them")
    layers = {name: layer[:, kept] for name, layer in rows.layers.items()}
    return replace(rows, ids=tuple(rows.ids[n] for n in kept), layers=layers)


def find_leaks(rows: SeriesTable) -> dict[str, str]:
    """Return the covariates that hold values of later steps or of all places, and how."""
    values = rows.layers[VALUES].astype(np.float64)
    leaks: dict[str, str] = {}
    for name, layer in rows.layers.items():
        if name != VALUES and (how := _explain_leak(values, layer.astype(np.float64), rows)):
            leaks[name] = how
    return leaks


def _explain_leak(
    values: Float64[np.ndarray, "U N"], layer: Float64[np.ndarray, "U N"], rows: SeriesTable
) -> str | None:
    both = np.isfinite(values) & np.isfinite(layer)
    if both.sum() < _FEWEST or _agree(layer, values, both):
        return None
    if _agree(layer[:-1], values[1:], both[:-1] & np.isfinite(values[1:])):
        return "the value of the next step"
    if values.shape[1] > 1:
        total = np.broadcast_to(np.nansum(values, axis=1)[:, None], values.shape)
        if _agree(layer, total, both):
            return "the sum of all locations"
    times = rows.seconds.astype("datetime64[s]")
    for period in _PERIODS:
        sums, counts, several = _sum_by(values, _period_of(times, period))
        for what, expected in (("sum", sums), ("mean", sums / np.maximum(counts, 1))):
            if several and _agree(layer, expected, both):
                noun = {"D": "day", "W": "week", "M": "month", "Y": "year"}[period]
                return f"the {what} of the {noun}, later steps included"
    return None


def _period_of(times: Shaped[np.ndarray, " U"], period: str) -> Int64[np.ndarray, " U"]:
    """Return the number of the day, week (from Monday), month or year of each time."""
    days = times.astype("datetime64[D]").astype(np.int64)
    if period == "W":
        return np.asarray((days + 3) // 7)
    return np.asarray(times.astype(f"datetime64[{period}]").astype(np.int64))


def _sum_by(
    values: Float64[np.ndarray, "U N"], periods: Int64[np.ndarray, " U"]
) -> tuple[Float64[np.ndarray, "U N"], Float64[np.ndarray, "U N"], bool]:
    """Return sum and number of the values of each period, and whether most have several steps."""
    _, number = np.unique(periods, return_inverse=True)
    shape = (int(number.max()) + 1, values.shape[1])
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, number, np.nan_to_num(values))
    np.add.at(counts, number, np.isfinite(values).astype(np.float64))
    return sums[number], counts[number], 2 * shape[0] <= len(periods)


def _agree(
    one: Float64[np.ndarray, "*shape"],
    two: Float64[np.ndarray, "*shape"],
    inside: Bool[np.ndarray, "*shape"],
) -> bool:
    """Whether nearly all values are the same but for rounding, and are no constant."""
    left, right = one[inside], two[inside]
    if len(left) < _FEWEST or (left == left[0]).all():
        return False
    close = np.abs(left - right) <= _ROUNDING * np.abs(right) + 1e-6
    return bool(close.mean() >= _MOST and (left[close] != 0).any())
