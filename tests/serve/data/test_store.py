"""What is acknowledged is on disk, once; what is damaged is refused, never deleted."""

import os
import shutil
import sqlite3
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.errors import ArtifactError, RunError
from forecaster.serve.data.database import (
    APPLICATION,
    SCHEMA,
    Entry,
    IdempotencyKey,
    Receipt,
)
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.store import DiskFullError, KeyReusedError, Store

ENTRIES: list[Entry] = [("a", 3600, 5.0), ("b", 3600, None), ("a", 7200, 0.0)]


def content(store: Store) -> list[Entry]:
    return sorted((row for row, _ in store.read("observations")), key=lambda row: row[:2])


def test_what_was_written_is_there_after_a_new_start(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    receipt, _ = store.write("observations", ENTRIES, received=9_000)
    store.close()
    again = Store(tmp_path / "s.sqlite", "panel")
    assert receipt == Receipt(accepted=3, revised=0, unchanged=0, data_version=1)
    assert content(again) == sorted(ENTRIES, key=lambda entry: entry[:2])
    assert again.version == 1


def test_every_write_is_on_disk_before_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    log, synced = tmp_path / "s.sqlite-redo", list[bytes]()
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(log.read_bytes()))
    statements: list[str] = []
    store._connection.set_trace_callback(
        lambda statement: statements.append(f"{statement} after {len(synced)}")
    )
    store.write("observations", ENTRIES, received=9_000)
    assert synced[-1].endswith(b"\n")
    assert b'["b",3600,null,1,9000]' in synced[-1]
    assert statements[-1] == "COMMIT after 1"


def test_A6_only_the_owner_may_read_a_new_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    store.write("observations", ENTRIES, received=9_000)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    store.close()
    names = ("s.sqlite", "s.sqlite-wal", "s.sqlite-redo", "s.sqlite-last")
    assert modes == dict.fromkeys(names, 0o600)


def test_null_is_not_zero(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    store.write("observations", [("a", 0, None)], 0)
    receipt, _ = store.write("observations", [("a", 0, 0.0)], 0)
    assert receipt.revised == 1
    assert content(store) == [("a", 0, 0.0)]


def test_a_later_value_is_a_revision(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    for value in (5.0, 5.0, 7.0, 5.0):
        store.write("observations", [("a", 0, value)], 0)
    (row,) = store._connection.execute("SELECT value, revision FROM observations")
    assert row == (5.0, 3)
    assert store.version == 3


def test_the_last_of_repeated_entries_counts(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    entries: list[Entry] = [("a", 0, 1.0), ("a", 0, 1.0), ("b", 0, 2.0), ("a", 0, 3.0)]
    receipt, _ = store.write("observations", entries, 0)
    assert (receipt.accepted, receipt.unchanged, receipt.revised) == (2, 1, 1)
    assert content(store) == [("a", 0, 3.0), ("b", 0, 2.0)]
    store.close()
    assert content(Store(tmp_path / "s.sqlite", "panel")) == [("a", 0, 3.0), ("b", 0, 2.0)]


@settings(max_examples=10)
@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_A1_a_sound_store_of_any_values_is_not_taken_for_damaged(values: list[float]) -> None:
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "s.sqlite", "panel")
        entries: list[Entry] = [(f"Straße {n} \x00", n, value) for n, value in enumerate(values)]
        store.write("observations", entries, 0)
        again = Path(folder) / "copy.sqlite"
        for suffix in ("", "-wal", "-redo"):
            shutil.copy(f"{store.path}{suffix}", f"{again}{suffix}")
        store.close()
        assert [row for row, _ in Store(again, "panel").read("observations")] == sorted(entries)


def test_V2_the_same_key_gives_the_same_answer(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    ticket = IdempotencyKey("k-1", "digest")
    first, repeated = store.write("observations", ENTRIES, 0, ticket)
    store.write("observations", [("a", 3600, 8.0)], 0)
    again, known = store.write("observations", ENTRIES, 0, ticket)
    assert (first, repeated, known) == (again, False, True)
    assert ("a", 3600, 8.0) in content(store)  # the retry has not taken it back
    with pytest.raises(KeyReusedError):
        store.write("observations", ENTRIES, 0, IdempotencyKey("k-1", "another"))


def test_keys_are_forgotten_after_a_week(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    store.write("observations", ENTRIES, 0, IdempotencyKey("old", "digest"))
    store.write("observations", ENTRIES, 8 * 24 * 3600, IdempotencyKey("new", "digest"))
    assert [key for (key,) in store._connection.execute("SELECT key FROM keys")] == ["new"]


@given(st.permutations([(name, 3600 * step, float(step)) for name in "abc" for step in range(5)]))
def test_V3_any_order_gives_the_same_state(order: list[Entry]) -> None:
    store = Store(None, "panel")
    for first in range(0, len(order), 4):
        store.write("observations", order[first : first + 4], 0)
    assert content(store) == sorted(order)
    store.close()


def test_V15_a_full_disk_is_told_and_nothing_is_half_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    store.write("observations", ENTRIES, 0)
    pages = store._database.pragma("page_count")
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    many: list[Entry] = [(f"location {i}", 0, 1.0) for i in range(5_000)]
    with pytest.raises(DiskFullError):
        store.write("observations", many, 0)
    assert len(content(store)) == 3
    assert store.version == 1
    store._connection.execute("PRAGMA max_page_count = 100000")
    receipt, _ = store.write("observations", many, 0)
    assert receipt.accepted == 5_000


def test_V16_a_damaged_file_is_refused_with_advice_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    store = Store(path, "panel")
    store.write("observations", [(f"l{i}", 0, float(i)) for i in range(2_000)], 0)
    store.close()
    whole = path.read_bytes()
    for place in range(0, len(whole), 4096):  # the head of every page, which decides its meaning
        damaged = bytearray(whole)
        damaged[place : place + 64] = bytes(64)
        path.write_bytes(damaged)
        try:
            opened = Store(path, "panel")
        except ArtifactError as refusal:
            told = str(refusal)
        else:  # nothing that was written stood there
            assert len(content(opened)) == 2_000
            opened.close()
            continue
        assert f"{path}: damaged" in told
        assert path.read_bytes() == bytes(damaged)


def test_V16_a_second_service_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    with pytest.raises(RunError, match="another service uses it"):
        Store(tmp_path / "s.sqlite", "panel")
    store.close()
    Store(tmp_path / "s.sqlite", "panel").close()


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_file_of_another_program_is_left_as_it_was(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "foreign.sqlite"
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute(f"PRAGMA journal_mode = {mode}")
    foreign.execute("CREATE TABLE t (x)")
    foreign.close()
    before = path.read_bytes()
    with pytest.raises(ArtifactError, match="not a store of this program"):
        Store(path, "panel")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_file_that_another_program_has_marked_is_refused(tmp_path: Path) -> None:
    foreign = sqlite3.connect(tmp_path / "foreign.sqlite", isolation_level=None)
    foreign.execute("PRAGMA application_id = 7")
    foreign.close()
    with pytest.raises(ArtifactError, match="not a store of this program"):
        Store(tmp_path / "foreign.sqlite", "panel")


def test_another_file_or_panel_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "foreign.sqlite") as foreign:
        foreign.execute("CREATE TABLE t (x)")
    foreign.close()
    with pytest.raises(ArtifactError, match="not a store of this program"):
        Store(tmp_path / "foreign.sqlite", "panel")
    Store(tmp_path / "s.sqlite", "panel").close()
    with pytest.raises(ArtifactError, match="another panel"):
        Store(tmp_path / "s.sqlite", "other")
    with pytest.raises(RunError, match="cannot be opened"):
        Store(tmp_path / "no" / "s.sqlite", "panel")
    (tmp_path / "text.sqlite").write_text("these are no observations at all" * 99)
    with pytest.raises(ArtifactError, match="damaged"):
        Store(tmp_path / "text.sqlite", "panel")


NEW = Registration("new", "Neubau", 40.5, None, {"docks": 17.0}, opens=3600, since=9_000)


def test_a_registration_is_there_after_a_new_start(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    assert store.registrations() == []
    store.register(NEW)
    store.register(replace(NEW, id="another"))
    with pytest.raises(sqlite3.IntegrityError):
        store.register(NEW)
    store.close()
    again = Store(tmp_path / "s.sqlite", "panel")
    assert again.registrations() == [NEW, replace(NEW, id="another")]
    assert again.version == 2
    again.close()


def test_an_older_store_takes_registrations(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path, isolation_level=None) as old:  # as the first versions made it
        old.executescript(SCHEMA)
        old.execute(f"PRAGMA application_id = {APPLICATION}")
        old.execute("PRAGMA user_version = 1")
        old.execute("INSERT INTO facts VALUES ('panel', 'panel'), ('data_version', '7')")
        old.execute("INSERT INTO observations VALUES ('a', 3600, 5.0, 1, 9000)")
    old.close()
    for registered in ([], [NEW]):
        store = Store(path, "panel", lambda ids: {f"panel without {len(ids)}"})
        assert store.registrations() == registered
        assert content(store) == [("a", 3600, 5.0)]
        if not registered:
            store.register(NEW)
        assert store.version == 8
        store.close()


def test_a_panel_with_locations_that_were_registered_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    store = Store(path, "a b")
    store.register(replace(NEW, id="c"))
    store.close()

    def without(ids: Collection[str]) -> set[str]:
        return {" ".join(name for name in "abc" if name not in ids)}

    Store(path, "a b", without).close()
    Store(path, "a b c", without).close()
    with pytest.raises(ArtifactError, match="another panel"):
        Store(path, "a b d", lambda ids: {" ".join(n for n in "abd" if n not in ids)})


def test_V16_a_damaged_registration_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite", "panel")
    store.register(NEW)
    store._connection.execute("UPDATE locations SET registration = '{\"colour\": 3}'")
    store.close()
    with pytest.raises(ArtifactError, match="damaged"):
        Store(tmp_path / "s.sqlite", "panel")
