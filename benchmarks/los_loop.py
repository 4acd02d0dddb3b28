"""Speeds every five minutes at 207 loop detectors of Los Angeles: 15, 30, 45 and 60 minutes ahead.

`python -m benchmarks.los_loop DATA OUT` trains the models of `--models` on `los_loop_2012` and
prints RMSE and MAE over all steps and sensors. The protocol is that of T-GCN's authors: the first
80 % of the rows are training, and a test window lies wholly inside the rest, with twelve steps in.
Of the training rows the last 10 % serve as validation here. Every model is trained once, for
twelve steps ahead. `--table` only prints what is there.

T-GCN are its authors' stored forecasts. PooledLinear is one linear regression for all sensors on
the last twelve steps; PooledLinear-usual adds the sensor's usual speeds at the origin and at the
target: means by time of day over the training rows, smoothed over an hour.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.proofs import CHEAP, NETWORKS, Options, least_squares, print_table, show
from forecaster.config import LagConfig
from forecaster.metrics import sum_errors
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits

POOLED, POOLED_USUAL, TGCN = "PooledLinear", "PooledLinear-usual", "T-GCN"
STEPS_IN, HORIZONS = 12, (3, 6, 9, 12)
DAY_STEPS, SMOOTHED_STEPS = 288, 6  # half an hour on both sides
TRAIN_SHARE, VALIDATION_SHARE = 0.8, 0.1  # of all rows; of the training rows


def main() -> None:
    """Train the models and print the table."""
    models = (TGCN, POOLED, POOLED_USUAL, *CHEAP, *NETWORKS)
    options = Options.of(Options.parser(__doc__, models).parse_args())
    table = pd.read_parquet(options.data / "los_loop_2012" / "speed.parquet")
    panel = Panel.from_wide(
        table, timezone="America/Los_Angeles", kind="measurement", step_minutes=5
    )
    splits, recipe = split(panel), Recipe(lags=LagConfig(horizon=max(HORIZONS)))

    def measure(name: str, seed: int) -> dict[str, Any]:
        if name in (POOLED, POOLED_USUAL):
            return _score(panel, _pooled_forecasts(panel, usual=name == POOLED_USUAL))
        if name == TGCN:
            stored = np.load(options.data / "los_loop_2012" / "tgcn_predictions_15min.npy")
            ids = [column for column in table.columns if column != "time"]
            order = [ids.index(identity) for identity in panel.locations.ids]
            return _score(panel, stored[..., order], horizons=(3,))
        model = options.fit(name, seed, recipe, panel, splits)
        return _score(panel, model.predict(panel, test_origins(panel, 1)))

    options.run(measure)
    rows = [
        [
            name,
            *(
                " / ".join(
                    show([s[f"{metric}{h}"] for s in seeds], 3) for metric in ("rmse", "mae")
                )
                if f"rmse{h}" in seeds[0]
                else ""
                for h in HORIZONS
            ),
        ]
        for name, seeds in options.results().items()
    ]
    print_table(["RMSE / MAE, mph", *(f"{5 * h} min" for h in HORIZONS)], rows)


def _train_rows(panel: Panel) -> int:
    return int(len(panel.values) * TRAIN_SHARE)


def split(panel: Panel) -> Splits:
    """The authors' training rows, of which the last are for validation, and their test rows."""
    end = _train_rows(panel)
    first = round(end * (1 - VALIDATION_SHARE))
    ends = [0, first, end, len(panel.values)]
    stamps = [f"{time}Z" for time in panel.times]
    return Splits(*([(stamps[a], stamps[b - 1])] for a, b in pairwise(ends)))


def test_origins(panel: Panel, horizon: int) -> np.ndarray:
    """The last steps in of the test windows, by the loop of the authors."""
    first = _train_rows(panel)
    windows = len(panel.values) - first - STEPS_IN - horizon
    return first + STEPS_IN - 1 + np.arange(windows)


def _pooled_forecasts(panel: Panel, *, usual: bool) -> np.ndarray:
    """Forecasts by one linear regression for all sensors and each step ahead: [B 12 N].

    Args:
        panel: of speeds.
        usual: whether usual speeds are inputs beside the last twelve steps.
    """
    values, horizon = panel.values.astype(np.float64), max(HORIZONS)
    usual_values, N = _usual_values(panel, len(values) + horizon), values.shape[1]
    train = np.arange(STEPS_IN - 1, _train_rows(panel) - horizon)
    origins = test_origins(panel, 1)
    forecasts = []
    for k in range(1, horizon + 1):
        tables = []
        for steps in (train, origins):
            columns = [values[steps - lag] for lag in range(STEPS_IN)]
            columns += [usual_values[steps], usual_values[steps + k]] if usual else []
            tables.append(np.stack(columns, axis=-1).reshape(len(steps) * N, -1))
        weights = least_squares(tables[0], values[train + k].reshape(-1, 1))[:, 0]
        forecasts.append((weights[0] + tables[1] @ weights[1:]).reshape(len(origins), N))
    return np.stack(forecasts, axis=1)


def _usual_values(panel: Panel, steps: int) -> np.ndarray:
    """The mean speed of each sensor by time of day, over the training rows: [steps N]."""
    slots = np.arange(steps) % DAY_STEPS
    train = _train_rows(panel)
    values = panel.values[:train].astype(np.float64)
    means = np.stack([values[slots[:train] == s].mean(axis=0) for s in range(DAY_STEPS)])
    shifts = range(-SMOOTHED_STEPS, SMOOTHED_STEPS + 1)
    smooth = np.mean([np.roll(means, shift, axis=0) for shift in shifts], axis=0)
    return np.asarray(smooth[slots])


def _score(
    panel: Panel, forecasts: np.ndarray, horizons: tuple[int, ...] = HORIZONS
) -> dict[str, Any]:
    """RMSE and MAE over the steps of each horizon, on its own test windows."""
    scores: dict[str, Any] = {}
    for horizon in horizons:
        origins = test_origins(panel, horizon)
        truth = panel.values[origins[:, None] + np.arange(1, horizon + 1)]
        result = sum_errors(truth, forecasts[: len(origins), :horizon], cut=10.0).scores()
        scores |= {f"rmse{horizon}": result.rmse.value, f"mae{horizon}": result.mae.value}
    return scores


if __name__ == "__main__":
    main()
