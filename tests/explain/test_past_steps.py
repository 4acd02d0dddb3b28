import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.config import LagConfig, Season
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.explain.attention import attention_shares
from forecaster.explain.case import Case, open_case
from forecaster.explain.past_steps import Lag, measure_past_steps, name_lags, name_step, sum_groups
from forecaster.splits import history_steps
from tests.explain.fitted import AT, PANEL, STEP, fitted


@pytest.fixture(scope="module")
def case() -> Case:
    return open_case(fitted(Forecaster), PANEL, AT, "place 3")


def test_hours_are_those_of_the_history(case: Case) -> None:
    hours = measure_past_steps(case).effects()
    steps = history_steps(PANEL, case.run.recipe.lags, np.array([STEP]))[0]
    assert [hour.ds for hour in hours] == [f"{PANEL.times[s]}Z" for s in steps]
    assert hours[-1].ds_local == "2021-04-07T10:00:00+02:00"
    assert [hour.lag for hour in hours[-4:]] == ["t+2, 1 day back", "t−2", "t−1", "t"]
    values = PANEL.values[steps, 3]
    assert [h.value for h in hours] == [float(v) if np.isfinite(v) else None for v in values]


def test_shares_are_the_decoders_attention(case: Case) -> None:
    hours = measure_past_steps(case).effects()
    shares = np.array([hour.shares for hour in hours]).T
    assert shares == pytest.approx(attention_shares(case.window.frozen, 3))
    assert sum(hour.share for hour in hours) == pytest.approx(1)
    assert sum(hour.rolled for hour in hours) == pytest.approx(1)


def test_groups_are_sums_of_shares(case: Case) -> None:
    hours = measure_past_steps(case).effects()
    groups = sum_groups(hours)
    assert list(groups) == ["recent", "days"]
    assert groups["recent"] == pytest.approx(sum(hour.share for hour in hours[-3:]))
    assert sum(groups.values()) == pytest.approx(1)


def test_every_method_is_compared_with_ablation(case: Case) -> None:
    agreement = measure_past_steps(case).agreement()
    assert [comparison.methods for comparison in agreement] == [
        ("attention", "ablation"),
        ("attention through the encoder", "ablation"),
        ("gradient", "ablation"),
    ]
    assert all(
        comparison.correlation is not None and abs(comparison.correlation) <= 1
        for comparison in agreement
    )


def test_an_hour_that_was_as_usual_at_all_locations_adds_nothing(case: Case) -> None:
    signal = case.window.history.signal
    known = signal[..., 4].clone()
    signal[..., 4] = case.window.baseline.signal[..., 4]
    fresh = Case(**{name: getattr(case, name) for name in case.__dataclass_fields__})
    hours = measure_past_steps(fresh)
    signal[..., 4] = known
    assert hours.gradient[4] == 0
    assert abs(hours.ablation[4]) < 1e-5
    assert (np.abs(np.delete(hours.gradient, 4)) > 0).all()


@pytest.mark.parametrize("origin", ["2014-03-09T07", "2014-06-01T12", "2014-11-02T06"])
def test_names_are_in_the_order_of_the_history(origin: str) -> None:
    clock, lags = Clock("America/New_York"), LagConfig()
    time = np.datetime64(origin, "s")
    steps = clock.lag_steps(lags, np.array([time]))[0]
    named = name_lags(clock, lags, time)
    assert len(named) == 76
    for step, lag in zip(steps, named, strict=True):
        off = step - (24 * lag.days - lag.shift)
        assert abs(off) <= 1  # a day of a clock change is an hour longer or shorter
        assert off == 0 or lag.days


def test_a_lag_is_called_as_people_do() -> None:
    named = name_lags(Clock("UTC"), LagConfig(), np.datetime64("2014-06-01T12", "s"))
    assert [str(lag) for lag in (named[0], named[27], named[28], named[-2], named[-1])] == [
        "t−1, 4 weeks back", "t+5, 1 week back", "t−1, 6 days back", "t−1", "t",
    ]  # fmt: skip
    groups = [lag.group for lag in named]
    assert [groups.count(group) for group in ("recent", "days", "weeks")] == [6, 42, 28]


def test_other_seasons_have_a_name_too() -> None:
    lags = LagConfig(recent=1, seasons=(Season(days=3, count=1, before=0, after=0),))
    named = name_lags(Clock("UTC"), lags, np.datetime64("2014-06-01T12", "s"))
    assert named == [Lag("every 3 days", 3, 0), Lag("recent", 0, 0)]
    assert str(named[0]) == "t, 3 days back"


@pytest.mark.parametrize(
    ("minutes", "name"),
    [(60, "hour"), (1440, "day"), (1, "minute"), (10080, "week"), (15, "step"), (120, "step")],
)
def test_a_step_is_called_by_its_length(minutes: int, name: str) -> None:
    assert name_step(Clock("UTC", minutes)) == name


def test_lags_over_closed_steps_are_named_by_the_days_between() -> None:
    clock = Clock("UTC", hours=("Mon-Fri 06:00-22:00",))
    lags = LagConfig(recent=2, seasons=(Season(days=1, count=2, before=0, after=0),), horizon=1)
    monday = np.datetime64("2019-06-17T12:00:00")
    named = name_lags(clock, lags, monday)
    assert [lag.days for lag in named] == [4, 3, 0, 0]  # Thursday, Friday
