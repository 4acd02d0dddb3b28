"""Drives `forecaster forecast` beyond the plain table: what if, areas, and input that is wrong."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.panel.panel import Panel, local_texts
from forecaster.panel.parts import Covariates, Locations
from forecaster.splits import Splits

Run = Callable[..., tuple[int, str, str]]
NAMES = ("temperature_c", "rain")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a panel of five places and runs of two estimators."""
    folder = tmp_path_factory.mktemp("forecast")
    city = small_city()
    lat, lon = np.linspace(52.4, 52.6, 5), np.linspace(13.2, 13.5, 5)
    places = Locations(city.locations.ids, tuple("ABCDE"), lat, lon)
    weather = Covariates(NAMES, city.covariates.values)
    panel = replace(city, locations=places, covariates=weather).save(folder / "panel")
    for make in (Ridge, SeasonalNaive):
        make(RECIPE).fit(panel, Splits.by_share(panel)).save(folder / make.__name__)
    areas = {"north": ["place 3", "place 4"], "whole": places.ids}
    rows = [(area, identity) for area, ids in areas.items() for identity in ids]
    pd.DataFrame(rows, columns=["area", "id"]).to_csv(folder / "areas.csv", index=False)
    return folder


@pytest.fixture
def forecast(made: Path, run: Run) -> Run:
    """Return a function that forecasts with a run of the folder."""

    def call(name: str, *words: object) -> tuple[int, str, str]:
        panel = Panel.open(made / "panel")
        at = f"{panel.times[-5]}Z"
        return run("forecast", made / name, "--panel", made / "panel", "--at", at, *words)

    return call


def read(output: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(output))


def test_with_a_state_a_forecast_is_the_same_and_its_corrections_are_kept(
    forecast: Run, tmp_path: Path
) -> None:
    plain = forecast("SeasonalNaive")[1]
    for _ in range(2):
        code, output, _ = forecast("SeasonalNaive", "--state", tmp_path / "state")
        assert code == 0
        assert output == plain
    assert (tmp_path / "state" / "manifest.json").exists()


def test_a_forecast_has_quantiles_in_order(forecast: Run) -> None:
    code, output, _ = forecast("Ridge")
    table = read(output)
    assert code == 0
    columns = ["unique_id", "ds", "ds_local", "cutoff", "y_hat", "q10", "q50", "q90"]
    assert table.columns.tolist() == columns
    assert (table["q10"] <= table["q50"]).all()
    assert (table["q50"] <= table["q90"]).all()
    assert (table["q10"] >= 0).all()


def test_without_a_time_the_forecast_begins_at_the_panels_last_step(made: Path, run: Run) -> None:
    panel = Panel.open(made / "panel")
    words = ("forecast", made / "Ridge", "--panel", made / "panel", "--allow-missing")
    code, output, errors = run(*words)
    assert code == 0, errors
    last = local_texts(panel, panel.times[-1:])[0]
    assert errors == f"forecast origin: {last}, the panel's last step; --at sets another\n"
    assert output == run(*words, "--at", last)[1]
    assert read(output)["cutoff"].unique().tolist() == [f"{panel.times[-1]}+0000"]
    assert run(*words, "--quiet") == (0, output, "")


def test_an_origin_with_too_little_history_is_told_to_be_later(made: Path, run: Run) -> None:
    at = f"{Panel.open(made / 'panel').times[1]}Z"
    code, _, errors = run("forecast", made / "Ridge", "--panel", made / "panel", "--at", at)
    assert code == 3
    assert "history incomplete: 78 % of the history" in errors
    assert "use a later origin, or add these values; allow_missing (--allow-missing)" in errors


def test_what_if_adds_the_changed_forecast_and_its_difference(forecast: Run) -> None:
    code, output, errors = forecast("Ridge", "--what-if", "rain=1,temp=70F")
    assert code == 0
    assert not errors
    table = read(output)
    assert table["difference"].any()
    assert table["difference"].to_numpy() == pytest.approx(
        (table["y_hat_what_if"] - table["y_hat"]).to_numpy(), abs=1e-3
    )
    _, celsius, _ = forecast("Ridge", "--what-if", "rain=1,temp=21.1111112C")
    assert read(celsius)["y_hat_what_if"].to_numpy() == pytest.approx(
        table["y_hat_what_if"].to_numpy(), rel=1e-4
    )


def test_what_if_says_how_sure_it_is_of_the_changed_forecast(forecast: Run) -> None:
    code, output, _ = forecast("Ridge", "--what-if", "temp=30")
    assert code == 0
    table = read(output)
    ends = ["y_hat_what_if", "q10_what_if", "q50_what_if", "q90_what_if", "difference"]
    assert table.columns.tolist()[-5:] == ends
    assert (table["q10_what_if"] <= table["q50_what_if"]).all()
    assert (table["q50_what_if"] <= table["q90_what_if"]).all()
    assert not np.allclose(table["q90_what_if"], table["q90"])


def test_what_if_may_be_a_table(forecast: Run, made: Path, tmp_path: Path) -> None:
    panel = Panel.open(made / "panel")
    soon = {"ds": [f"{panel.times[-4]}Z"], "rain": [1 - panel.covariates.values[-8, 1]]}
    pd.DataFrame(soon).to_parquet(tmp_path / "sky.parquet")
    code, output, _ = forecast("Ridge", "--what-if", tmp_path / "sky.parquet")
    assert code == 0
    by_step = read(output).groupby("ds")["difference"].apply(lambda d: bool(d.any())).tolist()
    assert by_step == [True, False]  # only the first step was changed


def test_what_if_says_what_is_outside_training_and_what_changes_nothing(
    forecast: Run, caplog: pytest.LogCaptureFixture
) -> None:
    assert forecast("Ridge", "--what-if", "temp=45")[0] == 0
    assert "temperature_c = 45 lies outside training" in caplog.text
    code, output, _ = forecast("SeasonalNaive", "--what-if", "rain=1")
    assert code == 0
    assert not read(output)["difference"].any()
    assert "SeasonalNaive forecasts the same: it does not use rain" in caplog.text


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_difference_is_drawn_on_a_map(forecast: Run, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"map.{suffix}"
    code, output, errors = forecast("Ridge", "--what-if", "rain=1", "--map", path)
    assert code == 0
    assert len(read(output)) == 2 * 5
    assert f"map of the difference: {path}" in errors
    begin = {"png": b"\x89PNG", "svg": b"<?xml"}[suffix]
    assert path.read_bytes().startswith(begin)


def test_areas_are_rows_below_with_their_own_intervals(forecast: Run, made: Path) -> None:
    code, output, _ = forecast("Ridge", "--area", made / "areas.csv", "--what-if", "rain=1")
    assert code == 0
    table = read(output)
    assert table["unique_id"].tolist()[-4:] == ["north", "north", "whole", "whole"]
    own, whole = table.iloc[:10], table.iloc[-2:]
    for column in ("y_hat", "y_hat_what_if", "difference"):
        sums = own.groupby("ds")[column].sum().to_numpy()
        assert whole[column].to_numpy() == pytest.approx(sums, rel=1e-4, abs=1e-4)
    widths = (own["q90"] - own["q10"]).groupby(own["ds"]).sum().to_numpy()
    assert ((whole["q90"] - whole["q10"]).to_numpy() < widths).all()
    assert (whole["q10"] < whole["y_hat"]).all()
    assert (whole["q90"] > whole["y_hat"]).all()
    moved = whole[["q10_what_if", "q90_what_if"]].to_numpy() - whole[["q10", "q90"]].to_numpy()
    assert moved == pytest.approx(np.stack([whole["difference"]] * 2, axis=1), abs=1e-2)


def test_geojson_of_places_that_lie_nowhere_is_refused_before_the_run_is_read(
    made: Path, run: Run, tmp_path: Path
) -> None:
    small_city().save(tmp_path / "panel")
    words = ("--panel", tmp_path / "panel", "--out", tmp_path / "next.geojson")
    code, _, errors = run("forecast", made / "nowhere", *words)
    assert code == 3
    assert "no location has coordinates" in errors
    assert not (tmp_path / "next.geojson").exists()


def test_areas_have_no_place_on_a_map(forecast: Run, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "f.geojson"
    code, _, _ = forecast("Ridge", "--area", made / "areas.csv", "--out", path)
    assert code == 0
    features = json.loads(path.read_text())["features"]
    assert [f["geometry"] is None for f in features] == [False] * 10 + [True] * 4
    assert features[-1]["properties"]["name"] == "whole"
    assert features[0]["properties"]["name"] == "A"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--what-if", "rian=1,temp=x"], 2, "what if: 2 faults"),
        (["--what-if", "rian=1"], 2, "did you mean 'rain'?"),
        (["--what-if", "holiday=1"], 2, "holiday: the run knows of no holidays"),
        (["--what-if", "nowhere.csv"], 3, "nowhere.csv: no such file"),
        (["--area", "nowhere.csv"], 3, "nowhere.csv: no such file"),
        (["--map", "map.png"], 2, "--map draws the difference that --what-if makes"),
        (["--what-if", "rain=1", "--map", "map.html"], 2, "a map is written as .png or .svg"),
    ],
)
def test_wrong_options_are_told(
    forecast: Run, words: list[str], code: int, complaint: str
) -> None:
    found, output, errors = forecast("Ridge", *words)
    assert (found, output) == (code, "")
    assert complaint in errors


def test_areas_with_unknown_ids_are_told_with_all_other_faults(
    forecast: Run, tmp_path: Path
) -> None:
    rows = [("x", "place 1"), ("x", "place 1"), ("x", "plaice 2"), ("place 3", "place 3")]
    pd.DataFrame(rows, columns=["area", "id"]).to_csv(tmp_path / "areas.csv", index=False)
    code, output, errors = forecast("Ridge", "--area", tmp_path / "areas.csv")
    assert (code, output) == (3, "")
    assert "areas.csv: 3 faults" in errors
    assert "1 unknown id: plaice 2; did you mean 'place 2'?" in errors


@pytest.mark.parametrize(
    ("quantiles", "code", "complaint"),
    [
        ("[0.1, 1.0]", 2, "quantiles"),
        ("[0.0, 0.5]", 2, "quantiles"),
        ("[-0.1, 0.5]", 2, "quantiles"),
        ("[0.5, 0.5]", 2, "quantiles"),
        ("[]", 2, "quantiles"),
        ("[0.0001, 0.5]", 3, "need ≥ 19,998"),
    ],
)
def test_wrong_quantiles_are_refused_before_training(
    made: Path, run: Run, tmp_path: Path, quantiles: str, code: int, complaint: str
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.to_toml())
    words = ("--panel", made / "panel", "--set", f"intervals.quantiles={quantiles}")
    found, _, errors = run("train", path, "--out", tmp_path / "run", *words)
    assert found == code, errors
    assert complaint in errors


def test_totals_of_locations_and_areas_have_intervals_of_their_own(
    forecast: Run, made: Path
) -> None:
    code, output, _ = forecast("Ridge", "--by", "day", "--area", made / "areas.csv")
    table = read(output)
    assert code == 0
    assert table.columns.tolist()[:7] == [
        "unique_id", "day", "ds", "ds_local", "steps", "cutoff", "y_hat",
    ]  # fmt: skip
    assert set(table["day"]) == {"horizon"}  # which is shorter than a day
    whole = table[table["unique_id"] == "whole"].iloc[0]
    assert whole["q10"] <= whole["y_hat"] <= whole["q90"]
    code, _, complaint = forecast("Ridge", "--by", "day", "--what-if", "rain=1")
    assert code == 2
    assert "leave out --what-if" in complaint


def test_months_have_no_totals_of_days(run: Run, tmp_path: Path) -> None:
    months = np.arange("2011-01", "2024-02", dtype="datetime64[M]")
    values = 100 + np.random.default_rng(0).normal(0, 9, len(months))
    table = pd.DataFrame({"unique_id": "a", "ds": months.astype(str), "y": values})
    panel = Panel.from_long(table, timezone="UTC", kind="measurement").save(tmp_path / "panel")
    Ridge().fit(panel, Splits.by_share(panel)).save(tmp_path / "run")
    words = ("forecast", tmp_path / "run", "--panel", tmp_path / "panel", "--by", "day")
    code, _, errors = run(*words)
    assert code == 2
    assert "--by day adds up the steps of a day, and the panel has steps of 1 month" in errors


def test_at_night_the_next_steps_are_those_of_the_morning(run: Run, tmp_path: Path) -> None:
    hours = np.arange("2021-03-01T00", "2021-04-12T00", dtype="datetime64[h]")
    hours = hours[hours.astype(int) % 24 >= 5]  # the last one is 23:00
    values = np.random.default_rng(0).poisson(30, len(hours))
    table = pd.DataFrame(
        {"unique_id": "a", "ds": hours.astype("datetime64[m]").astype(str), "y": values}
    )
    panel = Panel.from_long(table, timezone="UTC").save(tmp_path / "panel")
    Ridge().fit(panel, Splits.by_share(panel)).save(tmp_path / "run")
    words = ("forecast", tmp_path / "run", "--panel", tmp_path / "panel")
    code, output, errors = run(*words)
    assert code == 0, errors
    assert read(output)["ds"].str[:16].tolist() == [f"2021-04-12T0{h}:00" for h in (5, 6, 7)]
    assert "forecast origin: 2021-04-12T04:00:00+00:00, the last closed step before" in errors
    code, output, errors = run(*words, "--by", "day")
    assert code == 0, errors
    assert read(output)["steps"].tolist() == [3]
    _, output, errors = run(*words, "--at", "2021-04-11T23:00Z")
    assert set(read(output)["degraded"]) == {"closed"}
    assert "every step ahead is closed; a model trained with a longer --horizon" in errors
    _, _, errors = run(*words, "--at", "2021-04-11T21:00Z")
    assert "every step ahead is closed" not in errors


def test_a_table_of_forecasts_becomes_parquet_files(made: Path, run: Run, tmp_path: Path) -> None:
    rows = [(made / name, made / "panel") for name in ("Ridge", "SeasonalNaive")]
    pd.DataFrame(rows, columns=["run", "panel"]).to_csv(tmp_path / "jobs.csv", index=False)
    code, _, told = run("forecasts", tmp_path / "jobs.csv", "--out", tmp_path / "out")
    assert code == 0
    assert "of 2 forecasts" in told
    table = pd.read_parquet(tmp_path / "out")
    assert table["run"].nunique() == 2
    assert table["y_hat"].notna().all()
    code, _, told = run("forecasts", tmp_path / "jobs.csv", "--out", tmp_path / "out")
    assert code == 2
    assert "exists already" in told
