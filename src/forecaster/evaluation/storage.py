"""An assessment's files: sums and counts as arrays, so that tables can be made again from them."""

from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np

from forecaster.artifact import ARRAYS, FOREIGN, pack, unpack
from forecaster.choices import Weather
from forecaster.errors import ArtifactError
from forecaster.evaluation.backtest import FORMS, Assessment, Sureness
from forecaster.metrics import Errors, Intervals
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
    if found.sureness is not None:
        arrays |= _interval_arrays(found.sureness)
    content, described = pack(arrays)
    about = {
        "weathers": list(found.errors),
        "levels": list(found.sureness.levels) if found.sureness is not None else [],
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
            sureness=_read_sureness(arrays, about.get("levels") or []),
        )
    except FOREIGN as error:
        raise ArtifactError(f"{folder}: not an assessment ({error})") from error


def _errors(arrays: dict[str, np.ndarray], name: str) -> Errors:
    fields: Any = Errors.__dataclass_fields__
    return Errors(**{part: arrays[f"{name}.{part}"] for part in fields})


def _interval_arrays(found: Sureness) -> dict[str, np.ndarray]:
    """Return the sums of intervals by name: `static.inside`, `static.places.inside`."""
    arrays: dict[str, np.ndarray] = {}
    for form in FORMS:
        for name, sums in ((form, found.windows[form]), (f"{form}.{PLACES}", found.places[form])):
            arrays |= {f"{name}.{part}": array for part, array in vars(sums).items()}
    return arrays


def _read_sureness(arrays: dict[str, np.ndarray], levels: list[float]) -> Sureness | None:
    """Return what became of the quantiles; None: none were assessed, as in older files."""
    if not levels:
        return None
    ends = [0.0, *map(float, levels), 1.0]
    if not all(low < high for low, high in pairwise(ends)):
        raise ValueError(f"levels {levels}")
    return Sureness(
        levels=tuple(ends[1:-1]),
        windows={form: _intervals(arrays, form) for form in FORMS},
        places={form: _intervals(arrays, f"{form}.{PLACES}") for form in FORMS},
    )


def _intervals(arrays: dict[str, np.ndarray], name: str) -> Intervals:
    fields: Any = Intervals.__dataclass_fields__
    return Intervals(**{part: arrays[f"{name}.{part}"] for part in fields})
