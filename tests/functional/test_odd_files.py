"""Whatever the command is given, it says what is wrong in a few lines, and never how it broke."""

import gzip
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forecaster

Run = Callable[..., tuple[int, str, str]]
Odd = Callable[[np.random.Generator], bytes]
ROWS = b"unique_id,ds,y\n" + b"".join(b"a,2024-05-%02d,%d\n" % (d, d) for d in range(1, 29))
SOURCES = str(Path(forecaster.__file__).parents[1])
SUFFIXES = (".csv", ".csv", ".csv.gz", ".parquet", ".xlsx", ".toml", ".json", ".geojson", "")
TABLE = ("ingest", "table", "FILE", "--timezone", "UTC", "--out", "OUT")
TRIPS = ("ingest", "trips", "FILE", "--timezone", "UTC", "--out", "OUT")
COMMANDS = (
    TABLE,
    ("run", "FILE", "--timezone", "UTC"),
    (*TRIPS, "--candidates", "from-trips", "--columns", "time=ds,lat=y,lon=y"),
    (*TRIPS, "--candidates", "FILE"),
    ("ingest", "weather", "FILE", "--into", "FILE", "--columns", "time=ds,temperature=y:C"),
    (*TABLE, "--locations", "FILE"),
    (*TABLE, "--columns", "time=ds,id=unique_id,value=y", "--kind", "count"),
    ("train", "FILE", "--panel", "FILE", "--out", "OUT"),
    ("check", "FILE"),
    ("report", "FILE"),
    ("serve", "FILE", "--panel", "FILE", "--store", "FILE"),
)


def parquet(**columns: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return sink.getvalue()


ODD: tuple[Odd, ...] = (
    lambda g: g.bytes(int(g.integers(0, 5_000))),
    lambda g: b"\0" * int(g.integers(0, 500)),
    lambda _: gzip.compress(ROWS),  # perhaps named .csv
    lambda g: gzip.compress(ROWS)[: int(g.integers(1, 90))],
    lambda g: parquet(unique_id=["a"], ds=["x"], y=[1.0])[: int(g.integers(4, 900))],
    lambda _: parquet(unique_id=["a", None], ds=[None, "2024"], y=[None, float("nan")]),
    lambda _: parquet(x=[[1, 2], [3]], y=[{"a": 1}, {"a": 2}]),
    lambda _: zipped("../../evil", ROWS),
    lambda _: zipped("xl/workbook.xml", b"<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>"),
    lambda _: b"[" * 20_000,
    lambda _: json.dumps({"type": "FeatureCollection", "features": [{"type": "x"}]}).encode(),
    lambda _: b"\xff\xfe" + ROWS.decode().encode("utf-16-le"),
    lambda _: b"\xef\xbb\xbf",
    lambda _: ROWS.replace(b"\n", b"\r"),
    lambda _: ROWS.replace(b",", b"\x1b[31m,"),
    lambda _: ROWS + b"a,2024-05-01," + b"9" * 5_000 + b"\n",
    lambda _: ROWS + b'"' + b"x" * 100_000,
    lambda _: b",".join([b"c%d" % n for n in range(2_000)]) + b"\n",
    lambda g: bytes(g.permutation(np.frombuffer(ROWS, np.uint8))),
    lambda g: ROWS[: int(g.integers(1, len(ROWS)))],
    lambda _: b"[panel]\nzone = 3\n[[panel]]\n",
    lambda _: b"a = " + b"[" * 5_000,
    lambda _: "ünïcode,\u202e,\u200b\n1,2,3\n".encode(),
    lambda _: ROWS.replace(b"2024-05-02", b"2024-13-99").replace(b",3\n", b",inf\n"),
    lambda _: b"\x89PNG\r\n\x1a\n" + ROWS,
)


def files(folder: Path, count: int) -> Iterator[Path]:
    """Write odd files, each under a fitting or another name, and yield them."""
    generator = np.random.default_rng(5)
    for n in range(count):
        odd, suffix = ODD[n % len(ODD)], SUFFIXES[int(generator.integers(len(SUFFIXES)))]
        path = folder / f"odd {n}{suffix}"
        path.write_bytes(odd(generator))
        yield path


@pytest.mark.slow
def test_A5_no_odd_file_shows_a_traceback(
    run: Run,
    tmp_path: Path,
    rounds: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # where commands write by default
    for n, path in enumerate(files(tmp_path, rounds(50, 500))):
        command = COMMANDS[n % len(COMMANDS)]
        places = {"FILE": path, "OUT": tmp_path / f"out {n}"}
        code, output, errors = run(*(places.get(word, word) for word in command))
        told = f"{command} {path.name}: {code}\n{output}{errors}"
        assert code in {0, 2, 3, 4, 5}, told
        assert "Traceback" not in told, told
        assert "This is a bug" not in told, told
        assert "\x1b[31m" not in told, told
        assert len(errors) < 5_000, told


SCRIPT = """
import re
import sys
from {module} import {function}
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit({function}())
"""  # what pip writes
# It interrupts itself at an import of the command's, counted from its first module on.
AT_AN_IMPORT = """
import os, re, signal, sys
left = int(sys.argv.pop(1))
def interrupt(event, words):
    global left
    if event == "import" and (words[0] == "{module}" or "{module}" in sys.modules):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
"""


@pytest.fixture
def program() -> dict[str, str]:
    """Return the module and the function that the installed command imports."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    module, _, function = tomllib.loads(text)["project"]["scripts"]["forecaster"].partition(":")
    return {"module": module, "function": function}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "quick"), [(signal.SIGINT, 5), (signal.SIGTERM, 2)])
def test_A5_an_early_signal_shows_no_traceback_of_ours(
    number: signal.Signals,
    quick: int,
    program: dict[str, str],
    tmp_path: Path,
    rounds: Callable[[int, int], int],
) -> None:
    (tmp_path / "forecaster").write_text(SCRIPT.format(**program))
    words = [sys.executable, tmp_path / "forecaster", "serve", "--demo", "--port", "0"]
    for delay in np.linspace(0.0, 1.0, rounds(quick, 50)):
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            time.sleep(delay)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        told = f"{delay:.3f} s: {process.returncode}\n{errors.decode()}"
        if b"Traceback" in errors:  # Python itself was starting: no frame is of this program
            assert number == signal.SIGINT, told
            assert SOURCES not in told, told
        else:
            assert process.returncode in {0, 5, -number}, told


@pytest.mark.slow
def test_A5_an_interrupt_at_an_import_shows_no_traceback(
    program: dict[str, str], rounds: Callable[[int, int], int]
) -> None:
    words = [sys.executable, "-c", AT_AN_IMPORT.format(**program) + SCRIPT.format(**program)]
    for at in np.unique(np.geomspace(2, 150, rounds(5, 50)).astype(int)):
        done = subprocess.run(
            [*words, str(at), "--version"], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode in {5, -signal.SIGINT}, f"import {at}: {done}"
        assert "Traceback" not in done.stderr, f"import {at}: {done}"


LIMITS = {
    "memory": (resource.RLIMIT_AS, 700 << 20),
    "less memory": (resource.RLIMIT_AS, 300 << 20),
    "files": (resource.RLIMIT_NOFILE, 12),
    "sizes": (resource.RLIMIT_FSIZE, 1_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("limit", LIMITS)
def test_A5_a_limit_of_the_system_shows_no_traceback(tmp_path: Path, limit: str) -> None:
    (tmp_path / "trips.csv").write_bytes(ROWS)

    def restrict() -> None:
        kind, most = LIMITS[limit]
        resource.setrlimit(kind, (most, most))

    words = [sys.executable, "-m", "forecaster", "ingest", "table", "trips.csv", "--out", "panel"]
    done = subprocess.run(
        [*words, "--timezone", "UTC"], capture_output=True, text=True, cwd=tmp_path,
        preexec_fn=restrict, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode != 1, done.stderr
