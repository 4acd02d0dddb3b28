"""How often drift is told in a stationary world, and how soon after a break.

`python -m benchmarks.drift` prints false alarms of simulated years of daily errors (heavy tails,
each day correlated with the last by a half) for two lengths of validation, the weeks until an
error that is 40 % larger is told, and false alarms of HistoricalMean in stationary cities, by all
four scores, in a year after 44 weeks of training and 8 of validation.
"""

import argparse

import numpy as np

from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.evaluation.drift.drift import find_drift
from forecaster.evaluation.drift.sequential import watch
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city
from tests.evaluation.drift.test_sequential import ALLOWANCE, YEAR, stationary

WEEK, TRAINED, VALIDATED, WEEKS = 24 * 7, 44, 52, 104
BREAK_WEEK = 20


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the years")
    years = 100 if parser.parse_args().quick else 1_000
    for days in (35, 56):
        alarms, delays = simulate(days, years)
        told = ", ".join(f"{delay:.1f}" for delay in np.quantile(delays, [0.5, 0.9]))
        print(f"{days} days of validation: {alarms} of {years} stationary years with an alarm; ")
        print(f"  errors 40 % larger: told after {told} weeks (median, 90 %)")
    cities = years // 50
    counts = [count_alarms(seed) for seed in range(cities)]
    print(f"{cities} stationary cities, a year each: alarms by score {np.sum(counts, axis=0)}")


def simulate(validated: int, years: int) -> tuple[int, list[float]]:
    """The years with a false alarm, and the weeks until a break is told, of a fifth of them."""
    generator, alarms, delays = np.random.default_rng(7), 0, list[float]()
    for year in range(years):
        validation, days = stationary(generator, validated), stationary(generator, YEAR)
        alarms += watch("errors", validation, days, ALLOWANCE).alarm is not None
        if 5 * year < years:
            days[7 * BREAK_WEEK :] += np.log(1.4)
            alarm = watch("errors", validation, days, ALLOWANCE).alarm
            delays.append(np.inf if alarm is None else alarm - BREAK_WEEK + 1)
    return alarms, delays


def count_alarms(seed: int) -> list[bool]:
    """Which of the four scores give an alarm in a year of a stationary city."""
    panel = make_city(locations=8, hours=WEEK * WEEKS, seed=seed).panel
    firsts, lasts = (
        [f"{panel.instant(WEEK * week - back)}Z" for week in weeks]
        for weeks, back in (((0, TRAINED, VALIDATED), 0), ((TRAINED, VALIDATED, WEEKS), 1))
    )
    splits = Splits(*([(a, b)] for a, b in zip(firsts, lasts, strict=True)))
    drift = find_drift(HistoricalMean().fit(panel, splits), panel)
    return [watch.alarm is not None for watch in drift.watches]


if __name__ == "__main__":
    main()
