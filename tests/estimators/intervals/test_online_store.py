from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import ArtifactError, RunError
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.intervals.calibration import Calibration
from forecaster.estimators.intervals.online import CYCLE, step_number
from forecaster.estimators.intervals.online_store import KIND, OnlineStore
from forecaster.estimators.predictor import Predictor, WindowForecasts
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import read_manifest
from forecaster.splits import Splits

PLACES, LEVELS = 5, (0.1, 0.5, 0.9)
MakePanel = Callable[..., Panel]


@pytest.fixture
def noise(make_panel: MakePanel) -> Panel:
    values = np.random.default_rng(3).normal(size=(1500, PLACES))
    values[np.random.default_rng(4).random(values.shape) < 0.05] = np.nan
    return make_panel(values, kind="measurement")


class Forecasts:
    """Forecasts that differ from step to step, and how many were made."""

    def __init__(self, ahead: int) -> None:
        self.ahead, self.count = ahead, 0

    def __call__(self, steps: np.ndarray, _: object) -> WindowForecasts:
        self.count += len(steps)
        shift = np.sin(steps).astype(np.float32)[:, None, None]
        mean = np.broadcast_to(shift, (len(steps), self.ahead, PLACES)).copy()
        quantiles = mean[:, None] + np.array([-1, 0, 1], np.float32)[:, None, None]
        return WindowForecasts(mean, quantiles)


def predictor_of(
    panel: Panel, forecasts: Forecasts, folder: Path | None, run: str = "a" * 64
) -> Predictor:
    calibration = Calibration(
        levels=LEVELS,
        corrections=np.zeros((3, forecasts.ahead)),
        spread=np.ones((24, PLACES), np.float32),
        offsets=None,
        floor=-np.inf,
    )
    store = None if folder is None else OnlineStore(folder, run, "observed")
    return Predictor(
        panel, forecasts, calibration, lambda steps: np.ones(len(steps), bool), store=store
    )


def corrections_at(
    panel: Panel, origin: int, folder: Path | None, ahead: int, run: str = "a" * 64
) -> tuple[np.ndarray, int]:
    """The corrections at an origin, from what is known then, and how many forecasts it took."""
    forecasts = Forecasts(ahead)
    seen = panel.steps(0, origin + 1)
    prediction = predictor_of(seen, forecasts, folder, run).predict(np.array([origin]))
    return prediction.corrections, forecasts.count


@pytest.mark.parametrize("ahead", [2, 11, 199])
def test_step_by_step_a_forecast_each_gives_the_bits_that_all_forecasts_give(
    noise: Panel, tmp_path: Path, ahead: int
) -> None:
    begin = CYCLE * 4 - step_number(noise) % CYCLE - 5  # a few steps before a cycle begins
    for n, origin in enumerate((begin, *range(begin + 1, begin + 13, 2), begin + CYCLE)):
        stored, count = corrections_at(noise, origin, tmp_path / "state", ahead)
        anew, needed = corrections_at(noise, origin, None, ahead)
        assert np.array_equal(stored, anew)
        assert needed > CYCLE
        if n:  # those that were not forecast yet
            assert count == (1 if n == 1 else 2 if n < 7 else CYCLE - 11)


def test_the_same_origin_again_takes_one_forecast(noise: Panel, tmp_path: Path) -> None:
    first, _ = corrections_at(noise, 900, tmp_path, 2)
    again, count = corrections_at(noise, 900, tmp_path, 2)
    assert np.array_equal(first, again)
    assert count == 1


@pytest.mark.parametrize("change", ["value", "run", "step"])
def test_what_does_not_fit_exactly_is_not_used(noise: Panel, tmp_path: Path, change: str) -> None:
    corrections_at(noise, 900, tmp_path, 2)
    values, origin, run = noise.values.copy(), 901, "a" * 64
    if change == "value":
        values[17, 3] += 1
    elif change == "run":
        run = "b" * 64
    else:
        origin = 899
    panel = replace(noise, values=values)
    stored, count = corrections_at(panel, origin, tmp_path, 2, run)
    anew, needed = corrections_at(panel, origin, None, 2, run)
    assert np.array_equal(stored, anew)
    assert count == needed


def test_an_earlier_origin_leaves_the_state_of_a_later_one(noise: Panel, tmp_path: Path) -> None:
    corrections_at(noise, 900, tmp_path, 2)
    before = read_manifest(tmp_path).digest
    corrections_at(noise, 800, tmp_path, 2)
    assert read_manifest(tmp_path).digest == before
    assert corrections_at(noise, 901, tmp_path, 2)[1] == 1


def test_a_damaged_state_is_computed_anew_and_said(
    noise: Panel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corrections_at(noise, 900, tmp_path, 2)
    path = next(tmp_path.glob("arrays-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    stored, count = corrections_at(noise, 901, tmp_path, 2)
    anew, needed = corrections_at(noise, 901, None, 2)
    assert np.array_equal(stored, anew)
    assert count == needed
    assert "damaged" in caplog.text
    assert corrections_at(noise, 902, tmp_path, 2)[1] == 1  # it was replaced


def test_a_folder_of_another_kind_is_refused(noise: Panel, tmp_path: Path) -> None:
    noise.save(tmp_path / "panel")
    with pytest.raises(ArtifactError, match=KIND):
        corrections_at(noise, 900, tmp_path / "panel", 2)


# ------------------------------------------------------------------------------ estimators


def test_forecasts_of_an_estimator_are_the_same_with_a_state(tmp_path: Path) -> None:
    panel = small_city()
    estimator = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel, 0.15, 0.2))
    with pytest.raises(RunError, match="save it first"):
        estimator.forecast(panel, state=tmp_path / "state")
    estimator.save(tmp_path / "run")
    for origin in (1000, 1001, 1010):
        seen = panel.steps(0, origin + 1)
        stored = estimator.forecast(seen, state=tmp_path / "state")
        assert stored.equals(estimator.forecast(seen))
