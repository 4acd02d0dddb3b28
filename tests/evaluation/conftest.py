from collections.abc import Callable

import numpy as np
import pytest

from forecaster.evaluation.backtest import BacktestResult, IntervalResults
from forecaster.metrics import ErrorSums, IntervalSums, sum_errors, sum_intervals

B, K, N = 48, 3, 5  # windows, of eight days; steps ahead, locations
CUT = 10.0
MakeErrors = Callable[..., ErrorSums]
MakeResult = Callable[..., BacktestResult]
LEVELS = (0.1, 0.5, 0.9)


@pytest.fixture(autouse=True)
def _small_sums(one_thread: None) -> None:
    """Compute with one thread in all of these tests."""


def truth() -> np.ndarray:
    return np.random.default_rng(7).poisson(20, (B, K, N)).astype(np.float32)


@pytest.fixture
def make_errors() -> MakeErrors:
    """Return a function that makes the errors of forecasts that are off by a given size."""

    def make(size: float, seed: int = 0) -> ErrorSums:
        x = truth()
        noise = np.random.default_rng(seed).normal(size=x.shape).astype(np.float32)
        return sum_errors(x, x + np.float32(size) * noise, CUT)

    return make


@pytest.fixture
def make_result(make_errors: MakeErrors) -> MakeResult:
    """Return a function that makes what a model did, which is off by a given size."""

    def make(size: float, seed: int = 0, **parts: object) -> BacktestResult:
        errors = make_errors(size, seed)
        fields: dict[str, object] = {
            "errors": {"observed": errors},
            "by_location": ErrorSums(*(sums.T[:, :N] for sums in vars(errors).values())),
            "origins": np.arange(B) * 3600,
            "days": np.arange(B) // 6,
            "parameters": 11,
            "milliseconds": 2.5,
            "seconds": 7.0,
        }
        return BacktestResult(**{**fields, **parts})  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_interval_results() -> Callable[..., IntervalResults]:
    """Return a function that makes what became of intervals that reach so far to either side."""

    def make(
        static: float, online: float, levels: tuple[float, ...] = LEVELS, counts: bool = False
    ) -> IntervalResults:
        x = truth()
        ends = np.linspace(-1.0, 1.0, len(levels), dtype=np.float32) if levels[1:] else np.zeros(1)
        windows: dict[str, IntervalSums] = {}
        by_location: dict[str, IntervalSums] = {}
        for form, reach in (("static", static), ("online", online)):
            q = 20 + np.float32(reach) * ends[:, None, None, None] + 0 * x  # [Q B K N]
            windows[form] = sum_intervals(x, q, levels, q if counts else None)
            turned = q.transpose(0, 2, 3, 1)
            by_location[form] = sum_intervals(
                x.transpose(1, 2, 0), turned, levels, turned if counts else None
            )
        return IntervalResults(levels, windows, by_location)  # type: ignore[arg-type]

    return make
