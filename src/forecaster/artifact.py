"""A run: everything a fitted estimator needs to forecast, saved without pickle."""

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
FOREIGN = (  # what reading a file that we did not write may raise
    AttributeError, KeyError, RecursionError, TypeError, ValueError, SafetensorError, ConfigError,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Run:
    """What an estimator learned, and from what."""

    estimator: str  # the name of its class
    recipe: Recipe
    about: Mapping[str, Any]  # JSON: locations, kind, clock, …
    arrays: Mapping[str, np.ndarray]
    parents: Mapping[str, str] = field(default_factory=dict)  # hashes of panel and graph
    digest: str | None = None


def save_run(folder: Path, run: Run) -> Run:
    """Publish a run as a folder and return it with the hash of what was written."""
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


def begin_run(folder: Path, estimator: str, recipe: Recipe) -> bool:
    """Claim a folder for a run that is about to be trained; tell whether it was trained already.

    Whatever else a training puts beside the manifest belongs to the run. A folder that holds
    something else is refused, and so is a run of another estimator or recipe.
    """
    if not (folder / MANIFEST).exists() or _is_bare(folder):
        about = {
            "estimator": estimator,
            "recipe": recipe.model_dump(mode="json"),
            UNFINISHED: True,
        }
        written = {"recipe.toml": bytes_writer(recipe.to_toml().encode())}
        publish(folder, Draft("run", FORMAT, written, about, recipe=recipe.digest()))
        return False
    manifest = read_manifest(folder, kind="run", reads=FORMAT)
    present = manifest.about.get("estimator")
    if (present, manifest.recipe) != (estimator, recipe.digest()):
        message = f"{folder}: begun as {present} by recipe {str(manifest.recipe)[:12]}"
        message += f", and now {estimator} by recipe {recipe.digest()[:12]}"
        unlike = _differences(manifest.about.get("recipe"), recipe.model_dump(mode="json"))
        changed = "\n  ".join(["; choose another folder, or go on as it was begun", *unlike])
        raise ArtifactError(f"{message}{changed}")
    return UNFINISHED not in manifest.about


def _is_bare(folder: Path) -> bool:
    """Tell whether a run was begun and nothing was made yet: it may begin by another recipe."""
    unfinished = UNFINISHED in read_manifest(folder, kind="run", reads=FORMAT).about
    return unfinished and not any(path.is_dir() for path in folder.iterdir())


def load_run(folder: Path) -> Run:
    """Return the run of a folder, verified; nothing in it is ever executed."""
    manifest = read_manifest(folder, kind="run", reads=FORMAT)
    verify_files(folder, manifest)
    about = manifest.about
    if UNFINISHED in about:
        message = f"{folder}: a run whose training is not finished"
        raise ArtifactError(f"{message}; the same `forecaster train` command goes on with it")
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
    """Return arrays as the content of a file, and what a manifest says of them."""
    odd = [name for name, array in arrays.items() if array.dtype not in _DTYPES.values()]
    if odd:
        raise ValueError(f"arrays {odd} are not of a type that a file holds: {list(_DTYPES)}")
    _refuse_non_finite(arrays)
    described = {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()}
    return save(dict(arrays)), described


def unpack(folder: Path, manifest: Manifest) -> dict[str, np.ndarray]:
    """Return the arrays of an artifact, if they are what its manifest says."""
    path = file_path(folder, manifest, ARRAYS)
    check_header(path, manifest.about["arrays"])
    arrays: dict[str, np.ndarray] = load_file(path)
    _refuse_non_finite(arrays)
    return arrays


def check_header(path: Path, expected: Mapping[str, Any]) -> None:
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
    found = {
        name: [np.dtype(_DTYPES[entry["dtype"]]).name, entry["shape"]]
        for name, entry in header.items()
    }
    if found != expected:
        raise ValueError("its arrays are not those of its manifest")


def _refuse_non_finite(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse NaN and infinity: they are never written, and never believed."""
    lacking = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if lacking:
        raise ValueError(f"arrays {lacking} hold NaN or infinity")


def _differences(old: Any, new: Any, place: str = "recipe") -> list[str]:
    """Return where two recipes differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted({*old, *new})
        return [
            line for n in names for line in _differences(old.get(n), new.get(n), f"{place}.{n}")
        ]
    return [] if old == new else [f"{place}: {old!r}, now {new!r}"]
