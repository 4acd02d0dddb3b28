"""A small copy of all that `recipes/nyc_taxi_paper.toml` asks for, and what is true of it.

Places, demand and weather are the built-in city's over the paper's span, its rides thinned to a
few an hour. Names, columns and faults of the 90 monthly files are those of the real ones.
"""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from jaxtyping import Float64, Int64

from forecaster.clock.zone import Times
from forecaster.panel.panel import Panel
from forecaster.synthetic.city import make_city
from forecaster.synthetic.locations import KM_PER_DEGREE

HOT, COLD = 5, 37  # places with much demand, and with little
RIDES = np.linspace(0.9, 1.7, HOT)  # an hour, at each hot place
COLD_RIDES = 0.002
COLD_KM = (0.3, 0.4)  # from a hot place; these are 2.5 km apart or more
SPREAD_KM = (0.0, 0.02)  # of rides around a place
LOST_REPORTS = slice(1_009, 1_012)  # hours without weather, few enough to be filled

HEADERS = {  # by the first year that has it
    2009: "vendor_name,Trip_Pickup_DateTime,Trip_Dropoff_DateTime,Passenger_Count,Trip_Distance,"
    "Start_Lon,Start_Lat,Rate_Code,store_and_forward,End_Lon,End_Lat,Payment_Type,Fare_Amt,"
    "surcharge,mta_tax,Tip_Amt,Tolls_Amt,Total_Amt",
    2010: "vendor_id,pickup_datetime,dropoff_datetime,passenger_count,trip_distance,"
    "pickup_longitude,pickup_latitude,rate_code,store_and_fwd_flag,dropoff_longitude,"
    "dropoff_latitude,payment_type,fare_amount,surcharge,mta_tax,tip_amount,tolls_amount,"
    "total_amount",
    2015: "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,trip_distance,"
    "pickup_longitude,pickup_latitude,RateCodeID,store_and_fwd_flag,dropoff_longitude,"
    "dropoff_latitude,payment_type,fare_amount,extra,mta_tax,tip_amount,tolls_amount,"
    "improvement_surcharge,total_amount",
}
TIME, LON, LAT = 1, 5, 6  # which columns are read, in every year
PLAIN = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
NEVER_SHOWN = np.datetime64("2010-03-14T02:30")  # by a clock in New York


@dataclass(frozen=True)
class Truth:
    """What the files hold."""

    city: Panel  # the hot places, the rides that belong to each, and the weather
    rows: int  # of all monthly files
    rejected: Counter[str]  # rows that are no ride, but for those at times shown twice


def write_paper_files(folder: Path, seed: int = 0) -> Truth:
    """Write the files into a folder, and return what is true of them."""
    generator = np.random.default_rng(seed)
    city = make_city(HOT, seed=seed).panel
    busy = generator.binomial(city.values.astype(np.int64), RIDES / city.values.mean(axis=0))
    quiet = generator.poisson(COLD_RIDES, (len(busy), COLD))
    hot, owner = np.stack([city.locations.lat, city.locations.lon]), np.arange(COLD) % HOT
    places = np.hstack([hot, _around(hot[:, owner], COLD_KM, generator)])
    rides = _draw_rides(city, np.hstack([busy, quiet]), places, generator)
    rejected: Counter[str] = Counter()
    rows = 0
    (folder / "yellow_taxi").mkdir(parents=True)
    for month, regular in _by_month(rides).items():
        odd = _odd_rides(month, hot)
        rejected.update({reason: len(table) for reason, table in odd.items()})
        written = pa.concat_tables([regular, *odd.values()])
        broken = _write_month(folder / "yellow_taxi", month, written)
        rejected["malformed"] += broken
        rows += len(written) + broken
    _write_places(folder / "manhattan_roadmap.csv", places)
    _write_weather(folder / "new_york_weather.csv", city)
    np.add.at(busy.T, owner, quiet.T)  # rides belong to the nearest place that is chosen
    return Truth(replace(city, values=busy.astype(np.float32)), rows, rejected)


def _around(
    points: Float64[np.ndarray, "2 K"], km: tuple[float, float], generator: np.random.Generator
) -> Float64[np.ndarray, "2 K"]:
    """Return a point near each of these: latitudes, then longitudes."""
    angle = generator.uniform(0.0, 2.0 * np.pi, points.shape[1])
    distance = generator.uniform(*km, points.shape[1])
    north, east = distance * np.sin(angle), distance * np.cos(angle)
    return points + np.stack([north / KM_PER_DEGREE[0], east / KM_PER_DEGREE[1]])


# ------------------------------------------------------------------------------------ rides


def _rides(times: Times, points: Float64[np.ndarray, "2 R"]) -> pa.Table:
    lat, lon = (pa.array(degrees, from_pandas=True) for degrees in points.round(6))
    return pa.table({"time": times.astype("datetime64[s]"), "lat": lat, "lon": lon})


def _draw_rides(
    city: Panel,
    counts: Int64[np.ndarray, "M K"],
    places: Float64[np.ndarray, "2 K"],
    generator: np.random.Generator,
) -> pa.Table:
    """Return as many rides as there are in each hour at each place, ordered by the hour."""
    hour, place = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    seconds = generator.integers(0, 3_600, len(hour))
    times = city.clock.local(city.times)[hour] + seconds.astype("timedelta64[s]")
    return _rides(times, _around(places[:, place], SPREAD_KM, generator))


def _by_month(rides: pa.Table) -> dict[np.datetime64, pa.Table]:
    months = rides["time"].to_numpy().astype("datetime64[M]")
    names, first = np.unique(months, return_index=True)
    ends = np.append(first[1:], len(months))
    return {m: rides[a:b] for m, a, b in zip(names, first, ends, strict=True)}


def _odd_rides(month: np.datetime64, hot: Float64[np.ndarray, "2 N"]) -> dict[str, pa.Table]:
    """Return rows of a month that cannot be counted, by the reason."""
    begin, between, year = month.astype("datetime64[s]"), hot[:, :2].mean(axis=1), _year(month)
    odd = {
        "out_of_area": (begin, np.zeros(2), 3),  # 0° N, 0° W: nothing was measured
        "too_far": (begin, between, 2),  # over a kilometre from every place
        "time_outside_file": (begin - 60, hot[:, 0], 1),
        "non_finite": (begin, np.full(2, np.nan), int(year == 2013)),
        "nonexistent_local_time": (NEVER_SHOWN, hot[:, 0], 7 * int(str(month) == "2010-03")),
    }
    return {
        reason: _rides(np.repeat(time, rows), np.repeat(point[:, None], rows, axis=1))
        for reason, (time, point, rows) in odd.items()
    }


# ------------------------------------------------------------------------------------ files


def _write_month(folder: Path, month: np.datetime64, rides: pa.Table) -> int:
    """Write the file of a month, and return how many broken lines it has besides."""
    year, unread = _year(month), pa.repeat(1, len(rides))
    names = HEADERS[max(first for first in HEADERS if first <= year)].split(",")
    read = {TIME: rides["time"].cast(pa.string()), LAT: rides["lat"], LON: rides["lon"]}
    table = pa.table({name: read.get(n, unread) for n, name in enumerate(names)})
    if year > 2010:
        return _write_csv(folder / f"yellow_tripdata_{month}.csv", table, year)
    pq.write_table(table, folder / f"yellow_tripdata_{month}.parquet")  # as published today
    return 0


def _write_csv(path: Path, table: pa.Table, year: int) -> int:
    """Write a file as it was published before 2022, and return how many lines are broken."""
    body, broken = pa.BufferOutputStream(), int(year == 2012)
    pyarrow.csv.write_csv(table, body, PLAIN)
    lines = body.getvalue().to_pybytes() + b"1,2\n" * broken
    if year == 2014:  # spaces in the header, an empty line after it, line ends of DOS
        header = ", ".join(table.column_names) + "\n\n"
        path.write_bytes((header.encode() + lines).replace(b"\n", b"\r\n"))
    else:
        path.write_bytes(",".join(table.column_names).encode() + b"\n" + lines)
    return broken


def _write_places(path: Path, places: Float64[np.ndarray, "2 K"]) -> None:
    numbers = np.arange(1, places.shape[1] + 1)
    pyarrow.csv.write_csv(pa.table({"id": numbers, "lat": places[0], "lon": places[1]}), path)


def _write_weather(path: Path, city: Panel) -> None:
    """Write hourly reports in the units and under the names of an airport's."""
    known = city.covariates.values.astype(np.float64)
    celsius, mps, mm, km, rain, snow, fog = known.T
    times = city.clock.axis(city.start, len(known)) + np.timedelta64(51, "m")
    table = pa.table(
        {
            "station": pa.repeat("NYC", len(known)),
            "valid": np.char.replace(np.datetime_as_string(times, unit="m"), "T", " "),
            "tmpf": (celsius * 1.8 + 32.0).round(2),
            "sknt": (mps / 1852 * 3600).round(2),
            "p01i": (mm / 25.4).round(4),
            "vsby": (km / 1.609344).round(2),
            "wxcodes": np.select([rain > 0, snow > 0, fog > 0], ["-RA BR", "SN", "FG"], ""),
        }
    )
    there = np.delete(np.arange(len(known)), LOST_REPORTS)
    pyarrow.csv.write_csv(table.take(there), path)


def _year(month: np.datetime64) -> int:
    return int(str(month)[:4])
