"""Five networks trained together against one alone, and answers of `best` against one network.

Ratios of seconds mean something on quiet cores only: on busy ones a single network, whose threads
wait for each other at every operation, suffers most. The ratio of processor time is to one network
on one thread, which waits for nobody. `--quick` leaves out Boosting among the members of `best`,
whose fit takes most of the time, and with it the goal for answers.
"""

import statistics
import time

from benchmarks.measure import Result, at_most, medians, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the number of threads is set)
import torch  # noqa: E402

import forecaster as fc  # noqa: E402
from forecaster.config import EnsembleConfig  # noqa: E402
from forecaster.estimators.base import Estimator  # noqa: E402
from forecaster.estimators.forecast_inputs import prepare_inputs  # noqa: E402
from forecaster.estimators.match import with_meaning  # noqa: E402
from forecaster.estimators.training_data import TrainingData, hide_test  # noqa: E402
from forecaster.graph.dependency import DependencyGraph  # noqa: E402
from forecaster.recipe import Recipe, change  # noqa: E402
from forecaster.splits import cut_windows  # noqa: E402
from forecaster.training.together import Training, train_together  # noqa: E402

LOCATIONS = 57  # as many as Manhattan's zones
DAYS = 45 if OPTIONS.quick else 120
MEMBERS = 5
SLOW = "Boosting"  # the member whose fit takes longest
ROUNDS, ANSWERS = 3, 21
SLOWER, ANSWER = 4.5, 3.0  # goals of the issue


def main() -> None:
    """Compare training on two cores, then answers of a service."""
    sizes = (10,) if OPTIONS.quick else (10, LOCATIONS, 250)
    notes, results = list[str](), list[Result]()
    compared = [_compare_training(size) for size in sizes]
    for note, measured in [*compared, _compare_answers()]:
        notes.append(note)
        results += measured
    report(OPTIONS, notes, results)


def _compare_training(locations: int) -> tuple[str, list[Result]]:
    """Train an epoch of one network and of five, in turns."""
    data = _make_data(locations)
    train_together([_begin(data, 0)])  # not measured: fills caches, compiles
    alone = _on_one_thread(data)
    seconds: dict[int, list[float]] = {1: [], MEMBERS: []}
    processor: dict[int, list[float]] = {1: [], MEMBERS: []}
    for _ in range(ROUNDS):
        for count, taken in seconds.items():
            trainings = [_begin(data, seed) for seed in range(count)]
            began, spent = time.perf_counter(), time.process_time()
            train_together(trainings)
            taken.append(time.perf_counter() - began)
            processor[count].append(time.process_time() - spent)
    one, five = (statistics.median(seconds[count]) for count in seconds)
    of_one, of_five = (statistics.median(processor[count]) for count in processor)
    note = (
        f"{locations} locations, one epoch: one network {one:.2f} s ({of_one:.2f} s of the "
        f"processors; on one thread {alone:.2f} s), {MEMBERS} together {five:.2f} s "
        f"({of_five:.2f} s)"
    )
    name = f"{MEMBERS} networks, {locations} locations"
    return note, [
        at_most(name, five / one, "the time of one", SLOWER),
        Result(f"{name}, processors", round(of_five / alone, 3), "one on one thread"),
    ]


def _on_one_thread(data: TrainingData) -> float:
    """Processor seconds of an epoch of one network on one thread, which waits for no other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    taken = []
    for _ in range(ROUNDS):
        training, spent = _begin(data, 0), time.process_time()
        train_together([training])
        taken.append(time.process_time() - spent)
    torch.set_num_threads(threads)
    return statistics.median(taken)


def _begin(data: TrainingData, seed: int) -> Training:
    training = {"seed": seed, "epochs": 1}
    recipe = with_meaning(Recipe(preset="quick"), data.panel)
    recipe = change(recipe, {"training": training}, source="benchmark")
    return fc.Forecaster(_graph(data.panel), recipe).begin_fit(data).training


def _graph(panel: fc.Panel) -> DependencyGraph:
    """A graph of the degree that learned ones have."""
    ids, pairs = panel.locations.ids, np.random.default_rng(1)
    drawn = pairs.integers(0, len(ids), (int(1.25 * len(ids)), 2))
    edges = {tuple(sorted(pair)) for pair in drawn.tolist() if pair[0] != pair[1]}
    return DependencyGraph.from_edges([(ids[a], ids[b]) for a, b in sorted(edges)], panel)


def _make_data(locations: int) -> TrainingData:
    panel = fc.make_city(locations=locations, hours=24 * DAYS).panel
    splits = _split(panel)
    windows = cut_windows(panel, splits, with_meaning(Recipe(preset="quick"), panel).lags)
    return hide_test(panel, splits, windows)


def _split(panel: fc.Panel) -> fc.Splits:
    return fc.Splits.by_share(panel, validation=0.15, test=0.2)


def _compare_answers() -> tuple[str, list[Result]]:
    """The forecast of the next steps by `best` and by one network, as a service computes it."""
    panel = fc.make_city(locations=LOCATIONS, hours=24 * DAYS).panel
    members = tuple(name for name in EnsembleConfig().members if not OPTIONS.quick or name != SLOW)
    graph, quick = _graph(panel), {"training": {"epochs": 1}}
    best = {**quick, "ensemble": {"members": members}}
    models: dict[str, Estimator] = {
        "one": fc.Forecaster(graph, change(Recipe(preset="quick"), quick, source="benchmark")),
        "best": fc.Ensemble(graph, change(Recipe(preset="best"), best, source="benchmark")),
    }
    for model in models.values():
        model.fit(panel, _split(panel))
    origin = np.array([len(panel.values) - 4])

    def answer(model: Estimator) -> None:
        if model.run is not None:
            inputs = prepare_inputs(model.run, panel, origin, "observed")
            model.predict_outputs(model.run.arrays, inputs)

    jobs = {name: lambda model=model: answer(model) for name, model in models.items()}
    taken = medians(jobs, ANSWERS)
    note = (
        f"an answer for {LOCATIONS} locations: one network {1e3 * taken['one']:.1f} ms, "
        f"{', '.join(members)} {1e3 * taken['best']:.1f} ms"
    )
    ratio, name = taken["best"] / taken["one"], f"answer of {' + '.join(members)}"
    if OPTIONS.quick:
        return note, [Result(name, round(ratio, 3), "of one network")]
    return note, [at_most(name, ratio, "of one network", ANSWER)]


if __name__ == "__main__":
    main()
