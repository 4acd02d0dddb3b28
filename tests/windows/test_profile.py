from dataclasses import replace

import numpy as np

from forecaster.clock.clock import Clock
from forecaster.estimators.sample import small_city
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.windows.profile import fit_profile


def every(minutes: int, steps: int) -> Panel:
    """Return a panel with another step, Monday first."""
    panel = small_city()
    return replace(
        panel,
        clock=Clock("UTC", minutes),
        values=panel.values[:steps],
        covariates=Covariates((), np.empty((steps, 0), np.float32)),
        local_covariates=LocalCovariates((), np.empty((0, steps, 5), np.float32)),
    )


def test_it_is_the_mean_of_the_training_steps_at_each_local_hour_of_the_week() -> None:
    panel = small_city()
    train = np.arange(len(panel.values)) < 24 * 23  # the clock changes within
    profile = fit_profile(panel, train)
    assert profile.shape == (5, 168)
    local = panel.clock.local(panel.times)[train]
    for weekday, hour in ((0, 0), (5, 13), (6, 23)):
        days = local.astype("datetime64[D]")
        here = (days.astype(int) + 3) % 7 == weekday
        here &= (local - days).astype(int) // 3600 == hour
        expected = np.nanmean(panel.values[train][here], axis=0)
        np.testing.assert_allclose(profile[:, weekday * 24 + hour], expected, rtol=1e-6)


def test_an_hour_without_training_steps_has_the_mean_of_all() -> None:
    panel = small_city()
    train = np.arange(len(panel.values)) < 30
    profile = fit_profile(panel, train)
    np.testing.assert_allclose(profile[:, 100], np.nanmean(panel.values[:30], axis=0), rtol=1e-6)


def test_quarters_of_an_hour_share_it_and_days_have_one_hour() -> None:
    quarters = every(15, 96 * 7)
    np.testing.assert_allclose(
        fit_profile(quarters, np.ones(96 * 7, dtype=bool))[:, 2],
        np.nanmean(quarters.values[8:12], axis=0),
        rtol=1e-6,
    )
    days = every(24 * 60, 7 * 5)
    np.testing.assert_allclose(
        fit_profile(days, np.ones(35, dtype=bool))[:, 24],
        np.nanmean(days.values[1::7], axis=0),
        rtol=1e-6,
    )
