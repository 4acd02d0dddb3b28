import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save

from forecaster.artifact import (
    FORMAT,
    MAX_HEADER_BYTES,
    Run,
    begin_run,
    load_run,
    save_run,
)
from forecaster.config import LagConfig, MetricConfig, PanelConfig, Season
from forecaster.errors import ArtifactError
from forecaster.publish.manifest import MANIFEST, Manifest, Stored, read_manifest
from forecaster.publish.writing import Draft, bytes_writer, publish
from forecaster.recipe import Recipe

RECIPE = Recipe(
    panel=PanelConfig(timezone="America/New_York"),
    lags=LagConfig(recent=5, seasons=(Season(days=7, count=2),), horizon=2),
    metrics=MetricConfig(mape_cut=7.0),
)
ARRAYS = {
    "weights": np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5) / 7,
    "steps": np.array([-(2**62), 0, 11], dtype=np.int64),
    "seen": np.array([True, False], dtype=bool),
    "exact": np.array([0.1, -0.0, 1e300]),
}
ABOUT = {"ids": ["7", "007", "köln"], "kind": "count", "windows": {"train": 13}, "note": None}
PARENTS = {"panel": "0" * 64, "graph": "f" * 64}
RUN = Run("Ridge", RECIPE, ABOUT, ARRAYS, PARENTS)


def with_header(header: Any, data: bytes = b"") -> bytes:
    """Return a safetensors file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(shape: list[Any], first: int, last: int, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}


def forge(folder: Path, content: bytes, **about: Any) -> None:
    """Lay down a run whose file fits its manifest, however odd it is; `...` leaves a part out."""
    known = {
        "estimator": "Ridge",
        "recipe": RECIPE.model_dump(mode="json"),
        "learned": ABOUT,
        "arrays": {"a": ["float32", [2]]},
        **about,
    }
    said = {name: value for name, value in known.items() if value is not ...}
    sha256 = hashlib.sha256(content).hexdigest()
    file = Stored(f"arrays-{sha256[:12]}.safetensors", len(content), sha256)
    manifest = Manifest("run", FORMAT, {"arrays.safetensors": file}, said, {}, RECIPE.digest())
    folder.mkdir(exist_ok=True)
    (folder / file.name).write_bytes(content)
    (folder / MANIFEST).write_bytes(manifest.to_bytes())


def stored(folder: Path) -> Path:
    return next(folder.glob("arrays-*.safetensors"))


def assert_equal(one: Run, other: Run) -> None:
    assert one.estimator == other.estimator
    assert one.recipe == other.recipe
    assert dict(one.about) == dict(other.about)
    assert dict(one.parents) == dict(other.parents)
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        assert array.dtype == other.arrays[name].dtype
        assert array.shape == other.arrays[name].shape
        assert array.tobytes() == other.arrays[name].tobytes()


# ------------------------------------------------------------------------------ round trips


def test_a_run_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    saved = save_run(tmp_path, RUN)
    loaded = load_run(tmp_path)
    assert_equal(saved, RUN)
    assert_equal(loaded, RUN)
    assert saved.digest == loaded.digest == read_manifest(tmp_path).digest


@given(
    array=arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.bool_]),
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
    ).filter(lambda array: bool(np.isfinite(array).all())),
    name=st.text(st.characters(codec="utf-8"), max_size=9).filter(lambda n: n != "__metadata__"),
    note=st.text(st.characters(codec="utf-8"), max_size=9),
)
def test_any_finite_array_comes_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, name: str, note: str
) -> None:
    folder = tmp_path_factory.mktemp("run")
    run = Run("Ridge", RECIPE, {"note": note}, {name: array})
    save_run(folder, run)
    assert_equal(load_run(folder), run)


def test_arrays_in_any_order_in_memory_come_back_equal(tmp_path: Path) -> None:
    array = np.arange(2 * 3 * 5.0).reshape(2, 3, 5)
    views = {"t": array.T, "slice": array[:, ::2], "reversed": array[::-1], "all": array[0, 0, 0]}
    save_run(tmp_path, replace(RUN, arrays=views))
    for name, found in load_run(tmp_path).arrays.items():
        np.testing.assert_array_equal(found, views[name])


def test_a_run_may_hold_nothing_but_its_name(tmp_path: Path) -> None:
    save_run(tmp_path, Run("SeasonalNaive", Recipe(), {}, {}))
    loaded = load_run(tmp_path)
    assert (loaded.estimator, loaded.arrays, loaded.about, loaded.parents) == (
        "SeasonalNaive", {}, {}, {},
    )  # fmt: skip


def test_the_digest_is_a_function_of_what_was_learned(tmp_path: Path) -> None:
    backwards = dict(reversed(ARRAYS.items()))
    digests = [
        save_run(tmp_path / "one", RUN).digest,
        save_run(tmp_path / "two", replace(RUN, arrays=backwards)).digest,
    ]
    assert digests[0] == digests[1]
    changed = {**ARRAYS, "exact": ARRAYS["exact"] + 1e-9}
    for number, other in enumerate(
        (
            replace(RUN, arrays=changed),
            replace(RUN, about={**ABOUT, "kind": "measurement"}),
            replace(RUN, parents={**PARENTS, "graph": "e" * 64}),
            replace(RUN, recipe=Recipe()),
            replace(RUN, estimator="SeasonalNaive"),
        )
    ):
        assert save_run(tmp_path / f"other{number}", other).digest != digests[0]


def test_the_manifest_names_recipe_and_parents(tmp_path: Path) -> None:
    save_run(tmp_path, RUN)
    manifest = read_manifest(tmp_path)
    assert (manifest.kind, manifest.version) == ("run", FORMAT)
    assert manifest.recipe == RECIPE.digest()
    assert manifest.parents == PARENTS
    recipe = next(tmp_path.glob("recipe-*.toml")).read_text(encoding="utf-8")
    assert recipe == RECIPE.to_toml()


def test_a_second_save_replaces_the_first(tmp_path: Path) -> None:
    first = save_run(tmp_path, RUN)
    second = save_run(tmp_path, replace(RUN, arrays={"weights": np.zeros(3)}))
    assert first.digest != second.digest
    assert load_run(tmp_path).digest == second.digest
    assert list(load_run(tmp_path).arrays) == ["weights"]


# ------------------------------------------------------------------------- never written


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_finite_is_never_written(
    tmp_path: Path, value: float, dtype: type[np.floating]
) -> None:
    save_run(tmp_path, RUN)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    spoiled = np.ones((2, 3), dtype=dtype)
    spoiled[1, 2] = value
    with pytest.raises(ValueError, match=r"arrays \['bad', 'worse'\] hold NaN or infinity"):
        save_run(
            tmp_path, replace(RUN, arrays={"bad": spoiled, "good": np.ones(1), "worse": spoiled})
        )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "complex64", ">f4", "U3", "O"])
def test_a_type_that_could_not_be_read_back_is_never_written(tmp_path: Path, dtype: str) -> None:
    folder = tmp_path / "run"
    with pytest.raises(ValueError, match=r"arrays \['odd'\]: unsupported types"):
        save_run(folder, replace(RUN, arrays={"odd": np.zeros(3, dtype=dtype)}))
    assert not folder.exists()


def test_a_run_does_not_overwrite_a_panel(tmp_path: Path) -> None:
    publish(tmp_path, Draft("panel", 1, {"values.parquet": bytes_writer(b"values")}))
    with pytest.raises(ArtifactError, match="contains a panel, not a run"):
        save_run(tmp_path, RUN)


# --------------------------------------------------------------------- runs that are begun


def test_a_folder_is_claimed_before_anything_is_put_into_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert begin_run(folder, "Forecaster", RECIPE) is False
    assert read_manifest(folder).recipe == RECIPE.digest()
    (folder / "training").mkdir()
    (folder / "training" / "log.jsonl").write_text("{}")
    assert begin_run(folder, "Forecaster", RECIPE) is False  # it goes on
    save_run(folder, replace(RUN, estimator="Forecaster"))
    assert begin_run(folder, "Forecaster", RECIPE) is True  # and was finished
    assert_equal(load_run(folder), replace(RUN, estimator="Forecaster"))


def test_a_folder_of_something_else_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ArtifactError, match=r"not empty and not a forecaster artifact \(thesis"):
        begin_run(tmp_path, "Forecaster", RECIPE)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt"}
    publish(tmp_path / "panel", Draft("panel", 1, {"values.parquet": bytes_writer(b"values")}))
    with pytest.raises(ArtifactError, match="a panel, not a run"):
        begin_run(tmp_path / "panel", "Forecaster", RECIPE)


def test_C4_a_run_that_is_not_finished_cannot_be_loaded(tmp_path: Path) -> None:
    begin_run(tmp_path, "Forecaster", RECIPE)
    with pytest.raises(ArtifactError, match="not finished; the same `forecaster train` command"):
        load_run(tmp_path)


def test_a_run_for_which_nothing_was_made_yet_may_begin_by_another_recipe(tmp_path: Path) -> None:
    begin_run(tmp_path, "Forecaster", RECIPE)
    other = RECIPE.model_copy(update={"metrics": MetricConfig(mape_cut=8.0)})
    assert begin_run(tmp_path, "Transformer", other) is False
    assert read_manifest(tmp_path).recipe == other.digest()


def test_T7_another_recipe_is_refused_with_both_hashes_and_every_difference(
    tmp_path: Path,
) -> None:
    begin_run(tmp_path, "Forecaster", RECIPE)
    (tmp_path / "training").mkdir()  # something was made
    other = RECIPE.model_copy(
        update={"metrics": MetricConfig(mape_cut=8.0), "panel": PanelConfig(timezone="UTC")}
    )
    with pytest.raises(ArtifactError) as refused:
        begin_run(tmp_path, "Forecaster", other)
    for text in (
        RECIPE.digest()[:12],
        other.digest()[:12],
        "recipe.metrics.mape_cut: 7.0, now 8.0",
        "recipe.panel.timezone: 'America/New_York', now 'UTC'",
    ):
        assert text in str(refused.value)
    with pytest.raises(ArtifactError, match=r"begun as Forecaster with .* now Transformer"):
        begin_run(tmp_path, "Transformer", RECIPE)


# ------------------------------------------------------------------------- another kind (C4)


@pytest.mark.parametrize("kind", ["panel", "graph"])
def test_C4_an_artifact_of_another_kind_is_named(tmp_path: Path, kind: str) -> None:
    publish(tmp_path, Draft(kind, 1, {}))
    with pytest.raises(ArtifactError, match=f"a {kind}, not a run; give the folder of a run"):
        load_run(tmp_path)


def test_C4_a_newer_format_asks_for_an_upgrade(tmp_path: Path) -> None:
    publish(tmp_path, Draft("run", FORMAT + 1, {}))
    message = f"run written by format {FORMAT + 1}; this program reads ≤ {FORMAT}: upgrade"
    with pytest.raises(ArtifactError, match=message):
        load_run(tmp_path)


@pytest.mark.parametrize("path", ["", "nowhere", MANIFEST])
def test_C4_a_folder_without_a_run_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    with pytest.raises(ArtifactError, match=r"not a forecaster artifact|no such folder"):
        load_run(tmp_path / path)


@pytest.mark.parametrize(
    "promised",
    [
        {"a": ["float64", [2]]},  # another type
        {"a": ["float32", [1, 2]]},  # another shape
        {"a": ["float32", [3]]},  # another size
        {"b": ["float32", [2]]},  # another name
        {"a": ["float32", [2]], "b": ["float32", [2]]},  # one is missing
        {},  # one too many
        {"a": "float32"},
        [["a", "float32", [2]]],
        "a",
        None,
        ...,  # not said at all
    ],
)
def test_C4_arrays_that_are_not_those_of_the_manifest_are_refused(
    tmp_path: Path, promised: Any
) -> None:
    forge(tmp_path, save({"a": np.ones(2, dtype=np.float32)}), arrays=promised)
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    "recipe",
    [
        {"lags": {"horizons": 3}},  # an unknown key
        {"lags": {"horizon": 0}},
        {"lags": {"horizon": "three"}},
        {"lags": {"seasons": [{"days": 1, "count": 1, "after": 24}]}},  # past the origin
        {"metrics": {"mape_cut": -1.0}},
        {"panel": [], "models": {}},
        [],
        "lags",
        7,
        None,
        ...,
    ],
)
def test_C4_a_recipe_that_is_not_ours_is_refused(tmp_path: Path, recipe: Any) -> None:
    forge(tmp_path, save({"a": np.ones(2, dtype=np.float32)}), recipe=recipe)
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        load_run(tmp_path)


@pytest.mark.parametrize("about", [{"estimator": ...}, {"learned": ...}, {"learned": 7}])
def test_C4_a_manifest_that_lacks_what_a_run_says_is_refused(
    tmp_path: Path, about: dict[str, Any]
) -> None:
    forge(tmp_path, save({"a": np.ones(2, dtype=np.float32)}), **about)
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        load_run(tmp_path)


def test_C4_a_run_without_its_arrays_is_refused(tmp_path: Path) -> None:
    publish(tmp_path, Draft("run", FORMAT, {}, {"arrays": {}}))
    with pytest.raises(ArtifactError, match=r"not a forecaster run \('arrays.safetensors'\)"):
        load_run(tmp_path)


# ---------------------------------------------------------------------- hostile files (C3)

GOOD = {"a": entry([2], 0, 8)}
EIGHT = b"\0" * 8
# A pickle that would run a command if anything ever unpickled it (protocol 0, in plain text).
PICKLE = b"cposix\nsystem\n(S'touch %s'\ntR."

HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "shorter than a length": b"\x07\0\0",
    "a length and nothing else": (2).to_bytes(8, "little"),
    "a giant length": (2**63 - 1).to_bytes(8, "little") + b"{}",
    "the largest length": b"\xff" * 8 + b"{}",
    "a length just past the end": (100).to_bytes(8, "little") + b"{}",
    "a header over the limit": with_header(b" " * (MAX_HEADER_BYTES + 1)),
    "no JSON": with_header(b"not JSON at all"),
    "no UTF-8": with_header(b'{"\xff\xfe": 1}'),
    "a number": with_header(7),
    "a list": with_header([GOOD]),
    "a text": with_header("a"),
    "null": with_header(None),
    "nested 100,000 deep": with_header(b"[" * 100_000),
    "an entry that is a number": with_header({"a": 7}, EIGHT),
    "an entry that is null": with_header({"a": None}, EIGHT),
    "an entry without a shape": with_header({"a": {"dtype": "F32"}}, EIGHT),
    "an unknown type": with_header({"a": entry([2], 0, 8, "F128")}, EIGHT),
    "a type that is a list": with_header({"a": entry([2], 0, 8, ["F32"])}, EIGHT),
    "a type we never write": with_header({"a": entry([4], 0, 8, "BF16")}, EIGHT),
    "no offsets": with_header({"a": {"dtype": "F32", "shape": [2]}}, EIGHT),
    "offsets past the end": with_header({"a": entry([2], 0, 2**60)}, EIGHT),
    "offsets that run backwards": with_header({"a": entry([2], 8, 0)}, EIGHT),
    "negative offsets": with_header({"a": entry([2], -8, 0)}, EIGHT),
    "offsets for another shape": with_header({"a": entry([2], 0, 4)}, EIGHT[:4]),
    "cut short": with_header(GOOD, EIGHT[:-1]),
    "with a ZIP archive behind it": with_header(GOOD, EIGHT + b"PK\x05\x06" + b"\0" * 18),
    "a ZIP archive": b"PK\x03\x04" + b"\0" * 60,
    "a number of 5,000 digits": with_header(b'{"a": ' + b"9" * 5_000 + b"}"),
}


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_C3_a_file_that_we_did_not_write_is_refused(tmp_path: Path, content: bytes) -> None:
    forge(tmp_path, content)
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        load_run(tmp_path)


@pytest.mark.usefixtures("bounded")
def test_C3_a_hundred_thousand_tensors_are_refused_by_their_number(tmp_path: Path) -> None:
    empty = json.dumps(entry([0], 0, 0))
    names = ",".join(f'"{n}":{empty}' for n in range(100_000))
    forge(tmp_path, with_header(f"{{{names}}}".encode()))
    with pytest.raises(ArtifactError, match="it holds 100,000 arrays"):
        load_run(tmp_path)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "shape",
    [
        [2**40, 2**40],
        [2**63],
        [2**33, 2**33, 2],
        [2**31],  # 8 GiB
        [0, 2**62],
        [-2],
        [2.0],
        [True, True],
        ["2"],
        [[2]],
        "2",
        None,
    ],
)
def test_C3_a_shape_is_not_believed_although_the_manifest_agrees(
    tmp_path: Path, shape: Any
) -> None:
    forge(
        tmp_path, with_header({"a": entry(shape, 0, 8)}, EIGHT), arrays={"a": ["float32", shape]}
    )
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        load_run(tmp_path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_C3_numbers_that_are_none_are_not_believed(tmp_path: Path, value: float) -> None:
    forge(tmp_path, save({"a": np.array([1, value], dtype=np.float32)}))
    with pytest.raises(ArtifactError, match=r"arrays \['a'\] hold NaN or infinity"):
        load_run(tmp_path)


def test_C3_a_giant_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    forge(tmp_path, HOSTILE["a giant length"])
    with pytest.raises(ArtifactError, match="its header claims 9,223,372,036,854,775,807 bytes"):
        load_run(tmp_path)


@pytest.mark.parametrize("overlap", [[0, 8], [4, 12]])
def test_C3_two_tensors_on_the_same_bytes_are_refused(tmp_path: Path, overlap: list[int]) -> None:
    header = {"a": entry([2], 0, 8), "b": entry([2], *overlap)}
    promised = {name: ["float32", [2]] for name in header}
    forge(tmp_path, with_header(header, b"\0" * max(overlap)), arrays=promised)
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        load_run(tmp_path)


def test_C3_bytes_that_no_tensor_owns_are_refused(tmp_path: Path) -> None:
    header = {"a": entry([2], 0, 8), "b": entry([2], 12, 20)}
    promised = {name: ["float32", [2]] for name in header}
    forge(tmp_path, with_header(header, b"\0" * 20), arrays=promised)
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        load_run(tmp_path)


@pytest.mark.parametrize("wrap", [bytes, with_header, lambda p: with_header({}, p)])
def test_C3_a_pickle_is_refused_and_never_run(
    tmp_path: Path, wrap: Callable[[bytes], bytes]
) -> None:
    canary = tmp_path / "canary"
    forge(tmp_path / "run", wrap(PICKLE % str(canary).encode()), arrays={})
    with pytest.raises(ArtifactError, match="not a forecaster run"):
        load_run(tmp_path / "run")
    assert not canary.exists()


def test_C3_the_canary_would_die_if_the_pickle_were_run(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    module, function = PICKLE.splitlines()[0][1:].decode(), PICKLE.splitlines()[1].decode()
    assert getattr(__import__(module), function)(f"touch {canary}") == 0
    assert canary.exists()


def test_C3_a_symlink_to_the_same_bytes_is_not_followed(tmp_path: Path) -> None:
    save_run(tmp_path / "run", RUN)
    path = stored(tmp_path / "run")
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(ArtifactError, match=r"run damaged: 1 fault\n.* is not a plain file"):
        load_run(tmp_path / "run")


def test_C3_a_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    save_run(tmp_path, RUN)
    path = stored(tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ArtifactError, match="is not a plain file"):
        load_run(tmp_path)


def test_C3_a_missing_file_is_named(tmp_path: Path) -> None:
    save_run(tmp_path, RUN)
    stored(tmp_path).unlink()
    with pytest.raises(ArtifactError, match=r"run damaged: 1 fault\n  arrays-.*cannot be read"):
        load_run(tmp_path)


def test_C3_a_file_cut_at_any_length_is_found(tmp_path: Path) -> None:
    save_run(tmp_path, RUN)
    path = stored(tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ArtifactError, match=f"has {length:,} bytes, its manifest says"):
            load_run(tmp_path)


def test_C3_every_flipped_bit_of_the_arrays_is_found(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    save_run(tmp_path, RUN)
    path = stored(tmp_path)
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), rounds(29, 1)):
        spoiled = bytearray(whole)
        spoiled[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoiled)
        with pytest.raises(ArtifactError, match=r"does not match its manifest \(sha256\)"):
            load_run(tmp_path)
    path.write_bytes(whole)
    assert_equal(load_run(tmp_path), RUN)


SPOILED = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=300).map(with_header),
    st.tuples(st.integers(0, 59), st.binary(max_size=9)).map(
        lambda cut: (
            with_header(GOOD, EIGHT)[: cut[0]] + cut[1] + with_header(GOOD, EIGHT)[cut[0] + 1 :]
        )
    ),
)


@given(content=SPOILED)
def test_C3_any_bytes_with_a_fitting_manifest_load_as_promised_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("run")
    forge(folder, content)
    try:
        found = load_run(folder).arrays
    except ArtifactError:
        return
    assert [(name, a.dtype, a.shape) for name, a in found.items()] == [("a", np.float32, (2,))]
