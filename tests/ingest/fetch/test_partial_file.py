import contextlib
from pathlib import Path

import pytest

from forecaster.errors import RunError
from forecaster.ingest.fetch.partial_file import open_partial


def test_bytes_and_their_version_are_kept_until_next_time(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.parquet"
    with contextlib.suppress(KeyError), open_partial(target) as partial:
        partial.begin('"one"')
        partial.append(b"abc")
        raise KeyError
    with open_partial(target) as partial:
        assert (partial.size, partial.etag) == (3, '"one"')
        partial.append(b"de")
        partial.adopt()
    assert target.read_bytes() == b"abcde"
    assert list(target.parent.iterdir()) == [target]


def test_a_new_version_drops_the_old_bytes(tmp_path: Path) -> None:
    with open_partial(tmp_path / "a.parquet") as partial:
        partial.begin('"one"')
        partial.append(b"abc")
        partial.begin(None)
        assert (partial.size, partial.etag) == (0, None)
        partial.append(b"xy")
    assert (tmp_path / "a.parquet.partial").read_bytes() == b"xy"


def test_nothing_is_left_of_what_is_discarded_or_was_never_begun(tmp_path: Path) -> None:
    with open_partial(tmp_path / "a.parquet") as partial:
        partial.begin('"one"')
        partial.append(b"abc")
        partial.discard()
    with open_partial(tmp_path / "b.parquet"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with (
        open_partial(tmp_path / "a.parquet"),
        pytest.raises(RunError, match="another download is writing to it; wait"),
        open_partial(tmp_path / "a.parquet"),
    ):
        pass


def test_a_writer_that_came_as_the_first_finished_leaves_its_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.parquet"

    def finish(*_: object) -> None:
        (tmp_path / "a.parquet.partial").rename(target)

    monkeypatch.setattr("fcntl.flock", finish)
    with pytest.raises(RunError, match="another download"), open_partial(target):
        pass
    assert list(tmp_path.iterdir()) == [target]
