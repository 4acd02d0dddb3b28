"""A year in production, on a replayed clock: what the guide says and deploy/ does, happens.

Beside the folder a service runs all the year. Every day it is told what was observed and asked for
a forecast; it follows every promotion and the rollback. It is restarted on a panel with a location
that its version does not know yet.
"""

import io
import json
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.cli.app import main
from forecaster.estimators.base import Estimator
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.serve.service import open_engine
from forecaster.synthetic.city import make_city
from forecaster.versions import Versions
from tests.docs.test_guides import BLOCK, DOCS
from tests.serve.conftest import Running, SettableClock, running

GUIDE = (DOCS / "guides" / "production.md").read_text(encoding="utf-8")
DEPLOY = DOCS.parent / "deploy"
DAY, WEEK = 24, 168
HISTORY, YEAR = 20, 52  # weeks
OPENS, FAILS, CLOSES, BREAKS, BAD = 5, 10, 16, 24, 30  # weeks of the year
RESTARTED, MONTH = 6, 4  # the week of the restart; weeks
UPDATED = 2, 1  # weeks from one update to the next: in the suite, with --torture
WRONG, EVERY = 1e6, 3  # a value of the failed sensor; the hours from one to the next
PATIENCE_SECONDS = 120.0
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
    clock: SettableClock
    said: str = ""
    served: Running | None = None
    stack: ExitStack = field(default_factory=ExitStack)  # closes the service
    versions_served: list[str] = field(default_factory=list)

    def deliver(self, week: int, name: str, change: float | None = None) -> None:
        """Write what was observed in a week as a table; a change makes hours of a day wrong."""
        first = (HISTORY + week) * WEEK
        part = self.truth.iloc[first : first + WEEK].copy()
        if change is not None:
            part.iloc[:DAY:EVERY, 2] = change
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

    def start_service(self) -> None:
        """Serve the runs and the newest panel; a service that runs already is stopped."""
        self.stack.close()
        engine = open_engine(self.folder / "runs", self.panel(), self.folder / "live.sqlite")
        self.stack.callback(engine.data.close)
        engine.data.now = self.clock
        self.served = self.stack.enter_context(running(engine))

    def ask(self, path: str) -> Any:
        """What the service answers."""
        assert self.served is not None
        reply = self.served.get(path)
        assert reply.status == 200, reply.body
        return reply.json

    def pass_day(self, week: int, day: int) -> Any:
        """Let a day go by: the service is told what was observed; return its forecast."""
        first = (HISTORY + week) * WEEK + day * DAY
        values = self.truth.iloc[first : first + DAY].copy()
        self.clock.pass_hours(DAY)
        if (week, day) == (OPENS, 0):
            refusal = self.tell("locations", {"id": values.columns[4]})  # by a Ridge
            assert (refusal.status, refusal.json["code"]) == (409, "cannot_forecast")
        if week <= RESTARTED:
            values = values.iloc[:, :4]
        if (week, day) == (FAILS, 0):
            values.iloc[::EVERY, 2] = WRONG
        reply = self.tell("observations", {"observations": rows_of(values)})
        assert reply.status == 200, reply.body
        return self.ask("/v1/forecast")

    def tell(self, what: str, body: Any) -> Any:
        """Send something to the service."""
        assert self.served is not None
        return self.served.post(f"/v1/{what}", body)

    def wait_for_current(self) -> None:
        """Wait until the service answers by the current version."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.ask("/v1/run")["version"] != self.versions.current:
            assert time.monotonic() < end, "the service has not followed"
            time.sleep(0.01)
        self.versions_served.append(str(self.versions.current))

    def panel(self) -> Panel:
        """The panel of now."""
        return Panel.open(self.folder / "panel")

    @property
    def versions(self) -> Versions:
        """The versions of the run."""
        return Versions(self.folder / "runs")


def rows_of(part: pd.DataFrame) -> list[dict[str, Any]]:
    """The observations of a table, as a service takes them; missing ones are left out."""
    long = part.rename_axis("ds").reset_index().melt("ds", var_name="location").dropna()
    return [{**row, "ds": row["ds"].isoformat()} for row in long.to_dict("records")]


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


@pytest.fixture
def year(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Year]:
    """The folder after its first day, and its service."""
    for name, value in (
        ("background.FOLLOW_SECONDS", 0.02),
        ("background.QUIET_SECONDS", 1e9),  # past origins are not forecast besides
        ("engine.DEADLINE_SECONDS", PATIENCE_SECONDS),
        ("engine.PREPARE_SECONDS", PATIENCE_SECONDS),
    ):
        monkeypatch.setattr(f"forecaster.serve.forecasting.{name}", value)
    folder, truth = tmp_path_factory.mktemp("srv"), make_truth()
    begin = SettableClock(truth.index[HISTORY * WEEK].timestamp() + 60)
    year = Year(folder, truth, tmp_path_factory.mktemp("bin"), begin)
    client = year.commands / "forecaster"
    address = str(year.commands / "socket")
    client.write_text(CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    write(year.truth.iloc[: HISTORY * WEEK], folder / "history.csv")
    first_day(folder)
    year.start_service()
    yield year
    year.stack.close()


@pytest.mark.slow
def test_a_year_of_openings_closures_breaks_faults_and_bad_deliveries(
    year: Year, rounds: Callable[[int, int], int]
) -> None:
    drifts, promoted, updated = dict[int, str](), dict[int, str](), rounds(*UPDATED)
    for week in range(YEAR):
        answers = [year.pass_day(week, day) for day in range(7)]
        deliver_week(year, week)
        check_answers(year, week, answers)
        if week == FAILS:
            correct(year)
        if week % updated == updated - 1:
            assert year.refresh("weekly") == 0, year.said
            drifts[week], promoted[week] = year.said, str(year.versions.current)
            year.wait_for_current()
        if week % MONTH == MONTH - 1:
            assert year.refresh("monthly") == 0, year.said
        if week == RESTARTED:
            check_restart(year)
    check_panel(year)
    check_runs(year, promoted)
    assert any("Update the run: " in drifts[week] for week in drifts if week > BREAKS)


def deliver_week(year: Year, week: int) -> None:
    """Append the week's delivery to the panel at night; a bad one is put aside before."""
    if week == BAD:  # this file has last week's hours, with other values
        year.deliver(week - 1, "bad", change=7.0)
        assert year.refresh("nightly") == 1
        assert "differs from the panel" in year.said
        assert [path.name for path in (year.folder / "refused").iterdir()] == ["bad.csv"]
    year.deliver(week, f"week-{week:02}", WRONG if week == FAILS else None)
    assert year.refresh("nightly") == 0, year.said


def check_answers(year: Year, week: int, answers: list[Any]) -> None:
    """The service has answered each day from new data, by the current version, as offline."""
    version = str(year.versions.current)
    model, panel = load_estimator(year.versions.folder / version), year.panel()
    assert model.run is not None
    largest = np.nanmax(year.truth.to_numpy())
    for answer in answers:
        assert answer["model"] == str(model.run.digest)[:12]
        assert not answer["stale"]
        values = [value for row in answer["forecasts"] for value in row["y_hat"]]
        assert all(value is None or 0 <= value < 3 * largest for value in values), week
    forecasts = {row["id"]: row for row in answers[-1]["forecasts"]}
    assert [*forecasts] == model.run.about["ids"]
    origin = np.array([len(panel.values) - 1])
    offline = model.predict(panel.select(tuple(forecasts)), origin)[0]
    served = np.array([row["y_hat"] for row in forecasts.values()], dtype=float)
    np.testing.assert_allclose(served, offline.T, rtol=1e-3, atol=0.01)
    if week > CLOSES:
        assert not np.nan_to_num(served[1]).any()
    if week == FAILS:
        assert "implausible" in answers[0]["forecasts"][2]["degraded"]


def correct(year: Year) -> None:
    """Send the true values of the failed sensor to the panel and to the service."""
    year.deliver(FAILS, "corrected")
    path = str(year.folder / "incoming" / "corrected.csv")
    said = io.StringIO()
    assert execute(["append", "panel", path], year.folder, said) == 3
    assert execute(["append", "panel", path, "--revise"], year.folder, said) == 0, said.getvalue()
    assert f"{DAY // EVERY} revised" in said.getvalue()
    Path(path).unlink()
    first = (HISTORY + FAILS) * WEEK
    day = year.truth.iloc[first : first + DAY, [2]]
    assert (
        year.tell("observations", {"observations": rows_of(day)}).json["revised"] == DAY // EVERY
    )


def check_restart(year: Year) -> None:
    """A service that starts anew, from the newest panel and its store, answers the same."""
    before = year.ask("/v1/forecast")
    year.start_service()
    year.wait_for_current()
    after = year.ask("/v1/forecast")
    assert after["origin"] == before["origin"]
    for old, new in zip(before["forecasts"], after["forecasts"], strict=True):
        assert new["id"] == old["id"]
        np.testing.assert_allclose(new["y_hat"], old["y_hat"], rtol=1e-3)


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
    assert after[0] <= BREAKS + 8
    parents = {v.manifest.parents.get("panel") for v in versions.entries()}
    assert len(parents) == len(versions.entries())  # each from its own version of the panel
    check_rollback(year)
    assert {*promoted.values()} <= {*year.versions_served}


def check_rollback(year: Year) -> None:
    """The service answers by the version before, and has received what was delivered."""
    newest, said = year.versions.current, io.StringIO()
    assert execute(["runs", "runs", "--rollback"], year.folder, said) == 0, said.getvalue()
    assert year.versions.current != newest
    year.wait_for_current()
    current = year.versions.find(str(year.versions.current))
    assert year.ask("/v1/forecast")["model"] == str(current.manifest.digest)[:12]
    words = ["append", "panel", "--store", "live.sqlite", "--revise"]
    assert execute(words, year.folder, said) == 0, said.getvalue()
    assert "nothing new" in said.getvalue()


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
