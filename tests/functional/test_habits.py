"""What a new user tries on the command line, one test for each habit, here or where it belongs."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

Run = Callable[..., tuple[int, str, str]]
TESTS = Path(__file__).parents[1]
HERE = "functional/test_habits.py"
DAYS = pd.date_range("2024-09-01", periods=120)
HABITS = {  # what was tried: the file of its test, and the test
    "a spreadsheet's CSV": ("functional/test_run.py", "a_spreadsheets_file_is_understood"),
    "dates of two orders": (HERE, "dates_that_fit_two_orders_are_asked_about"),
    "columns of other names": (HERE, "one_series_of_days_with_a_marker_is_forecast"),
    "a panel folder": ("functional/test_run.py", "a_panel_folder_is_run_like_its_table"),
    "prices and promotions": ("functional/test_run.py", "prices_weather_and_the_size_of_a_shop"),
    "one series, days, a marker": (HERE, "one_series_of_days_with_a_marker_is_forecast"),
    "months": (HERE, "months_are_read_and_too_few_are_refused_in_words"),
    "-1 or -999": (HERE, "a_value_that_may_stand_for_missing_is_asked_about"),
    "trips until May, covered to December": ("panel/test_empty_ends.py", "months_of_zeros_after"),
    "a station too quiet": ("ingest/demand/test_trips.py", "zones_are_counted_by_id"),
    "Boosting and the lasso without a word": (
        "graph/test_learn.py",
        "progress_tells_what_is_done",
    ),
    "the strongest rival": ("report/test_data.py", "the_rival_is_the_strongest_simple_model"),
    "the coming steps": ("functional/test_run.py", "the_next_steps_come_first"),
    "the page of explain": ("functional/test_explain.py", "a_page_says_why"),
    "a service without recent data": ("serve/page/test_away.py", "data_too_old_for_a_forecast"),
    "a new station": ("serve/http/test_locations.py", "L2_an_unknown_location_is_told"),
    "/docs and /v1": ("serve/http/test_app.py", "v1_lists_what_there_is_and_docs_is_a_page"),
    "4000 where 90 is usual": ("serve/http/test_read.py", "an_implausible_observation_is_kept"),
}


@pytest.mark.parametrize("habit", HABITS)
def test_every_habit_has_its_test(habit: str) -> None:
    file, name = HABITS[habit]
    assert re.search(rf"^def test_{name}", (TESTS / file).read_text(encoding="utf-8"), re.M)


def write(folder: Path, name: str, lines: list[str]) -> Path:
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_dates_that_fit_two_orders_are_asked_about(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path, "my.csv", ["when,load", "05/06/2022,1", "06/07/2022,2"])
    code, _, errors = run("run", path, "--quick")
    assert code == 3
    assert "may be a day or a month first; give --dates day-first or --dates month-first" in errors


def test_one_series_of_days_with_a_marker_is_forecast(run: Run, tmp_path: Path) -> None:
    rows = [f"{day:%d.%m.%Y};{n % 9};{n % 7 + 1}" for n, day in enumerate(DAYS)]
    rows[40] = f"{DAYS[40]:%d.%m.%Y};3;-999"
    path, out = write(tmp_path, "my.csv", ["Wann;rein;raus", *rows]), tmp_path / "out"
    words = ("--columns", "time=Wann,value=raus", "--missing", "-999", "--models", "LastValue")
    code, _, errors = run("run", path, *words, "--out", out)
    assert code == 0, errors
    assert "one series: time = Wann, value = raus; covariates past-only: rein" in errors
    assert "1 location, steps of 1 day, counts" in errors
    table = pd.read_csv(out / "forecast.csv")
    assert [str(day)[:10] for day in table["ds"]] == ["2024-12-30", "2024-12-31", "2025-01-01"]
    (model,) = (out / "cells").iterdir()
    code, _, errors = run("forecast", model, "--panel", out / "panel", "--at", "2024-12-01")
    assert code == 0, errors


def test_months_are_read_and_too_few_are_refused_in_words(run: Run, tmp_path: Path) -> None:
    months = pd.period_range("2023-01", periods=14, freq="M")
    path = write(tmp_path, "my.csv", ["month,visits", *(f"{m},{n}" for n, m in enumerate(months))])
    code, _, errors = run("run", path, "--quick", "--out", tmp_path / "out")
    assert code == 3
    assert "1 location, steps of 1 month, counts" in errors
    assert "The panel has 14 steps of 1 month" in errors


def test_a_value_that_may_stand_for_missing_is_asked_about(run: Run, tmp_path: Path) -> None:
    values = np.arange(120) % 7
    values[5] = -1
    rows = [f"{day:%Y-%m-%d},{v}" for day, v in zip(DAYS, values, strict=True)]
    code, _, errors = run("run", write(tmp_path, "my.csv", ["ds,y", *rows]), "--quick")
    assert code == 2
    assert "1 value of -1, all others from 0 up" in errors
    assert "if it stands for missing give --missing -1" in errors
