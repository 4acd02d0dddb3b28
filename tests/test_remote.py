"""Files in buckets and on web servers: what is read of them, and what is refused."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster import Panel, SeasonalNaive, Splits
from forecaster.errors import ArtifactError, ConfigError, DataError, RunError
from forecaster.estimators.registry import load_estimator
from forecaster.panel.storage import blocks
from forecaster.publish.manifest import read_manifest
from forecaster.remote import RemoteFile, is_remote
from forecaster.synthetic.city import make_city
from forecaster.versions import Versions
from tests.stores import SECRET, Bucket, Web


def write_table(path: Path, rows: int = 20_000) -> Path:
    """Write a table whose last column is most of its bytes."""
    noise = np.random.default_rng(0).bytes(rows * 60)
    texts = [noise[60 * i : 60 * i + 60] for i in range(rows)]
    columns = {"time": range(rows), "value": [float(i % 7) for i in range(rows)], "note": texts}
    pq.write_table(pa.table(columns), path, row_group_size=5_000)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [("s3://a/b", True), (Path("s3://a/b"), True), ("gs://a/b", True), ("https://h/x.csv", True),
     ("/data/x.csv", False), ("postgresql://h/db", False), ("file:///x", False), ("s3://", False)],
)  # fmt: skip
def test_an_address_is_known_by_its_scheme(text: object, expected: bool) -> None:
    assert is_remote(text) is expected


def test_of_a_parquet_file_the_needed_columns_travel_alone(bucket: Bucket, tmp_path: Path) -> None:
    path = write_table(tmp_path / "trips.parquet")
    file = RemoteFile.parse(bucket.put(path, "trips.parquet"))
    here = file.fetch(["time", "value", "absent"])
    assert (here.name, pq.read_table(here).column_names) == ("trips.parquet", ["time", "value"])
    assert pq.read_table(here).equals(pq.read_table(path).select(["time", "value"]))
    assert bucket.received < path.stat().st_size / 4
    before = bucket.received
    assert file.fetch(["absent", "value", "time"]) == here
    assert bucket.received == before  # not read twice
    assert file.fetch().read_bytes() == path.read_bytes()


def test_a_store_that_fails_is_asked_again(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,value\n")
    file = RemoteFile.parse(bucket.put(tmp_path / "a.csv", "a.csv"))
    bucket.failures = 2
    assert file.fetch().read_text() == "time,value\n"


@pytest.mark.usefixtures("bucket")
def test_what_cannot_be_read_is_told_without_credentials(web: Web) -> None:
    with pytest.raises(DataError, match=r"^s3://bucket/no\.csv: no such file"):
        RemoteFile.parse("s3://bucket/no.csv").fetch()
    signed = RemoteFile.parse(f"{web.url}/no.csv?X-Amz-Signature={SECRET}")
    with pytest.raises(DataError, match="no such file") as missing:
        signed.fetch()
    for address in (f"s3://reader:{SECRET}@bucket/a.csv", f"https://u:{SECRET}@host/a.csv"):
        with pytest.raises(ConfigError, match="leave them out") as refused:
            RemoteFile.parse(address)
        assert SECRET not in str(refused.value)
    with pytest.raises(ConfigError, match="the address of a file"):
        RemoteFile.parse("https://host/?x").fetch()
    web_is_gone = RemoteFile.parse(f"http://127.0.0.1:1/a.csv?token={SECRET}")
    with pytest.raises(RunError, match="see that the store answers") as lost:
        web_is_gone.fetch()
    assert SECRET not in str(missing.value) + str(lost.value) + signed.name


def test_a_file_of_a_web_server_is_read(web: Web) -> None:
    path = write_table(web.folder / "some file.parquet", 100)
    file = RemoteFile.parse(f"{web.url}/some%20file.parquet")
    assert file.fetch().read_bytes() == path.read_bytes()
    assert pq.read_table(file.fetch(["time"])).num_rows == 100  # that server sends the whole


def test_a_server_of_https_is_read_if_its_authority_is_trusted(secure_web: Web) -> None:
    (secure_web.folder / "a.csv").write_text("x\n7\n")
    file = RemoteFile.parse(f"{secure_web.url}/a.csv")
    with pytest.raises(ConfigError, match=r"not trusted .*; name .* in SSL_CERT_FILE"):
        file.fetch()
    script = (
        "import sys\nfrom forecaster.remote import RemoteFile\n"
        "print(RemoteFile.parse(sys.argv[1]).fetch().read_text())"
    )
    words = [sys.executable, "-c", script, file.url]
    trusting = {**os.environ, "SSL_CERT_FILE": str(secure_web.authority)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=trusting)
    assert done.stdout.split() == ["x", "7"], done.stderr


@pytest.mark.usefixtures("web")
def test_a_web_server_that_knows_parts_sends_the_needed_columns(
    bucket: Bucket, tmp_path: Path
) -> None:
    path = write_table(tmp_path / "trips.parquet")
    bucket.put(path, "web.parquet")
    file = RemoteFile.parse(f"http://127.0.0.1:{bucket.port}/bucket/web.parquet")
    assert pq.read_table(file.fetch(["value"])).equals(pq.read_table(path, columns=["value"]))
    assert bucket.received < path.stat().st_size / 4


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A panel in two blocks, with an older version and a file that is no part of it, and a run."""
    folder = tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MAX_ROWS", 3 * 2048)
        panel = make_city(locations=3, hours=24 * 100, seed=2).panel
        panel.steps(0, 24 * 90).save(folder / "panel")
        panel = panel.save(folder / "panel")
    (folder / "panel" / "notes.txt").write_text("not ours")
    SeasonalNaive().fit(panel, Splits.by_share(panel)).save(folder / "run")
    Versions.begin(folder / "runs").add(folder / "run")
    return folder


def test_of_a_panel_only_what_is_read_is_fetched(bucket: Bucket, saved: Path) -> None:
    url = bucket.put(saved / "panel", "panel")
    panel = Panel.open(url, verify=False)
    manifest = read_manifest(saved / "panel")
    assert panel.digest == manifest.digest
    values = {n: f.name for n, f in manifest.files.items() if n.startswith("values")}
    assert len(values) == 2
    assert not bucket.names() & {*values.values()}
    last = panel.steps(24 * 99, 24 * 100).values
    assert bucket.names() & {*values.values()} == {values["values_2048.parquet"]}
    here = Panel.open(saved / "panel")
    assert np.array_equal(last, here.values[24 * 99 :])
    assert np.array_equal(Panel.open(url).values, here.values)
    assert bucket.names() == {"manifest.json", *(file.name for file in manifest.files.values())}


def test_runs_and_versions_are_loaded_from_a_bucket(bucket: Bucket, saved: Path) -> None:
    panel = Panel.open(saved / "panel")
    expected = load_estimator(saved / "run").forecast(panel)
    for name in ("run", "runs"):
        estimator = load_estimator(bucket.put(saved / name, name))
        assert estimator.forecast(panel).equals(expected)


def test_a_file_that_is_not_that_of_the_manifest_is_refused(bucket: Bucket, saved: Path) -> None:
    url = bucket.put(saved / "run", "other-run")
    (name,) = [f.name for n, f in read_manifest(saved / "run").files.items() if "arrays" in n]
    other = saved.parent / "other"
    other.write_bytes((saved / "run" / name).read_bytes()[:-1] + b"!")
    bucket.put(other, f"other-run/{name}")
    with pytest.raises(ArtifactError, match=r"other-run/arrays.*does not match its manifest"):
        load_estimator(url)
    with pytest.raises(DataError, match="no such file"):
        load_estimator("s3://bucket/nothing")


def test_a_missing_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from forecaster.remote import RemoteFile\n"
        "assert 'fsspec' not in sys.modules\n"
        "RemoteFile.parse('https://host/a.csv').fetch()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ},
    )  # fmt: skip
    assert "pip install 'forecaster[remote]'" in done.stderr.splitlines()[-1]
