from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.errors import DataError
from forecaster.graph.lagged import deviations
from forecaster.graph.lagged.deviations import LARGEST, LaggedSample, take_deviations
from forecaster.panel.panel import Panel
from forecaster.windows.profile import SPREAD_FLOOR, fit_profile
from forecaster.windows.scaling import fit_scaler

MakePanel = Callable[..., Panel]
STEPS, PLACES = 24 * 7 * 9 + 5, 7
LAST = 24 * 7 * 8 + 11  # where training ends


@pytest.fixture(scope="module")
def panel(panel_of: MakePanel) -> Panel:
    values = np.random.default_rng(0).normal(50, 7, (STEPS, PLACES))
    values[np.random.default_rng(1).random(values.shape) < 0.1] = np.nan
    return panel_of(values)


@pytest.fixture(scope="module")
def train() -> np.ndarray:
    return np.arange(STEPS) < LAST


@pytest.fixture(scope="module")
def sample(panel: Panel, train: np.ndarray) -> LaggedSample:
    return take_deviations(panel, train)


def covered(sample: LaggedSample) -> np.ndarray:
    """How many runs each step is in."""
    times = np.zeros(sample.deviations.shape[1], dtype=int)
    for runs in sample.runs:
        for start, stop in runs:
            times[start:stop] += 1
    return times


def test_deviations_have_variance_one_over_what_is_observed(
    sample: LaggedSample, panel: Panel
) -> None:
    assert sample.deviations.shape == sample.observed.shape == (PLACES, STEPS)
    assert sample.constant.shape == (PLACES,)
    assert sample.blocks.shape == (STEPS,)
    assert np.array_equal(sample.observed, np.isfinite(panel.values.T))
    assert not sample.deviations[~sample.observed].any()
    squares = np.square(sample.deviations[:, :LAST]).sum(axis=1)
    assert squares / sample.observed[:, :LAST].sum(axis=1) == pytest.approx(1, rel=1e-5)
    assert not sample.constant.any()


def test_deviations_of_measurements_are_from_the_profile(
    sample: LaggedSample, panel: Panel, train: np.ndarray
) -> None:
    usual = fit_profile(panel, train)[:, panel.clock.slot_of_season(panel.times)]
    difference = np.where(sample.observed, panel.values.T - usual, 0)
    unit = np.linalg.norm(difference[:, :LAST], axis=1) / np.linalg.norm(
        sample.deviations[:, :LAST], axis=1
    )
    np.testing.assert_allclose(sample.deviations, difference / unit[:, None], atol=1e-4)


def test_deviations_of_counts_are_in_units_of_a_spread_that_grows_with_the_usual(
    panel_of: MakePanel, train: np.ndarray
) -> None:
    generator = np.random.default_rng(2)
    rate = 20 + 15 * np.sin(np.arange(STEPS) * 2 * np.pi / 24)
    panel = replace(panel_of(generator.poisson(rate[:, None], (STEPS, 3))), kind="count")
    sample = take_deviations(panel, train)
    usual = fit_profile(panel, train)[:, panel.clock.slot_of_season(panel.times)]
    mean = fit_scaler(panel, train).values.mean[:, None]
    expected = (panel.values.T - usual) / np.sqrt(usual / mean + SPREAD_FLOOR)
    ratio = expected / sample.deviations
    assert ratio == pytest.approx(np.median(ratio, axis=1)[:, None] * np.ones(STEPS), rel=1e-3)
    quiet = np.square(sample.deviations[:, rate < 10]).mean()
    busy = np.square(sample.deviations[:, rate > 30]).mean()
    assert 0.7 < quiet / busy < 1.3


def test_every_training_step_is_in_one_run(sample: LaggedSample, train: np.ndarray) -> None:
    assert covered(sample).tolist() == train.astype(int).tolist()
    assert sample.steps == LAST
    assert len(sample.runs) == 4
    lengths = [int(np.diff(runs, axis=1).sum()) for runs in sample.runs]
    assert lengths == pytest.approx([LAST / 4] * 4, abs=24)
    assert [len(runs) for runs in sample.runs] == [2] * 4  # whole weeks, in turn


def test_whole_runs_join_the_quarters(panel: Panel) -> None:
    train = np.zeros(STEPS, dtype=bool)
    train[31:401] = train[431:503] = True
    sample = take_deviations(panel, train)
    assert sample.whole_runs.tolist() == [[31, 401], [431, 503]]


def test_quarters_are_of_longer_blocks_where_a_forecast_reaches_far(
    panel: Panel, train: np.ndarray
) -> None:
    sample = take_deviations(panel, train, reach=59)
    assert covered(sample).tolist() == train.astype(int).tolist()
    assert min(int(np.diff(runs, axis=1).min()) for runs in sample.runs) > 2 * 59


def test_training_ranges_stay_apart(panel: Panel) -> None:
    train = np.zeros(STEPS, dtype=bool)
    train[31:401] = train[431:503] = train[1009:1103] = True
    sample = take_deviations(panel, train)
    assert covered(sample).tolist() == train.astype(int).tolist()
    for start, stop in np.concatenate(sample.runs):
        assert train[start:stop].all()
    blocks = sample.blocks[train]
    assert not sample.blocks[~train].any()
    assert set(np.diff(blocks)) == {0, 1}
    assert (blocks[0], blocks[-1]) == (0, 19)


def test_blocks_are_whole_local_days(sample: LaggedSample, panel: Panel) -> None:
    days = panel.clock.local(panel.times[:LAST]).astype("datetime64[D]")
    for day in np.unique(days):
        assert len(set(sample.blocks[:LAST][days == day])) == 1


def test_only_training_steps_decide(sample: LaggedSample, panel: Panel, train: np.ndarray) -> None:
    values = panel.values.copy()
    values[LAST:] = 1e9 * np.random.default_rng(3).standard_normal(values[LAST:].shape)
    values[LAST:, 3] = np.nan
    other = take_deviations(replace(panel, values=values), train)
    assert np.array_equal(other.deviations[:, :LAST], sample.deviations[:, :LAST])
    assert np.array_equal(other.constant, sample.constant)
    assert np.abs(other.deviations).max() <= LARGEST


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_places_of_one_value_have_no_deviations(
    panel: Panel, train: np.ndarray, kind: str
) -> None:
    values = np.round(np.abs(panel.values))
    values[:LAST, 2] = 3.0
    values[:, 4] = 0.0
    values[:LAST:2, 4] = np.nan
    values[:LAST, 6] = np.nan
    sample = take_deviations(replace(panel, values=values, kind=kind), train)
    assert sample.constant.tolist() == [False, False, True, False, True, False, True]
    assert not sample.deviations[sample.constant].any()


def test_deviations_beyond_eight_are_clipped(panel: Panel, train: np.ndarray) -> None:
    values = panel.values.copy()
    values[100, 5] = 50 + 7 * 17  # less than a quarter of the variance: rare, but not wrong
    sample = take_deviations(replace(panel, values=values), train)
    assert sample.observed[5, 100]
    assert sample.deviations[5, 100] == LARGEST


@pytest.mark.parametrize("size", [1e3, 1e9, -1e9])
def test_wrong_values_count_as_missing(panel: Panel, train: np.ndarray, size: float) -> None:
    values = panel.values.copy()
    values[100, 5] = values[700, 5] = size
    values[701, 2] = -size
    missing = values.copy()
    missing[np.abs(missing) >= 1e3] = np.nan
    sample = take_deviations(replace(panel, values=values), train)
    expected = take_deviations(replace(panel, values=missing), train)
    assert np.array_equal(sample.deviations, expected.deviations)
    assert np.array_equal(sample.observed, expected.observed)


def test_wrong_values_of_all_sizes_count_as_missing(panel: Panel, train: np.ndarray) -> None:
    """The largest hides the next: they are found one after the other."""
    wrong, missing = panel.values.copy(), panel.values.copy()
    for power in range(4, 37):
        wrong[7 * power, 3], missing[7 * power, 3] = 10.0**power, np.nan
    sample = take_deviations(replace(panel, values=wrong), train)
    expected = take_deviations(replace(panel, values=missing), train)
    assert np.array_equal(sample.deviations, expected.deviations)
    assert np.array_equal(sample.observed, expected.observed)


def test_places_are_read_a_few_at_a_time(
    sample: LaggedSample, panel: Panel, train: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deviations, "_COLUMNS", 3)
    other = take_deviations(panel, train)
    assert np.array_equal(sample.deviations, other.deviations)
    assert np.array_equal(sample.observed, other.observed)
    assert np.array_equal(sample.constant, other.constant)


def test_closed_steps_are_left_out(panel_of: MakePanel) -> None:
    whole = panel_of(np.random.default_rng(4).normal(50, 7, (STEPS, PLACES)))
    clock = replace(whole.clock, hours=("Mo-Fr 06:00-20:00",))
    is_open = clock.is_open(whole.times)
    values = np.where(is_open[:, None], whole.values, np.nan).astype(np.float32)
    panel = replace(whole, clock=clock, values=values)
    sample = take_deviations(panel, np.arange(STEPS) < LAST)
    steps = np.flatnonzero(is_open)
    assert sample.deviations.shape == (PLACES, len(steps))
    assert sample.observed.all()
    assert sample.steps == (steps < LAST).sum()
    joined = {t for runs in sample.runs for a, b in runs for t in range(a, b - 1)}
    nights = set(np.flatnonzero(np.diff(steps) > 1).tolist())
    assert len(nights & joined) > 25  # mornings that follow an evening within a run


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_too_few_steps_are_refused(panel: Panel, steps: int) -> None:
    words = f"graph: {steps} training steps?; at least 4 are needed to hold some out"
    with pytest.raises(DataError, match=words):
        take_deviations(panel, np.arange(STEPS) < steps)


def test_four_steps_are_enough(panel: Panel) -> None:
    sample = take_deviations(panel, np.arange(STEPS) < 4)
    assert [runs.tolist() for runs in sample.runs] == [[[n, n + 1]] for n in range(4)]
