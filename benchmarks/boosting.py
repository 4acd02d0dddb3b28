"""Boosted trees with one thread: forecasts from arrays against LightGBM's; what a fit is made of.

Of the fit of one step ahead: binning its table, which is what steps that share binned data would
save; and a tree with fewer bins, which would be another tree.
"""

import time

from benchmarks.measure import at_most, medians, read_options, report

OPTIONS = read_options(__doc__, threads=1)

import lightgbm  # noqa: E402 (after the number of threads is set)
import numpy as np  # noqa: E402

from forecaster.config import LagConfig  # noqa: E402
from forecaster.estimators.baselines.boosting import PARAMETERS, OriginLocations, make_inputs  # noqa: E402
from forecaster.estimators.baselines.step_models import ModelInputs, training_inputs  # noqa: E402
from forecaster.estimators.baselines.trees import Trees  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402
from forecaster.windows.scaling import fit_scaler  # noqa: E402

LOCATIONS, HOURS, FIRST = 83, 24 * 90, 700
PAPER = 996  # locations of one forecast
TREES, QUICK_TREES = 700, 150
REPEATS = 5
GOAL = 2.0
ALL_BINS, FEWER_BINS = 255, 63  # of LightGBM by default, and so few that they stay in a cache


def main() -> None:
    """Time forecasts from one and from many origins."""
    inputs, target = _rows()
    rounds = QUICK_TREES if OPTIONS.quick else TREES
    parameters = {**PARAMETERS, "num_threads": 1, "seed": 0}
    booster = lightgbm.train(parameters, lightgbm.Dataset(inputs, target), rounds)
    trees = Trees.from_dump(booster.dump_model())
    notes = [f"{rounds} trees on {len(inputs):,} rows of {inputs.shape[1]} inputs"]
    results = []
    for rows in (PAPER, 20 * PAPER):
        part = inputs[:rows]
        jobs = {
            f"{rows} rows, arrays": lambda part=part: trees.predict(0, part),
            f"{rows} rows, LightGBM": lambda part=part: booster.predict(part, num_threads=1),
        }
        seconds = medians(jobs, REPEATS)
        notes += [f"{name:24} {taken * 1e3:9.1f} ms" for name, taken in seconds.items()]
        array_seconds, lightgbm_seconds = seconds.values()
        results.append(
            at_most(
                f"forecasts of {rows} rows", array_seconds / lightgbm_seconds, "LightGBM", GOAL
            )
        )
    notes += _fitting(inputs, target)
    report(OPTIONS, notes, results)


def _fitting(inputs: np.ndarray, target: np.ndarray) -> list[str]:
    """Time binning, and a tree with all bins and with fewer."""
    notes, boosters = [], {}
    for bins in (ALL_BINS, FEWER_BINS):
        parameters = {**PARAMETERS, "num_threads": 1, "seed": 0, "max_bin": bins}
        began = time.perf_counter()
        data = lightgbm.Dataset(inputs, target, params=parameters).construct()
        notes.append(f"binning into {bins} bins {time.perf_counter() - began:17.2f} s")
        boosters[f"a tree of {bins} bins"] = lightgbm.Booster(parameters, data)
    seconds = medians({name: b.update for name, b in boosters.items()}, 2 * REPEATS)
    return notes + [f"{name:24} {taken:9.3f} s" for name, taken in seconds.items()]


def _rows() -> tuple[np.ndarray, np.ndarray]:
    """The inputs of the trees for a city with the paper's lags, and their targets."""
    panel, lags = make_city(LOCATIONS, hours=HOURS).panel, LagConfig()
    scaler = fit_scaler(panel, np.ones(HOURS, dtype=bool))
    origins = np.arange(FIRST, HOURS - lags.horizon)
    rows = OriginLocations(*np.divmod(np.arange(len(origins) * LOCATIONS), LOCATIONS))
    auxiliary, local = training_inputs(panel, origins, (1,), scaler)
    coming = ModelInputs.of_step(origins, auxiliary[:, 0], local[:, 0], 1)
    target = scaler.values.apply(panel.values)[origins + 1].reshape(-1)
    return make_inputs(panel, coming, scaler, lags, rows), target


if __name__ == "__main__":
    main()
