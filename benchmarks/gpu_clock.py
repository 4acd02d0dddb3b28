"""Timing on a GPU: CUDA graphs replayed in turn, the rate of a copy, and peak memory."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

Job = Callable[[], object]
WARM_UPS, REPEATS = 3, 20
RISE = 0.5  # seconds of work after which a GPU's clocks have risen
COPIED = 1 << 31  # bytes: many times a GPU's cache
_EVENT: Any = torch.cuda.Event  # torch gives them no types
_STREAM: Any = torch.cuda.Stream


def medians(jobs: Mapping[str, Job], repeats: int = REPEATS) -> dict[str, float]:
    """The median seconds of each job as a CUDA graph, replayed in turn."""
    graphs = {name: record(job) for name, job in jobs.items()}
    _keep_busy(list(graphs.values()))
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, graph in graphs.items():
            begin, end = (_EVENT(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            seconds[name].append(begin.elapsed_time(end) / 1e3)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def record(job: Job) -> torch.cuda.CUDAGraph:
    """Capture a job as a CUDA graph, after a few calls for compilation and allocation."""
    stream = _STREAM()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            job()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        job()
    return graph


def _keep_busy(graphs: list[torch.cuda.CUDAGraph]) -> None:
    """Replay graphs until the device's clocks have risen."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < RISE:
        for graph in graphs:
            graph.replay()
        torch.cuda.synchronize()


def copy_rate() -> float:
    """The bytes per second, read and written, of a large copy.

    A kernel that reads and writes may be faster than the driver's copy.
    """
    source = torch.randn(COPIED // 4, device="cuda")
    target = torch.empty_like(source)
    copies = {
        "driver": lambda: target.copy_(source),
        "kernel": lambda: torch.neg(source, out=target),
    }
    return 2 * COPIED / min(medians(copies).values())


def free_memory() -> None:
    """Free unused memory, and reset the peak."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def peak_gib() -> float:
    """The peak memory of tensors since `free_memory`, in GiB."""
    return torch.cuda.max_memory_allocated() / 2**30
