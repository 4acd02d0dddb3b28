"""`forecaster run` on files as people have them."""

import io
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.cli.app import main
from forecaster.panel.panel import Panel
from forecaster.recipe import read_recipe

Run = Callable[..., tuple[int, str, str]]
DAYS, SHOPS = 41, ("Nord", "Mitte", "Süd")


@dataclass(frozen=True)
class Made:
    """What `forecaster run` made of a folder of files, and said."""

    folder: Path
    text: str
    errors: str


def write_shops(folder: Path) -> None:
    """Write what a German spreadsheet exports: sales, prices, shops and the weather."""
    generator = np.random.default_rng(0)
    times = pd.date_range("2022-03-28", periods=24 * DAYS, freq="h")
    lines = ["Filiale;Zeit;Absatz;Preis;Aktion"]
    for number, shop in enumerate(SHOPS, start=1):
        usual = 30 * number * (1 + 0.6 * np.sin(2 * np.pi * times.hour.to_numpy() / 24))
        sales = generator.poisson(usual)
        for time, sold, price in zip(
            times, sales, generator.uniform(1, 3, len(times)), strict=True
        ):
            decimal = f"{price:.2f}".replace(".", ",")
            ahead = time >= times[-6]  # prices and promotions of the next steps are set
            cells = [shop, f"{time:%d.%m.%Y %H:%M}", "" if ahead else str(sold), decimal]
            lines.append(";".join([*cells, "1" if time.day % 7 == 0 else "0"]))
    (folder / "shops.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    places = "".join(f"{shop};{50 + n};{8 + n};{100 * n}\n" for n, shop in enumerate(SHOPS))
    (folder / "places.csv").write_text("id;lat;lon;Fläche\n" + places, encoding="utf-8")
    weather = pd.DataFrame(
        {"time": times[:-6], "temperature": generator.normal(9, 3, len(times) - 6)}
    )
    weather.to_csv(folder / "weather.csv", index=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return what a run made, not to be changed."""
    folder = tmp_path_factory.mktemp("run")
    write_shops(folder)
    words = ["run", folder / "shops.csv", "--out", folder / "out", "--timezone", "Europe/Berlin",
             "--locations", folder / "places.csv", "--covariates", folder / "weather.csv",
             "--models", "LastValue,Ridge", "--horizon", "6h"]  # fmt: skip
    text, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(text), redirect_stderr(errors), pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    assert not left.value.code, errors.getvalue()
    return Made(folder, text.getvalue(), errors.getvalue())


@pytest.mark.slow
def test_L10_shops_with_hours_and_what_is_past_only_in_one_command(
    run: Run, tmp_path: Path
) -> None:
    days = pd.date_range("2023-01-01", "2023-06-24")  # the last one is a Saturday
    days = days[days.day_of_week < 6]
    generator = np.random.default_rng(1)
    sales = generator.normal(50, 5, len(days)).round(2)
    table = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "sales": sales, "heat": sales - 9})
    heat = pd.concat([table, pd.DataFrame({"day": ["2023-06-26", "2023-06-27", "2023-06-28"],
                                           "heat": [1.0, 2.0, 3.0]})])  # fmt: skip
    heat.to_csv(tmp_path / "shop.csv", index=False)
    code, output, errors = run(
        "run", tmp_path / "shop.csv", "--out", tmp_path / "out", "--models", "LastValue",
        "--columns", "time=day,value=sales", "--past-only", "heat",
        "--hours", "Mon-Sat; Sun off; 2023-05-01 off",
    )  # fmt: skip
    assert code == 0, errors
    assert "covariates past-only: heat" in errors
    panel = Panel.open(tmp_path / "out" / "panel")
    assert panel.past_only == ("heat",)
    assert panel.locations.hours == ("Mon-Sat; Sun off; 2023-05-01 off",)
    assert "Forecast of LastValue after 2023-06-24 (UTC)" in output
    assert "2023-06-26" in output.split("brackets")[0]  # of Sunday a measurement has no row
    assert "2023-06-25" not in output.split("brackets")[0]


@pytest.mark.slow
def test_a_spreadsheets_file_is_understood_in_three_lines(made: Made) -> None:
    assert made.errors.splitlines()[:3] == [
        "shops.csv: semicolon-separated, cp1252, decimal comma",
        "long: time = Zeit, id = Filiale, value = Absatz; covariates known ahead: Preis, Aktion, "
        "past-only: temperature, of the locations: Fläche",
        "3 locations, steps of 60 min, counts, 2022-03-28 00:00 … 2022-05-07 23:00 "
        "(Europe/Berlin)",
    ]


@pytest.mark.slow
def test_prices_weather_and_the_size_of_a_shop_are_covariates_of_the_panel(made: Made) -> None:
    panel = Panel.open(made.folder / "out" / "panel")
    assert panel.locations.ids == SHOPS
    assert panel.values.shape == (24 * DAYS - 6, 3)  # to the last value
    assert panel.local_covariates.names == ("Aktion", "Preis", "Fläche")
    assert panel.known_ahead == ("Aktion", "Preis")
    assert np.isfinite(panel.local_covariates.values[:2, -6:]).all()
    assert panel.covariates.names == ("temperature",)
    assert panel.local_covariates.values[2, 0].tolist() == [0.0, 100.0, 200.0]
    assert panel.locations.lat.tolist() == [50.0, 51.0, 52.0]


@pytest.mark.slow
def test_the_next_steps_come_first_and_then_what_they_are_worth(made: Made) -> None:
    forecast, worth = made.text.split("RMSE", maxsplit=1)
    assert "after 2022-05-07 17:00 (Europe/Berlin)" in forecast
    assert forecast.index("Süd") < forecast.index("Mitte") < forecast.index("Nord")  # by size
    assert "05-07 18:00" in forecast
    assert "05-07 23:00" in forecast
    assert "where 80 % of outcomes are expected" in forecast
    assert "Ridge" in worth
    assert made.errors.splitlines()[-1].startswith("forecast, all steps and locations: ")
    table = pd.read_csv(made.folder / "out" / "forecast.csv")
    assert len(table) == 6 * len(SHOPS)
    assert set(table["cutoff"]) == {"2022-05-07T15:00:00+0000"}


@pytest.mark.slow
def test_the_result_fits_a_screen_of_100_columns_without_markdown(made: Made) -> None:
    lines = made.text.splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) < 30  # the forecast stands above the scores on the same screen
    assert not any(mark in made.text for mark in ("| ", "**", "--:"))
    assert "| RMSE | average |" in (made.folder / "out" / "table.md").read_text()


@pytest.mark.slow
def test_a_panel_folder_is_run_like_its_table(run: Run, made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.folder / "out" / "panel", tmp_path / "panel")
    words = ("--out", tmp_path / "out", "--models", "LastValue", "--horizon", "2h")
    code, text, errors = run("run", tmp_path / "panel", *words)
    assert code == 0, errors
    assert re.search(r"^LastValue +[0-9.]+ ", text, re.MULTILINE)
    assert len(pd.read_csv(tmp_path / "out" / "forecast.csv")) == 2 * len(SHOPS)
    code, _, errors = run("run", tmp_path / "panel", "--kind", "count", "--columns", "time=a")
    assert code == 2
    assert "--kind, --columns are for tables; a panel has its own; leave them out" in errors


@pytest.mark.slow
def test_several_files_are_one_table(run: Run, tmp_path: Path) -> None:
    times = pd.date_range("2021-01-01", periods=120, freq="D")
    for name, offset in (("north", 0), ("south", 50)):
        values = offset + np.arange(120) % 7
        frame = pd.DataFrame({"ds": times.strftime("%Y-%m-%d"), "y": values})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    files = (tmp_path / "north.csv", tmp_path / "south.csv")
    words = ("--out", tmp_path / "out", "--models", "SeasonalNaive", "--horizon", "2d")
    code, text, errors = run("run", *files, *words)
    assert code == 0, errors
    assert Panel.open(tmp_path / "out" / "panel").locations.ids == ("north", "south")
    assert "2021-05-01" in text
    rules = read_recipe(tmp_path / "out" / "recipe.toml").table
    assert rules is not None
    assert rules.files == ("north.csv", "south.csv")


def test_help_explains_each_option_by_example(run: Run) -> None:
    code, text, _ = run("run", "--help")
    assert code == 0
    plain = " ".join(text.replace("│", " ").split())
    for words in ("time=when,id=sensor,value=flow", "15min, 1h, 1d, 1 month", "-999 or -1,n/a",
                  "Europe/Berlin", "places.csv", "weather.csv", "24h, 7d", "--quick"):  # fmt: skip
        assert words in plain, words


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("a;b\n1;2\n", (), "no unique time column; found: a, b; give --columns time="),
        ("ds,y\n2022-01-01,5\n2022-01-02,-1\n", (), "1 value of -1, all others from 5 up"),
        ("ds,y\n01/02/2022,5\n02/02/2022,7\n", (), "give --dates day-first or --dates month-f"),
        ("ds;y\n2022-01-01;1,234\n", (), "'1,234' may have thousands or decimals; give --decimal"),
        ("ds,y\n2022-01-01,5\n", ("--step", "soon"), "step 'soon': not a length of time; give e"),
        ("ds,y\n2022-01-01,5\n", ("--columns", "time=when"), "no column when; found: ds, y"),
    ],
)
def test_what_is_unclear_is_asked_for_before_anything_is_written(
    run: Run, tmp_path: Path, text: str, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "a.csv").write_text(text)
    code, _, errors = run("run", tmp_path / "a.csv", "--out", tmp_path / "out", *words)
    assert code in (2, 3)
    assert message in errors
    assert not (tmp_path / "out").exists()
