"""The block-sparse product at the paper's size against dense, CSR and memory-bound products."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Result, at_most, medians, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the number of threads is set)
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from forecaster.kernels.pattern import BlockPattern  # noqa: E402
from forecaster.kernels.product import block_product  # noqa: E402

LOCATIONS, NEURONS, DEGREE, COLUMNS = 996, 4, 2.5, 64 * 76  # section 3.2.1; 64 windows
SIZES = (250, 996, 2_000, 4_000, 8_600)
DEGREES = (1.25, 2.5, 5.0, 10.0)
FEW_COLUMNS = (76, 1)  # one window: its history, and one step of a roll-out
THREADS = 2
REPEATS = 3 if OPTIONS.quick else 9

Inputs = tuple[Tensor, Tensor, BlockPattern]  # weight, state
Product = Callable[[], Tensor]


@dataclass(frozen=True)
class Row:
    """The cost of a product on one graph."""

    locations: int
    edges: int
    forward: float  # seconds
    both: float  # forward and backward
    peak: float  # additional memory of both, in sizes of the output

    def __str__(self) -> str:
        N, E = self.locations, self.edges
        times = f"{self.forward * 1e3:7.1f} ms {self.both * 1e3:8.1f} ms"
        pace = self.both / (E * COLUMNS) * 1e9
        return f"{N:5} {(E - N) / N:7.2f} {E:7} {times} {pace:11.2f} ns {self.peak:20.2f}"


def main() -> None:
    """Compare at the paper's size, then measure how cost grows with locations, edges, columns."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    notes, results = _compare(_inputs(LOCATIONS, DEGREE, COLUMNS))
    by_size = [_measure(_inputs(size, DEGREE, COLUMNS)) for size in SIZES]
    by_degree = [_measure(_inputs(LOCATIONS, degree, COLUMNS)) for degree in DEGREES]
    head = "    N  degree   edges    forward  + backward  edge · column  added memory / output"
    notes += ["", head, *map(str, by_size + by_degree), ""]
    results += _growth(by_size, by_degree)
    for columns in FEW_COLUMNS:
        more_notes, more_results = _compare_few(columns)
        notes += more_notes
        results += more_results
    report(OPTIONS, notes, results)


def _compare(inputs: Inputs) -> tuple[list[str], list[Result]]:
    """Measure all products at the paper's size; the lower bound is moving the memory."""
    weight, state, pattern = inputs
    dense, mask, csr = _dense_of(inputs)
    flat = state.detach().reshape(-1, COLUMNS).requires_grad_()
    products: dict[str, tuple[Product, list[Tensor]]] = {
        "block": (lambda: block_product(weight, state, pattern), [weight, state]),
        "masked dense": (lambda: (dense * mask) @ flat, [dense, flat]),
        "CSR": (lambda: torch.sparse.mm(csr, flat), [csr, flat]),
    }
    copy = torch.empty_like(state)
    jobs: dict[str, Callable[[], object]] = {"copy": lambda: copy.copy_(state.detach())}
    for name, (product, needed) in products.items():
        jobs[f"{name}, forward"] = _forward(product)
        jobs[f"{name}, both"] = _both(product, needed)
    seconds = medians(jobs, REPEATS)
    notes = [f"{len(state)} × {NEURONS} neurons, {len(weight):,} blocks, {COLUMNS:,} columns"]
    notes += [f"{name:24} {taken * 1e3:9.2f} ms" for name, taken in seconds.items()]
    results = []
    for name, forward_goal, both_goal in (("masked dense", 8, 10), ("CSR", None, None)):
        for part, goal in (("forward", forward_goal), ("both", both_goal)):
            ratio = seconds[f"{name}, {part}"] / seconds[f"block, {part}"]
            results.append(_at_least(f"{name}, {part}", ratio, "block_product", goal))
    # a copy moves two states; forward 2 (x, y), backward 3 more (∂y, x and ∂x)
    for part, states in (("forward", 2), ("both", 5)):
        ratio = seconds[f"block, {part}"] / (seconds["copy"] * states / 2)
        results.append(Result(f"block_product, {part}", round(ratio, 3), "moving the memory"))
    return notes, results


def _compare_few(columns: int) -> tuple[list[str], list[Result]]:
    """Measure a product of few columns, as in a forecast from one origin."""
    inputs = _inputs(LOCATIONS, DEGREE, columns)
    weight, state, pattern = (inputs[0].detach(), inputs[1].detach(), inputs[2])
    dense, mask, _ = _dense_of(inputs)
    masked, flat = (dense * mask).detach(), state.reshape(-1, columns)
    jobs: dict[str, Callable[[], object]] = {
        "block": lambda: block_product(weight, state, pattern),
        "reference": lambda: block_product(weight, state, pattern, backend="reference"),
        "dense, masked before": lambda: masked @ flat,
    }
    # One after the other: the dense matrix would evict the inputs of the others from the cache.
    seconds = {name: medians({name: job}, 20 * REPEATS)[name] for name, job in jobs.items()}
    notes = [f"R = {columns:2} {name:24} {taken * 1e6:7.0f} µs" for name, taken in seconds.items()]
    results = [
        _at_least(f"{name}, R = {columns}", seconds[name] / seconds["block"], "block_product")
        for name in ("reference", "dense, masked before")
    ]
    return notes, results


def _measure(inputs: Inputs) -> Row:
    weight, state, pattern = inputs

    def product() -> Tensor:
        return block_product(weight, state, pattern)

    both = _both(product, [weight, state])
    seconds = medians({"forward": _forward(product), "both": both}, REPEATS)
    peak = _peak_bytes(both) / (state.numel() * state.element_size())
    return Row(len(state), len(weight), seconds["forward"], seconds["both"], peak)


def _growth(by_size: list[Row], by_degree: list[Row]) -> list[Result]:
    """The cost of a location and of an edge at the largest sizes, relative to the paper's."""
    paper, largest, densest = by_size[SIZES.index(LOCATIONS)], by_size[-1], by_degree[-1]
    location = (largest.both / largest.locations) / (paper.both / paper.locations)
    edge = (densest.both / densest.edges) / (paper.both / paper.edges)
    per_location, per_edge = f"that of {LOCATIONS}", f"that of degree {DEGREE:g}"
    return [
        Result(f"a location of {largest.locations:,}", round(location, 3), per_location),
        Result(f"an edge of degree {DEGREES[-1]:g}", round(edge, 3), per_edge),
        at_most("peak memory, forward + backward", paper.peak, "output", 4.0),
    ]


def _forward(product: Product) -> Callable[[], object]:
    def run() -> Tensor:
        with torch.no_grad():
            return product()

    return run


def _both(product: Product, needed: list[Tensor]) -> Callable[[], object]:
    """A job that multiplies and computes the gradients."""
    grad = torch.randn_like(product().detach())
    return lambda: torch.autograd.grad(product(), needed, grad)


def _inputs(locations: int, degree: float, columns: int) -> Inputs:
    """A weight and a state on a random graph of the given average degree."""
    generator = np.random.default_rng(0)
    wanted, pairs = round(locations * degree / 2), np.empty((0, 2), np.int64)
    while len(pairs) < wanted:
        more = np.sort(generator.integers(0, locations, (wanted, 2)), axis=1)
        pairs = np.unique(np.concatenate([pairs, more[more[:, 0] < more[:, 1]]]), axis=0)
    pattern = BlockPattern.from_pairs(locations, generator.permutation(pairs)[:wanted])
    weight = torch.randn(pattern.n_edges, NEURONS, NEURONS, requires_grad=True)
    state = torch.randn(locations, NEURONS, columns, requires_grad=True)
    return weight, state, pattern


def _dense_of(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """The weights as a dense matrix, its mask, and a CSR matrix."""
    weight, state, pattern = inputs
    N, C, _ = state.shape
    blocks = torch.zeros(N, N, C, C)
    blocks[pattern.target, pattern.source] = weight.detach()
    dense = blocks.transpose(1, 2).reshape(N * C, N * C)
    with warnings.catch_warnings(action="ignore"):  # torch calls its CSR tensors a beta
        csr = dense.to_sparse_csr().requires_grad_()
    return dense.requires_grad_(), (dense != 0).float(), csr


def _at_least(name: str, ratio: float, against: str, goal: float | None = None) -> Result:
    text = None if goal is None else f"≥ {goal:g}"
    return Result(name, round(ratio, 3), against, text, None if goal is None else ratio >= goal)


def _peak_bytes(job: Callable[[], object]) -> float:
    """The peak of additional memory while the job ran, in bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    except OSError:
        return float("nan")  # not Linux
    before = _memory("VmRSS")
    job()
    return _memory("VmHWM") - before


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
