import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.errors import ArtifactError, RunError
from forecaster.publish import writing
from forecaster.publish.manifest import MANIFEST, read_manifest
from forecaster.publish.writing import Draft, publish
from forecaster.training.checkpoint import FORMAT, SLOTS, Checkpoint, CheckpointStore
from forecaster.training.progress import Progress

FAULTS = (signal.SIGKILL, errno.ENOSPC, errno.EIO, errno.EACCES)
GOLDEN = Path(__file__).parent / "golden" / "format_1"


def checkpoint(step: int) -> Checkpoint:
    """Return a checkpoint whose every number is its step."""
    progress = Progress(step=step, sums=[float(step), 0.1, float(step), 3.0, 2.0])
    progress.close([1 / step, 0.1, 1 / step, 7.0, 5.0], 1e-3, 8e-3)
    arrays = {name: np.full(11, step, dtype=np.float32) for name in ("weights", "best")}
    return Checkpoint(progress, arrays, {"panel": "a" * 64}, {"processes": "1"})


def open_store(folder: Path) -> CheckpointStore:
    return CheckpointStore(folder, lambda _: None)


def newest(folder: Path) -> int:
    """Return the step of the newest checkpoint, all of whose numbers must agree."""
    loaded = open_store(folder).newest()
    assert loaded is not None
    step = loaded.progress.step
    assert loaded.progress == checkpoint(step).progress
    assert all((array == step).all() for array in loaded.arrays.values())
    return step


def test_a_checkpoint_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    open_store(tmp_path).save(checkpoint(7))
    loaded, expected = open_store(tmp_path).newest(), checkpoint(7)
    assert loaded is not None
    assert loaded.progress == expected.progress
    assert (loaded.identity, loaded.machine) == (expected.identity, expected.machine)
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(loaded.arrays[name], array)


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert open_store(tmp_path).newest() is None
    assert open_store(tmp_path / "absent").newest() is None


def test_T17_the_newest_has_the_highest_step_whatever_its_time_or_name(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for step in (7, 14, 21):
        store.save(checkpoint(step))
    os.utime(tmp_path / SLOTS[0] / MANIFEST, (0, 0))
    assert newest(tmp_path) == 21


def test_C6_only_the_two_newest_remain(tmp_path: Path) -> None:
    for step in range(1, 8):
        again = open_store(tmp_path)  # as after a kill
        again.newest()
        again.save(checkpoint(step))
        steps = {read_manifest(f).about["progress"]["step"] for f in tmp_path.iterdir()}
        assert steps == {step, max(step - 1, 1)}
    assert all(len(list((tmp_path / slot).iterdir())) == 2 for slot in SLOTS)


@settings(max_examples=15)
@given(st.lists(st.sampled_from(["save", "NaN", "damage"]), min_size=3, max_size=9))
def test_C6_saves_and_failures_in_any_order_leave_the_last_success(
    tmp_path_factory: pytest.TempPathFactory, events: list[str]
) -> None:
    folder, saved = tmp_path_factory.mktemp("run"), list[int]()
    for step, event in enumerate(["save", "save", *events], start=1):
        store = open_store(folder)
        store.newest()
        if event == "save":
            store.save(checkpoint(step))
            saved.append(step)
        elif event == "NaN":
            wrong = replace(checkpoint(step), arrays={"weights": np.full(3, np.nan)})
            with pytest.raises(RunError, match=r"'weights'\] hold NaN or infinity"):
                store.save(wrong)
        elif len(saved) > 1:
            flip(holder(folder, saved.pop()), step)
        saved = saved[-2:]
        assert newest(folder) == saved[-1]


@pytest.mark.parametrize("fault", FAULTS, ids=["KILL", "ENOSPC", "EIO", "EACCES"])
def test_C1_a_fault_at_any_operation_leaves_an_intact_checkpoint(
    tmp_path: Path, failing: Any, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    store = open_store(tmp_path / "both")
    for step in (7, 14):
        store.save(checkpoint(step))
    shutil.copytree(tmp_path / "both", tmp_path / "count")
    operations = attempt(tmp_path / "count", 21, failing(10**9, errno.EIO))
    old = 0
    for at in range(operations):
        folder = tmp_path / f"{at}"
        shutil.copytree(tmp_path / "both", folder)
        claimed = attempt(folder, 21, failing(at, fault))
        monkeypatch.setattr(writing, "os", os)
        loaded = newest(folder)
        assert loaded in ({21} if claimed else {14, 21})
        old += loaded == 14
        attempt(folder, 28, failing(10**9, errno.EIO))  # the same command again goes on
        assert newest(folder) == 28
    assert 10 < old < operations - 5  # faults on both sides of the commit


def attempt(folder: Path, step: int, disk: Any) -> int:
    """Save on a disk that may fail; return how many operations it took, 0 if it says it failed."""
    store = open_store(folder)
    store.newest()
    if disk.fault is not signal.SIGKILL:
        try:
            store.save(checkpoint(step))
        except RunError:
            return 0
        return int(disk.done)
    pid = os.fork()
    if pid == 0:
        try:
            store.save(checkpoint(step))
        finally:
            os._exit(0)
    return int(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0)


def holder(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step lies."""
    slots = [folder / slot for slot in SLOTS if (folder / slot).exists()]
    return next(s for s in slots if read_manifest(s).about["progress"]["step"] == step)


def flip(slot: Path, seed: int) -> str:
    """Flip one bit of one file of a checkpoint, and return its name."""
    generator = np.random.default_rng(seed)
    path = generator.choice(np.array(sorted(slot.iterdir()), dtype=object))
    content = bytearray(path.read_bytes())
    content[generator.integers(len(content))] ^= 1 << int(generator.integers(8))
    path.write_bytes(content)
    return str(path.name)


def test_C2_a_damaged_newest_is_named_and_kept_and_the_one_before_is_used(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    for seed in range(rounds(40, 200)):
        folder, messages = tmp_path / f"{seed}", list[str]()
        store = open_store(folder)
        for step in (1_100, 1_200):
            store.save(checkpoint(step))
        damaged = flip(holder(folder, 1_200), seed)
        loaded = CheckpointStore(folder, messages.append).newest()
        assert loaded is not None
        assert loaded.progress.step == 1_100
        assert len(messages) == 1
        label = "step 1,200" if damaged != MANIFEST else SLOTS[1]
        assert messages[0].startswith(f"{label} damaged (")
        assert messages[0].endswith("), kept as damaged-1, using step 1,100")
        assert (folder / "damaged-1" / damaged).exists()


def test_C2_the_damaged_slot_is_free_for_the_next_checkpoint(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for step in (7, 14):
        store.save(checkpoint(step))
    for step, damaged in ((21, 14), (28, 21)):
        flip(holder(tmp_path, damaged), damaged)
        again = open_store(tmp_path)
        again.newest()
        again.save(checkpoint(step))
        assert newest(tmp_path) == step
    assert {path.name for path in tmp_path.iterdir()} == {*SLOTS, "damaged-1", "damaged-2"}


def test_A9_damaged_checkpoints_are_refused_when_asked_again_too(tmp_path: Path) -> None:
    open_store(tmp_path).save(checkpoint(7))
    flip(tmp_path / SLOTS[0], 3)
    for _ in range(3):
        with pytest.raises(ArtifactError, match=r"or remove damaged-… to begin anew"):
            open_store(tmp_path).newest()
    (tmp_path / "damaged-1").rename(tmp_path / "elsewhere")
    assert open_store(tmp_path).newest() is None


def test_C2_without_an_intact_one_training_does_not_silently_start_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for step in (7, 14):
        store.save(checkpoint(step))
    for slot in SLOTS:
        flip(tmp_path / slot, 3)
    with pytest.raises(ArtifactError, match=r"no checkpoint is intact; use another folder.*: 2"):
        newest(tmp_path)


def test_C1_a_first_save_that_was_interrupted_is_ignored_and_named(tmp_path: Path) -> None:
    messages: list[str] = []
    (tmp_path / SLOTS[0]).mkdir()
    (tmp_path / SLOTS[0] / ".arrays.partial-0a0b0c0d").write_bytes(b"half")
    store = CheckpointStore(tmp_path, messages.append)
    assert store.newest() is None
    assert messages[0].endswith("ignored, since its first save was interrupted (no manifest.json)")
    assert (tmp_path / SLOTS[0] / ".arrays.partial-0a0b0c0d").exists()
    store.save(checkpoint(7))
    assert newest(tmp_path) == 7


def test_T4_nan_is_never_written(tmp_path: Path) -> None:
    wrong = {"weights": np.zeros(3, np.float32), "best": np.array([0, np.inf], np.float32)}
    with pytest.raises(RunError, match=r"'best'\] hold NaN or infinity"):
        open_store(tmp_path).save(replace(checkpoint(7), arrays=wrong))
    assert not list(tmp_path.iterdir())


def test_C4_another_artifact_in_its_place_is_refused_untouched(tmp_path: Path) -> None:
    publish(tmp_path / SLOTS[0], Draft("panel", 1, {}))
    with pytest.raises(ArtifactError, match="a panel, not a checkpoint"):
        newest(tmp_path)
    assert (tmp_path / SLOTS[0]).exists()


def test_C5_a_newer_format_asks_for_an_upgrade_and_is_not_taken_for_damage(tmp_path: Path) -> None:
    publish(tmp_path / SLOTS[0], Draft("checkpoint", FORMAT + 1, {}))
    with pytest.raises(ArtifactError, match="written by format 2; this program reads ≤ 1"):
        newest(tmp_path)
    assert (tmp_path / SLOTS[0]).exists()


def test_C5_a_checkpoint_of_format_1_is_read(tmp_path: Path) -> None:
    for path in GOLDEN.rglob("*"):  # golden/make_format_1.py wrote it
        if path.is_file():
            target = tmp_path / path.relative_to(GOLDEN)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    assert newest(tmp_path) == 14


def test_C9_nothing_of_the_machine_is_in_a_checkpoint(tmp_path: Path) -> None:
    open_store(tmp_path / "run").save(checkpoint(7))
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    values = {os.environ.get(name) for name in ("HOME", "USER", "PWD", "PATH", "VIRTUAL_ENV")}
    for secret in (str(tmp_path), os.uname().nodename, *filter(None, values)):
        assert secret.encode() not in written
    assert json.loads((tmp_path / "run" / SLOTS[0] / MANIFEST).read_bytes())["recipe"] is None
