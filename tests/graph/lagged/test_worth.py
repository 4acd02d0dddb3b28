import numpy as np
import pytest

from forecaster.graph.lagged import worth
from forecaster.graph.lagged.covariances import find_factors, sum_products, to_covariances
from forecaster.graph.lagged.deviations import LaggedSample
from forecaster.graph.lagged.regressions import Regressions, begin, refit, solve
from forecaster.graph.lagged.worth import sum_ahead
from tests.graph.lagged.conftest import follow, sample_of

STEPS, PLACES, DELAYS, HORIZON = 211, 13, 5, 3
RUNS = np.array([[2, 61], [70, 77], [101, 149]])  # the second is too short for past and targets


@pytest.fixture(scope="module")
def sample() -> LaggedSample:
    """Places that follow others and move together, one of which never deviates."""
    values = follow(STEPS, PLACES).T + np.convolve(np.ones(5), np.ones(STEPS - 4))
    values -= values.mean(axis=1, keepdims=True)
    values[11] = 0
    whole = sample_of(values)
    observed = np.random.default_rng(0).random(whole.observed.shape) < 0.8
    return LaggedSample(whole.deviations, observed, whole.scale, whole.runs, whole.blocks)


@pytest.fixture(scope="module")
def fitted(sample: LaggedSample) -> Regressions:
    sums = sum_products(sample, np.array([[0, STEPS]]), DELAYS)
    inputs = to_covariances(sums, find_factors(sums, 2))
    assert len(inputs.factors)
    solved = solve(begin(inputs), 0.1)
    assert solved is not None
    fitted = refit(solved)
    assert fitted.edges.any()
    return fitted


def roll_out(fitted: Regressions, series: np.ndarray, origin: int) -> list[np.ndarray]:
    """The forecasts of the steps after the origin, each the past of the next."""
    inputs, P = fitted.inputs, len(series)
    past = [series[:, origin - back] for back in range(DELAYS)]  # the newest first
    forecasts = []
    for _ in range(HORIZON):
        forecast = np.zeros(PLACES)
        for n in range(PLACES):
            for place in np.flatnonzero(fitted.used[n]):
                lag, j = divmod(int(fitted.codes[n, place]), P)
                forecast[n] += fitted.beta[n, place] * past[lag][j]
        forecasts.append(forecast)
        past = [np.concatenate([forecast, inputs.factors @ forecast]), *past[:-1]]
    return forecasts


def test_errors_ahead_are_those_of_a_roll_out(fitted: Regressions, sample: LaggedSample) -> None:
    series = fitted.inputs.series(sample)
    squares, counts = np.zeros(HORIZON), np.zeros(HORIZON)
    for first, stop in RUNS:
        for origin in range(first + DELAYS - 1, stop - HORIZON):
            for step, forecast in enumerate(roll_out(fitted, series, origin)):
                known = sample.observed[:, origin + step + 1].copy()
                known[11] = False
                error = series[:PLACES, origin + step + 1] - forecast
                squares[step] += np.square(error[known]).sum()
                counts[step] += known.sum()
    found = sum_ahead(fitted, sample, RUNS, HORIZON)
    assert found[0] == pytest.approx(squares, rel=1e-4)
    assert found[1].tolist() == counts.tolist()


def test_steps_beyond_the_runs_do_not_count(fitted: Regressions, sample: LaggedSample) -> None:
    deviations = sample.deviations.copy()
    inside = np.zeros(STEPS, dtype=bool)
    for first, stop in RUNS[[0, 2]]:
        inside[first:stop] = True
    deviations[:, ~inside] = 1e6
    other = LaggedSample(deviations, sample.observed, sample.scale, sample.runs, sample.blocks)
    expected, found = (sum_ahead(fitted, s, RUNS, HORIZON) for s in (sample, other))
    assert np.array_equal(expected[0], found[0])


def test_runs_too_short_for_past_and_targets_say_nothing(
    fitted: Regressions, sample: LaggedSample
) -> None:
    for runs in (RUNS[[1]], RUNS[:0]):
        squares, counts = sum_ahead(fitted, sample, runs, HORIZON)
        assert squares.tolist() == counts.tolist() == [0.0] * HORIZON
    assert sum_ahead(fitted, sample, np.array([[70, 78]]), HORIZON)[1].all()


def test_many_origins_are_thinned_out_evenly(
    fitted: Regressions, sample: LaggedSample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worth, "MAX_ORIGINS", 17)
    origins = worth._space_out(RUNS, DELAYS, HORIZON)
    assert len(origins) <= 17
    assert set(np.diff(origins[origins < 60])) == {6}
    assert sum_ahead(fitted, sample, RUNS, HORIZON)[1][0] <= 17 * PLACES
