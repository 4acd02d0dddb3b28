"""Batches as clients send them, checked against the panel: entries that may be written."""

from collections.abc import Sequence

from forecaster.errors import name_some
from forecaster.serve.data.moment import AHEAD_SECONDS
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.data.store import Entry
from forecaster.serve.http.schemas import Covariate, Observation, read_time
from forecaster.serve.problems import Problem

COVARIATES_AHEAD_SECONDS = 31 * 24 * 3600  # no weather forecast reaches further


def take_observations(given: Sequence[Observation], overlay: Overlay, now: float) -> list[Entry]:
    """Return what may be written, or name everything that is wrong."""
    known, counts = set(overlay.base.locations.ids), overlay.base.kind == "count"
    entries: list[Entry] = []
    faults = _Faults()
    for place, one in enumerate(given):
        seconds = read_time(one.ds)
        if one.location not in known:
            faults.add("unknown_location", f"observations.{place}: no such location")
        if counts and one.value is not None and one.value < 0:
            faults.add("negative", f"observations.{place}: a count is never below 0")
        if fault := _wrong_time(overlay, seconds, now + AHEAD_SECONDS):
            faults.add(fault[0], f"observations.{place}: {fault[1]}")
        entries.append((one.location, seconds, one.value))
    faults.add_doubled(entries, "observations")
    faults.raise_any()
    return entries


def take_covariates(given: Sequence[Covariate], overlay: Overlay, now: float) -> list[Entry]:
    """Return what may be written, or name everything that is wrong."""
    known = set(overlay.base.covariates.names)
    entries: list[Entry] = []
    faults = _Faults()
    for place, one in enumerate(given):
        seconds = read_time(one.ds)
        if not known.issuperset(one.values):
            names = name_some(sorted(known)) or "none"
            faults.add("unknown_covariate", f"covariates.{place}: the panel has {names}")
        if fault := _wrong_time(overlay, seconds, now + COVARIATES_AHEAD_SECONDS):
            faults.add(fault[0], f"covariates.{place}: {fault[1]}")
        entries += [(name, seconds, value) for name, value in one.values.items()]
    faults.add_doubled(entries, "covariates")
    faults.raise_any()
    return entries


class _Faults:
    """Gathers what is wrong with a batch; the first kind gives the code."""

    def __init__(self) -> None:
        self._code: str | None = None
        self._found: list[str] = []

    def add(self, code: str, text: str) -> None:
        self._code = self._code or code
        self._found.append(text)

    def add_doubled(self, entries: list[Entry], what: str) -> None:
        if len({entry[:2] for entry in entries}) < len(entries):
            self.add("doubled", f"{what}: the same step is given twice")

    def raise_any(self) -> None:
        if self._code is not None:
            raise Problem(422, self._code, name_some(self._found))


def _wrong_time(overlay: Overlay, seconds: int, latest: float) -> tuple[str, str] | None:
    """Return the code and the words for a time that nothing can be written for."""
    step = overlay.step_at(seconds)
    if step is None:
        return "off_step", f"a step of {overlay.base.clock.step_minutes} min begins elsewhere"
    if step < 0:
        return "too_old", f"the data begins at {overlay.time_of(0)}Z"
    if seconds > latest:
        return "in_future", "that step has not begun"
    return None
