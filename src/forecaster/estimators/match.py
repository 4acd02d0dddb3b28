"""What a run says of the panel it learned from, and whether another panel fits it."""

from typing import Any

from forecaster.artifact import Run
from forecaster.clock.clock import LAG_CLOCK
from forecaster.errors import ArtifactError, Faults, name_some
from forecaster.estimators.question import MONTH_HOURS, select_covariates
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Splits, Windows


def describe(panel: Panel, splits: Splits, windows: Windows) -> dict[str, Any]:
    """Return what a run remembers of its panel and windows."""
    counts = {name: len(getattr(windows, name)) for name in SPLITS}
    return {
        "ids": list(panel.locations.ids),
        "kind": panel.kind,
        "timezone": panel.clock.zone,
        "step_minutes": panel.clock.step_minutes,
        "lag_clock": LAG_CLOCK,
        "holidays": country_of(panel),
        "covariates": list(panel.covariates.names),
        "local_covariates": list(panel.local_covariates.names),
        "splits": {name: [list(pair) for pair in getattr(splits, name)] for name in SPLITS},
        "windows": counts,
    }


def check_run(run: Run) -> None:
    """Refuse a run that lacks what every estimator needs, or whose arrays do not fit its words."""
    about, arrays = run.about, run.arrays
    try:
        N, P, Q = (len(about[name]) for name in ("ids", "covariates", "local_covariates"))
        W = len(arrays["shared.fill"])
        shapes = {
            "shared.fill": (W, N),
            "shared.fill_covariates": (W, P),
            "shared.fill_local_covariates": (Q, W, N),
            "shared.climatology": (MONTH_HOURS, P),
            "shared.least": (N,),
            "shared.most": (N,),
        }
        wrong = [name for name, shape in shapes.items() if arrays[name].shape != shape]
        texts = ("kind", "timezone", "lag_clock")
        wrong += [name for name in texts if not isinstance(about[name], str)]
        if wrong or not isinstance(about["step_minutes"], int) or "holidays" not in about:
            raise ValueError(f"wrong: {name_some(wrong) or 'step or holidays'}")
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"not a forecaster run of a {run.estimator} ({error})") from error


def match(run: Run, panel: Panel) -> Panel:
    """Return the panel's locations and covariates in the order of the run, or say what differs."""
    about = run.about
    faults = Faults("the panel does not fit the run")
    ids, present = tuple(about["ids"]), set(panel.locations.ids)
    absent, unknown = [i for i in ids if i not in present], sorted(present - set(ids))
    sides = f"the run has {len(ids)} locations, the panel {len(present)}"
    if absent:
        faults.add(f"{sides}; the panel lacks {name_some(absent)}")
    if unknown:
        faults.add(f"{sides}; the run does not know {name_some(unknown)}")
    for name, needed, given in (
        ("kind", about["kind"], panel.kind),
        ("time zone", about["timezone"], panel.clock.zone),
        ("step", about["step_minutes"], panel.clock.step_minutes),
        ("lag rule", about["lag_clock"], LAG_CLOCK),
        ("holidays", about["holidays"], country_of(panel)),
    ):
        if needed != given:
            faults.add(f"{name}: the run has {needed!r}, the panel {given!r}")
    present_names = {*panel.covariates.names, *panel.local_covariates.names}
    names = (*about["covariates"], *about["local_covariates"])
    lacking = [name for name in names if name not in present_names]
    if lacking:
        faults.add(f"the panel lacks the covariates {name_some(lacking)}")
    faults.raise_any(ArtifactError)
    chosen = tuple(about["covariates"]), tuple(about["local_covariates"])
    return select_covariates(panel.select(ids), *chosen)


def country_of(panel: Panel) -> str | None:
    """Return whose holidays a panel has recorded."""
    return panel.clock.holidays.country if panel.clock.holidays is not None else None
