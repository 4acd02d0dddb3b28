"""Values of many locations on disk: long Parquet tables, each of a block of steps.

A block is a table `unique_id`, `ds`, `y`, one location after the other, so that any tool reads it;
here `y` is read alone, by position. Blocks have about eight
million rows: a week of a hundred thousand locations is in three or four of them, and a panel that
grows by appended blocks never writes the old ones again. Only where 32 small blocks of about the
same length follow each other, they are merged, so that a value is written three times at most.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float32, Shaped

from forecaster.panel.parquet import check_table, read_table, write_table
from forecaster.panel.storage.tables import TIME, copy_column
from forecaster.publish.writing import Writer
from forecaster.remote import complete

MAX_ROWS = 1 << 23  # of a block: locations × steps
MERGED = 32  # so many blocks of one tier become one
_THREADS = 2
_TYPES = [pa.string(), TIME, pa.float32()]


@dataclass(frozen=True)
class Block:
    """Steps first…end−1 of the first locations of a panel; the others were not yet there."""

    first: int
    end: int
    locations: int

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def tier(self) -> int:
        """The class of its length: below 32 steps 0, below 1,024 steps 1, and so on."""
        return (len(self).bit_length() - 1) // (MERGED.bit_length() - 1)


@dataclass(frozen=True)
class Blocks:
    """The blocks of a matrix of steps × locations, in the order of time, without gaps."""

    layer: str  # the name of the matrix, with which the names of its files begin
    blocks: tuple[Block, ...]

    @staticmethod
    def cut(layer: str, first: int, end: int, locations: int) -> "Blocks":
        """Return the blocks of new steps."""
        longest = _longest(locations)
        firsts = range(first, end, longest) if locations else ()
        return Blocks(layer, tuple(Block(f, min(f + longest, end), locations) for f in firsts))

    def file(self, block: Block) -> str:
        """Return the logical name of the file of a block."""
        return f"{self.layer}_{block.first}.parquet"

    def to_json(self) -> list[list[int]]:
        """Return the first step, the end and the number of locations of each block."""
        return [[block.first, block.end, block.locations] for block in self.blocks]

    @staticmethod
    def from_json(layer: str, content: object, steps: int, locations: int) -> "Blocks":
        """Return the blocks that a manifest describes; others are a ValueError."""
        if not isinstance(content, list) or not all(_is_block(entry) for entry in content):
            raise ValueError(f"blocks of {layer}: not a list of three whole numbers each")
        blocks = tuple(Block(*entry) for entry in content)
        firsts, ends = [b.first for b in blocks], [b.end for b in blocks]
        end = steps if locations else 0
        if [*firsts, end] != [0, *ends] or not all(
            b.end > b.first and 0 < b.locations <= locations for b in blocks
        ):
            raise ValueError(f"blocks of {layer}: they do not cover {steps} steps in order")
        return Blocks(layer, blocks)

    def merged(self) -> "Blocks":
        """Return the blocks with many small ones at the end merged into one of the next tier."""
        blocks = list(self.blocks)
        while _ends_alike(blocks[-MERGED:]):
            tail = blocks[-MERGED:]
            locations = max(block.locations for block in tail)
            whole = Blocks.cut(self.layer, tail[0].first, tail[-1].end, locations)
            blocks[-MERGED:] = whole.blocks
        return Blocks(self.layer, tuple(blocks))


def _longest(locations: int) -> int:
    """Return the steps of a whole block: the largest power of two that has not too many rows."""
    return 1 << max((MAX_ROWS // max(locations, 1)).bit_length() - 1, 0)


def _is_block(entry: object) -> bool:
    return isinstance(entry, list) and [type(number) for number in entry] == [int] * 3


def _ends_alike(tail: Sequence[Block]) -> bool:
    """Whether there are enough blocks of one tier, none of them as long as a block may be."""
    alike = len({block.tier for block in tail}) == 1
    return len(tail) == MERGED and alike and all(len(b) < _longest(b.locations) for b in tail)


def block_writer(
    ids: Sequence[str],
    times: Shaped[np.ndarray, " T"],
    read: Callable[[], Float32[np.ndarray, "T N"]],
) -> Writer:
    """Return a function that writes the long table of a block, NaN as null.

    Args:
        ids: of its locations.
        times: of its steps.
        read: gives the values when they are written.
    """

    def write(sink: BufferedIOBase) -> None:
        N, T = len(ids), len(times)
        stamps = pa.array(times.astype("datetime64[ms]")).cast(TIME)
        location = np.repeat(np.arange(N, dtype=np.int32), T)
        step = np.tile(np.arange(T, dtype=np.int32), N)
        values = np.ascontiguousarray(read().T).reshape(-1)
        columns = {
            "unique_id": pa.DictionaryArray.from_arrays(location, pa.array(ids, pa.string())),
            "ds": pa.DictionaryArray.from_arrays(step, stamps),
            "y": pa.array(values, from_pandas=True),
        }
        write_table(pa.table(columns), sink, store_schema=False)

    return write


def read_block(path: Path, block: Block) -> Float32[np.ndarray, "N T"]:
    """Return the values of a block, one location after the other; null becomes NaN."""
    rows = block.locations * len(block)
    table = read_table(path, "panel", rows, _is_long, columns=("y",))
    values = np.empty(rows, dtype=np.float32)
    copy_column(path, table["y"], values)
    return values.reshape(block.locations, len(block))


def check_block(path: Path, block: Block) -> None:
    """Refuse a file that is not the table of a block, by its metadata alone."""
    check_table(path, "panel", block.locations * len(block), _is_long)


def _is_long(schema: pa.Schema) -> bool:
    return (schema.names, schema.types) == (["unique_id", "ds", "y"], _TYPES)


@dataclass(frozen=True, eq=False)
class StoredMatrix:
    """A matrix of steps × locations on disk, which is read in parts."""

    blocks: Blocks
    paths: tuple[Path, ...]  # of the blocks
    shape: tuple[int, int]  # M, N

    @property
    def steps(self) -> int:
        """The number of its steps."""
        return self.shape[0]

    def read(self, first: int, end: int) -> Float32[np.ndarray, "T N"]:
        """Return steps first…end−1, one location after the other in memory."""
        pairs = zip(self.paths, self.blocks.blocks, strict=True)
        parts = [(path, b) for path, b in pairs if b.first < end and b.end > first]
        for path, block in parts:  # before memory is taken
            complete(path)
            check_block(path, block)
        values = np.empty((self.shape[1], max(end - first, 0)), dtype=np.float32)

        def copy(path: Path, block: Block) -> None:
            start, stop = max(block.first, first), min(block.end, end)
            into = values[:, start - first : stop - first]
            part = read_block(path, block)[:, start - block.first : stop - block.first]
            into[: block.locations], into[block.locations :] = part, np.nan

        with ThreadPoolExecutor(_THREADS) as threads:
            for job in [threads.submit(copy, path, block) for path, block in parts]:
                job.result()
        return values.T
