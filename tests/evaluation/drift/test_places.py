"""Locations are compared with themselves, and chance among many is allowed for."""

import numpy as np
from scipy.stats import false_discovery_control, ttest_ind

from forecaster.evaluation.drift.places import adjust, compare_weeks, weekly_logs


def test_p_values_are_those_of_welch_and_benjamini_hochberg():
    generator = np.random.default_rng(0)
    before, after = generator.normal(size=(8, 11)), generator.normal(0.3, 2, (5, 11))
    factors, p_values = compare_weeks(before, after)
    expected = ttest_ind(before, after, equal_var=False).pvalue
    assert np.allclose(p_values, false_discovery_control(expected))
    assert np.allclose(np.log(factors), after.mean(axis=0) - before.mean(axis=0))


def test_locations_with_one_week_are_not_judged():
    before, after = np.zeros((8, 3)), np.ones((4, 3))
    after[1:, 1] = np.nan
    factors, p_values = compare_weeks(before, after)
    assert (p_values < 1e-5).tolist() == [True, False, True]
    assert p_values[1] == 1.0
    assert factors[1] == 1.0


def test_among_many_unchanged_locations_hardly_any_is_named():
    generator = np.random.default_rng(1)
    _, p_values = compare_weeks(
        generator.normal(size=(8, 2_000)), generator.normal(size=(8, 2_000))
    )
    assert (p_values <= 0.05).sum() <= 1


def test_adjusted_p_values_keep_their_order():
    p_values = np.array([0.04, 0.001, 0.9, 0.02])
    assert np.allclose(adjust(p_values), false_discovery_control(p_values))


def test_weekly_logs_need_both_parts():
    sums, sizes = np.ones((15, 2)), np.full((15, 2), 2.0)
    sizes[7:14, 1] = 0
    logs = weekly_logs(sums, sizes)
    assert np.allclose(logs[:, 0], np.log(0.5))
    assert np.isnan(logs[1, 1])
