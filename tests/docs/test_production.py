"""A year in production, on a replayed clock: what the guide says and deploy/ does, happens."""

import io
import json
import shlex
import shutil
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.cli.app import main
from forecaster.estimators.base import Estimator
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.synthetic.city import make_city
from forecaster.versions import Versions
from tests.docs.test_guides import BLOCK, DOCS

GUIDE = (DOCS / "guides" / "production.md").read_text(encoding="utf-8")
DEPLOY = DOCS.parent / "deploy"
DAY, WEEK = 24, 168
HISTORY, YEAR = 20, 52  # weeks
OPENS, FAILS, CLOSES, BREAKS, BAD = 5, 10, 16, 24, 30  # weeks of the year
UPDATED = 6  # weeks from one update to the next
CLIENT = """\
#!{python} -ISB
import json, socket, sys, os
service = socket.socket(socket.AF_UNIX)
service.connect({address!r})
service.sendall(json.dumps([os.getcwd(), *sys.argv[1:]]).encode() + b"\\n")
sys.exit(int(service.recv(8)))
"""


def make_truth() -> pd.DataFrame:
    """What happens at five locations: NaN where one is not there."""
    panel = make_city(5, hours=(HISTORY + YEAR) * WEEK).panel
    values = panel.values.astype(np.float64)
    begin = HISTORY * WEEK
    values[: begin + OPENS * WEEK, 4] = np.nan
    values[begin + CLOSES * WEEK :, 1] = np.nan
    habits = begin + BREAKS * WEEK
    values[habits:] = np.round(0.5 * np.roll(values[habits:], 9, axis=0))
    times = pd.DatetimeIndex(panel.times.astype("datetime64[ns]"), tz="UTC")
    return pd.DataFrame(values, index=times, columns=list(panel.locations.ids))


@dataclass
class Year:
    """A folder in production, and the commands that the scheduler starts there."""

    folder: Path
    truth: pd.DataFrame
    commands: Path  # a folder with the command `forecaster`, which this process executes
    said: str = ""

    def deliver(self, week: int, name: str, change: float | None = None) -> None:
        """Write what was observed in a week as a table; a change makes the first day wrong."""
        first = (HISTORY + week) * WEEK
        part = self.truth.iloc[first : first + WEEK].copy()
        if change is not None:
            part.iloc[:DAY, 2] = change
        write(part, self.folder / "incoming" / f"{name}.csv")

    def refresh(self, what: str) -> int:
        """Run `deploy/refresh.sh` as cron does; its commands are executed in this process."""
        words = ["sh", str(DEPLOY / "refresh.sh"), what, str(self.folder)]
        path = f"{self.commands}:/usr/bin:/bin"
        said = io.StringIO()
        with socket.socket(socket.AF_UNIX) as service:
            service.bind(str(self.commands / "socket"))
            service.listen()
            service.settimeout(0.05)
            with subprocess.Popen(words, env={"PATH": path}, cwd="/") as script:
                while script.poll() is None:
                    answer(service, said)
        (self.commands / "socket").unlink()
        self.said = said.getvalue()
        return script.returncode

    def panel(self) -> Panel:
        """The panel of now."""
        return Panel.open(self.folder / "panel")

    @property
    def versions(self) -> Versions:
        """The versions of the run."""
        return Versions(self.folder / "runs")


def write(part: pd.DataFrame, path: Path) -> None:
    """Write values as a long table; missing ones have no row."""
    path.parent.mkdir(exist_ok=True)
    long = part.rename_axis("ds").reset_index().melt("ds", var_name="unique_id", value_name="y")
    long.dropna().sort_values(["ds", "unique_id"]).to_csv(path, index=False)


def answer(service: socket.socket, said: io.StringIO) -> None:
    """Execute the next command of a script, if one comes within a moment."""
    try:
        connection, _ = service.accept()
    except TimeoutError:
        return
    with connection, connection.makefile() as lines:
        folder, *words = json.loads(lines.readline())
        code = execute(words, Path(folder), said)
        connection.sendall(str(code).encode())


def execute(words: list[str], folder: Path, said: io.StringIO) -> int:
    """Run a command in a folder; return its exit code."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.chdir(folder)
        try:
            main(words)
        except SystemExit as left:
            return int(left.code or 0)
    return 0


def first_day(folder: Path) -> None:
    """Execute the blocks of the guide's first day."""
    for language, code in BLOCK.findall(GUIDE):
        if language == "python":
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                exec(compile(code, "production.md", "exec"), {"__name__": "guide"})  # noqa: S102
            continue
        for line in code.splitlines():
            program, *words = shlex.split(line, comments=True)
            said = io.StringIO()
            assert program == "forecaster"
            assert execute(words, folder, said) == 0, said.getvalue()


def rmse(model: Estimator, panel: Panel, weeks: int) -> float:
    """The error of forecasts of the newest weeks at the locations that the first model knew."""
    origins = np.arange(len(panel.values) - weeks * WEEK, len(panel.values) - 4, 5)
    known = [identity for identity in panel.locations.ids if identity != panel.locations.ids[4]]
    part = panel.select(tuple(known)) if model.run and len(model.run.about["ids"]) == 4 else panel
    columns = [part.locations.ids.index(identity) for identity in known]
    forecast = model.predict(part, origins)[..., columns]
    truth = part.values[origins[:, None] + np.arange(1, 4)][..., columns]
    return float(np.sqrt(np.nanmean((forecast - truth) ** 2)))


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Year:
    """The folder after its first day."""
    folder = tmp_path_factory.mktemp("srv")
    year = Year(folder, make_truth(), tmp_path_factory.mktemp("bin"))
    client = year.commands / "forecaster"
    address = str(year.commands / "socket")
    client.write_text(CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    write(year.truth.iloc[: HISTORY * WEEK], folder / "history.csv")
    first_day(folder)
    return year


@pytest.mark.slow
def test_a_year_of_openings_closures_breaks_faults_and_bad_deliveries(year: Year) -> None:
    drifts, promoted = dict[int, str](), dict[int, str]()
    for week in range(YEAR):
        fault = 1e6 if week == FAILS else 7.0 if week == BAD else None
        if week == BAD:  # this week's file has last week's hours, with other values
            year.deliver(week - 1, "bad", change=fault)
            assert year.refresh("nightly") == 1
            assert "differs from the panel" in year.said
            assert [path.name for path in (year.folder / "refused").iterdir()] == ["bad.csv"]
            fault = None
        year.deliver(week, f"week-{week:02}", fault)
        assert year.refresh("nightly") == 0, year.said
        if week == FAILS + 1:
            correct(year)
        if week % UPDATED == UPDATED - 1:
            assert year.refresh("weekly") == 0, year.said
            drifts[week], promoted[week] = year.said, str(year.versions.current)
    assert year.refresh("monthly") == 0, year.said
    check_panel(year)
    check_runs(year, promoted)
    assert any("Update the run: " in drifts[week] for week in drifts if week > BREAKS)


def correct(year: Year) -> None:
    """Append the true values of the failed sensor, as the guide says."""
    year.deliver(FAILS, "corrected")
    path = str(year.folder / "incoming" / "corrected.csv")
    said = io.StringIO()
    assert execute(["append", "panel", path], year.folder, said) == 3
    assert execute(["append", "panel", path, "--revise"], year.folder, said) == 0, said.getvalue()
    assert "24" in said.getvalue()
    Path(path).unlink()


def check_panel(year: Year) -> None:
    """The panel holds what happened, value by value, and nothing else."""
    panel = year.panel()
    observed = year.truth.to_numpy(dtype=np.float32)
    order = [panel.locations.ids.index(identity) for identity in year.truth.columns]
    np.testing.assert_array_equal(panel.values[:, order], observed)
    assert len(list((year.folder / "done").iterdir())) == YEAR
    assert not list((year.folder / "incoming").iterdir())


def check_runs(year: Year, promoted: dict[int, str]) -> None:
    """The run has followed the city, and can be taken back."""
    versions, panel = year.versions, year.panel()
    current, first = (load_estimator(versions.folder / v) for v in (versions.current, "v0001"))
    assert current.run is not None
    assert len(current.run.about["ids"]) == 5  # the opened location is known
    assert rmse(current, panel, 4) < 0.95 * rmse(first, panel, 4)
    before = [name for week, name in promoted.items() if week < BREAKS][-1]
    after = [week for week, name in promoted.items() if week >= BREAKS and name != before]
    assert after[0] <= BREAKS + 2 * UPDATED
    parents = {v.manifest.parents.get("panel") for v in versions.entries()}
    assert len(parents) == len(versions.entries())  # each from its own version of the panel
    newest = versions.current
    assert execute(["runs", "runs", "--rollback"], year.folder, io.StringIO()) == 0
    assert versions.current != newest


def test_the_guide_shows_the_crontab_and_names_the_files_of_deploy() -> None:
    crontab = (DEPLOY / "crontab").read_text(encoding="utf-8")
    assert "\n".join(crontab.splitlines()[1:]) in GUIDE
    for name in ("refresh.sh", "forecaster-refresh@.service", "forecaster.service"):
        assert f"deploy/{name}" in GUIDE
        assert (DEPLOY / name).exists()
    schedules = {path.stem.split("@")[1] for path in DEPLOY.glob("*.timer")}
    assert schedules == {"nightly", "weekly", "monthly"}
    script = (DEPLOY / "refresh.sh").read_text(encoding="utf-8")
    for name in schedules:
        assert f"\n{name})" in script
        assert f"refresh.sh {name}" in GUIDE


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_units_are_valid_and_their_exposure_is_low(tmp_path: Path) -> None:
    unit = (DEPLOY / "forecaster-refresh@.service").read_text(encoding="utf-8")
    timers = [Path(shutil.copy(path, tmp_path)) for path in DEPLOY.glob("*.timer")]
    units = [timer.with_suffix(".service") for timer in timers]
    for path in units:
        path.write_text(unit.replace("/opt/forecaster/bin/refresh.sh", "/bin/true"))
    for words in (
        ["verify", "--man=no", *map(str, timers)],
        ["security", "--offline=true", "--threshold=30", str(units[0])],
    ):
        command = ["systemd-analyze", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
