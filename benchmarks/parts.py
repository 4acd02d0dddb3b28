"""Training on samples of locations: as accurate as on all of them, at what cost, up to 100,000.

`python -m benchmarks.parts` compares 2,000 locations of the built-in city, five seeds each, which
takes a day on two cores; `--quick` 300 locations, three seeds and few epochs (half an hour).
`python -m benchmarks.parts --cost` measures a training step and a forecast of 100,000 × 8,760.
"""

import argparse
import json
import resource
import sys
import time
from dataclasses import dataclass, replace

from benchmarks.measure import Result, at_most, medians, report

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--quick", action="store_true", help="smaller sizes")
parser.add_argument("--json", action="store_true", help="one JSON object per line")
parser.add_argument("--cost", action="store_true", help="the cost of many locations alone")
OPTIONS = parser.parse_args()

import numpy as np  # noqa: E402 (after the options are read, in case they are wrong)

from torch import Generator  # noqa: E402

from forecaster.artifact import Run  # noqa: E402
from forecaster.clock.clock import CALENDAR_COLUMNS  # noqa: E402
from forecaster.config import GraphConfig  # noqa: E402
from forecaster.estimators.forecast_inputs import fill_of  # noqa: E402
from forecaster.estimators.networks.estimator import SAMPLED  # noqa: E402
from forecaster.estimators.networks.forecaster import Forecaster  # noqa: E402
from forecaster.estimators.scaled_inputs import scaler_of  # noqa: E402
from forecaster.graph.learn import learn_graph  # noqa: E402
from forecaster.models.layers.neurons import NeuronLayout  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.panel.parts import LocalCovariates, Locations  # noqa: E402
from forecaster.recipe import Recipe  # noqa: E402
from forecaster.splits import Splits, cut_windows  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402
from forecaster.training.distributed import ProcessGroup  # noqa: E402
from forecaster.training.loop import Trainer  # noqa: E402
from forecaster.training.task import TrainingTask, chosen  # noqa: E402
from forecaster.windows.batches import Batches  # noqa: E402

TILE = 499  # locations of the city that a large panel is made of, a prime
FITTED = 1_500  # hours that its statistics are fitted to
GOAL_SECONDS = 15.0
LIMIT = 1.015  # of the error, in relation to that of whole batches
T_95 = {3: 2.920, 5: 2.132}  # Student's t of n − 1 degrees, one-sided


@dataclass(frozen=True)
class Comparison:
    """What is compared."""

    locations: int
    sampled: tuple[int, ...]
    hours: int
    seeds: int
    epochs: int


FULL = Comparison(2_000, (500, 1_000), 8_760, 5, 30)
QUICK = Comparison(300, (75, 150), 4_000, 3, 8)


def main() -> None:
    """Compare errors, or measure the cost of many locations."""
    if OPTIONS.cost:
        measure(*((20, 2_000) if OPTIONS.quick else (200, 8_760)))
    else:
        compare(QUICK if OPTIONS.quick else FULL)


def compare(sizes: Comparison) -> None:
    """Errors on test windows of trainings on samples, in relation to those on all locations."""
    city = make_city(sizes.locations, hours=sizes.hours)
    panel = city.panel
    splits = Splits.by_share(panel)
    recipe = Recipe(preset="quick")
    graph = learn_graph(panel, splits, GraphConfig(degree=2.5), lags=recipe.lags)
    test = cut_windows(panel, splits, recipe.lags).test[::3]
    truth = panel.values[test[:, None] + np.arange(1, recipe.lags.horizon + 1)]
    errors: dict[int | None, list[float]] = {}
    seconds: dict[int | None, float] = {}
    for seed in range(sizes.seeds):
        for sampled in (None, *sizes.sampled):
            settings = {"epochs": sizes.epochs, "seed": seed, "locations": sampled}
            model = Forecaster(graph, Recipe.of({"preset": "quick", "training": settings}))
            began = time.process_time()
            model.fit(panel, splits)
            seconds[sampled] = seconds.get(sampled, 0.0) + time.process_time() - began
            error = float(np.sqrt(np.nanmean(np.square(model.predict(panel, test) - truth))))
            errors.setdefault(sampled, []).append(error)
            epochs = len(model.run.about["training"]["epochs"]) if model.run else 0
            line = {"seed": seed, "sampled": sampled, "rmse": error, "epochs": epochs}
            sys.stderr.write(json.dumps(line) + "\n")
    notes, results = list[str](), list[Result]()
    whole = np.array(errors[None])
    for sampled in sizes.sampled:
        ratios = np.array(errors[sampled]) / whole
        bound = ratios.mean() + T_95[sizes.seeds] * ratios.std(ddof=1) / sizes.seeds**0.5
        share = seconds[sampled] / seconds[None]
        notes.append(
            f"{sampled:,} of {sizes.locations:,}: RMSE {ratios.mean():.4f} × that of whole "
            f"batches, at most {bound:.4f} (95 %); a fit takes {share:.2f} × the processor time"
        )
        results.append(at_most(f"RMSE, {sampled:,} of {sizes.locations:,}", bound, "whole", LIMIT))
    report(OPTIONS, notes, results)  # type: ignore[arg-type]


def measure(tiles: int, hours: int) -> None:
    """The cost of a training step and of a forecast of many copies of a fitted city."""
    N = TILE * tiles
    city = make_city(TILE, hours=hours).panel
    short = city.steps(0, min(hours, FITTED), None)
    settings = {"preset": "quick", "training": {"epochs": 1}, "graph": {"degree": 2.5}}
    fitted = Forecaster(recipe=Recipe.of(settings)).fit(short).run
    assert fitted is not None  # noqa: S101 (for the type checker)
    run = tile_run(fitted, tiles)
    panel = tile_panel(city, tiles)
    estimator = Forecaster.from_run(run)
    notes = [f"{N:,} × {hours:,}, panel and run: {peak_gib():.1f} GiB"]

    predictor = estimator.predictor(panel, "observed")
    origin = np.array([hours - 4])
    predictor.base(origin)
    seconds = medians({"": lambda: predictor.base(origin)}, 3, time.process_time)[""]
    notes.append(f"a forecast of all: {seconds:.1f} s of a processor, {peak_gib():.1f} GiB")
    results = [at_most("a forecast of all locations", seconds / GOAL_SECONDS, "15 s", 1.0)]
    del predictor

    lags, scaler = run.recipe.lags, scaler_of(run.arrays)
    batches = Batches(panel, scaler, fill_of(run), lags, by_location=True)
    del panel
    layout = NeuronLayout(N, 1, len(scaler.covariates.mean) + len(CALENDAR_COLUMNS))
    network = estimator.build(layout, run.arrays, Generator().manual_seed(0))
    origins = np.arange(1_000, hours - 4)
    task = TrainingTask(
        network=network,
        batches=batches,
        scale=scaler.values,
        train=origins,
        validation=origins[-hours // 10 :],
        config=run.recipe.training.model_copy(update={"eta": 1.0}),
        mape_cut=run.recipe.metrics.mape_cut,
        locations=SAMPLED,
    )
    trainer = Trainer(task, ProcessGroup(task.device), print)
    step = iter(range(100))
    took = medians(
        {
            "batch": lambda: task.batches.cut(origins[:64], chosen(task.sample(0))),
            "step": lambda: trainer.train_step(origins[:: len(origins) // 64][:64], next(step)),
            "score": lambda: trainer._score_share(task.scored[: task.scored_at_once], 64),
        },
        3,
        time.process_time,
    )
    drawn = task.sample(0)
    seen = 0 if drawn is None else len(drawn.locations)
    notes.append(
        f"a training step of {SAMPLED:,} locations ({seen:,} with their neighbours) and 64 "
        f"windows: {took['step']:.1f} s of a processor, of which the batch {took['batch']:.1f}; "
        f"{peak_gib():.1f} GiB"
    )
    scoring = took["score"] * len(task.scored) / task.scored_at_once
    epoch = took["step"] * task.epoch_steps + scoring
    notes.append(
        f"an epoch, extrapolated: {task.epoch_steps:,} steps and {len(task.scored):,} validation "
        f"windows of all locations, {epoch / 60:.0f} minutes of a processor"
    )
    report(OPTIONS, notes, results)  # type: ignore[arg-type]


def tile_run(run: Run, tiles: int) -> Run:
    """The run of so many copies of its locations, side by side."""
    arrays = dict(run.arrays)
    arrays["graph.pairs"] = np.concatenate(
        [arrays["graph.pairs"] + TILE * k for k in range(tiles)]
    )
    for name, array in run.arrays.items():
        if name in ("graph.strengths", "model.neighbours.weight"):
            arrays[name] = np.concatenate([array] * tiles)
        elif TILE in array.shape:
            arrays[name] = np.concatenate([array] * tiles, axis=array.shape.index(TILE))
    arrays["model.city.weight"] = arrays["model.city.weight"] / np.float32(tiles)
    ids = [f"place {n}" for n in range(TILE * tiles)]
    return replace(run, arrays=arrays, about={**run.about, "ids": ids}, parents={})


def tile_panel(panel: Panel, tiles: int) -> Panel:
    """The panel of so many copies of its locations, side by side, made tile by tile."""
    M, N = len(panel.values), TILE * tiles
    values = np.empty((M, N), dtype=np.float32)
    for k in range(tiles):
        values[:, k * TILE : (k + 1) * TILE] = panel.values
    names, places = tuple(f"place {n}" for n in range(N)), panel.locations
    lat, lon = (np.concatenate([axis] * tiles) for axis in (places.lat, places.lon))
    return replace(
        panel,
        values=values,
        locations=Locations(names, names, lat, lon),
        local_covariates=LocalCovariates.empty(len(panel.covariates.values), N),
        digest=None,
    )


def peak_gib() -> float:
    """The largest memory of this process so far."""
    unit = 1 << 30 if sys.platform == "darwin" else 1 << 20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    main()
