from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.config import LagConfig
from forecaster.errors import RunError
from forecaster.estimators import predictor as predictor_module
from forecaster.estimators.intervals import online as online_module
from forecaster.estimators.intervals.calibration import Base, Calibration
from forecaster.estimators.intervals.online import (
    CYCLE,
    GAMMA,
    OnlineCalibration,
    Tracker,
    can_count,
    count_sides,
    step_number,
)
from forecaster.estimators.predictor import Predictor, WindowForecasts
from forecaster.panel.panel import Panel

LEVELS = (0.1, 0.5, 0.9)
PLACES, AHEAD = 5, 2
Judge = Callable[[np.ndarray], np.ndarray]
Ask = Callable[[np.ndarray], Base]
LAGS = LagConfig(recent=3, seasons=(), horizon=AHEAD)


@pytest.fixture
def calibration() -> Calibration:
    return Calibration(
        levels=LEVELS,
        corrections=np.zeros((3, AHEAD)),
        spread=np.ones((24, PLACES), np.float32),
        offsets=None,
        floor=-np.inf,
    )


def flat_base(steps: int, width: float = 1.0) -> Base:
    """Return quantiles −width, 0 and width for everything."""
    quantiles = np.array([-width, 0, width], np.float32)[:, None, None]
    quantiles = np.broadcast_to(quantiles, (steps, 3, AHEAD, PLACES)).copy()
    return Base(quantiles[:, 1], quantiles, np.ones((steps, AHEAD, PLACES), np.float32))


def ask_flat(steps: np.ndarray) -> Base:
    return flat_base(len(steps))


def judge_all(steps: np.ndarray) -> np.ndarray:
    return np.ones(len(steps), dtype=bool)


def quantiles_of(
    calibration: Calibration,
    panel: Panel,
    origins: np.ndarray,
    judge: Judge = judge_all,
    ask: Ask = ask_flat,
) -> np.ndarray:
    """Return the quantiles of origins, corrected by what was observed up to each."""
    return predictor_of(calibration, panel, judge, ask).predict(origins).online


def predictor_of(
    calibration: Calibration, panel: Panel, judge: Judge = judge_all, ask: Ask = ask_flat
) -> Predictor:
    """Return a predictor whose forecasts are made up."""

    def forecast(steps: np.ndarray, _: object) -> WindowForecasts:
        base = ask(steps)
        return WindowForecasts(base.forecast, base.quantiles)

    return Predictor(panel, forecast, calibration, judge)


@pytest.fixture
def noise(make_panel: Callable[..., Panel]) -> Panel:
    values = np.random.default_rng(3).normal(size=(1500, PLACES))
    return make_panel(values, kind="measurement")


def test_levels_move_by_the_share_beyond_them(calibration: Calibration) -> None:
    tracker = Tracker(calibration)
    base = flat_base(1).row(0)
    tracker.issue(base)
    tracker.observe(np.array([-2, -2, 0.5, 2, np.nan], np.float32))  # of four: 2 low, 1 high
    found = calibration.correct(base, tracker.corrections)
    expected = [-1 - GAMMA * (0.5 - 0.1), GAMMA * (0.5 - 0.5), 1 + GAMMA * (0.25 - 0.1)]
    np.testing.assert_allclose(found[:, 0, 0], expected, rtol=1e-6)
    np.testing.assert_array_equal(found[:, 1], base.quantiles[:, 1])  # of t + 2 nothing came yet


def test_a_forecast_counts_once_its_step_has_come(calibration: Calibration) -> None:
    tracker, far = Tracker(calibration), np.full(PLACES, 9, np.float32)
    base = flat_base(1).row(0)
    tracker.issue(base)
    tracker.observe(np.full(PLACES, np.nan, np.float32))  # t + 1 is missing
    tracker.issue(None)
    tracker.observe(far)  # t + 2
    found = calibration.correct(base, tracker.corrections)
    np.testing.assert_array_equal(found[:, 0], base.quantiles[:, 0])
    np.testing.assert_allclose(found[2, 1], 1 + GAMMA * 0.9, rtol=1e-6)


def test_a_location_whose_forecast_does_not_count_moves_nothing(calibration: Calibration) -> None:
    both = []
    for far in (9.0, np.nan):  # as if its outcome were missing
        tracker, base = Tracker(calibration), flat_base(1).row(0)
        tracker.issue(base, np.arange(PLACES) != 2)
        tracker.observe(np.array([-2, -2, far, 0.5, 2], np.float32))
        both.append(tracker.corrections)
    np.testing.assert_array_equal(*both)
    assert both[0][2, 0] == pytest.approx(GAMMA * (0.25 - 0.1))
    tracker.issue(base, np.zeros(PLACES, bool))
    before = tracker.corrections
    tracker.observe(np.full(PLACES, 9, np.float32))
    np.testing.assert_array_equal(tracker.corrections[:, 0], before[:, 0])


def test_doubtful_outcomes_and_forecasts_are_left_out_at_their_location(
    calibration: Calibration, noise: Panel
) -> None:
    wrong = noise.values.copy()
    wrong[1000:1100, 3] = 999
    spoiled = replace(noise, values=wrong)
    plain, struck = (predictor_of(calibration, panel) for panel in (noise, spoiled))

    def observed(steps: np.ndarray) -> np.ndarray:
        return np.where(wrong[steps] == 999, np.float32(np.nan), wrong[steps])

    def counts(steps: np.ndarray) -> np.ndarray:  # forecasts from such a value do not count
        return wrong[steps] != 999

    origins = np.array([1050, 1150])
    masked = replace(struck, observed=observed, counts=counts).predict(origins).corrections
    gone = replace(struck, observed=observed).predict(origins).corrections
    missing = replace(noise, values=np.where(wrong == 999, np.float32(np.nan), wrong))
    np.testing.assert_array_equal(
        gone, predictor_of(calibration, missing).predict(origins).corrections
    )
    usual = plain.predict(origins).corrections
    assert np.abs(masked - usual).max() < 0.2
    assert np.abs(struck.predict(origins).corrections - usual).max() > 0.4


def test_equal_values_are_on_neither_side_and_within_the_outermost(
    calibration: Calibration,
) -> None:
    for value, expected in (
        (0.0, [-1 + GAMMA * 0.1, 0, 1 - GAMMA * 0.1]),  # as the middle, which stays
        (-1.0, [-1 + GAMMA * 0.1, -GAMMA * 0.5, 1 - GAMMA * 0.1]),  # as the lowest: not beyond
    ):
        tracker, base = Tracker(calibration), flat_base(1).row(0)
        tracker.issue(base)
        tracker.observe(np.full(PLACES, value, np.float32))
        found = calibration.correct(base, tracker.corrections)
        np.testing.assert_allclose(found[:, 0, 0], expected, rtol=1e-6)


def test_a_count_lies_on_both_sides_of_a_quantile_as_a_draw_around_it_does() -> None:
    generator = np.random.default_rng(7)
    values = generator.poisson(0.7, size=PLACES).astype(np.float32)
    values[2] = np.nan
    quantiles = np.sort(generator.normal(0.7, 1, size=(AHEAD, 3, PLACES)), axis=1)
    above, below = count_sides(values, quantiles.astype(np.float32), resolution=1.0)
    drawn = values + generator.uniform(-0.5, 0.5, size=(20_000, PLACES))
    for sides, found in (
        (drawn[:, None, None] > quantiles, above),
        (drawn[:, None, None] < quantiles, below),
    ):
        np.testing.assert_allclose(found, sides.sum(axis=3).mean(axis=0), atol=0.02)
    np.testing.assert_allclose(above + below, 4, rtol=1e-6)  # the missing one is on neither side
    assert (
        np.isnan(count_sides(values, np.full((2, 3, PLACES), np.nan, np.float32), 1.0)).sum() == 0
    )


def test_levels_of_counts_move_by_the_share_of_the_interval_around_them(
    calibration: Calibration,
) -> None:
    counts = replace(calibration, floor=0.0, resolution=1.0)
    tracker, base = Tracker(counts), flat_base(1).row(0)  # −1, 0, 1; below −½ lies nothing
    tracker.issue(base)
    tracker.observe(np.zeros(PLACES, np.float32))
    expected = [GAMMA * (1 - 0.9), GAMMA * (0.5 - 0.5), GAMMA * (0 - 0.1)]
    np.testing.assert_allclose(tracker.corrections[:, 0], expected, atol=1e-9)


def test_quiet_counts_are_covered_as_often_as_asked(make_panel: Callable[..., Panel]) -> None:
    rates = np.array([0.02, 0.1, 0.5, 1.3, 3.1])
    panel = make_panel(np.random.default_rng(11).poisson(rates, size=(1500, PLACES)))
    spread = np.broadcast_to(np.sqrt(rates + 1 / 12), (24, PLACES)).astype(np.float32)
    still = Calibration(LEVELS, np.zeros((3, AHEAD)), spread, None, 0.0, resolution=1.0)

    def ask(steps: np.ndarray) -> Base:
        mean = np.broadcast_to(rates.astype(np.float32), (len(steps), AHEAD, PLACES))
        spreads = np.broadcast_to(spread[0], mean.shape)
        offsets = np.array([-1.6, 0, 0.8], np.float32)[:, None, None] * spreads[:, None]
        return Base(mean.copy(), mean[:, None] + offsets, spreads.copy())

    origins = np.arange(900, 1497)
    found = predictor_of(still, panel, ask=ask).predict(origins)
    q = still.widen(found.base, found.corrections)
    truth = panel.values[origins[:, None] + np.arange(1, AHEAD + 1)]
    inside = np.minimum(q[:, 2], truth + 0.5) - np.maximum(q[:, 0], truth - 0.5)
    np.testing.assert_allclose(np.clip(inside, 0, 1).mean(axis=(0, 2)), 0.8, atol=0.02)
    closed = (found.online[:, 0] <= truth) & (truth <= found.online[:, 2])
    assert closed.mean() > 0.8


def test_intervals_widened_to_their_forecast_do_not_shrink_the_others(
    calibration: Calibration, noise: Panel
) -> None:
    def ask(steps: np.ndarray) -> Base:  # forecasts of the first two places are far too high
        base = flat_base(len(steps), 1.28)
        forecast = base.forecast.copy()
        forecast[..., :2] = 100
        return replace(base, forecast=forecast)

    origins = np.arange(900, 1497)
    found = quantiles_of(calibration, noise, origins, ask=ask)
    truth = noise.values[origins[:, None] + np.arange(1, AHEAD + 1)]
    assert (found[:, 2, :, :2] == 100).all()
    inside = (found[:, 0] <= truth) & (truth <= found[:, 2])
    assert inside[..., 2:].mean() == pytest.approx(0.8, abs=0.02)


def test_coverage_is_found_whatever_the_base(calibration: Calibration, noise: Panel) -> None:
    origins = np.arange(900, 1497)
    for width in (0.8, 1.6):
        ask = lambda steps, width=width: flat_base(len(steps), width)  # noqa: E731
        q = quantiles_of(calibration, noise, origins, ask=ask)
        truth = noise.values[origins[:, None] + np.arange(1, AHEAD + 1)]
        inside = ((q[:, 0] <= truth) & (truth <= q[:, 2])).mean(axis=(0, 2))
        np.testing.assert_allclose(inside, 0.8, atol=0.02)


@settings(max_examples=5, deadline=None)
@given(st.integers(700, 1490), st.floats(-1e6, 1e6), st.integers(0, 7))
def test_nothing_after_the_origin_changes_its_quantiles(
    origin: int, value: float, place: int
) -> None:
    generator = np.random.default_rng(5)
    values = generator.normal(size=(1500, PLACES)).astype(np.float32)
    panel = _panel(values)
    calibration = Calibration(
        LEVELS, np.zeros((3, AHEAD)), np.ones((24, PLACES), np.float32), None, -np.inf
    )
    later = values.copy()
    later[origin + 1 :, place % PLACES] = value if place < PLACES else np.nan
    asked = np.array([origin])
    one, two = (quantiles_of(calibration, p, asked) for p in (panel, replace(panel, values=later)))
    np.testing.assert_array_equal(one, two)


def _panel(values: np.ndarray) -> Panel:
    from forecaster.estimators.checks.sample import small_city  # noqa: PLC0415

    city = small_city("measurement")
    covariates = replace(city.covariates, names=(), values=np.empty((len(values), 0), np.float32))
    local = np.empty((0, len(values), PLACES), np.float32)
    own = replace(city.local_covariates, values=local)
    return replace(city, values=values, covariates=covariates, local_covariates=own)


def test_an_origin_is_answered_the_same_whatever_else_is_asked(
    calibration: Calibration, noise: Panel
) -> None:
    many = np.concatenate([np.arange(700, 1200), [1400, 711]])
    together = quantiles_of(calibration, noise, many)
    for row in (13, 499, 500, 501):
        alone = quantiles_of(calibration, noise, many[[row]])
        np.testing.assert_array_equal(alone[0], together[row])


def test_a_panel_that_begins_later_gives_the_same(calibration: Calibration, noise: Panel) -> None:
    first = 500
    shorter = replace(
        noise,
        values=noise.values[first:],
        start=noise.start + first * noise.clock.step,
        covariates=replace(noise.covariates, values=noise.covariates.values[first:]),
        local_covariates=replace(
            noise.local_covariates, values=noise.local_covariates.values[:, first:]
        ),
    )
    origin = np.array([1450])
    long = quantiles_of(calibration, noise, origin)
    short = quantiles_of(calibration, shorter, origin - first)
    np.testing.assert_array_equal(long, short)


def test_other_steps_are_asked_for_once_and_two_cycles_are_enough(
    calibration: Calibration, noise: Panel
) -> None:
    asked: list[int] = []

    def ask(steps: np.ndarray) -> Base:
        asked.extend(steps.tolist())
        return ask_flat(steps)

    origins = np.setdiff1d(np.arange(1100, 1400), [1200, 1201])
    predictor_of(calibration, noise, ask=ask).predict(origins)
    assert 1100 - 2 * CYCLE < min(asked) <= 1100 - CYCLE
    assert sorted(asked) == [*range(min(asked), 1400)]


def test_without_any_outcome_the_static_form_is_left(
    calibration: Calibration, noise: Panel
) -> None:
    static = replace(calibration, corrections=np.array([[-0.5, -1.0], [0.1, 0.2], [0.3, 0.7]]))

    def judge_none(steps: np.ndarray) -> np.ndarray:
        return np.zeros(len(steps), dtype=bool)

    origins = np.array([3, 1000])
    found = quantiles_of(static, noise, origins, judge_none)
    np.testing.assert_array_equal(found, static.correct(flat_base(2), static.corrections))


def test_a_forecast_that_does_not_count_moves_nothing_even_if_it_is_asked_for(
    calibration: Calibration, noise: Panel
) -> None:
    def judge(steps: np.ndarray) -> np.ndarray:
        return steps != 1000

    alone = quantiles_of(calibration, noise, np.array([1003]), judge)
    both = quantiles_of(calibration, noise, np.array([1000, 1003]), judge)
    np.testing.assert_array_equal(both[1:], alone)


def test_origins_step_by_step_and_in_any_order_are_those_of_one_call(
    calibration: Calibration, noise: Panel
) -> None:
    whole = quantiles_of(calibration, noise, np.arange(900, 1400))
    online = OnlineCalibration(calibration, step_number(noise))

    def follow(origin: int) -> np.ndarray:
        steps = np.array(online.unobserved(origin), dtype=np.int64)
        online.observe(steps.tolist(), noise.values[steps], judge_all(steps))
        while missing := online.unforecast(origin)[:7]:  # a few at a time
            online.add(missing, flat_base(len(missing)))
        return calibration.correct(online.base(origin), online.corrections(origin))

    for origin in (1000, 1001, 1399, 990, 1013, 901, 1398):
        np.testing.assert_array_equal(follow(origin), whole[origin - 900])
    assert online.unobserved(1398) == []


def test_nothing_is_kept_that_rests_on_changed_steps(
    calibration: Calibration, noise: Panel
) -> None:
    online = OnlineCalibration(calibration, step_number(noise))

    def follow(panel: Panel, origin: int) -> np.ndarray:
        steps = np.array(online.unobserved(origin), dtype=np.int64)
        online.observe(steps.tolist(), panel.values[steps], judge_all(steps))
        missing = online.unforecast(origin)
        online.add(missing, flat_base(len(missing)))
        return calibration.correct(online.base(origin), online.corrections(origin))

    before = follow(noise, 1010)
    values = noise.values.copy()
    values[1003:1008] += 5
    later = replace(noise, values=values)
    online.forget_from(1003)
    after = follow(later, 1010)
    np.testing.assert_array_equal(after, quantiles_of(calibration, later, np.array([1010]))[0])
    assert not np.array_equal(after, before)


def test_corrections_without_their_steps_are_refused(calibration: Calibration) -> None:
    with pytest.raises(RunError, match=r"origin 500: step \d+ lacks its outcome"):
        OnlineCalibration(calibration, 0).corrections(500)


def test_steps_count_that_have_their_history_and_their_future(
    make_panel: Callable[..., Panel],
) -> None:
    values = np.ones((60, 3))
    values[40] = np.nan
    panel = make_panel(values)
    covariates = np.zeros((60, 1), np.float32)
    covariates[50] = np.nan
    world = replace(panel.covariates, names=("rain",), values=covariates)
    with_world, learned = replace(panel, covariates=world), np.zeros(60 + AHEAD, bool)
    counts = can_count(with_world, LAGS, "observed", learned, np.arange(20, 58))
    steps = np.arange(20, 58)[counts]
    early = 2 + AHEAD + 24  # three steps of history, the horizon and a day to spare
    expected = set(range(early, 58)) - {40, 41, 42} - {48, 49}
    assert set(steps.tolist()) == expected
    persisted = can_count(with_world, LAGS, "persist", learned, np.arange(20, 58))
    assert set(np.arange(20, 58)[persisted].tolist()) == expected | {48, 49}


def test_steps_do_not_count_whose_outcomes_were_learned_from(
    make_panel: Callable[..., Panel],
) -> None:
    panel, learned = make_panel(np.ones((60, 3))), np.zeros(60 + AHEAD, bool)
    learned[:45] = True
    counts = can_count(panel, LAGS, "persist", learned, np.arange(40, 60))
    assert np.arange(40, 60)[counts].tolist() == list(range(44, 60))  # t + 1 … t + AHEAD from 45


def test_zeros_of_quiet_places_do_not_drag_the_others_down(
    make_panel: Callable[..., Panel],
) -> None:
    # Three places of five have no demand at all: no outcome of theirs lies on either side of 0.
    base = np.broadcast_to(np.array([0, 0, 0, 50, 50], np.float32), (3, AHEAD, PLACES)).copy()
    base[0, :, 3:], base[2, :, 3:] = 41, 59
    values = np.random.default_rng(5).normal(50, 7, size=(1500, PLACES)).astype(np.float32)
    values[:, :3] = 0
    spread = np.broadcast_to(np.array([1, 1, 1, 7, 7], np.float32), (24, PLACES)).copy()
    still = Calibration(LEVELS, np.zeros((3, AHEAD)), spread, None, floor=0.0)

    def ask(steps: np.ndarray) -> Base:
        whole = np.broadcast_to(base, (len(steps), *base.shape)).copy()
        spreads = np.broadcast_to(spread[0], (len(steps), AHEAD, PLACES)).copy()
        return Base(whole[:, 1], whole, spreads)

    origins = np.arange(1300, 1400)
    found = quantiles_of(still, make_panel(values), origins, ask=ask)
    median = found[:, 1, :, 3:].mean()
    assert 48 < median < 52


def long_calibration(horizon: int, places: int = PLACES) -> Calibration:
    spread = np.ones((24, places), np.float32)
    return Calibration(LEVELS, np.zeros((3, horizon)), spread, None, -np.inf)


def ask_long(horizon: int, width: float = 1.0) -> Ask:
    """Return quantiles −width, 0 and width for a long horizon."""

    def ask(steps: np.ndarray) -> Base:
        quantiles = np.array([-width, 0, width], np.float32)[:, None, None]
        quantiles = np.broadcast_to(quantiles, (len(steps), 3, horizon, PLACES)).copy()
        return Base(quantiles[:, 1], quantiles, np.ones((len(steps), horizon, PLACES), np.float32))

    return ask


def test_every_step_of_a_long_horizon_is_corrected_by_one_to_two_cycles(noise: Panel) -> None:
    horizon, origin = 101, 1400
    asked: list[int] = []

    def ask(steps: np.ndarray) -> Base:
        asked.extend(steps.tolist())
        return ask_long(horizon, width=5.0)(steps)  # far too wide: every outcome moves them in

    corrections = predictor_of(long_calibration(horizon), noise, ask=ask).predict(
        np.array([origin])
    )
    moves = -corrections.corrections[0, 2] / (GAMMA * 0.1)
    assert CYCLE < moves.min() <= moves.max() <= 2 * CYCLE
    np.testing.assert_allclose(moves, moves[0])  # the last step ahead as often as the first
    first = (step_number(noise) + origin) // CYCLE * CYCLE - CYCLE - step_number(noise)
    assert sorted(asked) == [*range(first - horizon, origin + 1)]


def test_corrections_of_a_long_horizon_do_not_overshoot(noise: Panel) -> None:
    horizon, origins = 167, np.arange(1100, 1300, 7)
    predictor = predictor_of(long_calibration(horizon), noise, ask=ask_long(horizon, 0.6))
    q = predictor.predict(origins).online
    truth = noise.values[origins[:, None] + np.arange(1, horizon + 1)]
    inside = ((q[:, 0] <= truth) & (truth <= q[:, 2])).mean(axis=(0, 2))
    assert inside.mean() == pytest.approx(0.8, abs=0.04)  # from 0.45
    assert q[:, 2].max() < 2.0  # 1.28 is right


def test_followed_forecasts_are_dropped_for_memory_and_asked_for_again(
    noise: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    horizon, origins = 23, np.array([1100, 1103, 1300])
    predictor = predictor_of(long_calibration(horizon), noise, ask=ask_long(horizon))
    plenty = predictor.predict(origins).online
    size = ask_long(horizon)(origins[:1]).nbytes
    monkeypatch.setattr(online_module, "FORECAST_BYTES", 11 * size)
    monkeypatch.setattr(online_module, "TRACKER_BYTES", 1)
    monkeypatch.setattr(predictor_module, "VALUES_AT_ONCE", 7 * horizon * PLACES)
    np.testing.assert_array_equal(predictor.predict(origins).online, plenty)


def test_the_quantiles_that_await_their_outcome_stay_within_memory() -> None:
    horizon, places = 168, 1000
    levels_bytes = 3 * places * 4
    assert Tracker(long_calibration(horizon, places)).nbytes == horizon * (horizon + 1) // 2 * (
        levels_bytes
    )  # 170 MB
