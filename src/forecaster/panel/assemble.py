"""Rows, places, covariates and holidays → the parts of one panel."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float32

from forecaster.choices import Kind
from forecaster.clock.clock import Clock
from forecaster.clock.holidays import expand_holidays
from forecaster.config import PanelConfig
from forecaster.errors import DataError, Faults, count_of, name_some
from forecaster.panel.axis import VALUES, Layers, Rows, lay_on, place
from forecaster.panel.columns import Table, load
from forecaster.panel.parts import Covariates, LocalCovariates, Locations, stack_layers
from forecaster.panel.tables import read_locations, read_long, read_wide


@dataclass(frozen=True)
class Beside:
    """What a user may hand in beside the values."""

    locations: Table | Locations | None = None
    covariates: Table | None = None
    local_covariates: Table | None = None


@dataclass(frozen=True)
class Parts:
    """Everything a panel is made of."""

    values: Float32[np.ndarray, "M N"]
    start: np.datetime64
    clock: Clock
    kind: Kind
    locations: Locations
    covariates: Covariates
    local_covariates: LocalCovariates
    counts: dict[str, Any]


def assemble(rows: Rows, config: PanelConfig, beside: Beside) -> Parts:
    """Put rows on their axis and join them with what was handed in beside them."""
    placed = place(rows, config)
    values = placed.layers.pop(VALUES)
    start = np.datetime64(int(placed.seconds[0]), "s")
    places = _places(rows.ids, beside.locations)
    position = {identity: column for column, identity in enumerate(rows.ids)}
    order = [position[identity] for identity in places.ids]
    names, world = _world(beside.covariates, config, start, len(values))
    local = {name: layer[:, order] for name, layer in placed.layers.items()}
    local = _merge(local, _local(beside.local_covariates, config, start, len(values), places))
    S = max(len(world), *map(len, local.values())) if local else len(world)
    own = [_lengthen(layer, S) for layer in local.values()]
    return Parts(
        values=np.asfortranarray(values[:, order]),
        start=start,
        clock=make_clock(config, start, len(values)),
        kind=config.kind,
        locations=places,
        covariates=Covariates(names, _lengthen(world, S)),
        local_covariates=LocalCovariates(tuple(local), stack_layers(own, S, len(places))),
        counts=placed.counts,
    )


def _places(ids: tuple[str, ...], given: Table | Locations | None) -> Locations:
    if given is None:
        return Locations.of_ids(ids)
    places = given if isinstance(given, Locations) else read_locations(given)
    faults = Faults("locations")
    unknown = sorted(set(ids) - set(places.ids))
    absent = sorted(set(places.ids) - set(ids))
    if unknown:
        what = count_of(len(unknown), "unknown id")
        faults.add(f"{what} in the values: {name_some(unknown)}; add them to the locations")
    if absent:
        what = count_of(len(absent), "location")
        faults.add(f"{what} without a row: {name_some(absent)}; drop them or give null rows")
    faults.raise_any(DataError)
    return places


def make_clock(config: PanelConfig, start: np.datetime64, steps: int) -> Clock:
    """Return the clock of a panel that begins at `start`, with the holidays of its country."""
    clock = Clock(config.timezone, config.step_minutes)
    ends = clock.local(clock.axis(start, steps)[[0, -1]])  # refuses years that no calendar has
    if config.country is None:
        return clock
    first, last = ends.astype("datetime64[Y]").astype(np.int64) + 1970
    return replace(clock, holidays=expand_holidays(config.country, int(first), int(last)))


def _world(
    given: Table | None, config: PanelConfig, start: np.datetime64, steps: int
) -> tuple[tuple[str, ...], Float32[np.ndarray, "S P"]]:
    """Return the names and values of the covariates that hold everywhere."""
    if given is None:
        return (), np.empty((steps, 0), dtype=np.float32)
    time = "ds" if "ds" in load(given)[0].column_names else "time"
    rows = read_wide(given, None, time, layer="covariates")
    return rows.ids, lay_on(rows, config, start, steps)["covariates"]


def _local(
    given: Table | None, config: PanelConfig, start: np.datetime64, steps: int, places: Locations
) -> Layers:
    """Return the covariates of each location, by name, columns in the order of the places."""
    if given is None:
        return {}
    rows = read_long(given, None)
    unknown = sorted(set(rows.ids) - set(places.ids))
    if unknown:
        what = count_of(len(unknown), "unknown id")
        raise DataError(f"local covariates: {what}: {name_some(unknown)}; the panel lacks them")
    column = [places.ids.index(identity) for identity in rows.ids]
    laid = {}
    for name, layer in lay_on(rows, config, start, steps).items():
        laid[name] = np.full((len(layer), len(places)), np.nan, dtype=np.float32)
        laid[name][:, column] = layer
    return laid


def _merge(beside_values: Layers, own_table: Layers) -> Layers:
    """Join local covariates of two tables by name; a value that both hold must be the same."""
    merged = beside_values | own_table
    for name in beside_values.keys() & own_table.keys():
        early, late = beside_values[name], own_table[name][: len(beside_values[name])]
        apart = int(((early != late) & ~np.isnan(early) & ~np.isnan(late)).sum())
        if apart:
            message = f"local covariates: {count_of(apart, 'value')} of {name!r} differ from those"
            raise DataError(f"{message} in the table of values; give each in one table")
        late[:] = np.where(np.isnan(early), late, early)
    return dict(sorted(merged.items()))  # whatever the order of the columns was


def _lengthen(layer: Float32[np.ndarray, "T K"], steps: int) -> Float32[np.ndarray, "S K"]:
    unknown = np.full((steps - len(layer), layer.shape[1]), np.nan, dtype=np.float32)
    return np.asfortranarray(np.concatenate([layer, unknown]))
