"""Cutting a batch of the paper's size against one bare `torch.index_select` of the same bytes."""

from collections.abc import Callable
from itertools import cycle

from benchmarks.measure import Result, at_most, medians, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the number of threads is set)
import torch  # noqa: E402

from forecaster.clock.clock import Clock  # noqa: E402
from forecaster.config import LagConfig  # noqa: E402
from forecaster.panel.fill import fit_fill  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.panel.parts import Covariates, LocalCovariates, Locations  # noqa: E402
from forecaster.splits import history_steps  # noqa: E402
from forecaster.windows.batches import Batches  # noqa: E402
from forecaster.windows.scaling import fit_scaler  # noqa: E402

LOCATIONS, HOURS, WEATHER, BATCH = 996, 65_711, 7, 64  # 7 + 32 calendar columns = 39 auxiliary
LAGS = LagConfig()  # the paper's: 76 past steps, 3 ahead
MISSING = 0.01
THREADS = 2
GOAL = 2.0
DRAWS = 16  # different batches, so that the next one is not in a cache


def main() -> None:
    """Compare on the CPU and, where there is one, on the GPU."""
    torch.set_num_threads(THREADS)
    panel = _panel()
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    past = panel.clock.lag_steps(LAGS, panel.times[:1]).shape[1]
    megabytes = BATCH * past * LOCATIONS * 4 / 1e6
    notes = [f"{BATCH} windows, {past} × {LOCATIONS} from {HOURS:,} hours: {megabytes:.1f} MB"]
    results: list[Result] = []
    for device in devices:
        more_notes, more_results = _compare(panel, device)
        notes += more_notes
        results += more_results
    report(OPTIONS, notes, results)


def _compare(panel: Panel, device: str) -> tuple[list[str], list[Result]]:
    train = np.ones(HOURS, dtype=bool)
    batches = Batches(panel, fit_scaler(panel, train), fit_fill(panel, train), LAGS, device)
    generator = np.random.default_rng(1)
    origins = [generator.integers(700, HOURS - LAGS.horizon, BATCH) for _ in range(DRAWS)]
    steps = [torch.from_numpy(history_steps(panel, LAGS, o).ravel()).to(device) for o in origins]
    by_time = torch.from_numpy(np.nan_to_num(panel.values)).to(device).contiguous()
    by_location = by_time.T.contiguous()
    cuts, rows, columns = cycle(origins), cycle(steps), cycle(steps)
    jobs: dict[str, Callable[[], object]] = {
        "cut": lambda: batches.cut(next(cuts)),
        "by time": lambda: by_time.index_select(0, next(rows)),
        "by location": lambda: by_location.index_select(1, next(columns)),
    }
    seconds = medians({name: _finished(job, device) for name, job in jobs.items()}, _repeats())
    notes = [f"{device:5} {name:12} {taken * 1e3:9.3f} ms" for name, taken in seconds.items()]
    results = [
        at_most(
            f"Batches.cut(), {device}",
            seconds["cut"] / seconds["by location"],
            "index_select into the same layout, from [N, M]",
            GOAL,
        ),
        Result(
            f"Batches.cut(), {device}",
            round(seconds["cut"] / seconds["by time"], 3),
            "index_select of whole rows of [M, N], another layout",
        ),
    ]
    return notes, results


def _finished(job: Callable[[], object], device: str) -> Callable[[], object]:
    """The job, followed by a synchronisation of the device."""

    def run() -> object:
        result = job()
        if device == "cuda":
            torch.cuda.synchronize()
        return result

    return run


def _repeats() -> int:
    return 40 if OPTIONS.quick else 200


def _panel() -> Panel:
    """Counts of the paper's size with one value in a hundred missing, and weather."""
    generator = np.random.default_rng(0)
    values = generator.integers(0, 60, (HOURS, LOCATIONS), dtype=np.uint8).astype(np.float32)
    values[generator.random((HOURS, LOCATIONS), dtype=np.float32) < MISSING] = np.nan
    weather = generator.normal(size=(HOURS, WEATHER)).astype(np.float32)
    return Panel(
        values=values,
        start=np.datetime64("2009-01-01T05", "s"),
        clock=Clock("America/New_York"),
        kind="count",
        locations=Locations.of_ids(str(i) for i in range(LOCATIONS)),
        covariates=Covariates(tuple(f"w{i}" for i in range(WEATHER)), weather),
        local_covariates=LocalCovariates((), np.empty((0, HOURS, LOCATIONS), dtype=np.float32)),
    )


if __name__ == "__main__":
    main()
