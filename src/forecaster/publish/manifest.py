"""The manifest of an artifact: its files with their hashes, and their verification.

A panel, graph or run is a folder. Data files carry their hash in the name; `manifest.json` names
them and is the commit point. Readers open the manifest first and then its files, so they see one
consistent version during a concurrent write.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecaster import remote
from forecaster.errors import ArtifactError, Faults, count_of, name_some

MANIFEST = "manifest.json"
LOCK = ".lock"
CELLS = "cells"  # folder of a comparison, with its runs
PARTIAL = ".partial-"  # part of the name of a file that is still being written
LAYOUT = 1  # version of the manifest itself; each kind of artifact also has a version
MAX_MANIFEST_BYTES = 8 << 20
MAX_FILES = 10_000
CHUNK_BYTES = 1 << 20
NAME_DIGITS = 12  # of a hash, in the names of files
VERSIONS = "manifest-*.json"  # of older versions

LOGICAL_NAME = re.compile(r"[a-z][a-z0-9_]*\.(?:parquet|json|safetensors|toml)")
_CONTENT_NAME = re.compile(r"[a-z][a-z0-9_]*-[0-9a-f]{12}\.(?:parquet|json|safetensors|toml)")
_SHA256 = re.compile(r"[0-9a-f]{64}")

Progress = Callable[[int], None]  # called with the number of bytes just done


@dataclass(frozen=True)
class Stored:
    """One data file of an artifact."""

    name: str  # on disk: values-<first 12 of sha256>.parquet
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The table of contents of one version of an artifact."""

    kind: str
    version: int
    files: Mapping[str, Stored]
    about: Mapping[str, Any]
    parents: Mapping[str, str]
    recipe: str | None

    def to_bytes(self) -> bytes:
        """Return the file's bytes: canonical JSON whose last line is the checksum of the rest."""
        body = self._body()
        return _canonical({**body, "checksum": _checksum(body)})

    @property
    def digest(self) -> str:
        """The hash that names this version of the artifact."""
        return _checksum(self._body())

    def _body(self) -> dict[str, Any]:
        files = {
            name: {"name": file.name, "bytes": file.size, "sha256": file.sha256}
            for name, file in self.files.items()
        }
        return {
            "layout": LAYOUT,
            "kind": self.kind,
            "version": self.version,
            "files": files,
            "about": dict(self.about),
            "parents": dict(self.parents),
            "recipe": self.recipe,
        }


def version_name(digest: str) -> str:
    """Return the name under which the manifest of an older version is kept."""
    return f"manifest-{digest[:NAME_DIGITS]}.json"


def read_manifest(
    folder: Path, kind: str | None = None, reads: int | None = None, version: str | None = None
) -> Manifest:
    """Return the manifest of a version of the folder.

    Args:
        folder: the artifact.
        kind: refuse any other kind.
        reads: the newest format version of that kind that the caller can read.
        version: the first characters of its hash; None: the current one.
    """
    manifest = _parse(folder, _manifest_bytes(folder, MANIFEST))
    if version is not None and not manifest.digest.startswith(version or " "):
        manifest = _find_version(folder, version)
    if kind is not None and manifest.kind != kind:
        raise ArtifactError(
            f"{folder}: a {manifest.kind}, not a {kind}; give the folder of a {kind}"
        )
    if reads is not None and manifest.version > reads:
        message = f"{folder}: {manifest.kind} written by format {manifest.version}"
        raise ArtifactError(f"{message}; this program reads ≤ {reads}: upgrade forecaster")
    return manifest


def read_versions(folder: Path) -> list[Manifest]:
    """Return the manifests of all versions, the current one last, each after its parent."""
    current = read_manifest(folder)
    older = {m.digest: m for m in _kept_versions(folder) if m.digest != current.digest}
    lineage = [current]
    while (parent := older.pop(lineage[0].parents.get(current.kind, ""), None)) is not None:
        lineage.insert(0, parent)
    return [*older.values(), *lineage]


def _kept_versions(folder: Path) -> list[Manifest]:
    names = sorted(path.name for path in folder.glob(VERSIONS) if is_ours(path.name))
    return [_parse(folder, _manifest_bytes(folder, name)) for name in names]


def _find_version(folder: Path, version: str) -> Manifest:
    """Return the older version whose hash begins with these characters."""
    kept_versions = _kept_versions(folder)
    matches = [
        manifest for manifest in kept_versions if manifest.digest.startswith(version or " ")
    ]
    if len(matches) != 1:
        problem = f"{count_of(len(matches), 'version')} with a hash that begins {version!r}"
        names = (
            name_some([m.digest[:NAME_DIGITS] for m in kept_versions]) if kept_versions else "none"
        )
        raise ArtifactError(f"{folder}: {problem}; older versions: {names}")
    return matches[0]


def file_path(folder: Path, manifest: Manifest, logical: str) -> Path:
    """Return the path of a file of the artifact, after checking its type and size."""
    fault = _fault_of(folder, manifest.files[logical])
    if fault:
        raise ArtifactError(f"{folder}: {manifest.kind} damaged: {fault}")
    return remote.here(folder) / manifest.files[logical].name


def path_of_later(folder: Path, manifest: Manifest, logical: str) -> Path:
    """Return the path of a file that `remote.complete` fetches before it is read, if need be."""
    stored = manifest.files[logical]
    path = remote.here(folder) / stored.name
    is_absent = remote.expect(path, stored.size, stored.sha256)
    return path if is_absent else file_path(folder, manifest, logical)


def verify_files(folder: Path, manifest: Manifest, progress: Progress | None = None) -> None:
    """Compare every file of a version with its hash; one error lists all damaged files."""
    verify_stored(folder, manifest.kind, manifest.files.values(), progress)


def verify_stored(
    folder: Path, kind: str, files: Iterable[Stored], progress: Progress | None = None
) -> None:
    """Compare files with their hashes; one error lists all damaged ones."""
    faults = Faults(f"{folder}: {kind} damaged")
    for stored in files:
        fault = _fault_of(folder, stored) or _hash_fault(folder, stored, progress)
        if fault:
            faults.add(fault)
    faults.raise_any(ArtifactError)


def artifacts_below(path: Path) -> list[Path]:
    """Return the folder itself and every folder below it that has a manifest."""
    return sorted(
        manifest.parent for manifest in path.rglob(MANIFEST) if not manifest.is_symlink()
    )


def leftovers(folder: Path, *versions: Manifest) -> list[Path]:
    """Return the files that belong to none of these versions, and unfinished files."""
    named = {file.name for manifest in versions for file in manifest.files.values()}
    named |= {MANIFEST, LOCK, *(version_name(manifest.digest) for manifest in versions)}
    present = [p for p in folder.iterdir() if is_ours(p.name) and p.is_file()]
    return sorted(p for p in present if p.name not in named)


def is_ours(name: str) -> bool:
    """Whether a file of that name can only have been written by forecaster."""
    hidden = name.startswith(".") and PARTIAL in name
    return hidden or name in (MANIFEST, LOCK) or bool(_CONTENT_NAME.fullmatch(name))


def _manifest_bytes(folder: Path, name: str) -> bytes:
    local_folder = remote.local(folder)
    if not local_folder.is_dir():
        raise ArtifactError(f"{folder}: no such folder; give the folder of a forecaster artifact")
    path = local_folder / name
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        message = f"{folder}: not a forecaster artifact (no {MANIFEST})"
        raise ArtifactError(f"{message}; {_explain_missing(folder)}") from None
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ArtifactError(f"{path}: not a plain file; not a forecaster artifact")
    with os.fdopen(fd, "rb") as file:
        raw = file.read(MAX_MANIFEST_BYTES + 1)
    if len(raw) > MAX_MANIFEST_BYTES:
        raise ArtifactError(f"{path}: too large for a manifest; not a forecaster artifact")
    return raw


def _explain_missing(folder: Path) -> str:
    """Return a hint about a folder without a manifest."""
    runs = sorted(f"{manifest.parent}" for manifest in folder.glob(f"{CELLS}/*/{MANIFEST}"))
    if runs:
        return f"it is a comparison; name one of its runs: {name_some(runs)}"
    return "an interrupted first write may have left it"


def _parse(folder: Path, raw: bytes) -> Manifest:
    """Parse a manifest; content that `Manifest.to_bytes` would not write is refused."""
    damaged = f"{folder}: {MANIFEST} is damaged or was not written by forecaster"
    try:
        content = json.loads(raw)
        layout, checksum = content["layout"], content.pop("checksum")
        if isinstance(layout, int) and layout > LAYOUT:
            message = f"{folder}: manifest written by layout {layout}"
            raise ArtifactError(f"{message}; this program reads ≤ {LAYOUT}: upgrade forecaster")
        files = {
            name: Stored(entry["name"], entry["bytes"], entry["sha256"])
            for name, entry in content["files"].items()
        }
        manifest = Manifest(
            content["kind"], content["version"], files, content["about"], content["parents"],
            content["recipe"],
        )  # fmt: skip
        # Equal in every byte: no changed white space, repeated key or extra field.
        if checksum != manifest.digest or raw != manifest.to_bytes():
            raise ArtifactError(f"{damaged}: its checksum does not match its content")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{damaged}: {type(error).__name__}") from error
    _refuse_hostile(folder, manifest)
    return manifest


def _refuse_hostile(folder: Path, manifest: Manifest) -> None:
    """Refuse names outside the folder, fields of the wrong type and too many files."""
    types = [type(manifest.kind), type(manifest.version), type(manifest.about)]
    if types != [str, int, dict] or len(manifest.files) > MAX_FILES:
        raise ArtifactError(f"{folder}: {MANIFEST} has invalid fields or too many files")
    for logical, file in manifest.files.items():
        stem, _, suffix = logical.rpartition(".")
        if [type(file.name), type(file.size), type(file.sha256)] != [str, int, str] or not (
            LOGICAL_NAME.fullmatch(logical)
            and _SHA256.fullmatch(file.sha256)
            and file.name == f"{stem}-{file.sha256[:NAME_DIGITS]}.{suffix}"
        ):
            raise ArtifactError(
                f"{folder}: {MANIFEST} lists {logical!r} with an invalid name, size or hash"
            )


def _fault_of(folder: Path, stored: Stored) -> str:
    path = remote.here(folder) / stored.name
    if remote.expect(path, stored.size, stored.sha256):
        remote.complete(path)
    try:
        status = os.lstat(path)
    except OSError as error:
        return f"{stored.name} cannot be read ({error.strerror})"
    if not stat.S_ISREG(status.st_mode):
        return f"{stored.name} is not a plain file"
    if status.st_size != stored.size:
        return f"{stored.name} has {status.st_size:,} bytes, its manifest says {stored.size:,}"
    return ""


def _hash_fault(folder: Path, stored: Stored, progress: Progress | None) -> str:
    sha256 = hashlib.sha256()
    try:
        with (remote.here(folder) / stored.name).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha256.update(chunk)
                if progress is not None:
                    progress(len(chunk))
    except OSError as error:
        return f"{stored.name} cannot be read ({error.strerror})"
    if sha256.hexdigest() != stored.sha256:
        return f"{stored.name} does not match its manifest (sha256)"
    return ""


def _canonical(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(body)).hexdigest()
