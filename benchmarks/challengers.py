"""How often challengers are promoted that should not be: spoiled ones, and other seeds.

    python -m benchmarks.challengers --quick

Fifty challengers are spoiled: trained on shuffled days, trained on a broken column, or with all
weights × 1.05. A hundred are trained on the champion's own weeks with other seeds. All are small
networks on the built-in city, and the spoiled ones claim to know four more weeks. `--quick`: a
tenth of them.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.measure import read_options

OPTIONS = read_options(__doc__ or "", threads=1)

import numpy as np  # noqa: E402 (after the number of threads is set)

from forecaster.estimators.base import Estimator  # noqa: E402
from forecaster.estimators.networks.estimator import WEIGHTS  # noqa: E402
from forecaster.estimators.networks.peers import STID  # noqa: E402
from forecaster.evaluation.challenge import Challenge, Knowledge, challenge  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.recipe import Recipe, change  # noqa: E402
from forecaster.splits import Splits, cut_windows  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402

WEEK = 24 * 7
WEEKS, HELD_OUT = 30, 2
SPOILS = ("shuffled days", "broken column", "weights × 1.05")
SAME, FRESHER = Knowledge(0, 0.0), Knowledge(0, 4.0)
RECIPE = Recipe.of(
    {
        "lags": {"recent": 6, "seasons": [{"days": 1, "count": 1}, {"days": 7, "count": 2}]},
        "stid": {"inputs": "lags", "embedding": 8, "n_layers": 1},
        "training": {"epochs": 4, "batch": 128, "relative": True, "eta": "balanced", "ema": 0.99},
    }
)


def city() -> tuple[Panel, Splits]:
    """The built-in city, of which the last two weeks are held out."""
    panel = make_city(10, hours=WEEKS * WEEK).panel
    share = HELD_OUT / WEEKS
    return panel, Splits.by_share(panel, validation=0.1, test=share)


def train(panel: Panel, splits: Splits, seed: int) -> Estimator:
    """A small network with a seed."""
    model = STID(change(RECIPE, {"training": {"seed": seed}}, source="benchmark"))
    model.falls_back = False  # so that a spoiled network is not replaced by a simple model
    return model.fit(panel, splits)


def spoil(kind: str, champion: Estimator, panel: Panel, splits: Splits, seed: int) -> Estimator:
    """A challenger that is worse than the champion."""
    generator = np.random.default_rng(seed)
    if kind == "weights × 1.05":
        return scaled(train(panel, splits, seed) if champion.run is None else champion, 1.05)
    values, learned = panel.values.copy(), (WEEKS - HELD_OUT) * 7
    if kind == "shuffled days":
        days = values[: learned * 24].reshape(learned, 24, -1)
        values[: learned * 24] = generator.permutation(days).reshape(learned * 24, -1)
    else:
        column = int(generator.integers(values.shape[1]))
        values[: learned * 24, column] = generator.permutation(values[: learned * 24, column])
    return train(panel.with_data(values), splits, seed)


def scaled(model: Estimator, factor: float) -> Estimator:
    """A model with all its weights multiplied."""
    if model.run is None:
        raise ValueError("the model is not fitted; fit it first")
    arrays = {
        name: array * np.float32(factor) if name.startswith((WEIGHTS, "weights")) else array
        for name, array in model.run.arrays.items()
    }
    return type(model).from_run(replace(model.run, arrays=arrays))


def compare(
    champion: Estimator, challenger: Estimator, panel: Panel, splits: Splits, more: Knowledge
) -> Challenge:
    """The comparison on the held-out weeks."""
    origins = cut_windows(panel, splits, champion.recipe.lags).test
    return challenge((champion, panel), (challenger, panel), origins, more)


def spoiled(count: int) -> Iterator[tuple[str, Challenge]]:
    """The comparisons of spoiled challengers, each with the champion."""
    panel, splits = city()
    champion = train(panel, splits, 0)
    for number in range(count):
        kind = SPOILS[number % len(SPOILS)]
        own = train(panel, splits, 1 + number) if kind == SPOILS[2] else champion
        worse = spoil(kind, own, panel, splits, 1 + number)
        yield kind, compare(champion, worse, panel, splits, FRESHER)


def other_seeds(count: int) -> Iterator[Challenge]:
    """The comparisons of challengers that differ from the champion by their seed only."""
    panel, splits = city()
    champion = train(panel, splits, 0)
    for number in range(count):
        yield compare(champion, train(panel, splits, 1 + number), panel, splits, SAME)


def main() -> None:
    """Print how many were promoted."""
    share = 10 if OPTIONS.quick else 1
    promoted: Counter[str] = Counter()
    tried: Counter[str] = Counter()

    def count(kind: str, outcome: Challenge) -> None:
        decision, reason = outcome.decide()
        tried[kind] += 1
        promoted[kind] += decision == "promote"
        if OPTIONS.json:
            print(json.dumps({"kind": kind, "verdict": decision, "reason": reason}), flush=True)

    for kind, outcome in spoiled(50 // share):
        count(kind, outcome)
    for outcome in other_seeds(100 // share):
        count("other seed", outcome)
    for kind, number in tried.items():
        print(f"{kind:16} {promoted[kind]:3} of {number:3} promoted")


if __name__ == "__main__":
    main()
