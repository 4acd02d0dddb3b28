"""What if: other covariates for the coming steps, as people write them.

`rain=1,precip=5mm` holds for all coming steps; a table of `ds` and covariates says it step by
step, and what it leaves out stays as it was. A name may be shortened as long as one covariate
alone begins with it. A number without a unit is in the unit of its covariate. `holiday=1` makes
holidays of the local days of the coming steps, `holiday=0` plain days.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float, Float32, Shaped

from forecaster.artifact import Run
from forecaster.config import PanelConfig
from forecaster.errors import ConfigError, DataError, Faults, name_some
from forecaster.estimators.forecast_inputs import HOLIDAY, RANGES, Changes
from forecaster.estimators.table import quantile_name
from forecaster.ingest.station import QUANTITIES
from forecaster.panel.axis import resolve_local_times
from forecaster.panel.columns import Table, load
from forecaster.panel.panel import Panel
from forecaster.panel.tables import read_wide

WhatIf: TypeAlias = Mapping[str, float | str] | Table

_MEASURED = {quantity.name: quantity for quantity in QUANTITIES.values()}
_VALUE = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*°?(?P<unit>[A-Za-z/]*)"
)
_TABLES = (".csv", ".csv.gz", ".parquet")  # any other text says what it means
_ALSO = {"mps": "m/s"}  # as the covariate's own name spells it
CHANGED = "_what_if"  # ends the names of columns with what would be forecast
log = logging.getLogger(__name__)


def read_changes(what_if: WhatIf, panel: Panel, origin: int, horizon: int) -> Changes:
    """The changes of covariates in the coming steps; every fault is named in one error.

    Args:
        what_if: `rain=1,precip=5mm`, the same by name, or a table of `ds` and covariates.
        panel: whose covariates are meant, in whose units.
        origin: the last observed step.
        horizon: how many steps come.
    """
    if isinstance(what_if, str) and not what_if.endswith(_TABLES):
        what_if = _split(what_if)
    if not isinstance(what_if, Mapping):
        return _read_table(what_if, panel, panel.clock.axis(panel.times[origin], horizon + 1)[1:])
    faults = Faults("what if")
    names = _find_names(what_if, panel, faults)
    values = {name: _read_value(name, what_if[short], faults) for short, name in names.items()}
    if not what_if:
        faults.add("nothing is changed; write it as in rain=1,precip=5mm")
    faults.raise_any(ConfigError)
    return {name: np.full(horizon, value, dtype=np.float32) for name, value in values.items()}


def training_ranges(
    panel: Panel, train: Shaped[np.ndarray, " M"]
) -> dict[str, Float32[np.ndarray, "2 n"]]:
    """Return the least and the most of every covariate in the training steps."""
    steps = np.flatnonzero(train)
    world, own = panel.covariates.values[steps], panel.local_covariates.values[:, steps]
    ends = (np.fmin.reduce, np.fmax.reduce)  # what is missing counts for nothing
    return {
        RANGES["covariates"]: np.nan_to_num(np.stack([end(world, axis=0) for end in ends])),
        RANGES["local_covariates"]: np.nan_to_num(
            np.stack([end(own, axis=(1, 2)) for end in ends])
        ),
    }


def warn_extreme_changes(run: Run, changes: Changes) -> None:
    """Warn of changes beyond anything seen in training, where a forecast is a guess."""
    for names, array in RANGES.items():
        if array not in run.arrays:  # a run from before ranges were kept
            continue
        for name, least, most in zip(run.about[names], *run.arrays[array], strict=True):
            asked = changes.get(name, np.array([], dtype=np.float32))
            beyond = asked[(asked < least) | (asked > most)]
            if len(beyond):
                what = f"{name} = {name_some(f'{value:g}' for value in np.unique(beyond))}"
                log.warning("what if: %s lies outside training (%g … %g)", what, least, most)
    if (changes.get(HOLIDAY, np.zeros(1)) == 1).any() and not _knew_holidays(run):
        log.warning("what if: no day of training was a holiday; what %s says is a guess", HOLIDAY)


def _knew_holidays(run: Run) -> bool:
    """Tell whether a holiday lay among the days of training."""
    days = (run.about["holidays"] or {"dates": ()})["dates"]
    spans = [(first[:10], last[:10]) for first, last in run.about["splits"]["train"]]
    return any(first <= day <= last for day in days for first, last in spans)


def add_changed(
    table: pd.DataFrame,
    changed: Float32[np.ndarray, "K N"],
    quantiles: Mapping[float, Float32[np.ndarray, "K N"]],
    run: Run,
    changes: Changes,
) -> pd.DataFrame:
    """Return a forecast's table with what would be forecast, and its `difference` from `y_hat`.

    `y_hat_what_if`, and `q10_what_if` of each quantile.
    """
    columns = {"y_hat": changed, **{quantile_name(level): q for level, q in quantiles.items()}}
    wider = table.assign(**{f"{name}{CHANGED}": y.T.reshape(-1) for name, y in columns.items()})
    wider["difference"] = wider[f"y_hat{CHANGED}"] - wider["y_hat"]
    if not wider["difference"].any():
        why = f"it does not use {name_some(changes)}, or they are so anyway"
        log.warning("what if: %s forecasts the same: %s", run.estimator, why)
    return wider[sorted(wider.columns, key=lambda name: name == "degraded")]  # that stays last


def _split(text: str) -> dict[str, float | str]:
    """The value of each name in a text such as `rain=1,precip=5mm`."""
    faults = Faults("what if")
    values: dict[str, float | str] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not name or not value:
            faults.add(f"{part.strip()!r} changes nothing; write it as in rain=1,precip=5mm")
        elif name in values:
            faults.add(f"{name}: given twice, as {values[name]!r} and {value!r}")
        values[name] = value
    faults.raise_any(ConfigError)
    return values


def _find_names(given: Iterable[str], panel: Panel, faults: Faults) -> dict[str, str]:
    """The covariate that each name means: the one of that name, or the only one it begins."""
    covariates = dict.fromkeys((*panel.covariates.names, *panel.local_covariates.names))
    covariates |= {HOLIDAY: None} if panel.clock.holidays is not None else {}
    meant: dict[str, str] = {}
    for short in given:
        begun = [name for name in covariates if name.lower().startswith(short.lower())]
        matches = [short] if short in covariates else begun
        if len(matches) != 1:
            several = f"several begin so: {name_some(matches)}; write more of it"
            faults.add(f"{short}: {several if matches else _no_such(short, list(covariates))}")
        elif matches[0] in meant.values():
            faults.add(f"{short}: {matches[0]} is given twice")
        else:
            meant[short] = matches[0]
    return meant


def _no_such(short: str, known: Sequence[str]) -> str:
    """Return that a name is not known, with one that is or begins like it, or all of them."""
    if short.lower() == HOLIDAY:
        return "the run knows of no holidays; make its panel with a country and train it again"
    wholes = {text: name for name in known for text in (name, name[: len(short)])}
    near = get_close_matches(short.lower(), wholes, n=1)
    hint = f"did you mean {wholes[near[0]]!r}?" if near else ""
    if not known:
        return "no such covariate; the run knows none"
    return f"no such covariate; {hint or f'known: {name_some(known, 20)}'}"


def _read_value(name: str, text: float | str, faults: Faults) -> float:
    """The number in the unit of its covariate, from text with or without a unit."""
    parts = _VALUE.fullmatch(str(text).strip())
    if parts is None:
        faults.add(f"{name}: {text!r} is not a number with or without a unit, as in 5 or 5mm")
        return np.nan
    value, quantity = float(parts["number"]), _MEASURED.get(name)
    unit = _ALSO.get(parts["unit"].lower(), parts["unit"])
    if quantity is None:
        if unit:
            faults.add(f"{name}: {text!r} has a unit, and nobody knows which {name} has; "
                       "give the number alone")  # fmt: skip
        if abs(value) > float(np.finfo(np.float32).max):
            faults.add(f"{name}: {text!r} is too large")
        _refuse_impossible(name, np.array([value]), faults)
        return value
    units = {known.lower(): known for known in quantity.units}
    if unit and unit.lower() not in units:
        faults.add(f"{name}: unknown unit {unit!r}; known: {', '.join(quantity.units)}")
        return value
    raw = np.array([value])
    here = quantity.convert(raw, units[unit.lower()]) if unit else raw
    _refuse_impossible(name, here, faults)
    return float(here[0])


def _refuse_impossible(name: str, values: Float[np.ndarray, " K"], faults: Faults) -> None:
    """Add a fault for values, in the unit of their covariate, that no weather or day has."""
    quantity = _MEASURED.get(name)
    if name == HOLIDAY and not np.isin(values[~np.isnan(values)], (0, 1)).all():
        faults.add(f"{name}: 1 if it is one, 0 if not is needed")
    if quantity is None:
        return
    wrong = values[quantity.is_impossible(values.astype(np.float64))]
    if len(wrong):
        faults.add(f"{name}: {wrong[0]:g} is outside {quantity.low:g}…{quantity.high:g}")


def _read_table(source: Table, panel: Panel, times: Shaped[np.ndarray, " K"]) -> Changes:
    """Return what a table of `ds` and covariates says of the coming steps."""
    config = PanelConfig(timezone=panel.clock.zone, step_minutes=panel.clock.step_minutes)
    rows = resolve_local_times(read_wide(source, None, "ds", layer="covariates"), config)
    faults = Faults(load(source)[1])
    names = _find_names(rows.ids, panel, faults)
    known = np.isin(times.astype(np.int64), rows.seconds)
    place = np.searchsorted(rows.seconds, times.astype(np.int64)[known])
    changes = {}
    for short, name in names.items():
        column = np.full(len(times), np.nan, dtype=np.float32)
        column[known] = rows.layers["covariates"][place, rows.ids.index(short)]
        _refuse_impossible(name, column, faults)
        changes[name] = column
    if not rows.ids or not known.any():
        needed = name_some(f"{time}Z" for time in times)
        faults.add(f"nothing for the coming steps; columns of covariates at {needed} are needed")
    faults.raise_any(DataError)
    return changes
