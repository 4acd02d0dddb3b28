import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.errors import ArtifactError
from forecaster.panel.panel import Panel
from forecaster.panel.storage import blocks
from forecaster.publish.manifest import MANIFEST, read_manifest, read_versions
from tests.panel.storage.format_1 import save_format_1


def assert_equal(one: Panel, two: Panel) -> None:
    for a, b in (
        (one.values, two.values),
        (one.covariates.values, two.covariates.values),
        (one.local_covariates.values, two.local_covariates.values),
        (one.times, two.times),
    ):
        assert a.tobytes() == b.tobytes()
        assert a.strides == b.strides
    assert one.locations.ids == two.locations.ids
    assert (one.clock, one.kind, one.counts) == (two.clock, two.kind, two.counts)
    assert one.covariates.names == two.covariates.names


@pytest.mark.parametrize("rows", [4, blocks.MAX_ROWS])
def test_S10_both_formats_open_as_the_same_bits_in_the_same_order(
    panel: Panel, tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MAX_ROWS", rows)
    save_format_1(panel, tmp_path / "one")
    panel.save(tmp_path / "two")
    one, two = (Panel.open(tmp_path / name) for name in ("one", "two"))
    assert_equal(one, two)
    assert two.values.tobytes() == panel.values.tobytes()
    assert read_manifest(tmp_path / "two").version == 3


def test_no_block_reaches_over_the_last_step_with_values(panel: Panel, tmp_path: Path) -> None:
    panel.save(tmp_path)
    blocks_of = read_manifest(tmp_path).about["blocks"]
    assert blocks_of == {
        "values": [[0, 29, 3]],
        "covariates": [[0, 29, 2], [29, 37, 2]],
        "local_covariates_0": [[0, 29, 3], [29, 37, 3]],
    }


def test_an_older_version_is_opened_by_its_hash(panel: Panel, tmp_path: Path) -> None:
    first = panel.save(tmp_path)
    second = replace(panel, values=panel.values + 1).save(tmp_path)
    assert [m.digest for m in read_versions(tmp_path)] == [first.digest, second.digest]
    for saved in (first, second):
        opened = Panel.open(tmp_path, version=str(saved.digest)[:9])
        assert (opened.digest, opened.values.tobytes()) == (saved.digest, saved.values.tobytes())
    for version in ("", "0123456789ab"):
        with pytest.raises(
            ArtifactError, match=f"0 versions .* older versions: {first.digest[:12]}"
        ):
            Panel.open(tmp_path, version=version)


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "blocks of another type": ({"blocks": []}, "not a forecaster panel"),
    "no blocks of the values": ({"blocks": {"covariates": []}}, "not a forecaster panel"),
    "a block without a file": (
        {"blocks": {"values": [[0, 7, 3], [7, 29, 3]]}},
        "not a forecaster panel",
    ),
    "fewer rows than steps": (
        {"steps": 31, "blocks": {"values": [[0, 31, 3]]}},
        "has 87 rows, its manifest says 93",
    ),
    "a thousand million steps": (
        {"steps": 10**9, "blocks": {"values": [[0, 10**9, 3]]}},
        "has 87 rows, its manifest says 3000000000",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_S9_a_manifest_with_wrong_blocks_is_refused(
    name: str, panel: Panel, tmp_path: Path
) -> None:
    panel.save(tmp_path)
    about, message = HOSTILE[name]
    manifest = read_manifest(tmp_path)
    described = json.loads(json.dumps(manifest.about))
    if isinstance(about.get("blocks"), dict):
        about = {**about, "blocks": described["blocks"] | about["blocks"]}
    if name == "no blocks of the values":
        del about["blocks"]["values"]
    forged = replace(manifest, about=described | about)
    (tmp_path / MANIFEST).write_bytes(forged.to_bytes())
    with pytest.raises(ArtifactError, match=message):
        Panel.open(tmp_path)


def test_S6_integers_fractions_zeros_and_nulls_come_back_bit_for_bit(
    panel: Panel, tmp_path: Path
) -> None:
    values = np.array([[0.0, -0.0, np.nan], [2**24, 0.1, 3.4e38]], dtype=np.float32)
    small = replace(panel.steps(0, 2), values=values)
    small.save(tmp_path)
    assert Panel.open(tmp_path).values.tobytes() == values.tobytes()
