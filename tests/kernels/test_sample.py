import numpy as np
import pytest
import torch

from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.product import block_product
from forecaster.kernels.sample import LocationSample

N = 11
PAIRS = np.array([(0, 1), (1, 2), (2, 3), (0, 5), (7, 9), (9, 10)])


@pytest.fixture(params=[False, True])
def pattern(request: pytest.FixtureRequest) -> BlockPattern:
    return BlockPattern.from_pairs(N, PAIRS, directed=request.param)


def test_a_sample_has_its_targets_and_the_sources_of_edges_into_them() -> None:
    pattern = BlockPattern.from_pairs(N, PAIRS)
    sample = LocationSample.along(pattern, np.array([1, 4, 9]))
    assert sample.locations.tolist() == [0, 1, 2, 4, 7, 9, 10]
    assert sample.locations[sample.rows].tolist() == sample.targets.tolist() == [1, 4, 9]
    assert sample.share == 3 / 11


def test_of_directed_edges_only_those_into_targets_count() -> None:
    pattern = BlockPattern.from_pairs(N, PAIRS, directed=True)
    sample = LocationSample.along(pattern, np.array([1, 4, 9]))
    assert sample.locations.tolist() == [0, 1, 4, 7, 9]


def test_products_of_a_sample_are_those_of_all_at_its_targets(pattern: BlockPattern) -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(pattern.n_edges, 2, 3, generator=generator)
    state = torch.randn(N, 3, 5, generator=generator)
    whole = block_product(weight, state, pattern)
    for targets in ([1, 4, 9], [0], list(range(N))):
        sample = LocationSample.along(pattern, np.array(targets))
        assert sample.edges is not None
        assert sample.pattern is not None
        part = block_product(weight[sample.edges], state[sample.locations], sample.pattern)
        torch.testing.assert_close(part[sample.rows], whole[targets])


def test_gradients_of_a_sample_reach_the_weights_of_its_edges_only(pattern: BlockPattern) -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(pattern.n_edges, 2, 3, generator=generator, requires_grad=True)
    state = torch.randn(N, 3, 5, generator=generator)
    targets = [1, 4, 9]
    sample = LocationSample.along(pattern, np.array(targets))
    assert sample.edges is not None
    assert sample.pattern is not None
    part = block_product(weight[sample.edges], state[sample.locations], sample.pattern)
    (gradient,) = torch.autograd.grad(part[sample.rows].square().sum(), weight)
    whole = block_product(weight, state, pattern)[targets]
    (expected,) = torch.autograd.grad(whole.square().sum(), weight)
    torch.testing.assert_close(gradient, expected)


def test_without_edges_a_sample_sees_itself_alone() -> None:
    sample = LocationSample.of(np.array([2, 3]), 7)
    assert sample.locations.tolist() == sample.targets.tolist() == [2, 3]
    assert sample.rows.tolist() == [0, 1]
    assert sample.edges is None
