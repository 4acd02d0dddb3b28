"""The city where demand travels: what others' past is worth, and whether its edges are found."""

import time

from benchmarks.measure import at_least, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the threads are set)

from forecaster.synthetic.city import City, make_city  # noqa: E402
from forecaster.synthetic.lagged import MAX_DELAY  # noqa: E402

HOURS = 8_760
AHEAD = (1, 3, 12)
TRAVELS = (0.25, 0.5, 1.0)
CUTS = np.arange(3.0, 8.0, 0.25)  # standard errors
GOAL = 0.9


def main() -> None:
    """Compare both floors of a year, and fit everybody's last three hours by least squares."""
    locations = 200 if OPTIONS.quick else 996
    notes, best = [f"{locations} locations, {HOURS:,} hours"], 0.0
    for travel in TRAVELS:
        begin = time.perf_counter()
        city = make_city(locations, hours=HOURS, travel=travel)
        seconds = time.perf_counter() - begin
        best = _f1(city)
        notes.append(
            f"travel {travel:<4g} {_floors(city)}; F1 {best:.3f}; made in {seconds:.1f} s"
        )
    name = "F1 of source, target and delay at full travel"
    report(OPTIONS, notes, [at_least(name, best, "all edges", GOAL)])


def _floors(city: City) -> str:
    origins = np.arange(1_000, HOURS - max(AHEAD))
    floor, alone = (bound(origins, max(AHEAD)) for bound in (city.floor, city.floor_alone))
    parts = [
        f"+{k}: {alone[k - 1]:.2f} alone, {floor[k - 1]:.2f} floor"
        f" ({100 * (floor[k - 1] / alone[k - 1] - 1):+.1f} %)"
        for k in AHEAD
    ]
    return "; ".join(parts)


def _f1(city: City) -> float:
    """The F1 score of a regression of log ratios, at the cut that is best for the true edges.

    The counts are divided by their true expected values, so this is more than a learner knows.
    """
    ratio = np.log((city.panel.values + 0.5) / (city.expected + 0.5)).astype(np.float64)
    ratio -= ratio.mean(axis=0)
    M, N = ratio.shape
    lags = range(1, MAX_DELAY + 1)
    past = np.concatenate([ratio[MAX_DELAY - lag : M - lag] for lag in lags], axis=1)
    target = ratio[MAX_DELAY:]
    inverse = np.linalg.inv(past.T @ past)
    fitted = inverse @ (past.T @ target)
    variance = np.square(target - past @ fitted).sum(axis=0) / (len(past) - past.shape[1])
    ratios = np.abs(fitted) / np.sqrt(np.outer(np.diag(inverse), variance))
    ratios = np.where(np.eye(N), 0.0, ratios.reshape(MAX_DELAY, N, N))
    edges, true = city.lagged_edges, np.zeros(ratios.shape, dtype=bool)
    true[edges.delays - 1, edges.pairs[:, 0], edges.pairs[:, 1]] = True
    found = [ratios > cut for cut in CUTS]
    return max(float(2 * (true & some).sum() / (true.sum() + some.sum())) for some in found)


if __name__ == "__main__":
    main()
