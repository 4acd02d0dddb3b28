"""The block-sparse product on a GPU against the memory it must move and against dense products."""

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu_clock import Job, copy_rate, medians
from benchmarks.measure import Result, at_least, at_most
from forecaster.kernels import gpu, norm
from forecaster.kernels.norm import add_norm
from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.product import block_product, block_products

LOCATIONS, NEURONS, DEGREE, COLUMNS = 996, 4, 2.5, 64 * 76  # section 3.2.1; 64 windows
AUXILIARY = 64
SETS = 3  # of inputs, used in turn, so that none of them is in the cache
EXACT = 1e-5  # largest accepted ‖y − exact‖ / ‖exact‖ in float32
PARTS = "forward", "both"
TILES = (128, 256, 512)  # columns of a program
NORM_TILES = ((32, 128, 4), (64, 128, 8))

Measurement = tuple[list[str], list[Result]]
Multiply = Callable[[Tensor], tuple[Tensor, ...]]


def measure_linear() -> Measurement:
    """Compare the product with its lower bound, and with masked dense and low-precision ones."""
    rate, notes = copy_rate(), [f"error against float64: {_error():.1e} (at most {EXACT:g})", ""]
    seconds = medians(_sparse_jobs(torch.float32) | _sparse_jobs(torch.bfloat16))
    seconds |= medians(_sparse_jobs(torch.float32, 3) | _sparse_jobs(torch.bfloat16, 3))
    seconds |= medians(_dense_jobs())
    taken = {name: total / SETS for name, total in seconds.items()}
    floors = {(n, part): _floor(n, part, rate) for n in ("float32", "bfloat16") for part in PARTS}
    notes += [f"copy: {rate / 1e12:.2f} TB/s", "", "| | forward, µs | forward + backward, µs |"]
    notes += ["|---|---|---|"]
    for name in dict.fromkeys(key.rsplit(", ", 1)[0] for key in taken):
        both = (f"{taken[f'{name}, {part}'] * 1e6:.0f}" for part in PARTS)
        notes.append(f"| {name} | {' | '.join(both)} |")
    for kind in ("float32", "bfloat16"):
        parts = (f"{floors[kind, part] * 1e6:.0f}" for part in PARTS)
        notes.append(f"| floor, {kind} | {' | '.join(parts)} |")
    return notes, _judge(taken, floors)


def _judge(taken: dict[str, float], floors: dict[tuple[str, str], float]) -> list[Result]:
    results = []
    for part, of_floor, of_masked in (("forward", 1.5, 50), ("both", 2.0, 40)):
        ours = taken[f"sparse, float32, {part}"]
        against = "moving the memory"
        results += [
            at_most(f"sparse, {part}", ours / floors["float32", part], against, of_floor),
            at_least(
                f"masked dense, {part}", taken[f"masked dense, {part}"] / ours, "sparse", of_masked
            ),
            at_least(f"dense TF32, {part}", taken[f"dense TF32, {part}"] / ours, "sparse", 6),
        ]
        half = taken[f"sparse, bfloat16, {part}"]
        ratio = taken[f"dense bf16, {part}"] / half
        results.append(Result(f"dense bf16, {part}", round(ratio, 3), "sparse in bf16"))
        share = half / floors["bfloat16", part]
        results.append(Result(f"sparse bf16, {part}", round(share, 3), against))
        for kind in ("float32", "bfloat16"):
            saved = 3 * taken[f"sparse, {kind}, {part}"] / taken[f"sparse × 3, {kind}, {part}"]
            name = f"three products, {kind}, {part}"
            results.append(Result(name, round(saved, 3), "three of one state together"))
    return results


def tune() -> Measurement:
    """Compare tile sizes of the products, for one and for three weights, and of the norm."""
    notes = []
    for dtype in (torch.float32, torch.bfloat16):
        for count in (1, 3):
            jobs = _sparse_jobs(dtype, count)
            for part in PARTS:
                job = jobs[f"{_name(dtype, count)}, {part}"]
                tried = {f"{columns} columns": _with(columns, job) for columns in TILES}
                timings = [(taken / SETS, tile) for tile, taken in medians(tried).items()]
                notes += _fastest(f"{count} × {part}, {dtype}", timings)
        notes += _fastest(f"norm, {dtype}", [_time_norm(dtype, tile) for tile in NORM_TILES])
    return notes, []


def _with(columns: int, job: Job) -> Job:
    def run() -> object:
        with patch.object(gpu, "COLUMNS", columns):
            return job()

    return run


def measure_norm() -> Measurement:
    """Compare the norm of a sum with the ten passes over memory that it needs."""
    rate, notes, results = copy_rate(), [], []
    for dtype in (torch.float32, torch.bfloat16):
        taken, _ = _time_norm(dtype, (norm.ROWS, norm.COLUMNS, norm.WARPS))
        passes = 10 * (LOCATIONS * NEURONS + AUXILIARY) * COLUMNS * dtype.itemsize / rate
        notes.append(f"norm, {dtype}: {taken * 1e6:.0f} µs forward + backward")
        results.append(Result(f"norm, {dtype}", round(taken / passes, 3), "ten passes"))
    return notes, results


def _fastest(title: str, timings: list[tuple[float, str]]) -> list[str]:
    return ["", title, *(f"{taken * 1e6:8.1f} µs  {tile}" for taken, tile in sorted(timings))]


def _time_norm(dtype: torch.dtype, tile: tuple[int, int, int]) -> tuple[float, str]:
    """The seconds of the norm with its gradients, and the size of its tile."""
    shapes = (LOCATIONS, NEURONS, 64, 76), (AUXILIARY, 64, 76)
    width = LOCATIONS * NEURONS + AUXILIARY
    x, y, g = ([_draw(*shape, dtype=dtype) for shape in shapes] for _ in range(3))
    gain, bias = (_draw(width, 1, 1, dtype=dtype) for _ in range(2))
    needed = [*x, *y, gain, bias]

    def job() -> object:
        z = add_norm((x[0], x[1]), (y[0], y[1]), gain, bias, 1e-5)
        return torch.autograd.grad(z, needed, g)

    rows, columns, warps = tile
    with patch.multiple(norm, ROWS=rows, COLUMNS=columns, WARPS=warps):
        return medians({"norm": job})["norm"], f"{rows} × {columns}, {warps} warps"


def _sparse_jobs(dtype: torch.dtype, count: int = 1) -> dict[str, Job]:
    """Products of a state with `count` weights."""
    pattern = random_pattern(LOCATIONS)
    weights = [_draw(pattern.n_edges, NEURONS, NEURONS, dtype=dtype) for _ in range(count)]
    states = [_draw(LOCATIONS, NEURONS, COLUMNS, dtype=dtype) for _ in range(SETS)]
    name = _name(dtype, count)
    return _jobs(name, lambda x: block_products(weights, x, pattern), weights, states)


def _dense_jobs() -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    width = LOCATIONS * NEURONS
    for name, dtype, precision in (
        ("masked dense", torch.float32, "highest"),
        ("dense TF32", torch.float32, "high"),
        ("dense bf16", torch.bfloat16, "high"),
    ):
        weight = _draw(width, width, dtype=dtype)
        states = [_draw(width, COLUMNS, dtype=dtype) for _ in range(SETS)]
        multiply = _dense_product(weight, masked=name == "masked dense")
        dense_jobs = _jobs(name, multiply, [weight], states)
        jobs |= {key: _with_precision(precision, job) for key, job in dense_jobs.items()}
    return jobs


def _dense_product(weight: Tensor, *, masked: bool) -> Multiply:
    if not masked:
        return lambda x: (weight @ x,)
    mask = (torch.rand_like(weight) < (1 + DEGREE) / LOCATIONS).to(weight)
    return lambda x: ((weight * mask) @ x,)


def _jobs(
    name: str, multiply: Multiply, weights: list[Tensor], states: list[Tensor]
) -> dict[str, Job]:
    """Products of all states, without and with their gradients."""
    grads = [[torch.randn_like(y) for y in multiply(x.detach())] for x in states]

    def forward() -> object:
        with torch.no_grad():
            return [multiply(x) for x in states]

    def both() -> object:
        pairs = zip(states, grads, strict=True)
        return [torch.autograd.grad(multiply(x), (*weights, x), g) for x, g in pairs]

    return {f"{name}, forward": forward, f"{name}, both": both}


def _with_precision(precision: str, job: Job) -> Job:
    def run() -> object:
        torch.set_float32_matmul_precision(precision)
        try:
            return job()
        finally:
            torch.set_float32_matmul_precision("highest")

    return run


def _error() -> float:
    """The largest relative error of the product and its gradients."""
    pattern = random_pattern(LOCATIONS)
    weight = _draw(pattern.n_edges, NEURONS, NEURONS)
    state, grad = (_draw(LOCATIONS, NEURONS, COLUMNS) for _ in range(2))
    results, exact = (
        _differentiate(weight, state, grad, pattern, backend, dtype)
        for backend, dtype in (("triton", torch.float32), ("reference", torch.float64))
    )
    errors = ((a.double() - b).norm() / b.norm() for a, b in zip(results, exact, strict=True))
    worst = max(float(error) for error in errors)
    if not worst <= EXACT:
        raise SystemExit(f"the relative error of the product is {worst:.1e}; nothing was measured")
    return worst


def _differentiate(
    weight: Tensor,
    state: Tensor,
    grad: Tensor,
    pattern: BlockPattern,
    backend: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    w, x, g = (t.detach().to(dtype) for t in (weight, state, grad))
    w, x = w.requires_grad_(), x.requires_grad_()
    y = block_product(w, x, pattern, backend=backend)
    return [y.detach(), *torch.autograd.grad(y, (w, x), g)]


def random_pattern(locations: int, degree: float = DEGREE) -> BlockPattern:
    """A random graph of an average degree."""
    generator = np.random.default_rng(0)
    pairs = generator.integers(0, locations, (4 * locations, 2))
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    edges = generator.permutation(pairs)[: round(locations * degree / 2)]
    return BlockPattern.from_pairs(locations, edges)


def _floor(kind: str, part: str, rate: float) -> float:
    states = {"forward": 2, "both": 5}  # that must move: x and y; then ∂y, x once more and ∂x
    size = 4 if kind == "float32" else 2
    return states[part] * LOCATIONS * NEURONS * COLUMNS * size / rate


def _name(dtype: torch.dtype, count: int = 1) -> str:
    several = "" if count == 1 else f" × {count}"
    return f"sparse{several}, {str(dtype).removeprefix('torch.')}"


def _draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    drawn = torch.randn(*shape, device="cuda").to(dtype)
    return drawn.requires_grad_()
