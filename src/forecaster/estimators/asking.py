"""From a run and a panel to a question, and from answers to what is forecast."""

import logging
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.errors import (
    ArtifactError,
    ConfigError,
    DataError,
    RunError,
    count_of,
    name_some,
)
from forecaster.estimators.forecast_inputs import (
    Changes,
    ForecastInputs,
    fit_climatology,
    look_ahead,
    look_back,
    with_changes,
    with_weather,
)
from forecaster.estimators.training_data import TrainingData
from forecaster.estimators.what_if import training_ranges
from forecaster.panel.fill import Fill, fill_missing
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Splits

BLOCK = 512  # origins answered at a time, to bound memory
log = logging.getLogger(__name__)


def ask(
    run: Run,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weather: Weather,
    changes: Changes | None = None,
) -> ForecastInputs:
    """Return what is asked at some origins, with their history filled."""
    part, own = look_back(panel, run.recipe.lags, origins)
    whole = fill_missing(part, fill_of(run))
    question = ForecastInputs(whole, own, *look_ahead(part, own, run.recipe.lags.horizon))
    question = with_weather(question, weather, run.arrays["shared.climatology"])
    question = with_changes(question, changes or {})
    if np.isnan(question.covariates).any() or np.isnan(question.local_covariates).any():
        raise DataError("covariates ahead are missing at some origins; leave those out")
    return question


def ask_in_blocks(
    run: Run,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weather: Weather,
    changes: Changes | None = None,
) -> Iterator[ForecastInputs]:
    """Yield what is asked at many origins, some of them at a time."""
    for first in range(0, len(origins), BLOCK):
        yield ask(run, panel, origins[first : first + BLOCK], weather, changes)


def fill_of(run: Run) -> Fill:
    """Return what a run takes for missing values: means of the training steps by slot."""
    names = ("shared.fill", "shared.fill_covariates", "shared.fill_local_covariates")
    return Fill(*(run.arrays[name] for name in names))


def learned_steps(run: Run, panel: Panel) -> Bool[np.ndarray, " S"]:
    """Tell which steps of a panel, and of the horizon after it, the run was fitted to."""
    try:
        ranges = {name: [tuple(pair) for pair in run.about["splits"][name]] for name in SPLITS}
        splits = Splits(**ranges)
    except (KeyError, TypeError, ConfigError) as error:
        raise ArtifactError(f"a run that does not say what it learned from ({error})") from error
    steps = len(panel.values) + run.recipe.lags.horizon
    return splits.mask("train", panel.clock, panel.clock.axis(panel.start, steps))


def find_places(known: Panel, panel: Panel) -> list[int]:
    """Return where the panel's locations are among those of the run."""
    place = {identity: n for n, identity in enumerate(known.locations.ids)}
    return [place[identity] for identity in panel.locations.ids]


def finish(run: Run, forecast: Float32[np.ndarray, "B K N"]) -> Float32[np.ndarray, "B K N"]:
    """Refuse what is not a number; counts are never below zero."""
    refuse_non_finite(run, forecast)
    if run.about["kind"] != "count":
        return forecast
    below = int((forecast < 0).sum())
    if below:
        log.info("%s: %s below zero set to 0", run.estimator, count_of(below, "forecast"))
    return np.asarray(np.maximum(forecast, np.float32(0)))


def refuse_non_finite(run: Run, predict_windows: Float32[np.ndarray, "..."]) -> None:
    """Refuse answers that are no numbers."""
    if not np.isfinite(predict_windows).all():
        raise RunError(f"{run.estimator} gave NaN or infinity; nothing is forecast")


def remember(lesson: TrainingData) -> dict[str, np.ndarray]:
    """Return what every run remembers of the training steps."""
    panel, fill, train = lesson.panel, lesson.fill, lesson.train
    seen = panel.values[train]
    return {
        "shared.fill": fill.values,
        "shared.fill_covariates": fill.covariates,
        "shared.fill_local_covariates": fill.local_covariates,
        "shared.climatology": fit_climatology(panel, train),
        "shared.least": np.nan_to_num(np.fmin.reduce(seen, axis=0)),
        "shared.most": np.nan_to_num(np.fmax.reduce(seen, axis=0)),
        **training_ranges(panel, train),
    }


def warn_of_recent(run: Run, panel: Panel, origin: int) -> None:
    """Warn of recent values far beyond anything seen in training."""
    least, most = run.arrays["shared.least"], run.arrays["shared.most"]
    recent = panel.values[max(origin - run.recipe.lags.recent + 1, 0) : origin + 1]
    smallest = 1.0 if run.about["kind"] == "count" else 0.0  # one ride is no surprise
    reach = np.maximum(most - least, smallest)
    far = ((recent > most + reach) | (recent < least - reach)).any(axis=0)
    if far.any():
        ids = name_some(panel.locations.ids[n] for n in np.flatnonzero(far))
        what = count_of(int(far.sum()), "location")
        log.warning("outside training range: recent values of %s (%s)", what, ids)
