"""Passengers of 80 metro stations of Hangzhou every 15 minutes, one to four steps ahead.

`python -m benchmarks.hangzhou DATA OUT` trains the models of `--models` on `hangzhou_metro_2019`,
entries and exits apart, and prints RMSE, MAE and MAPE (over targets that are not 0) of both
together, by step. The protocol is that of the data's authors: training 1 … 18 January, validation
19 and 20, test 21 … 25; a test window lies inside a day, with four steps in and four out. The
metro is closed at night. `--without-weekends` takes Saturdays and Sundays out of the table;
validation is then on 17 and 18 January. `--table` only prints what is there.

WeekBefore is the same step a week before; DayMean the mean of the same time of day over the
training days; StationLinear a linear regression of each station and step on its last four steps.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.proofs import CHEAP, NETWORKS, Options, least_squares, print_table, show
from forecaster.config import LagConfig
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits

SIMPLE = ("WeekBefore", "DayMean", "StationLinear")
DIRECTIONS = ("inflow", "outflow")
STEPS_IN, HORIZON, DAY_ROWS = 4, 4, 73  # 05:30 … 23:30
TEST_DAYS, FIRST_TEST_DAY, FIRST_DAY = 5, "2019-01-21", "2019-01-01"
SATURDAY = 5


def main() -> None:
    """Train the models and print the table."""
    parser = Options.parser(__doc__, (*SIMPLE, *CHEAP, *NETWORKS))
    parser.add_argument("--without-weekends", action="store_true")
    arguments = parser.parse_args()
    options = Options.of(arguments)
    tables = [_read(options, direction, arguments.without_weekends) for direction in DIRECTIONS]
    split_days = ("16", "17", "18") if arguments.without_weekends else ("18", "19", "20")
    last_train, first_valid, last_valid = (f"2019-01-{day}" for day in split_days)
    splits = Splits(
        train=[(FIRST_DAY, last_train)],
        validation=[(first_valid, last_valid)],
        test=[(FIRST_TEST_DAY, "2019-01-25")],
    )
    recipe = Recipe(lags=LagConfig(horizon=HORIZON))

    def measure(name: str, seed: int) -> dict[str, Any]:
        sums = []
        for table in tables:
            if name in SIMPLE:
                forecasts = relative = _simple_forecasts(name, table, last_train)
            else:
                panel = make_panel(table)
                model = options.fit(name, seed, recipe, panel, splits)
                origins = panel_steps(panel, times_of(table)[test_origins(table)])
                prediction, order = model.predict_all(panel, origins), _order(panel, table)
                forecasts, relative = (
                    prediction.forecast[..., order],
                    prediction.relative[..., order],
                )
            sums.append(_sum_errors(table, forecasts, relative))
        return _score(sums)

    options.run(measure)
    steps = range(HORIZON)
    rows = [
        [
            name,
            *(
                " / ".join(_cell(seeds, metric, k) for metric in ("rmse", "mae", "mape"))
                for k in steps
            ),
        ]
        for name, seeds in options.results().items()
    ]
    print_table(["RMSE / MAE / MAPE %", *(f"{15 * (k + 1)} min" for k in steps)], rows)


def _cell(seeds: Sequence[Mapping[str, Any]], metric: str, step: int) -> str:
    return show([scores[metric][step] for scores in seeds], 1)


def _read(options: Options, direction: str, without_weekends: bool) -> pd.DataFrame:
    """The table of a direction, by its times; rows are the open steps."""
    path = options.data / "hangzhou_metro_2019" / f"{direction}.parquet"
    table = pd.read_parquet(path).set_index("time")
    return table[times_of(table).day_of_week < SATURDAY] if without_weekends else table


def times_of(table: pd.DataFrame) -> pd.DatetimeIndex:
    """The local times of the rows."""
    return pd.DatetimeIndex(table.index)


def make_panel(table: pd.DataFrame) -> Panel:
    """The panel of a direction; its opening hours are found in the rows that are there."""
    return Panel.from_wide(table.reset_index(), timezone="Asia/Shanghai", step_minutes=15)


def read_both(data: Path) -> Panel:
    """The panel of entries and exits together, which may tell about each other."""
    folder = data / "hangzhou_metro_2019"
    parts = [
        pd.read_parquet(folder / f"{direction}.parquet")
        .set_index("time")
        .add_prefix(f"{direction} ")
        for direction in DIRECTIONS
    ]
    return make_panel(pd.concat(parts, axis=1))


def test_origins(table: pd.DataFrame) -> np.ndarray:
    """The rows of the last steps in of the test windows, which lie inside a day."""
    first = int((times_of(table) < pd.Timestamp(FIRST_TEST_DAY)).sum())
    inside = np.arange(STEPS_IN - 1, DAY_ROWS - HORIZON)
    return (first + DAY_ROWS * np.arange(TEST_DAYS)[:, None] + inside).reshape(-1)


def panel_steps(panel: Panel, times: pd.DatetimeIndex) -> np.ndarray:
    """The steps of the panel at local times."""
    utc = times.tz_localize(panel.clock.zone).tz_convert("UTC").tz_localize(None)
    return np.asarray(np.searchsorted(panel.times, utc.to_numpy().astype("datetime64[s]")))


def _order(panel: Panel, table: pd.DataFrame) -> list[int]:
    """The columns of the panel in the order of the table."""
    return [panel.locations.ids.index(identity) for identity in table.columns]


def _simple_forecasts(name: str, table: pd.DataFrame, last_train: str) -> np.ndarray:
    """The forecasts of a row of `SIMPLE`: [B 4 N]."""
    values, origins = table.to_numpy(dtype=np.float64), test_origins(table)
    ahead = origins[:, None] + np.arange(1, HORIZON + 1)
    if name == "WeekBefore":
        times = times_of(table)
        before = times.get_indexer(times[ahead.reshape(-1)] - pd.Timedelta(days=7))
        return np.asarray(values[before].reshape(*ahead.shape, -1))
    end = int((times_of(table) < pd.Timestamp(last_train) + pd.Timedelta(days=1)).sum())
    if name == "DayMean":
        means = values[:end].reshape(-1, DAY_ROWS, values.shape[1]).mean(axis=0)
        return np.asarray(means[ahead % DAY_ROWS])
    days = np.arange(end // DAY_ROWS)[:, None] * DAY_ROWS
    train = (days + np.arange(STEPS_IN - 1, DAY_ROWS - HORIZON)).reshape(-1)
    forecasts = np.empty((*ahead.shape, values.shape[1]))
    back, forward = np.arange(STEPS_IN), np.arange(1, HORIZON + 1)
    for n, series in enumerate(values.T):
        weights = least_squares(series[train[:, None] - back], series[train[:, None] + forward])
        forecasts[..., n] = weights[0] + series[origins[:, None] - back] @ weights[1:]
    return np.maximum(forecasts, 0)


def _sum_errors(table: pd.DataFrame, forecasts: np.ndarray, relative: np.ndarray) -> np.ndarray:
    """Σ squares, Σ absolute and Σ relative errors, and their counts, by step: [5 4].

    Args:
        table: the observed values.
        forecasts: the means.
        relative: the forecasts with the lowest relative error.
    """
    truth = table.to_numpy(dtype=np.float64)[
        test_origins(table)[:, None] + np.arange(1, HORIZON + 1)
    ]
    errors, nonzero = np.abs(forecasts - truth), truth != 0
    shares = np.divide(np.abs(relative - truth), truth, out=np.zeros_like(errors), where=nonzero)
    parts = (np.square(errors), errors, shares, np.ones_like(errors), nonzero)
    return np.stack([part.sum(axis=(0, 2)) for part in parts])


def _score(sums: Sequence[np.ndarray]) -> dict[str, Any]:
    """RMSE, MAE and MAPE of both directions together, by step."""
    squares, absolutes, shares, count, nonzero = np.sum(sums, axis=0)
    return {
        "rmse": np.sqrt(squares / count).tolist(),
        "mae": (absolutes / count).tolist(),
        "mape": (100 * shares / nonzero).tolist(),
    }


if __name__ == "__main__":
    main()
