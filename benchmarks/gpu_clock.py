"""How the GPU's benchmarks measure: CUDA graphs replayed in turns, and what a copy moves."""

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
    """Return the median seconds of each job, replayed in turns: no launch is waited for."""
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
    """Return a job as a CUDA graph, after it has compiled and allocated what it needs."""
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
    """Return the bytes, read and written, that a large copy moves in a second.

    A program that reads and writes is faster there than the driver's own copy.
    """
    source = torch.randn(COPIED // 4, device="cuda")
    target = torch.empty_like(source)
    ways = {
        "driver": lambda: target.copy_(source),
        "program": lambda: torch.neg(source, out=target),
    }
    return 2 * COPIED / min(medians(ways).values())


def free_memory() -> None:
    """Give back what nobody holds, and count the peak anew."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def peak_gib() -> float:
    """Return the most memory that tensors took at once since `free_memory`."""
    return torch.cuda.max_memory_allocated() / 2**30
