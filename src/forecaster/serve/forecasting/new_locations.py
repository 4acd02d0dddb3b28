"""The locations of the data beside those of the run: new ones, and absent ones."""

import numpy as np

from forecaster.errors import ArtifactError, count_of, name_some
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.serve.data.first_day import measure_first_day
from forecaster.serve.data.registration import TRAIN_AGAIN
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.problems import Problem

MAX_ABSENT = 0.5  # of the run's locations
MAX_UNKNOWN = 0.25  # of the panel's locations, to a run that accepts no new ones
CANNOT = "this run forecasts only the locations that it was trained on"


def forecast_columns(model: ServedModel, snapshot: Snapshot, origin: int) -> list[int]:
    """Return the columns that are forecast from an origin.

    They are the locations of the run and, if it accepts new ones, those with a day of data.
    """
    ids = snapshot.locations.ids
    if model.ids.issuperset(ids):
        return list(range(len(ids)))
    over = np.zeros(len(ids), dtype=bool)
    if model.accepts_new_locations:
        over = measure_first_day(snapshot, origin).is_over(snapshot)
    return [n for n, identity in enumerate(ids) if identity in model.ids or over[n]]


def why_not_forecast(
    model: ServedModel, snapshot: Snapshot, location: str, origin: int
) -> Problem | None:
    """Return the reason why a location of the data is not forecast from an origin, or None."""
    if location in model.ids:
        return None
    if not model.accepts_new_locations:
        return cannot_forecast()
    column = snapshot.locations.columns[location]
    first_day = measure_first_day(snapshot, origin)
    if first_day.is_over(snapshot)[column]:
        return None
    progress = first_day.describe(snapshot, column)
    detail = f"registered, {progress}; it is forecast after its first day of observations"
    return Problem(409, "waiting", detail)


def cannot_forecast() -> Problem:
    """Return the refusal of a run that does not accept new locations, with what to do next."""
    return Problem(409, "cannot_forecast", f"{CANNOT}; {TRAIN_AGAIN}")


def absent_locations(model: ServedModel, locations: Locations) -> list[str]:
    """Return the locations of the run that are not among those of the data, in its order."""
    run, present = model.estimator.run, set(locations.ids)
    return [] if run is None else [i for i in run.about["ids"] if i not in present]


def describe_absent(model: ServedModel, snapshot: Snapshot) -> str | None:
    """Return a text that names the locations of the run that the data lacks, if any."""
    absent = absent_locations(model, snapshot.locations)
    if not absent:
        return None
    return f"data: the panel lacks {len(absent)} of the run's {len(model.ids)} locations: " + (
        name_some(absent)
    )


def unknown_locations(model: ServedModel, snapshot: Snapshot) -> list[str]:
    """Return the locations of the panel that a run neither knows nor accepts."""
    if model.accepts_new_locations:
        return []
    return [i for i in snapshot.base.locations.ids if i not in model.ids]


def describe_unknown(model: ServedModel, snapshot: Snapshot) -> str | None:
    """Return a text that names the locations of the panel that are not forecast, if any."""
    unknown = unknown_locations(model, snapshot)
    if not unknown:
        return None
    N = len(snapshot.base.locations)
    counts = f"it does not know {len(unknown)} of the panel's {N} locations: {name_some(unknown)}"
    return f"{counts}; they are forecast by a run that was trained on this panel"


def refuse_other_locations(model: ServedModel, snapshot: Snapshot) -> None:
    """Refuse data that lacks half of the run's locations, or of which a quarter is unknown to it.

    Fewer unknown ones are not forecast, as after an opening: they wait, as registered ones do,
    for a run that accepts or knows them.
    """
    absent, N = absent_locations(model, snapshot.locations), len(model.ids)
    unknown, M = unknown_locations(model, snapshot), len(snapshot.base.locations)
    sides = f"the run has {count_of(N, 'location')}, the panel {M:,}"
    if len(absent) > MAX_ABSENT * N:
        lacking = f"the panel lacks {len(absent)} of the run's, more than half"
        raise ArtifactError(f"{sides}; {lacking}: {name_some(absent)}")
    if len(unknown) > MAX_UNKNOWN * M:
        many = f"the run does not know {len(unknown)} of these, more than a quarter"
        raise ArtifactError(f"{sides}; {many}: {name_some(unknown)}; {CANNOT}; {TRAIN_AGAIN}")


def with_absent_locations(model: ServedModel, panel: Panel) -> Panel:
    """Return the panel with the run's other locations, whose values are missing."""
    return panel.with_absent(absent_locations(model, panel.locations))
