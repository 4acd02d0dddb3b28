"""Panels of given values, and the time zones that they are in."""

from importlib.resources import files
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from forecaster.clock.clock import Clock
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations


def panel_of(
    values: np.ndarray, start: str = "2013-01-01", zone: str = "UTC", **parts: Any
) -> Panel:
    """Return a panel of these values, and of the covariates that are given."""
    values = np.array(values, dtype=np.float32)
    M, N = values.shape
    world = np.array(parts.get("world", np.empty((M, 0))), dtype=np.float32)
    own = np.array(parts.get("own", np.empty((0, len(world), N))), dtype=np.float32)
    return Panel(
        values=values,
        start=np.datetime64(start, "s"),
        clock=Clock(zone, parts.get("step_minutes", 60)),
        kind="measurement",
        locations=Locations.of_ids(f"p{n}" for n in range(N)),
        covariates=Covariates(tuple(f"w{p}" for p in range(world.shape[1])), world),
        local_covariates=LocalCovariates(tuple(f"o{q}" for q in range(len(own))), own),
    )


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(5, 3, shape)


def zone_of(name: str) -> ZoneInfo:
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)
