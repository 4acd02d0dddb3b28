from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from forecaster.config import LagConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.sample import LocationSample
from forecaster.models.mixer.linear_forecast import LinearForecast, steps_ahead

N, B, R, F = 7, 5, 4, 2
LAGS = LagConfig(recent=R, seasons=(), horizon=3)
EDGES = np.array([(0, 1), (1, 2), (3, 4), (4, 3)])
Draw = Callable[..., Tensor]


@pytest.fixture
def part(draw: Draw) -> LinearForecast:
    pattern = BlockPattern.from_pairs(N, EDGES, directed=True)
    part = LinearForecast(pattern, LAGS, F).double()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.copy_(draw(*parameter.shape))
    return part


def test_it_sums_recent_steps_of_sources_of_itself_and_of_factors(
    part: LinearForecast, draw: Draw
) -> None:
    recent, factors = draw(N, B, R), draw(F, B, R)
    forecast = part(recent, factors, None)
    assert forecast.shape == (N, B, 3)
    expected = torch.zeros(N, B, 3, dtype=torch.float64)
    pattern, loadings = part.pattern, part.loadings.view(N, 3, F, R)
    for e in range(pattern.n_edges):
        i, j = int(pattern.target[e]), int(pattern.source[e])
        expected[i] += torch.einsum("kl,bl->bk", part.edges[e], recent[j])
    expected += torch.einsum("nkfl,fbl->nbk", loadings, factors)
    torch.testing.assert_close(forecast, expected)


def test_a_location_is_forecast_from_its_sources_and_not_from_its_targets(
    part: LinearForecast, draw: Draw
) -> None:
    recent, factors = draw(N, B, R), torch.zeros(F, B, R, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: part(x, factors, None), recent)
    reached = (jacobian != 0).any(dim=5).any(dim=4).any(dim=2).any(dim=1)  # [target, source]
    expected = torch.eye(N, dtype=torch.bool)
    for source, target in EDGES.tolist():
        expected[target, source] = True
    assert torch.equal(reached, expected)


def test_a_location_that_training_does_not_know_has_no_loadings(
    part: LinearForecast, draw: Draw
) -> None:
    factors, none = draw(F, B, R), torch.zeros(N, B, R, dtype=torch.float64)
    known = torch.tensor([1, 0, 0.5, 1, 1, 1, 1], dtype=torch.float64)[:, None, None]
    forecast = part(none, factors, known)
    assert (forecast[1] == 0).all()
    assert torch.equal(forecast[2], part(none, factors, None)[2])


def test_new_weights_forecast_nothing() -> None:
    part = LinearForecast(BlockPattern.from_pairs(N, EDGES, directed=True), LAGS, F)
    assert (part(torch.ones(N, B, R), torch.ones(F, B, R), None) == 0).all()


@pytest.mark.parametrize(("horizon", "steps"), [(3, 3), (4, 4), (168, 4)])
def test_it_looks_no_further_ahead_than_back(horizon: int, steps: int) -> None:
    lags = LagConfig(recent=R, seasons=(), horizon=horizon)
    assert steps_ahead(lags) == steps
    part = LinearForecast(BlockPattern.from_pairs(N, EDGES, directed=True), lags, 0)
    assert part(torch.ones(N, B, R), torch.ones(0, B, R), None).shape == (N, B, steps)


def test_of_a_sample_it_is_a_part_of_that_of_all(part: LinearForecast, draw: Draw) -> None:
    recent, factors = draw(N, B, R), draw(F, B, R)
    known = torch.tensor([1, 0, 0.5, 1, 1, 1, 1], dtype=torch.float64)[:, None, None]
    targets = np.array([1, 2, 4])
    sample = LocationSample.along(part.pattern, targets)
    sampled = part(recent[sample.locations], factors, known[targets], sample)
    torch.testing.assert_close(sampled, part(recent, factors, known)[targets])
