from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import TableConfig
from forecaster.errors import DataError
from forecaster.ingest import guess
from forecaster.ingest.build import Sources, build_panel
from forecaster.ingest.guess import find_step
from forecaster.panel.axis import Step
from forecaster.recipe import Recipe

PLACES = 3


def guess_recipe(path: Path, timezone: str | None = None, country: str | None = None) -> Recipe:
    settings = {"panel": {"timezone": timezone, "country": country}}
    return guess.guess_recipe(Sources([path]), settings)[0]


def write(
    folder: Path, values: np.ndarray, freq: str = "h", zone: str | None = "UTC", **names: str
) -> Path:
    times = pd.date_range("2021-03-01", periods=len(values), freq=freq, tz=zone)
    table = pd.DataFrame(values, columns=[f"p{n}" for n in range(values.shape[1])])
    path = folder / "my.csv"
    wide = table.assign(when=times) if names.get("time") == "when" else table.assign(time=times)
    wide.to_csv(path, index=False)
    return path


def counts(steps: int, mean: float = 30.0) -> np.ndarray:
    return np.random.default_rng(0).poisson(mean, (steps, PLACES))


def test_a_year_of_hours_is_a_panel_of_counts_with_lags_by_the_rule(tmp_path: Path) -> None:
    recipe = guess_recipe(write(tmp_path, counts(24 * 300)))
    assert not recipe.lags.model_fields_set
    assert recipe.panel.kind == "count"
    assert recipe.panel.step_minutes == 60
    assert recipe.panel.gaps == "null"
    assert recipe.table is not None
    assert recipe.table.file == "my.csv"
    assert recipe.table.columns == "time=time"
    assert recipe.metrics.mape_cut == 10.0
    assert recipe.evaluation.seeds == 1


def test_a_long_table_is_known_by_its_columns(tmp_path: Path) -> None:
    times = pd.date_range("2021-03-01", periods=24 * 30, freq="h").repeat(PLACES)
    rows = pd.DataFrame({"stamp": times, "sensor": list("abc") * 720, "flow": 1.5, "note": 7.0})
    rows.rename(columns={"stamp": "timestamp"}).to_csv(tmp_path / "s.csv", index=False)
    recipe = guess_recipe(tmp_path / "s.csv", "Europe/Berlin", "DE")
    assert recipe.table is not None
    assert recipe.table.columns == "time=timestamp,id=sensor,value=flow"
    assert (recipe.panel.timezone, recipe.panel.country) == ("Europe/Berlin", "DE")
    assert recipe.panel.nonexistent == "null"  # its times have no offset
    assert recipe.panel.kind == "measurement"


@pytest.mark.parametrize(
    ("values", "kind"),
    [(np.array([0.0, 3.0]), "count"), (np.array([0.5, 3.0]), "measurement"),
     (np.array([-2.0, 3.0]), "measurement"), (np.array([np.nan, 3.0]), "count")],
)  # fmt: skip
def test_whole_numbers_from_zero_up_are_counts(
    tmp_path: Path, values: np.ndarray, kind: str
) -> None:
    table = np.tile(values, (24 * 15, 1)).repeat(2, axis=1)
    assert guess_recipe(write(tmp_path, table)).panel.kind == kind


@pytest.mark.parametrize(
    ("freq", "minutes"), [("5min", 5), ("15min", 15), ("D", 1440), ("7D", 10080)]
)
def test_the_step_is_the_commonest_distance(tmp_path: Path, freq: str, minutes: int) -> None:
    path = write(tmp_path, counts(200), freq)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:60] + lines[64:]) + "\n")  # a gap
    assert guess_recipe(path).panel.step_minutes == minutes


@pytest.mark.parametrize(
    ("freq", "zone", "taken"),
    [("D", None, "UTC"), ("7D", None, "UTC"), ("h", None, "Europe/Paris"),
     ("D", "UTC", "Europe/Paris")],
)  # fmt: skip
def test_days_without_an_offset_are_of_utc_whatever_the_timezone(
    tmp_path: Path, freq: str, zone: str | None, taken: str
) -> None:
    path = write(tmp_path, counts(400), freq, zone)
    assert guess_recipe(path, "Europe/Paris").panel.timezone == taken


def test_the_step_alone_may_be_guessed(tmp_path: Path) -> None:
    path = write(tmp_path, counts(200), "15min", time="when")
    assert find_step(path, TableConfig(columns="time=when")) == Step(15)


@pytest.mark.parametrize(
    ("freq", "months"), [("MS", 1), ("ME", 1), ("QS", 3), ("QE", 3), ("YS", 12), ("YE", 12)]
)
def test_months_quarters_and_years_are_steps_of_months(
    tmp_path: Path, freq: str, months: int
) -> None:
    recipe = guess_recipe(write(tmp_path, counts(41), freq, None), "Europe/Paris")
    assert recipe.panel.step_months == months
    assert recipe.panel.timezone == "UTC"


def test_months_of_another_zone_are_those_of_utc(tmp_path: Path) -> None:
    path = write(tmp_path, counts(41), "MS", "UTC")
    assert guess_recipe(path, "America/New_York").panel.timezone == "UTC"


@pytest.mark.parametrize(("freq", "minutes"), [("7D", 10080), ("30D", 43200), ("D", 1440)])
def test_days_are_not_taken_for_months(tmp_path: Path, freq: str, minutes: int) -> None:
    assert find_step(write(tmp_path, counts(43), freq, None)) == Step(minutes)


def test_steps_that_fit_no_day_are_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"most times are 420 s apart.*aggregate the values"):
        guess_recipe(write(tmp_path, counts(200), "7min"))
    with pytest.raises(DataError, match="1 time; at least two are needed"):
        guess_recipe(write(tmp_path, counts(1)))


def test_small_numbers_get_a_smaller_cut_and_all_a_balanced_loss(tmp_path: Path) -> None:
    small = guess_recipe(write(tmp_path, counts(24 * 60, mean=3.0)))
    assert small.metrics.mape_cut == 3.0
    large = guess_recipe(write(tmp_path, counts(24 * 60, mean=900.0)))
    assert large.metrics.mape_cut == 10.0
    assert small.preset == large.preset == "best"
    assert small.training.eta == large.training.eta == "balanced"  # by that preset


def test_what_may_be_negative_has_no_relative_errors(tmp_path: Path) -> None:
    frost = counts(24 * 60) - 20.5
    recipe = guess_recipe(write(tmp_path, frost))
    assert recipe.metrics.mape_cut > np.abs(frost).max()


def test_nothing_of_the_last_part_which_is_tested_decides_how_is_learned(tmp_path: Path) -> None:
    values = counts(24 * 60)
    before = guess_recipe(write(tmp_path, values))
    values[int(0.7 * len(values)) :] *= 100
    after = guess_recipe(write(tmp_path, values))
    assert after == before


def test_a_constant_table_keeps_the_papers_cut(tmp_path: Path) -> None:
    recipe = guess_recipe(write(tmp_path, np.zeros((24 * 30, PLACES))))
    assert recipe.metrics.mape_cut == 10.0


def with_total(folder: Path) -> Sources:
    days = pd.date_range("2023-01-02", periods=61).strftime("%Y-%m-%d")
    east, west, south = (np.arange(61) * k % 17 for k in (3, 5, 7))
    frame = pd.DataFrame({"day": days, "east": east, "west": west, "south": south})
    frame["all"] = east + west + south
    frame.to_csv(folder / "t.csv", index=False)
    return Sources([folder / "t.csv"])


def test_a_total_is_left_out_by_the_recipe_unless_it_is_asked_for(tmp_path: Path) -> None:
    sources = with_total(tmp_path)
    recipe, rows = guess.guess_recipe(sources)
    assert recipe.table is not None
    assert recipe.table.leave_out == rows.left_out == ("all",)
    panel = build_panel(recipe, sources)
    assert panel.locations.ids == ("east", "south", "west")
    for leave_out, ids in (((), 4), (("west",), 3)):
        said = {"table": {"leave_out": leave_out}}
        recipe, rows = guess.guess_recipe(sources, said)
        assert len(build_panel(recipe, sources).locations) == ids
        assert not any("the sum of all others" in note for note in rows.notes)


def test_the_recipe_of_events_tells_how_they_become_steps(tmp_path: Path) -> None:
    seconds = np.random.default_rng(1).integers(0, 61 * 86_400, 997)
    times = (pd.Timestamp("2023-01-02") + pd.to_timedelta(seconds, unit="s")).sort_values()
    frame = pd.DataFrame({"receipt": range(997), "paid_at": times, "amount": 2.5})
    frame.to_csv(tmp_path / "t.csv", index=False)
    sources = Sources([tmp_path / "t.csv"])
    recipe, _ = guess.guess_recipe(sources)
    assert recipe.table is not None
    assert (recipe.table.combine, recipe.table.nearest) == ("sum", False)
    assert (recipe.panel.step_minutes, recipe.panel.gaps) == (60, "zero")
    values = build_panel(recipe, sources).values
    assert np.nansum(values) == 997 * 2.5
    assert (values == 0).any()
