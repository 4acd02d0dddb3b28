"""Backtest results on disk: error sums and counts as arrays, from which tables can be remade."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np

from forecaster.artifact import ARRAYS, FOREIGN, pack, unpack
from forecaster.choices import Weather
from forecaster.errors import ArtifactError
from forecaster.evaluation.backtest import (
    CALIBRATION_MODES,
    BacktestResult,
    IntervalResults,
    OwnErrors,
    Refits,
)
from forecaster.evaluation.day_totals import DayTotals
from forecaster.metrics import ErrorSums, IntervalSums
from forecaster.publish.manifest import MANIFEST, read_manifest, verify_files
from forecaster.publish.writing import Draft, bytes_writer, publish

FORMAT, KIND = 1, "assessment"
LOCATIONS = "places"  # prefix of the arrays with sums by location, as published
OVERLAPS = "overlaps"  # may be absent
OWN = "own."  # prefix of the arrays of the model alone
TOTALS = "totals."  # prefix of the arrays of totals over days
COSTS = ("parameters", "milliseconds", "seconds")
OPTIONAL = ("location_sizes", "hours")  # arrays that earlier versions have not stored


def test_name(suffix: str, refit_days: int | None) -> str:
    """The name of the folder of a backtest inside its run: `test`, `test-refit-7d`.

    Args:
        suffix: of tests on other days than the recipe's.
        refit_days: between refits on the way; None: the model stays as it was fitted.
    """
    refit = "" if refit_days is None else f"-refit-{refit_days}d"
    return f"test{refit}{suffix}"


def save_backtest(folder: Path, result: BacktestResult, run: str) -> None:
    """Publish the backtest of the run with that hash as a folder."""
    arrays = {"origins": result.origins, "days": result.days}
    optional = {name: getattr(result, name) for name in OPTIONAL}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    arrays |= _error_arrays(result.errors, result.by_location)
    if result.own is not None:
        own_errors = _error_arrays(result.own.errors, result.own.by_location)
        arrays |= {f"{OWN}{name}": sums for name, sums in own_errors.items()}
    intervals = result.interval_results
    if intervals is not None:
        arrays |= _interval_arrays(intervals)
    if result.day_totals is not None:
        for name, sums in vars(result.day_totals).items():
            parts = {part: array for part, array in vars(sums).items() if part != OVERLAPS}
            arrays |= {f"{TOTALS}{name}.{part}": array for part, array in parts.items()}
    content, descriptions = pack(arrays)
    about = {
        "weathers": list(result.errors),
        "has_relative": result.has_relative,
        "fallback": None if result.fallback is None else dict(result.fallback),
        **({} if result.members is None else {"members": dict(result.members)}),
        **({} if result.refits is None else {"refits": asdict(result.refits)}),
        "levels": list(intervals.levels) if intervals is not None else [],
        "arrays": descriptions,
        **{name: getattr(result, name) for name in COSTS},
    }
    draft = Draft(KIND, FORMAT, {ARRAYS: bytes_writer(content)}, about, parents={"run": run})
    publish(folder, draft)


def load_backtest(folder: Path, run: str) -> BacktestResult | None:
    """Read and verify the backtest of a run; None: the folder holds none of that run."""
    if not (folder / MANIFEST).exists():
        return None
    manifest = read_manifest(folder, kind=KIND, reads=FORMAT)
    if manifest.parents.get("run") != run:
        return None
    verify_files(folder, manifest)
    try:
        arrays, about = unpack(folder, manifest), manifest.about
        weathers = about["weathers"]
        if not weathers or not set(get_args(Weather)).issuperset(weathers):
            raise ValueError(f"weathers {weathers}")
        return BacktestResult(
            errors={weather: _error_sums(arrays, weather) for weather in weathers},
            by_location=_error_sums(arrays, LOCATIONS),
            origins=arrays["origins"],
            days=arrays["days"],
            **{name: about[name] for name in COSTS},
            interval_results=_interval_results(arrays, about.get("levels") or []),
            has_relative=bool(about.get("has_relative", False)),
            location_sizes=arrays.get("location_sizes"),
            hours=arrays.get("hours"),
            fallback=_fallback(about.get("fallback")),
            own=_own_errors(arrays, weathers),
            day_totals=_day_totals(arrays),
            members=about.get("members"),
            refits=_refits(about.get("refits")),
        )
    except FOREIGN as error:
        raise ArtifactError(f"{folder}: not a valid backtest result ({error})") from error


def _error_arrays(
    errors: Mapping[Weather, ErrorSums], by_location: ErrorSums
) -> dict[str, np.ndarray]:
    """The error sums by array name: `observed.squares`, `places.squares`."""
    named = [*errors.items(), (LOCATIONS, by_location)]
    return {f"{name}.{part}": array for name, sums in named for part, array in vars(sums).items()}


def _own_errors(arrays: dict[str, np.ndarray], weathers: list[Weather]) -> OwnErrors | None:
    """The errors of the model alone; None: it is served everywhere."""
    if not any(name.startswith(OWN) for name in arrays):
        return None
    errors = {weather: _error_sums(arrays, f"{OWN}{weather}") for weather in weathers}
    return OwnErrors(errors, _error_sums(arrays, f"{OWN}{LOCATIONS}"))


def _day_totals(arrays: dict[str, np.ndarray]) -> DayTotals | None:
    """The scores of totals over days; None: a short horizon, or an earlier version."""
    if not any(name.startswith(TOTALS) for name in arrays):
        return None
    intervals = _interval_sums(arrays, f"{TOTALS}intervals")
    return DayTotals(_error_sums(arrays, f"{TOTALS}errors"), intervals)


def _fallback(models: Any) -> dict[str, int] | None:
    """The number of locations of each simple model; None: not compared with any."""
    return None if models is None else {str(name): int(n) for name, n in models.items()}


def _refits(about: Any) -> Refits | None:
    """The refits on the way; None: the model stayed as it was fitted."""
    if about is None:
        return None
    seconds = (None if each is None else float(each) for each in about["seconds"])
    return Refits(int(about["days"]), tuple(map(str, about["dates"])), tuple(seconds))


def _error_sums(arrays: dict[str, np.ndarray], name: str) -> ErrorSums:
    """The error sums of a name; without signed errors, which earlier versions have not stored."""
    fields: Any = ErrorSums.__dataclass_fields__
    unknown = {f"{name}.signed": np.full_like(arrays[f"{name}.squares"], np.nan)}
    return ErrorSums(**{part: {**unknown, **arrays}[f"{name}.{part}"] for part in fields})


def _interval_arrays(intervals: IntervalResults) -> dict[str, np.ndarray]:
    """The interval sums by array name: `static.inside`, `static.places.inside`."""
    arrays: dict[str, np.ndarray] = {}
    for mode in CALIBRATION_MODES:
        named = {
            mode: intervals.by_window[mode],
            f"{mode}.{LOCATIONS}": intervals.by_location[mode],
        }
        for name, sums in named.items():
            parts = {part: array for part, array in vars(sums).items() if part != OVERLAPS}
            if np.isfinite(sums.overlaps).all():
                parts[OVERLAPS] = sums.overlaps
            arrays |= {f"{name}.{part}": array for part, array in parts.items()}
    return arrays


def _interval_results(
    arrays: dict[str, np.ndarray], levels: list[float]
) -> IntervalResults | None:
    """The interval results; None: the file, of an earlier version, has none."""
    if not levels:
        return None
    bounds = [0.0, *map(float, levels), 1.0]
    if not all(low < high for low, high in pairwise(bounds)):
        raise ValueError(f"levels {levels}")
    return IntervalResults(
        levels=tuple(bounds[1:-1]),
        by_window={mode: _interval_sums(arrays, mode) for mode in CALIBRATION_MODES},
        by_location={
            mode: _interval_sums(arrays, f"{mode}.{LOCATIONS}") for mode in CALIBRATION_MODES
        },
    )


def _interval_sums(arrays: dict[str, np.ndarray], name: str) -> IntervalSums:
    fields: Any = set(IntervalSums.__dataclass_fields__) - {OVERLAPS}
    sums = {part: arrays[f"{name}.{part}"] for part in fields}
    unknown = np.full(sums["values"].shape, np.nan)  # no counts, or a file of an earlier version
    return IntervalSums(**sums, overlaps=arrays.get(f"{name}.{OVERLAPS}", unknown))
