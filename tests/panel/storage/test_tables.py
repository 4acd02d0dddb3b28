import hashlib
import io
import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError, visible
from forecaster.panel import parquet
from forecaster.panel.panel import Panel
from forecaster.panel.parts import RESERVED, Locations
from forecaster.panel.storage import tables
from forecaster.publish.manifest import MANIFEST, MAX_MANIFEST_BYTES, Manifest, Stored
from tests.panel.storage.format_1 import matrix_writer, save_format_1

Rounds = Callable[[int, int], int]
START = np.datetime64("2014-07-03T22:00:00", "s")
STEPS, PLACES = 29, 3  # of the panel in conftest.py
MEMORY_LIMIT_BYTES = 200 << 20  # for a hostile folder; each bomb below asks for far more


def stored(logical: str, content: bytes) -> Stored:
    stem, suffix = logical.rsplit(".", 1)
    sha256 = hashlib.sha256(content).hexdigest()
    return Stored(f"{stem}-{sha256[:12]}.{suffix}", len(content), sha256)


@dataclass(frozen=True)
class Saved:
    """A saved panel, taken apart so that parts of it can be forged."""

    folder: Path
    manifest: Manifest
    files: dict[str, bytes]

    def forge(self, files: dict[str, bytes] | None = None, **about: Any) -> None:
        """Publish other files or another description, with hashes and checksum that fit."""
        contents = self.files | (files or {})
        entries = {logical: stored(logical, content) for logical, content in contents.items()}
        for logical, content in contents.items():
            (self.folder / entries[logical].name).write_bytes(content)
        self.write(files=entries, about={**self.manifest.about, **about})

    def write(self, **fields: Any) -> None:
        (self.folder / MANIFEST).write_bytes(replace(self.manifest, **fields).to_bytes())

    def rename(self, name: str, logical: str = "values.parquet") -> None:
        """Let the manifest call a file by another name."""
        entry = replace(self.manifest.files["values.parquet"], name=name)
        others = {k: v for k, v in self.manifest.files.items() if k != "values.parquet"}
        self.write(files={**others, logical: entry})

    def path(self, logical: str = "values.parquet") -> Path:
        return self.folder / self.manifest.files[logical].name

    def table(self, logical: str = "values.parquet") -> pa.Table:
        return pq.read_table(io.BytesIO(self.files[logical]))

    def forge_table(self, table: pa.Table, logical: str = "values.parquet", **about: Any) -> None:
        self.forge({logical: parquet_bytes(table)}, **about)


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"compression": "zstd", **options})
    return sink.getvalue()


def take_apart(folder: Path) -> Saved:
    content = json.loads((folder / MANIFEST).read_bytes())
    files = {k: Stored(e["name"], e["bytes"], e["sha256"]) for k, e in content["files"].items()}
    manifest = Manifest(
        content["kind"], content["version"], files, content["about"], content["parents"], None
    )
    return Saved(
        folder, manifest, {k: (folder / file.name).read_bytes() for k, file in files.items()}
    )


@pytest.fixture
def saved(panel: Panel, tmp_path: Path) -> Saved:
    save_format_1(panel, tmp_path / "panel")
    return take_apart(tmp_path / "panel")


def assert_refused(folder: Path, match: str) -> None:
    with pytest.raises(ArtifactError, match=match) as caught:
        Panel.open(folder)
    assert caught.value.exit_code == 4


def test_a_forged_panel_opens_unless_something_is_wrong_with_it(saved: Saved) -> None:
    digest = Panel.open(saved.folder).digest
    saved.forge()
    assert Panel.open(saved.folder).digest == digest
    saved.forge_table(saved.table())  # written by other hands, the same to read
    assert Panel.open(saved.folder).values[3].tolist() == [9.0, 10.0, 11.0]


# -------------------------------------------------------------------------- what is written


def test_values_are_plain_parquet_with_null_for_missing(saved: Saved, panel: Panel) -> None:
    file = pq.ParquetFile(io.BytesIO(saved.files["values.parquet"]))
    assert file.schema_arrow.names == ["time", "7", "007", "z"]
    assert file.schema_arrow.types == [pa.timestamp("ms", tz="UTC"), *[pa.float32()] * PLACES]
    table = file.read()
    assert table.num_rows == STEPS
    assert [column.null_count for column in table.columns] == [0, 0, 1, 0]
    assert table["007"][5].as_py() is None
    assert table["z"].to_pylist() == panel.values[:, 2].tolist()
    assert table["time"][0].as_py().isoformat() == "2014-07-03T22:00:00+00:00"


def test_a_matrix_without_columns_is_an_axis(tmp_path: Path) -> None:
    times = Clock("UTC").axis(START, STEPS)
    write(tmp_path, matrix_writer(times, (), np.empty((STEPS, 0), np.float32)))
    names, values = tables.read_matrix(tmp_path / "file", Clock("UTC"), START, STEPS, None)
    assert (names, values.shape) == ((), (STEPS, 0))


def test_a_matrix_must_have_the_columns_asked_for_in_their_order(tmp_path: Path) -> None:
    times = Clock("UTC").axis(START, STEPS)
    values = np.arange(STEPS * 2, dtype=np.float32).reshape(STEPS, 2)
    write(tmp_path, matrix_writer(times, ("a", "b"), values))
    path = tmp_path / "file"
    for names in (None, ("a", "b")):
        found, read = tables.read_matrix(path, Clock("UTC"), START, STEPS, names)
        assert found == ("a", "b")
        np.testing.assert_array_equal(read, values)
    for names in (("b", "a"), ("a",), ("a", "b", "c"), ()):
        with pytest.raises(ArtifactError, match="its columns are not the panel's locations"):
            tables.read_matrix(path, Clock("UTC"), START, STEPS, names)


def test_a_location_table_comes_back_as_it_was(tmp_path: Path) -> None:
    places = Locations(
        ids=("=cmd()", "🚕", "a,b"),
        names=("<script>", 'a "b"', ""),
        lat=np.array([40.760123456789, np.nan, -90.0]),
        lon=np.array([np.nan, -180.0, 0.1]),
        extra={
            "count": (2**62, None, -1),
            "share": (0.1, None, float("nan")),
            "open": (True, None, False),
            "note": ("", None, "ß"),
            "nothing": (None, None, None),
        },
    )
    write(tmp_path, tables.locations_writer(places))
    read = tables.read_locations(tmp_path / "file", PLACES)
    assert (read.ids, read.names) == (places.ids, places.names)
    np.testing.assert_array_equal(read.lat, places.lat)
    np.testing.assert_array_equal(read.lon, places.lon)
    assert read.extra == {**places.extra, "share": (0.1, None, None)}


@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200), unique=True
    )
)
def test_I23_any_name_comes_back_from_a_panels_files(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    kept = [name for name in names if name and name.strip() == name and name not in RESERVED]
    usable = [name for name in kept if visible(name) == name]
    folder, clock = tmp_path_factory.mktemp("names"), Clock("UTC")
    write(folder, tables.locations_writer(Locations.of_ids(usable)))
    assert tables.read_locations(folder / "file", len(usable)).ids == tuple(usable)
    values = np.zeros((1, len(usable)), np.float32)
    write(folder, matrix_writer(clock.axis(START, 1), usable, values))
    found, _ = tables.read_matrix(folder / "file", clock, START, 1, None)
    assert found == tuple(usable)


def write(folder: Path, writer: Callable[[Any], None]) -> None:
    with (folder / "file").open("wb") as sink:
        writer(sink)


# ----------------------------------------------------------------- S1: missing, cut, altered


def test_S1_a_missing_file_is_named(saved: Saved) -> None:
    for name in sorted(path.name for path in saved.folder.iterdir()):
        content = (saved.folder / name).read_bytes()
        (saved.folder / name).unlink()
        assert_refused(saved.folder, name)
        (saved.folder / name).write_bytes(content)
    Panel.open(saved.folder)


def test_S1_a_cut_or_longer_file_is_named(saved: Saved) -> None:
    for name in sorted(path.name for path in saved.folder.iterdir()):
        content = (saved.folder / name).read_bytes()
        cuts = [content[: len(content) * part // 7] for part in range(7)]
        for other in (*cuts, content[:-1], content + b"\0"):
            (saved.folder / name).write_bytes(other)
            assert_refused(saved.folder, name)
        (saved.folder / name).write_bytes(content)
    Panel.open(saved.folder)


def test_S1_a_flipped_bit_is_found_before_any_value_is_used(
    saved: Saved, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    monkeypatch.setattr(tables, "read_matrix", lambda path, *_: read.append(path))
    monkeypatch.setattr(tables, "read_locations", lambda path, *_: read.append(path))
    generator = random.Random(0)  # noqa: S311 (which bit, not a secret)
    for name in sorted(path.name for path in saved.folder.iterdir()):
        content = (saved.folder / name).read_bytes()
        for _ in range(rounds(61, 1_009)):
            altered = bytearray(content)
            altered[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
            (saved.folder / name).write_bytes(altered)
            assert_refused(saved.folder, "damaged")
        (saved.folder / name).write_bytes(content)
    assert read == []


def test_S1_all_damaged_files_are_named_at_once(saved: Saved) -> None:
    for logical in ("values.parquet", "locations.parquet"):
        saved.path(logical).write_bytes(b"x" * len(saved.files[logical]))
    with pytest.raises(ArtifactError) as caught:
        Panel.open(saved.folder)
    assert "panel damaged: 2 faults" in str(caught.value)
    for logical in ("values.parquet", "locations.parquet"):
        assert f"{saved.path(logical).name} does not match its manifest" in str(caught.value)


def test_S1_a_cut_file_is_found_even_unverified(saved: Saved) -> None:
    saved.path().write_bytes(saved.files["values.parquet"][:-1])
    with pytest.raises(ArtifactError, match="panel damaged"):
        Panel.open(saved.folder, verify=False)


# -------------------------------------------------------------------- S5: the axis on disk

Order = list[int]
AXIS_EDITS: dict[str, Callable[[Order, int], Order]] = {
    "drop": lambda rows, at: rows[:at] + rows[at + 1 :],
    "double": lambda rows, at: rows[:at] + rows[at - 1 :],
    "replace": lambda rows, at: [*rows[:at], rows[at - 1], *rows[at + 1 :]],
    "swap": lambda rows, at: [*rows[: at - 1], rows[at], rows[at - 1], *rows[at + 1 :]],
    "reverse": lambda rows, _: rows[::-1],
}


@pytest.mark.parametrize("edit", AXIS_EDITS)
def test_S5_rows_dropped_doubled_or_out_of_order_are_refused(
    saved: Saved, edit: str, rounds: Rounds
) -> None:
    for at in range(1, STEPS - 1, rounds(9, 1)):  # without its last row it is a shorter panel
        order = AXIS_EDITS[edit](list(range(STEPS)), at)
        for steps in (STEPS, len(order)):  # whether or not the manifest joins in
            saved.forge_table(saved.table().take(order), steps=steps)
            assert_refused(saved.folder, "time axis is not the one|rows, its manifest says")


@pytest.mark.parametrize("shift_ms", [1, -1, 1_000, 60_000, 3_600_000, -3_600_000])
def test_S5_shifted_times_are_refused(saved: Saved, shift_ms: int) -> None:
    table = saved.table()
    for rows in ([13], range(13, STEPS), range(STEPS)):
        times = table["time"].cast(pa.int64()).to_numpy().copy()
        times[list(rows)] += shift_ms
        saved.forge_table(table.set_column(0, "time", pa.array(times).cast(tables.TIME)))
        assert_refused(saved.folder, "time axis is not the one")


def test_S5_a_missing_time_is_refused(saved: Saved) -> None:
    times = saved.table()["time"].to_pylist()
    times[7] = None
    saved.forge_table(saved.table().set_column(0, "time", pa.array(times, tables.TIME)))
    assert_refused(saved.folder, "time axis is not the one")


def test_S5_covariates_that_end_before_the_values_are_refused(saved: Saved) -> None:
    files = {
        name: parquet_bytes(saved.table(name).slice(0, 23))
        for name in ("covariates.parquet", "local_covariates_0.parquet")
    }
    saved.forge(files, known_steps=23)
    assert_refused(saved.folder, "covariates cover 23 steps, values 29")


# ------------------------------------------------------------------------ S6: null, 0, −0.0


def test_S6_null_zero_and_negative_zero_come_back_bit_for_bit(saved: Saved, panel: Panel) -> None:
    read = Panel.open(saved.folder)
    assert read.values.tobytes() == panel.values.tobytes()
    assert np.argwhere(np.isnan(read.values)).tolist() == [[5, 1]]
    assert (read.values[7, 2], np.signbit(read.values[7, 2])) == (0.0, False)
    assert (read.values[11, 0], np.signbit(read.values[11, 0])) == (0.0, True)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("logical", ["values", "covariates", "local_covariates_0"])
def test_S6_a_nan_or_infinity_on_disk_is_refused(saved: Saved, logical: str, value: float) -> None:
    table = saved.table(f"{logical}.parquet")
    column = table.column(1).to_pylist()
    column[5] = value
    forged = table.set_column(1, table.column_names[1], pa.array(column, pa.float32()))
    saved.forge_table(forged, f"{logical}.parquet")
    assert_refused(saved.folder, "contains NaN or infinite values; missing values must be null")


@pytest.mark.parametrize("column", ["lat", "share"])
def test_S6_a_nan_in_the_location_table_is_refused(saved: Saved, column: str) -> None:
    table = saved.table("locations.parquet").append_column("share", pa.array([0.5, None, 0.5]))
    saved.forge_table(table, "locations.parquet")
    assert Panel.open(saved.folder).locations.extra["share"] == (0.5, None, 0.5)
    place = table.column_names.index(column)
    forged = table.set_column(place, column, pa.array([1.0, float("nan"), 1.0]))
    saved.forge_table(forged, "locations.parquet")
    assert_refused(saved.folder, "contains NaN; missing values must be null")


# ------------------------------------------------------------------------ S9: hostile folders


@contextmanager
def memory_below(limit_bytes: int) -> Iterator[None]:
    """Fail if the process needs that much more meanwhile, however briefly (on Linux)."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        yield
        return
    reset.write_text("5")  # the peak begins anew
    before = _kilobytes("VmRSS")
    yield
    assert (_kilobytes("VmHWM") - before) * 1024 < limit_bytes


def _kilobytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:", 1)[1].split()[0])


def snapshot(outside: Path, folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return everything beside the hostile folder, with content and time of change."""
    found = (path for path in outside.iterdir() if path != folder and path.is_file())
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def forge_json(saved: Saved, **extra: Any) -> None:
    """Write a manifest with keys that ours never has, and a checksum that covers them."""
    content = json.loads(saved.manifest.to_bytes()) | extra
    del content["checksum"]
    body = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    content["checksum"] = hashlib.sha256(body).hexdigest()
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    (saved.folder / MANIFEST).write_text(text + "\n")


def in_place_of(path: Path, make: Callable[[Path], Any]) -> None:
    path.unlink()
    make(path)


def retype(saved: Saved, column: pa.Array | pa.ChunkedArray, name: str = "z") -> None:
    """Give a column of the values another type; times by the name `time`."""
    table = saved.table()
    saved.forge_table(table.set_column(table.column_names.index(name), name, column))


def relocate(saved: Saved, **columns: Any) -> None:
    """Give the location table other columns; None removes one."""
    table = saved.table("locations.parquet")
    content = {name: table[name] for name in table.column_names} | columns
    kept = {name: column for name, column in content.items() if column is not None}
    saved.forge_table(pa.table(kept), "locations.parquet")


def pickled(saved: Saved) -> None:
    """Mark columns as a Python type, which pyarrow ≤ 14.0.0 would unpickle (CVE-2023-47248)."""
    ran = saved.folder.parent / "ran"
    metadata = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": f"cos\nsystem\n(S'touch {ran}'\ntR.",
    }
    fields = [field.with_metadata(metadata) for field in saved.table().schema]
    saved.forge_table(saved.table().cast(pa.schema(fields)))


def rows_repeated(saved: Saved, copies: int) -> bytes:
    """Return a file of a million constant rows whose footer names them again and again."""
    rows = 1 << 20
    names = saved.table().column_names
    columns = [pa.array(np.zeros(rows, np.int64)).cast(tables.TIME)]
    columns += [pa.array(np.zeros(rows, np.float32))] * PLACES
    content = parquet_bytes(pa.table(columns, names=names), row_group_size=rows)
    metadata, one = (pq.read_metadata(io.BytesIO(content)) for _ in range(2))
    for _ in range(copies - 1):
        metadata.append_row_groups(one)
    footer = io.BytesIO()
    metadata.write_metadata_file(footer)
    return content[: -8 - _footer_bytes(content)] + footer.getvalue()[4:]


def rows_claimed(saved: Saved, which: int) -> bytes:
    """Return the values with one of the footer's row counts forged to a thousand million."""
    content = saved.files["values.parquet"]
    size = _footer_bytes(content)
    data, footer = content[: -8 - size], content[-8 - size : -8]
    places = [at for at in range(size) if footer[at : at + 2] == b"\x16" + _varint(STEPS)]
    # Thrift, field i64: first the file's own count, then of each column, last of the row group.
    at = places[which]
    forged = footer[: at + 1] + _varint(10**9) + footer[at + 2 :]
    return data + forged + struct.pack("<I", len(forged)) + b"PAR1"


def _footer_bytes(content: bytes) -> int:
    return int(struct.unpack("<I", content[-8:-4])[0])


def _varint(number: int) -> bytes:
    zigzag, digits = number << 1, bytearray()
    while zigzag > 127:
        digits.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*digits, zigzag])


def long_names(saved: Saved, count: int = 499) -> None:
    """Give every location the same name of a megabyte, which is stored once."""
    ids = pa.array([f"p{number}" for number in range(count)])
    name = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(count, np.int32)), pa.array(["x" * 1_000_000])
    )
    unknown = pa.nulls(count, pa.float64())
    table = pa.table({"id": ids, "name": name, "lat": unknown, "lon": unknown})
    saved.forge({"locations.parquet": parquet_bytes(table, store_schema=False)}, locations=count)


FLOATS = np.arange(STEPS, dtype=np.float32)
HOURS = np.arange(STEPS, dtype=np.int64)
HOSTILE: dict[str, tuple[Callable[[Saved], Any], str]] = {
    # names that lead elsewhere
    "a name that climbs out": (lambda s: s.rename("../canary"), "invalid name, size or hash"),
    "an absolute name": (
        lambda s: s.rename(str(s.folder.parent / "canary")),
        "invalid name, size or hash",
    ),
    "the manifest as a data file": (lambda s: s.rename(MANIFEST), "invalid name, size or hash"),
    "a name of another hash": (lambda s: s.rename("values-000000000000.parquet"), "invalid name"),
    "a logical name that climbs out": (
        lambda s: s.rename(s.path().name, "../values.parquet"),
        "invalid name, size or hash",
    ),
    "a data file that is a link": (
        lambda s: in_place_of(s.path(), lambda p: p.symlink_to(s.folder.parent / "canary")),
        "is not a plain file",
    ),
    "a data file that is a pipe": (lambda s: in_place_of(s.path(), os.mkfifo), "is not a plain"),
    "a data file that is a folder": (
        lambda s: in_place_of(s.path(), Path.mkdir),
        "is not a plain file",
    ),
    "a manifest that is a link": (
        lambda s: in_place_of(
            s.folder / MANIFEST, lambda p: p.symlink_to(s.folder.parent / "canary")
        ),
        "cannot be read",
    ),
    "a manifest that is a pipe": (
        lambda s: in_place_of(s.folder / MANIFEST, os.mkfifo),
        "not a plain file",
    ),
    # manifests that unexpected columns
    "an extra key": (lambda s: forge_json(s, hook="run me"), "checksum does not match"),
    "an extra key of a file": (
        lambda s: forge_json(s, files={"a.json": {"name": "a", "bytes": 1, "sha256": "", "x": 1}}),
        "checksum does not match",
    ),
    "a wrong checksum": (
        lambda s: (s.folder / MANIFEST).write_bytes(
            s.manifest.to_bytes().replace(b'"steps": 29', b'"steps": 30')
        ),
        "checksum does not match",
    ),
    "a key twice": (
        lambda s: (s.folder / MANIFEST).write_bytes(
            s.manifest.to_bytes().replace(b'"kind": "panel"', b'"kind": "x", "kind": "panel"')
        ),
        "checksum does not match",
    ),
    "a huge manifest": (
        lambda s: os.truncate(s.folder / MANIFEST, MAX_MANIFEST_BYTES + 1),
        "too large for a manifest",
    ),
    "deep nesting": (
        lambda s: (s.folder / MANIFEST).write_bytes(b'{"about":' + b"[" * 10**6),
        "RecursionError",
    ),
    "a number of 5,000 digits": (
        lambda s: (s.folder / MANIFEST).write_bytes(b'{"layout": ' + b"9" * 5_000 + b"}"),
        "ValueError",
    ),
    "no JSON at all": (lambda s: (s.folder / MANIFEST).write_bytes(b"\x80\x04."), "damaged or"),
    "an empty manifest": (
        lambda s: os.truncate(s.folder / MANIFEST, 0),
        "damaged or was not written",
    ),
    "another kind": (lambda s: s.write(kind="graph"), "a graph, not a panel"),
    "no files": (lambda s: s.write(files={}), "locations.parquet"),
    # descriptions that do not fit
    "no description": (lambda s: s.write(about={}), "not a forecaster panel"),
    "a thousand million million steps": (lambda s: s.forge(steps=10**15), "its manifest says"),
    "more steps than a machine can count": (lambda s: s.forge(steps=10**300), "manifest says"),
    "negative steps": (lambda s: s.forge(steps=-1), "its manifest says -1"),
    "no number of steps": (lambda s: s.forge(steps=[29]), "not a forecaster panel"),
    "a future without end": (lambda s: s.forge(known_steps=10**15), "its manifest says"),
    "more locations": (lambda s: s.forge(locations=10**12), "its manifest says"),
    "a step of no length": (lambda s: s.forge(step_minutes=0), "step_minutes"),
    "a step backwards": (lambda s: s.forge(step_minutes=-60), "step_minutes"),
    "a step off the day": (lambda s: s.forge(step_minutes=7), "must divide a day"),
    "a step longer than time": (lambda s: s.forge(step_minutes=1440 * 10**30), "not a forecaster"),
    "another step": (lambda s: s.forge(step_minutes=30), "time axis is not the one"),
    "another start": (lambda s: s.forge(start="2014-07-03T21:00:00"), "time axis is not the one"),
    "a start that is no time": (lambda s: s.forge(start="yesterday"), "not a forecaster panel"),
    "no start": (lambda s: s.forge(start=None), "time axis is not the one"),
    "a zone that is a path": (lambda s: s.forge(timezone="../../canary"), "unknown time zone"),
    "a zone that is no text": (lambda s: s.forge(timezone=["UTC"]), "not a forecaster panel"),
    "a kind of value we do not know": (lambda s: s.forge(kind="speed"), "'speed'.*upgrade"),
    "another lag rule": (lambda s: s.forge(lag_clock="utc-1"), "lag rule 'utc-1'.*upgrade"),
    "holidays that are no table": (lambda s: s.forge(holidays="US"), "not a forecaster panel"),
    "counts that are no table": (lambda s: s.forge(counts=7), "not a forecaster panel"),
    "a covariate without a file": (
        lambda s: s.forge(local_covariates=["rain", "snow"]),
        "local_covariates_1",
    ),
    "a covariate twice": (
        lambda s: s.forge(
            {"local_covariates_1.parquet": s.files["local_covariates_0.parquet"]},
            local_covariates=["rain", "rain"],
        ),
        "given twice",
    ),
    # values that are not plain columns of numbers
    "double values": (
        lambda s: retype(s, pa.array(FLOATS.astype(np.float64))),
        "unexpected columns",
    ),
    "whole numbers": (lambda s: retype(s, pa.array(HOURS)), "unexpected columns"),
    "a column of texts": (
        lambda s: retype(s, pa.array(FLOATS).cast(pa.string())),
        "unexpected columns",
    ),
    "a list column": (lambda s: retype(s, pa.array([[x] for x in FLOATS])), "unexpected columns"),
    "a nested column": (
        lambda s: retype(s, pa.array([{"x": x} for x in FLOATS])),
        "unexpected columns",
    ),
    "a dictionary column": (
        lambda s: retype(s, pa.array(FLOATS).cast(pa.string()).dictionary_encode()),
        "unexpected columns",
    ),
    "an extension column": (
        lambda s: retype(s, pa.ExtensionArray.from_storage(OPAQUE, pa.array(FLOATS))),
        "unexpected columns",
    ),
    "a type that unpickles": (pickled, "unexpected columns"),
    "times without a zone": (
        lambda s: retype(s, s.table()["time"].cast(pa.timestamp("ms")), "time"),
        "unexpected columns",
    ),
    "times of another zone": (
        lambda s: retype(s, s.table()["time"].cast(pa.timestamp("ms", "Asia/Tokyo")), "time"),
        "unexpected columns",
    ),
    "times in another unit": (
        lambda s: retype(s, s.table()["time"].cast(pa.timestamp("us", "UTC")), "time"),
        "unexpected columns",
    ),
    "times as numbers": (lambda s: retype(s, pa.array(HOURS), "time"), "unexpected columns"),
    "no time column": (
        lambda s: s.forge_table(s.table().drop_columns("time")),
        "unexpected columns",
    ),
    "no columns at all": (lambda s: s.forge_table(pa.table({})), "unexpected columns"),
    "a location more": (
        lambda s: s.forge_table(s.table().append_column("more", pa.array(FLOATS))),
        "not the panel's locations",
    ),
    "a location less": (
        lambda s: s.forge_table(s.table().drop_columns("z")),
        "not the panel's locations",
    ),
    "locations in another order": (
        lambda s: s.forge_table(s.table().select(["time", "z", "007", "7"])),
        "not the panel's locations",
    ),
    "a column twice": (
        lambda s: s.forge_table(s.table().rename_columns(["time", "7", "7", "z"])),
        "not the panel's locations",
    ),
    "a negative count": (lambda s: retype(s, pa.array(-FLOATS)), "28 negative counts: z at 2014"),
    "a covariate called y": (
        lambda s: s.forge_table(
            s.table("covariates.parquet").rename_columns(["time", "y", "wind"]),
            "covariates.parquet",
        ),
        "covariate y: reserved",
    ),
    # locations that unexpected columns
    "a reserved id": (lambda s: relocate(s, id=["7", "007", "time"]), "time: reserved"),
    "an id twice": (lambda s: relocate(s, id=["7", "7", "z"]), "given twice"),
    "an id with a control letter": (
        lambda s: relocate(s, id=["7", "7\x1b[2J", "z"]),
        "not usable",
    ),
    "a location without an id": (lambda s: relocate(s, id=["7", None, "z"]), "without an id"),
    "a location without a name": (lambda s: relocate(s, name=["7", None, "z"]), "without an id"),
    "ids that are numbers": (lambda s: relocate(s, id=[7, 8, 9]), "unexpected columns"),
    "no coordinates": (lambda s: relocate(s, lat=None), "unexpected columns"),
    "coordinates beyond the pole": (lambda s: relocate(s, lat=[91.0, 0.0, 0.0]), "beyond ±90"),
    "a nested extra column": (lambda s: relocate(s, zone=[[1], [2], [3]]), "unexpected columns"),
    "a location row less": (
        lambda s: s.forge_table(s.table("locations.parquet").slice(1), "locations.parquet"),
        "has 2 rows, its manifest says 3",
    ),
    # files that are no Parquet, or claim more than they hold
    "a data file of nothing": (lambda s: s.forge({"values.parquet": b""}), "not a forecaster"),
    "a footer of noise": (
        lambda s: s.forge({"values.parquet": b"PAR1" + b"\x19" * 64 + b"\x40\0\0\0PAR1"}),
        "not a forecaster panel",
    ),
    "a footer longer than its file": (
        lambda s: s.forge({"values.parquet": b"PAR1" + b"\xff" * 4 + b"PAR1"}),
        "not a forecaster panel",
    ),
    "an encrypted file": (
        lambda s: s.forge({"values.parquet": b"PARE" + b"\0" * 64 + b"\x10\0\0\0PARE"}),
        "not a forecaster panel",
    ),
    "sixty million rows in a few bytes": (
        lambda s: s.forge({"values.parquet": rows_repeated(s, 59)}, steps=59 << 20),
        "too large: .* bytes on disk need 989,855,744 bytes",
    ),
    "a file that claims more rows": (
        lambda s: s.forge({"values.parquet": rows_claimed(s, 0)}),
        "too large",
    ),
    "a row group that claims more rows": (
        lambda s: s.forge({"values.parquet": rows_claimed(s, -1)}),
        "too large",
    ),
    "a name of a megabyte everywhere": (long_names, "too large: its texts need 499,"),
}
OPAQUE = pa.opaque(pa.float32(), "thing", "someone")


@pytest.mark.parametrize("name", HOSTILE)
def test_S9_a_hostile_folder_is_refused_and_does_no_harm(saved: Saved, name: str) -> None:
    forge, message = HOSTILE[name]
    (saved.folder.parent / "canary").write_bytes(saved.files["values.parquet"])
    forge(saved)
    before = snapshot(saved.folder.parent, saved.folder)
    with memory_below(MEMORY_LIMIT_BYTES):
        assert_refused(saved.folder, message)
    assert snapshot(saved.folder.parent, saved.folder) == before


def test_S9_a_manifest_that_is_a_folder_is_refused(saved: Saved) -> None:
    in_place_of(saved.folder / MANIFEST, Path.mkdir)
    assert_refused(saved.folder, "not a plain file")


def test_S9_more_columns_than_any_panel_has_are_refused(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_COLUMNS", PLACES)  # 10⁶ of them take seconds to write
    assert_refused(saved.folder, "too large: 6 columns, at most 3")
    monkeypatch.setattr(parquet, "MAX_COLUMNS", 6)
    Panel.open(saved.folder)


def test_S9_more_than_the_machines_memory_is_refused(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_PAGE_SIZE" else 71)
    assert_refused(saved.folder, "need 72 bytes in memory; this machine has 71")


def test_S9_altered_bytes_with_a_fitting_manifest_do_no_harm(saved: Saved, rounds: Rounds) -> None:
    generator = random.Random(0)  # noqa: S311 (which bytes, not a secret)
    refused = 0
    with memory_below(MEMORY_LIMIT_BYTES):
        for _ in range(rounds(89, 20_011)):
            logical = generator.choice(sorted(saved.files))
            content = bytearray(saved.files[logical])
            for _ in range(generator.randrange(1, 4)):
                content[generator.randrange(len(content))] = generator.randrange(256)
            saved.forge({logical: bytes(content)})
            try:
                Panel.open(saved.folder)  # other values may be right values
            except ArtifactError:
                refused += 1
            (saved.folder / stored(logical, bytes(content)).name).unlink()
    assert refused > 41


def test_a_constant_panel_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "SMALL_BYTES", 0)  # as if it were far larger
    steps = 100_003
    values = np.zeros((steps, PLACES), np.float32)
    clock, names = Clock("UTC", 1), ("a", "b", "c")
    write(tmp_path, matrix_writer(clock.axis(START, steps), names, values))
    _, read = tables.read_matrix(tmp_path / "file", clock, START, steps, names)
    assert read.shape == (steps, PLACES)
    assert not read.any()


def test_dates_of_locations_are_kept_and_absent_ones_leave_no_column(
    panel: Panel, tmp_path: Path
) -> None:
    sink = io.BytesIO()
    tables.locations_writer(panel.locations)(sink)
    assert not {"opens", "closes"} & {*pq.read_schema(sink).names}
    opens = np.array(["2014-07-04T00:00:01", "NaT", "NaT"], "datetime64[s]")
    dated = replace(panel, locations=replace(panel.locations, opens=opens))
    dated.save(tmp_path / "dated")
    opened = Panel.open(tmp_path / "dated").locations
    np.testing.assert_array_equal(opened.opens, opens)
    assert np.isnat(opened.closes).all()
    assert opened.extra == panel.locations.extra


def test_a_column_of_such_a_name_in_an_older_panel_stays_what_it_was(
    panel: Panel, tmp_path: Path
) -> None:
    hours = {"opens": ("8", None, "9"), "closes": (1.0, 2.0, None)}
    sink = io.BytesIO()
    tables.locations_writer(replace(panel.locations, extra=hours))(sink)
    path = tmp_path / "locations.parquet"
    path.write_bytes(sink.getvalue())
    read = tables.read_locations(path, 3)
    assert read.extra == hours
    assert not read.dated
