import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from forecaster.errors import RunError, StoppedError
from forecaster.evaluation.model_specs import Entry
from forecaster.pipeline import workers
from forecaster.pipeline.experiment import Study
from forecaster.pipeline.trials import Cell, is_done, make_cell, result
from forecaster.pipeline.workers import run_cells
from forecaster.publish.writing import locked
from forecaster.recipe import Recipe, change
from tests.conftest import Processes

ENDLESS = {"epochs": 100_000, "patience": 100_000}  # a training that ends only when asked to


def quiet(_: str) -> None:
    """Say nothing."""


def wrong(study: Study, recipe: Recipe) -> Cell:
    """Return a cell that fails: its graph needs coordinates, which the city has not."""
    other = change(recipe, {"graph": {"kind": "distance"}}, source="")
    return make_cell(study, Entry("Forecaster, graph distance", "Forecaster", other), 0)


def test_a_cell_that_fails_does_not_lose_the_others(study: Study, recipe: Recipe) -> None:
    bad = wrong(study, recipe)
    good = [make_cell(study, Entry(n, n, recipe), 0) for n in ("Ridge", "SeasonalNaive")]
    said: list[str] = []
    failures = run_cells([good[0], bad, good[1], good[0]], study, 1, said.append)
    assert list(failures) == [bad.folder]
    assert "a distance graph needs lat and lon" in failures[bad.folder]
    assert all(is_done(cell, study) for cell in good)
    assert [line for line in said if " of 3: " in line] == [
        "1 of 3: Ridge, seed 0",
        "2 of 3: Forecaster, graph distance, seed 0",
        "3 of 3: SeasonalNaive, seed 0",
    ]


def test_an_interruption_is_not_a_failure(
    study: Study, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise StoppedError("interrupted by SIGTERM")

    monkeypatch.setattr(workers, "run_cell", stop)
    with pytest.raises(StoppedError):
        run_cells([make_cell(study, Entry("Ridge", "Ridge", recipe), 0)], study, 1, quiet)


def test_any_error_is_told_and_the_others_go_on(
    study: Study, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [make_cell(study, Entry(n, n, recipe), 0) for n in ("Ridge", "SeasonalNaive")]
    monkeypatch.setattr(workers, "run_cell", lambda *_: 1 / 0)
    failures = run_cells(cells, study, 1, quiet)
    assert list(failures.values()) == ["ZeroDivisionError: division by zero"] * 2


@pytest.mark.slow
def test_processes_give_what_one_process_gives(
    study: Study, recipe: Recipe, tmp_path: Path
) -> None:
    bad = wrong(study, recipe)
    entries = [Entry(n, n, recipe) for n in ("Ridge", "Forecaster")]
    failures = run_cells([*(make_cell(study, e, 0) for e in entries), bad], study, 2, quiet)
    assert "a distance graph needs lat and lon" in failures.pop(bad.folder)
    assert not failures
    alone = Study(tmp_path / "alone", study.panel_folder, recipe, study.weathers)
    run_cells([make_cell(alone, e, 0) for e in entries], alone, 1, quiet)
    for entry in entries:
        one, other = (result(make_cell(s, entry, 0), s) for s in (study, alone))
        assert one is not None
        assert other is not None
        assert one.errors["observed"].report() == other.errors["observed"].report()


@pytest.mark.slow
def test_a_process_that_dies_is_a_failed_cell(study: Study, recipe: Recipe) -> None:
    cell = make_cell(study, Entry("Ridge", "Ridge", recipe), 0)
    worker = workers._start(cell, study)
    worker.process.kill()
    assert worker.end() == "its process died (exit code -9); it may have run out of memory"


@pytest.mark.slow
def test_asked_to_stop_all_processes_save_and_the_same_call_goes_on(
    study: Study, recipe: Recipe
) -> None:
    endless = change(recipe, {"training": ENDLESS}, source="")
    cells = [
        make_cell(study, Entry("Forecaster", "Forecaster", endless), seed) for seed in range(2)
    ]
    study.graph(endless, quiet)  # as before every evaluation: two would learn it at once

    def stop() -> None:
        # Two processes may be far apart on a busy machine: the first must not end meanwhile.
        logs = [cell.folder / "training" / "log.jsonl" for cell in cells]
        deadline = time.monotonic() + 120
        while not all(log.exists() for log in logs) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    said: list[str] = []
    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(StoppedError, match="interrupted by SIGTERM; the same command goes on"):
        pytest.fail(f"the cells ended by themselves: {run_cells(cells, study, 2, said.append)}")
    thread.join()
    for cell in cells:
        assert any((cell.folder / "training").glob("*/manifest.json")), said  # a checkpoint


@pytest.mark.slow
def test_processes_stop_when_the_one_that_started_them_is_gone(
    study: Study, recipe: Recipe, processes: Processes
) -> None:
    endless = change(recipe, {"training": ENDLESS}, source="")
    cell = make_cell(study, Entry("Forecaster", "Forecaster", endless), 0)
    parent = processes.start(start_and_wait, cell, replace(study))
    log, deadline = cell.folder / "training" / "log.jsonl", time.monotonic() + 120
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    parent.kill()
    while time.monotonic() < deadline:
        try:
            with locked(cell.folder / "training"):
                break
        except RunError:
            time.sleep(0.1)
    else:
        pytest.fail("the training goes on without its parent")
    assert any((cell.folder / "training").glob("*/manifest.json"))  # what it had is saved


def start_and_wait(cell: Cell, study: Study) -> None:
    workers._start(cell, study).process.join()


def test_processes_share_the_processors() -> None:
    before = dict(os.environ)
    with workers._few_threads(1000):
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert dict(os.environ) == before
