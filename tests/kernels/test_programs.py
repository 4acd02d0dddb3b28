import pytest
import torch

from forecaster.kernels.pattern import BlockPattern

pytest.importorskip("triton", reason="triton is not installed: pip install triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def test_a_program_leaves_the_rows_of_others_alone(figure: BlockPattern) -> None:
    from forecaster.kernels import programs  # noqa: PLC0415 (after conftest has spoken)

    weight, state = torch.randn(figure.n_edges, 2, 3), torch.randn(5, 3, 19)
    y, order = torch.full((5, 2, 19), 7.0), torch.tensor([3, 0, 4, 1, 2])
    programs.sum_blocks[(2, 1)](
        (y,), (weight,), state, y, figure.source, figure.starts, order, 19,
        OUT=2, C=3, BIAS=False, RELU=False, NUMBER=programs.tl.float32, BLOCK=16,
    )  # fmt: skip
    assert (y[[4, 1, 2]] == 7.0).all()  # they come later in the order
    assert (y[[3, 0], :, 16:] == 7.0).all()  # another block of columns
    assert (y[[3, 0], :, :16] != 7.0).all()


def test_blocks_of_columns_write_what_they_add_side_by_side(figure: BlockPattern) -> None:
    from forecaster.kernels import programs  # noqa: PLC0415

    state, grad = torch.randn(5, 3, 19), torch.randn(5, 2, 19)
    weight, E = torch.zeros(figure.n_edges, 2, 3), figure.n_edges
    parts, bias = torch.full((2, E, 2, 3), torch.nan), torch.full((2, 5, 2), torch.nan)
    programs.sum_gradients[(5, 2)](
        state, (parts,), bias, (grad,), grad, (weight,), state,
        figure.source, figure.reverse, figure.starts, torch.arange(5), 5, E, 19,
        OUT=2, C=3, STATE=False, WEIGHT=True, BIAS=True, RELU=False,
        NUMBER=programs.tl.float32, BLOCK=16,
    )  # fmt: skip
    for part, sums, columns in zip(parts, bias, (slice(0, 16), slice(16, 19)), strict=True):
        g, x = grad[..., columns], state[..., columns]
        torch.testing.assert_close(part, g[figure.target] @ x[figure.source].mT)
        torch.testing.assert_close(sums, g.sum(dim=2))
