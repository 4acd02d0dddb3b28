"""A town of seven places, and a model that knows five of them and fails at two."""

from collections.abc import Callable

import numpy as np
import pytest
from jaxtyping import Float32

from forecaster.artifact import Run
from forecaster.config import LagConfig, MetricConfig, Season
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits

PLACES, HOURS = 7, 24 * 47
NOISY = (2, 5)  # the model fails here: its forecasts are noise


class Partial(Estimator):
    """Forecasts the daily rate of the town; at the noisy places, noise."""

    falls_back = True

    def fit_windows(self, data: TrainingData) -> FitResult:
        hours = _hours(data.panel)[data.train]
        values = data.panel.values[data.train]
        profile = np.stack([np.nanmean(values[hours == hour], axis=0) for hour in range(24)])
        return FitResult({"profile": profile.astype(np.float32)})

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        ahead = inputs.origins[:, None] + np.arange(1, self.recipe.lags.horizon + 1)
        panel = inputs.panel
        local = panel.clock.local(panel.start + ahead.reshape(-1) * panel.clock.step)
        hour = local.astype("datetime64[h]").astype(np.int64).reshape(ahead.shape)
        forecast = arrays["profile"][hour % 24].copy()
        for n in NOISY:
            forecast[..., n] *= 1 + 0.9 * np.sin(hour * (n + 1.7))
        return forecast


class PartialQuantiles(Partial):
    """The same with its own quantiles, and forecasts of the lowest relative error."""

    def predict_outputs(self, arrays: Arrays, inputs: ForecastInputs) -> WindowForecasts:
        mean = self.predict_windows(arrays, inputs)
        quantiles = np.stack([mean * f for f in (0.7, 1.0, 1.3)], axis=1)
        return WindowForecasts(mean, quantiles.astype(np.float32), mean * np.float32(0.9))


def _hours(panel: Panel) -> np.ndarray:
    return panel.clock.local(panel.times).astype("datetime64[h]").astype(np.int64) % 24


@pytest.fixture
def town(make_panel: Callable[..., Panel]) -> Panel:
    generator = np.random.default_rng(7)
    hours = _hours(make_panel(np.zeros((HOURS, 1))))[:, None]  # on the wall clock
    level = np.array([3.0, 5.0, 11.0, 17.0, 23.0, 29.0, 41.0])
    return make_panel(generator.poisson(level * (1.2 + np.sin(hours / 24 * 2 * np.pi))))


@pytest.fixture
def weeks() -> Splits:
    """Nine days of validation: enough to compare."""
    return Splits(
        train=[("2015-10-01", "2015-11-01")],
        validation=[("2015-11-02", "2015-11-10")],
        test=[("2015-11-11", "2015-11-16")],
    )


@pytest.fixture
def short_recipe() -> Recipe:
    seasons = (
        Season(days=1, count=3, before=1, after=3),
        Season(days=7, count=1, before=1, after=3),
    )
    lags = LagConfig(recent=2, seasons=seasons, horizon=3)
    return Recipe(lags=lags, metrics=MetricConfig(mape_cut=5.0))


@pytest.fixture
def fitted(town: Panel, weeks: Splits, short_recipe: Recipe) -> Partial:
    return Partial(short_recipe).fit(town, weeks)


@pytest.fixture
def with_quantiles(town: Panel, weeks: Splits, short_recipe: Recipe) -> PartialQuantiles:
    return PartialQuantiles(short_recipe).fit(town, weeks)


def bare(estimator: Estimator) -> Estimator:
    """The estimator as a run without fallback would be."""
    run = estimator.run
    assert run is not None
    arrays = {name: a for name, a in run.arrays.items() if not name.startswith("fallback.")}
    return type(estimator).from_run(Run(run.estimator, run.recipe, run.about, arrays, run.parents))
