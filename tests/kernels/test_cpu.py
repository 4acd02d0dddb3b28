import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor

from forecaster.kernels import cpu, reference
from forecaster.kernels.pattern import BlockPattern


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads share work of any size."""
    monkeypatch.setattr(cpu, "_SHARED", 1)


def draw(pattern: BlockPattern, R: int = 41) -> tuple[Tensor, Tensor, Tensor]:
    """Return a weight, a state and a gradient of the output: C = 3, O = 5."""
    generator = torch.Generator().manual_seed(R)
    N, E = pattern.n_locations, pattern.n_edges
    shapes = (E, 5, 3), (N, 3, R), (N, 5, R)
    weight, state, grad = (torch.randn(*shape, generator=generator) for shape in shapes)
    return weight, state, grad


def compute(pattern: BlockPattern, R: int = 41) -> list[Tensor]:
    weight, state, grad = draw(pattern, R)
    return [
        cpu.forward(weight, state, pattern, None, relu=True),
        cpu.state_gradient(grad, weight, pattern),
        cpu.weight_gradient(grad, state, pattern),
    ]


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.usefixtures("shared")
def test_the_number_of_threads_changes_no_bit(pattern: BlockPattern) -> None:
    torch.set_num_threads(1)
    alone = compute(pattern)
    for number in (2, 3, 7):
        torch.set_num_threads(number)
        assert same(compute(pattern), alone)


def test_a_column_does_not_depend_on_how_many_come_along(pattern: BlockPattern) -> None:
    weight, state, _ = draw(pattern, 83)
    whole = cpu.forward(weight, state, pattern, None, relu=False)
    for first, last in ((0, 1), (5, 8), (11, 27), (30, 61)):
        part = state[:, :, first:last].contiguous()
        y = cpu.forward(weight, part, pattern, None, relu=False)
        assert torch.equal(y, whole[:, :, first:last])


@pytest.mark.usefixtures("shared")
def test_many_python_threads_may_call_at_once(pattern: BlockPattern) -> None:
    torch.set_num_threads(3)
    expected = compute(pattern)
    with ThreadPoolExecutor(8) as callers:
        answers = callers.map(lambda _: [compute(pattern) for _ in range(5)], range(8))
        assert all(same(answer, expected) for found in answers for answer in found)


@pytest.mark.usefixtures("shared")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(figure: BlockPattern) -> None:
    torch.set_num_threads(2)
    expected = compute(figure)  # starts the parent's threads, which the child will not have
    child = os.fork()
    if child == 0:
        os._exit(0 if same(compute(figure), expected) else 1)
    ended, status = 0, -1
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert (ended, status) == (child, 0)


@pytest.mark.usefixtures("shared")
def test_threads_share_the_edges_and_cover_every_target_once(pattern: BlockPattern) -> None:
    torch.set_num_threads(3)
    ranges: list[tuple[int, int]] = []
    edges = cpu._edges(pattern)
    cpu._share(ranges.append, edges, work=1_000)
    covered = [i for first, last in sorted(ranges) for i in range(first, last)]
    assert covered == list(range(pattern.n_locations))
    most = max(int(edges[1][last] - edges[1][first]) for first, last in ranges)
    widest = int(np.diff(edges[1]).max())  # a target is not divided
    assert most <= pattern.n_edges / (3 * cpu._RANGES) + widest


def test_little_work_wakes_no_thread(figure: BlockPattern) -> None:
    torch.set_num_threads(3)
    ranges: list[tuple[int, int]] = []
    cpu._share(ranges.append, cpu._edges(figure), work=1_000)
    assert ranges == [(0, 5)]


@pytest.mark.parametrize("huge", [1, 2**40])
def test_relu_lets_the_gradient_through_as_the_reference_does(
    huge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_HUGE", huge)
    y, grad = torch.randn(3, 5, 7).relu(), torch.randn(3, 5, 7)
    y[1, 2, 3] = torch.nan
    assert torch.equal(cpu.relu_gradient(grad, y), reference.relu_gradient(grad, y))


def test_large_results_lie_in_huge_pages_and_are_the_same(
    figure: BlockPattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = compute(figure)
    monkeypatch.setattr(cpu, "_HUGE", 1)
    assert same(compute(figure), expected)
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)  # as on other systems
    assert same(compute(figure), expected)


def test_a_kernel_without_huge_pages_is_no_error(
    figure: BlockPattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError(22, "Invalid argument")

    expected = compute(figure)
    monkeypatch.setattr(cpu, "_HUGE", 1)
    monkeypatch.setattr(mmap, "mmap", Refusing)
    assert same(compute(figure), expected)


def test_memory_of_huge_pages_lives_as_long_as_its_tensor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "_HUGE", 1)
    part = cpu._empty((3, 5, 7), torch.empty(0)).fill_(2.0)[1]
    assert part.sum() == 70.0
