"""Verifying artifacts: check."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli import terminal
from forecaster.cli.options import Json
from forecaster.errors import ArtifactError, Faults, count_of

if TYPE_CHECKING:
    from forecaster.publish.manifest import Manifest

BYTES_PER_SECOND = 400e6  # hashing, measured on one core; used only for estimates


def check(
    path: Annotated[
        Path, typer.Argument(help="A panel, graph or run, or a folder that contains some.")
    ],
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove older versions and unfinished files.")
    ] = False,
    upgrade: Annotated[
        bool,
        typer.Option("--upgrade", help="Write panels of an older format anew, in today's format."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Verify every file of an artifact against its manifest."""
    from forecaster.publish.manifest import artifacts_below
    from forecaster.publish.writing import prune as remove_old

    folders = artifacts_below(path) or [
        path
    ]  # without a manifest, reading the folder raises the error
    reports, faults = [], Faults(str(path))
    for folder in folders:
        try:
            if upgrade:
                _upgrade(folder)
            reports.append(_verify(folder, older=not prune))
            if prune:
                reports[-1]["pruned"] = [old.name for old in remove_old(folder)]
                reports[-1]["leftovers"] = []
        except ArtifactError as fault:
            faults.add(str(fault))
    if as_json:
        print(json.dumps(reports))
    else:
        for report in reports:
            _print_check(report)
    faults.raise_any(ArtifactError)


def _verify(folder: Path, *, older: bool) -> dict[str, Any]:
    """Verify the current version of an artifact, and older ones if asked; describe them."""
    from forecaster.publish.manifest import (
        leftovers,
        read_manifest,
        read_versions,
        verify_stored,
    )

    versions = read_versions(folder) if older else [read_manifest(folder)]
    manifest = versions[-1]
    files = {file.name: file for version in versions for file in version.files.values()}
    size = sum(file.size for file in files.values())
    terminal.announce(size / BYTES_PER_SECOND, 0, f"verifying {folder}")
    with terminal.progress(f"verifying {folder.name}", size) as advance:
        verify_stored(folder, manifest.kind, files.values(), advance)
    report: dict[str, Any] = {
        "path": str(folder),
        "kind": manifest.kind,
        "format": manifest.version,
        "hash": manifest.digest,
        "files": len(files),
        "bytes": size,
        "leftovers": [old.name for old in leftovers(folder, *versions)],
    }
    if manifest.kind == "panel":
        report["observed"] = _observed_share(folder)
        report["versions"] = [_describe_version(version) for version in versions]
    if manifest.kind == "graph":
        report |= _graph_size(folder)
    if manifest.kind == "run":
        report |= _run_status(folder, manifest)
    return report


def _upgrade(folder: Path) -> None:
    """Write a panel of an older format anew, as a new version; its values stay to the bit."""
    from forecaster.panel.panel import Panel, saved_recipe
    from forecaster.panel.storage.folder import FORMAT
    from forecaster.publish.manifest import read_manifest

    manifest = read_manifest(folder)
    if manifest.kind == "panel" and manifest.version < FORMAT:
        panel = Panel.open(folder)
        panel.save(folder, saved_recipe(folder), {**manifest.parents, "panel": manifest.digest})
        terminal.say(f"{folder}: format {manifest.version} is now format {FORMAT}")


def _describe_version(manifest: "Manifest") -> dict[str, Any]:
    about = manifest.about
    return {
        "hash": manifest.digest,
        "format": manifest.version,
        "start": about["start"],
        "steps": about["steps"],
        "locations": about["locations"],
        "appended": about.get("appended"),
    }


def _observed_share(folder: Path) -> float:
    """Open the panel and return the share of its values that are not missing."""
    import numpy as np

    from forecaster.panel.panel import Panel

    return float(np.isfinite(Panel.open(folder, verify=False).values).mean())


def _graph_size(folder: Path) -> dict[str, Any]:
    """Open the graph and return its numbers of locations and edges."""
    from forecaster.graph.storage import open_graph

    graph = open_graph(folder)
    return {"locations": len(graph.locations), "edges": len(graph)}


def _run_status(folder: Path, manifest: "Manifest") -> dict[str, Any]:
    """Load the run and return its estimator; of an unfinished run only the name."""
    from forecaster.artifact import UNFINISHED
    from forecaster.estimators.registry import load_estimator

    if UNFINISHED in manifest.about:
        return {"estimator": manifest.about.get("estimator"), UNFINISHED: True}
    load_estimator(folder)
    return {"estimator": manifest.about["estimator"], UNFINISHED: False}


def _print_check(report: dict[str, Any]) -> None:
    content = f", {100 * report['observed']:.2f} % observed" if "observed" in report else ""
    if "edges" in report:
        sizes = count_of(report["locations"], "location"), count_of(report["edges"], "edge")
        content = ", " + ", ".join(sizes)
    if "estimator" in report:
        content = f", {report['estimator']}" + (": not finished" if report["unfinished"] else "")
    size = f"{count_of(report['files'], 'file')}, {report['bytes'] / 1e6:,.1f} MB"
    name = f"{report['kind']} (format {report['format']}, {report['hash'][:12]})"
    terminal.show(f"{report['path']}: {name}: {size}, all match the manifest{content}")
    versions = report.get("versions", [])
    if len(versions) > 1:
        terminal.show(
            f"  {len(versions)} versions, the newest last; Panel.open(…, version=…) opens one:"
        )
        for version in versions:
            steps, locations = version["steps"], version["locations"]
            size = f"{count_of(steps, 'step')} × {count_of(locations, 'location')}"
            terminal.show(f"    {version['hash'][:12]}  {size}")
    for old in report.get("pruned", []):
        terminal.show(f"  removed {old}")
    if report["leftovers"]:
        leftovers = count_of(len(report["leftovers"]), "old or unfinished file")
        terminal.show(f"  {leftovers}; --prune removes them")
