import errno
import json
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecaster.errors import ArtifactError, RunError
from forecaster.publish import writing
from forecaster.publish.manifest import (
    MANIFEST,
    leftovers,
    read_manifest,
    read_versions,
    verify_files,
    version_name,
)
from forecaster.publish.writing import (
    Draft,
    bytes_writer,
    prune,
    publish,
    replace_file,
    revise,
)

MakeDraft = Callable[[str], Draft]
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
FAULTS = (signal.SIGKILL, *ERRORS)


def word_in(folder: Path) -> str:
    """Return the word of the whole, verified version that a reader finds."""
    manifest = read_manifest(folder)
    verify_files(folder, manifest)
    word: str = manifest.about["word"]
    assert (folder / manifest.files["values.parquet"].name).read_bytes() == word.encode() * 7
    return word


def count_operations(folder: Path, draft: Draft, failing: Any, monkeypatch: Any) -> int:
    disk = failing(10**9, errno.EIO)
    publish(folder, draft)
    monkeypatch.setattr(writing, "os", os)
    count: int = disk.done
    return count


def in_child(action: Callable[[], object]) -> int:
    """Run an action in a forked child and return the signal that ended it, or 0."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_was_published_is_read_back(tmp_path: Path, draft: MakeDraft) -> None:
    manifest = publish(tmp_path / "a" / "b", draft("one"))
    assert read_manifest(tmp_path / "a" / "b") == manifest
    assert word_in(tmp_path / "a" / "b") == "one"


def test_the_folder_holds_its_files_and_the_manifest_alone(
    tmp_path: Path, draft: MakeDraft
) -> None:
    manifest = publish(tmp_path, draft("one"))
    names = {stored.name for stored in manifest.files.values()}
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, *names}


def test_the_same_content_gives_the_same_bytes(tmp_path: Path, draft: MakeDraft) -> None:
    publish(tmp_path / "a", draft("one"))
    publish(tmp_path / "b", draft("one"))
    left, right = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab"
    )
    assert left == right


def test_old_files_stay_until_they_are_pruned(tmp_path: Path, draft: MakeDraft) -> None:
    old = publish(tmp_path, draft("one"))
    new = publish(tmp_path, draft("two"))
    verify_files(tmp_path, old)  # whoever opened the old version can still read it
    removed = prune(tmp_path)
    assert {path.name for path in removed} == {stored.name for stored in old.files.values()}
    verify_files(tmp_path, new)
    assert leftovers(tmp_path, new) == []


def test_a_damaged_file_of_the_same_name_is_replaced(tmp_path: Path, draft: MakeDraft) -> None:
    manifest = publish(tmp_path, draft("one"))
    (tmp_path / manifest.files["values.parquet"].name).write_bytes(b"rot")
    publish(tmp_path, draft("one"))
    assert word_in(tmp_path) == "one"


def test_a_folder_of_something_else_is_refused_untouched(tmp_path: Path, draft: MakeDraft) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ArtifactError, match=r"thesis\.tex"):
        publish(tmp_path, draft("one"))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_another_kind_is_not_overwritten(tmp_path: Path, draft: MakeDraft) -> None:
    publish(tmp_path, Draft(kind="graph", version=1, files={}))
    with pytest.raises(ArtifactError, match="contains a graph, not a panel"):
        publish(tmp_path, draft("one"))


def test_a_name_that_is_no_file_of_an_artifact_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a file name"):
        publish(tmp_path, Draft("panel", 1, {"../x.json": bytes_writer(b"")}))


@pytest.mark.parametrize("fault", FAULTS, ids=["KILL", "ENOSPC", "EIO", "EACCES"])
def test_C1_a_fault_at_any_operation_leaves_the_old_or_the_new(
    tmp_path: Path, draft: MakeDraft, failing: Any, monkeypatch: Any, fault: int
) -> None:
    operations = count_operations(tmp_path / "count", draft("two"), failing, monkeypatch)
    assert operations > 20
    for at in range(operations):
        folder = tmp_path / f"{at}"
        publish(folder, draft("one"))
        done = _publish_with_fault(folder, draft("two"), failing, at, fault)
        monkeypatch.setattr(writing, "os", os)
        assert word_in(folder) in ({"two"} if done else {"one", "two"})
        publish(folder, draft("two"))  # the same command again finishes
        assert word_in(folder) == "two"


@pytest.mark.parametrize("fault", FAULTS, ids=["KILL", "ENOSPC", "EIO", "EACCES"])
def test_S2_a_fault_in_the_first_write_leaves_nothing_or_the_whole(
    tmp_path: Path, draft: MakeDraft, failing: Any, monkeypatch: Any, fault: int
) -> None:
    operations = count_operations(tmp_path / "count", draft("two"), failing, monkeypatch)
    for at in range(operations):
        folder = tmp_path / f"{at}"
        done = _publish_with_fault(folder, draft("two"), failing, at, fault)
        monkeypatch.setattr(writing, "os", os)
        if done or (folder / MANIFEST).exists():
            assert word_in(folder) == "two"
        else:
            with pytest.raises(ArtifactError):
                read_manifest(folder)
        publish(folder, draft("two"))
        assert word_in(folder) == "two"


def _publish_with_fault(
    folder: Path, draft: Draft, failing: Any, at: int, fault: int | signal.Signals
) -> bool:
    """Return whether publishing reported success."""
    failing(at, fault)
    if fault is signal.SIGKILL:
        return in_child(lambda: publish(folder, draft)) == 0
    try:
        publish(folder, draft)
    except RunError:
        return False
    return True


def test_S4_a_full_disk_says_what_is_needed_and_leaves_no_partial_file(
    tmp_path: Path, failing: Any, monkeypatch: Any, draft: MakeDraft
) -> None:
    publish(tmp_path, draft("one"))
    large = Draft("panel", 1, {"values.parquet": bytes_writer(b"x")}, about_bytes=5_000_000)
    failing(5, errno.ENOSPC)  # the first write of the file itself
    with pytest.raises(
        RunError, match=r"no space: need about 5\.0 MB, have [\d,.]+ MB; nothing was"
    ):
        publish(tmp_path, large)
    monkeypatch.setattr(writing, "os", os)
    assert not [path for path in tmp_path.iterdir() if ".partial-" in path.name]
    assert word_in(tmp_path) == "one"


@pytest.mark.parametrize(
    ("free", "need", "told"),
    [(0, 60_000, "need about 60.0 kB, have 0 bytes"), (1, 7, "need about 7 bytes, have 1 byte")],
)
def test_A9_a_full_disk_is_told_in_a_fitting_unit(
    tmp_path: Path, failing: Any, monkeypatch: Any, free: int, need: int, told: str
) -> None:
    monkeypatch.setattr(writing.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    failing(5, errno.ENOSPC)
    small = Draft("panel", 1, {"values.parquet": bytes_writer(b"x")}, about_bytes=need)
    with pytest.raises(RunError, match=f"no space: {told}; nothing"):
        publish(tmp_path, small)


def test_S4_what_a_killed_write_left_is_named_at_the_next_start(
    tmp_path: Path, draft: MakeDraft, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".values.partial-0a0b0c0d").write_bytes(b"half")
    with caplog.at_level(logging.WARNING):
        manifest = publish(tmp_path, draft("one"))
    assert "1 unfinished file of an interrupted write (.values.partial-0a0b0c0d)" in caplog.text
    assert [path.name for path in leftovers(tmp_path, manifest)] == [".values.partial-0a0b0c0d"]


def test_S3_lost_unsynced_writes_leave_the_old_or_the_new(
    tmp_path: Path, draft: MakeDraft, recording: Any
) -> None:
    folder = tmp_path / "live"
    publish(folder, draft("one"))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    recording.log.clear()
    recording.inodes.clear()
    publish(folder, draft("two"))
    states = 0
    for crash in range(len(recording.log) + 1):
        finished = crash == len(recording.log)
        for number, files in enumerate(_possible_states(before, recording.log[:crash], folder)):
            copy = tmp_path / f"{crash}-{number}"
            copy.mkdir()
            for name, content in files.items():
                (copy / name).write_bytes(content)
            assert word_in(copy) in ({"two"} if finished else {"one", "two"})
            states += 1
    assert states > 100


def _possible_states(
    before: dict[str, bytes], log: list[tuple[str, Any]], folder: Path
) -> list[dict[str, bytes]]:
    """Return what a crash may leave: all that was synced, and any end of the rest."""
    pending = [index for index, (kind, _) in enumerate(log) if kind != "sync"]
    for index, (kind, target) in enumerate(log):
        if kind == "sync":
            is_folder = target[0] == str(folder)
            pending = [
                p for p in pending
                if p > index or not _is_made_durable(log[p], target, is_folder)
            ]  # fmt: skip
    states = []
    for cut in range(len(pending) + 1):
        for lost in (pending[cut:], pending[:cut]):
            states.append(_apply(before, [op for i, op in enumerate(log) if i not in lost]))
    torn = [i for i in pending if log[i][0] == "write"]
    for index in torn:  # half of a write
        ops = [
            (k, (v[0], v[1][: len(v[1]) // 2]) if i == index else v)
            for i, (k, v) in enumerate(log)
        ]
        states.append(_apply(before, ops))
    return states


def _is_made_durable(operation: tuple[str, Any], synced: tuple[str, int], is_folder: bool) -> bool:
    kind, details = operation
    return (kind == "write" and details[0] == synced[1]) if not is_folder else kind != "write"


def _apply(before: dict[str, bytes], ops: list[tuple[str, Any]]) -> dict[str, bytes]:
    names: dict[str, int | bytes] = dict(before)
    content: dict[int, bytes] = {}
    for kind, details in ops:
        if kind == "create":
            names[Path(details[0]).name] = details[1]
        elif kind == "write":
            content[details[0]] = content.get(details[0], b"") + details[1]
        elif kind == "rename":
            names.pop(Path(details[0]).name, None)
            names[Path(details[1]).name] = details[2]
        elif kind == "unlink":
            names.pop(Path(details[0]).name, None)
    return {
        name: content.get(inode, b"") if isinstance(inode, int) else inode
        for name, inode in names.items()
    }


def test_S7_a_second_writer_is_told_who_holds_the_folder(tmp_path: Path, draft: MakeDraft) -> None:
    def nested(sink: Any) -> None:
        sink.write(b"x")
        pid = os.fork()
        if pid == 0:
            try:
                publish(tmp_path, draft("two"))
            except RunError as error:
                os._exit(7 if f"locked by pid {os.getppid()} host " in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

    publish(tmp_path, Draft("panel", 1, {"values.parquet": nested}))


def test_S7_the_lock_of_a_killed_writer_does_not_block(tmp_path: Path, draft: MakeDraft) -> None:
    (tmp_path / ".lock").write_text("pid 1 host elsewhere")
    publish(tmp_path, draft("one"))
    assert word_in(tmp_path) == "one"


@pytest.mark.slow
def test_S7_two_writers_lose_no_result(
    tmp_path: Path, draft: MakeDraft, rounds: Callable[[int, int], int]
) -> None:
    count = rounds(15, 100)

    def write_all(name: str) -> None:
        log = []
        for number in range(count):
            while True:
                try:
                    log.append(publish(tmp_path / "shared", draft(f"{name}{number}")).digest)
                    break
                except RunError:
                    pass
        (tmp_path / f"{name}.json").write_text(json.dumps(log))

    children = []
    for name in ("left", "right"):
        pid = os.fork()
        if pid == 0:
            write_all(name)
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    logs = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("left", "right")]
    assert [len(log) for log in logs] == [count, count]
    assert read_manifest(tmp_path / "shared").digest in (logs[0][-1], logs[1][-1])
    word_in(tmp_path / "shared")
    assert not (tmp_path / "shared" / ".lock").exists()


@pytest.mark.slow
def test_S8_readers_see_one_published_version_whole(
    tmp_path: Path, draft: MakeDraft, rounds: Callable[[int, int], int]
) -> None:
    versions, readers = rounds(40, 200), rounds(3, 8)
    publish(tmp_path, draft("0"))
    children = []
    for _ in range(readers):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                seen = [int(word_in(tmp_path)) for _ in range(versions)]
                code = 0 if seen == sorted(seen) else 2  # versions never go back
            finally:
                os._exit(code)
        children.append(pid)
    for number in range(1, versions + 1):
        publish(tmp_path, draft(str(number)))
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * readers


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=6))
def test_S12_pruning_never_touches_the_version_in_use(
    tmp_path_factory: pytest.TempPathFactory, draft: MakeDraft, words: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("prune")
    for word in words:
        publish(folder, draft(word))
    stranger = folder / "notes.txt"
    stranger.write_text("mine")
    prune(folder)
    assert word_in(folder) == words[-1]
    assert stranger.read_text() == "mine"
    assert len(list(folder.iterdir())) == 4  # two data files, the manifest, the stranger


def test_replace_file_keeps_the_old_one_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "new" / "table.csv"
    replace_file(path, bytes_writer(b"old"))

    def broken(sink: Any) -> None:
        sink.write(b"half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        replace_file(path, broken)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in path.parent.iterdir()] == ["table.csv"]


def test_kept_files_are_not_written_again_and_old_versions_stay(
    tmp_path: Path, draft: MakeDraft
) -> None:
    first = publish(tmp_path, draft("one"))
    written = {name: (tmp_path / s.name).stat().st_mtime_ns for name, s in first.files.items()}
    files = {"more.json": bytes_writer(b"{}")}
    change = Draft("panel", 1, files, parents={"panel": first.digest}, kept=first.files,
                   keeps_versions=True)  # fmt: skip
    second = revise(tmp_path, lambda _: change)
    assert revise(tmp_path, lambda _: change) == second  # the same again: no third version
    assert {*second.files} == {*first.files, "more.json"}
    assert read_versions(tmp_path) == [first, second]
    assert read_manifest(tmp_path, version=first.digest[:7]) == first
    for name, stored in first.files.items():
        assert (tmp_path / stored.name).stat().st_mtime_ns == written[name]
    assert leftovers(tmp_path, first, second) == []
    assert [path.name for path in prune(tmp_path)] == [version_name(first.digest)]
    assert read_versions(tmp_path) == [second]
