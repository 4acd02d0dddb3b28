import gzip
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from forecaster.choices import EngineName
from forecaster.config import PanelConfig, TripsConfig
from forecaster.errors import ConfigError, DataError
from forecaster.ingest.demand.engine import open_engine
from forecaster.ingest.demand.trips import TripIngest, ingest_trips
from forecaster.ingest.files import open_inputs
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.panel.tables.renames import Rename
from forecaster.synthetic.city import City, make_city

ZONE = "America/New_York"
COMMAND = Path(sys.executable).with_name("forecaster")
HERE = Locations(("a", "b"), ("Alpha", "Beta"), np.array([40.70, 40.72]), np.array([-74.0, -74.0]))


@pytest.fixture(scope="module")
def city() -> City:
    return make_city(locations=7, start="2015-10-20", hours=24 * 20 + 1)  # a change within


@pytest.fixture(scope="module")
def trips(city: City) -> pa.Table:
    return pa.concat_tables(city.trips(0, 24 * 20))


def ingest(
    paths: Sequence[Path],
    candidates: Locations | None,
    rules: dict[str, object] | None = None,
    panel: dict[str, object] | None = None,
    engine: EngineName = "duckdb",
    threads: int | None = None,
) -> Panel:
    options = {"covers": "2015-10-20:2015-11-08", "min_demand": 0.0, **(rules or {})}
    config = TripsConfig(**options)  # type: ignore[arg-type]
    return ingest_trips(
        TripIngest(
            inputs=open_inputs(list(paths), config.covers),
            candidates=candidates,
            panel=PanelConfig(**{"timezone": ZONE, **(panel or {})}),  # type: ignore[arg-type]
            rules=config,
            engine=open_engine(engine, threads),
        )
    )


def write_csv(folder: Path, lines: list[str], name: str = "trips.csv") -> Path:
    path = folder / name
    header = "pickup_datetime,pickup_longitude,pickup_latitude"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def as_text(trips: pa.Table) -> pa.Table:
    times = pc.strftime(trips["pickup_datetime"].cast(pa.timestamp("s")), "%Y-%m-%d %H:%M:%S")
    return trips.set_column(0, "pickup_datetime", times)


def aligned(panel: Panel, city: City) -> np.ndarray:
    return city.panel.select(panel.locations.ids).values


def test_the_trips_of_a_city_become_its_panel(tmp_path: Path, city: City, trips: pa.Table) -> None:
    pq.write_table(trips, tmp_path / "trips.parquet")
    panel = ingest([tmp_path / "trips.parquet"], city.locations)
    known = np.isfinite(panel.values)
    assert panel.start == city.panel.start
    assert np.array_equal(panel.values[known], aligned(panel, city)[known])
    assert np.flatnonzero(~known.all(axis=1)).tolist() == [289, 290]  # 2015-11-01 01:00, twice
    rejected = int(aligned(panel, city)[289:291].sum())
    assert panel.counts["rows_in"] == trips.num_rows
    assert panel.counts["counted"] == trips.num_rows - rejected
    assert panel.counts["rejected"]["ambiguous_local_time"] == rejected


@pytest.mark.parametrize("form", ["csv", "csv.gz", "text.parquet"])
def test_every_form_of_a_file_gives_the_same_panel(
    tmp_path: Path, city: City, trips: pa.Table, form: str
) -> None:
    pq.write_table(trips, tmp_path / "a.parquet")
    path = tmp_path / f"b.{form}"
    if form == "text.parquet":
        pq.write_table(as_text(trips), path)
    else:
        pyarrow.csv.write_csv(as_text(trips), tmp_path / "b.csv")
        if form == "csv.gz":
            path.write_bytes(gzip.compress((tmp_path / "b.csv").read_bytes()))
    one, other = (ingest([p], city.locations) for p in (tmp_path / "a.parquet", path))
    assert np.array_equal(one.values, other.values, equal_nan=True)
    assert one.counts["rejected"] == other.counts["rejected"]


def test_I1_every_row_is_accounted_for(tmp_path: Path, rounds: Callable[[int, int], int]) -> None:
    generator = random.Random(0)  # noqa: S311 (a mix of rows, not a secret)
    kinds = {
        "counted": "2015-10-25 {h:02d}:15:00,-74.0001,40.7001",
        "malformed": "2015-10-25 {h:02d}:15:00,-74.0001,40.7001,extra",
        "bad_timestamp": "2015-13-25 {h:02d}:15:00,-74.0001,40.7001",
        "non_finite": "2015-10-25 {h:02d}:15:00,abc,40.7001",
        "out_of_area": "2015-10-25 {h:02d}:15:00,0,0",
        "too_far": "2015-10-25 {h:02d}:15:00,-74.0001,40.71",
        "time_outside_file": "2014-10-25 {h:02d}:15:00,-74.0001,40.7001",
        "ambiguous_local_time": "2015-11-01 01:{h:02d}:00,-74.0001,40.7001",
    }
    for number in range(rounds(4, 300)):
        names = generator.choices(list(kinds), k=generator.randrange(1, 400))
        lines = [kinds[name].format(h=generator.randrange(24)) for name in names]
        path = write_csv(tmp_path, lines, f"{number}.csv")
        panel = ingest([path], HERE, {"max_reject": 1.0, "bbox": (40.6, -74.1, 40.8, -73.9)})
        counts = panel.counts
        assert counts["rows_in"] == len(names)
        assert counts["counted"] == names.count("counted") == np.nansum(panel.values)
        for reason, count in counts["rejected"].items():
            assert count == names.count(reason), reason


def test_I2_the_doubled_hour_follows_its_rule(tmp_path: Path) -> None:
    lines = [f"2015-11-01 01:{m:02d}:00,-74.0,40.7" for m in range(7)]
    path = write_csv(tmp_path, [*lines, "2015-11-01 02:00:00,-74.0,40.7"])
    days = {"covers": "2015-11-01:2015-11-01"}
    unknown = ingest([path], HERE, days)
    assert len(unknown.values) == 25
    assert np.isnan(unknown.values[1:3]).all()
    assert unknown.counts["rejected"]["ambiguous_local_time"] == 7
    halved = ingest([path], HERE, days, {"ambiguous": "split"})
    assert halved.values[:4, 0].tolist() == [0, 4, 3, 1]  # odd: the first hour has one more
    assert halved.values.sum() == halved.counts["counted"] == 8


def test_I3_the_hour_that_never_was_follows_its_rule(tmp_path: Path) -> None:
    rows = ["2015-03-08 01:59:00", "2015-03-08 02:30:00", "2015-03-08 03:00:00"]
    path = write_csv(tmp_path, [f"{time},-74.0,40.7" for time in rows])
    days = {"covers": "2015-03-08:2015-03-08"}
    with pytest.raises(DataError, match=r"1 trip at local times that do not occur .*02:30:00"):
        ingest([path], HERE, days)
    dropped = ingest([path], HERE, days, {"nonexistent": "null"})
    assert len(dropped.values) == 23
    assert dropped.values[:4, 0].tolist() == [0, 1, 1, 0]
    assert dropped.counts["rejected"]["nonexistent_local_time"] == 1
    moved = ingest([path], HERE, days, {"nonexistent": "next"})
    assert moved.values[:4, 0].tolist() == [0, 1, 2, 0]


def test_I10_rides_beyond_the_limit_are_rejected_and_counted(tmp_path: Path) -> None:
    metre = 1 / 111_195
    places = [40.70 + 190 * metre, 40.70 + 215 * metre]
    path = write_csv(tmp_path, [f"2015-10-25 08:00:00,-74.0,{lat:.6f}" for lat in places])
    panel = ingest([path], HERE)
    assert panel.counts["rejected"]["too_far"] == 1
    wider = ingest([path], HERE, {"max_distance_m": 230.0})
    assert wider.counts["counted"] == 2


def test_I12_order_threads_and_row_groups_do_not_matter(
    tmp_path: Path, city: City, trips: pa.Table, rounds: Callable[[int, int], int]
) -> None:
    generator = np.random.default_rng(0)
    digests = set()
    for number in range(rounds(6, 40)):
        shuffled = trips.take(generator.permutation(trips.num_rows))
        cut = int(generator.integers(1, trips.num_rows))
        paths = [tmp_path / f"{number}-{part}.parquet" for part in "ab"]
        size = [97, 5_000, 10**6][number % 3]
        pq.write_table(shuffled.slice(0, cut), paths[0], row_group_size=size)
        pq.write_table(shuffled.slice(cut), paths[1], row_group_size=size)
        if number % 2:
            paths.reverse()
        panel = ingest(paths, city.locations, threads=[1, 4][number % 2])
        digests.add(panel.save(tmp_path / f"panel-{number}").digest)
    assert len(digests) == 1


def test_I15_odd_trips_count_where_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "trips.csv"
    path.write_text(
        "pickup_datetime,dropoff_datetime,passenger_count,pickup_longitude,pickup_latitude\n"
        "2015-10-25 08:00:00,2015-10-25 07:00:00,1,-74.0,40.7\n"  # ends before it begins
        "2015-10-25 08:00:00,2015-10-25 08:00:00,1,-74.0,40.7\n"  # takes no time
        "2015-10-25 08:00:00,2015-10-26 08:00:00,1,-74.0,40.7\n"  # takes a day
        "2015-10-25 08:00:00,,0,-74.0,40.7\n"  # nobody in it
    )
    panel = ingest([path], HERE)
    assert panel.counts["counted"] == np.nansum(panel.values) == 4


MALFORMED = {
    "an open quote": b'"2015-10-25 08:00:00,-74.0,40.7\n',
    "too few columns": b"2015-10-25 08:00:00\n",
    "too many columns": b"2015-10-25 08:00:00,-74.0,40.7,1,2,3\n",
    "latin-1": b"2015-10-25 08:00:00,\xe9\xe8,40.7\n",
    "a null byte": b"2015-10-25 08:00:00,-74.0\x00,40.7\n",
    "a line break in quotes": b'"2015-10-25\n08:00:00",-74.0,40.7\n',
}


@pytest.mark.parametrize("name", sorted(MALFORMED))
def test_I16_a_malformed_row_does_not_spoil_the_others(tmp_path: Path, name: str) -> None:
    good = b"2015-10-25 08:00:00,-74.0,40.7\n" * 50
    header = b"pickup_datetime,pickup_longitude,pickup_latitude\n"
    path = tmp_path / "trips.csv"
    path.write_bytes(header + good + MALFORMED[name] + good)
    panel = ingest([path], HERE, {"max_reject": 1.0})
    counts, lines = panel.counts, 100 + MALFORMED[name].count(b"\n")
    assert counts["rows_in"] == lines  # not one of them is lost
    assert counts["rows_in"] == counts["counted"] + sum(counts["rejected"].values())
    assert counts["counted"] == (50 if name == "an open quote" else 100)  # it swallows the rest


def test_I1_lines_between_two_stray_quotes_are_not_lost(tmp_path: Path) -> None:
    good = "2015-10-25 08:00:00,-74.0,40.7"
    lines = [good] * 300 + [f'"{good}'] + [good] * 90 + [f'{good}"'] + [good] * 300
    path = write_csv(tmp_path, lines)
    panel = ingest([path], HERE, {"max_reject": 1.0})
    assert panel.counts["rows_in"] == len(lines)
    assert panel.counts["rejected"]["malformed"] >= 90
    with pytest.raises(DataError, match="rows are faulty"):
        ingest([path], HERE)


def test_mapped_zones_are_zones(tmp_path: Path) -> None:
    path = tmp_path / "trips.csv"
    path.write_text("when,area\n2015-10-25 08:00:00,7\n2015-10-25 08:00:00,9\n")
    panel = ingest([path], None, {"columns": "time=when,zone=area"})
    assert panel.locations.ids == ("7", "9")


def test_candidates_without_coordinates_are_refused_at_once(tmp_path: Path) -> None:
    path = write_csv(tmp_path, ["2015-10-25 08:00:00,-74.0,40.7"])
    with pytest.raises(DataError, match="candidates without coordinates: a, b"):
        ingest([path], Locations.of_ids(["a", "b"]))


@pytest.mark.parametrize("prefix", [b"\xef\xbb\xbf", b""], ids=["BOM", "plain"])
def test_I16_byte_order_marks_and_other_line_ends_are_read(tmp_path: Path, prefix: bytes) -> None:
    path = tmp_path / "trips.csv"
    lines = (
        b"pickup_datetime,pickup_longitude,pickup_latitude\r\n2015-10-25 08:00:00,-74.0,40.7\r\n"
    )
    path.write_bytes(prefix + lines)
    assert ingest([path], HERE).counts["counted"] == 1


def test_I16_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path, ["2015-10-25 08:00:00,-74.0,40.7", "x" * 3_000_000])
    with pytest.raises(DataError, match=r"trips\.csv: line \d+ is longer than 1,000,000"):
        ingest([path], HERE, {"max_reject": 1.0})


def test_too_many_faulty_rows_are_refused_with_examples(tmp_path: Path) -> None:
    good, bad = "2015-10-25 08:00:00,-74.0,40.7", "never,-74.0,40.7"
    ingest([write_csv(tmp_path, [good] * 95 + [bad] * 5)], HERE)
    with pytest.raises(
        DataError, match=r"6\.00 % of 100 rows are faulty .*bad_timestamp 6.*never"
    ):
        ingest([write_csv(tmp_path, [good] * 94 + [bad] * 6)], HERE)


def test_a_zero_is_written_only_where_a_file_covers_the_hour(tmp_path: Path) -> None:
    for month in ("2015-01", "2015-03"):
        lines = [f"{month}-05 08:00:00,-74.0,40.7"]
        write_csv(tmp_path, lines, f"yellow_tripdata_{month}.csv")
    paths = sorted(tmp_path.glob("*.csv"))
    panel = ingest(paths, HERE, {"covers": None}, {"nonexistent": "null"})
    local = panel.clock.local(panel.times).astype("datetime64[M]")
    february = local == np.datetime64("2015-02")
    assert np.isnan(panel.values[february]).all()
    assert (panel.values[~february] >= 0).all()
    assert len(panel.values) == (31 + 28 + 31) * 24 - 1  # one hour lost in March


def test_without_a_span_trips_cover_the_first_event_to_the_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    times = ["2015-10-20 08:10", "2015-10-20 23:50", "2015-10-23 01:00", "2015-10-24 05:59"]
    lines = [f"{time}:00,-74.0,40.7" for time in times]
    path = write_csv(tmp_path, [*lines, "yesterday,-74.0,40.7"])
    rules = {"covers": None, "max_reject": 0.5}
    panel = ingest([path], HERE, rules)
    local = panel.clock.local(panel.times)
    assert [str(time) for time in local[[0, -1]]] == [
        "2015-10-20T08:00:00",
        "2015-10-24T05:00:00",
    ]
    empty = np.isin(local.astype("datetime64[D]"), np.array(["2015-10-21", "2015-10-22"], "M8[D]"))
    assert np.isnan(panel.values[empty]).all()
    assert np.isfinite(panel.values[~empty]).all()
    assert np.nansum(panel.values) == panel.counts["counted"] == 4
    assert panel.counts["days_without_events"] == ["2015-10-21", "2015-10-22"]
    assert caplog.messages[0].startswith("2 days without any event, taken as missing and not as")
    assert "2015-10-21, 2015-10-22" in caplog.messages[0]
    said = ingest([path], HERE, {**rules, "covers": "2015-10-20:2015-10-24"})
    assert np.isfinite(said.values).all()
    assert "days_without_events" not in said.counts


@pytest.mark.parametrize("form", ["text", "timestamp", "with an offset"])
def test_an_hour_in_which_the_data_ends_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    zone = "UTC" if form == "with an offset" else None
    times = pd.Series(pd.date_range("2015-10-20 00:40", "2015-10-21 23:20", freq="101s", tz=zone))
    path = tmp_path / "trips.parquet"
    stored = times.dt.strftime("%Y-%m-%d %H:%M:%S") if form == "text" else times
    table = {"pickup_datetime": stored, "pickup_longitude": -74.0, "pickup_latitude": 40.7}
    pd.DataFrame(table).to_parquet(path)
    panel = ingest([path], HERE, {"covers": None})
    local = times.dt.tz_convert("America/New_York").dt.tz_localize(None) if zone else times
    hours = local.dt.floor("h")
    inside = hours.between(hours.iloc[0], hours.iloc[-1], inclusive="neither")
    assert panel.clock.local(panel.times).tolist() == hours[inside].drop_duplicates().tolist()
    assert panel.counts["counted"] == inside.sum()
    assert panel.counts["rejected"]["time_outside_file"] == (~inside).sum()
    begins, ends = caplog.messages
    assert (
        f"{hours.iloc[0]:%Y-%m-%d %H:%M} left out: the data begins within this hour, 4" in begins
    )
    assert "the data ends within this hour, 4" in ends
    assert "says that it is complete" in ends


def test_an_hour_that_is_as_quiet_at_its_end_as_others_is_whole(tmp_path: Path) -> None:
    quarters = pd.date_range("2015-10-20", "2015-10-21 23:45", freq="15min")  # times are rounded
    few = [time for time in quarters if time.hour % 2 or time.minute < 20]
    for name, times in (("rounded", quarters), ("quiet", few[:-4])):
        lines = [f"{time},-74.0,40.7" for time in times]
        panel = ingest([write_csv(tmp_path, lines, f"{name}.csv")], HERE, {"covers": None})
        assert panel.counts["counted"] == len(times)


def test_time_is_never_rounded_to_the_next_hour(tmp_path: Path) -> None:
    path = tmp_path / "trips.parquet"
    times = pd.to_datetime(["2015-10-21 08:59:59.7", "2015-10-21 09:30:00.0"])
    table = {"pickup_datetime": times, "pickup_longitude": -74.0, "pickup_latitude": 40.7}
    pd.DataFrame(table).to_parquet(path)
    values = ingest([path], HERE, {"covers": None}).values
    assert values.sum(axis=1).tolist() == [1, 1]


def test_times_with_an_offset_cover_their_local_hours(tmp_path: Path) -> None:
    path = tmp_path / "trips.parquet"
    times = pd.to_datetime(["2015-10-21T02:30Z", "2015-10-22T02:30Z"])  # 22:30 in New York
    table = {"pickup_datetime": times, "pickup_longitude": -74.0, "pickup_latitude": 40.7}
    pd.DataFrame(table).to_parquet(path)
    panel = ingest([path], HERE, {"covers": None})
    local = panel.clock.local(panel.times)[[0, -1]]
    assert [str(time) for time in local] == ["2015-10-20T22:00:00", "2015-10-21T22:00:00"]
    assert (panel.counts["counted"], panel.counts["days_without_events"]) == (2, [])


def test_a_named_month_is_covered_whole_beside_files_without_a_span(tmp_path: Path) -> None:
    september = ["2015-09-05 08:00:00,-74.0,40.7"]
    october = [f"2015-10-{day} 08:00:00,-74.0,40.7" for day in ("02", "05")]
    paths = [
        write_csv(tmp_path, september, "yellow_tripdata_2015-09.csv"),
        write_csv(tmp_path, october, "mine.csv"),
    ]
    panel = ingest(paths, HERE, {"covers": None})
    days = panel.clock.local(panel.times).astype("datetime64[D]")
    unknown = {str(day) for day in days[np.isnan(panel.values).any(axis=1)]}
    assert unknown == {"2015-10-01", "2015-10-02", "2015-10-03", "2015-10-04"}
    assert str(days[0]) == "2015-09-01"


def test_a_wrong_year_asks_for_the_span(tmp_path: Path) -> None:
    lines = [f"{time},-74.0,40.7" for time in ("1970-01-01 00:00:00", "2015-10-20 08:00:00")]
    with pytest.raises(DataError, match=r"no event in the 16,727 days after 1970-01-01; check"):
        ingest([write_csv(tmp_path, lines)], HERE, {"covers": None})


def test_zones_are_counted_by_id(tmp_path: Path) -> None:
    path = tmp_path / "trips.parquet"
    stamp = np.datetime64("2015-10-25T08:10", "us").astype(object)
    zones = [4, 4, 4, 12, 12, 264, None]
    table = pa.table(
        {"tpep_pickup_datetime": [stamp] * 7, "PULocationID": pa.array(zones, pa.int64())}
    )
    pq.write_table(table, path)
    every = ingest([path], None, {"zones": True})
    assert every.locations.ids == ("4", "12", "264")
    assert np.nansum(every.values, axis=0).tolist() == [3, 2, 1]
    assert every.counts["rejected"]["out_of_area"] == 1
    known = Locations(("12", "4"), ("Twelve", "Four"), np.zeros(2), np.zeros(2))
    some = ingest([path], known, {"zones": True, "min_demand": 2.5 / (20 * 24 + 1)})
    assert some.locations.names == ("Four",)
    assert some.counts["rejected"]["out_of_area"] == 2  # no zone, or not among the candidates
    assert some.counts["rejected"]["below_min_demand"] == 2
    assert some.counts["examples"]["below_min_demand"] == ["zone 12: 2 rides"]
    assert some.counts["rows_in"] == some.counts["counted"] + sum(some.counts["rejected"].values())
    assert "below_min_demand" not in every.counts["rejected"]


def test_rides_before_a_rename_are_kept_though_the_new_zone_opens_with_it(tmp_path: Path) -> None:
    path = tmp_path / "trips.parquet"
    days = [21, 22, 23, 26, 27]
    stamps = [np.datetime64(f"2015-10-{day}T08:10", "us").astype(object) for day in days]
    zones = pa.array([4, 4, 4, 104, 104], pa.int64())
    pq.write_table(pa.table({"tpep_pickup_datetime": stamps, "PULocationID": zones}), path)
    moment = np.datetime64("2015-10-25T04:00", "s")
    dates = np.array(["NaT", moment], dtype="datetime64[s]")
    places = Locations(("4", "104"), ("Old", "New"), np.zeros(2), np.zeros(2), opens=dates)
    config = TripsConfig(covers="2015-10-20:2015-11-08", min_demand=0.0, zones=True)
    panel = ingest_trips(
        TripIngest(
            inputs=open_inputs([path], config.covers),
            candidates=places,
            panel=PanelConfig(timezone=ZONE),
            rules=config,
            engine=open_engine("duckdb"),
            renames=(Rename("4", "104", moment),),
        )
    )
    assert panel.locations.names == ("New",)
    assert np.nansum(panel.values) == 5


def test_places_can_come_from_the_trips_themselves(tmp_path: Path, trips: pa.Table) -> None:
    pq.write_table(trips, tmp_path / "trips.parquet")
    with pytest.raises(ConfigError, match="need a bbox"):
        ingest([tmp_path / "trips.parquet"], None)
    rules = {"bbox": (40.5, -74.3, 41.0, -73.6), "min_demand": 1.0}
    panel = ingest([tmp_path / "trips.parquet"], None, rules)
    assert np.nansum(panel.values) == panel.counts["counted"]
    assert (np.nanmean(panel.values, axis=0) >= 0.99).all()


def test_only_the_demand_hours_decide_which_places_are_hot(tmp_path: Path) -> None:
    early = ["2015-10-20 08:00:00,-74.0,40.70"] * 48
    late = ["2015-11-05 08:00:00,-74.0,40.72"] * 48
    path = write_csv(tmp_path, early + late)
    rules = {"min_demand": 1.0, "max_distance_m": 5000.0}
    first = ingest([path], HERE, {**rules, "demand_hours": "2015-10-20:2015-10-21"})
    last = ingest([path], HERE, {**rules, "demand_hours": "2015-11-05:2015-11-06"})
    assert (first.locations.ids, last.locations.ids) == (("a",), ("b",))


def test_a_panel_of_trips_has_the_holidays_of_its_country(tmp_path: Path) -> None:
    path = write_csv(tmp_path, ["2015-10-25 08:00:00,-74.0,40.7"])
    panel = ingest([path], HERE, panel={"country": "US"})
    assert panel.clock.holidays is not None
    assert "2015-11-11" in panel.clock.holidays.dates


@pytest.mark.slow
def test_I6_a_killed_ingest_is_finished_by_the_same_command(
    tmp_path: Path, city: City, trips: pa.Table, rounds: Callable[[int, int], int]
) -> None:
    pq.write_table(trips, tmp_path / "trips.parquet")
    rows = zip(city.locations.ids, city.locations.lat, city.locations.lon, strict=True)
    text = "id,lat,lon\n" + "".join(f"{i},{lat},{lon}\n" for i, lat, lon in rows)
    (tmp_path / "places.csv").write_text(text)
    words = [COMMAND, "ingest", "trips", tmp_path / "trips.parquet", "--timezone", ZONE,
             "--candidates", tmp_path / "places.csv", "--min-demand", "0",
             "--covers", "2015-10-20:2015-11-08", "--quiet", "--out"]  # fmt: skip
    begin = time.monotonic()
    subprocess.run([*words, tmp_path / "whole"], check=True, capture_output=True)
    duration = time.monotonic() - begin
    expected = Panel.open(tmp_path / "whole").digest
    generator = random.Random(0)  # noqa: S311 (when to kill, not a secret)
    for number in range(rounds(5, 50)):
        folder = tmp_path / f"killed-{number}"
        job = subprocess.Popen(
            [*words, folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(generator.uniform(0.3, 1.1) * duration)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
        if number % 3 == 0 or number > 4:
            subprocess.run([*words, folder], check=True, capture_output=True)
            assert Panel.open(folder).digest == expected
        elif (folder / "manifest.json").exists():
            assert Panel.open(folder).digest == expected


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # pyspark and py4j warn of their own code
@pytest.mark.usefixtures("spark_session")
def test_spark_gives_the_panel_that_duckdb_gives(
    tmp_path: Path, city: City, trips: pa.Table
) -> None:
    times = ["2015-10-25T08:00:00Z", "10/25/2015 8:05:00", "never", "2001-01-01 00:00:00"]
    odd = pa.table({
        "pickup_datetime": times,
        "pickup_longitude": [city.locations.lon[0]] * 4,
        "pickup_latitude": [city.locations.lat[0]] * 4,
    })  # fmt: skip
    pq.write_table(trips, tmp_path / "a.parquet")
    pyarrow.csv.write_csv(as_text(trips.slice(0, 5_000)), tmp_path / "b.csv")
    pq.write_table(odd, tmp_path / "c.parquet")
    paths = [tmp_path / name for name in ("a.parquet", "b.csv", "c.parquet")]
    rules = {"min_demand": 0.5, "max_reject": 1.0}
    duck = ingest(paths, city.locations, rules)
    spark = ingest(paths, city.locations, rules, engine="spark", threads=2)
    assert duck.locations.ids == spark.locations.ids
    assert np.array_equal(duck.values, spark.values, equal_nan=True)
    assert duck.counts == spark.counts
    assert duck.counts["rejected"]["bad_timestamp"] == 1
    assert duck.counts["rejected"]["time_outside_file"] == 1


@pytest.mark.data
def test_the_real_uber_pickups_are_accounted_for(tmp_path: Path) -> None:
    folder = os.environ.get("FORECASTER_DATA")
    if not folder:
        pytest.skip("FORECASTER_DATA is not set; this test needs uber_nyc_2014 and nyc_geo")
    recipe = Path(__file__).parents[3] / "recipes" / "uber_2014.toml"
    words = [COMMAND, "ingest", "recipe", recipe, "--data", folder, "--out", tmp_path / "uber"]
    subprocess.run([*words, "--quiet"], check=True, capture_output=True)
    panel = Panel.open(tmp_path / "uber")
    counts = panel.counts  # facts of the data set's own description
    assert counts["rows_in"] == 1_880_795
    assert counts["rejected"]["out_of_area"] == 5_627
    assert counts["counted"] / counts["rows_in"] == pytest.approx(0.790, abs=5e-4)
    assert len(panel.values) == 2_184
    assert np.nansum(panel.values) == counts["counted"]
    assert 100 <= len(panel.locations) <= 300
    assert panel.covariates.names[0] == "temperature_c"
