"""Training steps on a GPU: sparse and dense, replayed and launched, and their growth."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu_clock import free_memory, peak_gib
from benchmarks.gpu_linear import Measurement, random_pattern
from benchmarks.measure import Result, at_least, at_most
from benchmarks.rides import HISTORY, HOURS, WEATHER, random_rides
from forecaster.choices import Precision
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import LagConfig, MixerConfig, ModelConfig, TrainingConfig
from forecaster.kernels import norm, product
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.models.mixer.mixer import Mixer, MixerPrerequisites
from forecaster.models.mixer.seasonal import SeasonalProfile
from forecaster.models.network import Network
from forecaster.models.transformer import build_dense_transformer, build_forecaster
from forecaster.panel.fill import fit_fill
from forecaster.recipe import PRESETS
from forecaster.training.cuda_graphs import CudaGraphs
from forecaster.training.distributed import ProcessGroup
from forecaster.training.loop import Trainer
from forecaster.training.reproducibility import reproducible
from forecaster.training.task import TrainingTask
from forecaster.windows.batches import Batches
from forecaster.windows.profile import fit_profile
from forecaster.windows.scaling import fit_scaler

PAPER, SMALL = 996, 57  # locations: the paper's, Manhattan's zones
SIZES = (250, 996, 2_000, 4_000, 8_600)
WARM_UPS, STEPS, BLOCKS, SHOWN = 5, 10, 5, 25  # the first block of steps is not counted
AUXILIARY = WEATHER + len(CALENDAR_COLUMNS)
CUDA = torch.device("cuda", 0)


class Cost(NamedTuple):
    """The cost of a training step."""

    seconds: float
    gib: float  # peak
    edges: int
    weights: int


def measure_step(locations: int = PAPER) -> Measurement:
    """Compare steps of the paper's network with those of the dense one as wide."""
    rows = {
        "sparse, float32": measure(locations, "sparse", "float32"),
        "sparse, TF32": measure(locations, "sparse", "float32", matmul="high"),
        "dense, TF32": measure(locations, "dense", "float32", matmul="high"),
        "sparse, bf16": measure(locations, "sparse", "bf16"),
        "dense, bf16": measure(locations, "dense", "bf16"),
        "best, TF32": measure(locations, "best", "float32", matmul="high"),
    }
    notes = [f"{locations} locations, 64 windows", "", "| | ms a step | GiB peak | weights |"]
    notes += ["|---|---|---|---|"]
    notes += [
        f"| {name} | {c.seconds * 1e3:.2f} | {c.gib:.2f} | {c.weights:,} |"
        for name, c in rows.items()
    ]
    results = []
    for sparse_name, dense_name in (
        ("sparse, float32", "dense, TF32"),
        ("sparse, TF32", "dense, TF32"),
        ("sparse, bf16", "dense, bf16"),
    ):
        sparse, dense = rows[sparse_name], rows[dense_name]
        results += [
            at_least(f"step, {dense_name}", dense.seconds / sparse.seconds, sparse_name, 4),
            at_most(f"memory, {sparse_name}", sparse.gib / dense.gib, dense_name, 1 / 3),
        ]
    best, dense = rows["best, TF32"], rows["dense, TF32"]
    results += [
        at_least("step, dense, TF32", dense.seconds / best.seconds, "best, TF32", 2),
        at_most("weights, best", best.weights / dense.weights, "dense", 0.05),
    ]
    return notes, results


def measure_small() -> Measurement:
    """Compare a replayed step of a small city with plain torch, launched kernel by kernel."""
    ours = measure(SMALL, "sparse", "float32")
    with plain_torch():
        theirs = measure(SMALL, "sparse", "float32")
    with patch.object(CudaGraphs, "replay", lambda *_: None):
        launched = measure(SMALL, "sparse", "float32")
    notes = [f"{SMALL} locations, 64 windows", "", "| | ms a step |", "|---|---|"]
    for name, cost in (
        ("replayed", ours),
        ("launched, with our kernels", launched),
        ("plain torch, launched", theirs),
    ):
        notes.append(f"| {name} | {cost.seconds * 1e3:.3f} |")
    ratio = theirs.seconds / ours.seconds
    return notes, [at_least(f"plain torch, {SMALL} locations", ratio, "replayed", 5)]


def measure_growth(sizes: tuple[int, ...] = SIZES) -> Measurement:
    """Measure time and memory of a step as locations and edges grow."""
    rows = {size: measure(size, "sparse", "float32") for size in sizes}
    notes = ["| locations | edges | ms a step | ns an edge · column | GiB peak | KiB an edge |"]
    notes += ["|---|---|---|---|---|---|"]
    for size, cost in rows.items():
        pace = cost.seconds / (cost.edges * 64 * 76) * 1e9
        share = cost.gib * 2**20 / cost.edges
        cells = f"{size:,} | {cost.edges:,} | {cost.seconds * 1e3:.2f} | {pace:.3f}"
        notes.append(f"| {cells} | {cost.gib:.2f} | {share:.0f} |")
    large, paper = rows[sizes[-1]], rows[PAPER]
    seconds = (large.seconds / large.edges) / (paper.seconds / paper.edges)
    gib = (large.gib / large.edges) / (paper.gib / paper.edges)
    against = f"that of {PAPER}"
    return notes, [
        Result(f"time of an edge of {sizes[-1]:,}", round(seconds, 3), against),
        Result(f"memory of an edge of {sizes[-1]:,}", round(gib, 3), against),
    ]


def show_profile(locations: int = PAPER) -> Measurement:
    """List the GPU time of each kernel in a launched step."""
    notes = []
    for precision in ("float32", "bf16"):
        with patch.object(CudaGraphs, "replay", lambda *_: None), reproducible(CUDA):
            task, trainer = _begin(locations, "sparse", precision)
            for step in range(WARM_UPS):
                trainer.train_step(task.train[:64], step)
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
                trainer.train_step(task.train[:64], WARM_UPS)
                torch.cuda.synchronize()
        notes += ["", f"{precision}:"]
        table = trace.key_averages().table(sort_by="self_cuda_time_total", row_limit=SHOWN)
        notes += [line[:60] + line[-70:] for line in table.splitlines()]
        del task, trainer
        free_memory()
    return notes, []


def measure(locations: int, kind: str, precision: Precision, *, matmul: str = "highest") -> Cost:
    """The cost of a step of the training loop's `Trainer`, starting with free memory."""
    free_memory()
    torch.set_float32_matmul_precision(matmul)
    with reproducible(CUDA):
        task, trainer = _begin(locations, kind, precision)
        seconds = [_time_steps(trainer, task, STEPS) for _ in range(1 + BLOCKS)]
    torch.set_float32_matmul_precision("highest")
    edges, weights = random_pattern(locations).n_edges, trainer.weights.vector.numel()
    return Cost(statistics.median(seconds[1:]), peak_gib(), edges, weights)


def _time_steps(trainer: Trainer, task: TrainingTask, steps: int) -> float:
    """The mean seconds of several steps; the host runs ahead, as in training."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for step in range(steps):
        trainer.train_step(task.train[:64], step)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / steps


@contextmanager
def plain_torch() -> Iterator[None]:
    """Compute without our kernels and without CUDA graphs."""
    with (
        patch.object(product, "choose_backend", lambda *_: "reference"),
        patch.object(norm, "choose_backend", lambda *_: "reference"),
        patch.object(CudaGraphs, "replay", lambda *_: None),
    ):
        yield


def _begin(locations: int, kind: str, precision: Precision) -> tuple[TrainingTask, Trainer]:
    task = make_task(locations, kind, precision)
    trainer = Trainer(task, ProcessGroup(task.device), print)
    trainer.begin(None, 0)
    return task, trainer


def make_task(locations: int, kind: str, precision: Precision) -> TrainingTask:
    """A training task on the GPU: random counts, the paper's lags and sizes."""
    panel, lags = random_rides(locations), LagConfig()
    train_steps = np.ones(HOURS, dtype=bool)
    scaler, fill = fit_scaler(panel, train_steps), fit_fill(panel, train_steps)
    inputs, generator = NeuronLayout(locations, 1, AUXILIARY), torch.Generator().manual_seed(0)
    changes: dict[str, Any] = {"epochs": 2, "precision": precision}
    network: Network
    if kind == "dense":
        network = build_dense_transformer(ModelConfig(), lags, inputs, generator)
    elif kind == "sparse":
        pattern = random_pattern(locations)
        network = build_forecaster(ModelConfig(), lags, inputs, pattern, generator)
    else:
        changes = {**PRESETS["best"]["training"], **changes}
        parts = fit_profile(panel, train_steps), scaler.values.mean, scaler.values.deviation
        level = SeasonalProfile(*map(torch.from_numpy, parts), counts=True)
        fitted = MixerPrerequisites(level, random_pattern(locations))
        network = Mixer(MixerConfig(), lags, inputs, fitted, generator)
    origins = np.random.default_rng(2).integers(HISTORY, HOURS - 3, 64 * STEPS)
    return TrainingTask(
        network.to(CUDA),
        Batches(panel, scaler, fill, lags, str(CUDA)),
        scaler.values,
        origins,
        origins[:64],
        TrainingConfig(**changes),
        mape_cut=10.0,
    )
