"""A run: everything a fitted estimator needs to forecast, saved without pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from forecaster.config import Recipe, check_stage
from forecaster.errors import ArtifactError, ConfigError
from forecaster.publish.manifest import file_path, read_manifest, verify_files
from forecaster.publish.writing import Draft, bytes_writer, publish

FORMAT = 1
MAX_HEADER_BYTES = 16 << 20
MAX_ARRAYS = 10_000
_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header
_DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "BOOL": np.bool_}
_FOREIGN = (  # what reading a file that we did not write may raise
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
    odd = [name for name, array in arrays.items() if array.dtype not in _DTYPES.values()]
    if odd:
        raise ValueError(f"arrays {odd} are not of a type that a run holds: {list(_DTYPES)}")
    lacking = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if lacking:
        raise ValueError(f"arrays {lacking} hold NaN or infinity and are not written")
    content = save(arrays)
    draft = Draft(
        kind="run",
        version=FORMAT,
        files={
            "arrays.safetensors": bytes_writer(content),
            "recipe.toml": bytes_writer(run.recipe.to_toml().encode()),
        },
        about={
            "estimator": run.estimator,
            "recipe": run.recipe.model_dump(mode="json"),
            "learned": dict(run.about),
            "arrays": {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()},
        },
        parents=run.parents,
        recipe=run.recipe.digest(),
        about_bytes=len(content),
    )
    digest = publish(folder, draft).digest
    return Run(run.estimator, run.recipe, run.about, arrays, run.parents, digest)


def load_run(folder: Path) -> Run:
    """Return the run of a folder, verified; nothing in it is ever executed."""
    manifest = read_manifest(folder, kind="run", reads=FORMAT)
    verify_files(folder, manifest)
    about = manifest.about
    try:
        path = file_path(folder, manifest, "arrays.safetensors")
        _check_header(path, about["arrays"])
        return Run(
            estimator=str(about["estimator"]),
            recipe=check_stage(Recipe, about["recipe"], source=str(folder)),
            about=dict(about["learned"]),
            arrays=load_file(path),
            parents=dict(manifest.parents),
            digest=manifest.digest,
        )
    except _FOREIGN as error:
        raise ArtifactError(f"{folder}: not a forecaster run ({error})") from error


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
    found = {
        name: [np.dtype(_DTYPES[entry["dtype"]]).name, entry["shape"]]
        for name, entry in header.items()
    }
    if found != expected:
        raise ValueError("its arrays are not those of its manifest")
