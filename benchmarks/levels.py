"""How long a level lasts: daily totals by what is usual, at the level of the last week.

`python -m benchmarks.levels OUT --set melbourne` reads the panel of `benchmarks.horizons OUT
--prepare` and forecasts the total of each of the next seven days as usual · m^e, where m is the
last week's sum relative to the usual one, and e = 1 (the level stays) or e of `--powers` (it
returns to the usual one). Printed are the RMSE by day for each e, on validation and test.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.horizons import RECIPES
from benchmarks.proofs import print_table
from forecaster.panel.fill import fit_fill
from forecaster.panel.panel import Panel
from forecaster.recipe import read_recipe
from forecaster.splits import Split, Splits

DAY, WEEK = 24, 7 * 24
EVALUATED: tuple[Split, ...] = ("validation", "test")


def main() -> None:
    """Print a table for validation, and one for test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", choices=RECIPES, required=True)
    parser.add_argument("--powers", type=float, nargs="+", default=[1.0, 0.9, 0.8, 0.6, 0.4, 0.2])
    arguments = parser.parse_args()
    folder = Path(__file__).parents[1] / "recipes"
    recipe = read_recipe(folder / f"{RECIPES[arguments.set]}.toml")
    panel = Panel.open(arguments.out / "panels" / arguments.set)
    splits = Splits.from_config(panel, recipe.splits)
    for split in EVALUATED:
        errors = [_errors(panel, splits, split, power) for power in arguments.powers]
        rows = [
            [f"m^{power:g}", *(f"{error:,.0f}" for error in by_day)]
            for power, by_day in zip(arguments.powers, errors, strict=True)
        ]
        print_table([f"{arguments.set}, {split}", *(f"day {n + 1}" for n in range(7))], rows)
        print()


def _errors(panel: Panel, splits: Splits, split: Split, power: float) -> list[float]:
    """The RMSE of the totals of the next seven days, forecast at midnight."""
    train = splits.mask("train", panel.clock, panel.times)
    inside = splits.mask(split, panel.clock, panel.times)
    usual = fit_fill(panel, train).values[panel.clock.slot_of_season(panel.times)]
    observed = np.isfinite(panel.values)
    sums, usual_sums = (
        np.cumsum(np.where(observed, part, 0), axis=0, dtype=np.float64)
        for part in (panel.values, usual)
    )
    local = panel.clock.local(panel.times).astype("datetime64[h]").astype(np.int64)
    origins = np.flatnonzero((local % DAY == DAY - 1) & inside)
    origins = origins[(origins > WEEK) & (origins + WEEK < len(inside))]
    origins = origins[inside[origins + WEEK]]

    def total(steps: np.ndarray, first: int, last: int) -> np.ndarray:
        return np.asarray(steps[origins + last] - steps[origins + first])

    level = (total(sums, -WEEK, 0) + 1) / (total(usual_sums, -WEEK, 0) + 1)
    misses = [
        total(usual_sums, DAY * n, DAY * (n + 1)) * level**power
        - total(sums, DAY * n, DAY * (n + 1))
        for n in range(7)
    ]
    return [float(np.sqrt(np.square(miss).mean())) for miss in misses]


if __name__ == "__main__":
    main()
