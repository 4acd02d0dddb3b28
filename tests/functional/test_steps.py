"""Tables of other steps than hours: from a CSV to a report in one command."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.panel.panel import Panel

Run = Callable[..., tuple[int, str, str]]
QUICK = ("--set", "training.epochs=1", "--set", 'evaluation.models=["HistoricalMean"]')


def write(path: Path, times: "pd.Index[str]", period: int) -> Path:
    generator, steps = np.random.default_rng(3), np.arange(len(times))
    shape = 90 + 40 * np.sin(2 * np.pi * steps / period)
    columns = {f"shop{n}": generator.poisson(shape * (n + 1)) for n in range(3)}
    pd.DataFrame({"date": times, **columns}).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_table_of_months_becomes_a_report(tmp_path: Path, run: Run) -> None:
    months = pd.date_range("2012-02-01", periods=127, freq="MS").strftime("%Y-%m")
    out = tmp_path / "out"
    code, text, errors = run("run", write(tmp_path / "m.csv", months, 12), "--out", out, *QUICK)
    assert code == 0, errors
    assert (
        "12 recent steps of 1 month; 1 before to 3 after the same time 1 to 3 years back" in errors
    )
    assert "HistoricalMean" in text
    assert (out / "report.html").exists()
    panel = Panel.open(out / "panel")
    assert panel.clock.step_months == 1
    assert str(panel.times[-1]) == "2022-08-01T00:00:00"


@pytest.mark.slow
def test_a_table_of_minutes_becomes_a_report(tmp_path: Path, run: Run) -> None:
    minutes = pd.date_range("2024-03-01", periods=4 * 1440 + 7, freq="min")
    table = write(tmp_path / "s.csv", minutes.strftime("%Y-%m-%d %H:%M"), 1440)
    out, words = tmp_path / "out", ("--horizon", "10min")
    code, _, errors = run("run", table, "--out", out, *words, *QUICK)
    assert code == 0, errors
    assert "30 recent steps of 1 min" in errors
    assert "no week" in errors
    assert "| +10 |" in (out / "table.md").read_text()
    assert (out / "report.html").exists()


@pytest.mark.slow
def test_L10_a_table_of_shops_closed_on_sundays_becomes_a_report(tmp_path: Path, run: Run) -> None:
    days = pd.date_range("2023-01-02", "2023-10-14")
    days = days[days.day_of_week < 6]
    table, out = write(tmp_path / "s.csv", days.strftime("%Y-%m-%d"), 6), tmp_path / "out"
    models = ("--models", "SeasonalNaive,HistoricalMean", "--horizon", "7d")
    code, text, errors = run("run", table, "--out", out, *models)
    assert code == 0, errors
    first = text.split("in brackets")[0]
    assert first.count("closed") == 3  # each shop, on the Sunday after the last day
    assert "2023-10-21" in first
    assert Panel.open(out / "panel").locations.hours == ("Sun off",) * 3
    assert "HistoricalMean" in (out / "report.html").read_text(encoding="utf-8")


def test_fourteen_months_are_refused_in_plain_words(tmp_path: Path, run: Run) -> None:
    months = pd.date_range("2021-01-31", periods=14, freq="ME").strftime("%Y-%m-%d")
    table = write(tmp_path / "m.csv", months, 12)
    code, _, errors = run("run", table, "--out", tmp_path / "out", *QUICK)
    assert code == 3
    assert "The panel has 14 steps of 1 month" in errors
    assert "a yearly season alone needs about 34" in errors
