from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import LagConfig, Season
from forecaster.errors import ArtifactError
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.baselines.step_models import (
    model_inputs,
    modelled_steps,
    steps_of_models,
    training_inputs,
)
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows
from forecaster.windows.scaling import fit_scaler

HOURS, K = 24 * 47, 31  # models of 1, 3, 6, 12, 24 and 31 steps ahead
MakePanel = Callable[..., Panel]
LAGS = LagConfig(recent=5, seasons=(Season(days=7, count=1, before=0, after=2),), horizon=K)


def make_random_panel(make_panel: MakePanel, seed: int = 0) -> Panel:
    generator = np.random.default_rng(seed)
    return make_panel(
        generator.poisson(17, (HOURS, 3)),
        covariates=Covariates(("wind",), generator.normal(size=(HOURS, 1)).astype(np.float32)),
        local_covariates=LocalCovariates(
            ("queue", "price"), generator.normal(size=(2, HOURS, 3)).astype(np.float32)
        ),
    )


def test_up_to_a_day_of_hours_every_step_has_a_model() -> None:
    assert modelled_steps(3) == (1, 2, 3)
    assert modelled_steps(24) == tuple(range(1, 25))


def test_of_long_horizons_some_steps_and_the_last_have_models() -> None:
    assert modelled_steps(25) == (1, 3, 6, 12, 24, 25)
    assert modelled_steps(168) == (1, 3, 6, 12, 24, 48, 96, 168)
    assert modelled_steps(400) == (1, 3, 6, 12, 24, 48, 96, 168, 336, 400)


def test_runs_of_earlier_versions_have_a_model_for_every_step() -> None:
    assert steps_of_models(8, 168) == modelled_steps(168)
    assert steps_of_models(168, 168) == tuple(range(1, 169))
    with pytest.raises(ArtifactError, match="7 models, which are not those of 168 steps"):
        steps_of_models(7, 168)


def test_every_step_is_forecast_once_from_an_origin_of_its_own_target(
    make_panel: MakePanel,
) -> None:
    panel = make_random_panel(make_panel)
    scaler = fit_scaler(panel, np.ones(HOURS, dtype=bool))
    origins = np.array([701, 702, 705, 900])
    inputs = ForecastInputs(panel, origins, *look_ahead(panel, origins, K))
    steps, columns = modelled_steps(K), []
    for step, part in zip(steps, model_inputs(inputs, scaler, steps), strict=True):
        first, last = part.columns.start, part.columns.stop
        columns += range(first, last)
        assert last == step
        targets = origins[:, None] + np.arange(first + 1, last + 1)
        assert np.array_equal(part.origins[part.number], targets - step)
        assert (part.origins[part.number] <= origins[:, None]).all()  # nothing after t
        auxiliary, local = training_inputs(panel, targets.reshape(-1), (0,), scaler)
        rows = part.number.reshape(-1)
        assert np.array_equal(part.auxiliary[rows], auxiliary[:, 0])
        assert np.array_equal(part.local[rows], local[:, 0])
        assert len(part.origins) == len(np.unique(targets))  # each forecast is made once
    assert columns == list(range(K))


def test_forecasts_from_other_weather_are_not_shared(make_panel: MakePanel) -> None:
    panel = make_random_panel(make_panel)
    scaler = fit_scaler(panel, np.ones(HOURS, dtype=bool))
    origins = np.array([701, 702])
    covariates, local = look_ahead(panel, origins, K)
    changed = covariates.copy()
    changed[1] += 1  # as assumed at the second origin
    inputs = ForecastInputs(panel, origins, changed, local)
    for part in model_inputs(inputs, scaler, modelled_steps(K)):
        first = part.columns.start
        for b in range(2):
            weather = part.auxiliary[part.number[b], 0]
            expected = scaler.covariates.apply(changed[b, first : part.columns.stop])[:, 0]
            assert np.array_equal(weather, expected)


def test_ridge_forecasts_between_its_models_from_earlier_origins(
    make_panel: MakePanel, splits: Splits, tmp_path: Path
) -> None:
    panel = make_random_panel(make_panel)
    fitted = Ridge(Recipe(lags=LAGS)).fit(panel, splits)
    assert fitted.run is not None
    assert fitted.run.arrays["weights"].shape[0] == len(modelled_steps(K))
    origins = cut_windows(panel, splits, LAGS).test[40:47]
    forecast = fitted.predict(panel, origins)
    earlier = fitted.predict(panel, origins - 5)
    assert np.array_equal(forecast[:, 18], earlier[:, 23])  # 19 ahead: 24 ahead, five before
    assert not np.array_equal(forecast[:, 17], earlier[:, 23])
    fitted.save(tmp_path / "run")
    assert np.array_equal(Ridge.load(tmp_path / "run").predict(panel, origins), forecast)


def test_ridge_forecasts_from_the_first_possible_origin(
    make_panel: MakePanel, splits: Splits
) -> None:
    panel = make_random_panel(make_panel)
    fitted = Ridge(Recipe(lags=LAGS)).fit(panel, splits)
    first = np.array([7 * 24 + 1])  # the earlier origins lack a part of their past: it is filled
    assert np.isfinite(fitted.predict(panel, first)).all()


def test_a_long_ridge_run_with_other_weights_is_refused(
    make_panel: MakePanel, splits: Splits
) -> None:
    panel = make_random_panel(make_panel)
    run = Ridge(Recipe(lags=LAGS)).fit(panel, splits).run
    assert run is not None
    for weights in (run.arrays["weights"][1:], run.arrays["weights"][:, 1:]):
        with pytest.raises(ArtifactError, match="not a forecaster run of a Ridge"):
            Ridge.from_run(replace(run, arrays={**run.arrays, "weights": weights}))


def test_past_only_covariates_are_those_of_the_origin_of_each_model(
    make_panel: MakePanel,
) -> None:
    panel = make_random_panel(make_panel).with_past_only(("wind", "price"))
    scaler = fit_scaler(panel, np.ones(HOURS, dtype=bool))
    origins = np.array([701, 702])
    wind = scaler.covariates.apply(panel.covariates.values)[:, 0]
    scale, price = scaler.local_covariates, panel.local_covariates.values[1]
    price = (price - scale.mean[1]) / scale.deviation[1]
    auxiliary, local = training_inputs(panel, origins, (6, K), scaler)
    assert np.array_equal(auxiliary[:, 1, 0], wind[origins])  # nothing after t
    assert np.allclose(local[:, 1, 1], price[origins])
    inputs = ForecastInputs(panel, origins, *look_ahead(panel, origins, K))
    for part in model_inputs(inputs, scaler, modelled_steps(K)):
        assert np.array_equal(part.auxiliary[:, 0], wind[part.origins])
        assert np.allclose(part.local[:, 1], price[part.origins])
