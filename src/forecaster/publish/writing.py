"""The only code that writes artifacts: content-named files first, then the manifest.

Every file is written under a temporary name, synced and renamed; renaming the manifest commits the
new version. Old files stay for concurrent readers until `prune` removes them.
"""

import contextlib
import errno
import fcntl
import hashlib
import io
import logging
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase, BufferedWriter
from pathlib import Path
from typing import Any

from forecaster.errors import ArtifactError, RunError, count_of, name_some
from forecaster.publish.manifest import (
    CHUNK_BYTES,
    LOCK,
    LOGICAL_NAME,
    MANIFEST,
    NAME_DIGITS,
    PARTIAL,
    Manifest,
    Stored,
    is_ours,
    leftovers,
    read_manifest,
    verify_files,
    version_name,
)

Writer = Callable[[BufferedIOBase], None]
DISCARDED = ".discarded"  # end of the name of a folder that is being removed

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Draft:
    """An artifact to be published: a writer for each file, and the content of its manifest."""

    kind: str  # "panel", "graph", "run", …
    version: int  # format version of that kind
    files: Mapping[str, Writer]  # by logical name: values.parquet
    about: Mapping[str, Any] = field(default_factory=dict)  # JSON only
    parents: Mapping[str, str] = field(
        default_factory=dict
    )  # hashes of the artifacts it was made from
    recipe: str | None = None  # hash of the recipe
    about_bytes: int = 0  # expected size, for the message when the disk is full
    kept: Mapping[str, Stored] = field(default_factory=dict)  # files of the current version
    keeps_versions: bool = False  # the version that it replaces can still be opened


def publish(folder: Path, draft: Draft) -> Manifest:
    """Write every file and then the manifest, sync them to disk, and return the manifest."""
    try:
        _make_folder(folder)
        with locked(folder):
            return _publish_locked(folder, draft)
    except OSError as error:
        raise _explain(error, folder, draft.about_bytes) from error


def revise(folder: Path, change: Callable[[Manifest], Draft]) -> Manifest:
    """Publish what a function makes of the present manifest; no other writer comes between."""
    try:
        with locked(folder):
            return _publish_locked(folder, change(read_manifest(folder)))
    except OSError as error:
        raise _explain(error, folder) from error


def _publish_locked(folder: Path, draft: Draft) -> Manifest:
    refuse_foreign(folder, draft.kind)
    stored = {name: _store(folder, name, write) for name, write in draft.files.items()}
    files = {**draft.kept, **stored}
    manifest = Manifest(draft.kind, draft.version, files, draft.about, draft.parents, draft.recipe)
    if draft.keeps_versions:
        _keep_version(folder, manifest)
    sync_folder(folder)  # the files' names must be on disk before the manifest lists them
    _replace(folder / MANIFEST, bytes_writer(manifest.to_bytes()))
    sync_folder(folder)
    if read_manifest(folder).digest != manifest.digest:
        raise RunError(f"{folder}: the manifest reads back differently; check the disk")
    return manifest


def _keep_version(folder: Path, manifest: Manifest) -> None:
    """Store the manifest that is about to be replaced under the name of its version."""
    if not (folder / MANIFEST).exists():
        return
    current = read_manifest(folder)
    if current.digest != manifest.digest:
        _replace(folder / version_name(current.digest), bytes_writer(current.to_bytes()))


def copy_artifact(source: Path, target: Path) -> Manifest:
    """Publish an artifact again in another folder, after its files are verified."""
    manifest = read_manifest(source)
    verify_files(source, manifest)
    files = {name: file_writer(source / stored.name) for name, stored in manifest.files.items()}
    size = sum(stored.size for stored in manifest.files.values())
    draft = Draft(
        manifest.kind, manifest.version, files, manifest.about, manifest.parents, manifest.recipe,
        about_bytes=size,
    )  # fmt: skip
    return publish(target, draft)


def discard(folder: Path) -> None:
    """Remove a folder with all that is in it: it is renamed first, so that none is ever half."""
    renamed = folder.with_name(f".{folder.name}{DISCARDED}")
    try:
        if folder.is_dir():
            shutil.rmtree(renamed, ignore_errors=True)
            os.replace(folder, renamed)
            sync_folder(folder.parent)
        shutil.rmtree(renamed, ignore_errors=True)
    except OSError as error:
        raise _explain(error, folder) from error


def replace_file(path: Path, write: Writer, mode: int = 0o644) -> None:
    """Write one file (a table, a figure) atomically."""
    try:
        _make_folder(path.parent)
        _replace(path, write, mode)
        sync_folder(path.parent)
    except OSError as error:
        raise _explain(error, path) from error


def bytes_writer(content: bytes) -> Writer:
    """Return a writer of these bytes."""

    def write(sink: BufferedIOBase) -> None:
        sink.write(content)

    return write


def file_writer(path: Path) -> Writer:
    """Return a writer of the bytes of a file."""

    def write(sink: BufferedIOBase) -> None:
        with path.open("rb") as file:
            shutil.copyfileobj(file, sink, CHUNK_BYTES)

    return write


class _Sink(io.RawIOBase):
    """A new file that counts and hashes the bytes written to it."""

    def __init__(self, path: Path, mode: int) -> None:
        self.size = 0
        self.sha256 = hashlib.sha256()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = os.write(self._fd, view)
        self.sha256.update(view[:done])
        self.size += done
        return done

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._fd)


def _store(folder: Path, logical: str, write: Writer) -> Stored:
    """Write one data file under a name that contains the hash of its content."""
    if not LOGICAL_NAME.fullmatch(logical):
        raise ValueError(f"{logical!r} is not a file name of an artifact: use values.parquet")
    stem, suffix = logical.rsplit(".", 1)
    partial = folder / f".{stem}{PARTIAL}{secrets.token_hex(4)}"
    sink = _fill(partial, write)
    sha256 = sink.sha256.hexdigest()
    name = f"{stem}-{sha256[:NAME_DIGITS]}.{suffix}"
    # An existing file of that name may be damaged: replace it.
    os.replace(partial, folder / name)
    return Stored(name, sink.size, sha256)


def _replace(path: Path, write: Writer, mode: int = 0o644) -> None:
    partial = path.with_name(f".{path.name}{PARTIAL}{secrets.token_hex(4)}")
    _fill(partial, write, mode)
    os.replace(partial, path)


def _fill(partial: Path, write: Writer, mode: int = 0o644) -> _Sink:
    """Write and sync a partial file; remove it on failure."""
    raw = _Sink(partial, mode)
    buffered = BufferedWriter(raw, CHUNK_BYTES)
    try:
        write(buffered)
        buffered.flush()
        raw.sync()
        raw.close()
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            raw.close()
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    return raw


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents so that they survive a crash."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):  # another writer may have created it
        os.mkdir(folder)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it survive a crash."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for one writer. The lock ends with the process, so it cannot go stale."""
    path = folder / LOCK
    fd = _take_lock(path)
    try:
        _name_leftovers(folder)
        yield
    finally:
        # Removed while held: a process that opened it meanwhile notices this and retries.
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(fd)


def _take_lock(path: Path) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(fd, path):
                os.ftruncate(fd, 0)
                os.write(fd, f"pid {os.getpid()} host {socket.gethostname()}".encode())
                return fd
        except BlockingIOError:
            owner = _text_of(path) or "another writer"
            os.close(fd)
            message = f"{path.parent}: locked by {owner}; wait until it ends, or stop it"
            raise RunError(message) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # its last owner removed the file: open the new one


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _text_of(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8")[:200]
    return ""


def refuse_foreign(folder: Path, kind: str) -> None:
    """Refuse a folder with other content, before anything is written to it."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ArtifactError(f"{folder}: a file; a {kind} needs a folder; choose another name")
    if (folder / MANIFEST).exists():
        present = read_manifest(folder)
        if present.kind != kind:
            message = f"{folder}: contains a {present.kind}, not a {kind}"
            raise ArtifactError(f"{message}; choose another folder")
        return
    foreign = sorted(p.name for p in folder.iterdir() if not is_ours(p.name))
    if foreign:
        message = f"{folder}: not empty and not a forecaster artifact ({name_some(foreign)})"
        raise ArtifactError(f"{message}; choose an empty or new folder")


def _explain(error: OSError, path: Path, need_bytes: int = 0) -> RunError:
    """Return an error with the cause and the remedy."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(_nearest_folder(path)).free
        need = f"need about {_size_text(need_bytes)}, " if need_bytes else ""
        message = f"{path}: no space: {need}have {_size_text(free)}"
        return RunError(
            f"{message}; nothing was published. Free some space and run the same command again"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        message = f"{path}: cannot be written ({error.strerror}); nothing was published"
        return RunError(f"{message}. Choose another folder or change its permissions")
    return RunError(f"{path}: {error.strerror or error}; nothing was published. Check the disk")


def _size_text(size: int) -> str:
    """Return a number of bytes in a unit that does not round it to zero."""
    for unit, name in ((10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return count_of(size, "byte")


def _nearest_folder(path: Path) -> Path:
    return next(parent for parent in (path, *path.absolute().parents) if parent.is_dir())


def _name_leftovers(folder: Path) -> None:
    """Warn about unfinished files of an interrupted write."""
    unfinished = [path.name for path in folder.iterdir() if PARTIAL in path.name]
    if unfinished:
        count = f"{count_of(len(unfinished), 'unfinished file')} of an interrupted write"
        log.warning(
            "%s: %s (%s); `forecaster check --prune` removes them",
            folder,
            count,
            name_some(sorted(unfinished)),
        )


def prune(folder: Path) -> list[Path]:
    """Remove files that the current version does not use, and return their paths."""
    try:
        with locked(folder):
            removed = leftovers(folder, read_manifest(folder))
            for path in removed:
                os.unlink(path)
            sync_folder(folder)
    except OSError as error:
        raise _explain(error, folder) from error
    return removed
