"""The paper's run on one GPU: generate the city at full size, learn its graph, train and test."""

import statistics
import time

import numpy as np
import torch

from benchmarks.gpu_clock import copy_rate, free_memory, peak_gib
from benchmarks.gpu_linear import Measurement
from benchmarks.gpu_steps import CUDA, measure
from benchmarks.measure import Result, at_most
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import GraphConfig, LagConfig, ModelConfig, TrainingConfig
from forecaster.graph.learn import learn_graph
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.models.transformer import build_forecaster
from forecaster.panel.fill import fit_fill
from forecaster.splits import SPLITS, Splits, assign_splits, cut_windows
from forecaster.synthetic.city import City, make_city
from forecaster.training.loop import train
from forecaster.training.progress import ProgressUpdate, TrainingResult
from forecaster.training.task import TrainingTask
from forecaster.windows.batches import Batches
from forecaster.windows.scaling import fit_scaler

PAPER = Splits(  # section 3.1
    train=[("2009-01-01", "2011-12-31"), ("2012-07-01", "2015-06-30")],
    validation=[("2012-01-01", "2012-06-30")],
    test=[("2015-07-01", "2016-06-30")],
)
EPOCHS, GOAL_SECONDS, LATENCIES = 30, 300.0, 50
PASSES = 84  # over the encoder's state in one step: docs/gpu.md counts them


def measure_paper(*, quick: bool) -> Measurement:
    """Generate, learn the graph, train, test; the seconds of each, and their lower bound."""
    times = [time.perf_counter()]
    city = make_city(locations=57, hours=9_000) if quick else make_city()
    splits = Splits.by_share(city.panel) if quick else PAPER
    times.append(time.perf_counter())
    graph = learn_graph(city.panel, splits, GraphConfig(degree=2.5))
    times.append(time.perf_counter())
    free_memory()
    task, test = _task(city, splits, graph.pairs, epochs=2 if quick else EPOCHS)
    times.append(time.perf_counter())
    result = train(task, on_progress=_print_message)
    times.append(time.perf_counter())
    peak = peak_gib()
    notes = _describe(np.diff(times).tolist(), task, result, peak)
    more, accuracy = _test(city, task, test)
    locations = len(city.locations)
    dense = measure(locations, "dense", "float32", matmul="high").seconds * task.epoch_steps
    notes += [*more, f"dense Transformer as wide, TF32: {dense:.1f} s an epoch by its steps"]
    total = times[-1] - times[0]
    against = f"{GOAL_SECONDS:g} s"
    epoch = statistics.median(record.seconds for record in result.records)
    return notes, [
        at_most("the paper's run in total", total / GOAL_SECONDS, against, 1.0),
        Result("an epoch of the dense Transformer", round(dense / epoch, 3), "ours, validated"),
        Result("RMSE", round(accuracy, 4), "the city's lower bound"),
    ]


def _task(
    city: City, splits: Splits, pairs: np.ndarray, epochs: int
) -> tuple[TrainingTask, np.ndarray]:
    """The training task, and the origins to test on."""
    panel, lags, N = city.panel, LagConfig(), len(city.locations)
    windows = cut_windows(panel, splits, lags)
    train_steps = assign_splits(panel, splits) == SPLITS.index("train")
    scaler = fit_scaler(panel, train_steps)
    inputs = NeuronLayout(N, 1, len(panel.covariates.names) + len(CALENDAR_COLUMNS))
    pattern, generator = BlockPattern.from_pairs(N, pairs), torch.Generator().manual_seed(0)
    network = build_forecaster(ModelConfig(), lags, inputs, pattern, generator)
    task = TrainingTask(
        network=network.to(CUDA),
        batches=Batches(panel, scaler, fit_fill(panel, train_steps), lags, str(CUDA)),
        scale=scaler.values,
        train=windows.train,
        validation=windows.validation,
        config=TrainingConfig(epochs=epochs, patience=epochs),
        mape_cut=10.0,
    )
    return task, windows.test


def _print_message(update: ProgressUpdate) -> None:
    if update.message:
        print(update.message, flush=True)


def _describe(
    seconds: list[float], task: TrainingTask, result: TrainingResult, peak: float
) -> list[str]:
    names = "city generated", "graph learned", "task prepared", "trained"
    notes = [f"{name}: {taken:.1f} s" for name, taken in zip(names, seconds, strict=True)]
    epochs = [record.seconds for record in result.records]
    layout = task.network.inputs
    width = layout.n_locations * ModelConfig().per_location + ModelConfig().auxiliary
    moved = PASSES * width * task.config.batch * task.network.L * 4
    floor = moved / copy_rate() * task.epoch_steps
    typical = statistics.median(epochs)
    notes.append(
        f"{len(epochs)} epochs of {task.epoch_steps} steps: {typical:.2f} s each with its "
        f"validation, the first {epochs[0]:.2f} s; {peak:.2f} GiB peak"
    )
    return [*notes, f"lower bound of an epoch's steps: {floor:.2f} s, {floor / typical:.0%} of it"]


def _test(city: City, task: TrainingTask, test: np.ndarray) -> tuple[list[str], float]:
    """The test error as a multiple of its lower bound, and the latency of a forecast."""
    squares, K = torch.zeros((), dtype=torch.float64, device=CUDA), task.network.K
    with torch.inference_mode():
        for begin in range(0, len(test), 64):
            batch = task.batches.cut(test[begin : begin + 64])
            squares += (task.roll_out(batch).forecast - batch.target).double().square().sum()
        latencies = [_time_forecast(task, test[i : i + 1]) for i in range(LATENCIES)]
    rmse = float((squares / (len(test) * len(city.locations) * K)).sqrt())
    floor = float(np.sqrt(np.mean(np.square(city.floor(test, K)))))
    latency = (
        f"{K} hours of all locations from one origin: {statistics.median(latencies) * 1e3:.2f} ms"
    )
    return [f"test RMSE {rmse:.4f}, lower bound {floor:.4f}", latency], rmse / floor


def _time_forecast(task: TrainingTask, origin: np.ndarray) -> float:
    begin = time.perf_counter()
    task.roll_out(task.batches.cut(origin)).forecast.cpu()
    return time.perf_counter() - begin
