"""Whatever the machine is like, the command does the same or says in a line what is wrong."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROWS = b"unique_id,ds,y\n" + b"".join(
    b"%s,2024-%02d-%02d 0%d:00,%d\n" % (place, month, day, hour, day * hour)
    for place in (b"a", b"M\xc3\xbcnster", b"\xc4\xb0zmir")
    for month in (3, 10)
    for day in range(1, 28)
    for hour in range(4)
)
WORDS = ("ingest", "table", "rows.csv", "--timezone", "Europe/Berlin", "--out", "panel")
HOSTS: tuple[dict[str, str], ...] = (
    {"TZ": "UTC", "LC_ALL": "C.UTF-8"},
    {"TZ": "Pacific/Apia", "LC_ALL": "C"},
    {"TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
    {"TZ": "Asia/Kathmandu", "LC_ALL": "POSIX", "PYTHONUTF8": "0"},
    {"TZ": ":/etc/hostname", "LC_ALL": "xx_YY.ISO-8859-9"},
    {"TZ": "Nowhere/Nothing", "PYTHONIOENCODING": "ascii"},
    {"TZ": "XXX+23:59:59", "LANGUAGE": "de:ja", "LC_TIME": "ja_JP.eucJP"},
    {"TZ": "", "LC_ALL": "", "LANG": "", "HOME": "/nonexistent", "USER": ""},
    {"TZ": "EST5EDT", "COLUMNS": "0", "TERM": "none", "NO_COLOR": ""},
    {"TZ": "Europe/Lisbon", "COLUMNS": "-7", "LINES": "x", "PYTHONHASHSEED": "7"},
)


def command(folder: Path, *words: str, **host: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "forecaster", *words], cwd=folder, text=True, errors="replace",
        capture_output=True, check=False, env={**kept, "OMP_NUM_THREADS": "1", **host},
    )  # fmt: skip


def digest(folder: Path) -> str:
    """Return a hash of the files of an artifact, by their names."""
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content.update(path.name.encode() + path.read_bytes())
    return content.hexdigest()


@pytest.mark.slow
def test_A5_locale_and_zone_of_the_host_change_nothing(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    digests = set()
    for n, host in enumerate(HOSTS[: rounds(3, len(HOSTS))]):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / "rows.csv").write_bytes(ROWS)
        done = command(folder, *WORDS, **host)
        told = f"{host}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, told
        assert "Traceback" not in done.stderr, told
        digests.add(digest(folder / "panel"))
    assert len(digests) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a file system of some size, or one that is read-only."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.call(words):
            pytest.skip("needs the right to mount a file system")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)  # noqa: S607


@pytest.mark.slow
def test_A9_a_full_disk_and_a_read_only_folder_are_told_and_nothing_is_left(
    tmp_path: Path, small_disk: Callable[[str], Path], rounds: Callable[[int, int], int]
) -> None:
    (tmp_path / "rows.csv").write_bytes(ROWS)
    rows = str(tmp_path / "rows.csv")
    sizes = (8, 4, 12, 16, 20, 24, 28)[: rounds(1, 7)]
    for options in (*(f"size={size}k" for size in sizes), "size=1m,ro"):
        disk = small_disk(options)
        for words in (
            ("ingest", "table", rows, "--timezone", "Europe/Berlin", "--out", f"{disk}/panel"),
            ("run", rows, "--timezone", "Europe/Berlin", "--quick", "--out", f"{disk}/run"),
        )[: rounds(1, 2)]:
            done = command(tmp_path, *words, TMPDIR=str(tmp_path))
            told = f"{options} {words}: {done.returncode}\n{done.stderr}"
            assert done.returncode in {2, 3, 4, 5}, told
            assert "Traceback" not in done.stderr, told
            assert not list(disk.glob("*/manifest.json")), told
