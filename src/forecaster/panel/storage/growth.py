"""A matrix on disk with new steps, new columns and changed values: which blocks are written.

Blocks without a change stay as they are. Steps ahead of the last value, which only covariates
have, are provisional: they are written anew with the steps that follow them.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.panel.storage.blocks import Block, Blocks, StoredMatrix
from forecaster.publish.manifest import Manifest, verify_stored


@dataclass(frozen=True, eq=False)
class Incoming:
    """Values that are put into a matrix, from a step on."""

    first: int
    values: Float32[np.ndarray, "T n"]
    given: Bool[np.ndarray, "T n"]  # elsewhere the matrix stays as it is

    @property
    def end(self) -> int:
        """The step after the last."""
        return self.first + len(self.values)

    def put(self, into: Float32[np.ndarray, "U n"], first: int) -> None:
        """Put the values into steps of the matrix that begin at `first`."""
        begin, end = max(self.first, first), min(self.end, first + len(into))
        if begin < end:
            rows = slice(begin - self.first, end - self.first)
            target = into[begin - first : end - first]
            np.copyto(target, self.values[rows], where=self.given[rows])


@dataclass(frozen=True, eq=False)
class Growth:
    """A matrix on disk, and what it becomes."""

    folder: Path
    manifest: Manifest
    matrix: StoredMatrix
    incoming: Incoming
    past: int  # the step after the last value so far: later steps are provisional
    steps: int  # the step after the last value from now on
    end: int  # the step after the last value or covariate from now on

    @property
    def columns(self) -> int:
        """The number of columns from now on."""
        return int(self.incoming.values.shape[1])

    def compare(
        self, first: int, end: int
    ) -> tuple[Float32[np.ndarray, "U n"], Float32[np.ndarray, "U n"]]:
        """The values of some steps as they were, and as they are from now on.

        Only the incoming steps among first…end−1 are compared.
        """
        begin, stop = max(first, self.incoming.first), min(end, self.incoming.end)
        before = self._read(begin, stop)
        after = before.copy(order="K")
        self.incoming.put(after, begin)
        return before, after

    @cached_property
    def changed_steps(self) -> Int64[np.ndarray, " C"]:
        """The settled steps, those before `past`, with a changed value."""
        before, after = self.compare(0, self.past)
        rows = np.flatnonzero(differs(before, after).any(axis=1))
        return np.asarray(rows + self.incoming.first)

    def blocks(self) -> tuple[Blocks, Blocks]:
        """The blocks of the matrix from now on, and those of them that are written."""
        old, changed = self.matrix.blocks, self.changed_steps
        settled = [block for block in old.blocks if block.end <= self.past]
        unchanged = {block for block in settled if not _touches(block, changed)}
        past = [b if b in unchanged else Block(b.first, b.end, self.columns) for b in settled]
        new = Blocks.cut(old.layer, self.past, self.steps, self.columns).blocks
        ahead = Blocks.cut(old.layer, self.steps, self.end, self.columns).blocks
        merged = Blocks(old.layer, (*past, *new)).merged().blocks
        written = tuple(block for block in (*merged, *ahead) if block not in unchanged)
        return Blocks(old.layer, (*merged, *ahead)), Blocks(old.layer, written)

    def content(self, first: int, end: int) -> Float32[np.ndarray, "U n"]:
        """The values of steps from now on."""
        values = self._read(first, end)
        self.incoming.put(values, first)
        return values

    def _read(self, first: int, end: int) -> Float32[np.ndarray, "U n"]:
        """Return stored values, missing where there are none yet, after verifying their blocks."""
        stop, columns = min(end, self.matrix.steps), self.matrix.shape[1]
        values = np.full((self.columns, max(end - first, 0)), np.nan, dtype=np.float32).T
        if first < stop and columns:
            blocks = self.matrix.blocks
            names = [blocks.file(b) for b in blocks.blocks if b.first < stop and b.end > first]
            files = [self.manifest.files[name] for name in names]
            verify_stored(self.folder, self.manifest.kind, files)
            values[: stop - first, :columns] = self.matrix.read(first, stop)
        return values


def differs(
    before: Float32[np.ndarray, "U n"], after: Float32[np.ndarray, "U n"]
) -> Bool[np.ndarray, "U n"]:
    """Which values are others; a missing one is like a missing one."""
    return np.asarray((before != after) & ~(np.isnan(before) & np.isnan(after)))


def _touches(block: Block, changed: Int64[np.ndarray, " C"]) -> bool:
    return bool(((changed >= block.first) & (changed < block.end)).any())
