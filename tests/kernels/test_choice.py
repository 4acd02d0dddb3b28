import logging
from collections.abc import Iterator

import pytest
import torch

from forecaster.kernels import gpu
from forecaster.kernels.choice import choose_backend

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Forget what was chosen before, and afterwards what these tests pretended."""
    choose_backend.cache_clear()
    yield
    choose_backend.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_cpu_has_compiled_loops(dtype: torch.dtype) -> None:
    assert choose_backend(CPU, dtype) == "numba"


def test_other_numbers_on_a_cpu_are_left_to_torch() -> None:
    assert choose_backend(CPU, torch.bfloat16) == "reference"


def test_a_gpu_with_triton_has_its_programs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gpu, "why_not", lambda *_: None)
    monkeypatch.setattr(gpu, "version", lambda: "triton 7.7")
    with caplog.at_level(logging.INFO):
        assert choose_backend(CUDA, torch.bfloat16) == "triton"
    expected = "sparse layers and norms on cuda:0 in torch.bfloat16: triton (triton 7.7)"
    assert caplog.messages == [expected]


def test_a_gpu_without_says_once_why_torch_does_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gpu, "why_not", lambda *_: "triton is not installed")
    with caplog.at_level(logging.INFO):
        assert [choose_backend(CUDA, torch.float32) for _ in range(3)] == ["reference"] * 3
    assert len(caplog.messages) == 1
    assert "reference (plain torch, much slower: triton is not installed)" in caplog.text


def test_a_device_of_another_kind_is_left_to_torch() -> None:
    assert choose_backend(torch.device("meta"), torch.float32) == "reference"
