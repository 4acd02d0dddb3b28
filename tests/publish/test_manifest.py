import random
from collections.abc import Callable
from pathlib import Path

import pytest

from forecaster.errors import ArtifactError
from forecaster.publish.manifest import (
    MANIFEST,
    Manifest,
    artifacts_below,
    file_path,
    read_manifest,
    verify_files,
)
from forecaster.publish.writing import Draft, publish

MakeDraft = Callable[[str], Draft]


def flip_one_byte(path: Path, generator: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[generator.randrange(len(content))] ^= generator.randrange(1, 256)
    path.write_bytes(content)


def read_all(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    verify_files(folder, manifest)
    return manifest


def test_the_digest_is_the_checksum_on_disk(tmp_path: Path, draft: MakeDraft) -> None:
    manifest = publish(tmp_path, draft("one"))
    assert f'"checksum": "{manifest.digest}"' in (tmp_path / MANIFEST).read_text()


def test_C2_a_random_byte_flip_is_always_found_and_the_file_kept(
    tmp_path: Path, draft: MakeDraft, rounds: Callable[[int, int], int]
) -> None:
    publish(tmp_path, draft("one"))
    originals = {path: path.read_bytes() for path in tmp_path.iterdir()}
    generator = random.Random(0)  # noqa: S311 (which byte, not a secret)
    for _ in range(rounds(200, 1_000)):
        path = generator.choice(sorted(originals))
        flip_one_byte(path, generator)
        with pytest.raises(ArtifactError):
            read_all(tmp_path)
        assert path.exists()
        path.write_bytes(originals[path])
    read_all(tmp_path)


def test_all_damaged_files_are_named_at_once(tmp_path: Path, draft: MakeDraft) -> None:
    manifest = publish(tmp_path, draft("one"))
    first, second = (tmp_path / stored.name for stored in manifest.files.values())
    first.unlink()
    second.write_bytes(b"x" * second.stat().st_size)
    with pytest.raises(ArtifactError) as caught:
        read_all(tmp_path)
    assert "panel damaged: 2 faults" in str(caught.value)
    assert first.name in str(caught.value)
    assert f"{second.name} does not match its manifest" in str(caught.value)


def test_a_cut_file_is_found_without_reading_it(tmp_path: Path, draft: MakeDraft) -> None:
    manifest = publish(tmp_path, draft("one"))
    path = tmp_path / manifest.files["values.parquet"].name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="has 20 bytes, its manifest says 21"):
        file_path(tmp_path, manifest, "values.parquet")


def test_a_comparison_is_no_artifact_and_names_its_runs(tmp_path: Path, draft: MakeDraft) -> None:
    for name in ("var-1", "ridge-2"):
        publish(tmp_path / "cells" / name, draft(name))
    (tmp_path / "cells" / "dcrnn-3").mkdir()  # not begun
    with pytest.raises(ArtifactError) as caught:
        read_manifest(tmp_path)
    runs = f"{tmp_path / 'cells' / 'ridge-2'}, {tmp_path / 'cells' / 'var-1'}"
    assert str(caught.value).endswith(f"it is a comparison; name one of its runs: {runs}")


def test_a_symlink_is_not_followed(tmp_path: Path, draft: MakeDraft) -> None:
    manifest = publish(tmp_path / "a", draft("one"))
    path = tmp_path / "a" / manifest.files["values.parquet"].name
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(ArtifactError, match="not a plain file"):
        verify_files(tmp_path / "a", manifest)


def test_S10_a_newer_format_asks_for_an_upgrade(tmp_path: Path) -> None:
    publish(tmp_path, Draft("panel", 3, {}))
    with pytest.raises(
        ArtifactError, match=r"written by format 3; this program reads ≤ 2: upgrade"
    ):
        read_manifest(tmp_path, kind="panel", reads=2)


def test_S10_a_newer_manifest_asks_for_an_upgrade(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"layout": 2, "checksum": "?"}')
    with pytest.raises(ArtifactError, match=r"layout 2; this program reads ≤ 1: upgrade"):
        read_manifest(tmp_path)


def test_another_kind_is_named(tmp_path: Path) -> None:
    publish(tmp_path, Draft("graph", 1, {}))
    with pytest.raises(ArtifactError, match="a graph, not a panel"):
        read_manifest(tmp_path, kind="panel")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"layout": 1}', b"1e999"],
)
def test_a_manifest_that_is_not_ours_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(
        ArtifactError, match=r"manifest\.json is damaged or was not written by forecaster"
    ):
        read_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "values-000000000000.parquet").write_bytes(b"kept")
    with pytest.raises(ArtifactError, match="not a forecaster artifact"):
        read_manifest(tmp_path)
    assert (tmp_path / "values-000000000000.parquet").exists()


def test_artifacts_are_found_below_a_folder(tmp_path: Path, draft: MakeDraft) -> None:
    for name in ("b", "a/c"):
        publish(tmp_path / name, draft("one"))
    assert artifacts_below(tmp_path) == [tmp_path / "a/c", tmp_path / "b"]
