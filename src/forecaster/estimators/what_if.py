"""What-if forecasts: other covariates for the coming steps, and their effect.

`rain=1,precip=5mm` applies to all coming steps; a table of `ds` and covariates gives values step
by step, and steps or covariates that it omits are unchanged. A name may be shortened to a prefix
that only one covariate has. A number without a unit is in the unit of its covariate. `holiday=1`
makes the local days of the coming steps holidays, `holiday=0` ordinary days.
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
from forecaster.estimators.forecast_inputs import CANNOT_CHANGE, HOLIDAY, RANGES, Changes
from forecaster.estimators.table import quantile_name
from forecaster.ingest.station import QUANTITIES
from forecaster.panel.axis import to_instants
from forecaster.panel.panel import Panel
from forecaster.panel.storage.folder import step_fields
from forecaster.panel.tables.readers import read_wide
from forecaster.reading.load import Table, load

WhatIf: TypeAlias = Mapping[str, float | str] | Table

_MEASURED = {quantity.name: quantity for quantity in QUANTITIES.values()}
_VALUE = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*°?(?P<unit>[A-Za-z/]*)"
)
_TABLES = (".csv", ".csv.gz", ".parquet")  # endings of a path; any other text holds assignments
_UNIT_ALIASES = {"mps": "m/s"}  # as in the name wind_mps
CHANGED = "_what_if"  # suffix of the columns of the changed forecast
log = logging.getLogger(__name__)


def read_changes(what_if: WhatIf, panel: Panel, origin: int, horizon: int) -> Changes:
    """The changes of covariates in the coming steps; every fault is named in one error.

    Args:
        what_if: `rain=1,precip=5mm`, a mapping of the same, or a table of `ds` and covariates.
        panel: with the covariates to change.
        origin: the last observed step.
        horizon: the number of coming steps.
    """
    if isinstance(what_if, str) and not what_if.endswith(_TABLES):
        what_if = _split(what_if)
    if not isinstance(what_if, Mapping):
        return _read_table(what_if, panel, panel.clock.axis(panel.times[origin], horizon + 1)[1:])
    faults = Faults("what if")
    names = _find_names(what_if, panel, faults)
    values = {name: _read_value(name, what_if[short], faults) for short, name in names.items()}
    if not what_if:
        faults.add("no covariate is given; write it as in rain=1,precip=5mm")
    faults.raise_any(ConfigError)
    return {name: np.full(horizon, value, dtype=np.float32) for name, value in values.items()}


def training_ranges(
    panel: Panel, train: Shaped[np.ndarray, " M"]
) -> dict[str, Float32[np.ndarray, "2 n"]]:
    """The smallest and largest value of every covariate in the training steps."""
    steps = np.flatnonzero(train)
    covariates, local = panel.covariates.values[steps], panel.local_covariates.values[:, steps]
    ends = (np.fmin.reduce, np.fmax.reduce)  # which ignore NaN
    return {
        RANGES["covariates"]: np.nan_to_num(np.stack([end(covariates, axis=0) for end in ends])),
        RANGES["local_covariates"]: np.nan_to_num(
            np.stack([end(local, axis=(1, 2)) for end in ends])
        ),
    }


def warn_extreme_changes(run: Run, changes: Changes) -> None:
    """Warn of changes outside the training range, where forecasts are unreliable."""
    for names, array in RANGES.items():
        if array not in run.arrays:  # a run of an earlier version
            continue
        for name, least, most in zip(run.about[names], *run.arrays[array], strict=True):
            values = changes.get(name, np.array([], dtype=np.float32))
            outside = np.unique(values[(values < least) | (values > most)])
            if len(outside):
                texts = name_some(f"{value:g}" for value in outside)
                message = "what if: %s = %s lies outside training (%g … %g)"
                log.warning(message, name, texts, least, most)
    if (changes.get(HOLIDAY, np.zeros(1)) == 1).any() and not _trained_on_holidays(run):
        log.warning(
            "what if: no day of training was a holiday; the effect of %s is a guess", HOLIDAY
        )


def _trained_on_holidays(run: Run) -> bool:
    """Whether any training day was a holiday."""
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
    """Add the changed forecast to a forecast's table.

    The columns are `y_hat_what_if`, one such as `q10_what_if` per quantile, and `difference`.
    """
    columns = {"y_hat": changed, **{quantile_name(level): q for level, q in quantiles.items()}}
    wider = table.assign(**{f"{name}{CHANGED}": y.T.reshape(-1) for name, y in columns.items()})
    wider["difference"] = wider[f"y_hat{CHANGED}"] - wider["y_hat"]
    if not wider["difference"].any():
        reason = f"it does not use {name_some(changes)}, or the values are unchanged"
        log.warning("what if: %s forecasts the same: %s", run.estimator, reason)
    return wider[sorted(wider.columns, key=lambda name: name == "degraded")]  # `degraded` last


def _split(text: str) -> dict[str, float | str]:
    """The value of each name in a text such as `rain=1,precip=5mm`."""
    faults = Faults("what if")
    values: dict[str, float | str] = {}
    for assignment in text.split(","):
        name, _, value = (piece.strip() for piece in assignment.partition("="))
        if not name or not value:
            faults.add(f"{assignment.strip()!r} changes nothing; write it as in rain=1,precip=5mm")
        elif name in values:
            faults.add(f"{name}: given twice, as {values[name]!r} and {value!r}")
        values[name] = value
    faults.raise_any(ConfigError)
    return values


def _find_names(shorts: Iterable[str], panel: Panel, faults: Faults) -> dict[str, str]:
    """The covariate of each name, which may be a prefix that only one covariate has."""
    covariates = dict.fromkeys((*panel.covariates.names, *panel.local_covariates.names))
    covariates |= {HOLIDAY: None} if panel.clock.holidays is not None else {}
    names: dict[str, str] = {}
    for short in shorts:
        by_prefix = [name for name in covariates if name.lower().startswith(short.lower())]
        matches = [short] if short in covariates else by_prefix
        if len(matches) != 1:
            several = f"several begin so: {name_some(matches)}; write more of it"
            faults.add(f"{short}: {several if matches else _no_such(short, list(covariates))}")
        elif matches[0] in panel.past_only:
            faults.add(f"{matches[0]}: {CANNOT_CHANGE}")
        elif matches[0] in names.values():
            faults.add(f"{short}: {matches[0]} is given twice")
        else:
            names[short] = matches[0]
    return names


def _no_such(short: str, covariates: Sequence[str]) -> str:
    """The error text for an unknown name, with the nearest covariate or all of them."""
    if short.lower() == HOLIDAY:
        return "the run knows of no holidays; make its panel with a country and train it again"
    candidates = {text: name for name in covariates for text in (name, name[: len(short)])}
    nearest = get_close_matches(short.lower(), candidates, n=1)
    hint = f"did you mean {candidates[nearest[0]]!r}?" if nearest else ""
    if not covariates:
        return "no such covariate; the run knows none"
    return f"no such covariate; {hint or f'known: {name_some(covariates, 20)}'}"


def _read_value(name: str, text: float | str, faults: Faults) -> float:
    """The number in the unit of its covariate, from text with or without a unit."""
    match = _VALUE.fullmatch(str(text).strip())
    if match is None:
        faults.add(f"{name}: {text!r} is not a number with or without a unit, as in 5 or 5mm")
        return np.nan
    value, quantity = float(match["number"]), _MEASURED.get(name)
    unit = _UNIT_ALIASES.get(match["unit"].lower(), match["unit"])
    if quantity is None:
        if unit:
            faults.add(
                f"{name}: {text!r} has a unit, but the unit of {name} is unknown; "
                "give the number alone"
            )
        if abs(value) > float(np.finfo(np.float32).max):
            faults.add(f"{name}: {text!r} is too large")
        _refuse_impossible(name, np.array([value]), faults)
        return value
    units = {symbol.lower(): symbol for symbol in quantity.units}
    if unit and unit.lower() not in units:
        faults.add(f"{name}: unknown unit {unit!r}; known: {', '.join(quantity.units)}")
        return value
    values = np.array([value])
    if unit:
        values = quantity.convert(values, units[unit.lower()])
    _refuse_impossible(name, values, faults)
    return float(values[0])


def _refuse_impossible(name: str, values: Float[np.ndarray, " K"], faults: Faults) -> None:
    """Add a fault for values, in the unit of their covariate, that are physically impossible."""
    quantity = _MEASURED.get(name)
    if name == HOLIDAY and not np.isin(values[~np.isnan(values)], (0, 1)).all():
        faults.add(f"{name}: 1 (a holiday) or 0 (none) is needed")
    if quantity is None:
        return
    wrong = values[quantity.is_impossible(values.astype(np.float64))]
    if len(wrong):
        faults.add(f"{name}: {wrong[0]:g} is outside {quantity.low:g}…{quantity.high:g}")


def _read_table(source: Table, panel: Panel, times: Shaped[np.ndarray, " K"]) -> Changes:
    """The changes in a table of `ds` and covariates for the coming steps."""
    settings = {"timezone": panel.clock.zone, **step_fields(panel.clock)}
    config = PanelConfig.model_validate(settings)
    rows = to_instants(read_wide(source, None, "ds", layer="covariates"), config)
    faults = Faults(load(source)[1])
    names = _find_names(rows.ids, panel, faults)
    listed = np.isin(times.astype(np.int64), rows.seconds)
    row_numbers = np.searchsorted(rows.seconds, times.astype(np.int64)[listed])
    changes = {}
    for short, name in names.items():
        column = np.full(len(times), np.nan, dtype=np.float32)
        column[listed] = rows.layers["covariates"][row_numbers, rows.ids.index(short)]
        _refuse_impossible(name, column, faults)
        changes[name] = column
    if not rows.ids or not listed.any():
        needed = name_some(f"{time}Z" for time in times)
        faults.add(f"nothing for the coming steps; columns of covariates at {needed} are needed")
    faults.raise_any(DataError)
    return changes
