"""The folder of a panel: its manifest, its matrices, and the formats of earlier versions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from jaxtyping import Float32

from forecaster.choices import Kind
from forecaster.clock.clock import LAG_CLOCK, Clock
from forecaster.clock.holidays import Holidays
from forecaster.config import PanelConfig
from forecaster.errors import ArtifactError, DataError, name_some
from forecaster.panel.parts import (
    Covariates,
    LocalCovariates,
    Locations,
    select_names,
    stack_layers,
)
from forecaster.panel.storage import tables
from forecaster.panel.storage.blocks import Blocks, StoredMatrix, block_writer
from forecaster.panel.storage.deferred import defer
from forecaster.panel.vintages import Vintages, read_vintages
from forecaster.publish.manifest import Manifest, file_path, path_of_later
from forecaster.publish.writing import Writer
from forecaster.recipe import check_stage

FORMAT = 3  # of the panel's files; a newer one is refused
VALUES, COVARIATES = "values", "covariates"  # names of matrices
LOCATIONS, VINTAGES = "locations.parquet", "vintages.parquet"
Read = Callable[[int, int], np.ndarray]  # steps first…end−1 of a matrix


@dataclass(frozen=True, eq=False)
class StoredLayers:
    """The local covariates on disk: one matrix of steps × locations each."""

    matrices: tuple[StoredMatrix, ...]
    steps: int

    def read(self, first: int, end: int) -> Float32[np.ndarray, "Q T N"]:
        """Return steps first…end−1."""
        return np.stack([matrix.read(first, end) for matrix in self.matrices])


@dataclass(frozen=True, eq=False)
class StoredPanel:
    """A saved panel whose matrices are not read yet."""

    folder: Path
    manifest: Manifest
    clock: Clock
    start: np.datetime64
    kind: Kind
    locations: Locations
    values: StoredMatrix
    covariate_names: tuple[str, ...]
    covariates: StoredMatrix
    local_names: tuple[str, ...]
    local_covariates: tuple[StoredMatrix, ...]
    past_only: tuple[str, ...]

    @property
    def known_steps(self) -> int:
        """The number of steps with values or covariates."""
        return self.covariates.shape[0]

    def read_covariates(self) -> Covariates:
        """Return the covariates of all steps."""
        values, names = self.covariates.read(0, self.known_steps), self.covariate_names
        past_only = select_names(names, self.past_only)
        return Covariates(names, values, past_only, self.read_vintages())

    def read_vintages(self) -> Vintages | None:
        """Return the vintages of the covariates, if any has some."""
        return read_saved_vintages(self.folder, self.manifest, self.clock, self.start)

    @property
    def vintage_names(self) -> tuple[str, ...]:
        """The covariates that have vintages."""
        vintages = self.read_vintages()
        return () if vintages is None else vintages.names

    def defer_local(self) -> LocalCovariates:
        """Return the local covariates, which are read when they are first needed."""
        names, past_only = self.local_names, select_names(self.local_names, self.past_only)
        if not names:
            return LocalCovariates.empty(self.known_steps, len(self.locations))
        layers = StoredLayers(self.local_covariates, self.known_steps)
        return defer(LocalCovariates, layers, {"names": names, "past_only": past_only})


def local_layer(number: int) -> str:
    """Return the name of the matrix of a local covariate."""
    return f"local_covariates_{number}"


def cut_ahead(layer: str, steps: int, known_steps: int, columns: int) -> Blocks:
    """Return the blocks of a new matrix; none reaches over the last step with values."""
    past = Blocks.cut(layer, 0, steps, columns)
    return Blocks(layer, past.blocks + Blocks.cut(layer, steps, known_steps, columns).blocks)


def matrix_files(
    blocks: Blocks, names: Sequence[str], clock: Clock, start: np.datetime64, read: Read
) -> dict[str, Writer]:
    """Return the writers of all blocks of a matrix, by the names of their files.

    Args:
        blocks: of the matrix.
        names: of its columns: ids of locations, or names of covariates.
        clock: whose steps the rows are.
        start: of the first step.
        read: gives steps first…end−1.
    """
    return {
        blocks.file(block): block_writer(
            names[: block.locations],
            clock.instants(start, np.arange(block.first, block.end)),
            partial(read, block.first, block.end),
        )
        for block in blocks.blocks
    }


def open_stored(folder: Path, manifest: Manifest) -> StoredPanel:
    """Return a saved panel with unread matrices; a wrong manifest raises errors of many types."""
    about = manifest.about
    clock, start = read_clock(folder, manifest), np.datetime64(about["start"], "s")
    steps, known_steps = int(about["steps"]), int(about["known_steps"])
    locations = read_locations(folder, manifest, clock)
    names, local_names = (tuple(map(str, about[n])) for n in ("covariates", "local_covariates"))
    shapes = {VALUES: (steps, len(locations)), COVARIATES: (known_steps, len(names))}
    shapes |= {local_layer(q): (known_steps, len(locations)) for q in range(len(local_names))}
    matrices = {layer: _matrix(folder, manifest, layer, shapes[layer]) for layer in shapes}
    return StoredPanel(
        folder=folder,
        manifest=manifest,
        clock=clock,
        start=start,
        kind=about["kind"],
        locations=locations,
        values=matrices.pop(VALUES),
        covariate_names=names,
        covariates=matrices.pop(COVARIATES),
        local_names=local_names,
        local_covariates=tuple(matrices.values()),
        past_only=read_past_only(about, (*names, *local_names)),
    )


def _matrix(folder: Path, manifest: Manifest, layer: str, shape: tuple[int, int]) -> StoredMatrix:
    blocks = Blocks.from_json(layer, manifest.about["blocks"][layer], *shape)
    paths = tuple(path_of_later(folder, manifest, blocks.file(block)) for block in blocks.blocks)
    return StoredMatrix(blocks, paths, shape)


def read_wide_format(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """Return the fields of a panel of format 1 or 2: with one column per location in its files."""
    about = manifest.about
    clock, start = read_clock(folder, manifest), np.datetime64(about["start"], "s")
    steps, known_steps = int(about["steps"]), int(about["known_steps"])
    local_names = tuple(map(str, about["local_covariates"]))
    locations = read_locations(folder, manifest, clock)

    def matrix(layer: str, columns: tuple[str, ...] | None, length: int) -> tables.Matrix:
        path = file_path(folder, manifest, f"{layer}.parquet")
        return tables.read_matrix(path, clock, start, length, columns)

    _, values = matrix(VALUES, locations.ids, steps)
    names, covariates = matrix(COVARIATES, None, known_steps)
    layers = [
        matrix(local_layer(q), locations.ids, known_steps)[1] for q in range(len(local_names))
    ]
    local = stack_layers(layers, known_steps, len(locations))
    past_only = read_past_only(about, (*names, *local_names))
    vintages = read_saved_vintages(folder, manifest, clock, start)
    return {
        "values": values,
        "start": start,
        "clock": clock,
        "kind": about["kind"],
        "locations": locations,
        "covariates": Covariates(names, covariates, select_names(names, past_only), vintages),
        "local_covariates": LocalCovariates(
            local_names, local, select_names(local_names, past_only)
        ),
    }


def read_locations(folder: Path, manifest: Manifest, clock: Clock) -> Locations:
    """Return the locations of a panel; opening hours that cannot be read are refused."""
    path, about = file_path(folder, manifest, LOCATIONS), manifest.about
    locations = tables.read_locations(path, int(about["locations"]), has_hours="hours" in about)
    clock.check_hours(sorted({*locations.hours} - {""}))
    return locations


def read_saved_vintages(
    folder: Path, manifest: Manifest, clock: Clock, start: np.datetime64
) -> Vintages | None:
    """Return the vintages of a panel's covariates, if any has some."""
    if "vintages" not in manifest.about:
        return None
    path, rows = file_path(folder, manifest, VINTAGES), int(manifest.about["vintages"])
    return read_vintages(path, clock, start, rows)


def read_past_only(about: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Return the past-only covariates of a manifest, which must be among the names."""
    past_only = tuple(map(str, about.get("past_only", ())))  # not in older panels
    if not {*names}.issuperset(past_only):
        raise DataError(f"past-only {name_some(past_only)}: not all are covariates of the panel")
    return past_only


def read_clock(folder: Path, manifest: Manifest) -> Clock:
    """Return the clock of a panel; an unknown kind or lag rule is refused."""
    about = manifest.about
    kind, holidays = about["kind"], about["holidays"] and Holidays.from_json(about["holidays"])
    months, hours = int(about.get("step_months", 0)), tuple(map(str, about.get("hours", ())))
    minutes = int(about["step_minutes"])
    clock = Clock(about["timezone"], minutes, holidays or None, months, hours)
    if kind not in get_args(Kind) or about["lag_clock"] != LAG_CLOCK:
        message = f"kind {kind!r}, lag rule {about['lag_clock']!r}; this program supports"
        raise ArtifactError(f"{folder}: {message} {get_args(Kind)}, {LAG_CLOCK!r}: upgrade")
    fields = {"timezone": clock.zone, "kind": kind, **step_fields(clock)}
    check_stage(PanelConfig, fields, source="manifest")
    return clock


def step_fields(clock: Clock) -> dict[str, int]:
    """Return the length of a step as artifacts record it; `step_months` only if it has any."""
    months = {"step_months": clock.step_months} if clock.step_months else {}
    return {"step_minutes": clock.step_minutes, **months}
