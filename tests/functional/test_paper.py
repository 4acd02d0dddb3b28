"""The paper's recipe, and its every step on a small copy of the files that it needs."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from forecaster.cli.app import main
from forecaster.config import GraphConfig, Season
from forecaster.estimators.registry import load_estimator
from forecaster.graph.storage import open_graph
from forecaster.ingest.build import find_sources
from forecaster.ingest.fetch.months import parse_months
from forecaster.ingest.weather import WEATHER_NAMES
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, read_recipe
from forecaster.splits import SPLITS, Splits, cut_windows
from tests.functional.paper_files import HOT, LOST_REPORTS, Truth, write_paper_files

RECIPE = Path(__file__).parents[2] / "recipes" / "nyc_taxi_paper.toml"
AUTUMNS = (  # days on which New York shows 01:00 twice: 05:00 and 06:00 of UTC
    "2009-11-01", "2010-11-07", "2011-11-06", "2012-11-04", "2013-11-03", "2014-11-02",
    "2015-11-01",
)  # fmt: skip


def overrides() -> list[str]:
    """Return what is smaller than in the paper: demand, networks, lags, days and training."""
    return [
        'splits.train=[["2009-01-01", "2009-03-31"], ["2015-04-01", "2015-06-30"]]',
        'splits.validation=[["2012-01-01", "2012-01-14"]]',
        'splits.test=[["2016-06-17", "2016-06-30"]]',
        "trips.min_demand=0.5",
        "metrics.mape_cut=3.0",
        "model={per_location=2, auxiliary=4, heads=2}",
        "lags.recent=2",
        "lags.seasons=[{days=1,count=1,before=0,after=2},{days=7,count=4,before=0,after=0}]",
        "dcrnn={recent=2, units=2, n_layers=1}",
        "training.batch=512",
        "training.epochs=1",
        "evaluation.seeds=1",
        "evaluation.widths=[4, 8]",
    ]


@dataclass(frozen=True)
class Copy:
    """The small copy, and what the command made of it."""

    truth: Truth
    out: Path
    panel: Panel

    @property
    def splits(self) -> Splits:
        return Splits.from_config(self.panel, read_recipe(RECIPE).splits)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Return what `forecaster run` makes of the copy, and what is true of it; made once."""
    folder = tmp_path_factory.mktemp("paper")
    data, out = folder / "data", folder / "out"
    truth = write_paper_files(data)
    settings = [word for text in overrides() for word in ("--set", text)]
    with pytest.raises(SystemExit) as left:
        main(["run", str(RECIPE), "--data", str(data), "--out", str(out), *settings])
    assert not left.value.code
    return Copy(truth, out, Panel.open(out / "panel"))


# ------------------------------------------------------------------------------- the recipe


def test_the_recipe_has_every_number_of_the_paper() -> None:
    recipe = read_recipe(RECIPE)
    assert recipe.trips is not None
    assert recipe.trips.min_demand == 10.0  # section 3.1.1, footnote
    assert recipe.trips.demand_hours == "2009-01-01:2016-06-30"  # all hours
    assert recipe.splits.train == (("2009-01-01", "2011-12-31"), ("2012-07-01", "2015-06-30"))
    assert recipe.splits.validation == (("2012-01-01", "2012-06-30"),)
    assert recipe.splits.test == (("2015-07-01", "2016-06-30"),)
    assert (recipe.lags.recent, recipe.lags.horizon, recipe.lags.length) == (6, 3, 76)  # 3.1.2
    day, week = recipe.lags.seasons
    assert day == Season(days=1, count=6, before=1, after=5)
    assert week == Season(days=7, count=4, before=1, after=5)
    assert recipe.metrics.mape_cut == 10.0  # 3.1.3
    assert recipe.model.per_location * 996 + recipe.model.auxiliary == 4_048  # 3.2.1
    assert recipe.model.n_layers == 1
    assert recipe.training.eta == 8e-3  # Eq. 7
    assert recipe.graph == GraphConfig(kind="lasso", subtract="nothing", threshold=0.1)  # 3.3
    assert recipe.evaluation.seeds == 6
    models = ("VAR", "DCRNN", "Transformer", "Transformer-best", "Forecaster")
    assert recipe.evaluation.models == models  # Table 1


def test_what_the_paper_leaves_open_is_as_everywhere() -> None:
    recipe, usual = read_recipe(RECIPE), Recipe()
    assert recipe.model == usual.model
    assert recipe.training == usual.training
    assert recipe.dcrnn == usual.dcrnn


def test_the_recipe_takes_the_90_months_and_no_others(tmp_path: Path) -> None:
    recipe = read_recipe(RECIPE)
    (tmp_path / "yellow_taxi").mkdir()
    for month in parse_months("2008-07:2017-12"):
        (tmp_path / "yellow_taxi" / f"yellow_tripdata_{month}.csv").touch()
    for name in ("manhattan_roadmap.csv", "new_york_weather.csv"):
        (tmp_path / name).touch()
    found = [path.stem for path in find_sources(recipe, tmp_path).values]
    months = parse_months("2009-01:2016-06")
    assert found == [f"yellow_tripdata_{month}" for month in months]
    assert len(found) == 90


# --------------------------------------------------------------------------------- its panel


@pytest.mark.slow
def test_the_panel_has_every_hour_of_the_paper(paper: Copy) -> None:
    assert len(paper.panel.values) == 65_711  # 7.5 years of wall clock less the spring of 2016
    ends = paper.panel.clock.local(paper.panel.times[[0, -1]])
    assert [str(end) for end in ends] == ["2009-01-01T00:00:00", "2016-06-30T23:00:00"]


@pytest.mark.slow
def test_the_hot_places_are_found_and_have_all_the_rides_around_them(paper: Copy) -> None:
    true = paper.truth.city
    assert paper.panel.locations.ids == ("1", "2", "3", "4", "5")  # the first of the road map
    assert len(paper.panel.locations) == HOT
    assert paper.panel.locations.lat == pytest.approx(true.locations.lat)
    rides = true.values.copy()
    rides[_shown_twice(true)] = np.nan
    assert np.array_equal(paper.panel.values, rides, equal_nan=True)


@pytest.mark.slow
def test_every_row_of_the_90_files_is_accounted_for(paper: Copy) -> None:
    counts, true = paper.panel.counts, paper.truth
    doubtful = int(true.city.values[_shown_twice(true.city)].sum())
    rejected = {"bad_timestamp": 0, **true.rejected, "ambiguous_local_time": doubtful}
    assert min(true.rejected.values()) > 0  # the copy has every fault that it names
    assert counts["rows_in"] == true.rows
    assert counts["rejected"] == rejected
    assert counts["counted"] == true.rows - sum(rejected.values())


@pytest.mark.slow
def test_the_auxiliary_information_has_39_entries(paper: Copy) -> None:
    panel, true = paper.panel, paper.truth.city.covariates.values
    calendar = panel.clock.calendar(panel.times)
    assert panel.covariates.names == WEATHER_NAMES
    assert (len(WEATHER_NAMES), calendar.shape[1]) == (7, 32)
    reported = np.delete(np.arange(len(true)), LOST_REPORTS)
    assert np.abs(panel.covariates.values - true)[reported].max() < 0.01  # as units are rounded
    assert panel.counts["weather_filled"] == 3
    days = panel.clock.local(panel.times).astype("datetime64[D]")
    assert calendar[days == np.datetime64("2012-07-04"), -1].tolist() == [1.0] * 24


def _shown_twice(city: Panel) -> np.ndarray:
    """Return the steps at times that the clock shows twice."""
    hours = [np.datetime64(f"{day}T{hour}", "s") for day in AUTUMNS for hour in ("05", "06")]
    return np.flatnonzero(np.isin(city.times, hours))


# ----------------------------------------------------------------------- splits and windows


@pytest.mark.slow
def test_the_splits_share_the_hours_out(paper: Copy) -> None:
    panel = paper.panel
    hours = {name: paper.splits.mask(name, panel.clock, panel.times).sum() for name in SPLITS}
    # Both ranges of training begin and end in the same season, so that as many hours pass as the
    # wall clock shows: 2 · 1,095 days. Validation begins in winter and ends in summer: one less.
    assert hours == {"train": 52_560, "validation": 182 * 24 - 1, "test": 366 * 24}
    assert sum(hours.values()) == len(panel.values)


@pytest.mark.slow
def test_the_windows_are_those_that_fit_into_a_split(paper: Copy) -> None:
    windows = cut_windows(paper.panel, paper.splits, read_recipe(RECIPE).lags)
    # 3 targets leave 2 windows less than hours, 4,365 of 4,367. Either range of training loses
    # 674 more: the panel has no history for the first, and for the second it lies in validation.
    # An hour shown twice is missing, and so no origin.
    assert len(windows.train) == 52_560 - 2 - 2 * 674 - 2 - 2 * 6
    assert len(windows.validation) == 4_367 - 2
    assert len(windows.test) == 8_784 - 2 - 2
    assert windows.dropped["training history in held-out steps"] == 674  # T
    assert windows.dropped["too little history observed"] == 2 * len(AUTUMNS)


# --------------------------------------------------------------- graph, training, comparison


@pytest.mark.slow
def test_the_graph_is_that_of_the_conditional_correlations(paper: Copy) -> None:
    (folder,) = (paper.out / "graphs").iterdir()
    graph = open_graph(folder)
    assert graph.about.subtracted == "nothing"
    assert {tuple(pair) for pair in graph.pairs.tolist()} == _dependent_pairs(paper)


@pytest.mark.slow
def test_every_model_of_the_papers_table_is_trained_and_tested(paper: Copy) -> None:
    content = json.loads((paper.out / "table.json").read_text(encoding="utf-8"))
    rows = {row["model"]: row for row in content["rows"]}
    served = [name for name in rows if not name.endswith(", without fallback")]
    assert served == ["VAR", "DCRNN", "Transformer", "Transformer-best", "Forecaster"]
    assert not any(row["failures"] for row in rows.values())
    assert rows["Transformer-best"]["chosen"]["width"] in ("4", "8")
    assert all(list(row["weather"]) == ["observed", "persist"] for row in rows.values())
    assert content["days"] == 14
    assert (paper.out / "report.html").exists()


@pytest.mark.slow
def test_the_model_forecasts_from_the_last_hours(paper: Copy) -> None:
    content = json.loads((paper.out / "table.json").read_text(encoding="utf-8"))
    run = next(row for row in content["rows"] if row["model"] == "Forecaster")["runs"]["0"]
    table = load_estimator(paper.out / run).forecast(paper.panel, at="2016-06-30T20:00-04:00")
    assert table["ds_local"].unique().tolist()[-1] == "2016-06-30T23:00:00-04:00"
    assert len(table) == 3 * HOT
    assert (table["y_hat"] >= 0).all()


def _dependent_pairs(paper: Copy) -> set[tuple[int, int]]:
    """Return the pairs whose conditional correlation (Eq. 3) in training is 0.1 or more."""
    splits = Splits.from_config(paper.panel, read_recipe(paper.out / "recipe.toml").splits)
    train = splits.mask("train", paper.panel.clock, paper.panel.times)
    known = train & ~np.isnan(paper.panel.values).any(axis=1)
    precision = np.linalg.inv(np.corrcoef(paper.panel.values[known].T))
    scale = 1 / np.sqrt(np.diag(precision))
    pairs = np.argwhere(np.triu(np.abs(precision * np.outer(scale, scale)) >= 0.1, k=1))
    return {(int(a), int(b)) for a, b in pairs}
