"""A backtest that refits on the way: no look ahead, resumable, worth something after a break."""

import csv
import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import LagConfig, Season
from forecaster.errors import ConfigError
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.evaluation import refits
from forecaster.evaluation.backtest import BacktestResult, backtest
from forecaster.evaluation.comparison import Comparison, common_test_windows, evaluate
from forecaster.evaluation.refits import (
    backtest_refitted,
    cut_periods,
    join_results,
    read_interval,
    refit,
)
from forecaster.evaluation.storage import load_backtest, save_backtest
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city

DAY, WEEK = 24, 168
RECIPE = Recipe(lags=LagConfig(recent=2, seasons=(Season(days=1, count=1),), horizon=2))
BREAK = 7 * WEEK
OBSERVED = ("observed",)


@pytest.fixture(scope="module")
def panel() -> Panel:
    """Three places, whose days begin seven hours later and are twice as busy after a break."""
    panel = make_city(3, hours=11 * WEEK).panel
    values = panel.values.copy()
    values[BREAK:] = 2 * np.roll(values[BREAK:], 7, axis=0)
    return panel.with_data(values)


@pytest.fixture(scope="module")
def splits(panel: Panel) -> Splits:
    return Splits.by_share(panel, validation=1 / 11, test=4 / 11)


@pytest.fixture(scope="module")
def fitted(panel: Panel, splits: Splits) -> Estimator:
    return Ridge(RECIPE).fit(panel, splits)


@pytest.fixture(scope="module")
def origins(panel: Panel, splits: Splits) -> np.ndarray:
    return common_test_windows(panel, splits, [RECIPE])[::3]


@pytest.fixture(scope="module")
def refitted(fitted: Estimator, panel: Panel, origins: np.ndarray) -> BacktestResult:
    return backtest_refitted(fitted, panel, origins, OBSERVED, 7)


@pytest.fixture(scope="module")
def comparison(panel: Panel, splits: Splits) -> Comparison:
    return evaluate([Ridge(RECIPE), HistoricalMean(RECIPE)], panel, splits, refit="7d")


def assert_same(one: BacktestResult, other: BacktestResult) -> None:
    """All that was scored is the same to the bit; times may differ."""
    for name, sums in vars(one.errors["observed"]).items():
        np.testing.assert_array_equal(sums, getattr(other.errors["observed"], name))
    np.testing.assert_array_equal(one.origins, other.origins)
    assert one.interval_results is not None
    assert other.interval_results is not None
    for name, sums in vars(one.interval_results.by_window["online"]).items():
        np.testing.assert_array_equal(
            sums, getattr(other.interval_results.by_window["online"], name)
        )


def test_every_window_is_forecast_by_the_newest_fit_that_its_origin_knows(
    panel: Panel, origins: np.ndarray
) -> None:
    periods = cut_periods(panel, origins, 7)
    assert np.concatenate([period.origins for period in periods]).tolist() == origins.tolist()
    assert len({period.day for period in periods}) == len(periods) == 4
    for before, period in pairwise(periods):
        assert (before.origins + 1 < period.step).all()
        assert (period.origins + 1 >= period.step).all()
        local = panel.clock.local(panel.times[[period.step - 1, period.step]])
        assert str(local[1]).startswith(period.day)
        assert not str(local[0]).startswith(period.day)


def test_no_refit_sees_a_step_after_it(
    fitted: Estimator, panel: Panel, origins: np.ndarray, refitted: BacktestResult
) -> None:
    period = cut_periods(panel, origins, 7)[2]
    early = origins[origins + RECIPE.lags.horizon < period.step]
    values = panel.values.copy()
    values[period.step :] = 999
    altered = backtest_refitted(fitted, panel.with_data(values), origins, OBSERVED, 7)
    for name, sums in vars(refitted.errors["observed"]).items():
        later = getattr(altered.errors["observed"], name)
        np.testing.assert_array_equal(sums[: len(early)], later[: len(early)])


def test_refits_learn_the_steps_up_to_them_and_begin_from_the_run_before(
    fitted: Estimator, panel: Panel, origins: np.ndarray, splits: Splits
) -> None:
    step = cut_periods(panel, origins, 7)[1].step
    later = splits.until(panel, step, RECIPE.lags.horizon)
    assert later.mask("test", panel.clock, panel.times).argmax() == step
    learned = later.mask("train", panel.clock, panel.times)
    learned |= later.mask("validation", panel.clock, panel.times)
    assert learned[:step].all()
    coming = refit(fitted, panel, later, lambda _: None)
    assert coming.run is not None
    assert coming.start is fitted.run
    assert "start" in coming.run.about


def test_refits_are_worth_something_after_a_break(comparison: Comparison) -> None:
    ridge = comparison.freshness[0]
    assert (ridge.model, ridge.days, ridge.refits) == ("Ridge", 7, 3)
    assert ridge.difference.rmse is not None
    assert ridge.difference.rmse.high < 0
    assert ridge.share is not None
    text = comparison.to_markdown()
    assert "| Ridge, refit every 7 days |" in text
    assert "| refit every 7 days | RMSE unchanged | refitted | change |" in text
    assert "Refitted every 7 days, Ridge has an RMSE" in text
    lines = csv.DictReader(io.StringIO(comparison.to_csv()))
    assert [line["refit_days"] for line in lines] == ["", "7", "", "7"]


def test_the_verdict_is_about_models_as_they_were_fitted(comparison: Comparison) -> None:
    assert comparison.recommended is not None
    assert comparison.recommended.refit_days is None
    assert set(comparison.differences) <= {"Ridge", "HistoricalMean"}
    rows = comparison.to_dict()["rows"]
    assert [row.get("refit_days") for row in rows if not row["without_fallback"]] == [None, 7] * 2


def test_months_add_up_to_the_whole(comparison: Comparison) -> None:
    fresh = comparison.freshness[0]
    days = comparison.tested[0].first.days.astype("datetime64[D]").astype("datetime64[M]")
    assert [month.month for month in fresh.months] == [str(month) for month in np.unique(days)]
    changes = [month.rmse.change for month in fresh.months]
    assert min(c for c in changes if c is not None) <= (fresh.rmse.change or 0.0)


def test_joined_parts_are_the_backtest_of_the_whole(
    fitted: Estimator, panel: Panel, origins: np.ndarray
) -> None:
    whole = backtest(fitted, panel, origins)
    joined = join_results([backtest(fitted, panel, p) for p in np.array_split(origins, 3)])
    assert_same(joined, whole)
    for name, sums in vars(whole.by_location).items():
        np.testing.assert_allclose(getattr(joined.by_location, name), sums, rtol=1e-12)
    assert joined.hours is not None
    np.testing.assert_array_equal(joined.hours, whole.hours)


def test_a_killed_backtest_resumes_at_the_refit_it_had_reached(
    fitted: Estimator,
    panel: Panel,
    origins: np.ndarray,
    refitted: BacktestResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted.save(tmp_path / "run")
    saved = Ridge.load(tmp_path / "run")
    told: list[str] = []

    def run() -> BacktestResult:
        return backtest_refitted(
            saved, panel, origins, OBSERVED, 7, folder=tmp_path / "refits", say=told.append
        )

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(refits, "discard", die)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                run()
    assert_same(run(), refitted)
    assert [line.split(",")[0] for line in told] == [f"refit {n} of 3" for n in (1, 2, 3)]
    assert_same(run(), refitted)  # nothing is left to do
    assert len(told) == 3


def test_stored_refits_are_read_as_they_were(refitted: BacktestResult, tmp_path: Path) -> None:
    save_backtest(tmp_path / "test", refitted, "abc")
    found = load_backtest(tmp_path / "test", "abc")
    assert found is not None
    assert found.refits == refitted.refits
    assert_same(found, refitted)


@pytest.mark.parametrize("text", ["7", "0d", "weekly", "-7d", "7 d", "1000d", ""])
def test_an_interval_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give 7d, 28d"):
        read_interval(text)


def test_tests_that_end_before_a_refit_are_refused(panel: Panel, origins: np.ndarray) -> None:
    with pytest.raises(ConfigError, match="end before a refit; refit more often"):
        cut_periods(panel, origins, 60)
