"""The shared parts of a comparison: folder, panel, test windows and graphs."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from forecaster.choices import Weather
from forecaster.config import Range
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.match import with_meaning
from forecaster.evaluation.comparison import common_test_windows, usable_weathers
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph, resolve_kind
from forecaster.graph.storage import open_graph, save_graph
from forecaster.ingest.build import Sources, build_panel, find_sources
from forecaster.panel.panel import Panel
from forecaster.pipeline.train import MessageCallback
from forecaster.publish.manifest import CELLS, MANIFEST, read_manifest
from forecaster.publish.writing import bytes_writer, replace_file
from forecaster.recipe import Recipe
from forecaster.remaining import Paced, RemainingTime, describe_seconds
from forecaster.splits import Splits

PANEL, GRAPHS = "panel", "graphs"  # folders of a comparison, beside its trials
FINGERPRINT = "panel.json"  # hashes of the sources of the panel
CHUNK_BYTES = 2**24
KEY = 12  # characters of a hash in folder names


@dataclass(frozen=True, eq=False)
class Experiment:
    """A comparison in a folder; its artifacts are named by the hash of their inputs."""

    folder: Path
    panel_folder: Path
    recipe: Recipe  # shared by all models, with lags chosen for the panel
    requested_weathers: Sequence[Weather]  # future covariates; the table reports the first
    tested: tuple[Range, ...] = ()  # replaces the recipe's test ranges
    panel_hash: str | None = None  # required of the panel, if given
    refit_days: int | None = None  # models are also refitted on the way; None: they are not

    @cached_property
    def panel(self) -> Panel:
        """The panel, verified; a panel with another hash than required is refused."""
        panel = Panel.open(self.panel_folder)
        if self.panel_hash not in (None, panel.digest):
            message = f"{self.panel_folder}: the panel was replaced while the command ran"
            raise ArtifactError(f"{message}; use {self.folder} with one command at a time")
        return panel

    @cached_property
    def splits(self) -> Splits:
        """The training, validation and test ranges."""
        return Splits.from_config(self.panel, self.recipe.splits, self.recipe.lags.horizon)

    @cached_property
    def origins(self) -> Int64[np.ndarray, " B"]:
        """The origins of the test windows, the same for all models."""
        splits = replace(self.splits, test=self.tested) if self.tested else self.splits
        return common_test_windows(self.panel, splits, [self.recipe])

    @property
    def suffix(self) -> str:
        """The suffix of files that belong to other test ranges: `-2020-03-01-2020-12-31`."""
        return "".join(f"-{day}" for pair in self.tested for day in pair)

    @property
    def tests(self) -> list[int | None]:
        """The tests of each trial: of the unchanged model, and of one refitted every few days."""
        return [None] if self.refit_days is None else [None, self.refit_days]

    @cached_property
    def weathers(self) -> list[Weather]:
        """The requested weathers that can differ on this panel."""
        return usable_weathers(self.panel, self.requested_weathers)

    def key(self, *content: Any) -> str:
        """Return a hash of the panel, its splits and the given content."""
        splits = [self.splits.train, self.splits.validation, self.splits.test]
        return hash_of([self.panel.digest, splits, *content])[:KEY]

    def trial_folder(self, estimator: str, recipe: Recipe) -> Path:
        """Return the folder of a model: distinct for each estimator, recipe and panel."""
        graph = resolve_kind(recipe.graph, len(self.panel.locations))
        resolved = with_meaning(recipe.model_copy(update={"graph": graph}), self.panel)
        key = self.key(estimator, resolved.digest())
        return self.folder / CELLS / f"{estimator.lower()}-{key}"

    def graph(self, recipe: Recipe, say: MessageCallback) -> DependencyGraph:
        """Return the graph of a recipe, learned on first use."""
        resolved = resolve_kind(recipe.graph, len(self.panel.locations))
        content = [resolved.model_dump(mode="json")]
        if resolved.kind == "lagged":  # whose delays and worth are those that a network uses
            content.append(recipe.lags.model_dump(mode="json"))
        folder = self.folder / GRAPHS / self.key(*content)
        if (folder / MANIFEST).exists():
            return open_graph(folder)
        say(f"learning the graph ({resolved.kind})")
        graph = learn_graph(self.panel, self.splits, recipe.graph, lags=recipe.lags, progress=say)
        return save_graph(graph, folder, recipe)


def make_panel(folder: Path, recipe: Recipe, data: Path | None, say: MessageCallback) -> Path:
    """Build the recipe's panel, unless it was built from the same files; return its folder."""
    if data is None:
        raise ConfigError("no panel given; give one, or the folder of the recipe's files (--data)")
    sources = find_sources(recipe, data)
    say("reading the files")
    fingerprint = _fingerprint(recipe, sources, say)
    panel_folder, fingerprint_file = folder / PANEL, folder / FINGERPRINT
    if (panel_folder / MANIFEST).exists():
        digest = read_manifest(panel_folder, kind="panel").digest
        if sources.files and _read(fingerprint_file) == {**fingerprint, "panel": digest}:
            say("the panel exists already")
            return panel_folder
    say("building the panel")
    panel = build_panel(recipe, sources, say=say).save(panel_folder, recipe)
    content = json.dumps({**fingerprint, "panel": panel.digest})
    replace_file(fingerprint_file, bytes_writer(content.encode()))
    return panel_folder


def hash_of(content: Any) -> str:
    """Return the SHA-256 of JSON-compatible content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _fingerprint(recipe: Recipe, sources: Sources, say: MessageCallback) -> dict[str, Any]:
    """Return hashes of the rules and of the files that a panel is built from."""
    rules = recipe.model_dump(mode="json", include={"panel", "trips", "table", "weather"})
    files = [*sources.files, *sources.tables]
    hashes = []
    remaining, paced = RemainingTime(), Paced(say)
    done, total = 0, sum(path.stat().st_size for path in files)
    for path in files:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                done += len(chunk)
                seconds = remaining.seconds(done, total)
                time_left = "" if seconds is None else f", {describe_seconds(seconds)}"
                paced(f"reading {path.name}: {100 * done / max(total, 1):.0f} % of all{time_left}")
        hashes.append([path.name, digest.hexdigest()])
    return {"rules": hash_of(rules), "files": hash_of(hashes)}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
