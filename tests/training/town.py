"""A task small enough to be trained in a second, importable by the processes that tests start.

N = 5 locations over M = 331 hours, L = 5 past and K = 3 coming steps; C = 2 and A = 4 neurons for
H = 2 heads; 37 training windows in batches of 8: 5 steps per epoch, the last of 5 windows.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from forecaster.clock.clock import Clock
from forecaster.config import (
    DCRNNConfig,
    LagConfig,
    MixerConfig,
    ModelConfig,
    Season,
    TrainingConfig,
)
from forecaster.errors import ForecasterError
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.dcrnn import DCRNNNetwork
from forecaster.models.layers.neurons import NeuronLayout
from forecaster.models.mixer.mixer import Mixer, MixerPrerequisites
from forecaster.models.mixer.seasonal import DeviationBounds, SeasonalProfile
from forecaster.models.network import Heads
from forecaster.models.transformer import build_forecaster
from forecaster.panel.fill import fit_fill
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.training.loop import LOG, train
from forecaster.training.task import TrainingTask
from forecaster.windows.batches import Batches
from forecaster.windows.profile import fit_bounds, fit_city_shape, fit_profile, share_known
from forecaster.windows.scaling import fit_scaler

PLACES, HOURS, TRAIN, VALIDATION = 5, 331, 37, 13
LAGS = LagConfig(recent=3, seasons=(Season(days=1, count=2, before=0, after=0),), horizon=3)
PAIRS = np.array([(0, 1), (1, 2), (2, 3)])  # location 4 has no neighbour
CONFIG = TrainingConfig(batch=8, epochs=4, patience=4, checkpoint_steps=3, learning_rate=1e-2)


def make_panel(level: float = 23.0) -> Panel:
    """Return counts with a daily cycle, some of them missing, and one covariate of each kind."""
    generator = np.random.default_rng(11)
    cycle = 1 + 0.5 * np.sin(np.arange(HOURS) * np.pi / 12)
    values = generator.poisson(level * cycle[:, None], (HOURS, PLACES)).astype(np.float32)
    values[generator.random(values.shape) < 0.02] = np.nan
    return Panel(
        values=values,
        start=np.datetime64("2015-10-20T04:00:00", "s"),
        clock=Clock("America/New_York"),
        kind="count",
        locations=Locations.of_ids(f"p{n}" for n in range(PLACES)),
        covariates=Covariates(("wind",), generator.normal(size=(HOURS, 1)).astype(np.float32)),
        local_covariates=LocalCovariates(
            ("queue",), generator.normal(size=(1, HOURS, PLACES)).astype(np.float32)
        ),
    )


def make_task(
    panel: Panel | None = None,
    *,
    dropout: float = 0.0,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    levels: tuple[float, ...] = (),
    two_outputs: bool = False,
    **changes: Any,
) -> TrainingTask:
    """Return the task of a panel; changes are of its training configuration.

    Two outputs are one for the mean and one for relative error.
    """
    panel = make_panel() if panel is None else panel
    train = np.arange(HOURS) < 200
    scaler = fit_scaler(panel, train)
    inputs = NeuronLayout(PLACES, 2, 1 + 32)
    model = ModelConfig(per_location=2, auxiliary=4, heads=2, dropout=dropout)
    pattern = BlockPattern.from_pairs(PLACES, PAIRS)
    fresh = torch.Generator().manual_seed(5)
    heads = Heads(levels, two_outputs)
    network = build_forecaster(model, LAGS, inputs, pattern, fresh, heads)
    return TrainingTask(
        network=network.to(device=device, dtype=dtype),
        batches=Batches(panel, scaler, fit_fill(panel, train), LAGS, device),
        scale=scaler.values,
        train=np.arange(60, 60 + TRAIN),
        validation=np.arange(210, 210 + VALIDATION),
        config=CONFIG.model_copy(update=changes),
        mape_cut=10.0,
    )


def make_mixer_task(
    locations: int | None = None, *, hides: bool = True, **changes: Any
) -> TrainingTask:
    """Return the task of a network that learns from samples of locations; None: from all.

    It hides inputs and has dropout, unless told not to: processes draw these numbers apart.
    """
    panel, train, changes = make_panel(), np.arange(HOURS) < 200, {"levels": (0.1, 0.9), **changes}
    scaler, fresh = fit_scaler(panel, train), torch.Generator().manual_seed(5)
    profile = fit_profile(panel, train)
    values, deviations = fit_bounds(panel, train, profile)
    bounds = DeviationBounds(
        *map(torch.from_numpy, (values, deviations, share_known(panel, train))),
        city=torch.from_numpy(fit_city_shape(panel, train)),
    )
    scale = map(torch.from_numpy, (profile, scaler.values.mean, scaler.values.deviation))
    level = SeasonalProfile(*scale, counts=True, bounds=bounds, recent=LAGS.recent)
    fitted = MixerPrerequisites(level, BlockPattern.from_pairs(PLACES, PAIRS))
    dropout = 0.1 if hides else 0.0
    config = MixerConfig(hidden=7, blocks=1, edges=2, factors=2, dropout=dropout)
    heads = Heads(changes.pop("levels"), relative=True)
    network = Mixer(config, LAGS, NeuronLayout(PLACES, 2, 1 + 32), fitted, fresh, heads)
    if not hides:
        network.hiding = None
    batches = Batches(
        panel,
        scaler,
        fit_fill(panel, train),
        LAGS,
        masks=True,
        by_location=locations is not None,
    )
    task = make_task(**changes)
    return replace(task, network=network, batches=batches, locations=locations)


def make_sampled_task(decay: float, **changes: Any) -> TrainingTask:
    """Return the task of a network that is shown the truth less and less."""
    kernel = torch.eye(PLACES)
    kernel[PAIRS[:, 0], PAIRS[:, 1]] = 0.5  # one way
    config, inputs = DCRNNConfig(inputs="lags", units=3, n_layers=1), NeuronLayout(PLACES, 2, 33)
    network = DCRNNNetwork(config, LAGS, inputs, kernel, torch.Generator().manual_seed(5))
    task = make_task(**changes)
    like = next(task.network.parameters())
    return replace(task, network=network.to(like), sampling_decay=decay)


def complete(
    folder: Path,
    rank: int = 0,
    size: int = 1,
    port: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Train to the end, alone or as one of several processes, and write down how it ended.

    Beside what training leaves, the folder then holds a hash of the best weights of each process,
    or its error; the exit code is that of the command.
    """
    torch.set_num_threads(1)
    if port:
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ.update(where, RANK=str(rank), WORLD_SIZE=str(size))
    folder.mkdir(exist_ok=True)
    make = make_sampled_task if "decay" in (changes or {}) else make_task
    make = make_mixer_task if "locations" in (changes or {}) else make
    try:
        result = train(make(**(changes or {})), folder=folder / "run")
    except ForecasterError as error:
        (folder / f"error-{rank}").write_text(str(error), encoding="utf-8")
        sys.exit(error.exit_code)
    np.savez(folder / f"weights-{rank}.npz", **result.weights)


def read_losses(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the log, but for how long they took."""
    lines = (folder / "run" / LOG).read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def read_weights(folder: Path, rank: int = 0) -> dict[str, np.ndarray]:
    """Return the best weights that a process found."""
    with np.load(folder / f"weights-{rank}.npz") as content:
        return dict(content)


if __name__ == "__main__":  # under torchrun
    complete(Path(sys.argv[1]), int(os.environ["RANK"]))
