"""`forecaster evaluate` and `forecaster run` as users call them."""

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.cli.app import main

Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "lags.recent=3", "lags.seasons=[{days=1, count=2, before=0, after=2}]", "lags.horizon=2",
    "model.per_location=2", "model.auxiliary=4", "model.heads=2", "training.epochs=1",
    "training.batch=256", 'graph.kind="inverse"', "evaluation.seeds=1",
)  # fmt: skip
SETTINGS = [word for text in SMALL for word in ("--set", text)]


def write_table(folder: Path) -> Path:
    """Write a table of 43 days at three places, with a daily cycle."""
    generator = np.random.default_rng(0)
    times = pd.date_range("2021-03-01", periods=24 * 43, freq="h", tz="UTC")
    level = 20 + 15 * np.sin(np.arange(len(times)) / 24 * 2 * np.pi)
    counts = generator.poisson(level[:, None], (len(times), 3))
    frame = pd.DataFrame(counts, columns=["a", "b", "c"]).assign(time=times)
    frame.to_csv(folder / "rides.csv", index=False)
    return folder / "rides.csv"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path)


@dataclass(frozen=True)
class Made:
    """What `forecaster run` made of the table, and said."""

    table: Path
    out: Path
    text: str
    errors: str


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return what a run made, not to be changed."""
    table = write_table(tmp_path_factory.mktemp("compare"))
    out, text, errors = table.parent / "out", io.StringIO(), io.StringIO()
    words = [str(word) for word in ("run", table, "--out", out, *SETTINGS)]
    with redirect_stdout(text), redirect_stderr(errors), pytest.raises(SystemExit) as left:
        main(words)
    assert not left.value.code, errors.getvalue()
    return Made(table, out, text.getvalue(), errors.getvalue())


@pytest.fixture
def made(first: Made, tmp_path: Path) -> Made:
    """Return a copy of the same, to go on with."""
    shutil.copytree(first.table.parent, tmp_path, dirs_exist_ok=True)
    return Made(tmp_path / first.table.name, tmp_path / "out", first.text, first.errors)


def test_a_table_alone_gives_a_recipe_and_a_comparison(run: Run, made: Made) -> None:
    out, text, errors = made.out, made.text, made.errors
    assert "rides.csv: comma-separated, utf-8\nwide: time = time, every other" in errors
    assert "3 locations, steps of 60 min, counts, 2021-03-01 00:00 … 2021-04-12 23:00" in errors
    assert "Forecast of" in text.split("RMSE")[0]  # what comes next, then what it is worth
    assert "no --timezone" in errors
    written = (out / "table.md").read_text()
    assert "| RMSE | average | +1 | +2 |" in written
    assert "| 80 % interval | coverage % | +1 | +2 | randomised | width | pinball |" in written
    for name in ("LastValue", "SeasonalNaive", "HistoricalMean", "Ridge", "Ensemble"):
        assert f"| {name} | " in written
        assert f"\n{name} " in text
    assert {path.name for path in out.iterdir()} >= {
        "panel", "graphs", "cells", "recipe.toml", "table.md", "table.csv", "table.json",
    }  # fmt: skip
    again = run("run", made.table, "--out", out, *SETTINGS)
    assert (again[0], again[1]) == (0, text)
    assert "the panel exists already" in again[2]
    assert "training" not in again[2].split("the panel exists already")[1]


def test_other_days_than_the_recipes_show_both_forms_of_intervals(run: Run, made: Made) -> None:
    out = made.out
    words = ("--out", out, "--panel", out / "panel", "--models", "SeasonalNaive,Ridge")
    days = ("--test", "2021-04-08:2021-04-11")
    code, text, errors = run("evaluate", out / "recipe.toml", *words, *days)
    assert code == 0, errors
    assert "% inside" in text
    written = (out / "table-2021-04-08-2021-04-11.md").read_text()
    assert "| 80 % interval | coverage % | +1 | +2 | randomised | width | pinball |" in written
    assert "The 80 % interval of" in written
    content = json.loads((out / "table-2021-04-08-2021-04-11.json").read_text())
    for row in content["rows"]:
        for form in ("static", "online"):
            shares = [spread["mean"] for spread in row["intervals"][form]["coverage"]]
            assert len(shares) == 3
            assert all(0.5 < share < 1 for share in shares)
        assert row["intervals"]["static"] != row["intervals"]["online"]
    assert content["windows"] < json.loads((out / "table.json").read_text())["windows"]


def test_the_recipe_that_was_used_does_the_same(run: Run, made: Made) -> None:
    first = (made.out / "table.json").read_text()
    words = ("--data", made.table.parent, "--out", made.out, "--json")
    code, text, _ = run("run", made.out / "recipe.toml", *words)
    assert code == 0
    assert json.loads(text) == json.loads(first)


def test_evaluate_names_its_models_seeds_and_ablations(run: Run, made: Made) -> None:
    out = made.out
    words = ("--models", "Ridge,Forecaster", "--seeds", "2", "--graph", "own,distance")
    words += ("--threshold", "0.05,0.2", "--weather", "persist,observed")
    code, text, errors = run(
        "evaluate", out / "recipe.toml", "--out", out, "--panel", out / "panel", *words, "--json"
    )
    assert code == 0, errors
    rows = {row["model"]: row for row in json.loads(text)["rows"]}
    assert list(rows) == [
        "Ridge", "Forecaster", "Forecaster, graph own", "Forecaster, graph distance",
    ]  # fmt: skip
    assert rows["Forecaster"]["seeds"] == [0, 1]
    assert rows["Forecaster"]["chosen"]["threshold"] in ("0.05", "0.2")
    assert list(rows["Ridge"]["weather"]) == ["persist"]  # no covariates: one is enough
    failures = rows["Forecaster, graph distance"]["failures"]
    assert list(failures) == ["threshold 0.05", "threshold 0.2"]
    assert "needs lat and lon" in failures["threshold 0.2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--models", "Rigde"), "no model 'Rigde'; did you mean 'Ridge'?"),
        (("--graph", "owl"), "--graph: unknown owl; choose from lasso, neighbourhood, lagged"),
        (("--threshold", "much"), "--threshold: 'much' are not numbers"),
        (("--weather", "sunny"), "evaluation.weather.0"),
        (("--models", "Ridge", "--lags", "recent"), "add it to --models"),
        (("--seeds", "0"), "--seeds"),
        (("--test", "2020"), "--test: '2020' are not date ranges"),
        (("--test", "foo:../bar"), "give date ranges, as in 2020-03-01:2020-12-31"),
        (("--neurons", "8.7"), "--neurons: '8.7' are not integers"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_written(
    run: Run, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "r.toml").write_text("[table]\nfile = 'x.csv'\n")
    code, _, errors = run("evaluate", tmp_path / "r.toml", "--out", tmp_path / "out", *words)
    assert code == 2
    assert message in errors
    assert not (tmp_path / "out").exists()


def test_a_recipe_of_ones_own_is_never_written_over(run: Run, table: Path) -> None:
    own = table.parent / "recipe.toml"
    text = f"# mine\n[table]\nfile = {table.name!r}\n[training]\nepochs = 1\n"
    own.write_text(text)
    words = ("evaluate", own, "--data", table.parent, "--out", table.parent)
    code, _, errors = run(*words, "--models", "Ridge", "--set", "training.epochs=2")
    assert code == 2
    assert "is the recipe itself" in errors
    assert own.read_text() == text


def test_a_folder_of_somebody_else_is_refused(run: Run, table: Path) -> None:
    (table.parent / "rides").mkdir()
    (table.parent / "rides" / "thesis.tex").touch()
    code, _, errors = run("run", table, "--out", table.parent / "rides")
    assert code == 2
    assert "not empty and not a comparison" in errors


def test_where_nothing_could_be_tested_the_command_fails(run: Run, table: Path) -> None:
    out = table.parent / "out"
    words = ("--set", 'evaluation.models=["Forecaster"]', "--set", 'graph.kind="distance"')
    code, text, errors = run("run", table, "--out", out, *SETTINGS, *words)
    assert code == 5
    assert "No model was tested." in text
    assert "no model could be tested" in errors


def test_a_table_too_short_for_every_model_is_the_datas_fault(run: Run, tmp_path: Path) -> None:
    days = pd.date_range("2021-03-01", periods=40, freq="D").astype(str)  # the clock changes
    pd.DataFrame({"time": days, "a": range(40), "b": 7}).to_csv(tmp_path / "s.csv", index=False)
    words = ("--set", 'evaluation.models=["SeasonalNaive"]', "--timezone", "Europe/Paris")
    code, _, errors = run("run", tmp_path / "s.csv", "--out", tmp_path / "out", *words)
    assert code == 3
    assert "validation windows, and quantiles" in errors.splitlines()[-1]
    assert "The panel has 40 steps of 1 day" in errors.splitlines()[-1]
    assert "training SeasonalNaive" not in errors  # nothing was tried in vain
    assert "read as UTC, not as Europe/Paris" in errors


def test_what_is_no_table_or_recipe_is_refused(run: Run, tmp_path: Path) -> None:
    code, _, errors = run("run", tmp_path / "no.csv")
    assert code == 2
    assert "no such file" in errors
    (tmp_path / "r.toml").write_text("")
    code, _, errors = run("run", tmp_path / "r.toml", "--timezone", "UTC")
    assert code == 2
    assert "are for tables; a recipe has its own" in errors
