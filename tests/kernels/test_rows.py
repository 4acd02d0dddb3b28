import pytest
import torch
from torch import inf, nan

pytest.importorskip("triton", reason="triton is not installed: pip install triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def test_each_output_gets_its_share_of_the_rows_and_what_is_hidden_is_zero() -> None:
    from tests.kernels import row_programs  # noqa: PLC0415 (after conftest has spoken)

    state, outputs = torch.randn(6, 5), (torch.full((3, 5), nan), torch.full((3, 5), nan))
    row_programs.copy[(1,)](outputs, state, 5, 2, ROWS=6, BLOCK=8)
    expected = torch.cat([state[:, :2], torch.zeros(6, 3)], dim=1)
    assert torch.equal(torch.cat(outputs), expected)


def test_a_cut_at_zero_keeps_nan_and_its_slope() -> None:
    from tests.kernels import row_programs  # noqa: PLC0415

    y, grad = torch.tensor([-inf, 0.0, 3.0, nan]), torch.tensor([2.0, 3.0, 5.0, 7.0])
    found, slopes = torch.full((2, 4), -1.0)
    row_programs.cut[(1,)](found, slopes, y, grad, BLOCK=4)
    assert torch.equal(found.nan_to_num(99.0), torch.tensor([0.0, 0.0, 3.0, 99.0]))
    assert torch.equal(slopes, torch.tensor([0.0, 0.0, 5.0, 7.0]))


def test_a_block_multiplies_straight_and_turned_over() -> None:
    from tests.kernels import row_programs  # noqa: PLC0415

    weight, x = torch.arange(6.0).reshape(2, 3), torch.tensor([2.0, 3.0, 5.0])
    y, back = torch.full((2,), nan), torch.full((3,), nan)
    row_programs.multiply[(1,)](y, back, weight, x, OUT=2, C=3)
    assert torch.equal(y, weight @ x)
    assert torch.equal(back, weight.mT @ (weight @ x))
