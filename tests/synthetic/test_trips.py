from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.synthetic import trips as module
from forecaster.synthetic.city import make_city
from forecaster.synthetic.locations import draw_street_grid
from forecaster.synthetic.trips import draw_trips


def columns(table):
    return [column.to_numpy() for column in table.columns]


def counted(table, locations):
    """Count trips per naive local hour and nearest location, after rounding to 1e-4 degrees."""
    time, lon, lat = columns(table)
    stretch = np.cos(np.deg2rad(40.785))
    east = (lon.round(4)[:, None] - locations.lon) * stretch
    nearest = np.hypot(east, lat.round(4)[:, None] - locations.lat).argmin(axis=1)
    hours, index = np.unique(time.astype("datetime64[h]"), return_inverse=True)
    counts = np.zeros((len(hours), len(locations)))
    np.add.at(counts, (index, nearest), 1)
    return hours, counts


def test_trips_add_up_to_the_panel(city):
    table = pa.concat_tables(city.trips(1_000, 1_030))
    hours, counts = counted(table, city.locations)
    local = city.panel.clock.local(city.panel.times[1_000:1_031])
    assert (hours == local).all()
    assert (counts == city.panel.values[1_000:1_031]).all()


def test_trips_of_a_crowded_city_add_up_too(city):
    places = draw_street_grid(996, np.random.default_rng(1)).to_locations()
    counts = np.random.default_rng(2).poisson(5.0, (1, 996)).astype(np.float32)
    nothing = LocalCovariates((), np.empty((0, 1, 996), dtype=np.float32))
    known = Covariates((), np.empty((1, 0), dtype=np.float32))
    crowded = replace(
        city.panel, values=counts, locations=places, covariates=known, local_covariates=nothing
    )
    table = pa.concat_tables(draw_trips(crowded, 0, 0, 0))
    assert (counted(table, places)[1] == counts).all()


def test_the_repeated_hour_holds_the_trips_of_two(city):
    local = city.panel.clock.local(city.panel.times)
    step = int(np.flatnonzero(local == np.datetime64("2013-11-03T01"))[0])
    table = pa.concat_tables(city.trips(step, step + 1))
    _, counts = counted(table, city.locations)
    assert (counts == city.panel.values[step : step + 2].sum(axis=0)).all()


def test_the_skipped_hour_has_no_trips(city):
    local = city.panel.clock.local(city.panel.times)
    step = int(np.flatnonzero(local == np.datetime64("2013-03-10T01"))[0])
    hours, _ = counted(pa.concat_tables(city.trips(step, step + 1)), city.locations)
    assert [str(hour) for hour in hours] == ["2013-03-10T01", "2013-03-10T03"]


def test_columns_are_those_of_the_taxi_files(city):
    table = next(city.trips(0, 0))
    assert table.schema == pa.schema(
        {
            "pickup_datetime": pa.timestamp("us"),
            "pickup_longitude": pa.float64(),
            "pickup_latitude": pa.float64(),
        }
    )


def test_an_hour_is_the_same_however_the_span_is_cut(city, monkeypatch):
    whole = pa.concat_tables(city.trips(40, 60)).combine_chunks()
    monkeypatch.setattr(module, "CHUNK_TRIPS", 1)
    chunks = list(city.trips(40, 60))
    assert len(chunks) == 21
    assert pa.concat_tables(chunks).combine_chunks() == whole
    apart = pa.concat_tables([*city.trips(40, 50), *city.trips(51, 60)]).combine_chunks()
    assert apart == whole


def test_chunks_hold_whole_hours_up_to_the_limit(city, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_TRIPS", 5_000)
    chunks = list(city.trips(0, 99))
    per_hour = city.panel.values[:100].sum(axis=1).max()
    assert sum(map(len, chunks)) == city.panel.values[:100].sum()
    assert all(5_000 <= len(chunk) < 5_000 + per_hour for chunk in chunks[:-1])


def test_times_spread_over_the_hour(city):
    time = columns(pa.concat_tables(city.trips(1_000, 1_030)))[0]
    seconds = (time - time.astype("datetime64[h]")).astype("timedelta64[s]").astype(int)
    assert seconds.min() < 60
    assert seconds.max() > 3_540
    assert seconds.mean() == pytest.approx(1_800.0, rel=0.02)


def test_another_seed_gives_other_trips():
    first, other = (next(make_city(7, hours=24, seed=seed).trips(0, 23)) for seed in (0, 1))
    assert first != other
