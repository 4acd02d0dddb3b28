import gzip
import hashlib
import random
import tracemalloc
import zlib
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import ConfigError, DataError
from forecaster.ingest import files
from forecaster.ingest.files import TimeSpan, covered_by_name, open_inputs, parse_span

ROWS = 211
SPAN = "2014-04-01:2014-06-30"
CUTS = 64
MIB = 1 << 20


def csv_bytes(rows: int = ROWS, seed: int = 7) -> bytes:
    """Return trips whose lines have many lengths and end in a line break."""
    draw = random.Random(seed)  # noqa: S311 (a fixed sample, no secret)
    lines = [b"pickup_datetime,pickup_latitude,pickup_longitude"]
    lines += [
        f"2014-04-{draw.randint(1, 30):02d} 08:00:00,{draw.random()},-{draw.random()}".encode()
        for _ in range(rows)
    ]
    return b"\n".join(lines) + b"\n"


def parquet_bytes(rows: int = ROWS) -> bytes:
    sink = pa.BufferOutputStream()
    lat = np.random.default_rng(7).uniform(40.4, 41.0, rows)
    pq.write_table(pa.table({"time": pa.array(["2014-04-01 08:00:00"] * rows), "lat": lat}), sink)
    return sink.getvalue().to_pybytes()


SAMPLES = {
    "trips.parquet": parquet_bytes(),
    "trips.csv": csv_bytes(),
    "trips.csv.gz": gzip.compress(csv_bytes(), mtime=0),
}


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def span(first: str, end: str) -> TimeSpan:
    return TimeSpan(np.datetime64(first, "s"), np.datetime64(end, "s"))


def refusal(paths: list[Path], covers: str | None = SPAN) -> str:
    with pytest.raises(DataError) as caught:
        open_inputs(paths, covers)
    assert caught.value.exit_code == 3
    return str(caught.value)


# ------------------------------------------------------------------------------ whole files


@pytest.mark.parametrize("name", SAMPLES)
def test_a_whole_file_is_known_by_the_hash_of_its_bytes(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, name, SAMPLES[name])
    seen: list[int] = []
    (item,) = open_inputs([path], SPAN, seen.append)
    assert item.path == path
    assert item.sha256 == hashlib.sha256(SAMPLES[name]).hexdigest()
    assert item.covered == span("2014-04-01", "2014-07-01")
    assert item.is_parquet == (name == "trips.parquet")
    assert sum(seen) == len(SAMPLES[name])
    assert item.lines == (None if item.is_parquet else ROWS)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_csv_may_end_its_lines_in_any_way(tmp_path: Path, end: bytes) -> None:
    path = put(tmp_path, "a.csv", csv_bytes(3).replace(b"\n", end))
    assert len(open_inputs([path], SPAN)) == 1


@pytest.mark.parametrize("rows", [5, 100_000])  # less and more than is expanded at once
def test_a_gzip_file_may_be_several_one_after_another(tmp_path: Path, rows: int) -> None:
    member = gzip.compress(b"2014-04-01 08:00:00,40.7,-74.0\n" * rows, mtime=0)
    path = put(tmp_path, "a.csv.gz", member * 3)
    (item,) = open_inputs([path], SPAN)
    assert item.sha256 == hashlib.sha256(member * 3).hexdigest()
    assert "truncated" in refusal([put(tmp_path, "a.csv.gz", member * 3 + member[:-1])])


@pytest.mark.parametrize("chunk", [16, 17, 31, 64, 257])
def test_it_does_not_matter_how_many_bytes_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", chunk)
    member = gzip.compress(csv_bytes(5), mtime=0)
    whole = {"a.csv.gz": member * 7, "a.csv": csv_bytes(5), "a.parquet": parquet_bytes(5)}
    for name, content in whole.items():
        path = put(tmp_path, name, content)
        assert open_inputs([path], SPAN)[0].sha256 == hashlib.sha256(content).hexdigest()
        assert "truncated" in refusal([put(tmp_path, name, content[:-3])])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@given(rows=st.lists(st.sampled_from(["", "a", "bb"]), max_size=11), chunk=st.integers(1, 9))
def test_I1_lines_are_counted_without_the_header_and_empty_ones(
    tmp_path_factory: pytest.TempPathFactory, end: str, rows: list[str], chunk: int
) -> None:
    content = "".join(f"{row}{end}" for row in ["header", *rows]).encode()
    path = put(tmp_path_factory.getbasetemp() / "lines", "a.csv", content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK_BYTES", chunk)
        (item,) = open_inputs([path], SPAN)
    assert item.lines == sum(row != "" for row in rows)


def test_a_gzip_file_may_end_where_a_chunk_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = gzip.compress(csv_bytes(5), mtime=0)
    monkeypatch.setattr(files, "CHUNK_BYTES", len(member))
    assert len(open_inputs([put(tmp_path, "a.csv.gz", member * 2)], SPAN)) == 1
    assert "truncated" in refusal([put(tmp_path, "a.csv.gz", member * 2 + member[:-1])])


@pytest.mark.parametrize("name", SAMPLES)
def test_I5_a_file_cut_at_any_64th_is_refused(tmp_path: Path, name: str) -> None:
    content = SAMPLES[name]
    cuts = [len(content) * part // CUTS for part in range(CUTS)]
    # Plain CSV has no mark at its end: cut between two lines it is a shorter file, and whole (see
    # the next test). None of these cuts falls there, so each of them must be seen.
    assert name != "trips.csv" or not any(content[:cut].endswith(b"\n") for cut in cuts)
    for cut in cuts:
        path = put(tmp_path, name, content[:cut])
        text = refusal([path])
        assert f"{path}: truncated, have {cut:,} bytes: " in text, cut
        assert text.endswith("fetch it again")


def test_I5_a_plain_csv_cut_between_two_lines_cannot_be_told_from_a_whole_one(
    tmp_path: Path,
) -> None:
    content = csv_bytes()
    cut = content.index(b"\n", len(content) // 2) + 1
    assert len(open_inputs([put(tmp_path, "a.csv", content[:cut])], SPAN)) == 1
    # The same rows under gzip are safe: the stream itself has an end.
    packed = gzip.compress(content, mtime=0)
    assert "truncated" in refusal([put(tmp_path, "a.csv.gz", packed[: len(packed) // 2])])


def test_I5_rows_cut_before_they_were_packed_are_refused(tmp_path: Path) -> None:
    packed = gzip.compress(csv_bytes()[:-2], mtime=0)
    text = refusal([put(tmp_path, "a.csv.gz", packed)])
    assert "no line break at the end (add one if the file is complete)" in text


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(3) + b"PAR1"])
def test_I5_marks_without_room_for_a_footer_are_no_parquet(tmp_path: Path, content: bytes) -> None:
    assert "no Parquet footer" in refusal([put(tmp_path, "a.parquet", content)])


def test_I5_a_parquet_footer_that_claims_more_than_the_file_has_is_refused(tmp_path: Path) -> None:
    content = parquet_bytes()
    forged = content[:-8] + len(content).to_bytes(4, "little") + b"PAR1"
    assert "no Parquet footer" in refusal([put(tmp_path, "a.parquet", forged)])


def test_I5_a_parquet_file_that_begins_otherwise_is_refused(tmp_path: Path) -> None:
    content = b"\0\0\0\0" + parquet_bytes()[4:]
    assert "no Parquet footer" in refusal([put(tmp_path, "a.parquet", content)])


def test_I5_a_page_in_place_of_a_parquet_file_is_shown(tmp_path: Path) -> None:
    path = put(tmp_path, "a.parquet", b"<!DOCTYPE html><html>no such month</html>\n")
    assert "no Parquet footer (it starts with b'<!DOCTYPE')" in refusal([path])


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-8] + bytes([content[-8] ^ 1]) + content[-7:],  # its checksum
        lambda content: content[:-4] + bytes(4),  # its length
        lambda content: content[: len(content) // 2] + b"\xff" * 50 + content[-8:],
        lambda _: csv_bytes(),  # never packed
        lambda content: content + b"\0" * 9,
    ],
)
def test_I5_a_damaged_gzip_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = put(tmp_path, "a.csv.gz", damage(SAMPLES["trips.csv.gz"]))
    assert f"{path}: damaged gzip (" in refusal([path])


NAMES = st.sampled_from(["a.csv", "a.csv.gz", "a.parquet"])
WILD = st.binary(max_size=99) | st.builds(gzip.compress, st.binary(max_size=99))


@given(name=NAMES, start=st.sampled_from([b"", b"PAR1"]), content=WILD)
def test_I5_any_bytes_are_taken_or_refused_with_a_reason(
    tmp_path_factory: pytest.TempPathFactory, name: str, start: bytes, content: bytes
) -> None:
    path = put(tmp_path_factory.getbasetemp() / "wild", name, start + content)
    try:
        (item,) = open_inputs([path], SPAN)
    except DataError as error:
        item, reason = None, str(error)
    assert str(path) in reason if item is None else len(item.sha256) == 64


def test_a_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, "a.csv", csv_bytes(3))

    def deny(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    assert f"{path}: cannot be read (Permission denied)" in refusal([path])


def test_all_faults_of_all_files_are_named_at_once(tmp_path: Path) -> None:
    good = put(tmp_path, "yellow_tripdata_2014-04.csv", csv_bytes())
    bad = [
        tmp_path / "yellow_tripdata_2014-05.csv",
        put(tmp_path, "yellow_tripdata_2014-06.csv", csv_bytes()[:-1]),
        put(tmp_path, "yellow_tripdata_2014-07.zip", b"PK"),
        tmp_path,
    ]
    text = refusal([good, *bad], covers=None)
    assert text.startswith("input files: 4 faults\n")
    assert f"{bad[0]}: no such file" in text
    assert f"{bad[1]}: truncated" in text
    assert f"{bad[2]}: unknown suffix; give one of .parquet, .csv, .csv.gz" in text
    assert f"{bad[3]}: no such file" in text
    assert str(good) not in text


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    assert f"{tmp_path / 'a.csv'}: no such file" in refusal([tmp_path / "a.csv"])


def test_no_files_at_all_are_refused() -> None:
    assert "none given; give .parquet, .csv or .csv.gz files" in refusal([])


# -------------------------------------------------------------------------------- only once


def test_I7_a_file_given_twice_is_refused_and_named(tmp_path: Path) -> None:
    a = put(tmp_path, "yellow_tripdata_2014-04.csv", csv_bytes(seed=1))
    b = put(tmp_path, "yellow_tripdata_2014-05.csv", csv_bytes(seed=2))
    for covers in (None, SPAN):
        text = refusal([a, a, b], covers)
        assert text == f"input files: 1 fault\n  {a}: the same content as {a}; give it once"


def test_I7_the_same_content_under_another_name_is_refused(tmp_path: Path) -> None:
    a = put(tmp_path, "yellow_tripdata_2014-04.csv", csv_bytes(seed=1))
    again = put(tmp_path, "yellow_tripdata_2014-05.csv", csv_bytes(seed=1))
    b = put(tmp_path, "yellow_tripdata_2014-06.csv", csv_bytes(seed=2))
    for covers in (None, SPAN):
        text = refusal([a, b, again], covers)
        assert text == f"input files: 1 fault\n  {again}: the same content as {a}; give it once"


@pytest.mark.parametrize("other", ["yellow_tripdata_2014-04.parquet", "old/{}", "{}.gz"])
def test_I7_a_month_given_twice_in_other_bytes_is_refused(tmp_path: Path, other: str) -> None:
    first = put(tmp_path, "yellow_tripdata_2014-04.csv", csv_bytes(seed=1))
    content = {"parquet": parquet_bytes(), "gz": gzip.compress(csv_bytes(seed=1))}
    name = other.format(first.name)
    again = put(tmp_path, name, content.get(name.rsplit(".", 1)[1], csv_bytes(seed=2)))
    for covers in (None, SPAN):
        text = refusal([first, again], covers)
        assert text == f"input files: 1 fault\n  {again}: the same month as {first}; give it once"


def test_I7_one_month_of_two_fleets_is_no_double(tmp_path: Path) -> None:
    names = [f"{fleet}_tripdata_2014-04.csv" for fleet in ("yellow", "green", "fhv", "fhvhv")]
    paths = [put(tmp_path, name, csv_bytes(seed=n)) for n, name in enumerate(names)]
    assert len(open_inputs(paths, covers=None)) == 4


def test_I7_several_files_may_share_a_span_that_was_given(tmp_path: Path) -> None:
    paths = [put(tmp_path / str(seed), "trips.csv", csv_bytes(seed=seed)) for seed in range(3)]
    inputs = open_inputs(paths, SPAN)
    assert [item.covered for item in inputs] == [parse_span(SPAN)] * 3


@given(order=st.permutations(range(5)))
def test_I12_the_order_of_files_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "order"
    paths = [
        put(folder, f"yellow_tripdata_2014-{seed + 1:02d}.csv", csv_bytes(3, seed))
        for seed in range(5)
    ]
    expected = open_inputs(paths, covers=None)
    assert open_inputs([paths[n] for n in order], covers=None) == expected
    assert sorted(item.path for item in expected) == paths


# ----------------------------------------------------------------------- which hours it covers


@pytest.mark.parametrize(
    ("name", "first", "end"),
    [
        ("yellow_tripdata_2014-04.csv", "2014-04-01", "2014-05-01"),
        ("yellow_tripdata_2009-12.parquet", "2009-12-01", "2010-01-01"),
        ("green_tripdata_2016-02.csv.gz", "2016-02-01", "2016-03-01"),
        ("fhv_tripdata_2015-01.csv", "2015-01-01", "2015-02-01"),
        ("fhvhv_tripdata_2019-02.parquet", "2019-02-01", "2019-03-01"),
        ("copy of yellow_tripdata_2014-04.old.csv", "2014-04-01", "2014-05-01"),
    ],
)
def test_I11_a_tlc_name_says_which_month_the_file_covers(name: str, first: str, end: str) -> None:
    assert covered_by_name(Path("2001-01") / name) == span(first, end)


@pytest.mark.parametrize(
    "name",
    [
        "uber-raw-data-apr14.csv",
        "yellow_tripdata_2014.csv",
        "yellow_tripdata_2014-13.csv",
        "yellow_tripdata_2014-00.csv",
        "yellow_tripdata_2014-1.csv",
        "yellow_tripdata_2014-011.csv",
        "red_tripdata_2014-01.csv",
    ],
)
def test_I11_any_other_name_does_not_tell(name: str) -> None:
    assert not covered_by_name(Path("yellow_tripdata_2014-01") / name).is_known


def test_I11_a_month_in_the_name_counts_more_than_a_given_span(tmp_path: Path) -> None:
    path = put(tmp_path, "yellow_tripdata_2001-01.csv", csv_bytes(3))
    (item,) = open_inputs([path], "2001-01-01:2001-12-31")
    assert item.covered == span("2001-01-01", "2001-02-01")  # else eleven months of false zeros


def test_I1_the_lines_of_a_text_file_are_counted(tmp_path: Path) -> None:
    text = b"a,b\r\n1,2\r\n\r\n3,4\n\n\n5,6\n"
    for path in (put(tmp_path, "a.csv", text), put(tmp_path, "b.csv.gz", gzip.compress(text))):
        (item,) = open_inputs([path], SPAN)
        assert item.lines == 3


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.integers(0, 4000))
def test_I11_both_days_of_a_span_are_covered(first: date, days: int) -> None:
    last = first + timedelta(days)
    found = parse_span(f"{first}:{last}")
    assert found.first == np.datetime64(first, "s")
    assert found.end - found.first == np.timedelta64(days + 1, "D")


@pytest.mark.parametrize(
    "text",
    [
        "", ":", "2014-04-01", "2014-04-01:", ":2014-04-01", "2014-04:2014-06", "2014:2015",
        "2014-04-31:2014-05-01", "NaT:NaT", "today:today", "2014-04-01T12:2014-04-02",
        "2014-04-01:2014-04-02:2014-04-03", "04/01/2014:06/30/2014", "April:June",
    ],
)  # fmt: skip
def test_I11_what_is_not_two_days_is_no_span(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a date range; give e\.g\. 2014-04-01"):
        parse_span(text)


def test_I11_a_span_that_ends_before_it_begins_is_refused_once_for_all_files(
    tmp_path: Path,
) -> None:
    paths = [put(tmp_path, f"{seed}.csv", csv_bytes(3, seed)) for seed in range(3)]
    with pytest.raises(ConfigError, match=r"^'2014-06-30:2014-04-01' ends before it begins; give"):
        open_inputs(paths, "2014-06-30:2014-04-01")


# ------------------------------------------------------------------------------------ bombs


def test_I17_ten_gigabytes_in_ten_megabytes_are_refused_in_little_memory(tmp_path: Path) -> None:
    member = gzip.compress(bytes(10 * MIB), mtime=0)
    assert 9_000 < len(member) < 11_000
    path = put(tmp_path, "a.csv.gz", member * 1000)  # 10 GB of zeros
    tracemalloc.start()
    try:
        text = refusal([path])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"{path}: refused: expands more than 200 times; decompress it first" in text
    assert peak < 100 * MIB


def test_I17_one_long_stream_is_refused_too(tmp_path: Path) -> None:
    packer = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    content = b"".join(packer.compress(bytes(MIB)) for _ in range(128)) + packer.flush()
    assert "refused: expands more than" in refusal([put(tmp_path, "a.csv.gz", content)])


def test_I17_a_small_file_of_equal_rows_is_no_bomb(tmp_path: Path) -> None:
    content = gzip.compress(b"2014-04-01 08:00:00,40.7,-74.0\n" * 200_000)
    assert len(content) * files.MAX_EXPANSION < 31 * 200_000
    assert len(open_inputs([put(tmp_path, "a.csv.gz", content)], SPAN)) == 1
