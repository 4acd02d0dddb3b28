"""Training on samples of locations: as accurate as on all of them, at what cost, up to 100,000.

`python -m benchmarks.parts` compares 2,000 locations of the built-in city, five seeds each, which
takes a day on two cores; `--quick` 300 locations, three seeds and few epochs (half an hour).
`python -m benchmarks.parts --cost` measures a training step and a forecast of 100,000 × 8,760.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass

from benchmarks.measure import Result, at_most, report

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--quick", action="store_true", help="smaller sizes")
parser.add_argument("--json", action="store_true", help="one JSON object per line")
parser.add_argument("--cost", action="store_true", help="the cost of many locations alone")
OPTIONS = parser.parse_args()

import numpy as np  # noqa: E402 (after the options are read, in case they are wrong)

from forecaster.config import GraphConfig  # noqa: E402
from forecaster.estimators.networks.forecaster import Forecaster  # noqa: E402
from forecaster.graph.learn import learn_graph  # noqa: E402
from forecaster.recipe import Recipe  # noqa: E402
from forecaster.splits import Splits, cut_windows  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402

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


if __name__ == "__main__":
    main()
