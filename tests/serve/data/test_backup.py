"""Backups hold what was acknowledged before them, and a service goes on from them."""

import itertools
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import ArtifactError
from forecaster.serve.data import backup as backup_module
from forecaster.serve.data import store as store_module
from forecaster.serve.data.backup import BackupContent, back_up, restore
from forecaster.serve.data.database import Entry
from forecaster.serve.data.store import Store

Values = dict[tuple[str, int], float | None]


def contents(path: Path) -> Values:
    store = Store(path, "panel")
    values = {(name, time): value for (name, time, value), _ in store.read("observations")}
    store.close()
    return values


def batch(n: int) -> list[Entry]:
    return [(f"place {n % 7}", 3600 * (n + k), float(n)) for k in range(11)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store is."""
    return tmp_path / "store" / "live.sqlite"


@pytest.fixture
def store(path: Path) -> Store:
    """Return a store in use."""
    path.parent.mkdir()
    return Store(path, "panel")


def test_a_store_in_use_is_copied_into_one_file(store: Store, path: Path, tmp_path: Path) -> None:
    store.write("observations", batch(0), 1)
    file = tmp_path / "backups" / "daily"
    assert back_up(path, file) == BackupContent(rows=11, version=1)
    store.write("observations", batch(13), 2)
    store.close()
    assert sorted(one.name for one in file.parent.iterdir()) == ["daily"]
    assert file.stat().st_mode & 0o777 == 0o600
    restored = tmp_path / "other" / "live.sqlite"
    assert restore(file, restored).rows == 11
    assert contents(restored) == {entry[:2]: entry[2] for entry in batch(0)}


def test_backups_during_writes_have_all_that_was_acknowledged_before(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_LOG_BYTES", 20_000)  # completed every few writes
    monkeypatch.setattr(backup_module, "PAUSE_SECONDS", 0.01)
    acknowledged: Values = {}
    lock, done = threading.Lock(), threading.Event()

    def write() -> None:
        n = 0
        while not done.is_set():
            entries = batch(n := n + 1)
            with lock:
                store.write("observations", entries, n)
                acknowledged.update({entry[:2]: entry[2] for entry in entries})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(3):
            with lock:
                before = dict(acknowledged)
            back_up(path, tmp_path / f"backup-{n}")
            restore(tmp_path / f"backup-{n}", tmp_path / f"restored-{n}")
            restored = contents(tmp_path / f"restored-{n}")
            assert restored.keys() >= before.keys()
            assert all((restored[key] or 0) >= (before[key] or 0) for key in before)  # they grow
    finally:
        done.set()
        writer.join()
        store.close()


def test_a_backup_that_is_killed_leaves_the_earlier_one(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("observations", batch(0), 1)
    back_up(path, tmp_path / "backup")
    before = (tmp_path / "backup").read_bytes()
    store.write("observations", batch(13), 2)
    for step in ("shutil.copyfile", "forecaster.serve.data.backup.replace_file"):
        with monkeypatch.context() as patch:
            patch.setattr(step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                back_up(path, tmp_path / "backup")
        assert (tmp_path / "backup").read_bytes() == before
    store.close()


ENDLESS = """
import sys, itertools
from pathlib import Path
from forecaster.serve.data.backup import back_up, restore
way, source, target = sys.argv[1], *map(Path, sys.argv[2:])
print(flush=True)
for n in itertools.count():
    if way == "back_up":
        back_up(source, target)
    else:
        restore(source, target / str(n))
"""


def kill_in_between(seconds: float, *words: str | Path) -> None:
    """Run backups or restores in a process of their own, and kill it."""
    command = [sys.executable, "-c", ENDLESS, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.kill()


@pytest.mark.slow
def test_kills_in_between_leave_whole_backups_and_whole_stores(
    store: Store, path: Path, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    generator, target = np.random.default_rng(3), tmp_path / "backups" / "newest"
    acknowledged: Values = {}
    done, wrote = threading.Event(), threading.Lock()

    def write() -> None:
        for n in itertools.count():
            with wrote:
                if done.wait(0.001):
                    return
                store.write("observations", batch(n), n)
                acknowledged.update({entry[:2]: entry[2] for entry in batch(n)})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(rounds(5, 100)):
            seconds = float(generator.uniform(0, 0.2))
            with wrote:
                before = dict(acknowledged)
            back_up(path, target)
            kill_in_between(seconds, "back_up", path, target)
            kill_in_between(seconds, "restore", target, tmp_path / f"restored-{n}")
            restore(target, tmp_path / f"again-{n}")
            kept = contents(tmp_path / f"again-{n}")
            assert kept.keys() >= before.keys()
            for restored in (tmp_path / f"restored-{n}").glob("[0-9]*"):
                assert restored.suffix or contents(restored) == kept
    finally:
        done.set()
        writer.join()
        store.close()


def test_a_store_is_not_replaced_by_a_backup(store: Store, path: Path, tmp_path: Path) -> None:
    back_up(path, tmp_path / "backup")
    with pytest.raises(ArtifactError, match="there is a store already"):
        restore(tmp_path / "backup", path)
    store.close()
    path.unlink()
    with pytest.raises(ArtifactError, match=r"live\.sqlite-redo"):
        restore(tmp_path / "backup", path)


def test_damaged_files_are_neither_backed_up_nor_restored(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_module, "PAUSE_SECONDS", 0.0)
    for n in range(20):
        store.write("observations", batch(n), n)
    back_up(path, tmp_path / "backup")
    store.close()
    content = (tmp_path / "backup").read_bytes()
    (tmp_path / "backup").write_bytes(content.replace(b"place 3", b"place 4", 1))
    with pytest.raises(ArtifactError, match="damaged"):
        restore(tmp_path / "backup", tmp_path / "restored")
    shutil.copyfile(tmp_path / "backup", path)
    with pytest.raises(ArtifactError, match="damaged"):
        back_up(path, tmp_path / "second")
    with pytest.raises(ArtifactError, match="no such file"):
        back_up(tmp_path / "none", tmp_path / "second")
    (tmp_path / "text").write_text("a text")
    with pytest.raises(ArtifactError, match="damaged"):
        restore(tmp_path / "text", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    assert not (tmp_path / "second").exists()
