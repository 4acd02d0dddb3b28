import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import ConfigError, DataError
from forecaster.ingest.hot_locations.candidates import read_candidates
from forecaster.panel.parts import Locations

POINT = {"type": "Point", "coordinates": [-74.0, 40.7]}


def csv(folder: Path, text: str) -> Path:
    path = folder / "places.csv"
    path.write_text(text, encoding="utf-8")
    return path


def geojson(folder: Path, content: Any, name: str = "places.geojson") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def feature(coordinates: Any, **fields: Any) -> dict[str, Any]:
    geometry = {"type": "any", "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, **fields}


def collection(*features: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


def rows(places: Locations) -> list[tuple[str, str, float, float]]:
    lat, lon = (np.round(c, 7).tolist() for c in (places.lat, places.lon))
    return list(zip(places.ids, places.names, lat, lon, strict=True))


# ------------------------------------------------------------------------------ CSV, Parquet


def test_the_places_of_a_csv_stay_in_its_order(tmp_path: Path) -> None:
    path = csv(tmp_path, "lon,id,name,lat\n-74.5,b,Bay,40.5\n-73.5,007,,40.7\n")
    found = rows(read_candidates(path))
    assert found == [("b", "Bay", 40.5, -74.5), ("007", "007", 40.7, -73.5)]


def test_a_parquet_file_is_read_by_a_mapping(tmp_path: Path) -> None:
    table = pa.table({"node": [7, 11], "y": [40.5, 40.7], "x": [-74.5, -73.5], "edges": [[1], []]})
    pq.write_table(table, tmp_path / "places.parquet")
    found = read_candidates(tmp_path / "places.parquet", "id=node, lat = y,lon=x")
    assert rows(found) == [("7", "7", 40.5, -74.5), ("11", "11", 40.7, -73.5)]


def test_zones_need_no_coordinates(tmp_path: Path) -> None:
    found = read_candidates(csv(tmp_path, "id,name\n4,Alphabet City\n"))
    assert found.names == ("Alphabet City",)
    assert not found.placed.any()


def test_further_columns_are_left_out(tmp_path: Path) -> None:
    found = read_candidates(csv(tmp_path, "id,lat,lon,note\na,40,-74,=cmd()\n"))
    assert found.extra == {}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("id=node", ("7", "old", 1.0, 2.0)),
        ("id=node,name=id", ("7", "a", 1.0, 2.0)),
        ("name=id,id=node", ("7", "a", 1.0, 2.0)),
        ("id=node,name=node", ("7", "7", 1.0, 2.0)),
        ("lat=lon,lon=lat", ("a", "old", 2.0, 1.0)),  # the file has them the wrong way round
        ("lon=lat,lat=lon", ("a", "old", 2.0, 1.0)),
    ],
)
def test_a_mapping_takes_each_field_from_the_column_as_it_was(
    tmp_path: Path, columns: str, expected: tuple[Any, ...]
) -> None:
    path = csv(tmp_path, "id,name,lat,lon,node\na,old,1,2,7\n")
    assert rows(read_candidates(path, columns)) == [expected]


def test_a_mapped_column_that_is_lacking_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = csv(tmp_path, "nodes,lat,lon\na,40,-74\n")
    with pytest.raises(DataError) as caught:
        read_candidates(path, "id=node")
    assert str(caught.value) == (
        f"{path}: no column 'node' for id; did you mean 'nodes'?; found: nodes, lat, lon; "
        "map it as in id=node,lat=y,lon=x"
    )


def test_a_file_without_ids_shows_what_it_has(tmp_path: Path) -> None:
    path = csv(tmp_path, "node,lat,lon\na,40,-74\n")
    message = r"places\.csv: no column 'id' for id; found: node, lat, lon; map it as in id=node"
    with pytest.raises(DataError, match=message):
        read_candidates(path)


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ("", "'' is not a mapping; give e.g. id=node,lat=y,lon=x"),
        ("node", "'node' is not a mapping"),
        ("id=", "'id=' is not a mapping"),
        ("nme=zone", "'nme=zone' is not a mapping; did you mean 'name'?"),
        ("id=a,id=b", "id: given twice, as 'a' and 'b'"),
    ],
)
def test_a_faulty_mapping_is_refused(tmp_path: Path, columns: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_candidates(csv(tmp_path, "id\na\n"), columns)
    assert f"candidate columns {columns!r}: 1 fault\n  {fault}" in str(caught.value)


def test_a_column_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"places\.csv: columns given twice: lat"):
        read_candidates(csv(tmp_path, "id,lat,lon,lat\na,1,2,3\n"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("places.csv", "places.geojson"):
        with pytest.raises(DataError, match=rf"{name}: (no such file|cannot be read \(No such)"):
            read_candidates(tmp_path / name)


# ----------------------------------------------------------------------------- bad locations


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,lat,lon\n", "0 locations; at least one is needed"),
        ("id,lat,lon\na,40,-74\na,41,-74\n", "1 location id given twice: a"),
        ("id,lat,lon\na,40,-74\n,41,-74\n", "1 row without an id: row 2"),
        ("id,lat,lon\na,-74,40\nb,-174,40\n", "1 location with lat beyond ±90°: b -174.0; check"),
        ("id,lat,lon\na,north,-74\n", "column 'lat': 1 value not a number: row 1"),
        ("id,lat,lon\ntime,40,-74\n", "location id time: reserved"),
    ],
)
def test_I23_places_that_cannot_be_used_are_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_candidates(csv(tmp_path, text))
    assert caught.value.exit_code == 3


def test_I23_one_place_is_enough(tmp_path: Path) -> None:
    assert len(read_candidates(csv(tmp_path, "id,lat,lon\na,40,-74\n"))) == 1


WILD_NAMES = ["=cmd()", "<script>alert(1)</script>", "'; DROP TABLE", "شارع", "🚕", '"a",b']


@pytest.mark.parametrize("name", WILD_NAMES)
def test_I23_a_wild_name_is_kept_as_it_is(tmp_path: Path, name: str) -> None:
    table = pa.table({"id": [name], "name": [name], "lat": [40.0], "lon": [-74.0]})
    pq.write_table(table, tmp_path / "places.parquet")
    place = feature([-74.0, 40.0], id=name, properties={"name": name})
    paths = [tmp_path / "places.parquet", geojson(tmp_path, collection(place))]
    for path in paths:
        assert rows(read_candidates(path)) == [(name, name, 40.0, -74.0)]


# ----------------------------------------------------------------------------------- GeoJSON


def test_the_points_of_a_geojson_are_places(tmp_path: Path) -> None:
    first = {"type": "Feature", "id": 7, "geometry": POINT, "properties": {"name": "Battery"}}
    second = feature([-73.9, 40.8, 12.0], properties={"id": "b", "lat": 0, "lon": 0})
    third = feature([-73.8, 40.9], id="c", properties=None)
    for name in ("places.geojson", "places.json"):
        found = read_candidates(geojson(tmp_path, collection(first, second, third), name))
        assert rows(found) == [
            ("7", "Battery", 40.7, -74.0),
            ("b", "b", 40.8, -73.9),
            ("c", "c", 40.9, -73.8),
        ]


def test_a_polygon_stands_for_the_mean_of_its_corners(tmp_path: Path) -> None:
    square = [[0.0, 10.0], [0.0, 12.0], [2.0, 12.0], [2.0, 10.0], [0.0, 10.0]]  # closed
    shapes = {"ring": square[:4], "polygon": [square], "several": [[square], [square]]}
    places = [feature(shape, id=name) for name, shape in shapes.items()]
    found = read_candidates(geojson(tmp_path, collection(*places)))
    assert rows(found) == [(name, name, 11.0, 1.0) for name in shapes]


def test_a_geojson_is_mapped_by_its_properties(tmp_path: Path) -> None:
    zones = [
        feature([-74.0, 40.7], properties={"LocationID": 4, "zone": "Alphabet City"}),
        feature([-73.9, 40.8], properties={"LocationID": 13, "zone": "Battery Park", "new": 1}),
    ]
    path = geojson(tmp_path, collection(*zones))
    found = read_candidates(path, "id=LocationID,name=zone")
    assert rows(found) == [
        ("4", "Alphabet City", 40.7, -74.0),
        ("13", "Battery Park", 40.8, -73.9),
    ]
    with pytest.raises(DataError, match="ids are null; give text or integers"):
        read_candidates(path)


@pytest.mark.parametrize(
    "notes", [[1, "x", None], ["x", 1.5], [True, 1], [1, 2.5], [{"a": 1}, [1], None, True]]
)
def test_properties_of_mixed_kinds_do_no_harm(tmp_path: Path, notes: list[Any]) -> None:
    places = [
        feature([0, 0], id=n, properties={"name": note, "note": note})
        for n, note in enumerate(notes)
    ]
    found = read_candidates(geojson(tmp_path, collection(*places)))
    assert found.names == tuple(
        str(n) if note is None else str(note) for n, note in enumerate(notes)
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "7",
        '"features"',
        "{}",
        '{"features": 7}',
        '{"features": [[1, 2]]}',
        '{"features": {"a": 1}}',
        "\ufeff{}",
        "[" * 100_000,
        collection({"type": "Feature", "id": 1}),
        collection({"type": "Feature", "id": 1, "geometry": None}),
        collection(feature([], id=1)),
        collection(feature([1], id=1)),
        collection(feature("abc", id=1)),
        collection(feature([[0, 0], ["x", 1]], id=1)),
        collection(feature([[0, 0], [1]], id=1)),
        collection(feature([10**400, 0], id=1)),
        collection(feature([0, 0], id=1, properties=[1])),
        collection(feature([0, 0], id=1, properties={"big": 10**400})),
        collection(feature([0, 0], id="\ud800")),
    ],
)
def test_what_is_no_geojson_is_refused_with_a_reason(tmp_path: Path, content: Any) -> None:
    path = geojson(tmp_path, content)
    with pytest.raises(DataError, match=r"places\.geojson: not a GeoJSON FeatureCollection \("):
        read_candidates(path)


def test_a_geojson_without_places_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'id' for id; found: ;"):
        read_candidates(geojson(tmp_path, collection()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=7,
)
COORDINATES = st.lists(st.floats(-200, 200), min_size=1, max_size=3)
FEATURES = st.fixed_dictionaries(
    {"geometry": st.fixed_dictionaries({"coordinates": JSON | COORDINATES}) | JSON},
    optional={"id": JSON, "properties": JSON | st.dictionaries(st.sampled_from("ab"), JSON)},
)


@given(st.lists(FEATURES | JSON, max_size=3), JSON)
def test_any_json_makes_places_or_an_error_that_explains(
    tmp_path_factory: pytest.TempPathFactory, features: list[Any], other: Any
) -> None:
    folder = tmp_path_factory.getbasetemp() / "json"
    for content in (collection(*features), other):
        try:
            places = read_candidates(geojson(folder, content))
        except DataError:
            continue
        assert len(places) == len(features)


# ---------------------------------------------------------------------------------- real data


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "columns", "count"),
    [
        ("manhattan_intersections_4091", "id=node", 4091),
        ("manhattan_osm_nodes_4607", "id=osm_idx", 4607),
        ("taxi_zone_centroids", "id=location_id,name=zone", 260),
    ],
)
def test_the_candidates_of_new_york_are_read(name: str, columns: str, count: int) -> None:
    folder = os.environ.get("FORECASTER_DATA")
    if not folder:
        pytest.skip("FORECASTER_DATA is not set; this test needs nyc_geo")
    places = read_candidates(Path(folder) / "nyc_geo" / f"{name}.parquet", columns)
    assert len(places) == len(set(places.ids)) == count
    assert places.placed.all()
    assert (np.abs(places.lat - 40.7) < 0.3).all()


def test_dates_of_candidates_are_local_and_may_have_other_names(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,lat,lon,since,closes\na,40,-74,2020-07-01,\nb,41,-74,,2021-01-01\n")
    places = read_candidates(path, "opens=since", "America/New_York")
    assert places.opens[0] == np.datetime64("2020-07-01T04:00", "s")
    assert places.closes[1] == np.datetime64("2021-01-01T05:00", "s")
    assert np.isnat(places.opens[1])
    assert np.isnat(places.closes[0])
