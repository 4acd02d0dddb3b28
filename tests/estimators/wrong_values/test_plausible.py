from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.config import LagConfig, Season, TrainingConfig
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.wrong_values.plausible import Plausibility, context, day_steps
from forecaster.estimators.wrong_values.value_ranges import LONGEST, RANGE, fit_ranges
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.synthetic.city import make_city

PLACES, WEEKS = 11, 13
LAGS = LagConfig(recent=3, seasons=(Season(days=1, count=2, before=0, after=2),), horizon=2)
RECIPE = Recipe(lags=LAGS, training=TrainingConfig(epochs=2, batch=256))
MakePanel = Callable[..., Panel]
NIGHT, DAY = 6, 30  # usual counts of `daily`
TRAINED = 24 * 70  # steps


@pytest.fixture(scope="module")
def city() -> Panel:
    return make_city(locations=PLACES, hours=168 * WEEKS, seed=7).panel


@pytest.fixture(scope="module")
def splits(city: Panel) -> Splits:
    return Splits.by_share(city, validation=0.15, test=0.2)


@pytest.fixture
def daily(make_panel: MakePanel) -> Panel:
    """Twelve weeks of counts: 6 … 12 until 8:00, then 30 … 36, give or take one."""
    hours = np.arange(24 * 84) % 24
    usual = np.where(hours < 8, NIGHT, DAY)[:, None] + np.arange(7)
    noise = np.random.default_rng(2).integers(-1, 2, usual.shape)
    return make_panel(usual + noise, clock=Clock("UTC"), start=np.datetime64("2018-01-01", "s"))


def trained(panel: Panel, spread: float = 1.0) -> Plausibility:
    """What a run knows that was trained on the first weeks of a panel of hours."""
    train = np.arange(len(panel.values)) < TRAINED
    arrays, slots = fit_ranges(panel, train), panel.clock.slot_of_season(panel.times)
    means = [np.nanmean(panel.values[train & (slots == s)], axis=0) for s in range(168)]
    spreads = np.full((24, panel.values.shape[1]), spread, np.float32)
    return Plausibility(panel.kind, np.stack(means), *arrays[RANGE], arrays[LONGEST], spreads)


def changed(panel: Panel, cells: object, value: object) -> Panel:
    values = panel.values.copy()
    values[cells] = value  # type: ignore[index]
    return replace(panel, values=values)


def test_clean_values_are_neither_marked_nor_changed(daily: Panel) -> None:
    judgement = trained(daily).judge(daily, TRAINED, len(daily.values))
    assert not len(judgement.marks.steps)
    assert np.array_equal(judgement.values, daily.values[TRAINED:])


@pytest.mark.parametrize("hour", [3, 14])
@pytest.mark.parametrize("factor", [10, 50, 1e6])
def test_L6_a_value_far_too_high_is_marked_and_enters_near_the_usual_one(
    daily: Panel, hour: int, factor: float
) -> None:
    step, usual = TRAINED + 24 * 3 + hour, (NIGHT if hour < 8 else DAY) + 4
    wrong = changed(daily, (step, 4), factor * usual)
    judgement = trained(daily).judge(wrong, TRAINED, step + 1)
    assert np.argwhere(judgement.marked).tolist() == [[step - TRAINED, 4]]
    assert abs(judgement.values[-1, 4] - usual) <= 2
    assert usual < judgement.marks.limits[0] < factor * usual
    assert judgement.marks.lengths.tolist() == [0]
    untouched = ~judgement.marked
    assert np.array_equal(judgement.values[untouched], wrong.values[TRAINED : step + 1][untouched])


def test_L6_a_zero_is_marked_where_many_are_usual_and_training_had_none(daily: Panel) -> None:
    by_day, by_night = TRAINED + 24 * 3 + 14, TRAINED + 24 * 5 + 3
    wrong = changed(changed(daily, (by_day, 2), 0), (by_night, 0), 0)
    judgement = trained(daily).judge(wrong, TRAINED, len(daily.values))
    assert np.argwhere(judgement.marked).tolist() == [[by_day - TRAINED, 2]]  # 6 are usual at 3:00
    assert abs(judgement.values[by_day - TRAINED, 2] - (DAY + 2)) < 4
    usual = changed(daily, (np.arange(14, TRAINED, 168), 2), 0)  # every Monday in training
    monday = TRAINED + 14
    assert (
        not trained(usual).judge(changed(usual, (monday, 2), 0), monday, monday + 1).marked.any()
    )


def test_L6_a_negative_measurement_is_marked_where_training_had_none(
    make_panel: MakePanel,
) -> None:
    hours = np.arange(24 * 84)
    values = 20 + 5 * np.sin(hours / 24 * 2 * np.pi)[:, None] + np.zeros(3)
    values += np.random.default_rng(3).normal(0, 1, values.shape)
    panel = make_panel(values, "measurement")
    step = TRAINED + 24 * 4
    known = trained(panel)
    judgement = known.judge(changed(panel, (step, 1), -panel.values[step, 1]), step, step + 1)
    assert np.argwhere(judgement.marked).tolist() == [[0, 1]]
    assert 14 < judgement.values[0, 1] < 27
    below = make_panel(values - 30, "measurement")  # −15 … −5
    assert not trained(below).judge(below, TRAINED, len(values)).marked.any()


@pytest.mark.parametrize("factor", [3.0, 20.0, 0.2])
def test_a_lasting_change_of_level_is_accepted_within_a_day(daily: Panel, factor: float) -> None:
    begin = TRAINED + 24 * 2
    values = daily.values.copy()
    values[begin:, 3] = np.round(values[begin:, 3] * factor)
    judgement = trained(daily).judge(replace(daily, values=values), begin, len(values))
    assert not judgement.marked[24:].any()
    assert np.array_equal(judgement.values[24:], values[begin + 24 :])


def test_L1_a_place_that_opens_is_accepted_after_two_days(daily: Panel) -> None:
    values = daily.values.copy()
    opens = TRAINED + 24 * 4 + 9
    values[:opens, 5] = 0
    panel = replace(daily, values=values)
    judgement = trained(panel).judge(panel, TRAINED, len(values))
    later = opens + 48 - TRAINED
    assert not judgement.marked[later:].any()
    assert np.array_equal(judgement.values[later:], values[TRAINED + later :])


def test_a_place_is_judged_by_its_own_values_alone(daily: Panel) -> None:
    known, night = trained(daily), TRAINED + 24 * 3 + 2
    alone = changed(daily, (night, 2), 8 * daily.values[night, 2])
    among = changed(alone, (slice(night - 3, night + 1), [0, 1, 3, 4, 5, 6]), 5_000)
    one, many = (known.judge(panel, night, night + 1) for panel in (alone, among))
    assert one.marked[0, 2]
    assert many.marked[0, 2]
    assert one.values[0, 2] == many.values[0, 2]


def test_L6_on_a_night_when_all_are_high_a_high_value_is_expected(daily: Panel) -> None:
    step = TRAINED + 24 * 3 + 14
    values = daily.values.copy()
    values[step] *= 2.5  # within what a place may have, so that it is not marked
    values[step, 2] = 50 * DAY
    judgement = trained(daily).judge(daily.with_data(values), step, step + 1)
    assert judgement.marks.columns.tolist() == [2]
    assert judgement.values[0, 2] == pytest.approx(2.5 * (DAY + 2), rel=0.1)


def test_a_holiday_is_no_fault(daily: Panel) -> None:
    known, night = trained(daily), TRAINED + 24 * 3 + 2
    few = 1 + np.random.default_rng(5).poisson(daily.values[night : night + 30] / 4)
    quiet = changed(daily, slice(night, night + 30), few)
    assert not known.judge(quiet, TRAINED, night + 30).marked.any()


def test_L6_what_training_nearly_had_at_that_hour_enters_as_the_most_that_it_had(
    daily: Panel,
) -> None:
    saturdays, place = np.arange(24 * 5 + 20, len(daily.values), 168), 3
    values = daily.values.copy()
    values[saturdays[[2, 6]], place] = 600  # two matches in ten weeks: 146 on average
    panel, step = replace(daily, values=values), int(saturdays[saturdays >= TRAINED][0])
    known = trained(panel)
    near, far = (
        known.judge(changed(panel, (step, place), count), step, step + 1)
        for count in (1_700, 20_000)
    )
    assert near.marked[0, place]  # more than eight times the usual count
    assert far.marked[0, place]
    assert 540 < near.values[0, place] <= 600
    assert far.values[0, place] < 200  # what was to be expected


def test_L6_a_zero_where_nine_are_usual_is_marked_whatever_training_had(
    make_panel: MakePanel,
) -> None:
    values = np.random.default_rng(8).poisson(40, (24 * 84, 3))
    values[: 24 * 20 : 5] = 0  # an outage of weeks
    panel = make_panel(values, clock=Clock("UTC"), start=np.datetime64("2018-01-01", "s"))
    judgement = trained(panel).judge(changed(panel, (TRAINED + 99, 1), 0), TRAINED, len(values))
    assert np.argwhere(judgement.marked).tolist() == [[99, 1]]
    assert 25 < judgement.values[99, 1] < 55


def test_L6_negative_values_never_enter_where_training_had_none(make_panel: MakePanel) -> None:
    values = np.random.default_rng(3).normal(60, 3, (24 * 84, 3))
    panel, step = make_panel(values, "measurement"), TRAINED + 24 * 4
    wrong = changed(panel, (slice(step, step + 6), 1), -panel.values[step : step + 6, 1])
    judgement = trained(panel, 3.0).judge(wrong, step, step + 6)
    assert judgement.marked[:, 1].all()
    assert (judgement.values[:, 1] >= 0).all()


def test_an_event_that_lasts_enters_as_it_is_though_marked(daily: Panel) -> None:
    known, step = trained(daily), TRAINED + 24 * 3 + 12
    event = changed(daily, (slice(step, step + 5), 1), np.float32([400, 520, 480, 510, 450]))
    judgement = known.judge(event, step, step + 5)
    assert judgement.marked[:, 1].all()
    assert (judgement.values[:2, 1] < 100).all()
    assert judgement.values[2:, 1].tolist() == [480, 510, 450]


def test_L5_a_repeated_value_is_marked_and_enters_as_missing(daily: Panel) -> None:
    known, begin = trained(daily), TRAINED + 24 * 3 + 12
    stuck = changed(daily, (slice(begin, begin + 240), 4), daily.values[begin, 4])
    judgement = known.judge(stuck, TRAINED, begin + 252)
    marked = judgement.marked[begin - TRAINED :, 4]
    assert not marked[:3].any()
    assert marked[14:240].all()
    assert not marked[243:].any()  # the first may equal the repeated one
    repeated = judgement.marks.lengths > 0
    entries = judgement.marks.entries[repeated & (judgement.marks.columns == 4)]
    assert len(entries) > 220
    assert np.isnan(entries).all()
    assert not np.delete(judgement.marked, 4, axis=1).any()


def test_L5_zeros_for_days_are_marked_and_the_place_goes_to_zero(daily: Panel) -> None:
    known, begin = trained(daily), TRAINED + 24 * 3 + 12
    silent = changed(daily, (slice(begin, begin + 240), 4), 0)
    judgement = known.judge(silent, begin, begin + 240)
    assert judgement.marked[:, 4].mean() > 0.9
    assert judgement.marked[-1, 4]
    assert judgement.values[:6, 4].min() > 20  # an outage of hours is not learned
    assert (judgement.values[48:, 4] == 0).all()
    assert not np.delete(judgement.marked, 4, axis=1).any()


def test_equal_small_counts_are_left_to_chance(make_panel: MakePanel) -> None:
    values = np.random.default_rng(4).poisson(0.7, (24 * 84, 29))
    panel = make_panel(values, clock=Clock("UTC"), start=np.datetime64("2018-01-01", "s"))
    assert trained(panel).judge(panel, TRAINED, len(values)).marked.mean() < 1e-4


def test_older_runs_and_runs_without_intervals_judge_nothing(city: Panel, splits: Splits) -> None:
    fitted = HistoricalMean(RECIPE).fit(city, splits)
    assert fitted.run is not None
    for name in (RANGE, LONGEST, "intervals.spread"):
        arrays = {key: array for key, array in fitted.run.arrays.items() if key != name}
        assert Plausibility.of(replace(fitted.run, arrays=arrays)) is None


wild = st.sampled_from([0.0, 1.0, 7.0, 60.0, 5e3, 1e9, float("nan")])


@given(
    cells=st.lists(st.tuples(st.integers(-200, 30), st.integers(0, 6), wild), max_size=40),
    cut=st.integers(0, 30),
)
@settings(max_examples=60, deadline=None)
def test_a_step_is_judged_by_earlier_values_and_a_bounded_past_alone(
    cells: list[tuple[int, int, float]], cut: int
) -> None:
    hours = np.arange(24 * 84)
    usual = np.where(hours % 24 < 8, NIGHT, DAY)[:, None] + np.arange(7)
    values = (usual + np.random.default_rng(2).integers(-1, 2, usual.shape)).astype(np.float32)
    base = city_of(values)
    origin = TRAINED + 24 * 12
    for step, column, value in cells:
        values[origin + step, column] = value
    known, panel = trained(base), city_of(values)
    whole = known.judge(panel, TRAINED, len(values))
    row = whole.values[origin - TRAINED]
    assert np.array_equal(known.judge(panel, origin, origin + 1).values[0], row, equal_nan=True)
    later = values.copy()
    later[origin + 1 :] = 1e6
    seen = known.judge(city_of(later), origin, origin + 1)
    assert np.array_equal(seen.values[0], row, equal_nan=True)
    assert np.array_equal(seen.marked[0], whole.marked[origin - TRAINED])
    first = origin - context(panel.clock) - cut
    short = known.judge(panel.steps(first, origin + 1), origin - first, origin - first + 1)
    assert np.array_equal(short.values[0], row, equal_nan=True)
    observed = np.isfinite(whole.values)
    assert (whole.values[observed] >= 0).all()
    unmarked = ~whole.marked
    assert np.array_equal(whole.values[unmarked], values[TRAINED:][unmarked], equal_nan=True)


def city_of(values: np.ndarray) -> Panel:
    """A panel of hours, with nothing else known."""
    steps, places = values.shape
    return Panel(
        values=values.astype(np.float32),
        start=np.datetime64("2018-01-01", "s"),
        clock=Clock("UTC"),
        kind="count",
        locations=Locations.of_ids(f"p{n}" for n in range(places)),
        covariates=Covariates((), np.empty((steps, 0), np.float32)),
        local_covariates=LocalCovariates.empty(steps, places),
    )


def test_days_of_few_steps_count_as_weeks() -> None:
    assert day_steps(Clock("UTC")) == 24
    assert day_steps(Clock("UTC", step_minutes=5)) == 288
    assert day_steps(Clock("UTC", step_minutes=1440)) == 7
    assert day_steps(Clock("UTC", step_minutes=7 * 1440)) == 3
    assert day_steps(Clock("UTC", step_months=1)) == 3


def make_best(recipe: Recipe) -> Estimator:
    return Forecaster(recipe=recipe.model_copy(update={"preset": "best"}))


@pytest.mark.parametrize("make", [Ridge, HistoricalMean, make_best])
def test_L6_one_wrong_value_widens_its_interval_and_hardly_moves_forecasts(
    city: Panel, splits: Splits, make: Callable[[Recipe], Estimator]
) -> None:
    fitted = make(RECIPE).fit(city, splits)
    assert fitted.run is not None
    known = Plausibility.of(fitted.run)
    assert known is not None
    generator, M = np.random.default_rng(11), len(city.values)
    slots = city.clock.slot_of_season(city.times)
    marked = expected = 0
    for number in range(24):
        origin, n = int(generator.integers(M - 400, M - 3)), int(generator.integers(PLACES))
        factor = (0, 10, 50)[number % 3]
        mean = float(known.means[slots[origin], n])
        value = np.round(factor * max(float(city.values[origin, n]), mean))
        wrong = changed(city, (origin, n), value)
        before, after = (fitted.predict_all(p, np.array([origin])) for p in (city, wrong))
        is_marked = bool(known.judge(wrong, origin, origin + 1).marked[0, n])
        if mean >= 15 and city.values[origin, n] >= 10:
            expected, marked = expected + 1, marked + is_marked
        for q in (after.online[0], after.static[0]):
            assert (q[0] <= after.forecast[0]).all()
            assert (after.forecast[0] <= q[-1]).all()
        if not is_marked:
            continue
        moved = np.abs(after.forecast - before.forecast)[0] / before.base.spread[0]
        assert moved[:, n].max() <= 3
        assert np.delete(moved, n, axis=1).max() <= 1
        calibration = after.calibration
        plain = calibration.correct(replace(after.base, doubt=None), calibration.corrections)
        low, high = (after.static - plain)[0, [0, -1], :, n] / after.base.spread[0, :, n]
        assert (high >= 0.999).all()
        assert ((low <= -0.999) | (after.static[0, 0, :, n] == 0)).all()
        for form in ("static", "online"):
            width, was = (np.ptp(getattr(p, form)[0, :, :, n], axis=0) for p in (after, before))
            assert (width >= was).all()
    assert expected >= 8
    assert marked == expected
