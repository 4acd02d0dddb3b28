"""The section on provenance: data, hashes, commands and versions needed to reproduce it."""

import platform
import shlex
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from forecaster.errors import name_some
from forecaster.report.data import PANEL, RECIPE, ReportData
from forecaster.report.doctor.checkup import describe_panel

SHORT = 12  # characters of a hash that are shown
PACKAGES = ("forecaster", "torch", "numpy", "scipy", "numba")


class TestedRun(NamedTuple):
    """A tested training."""

    model: str
    seed: int
    folder: str
    digest: str


def describe_data(data: ReportData) -> dict[str, str]:
    """Describe the data of the comparison, by topic."""
    panel, about = data.panel, data.comparison.about
    names = [
        f"{name} (past-only)" if name in panel.past_only else name
        for name in (*panel.covariates.names, *panel.local_covariates.names)
    ]
    tested = "; ".join(" … ".join(pair) for pair in about.get("tested", ()))
    return {
        **describe_panel(panel),
        "covariates": name_some(names, 12) or "calendar only",
        "tested": tested or "the recipe's test ranges",
        "panel hash": str(panel.digest),
        "recipe hash": data.recipe.digest(),
    }


def list_runs(data: ReportData) -> list[TestedRun]:
    """Return every tested training with its folder and hash."""
    return [
        TestedRun(row.name, seed, row.runs[seed], manifest.digest)
        for row in data.comparison.unchanged
        for seed, manifest in data.manifests(row).items()
    ]


def list_commands(data: ReportData) -> dict[str, str]:
    """Return commands by purpose: repeat the comparison, render this page, forecast."""
    folder, inside = str(data.folder), data.folder / PANEL
    panel = shlex.quote(str(inside)) if inside.exists() else "PANEL"
    recipe = str(data.folder / RECIPE)
    plain = shlex.join(["forecaster", "evaluate", recipe, "--out", folder]) + f" --panel {panel}"
    page = shlex.join(["forecaster", "report", folder])
    commands = {
        "repeat the comparison": data.command or plain,
        "render this page again": page if inside.exists() else f"{page} --panel {panel}",
    }
    if data.best is None:
        return commands
    run = str(data.folder / next(iter(data.best.runs.values())))
    use = shlex.join(["forecaster", "forecast", run]) + f" --panel {panel} --at TIME"
    return commands | {f"forecast with {data.best.name}": use}


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of the main packages, by name."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # run from a source tree
            versions[name] = "not installed"
    return versions
