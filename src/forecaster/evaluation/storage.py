"""An assessment's files: sums and counts as arrays, so that tables can be made again from them."""

from pathlib import Path
from typing import Any, get_args

import numpy as np

from forecaster.artifact import ARRAYS, FOREIGN, pack, unpack
from forecaster.config import Weather
from forecaster.errors import ArtifactError
from forecaster.evaluation.backtest import Assessment
from forecaster.metrics import Errors
from forecaster.publish.manifest import MANIFEST, read_manifest, verify_files
from forecaster.publish.writing import Draft, bytes_writer, publish

FORMAT, KIND = 1, "assessment"
PLACES = "places"  # begins the names of the sums of each location
COSTS = ("parameters", "milliseconds", "seconds")


def save_assessment(folder: Path, found: Assessment, run: str) -> None:
    """Publish an assessment of the run with that hash as a folder."""
    arrays = {"origins": found.origins, "days": found.days}
    for name, errors in [*found.errors.items(), (PLACES, found.places)]:
        arrays |= {f"{name}.{part}": sums for part, sums in vars(errors).items()}
    content, described = pack(arrays)
    about = {
        "weathers": list(found.errors),
        "arrays": described,
        **{name: getattr(found, name) for name in COSTS},
    }
    draft = Draft(KIND, FORMAT, {ARRAYS: bytes_writer(content)}, about, parents={"run": run})
    publish(folder, draft)


def load_assessment(folder: Path, run: str) -> Assessment | None:
    """Return the assessment of a run in a folder, verified; None: there is none of that run."""
    if not (folder / MANIFEST).exists():
        return None
    manifest = read_manifest(folder, kind=KIND, reads=FORMAT)
    if manifest.parents.get("run") != run:
        return None
    verify_files(folder, manifest)
    try:
        arrays, about = unpack(folder, manifest), manifest.about
        known = set(get_args(Weather))
        if not about["weathers"] or not known.issuperset(about["weathers"]):
            raise ValueError(f"weathers {about['weathers']}")
        return Assessment(
            errors={weather: _errors(arrays, weather) for weather in about["weathers"]},
            places=_errors(arrays, PLACES),
            origins=arrays["origins"],
            days=arrays["days"],
            **{name: about[name] for name in COSTS},
        )
    except FOREIGN as error:
        raise ArtifactError(f"{folder}: not an assessment ({error})") from error


def _errors(arrays: dict[str, np.ndarray], name: str) -> Errors:
    fields: Any = Errors.__dataclass_fields__
    return Errors(**{part: arrays[f"{name}.{part}"] for part in fields})
