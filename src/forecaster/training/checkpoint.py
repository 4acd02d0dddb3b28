"""Checkpoints: two slots, written in turn, so that one is intact at any time.

Each is an artifact. A new one replaces the older, which stays intact until the new one is on disk.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from forecaster.artifact import ARRAYS, FOREIGN, pack, unpack
from forecaster.errors import ArtifactError, Faults, RunError
from forecaster.publish.manifest import (
    MANIFEST,
    Manifest,
    read_manifest,
    verify_files,
)
from forecaster.publish.writing import Draft, bytes_writer, prune, publish, sync_folder
from forecaster.training.progress import Progress

FORMAT = 1
KIND = "checkpoint"
SLOTS = ("checkpoint-a", "checkpoint-b")
DAMAGED = "damaged-"  # before the number of one that was put aside


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything that a training resumes from."""

    progress: Progress
    arrays: Mapping[str, np.ndarray]
    identity: Mapping[str, str]  # data, recipe and release: must be equal to resume
    machine: Mapping[str, str] = field(default_factory=dict)  # may change the last bits only


class CheckpointStore:
    """The two checkpoints in the folder of a training."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say, self._next = folder, say, 0

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the older checkpoint; its files are deleted after the new ones are verified."""
        try:
            content, described = pack(checkpoint.arrays)
        except ValueError as error:
            raise RunError(f"no checkpoint was written: {error}") from error
        about = {
            "progress": checkpoint.progress.to_json(),
            "arrays": described,
            "known": dict(checkpoint.identity),
            "machine": dict(checkpoint.machine),
        }
        files = {ARRAYS: bytes_writer(content)}
        slot = self._folder / SLOTS[self._next]
        manifest = publish(slot, Draft(KIND, FORMAT, files, about, about_bytes=len(content)))
        verify_files(slot, manifest)
        prune(slot)
        self._next = 1 - self._next

    def newest(self) -> Checkpoint | None:
        """The newest intact checkpoint; damaged ones are reported and renamed."""
        damaged: list[str] = []
        slots = [(slot, self._open(slot, damaged)) for slot in SLOTS if self._was_used(slot)]
        slots.sort(key=lambda pair: _age(pair[1]), reverse=True)
        for slot, manifest in slots:
            checkpoint = self._load(slot, manifest, damaged) if manifest else None
            if checkpoint is not None:
                self._next = 1 - SLOTS.index(slot)
                for fault in damaged:
                    self._say(f"{fault}, using step {checkpoint.progress.step:,}")
                return checkpoint
        damaged = damaged or [f"kept as {path.name}" for path in self._put_aside_before()]
        if damaged:
            remedy = f"use another folder, or remove {DAMAGED}… to begin anew"
            faults = Faults(f"{self._folder}: no checkpoint is intact; {remedy}")
            faults.messages = damaged
            faults.raise_any(ArtifactError)
        return None

    def _put_aside_before(self) -> list[Path]:
        """Return damaged checkpoints that an earlier start has found."""
        return sorted(self._folder.glob(f"{DAMAGED}*"))

    def _was_used(self, slot: str) -> bool:
        folder = self._folder / slot
        if folder.is_dir() and not (folder / MANIFEST).exists():
            self._say(f"{folder}: ignored, since its first save was interrupted (no {MANIFEST})")
            return False
        return folder.is_dir()

    def _open(self, slot: str, damaged: list[str]) -> Manifest | None:
        try:
            read_manifest(self._folder / slot)
        except ArtifactError as error:
            damaged.append(self._put_aside(slot, slot, error))
            return None
        # Another kind of artifact, or a newer format, is not damage: it is refused.
        return read_manifest(self._folder / slot, kind=KIND, reads=FORMAT)

    def _load(self, slot: str, manifest: Manifest, damaged: list[str]) -> Checkpoint | None:
        folder, about = self._folder / slot, manifest.about
        try:
            verify_files(folder, manifest)
            progress = Progress.from_json(about["progress"])
            return Checkpoint(progress, unpack(folder, manifest), about["known"], about["machine"])
        except (ArtifactError, *FOREIGN) as error:
            damaged.append(self._put_aside(slot, f"step {_age(manifest)[0]:,}", error))
            return None

    def _put_aside(self, slot: str, label: str, error: Exception) -> str:
        """Rename a damaged checkpoint; return a sentence about it."""
        names = (f"{DAMAGED}{number}" for number in count(1))
        new_name = next(name for name in names if not (self._folder / name).exists())
        os.rename(self._folder / slot, self._folder / new_name)  # noqa: PTH104 (so that tests can fail it)
        sync_folder(self._folder)
        reason = str(error).splitlines()[-1].strip()
        return f"{label} damaged ({reason}), kept as {new_name}"


def _age(manifest: Manifest | None) -> tuple[int, int]:
    """The step and the number of epochs of a checkpoint; step −1 if it names none."""
    progress = manifest.about.get("progress") if manifest else None
    fields = progress if isinstance(progress, dict) else {}
    step, records = fields.get("step"), fields.get("records")
    epochs = len(records) if isinstance(records, list) else 0
    return (step, epochs) if isinstance(step, int) else (-1, epochs)
