import numpy as np
import pytest

from forecaster.config import LagConfig
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import small_city
from forecaster.evaluation.backtest import BacktestResult, backtest
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.report.draw.canvas import to_svg
from forecaster.report.sections.day_totals import describe_days, draw_days, take_days
from forecaster.splits import Splits, cut_windows

Tested = tuple[Panel, SeasonalNaive, BacktestResult]


@pytest.fixture(scope="module", params=[24, 53])
def tested(request: pytest.FixtureRequest) -> Tested:
    panel = small_city("count")
    splits = Splits.by_share(panel, 0.3, 0.25)
    lags = LagConfig(recent=1, seasons=({"days": 7, "count": 1},), horizon=request.param)
    model = SeasonalNaive(Recipe(lags=lags)).fit(panel, splits)
    return panel, model, backtest(model, panel, cut_windows(panel, splits, lags).test)


def test_days_follow_each_other_and_are_those_of_the_forecast(tested: Tested) -> None:
    panel, model, result = tested
    first = int(result.days.min()) + 2
    excerpt = take_days(model, panel, result, first, [3, 1])
    assert excerpt is not None
    days = excerpt.days.astype(int)
    assert days[0] == first
    assert (np.diff(days) == 1).all()
    local = panel.clock.local(panel.times)
    origin = int(np.flatnonzero(local == excerpt.days[0].astype("datetime64[s]"))[0]) - 1
    totals = model.forecast_totals(panel, panel.times[origin])
    expected = totals[totals["day"] == str(excerpt.days[0])].set_index("unique_id")
    ids = [panel.locations.ids[n] for n in (3, 1)]
    np.testing.assert_allclose(excerpt.forecast[0], expected.loc[ids, "y_hat"], rtol=1e-5)
    np.testing.assert_allclose(excerpt.bounds[1, 0], expected.loc[ids, "q90"], rtol=1e-5)
    drawn = to_svg(draw_days(excerpt, ["a", "b"]), "x")
    assert b"80 % interval" in drawn
    assert "of a day's total covers" in describe_days(excerpt, result)


def test_a_test_without_totals_has_no_picture(tested: Tested) -> None:
    panel, model, result = tested
    assert take_days(model, panel, result, int(result.days.max()) + 99, [0]) is None
