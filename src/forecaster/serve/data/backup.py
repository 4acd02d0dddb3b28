"""Backups of a store while its service writes to it, and their return."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from forecaster.errors import ArtifactError, RunError
from forecaster.publish.writing import file_writer, replace_file
from forecaster.serve.data import acknowledged
from forecaster.serve.data.recovery import WAL, Inspection, inspect
from forecaster.serve.data.redo_log import OWNER_ONLY, SUFFIX
from forecaster.serve.data.store import Store

ATTEMPTS = 20  # to copy files that a service changes meanwhile
PAUSE_SECONDS = 0.1  # between two of them
# Of the files of a store. What was acknowledged is copied first, so that the copy has it all; the
# redo log last, so that it completes the others.
SUFFIXES = (acknowledged.SUFFIX, "", WAL, SUFFIX)


@dataclass(frozen=True)
class BackupContent:
    """What a backup holds."""

    rows: int
    version: int  # of the data


def back_up(store: Path, target: Path) -> BackupContent:
    """Write a store to a single file, which has every write acknowledged before the call.

    The files are copied as they are, and the copy is opened as a service would after a kill. What
    the service changed during the copying shows as damage there; then they are copied again.
    """
    if not store.exists():
        raise ArtifactError(f"{store}: no such file; give the store of a service")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        copy = Path(folder) / store.name
        state = _copy_whole(store, copy)
        replace_file(target, file_writer(copy), OWNER_ONLY)
    return _content(state, target)


def restore(backup: Path, store: Path) -> BackupContent:
    """Write a backup to the place of a store, where there must be none."""
    present = [path.name for path in _files(store) if path.exists()]
    if present:
        advice = "stop its service and move it away first, or give another place"
        raise ArtifactError(f"{store}: there is a store already ({', '.join(present)}); {advice}")
    state = inspect(backup)
    if state.is_new:
        raise ArtifactError(f"{backup}: no backup of a store; give the file of `backup`")
    if state.fault is not None:
        raise ArtifactError(f"{backup}: damaged ({state.fault}); give another backup")
    replace_file(store, file_writer(backup), OWNER_ONLY)
    return _content(state, backup)


def _copy_whole(store: Path, copy: Path) -> Inspection:
    """Copy the files of a store until the copy is whole."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _copy(store, copy)
        except ArtifactError:
            time.sleep(PAUSE_SECONDS)
    return _copy(store, copy)


def _copy(store: Path, copy: Path) -> Inspection:
    """Copy the files of a store, and complete the copy's database."""
    for path in _files(copy):
        path.unlink(missing_ok=True)
    for source, path in zip(_files(store), _files(copy), strict=True):
        try:
            shutil.copyfile(source, path)
        except FileNotFoundError:  # a store that was closed has no log of SQLite's
            continue
        except OSError as error:
            raise RunError(f"{source}: cannot be copied ({error})") from error
    panel = inspect(copy, has_log=True).panel
    if panel is None:
        raise ArtifactError(f"{store}: damaged, or not a store of this program")
    Store(copy, panel).close()
    return inspect(copy)


def _content(state: Inspection, path: Path) -> BackupContent:
    if state.content is None or state.fault is not None:
        raise ArtifactError(f"{path}: damaged ({state.fault})")
    return BackupContent(state.content.rows, state.content.version)


def _files(store: Path) -> list[Path]:
    return [store.with_name(store.name + suffix) for suffix in SUFFIXES]
