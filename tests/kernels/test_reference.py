import torch

from forecaster.kernels import reference
from forecaster.kernels.pattern import BlockPattern


def test_the_product_is_the_sum_over_edges_written_out(figure: BlockPattern) -> None:
    weight, state = torch.randn(figure.n_edges, 3, 2), torch.randn(5, 2, 7)
    y = reference.forward(weight, state, figure, None, relu=False)
    expected = torch.zeros(5, 3, 7)
    for e in range(figure.n_edges):
        expected[figure.target[e]] += weight[e] @ state[figure.source[e]]
    torch.testing.assert_close(y, expected)


def test_relu_comes_after_the_bias() -> None:
    one = BlockPattern.from_pairs(1, torch.zeros(0, 2, dtype=torch.int64).numpy())
    weight, state = torch.ones(1, 1, 1), torch.tensor([[[1.0, 3.0]]])
    y = reference.forward(weight, state, one, torch.tensor([[-2.0]]), relu=True)
    assert y.tolist() == [[[0.0, 1.0]]]


def test_relu_lets_the_gradient_through_above_zero_only() -> None:
    y, grad = torch.tensor([[[0.0, 2.0, 0.0]]]), torch.tensor([[[3.0, 5.0, 7.0]]])
    assert reference.relu_gradient(grad, y).tolist() == [[[0.0, 5.0, 0.0]]]
