import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import ConfigError, DataError
from forecaster.estimators.table import (
    check_form,
    forecast_table,
    quantile_name,
    to_geojson,
    write_forecast,
)
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations

MakePanel = Callable[..., Panel]


@pytest.fixture
def panel(make_panel: MakePanel) -> Panel:
    places = Locations(
        ids=("a", "=b()", "c"),
        names=("Alpha", "<b>", "c"),
        lat=np.array([40.7, 40.8, np.nan]),
        lon=np.array([-74.0, -73.9, np.nan]),
    )
    return make_panel(np.ones((24 * 40, 3)), locations=places)


def test_rows_are_keyed_by_id_and_time(panel: Panel) -> None:
    table = forecast_table(panel, 7, np.arange(6, dtype=np.float32).reshape(2, 3), {}, degraded=())
    assert list(table.columns) == ["unique_id", "ds", "ds_local", "cutoff", "y_hat"]
    assert table["unique_id"].tolist() == ["a", "a", "=b()", "=b()", "c", "c"]
    assert table["y_hat"].tolist() == [0, 3, 1, 4, 2, 5]
    assert table["cutoff"].unique().tolist() == [pd.Timestamp("2015-10-01T11:00Z")]
    assert table["ds"][:2].tolist() == [
        pd.Timestamp("2015-10-01T12:00Z"), pd.Timestamp("2015-10-01T13:00Z"),
    ]  # fmt: skip
    assert table["ds_local"][0] == "2015-10-01T08:00:00-04:00"


def test_the_reason_of_a_degraded_location_stands_in_its_rows(panel: Panel) -> None:
    reasons = ("weather none", "", "weather none; odd")
    table = forecast_table(panel, 7, np.ones((2, 3), dtype=np.float32), {}, degraded=reasons)
    assert table["degraded"].tolist() == [reasons[n] for n in (0, 0, 1, 1, 2, 2)]
    none = forecast_table(panel, 7, np.ones((2, 3), dtype=np.float32), {}, degraded=("", "", ""))
    assert "degraded" not in none


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_written_table_reads_back(panel: Panel, tmp_path: Path, suffix: str) -> None:
    table = forecast_table(panel, 7, np.ones((2, 3), dtype=np.float32), {}, degraded=())
    path = tmp_path / f"forecast{suffix}"
    write_forecast(table, panel, path)
    read = pd.read_csv(path, parse_dates=["ds"]) if suffix == ".csv" else pd.read_parquet(path)
    assert read["unique_id"].tolist() == table["unique_id"].tolist()
    assert (pd.to_datetime(read["ds"]) == table["ds"]).all()
    assert np.allclose(read["y_hat"], table["y_hat"])


def test_geojson_has_a_point_for_each_row_that_has_a_place(panel: Panel, tmp_path: Path) -> None:
    table = forecast_table(panel, 7, np.ones((2, 3), dtype=np.float32), {}, degraded=())
    write_forecast(table, panel, tmp_path / "f.geojson")
    features = json.loads((tmp_path / "f.geojson").read_text())["features"]
    assert features == to_geojson(table, panel)["features"]
    assert len(features) == 6
    assert features[0]["geometry"] == {"type": "Point", "coordinates": [-74.0, 40.7]}
    assert features[0]["properties"]["ds"] == "2015-10-01T12:00:00+00:00"
    assert features[4]["geometry"] is None


def test_geojson_of_locations_that_lie_nowhere_is_refused(panel: Panel, tmp_path: Path) -> None:
    nowhere = replace(panel, locations=Locations.of_ids(panel.locations.ids))
    with pytest.raises(DataError, match="no location has coordinates"):
        check_form(nowhere, tmp_path / "f.geojson")
    check_form(nowhere, tmp_path / "f.csv")


def test_another_suffix_is_refused(panel: Panel, tmp_path: Path) -> None:
    table = forecast_table(panel, 7, np.ones((2, 3), dtype=np.float32), {}, degraded=())
    with pytest.raises(ConfigError, match=r"\.csv, \.parquet or \.geojson"):
        write_forecast(table, panel, tmp_path / "f.xlsx")


def test_each_quantile_has_a_column_after_the_forecast(panel: Panel) -> None:
    y = np.arange(6, dtype=np.float32).reshape(2, 3)
    quantiles = {0.025: y - 1, 0.5: y, 0.9: y + 1}
    table = forecast_table(panel, 7, y, quantiles, degraded=("dark", "", "odd"))
    assert list(table.columns)[4:] == ["y_hat", "q2.5", "q50", "q90", "degraded"]
    assert table["q2.5"].tolist() == (table["y_hat"] - 1).tolist()
    assert table["q90"].tolist() == (table["y_hat"] + 1).tolist()


@pytest.mark.parametrize(
    ("level", "name"), [(0.1, "q10"), (0.07, "q7"), (0.29, "q29"), (0.999, "q99.9"), (0.5, "q50")]
)
def test_a_quantile_is_named_in_per_cent(level: float, name: str) -> None:
    assert quantile_name(level) == name
