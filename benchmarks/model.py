"""Forecaster at the paper's size: a forecast, a training step, and the dense Transformer's."""

from dataclasses import replace

from benchmarks.measure import at_most, medians, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the number of threads is set)
import torch  # noqa: E402
from torch.profiler import profile  # noqa: E402

from forecaster.config import LagConfig, ModelConfig  # noqa: E402
from forecaster.kernels.pattern import BlockPattern  # noqa: E402
from forecaster.models.layers.neurons import NeuronLayout, State  # noqa: E402
from forecaster.models.transformer import (  # noqa: E402
    TransformerNetwork,
    build_dense_transformer,
    build_forecaster,
)

LOCATIONS, COVARIATES, BATCH = 996, 39, 64
SMALL = 249  # locations of the dense Transformer with --quick
PART = 8  # windows whose states fit into a processor's cache
DEGREE = 2.5
LAGS, CONFIG = LagConfig(), ModelConfig()  # the paper's
THREADS, REPEATS = 2, 3
GOAL = 1 / 8  # of the dense Transformer's step at the paper's size

Windows = tuple[State, State, torch.Tensor]  # history, ahead, truth


def main() -> None:
    """Print milliseconds, their shares, and the ratio to the dense Transformer."""
    torch.set_num_threads(THREADS)
    model = _forecaster(LOCATIONS)
    notes = [f"{LOCATIONS} locations, {_count(model):,} weights, {THREADS} threads"]
    notes += [_forecast_note(model), *_step_notes(model)]
    N = SMALL if OPTIONS.quick else LOCATIONS
    sparse, dense, windows = _forecaster(N), _dense(N), _windows(N, BATCH)
    jobs = {
        f"Forecaster, {N} locations": lambda: _train(sparse, windows, PART),
        f"dense Transformer, {N} locations": lambda: _train(dense, windows, BATCH),
    }
    seconds = medians(jobs, REPEATS)
    notes += [_line(name, taken) for name, taken in seconds.items()]
    sparse_seconds, dense_seconds = seconds.values()
    against = f"the Transformer of the same width, {_count(dense):,} weights"
    goal = at_most("training step of Forecaster", sparse_seconds / dense_seconds, against, GOAL)
    report(OPTIONS, notes, [replace(goal, goal=None, met=None) if OPTIONS.quick else goal])


def _forecast_note(model: TransformerNetwork) -> str:
    history, ahead, _ = _windows(LOCATIONS, 1)
    with torch.no_grad():
        seconds = medians({"forecast": lambda: model.roll_out(history, ahead)}, 50)
    return _line("a forecast of all locations from one origin", seconds["forecast"])


def _step_notes(model: TransformerNetwork) -> list[str]:
    """The time of a training step, at once and in micro-batches, and the shares of its parts."""
    windows = _windows(LOCATIONS, BATCH)
    jobs = {
        f"forward + backward of {BATCH} windows at once": lambda: _train(model, windows, BATCH),
        f"forward + backward of {BATCH} windows, {PART} at a time": lambda: _train(
            model, windows, PART
        ),
    }
    seconds = medians(jobs, REPEATS)
    with profile() as trace:
        _train(model, windows, PART)
    events = {event.key: event for event in trace.key_averages()}
    total = sum(event.self_cpu_time_total for event in events.values())
    shares = {
        "sparse products": ("_BlockProduct", "_BlockProductBackward"),
        "products of attention": ("aten::bmm",),
    }
    parts = {name: sum(events[k].cpu_time_total for k in keys) for name, keys in shares.items()}
    parts["other operations"] = total - sum(parts.values())
    lines = [f"  {name:48} {100 * part / total:10.0f} %" for name, part in parts.items()]
    return [_line(name, taken) for name, taken in seconds.items()] + lines


def _line(name: str, seconds: float) -> str:
    return f"{name:50} {seconds * 1e3:10,.1f} ms"


def _train(model: TransformerNetwork, windows: Windows, size: int) -> None:
    """Sum the gradients of all windows, `size` windows at a time."""
    model.zero_grad(set_to_none=True)
    history, ahead, truth = windows
    for start in range(0, BATCH, size):
        rows = slice(start, start + size)
        past, coming = (
            State(s.signal[:, :, rows], s.auxiliary[:, rows]) for s in (history, ahead)
        )
        model(past, coming, truth[:, rows])[0].square().sum().backward()


def _forecaster(N: int) -> TransformerNetwork:
    """The paper's Forecaster on a random graph of its average degree."""
    pairs = np.random.default_rng(0).integers(0, N, (round(N * DEGREE / 2), 2))
    pattern, generator = BlockPattern.from_pairs(N, pairs), torch.Generator().manual_seed(0)
    return build_forecaster(CONFIG, LAGS, NeuronLayout(N, 1, COVARIATES), pattern, generator)


def _dense(N: int) -> TransformerNetwork:
    generator = torch.Generator().manual_seed(0)
    return build_dense_transformer(CONFIG, LAGS, NeuronLayout(N, 1, COVARIATES), generator)


def _windows(N: int, B: int) -> Windows:
    generator = torch.Generator().manual_seed(1)
    L, K = LAGS.length, LAGS.horizon

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    history, ahead = State(draw(N, 1, B, L), draw(COVARIATES, B, L)), draw(COVARIATES, B, K)
    return history, State(draw(N, 0, B, K), ahead), draw(N, B, K - 1)


def _count(model: TransformerNetwork) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    main()
