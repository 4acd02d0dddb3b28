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

from forecaster.panel.parts import Locations
from forecaster.serve.forecasting.encode import (
    CARRIED,
    harmless,
    numbers,
    quantile_name,
    to_csv,
    to_geojson,
    to_json,
)
from forecaster.serve.forecasting.forecast import Answer, Key
from forecaster.synthetic.city import make_city

NAMES = ("=cmd()", "+1", "-2+3", "@SUM(A1)", "<script>", "plain, quoted", "'")
SHARED = {"model": "0123456789ab", "data_version": 3, "stale": False, "degraded": None}


@pytest.fixture
def answer() -> Answer:
    """Return a forecast of seven locations with names that would do harm."""
    panel = make_city(7, "2015-03-01", 5).panel
    odd = replace(panel.locations, ids=NAMES, names=NAMES)
    generator = np.random.default_rng(0)
    return Answer(
        key=Key("0123456789ab", 3, 4),
        panel=replace(panel, locations=odd),
        origin=panel.times[-1],
        levels=(0.025, 0.9),
        y_hat=generator.random((3, 7), dtype=np.float32),
        quantiles=generator.random((2, 3, 7), dtype=np.float32),
        last=np.full(7, np.nan, dtype=np.float32),
        usual=np.full((3, 7), np.nan, dtype=np.float32),
        degraded=None,
    )


def test_W5_no_cell_begins_a_formula(answer: Answer) -> None:
    rows = list(csv.reader(io.StringIO(to_csv(answer, SHARED).decode())))
    assert rows[0][:1] == ["unique_id"]
    assert {row[0] for row in rows[1:]} == {
        "'=cmd()", "'+1", "'-2+3", "'@SUM(A1)", "<script>", "plain, quoted", "'",
    }  # fmt: skip
    assert not [row for row in rows[1:] for cell in row[:4] if cell[:1] in "=+-@\t\r"]


@given(st.text(max_size=9))
def test_W5_text_stays_readable(text: str) -> None:
    assert harmless(text).removeprefix("'") == text.removeprefix("'")
    assert not harmless(text).startswith(("=", "+", "-", "@", "\t", "\r"))


def test_W5_negative_numbers_stay_numbers(answer: Answer) -> None:
    below = replace(answer, y_hat=-answer.y_hat)
    rows = list(csv.DictReader(io.StringIO(to_csv(below, SHARED).decode())))
    assert float(rows[0]["y_hat"]) == pytest.approx(-answer.y_hat[0, 0], rel=1e-5)


def test_a_csv_tells_in_every_row_what_it_rests_on(answer: Answer) -> None:
    for shared, cells in (
        (SHARED, {"0123456789ab", "3", "false", ""}),
        ({**SHARED, "stale": True, "degraded": "=late"}, {"0123456789ab", "3", "true", "'=late"}),
    ):
        rows = list(csv.DictReader(io.StringIO(to_csv(answer, shared, [2]).decode())))
        assert len(rows) == 3
        for row in rows:
            assert {row[name] for name in CARRIED} == cells


def test_json_has_null_for_what_is_missing(answer: Answer) -> None:
    told = json.loads(b"{" + to_json(answer, [2, 5]) + b"}", parse_constant=pytest.fail)
    assert [row["id"] for row in told["forecasts"]] == ["-2+3", "plain, quoted"]
    assert told["forecasts"][0]["last"] is None
    assert told["forecasts"][0]["usual"] == [None, None, None]
    assert np.allclose(told["forecasts"][1]["q2.5"], answer.quantiles[0, :, 5], rtol=1e-5)


def test_a_place_that_is_nowhere_has_no_point(answer: Answer) -> None:
    nowhere = Locations.of_ids(NAMES)
    lost = replace(answer, panel=replace(answer.panel, locations=nowhere))
    assert {feature["geometry"] for feature in to_geojson(lost)["features"]} == {None}


def test_quantiles_are_named_by_per_cent() -> None:
    names = [quantile_name(level) for level in (0.025, 0.1, 0.5, 0.999)]
    assert names == ["q2.5", "q10", "q50", "q99.9"]


@given(
    arrays(np.float32, (2, 3), elements=st.floats(-1e9, 1e9, width=32, allow_subnormal=False))
)  # subnormal numbers have fewer digits themselves
def test_numbers_keep_six_digits(values: np.ndarray) -> None:
    assert np.allclose(numbers(values), values, rtol=1e-5, atol=0)
    assert all(len(repr(n)) < 24 for row in numbers(values) for n in row)
