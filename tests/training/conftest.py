"""What tests of training share; the task itself is in `town`."""

from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location

import jaxtyping
import pytest
import torch

from forecaster.kernels import cpu, product
from forecaster.models.layers.randomness import forget_draws


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Let so small a network compute in one thread, as in the processes that tests start."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _no_draws_left() -> Iterator[None]:
    """Let later tests draw from torch's default generator, though steps were taken by hand."""
    yield
    forget_draws()


@pytest.fixture(autouse=True)
def _needs_cuda(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs CUDA")


@pytest.fixture
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Skip the shape checks, which take ten times as long as the steps of so small a network."""
    spec = spec_from_file_location("unchecked_cpu", cpu.__file__)
    assert spec is not None
    assert spec.loader is not None
    unchecked = module_from_spec(spec)
    spec.loader.exec_module(unchecked)
    monkeypatch.setitem(product.BACKENDS, "numba", unchecked)  # type: ignore[arg-type]
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
