"""Files as streams of bytes: decompressed by what they are, and bounded in what they become."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from forecaster.errors import DataError

MAX_EXPANSION = 200  # a table of real rows shrinks 5- to 20-fold
FREE_BYTES = 32 << 20  # which any file may become
MAX_BYTES = 16 << 30
SUFFIXES = (".gz", ".zst", ".xz", ".bz2")
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
}


@contextmanager
def open_bytes(path: Path) -> Iterator[Any]:
    """Open a file decompressed; one that expands without bound, or is cut short, is refused."""
    name = compression(path)
    try:
        with path.open("rb") as file, closing(_decompress(file, name)) as stream:
            yield stream if name is None else _Bounded(path, stream)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
        if name is None:
            raise
        message = f"{path}: damaged or cut short ({name}: {error})"
        raise DataError(f"{message}; fetch it again") from error


def read_small(path: Path, most: int) -> str:
    """Return the text of a file that is small by its nature; a larger one is refused."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"larger than {most >> 20:,} MiB")
    return content.decode("utf-8")


def compression(path: Path) -> str | None:
    """Return how a file is compressed, by its first bytes; None: not at all."""
    with path.open("rb") as file:
        first = file.read(6)
    return next((name for magic, name in _MAGIC.items() if first.startswith(magic)), None)


def refuse_expansion(path: Path, expanded: int) -> None:
    """Refuse a file that becomes larger than a table of its size can be."""
    most = min(MAX_EXPANSION * path.stat().st_size + FREE_BYTES, MAX_BYTES)
    if expanded > most:
        raise DataError(
            f"{path}: refused: more than {most >> 20:,} MiB, over {MAX_EXPANSION} times "
            "its size; decompress it first if this is intended"
        )


def _decompress(file: IO[bytes], name: str | None) -> Any:
    if name == "gzip":
        return gzip.open(file)
    if name == "xz":
        return lzma.open(file)
    if name == "bzip2":
        return bz2.open(file)
    if name == "zstd":
        return pa.CompressedInputStream(pa.PythonFile(file), "zstd")
    return file


class _Bounded(io.RawIOBase):
    """A stream that counts what it gives, and ends with an error where that is too much."""

    def __init__(self, path: Path, stream: Any) -> None:
        self._path, self._stream, self._given = path, stream, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return so many bytes, or fewer at the end."""
        content: bytes = self._stream.read(size)
        self._given += len(content)
        refuse_expansion(self._path, self._given)
        return content
