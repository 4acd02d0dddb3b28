"""A challenger from the champion, their comparison and the promotion: safe to kill and repeat."""

import errno
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.config import LagConfig, Season
from forecaster.errors import DataError
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.pipeline.update import Updated, UpdateSettings, update
from forecaster.publish import writing
from forecaster.publish.manifest import LOCK, PARTIAL
from forecaster.recipe import Recipe
from forecaster.report.challenge import render_challenge
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city
from forecaster.versions import PARENT, Versions
from tests.test_versions import content

WEEK = 24 * 7
LAGS = LagConfig(recent=2, seasons=(Season(days=7, count=1),), horizon=2)
AUTO = UpdateSettings()


def broken(panel: Panel) -> Panel:
    """The panel with twice the values, at other hours of the day, from the tenth week on."""
    values = panel.values.copy()
    values[10 * WEEK :] = 2 * np.roll(values[10 * WEEK :], 7, axis=0)
    return panel.with_data(values)


@pytest.fixture(scope="module")
def city() -> Panel:
    return broken(make_city(5, hours=20 * WEEK).panel)


@pytest.fixture(scope="module")
def run(city: Panel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three of the places, which has learned little after the break."""
    folder = tmp_path_factory.mktemp("update")
    panel = city.select(city.locations.ids[:3]).steps(0, 12 * WEEK).save(folder / "panel")
    splits = Splits.by_share(panel, validation=0.15, test=0.25)
    Ridge(Recipe(lags=LAGS)).fit(panel, splits).save(folder / "run")
    return folder / "run"


@pytest.fixture
def runs(run: Path, tmp_path: Path) -> Path:
    Versions.begin(tmp_path / "runs").add(run)
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def newer(city: Panel, tmp_path_factory: pytest.TempPathFactory) -> Panel:
    return city.select(city.locations.ids[:3]).save(tmp_path_factory.mktemp("newer") / "panel")


@pytest.fixture(scope="module")
def undisturbed(run: Path, newer: Panel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder after an update that was not promoted yet."""
    versions = Versions.begin(tmp_path_factory.mktemp("undisturbed") / "runs")
    versions.add(run)
    make(versions.folder, newer, UpdateSettings(promote="never"))
    return versions.folder


@pytest.fixture
def judged(undisturbed: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(undisturbed, tmp_path / "judged"))


def silent(stage: str) -> None:
    """Print nothing."""
    del stage


def make(runs: Path, panel: Panel, settings: UpdateSettings = AUTO) -> Updated:
    return update(runs, panel, settings, silent)


def test_a_better_challenger_is_promoted(judged: Path, newer: Panel) -> None:
    updated = make(judged, newer)
    assert (updated.verdict["verdict"], updated.current) == ("promote", "v0002")
    assert updated.verdict["reason"].startswith("better: RMSE −")
    assert updated.verdict["more"]["weeks"] >= 4
    version, champion = (Versions(judged).find(name) for name in ("v0002", "v0001"))
    assert version.manifest.parents[PARENT] == champion.manifest.digest
    assert version.manifest.parents["panel"] == newer.digest
    assert load_estimator(judged).run.digest == version.manifest.digest


def test_neither_has_learned_from_the_days_that_are_compared(judged: Path, newer: Panel) -> None:
    versions = Versions(judged).entries()
    first, last = (np.datetime64(t.rstrip("Z")) for t in versions[1].verdict["held_out"])
    assert last == newer.times[-1]
    assert (last - first) / np.timedelta64(1, "D") == pytest.approx(14, abs=0.05)
    for version in versions:
        assert np.datetime64(version.learned_until.rstrip("Z")) < first


def test_an_update_that_is_repeated_changes_nothing(judged: Path, newer: Panel) -> None:
    make(judged, newer)
    before = content(judged)
    repeated = make(judged, newer)
    assert repeated.was_finished
    assert content(judged) == before


def test_a_version_that_was_rolled_back_stays_so_until_it_is_asked_for(
    judged: Path, newer: Panel
) -> None:
    make(judged, newer)
    versions = Versions(judged)
    versions.rollback()
    before = content(judged)
    repeated = make(judged, newer)
    assert (repeated.version.name, repeated.current) == ("v0002", "v0001")
    assert repeated.was_finished
    assert repeated.was_taken_back
    assert content(judged) == before
    assert make(judged, newer, UpdateSettings(promote="always")).current == "v0002"


def test_newer_data_may_replace_what_was_rolled_back_to(
    judged: Path, newer: Panel, tmp_path: Path
) -> None:
    make(judged, newer)
    Versions(judged).rollback()
    grown = newer.steps(0, len(newer.values) - 24).save(tmp_path / "grown")  # another panel
    updated = make(judged, grown)
    assert (updated.version.name, updated.current) == ("v0003", "v0003")


def test_a_rollback_over_two_versions_is_respected_too(
    judged: Path, newer: Panel, tmp_path: Path
) -> None:
    later = newer.steps(0, len(newer.values) - 24).save(tmp_path / "later")
    make(judged, newer, UpdateSettings(promote="always"))
    make(judged, later, UpdateSettings(promote="always"))
    versions = Versions(judged)
    versions.rollback()
    versions.rollback()
    assert versions.current == "v0001"
    assert make(judged, newer).current == "v0001"
    assert len(versions.entries()) == 3


def test_other_days_held_out_are_judged_anew(judged: Path, newer: Panel) -> None:
    make(judged, newer)
    week = UpdateSettings(held_out_days=7)
    updated = make(judged, newer, week)
    assert updated.version.name == "v0003"
    assert not updated.was_finished
    first, last = (np.datetime64(t.rstrip("Z")) for t in updated.verdict["held_out"])
    assert (last - first) / np.timedelta64(1, "D") == pytest.approx(7, abs=0.05)
    repeated = make(judged, newer, week)
    assert (repeated.version.name, repeated.was_finished) == ("v0003", True)


@pytest.mark.parametrize("stage", ["training from", "comparing with"])
def test_an_update_that_is_killed_ends_with_the_same_bytes(
    stage: str, runs: Path, newer: Panel, undisturbed: Path
) -> None:
    def kill(text: str) -> None:
        if stage in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(runs, newer, AUTO, kill)
    assert Versions(runs).current == "v0001"
    make(runs, newer, UpdateSettings(promote="never"))
    assert content(runs) == content(undisturbed)


@pytest.mark.slow
def test_C1_an_update_killed_at_random_moments_ends_with_the_same_bytes(
    city: Panel,
    tmp_path: Path,
    failing: Callable[[int, int | signal.Signals], Any],
    monkeypatch: pytest.MonkeyPatch,
    rounds: Callable[[int, int], int],
) -> None:
    """Kill it at its file operations: between two of them nothing on disk changes."""
    three = city.select(city.locations.ids[:3])
    older = three.steps(0, 12 * WEEK).save(tmp_path / "older")
    HistoricalMean(Recipe(lags=LAGS)).fit(older, Splits.by_share(older)).save(tmp_path / "run")
    newer = three.save(tmp_path / "newer")
    start = Versions.begin(tmp_path / "start")
    start.add(tmp_path / "run")
    always = UpdateSettings(promote="always")
    disk = failing(10**9, errno.EIO)
    make(Path(shutil.copytree(start.folder, tmp_path / "undisturbed")), newer, always)
    operations, generator = disk.done, random.Random(1)  # noqa: S311 (which operation)
    for number in range(rounds(5, 100)):
        monkeypatch.setattr(writing, "os", os)
        folder = Path(shutil.copytree(start.folder, tmp_path / f"{number}"))
        failing(generator.randrange(operations), signal.SIGKILL)
        pid = os.fork()
        if pid == 0:
            make(folder, newer, always)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        monkeypatch.setattr(writing, "os", os)
        make(folder, newer, always)
        assert whole(folder) == whole(tmp_path / "undisturbed")


def whole(folder: Path) -> dict[str, bytes]:
    """Return every file with its bytes, without those that a kill left unfinished."""
    return {
        name: data
        for name, data in content(folder).items()
        if PARTIAL not in name and LOCK not in name
    }


def test_never_keeps_and_always_promotes(judged: Path, newer: Panel) -> None:
    kept = make(judged, newer, UpdateSettings(promote="never"))
    assert (kept.verdict["verdict"], kept.current) == ("promote", "v0001")
    assert make(judged, newer, UpdateSettings(promote="always")).current == "v0002"


def test_L12_a_challenger_that_learned_from_shuffled_days_is_kept_out(
    city: Panel, tmp_path: Path
) -> None:
    three = city.select(city.locations.ids[:3])
    older = three.steps(0, 12 * WEEK).save(tmp_path / "older")
    HistoricalMean(Recipe(lags=LAGS)).fit(older, Splits.by_share(older)).save(tmp_path / "run")
    runs = Versions.begin(tmp_path / "runs")
    runs.add(tmp_path / "run")
    values = three.values.copy()
    generator = np.random.default_rng(0)
    values[: 18 * WEEK] = 3 * generator.permutation(values[: 18 * WEEK])
    updated = make(runs.folder, three.with_data(values).save(tmp_path / "panel"))
    assert (updated.verdict["verdict"], updated.current) == ("keep", "v0001")
    assert updated.verdict["reason"].startswith("worse: ")


def test_new_locations_are_learned_and_lost_ones_go(
    runs: Path, city: Panel, tmp_path: Path
) -> None:
    ids = city.locations.ids
    panel = city.select((ids[3], ids[1], ids[0], ids[4])).save(tmp_path / "panel")
    updated = make(runs, panel, UpdateSettings(promote="always"))
    assert load_estimator(runs).run.about["ids"] == list(panel.locations.ids)
    assert updated.verdict["more"]["locations"] == 1


def test_a_panel_without_half_of_the_places_needs_consent(
    runs: Path, city: Panel, tmp_path: Path
) -> None:
    panel = city.select(city.locations.ids[2:]).save(tmp_path / "panel")
    with pytest.raises(DataError, match=r"lacks 2 of 3 locations .*--accept-fewer-places"):
        make(runs, panel)
    accepted = make(runs, panel, UpdateSettings(accepts_fewer=True))
    assert accepted.version.name == "v0002"


def test_a_panel_with_too_few_new_days_is_refused(runs: Path, city: Panel, tmp_path: Path) -> None:
    panel = city.select(city.locations.ids[:3]).steps(0, 9 * WEEK + 72).save(tmp_path / "panel")
    with pytest.raises(DataError, match="7 are needed to compare; append newer data"):
        make(runs, panel)


def test_a_panel_that_does_not_continue_that_of_the_run_is_refused(
    runs: Path, city: Panel, tmp_path: Path
) -> None:
    later = city.select(city.locations.ids[:3]).steps(14 * WEEK, 20 * WEEK).save(tmp_path / "a")
    with pytest.raises(DataError, match="none of the steps"):
        make(runs, later)


def test_the_page_of_a_verdict_says_what_the_json_says(undisturbed: Path) -> None:
    page = render_challenge(Versions(undisturbed).find("v0002").verdict)
    assert "Promote v0002" in page
    assert page.count("<svg") == 2
    assert "95 % interval" in page
    assert "<script" not in page
