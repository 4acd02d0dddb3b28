from collections.abc import Callable

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError
from forecaster.estimators.networks.profile import (
    CITY,
    FILL,
    HOURS,
    PROFILE,
    has_single_year,
    profile_arrays,
    profile_of,
    profile_slots,
)
from forecaster.estimators.scaled_inputs import scale_arrays
from forecaster.estimators.training_data import TrainingData
from forecaster.panel.fill import fit_fill
from forecaster.panel.panel import Panel
from forecaster.splits import Splits, Windows
from forecaster.windows.scaling import fit_scaler

MakePanel = Callable[..., Panel]
NONE = np.empty(0, dtype=np.int64)


def arrays_of(make_panel: MakePanel, minutes: int) -> dict[str, np.ndarray]:
    """Return the arrays that a run of ten days, or 13 steps, of three places stores."""
    steps = max(10 * 24 * 60 // minutes, 13)
    values = np.random.default_rng(3).poisson(7.0, (steps, 3)).astype(np.float32)
    panel, train = make_panel(values, clock=Clock("UTC", minutes)), np.ones(steps, dtype=bool)
    fill = fit_fill(panel, train)
    windows = Windows(NONE, NONE, NONE, {})
    data = TrainingData(panel, Splits.by_share(panel), windows, train, fill)
    scales = scale_arrays(fit_scaler(panel, train))
    return {**profile_arrays(data), **scales, FILL: fill.values}


@pytest.mark.parametrize(("minutes", "slots"), [(15, 672), (60, 168), (360, 28), (1440, 7)])
def test_a_profile_has_the_steps_of_the_panels_season(
    make_panel: MakePanel, minutes: int, slots: int
) -> None:
    arrays = arrays_of(make_panel, minutes)
    assert arrays[PROFILE].shape == (3, slots)
    assert arrays[CITY].shape == (slots,)
    hours = np.arange(slots) * minutes // 60 % 24
    assert profile_of(arrays).hours.tolist() == hours.tolist()
    assert (HOURS in arrays) == (minutes != 60)  # runs of hours have the arrays they always had


@pytest.mark.parametrize(("minutes", "yearly"), [(12 * 60, False), (28 * 24 * 60, True)])
def test_a_year_of_fourteen_steps_is_told_from_a_week_of_half_days(
    make_panel: MakePanel, minutes: int, yearly: bool
) -> None:
    arrays = arrays_of(make_panel, minutes)
    assert arrays[PROFILE].shape == (3, 14)
    assert has_single_year(arrays) == yearly


def test_runs_of_earlier_versions_have_hours_of_the_week_at_any_step(
    make_panel: MakePanel,
) -> None:
    arrays = {**arrays_of(make_panel, 60), FILL: np.ones((672, 3), dtype=np.float32)}
    assert profile_slots(arrays) == 168
    assert profile_of(arrays).hours.tolist() == [*range(24)] * 7


@pytest.mark.parametrize(
    ("name", "shape"), [(PROFILE, (3, 671)), (PROFILE, (672, 3)), (CITY, (168,)), (HOURS, (7,))]
)
def test_arrays_of_another_season_are_refused(
    make_panel: MakePanel, name: str, shape: tuple[int, ...]
) -> None:
    arrays = arrays_of(make_panel, 15)
    wrong = {**arrays, name: np.ones(shape, dtype=arrays[name].dtype)}
    with pytest.raises(ArtifactError, match=name):
        profile_of(wrong)


def test_hours_that_no_day_has_are_refused(make_panel: MakePanel) -> None:
    arrays = arrays_of(make_panel, 15)
    with pytest.raises(ArtifactError, match="no hours of the day"):
        profile_of({**arrays, HOURS: arrays[HOURS] + 1})
