"""What refits of networks cost, and are worth after a break of the built-in city.

`python -m benchmarks.refits` trains STID and the preset `quick` for 20 epochs on 24 weeks of ten
locations, whose days begin nine hours later and are half as busy four weeks into the test, and
refits them every 28 days from their weights; Ridge beside them. `--quick`: STID and Ridge alone.
"""

from benchmarks.measure import Result, at_most, read_options, report

OPTIONS = read_options(__doc__ or "", threads=1)

import numpy as np  # noqa: E402 (after the number of threads is set)

from forecaster.estimators.base import Estimator  # noqa: E402
from forecaster.estimators.baselines.ridge import Ridge  # noqa: E402
from forecaster.estimators.networks.forecaster import Forecaster  # noqa: E402
from forecaster.estimators.networks.peers import STID  # noqa: E402
from forecaster.evaluation.comparison import evaluate  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.recipe import Recipe  # noqa: E402
from forecaster.splits import Splits  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402

WEEK, TRAINED, VALIDATED, TESTED, BREAK = 168, 20, 4, 16, 28  # weeks
SHARE = 0.2  # of a training that a refit may take
LAGS = {"recent": 6, "seasons": [{"days": 1, "count": 1}, {"days": 7, "count": 2}]}
TRAINING = {"epochs": 20, "batch": 128, "patience": 20}


def main() -> None:
    """Print the worth and the cost of refits of each model."""
    panel, total = city(), TRAINED + VALIDATED + TESTED
    splits = Splits.by_share(panel, validation=VALIDATED / total, test=TESTED / total)
    found = evaluate(models(), panel, splits, refit="28d")
    notes = [line for line in found.verdict if line.startswith("Refitted")]
    results = [
        at_most(f"a refit of {fresh.model}", fresh.share or 0.0, "of its training", SHARE)
        if fresh.model != "Ridge"
        else Result("a refit of Ridge", round(fresh.share or 0.0, 3), "of its training")
        for fresh in found.freshness
    ]
    report(OPTIONS, notes, results)


def models() -> list[Estimator]:
    """The models, with the same lags."""
    shared = {"lags": LAGS, "training": TRAINING}
    stid = {"stid": {"inputs": "lags", "embedding": 8, "n_layers": 1}}
    chosen: list[Estimator] = [Ridge(Recipe.of({"lags": LAGS})), STID(Recipe.of(shared | stid))]
    if not OPTIONS.quick:
        chosen.append(Forecaster(recipe=Recipe.of(shared | {"preset": "quick"})))
    return chosen


def city() -> Panel:
    """The built-in city with a break."""
    panel = make_city(10, hours=(TRAINED + VALIDATED + TESTED) * WEEK).panel
    values = panel.values.copy()
    values[BREAK * WEEK :] = np.round(0.5 * np.roll(values[BREAK * WEEK :], 9, axis=0))
    return panel.with_data(values)


if __name__ == "__main__":
    main()
