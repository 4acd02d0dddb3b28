import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE
from forecaster.estimators.degraded import describe_doubts, describe_outage
from forecaster.estimators.plausible import LONGEST, RANGE, Plausibility
from forecaster.panel.panel import Panel
from forecaster.splits import Splits

HOURS, DAY, ORIGIN = 24 * 47, 24, 24 * 45 + 11
LEVELS = (12.0, 20.0, 20.0, 40.0, 60.0, 100.0, 1.0, 0.02)
MakePanel = Callable[..., Panel]


@pytest.fixture
def panel(make_panel: MakePanel) -> Panel:
    values = np.random.default_rng(4).poisson(LEVELS, (HOURS, len(LEVELS)))
    values[-5 * DAY :, 7] = 0  # a quiet place
    return make_panel(values)


@pytest.fixture
def fitted(panel: Panel, splits: Splits) -> Ridge:
    return Ridge(recipe=RECIPE).fit(panel, splits)


@pytest.fixture
def known(fitted: Ridge) -> Plausibility:
    assert fitted.run is not None
    known = Plausibility.of(fitted.run)
    assert known is not None
    return known


def changed(panel: Panel, steps: slice | int, places: list[int], value: float) -> Panel:
    """The panel with some values replaced; step −1 is the origin."""
    values = panel.values.copy()
    values[: ORIGIN + 1][steps, places] = value
    return replace(panel, values=values)


def test_clean_values_leave_nothing_to_say(
    fitted: Ridge, panel: Panel, known: Plausibility
) -> None:
    assert describe_doubts(known, panel, ORIGIN) == {}
    assert describe_outage(panel, ORIGIN, known) is None
    assert "degraded" not in fitted.forecast(panel, panel.times[ORIGIN])


def test_L6_the_reason_stands_in_the_rows_of_its_place(
    fitted: Ridge, panel: Panel, caplog: pytest.LogCaptureFixture
) -> None:
    wrong, at = changed(panel, -1, [3], 4000), panel.times[ORIGIN]
    with caplog.at_level(logging.WARNING):
        table = fitted.forecast(wrong, at)
    here = table["unique_id"] == "p3"
    (reason,) = set(table["degraded"][here])
    assert reason.startswith("implausible value (4,000 at 2015-11-15T10:00:00-05:00, at most ")
    assert reason.endswith(" is plausible)")
    assert 60 < float(reason.split("at most ")[1].split()[0]) < 200
    assert (table["degraded"][~here] == "").all()
    assert f"doubtful values of 1 location: p3: {reason}" in caplog.text
    clean = fitted.forecast(panel, at)
    assert table["y_hat"][~here].tolist() == clean["y_hat"][~here].tolist()
    assert (table["q90"] - table["q10"])[here].min() > (clean["q90"] - clean["q10"])[here].max()


def test_L6_a_zero_is_described_by_the_least_plausible_value(
    panel: Panel, known: Plausibility
) -> None:
    reasons = describe_doubts(known, changed(panel, -1, [5], 0), ORIGIN)
    assert list(reasons) == [5]
    assert reasons[5].startswith("implausible value (0 at 2015-11-15T10:00:00-05:00, at least ")


def test_L6_several_wrong_values_of_a_day_are_counted(panel: Panel, known: Plausibility) -> None:
    wrong = changed(changed(changed(panel, -2, [4], 9000), -9, [4], 7000), -30, [4], 5000)
    (reason,) = describe_doubts(known, wrong, ORIGIN).values()
    assert reason.startswith("implausible value (9,000 at 2015-11-15T09:00:00-05:00, at most ")
    assert reason.endswith(" is plausible, 1 more in the last day)")


def test_L5_a_repeated_value_is_named_with_its_length(
    fitted: Ridge, panel: Panel, known: Plausibility
) -> None:
    stuck = changed(panel, slice(-31, None), [3], 37)
    text = "repeated value (37 for 31 steps up to 2015-11-15T10:00:00-05:00)"
    assert describe_doubts(known, stuck, ORIGIN) == {3: text}
    table = fitted.forecast(stuck, panel.times[ORIGIN])
    assert set(table["degraded"][table["unique_id"] == "p3"]) == {text}
    assert set(table["degraded"][table["unique_id"] != "p3"]) == {""}
    older = changed(panel, slice(-400, None), [3], 37)
    assert "37 for at least 336 steps" in describe_doubts(known, older, ORIGIN)[3]


def test_L5_zeros_for_days_are_named_and_reach_no_other_place(
    fitted: Ridge, panel: Panel, known: Plausibility
) -> None:
    silent = changed(panel, slice(-60, None), [5], 0)
    text = "repeated value (0 for 60 steps up to 2015-11-15T10:00:00-05:00)"
    assert describe_doubts(known, silent, ORIGIN) == {5: text}
    there, here = (fitted.forecast(each, panel.times[ORIGIN]) for each in (panel, silent))
    others = there["unique_id"] != "p5"
    assert here["y_hat"][others].tolist() == there["y_hat"][others].tolist()


def test_both_reasons_of_a_place_are_named(panel: Panel, known: Plausibility) -> None:
    wrong = changed(changed(panel, slice(-15, None), [3], 37), -1, [3], 8000)
    reason = describe_doubts(known, wrong, ORIGIN)[3]
    assert reason.startswith("implausible value (8,000 at ")
    assert "; repeated value (37 for 14 steps up to 2015-11-15T09:00:00-05:00)" in reason


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_L5_many_places_silent_at_once_are_a_feed_outage(
    fitted: Ridge, panel: Panel, known: Plausibility, value: float
) -> None:
    wrong = changed(panel, slice(-4, None), [0, 2, 3, 4, 5], value)
    now = wrong.values[ORIGIN, [1, 6, 7]]
    heard = 5 + int((now != 0).sum())  # a zero that is nothing unusual does not count
    text = f"feed outage: 5 of {heard} locations silent since 2015-11-15T07:00:00-05:00"
    assert describe_outage(wrong, ORIGIN, known) == text
    table = fitted.forecast(wrong, panel.times[ORIGIN], allow_missing=True)
    assert table["degraded"].str.contains(text, regex=False).all()
    assert np.isfinite(table["y_hat"]).all()


def test_zeros_of_quiet_places_are_no_outage(panel: Panel, known: Plausibility) -> None:
    quiet = changed(panel, slice(-9, None), [6, 7], 0)
    assert describe_outage(quiet, ORIGIN, known) is None
    assert describe_outage(changed(panel, -1, [3, 4], 0), ORIGIN, known) is None  # two are few
    assert describe_outage(changed(panel, -1, [3, 4, 5], 0), ORIGIN, known) is not None


def test_an_outage_that_is_over_is_none(panel: Panel, known: Plausibility) -> None:
    over = changed(panel, slice(-9, -1), [0, 2, 3, 4, 5], np.nan)
    assert describe_outage(over, ORIGIN, known) is None


def test_places_silent_for_weeks_are_no_outage(panel: Panel, known: Plausibility) -> None:
    gone = changed(panel, slice(-20 * DAY, None), [0, 2, 3, 4, 5], np.nan)
    assert describe_outage(gone, ORIGIN, known) is None


def test_without_a_run_missing_values_alone_are_an_outage(panel: Panel) -> None:
    everywhere = list(range(8))
    silent = changed(panel, slice(-2, None), everywhere, np.nan)
    text = "feed outage: 8 of 8 locations silent since 2015-11-15T09:00:00-05:00"
    assert describe_outage(silent, ORIGIN) == text
    assert describe_outage(changed(panel, -1, everywhere, 0), ORIGIN) is None


def test_an_older_run_has_no_marks_and_the_same_forecasts(fitted: Ridge, panel: Panel) -> None:
    assert fitted.run is not None
    arrays = {n: a for n, a in fitted.run.arrays.items() if n not in (RANGE, LONGEST)}
    older = Ridge.from_run(replace(fitted.run, arrays=arrays))
    at = panel.times[ORIGIN]
    assert older.forecast(panel, at).equals(fitted.forecast(panel, at))
    wrong = changed(panel, -1, [3], 4000)
    assert "degraded" not in older.forecast(wrong, at)
    unbounded, bounded = older.forecast(wrong, at), fitted.forecast(wrong, at)
    here = bounded["unique_id"] == "p3"
    clean = fitted.forecast(panel, at)["y_hat"]
    far, near = ((each["y_hat"] - clean).abs()[here].max() for each in (unbounded, bounded))
    assert far > 10 * near
    assert unbounded["y_hat"][~here].tolist() == bounded["y_hat"][~here].tolist()
