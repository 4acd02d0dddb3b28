"""What deploy/ says is built, started and shielded as it says."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from urllib.request import urlopen

import pytest

from forecaster.estimators.baselines.naive import LastValue
from forecaster.panel.panel import Panel
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city
from tests.serve.client import TOKEN

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
BUILD, FINAL = re.split(r"^FROM .*$", CONTAINERFILE, flags=re.MULTILINE)[1:]
OWNER = 10001  # of the container's process
ORDINARY: dict[str, Any] = {"user": OWNER, "group": OWNER} if os.geteuid() == 0 else {}
ADDRESS = re.compile(r"http://\S+")


def instructions(stage: str, name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", stage, re.MULTILINE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, a panel and a token, as a container sees them."""
    folder = tmp_path_factory.mktemp("deploy")
    panel: Panel = make_city(locations=3, hours=24 * 30, start="2015-06-01").panel
    LastValue().fit(panel, Splits.by_share(panel, validation=0.1, test=0.2)).save(folder / "run")
    panel.save(folder / "panel")
    (folder / "tokens").touch(mode=0o600)
    (folder / "tokens").write_text(f"operator admin {TOKEN}\n")
    (folder / "store").mkdir(mode=0o700)
    if os.geteuid() == 0:
        for parent in (folder, *folder.parents):
            if parent == Path(gettempdir()):
                break
            parent.chmod(0o755)
        shutil.chown(folder / "tokens", OWNER, OWNER)
        shutil.chown(folder / "store", OWNER, OWNER)
    return folder


def in_place(words: list[str], served: Path) -> list[str]:
    """Return the container's command for the folder, on any free port of this machine."""
    places = {
        "/srv/": f"{served}/",
        "/var/lib/forecaster/": f"{served}/store/",
        "/run/secrets/": f"{served}/",
        "0.0.0.0": "127.0.0.1",  # noqa: S104 (what is replaced)
    }
    for place, there in places.items():
        words = [word.replace(place, there) for word in words]
    return [*words, "--port", "0"]


@pytest.fixture(scope="module")
def interpreter() -> str:
    """Return a Python of this version that an ordinary user may run: root's home is closed."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        if path is not None and _runs(path):
            return path
    pytest.skip("no Python of this version that an ordinary user may run")


def _runs(path: str) -> bool:
    try:
        return subprocess.run([path, "-c", ""], check=False, **ORDINARY).returncode == 0
    except PermissionError:
        return False


def start(command: list[str], served: Path, **environment: str) -> subprocess.Popen[str]:
    """Start a command as an ordinary user with a home that is not there."""
    return subprocess.Popen(
        in_place(command, served),
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        **ORDINARY,
    )


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Return a list of services, which are stopped in the end."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def read_forecast(process: subprocess.Popen[str]) -> dict[str, object]:
    """Return the last possible forecast, once the service listens."""
    assert process.stdout is not None
    line = process.stdout.readline()
    address = ADDRESS.search(line)
    assert address is not None, line
    at = "2015-06-30T23:00-04:00"
    with urlopen(f"{address[0]}/v1/forecast?at={at}") as reply:  # noqa: S310 (this machine)
        content: dict[str, object] = json.load(reply)
    return content


@pytest.mark.slow
def test_the_containers_command_serves_as_an_ordinary_user(
    served: Path, interpreter: str, processes: list[subprocess.Popen[str]]
) -> None:
    name, *rest = json.loads(instructions(FINAL, "CMD")[0])
    assert name == "forecaster"
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [interpreter, "-m", "forecaster", *rest]
    processes.append(start(command, served, PYTHONPATH=paths, PYTHONDONTWRITEBYTECODE="1"))
    assert read_forecast(processes[0])["origin"] == "2015-07-01T03:00:00Z"
    store = served / "store" / "live.sqlite"
    assert store.stat().st_mode & 0o077 == 0


def test_the_final_stage_compiles_nothing_and_is_no_superuser() -> None:
    assert instructions(FINAL, "USER") == [f"{OWNER}:{OWNER}"]
    assert instructions(FINAL, "VOLUME") == ["/var/lib/forecaster"]
    assert instructions(FINAL, "HEALTHCHECK")
    for run in instructions(FINAL, "RUN"):
        assert not re.search(r"pip|gcc|apt|build", run), run
    compose = (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    for line in ("read_only: true", "cap_drop: [ALL]", '"no-new-privileges:true"'):
        assert line in compose
    assert "127.0.0.1:8000:8000" in compose


@pytest.mark.slow
def test_the_containers_stages_run_in_an_empty_folder(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    served: Path,
    processes: list[subprocess.Popen[str]],
) -> None:
    if not request.config.getoption("--torture"):
        pytest.skip("installs everything anew, which takes minutes: run with --torture")
    source, home, prefix = tmp_path / "build", tmp_path / "home", tmp_path / "root"
    listing = ["git", "ls-files"]
    tracked = subprocess.check_output(listing, cwd=ROOT, text=True).splitlines()
    for name in tracked:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    home.mkdir()
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    environment["PATH"] = f"{Path(sys.base_prefix) / 'bin'}:{environment['PATH']}"
    for stage in (BUILD, FINAL):
        for run in instructions(stage, "RUN"):
            words = [w.replace("/opt/", f"{prefix}/opt/") for w in shlex.split(run)]
            words = [w.replace("/var/", f"{prefix}/var/") for w in words]
            subprocess.run(words, cwd=source, env=environment, check=True)
    for folder in (tmp_path, *prefix.rglob("*")):
        folder.chmod(folder.stat().st_mode | 0o055)
    name, *rest = json.loads(instructions(FINAL, "CMD")[0])
    processes.append(start([str(prefix / "opt/forecaster/bin" / name), *rest], served))
    assert read_forecast(processes[0])["origin"] == "2015-07-01T03:00:00Z"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_units_exposure_is_low() -> None:
    unit = ROOT / "deploy" / "forecaster.service"
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(unit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
