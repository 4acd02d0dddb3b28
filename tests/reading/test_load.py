import bz2
import gzip
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster.errors import ConfigError, DataError
from forecaster.reading import compressed
from forecaster.reading.load import ReadRules, form_of, load
from tests.workbooks import write_sheet, write_sheets, write_workbook


def test_a_csv_keeps_ids_and_times_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("unique_id,ds,y\n007,2014-06-01T08:00-04:00,1\n1e3,2014-06-01,\n")
    table, name = load(path)
    assert table["unique_id"].to_pylist() == ["007", "1e3"]
    assert table["ds"].to_pylist() == ["2014-06-01T08:00-04:00", "2014-06-01"]
    assert table["y"].to_pylist() == [1, None]
    assert name == str(path)


def test_a_csv_may_be_compressed_and_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    content = "\ufeffunique_id,ds,y\r\n007,2014-06-01,1\r\n".encode()
    (tmp_path / "long.csv.gz").write_bytes(gzip.compress(content))
    table, _ = load(str(tmp_path / "long.csv.gz"))
    assert table.to_pylist() == [{"unique_id": "007", "ds": "2014-06-01", "y": 1}]


def test_the_words_for_nothing_in_a_csv_are_null(tmp_path: Path) -> None:
    words = ["", "NA", "N/A", "NULL", "null", "None"]
    (tmp_path / "long.csv").write_text("unique_id,y\n" + "".join(f"a,{w}\n" for w in [*words, 0]))
    table, _ = load(tmp_path / "long.csv")
    assert table["y"].to_pylist() == [None] * 6 + [0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", b"PAR1 and nothing more", "cannot be read as a table"),
        ("a.csv", b"", "cannot be read as a table"),
        ("a.csv", b"unique_id,ds\na,b,c\n", "cannot be read as a table"),
        ("a.csv", b"unique_id,ds\n\x81,b\n", "cannot be read as a table"),
        ("a.csv.gz", b"\x1f\x8b damaged", "damaged or cut short"),
        ("a.docx", b"PK", r"\.docx; give a \.csv \(also"),
        ("a.xlsx", b"PK", "cannot be read as a workbook"),
        ("a", b"", "no suffix; give a"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load(tmp_path / name)


def test_a_parquet_file_cut_short_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": list(range(997))}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for part in range(7):
        (tmp_path / "a.parquet").write_bytes(whole[: len(whole) * part // 7])
        with pytest.raises(DataError, match="cannot be read as a table"):
            load(tmp_path / "a.parquet")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "a.csv", tmp_path):
        with pytest.raises(DataError, match="no such file; give a"):
            load(path)


def test_named_levels_of_a_pandas_index_become_columns() -> None:
    frame = pd.DataFrame({"unique_id": ["a", "b"], "ds": ["2014-06-01"] * 2, "y": [1, 2]})
    table, _ = load(frame.set_index(["unique_id", "ds"]))
    assert table.to_pydict() == frame.to_dict("list")


def test_a_pandas_index_without_a_name_is_left_out() -> None:
    table, _ = load(pd.DataFrame({"y": [1, 2]}, index=[5, 3]))
    assert table.column_names == ["y"]


def test_pandas_columns_named_by_numbers_become_texts() -> None:
    table, _ = load(pd.DataFrame({7: pd.Series([1, None], dtype=object), "ds": ["a", "b"]}))
    assert table.to_pydict() == {"7": ["1", None], "ds": ["a", "b"]}


def test_pandas_columns_given_twice_are_refused() -> None:
    with pytest.raises(DataError, match="table: columns given twice: ds, y"):
        load(pd.DataFrame([[1, 2, 3, 4]], columns=["y", "y", "ds", "ds"]))
    with pytest.raises(DataError, match="columns given twice: 1"):
        load(pd.DataFrame([[1, 2]], columns=[1, "1"]))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"ds": ["a"]}, index=pd.Index(["a"], name="ds")),
        pd.DataFrame({"y": [1j]}),
    ],
)
def test_a_frame_that_is_no_plain_table_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="columns must be numbers, texts or times"):
        load(frame)


def test_a_pandas_frame_is_not_changed_by_reading_it() -> None:
    frame = pd.DataFrame(
        {1: pd.Series(["x", np.nan], dtype=object), "y": [1.5, np.nan]},
        index=pd.Index([3, 2], name="row"),
    )
    before = frame.copy(deep=True)
    load(frame)
    pd.testing.assert_frame_equal(frame, before)


# ------------------------------------------------------------------- as people have files

GERMAN = "Zähler;Zeit;kWh\nA;31.12.2022 00:15;1.234,5\nB;31.12.2022 00:15;0,25\n"
READ = [
    {"Zähler": "A", "Zeit": "31.12.2022 00:15", "kWh": 1234.5},
    {"Zähler": "B", "Zeit": "31.12.2022 00:15", "kWh": 0.25},
]


def put(folder: Path, content: str | bytes, name: str = "a.csv") -> Path:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_a_spreadsheets_csv_is_read_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    path = put(tmp_path, GERMAN.rstrip().encode(encoding))  # no last line break
    table, _ = load(path)
    assert table.to_pylist() == READ
    assert form_of(table) == f"semicolon-separated, {encoding}, decimal comma"


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, mark: str) -> None:
    rows = [["id", "when", "n"], ["a", "2022-01-01 00:00", "1.5"], ["b", "2022-01-01 01:00", "2"]]
    table, _ = load(put(tmp_path, "\r\n".join(mark.join(row) for row in rows)))
    assert table.column_names == ["id", "when", "n"]
    assert table["n"].to_pylist() == [1.5, 2.0]


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstd,
}  # fmt: skip


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_file_is_decompressed_by_what_it_is_whatever_its_name(
    tmp_path: Path, suffix: str
) -> None:
    packed = PACKERS[suffix](GERMAN.encode())
    for name in (f"a.csv.{suffix}", "b.csv"):
        assert load(put(tmp_path, packed, name))[0].to_pylist() == READ


@pytest.mark.parametrize("suffix", ["gz", "xz", "zst"])
def test_A3_a_file_that_expands_without_bound_is_refused_in_little_memory(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "FREE_BYTES", 1 << 20)
    row = b"2022-01-01 00:00,1\n"
    path = put(tmp_path, PACKERS[suffix](b"ds,y\n" + row * 1_000_000), f"a.csv.{suffix}")
    tracemalloc.start()
    with pytest.raises(DataError, match="over 200 times its size; decompress it first"):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def test_A3_a_workbook_that_expands_without_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "FREE_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * (20 << 20))
    with pytest.raises(DataError, match="refused: more than"):
        load(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    "rows",
    [
        '<row r="1"><c r="A1"/></row><row r="1048576"><c r="XFD1048576"/></row>',
        "<row><c r='a1'/></row><row><c r = 'xfd1048576'/></row>",
        "<row><c/></row>" * 3_000_000,
    ],
)
def test_A3_a_workbook_of_more_cells_than_its_size_allows_is_refused(
    tmp_path: Path, rows: str
) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/any.xml", f"<worksheet><sheetData>{rows}</sheetData></worksheet>")
    with pytest.raises(DataError, match="cells in a file of this size; remove cells far from"):
        load(tmp_path / "a.xlsx")


def test_A3_a_parquet_file_of_long_equal_texts_is_refused(tmp_path: Path) -> None:
    places = pa.DictionaryArray.from_arrays(np.zeros(100, dtype=np.int32), ["x" * (1 << 20)])
    for column in (places, places.cast(pa.string())):
        pq.write_table(pa.table({"unique_id": column}), tmp_path / "a.parquet")
        with pytest.raises(DataError, match="over 200 times its size"):
            load(tmp_path / "a.parquet")


def test_A3_a_table_of_too_many_columns_is_refused(tmp_path: Path) -> None:
    names = ",".join(f"c{n}" for n in range(30_000))
    path = put(tmp_path, f"ds,{names}\n2022-01-01{',1' * 30_000}\n2022-01-02{',1' * 30_000}\n")
    with pytest.raises(DataError, match="30,001 columns; at most 20,000 are read"):
        load(path)


def test_A3_a_parquet_file_of_a_billion_equal_rows_is_refused(tmp_path: Path) -> None:
    column = pa.array([None], pa.null()).take(pa.array(np.zeros(40_000_000, dtype=np.int8)))
    pq.write_table(pa.table({"ds": column, "y": column}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="bytes become 640,000,000, more than 2,000 times"):
        load(tmp_path / "a.parquet")


def test_A5_compressed_data_cut_short_is_refused_with_a_sentence(tmp_path: Path) -> None:
    for suffix, pack in PACKERS.items():
        whole = pack(GERMAN.encode() * 40)
        with pytest.raises(DataError, match="damaged or cut short"):
            load(put(tmp_path, whole[: len(whole) // 2], f"a.csv.{suffix}"))


def test_A7_hexadecimal_is_no_number(tmp_path: Path) -> None:
    table, _ = load(put(tmp_path, "id,n\na,1\nb,0x10\nc,2\n"))
    assert table["n"].to_pylist() == ["1", "0x10", "2"]  # refused later, with its row


def test_lines_above_the_header_and_a_row_of_units_are_left_out(tmp_path: Path) -> None:
    above = "sep=;\nLogger 7\n\n"
    table, _ = load(put(tmp_path, f"{above}Zeit;T1;T2\n;°C;°C\n1.2.2022;3,5;4\n2.2.2022;3;4,25\n"))
    assert table["T1"].to_pylist() == [3.5, 3.0]
    assert "3 lines above the header left out" in form_of(table)
    assert "a row of units left out" in form_of(table)


def test_properties_of_the_table_above_the_header_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    above = "Lastgang;;;\nZählpunkt:;DE0001;;\nJahr:;2024;;\nEinheit;kWh;;\n;;;\n"
    path.write_text(f"{above}Datum;Uhrzeit;Verbrauch [kWh];Status\n08.01.2024;00:15;27,85;W\n")
    table, _ = load(path)
    assert table.column_names == ["Datum", "Uhrzeit", "Verbrauch [kWh]", "Status"]
    assert table["Verbrauch [kWh]"].to_pylist() == [27.85]
    assert "5 lines above the header left out" in form_of(table)


def test_a_file_without_a_header_has_numbered_columns(tmp_path: Path) -> None:
    table, _ = load(put(tmp_path, "2022-01-01 00:00:00,21.5,7\n2022-01-01 00:01:00,21.6,8\n"))
    assert table.column_names == ["column 1", "column 2", "column 3"]
    assert table.num_rows == 2
    assert "no header" in form_of(table)


def test_bars_around_rows_and_ruled_lines_are_no_cells(tmp_path: Path) -> None:
    text = "|Werk|Datum     |Menge |\n" + "-" * 25 + "\n"
    text += "|W1  |31.12.2022|1.234 |\n|W2  |31.12.2022|    5,5|\n"
    table, _ = load(put(tmp_path, text))
    assert table.column_names == ["Werk", "Datum", "Menge"]
    assert table["Menge"].to_pylist() == [1234.0, 5.5]


def test_numbers_that_may_have_thousands_or_decimals_are_asked_for(tmp_path: Path) -> None:
    path = put(tmp_path, "id;n\na;1,234\nb;5,678\n")
    with pytest.raises(ConfigError, match="'1,234' may have thousands or decimals; give dec"):
        load(path)
    assert load(path, rules=ReadRules(decimal=","))[0]["n"].to_pylist() == [1.234, 5.678]
    assert load(path, rules=ReadRules(decimal="."))[0]["n"].to_pylist() == [1234.0, 5678.0]
    with pytest.raises(ConfigError, match=r"written both as '1,5' and '2\.5'; give decimal="):
        load(put(tmp_path, "id;n\na;1,5\nb;2.5\n"))


@pytest.mark.parametrize(
    ("numbers", "values"),
    [
        (["1,234.5", "7"], [1234.5, 7.0]),
        (["1,234,567", "7"], [1234567.0, 7.0]),
        (["1.234.567", "7"], [1234567.0, 7.0]),
        (["1'234.5", "7"], [1234.5, 7.0]),
        (["1 234,5", "-7"], [1234.5, -7.0]),
        (["1\u00a0234,5", "+7"], [1234.5, 7.0]),
        (["0,234", "7"], [0.234, 7.0]),
        (["1,5e3", "7"], [1500.0, 7.0]),
    ],
)
def test_groups_of_thousands_are_told_from_decimals(
    tmp_path: Path, numbers: list[str], values: list[float]
) -> None:
    rows = "".join(f"x\t{number}\n" for number in numbers)
    assert load(put(tmp_path, "id\tn\n" + rows))[0]["n"].to_pylist() == values


def test_markers_of_missing_values_do_not_hide_numbers(tmp_path: Path) -> None:
    path = put(tmp_path, "id;n\na;1,5\nb;k.A.\nc;-\n")
    table, _ = load(path, rules=ReadRules(missing=("k.A.", "-")))
    assert table["n"].to_pylist() == [1.5, None, None]


def test_rows_of_another_length_are_shown(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"1 row of another length: 'Summe;7': 2 columns in place"):
        load(put(tmp_path, "id;when;n\na;2022-01-01;3\nb;2022-01-01;4\nSumme;7\n"))


def test_a_workbook_is_read_with_its_days_and_whole_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "Datum": pd.date_range("2022-12-30", periods=3),
            "Ort": ["a", "b", "a"],
            "n": [1, 2, None],
        }
    )
    write_workbook(frame, tmp_path / "a.xlsx")
    table, _ = load(tmp_path / "a.xlsx")
    assert str(table["Datum"][1]) == "2022-12-31 00:00:00"
    assert table["n"].to_pylist() == [1, 2, None]
    assert form_of(table) == "sheet 'Sheet1'"


# -------------------------------------------------------------------------- other libraries


def test_frames_of_polars_and_relations_of_duckdb_are_tables() -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    frame = polars.DataFrame({"id": ["a", "b"], "n": [1, None]})
    expected = [{"id": "a", "n": 1}, {"id": "b", "n": None}]
    assert load(frame)[0].to_pylist() == expected
    categories = frame.with_columns(polars.col("id").cast(polars.Categorical))
    assert load(categories)[0].to_pylist() == expected
    relation = duckdb.sql("select * from (values ('a', 1), ('b', null)) t(id, n)")
    assert load(relation)[0].to_pylist() == expected


def test_a_frame_with_the_interchange_protocol_alone_is_a_table() -> None:
    class Exchanged:
        """A frame of a library that we do not know."""

        def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
            return pa.table({"n": [1, 2]}).__dataframe__(nan_as_null, allow_copy)

    assert load(Exchanged())[0].to_pylist() == [{"n": 1}, {"n": 2}]


def test_negative_amounts_are_read_as_accounts_and_ledgers_write_them(tmp_path: Path) -> None:
    amounts = ["$1,002.01", "($112.50)", "(3)", "-$4.00", "$0.25"]
    (tmp_path / "a.csv").write_text("day,amount\n" + "".join(f'1,"{a}"\n' for a in amounts))
    assert load(tmp_path / "a.csv")[0]["amount"].to_pylist() == [1002.01, -112.5, -3, -4, 0.25]
    (tmp_path / "b.csv").write_text("day;amount\n1;1.234,50-\n1;7,25\n")
    assert load(tmp_path / "b.csv")[0]["amount"].to_pylist() == [-1234.5, 7.25]


def test_signs_in_place_of_numbers_are_missing_and_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("day,n\n1,5\n2,-\n3,..\n4,6\n5,7\n6,unavailable\n7,8\n")
    table, _ = load(tmp_path / "a.csv")
    assert table["n"].to_pylist() == [5, None, None, 6, 7, None, 8]
    told = "'-' read as missing (1), '..' read as missing (1), 'unavailable' read as missing (1)"
    assert told in form_of(table)


def test_cells_in_single_quotes_may_hold_delimiters(tmp_path: Path) -> None:
    lines = ["'Date','Flow, m3/h'", "'2023-01-01 00:00','1.5'", "'2023-01-01 01:00','2.5'"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    table, _ = load(tmp_path / "a.csv")
    assert table["Flow, m3/h"].to_pylist() == [1.5, 2.5]
    assert "cells in '…'" in form_of(table)


def test_an_apostrophe_in_a_name_quotes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("day,place,n\n1,L'Aquila,2\n2,O'Hare,3\n3,Coeur d'Alene,4\n")
    assert load(tmp_path / "a.csv")[0]["place"].to_pylist() == [
        "L'Aquila",
        "O'Hare",
        "Coeur d'Alene",
    ]


TWO_ROWS = (("", "North", None, "South", None), ("Day", "cars", "temp", "cars", "temp"))
NAMES = ["Day", "North › cars", "North › temp", "South › cars", "South › temp"]


def test_names_that_span_columns_are_joined_with_those_below_them(tmp_path: Path) -> None:
    rows = [[f"2023-01-0{day}", day, 2.5, 3 * day, 1.5] for day in range(1, 7)]
    lines = [",".join("" if c is None else str(c) for c in row) for row in (*TWO_ROWS, *rows)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    table, _ = load(tmp_path / "a.csv")
    assert table.column_names == NAMES
    assert table["South › cars"].to_pylist() == [3 * day for day in range(1, 7)]
    assert "a header of two rows" in form_of(table)
    write_sheet([*TWO_ROWS, *rows], tmp_path / "a.xlsx")
    assert load(tmp_path / "a.xlsx")[0].column_names == NAMES


def test_sheets_of_the_same_columns_are_joined_and_others_passed_over(tmp_path: Path) -> None:
    days = pd.date_range("2023-01-30", periods=4)
    sheets = {
        name: [["day", "n"], *([day, 1] for day in days[part])]
        for name, part in (("Jan", slice(0, 2)), ("Feb", slice(2, 4)))
    }
    notes = {"Read me": [["Sheet", "holds"], ["Jan", "January"]]}
    write_sheets(notes | sheets, tmp_path / "a.xlsx")
    table, _ = load(tmp_path / "a.xlsx")
    assert table["day"].to_pylist() == [day.to_pydatetime() for day in days]
    assert form_of(table) == "sheets 'Jan', 'Feb' of 3"


def test_japanese_texts_of_spreadsheets_are_read(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_bytes(
        "日付,店舗名,売上\n2023/4/1,新宿店,748\n2023/4/2,新宿店,569\n".encode("cp932")
    )
    table, _ = load(path)
    assert table.column_names == ["日付", "店舗名", "売上"]
    assert table["店舗名"].to_pylist() == ["新宿店"] * 2
    assert "cp932" in form_of(table)


@pytest.mark.parametrize("word", ["fermé", "Geschlossen", "closed", "定休日"])
def test_days_on_which_a_place_is_closed_have_no_value(tmp_path: Path, word: str) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(f"Date;Gerland\n2022-09-01;134\n2022-09-02;{word}\n2022-09-03;216\n")
    table, _ = load(path)
    assert table["Gerland"].to_pylist() == [134, None, 216]
    assert f"{word!r} read as missing (1)" in form_of(table)
