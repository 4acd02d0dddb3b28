import errno
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from forecaster.artifact import Run, begin_run, save_run
from forecaster.errors import ArtifactError, RunError
from forecaster.publish import writing
from forecaster.publish.manifest import LOCK, PARTIAL, read_manifest
from forecaster.recipe import Recipe
from forecaster.versions import Versions, is_versioned, run_folder, save_verdict


def make_run(folder: Path, number: int) -> Path:
    """Return the folder of a run that differs from others by a number."""
    splits = {"train": [["2020-01-01", f"2020-02-{number:02d}"]]}
    about = {"ids": ["a"], "splits": splits}
    arrays = {"weights": np.full(3, number, dtype=np.float32)}
    save_run(folder, Run("Ridge", Recipe(), about, arrays, {"panel": "0" * 64}))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Versions:
    """Return three versions, of which the third is current."""
    versions = Versions.begin(tmp_path / "runs")
    for number in (1, 2, 3):
        versions.add(make_run(tmp_path / f"run{number}", number))
    return versions


def content(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_run_becomes_the_first_version_as_it_is(tmp_path: Path):
    run = make_run(tmp_path / "run", 7)
    versions = Versions.begin(tmp_path / "runs")
    version = versions.add(run)
    assert (version.name, versions.current) == ("v0001", "v0001")
    assert content(version.folder) == content(run)
    assert version.learned_until == "2020-02-07"


def test_the_same_run_is_not_added_twice(runs: Versions, tmp_path: Path):
    before = content(runs.folder)
    runs.add(tmp_path / "run3")
    assert content(runs.folder) == before


def test_the_folder_of_a_run_is_that_of_the_current_version(runs: Versions, tmp_path: Path):
    assert run_folder(runs.folder) == runs.folder / "v0003"
    assert run_folder(tmp_path / "run1") == tmp_path / "run1"
    assert is_versioned(runs.folder)
    assert not is_versioned(tmp_path / "run1")


def test_promoting_the_current_version_changes_nothing(runs: Versions):
    before = content(runs.folder)
    assert runs.promote("v0003") is None
    assert content(runs.folder) == before


def test_each_rollback_goes_one_version_further_back(runs: Versions):
    assert [runs.rollback().version, runs.rollback().version] == ["v0002", "v0001"]
    with pytest.raises(ArtifactError, match="no version was current before v0001"):
        runs.rollback()


def test_a_rollback_after_a_promotion_goes_to_what_was_current_then(runs: Versions):
    runs.promote("v0001")
    assert runs.rollback().version == "v0003"


def test_a_version_is_taken_back_by_a_move_to_an_older_one(runs: Versions):
    assert not runs.taken_back
    runs.rollback()
    assert runs.taken_back == {"v0003"}
    runs.promote("v0001")
    assert runs.taken_back == {"v0002", "v0003"}
    runs.promote("v0003")
    assert runs.taken_back == {"v0002"}


def test_an_unfinished_version_is_listed_and_cannot_be_promoted(runs: Versions):
    begin_run(runs.next_folder(), "Ridge", Recipe())
    assert [version.is_finished for version in runs.entries()] == [True, True, True, False]
    with pytest.raises(ArtifactError, match="not finished"):
        runs.promote("v0004")


def test_a_damaged_version_is_not_promoted(runs: Versions):
    stored = read_manifest(runs.folder / "v0001").files["arrays.safetensors"]
    path = runs.folder / "v0001" / stored.name
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ArtifactError, match="damaged"):
        runs.promote("v0001")
    assert runs.current == "v0003"


def test_old_versions_go_only_when_asked(runs: Versions):
    runs.remove("v0001")
    assert [version.name for version in runs.entries()] == ["v0002", "v0003"]
    with pytest.raises(ArtifactError, match="v0003 is current"):
        runs.remove("v0003")
    with pytest.raises(ArtifactError, match=r"no version '\.\./run1'"):
        runs.remove("../run1")


def test_a_number_is_not_used_twice(runs: Versions):
    runs.rollback()
    runs.remove("v0003")
    assert runs.next_folder().name == "v0004"


def test_an_unknown_version_is_refused_with_the_names_of_all(runs: Versions):
    with pytest.raises(ArtifactError, match="no version 'v9'; there are v0001, v0002, v0003"):
        runs.promote("v9")


def test_a_plain_run_and_a_plain_folder_are_refused_with_the_way_to_go(tmp_path: Path):
    with pytest.raises(ArtifactError, match=r"a run, not a folder of versions; .*--add"):
        Versions(make_run(tmp_path / "run", 1))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtifactError, match=r"not a folder of versions; .*--add"):
        Versions(tmp_path / "empty")


def test_a_verdict_belongs_to_its_version(runs: Versions):
    save_verdict(runs.folder / "v0002", {"verdict": "kept", "reason": "worse"})
    assert [v.verdict and v.verdict["verdict"] for v in runs.entries()] == [None, "kept", None]


@pytest.mark.parametrize("action", ["promote", "rollback", "add"])
def test_current_moves_as_a_whole_whatever_fails(
    runs: Versions,
    tmp_path: Path,
    failing: Callable[[int, int], Any],
    action: str,
):
    actions: dict[str, Callable[[], object]] = {
        "promote": lambda: runs.promote("v0001"),
        "rollback": runs.rollback,
        "add": lambda: runs.add(tmp_path / "run4"),
    }
    make_run(tmp_path / "run4", 4)
    undisturbed = {"promote": "v0001", "rollback": "v0002", "add": "v0004"}[action]
    for number in range(200):
        disk = failing(number, errno.EIO)
        try:
            actions[action]()
        except RunError:
            assert Versions(runs.folder).current in ("v0003", undisturbed)
        if disk.done <= number:
            break
        if runs.current == undisturbed:  # committed, though an error came after it
            failing(10**9, errno.EIO)
            runs._move("v0003", "promoted")
    assert runs.current == undisturbed


def test_C1_a_promotion_or_rollback_killed_anywhere_ends_with_the_same_bytes(
    runs: Versions,
    tmp_path: Path,
    failing: Callable[[int, int | signal.Signals], Any],
    monkeypatch: pytest.MonkeyPatch,
    rounds: Callable[[int, int], int],
):
    def move(folder: Path) -> None:
        versions = Versions(folder)
        if versions.current == "v0003" and len(versions.moves) == 3:
            versions.promote("v0001")
        if versions.current == "v0001":
            versions.rollback()

    def whole(folder: Path) -> dict[str, bytes]:
        return {
            name: data
            for name, data in content(folder).items()
            if PARTIAL not in name and LOCK not in name
        }

    undisturbed = Path(copytree(runs.folder, tmp_path / "undisturbed"))
    disk = failing(10**9, errno.EIO)
    move(undisturbed)
    operations, generator = disk.done, random.Random(3)  # noqa: S311 (which operation)
    for number in range(rounds(5, 100)):
        monkeypatch.setattr(writing, "os", os)
        folder = Path(copytree(runs.folder, tmp_path / f"{number}"))
        failing(generator.randrange(operations), signal.SIGKILL)
        pid = os.fork()
        if pid == 0:
            move(folder)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        monkeypatch.setattr(writing, "os", os)
        assert Versions(folder).current in ("v0001", "v0003")
        move(folder)
        assert whole(folder) == whole(undisturbed)
