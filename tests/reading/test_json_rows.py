import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from forecaster.errors import DataError
from forecaster.reading import json_rows
from forecaster.reading.load import form_of, load

ROWS = [{"time": f"2023-01-0{day}", "count": day} for day in (1, 2, 3)]


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.jsonl", "\n".join(map(json.dumps, ROWS)), "JSON lines"),
        ("a.ndjson", "\ufeff" + "\r\n".join(map(json.dumps, ROWS)) + "\r\n\r\n", "JSON lines"),
        ("a.json", json.dumps(ROWS, indent=2), "JSON array"),
        ("a.json", json.dumps({"page": 1, "data": ROWS}), "JSON document"),
        ("a.json", json.dumps({"result": {"rows": ROWS, "total": 3}}, indent=1), "JSON document"),
        ("a.json", json.dumps({n: [row[n] for row in ROWS] for n in ROWS[0]}), "JSON document"),
        (
            "a.json",
            json.dumps({n: {str(i): row[n] for i, row in enumerate(ROWS)} for n in ROWS[0]}),
            "JSON document",
        ),
    ],
)
def test_json_is_read_by_rows_or_columns(tmp_path: Path, name: str, text: str, form: str) -> None:
    (tmp_path / name).write_text(text)
    table, _ = load(tmp_path / name)
    assert table.to_pylist() == ROWS
    assert form_of(table) == form


def test_json_may_be_compressed_and_reach_over_several_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_rows, "_CHUNK", 61)
    monkeypatch.setattr(json_rows, "_ROWS", 7)
    rows = [{"time": f"2023-01-01T{hour:02d}:00", "y": hour} for hour in range(23)]
    for text in ("\n".join(map(json.dumps, rows)), json.dumps(rows, indent=3)):
        (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        assert load(tmp_path / "a.jsonl.gz")[0].to_pylist() == rows


def test_nested_objects_become_columns_and_lists_stay_text(tmp_path: Path) -> None:
    row = {"at": "2023-01-01", "meter": {"id": "007", "kwh": {"in": 1.5}}, "tags": [1, 2]}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    table, _ = load(tmp_path / "a.jsonl")
    assert table.column_names == ["at", "meter.id", "meter.kwh.in", "tags"]
    assert table["meter.id"].to_pylist() == ["007"] * 2
    assert table["meter.kwh.in"].to_pylist() == [1.5] * 2
    assert table["tags"].to_pylist() == ["[1, 2]"] * 2


def test_fields_that_some_rows_lack_are_null_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_rows, "_ROWS", 2)
    lines = ['{"a": 1}', '{"a": 2, "b": 1}', '{"b": 2.5}', '{"a": null, "b": NaN}', '{"c": "x"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    table, _ = load(tmp_path / "a.jsonl")
    assert table["a"].to_pylist() == [1, 2, None, None, None]
    assert table["b"].to_pylist() == [None, 1.0, 2.5, None, None]
    assert table["c"].to_pylist() == [None] * 4 + ["x"]


def test_values_of_several_types_and_very_large_ones_are_read(tmp_path: Path) -> None:
    lines = ['{"a": 1, "b": true, "c": 123456789012345678901}', '{"a": "x", "b": false, "c": 1}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    table, _ = load(tmp_path / "a.jsonl")
    assert table["a"].to_pylist() == ["1", "x"]
    assert table["b"].to_pylist() == [1, 0]
    assert table["c"].to_pylist() == [123456789012345678901.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as JSON"),
        ("[]", "it is empty"),
        ("[1, 2]", "row 1 is '1'"),
        ('{"a": 1}\n{"a": 2', "cannot be read as JSON"),
        ('[{"a": 1}, {"a"', "cannot be read as JSON"),
        ('{"a": 1}\n\nnot JSON', "cannot be read as JSON"),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}\n{}", "cannot be read as JSON"),
        ("[" * 100_000, "it is empty"),
    ],
)
def test_json_that_is_no_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=message):
        load(tmp_path / "a.json")


def test_a_small_file_that_becomes_large_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": "%s"}\n' % (b"x" * 4093) * 20_011))
    tracemalloc.start()
    with pytest.raises(DataError, match="refused: more than"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 300 << 20
    tracemalloc.stop()


def test_rows_of_ever_other_fields_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_rows, "FREE_CELLS", 1000)
    (tmp_path / "a.jsonl").write_text("\n".join(f'{{"f{n}": 1}}' for n in range(997)))
    with pytest.raises(DataError, match="994,009 cells of 997 fields, most of them empty"):
        load(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text("\n".join(f'{{"f{n}": 1}}' for n in range(20_011)))
    with pytest.raises(DataError, match="20,011 columns; at most 20,000"):
        load(tmp_path / "b.jsonl")
