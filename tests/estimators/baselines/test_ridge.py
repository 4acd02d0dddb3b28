from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import Ridge as Oracle

from forecaster.estimators.baselines.ridge import PENALTIES, Ridge, _solve
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows

HOURS = 24 * 47
MakePanel = Callable[..., Panel]


def test_the_weights_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    past, known = generator.normal(size=(211, 7)), generator.normal(size=(211, 2, 3))
    truth = generator.normal(size=(211, 2)).astype(np.float32)
    truth[::13, 1] = np.nan  # missing targets leave their rows out
    found = _solve(past, known.astype(np.float32), truth)
    for k in range(2):
        seen = np.isfinite(truth[:, k])
        inputs = np.concatenate([past, known[:, k].astype(np.float32)], axis=1)[seen]
        for number, penalty in enumerate(PENALTIES):
            oracle = Oracle(alpha=penalty * seen.sum(), fit_intercept=False)
            oracle.fit(inputs, truth[seen, k])
            assert np.allclose(found[number, k], oracle.coef_, rtol=1e-6, atol=1e-9)


def test_a_linear_rule_is_learned(make_panel: MakePanel, splits: Splits, recipe: Recipe) -> None:
    generator = np.random.default_rng(1)
    x = np.zeros((HOURS, 3))
    noise = generator.normal(size=x.shape)
    for t in range(1, HOURS):
        x[t] = 0.9 * x[t - 1] + noise[t]
    panel = make_panel(50 + 5 * x, "measurement")
    fitted = Ridge(recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    error = fitted.predict(panel, origins)[:, 0] - panel.values[origins + 1]
    assert np.sqrt(np.mean(error**2)) == pytest.approx(5.0, rel=0.1)  # the noise's own size


def test_covariates_ahead_are_used(make_panel: MakePanel, splits: Splits, recipe: Recipe) -> None:
    generator = np.random.default_rng(2)
    weather = generator.normal(10, 3, (HOURS + 5, 1)).astype(np.float32)
    own = generator.normal(-2, 4, (1, HOURS + 5, 3)).astype(np.float32)
    values = 100 + 7 * weather[:HOURS] + 3 * own[0, :HOURS]
    beside = {
        "covariates": Covariates(("wind",), weather),
        "local_covariates": LocalCovariates(("queue",), own),
    }
    panel = make_panel(values, "measurement", **beside)
    fitted = Ridge(recipe).fit(panel, splits)
    origins = cut_windows(panel, splits, recipe.lags).test
    error = fitted.predict(panel, origins)[:, 2] - panel.values[origins + 3]
    assert np.abs(error).max() < 0.5
    blind = fitted.predict(panel, origins, weather="none")[:, 2] - panel.values[origins + 3]
    assert np.sqrt(np.mean(blind**2)) > 10


def test_a_constant_location_stays_what_it_is(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    values = np.random.default_rng(3).poisson(9, (HOURS, 3))
    values[:, 1] = 17
    panel = make_panel(values)
    fitted = Ridge(recipe).fit(panel, splits)
    assert np.allclose(fitted.predict(panel, np.array([1000]))[0, :, 1], 17)


def test_a_fit_that_goes_on_learns_from_the_validation_weeks_too(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    generator = np.random.default_rng(3)
    values = 50 + 5 * generator.normal(size=(HOURS, 3)).cumsum(axis=0)
    panel = make_panel(values, "measurement")
    fitted, going_on = Ridge(recipe).fit(panel, splits), Ridge(recipe)
    going_on.start = fitted.run
    going_on.fit(panel, splits)
    before, after = fitted.run.arrays, going_on.run.arrays
    # The choices and the quantiles are those of the fit that had not seen these weeks.
    assert {name for name in before if not np.array_equal(before[name], after[name])} == {
        "weights"
    }
    assert {*after} - {*before} == {"judged.weights"}
    origins = cut_windows(panel, splits, recipe.lags).validation
    truth = panel.values[origins[:, None] + np.arange(1, recipe.lags.horizon + 1)]
    errors = [np.nanstd(m.predict(panel, origins) - truth) for m in (fitted, going_on)]
    assert errors[1] < errors[0]
    judged = going_on.as_judged().predict(panel, origins)
    np.testing.assert_array_equal(judged, fitted.predict(panel, origins))
    assert fitted.as_judged() is fitted


def test_a_fit_that_goes_on_sees_nothing_of_the_test_weeks(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    generator = np.random.default_rng(4)
    values = 50 + 5 * generator.normal(size=(HOURS, 3))
    start = Ridge(recipe).fit(make_panel(values, "measurement"), splits).run
    panel = make_panel(values, "measurement")
    tested = splits.mask("test", panel.clock, panel.times)
    fits = []
    for factor in (1, 3):
        changed = Ridge(recipe)
        changed.start = start
        values[tested] *= factor
        fits.append(changed.fit(make_panel(values, "measurement"), splits).run.arrays)
    for name, array in fits[0].items():
        np.testing.assert_array_equal(array, fits[1][name], err_msg=name)
