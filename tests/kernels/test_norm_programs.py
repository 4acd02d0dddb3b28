import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed: pip install triton")
pytestmark = pytest.mark.usefixtures("interpreted")


def test_statistics_of_more_blocks_than_are_joined_at_once_are_those_of_all_rows() -> None:
    from forecaster.kernels import norm_programs  # noqa: PLC0415 (after conftest has spoken)

    signal, aux, R, rows = 37, 11, 5, 4  # 10 + 3 blocks, the last of each not full
    values = torch.randn(signal + aux, R, generator=torch.Generator().manual_seed(3)) + 100
    blocks = [*values[:signal].split(rows), *values[signal:].split(rows)]
    measured = torch.stack(
        [torch.stack([b.mean(0), (b - b.mean(0)).square().sum(0)]) for b in blocks]
    )
    mean, scale = torch.full((2, R), torch.nan)
    norm_programs.join_measures[(2,)](
        mean, scale, measured, len(blocks), signal, aux, R, 1e-5,
        NUMBER=norm_programs.tl.float32, ROWS=rows, BLOCKS=4, COLUMNS=4,
    )  # fmt: skip
    torch.testing.assert_close(mean, values.mean(dim=0))
    expected = (values.var(dim=0, correction=0) + 1e-5).rsqrt()
    torch.testing.assert_close(scale, expected, rtol=1e-5, atol=0)


def test_every_neuron_belongs_to_one_row_of_one_block() -> None:
    from forecaster.kernels import norm_programs  # noqa: PLC0415

    signal, aux, R = 7, 5, 3
    parts = [torch.ones(rows, R) for rows in (signal, aux)]
    z = [torch.full_like(part, torch.nan) for part in parts]
    mean, scale = torch.zeros(R), torch.ones(R)
    gain, bias = torch.zeros(signal + aux), torch.arange(float(signal + aux))
    norm_programs.apply_norm[(2 + 2, 1)](
        *z, *parts, mean, scale, gain, bias, signal, aux, R,
        NUMBER=norm_programs.tl.float32, ROWS=4, COLUMNS=4,
    )  # fmt: skip
    assert torch.equal(torch.cat(z), bias[:, None].expand(12, R))
