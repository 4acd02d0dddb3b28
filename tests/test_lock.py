"""deploy/requirements.lock is what constraints.txt and pyproject.toml say, with hashes."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
ENTRY = re.compile(
    r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M
)
LOCKED = {canonicalize_name(name): version for name, version, _ in ENTRY.findall(LOCK)}


def pinned(text: str) -> dict[str, str]:
    pairs = (line.split("==") for line in text.splitlines() if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_package_has_a_version_and_hashes() -> None:
    lines = [line for line in LOCK.splitlines() if line and not line.lstrip().startswith("#")]
    assert len(lines) == sum(1 + len(hashes.splitlines()) for _, _, hashes in ENTRY.findall(LOCK))
    assert len(LOCKED) > 30


def test_the_versions_are_those_that_were_tested() -> None:
    tested = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    differing = {n: v for n, v in LOCKED.items() if n in tested and tested[n] != v}
    assert not differing, "run make lock"
    assert {"fastapi", "uvicorn", "numpy"} <= LOCKED.keys() & tested.keys()


@pytest.mark.parametrize("extra", ["", "serve", "telemetry"])
def test_all_that_the_service_needs_is_there(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = project["optional-dependencies"][extra] if extra else project["dependencies"]
    for requirement in map(Requirement, needed):
        name = canonicalize_name(requirement.name)
        if name == "torch":  # its builds have different files
            assert name not in LOCKED
            continue
        assert requirement.specifier.contains(LOCKED[name], prereleases=True), "run make lock"


def test_the_container_has_the_tested_torch() -> None:
    tested = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))["torch"]
    for path in ("deploy/Containerfile", "docs/guides/operations.md"):
        found = re.findall(r"torch==(\d\S*)", (ROOT / path).read_text(encoding="utf-8"))
        assert set(found) == {tested}, path


def test_the_file_names_no_place_of_this_machine() -> None:
    assert not re.search(r"(?i)index-url|find-links|trusted-host|https?://|file:", LOCK)


@pytest.mark.slow
def test_the_bill_of_materials_has_every_package_with_its_version(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The steps of `make sbom` but for torch, whose builds differ."""
    if not request.config.getoption("--torture"):
        pytest.skip("installs everything anew, which takes minutes: run with --torture")
    environment, file = tmp_path / "locked", tmp_path / "sbom.json"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [environment / "bin" / "python", "-m", "pip"]
    locked = ROOT / "deploy" / "requirements.lock"
    subprocess.run([*pip, "install", "--quiet", "--require-hashes", "-r", locked], check=True)
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "pip"], check=True)
    words = ["--output-reproducible", "--output-format", "JSON", "--output-file", file]
    command = [Path(sys.executable).with_name("cyclonedx-py"), "environment", *words, environment]
    subprocess.run(command, check=True)
    bill = json.loads(file.read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    listed = {canonicalize_name(one["name"]): one["version"] for one in bill["components"]}
    assert listed == LOCKED
    assert all(one["purl"].startswith("pkg:pypi/") for one in bill["components"])
