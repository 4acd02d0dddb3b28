"""Graphs, and the dense masked product that every backend must equal."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import Tensor

from forecaster.kernels.pattern import BlockPattern

# Triton reads this when it is loaded, which happens at the first use of a GPU's program and not
# before a conftest: so no process of its own is needed. With a GPU programs are compiled instead.
INTERPRETED = find_spec("triton") is not None and not torch.cuda.is_available()
if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"

Dense = Callable[[Tensor, Tensor, BlockPattern, Tensor | None], Tensor]


def pattern_of(count: int, *pairs: tuple[int, int]) -> BlockPattern:
    return BlockPattern.from_pairs(count, np.array(pairs, dtype=np.int64).reshape(-1, 2))


GRAPHS = {
    "random": BlockPattern.from_pairs(23, np.random.default_rng(7).integers(0, 23, (29, 2))),
    "hub": pattern_of(31, *((17, n) for n in range(31) if n != 17)),
    "isolated": pattern_of(7, (1, 4)),
    "none": pattern_of(5),
    "one": pattern_of(1),
    "complete": pattern_of(5, *((i, j) for i in range(5) for j in range(i))),
    "directed": BlockPattern.from_pairs(
        19, np.random.default_rng(11).integers(0, 19, (31, 2)), directed=True
    ),
    "star": BlockPattern.from_pairs(  # into one location, and out of another
        13,
        np.array([(n, 0) for n in range(2, 13)] + [(1, n) for n in range(2, 13)]),
        directed=True,
    ),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Keep torch from waking threads for a handful of numbers; a test may still ask for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def why_not_interpreted() -> str | None:
    """Return why the GPU's programs cannot be interpreted; it is not theirs to decide."""
    if not INTERPRETED:
        return "needs triton, and no GPU for which it would compile"
    from tests.kernels.probe import count  # noqa: PLC0415 (loads triton)

    total, end = torch.zeros(1, dtype=torch.int64), torch.tensor([3])
    try:
        count[(1,)](total, end)
    except Exception as error:  # Triton 3.6 does not know NumPy 2.4
        return f"this triton interprets nothing: {error}"
    return None if total.item() == 3 else "this triton counts to three otherwise"


@pytest.fixture
def interpreted() -> None:
    """Skip a test that calls the GPU's programs with tensors of the CPU, where nothing can."""
    if reason := why_not_interpreted():
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def _needs_cuda(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs CUDA")


@pytest.fixture(params=list(GRAPHS))
def pattern(request: pytest.FixtureRequest) -> BlockPattern:
    """Return each of the graphs in turn."""
    return GRAPHS[request.param]


@pytest.fixture
def figure() -> BlockPattern:
    """Return figure 1's 1–2–3 and two more locations, one of them alone: E = 5 + 2 · 3 = 11."""
    return pattern_of(5, (0, 1), (2, 1), (3, 1))


@pytest.fixture(scope="session")
def dense() -> Dense:
    """Return the product by one matrix whose blocks are zero where the pattern has no edge."""

    def multiply(
        weight: Tensor, state: Tensor, pattern: BlockPattern, bias: Tensor | None = None
    ) -> Tensor:
        (N, C, R), (_, outputs, _) = state.shape, weight.shape
        blocks = weight.new_zeros(N, N, outputs, C)
        blocks = blocks.index_put((pattern.target, pattern.source), weight)
        matrix = blocks.transpose(1, 2).reshape(N * outputs, N * C)
        y = (matrix @ state.reshape(N * C, R)).reshape(N, outputs, R)
        return y if bias is None else y + bias[:, :, None]

    return multiply
