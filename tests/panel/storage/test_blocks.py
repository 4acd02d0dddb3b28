import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError
from forecaster.panel.storage import blocks
from forecaster.panel.storage.blocks import Block, Blocks, StoredMatrix, block_writer, read_block

START, IDS = np.datetime64("2014-07-03T22:00:00", "s"), ("7", "007", "z")
STEPS = 29


def matrix(steps: int = STEPS, locations: int = len(IDS)) -> np.ndarray:
    values = np.arange(steps * locations, dtype=np.float32).reshape(steps, locations)
    values[5 % steps, 1 % locations], values[7 % steps, 2 % locations] = np.nan, -0.0
    return values


def write(folder: Path, cut: Blocks, values: np.ndarray) -> StoredMatrix:
    """Write the blocks of a matrix."""
    ids = tuple(f"p{n}" for n in range(values.shape[1]))
    for block in cut.blocks:
        times = Clock("UTC").instants(START, np.arange(block.first, block.end))
        part = values[block.first : block.end, : block.locations]
        with (folder / cut.file(block)).open("wb") as sink:
            block_writer(ids[: block.locations], times, lambda part=part: part)(sink)
    paths = tuple(folder / cut.file(block) for block in cut.blocks)
    return StoredMatrix(cut, paths, values.shape)


def test_a_block_is_a_long_table_that_any_tool_reads() -> None:
    sink = io.BytesIO()
    values = matrix()
    block_writer(IDS, Clock("UTC").axis(START, STEPS), lambda: values)(sink)
    table = pq.read_table(sink)
    assert table.schema.types == [pa.string(), pa.timestamp("ms", tz="UTC"), pa.float32()]
    frame = table.to_pandas()
    wide = frame.pivot(index="ds", columns="unique_id", values="y")[list(IDS)]
    np.testing.assert_array_equal(wide.to_numpy(), values)
    assert table["y"].null_count == 1
    assert frame["ds"].iloc[0].isoformat() == "2014-07-03T22:00:00+00:00"


@settings(max_examples=25, deadline=None)
@given(
    steps=st.integers(1, 40),
    locations=st.integers(1, 7),
    rows=st.integers(1, 64),
    span=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_any_part_is_read_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory,
    steps: int,
    locations: int,
    rows: int,
    span: tuple[int, int],
) -> None:
    folder, values = tmp_path_factory.mktemp("blocks"), matrix(steps, locations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MAX_ROWS", rows)
        cut = Blocks.cut("values", 0, steps, locations)
    assert all(len(b) * locations <= max(rows, locations) for b in cut.blocks)
    stored = write(folder, cut, values)
    first, end = sorted(min(n, steps) for n in span)
    assert stored.read(first, end).tobytes() == values[first:end].tobytes()
    assert Blocks.from_json("values", cut.to_json(), steps, locations) == cut


def test_locations_that_joined_later_are_missing_before(tmp_path: Path) -> None:
    values = matrix(11, 3)
    values[:5, 2] = np.nan
    cut = Blocks("values", (Block(0, 5, 2), Block(5, 11, 3)))
    np.testing.assert_array_equal(write(tmp_path, cut, values).read(0, 11), values)


def test_a_week_reads_its_blocks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MAX_ROWS", 12)
    cut = Blocks.cut("values", 0, STEPS, 3)
    stored = write(tmp_path, cut, matrix())
    for block in cut.blocks[3:]:
        (tmp_path / cut.file(block)).unlink()
    np.testing.assert_array_equal(stored.read(5, 12), matrix()[5:12])


def test_a_nan_on_disk_and_a_file_of_another_block_are_refused(tmp_path: Path) -> None:
    block = Block(0, 2, 1)
    times = pa.array([0, 3_600_000], pa.timestamp("ms", tz="UTC"))
    content = {"unique_id": ["a", "a"], "ds": times, "y": pa.array([1.0, np.nan], pa.float32())}
    pq.write_table(pa.table(content), tmp_path / "nan")
    with pytest.raises(ArtifactError, match="contains NaN or infinite values"):
        read_block(tmp_path / "nan", block)
    with pytest.raises(ArtifactError, match="has 2 rows, its manifest says 3"):
        read_block(tmp_path / "nan", Block(0, 3, 1))
    pq.write_table(pa.table({**content, "y": [1, 2]}), tmp_path / "whole")
    with pytest.raises(ArtifactError, match="unexpected columns"):
        read_block(tmp_path / "whole", block)


@pytest.mark.parametrize(
    "content",
    [
        None,
        [[0, 29]],
        [[0, 29, 3.0]],
        [[0, 29, True]],
        [[0, 29, 0]],
        [[0, 29, 4]],
        [[1, 29, 3]],
        [[0, 28, 3]],
        [[0, 5, 3], [6, 29, 3]],
        [[0, 0, 3], [0, 29, 3]],
        [[0, 31, 3], [31, 29, 3]],
        [],
    ],
)
def test_S9_blocks_that_do_not_cover_the_steps_are_refused(content: object) -> None:
    with pytest.raises(ValueError, match="blocks of values"):
        Blocks.from_json("values", content, 29, 3)


def appended(steps: int, each: int) -> tuple[Blocks, int]:
    """The blocks after so many appended steps, and how many steps were written for them."""
    grown, written = Blocks("values", ()), 0
    for first in range(0, steps, each):
        before = {*grown.blocks}
        added = Blocks.cut("values", first, min(first + each, steps), 996).blocks
        grown = replace(grown, blocks=(*grown.blocks, *added)).merged()
        written += sum(len(block) for block in grown.blocks if block not in before)
    return grown, written


@pytest.mark.parametrize("each", [1, 24])
def test_a_panel_grown_by_days_or_hours_has_few_blocks_and_writes_each_step_few_times(
    each: int,
) -> None:
    steps = 5 * 8_760
    grown, written = appended(steps, each)
    assert Blocks.from_json("values", grown.to_json(), steps, 996) == grown
    assert len(grown.blocks) < 3 * blocks.MERGED + steps // 4_096
    assert written <= 4 * steps
