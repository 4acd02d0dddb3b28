import numpy as np
import pytest

from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.case import Case, open_case
from forecaster.evaluation.past_hours import measure_hours, sum_groups
from forecaster.evaluation.shares import attended
from forecaster.splits import history_steps
from tests.evaluation.fitted import AT, PANEL, STEP, fitted


@pytest.fixture(scope="module")
def case() -> Case:
    return open_case(fitted(Forecaster), PANEL, AT, "place 3")


def test_hours_are_those_of_the_history(case: Case) -> None:
    hours = measure_hours(case).hours()
    steps = history_steps(PANEL, case.run.recipe.lags, np.array([STEP]))[0]
    assert [hour.ds for hour in hours] == [f"{PANEL.times[s]}Z" for s in steps]
    assert hours[-1].ds_local == "2021-04-07T10:00:00+02:00"
    assert [hour.lag for hour in hours[-4:]] == ["t+2, 1 day back", "t−2", "t−1", "t"]
    values = PANEL.values[steps, 3]
    assert [h.value for h in hours] == [float(v) if np.isfinite(v) else None for v in values]


def test_shares_are_the_decoders_attention(case: Case) -> None:
    hours = measure_hours(case).hours()
    shares = np.array([hour.shares for hour in hours]).T
    assert shares == pytest.approx(attended(case.window.held, 3))
    assert sum(hour.share for hour in hours) == pytest.approx(1)
    assert sum(hour.rolled for hour in hours) == pytest.approx(1)


def test_groups_are_sums_of_shares(case: Case) -> None:
    hours = measure_hours(case).hours()
    groups = sum_groups(hours)
    assert list(groups) == ["recent", "days"]
    assert groups["recent"] == pytest.approx(sum(hour.share for hour in hours[-3:]))
    assert sum(groups.values()) == pytest.approx(1)


def test_every_method_is_compared_with_ablation(case: Case) -> None:
    found = measure_hours(case).agreement()
    assert [one.methods for one in found] == [
        ("attention", "ablation"),
        ("attention through the encoder", "ablation"),
        ("gradient", "ablation"),
    ]
    assert all(one.correlation is not None and abs(one.correlation) <= 1 for one in found)


def test_an_hour_that_was_as_usual_at_all_locations_adds_nothing(case: Case) -> None:
    signal = case.window.history.signal
    known = signal[..., 4].clone()
    signal[..., 4] = case.window.usual.signal[..., 4]
    fresh = Case(**{name: getattr(case, name) for name in case.__dataclass_fields__})
    hours = measure_hours(fresh)
    signal[..., 4] = known
    assert hours.gradient[4] == 0
    assert abs(hours.ablation[4]) < 1e-5
    assert (np.abs(np.delete(hours.gradient, 4)) > 0).all()
