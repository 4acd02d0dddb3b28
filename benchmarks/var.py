"""The vector autoregression against statsmodels, two threads, and alone at the paper's size."""

import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks.measure import Result, at_least, at_most, medians, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the threads are set)
from statsmodels.tsa import api as statsmodels  # noqa: E402

from forecaster.clock.clock import CALENDAR_COLUMNS  # noqa: E402
from forecaster.config import LagConfig  # noqa: E402
from forecaster.estimators.baselines.least_squares import factorize, moment_matrix  # noqa: E402
from forecaster.estimators.baselines.var import VAR  # noqa: E402
from forecaster.recipe import Recipe  # noqa: E402
from forecaster.splits import Splits, cut_windows  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402
from forecaster.windows.scaling import fit_scaler  # noqa: E402

ORDER, N = 3, 996
PART, HOURS = (100, 17_520) if OPTIONS.quick else (500, 52_560)  # the size for statsmodels
SPLITS = Splits(  # section 3.1
    train=[("2009-01-01", "2011-12-31"), ("2012-07-01", "2015-06-30")],
    validation=[("2012-01-01", "2012-06-30")],
    test=[("2015-07-01", "2016-06-30")],
)
REDUNDANT = ("weekday_sunday", "hour_23")  # follow from the other calendar columns
GOAL_GAIN, GOAL_GIB = 3.0, 6.0


def main() -> None:
    """Compare on a part of the city, then fit all of it in a fresh process."""
    note, gain = _compare()
    notes, results = [note], [gain]
    if not OPTIONS.quick:
        for recent in (ORDER, LagConfig().recent):
            with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
                text, gib = fresh.submit(_fit_alone, recent).result()
            notes.append(text)
            name = f"VAR.fit, N = {N}, orders to {recent}, memory"
            results.append(at_most(name, gib / GOAL_GIB, f"{GOAL_GIB:g} GiB", 1.0))
    report(OPTIONS, notes, results)


def _compare() -> tuple[str, Result]:
    """Time both on the same rows and columns; statsmodels refuses redundant columns."""
    values, exogenous = _columns()
    steps, constant = np.arange(ORDER, len(values)), np.ones((len(values), 1))

    weights: dict[str, np.ndarray] = {}

    def ours() -> None:
        a = np.concatenate([constant, exogenous], axis=1)[steps]
        factor = factorize(moment_matrix(values, a, steps, ORDER))
        weights["ours"] = factor.solve(len(factor.length))

    def theirs() -> None:
        weights["theirs"] = statsmodels.VAR(values, exog=exogenous).fit(ORDER, trend="c").params

    seconds = medians({"ours": ours, "theirs": theirs}, 1)
    difference = (
        np.abs(weights["ours"] - weights["theirs"]).max() / np.abs(weights["theirs"]).max()
    )
    note = f"N = {PART}, order {ORDER}, {HOURS:,} hours, {exogenous.shape[1]} exogenous columns: "
    note += f"{seconds['ours']:.2f} s against {seconds['theirs']:.2f} s; "
    note += f"weights differ by {difference:.0e} of the largest"
    name = f"VAR({ORDER}), N = {PART}"
    gain = seconds["theirs"] / seconds["ours"]
    return note, at_least(name, gain, "the speed of statsmodels", GOAL_GAIN)


def _columns() -> tuple[np.ndarray, np.ndarray]:
    """The scaled values and auxiliary information of a city, in double precision."""
    panel = make_city(locations=PART, hours=HOURS).panel
    scaler = fit_scaler(panel, np.ones(HOURS, dtype=bool))
    weather = scaler.covariates.apply(panel.covariates.values[:HOURS])
    calendar = panel.clock.calendar(panel.times)
    needed = [n for n, name in enumerate(CALENDAR_COLUMNS) if name not in REDUNDANT]
    exogenous = np.concatenate([weather, calendar[:, needed]], axis=1)
    return scaler.values.apply(panel.values).astype(np.float64), exogenous.astype(np.float64)


def _fit_alone(recent: int) -> tuple[str, float]:
    """Fit the estimator to the city of the paper's size; memory is that of the whole process."""
    panel = make_city(locations=N).panel
    recipe = Recipe(lags=LagConfig(recent=recent))
    begin = time.perf_counter()
    fitted = VAR(recipe).fit(panel, SPLITS)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gib = peak / (1 << 30 if sys.platform == "darwin" else 1 << 20)
    origins = cut_windows(panel, SPLITS, recipe.lags).test
    begin = time.perf_counter()
    fitted.predict(panel, origins[:512])
    forecast_seconds = time.perf_counter() - begin
    about = fitted.run.about["var"] if fitted.run is not None else {}
    note = f"N = {N}, {about['rows']:,} rows: all orders to {recent} in {seconds:.1f} s with "
    note += f"{gib:.2f} GiB, order {about['order']} chosen, {about['rank']:,} of "
    note += f"{about['columns']:,} columns independent; 512 forecasts in {forecast_seconds:.2f} s"
    return note, gib


if __name__ == "__main__":
    main()
