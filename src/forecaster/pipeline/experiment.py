"""What the cells of one comparison share: a folder, a panel, the test windows, the graphs."""

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
from forecaster.evaluation.comparison import common_windows, given_weather
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.graph.storage import open_graph, save_graph
from forecaster.ingest.build import Sources, build_panel, find_sources
from forecaster.panel.panel import Panel
from forecaster.pipeline.train import Say
from forecaster.publish.manifest import CELLS, MANIFEST, read_manifest
from forecaster.publish.writing import bytes_writer, replace_file
from forecaster.recipe import Recipe
from forecaster.splits import Splits

PANEL, GRAPHS = "panel", "graphs"  # folders of a comparison, beside its cells
MADE_FROM = "panel.json"  # says what its panel was made from
KEY = 12  # characters of a hash that tell folders apart


@dataclass(frozen=True, eq=False)
class Study:
    """A comparison in a folder; everything in it is kept under the hash of what it came from."""

    folder: Path
    panel_folder: Path
    recipe: Recipe  # what all models share
    weathers: Sequence[Weather]  # what to take for coming weather; the table is about the first
    tested: tuple[Range, ...] = ()  # tested on in place of the recipe's test ranges
    panel_hash: str | None = None  # what the panel must be, if that is known

    @cached_property
    def panel(self) -> Panel:
        """The panel, verified; another than the one that the study began with is refused."""
        panel = Panel.open(self.panel_folder)
        if self.panel_hash not in (None, panel.digest):
            message = f"{self.panel_folder}: replaced by another panel meanwhile"
            raise ArtifactError(f"{message}; let one command at a time use {self.folder}")
        return panel

    @cached_property
    def splits(self) -> Splits:
        """Which steps are for what."""
        return Splits.from_config(self.panel, self.recipe.splits)

    @cached_property
    def origins(self) -> Int64[np.ndarray, " B"]:
        """The test windows, the same for all models."""
        splits = replace(self.splits, test=self.tested) if self.tested else self.splits
        return common_windows(self.panel, splits, [self.recipe])

    @property
    def suffix(self) -> str:
        """What tells the files of another test apart: `-2020-03-01-2020-12-31`."""
        return "".join(f"-{day}" for pair in self.tested for day in pair)

    @cached_property
    def usable_weathers(self) -> list[Weather]:
        """The weathers that can make a difference."""
        return given_weather(self.panel, self.weathers)

    def key(self, *content: Any) -> str:
        """Return a hash of something that rests on the panel and its splits."""
        splits = [self.splits.train, self.splits.validation, self.splits.test]
        return hash_of([self.panel.digest, splits, *content])[:KEY]

    def cell_folder(self, estimator: str, recipe: Recipe) -> Path:
        """Return where a model of a recipe lives; another recipe or panel has another place."""
        key = self.key(estimator, with_meaning(recipe, self.panel).digest())
        return self.folder / CELLS / f"{estimator.lower()}-{key}"

    def graph(self, recipe: Recipe, say: Say) -> DependencyGraph:
        """Return the graph of a recipe, learned unless it was already."""
        folder = self.folder / GRAPHS / self.key(recipe.graph.model_dump(mode="json"))
        if (folder / MANIFEST).exists():
            return open_graph(folder)
        say(f"learning the graph ({recipe.graph.kind})")
        return save_graph(learn_graph(self.panel, self.splits, recipe.graph), folder, recipe)


def make_panel(folder: Path, recipe: Recipe, data: Path | None, say: Say) -> Path:
    """Return the folder of the recipe's panel, built unless it is there from the same files."""
    if data is None:
        raise ConfigError("which panel? give one, or the folder with the recipe's files (--data)")
    sources = find_sources(recipe, data)
    say("looking through the files")
    made_from = _fingerprint(recipe, sources)
    place, note = folder / PANEL, folder / MADE_FROM
    if (place / MANIFEST).exists():
        present = read_manifest(place, kind="panel").digest
        if _read(note) == {**made_from, "panel": present}:
            say("the panel is there already")
            return place
    say("building the panel")
    made = build_panel(recipe, sources, say=say).save(place, recipe)
    content = json.dumps({**made_from, "panel": made.digest})
    replace_file(note, bytes_writer(content.encode()))
    return place


def hash_of(content: Any) -> str:
    """Return the SHA-256 of something that JSON can say."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _fingerprint(recipe: Recipe, sources: Sources) -> dict[str, Any]:
    """Return hashes of the rules and of the files that decide a panel."""
    rules = recipe.model_dump(mode="json", include={"panel", "trips", "table", "weather"})
    files = [*sources.values, *(p for p in (sources.places, sources.weather) if p is not None)]
    known = []
    for path in files:
        with path.open("rb") as file:
            known.append([path.name, hashlib.file_digest(file, "sha256").hexdigest()])
    return {"rules": hash_of(rules), "files": hash_of(known)}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
