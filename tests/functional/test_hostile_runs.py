"""Runs that somebody else made up: the command refuses each with exit 4 and runs nothing of it."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.graph.dependency import DependencyGraph
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST, Manifest, Stored, read_manifest
from forecaster.splits import Splits

Run = Callable[..., tuple[int, str, str]]
Spoil = Callable[[Path], object]
QUERY = "model.encoder.0.attention.query.weight"
EDGES = [("place 0", "place 3"), ("place 1", "place 2")]
CANARY = "canary"
# A pickle that would run a command if anything ever unpickled it (protocol 0, in plain text).
PICKLE = b"cposix\nsystem\n(S'touch " + CANARY.encode() + b"'\ntR."


# ------------------------------------------------------------------------ how to spoil a run


def arrays_path(folder: Path) -> Path:
    return next(folder.glob("arrays-*.safetensors"))


def rewrite(folder: Path, content: bytes, **said: Any) -> None:
    """Put other bytes in place of the arrays, with a manifest that fits them."""
    manifest = read_manifest(folder)
    sha256 = hashlib.sha256(content).hexdigest()
    file = Stored(f"arrays-{sha256[:12]}.safetensors", len(content), sha256)
    (folder / file.name).write_bytes(content)
    files = {**manifest.files, "arrays.safetensors": file}
    seal(folder, replace(manifest, files=files, about={**manifest.about, **said}))


def seal(folder: Path, manifest: Manifest) -> None:
    """Write a manifest whose checksum is right, whatever it says."""
    (folder / MANIFEST).write_bytes(manifest.to_bytes())


def arrays(change: Callable[[dict[str, np.ndarray]], object]) -> Spoil:
    """Return a fault of the arrays, which the manifest describes as they are."""

    def spoil(folder: Path) -> None:
        held = dict(load_file(arrays_path(folder)))
        change(held)
        said = {name: [str(a.dtype), list(a.shape)] for name, a in held.items()}
        rewrite(folder, save(held), arrays=said)

    return spoil


def put(name: str, array: np.ndarray) -> Spoil:
    return arrays(lambda held: held.update({name: array}))


def header(text: Any, data: bytes = b"", **said: Any) -> Spoil:
    """Return a file with any header, and a manifest that agrees with it."""
    words = text if isinstance(text, bytes) else json.dumps(text).encode()
    content = len(words).to_bytes(8, "little") + words + data
    return lambda folder: rewrite(folder, content, **said)


def about(**said: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        manifest = read_manifest(folder)
        seal(folder, replace(manifest, about={**manifest.about, **said}))

    return spoil


def learned(**said: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        about(learned={**read_manifest(folder).about["learned"], **said})(folder)

    return spoil


def recipe(section: str, **said: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        known = read_manifest(folder).about["recipe"]
        about(recipe={**known, section: {**known[section], **said}})(folder)

    return spoil


def replaced_by(make: Callable[[Path], None]) -> Spoil:
    """Return a fault in which something else lies in place of the arrays."""

    def spoil(folder: Path) -> None:
        path = arrays_path(folder)
        path.rename(folder.parent / "outside")
        make(path)

    return spoil


def many_tensors(folder: Path) -> None:
    empty = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    names = ",".join(f'"{n}":{empty}' for n in range(100_000))
    header(f"{{{names}}}".encode())(folder)


def claim(shape: list[int]) -> Spoil:
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 8]}
    return header({"a": entry}, bytes(8), arrays={"a": ["float32", shape]})


def raw_manifest(content: bytes) -> Spoil:
    return lambda folder: (folder / MANIFEST).write_bytes(content)


def kind(name: str, version: int = 1) -> Spoil:
    return lambda folder: seal(folder, replace(read_manifest(folder), kind=name, version=version))


def named(file: str) -> Spoil:
    def spoil(folder: Path) -> None:
        manifest = read_manifest(folder)
        stored = replace(manifest.files["arrays.safetensors"], name=file)
        seal(folder, replace(manifest, files={**manifest.files, "arrays.safetensors": stored}))

    return spoil


HOSTILE: dict[str, Spoil] = {
    # what is no file of ours at all
    "a pickle": lambda folder: rewrite(folder, PICKLE),
    "a pickle as the header": header(PICKLE),
    "a pickle behind an empty header": header({}, PICKLE, arrays={}),
    "a ZIP archive, as torch.save makes them": lambda f: rewrite(f, b"PK\x03\x04" + bytes(60)),
    "arrays with a ZIP archive behind them": lambda folder: rewrite(
        folder, arrays_path(folder).read_bytes() + b"PK\x05\x06" + bytes(18)
    ),
    "nothing": lambda folder: rewrite(folder, b""),
    "a giant header": lambda folder: rewrite(folder, (2**63 - 1).to_bytes(8, "little") + b"{}"),
    "a header nested 100,000 deep": header(b"[" * 100_000),
    "100,000 tensors": many_tensors,
    "a shape that overflows": claim([2**33, 2**33, 2]),
    "a shape of 8 GiB": claim([2**31]),
    "a symbolic link": replaced_by(lambda path: path.symlink_to(path.parent.parent / "outside")),
    "a pipe": replaced_by(os.mkfifo),
    "a folder": replaced_by(Path.mkdir),
    "no arrays": replaced_by(lambda _: None),
    "a flipped bit": lambda folder: (
        arrays_path(folder).write_bytes(arrays_path(folder).read_bytes()[:-1] + b"\x55") and None
    ),
    # what its manifest says
    "a manifest that is a pickle": raw_manifest(PICKLE),
    "a manifest without end": raw_manifest(b'{"a":' * 10_000),
    "a manifest of 9 MB": raw_manifest(b" " * (9 << 20)),
    "another kind": kind("panel"),
    "a newer format": kind("run", 2),
    "a path that leads outside": named("../outside"),
    "an absolute path": named("/etc/passwd"),
    "no estimator of ours": about(estimator="posix.system"),
    "an estimator that is a path": about(estimator="../forecaster"),
    "another estimator": about(estimator="Transformer"),
    "a recipe with a key that is not ours": recipe("model", command="touch canary"),
    "words of another type": learned(ids=7),
    "ids that are no texts": learned(ids=[{}] * 5),
    "ids of another city": learned(ids=["a", "b"]),
    "holidays that are none": learned(holidays={"dates": ["never"]}),
    # weights that are not those of the network
    "a weight too few": arrays(lambda held: held.pop(QUERY)),
    "a weight too many": put("model.hook", np.zeros(3, np.float32)),
    "a weight of another shape": put(QUERY, np.zeros((2, 3, 5), np.float32)),
    "a weight of another type": put(QUERY, np.zeros((9, 2, 2), np.float64)),
    "a weight that is NaN": arrays(lambda held: held[QUERY].fill(np.nan)),
    "a weight that is infinite": arrays(lambda held: held[QUERY].fill(np.inf)),
    "no scale": arrays(lambda held: held.pop("values.deviation")),
    "a scale of another city": put("values.mean", np.zeros(3, np.float32)),
    "no graph": arrays(lambda held: held.pop("graph.pairs")),
    "a graph of other locations": put("graph.pairs", np.array([[0, 3], [1, 99]])),
    "a graph of fractions": put("graph.pairs", np.array([[0.5, 3.0], [1.0, 2.0]])),
    "a graph of triples": put("graph.pairs", np.array([[0, 3, 1], [1, 2, 1]])),
    "a network wider than memory": recipe("model", per_location=2**40),
    "a network of layers without end": recipe("model", n_layers=10**12),
    "auxiliary neurons beyond memory": recipe("model", auxiliary=2**40),
    "heads that share nothing": recipe("model", heads=3),
    "a history beyond memory": recipe("lags", recent=100_000),
    "no hour-of-week means": arrays(lambda held: held.pop("shared.fill")),
}


# ---------------------------------------------------------------------------------- the tests


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a panel and a run that fits it."""
    folder = tmp_path_factory.mktemp("good")
    panel = small_city().save(folder / "panel")
    splits = Splits.by_share(panel, validation=0.15, test=0.2)
    graph = DependencyGraph.from_edges(EDGES, panel)
    Forecaster(graph, RECIPE).fit(panel, splits).save(folder / "run")
    return folder


@pytest.fixture
def folder(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the run to spoil; a command that ran would leave its canary here."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(good / "run", tmp_path / "run")
    return tmp_path / "run"


def words_for(good: Path, folder: Path) -> tuple[object, ...]:
    at = f"{Panel.open(good / 'panel').times[1000]}Z"
    return "forecast", folder, "--panel", good / "panel", "--at", at


def test_the_run_forecasts_before_it_is_spoiled(good: Path, folder: Path, run: Run) -> None:
    arrays(dict.copy)(folder)  # written again by the same means as the hostile ones
    code, output, _ = run(*words_for(good, folder))
    assert code == 0
    assert len(output.splitlines()) == 1 + 5 * 2
    assert run("check", folder)[0] == 0


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_C3_a_hostile_run_is_refused_and_nothing_of_it_is_run(
    good: Path, folder: Path, run: Run, spoil: Spoil
) -> None:
    spoil(folder)
    for words in (words_for(good, folder), ("check", folder)):
        code, output, errors = run(*words)
        assert (code, output) == (4, ""), errors
        assert "Traceback" not in errors
    assert not (folder.parent / CANARY).exists()


def test_C3_there_are_enough_of_them_and_the_canary_can_die(tmp_path: Path) -> None:
    assert len(HOSTILE) >= 30
    module, function = PICKLE.splitlines()[0][1:].decode(), PICKLE.splitlines()[1].decode()
    assert getattr(__import__(module), function)(f"touch {tmp_path / CANARY}") == 0
    assert (tmp_path / CANARY).exists()
