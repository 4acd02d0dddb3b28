"""Online corrections that are kept in a folder, so that the next step needs one forecast only.

Corrections at an origin come from the forecasts of one to two weeks before it. A stored state is
what these have left: the corrections, and the quantiles that await their outcomes. It is used only
for the same run, and only if every value, covariate and date that it may come from is the same in
the panel; otherwise all is computed anew. So a panel may grow, but a changed value is noticed.
"""

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forecaster.artifact import ARRAYS, FOREIGN, pack, unpack
from forecaster.choices import Weather
from forecaster.errors import ArtifactError
from forecaster.estimators.intervals.online import OnlineCalibration
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST, read_manifest, verify_files
from forecaster.publish.writing import Draft, bytes_writer, prune, publish

KIND, FORMAT = "online", 1
MISSING = ".missing"  # after the name of an array: which of its values are NaN
STEPS_AT_ONCE = 512  # that are hashed
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OnlineStore:
    """The folder in which the online corrections of one run are kept."""

    folder: Path
    run: str  # its hash
    weather: Weather  # the source of covariates ahead

    def restore(self, online: OnlineCalibration, panel: Panel, origin: int) -> None:
        """Go on from the stored state if it is of an earlier step, or the same, and fits exactly.

        Args:
            online: without any observation.
            panel: matched to the run.
            origin: the first step whose corrections are asked for.
        """
        if not (self.folder / MANIFEST).exists():
            return
        manifest = read_manifest(self.folder, kind=KIND, reads=FORMAT)
        try:
            step = int(panel.step_index(np.array([manifest.about["at"]], "datetime64[s]"))[0])
            if not 0 <= step <= origin or manifest.parents.get("run") != self.run:
                return
            if manifest.about["inputs"] != self._hash_inputs(panel, step, _horizon(online)):
                log.info("%s: the panel has changed; all is computed anew", self.folder)
                return
            verify_files(self.folder, manifest)
            online.restore(step, _unpack_trackers(unpack(self.folder, manifest)))
        except (ArtifactError, *FOREIGN) as error:
            log.warning("%s: damaged (%s); all is computed anew", self.folder, error)

    def keep(self, online: OnlineCalibration, panel: Panel, origin: int) -> None:
        """Store the state after an origin, unless that of a later one is stored.

        Args:
            online: which has followed the origin.
            panel: matched to the run.
            origin: a step of the panel.
        """
        at = str(panel.instant(origin).astype("datetime64[s]"))
        if (self.folder / MANIFEST).exists():
            stored = read_manifest(self.folder, kind=KIND, reads=FORMAT)
            is_later = str(stored.about.get("at")) > at  # ISO text, UTC
            if is_later and stored.parents.get("run") == self.run:
                return
        arrays = {
            f"{cycle}.{name}": array
            for cycle, tracker in online.trackers(origin).items()
            for name, array in tracker.arrays.items()
        }
        missing = {
            f"{name}{MISSING}": np.isnan(array)
            for name, array in arrays.items()
            if np.isnan(array).any()
        }
        content, described = pack({n: np.nan_to_num(a) for n, a in arrays.items()} | missing)
        inputs = self._hash_inputs(panel, origin, _horizon(online))
        about = {"at": at, "inputs": inputs, "arrays": described}
        files, parents = {ARRAYS: bytes_writer(content)}, {"run": self.run}
        publish(
            self.folder,
            Draft(KIND, FORMAT, files, about, parents, about_bytes=len(content)),
        )
        prune(self.folder)

    def _hash_inputs(self, panel: Panel, step: int, horizon: int) -> str:
        """The hash of all that corrections after a step may come from."""
        places, shared, local = panel.locations, panel.covariates, panel.local_covariates
        names = [
            self.run, self.weather, str(panel.instant(0)), repr(panel.clock), panel.kind,
            places.ids, places.hours, shared.names, local.names, panel.past_only,
        ]  # fmt: skip
        digest = hashlib.sha256(json.dumps(names, default=str).encode())
        for dates in (places.opens, places.closes):
            digest.update(dates.astype("datetime64[s]").astype(np.int64).tobytes())
        known = step + 1 + (horizon if self.weather == "observed" else 0)
        parts = (panel.values[: step + 1], shared.values[:known], *local.values[:, :known])
        for part in parts:
            for first in range(0, len(part) if part.size else 0, STEPS_AT_ONCE):
                digest.update(np.ascontiguousarray(part[first : first + STEPS_AT_ONCE]).data)
        return digest.hexdigest()


def _horizon(online: OnlineCalibration) -> int:
    """K."""
    return int(online.calibration.corrections.shape[1])


def _unpack_trackers(arrays: dict[str, np.ndarray]) -> dict[int, dict[str, np.ndarray]]:
    """The arrays of each tracker, by cycle."""
    trackers: dict[int, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        if not name.endswith(MISSING):
            missing = arrays.get(f"{name}{MISSING}")
            cycle, _, part = name.partition(".")
            whole = (
                array if missing is None else np.where(missing, array.dtype.type(np.nan), array)
            )
            trackers.setdefault(int(cycle), {})[part] = whole
    return trackers
