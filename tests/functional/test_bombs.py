"""Small files that would become gigabytes stay small in memory, or are refused in seconds."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster.publish.manifest import Manifest, Stored
from forecaster.recipe import Recipe

Make = Callable[[Path, int], Path]  # writes a bomb of some megabytes, unpacked
ROWS = b"unique_id,ds,y\n" + b"".join(b"a,2024-05-%02d,%d\n" % (d, d) for d in range(1, 29))
ROW = b"a,2024-05-01,1\n"
TABLE = ("ingest", "table", "FILE", "--timezone", "UTC", "--out", "OUT")
MOST_MIB = 500.0  # over the command's own
MOST_SECONDS = 60.0  # of processor time; the command alone needs about 3
ROOM = 8 << 30  # of the address space, lest a bomb goes off in the machine that tests
SIZES = (100, 1_000, 4_000)  # MB
SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
ODS = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body>'
    '<office:spreadsheet><table:table table:name="a">{}</table:table></office:spreadsheet>'
    "</office:body></office:document-content>"
)


def packed(pack: Callable[[bytes], bytes], name: str, unit: bytes = ROW) -> Make:
    """Return what writes a header, then a megabyte again and again, each compressed alone."""

    def make(folder: Path, size: int) -> Path:
        part = pack(unit * ((1 << 20) // len(unit)))
        with (folder / name).open("wb") as file:
            file.write(pack(b"unique_id,ds,y\n"))
            for _ in range(size):
                file.write(part)
        return folder / name

    return make


def zstd(content: bytes) -> bytes:
    compressed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return compressed


def workbook(name: str, **parts: str | tuple[str, str, str]) -> Make:
    """Return what writes a ZIP archive; of three texts the middle one fills the size."""

    def make(folder: Path, size: int) -> Path:
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for part, text in parts.items():
                with archive.open(part.replace("__", "/"), "w", force_zip64=True) as file:
                    first, unit, last = (text, "", "") if isinstance(text, str) else text
                    file.write(first.encode())
                    content = unit.encode() * ((1 << 20) // max(len(unit), 1))
                    for _ in range(size if unit else 0):
                        file.write(content)
                    file.write(last.encode())
        return folder / name

    return make


def xlsx(sheet: str | tuple[str, str, str], strings: str | tuple[str, str, str] = "") -> Make:
    main = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    parts: dict[str, str | tuple[str, str, str]] = {
        "_rels__.rels": f'<Relationships xmlns="{package}"><Relationship Id="r1" '
        f'Type="{main}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl__workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/'
        f'2006/main" xmlns:r="{main}"><sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets>'
        "</workbook>",
        "xl___rels__workbook.xml.rels": f'<Relationships xmlns="{package}">'
        f'<Relationship Id="r1" Type="{main}/worksheet" Target="worksheets/sheet1.xml"/>'
        f'<Relationship Id="r2" Type="{main}/sharedStrings" Target="sharedStrings.xml"/>'
        "</Relationships>",
        "xl__worksheets__sheet1.xml": sheet,
    }
    if strings:
        parts["xl__sharedStrings.xml"] = strings
    return workbook("a.xlsx", **parts)


CORNERS = (
    '<c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    "</sheetData></worksheet>"
)
HIDDEN = (
    "<c r='a1'><v>1</v></c></row><row><c r = 'xfd1048576'><v>1</v></c></row>"
    "</sheetData></worksheet>"
)
CELL = '<table:table-cell office:value-type="float" office:value="1" {}/>'
REPEATED = "table:number-columns-repeated", "table:number-rows-repeated"


def parquet(columns: Callable[[int], dict[str, object]]) -> Make:
    def make(folder: Path, size: int) -> Path:
        pq.write_table(pa.table(columns(size)), folder / "a.parquet")
        return folder / "a.parquet"

    return make


def equal_rows(value: object, rows: int) -> object:
    indices = pa.array(np.zeros(rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value]))


def written(name: str, content: Callable[[int], bytes]) -> Make:
    def make(folder: Path, size: int) -> Path:
        (folder / name).write_bytes(content(size))
        return folder / name

    return make


def sparse(name: str, start: bytes = b"") -> Make:
    """Return what writes a file of zeros, which takes no room on the disk."""

    def make(folder: Path, size: int) -> Path:
        (folder / name).parent.mkdir(exist_ok=True)
        with (folder / name).open("wb") as file:
            file.write(start)
            file.truncate(size << 20)
        return folder / name

    return make


def in_folder(make: Make) -> Make:
    """Return what writes a file of an artifact; the folder is given to the command."""
    return lambda folder, size: make(folder, size).parent


def run_of(weights: Callable[[int], dict[str, object]], data: Callable[[int], int]) -> Make:
    """Return what writes a run: the header of its weights, and so many bytes of zeros.

    Weights that are all there take the memory that their file is large: they are no bomb.
    """

    def make(folder: Path, size: int) -> Path:
        header = json.dumps(weights(size)).encode()
        arrays = folder / "run" / "arrays.safetensors"
        sparse("run/arrays.safetensors")(folder, 0)
        with arrays.open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + data(size))
        with arrays.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = f"arrays-{digest[:12]}.safetensors"
        stored = {arrays.name: Stored(name, arrays.stat().st_size, digest)}
        arrays.rename(arrays.with_name(name))
        described = {key: ["float32", value["shape"]] for key, value in weights(size).items()}
        recipe = Recipe()
        about = {"estimator": "Ridge", "recipe": recipe.model_dump(mode="json"), "learned": {},
                 "arrays": described}  # fmt: skip
        manifest = Manifest("run", 1, stored, about, {}, recipe.digest())
        (folder / "run" / "manifest.json").write_bytes(manifest.to_bytes())
        return folder / "run"

    return make


def floats(count: int, end: int) -> dict[str, object]:
    return {"dtype": "F32", "shape": [count], "data_offsets": [0, end]}


CHECK = ("check", "FILE")
BOMBS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "gzip": (packed(gzip.compress, "a.csv.gz"), TABLE),
    "zstd": (packed(zstd, "a.csv.zst"), TABLE),
    "xz": (packed(lzma.compress, "a.csv.xz"), TABLE),
    "bz2": (packed(bz2.compress, "a.csv.bz2"), TABLE),
    "gzip of another name": (packed(gzip.compress, "a.csv"), TABLE),
    "one long line": (packed(gzip.compress, "a.csv.gz", b"x"), TABLE),
    "one long quoted cell": (packed(zstd, "a.csv.zst", b'"x'), TABLE),
    "commas": (packed(gzip.compress, "a.csv.gz", b","), TABLE),
    "empty lines": (packed(zstd, "a.csv.zst", b"\n"), TABLE),
    "zeros": (packed(gzip.compress, "a.csv.gz", b"\0"), TABLE),
    "gzip of trips": (packed(gzip.compress, "a.csv.gz"), (
        "ingest", "trips", "FILE", "--timezone", "UTC", "--out", "OUT", "--candidates",
        "from-trips", "--columns", "time=ds,lat=y,lon=y", "--bbox=-90,-180,90,180",
        "--covers", "2024-05-01:2024-05-28")),
    "gzip to run": (packed(gzip.compress, "a.csv.gz"), ("run", "FILE", "--timezone", "UTC")),
    "sheet of blanks": (xlsx((SHEET, " ", "")), TABLE),
    "sheet of rows": (xlsx((SHEET + "<sheetData>", "<row><c><v>1</v></c></row>", "")), TABLE),
    "shared strings": (xlsx(SHEET + "</worksheet>", ("<sst><si><t>", "x", "")), TABLE),
    "sheet of two corners": (xlsx(f'{SHEET}<sheetData><row r="1">{CORNERS}'), TABLE),
    "corners written otherwise": (xlsx(f"{SHEET}<sheetData><row>{HIDDEN}"), TABLE),
    "repeated cells": (workbook("a.ods", mimetype="application/vnd.oasis.opendocument.spreadsheet",
        **{"content.xml": ODS.format(f'<table:table-row {REPEATED[1]}="1000000">'
        + CELL.format(f'{REPEATED[0]}="16384"') + "</table:table-row>")}), TABLE),
    "workbook of anything": (workbook("a.xlsx", **{"xl__workbook.xml": ("", "<a>", "")}), TABLE),
    "Parquet of nulls": (parquet(lambda n: {
        "ds": equal_rows("2024-05-01", n * 40_000), "y": equal_rows(1.0, n * 40_000)}), TABLE),
    "Parquet of long texts": (parquet(lambda n: {
        "unique_id": equal_rows("x" * (1 << 20), n), "ds": equal_rows("2024-05-01", n),
        "y": equal_rows(1.0, n)}), TABLE),
    "Parquet of many columns": (parquet(lambda n: {f"c{k}": [1] for k in range(10 * n)}), TABLE),
    "wide": (written("a.csv", lambda n: b"ds," + b",".join(b"c%d" % k for k in range(100 * n))
        + b"\n" + b"\n".join(b"2024-05-%02d" % d + b",1" * (100 * n) for d in (1, 2, 3))), TABLE),
    "long ids": (written("a.csv", lambda n: b"unique_id,ds,y\n" + b"".join(
        b"%d%s,2024-05-01,1\n" % (k, b"x" * 100_000) for k in range(n // 10))), TABLE),
    "JSON of brackets": (written("a.geojson", lambda n: b"[" * (n * 10_000)),
        (*TABLE[:2], "ROWS", *TABLE[3:], "--locations", "FILE")),
    "JSON of a number": (written("a.geojson", lambda n: b'{"a":' + b"9" * (n * 10_000) + b"}"),
        (*TABLE[:2], "ROWS", *TABLE[3:], "--locations", "FILE")),
    "JSON of blanks": (sparse("a.geojson", b'{"type":'),
        (*TABLE[:2], "ROWS", *TABLE[3:], "--locations", "FILE")),
    "locations": (packed(gzip.compress, "a.csv.gz"),
        (*TABLE[:2], "ROWS", *TABLE[3:], "--locations", "FILE")),
    "manifest": (in_folder(sparse("artifact/manifest.json", b"{")), CHECK),
    "weights that are not there": (run_of(lambda n: {"w": floats(n << 18, n << 20)},
        lambda _: 1_000), CHECK),
    "weights that overlap": (run_of(lambda n: {f"w{k}": floats(n << 8, n << 10)
        for k in range(1_000)}, lambda n: n << 10), CHECK),
    "weights of a bad size": (run_of(lambda n: {"w": floats(n << 18, 1_000)}, lambda _: 1_000),
        CHECK),
    "recipe": (sparse("a.toml", b"[panel]\n"), ("train", "FILE", "--panel", "x", "--out", "OUT")),
    "recipe of brackets": (written("a.toml", lambda n: b"a = " + b"[" * (n * 10_000)),
        ("train", "FILE", "--panel", "x", "--out", "OUT")),
    "empty table": (sparse("a.csv"), TABLE),
    "empty Parquet": (sparse("a.parquet", b"PAR1"), TABLE),
    "store": (sparse("a.sqlite", b"SQLite format 3\0"), ("restore", "FILE", "OUT")),
    "tokens": (sparse("tokens"), ("serve", "x", "--panel", "x", "--token-file", "FILE")),
}  # fmt: skip
QUICK = ("sheet of two corners", "Parquet of long texts", "recipe")


class Outcome(NamedTuple):
    """What became of a command."""

    code: int
    told: str
    mib: float  # the most memory it had
    seconds: float  # of processor time


def leave_room() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))


def spend(words: list[str], folder: Path) -> Outcome:
    """Run the command, and return what it needed."""
    told = folder / "told.txt"
    with told.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "forecaster", *words], stdout=file, stderr=file, cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, preexec_fn=leave_room,  # noqa: PLW1509 (no threads)
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = told.read_text(encoding="utf-8", errors="replace")
    return Outcome(
        process.returncode, text, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
    )


def cases(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    if not request.config.getoption("--torture"):
        yield from ((name, 1_000) for name in QUICK)
        return
    yield from ((name, size) for name in BOMBS for size in SIZES)


@pytest.mark.slow
def test_A3_a_bomb_stays_small_or_is_refused_in_seconds(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.csv").write_bytes(ROWS)
    usual = spend([w.replace("FILE", "rows.csv").replace("OUT", "out") for w in TABLE], tmp_path)
    assert usual.code == 0, usual.told
    faults, worst, count, began = [], (0.0, 0.0), 0, time.monotonic()
    for name, size in cases(request):
        folder = tmp_path / str(count)
        folder.mkdir()
        make, words = BOMBS[name]
        places = {"FILE": str(make(folder, size)), "OUT": "out", "ROWS": "../rows.csv"}
        outcome = spend([places.get(word, word) for word in words], folder)
        more, count = outcome.mib - usual.mib, count + 1
        worst = max(worst[0], more), max(worst[1], outcome.seconds)
        fits = more < MOST_MIB and outcome.seconds < MOST_SECONDS
        if not fits or outcome.code not in {0, 2, 3, 4, 5} or "Traceback" in outcome.told:
            faults.append(f"{name}, {size} MB: {more:+.0f} MiB, {outcome.seconds:.0f} s, "
                          f"{outcome.code} {outcome.told[-300:]}")  # fmt: skip
        for file in folder.rglob("*"):
            if file.is_file():
                file.unlink()
    with capsys.disabled():
        print(f"\n{count} bombs in {time.monotonic() - began:.0f} s: at most {worst[0]:+.0f} MiB, "  # noqa: T201
              f"{worst[1]:.0f} s of a processor (usual: {usual.mib:.0f} MiB)")  # fmt: skip
    assert not faults, "\n".join(faults)
