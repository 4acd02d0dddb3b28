import numpy as np
import pytest

from forecaster.estimators.ensemble.average import (
    MemberForecasts,
    average,
    average_means,
    share_weights,
)
from forecaster.estimators.predictor import WindowForecasts

RANDOM = np.random.default_rng(3)
B, Q, K, N = 2, 3, 5, 7


def made_forecasts(levels: int, *, n: int = N, relative: bool = True) -> WindowForecasts:
    mean = RANDOM.standard_normal((B, K, n)).astype(np.float32)
    distances = np.sort(RANDOM.standard_normal((B, levels, K, n)), axis=1).astype(np.float32)
    return WindowForecasts(mean, mean[:, None] + distances, mean - 1 if relative else None)


EVERYWHERE = np.ones((B, N), dtype=bool)


def test_the_mean_and_the_relative_forecast_have_their_own_weights() -> None:
    first, second = (made_forecasts(Q) for _ in range(2))
    members = [MemberForecasts(part, EVERYWHERE) for part in (first, second)]
    outputs = average(members, np.array([0.25, 0.75]), np.array([1.0, 0.0]))
    assert outputs.mean == pytest.approx(0.25 * first.mean + 0.75 * second.mean, abs=1e-6)
    assert first.relative is not None
    assert outputs.relative is not None
    assert outputs.relative == pytest.approx(first.relative)


def test_quantiles_move_with_the_mean_and_never_cross() -> None:
    first, plain = made_forecasts(Q), made_forecasts(0)
    members = [MemberForecasts(first, EVERYWHERE), MemberForecasts(plain, EVERYWHERE)]
    outputs = average(members, np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    distances = first.quantiles - first.mean[:, None]  # of the only member that has some
    assert outputs.quantiles == pytest.approx(outputs.mean[:, None] + distances, abs=1e-6)
    assert (np.diff(outputs.quantiles, axis=1) >= 0).all()


def test_without_any_quantiles_there_are_none() -> None:
    member = MemberForecasts(made_forecasts(0), EVERYWHERE)
    outputs = average([member, member], np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    assert outputs.quantiles.shape == (B, 0, K, N)


def test_a_member_is_left_out_where_it_cannot_forecast() -> None:
    known = 4
    here = np.arange(N) < known
    first, second, third = made_forecasts(Q), made_forecasts(Q, n=known), made_forecasts(0)
    members = [
        MemberForecasts(first, EVERYWHERE),
        MemberForecasts(second, EVERYWHERE & here),
        MemberForecasts(third, EVERYWHERE),
    ]
    weights = np.array([0.2, 0.5, 0.3])
    mean = average(members, weights, weights).mean
    expected = (0.2 * first.mean + 0.3 * third.mean) / 0.5  # scaled up
    assert mean[..., known:] == pytest.approx(expected[..., known:], abs=1e-6)
    whole = 0.2 * first.mean[..., :known] + 0.5 * second.mean + 0.3 * third.mean[..., :known]
    assert mean[..., :known] == pytest.approx(whole, abs=1e-6)
    means = [(member.outputs.mean, member.available) for member in members]
    assert np.array_equal(average_means(means, weights), mean)


def test_members_without_weight_share_where_nobody_else_can_forecast() -> None:
    nowhere = ~EVERYWHERE
    shares = share_weights(np.array([1.0, 0.0, 0.0]), [nowhere, EVERYWHERE, EVERYWHERE])
    assert shares[:, 0, 0].tolist() == [0.0, 0.5, 0.5]


def test_a_forecast_that_is_not_finite_is_not_hidden() -> None:
    broken = made_forecasts(0)
    broken.mean[0, 0, 0] = np.nan
    members = [MemberForecasts(made_forecasts(0), EVERYWHERE), MemberForecasts(broken, EVERYWHERE)]
    weights = np.array([0.5, 0.5])
    assert np.isnan(average(members, weights, weights).mean[0, 0, 0])
