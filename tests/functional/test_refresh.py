"""Drives `deploy/refresh.sh` with a stand-in for the command that notes its calls."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "refresh.sh"
STAND_IN = """\
#!/bin/sh
echo "$@" >> calls
case "$*" in
drift*) exit {drift} ;;
append*bad*) exit 3 ;;
append*broken*) exit 4 ;;
esac
"""


@dataclass
class Folder:
    """A folder in production and the stand-in."""

    path: Path
    commands: Path

    def refresh(self, what: str, drift: int = 0) -> tuple[int, str]:
        """Run the script; return its exit code and what it printed."""
        stand_in = self.commands / "forecaster"
        stand_in.write_text(STAND_IN.format(drift=drift))
        stand_in.chmod(0o755)
        done = subprocess.run(
            ["/bin/sh", str(SCRIPT), what, str(self.path)],
            env={"PATH": f"{self.commands}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def deliver(self, *names: str) -> None:
        """Put files into `incoming/`, each with its name as content."""
        (self.path / "incoming").mkdir(exist_ok=True)
        for name in names:
            (self.path / "incoming" / name).write_text(name)

    @property
    def calls(self) -> list[str]:
        """What the command was called with."""
        return (self.path / "calls").read_text().splitlines()

    def names(self, folder: str) -> set[str]:
        """The files in one of the folders."""
        return {path.name for path in (self.path / folder).iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for name in ("srv", "bin"):
        (tmp_path / name).mkdir()
    return Folder(tmp_path / "srv", tmp_path / "bin")


@pytest.mark.parametrize("code", [0, 2, 3])
def test_the_weekly_update_is_made_whatever_drift_says(folder: Folder, code: int):
    left, said = folder.refresh("weekly", drift=code)
    assert left == 0
    assert folder.calls == ["drift runs --panel panel --out drift", "update runs --panel panel"]
    assert ("drift could not judge" in said) == (code != 0)


def test_every_night_all_deliveries_are_taken_but_those_still_being_written(folder: Folder):
    taken = {"a day.csv", "b.parquet", "c.xlsx", "d.csv.gz", "e.tsv"}
    folder.deliver(*taken, "f.csv.part", "g.tmp", ".hidden")
    code, said = folder.refresh("nightly")
    assert code == 0
    assert folder.names("done") == taken
    assert folder.names("incoming") == {"f.csv.part", "g.tmp", ".hidden"}
    assert all(f"{name}: done/{name}" in said for name in taken)


def test_a_refused_delivery_never_replaces_an_earlier_one(folder: Folder):
    for content in ("first", "second", "third"):
        folder.deliver("bad.csv")
        (folder.path / "incoming" / "bad.csv").write_text(content)
        assert folder.refresh("nightly")[0] == 1
    kept = {path.name: path.read_text() for path in (folder.path / "refused").iterdir()}
    assert kept == {"bad.csv": "first", "2-bad.csv": "second", "3-bad.csv": "third"}


def test_a_delivery_that_another_failure_has_stopped_is_tried_again(folder: Folder):
    folder.deliver("broken.csv", "later.csv")
    assert folder.refresh("nightly")[0] == 4
    assert folder.names("incoming") == {"broken.csv", "later.csv"}
