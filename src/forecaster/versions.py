"""Runs in versions: one folder with a run in each sub-folder, the current one, and the way back.

The manifest of the folder says which version is current and lists every move of it. It is
replaced as a whole, so that a reader sees one version or the other. A run is never changed: what
it was made from (panel, recipe, the run it began from) stands in its own manifest.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forecaster.artifact import UNFINISHED
from forecaster.errors import ArtifactError, name_some
from forecaster.publish.manifest import MANIFEST, Manifest, read_manifest, verify_files
from forecaster.publish.writing import Draft, copy_artifact, discard, publish, revise
from forecaster.remote import local

KIND, FORMAT = "runs", 1
PARENT = "run"  # among the parents of a run: the one whose weights it began from
VERDICT, VERDICT_FORMAT = "verdict", 1  # an artifact in the folder of a version
VERDICT_PAGE = "verdict.html"  # beside it
_NAME = re.compile(r"v(\d{4,})")
Reason = Literal["added", "promoted", "rolled back"]


@dataclass(frozen=True)
class Move:
    """One move of the current version."""

    version: str
    before: str | None  # the version that was current
    reason: Reason


@dataclass(frozen=True)
class Version:
    """A run in a folder of versions."""

    name: str  # v0001
    folder: Path
    manifest: Manifest  # of the run
    verdict: Mapping[str, Any] | None  # of its comparison with the version that was current

    @property
    def is_finished(self) -> bool:
        """Whether its training has ended."""
        return UNFINISHED not in self.manifest.about

    @property
    def estimator(self) -> str:
        """The name of its estimator."""
        return str(self.manifest.about.get("estimator"))

    @property
    def learned_until(self) -> str | None:
        """The last step of training and validation; None: not finished."""
        return learned_until(self.manifest.about)


class Versions:
    """A folder of versions: what is in it, which is current, and moving that."""

    def __init__(self, folder: Path) -> None:
        """Open a folder of versions; another one is refused."""
        if folder.is_dir() and not (folder / MANIFEST).exists():
            remedy = f"`forecaster runs {folder} --add RUN` begins one with a run"
            raise ArtifactError(f"{folder}: not a folder of versions; {remedy}")
        manifest = read_manifest(folder)
        if manifest.kind != KIND:
            remedy = "`forecaster runs RUNS --add` makes a run the first version of a new folder"
            raise ArtifactError(f"{folder}: a {manifest.kind}, not a folder of versions; {remedy}")
        read_manifest(folder, kind=KIND, reads=FORMAT)
        self.folder = folder

    @staticmethod
    def begin(folder: Path) -> "Versions":
        """Open a folder of versions; an empty or new one is made."""
        if not (folder / MANIFEST).exists():
            publish(folder, _draft(None, ()))
        return Versions(folder)

    @property
    def current(self) -> str | None:
        """The name of the current version; None before the first."""
        current = read_manifest(self.folder, kind=KIND).about["current"]
        return None if current is None else str(current)

    @property
    def current_folder(self) -> Path:
        """The run of the current version."""
        if self.current is None:
            remedy = f"`forecaster runs {self.folder} --add RUN` adds the first"
            raise ArtifactError(f"{self.folder}: no version is current; {remedy}")
        return self.folder / self.current

    @property
    def moves(self) -> tuple[Move, ...]:
        """All moves of the current version, the first one first."""
        return _moves(read_manifest(self.folder, kind=KIND))

    @property
    def taken_back(self) -> frozenset[str]:
        """The versions that were current until an older one was made current instead."""
        manifest = read_manifest(self.folder, kind=KIND)
        taken_back = {
            m.before for m in _moves(manifest) if m.before and _is_older(m.version, m.before)
        }
        return frozenset(taken_back - {manifest.about["current"]})

    def entries(self) -> tuple[Version, ...]:
        """All versions, the oldest first; one that is being trained too."""
        folders = (path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))
        written = sorted(path for path in folders if (path / MANIFEST).exists())
        return tuple(_read_version(folder) for folder in written)

    def find(self, name: str) -> Version:
        """The version of a name; an unknown one is refused."""
        versions = self.entries()
        for version in versions:
            if version.name == name:
                return version
        names = name_some(version.name for version in versions)
        raise ArtifactError(f"{self.folder}: no version {name!r}; there are {names}")

    def next_folder(self) -> Path:
        """The folder of the next version; a number is not used twice."""
        names = {move.version for move in self.moves} | {v.name for v in self.entries()}
        numbers = [int(match[1]) for name in names if (match := _NAME.fullmatch(name))]
        return self.folder / f"v{max(numbers, default=0) + 1:04d}"

    def add(self, run: Path) -> Version:
        """Copy a run as a version and make it current; the same run again is not copied."""
        manifest = read_manifest(run, kind="run")
        if UNFINISHED in manifest.about:
            raise ArtifactError(f"{run}: its training is not finished; finish it first")
        same = [v for v in self.entries() if v.manifest.digest == manifest.digest]
        folder = same[-1].folder if same else self.next_folder()
        if not same:
            copy_artifact(run, folder)
        self._move(folder.name, "added")
        return self.find(folder.name)

    def promote(self, name: str) -> Move | None:
        """Make a version current, after its files are verified; None: it is current already."""
        version = self.find(name)
        if not version.is_finished:
            remedy = "the `forecaster update` that began it resumes it"
            raise ArtifactError(f"{version.folder}: its training is not finished; {remedy}")
        verify_files(version.folder, version.manifest)
        return self._move(name, "promoted")

    def rollback(self) -> Move | None:
        """Make current what was current before the current version was promoted."""
        current = self.current
        arrivals = [m for m in self.moves if m.version == current and m.reason != "rolled back"]
        before = arrivals[-1].before if arrivals else None
        if before is None:
            raise ArtifactError(f"{self.folder}: no version was current before {current}")
        version = self.find(before)
        verify_files(version.folder, version.manifest)
        return self._move(before, "rolled back")

    def remove(self, name: str) -> None:
        """Remove a version that is not current."""
        if name == self.current:
            raise ArtifactError(f"{name} is current; promote another version first, or roll back")
        folder = self.folder / name
        if folder.is_dir():
            folder = self.find(name).folder
        elif not _NAME.fullmatch(name):
            self.find(name)
        discard(folder)

    def _move(self, name: str, reason: Reason) -> Move | None:
        made: list[Move] = []

        def change(manifest: Manifest) -> Draft:
            current, moves = manifest.about["current"], _moves(manifest)
            made.extend([Move(name, current, reason)] if current != name else [])
            return _draft(name, (*moves, *made))

        revise(self.folder, change)
        return made[0] if made else None


def learned_until(about: Mapping[str, Any]) -> str | None:
    """The last step of training and validation of a run; None: not finished."""
    splits = about.get("learned", about).get("splits", {})
    ends = [end for name in ("train", "validation") for _, end in splits.get(name, ())]
    return max(ends, default=None)


def is_versioned(folder: Path) -> bool:
    """Whether a folder holds runs in versions."""
    return (local(folder) / MANIFEST).exists() and read_manifest(folder).kind == KIND


def run_folder(folder: Path) -> Path:
    """The folder of a run: of versions that of the current one, else the folder itself."""
    return Versions(folder).current_folder if is_versioned(folder) else folder


def save_verdict(version: Path, verdict: Mapping[str, Any]) -> None:
    """Publish the verdict about a version in its folder."""
    publish(version / VERDICT, Draft(VERDICT, VERDICT_FORMAT, {}, verdict))


def _is_older(name: str, than: str) -> bool:
    return int(name[1:]) < int(than[1:])


def _read_version(folder: Path) -> Version:
    verdict = None
    if (folder / VERDICT / MANIFEST).exists():
        verdict = read_manifest(folder / VERDICT, kind=VERDICT, reads=VERDICT_FORMAT).about
    return Version(folder.name, folder, read_manifest(folder, kind="run"), verdict)


def _draft(current: str | None, moves: tuple[Move, ...]) -> Draft:
    about = {"current": current, "moves": [vars(move) for move in moves]}
    return Draft(KIND, FORMAT, {}, about)


def _moves(manifest: Manifest) -> tuple[Move, ...]:
    return tuple(Move(**move) for move in manifest.about["moves"])
