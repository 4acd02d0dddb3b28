"""Answers to many origins, each asked once, with quantiles that follow what was observed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.estimators.asking import ask_in_blocks, finish, learned_steps, refuse_non_finite
from forecaster.estimators.forecast_inputs import Changes, ForecastInputs
from forecaster.estimators.intervals.calibration import (
    Base,
    Calibration,
    Outcomes,
    calibrate,
    local_hours,
    no_intervals,
)
from forecaster.estimators.intervals.online import Judge, can_count, follow
from forecaster.estimators.training_data import Arrays, TrainingData
from forecaster.panel.panel import Panel
from forecaster.windows.scaling import fit_scaler

Given = tuple[np.ndarray, np.ndarray]  # forecasts [B K N], the estimator's own quantiles [B Q K N]
Answer = Callable[[Arrays, ForecastInputs], Given]  # of an estimator
Give = Callable[[np.ndarray, Changes | None], Given]  # from some origins, with what is supposed


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is forecast from B origins: ŷ, and its quantiles in both forms."""

    base: Base
    calibration: Calibration
    corrections: Float64[np.ndarray, "#B Q K"]  # by what was observed up to each origin

    @property
    def forecast(self) -> Float32[np.ndarray, "B K N"]:
        """The forecasts."""
        return self.base.forecast

    @property
    def static(self) -> Float32[np.ndarray, "B Q K N"]:
        """The quantiles as they were calibrated on the validation windows."""
        return self.calibration.correct(self.base, self.calibration.corrections)

    @property
    def online(self) -> Float32[np.ndarray, "B Q K N"]:
        """The quantiles corrected by the outcomes that were observed up to each origin."""
        return self.calibration.correct(self.base, self.corrections)


@dataclass(frozen=True, eq=False)
class Predictor:
    """What is answered about the locations of a panel, or about sums of them."""

    panel: Panel  # what was observed of them
    give: Give
    calibration: Calibration
    judge: Judge

    def base(self, origins: Int64[np.ndarray, " B"], changes: Changes | None = None) -> Base:
        """Return the forecasts, and their quantiles before any correction."""
        forecast, own = self.give(origins, changes)
        ahead = origins[:, None] + np.arange(1, forecast.shape[1] + 1)
        return self.calibration.base(forecast, own, local_hours(self.panel, ahead))

    def predict(self, origins: Int64[np.ndarray, " B"]) -> Prediction:
        """Return the forecasts and both forms of their quantiles."""
        base, calibration = self.base(origins), self.calibration
        if not calibration.levels:
            return Prediction(base, calibration, calibration.corrections[None])
        corrections = follow(calibration, self.panel, origins, base, self.judge, self.base)
        return Prediction(base, calibration, corrections)

    def suppose(
        self, found: Prediction, origins: Int64[np.ndarray, " B"], changes: Changes
    ) -> Prediction:
        """Return what is forecast with other covariates ahead, corrected like what was found.

        Outcomes came in the weather that there was; what they correct is how sure the estimator
        is, which changes with the weather supposed only as far as its own quantiles do.
        """
        return replace(found, base=self.base(origins, changes))


def answers_of(predict_windows: Answer, run: Run, panel: Panel, weather: Weather) -> Predictor:
    """Return what an estimator answers about the locations of a panel that matches its run.

    A run that was saved before there were quantiles has none.
    """
    lags, N = run.recipe.lags, len(run.about["ids"])
    arrays = {**no_intervals(lags.horizon, N), **run.arrays}
    return Predictor(
        panel=panel,
        give=partial(give_answers, predict_windows, run, panel, weather),
        calibration=Calibration.from_arrays(arrays, run.about["kind"]),
        judge=partial(can_count, panel, lags, weather, learned_steps(run, panel)),
    )


def give_answers(
    predict_windows: Answer,
    run: Run,
    panel: Panel,
    weather: Weather,
    origins: Int64[np.ndarray, " B"],
    changes: Changes | None = None,
) -> tuple[Float32[np.ndarray, "B K N"], Float32[np.ndarray, "B Q K N"]]:
    """Return forecasts and own quantiles from many origins; arguments as of `answers_of`."""
    questions = ask_in_blocks(run, panel, origins, weather, changes)
    forecasts, own = zip(
        *(predict_windows(run.arrays, question) for question in questions), strict=True
    )
    quantiles = np.concatenate(own)
    refuse_non_finite(run, quantiles)
    return finish(run, np.concatenate(forecasts)), quantiles


def learn_intervals(
    predict_windows: Answer, run: Run, lesson: TrainingData
) -> dict[str, np.ndarray]:
    """Return what makes quantiles hold, learned from the validation windows."""
    panel, origins = lesson.panel, lesson.windows.validation
    forecast, own = give_answers(predict_windows, run, panel, "observed", origins)
    ahead = origins[:, None] + np.arange(1, forecast.shape[1] + 1)
    outcomes = Outcomes(
        residuals=panel.values[ahead] - forecast,
        own=own - forecast[:, None],
        hours=local_hours(panel, ahead),
        days=panel.clock.local(panel.times[origins]).astype("datetime64[D]").astype(np.int64),
    )
    deviation = fit_scaler(panel, lesson.train).values.deviation
    return calibrate(outcomes, run.recipe.intervals.quantiles, deviation)
