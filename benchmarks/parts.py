"""Training on samples of locations: as accurate as on all of them, at what cost, up to 100,000.

`python -m benchmarks.parts` compares 2,000 locations of the built-in city, five seeds each, which
takes more than a day on two cores; `--quick` 300 locations, three seeds and few epochs.
`python -m benchmarks.parts --cost` measures a training step and a forecast of 100,000 × 8,760.
"""

import argparse
import json
import resource
import sys
import time
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

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
from forecaster.training.task import TrainingTask, batch_locations  # noqa: E402
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
    """The cost of a forecast and of a training step of many copies of a fitted city."""
    city = make_city(TILE, hours=hours).panel
    settings = {"preset": "quick", "training": {"epochs": 1}, "graph": {"degree": 2.5}}
    model = Forecaster(recipe=Recipe.of(settings)).fit(city.steps(0, FITTED))
    assert model.run is not None  # noqa: S101 (for the type checker)
    run, panel = tile_run(model.run, tiles), tile_panel(city, tiles)
    size = f"{TILE * tiles:,} × {hours:,}"
    notes = [time_state(model, city), f"{size}, panel and run: {peak_gib():.1f} GiB"]
    estimator = Forecaster.from_run(run)
    seconds = time_forecast(estimator, panel)
    notes.append(f"a forecast of all: {seconds:.1f} s of a processor, {peak_gib():.1f} GiB")
    batches = Batches(
        panel, scaler_of(run.arrays), fill_of(run), run.recipe.lags, by_location=True
    )
    del panel
    notes += time_training(estimator, batches, run, np.arange(1_000, hours - 4))
    name = f"a forecast of {size}, seconds of a processor"
    against = f"{GOAL_SECONDS:g} s"
    report(OPTIONS, notes, [at_most(name, seconds / GOAL_SECONDS, against, 1.0)])  # type: ignore[arg-type]


def time_state(model: Forecaster, panel: Panel) -> str:
    """What the forecast of a next step takes with the corrections of the last one, and without."""
    with TemporaryDirectory() as folder:
        model.save(f"{folder}/run")
        seconds = []
        for origin, state in ((1_996, True), (1_997, True), (1_997, False)):
            began = time.process_time()
            model.forecast(
                panel.steps(0, origin + 1),
                weather="persist",
                state=f"{folder}/state" if state else None,
            )
            seconds.append(time.process_time() - began)
    _, stored, anew = seconds
    return (
        f"the next step of {TILE} locations: {stored:.2f} s of a processor with --state, "
        f"{anew:.2f} without: {anew / stored:.1f} ×"
    )


def time_forecast(estimator: Forecaster, panel: Panel) -> float:
    """Processor time of a forecast of all locations from one origin, without corrections."""
    predictor = estimator.predictor(panel, "observed")
    origin = np.array([len(panel.values) - 4])
    return medians({"": lambda: predictor.base(origin)}, 3, time.process_time)[""]


def time_training(
    estimator: Forecaster, batches: Batches, run: Run, origins: np.ndarray
) -> list[str]:
    """What a training step of some locations costs, and an epoch by its parts."""
    scaler = scaler_of(run.arrays)
    N, P = len(scaler.values.mean), len(scaler.covariates.mean)
    layout = NeuronLayout(N, 1, P + len(CALENDAR_COLUMNS))
    task = TrainingTask(
        network=estimator.build(layout, run.arrays, Generator().manual_seed(0)),
        batches=batches,
        scale=scaler.values,
        train=origins,
        validation=origins[-len(origins) // 10 :],
        config=run.recipe.training.model_copy(update={"eta": 1.0}),
        mape_cut=run.recipe.metrics.mape_cut,
        locations=SAMPLED,
    )
    trainer, drawn = Trainer(task, ProcessGroup(task.device), print), task.sample(0)
    step, batch = iter(range(100)), origins[:: len(origins) // 64][:64]
    took = medians(
        {
            "batch": lambda: task.batches.cut(batch, batch_locations(task.sample(0))),
            "step": lambda: trainer.train_step(batch, next(step)),
            "score": lambda: trainer._score_share(task.scored[: task.scored_at_once], 64),
        },
        3,
        time.process_time,
    )
    seen = 0 if drawn is None else len(drawn.locations)
    epoch = took["step"] * task.epoch_steps
    epoch += took["score"] * len(task.scored) / task.scored_at_once
    return [
        f"a training step of {SAMPLED:,} locations ({seen:,} with their neighbours) and 64 "
        f"windows: {took['step']:.1f} s of a processor, of which the batch {took['batch']:.1f}; "
        f"{peak_gib():.1f} GiB",
        f"validation, {task.scored_at_once} at a time: {took['score']:.1f} s",
        f"an epoch, extrapolated: {task.epoch_steps:,} steps and {len(task.scored):,} validation "
        f"windows of all locations, {epoch / 60:.0f} minutes of a processor",
    ]


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
