"""What was run, on what data, with which hashes and commands: enough to do it again."""

import platform
import shlex
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from forecaster.errors import count_of, name_some
from forecaster.graph.dependency import DependencyGraph
from forecaster.report.data import PANEL, RECIPE, Material
from forecaster.report.doctor.checkup import describe_panel
from forecaster.report.sections.graph import describe_choice

SHORT = 12  # characters of a hash that tell it from others
PACKAGES = ("forecaster", "torch", "numpy", "scipy", "numba")


class TestedRun(NamedTuple):
    """A training that is in the table."""

    model: str
    seed: int
    folder: str
    digest: str


def describe_data(material: Material) -> dict[str, str]:
    """Return what the comparison was made on, by topic."""
    panel, about = material.panel, material.comparison.about
    names = [*panel.covariates.names, *panel.local_covariates.names]
    tested = "; ".join(" … ".join(pair) for pair in about.get("tested", ()))
    return {
        **describe_panel(panel),
        "covariates": name_some(names, 12) or "none but the calendar",
        "tested": tested or "the recipe's test ranges",
        "panel hash": str(panel.digest),
        "recipe hash": material.recipe.digest(),
    }


def describe_dependencies(graph: DependencyGraph) -> dict[str, str]:
    """Return how a graph was chosen, by topic."""
    size = f"{count_of(len(graph), 'edge')}, average degree {graph.average_degree:.2f}"
    return {**describe_choice(graph.about), "kept": size, "graph hash": str(graph.digest)}


def list_runs(material: Material) -> list[TestedRun]:
    """Return every training of the table with its folder and its hash."""
    return [
        TestedRun(row.name, seed, row.runs[seed], found.digest)
        for row in material.comparison.tested
        for seed, found in material.manifests(row).items()
    ]


def list_commands(material: Material) -> dict[str, str]:
    """Return commands by what they do: make the comparison again, this page, a forecast."""
    folder, inside = str(material.folder), material.folder / PANEL
    panel = shlex.quote(str(inside)) if inside.exists() else "PANEL"
    recipe = str(material.folder / RECIPE)
    plain = shlex.join(["forecaster", "evaluate", recipe, "--out", folder]) + f" --panel {panel}"
    page = shlex.join(["forecaster", "report", folder])
    commands = {
        "make the comparison again": material.command or plain,
        "make this page again": page if inside.exists() else f"{page} --panel {panel}",
    }
    if material.best is None:
        return commands
    run = str(material.folder / next(iter(material.best.runs.values())))
    use = shlex.join(["forecaster", "forecast", run]) + f" --panel {panel} --at TIME"
    return commands | {f"forecast with {material.best.name}": use}


def list_versions() -> dict[str, str]:
    """Return the versions of what made this page, by name."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a source tree
            found[name] = "not installed"
    return found
