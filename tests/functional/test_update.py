"""Drives `forecaster update` end to end: its verdict, exit code and page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forecaster.estimators.baselines.ridge import Ridge
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city
from forecaster.versions import Versions
from tests.pipeline.test_update import LAGS, WEEK, broken


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A model of the first twelve of twenty weeks, beside the panel of all."""
    city = broken(make_city(3, hours=20 * WEEK).panel)
    city.save(tmp_path / "panel")
    older = city.steps(0, 12 * WEEK).save(tmp_path / "older")
    splits = Splits.by_share(older, validation=0.15, test=0.25)
    Ridge(Recipe(lags=LAGS)).fit(older, splits).save(tmp_path / "run")
    Versions.begin(tmp_path / "runs").add(tmp_path / "run")
    return tmp_path / "runs"


def test_the_command_prints_one_line_and_exits_by_the_verdict(
    runs: Path, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    words: list[Any] = ["update", runs, "--panel", tmp_path / "panel"]
    code, printed, _ = run(*words, "--json", "--promote", "never", "--exit-code")
    verdict = json.loads(printed)
    assert (code, verdict["promoted"], verdict["current"]) == (10, False, "v0001")
    code, printed, said = run(*words, "--json", "--exit-code")
    assert (code, json.loads(printed)["promoted"]) == (0, True)
    assert "compared before" in said
    assert (runs / "v0002" / "verdict.html").exists()
    _, printed, _ = run(*words)
    assert printed.startswith("v0002: promoted; ")
    _, table, _ = run("runs", runs, "--json")
    listed = json.loads(table)["versions"][1]
    assert (listed["began_from"], listed["verdict"]) == ("v0001", "promote")


def test_a_repeated_update_says_that_a_version_was_taken_back(
    runs: Path, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    words: list[Any] = ["update", runs, "--panel", tmp_path / "panel"]
    run(*words)
    run("runs", runs, "--rollback")
    code, printed, said = run(*words, "--exit-code")
    assert code == 10
    assert printed.startswith("v0002: kept v0001; ")
    assert "taken back; newer data or --promote always may replace v0001" in said
