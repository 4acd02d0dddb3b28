"""What it would be worth to correct a forecast by the last error that is known at its origin.

`python -m benchmarks.last_residuals DATA OUT --sets zones,uber` takes networks that
`benchmarks.members` has trained in OUT, and adds to the forecast of k steps ahead ρ_k times the
error that the forecast of the step before had at the origin, or its mean over the last day. ρ_k is
fitted by least squares to all validation days but a fifth, in turn, and judged by that fifth; so
is one ρ_k of each location, shrunk towards that of all.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.members import DataSet, with_fit
from benchmarks.proofs import print_table
from forecaster.artifact import Run
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import FitResult, TrainingData

FOLDS = 5
SHRINK = 100.0  # errors of all locations that the ρ of one begins with
DAY_HOURS = 24


def main() -> None:
    """Print RMSE and MAPE with and without the corrections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of data sets")
    parser.add_argument("out", type=Path, help="as given to benchmarks.members")
    parser.add_argument("--sets", default="zones,uber")
    parser.add_argument("--member", default="Forecaster")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.sets.split(","):
        for seed in range(arguments.seeds):
            data_set = DataSet(name, arguments.data, arguments.out, (arguments.member,), None)
            rows += compare(data_set, arguments.member, seed)
    print_table(["validation", "RMSE", "MAPE %"], rows)


def compare(data_set: DataSet, member: str, seed: int) -> list[list[str]]:
    """The rows of one training: as it is, and with each correction."""
    truth, outputs, origins = forecast_validation(data_set, member, seed)
    cut = data_set.recipe.metrics.mape_cut
    relative = outputs.mean if outputs.relative is None else outputs.relative
    rows = []
    for title, steps, own in (
        ("as it is", 0, False),
        ("the last error", 1, False),
        ("the last error, by location", 1, True),
        ("the mean error of a day", DAY_HOURS, False),
    ):
        parts = [outputs.mean, relative]
        if steps:
            errors = last_errors(truth, outputs.mean, origins, steps)
            parts = [correct(part, truth, errors, own=own) for part in parts]
        rmse = np.sqrt(np.nanmean(np.square(parts[0] - truth)))
        counted = truth >= cut
        mape = np.mean(np.abs(parts[1] - truth)[counted] / truth[counted])
        rows.append([f"{data_set.name}, seed {seed}: {title}", f"{rmse:.4g}", f"{100 * mape:.2f}"])
    return rows


def forecast_validation(
    data_set: DataSet, member: str, seed: int
) -> tuple[np.ndarray, WindowForecasts, np.ndarray]:
    """Observed values, forecasts and origins of the validation windows."""
    stored: list[tuple[np.ndarray, WindowForecasts, np.ndarray]] = []
    model = data_set.member(member, seed).estimator

    def keep(run: Run, data: TrainingData, forecasts: WindowForecasts) -> FitResult:
        del run
        origins = data.windows.validation
        ahead = origins[:, None] + np.arange(1, forecasts.mean.shape[1] + 1)
        stored.append((data.panel.values[ahead], forecasts, origins))
        return FitResult({})

    model.adjust_outputs = keep  # type: ignore[method-assign]
    result = data_set.fit_of(member, seed)
    with_fit(model, lambda _: result).fit(data_set.panel, data_set.splits)
    return stored[0]


def last_errors(
    truth: np.ndarray, mean: np.ndarray, origins: np.ndarray, steps: int
) -> np.ndarray:
    """The mean error of forecasts one step ahead that are known at each origin: [V N].

    Args:
        truth: observed values of each window.
        mean: its forecasts.
        origins: of the windows, ascending.
        steps: how many errors up to the origin; missing ones count as 0.
    """
    by_origin = dict(zip(origins.tolist(), np.nan_to_num(truth[:, 0] - mean[:, 0]), strict=True))
    nothing = np.zeros(mean.shape[2])
    return np.stack(
        [
            np.mean([by_origin.get(origin - k, nothing) for k in range(1, steps + 1)], axis=0)
            for origin in origins.tolist()
        ]
    )


def correct(
    forecast: np.ndarray, truth: np.ndarray, errors: np.ndarray, *, own: bool
) -> np.ndarray:
    """The corrected forecasts; each fifth of the windows by the ρ of the others.

    Args:
        forecast: [V K N].
        truth: observed values.
        errors: known at each origin: [V N].
        own: whether each location has a ρ.
    """
    V = len(forecast)
    fold, corrected = np.arange(V) * FOLDS // V, forecast.copy()
    for number in range(FOLDS):
        others = fold != number
        known = errors[others, None, :]
        residual = np.nan_to_num(truth[others] - forecast[others])
        products = (known * residual).sum(axis=0)  # [K N]
        squares = np.square(known).sum(axis=0)
        rho = products.sum(axis=1, keepdims=True) / squares.sum()
        if own:
            weight = SHRINK * squares.mean() / V
            rho = (products + weight * rho) / (squares + weight)
        corrected[~others] += rho * errors[~others, None, :]
    return np.asarray(np.maximum(corrected, 0))


if __name__ == "__main__":
    main()
