from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core.caching import CacheImpl

from forecaster.compiled import compiled
from forecaster.kernels import loops
from forecaster.kernels.pattern import BlockPattern

EXACT = frozenset({"contract"})


def arrays_of(pattern: BlockPattern, R: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a weight, a state and a gradient: C = 3, O = 5."""
    generator = np.random.default_rng(R)
    N, E = pattern.n_locations, pattern.n_edges
    weight, state, grad = (generator.normal(size=s) for s in ((E, 5, 3), (N, 3, R), (N, 5, R)))
    return weight, state, grad


def edges_of(pattern: BlockPattern) -> loops.Edges:
    return pattern.source.numpy(), pattern.starts.numpy()


def test_a_range_of_targets_leaves_the_rows_of_others_alone(figure: BlockPattern) -> None:
    weight, state, _ = arrays_of(figure, 19)
    y, bias = np.full((5, 5, 19), 7.0), np.zeros((5, 5))
    loops.sum_blocks(y, weight, state, bias, False, edges_of(figure), (1, 3))
    assert (y[[0, 3, 4]] == 7.0).all()
    assert (y[1:3] != 7.0).all()


def test_a_range_of_targets_leaves_the_blocks_of_others_alone(figure: BlockPattern) -> None:
    _, state, grad = arrays_of(figure, 19)
    blocks = np.full((figure.n_edges, 5, 3), 7.0)
    loops.multiply_edges(blocks, grad, state, edges_of(figure), (1, 3))
    inside = np.isin(figure.target.numpy(), (1, 2))
    assert (blocks[~inside] == 7.0).all()
    assert (blocks[inside] != 7.0).all()


def test_columns_past_the_last_line_count(figure: BlockPattern) -> None:
    _, state, grad = arrays_of(figure, 11)  # a line holds 8 numbers of 64 bits
    blocks = np.empty((figure.n_edges, 5, 3))
    loops.multiply_edges(blocks, grad, state, edges_of(figure), (0, 5))
    expected = grad[figure.target.numpy()] @ state[figure.source.numpy()].swapaxes(1, 2)
    np.testing.assert_allclose(blocks, expected, rtol=0, atol=1e-14)


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the loops compiled where no folder can be written."""
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(lambda: None)
    names = "sum_blocks", "multiply_edges"
    return SimpleNamespace(**{n: compiled(EXACT)(getattr(loops, n).py_func) for n in names})


def test_loops_work_uncached_where_no_folder_can_be_written(
    figure: BlockPattern, uncached: SimpleNamespace
) -> None:
    _, state, grad = arrays_of(figure, 11)
    found, expected = (np.empty((figure.n_edges, 5, 3)) for _ in range(2))
    uncached.multiply_edges(found, grad, state, edges_of(figure), (0, 5))
    loops.multiply_edges(expected, grad, state, edges_of(figure), (0, 5))
    assert np.array_equal(found, expected)


def test_sums_are_compiled_to_instructions_on_whole_lines(
    figure: BlockPattern, uncached: SimpleNamespace
) -> None:
    weight, state, _ = (array.astype(np.float32) for array in arrays_of(figure, 19))
    y, bias = np.empty((5, 5, 19), np.float32), np.zeros((5, 5), np.float32)
    uncached.sum_blocks(y, weight, state, bias, False, edges_of(figure), (0, 5))
    (code,) = uncached.sum_blocks.inspect_llvm().values()
    assert "fmul contract <16 x float>" in code
    assert "llvm.prefetch" in code
