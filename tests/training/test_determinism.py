import os

import pytest
import torch

from forecaster.training.determinism import CUBLAS, reproducible, seed_dropout

CPU = torch.device("cpu")


def test_the_key_alone_decides_what_is_drawn_next() -> None:
    draws = []
    for key in ((1, 2, 3), (1, 2, 3), (1, 3, 2), (2, 1, 3)):
        torch.rand(7)
        seed_dropout(CPU, *key)
        draws.append(tuple(torch.rand(5).tolist()))
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


def test_torch_is_left_as_it_was_found() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with reproducible(CPU):
        seed_dropout(CPU, 0)
        torch.rand(11)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.gpu
def test_T10_a_gpu_operation_that_cannot_repeat_its_bits_is_refused_by_name() -> None:
    device = torch.device("cuda:0")
    before = torch.get_deterministic_debug_mode(), os.environ.get(CUBLAS)
    with reproducible(device), pytest.raises(RuntimeError, match="does not have a deterministic"):
        torch.histc(torch.rand(3, device=device), bins=2)
    assert (torch.get_deterministic_debug_mode(), os.environ.get(CUBLAS)) == before
