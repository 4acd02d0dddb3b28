from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import LagConfig, Season
from forecaster.errors import DataError
from forecaster.estimators import training_data
from forecaster.estimators.registry import ESTIMATORS, find_estimator
from forecaster.estimators.training_data import hide_test, judged_windows
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows, history_steps

HOURS, PLACES = 24 * 47, 3
LAGS = LagConfig(recent=3, seasons=(Season(days=1, count=2, before=0, after=1),), horizon=2)
MakePanel = Callable[..., Panel]
# The test period lies before validation, whose history therefore reaches into it.
EARLY_TEST = Splits(
    train=[("2015-10-01", "2015-10-20")],
    validation=[("2015-11-01", "2015-11-16")],
    test=[("2015-10-21", "2015-10-31")],
)


@pytest.fixture
def panel(make_panel: MakePanel) -> Panel:
    generator = np.random.default_rng(0)
    return make_panel(
        generator.poisson(13, (HOURS, PLACES)),
        covariates=Covariates(("rain",), generator.random((HOURS + 5, 1), dtype=np.float32)),
        local_covariates=LocalCovariates(
            ("queue",), generator.random((1, HOURS + 5, PLACES), dtype=np.float32)
        ),
    )


@pytest.mark.parametrize("late", [True, False])
def test_training_data_holds_no_test_value_and_no_test_window(
    panel: Panel, splits: Splits, late: bool
) -> None:
    chosen = splits if late else EARLY_TEST
    data = hide_test(panel, chosen, cut_windows(panel, chosen, LAGS))
    held_out = chosen.mask("test", panel.clock, panel.times)
    assert np.isnan(data.panel.values[held_out]).all()
    assert np.isfinite(data.panel.values[~held_out]).all()
    assert len(data.windows.test) == 0
    assert min(len(data.windows.train), len(data.windows.validation)) > 0
    assert np.isfinite(data.filled.values).all()


LEVELS = (0.1, 0.5, 0.9)


def test_a_model_is_judged_by_no_more_windows_than_fit_into_memory(
    panel: Panel, splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = hide_test(panel, splits, cut_windows(panel, splits, LAGS))
    assert judged_windows(data, 2, LEVELS) is data  # all of them, as long as they fit
    monkeypatch.setattr(training_data, "MAX_JUDGED", 2 * PLACES * 17 + 1)
    monkeypatch.setattr(training_data, "MIN_JUDGED", 11)
    origins = data.windows.validation
    judged = judged_windows(data, 2, (0.2, 0.8)).windows.validation
    assert len(judged) == 17
    assert (judged[0], judged[-1]) == (origins[0], origins[-1])
    assert np.isin(judged, origins).all()
    assert np.ptp(np.diff(judged)) <= 1  # evenly spaced
    assert len(judged_windows(data, 20, (0.2, 0.8)).windows.validation) == 11
    assert len(judged_windows(data, 20, LEVELS).windows.validation) == 18  # which 0.1 needs


def test_of_many_locations_fewer_windows_judge(
    panel: Panel, splits: Splits, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = hide_test(panel, splits, cut_windows(panel, splits, LAGS))
    monkeypatch.setattr(training_data, "MAX_JUDGED", 1)
    monkeypatch.setattr(training_data, "MIN_JUDGED_OF_MANY", 19)
    assert judged_windows(data, 2, LEVELS) is data
    monkeypatch.setattr(training_data, "MANY_LOCATIONS", PLACES - 1)
    count = len(data.windows.validation)
    with caplog.at_level("INFO"):
        assert len(judged_windows(data, 2, LEVELS).windows.validation) == 19
    assert f"calibrated by 19 of {count} validation windows" in caplog.text


def test_a_validation_window_whose_history_is_hidden_is_not_chosen_on(panel: Panel) -> None:
    data = hide_test(panel, EARLY_TEST, cut_windows(panel, EARLY_TEST, LAGS))
    begin = np.flatnonzero(EARLY_TEST.mask("validation", panel.clock, panel.times))[0]
    first = data.windows.validation[0]
    reach = history_steps(panel, LAGS, np.array([first - 1, first])).min(axis=1)
    assert reach.tolist() == [begin - 1, begin]  # one step of seven is above a tenth


def test_a_panel_without_training_windows_is_refused(panel: Panel) -> None:
    short = Splits(
        train=[("2015-10-01", "2015-10-02")],
        validation=[("2015-10-05", "2015-10-20")],
        test=[("2015-10-21", "2015-10-31")],
    )
    with pytest.raises(DataError, match="no window left for train"):
        hide_test(panel, short, cut_windows(panel, short, LAGS))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_T6_the_test_steps_may_hold_anything_and_every_byte_learned_is_the_same(
    panel: Panel, splits: Splits, recipe: Recipe, tmp_path: Path, name: str
) -> None:
    for number, chosen in enumerate((splits, EARLY_TEST)):
        held_out = np.flatnonzero(chosen.mask("test", panel.clock, panel.times))
        content = set()
        for fill in (None, 1e6, 0.0):
            values, world = panel.values.copy(), panel.covariates.values.copy()
            own = panel.local_covariates.values.copy()
            if fill is not None:
                values[held_out], world[held_out], own[:, held_out] = fill, -fill, fill / 7
            if fill == 0.0:
                values[held_out[::3]] = np.nan  # holes move no window that is learned from
            changed = replace(
                panel,
                values=values,
                covariates=Covariates(("rain",), world),
                local_covariates=LocalCovariates(("queue",), own),
            )
            folder = tmp_path / f"{number} {fill}"
            find_estimator(name)(recipe=recipe).fit(changed, chosen).save(folder)
            content.add(next(folder.glob("arrays-*")).read_bytes())
        assert len(content) == 1
