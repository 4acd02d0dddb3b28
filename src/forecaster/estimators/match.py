"""A run's description of its panel, and matching another panel to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool

from forecaster.artifact import Run
from forecaster.clock.clock import CALENDAR_RULE, LAG_CLOCK
from forecaster.clock.holidays import Holidays
from forecaster.clock.lags import choose_lags
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, ConfigError, Faults, count_of, name_some
from forecaster.estimators import closed
from forecaster.estimators.forecast_inputs import MONTH_HOURS, RANGES
from forecaster.estimators.intervals.calibration import find_wrong
from forecaster.estimators.wrong_values import value_ranges
from forecaster.panel.hours import shared_hours
from forecaster.panel.panel import Panel
from forecaster.panel.storage.folder import step_fields
from forecaster.recipe import Recipe
from forecaster.splits import SPLITS, Splits, Windows

PAST_ONLY = "past_only"  # the names of past-only covariates in `about`, if there are any
LISTS = ("ids", "covariates", "local_covariates")  # lists of names in `about`
TYPES = {"kind": str, "timezone": str, "lag_clock": str, "step_minutes": int}
Shapes = Callable[["Sizes"], Mapping[str, tuple[int, ...]]]
HOUR_MINUTES = 60
MAX_HISTORY = 10_000  # past steps of a window: bounds the memory that a foreign run can claim


def with_meaning(recipe: Recipe, panel: Panel) -> Recipe:
    """The recipe with its time zone, kind, step, country and censoring replaced by the panel's.

    Lags that it does not set are chosen for the panel.
    """
    censored = recipe.panel.censored
    if censored is not None and censored != panel.censored_by:
        raise ConfigError(
            f"panel.censored = {censored!r}: the panel's values are not censored by it; build the "
            f"panel with it, or use panel.censor({censored!r})"
        )
    unmarked = [name for name in recipe.panel.past_only if name not in panel.past_only]
    if unmarked:
        raise ConfigError(
            f"panel.past_only = {name_some(unmarked)}: known ahead in the panel, or not in it; "
            "build the panel with it, or use panel.with_past_only(names)"
        )
    settings = {
        "censored": panel.censored_by,
        "past_only": panel.past_only,
        "timezone": panel.clock.zone,
        "kind": panel.kind,
        "step_minutes": panel.clock.step_minutes,
        "step_months": panel.clock.step_months,
        "country": country_of(panel),
        "hours": _hours_of(recipe, panel),
    }
    meant = recipe.model_copy(update={"panel": recipe.panel.model_copy(update=settings)})
    return with_lags(meant, panel)


def with_lags(recipe: Recipe, panel: Panel) -> Recipe:
    """The recipe with lags that it does not set chosen for the panel (`clock/lags.py`)."""
    lags = recipe.lags
    if _sets_lags(lags):
        return recipe
    chosen = choose_lags(panel.clock, len(panel.values), lags.horizon).lags
    fields = {name: getattr(lags, name) for name in lags.model_fields_set}
    return recipe.model_copy(update={"lags": LagConfig(**{**dict(chosen), **fields})})


def explain_lags(recipe: Recipe, panel: Panel) -> str:
    """Why a recipe has its lags on a panel, in words."""
    lags = recipe.lags
    if _sets_lags(lags):
        return (
            f"{count_of(lags.length, 'past step')} to forecast {lags.horizon} ahead: by the recipe"
        )
    reason = choose_lags(panel.clock, len(panel.values), lags.horizon).reason
    fields = sorted(lags.model_fields_set - {"horizon"})
    if not fields:
        return reason
    length = count_of(with_lags(recipe, panel).lags.length, "past step")
    return f"{length} to forecast {lags.horizon}: {name_some(fields)} by the recipe; else {reason}"


def _sets_lags(lags: LagConfig) -> bool:
    return {"recent", "seasons"} <= lags.model_fields_set


def _hours_of(recipe: Recipe, panel: Panel) -> str | None:
    """The hours of all locations, if they have the same; otherwise the recipe's setting."""
    texts = {*panel.locations.hours}
    return texts.pop() if len(texts) == 1 and panel.locations.has_hours else recipe.panel.hours


def describe(panel: Panel, splits: Splits, windows: Windows) -> dict[str, Any]:
    """The part of `about` that describes the panel, the splits and the windows."""
    counts = {name: len(getattr(windows, name)) for name in SPLITS}
    holidays, is_short = panel.clock.holidays, panel.clock.step_minutes < HOUR_MINUTES
    return {
        **({"calendar": CALENDAR_RULE} if is_short else {}),
        "ids": list(panel.locations.ids),
        "kind": panel.kind,
        "timezone": panel.clock.zone,
        **step_fields(panel.clock),
        "lag_clock": LAG_CLOCK,
        "holidays": holidays.to_json() if holidays is not None else None,
        "covariates": list(panel.covariates.names),
        "local_covariates": list(panel.local_covariates.names),
        **({PAST_ONLY: list(panel.past_only)} if panel.past_only else {}),
        "splits": {name: [list(pair) for pair in getattr(splits, name)] for name in SPLITS},
        "windows": counts,
        **({"hours": list(panel.locations.hours)} if panel.locations.has_hours else {}),
    }


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    N: int  # locations
    P: int  # covariates
    Q: int  # covariates of each location
    L: int  # past steps of a window
    K: int  # coming ones


def check_run(run: Run, shapes: Shapes) -> None:
    """Refuse a run that lacks arrays, or whose arrays do not fit its description.

    Args:
        run: as loaded from a file.
        shapes: of the arrays that only its estimator needs.
    """
    about, arrays = run.about, run.arrays
    try:
        wrong = [name for name in LISTS if not _is_texts(about[name])]
        wrong += [name for name, kind in TYPES.items() if type(about[name]) is not kind]
        covariates = {*about["covariates"], *about["local_covariates"]}
        wrong += [] if covariates.issuperset(past_only_of(run)) else [PAST_ONLY]
        length = run.recipe.lags.length
        wrong += ["lags"] if length > MAX_HISTORY else []
        N, P, Q = (len(about[name]) for name in LISTS)
        W = len(arrays["shared.fill"])
        needed = {
            "shared.fill": (W, N),
            "shared.fill_covariates": (W, P),
            "shared.fill_local_covariates": (Q, W, N),
            "shared.climatology": (MONTH_HOURS, P),
            "shared.least": (N,),
            "shared.most": (N,),
            **shapes(Sizes(N, P, Q, length, run.recipe.lags.horizon)),
        }
        wrong += [name for name, shape in needed.items() if arrays[name].shape != shape]
        ranges = zip(RANGES.values(), ((2, P), (2, Q)), strict=True)  # not in older runs
        wrong += [n for n, shape in ranges if n in arrays and arrays[n].shape != shape]
        wrong += value_ranges.find_wrong(arrays, W, N)
        wrong += closed.find_wrong(arrays, N)
        wrong += find_wrong(arrays, N, run.recipe.lags.horizon)
        if wrong:
            raise ValueError(f"wrong: {name_some(wrong)}")
        _holidays_of(about)
        if "hours" in about and not (_is_texts(about["hours"]) and len(about["hours"]) == N):
            raise ValueError("wrong: hours")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"not a forecaster run of a {run.estimator} ({error})") from error


def match(run: Run, panel: Panel) -> Panel:
    """The panel with locations and covariates in the order of the run; differences are refused.

    Up to half of the run's locations may be absent: their values are missing.
    """
    about, holidays = run.about, _holidays_of(run.about)
    faults = Faults("the panel does not fit the run")
    ids, present = tuple(about["ids"]), set(panel.locations.ids)
    absent, unknown = [i for i in ids if i not in present], new_ids(run, panel)
    sides = f"the run has {len(ids)} locations, the panel {len(present)}"
    if 2 * len(absent) > len(ids):
        half = "at most half of them may be absent; train a run on this panel"
        faults.add(f"{sides}; the panel lacks {name_some(absent)}: {half}")
    if unknown:
        remedy = "train again on a panel with them, or leave them out"
        faults.add(f"{sides}; the run does not know {name_some(unknown)}: {remedy}")
    for name, needed, actual in (
        ("kind", about["kind"], panel.kind),
        ("time zone", about["timezone"], panel.clock.zone),
        ("step", about["step_minutes"], panel.clock.step_minutes),
        ("step in months", about.get("step_months", 0), panel.clock.step_months),
        ("lag rule", about["lag_clock"], LAG_CLOCK),
        ("holidays", holidays.country if holidays is not None else None, country_of(panel)),
    ):
        if needed != actual:
            faults.add(f"{name}: the run has {needed!r}, the panel {actual!r}")
    _check_season(run, panel, faults)
    for date in _differing_dates(holidays, panel.clock.holidays):
        faults.add(f"holidays: {date} is one in the run or in the panel, not in both")
    names, local_names = tuple(about["covariates"]), tuple(about["local_covariates"])
    _match_covariates(run, panel, faults)
    censored = run.recipe.panel.censored
    if censored is not None and censored != panel.censored_by:
        remedy = f"build it with that, or use panel.censor({censored!r})"
        faults.add(f"the run's values are censored by {censored!r}, the panel's not; {remedy}")
    faults.raise_any(ArtifactError)
    matched = panel.with_absent(absent).select(ids).select_covariates(names, local_names)
    return _with_hours(run, matched, panel).with_past_only(past_only_of(run))


def _match_covariates(run: Run, panel: Panel, faults: Faults) -> None:
    """Add a fault for covariates that the panel lacks, or does not know ahead as the run needs."""
    names = (*run.about["covariates"], *run.about["local_covariates"])
    present = {*panel.covariates.names, *panel.local_covariates.names}
    lacking = [name for name in names if name not in present]
    if lacking:
        faults.add(f"the panel lacks the covariates {name_some(lacking)}")
    needed_ahead = {*names} - {*past_only_of(run)}
    unknown_ahead = [name for name in panel.past_only if name in needed_ahead]
    if unknown_ahead:
        faults.add(
            f"the run needs {name_some(unknown_ahead)} ahead of an origin, and the panel has only "
            "their past; build the panel without past_only of these, or train a run on this panel"
        )


def past_only_of(run: Run) -> tuple[str, ...]:
    """The run's past-only covariates: it has not seen them ahead, whatever a panel says."""
    return tuple(run.about.get(PAST_ONLY, ()))


def see_as_run(run: Run | None, panel: Panel) -> Panel:
    """The panel with further covariates past-only: those of which the run knows only the past."""
    if run is None or not past_only_of(run):
        return panel
    names = {*panel.covariates.names, *panel.local_covariates.names}
    hidden = [name for name in past_only_of(run) if name in names]
    return panel.with_past_only((*panel.past_only, *hidden))


def _with_hours(run: Run, matched: Panel, panel: Panel) -> Panel:
    """The panel with the run's opening hours where it has none; lags follow those of the fit.

    Args:
        run: of whose locations hours may be known.
        matched: the panel with the locations of the run.
        panel: as it came.
    """
    fitted = run.about.get("hours")
    if fitted is None:  # the run has learned from all steps
        clock = matched.clock
        return replace(matched, clock=replace(clock, hours=())) if clock.hours else matched
    new = len(matched.locations) - len(fitted)
    if not panel.locations.has_hours:
        matched = matched.with_hours([*map(str, fitted), *[""] * new])
    absent = [identity not in set(panel.locations.ids) for identity in matched.locations.ids]
    if any(absent):
        texts = zip(absent, [*fitted, *[""] * new], matched.locations.hours, strict=True)
        hours = tuple(str(of_run) if lacks else text for lacks, of_run, text in texts)
        matched = replace(matched, locations=replace(matched.locations, hours=hours))
    if not new:
        return matched
    hours = matched.locations.hours[: len(fitted)]  # whenever new locations are open
    return replace(matched, clock=replace(matched.clock, hours=shared_hours(hours)))


def _check_season(run: Run, panel: Panel, faults: Faults) -> None:
    """Refuse a run of long steps from when their season was a week."""
    slots, needed = len(run.arrays["shared.fill"]), panel.clock.season_slots
    if panel.clock.has_yearly_season and slots != needed:
        saved = f"season: {count_of(slots, 'step')} in the run, which an earlier version saved"
        faults.add(f"{saved}; now it is a year of {count_of(needed, 'step')}: train the run again")


def new_ids(run: Run, panel: Panel) -> list[str]:
    """The ids of a panel that a run does not know."""
    ids = set(run.about["ids"])
    return [identity for identity in panel.locations.ids if identity not in ids]


def is_new(run: Run) -> Bool[np.ndarray, " N"]:
    """Which locations have been added to a run after its fit (`new_locations`)."""
    return np.asarray(np.isnan(run.arrays["shared.fill"]).any(axis=0))


def known_part(run: Run, panel: Panel) -> Panel:
    """The panel by the locations of a run; absent ones are missing."""
    present = {*panel.locations.ids}
    ids = tuple(identity for identity in run.about["ids"] if identity in present)
    absent = [identity for identity in run.about["ids"] if identity not in present]
    return panel.select(ids).with_absent(absent)


def training_steps(run: Run, panel: Panel) -> Bool[np.ndarray, " S"]:
    """The run's training steps among those of a panel and of the horizon after it.

    Validation steps are not among them, also where a last fit has learned from them (refits of
    Ridge): their errors are a little smaller than those to come, but without them nothing would
    follow outcomes for weeks after a refit.
    """
    steps = len(panel.values) + run.recipe.lags.horizon
    return splits_of(run).mask("train", panel.clock, panel.clock.axis(panel.start, steps))


def splits_of(run: Run) -> Splits:
    """The ranges that the run was trained, validated and tested on."""
    try:
        ranges = {name: [tuple(pair) for pair in run.about["splits"][name]] for name in SPLITS}
        return Splits(**ranges)
    except (KeyError, TypeError, ConfigError) as error:
        raise ArtifactError(f"the run does not name its training steps ({error})") from error


def location_order(ids: Sequence[str], panel: Panel) -> list[int]:
    """The position among `ids` of each of a panel's locations."""
    position = {identity: n for n, identity in enumerate(ids)}
    return [position[identity] for identity in panel.locations.ids]


def country_of(panel: Panel) -> str | None:
    """The country of a panel's holidays."""
    return panel.clock.holidays.country if panel.clock.holidays is not None else None


def _holidays_of(about: Mapping[str, Any]) -> Holidays | None:
    return None if about["holidays"] is None else Holidays.from_json(about["holidays"])


def _differing_dates(fitted: Holidays | None, current: Holidays | None) -> list[str]:
    """The dates that are holidays in only one of two lists, of the years that both cover."""
    if fitted is None or current is None or fitted.country != current.country:
        return []
    first = max(fitted.first_year, current.first_year)
    last = min(fitted.last_year, current.last_year)
    dates = sorted({*fitted.dates} ^ {*current.dates})
    return [date for date in dates if str(first) <= date[:4] <= str(last)]


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
