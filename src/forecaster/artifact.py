"""Runs: fitted estimators as folders of JSON, TOML and safetensors; no pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from forecaster.errors import ArtifactError, ConfigError
from forecaster.publish.manifest import (
    MANIFEST,
    Manifest,
    file_path,
    read_manifest,
    verify_files,
)
from forecaster.publish.writing import Draft, bytes_writer, publish
from forecaster.recipe import Recipe, check_stage

FORMAT = 1
ARRAYS = "arrays.safetensors"
UNFINISHED = "unfinished"  # in the manifest of a run that is still being trained
MAX_HEADER_BYTES = 16 << 20
MAX_ARRAYS = 10_000
_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header
_DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "BOOL": np.bool_}
FOREIGN = (  # errors of reading a file that was not written by this program
    AttributeError, KeyError, RecursionError, TypeError, ValueError, SafetensorError, ConfigError,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Run:
    """A fitted estimator: recipe, arrays, metadata and the hashes of its inputs."""

    estimator: str  # the name of its class
    recipe: Recipe
    about: Mapping[str, Any]  # JSON: locations, kind, clock, …
    arrays: Mapping[str, np.ndarray]
    parents: Mapping[str, str] = field(default_factory=dict)  # hashes of panel and graph
    digest: str | None = None


def save_run(folder: Path, run: Run) -> Run:
    """Publish a run as a folder, and return it with its hash."""
    arrays = {name: np.asarray(array, order="C") for name, array in run.arrays.items()}
    content, described = pack(arrays)
    draft = Draft(
        kind="run",
        version=FORMAT,
        files={
            ARRAYS: bytes_writer(content),
            "recipe.toml": bytes_writer(run.recipe.to_toml().encode()),
        },
        about={
            "estimator": run.estimator,
            "recipe": run.recipe.model_dump(mode="json"),
            "learned": dict(run.about),
            "arrays": described,
        },
        parents=run.parents,
        recipe=run.recipe.digest(),
        about_bytes=len(content),
    )
    digest = publish(folder, draft).digest
    return Run(run.estimator, run.recipe, run.about, arrays, run.parents, digest)


def begin_run(
    folder: Path, estimator: str, recipe: Recipe, parents: Mapping[str, str] | None = None
) -> bool:
    """Claim a folder for a run before training; return whether the run is already trained.

    Other files that a training writes beside the manifest belong to the run. A folder with other
    content is refused, and so is a run of another estimator or recipe.

    Args:
        folder: of the run.
        estimator: the name of its class.
        recipe: of the training.
        parents: hashes of what it is made from, as far as they are known.
    """
    if not (folder / MANIFEST).exists() or _is_bare(folder):
        about = {
            "estimator": estimator,
            "recipe": recipe.model_dump(mode="json"),
            UNFINISHED: True,
        }
        files = {"recipe.toml": bytes_writer(recipe.to_toml().encode())}
        draft = Draft("run", FORMAT, files, about, parents or {}, recipe.digest())
        publish(folder, draft)
        return False
    manifest = read_manifest(folder, kind="run", reads=FORMAT)
    present = manifest.about.get("estimator")
    if (present, manifest.recipe) != (estimator, recipe.digest()):
        message = f"{folder}: begun as {present} with recipe {str(manifest.recipe)[:12]}"
        message += f", now {estimator} with recipe {recipe.digest()[:12]}"
        differences = _differences(manifest.about.get("recipe"), recipe.model_dump(mode="json"))
        remedy = "choose another folder, or the original estimator and recipe"
        raise ArtifactError("\n  ".join([f"{message}; {remedy}", *differences]))
    return UNFINISHED not in manifest.about


def _is_bare(folder: Path) -> bool:
    """Whether the run has no training yet, so that its recipe may still change."""
    unfinished = UNFINISHED in read_manifest(folder, kind="run", reads=FORMAT).about
    return unfinished and not any(path.is_dir() for path in folder.iterdir())


def load_run(folder: Path) -> Run:
    """Load and verify the run of a folder; no code in it is executed."""
    manifest = read_manifest(folder, kind="run", reads=FORMAT)
    verify_files(folder, manifest)
    about = manifest.about
    if UNFINISHED in about:
        message = f"{folder}: the training of this run is not finished"
        raise ArtifactError(f"{message}; the same `forecaster train` command resumes it")
    try:
        arrays = unpack(folder, manifest)
        return Run(
            estimator=str(about["estimator"]),
            recipe=check_stage(Recipe, about["recipe"], source=str(folder)),
            about=dict(about["learned"]),
            arrays=arrays,
            parents=dict(manifest.parents),
            digest=manifest.digest,
        )
    except FOREIGN as error:
        raise ArtifactError(f"{folder}: not a forecaster run ({error})") from error


def pack(arrays: Mapping[str, np.ndarray]) -> tuple[bytes, dict[str, Any]]:
    """The content of a safetensors file, and the description of its arrays for a manifest."""
    unsupported = [name for name, array in arrays.items() if array.dtype not in _DTYPES.values()]
    if unsupported:
        raise ValueError(f"arrays {unsupported}: unsupported types; supported: {list(_DTYPES)}")
    _refuse_non_finite(arrays)
    described = {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()}
    # In row order: safetensors would write a transposed array as it lies in memory.
    return save({name: np.asarray(a, order="C") for name, a in arrays.items()}), described


def unpack(folder: Path, manifest: Manifest) -> dict[str, np.ndarray]:
    """The arrays of an artifact, checked against its manifest."""
    path = file_path(folder, manifest, ARRAYS)
    _check_header(path, manifest.about["arrays"])
    arrays: dict[str, np.ndarray] = load_file(path)
    _refuse_non_finite(arrays)
    return arrays


def _check_header(path: Path, expected: Mapping[str, Any]) -> None:
    """Compare names, types and shapes with the manifest before anything is allocated."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > min(size, MAX_HEADER_BYTES):
            raise ValueError(f"its header claims {length:,} bytes")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    if len(header) > MAX_ARRAYS:
        raise ValueError(f"it holds {len(header):,} arrays")
    described = {
        name: [np.dtype(_DTYPES[entry["dtype"]]).name, entry["shape"]]
        for name, entry in header.items()
    }
    if described != expected:
        raise ValueError("its arrays differ from those in its manifest")


def _refuse_non_finite(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse NaN and infinity, both when writing and when reading."""
    non_finite = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if non_finite:
        raise ValueError(f"arrays {non_finite} hold NaN or infinity")


def _differences(old: Any, new: Any, place: str = "recipe") -> list[str]:
    """One line with both values for each field in which two recipes differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted({*old, *new})
        return [
            line for n in names for line in _differences(old.get(n), new.get(n), f"{place}.{n}")
        ]
    return [] if old == new else [f"{place}: {old!r}, now {new!r}"]
