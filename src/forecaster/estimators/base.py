"""The estimator: fit, predict, forecast, save, load.

A new estimator defines two methods: `fit_windows` and `predict_windows` (and
`predict_outputs` if its model has more than one output). Everything else is shared and lives here:
cutting windows, filling missing values, matching locations by id, hiding what comes after a
forecast origin, keeping counts non-negative, and calibrating quantiles.

A forecast is made in this order: `match` the panel to the run → `prepare_inputs` for each origin
→ `predict_outputs` → `Calibration` and, step by step, `OnlineCalibration` (by
`Predictor`) → `forecast_table`.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float32, Int64

from forecaster.artifact import Run, load_run, save_run
from forecaster.choices import Weather
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, ConfigError, DataError, RunError, count_of, name_some
from forecaster.estimators.closed import (
    Closings,
    describe_closed,
    open_ids,
    warn_of_closed,
)
from forecaster.estimators.fallback.choice import choose_fallback, fit_outputs, leave_out
from forecaster.estimators.fallback.served import (
    Fallback,
    fallback_of,
    fallback_shapes,
    served_models,
)
from forecaster.estimators.forecast_inputs import (
    At,
    Changes,
    ForecastInputs,
    choose_origin,
    label_missing,
    look_back,
    prepare_inputs,
    refuse_unknown_future,
    warn_extreme_history,
)
from forecaster.estimators.intervals import calibration, online
from forecaster.estimators.intervals.calibration import Calibration, Outcomes
from forecaster.estimators.intervals.online_store import OnlineStore
from forecaster.estimators.match import (
    Sizes,
    check_run,
    describe,
    explain_lags,
    is_new,
    location_order,
    match,
    new_ids,
    training_steps,
    with_meaning,
)
from forecaster.estimators.new_locations import (
    ExtendedRun,
    choose_neighbours,
    extend_arrays,
)
from forecaster.estimators.predictor import (
    Prediction,
    Predictor,
    WindowForecasts,
    close,
    finish,
    join_blocks,
    refuse_impossible,
)
from forecaster.estimators.spans import fit_best_span
from forecaster.estimators.table import forecast_table
from forecaster.estimators.totals.past_totals import PastForecasts, PastTotals
from forecaster.estimators.totals.totals import sum_table
from forecaster.estimators.training_data import (
    Arrays,
    FitResult,
    TrainingData,
    hide_test,
    judged_windows,
)
from forecaster.estimators.what_if import WhatIf, add_changed, read_changes, warn_extreme_changes
from forecaster.estimators.wrong_values.degraded import (
    NEW_LOCATION,
    describe_doubts,
    describe_history,
    describe_outage,
    describe_unheard_covariates,
    warn_of_absent,
    warn_of_doubts,
)
from forecaster.estimators.wrong_values.plausible import Plausibility
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits, Windows, cut_windows, explain_short, history_steps
from forecaster.training.progress import ProgressCallback, ProgressUpdate
from forecaster.windows.scaling import fit_values

E = TypeVar("E", bound="Estimator")  # typing.Self is not understood by the shape checker
BLOCK = 512  # origins forecast at a time, to bound memory
JUDGED = "judged."  # before the name of an array: as it was before the validation weeks
log = logging.getLogger(__name__)


class Estimator(ABC):
    """A model that is fitted to a panel and forecasts the next steps of all its locations.

    Use `fit` and `forecast`; `predict` and its relatives return arrays for many origins. To write
    an estimator, define `fit_windows` and `predict_windows`: all other methods are shared.
    """

    seeded: ClassVar[bool] = False  # whether another `training.seed` gives another fit
    falls_back: bool = False  # whether simple models are served where they are better
    saves: ClassVar[bool] = True  # whether a fitted run can be saved and loaded
    takes_graph: ClassVar[bool] = False  # whether it is given a dependency graph
    accepts_new_locations: bool = False  # whether it forecasts locations that it was not fitted to
    masks_missing: bool = (
        False  # whether missing history is a masked input; otherwise it is filled
    )

    def __init__(self, recipe: Recipe | None = None) -> None:
        self.recipe = recipe or Recipe()
        self._asked = self._meant = self.recipe  # before a fit, and with its panel's meaning
        self.run: Run | None = None  # the result of fitting
        self.start: Run | None = None  # from whose weights a fit goes on; None: from new ones
        self.seconds: float | None = None  # of fitting, including resumed training
        self._extended: ExtendedRun | None = None  # the last one with further locations

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'not fitted yet' if self.run is None else 'fitted'})"

    @property
    def label(self) -> str:
        """The name in tables of a comparison."""
        return type(self).__name__

    @property
    def variant(self) -> str:
        """What tells it from others of its class with the same recipe; usually nothing."""
        return ""

    # Defined by each estimator.

    @abstractmethod
    def fit_windows(self, data: TrainingData) -> FitResult:
        """Fit the model to the training windows; hyperparameters by the validation windows."""

    @abstractmethod
    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """Forecast the steps t+1…t+K of every origin t, in the panel's units.

        Args:
            arrays: those that `fit_windows` returned.
            inputs: the origins, their history and the covariates ahead.
        """

    def predict_outputs(self, arrays: Arrays, inputs: ForecastInputs) -> WindowForecasts:
        """All that the model forecasts: the mean, its own quantiles, the lowest relative error.

        Without quantiles (Q = 0) they come from the residuals of the mean.
        """
        mean = self.predict_windows(arrays, inputs)
        B, K, N = mean.shape
        return WindowForecasts(mean, np.empty((B, 0, K, N), dtype=np.float32))

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays that forecasts need; a run without one of them is refused."""
        del sizes
        return {}

    def check_arrays(self, arrays: Arrays) -> None:
        """Refuse arrays of a run that the model cannot use, beyond their shapes; by default none.

        An ArtifactError, a ConfigError, a KeyError or a ValueError says why.
        """
        del arrays

    def adjust_outputs(
        self, run: Run, data: TrainingData, forecasts: WindowForecasts
    ) -> FitResult:
        """What `predict_outputs` takes from forecasts of the validation windows; by default none.

        Args:
            run: of the fit, not calibrated yet.
            data: as for the fit.
            forecasts: the model's own, of the validation windows.
        """
        del run, data, forecasts
        return FitResult({})

    def extend_arrays(
        self, run: Run, n: int, neighbours: Int64[np.ndarray, "E 2"]
    ) -> Mapping[str, np.ndarray]:
        """The arrays of a run with an entry for each location, with n more locations.

        Args:
            run: fitted to N locations.
            n: the number of new ones.
            neighbours: the edges of the new ones, numbered from N on: a known one, a new one.
        """
        del neighbours
        return extend_arrays(run, n)

    def learn_validation(self, arrays: Arrays, data: TrainingData) -> dict[str, np.ndarray]:
        """The arrays of a last fit, which learns from the validation weeks too; empty: none.

        An estimator that is fitted anew in seconds has one, with all that was chosen before. Its
        quantiles stay those of the fit that had not seen these weeks.

        Args:
            arrays: of the fit, with what was chosen on the validation windows.
            data: of the fit.
        """
        del arrays, data
        return {}

    @property
    def lags(self) -> LagConfig:
        """The past steps that the model sees; by default those by which windows are cut."""
        return self.recipe.lags

    # Shared by all estimators.

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """The quantile levels of the fitted run; empty for a run saved without quantiles."""
        return tuple(self._fitted.arrays.get(calibration.LEVELS, np.empty(0)).tolist())

    def fit(
        self: E,
        panel: Panel,
        splits: Splits | None = None,
        *,
        folder: Path | str | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> E:
        """Fit to the training windows; hyperparameters are chosen on the validation windows.

        Args:
            panel: values and covariates; the model sees nothing of the test steps.
            splits: the training, validation and test steps. Default: those of the recipe, or else
                by share (`Splits.by_share`).
            folder: for the checkpoints of a long training, which the same call resumes; None: no
                checkpoints.
            on_progress: called with every progress update of a long training.
        """
        self._take_meaning(panel)
        if splits is None:
            splits = Splits.from_config(panel, self.recipe.splits, self.recipe.lags.horizon)
        windows = self._cut_windows(panel, splits)
        checkpoints = Path(folder) if folder is not None else None
        data = hide_test(panel, splits, windows)
        data = replace(data, folder=checkpoints, on_progress=on_progress)
        began, newest = time.monotonic(), dict[str, np.ndarray]()
        if self.start is None:
            result = self.fit_windows(data)
        else:
            result, data = fit_best_span(self, data, self.start)
            newest = self.learn_validation(result.arrays, data)
        self.seconds = result.seconds or time.monotonic() - began
        about = {**describe(panel, splits, windows), **result.about}
        arrays = {**result.arrays, **data.shared_arrays()}
        run = Run(
            estimator=type(self).__name__,
            recipe=self.recipe,
            about=about,
            arrays=arrays,
            parents={**({"panel": panel.digest} if panel.digest else {}), **result.parents},
        )
        recipe = self.recipe
        data = judged_windows(data, recipe.lags.horizon, recipe.intervals.quantiles)
        origins = data.windows.validation
        forecasts = self.own_forecasts(run, data.panel, "observed", origins)
        data = without_closed(run, data)
        adjustment = self.adjust_outputs(run, data, forecasts)
        about |= adjustment.about
        if adjustment.arrays:
            arrays |= adjustment.arrays
            forecasts = self.own_forecasts(run, data.panel, "observed", origins)
        if self.falls_back and self.recipe.preset != "paper":
            if on_progress is not None:
                on_progress(ProgressUpdate.stage("comparing with simple models …"))
            choice = choose_fallback(run, data, forecasts.mean)
            about |= choice.about
            arrays |= choice.arrays
            if choice.arrays:
                forecasts = self.forecast_origins(run, data.panel, "observed", origins)
        arrays |= {**self.calibrate(run, data, forecasts), **_keep_judged(arrays, newest)}
        self.run = run
        return self

    def _cut_windows(self, panel: Panel, splits: Splits) -> Windows:
        """The windows of the recipe's lags, with enough of validation for its quantiles."""
        windows = cut_windows(panel, splits, self.recipe.lags)
        log.info("%s: %s", type(self).__name__, windows)
        levels = self.recipe.intervals.quantiles
        advice = explain_short(panel, self.recipe.lags)
        calibration.refuse_few(len(windows.validation), levels, advice)
        return windows

    def _take_meaning(self, panel: Panel) -> None:
        """Complete the recipe for a panel, without what an earlier fit took from its own."""
        if self.recipe is not self._meant:
            self._asked = self.recipe
        log.info("lags: %s", explain_lags(self._asked, panel))
        self.recipe = self._meant = with_meaning(self._asked, panel)

    def calibrate(
        self, run: Run, data: TrainingData, forecasts: WindowForecasts
    ) -> dict[str, np.ndarray]:
        """Calibrate the quantiles of a run on the validation windows.

        Args:
            run: not calibrated yet.
            data: as for its fit, without the values of closed locations.
            forecasts: those that it serves, of the validation windows.
        """
        panel, origins, forecast = data.panel, data.windows.validation, forecasts.mean
        ahead = origins[:, None] + np.arange(1, forecast.shape[1] + 1)
        days = panel.clock.local(panel.times[origins]).astype("datetime64[D]").astype(np.int64)
        truth = panel.values[ahead]
        outcomes = Outcomes(
            residuals=truth - forecast,
            quantiles=forecasts.quantiles - forecast[:, None],
            hours=calibration.local_hours(panel, ahead),
            days=days,
            resolution=1.0 if run.about["kind"] == "count" else 0.0,
        )
        deviation = fit_values(panel, data.train).deviation
        levels = run.recipe.intervals.quantiles
        arrays = calibration.calibrate(leave_out(run, outcomes), levels, deviation)
        return {**arrays, **fit_outputs(run, forecasts, outcomes, truth, arrays)}

    def predict(
        self,
        panel: Panel,
        origins: Int64[np.ndarray, " B"],
        weather: Weather = "observed",
        *,
        changes: Changes | None = None,
    ) -> Float32[np.ndarray, "B K N"]:
        """Forecasts from many origins, in the order of the panel's locations.

        Args:
            panel: observed values, and the covariates after each origin.
            origins: the last observed steps, as steps of the panel.
            weather: the source of covariates ahead.
            changes: covariates ahead to replace.
        """
        run, matched = self.adapt(panel)
        self._refuse_early(panel, origins)
        if not len(origins):
            shape = 0, run.recipe.lags.horizon, len(panel.locations)
            return np.empty(shape, dtype=np.float32)
        fallback, forecasts = fallback_of(run), []
        for block in np.split(origins, range(BLOCK, len(origins), BLOCK)):
            inputs = prepare_inputs(run, matched, block, weather, changes)
            forecast = self.predict_windows(run.arrays, inputs)
            forecasts.append(fallback.replace_means(forecast, inputs) if fallback else forecast)
        order = location_order(matched.locations.ids, panel)
        mean = finish(run, np.concatenate(forecasts))
        no_quantiles = np.empty((len(mean), 0, *mean.shape[1:]), dtype=np.float32)
        served = close(run, matched, origins, WindowForecasts(mean, no_quantiles))
        return served.mean[..., order]

    def predict_quantiles(
        self,
        panel: Panel,
        origins: Int64[np.ndarray, " B"],
        weather: Weather = "observed",
        *,
        online: bool = True,
    ) -> Float32[np.ndarray, "B Q K N"]:
        """Calibrated quantiles of `quantile_levels` from many origins, ascending.

        Args:
            panel: observed values, and the covariates after each origin.
            origins: the last observed steps, as steps of the panel.
            weather: the source of covariates ahead.
            online: correct them by the outcomes observed up to each origin; otherwise they are
                as calibrated on the validation windows.
        """
        if not len(origins) or not self.quantile_levels:
            shape = (
                len(origins),
                len(self.quantile_levels),
                self.recipe.lags.horizon,
                len(panel.locations),
            )
            return np.empty(shape, dtype=np.float32)
        if online:
            return self.predict_all(panel, origins, weather).online
        self._refuse_early(panel, origins)
        predictor = self.predictor(panel, weather)
        base = predictor.base(origins).at(location_order(predictor.panel.locations.ids, panel))
        return predictor.calibration.correct(base, predictor.calibration.corrections)

    def predict_all(
        self, panel: Panel, origins: Int64[np.ndarray, " B"], weather: Weather = "observed"
    ) -> Prediction:
        """Forecasts with static and online quantiles; each origin is forecast once.

        Args:
            panel: observed values, and the covariates after each origin.
            origins: the last observed steps, at least one.
            weather: the source of covariates ahead.
        """
        self._refuse_early(panel, origins)
        predictor = self.predictor(panel, weather)
        prediction = predictor.predict(origins)
        order = location_order(predictor.panel.locations.ids, panel)
        return replace(prediction, base=prediction.base.at(order))

    def forecast(
        self,
        panel: Panel,
        at: At | None = None,
        *,
        weather: Weather = "observed",
        allow_missing: bool = False,
        what_if: WhatIf | None = None,
        state: Path | str | None = None,
    ) -> pd.DataFrame:
        """The forecast from one origin as a long table.

        Columns: `unique_id`, `ds` (UTC), `ds_local`, `cutoff` (the origin), `y_hat` (the mean),
        `y_relative` (with the lowest relative error, if the model has such an output), one column
        per quantile, such as `q10`, `degraded` if the forecast rests on less than usual, and
        `fallback`, the simple model that is served at a location, if there is such a location.
        A closed location is forecast at 0, or left out if its values are measurements.

        Args:
            panel: observed values up to `at`, and the covariates after it.
            at: the last observed step: `panel.times[-1]`, 2014-06-01T08:00-04:00, of daily data
                2014-06-01; None: the last step of the panel with a value. If all steps ahead of
                it are closed, it is the last closed step before places open (a metro at night).
            weather: `observed` takes covariates ahead from the panel; `persist`, `climatology`
                and `none` replace them and label the result as degraded.
            allow_missing: forecast although too much of the history is missing; the result is
                labelled as degraded.
            what_if: other covariates ahead, as `rain=1,precip=5mm` or a table of `ds` and
                covariates; adds `y_hat_what_if`, its quantiles and its `difference`.
            state: a folder in which the online corrections are kept, so that the next step needs
                one forecast in place of those of one to two weeks; None: all are computed.
        """
        panel, origin = choose_origin(panel, at, self.recipe.lags.horizon)
        step = np.array([origin])
        predictor = self.predictor(panel, weather, int(step[0]) + 1)
        if state is not None:
            predictor = replace(predictor, store=self._store(predictor, Path(state), weather))
        run, lags = self.adapt(predictor.panel, int(step[0]) + 1)[0], self.recipe.lags
        recent, origins = look_back(predictor.panel, lags, step)
        origin = int(origins[0])
        degraded = []
        if weather == "observed":
            with _adding("or set weather (--weather) to persist, climatology or none"):
                refuse_unknown_future(recent, origin, lags.horizon)
        else:
            degraded.append(f"weather {weather}")
        if not self.masks_missing:
            with _adding("allow_missing (--allow-missing) forecasts nevertheless"):
                needed = recent.select(open_ids(run, predictor.panel, int(step[0])))
                degraded += label_missing(needed, (lags, self.lags), origin, allowed=allow_missing)
        changes = None if what_if is None else read_changes(what_if, recent, origin, lags.horizon)
        absent_ids = [i for i in run.about["ids"] if i not in set(panel.locations.ids)]
        warn_of_absent(absent_ids)
        if absent_ids and not self.masks_missing:
            degraded.append(f"{count_of(len(absent_ids), 'absent location')} filled")
        reasons = self._reasons(run, predictor.panel, int(step[0]), degraded, absent_ids)
        prediction = predictor.predict(step)
        relative = None if prediction.base.relative is None else prediction.base.relative[0]
        numbers = self._first(prediction)
        table = forecast_table(recent, origin, *numbers, reasons, relative)
        unheard = self._unheard(run, predictor.panel, int(step[0]))
        left_out = table["unique_id"].isin([*absent_ids, *unheard])
        simple = served_models(run)
        if simple:
            table["fallback"] = [simple.get(identity, "") for identity in table["unique_id"]]
        if changes is not None:
            warn_extreme_changes(run, changes)
            changed = predictor.predict_changed(prediction, step, changes)
            table = add_changed(table, *self._first(changed), run, changes)
        served = ~left_out & table["y_hat"].notna()  # NaN: not open
        return table[served].reset_index(drop=True)

    def _store(self, predictor: Predictor, folder: Path, weather: Weather) -> OnlineStore | None:
        """Where online corrections are kept; None: they may change with every new value."""
        run, panel = self._fitted, predictor.panel
        if run.digest is None:
            raise RunError("state: a run that is not saved has no hash; save it first")
        if panel.covariates.vintages is not None or new_ids(run, panel):
            log.info("online corrections are not kept: covariates in vintages, or new locations")
            return None
        return OnlineStore(folder, run.digest, weather)

    def forecast_totals(
        self,
        panel: Panel,
        at: At | None = None,
        *,
        weather: Weather = "observed",
        allow_missing: bool = False,
    ) -> pd.DataFrame:
        """The totals of the forecast from one origin, with their own intervals.

        A row for each location and each local day that the horizon covers from its first to its
        last step, and one for the whole horizon. Columns: `unique_id`, `day` (the local date, or
        `horizon`), `ds` and `ds_local` (of its first step), `steps`, `cutoff`, `y_hat` (the sum of
        the means), one column per quantile of the sum, and `degraded` as in `forecast`.

        The arguments are those of `forecast`.
        """
        table = self.forecast(panel, at, weather=weather, allow_missing=allow_missing)
        panel, origin = choose_origin(panel, at, self.recipe.lags.horizon)
        run = self.adapt(panel, origin + 1)[0]
        return sum_table(table, panel, origin, run, past=self.past_totals(panel, origin, weather))

    def past_totals(
        self, panel: Panel, origin: int, weather: Weather = "observed"
    ) -> PastTotals | None:
        """Forecasts from the same hour of the days before an origin, and their outcomes.

        By the locations of the adapted run; None: the run has no quantiles to correct.

        Args:
            panel: observed values, and the covariates ahead.
            origin: the last observed step.
            weather: the source of covariates ahead.
        """
        if not self.quantile_levels:
            return None
        predictor = self.predictor(panel, weather, origin + 1)
        return PastForecasts(predictor, self.recipe.lags.horizon).at(origin)

    def _refuse_early(self, panel: Panel, origins: Int64[np.ndarray, " B"]) -> None:
        """Refuse origins whose history begins before the panel, unless the model masks it."""
        if not self.masks_missing:
            history_steps(panel, self.recipe.lags, origins)

    def _unheard(self, run: Run, panel: Panel, origin: int) -> list[str]:
        """The new locations without any value in the window: nothing can be said about them."""
        reach = int(panel.clock.lag_steps(self.recipe.lags, panel.times[[origin]]).max())
        observed = np.isfinite(panel.values[max(origin - reach, 0) : origin + 1]).any(axis=0)
        columns = np.flatnonzero(is_new(run) & ~observed).tolist()
        ids = [panel.locations.ids[n] for n in columns]
        if ids:
            log.warning("not forecast, since they have no value yet: %s", name_some(ids))
        return ids

    def _reasons(
        self,
        run: Run,
        panel: Panel,
        origin: int,
        shared: Sequence[str],
        absent: Sequence[str],
    ) -> list[str]:
        """The reasons why a forecast is degraded, by location; those of all come first.

        Args:
            run: with the locations of the panel.
            panel: matched to the run.
            origin: the last observed step.
            shared: further reasons that concern all locations.
            absent: the ids that only the run has.
        """
        plausibility = Plausibility.of(run)
        if plausibility is None:
            warn_extreme_history(run, panel, origin)
        doubts = {} if plausibility is None else describe_doubts(plausibility, panel, origin)
        closed = describe_closed(run, panel, origin, run.recipe.lags.horizon)
        columns = (
            location_order(panel.locations.ids, panel.select(tuple(absent))) if absent else []
        )
        closed = {n: text for n, text in closed.items() if n not in columns}
        warn_of_closed(panel, closed)
        warn_of_doubts(panel, {n: text for n, text in doubts.items() if n not in closed})
        general = (
            describe_outage(panel, origin, plausibility),
            describe_unheard_covariates(panel, origin),
        )
        everywhere = [*shared, *filter(None, general)]
        masked = describe_history(panel, self.recipe.lags, origin) if self.masks_missing else {}
        new = dict.fromkeys(np.flatnonzero(is_new(run)).tolist(), NEW_LOCATION)
        by_column = [
            [closed[n]] if n in closed else [t[n] for t in (new, doubts, masked) if n in t]
            for n in range(len(panel.locations))
        ]
        return ["; ".join([*everywhere, *texts]) for texts in by_column]

    def adapt(self, panel: Panel, end: int = 0) -> tuple[Run, Panel]:
        """The run and the panel with the same locations, in the same order.

        Locations that the run has never met are added to it, if the model can forecast them;
        absent ones are added to the panel, without values.

        Args:
            panel: observed values.
            end: the step after the last whose values may tell who the neighbours of a new
                location are; 0: only coordinates tell.
        """
        run, new = self._fitted, new_ids(self._fitted, panel)
        if not new:
            return run, match(run, panel)
        if not self.accepts_new_locations:
            raise ArtifactError(
                f"the run does not know {name_some(new)}, and {type(self).__name__} cannot "
                "forecast locations that it was not fitted to; train again on a panel with them, "
                "use a run of the preset best, or leave them out"
            )
        known = [identity for identity in panel.locations.ids if identity not in set(new)]
        if not known:
            raise ArtifactError(
                f"the run knows none of the panel's locations ({name_some(new)}); train a run on "
                "this panel"
            )
        matched = match(run, panel.select(tuple(known)))
        added = panel.select(tuple(new))
        locations = matched.locations.join(added.locations)
        values = np.concatenate([matched.values[:end], added.values[:end]], axis=1)
        neighbours = choose_neighbours(run.arrays, locations, len(new), values)
        extended = self._extended  # read once: another thread may replace it
        if extended is None or not extended.fits(run, locations.ids, neighbours):
            arrays = {**run.arrays, **self.extend_arrays(run, len(new), neighbours)}
            about = {**run.about, "ids": list(locations.ids)}
            extended = ExtendedRun(replace(run, about=about, arrays=arrays), run, neighbours)
            self._extended = extended
        return extended.run, match(extended.run, panel)

    def predictor(self, panel: Panel, weather: Weather, end: int = 0) -> Predictor:
        """The fitted run on a panel: forecasts and calibration, in the run's order of locations.

        A run saved without quantiles forecasts without them.

        Args:
            panel: observed values, and the covariates ahead.
            weather: the source of covariates ahead.
            end: as for `adapt`.
        """
        run, matched = self.adapt(panel, end)
        lags, N, plausibility = run.recipe.lags, len(run.about["ids"]), Plausibility.of(run)
        arrays = {**calibration.no_intervals(lags.horizon, N), **run.arrays}
        return Predictor(
            panel=matched,
            forecast_origins=partial(self.serve_origins, run, matched, weather),
            calibration=Calibration.from_arrays(arrays, run.about["kind"]),
            counts=lambda steps: (
                online.can_count(matched, lags, weather, training_steps(run, matched), steps)[
                    :, None
                ]
                & ~is_new(run)
            ),
            observed=None
            if plausibility is None
            else partial(plausibility.plausible_values, matched),
        )

    def serve_origins(
        self,
        run: Run,
        panel: Panel,
        weather: Weather,
        origins: Int64[np.ndarray, " B"],
        changes: Changes | None = None,
    ) -> WindowForecasts:
        """The forecasts of `forecast_origins`, and nothing where a location is closed."""
        forecasts = self.forecast_origins(run, panel, weather, origins, changes)
        return close(run, panel, origins, forecasts)

    def forecast_origins(
        self,
        run: Run,
        panel: Panel,
        weather: Weather,
        origins: Int64[np.ndarray, " B"],
        changes: Changes | None = None,
    ) -> WindowForecasts:
        """All that a run serves from many origins, by its locations, as if all were open.

        Args:
            run: of this estimator, calibrated or not.
            panel: matched to the run.
            weather: the source of covariates ahead.
            origins: the last observed steps.
            changes: covariates ahead to replace.
        """
        fallback = fallback_of(run)
        served = self._forecast(run, panel, weather, origins, changes, fallback)
        if fallback is None:
            return served
        ahead = origins[:, None] + np.arange(1, served.mean.shape[1] + 1)
        return fallback.replace_quantiles(served, calibration.local_hours(panel, ahead))

    def own_forecasts(
        self,
        run: Run,
        panel: Panel,
        weather: Weather,
        origins: Int64[np.ndarray, " B"],
        changes: Changes | None = None,
    ) -> WindowForecasts:
        """All that the model itself forecasts, where simple ones are served too.

        The arguments are those of `forecast_origins`.
        """
        return self._forecast(run, panel, weather, origins, changes, None)

    def _forecast(
        self,
        run: Run,
        panel: Panel,
        weather: Weather,
        origins: Int64[np.ndarray, " B"],
        changes: Changes | None,
        fallback: Fallback | None,
    ) -> WindowForecasts:
        """The forecasts of the model, replaced at the locations of the fallback."""
        blocks = []
        for first in range(0, len(origins), BLOCK):
            block = origins[first : first + BLOCK]
            inputs = prepare_inputs(run, panel, block, weather, changes)
            outputs = self.predict_outputs(run.arrays, inputs)
            outputs = fallback.replace_outputs(outputs, inputs) if fallback else outputs
            blocks.append(outputs._replace(doubt=inputs.doubt))
        outputs = join_blocks(blocks)
        refuse_impossible(run, outputs.quantiles)
        relative = None if outputs.relative is None else finish(run, outputs.relative)
        return outputs._replace(mean=finish(run, outputs.mean), relative=relative)

    def save(self, folder: Path | str) -> None:
        """Save the fitted run as a folder."""
        self.run = save_run(Path(folder), self._fitted)

    @classmethod
    def load(cls: type[E], folder: Path | str) -> E:
        """Load an estimator from the folder that it was saved in."""
        run = load_run(Path(folder))
        if run.estimator != cls.__name__:
            message = f"{folder}: the run of a {run.estimator}, not of a {cls.__name__}"
            raise ArtifactError(f"{message}; load it with that class")
        return cls.from_run(run)

    @classmethod
    def from_run(cls: type[E], run: Run) -> E:
        """The fitted estimator of a run; one with missing or unfitting arrays is refused."""
        estimator = cls(recipe=run.recipe)
        estimator.run = run
        check_run(run, lambda s: {**estimator.shapes(s), **fallback_shapes(run, s)})
        try:
            estimator.check_arrays(run.arrays)
        except (ArtifactError, ConfigError, KeyError, ValueError) as error:
            raise ArtifactError(f"not a forecaster run of a {run.estimator} ({error})") from error
        return estimator

    def as_judged(self: E) -> E:
        """The model as it was judged on the validation weeks, before it learned from them too."""
        run = self._fitted
        judged = {n.removeprefix(JUDGED): a for n, a in run.arrays.items() if n.startswith(JUDGED)}
        return self.from_run(replace(run, arrays={**run.arrays, **judged})) if judged else self

    @property
    def _fitted(self) -> Run:
        if self.run is None:
            raise RunError(f"{type(self).__name__} is not fitted yet; call fit(panel, splits)")
        return self.run

    def _first(self, prediction: Prediction) -> tuple[np.ndarray, dict[float, np.ndarray]]:
        """The forecast from the first origin [K N], and its quantiles by level."""
        return prediction.forecast[0], dict(
            zip(self.quantile_levels, prediction.online[0], strict=True)
        )


def _keep_judged(arrays: Arrays, newest: Arrays) -> dict[str, np.ndarray]:
    """The arrays of the last fit, and beside them those that they replace."""
    return {**{f"{JUDGED}{name}": arrays[name] for name in newest}, **newest}


def without_closed(run: Run, data: TrainingData) -> TrainingData:
    """The data with validation values missing where a location has fallen silent for good.

    What is served there is zero or nothing: the model itself is not judged by it.
    """
    closings, origins = Closings.of(run), data.windows.validation
    if closings is None or not len(origins):
        return data
    panel = data.panel
    first, end = int(origins.min()), int(origins.max()) + 1 + run.recipe.lags.horizon
    values = panel.values.copy(order="K")
    values[first:end] = closings.hide(panel, first, values[first:end])
    return replace(data, panel=panel.with_data(values))


@contextmanager
def _adding(remedy: str) -> Iterator[None]:
    """Add a remedy to a DataError."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}; {remedy}") from error
