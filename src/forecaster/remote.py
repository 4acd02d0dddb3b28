"""Files where they are, in buckets and on web servers, by file systems of pyarrow and fsspec.

A file comes into a folder of this process when it is needed: a table by the columns that are used,
an artifact by the files that are opened, each of which must have the hash of its manifest.
Credentials are those of the store's own programs (AWS_ACCESS_KEY_ID, profiles, machine roles).
"""

import atexit
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from forecaster.errors import (
    ArtifactError,
    ConfigError,
    DataError,
    ForecasterError,
    RunError,
    need_extra,
    plain_text,
)

T = TypeVar("T")
PAUSES = (0.5, 2.0, 4.0)  # seconds before each retry
CHUNK_BYTES = 1 << 20
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
MANIFEST = "manifest.json"
_ADDRESS = re.compile(r"(s3|gs|gcs|https?):/{1,2}([^/].*)")  # one slash is left of a Path's two
_REFUSALS: tuple[tuple[str, type[ForecasterError], str], ...] = (  # that no retry can mend
    (
        r"^FileNotFoundError|NO_SUCH_BUCKET|NO_SUCH_KEY|Not Found|404",
        DataError,
        "no such file; check the address",
    ),
    (
        r"certificate verify failed",
        ConfigError,
        "not trusted ({}); name the file of its authority's certificate in SSL_CERT_FILE",
    ),
    (
        r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|Forbidden|Unauthorized|40[13]",
        ConfigError,
        "refused ({}); give credentials that may read it, as the store's own programs do",
    ),
)
_MIRRORS: dict[Path, str] = {}  # addresses of remote artifacts by their folders here
_EXPECTED: dict[Path, tuple[int, str]] = {}  # sizes and hashes of files that are still there only
_LOCK = Lock()


def is_remote(text: object) -> bool:
    """Whether a text or path is the address of a remote file or folder."""
    return _ADDRESS.fullmatch(str(text)) is not None


@dataclass(frozen=True)
class RemoteFile:
    """A file in a bucket or on a web server."""

    url: str

    @classmethod
    def parse(cls, text: object) -> "RemoteFile":
        """Return the file of an address; one with a password or a key is refused."""
        match = _ADDRESS.fullmatch(str(text))
        if match is None:
            raise ConfigError(f"{text}: not an address; give s3://…, gs://… or https://…")
        parts = urlsplit(f"{match[1]}://{match[2]}")
        file = cls(parts.geturl().rstrip("/"))
        if "@" in parts.netloc:
            raise ConfigError(
                f"{file.name}: credentials in an address are seen in lists of processes; leave "
                "them out, and give those of the store as its own programs take them"
            )
        return file

    @property
    def name(self) -> str:
        """The address without credentials and signature, for messages and recipes."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def fetch(self, columns: Sequence[str] | None = None) -> Path:
        """Return the file as one here; of Parquet only some columns come.

        Args:
            columns: those that are needed; None: all.
        """
        base = PurePosixPath(unquote(urlsplit(self.url).path)).name
        if base in ("", ".", ".."):
            raise ConfigError(f"{self.name}: the address of a file is needed")
        is_part = columns is not None and base.endswith(".parquet")
        target = _place(f"{self.url} {sorted(columns or ()) if is_part else ''}") / base
        if not target.exists():
            self._retry(lambda: self._copy(target, columns if is_part else None))
        return target

    def fetch_into(self, target: Path) -> None:
        """Copy the file to a path."""
        self._retry(lambda: self._copy(target, None))

    def _copy(self, target: Path, columns: Sequence[str] | None) -> None:
        """Copy the file, or some of its columns; it is there when it is complete."""
        partial = target.with_name(f"{target.name}.partial")
        if self.url.startswith("http"):
            _copy_web(self.url, partial, columns)
        else:
            self._copy_bucket(partial, columns)
        partial.replace(target)

    def _copy_bucket(self, target: Path, columns: Sequence[str] | None) -> None:
        system, path = pa.fs.FileSystem.from_uri(self.url)
        before = system.get_file_info(path)
        if before.type != pa.fs.FileType.File:
            raise FileNotFoundError(self.name)
        with system.open_input_file(path) as source:
            if columns is None:
                _copy_bytes(source, target)
            else:
                _copy_columns(source, target, columns)
        after = system.get_file_info(path)
        is_whole = columns is not None or target.stat().st_size == before.size
        if (after.size, after.mtime_ns) != (before.size, before.mtime_ns) or not is_whole:
            raise OSError("it changed, or was cut short, while it was read")

    def _retry(self, job: Callable[[], T]) -> T:
        """Return what a job gives; one that fails on the way is tried again."""
        pauses = iter(PAUSES)
        while True:
            try:
                return job()
            except pa.ArrowInvalid as error:
                raise DataError(f"{self.name}: damaged ({self._plain(error)})") from None
            except ForecasterError:
                raise
            except Exception as error:  # fsspec has error types of its own
                cause = error.__cause__ or error  # it takes any failure for a missing file
                text = self._plain(cause)
                for pattern, kind, message in _REFUSALS:
                    if re.search(pattern, f"{type(cause).__name__}: {text}"):
                        raise kind(f"{self.name}: {message.format(text)}") from None
                pause = next(pauses, None)
                if pause is None:
                    advice = "see that the store answers, and run the same command again"
                    raise RunError(f"{self.name}: cannot be read ({text}); {advice}") from None
                time.sleep(pause)

    def _plain(self, error: BaseException) -> str:
        """Return the text of an error without signatures and credentials."""
        return plain_text(error, urlsplit(self.url).query, *map(os.environ.get, SECRETS))


def local(folder: Path | str) -> Path:
    """Return the folder of an artifact here; of a remote one its manifest is fetched anew."""
    if not is_remote(folder):
        return Path(folder)
    mirror = here(folder)
    RemoteFile(f"{_MIRRORS[mirror]}/{MANIFEST}").fetch_into(mirror / MANIFEST)
    return mirror


def here(folder: Path | str) -> Path:
    """Return the folder of an artifact here; files of a remote one come when they are needed."""
    if not is_remote(folder):
        return Path(folder)
    file = RemoteFile.parse(folder)
    mirror = _place(file.url) / (PurePosixPath(urlsplit(file.url).path).name or "artifact")
    mirror.mkdir(exist_ok=True)
    _MIRRORS[mirror] = file.url
    return mirror


def expect(path: Path, size: int, sha256: str) -> bool:
    """Note size and hash of an artifact's file; return whether it is still remote."""
    if path.parent in _MIRRORS and not path.exists():
        _EXPECTED[path] = size, sha256
    return path in _EXPECTED


def complete(path: Path) -> None:
    """Fetch an expected file, and compare its hash; any other stays as it is."""
    with _LOCK:
        if path not in _EXPECTED:
            return
        size, sha256 = _EXPECTED[path]
        file = RemoteFile(f"{_MIRRORS[path.parent]}/{path.name}")
        file.fetch_into(path)
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if (path.stat().st_size, digest) != (size, sha256):
            path.unlink()
            raise ArtifactError(f"{file.name}: damaged: it does not match its manifest (sha256)")
        del _EXPECTED[path]


def _copy_web(url: str, target: Path, columns: Sequence[str] | None) -> None:
    """Copy a file of a web server; one that knows no parts of files sends the whole."""
    need_extra("aiohttp", extra="remote")
    implementation = need_extra("fsspec.implementations.http", extra="remote")
    system = implementation.HTTPFileSystem(cache_type="none", skip_instance_cache=True)
    if columns is not None:
        with suppress(ValueError), system.open(url) as source:  # it tells by this that it cannot
            _copy_columns(source, target, columns)
            return
    system.get_file(url, str(target))


def _copy_bytes(source: Any, target: Path) -> None:
    with target.open("wb") as sink:
        shutil.copyfileobj(source, sink, CHUNK_BYTES)


def _copy_columns(source: Any, target: Path, columns: Sequence[str]) -> None:
    """Write the columns of a Parquet file that are needed, all if none of them is there."""
    file = pq.ParquetFile(source, pre_buffer=True)
    names = [name for name in file.schema_arrow.names if name.strip() in columns]
    names = names or file.schema_arrow.names
    fields = [file.schema_arrow.field(name) for name in names]
    with pq.ParquetWriter(target, pa.schema(fields)) as writer:
        for group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(group, columns=names))


def _place(key: str) -> Path:
    """Return the folder of one address in that of this process."""
    folder = _folder() / hashlib.sha256(key.encode()).hexdigest()[:12]
    folder.mkdir(exist_ok=True)
    return folder


@cache
def _folder() -> Path:
    """Make the folder of this process, which is removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="forecaster-remote-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
