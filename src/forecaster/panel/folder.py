"""A panel's folder: the parts that its manifest names, read back."""

from pathlib import Path
from typing import get_args

import numpy as np

from forecaster.choices import Kind
from forecaster.clock.clock import LAG_CLOCK, Clock
from forecaster.clock.holidays import Holidays
from forecaster.config import PanelConfig
from forecaster.errors import ArtifactError
from forecaster.panel import storage
from forecaster.panel.assemble import Parts
from forecaster.panel.parts import Covariates, LocalCovariates, stack_layers
from forecaster.publish.manifest import Manifest, file_path
from forecaster.recipe import check_stage


def read_parts(folder: Path, manifest: Manifest) -> Parts:
    """Return what a manifest names; whatever does not fit together raises one error or another."""
    about = manifest.about
    clock = _read_clock(folder, manifest)
    start = np.datetime64(about["start"], "s")
    steps, known_steps = int(about["steps"]), int(about["known_steps"])
    names = tuple(map(str, about["local_covariates"]))
    path = file_path(folder, manifest, "locations.parquet")
    places = storage.read_locations(path, int(about["locations"]))

    def matrix(file: str, columns: tuple[str, ...] | None, length: int) -> storage.Matrix:
        path = file_path(folder, manifest, file)
        return storage.read_matrix(path, clock, start, length, columns)

    _, values = matrix("values.parquet", places.ids, steps)
    world, covariates = matrix("covariates.parquet", None, known_steps)
    own = [
        matrix(f"local_covariates_{i}.parquet", places.ids, known_steps)[1]
        for i in range(len(names))
    ]
    return Parts(
        values=values,
        start=start,
        clock=clock,
        kind=about["kind"],
        locations=places,
        covariates=Covariates(world, covariates),
        local_covariates=LocalCovariates(names, stack_layers(own, known_steps, len(places))),
        counts=dict(about["counts"]),
    )


def _read_clock(folder: Path, manifest: Manifest) -> Clock:
    """Return the clock of a panel whose kind and lag rule this program knows."""
    about = manifest.about
    kind, holidays = about["kind"], about["holidays"] and Holidays.from_json(about["holidays"])
    clock = Clock(about["timezone"], int(about["step_minutes"]), holidays or None)
    if kind not in get_args(Kind) or about["lag_clock"] != LAG_CLOCK:
        message = f"kind {kind!r}, lag rule {about['lag_clock']!r}; this program has"
        raise ArtifactError(f"{folder}: {message} {get_args(Kind)}, {LAG_CLOCK!r}: upgrade")
    given = {"timezone": clock.zone, "kind": kind, "step_minutes": clock.step_minutes}
    check_stage(PanelConfig, given, source="manifest")
    return clock
