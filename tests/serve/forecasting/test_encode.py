"""Forecasts as JSON, CSV and GeoJSON."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forecaster.estimators.table import forecast_table
from forecaster.estimators.totals.totals import Span, Totals
from forecaster.panel.parts import Locations
from forecaster.serve.forecasting.encode import (
    BASIS_COLUMNS,
    escape_formula,
    to_csv,
    to_geojson,
    to_json,
    to_numbers,
)
from forecaster.serve.forecasting.forecast import Forecast, ForecastKey
from forecaster.synthetic.city import make_city

NAMES = ("=cmd()", "+1", "-2+3", "@SUM(A1)", "<script>", "plain, quoted", "'")
BASIS = {"model": "0123456789ab", "data_version": 3, "stale": False, "degraded": None}


@given(
    arrays(np.float32, 40, elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    st.integers(-30, 30),
)
def test_L7_rounding_keeps_the_order_of_numbers(values: np.ndarray, power: int) -> None:
    near = 10.0**power * np.array([1 - 2e-7, 1 - 6e-8, 1, 1 + 1.2e-7, 1.000005])
    ordered = np.sort(np.concatenate([values, near.astype(np.float32)]))
    assert (np.diff(to_numbers(ordered)) >= 0).all()


@pytest.fixture
def forecast() -> Forecast:
    """Return a forecast of seven locations with names that would do harm."""
    panel = make_city(7, "2015-03-01", 5).panel
    odd = replace(panel.locations, ids=NAMES, names=NAMES)
    generator = np.random.default_rng(0)
    return Forecast(
        key=ForecastKey("0123456789ab", 3, 4),
        panel=replace(panel, locations=odd),
        origin=panel.times[-1],
        quantile_levels=(0.025, 0.9),
        y_hat=generator.random((3, 7), dtype=np.float32),
        quantiles=generator.random((2, 3, 7), dtype=np.float32),
        last=np.full(7, np.nan, dtype=np.float32),
        usual=np.full((3, 7), np.nan, dtype=np.float32),
        degraded=None,
    )


def test_the_model_that_is_served_at_a_location_is_named(forecast: Forecast) -> None:
    plain = json.loads(b"{" + to_json(forecast) + b"}")["forecasts"]
    assert not any("fallback" in row for row in plain)
    assert "fallback" not in to_csv(forecast, BASIS).decode()
    simple = replace(forecast, fallback={"plain, quoted": "Ridge"})
    rows = json.loads(b"{" + to_json(simple) + b"}")["forecasts"]
    assert [row.get("fallback") for row in rows] == [None] * 5 + ["Ridge", None]
    features = to_geojson(simple)["features"]
    assert features[5]["properties"]["fallback"] == "Ridge"
    table = list(csv.DictReader(io.StringIO(to_csv(simple, BASIS).decode())))
    assert {row["unique_id"] for row in table if row["fallback"] == "Ridge"} == {"plain, quoted"}
    assert list(table[0])[-5:] == ["fallback", *BASIS_COLUMNS]


def test_doubtful_values_of_a_location_are_told_in_every_format(forecast: Forecast) -> None:
    plain = json.loads(b"{" + to_json(forecast) + b"}")["forecasts"]
    assert not any("degraded" in row for row in plain)
    doubtful = replace(forecast, doubts={"+1": "=implausible"})
    rows = json.loads(b"{" + to_json(doubtful) + b"}")["forecasts"]
    assert [row.get("degraded") for row in rows] == [None, "=implausible", *[None] * 5]
    assert to_geojson(doubtful)["features"][1]["properties"]["degraded"] == "=implausible"
    for overall, cells in (
        (None, {"'+1": "'=implausible", "<script>": ""}),
        ("late", {"'+1": "late; =implausible", "<script>": "late"}),
    ):
        table = to_csv(doubtful, {**BASIS, "degraded": overall}, [1, 4]).decode()
        rows = list(csv.DictReader(io.StringIO(table)))
        assert {row["unique_id"]: row["degraded"] for row in rows} == cells


def test_W5_no_cell_begins_a_formula(forecast: Forecast) -> None:
    rows = list(csv.reader(io.StringIO(to_csv(forecast, BASIS).decode())))
    assert rows[0][:1] == ["unique_id"]
    assert {row[0] for row in rows[1:]} == {
        "'=cmd()", "'+1", "'-2+3", "'@SUM(A1)", "<script>", "plain, quoted", "'",
    }  # fmt: skip
    assert not [row for row in rows[1:] for cell in row[:4] if cell[:1] in "=+-@\t\r"]


@given(st.text(max_size=9))
def test_W5_text_stays_readable(text: str) -> None:
    assert escape_formula(text).removeprefix("'") == text.removeprefix("'")
    assert not escape_formula(text).startswith(("=", "+", "-", "@", "\t", "\r"))


def test_W5_negative_numbers_stay_numbers(forecast: Forecast) -> None:
    below = replace(forecast, y_hat=-forecast.y_hat)
    rows = list(csv.DictReader(io.StringIO(to_csv(below, BASIS).decode())))
    assert float(rows[0]["y_hat"]) == pytest.approx(-forecast.y_hat[0, 0], rel=1e-5)


def test_a_csv_tells_in_every_row_what_it_rests_on(forecast: Forecast) -> None:
    for basis, cells in (
        (BASIS, {"0123456789ab", "3", "false", ""}),
        ({**BASIS, "stale": True, "degraded": "=late"}, {"0123456789ab", "3", "true", "'=late"}),
    ):
        rows = list(csv.DictReader(io.StringIO(to_csv(forecast, basis, [2]).decode())))
        assert len(rows) == 3
        for row in rows:
            assert {row[name] for name in BASIS_COLUMNS} == cells


def test_json_has_null_for_what_is_missing(forecast: Forecast) -> None:
    told = json.loads(b"{" + to_json(forecast, [2, 5]) + b"}", parse_constant=pytest.fail)
    assert [row["id"] for row in told["forecasts"]] == ["-2+3", "plain, quoted"]
    assert told["forecasts"][0]["last"] is None
    assert told["forecasts"][0]["usual"] == [None, None, None]
    assert np.allclose(told["forecasts"][1]["q2.5"], forecast.quantiles[0, :, 5], rtol=1e-5)


def test_a_place_that_is_nowhere_has_no_point(forecast: Forecast) -> None:
    nowhere = Locations.of_ids(NAMES)
    lost = replace(forecast, panel=replace(forecast.panel, locations=nowhere))
    assert {feature["geometry"] for feature in to_geojson(lost)["features"]} == {None}


def test_quantiles_have_one_name_with_all_their_digits_in_every_format(forecast: Forecast) -> None:
    names = ["q2.5", "q15.86553"]
    odd = replace(forecast, quantile_levels=(0.025, 0.1586553))
    rows = csv.reader(io.StringIO(to_csv(odd, BASIS).decode()))
    assert next(rows)[5:7] == names
    row = json.loads(b"{" + to_json(odd, [0]) + b"}")["forecasts"][0]
    assert [name for name in row if name.startswith("q")] == names
    properties = to_geojson(odd)["features"][0]["properties"]
    assert [name for name in properties if name.startswith("q")] == names
    quantiles = dict(zip(odd.quantile_levels, odd.quantiles, strict=True))
    table = forecast_table(odd.panel, 4, odd.y_hat, quantiles, ())
    assert list(table.columns[5:]) == names


def test_the_lowest_relative_error_is_a_number_of_its_own_in_every_format(
    forecast: Forecast,
) -> None:
    relative = forecast.y_hat / 2
    both = replace(forecast, y_relative=relative)
    rows = list(csv.DictReader(io.StringIO(to_csv(both, BASIS, [4]).decode())))
    assert list(rows[0])[4:6] == ["y_hat", "y_relative"]
    assert np.allclose([float(row["y_relative"]) for row in rows], relative[:, 4], rtol=1e-5)
    row = json.loads(b"{" + to_json(both, [4]) + b"}")["forecasts"][0]
    assert np.allclose(row["y_relative"], relative[:, 4], rtol=1e-5)
    assert np.allclose(row["y_hat"], forecast.y_hat[:, 4], rtol=1e-5)
    assert to_geojson(both, [4])["features"][0]["properties"]["y_relative"] == row["y_relative"]


def test_a_run_with_one_number_has_no_second_one(forecast: Forecast) -> None:
    assert b"y_relative" not in to_csv(forecast, BASIS) + to_json(forecast)


@given(
    arrays(np.float32, (2, 3), elements=st.floats(-1e9, 1e9, width=32, allow_subnormal=False))
)  # subnormal numbers have fewer digits themselves
def test_numbers_keep_six_digits(values: np.ndarray) -> None:
    assert np.allclose(to_numbers(values), values, rtol=1e-5, atol=0)
    assert all(len(repr(n)) < 24 for row in to_numbers(values) for n in row)


def test_L10_closed_steps_are_marked_in_every_format(forecast: Forecast) -> None:
    closed = np.zeros(forecast.y_hat.shape, dtype=bool)
    closed[0, 1] = True
    marked = replace(forecast, closed=closed)
    rows = json.loads(b"{" + to_json(marked) + b"}")["forecasts"]
    assert "closed" not in rows[0]
    assert rows[1]["closed"] == closed[:, 1].tolist()
    basis = {"model": "m", "data_version": 1, "stale": False, "degraded": None}
    lines = list(csv.DictReader(io.StringIO(to_csv(marked, basis).decode())))
    K = len(closed)
    assert [line["degraded"] for line in lines[K : 2 * K]] == ["closed", *[""] * (K - 1)]


def test_totals_of_days_are_told_beside_the_steps(forecast: Forecast) -> None:
    plain = json.loads(b"{" + to_json(forecast) + b"}")
    assert "days" not in plain
    assert not any("days" in row for row in plain["forecasts"])
    generator = np.random.default_rng(1)
    spans = (Span("2015-03-02", 1, 2, is_whole=True), Span("horizon", 1, 3, is_whole=False))
    sums = generator.random((2, 7), dtype=np.float32)
    quantiles = generator.random((2, 2, 7), dtype=np.float32)
    with_totals = replace(forecast, totals=Totals(spans, sums, quantiles))
    content = json.loads(b"{" + to_json(with_totals, [3, 5]) + b"}")
    assert [day["day"] for day in content["days"]] == ["2015-03-02", "horizon"]
    assert [day["steps"] for day in content["days"]] == [2, 3]
    assert content["days"][0]["ds"] == content["steps"][0]["ds"]
    days = content["forecasts"][1]["days"]
    assert list(days) == ["y_hat", "q2.5", "q90"]
    np.testing.assert_allclose(days["y_hat"], sums[:, 5], rtol=1e-5)
    np.testing.assert_allclose(days["q90"], quantiles[1, :, 5], rtol=1e-5)
    assert to_geojson(with_totals)["days"] == content["days"]
