"""The training loop against its bare step, and the sparse network against the dense one."""

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from benchmarks.measure import Result, at_least, at_most, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the number of threads is set)
import torch  # noqa: E402

from benchmarks.rides import HISTORY, HOURS, WEATHER, random_rides  # noqa: E402
from forecaster.config import LagConfig, ModelConfig, TrainingConfig  # noqa: E402
from forecaster.kernels.pattern import BlockPattern  # noqa: E402
from forecaster.models.layers.neurons import NeuronLayout  # noqa: E402
from forecaster.models.transformer import build_dense_transformer, build_forecaster  # noqa: E402
from forecaster.panel.fill import fit_fill  # noqa: E402
from forecaster.training.distributed import ProcessGroup  # noqa: E402
from forecaster.training.loop import Trainer, train  # noqa: E402
from forecaster.training.loss import count_terms, join_terms, sum_errors  # noqa: E402
from forecaster.training.task import TrainingTask  # noqa: E402
from forecaster.windows.batches import Batches  # noqa: E402
from forecaster.windows.scaling import fit_scaler  # noqa: E402

THREADS = 2
EDGES = 1.25  # per location: an average degree of 2.5, as in the paper
SMALL, PAPER = 57, 996  # locations: Manhattan's zones, the paper's
STEPS = 30
OVERHEAD, GAIN = 1.1, 8.0

T = TypeVar("T")


def main() -> None:
    """Compare the loop with bare steps, then the sparse network with the dense one."""
    note, overhead = _compare_loop()
    locations = 250 if OPTIONS.quick else PAPER
    notes, gain = _compare_networks(locations)
    report(OPTIONS, [note, *notes], [overhead, *gain])


def _compare_loop() -> tuple[str, Result]:
    """Time steps of the training loop with its log, and bare steps, each in a fresh process.

    In CPU time of one thread, which other programs on the machine hardly affect.
    """
    seconds: dict[str, list[float]] = {"loop": [], "bare": []}
    for _ in range(1 if OPTIONS.quick else 5):
        seconds["loop"].append(_in_process(_time_loop))
        seconds["bare"].append(_in_process(_time_bare))
    loop_seconds, bare_seconds = (statistics.median(seconds[kind]) for kind in ("loop", "bare"))
    times = f"{loop_seconds * 1e3:.1f} CPU ms a step, bare {bare_seconds * 1e3:.1f} ms"
    note = f"{SMALL} locations, batch 64: {times}"
    against = "the bare forward, backward and optimiser step"
    return note, at_most("training loop", loop_seconds / bare_seconds, against, OVERHEAD)


def _time_loop() -> float:
    torch.set_num_threads(1)
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        task = _task(SMALL, "sparse", STEPS)
        train(task, folder=Path(folder), on_progress=lambda _: times.append(time.process_time()))
    return statistics.median(np.diff(times[2:STEPS]).tolist())


def _time_bare() -> float:
    torch.set_num_threads(1)
    task = _task(SMALL, "sparse", STEPS)
    batch = task.batches.cut(task.train[: task.config.batch])
    optimiser = torch.optim.AdamW(task.network.parameters(), lr=1e-3, fused=True)
    times = []
    for _ in range(STEPS):
        optimiser.zero_grad()
        forecast = task.teacher_forced(batch)[0]
        errors = sum_errors(forecast, forecast, batch.target, batch.observed, task.mape_cut)
        counts = count_terms(batch.target, batch.observed, task.mape_cut)
        join_terms(errors, counts, task.eta).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        times.append(time.process_time())
    return statistics.median(np.diff(times[2:STEPS]).tolist())


def _in_process(job: Callable[..., T], *arguments: object) -> T:
    """The result of a job in a fresh process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(job, *arguments).result()


def _compare_networks(locations: int) -> tuple[list[str], list[Result]]:
    """Train a few steps of each network in a fresh process, to measure its memory."""
    costs, notes = {}, []
    for kind, steps in (("sparse", 5), ("dense", 3)):
        costs[kind] = _in_process(_measure_network, locations, kind, steps)
        seconds, gib, weights = costs[kind]
        note = f"{locations} locations, {kind}: {seconds:.2f} s a step, {gib:.2f} GiB peak"
        notes.append(f"{note}, {weights:,} weights")
    (sparse, small, _), (dense, large, _) = costs["sparse"], costs["dense"]
    name, against = f"dense step of {locations} locations", "the sparse one"
    speed = at_least(f"{name}, time", dense / sparse, against, GAIN)
    if OPTIONS.quick:  # a smaller city, for which no goal is set
        speed = Result(speed.name, speed.ratio, against)
    return notes, [speed, Result(f"{name}, memory", round(large / small, 3), against)]


def _measure_network(locations: int, kind: str, steps: int) -> tuple[float, float, int]:
    """The median seconds of a step, the peak memory in GiB and the number of weights."""
    torch.set_num_threads(THREADS)
    task = _task(locations, kind, steps)
    trainer = Trainer(task, ProcessGroup(task.device), print)
    trainer.begin(None, 0)
    seconds = []
    for step in range(steps):
        begin = time.perf_counter()
        trainer.train_step(task.train[: task.config.batch], step).tolist()
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gib = peak / (1 << 30 if sys.platform == "darwin" else 1 << 20)
    weights = sum(parameter.numel() for parameter in task.network.parameters())
    return statistics.median(seconds[1:]), gib, weights


def _task(locations: int, kind: str, steps: int) -> TrainingTask:
    """A training task of the paper's network with one epoch of `steps` steps."""
    panel, lags, generator = random_rides(locations), LagConfig(), torch.Generator().manual_seed(0)
    scaler = fit_scaler(panel, np.ones(HOURS, dtype=bool))
    fill = fit_fill(panel, np.ones(HOURS, dtype=bool))
    inputs = NeuronLayout(locations, 1, WEATHER + 32)
    config = TrainingConfig(epochs=1)
    if kind == "sparse":
        pairs = np.random.default_rng(1).integers(0, locations, (int(EDGES * locations), 2))
        pattern = BlockPattern.from_pairs(locations, pairs)
        network = build_forecaster(ModelConfig(), lags, inputs, pattern, generator)
    else:
        network = build_dense_transformer(ModelConfig(), lags, inputs, generator)
    origins = np.random.default_rng(2).integers(HISTORY, HOURS - 3, steps * config.batch)
    batches = Batches(panel, scaler, fill, lags)
    return TrainingTask(
        network, batches, scaler.values, origins, origins[:64], config, mape_cut=10.0
    )


if __name__ == "__main__":
    main()
