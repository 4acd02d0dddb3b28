"""What was acknowledged is there after damage, or its loss is told before anything is answered."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import ArtifactError
from forecaster.serve.data import store as store_module
from forecaster.serve.data.database import Entry, IdempotencyKey
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.store import Store

FILES = ("store.sqlite", "store.sqlite-wal", "store.sqlite-redo", "store.sqlite-last")
KEY = IdempotencyKey("k", "digest")
Damage = Callable[[Path], object]


@dataclass
class Ledger:
    """What a client has sent, and what it was told is stored."""

    values: dict[tuple[str, int], float] = field(default_factory=dict)  # acknowledged
    sent: dict[tuple[str, int], set[float]] = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)
    version: int = 0

    def write(self, store: Store, entries: list[tuple[str, int, float]], n: int) -> None:
        for name, time, value in entries:
            self.sent.setdefault((name, time), set()).add(value)
        rows: list[Entry] = list(entries)
        key = IdempotencyKey(f"k-{n}", "digest") if n % 3 == 0 else None
        receipt, _ = store.write("observations", rows, n, key)
        self.values |= {(name, time): value for name, time, value in entries}
        self.version = receipt.data_version

    def register(self, store: Store, name: str) -> None:
        store.register(Registration(name, name, 50.0, 8.0))
        self.registered.append(name)
        self.version = store.version


def contents(store: Store) -> dict[tuple[str, int], float | None]:
    return {(name, time): value for (name, time, value), _ in store.read("observations")}


def killed(folder: Path, batches: int, size: int, generator: np.random.Generator) -> Ledger:
    """Leave the files of a store as a kill leaves them."""
    ledger = Ledger()
    store = Store(folder / "open" / FILES[0], "panel")
    for n in range(batches):
        steps = generator.choice(4 * size, size, replace=False)
        entries = [(f"place {s % 7}", int(s) * 3600, float(n + s / 7)) for s in steps]
        ledger.write(store, entries, n)
        if n % 5 == 0:
            ledger.register(store, f"new {n}")
    for name in FILES:
        shutil.copy(folder / "open" / name, folder / name)
    store.close()
    return ledger


@pytest.fixture(scope="module", params=[(20, 1), (20, 40), (60, 40)], ids=str)
def after_a_kill(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Ledger]]:
    """Stores in SQLite's log, partly in its file, and with a redo log that has begun anew."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "open").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "MAX_LOG_BYTES", 50_000)
        yield folder, killed(folder, *request.param, np.random.default_rng(7))


def damages(
    folder: Path, count: int, generator: np.random.Generator
) -> Iterator[dict[str, Damage]]:
    """Remove each file; then flip bits and cut at random, in one file and in two."""
    for name in FILES:
        yield {name: Path.unlink}
    for n in range(count):
        names = generator.choice(FILES, 1 + n % 2, replace=False).tolist()
        yield {name: damage_of(folder / name, generator) for name in names}


def damage_of(file: Path, generator: np.random.Generator) -> Damage:
    """Return a flip of a bit or a cut."""
    place, bit = int(generator.integers(file.stat().st_size or 1)), int(generator.integers(8))
    if generator.integers(2) and file.stat().st_size:
        return lambda path: flip(path, place, bit)
    return lambda path: path.write_bytes(path.read_bytes()[:place])


def flip(path: Path, place: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


@pytest.mark.slow
def test_A1_nothing_acknowledged_disappears_in_silence(
    after_a_kill: tuple[Path, Ledger], tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    folder, ledger = after_a_kill
    refused = 0
    generator = np.random.default_rng(11)
    for n, damaged in enumerate(damages(folder, rounds(34, 700), generator)):
        place = tmp_path / str(n)
        place.mkdir()
        for file in FILES:
            shutil.copy(folder / file, place / file)
        for name, damage in damaged.items():
            damage(place / name)
        before = {path.name: path.read_bytes() for path in place.iterdir()}
        try:
            store = Store(place / FILES[0], "panel")
        except ArtifactError as refusal:
            refused += 1
            assert {path.name: path.read_bytes() for path in place.iterdir()} == before
            check_refusal(place, str(refusal), ledger, before)
        else:
            check_whole(store, ledger)
            store.close()
        shutil.rmtree(place)
    assert refused > 0


def test_A1_the_loss_of_both_logs_at_once_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path / FILES[0], "panel")
    for n in range(3):
        store.write("observations", [(f"place {k}", n, 1.0) for k in range(50)], n)
    for name in FILES:
        (tmp_path / "killed").mkdir(exist_ok=True)
        shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    store.close()
    os.truncate(tmp_path / "killed" / FILES[1], 100)
    os.truncate(tmp_path / "killed" / FILES[2], 500)
    told = (
        r"3 writes were acknowledged, 0 are in .*; lost: 150 of 150 rows, as they were after wri"
    )
    with pytest.raises(ArtifactError, match=told):
        Store(tmp_path / "killed" / FILES[0], "panel")
    for name in FILES[:3]:
        (tmp_path / "killed" / name).unlink()
    with pytest.raises(ArtifactError, match="lost: 150 of 150 rows"):
        Store(tmp_path / "killed" / FILES[0], "panel")
    store = Store(tmp_path / "killed" / FILES[0], "panel", accept_loss=True)
    store.write("observations", [("place 1", 0, 1.0)], 0)
    store.close()
    Store(tmp_path / "killed" / FILES[0], "panel").close()


def check_whole(store: Store, ledger: Ledger) -> None:
    assert contents(store) == ledger.values
    assert [one.id for one in store.registrations()] == ledger.registered
    assert store.version == ledger.version
    assert store.write("observations", [("x", 0, 1.0)], 0, IdempotencyKey("k-3", "digest"))[1]


def check_refusal(place: Path, told: str, ledger: Ledger, before: dict[str, bytes]) -> None:
    """A loss is told, with where the evidence is and how to go on; and one can go on."""
    evidence = place / "store.sqlite.damaged-1"
    for part in ("lost: ", "nothing was changed", "--accept-loss", str(evidence)):
        assert part in told
    store = Store(place / FILES[0], "panel", accept_loss=True)
    assert {path.name: path.read_bytes() for path in evidence.iterdir()} == before
    assert all(value in ledger.sent[cell] for cell, value in contents(store).items())
    assert {one.id for one in store.registrations()} <= set(ledger.registered)
    store.write("observations", [("x", 0, 1.0)], 0)
    store.close()
    Store(place / FILES[0], "panel").close()  # the loss is told once
