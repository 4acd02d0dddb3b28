"""Forecasts, intervals and their calibration when some observations are wrong."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE
from forecaster.estimators.forecast_inputs import ForecastInputs, bounded_history
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.predictor import Prediction
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.estimators.wrong_values.plausible import (
    RUN_DAYS,
    Judgement,
    Plausibility,
    context,
    day_steps,
)
from forecaster.estimators.wrong_values.value_ranges import LONGEST, RANGE, fit_ranges, run_lengths
from forecaster.panel.fill import fit_fill
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.recipe import change
from forecaster.splits import Splits

CLOCK = Clock("America/New_York")
DAY, DAYS, TRAINED = 24, 70, 47
LEVELS = (12.0, 20.0, 20.0, 40.0, 60.0, 100.0, 3.0, 0.3)
SPLITS = Splits(
    train=[("2015-08-31", "2015-10-16")],
    validation=[("2015-10-17", "2015-10-25")],
    test=[("2015-10-26", "2015-11-08")],
)
BEST = change(
    RECIPE,
    {"preset": "best", "mixer": {"hidden": 8}, "training": {"epochs": 3}},
    source="test",
)
FIRST = 57 * DAY  # the first test step
EVENT = 60 * DAY  # midnight before a Friday
Spoil = Callable[[np.ndarray], None]


def city(
    levels: tuple[float, ...] = LEVELS,
    kind: str = "count",
    seed: int = 7,
    clock: Clock = CLOCK,
) -> Panel:
    """Ten weeks of Poisson counts, or of normal measurements, with a daily course."""
    generator = np.random.default_rng(seed)
    T, N = DAYS * DAY * 60 // clock.step_minutes, len(levels)
    local = clock.local(clock.axis(np.datetime64("2015-08-31T04", "s"), T))
    hours = (local - local.astype("datetime64[D]")).astype(np.int64) / 3600
    rate = np.array(levels) * (1.2 + np.sin(hours / 24 * 2 * np.pi))[:, None]
    counts = generator.poisson(rate)
    measured = 10 + np.sqrt(rate) + generator.normal(0, 0.5, rate.shape)
    return Panel(
        values=(counts if kind == "count" else measured).astype(np.float32),
        start=np.datetime64("2015-08-31T04", "s"),
        clock=clock,
        kind="count" if kind == "count" else "measurement",
        locations=Locations.of_ids(f"p{n}" for n in range(N)),
        covariates=Covariates((), np.empty((T, 0), np.float32)),
        local_covariates=LocalCovariates.empty(T, N),
    )


def learn(panel: Panel) -> Plausibility:
    """What a run would know, with the residuals of the means by time of the week."""
    train = np.arange(len(panel.values)) < len(panel.values) * TRAINED // DAYS
    means = fit_fill(panel, train).values
    arrays = fit_ranges(panel, train)
    residuals = (panel.values - means[panel.clock.slot_of_season(panel.times)])[train]
    spread = np.tile(np.nanstd(residuals, axis=0), (24, 1)).astype(np.float32)
    return Plausibility(panel.kind, means, *arrays[RANGE], arrays[LONGEST], spread)


def spoiled(panel: Panel, spoil: Spoil) -> Panel:
    values = panel.values.copy()
    spoil(values)
    return replace(panel, values=values)


def judge_all(known: Plausibility, panel: Panel) -> Judgement:
    return known.judge(panel, 0, len(panel.values))


CITY, MEASURED = city(), city(kind="measurement")
KNOWN = {"count": learn(CITY), "measurement": learn(MEASURED)}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Ridge]:
    return {p.kind: Ridge(recipe=RECIPE).fit(p, SPLITS) for p in (CITY, MEASURED)}


def older(estimator: Estimator) -> Estimator:
    """The same run without what it knows about plausible values."""
    assert estimator.run is not None
    arrays = {n: a for n, a in estimator.run.arrays.items() if n not in (RANGE, LONGEST)}
    return type(estimator).from_run(replace(estimator.run, arrays=arrays))


# Values without any fault.


def test_almost_nothing_of_poisson_counts_is_marked() -> None:
    marked, cells = 0, 0
    for seed in range(6):
        panel = city((0.05, 0.3, 1.0, 3.0, 8.0, 20.0, 60.0, 200.0), seed=seed)
        marked += len(judge_all(learn(panel), panel).marks.steps)
        cells += panel.values.size
    assert marked <= cells / 3000


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_forecasts_without_a_mark_are_those_of_an_older_run_to_the_bit(
    fitted: dict[str, Ridge], kind: str
) -> None:
    panel = {"count": CITY, "measurement": MEASURED}[kind]
    origins = np.arange(FIRST, DAYS * DAY - 2, 5)
    here, there = fitted[kind].predict_all(panel, origins), older(fitted[kind])
    known = Plausibility.of(fitted[kind].run)  # type: ignore[arg-type]
    assert known is not None
    assert not judge_all(known, panel).marked[FIRST - 400 :].any()
    assert here.base.doubt is not None
    assert not here.base.doubt.any()
    before = there.predict_all(panel, origins)
    assert before.base.doubt is None
    np.testing.assert_array_equal(here.forecast, before.forecast)
    np.testing.assert_array_equal(here.online, before.online)
    np.testing.assert_array_equal(here.static, before.static)


# One wrong value, or a repeated one.


def strike(panel: Panel, origin: int, place: int, fault: float) -> Panel:
    """The panel with a value times a factor; NaN: repeated for ten days."""

    def spoil(values: np.ndarray) -> None:
        if np.isnan(fault):
            values[origin - 10 * DAY + 1 : origin + 1, place] = values[origin, place]
        else:
            values[origin, place] *= fault

    return spoiled(panel, spoil)


def widths(prediction: Prediction) -> np.ndarray:
    return np.asarray(prediction.online[0, -1] - prediction.online[0, 0])


def check_struck(estimator: Estimator, panel: Panel, fault: float, seed: int, cases: int) -> int:
    """Strike random places and origins; returns in how many cases a mark was due."""
    assert estimator.run is not None
    generator, due = np.random.default_rng(seed), 0
    means = estimator.run.arrays["shared.fill"][panel.clock.slot_of_season(panel.times)]
    for _ in range(cases):
        origin, place = int(generator.integers(FIRST, DAYS * DAY - 2)), int(generator.integers(8))
        wrong, at = strike(panel, origin, place, fault), np.array([origin])
        before, after = (estimator.predict_all(each, at) for each in (panel, wrong))
        assert (after.online[0, 0] <= after.forecast[0]).all()
        assert (after.forecast[0] <= after.online[0, -1]).all()
        assert after.base.doubt is not None
        marked = bool(after.base.doubt[0, place])
        value, expected = float(panel.values[origin, place]), float(means[origin, place])
        # Ten times a value that is itself far below what is expected may be an ordinary one.
        if expected >= 10 and value >= expected / 2:
            due += 1
            assert marked
        closed = after.base.closed is not None  # a zero, repeated for ten days
        if marked and not closed:
            assert (widths(after)[:, place] >= widths(before)[:, place]).all()
        moved = np.abs(after.forecast - before.forecast)[0]
        if fault == 50:
            assert (moved[:, place] <= 3 * after.base.spread[0, :, place]).all()
        if isinstance(estimator, Ridge):  # sees only a place's own past
            assert not np.delete(moved, place, axis=1).any()
        others = np.delete(after.base.doubt[0], place)
        assert not others.any()
    return due


@pytest.mark.parametrize("fault", [0.0, 10.0, 50.0])
def test_L6_an_implausible_count_is_marked_and_bounded(
    fitted: dict[str, Ridge], fault: float
) -> None:
    assert check_struck(fitted["count"], CITY, fault, seed=int(fault), cases=12) >= 4


@pytest.mark.parametrize("fault", [-1.0, 10.0, 50.0])
def test_L6_an_implausible_measurement_is_marked_and_bounded(
    fitted: dict[str, Ridge], fault: float
) -> None:
    due = check_struck(fitted["measurement"], MEASURED, fault, seed=int(fault) + 1, cases=8)
    assert due == 8


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_L5_a_value_repeated_for_ten_days_is_marked_and_bounded(
    fitted: dict[str, Ridge], kind: str
) -> None:
    panel = {"count": CITY, "measurement": MEASURED}[kind]
    assert check_struck(fitted[kind], panel, np.nan, seed=5, cases=8) >= 3


def test_L6_a_network_keeps_its_forecast_within_a_wider_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NetworkEstimator, "falls_back", False)
    estimator = Forecaster(recipe=BEST).fit(CITY, SPLITS)
    due = sum(check_struck(estimator, CITY, fault, seed=3, cases=3) for fault in (0.0, 10.0, 50.0))
    assert due >= 3
    check_struck(estimator, CITY, np.nan, seed=4, cases=3)


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_L6_the_value_itself_stays_in_the_panel(fitted: dict[str, Ridge], kind: str) -> None:
    panel = {"count": CITY, "measurement": MEASURED}[kind]
    wrong, origins = strike(panel, EVENT, 3, 50), np.array([EVENT])
    kept = wrong.values.copy()
    run = fitted[kind].run
    assert run is not None
    recent, steps, doubt = bounded_history(run, wrong, origins)
    fitted[kind].predict_all(wrong, origins)
    np.testing.assert_array_equal(wrong.values, kept)
    assert recent.values[steps[0], 3] <= run.arrays[RANGE][1, :, 3].max()
    assert doubt is not None
    assert doubt.tolist() == [[0, 0, 0, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [("count", 0), ("count", 10), ("count", 50)]
    + [("measurement", fault) for fault in (0, -1, 10, 50)],
)
def test_L6_an_implausible_value_enters_near_what_was_to_be_expected(
    kind: str, fault: float
) -> None:
    panel, known, distances = {"count": CITY, "measurement": MEASURED}[kind], KNOWN[kind], []
    usual = known.means[CLOCK.slot_of_season(panel.times)]
    for step in range(EVENT, len(panel.values), 5):
        for place in (3, 4, 5):
            judgement = known.judge(strike(panel, step, place, fault), step, step + 1)
            if judgement.marked[0, place]:
                entry, mean = judgement.values[0, place], usual[step, place]
                if kind == "count":  # on the square-root scale the noise is ½ everywhere
                    distances.append(2 * abs(np.sqrt(entry) - np.sqrt(mean)))
                else:
                    distances.append(abs(entry - mean) / known.spread[0, place])
    assert len(distances) > 100
    assert np.median(distances) < 1  # the noise of the steps before
    assert max(distances) < 5


@pytest.mark.parametrize(("hours", "doubtful"), [(0, 1), (23, 1), (24, 0)])
def test_L6_intervals_are_wider_for_a_day(
    fitted: dict[str, Ridge], hours: int, doubtful: int
) -> None:
    run = fitted["count"].run
    assert run is not None
    wrong = strike(CITY, EVENT, 3, 50)
    _, _, doubt = bounded_history(run, wrong, np.array([EVENT - 1, EVENT + hours]))
    assert doubt is not None
    assert doubt[:, 3].tolist() == [0, doubtful]


# Joint events.


def test_L6_a_wrong_value_in_a_joint_event_is_marked_still() -> None:
    def happens(values: np.ndarray) -> None:
        values[EVENT : EVENT + 4] = np.random.default_rng(1).poisson(3 * values[EVENT : EVENT + 4])
        values[EVENT + 3, 4] *= 20

    panel = spoiled(CITY, happens)
    judgement = judge_all(KNOWN["count"], panel)
    assert judgement.marked[EVENT + 3, 4]
    assert judgement.values[EVENT + 3, 4] < panel.values[EVENT + 3, 4] / 10
    kept = (judgement.values == panel.values)[EVENT + 2 : EVENT + 4]
    assert np.delete(kept, 4, axis=1).mean() > 0.8  # the others enter as they are by now


# Repeated values.


def test_L5_a_missing_value_ends_a_run() -> None:
    def stuck_with_gaps(values: np.ndarray) -> None:
        values[EVENT : EVENT + 30, 3] = values[EVENT, 3]
        values[EVENT : EVENT + 30 : 4, 3] = np.nan  # three equal values at a time

    judgement = judge_all(KNOWN["count"], spoiled(CITY, stuck_with_gaps))
    assert not judgement.marked[EVENT:].any()
    one = np.array([[1, 1, np.nan, 1, np.nan, np.nan, 0, 0, 0]], dtype=np.float32).T
    assert run_lengths(one)[:, 0].tolist() == [1, 2, 1, 1, 1, 1, 1, 2, 3]


def test_L5_a_place_that_repeats_in_training_may_do_so() -> None:
    def repeats(values: np.ndarray) -> None:
        for start in range(0, len(values), 48):
            values[start : start + 20, 2] = values[start, 2]

    panel = spoiled(MEASURED, repeats)
    assert not judge_all(learn(panel), panel).marked[:, 2].any()
    longer = spoiled(panel, lambda values: values[EVENT : EVENT + 40, 2].fill(values[EVENT, 2]))
    marked = judge_all(learn(panel), longer).marked[EVENT:, 2]
    assert np.flatnonzero(marked)[0] == 30  # one and a half times as long
    assert marked[30:40].all()


# What a judgement depends on.


def wild(panel: Panel) -> Panel:
    """The panel with many faults of all kinds."""
    generator = np.random.default_rng(11)

    def spoil(values: np.ndarray) -> None:
        cells = generator.integers(0, values.size, 300)
        values.reshape(-1)[cells] *= generator.choice([0, 10, 50, np.nan], size=300)
        for start in generator.integers(40 * DAY, DAYS * DAY, 12):
            values[start : start + 90, generator.integers(8)] = generator.choice([0, 7, 300])
        values[62 * DAY : 63 * DAY] *= 3

    return spoiled(panel, spoil)


WILD = {p.kind: wild(p) for p in (CITY, MEASURED)}


@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_many_origins_see_the_windows_of_one(fitted: dict[str, Ridge], kind: str) -> None:
    run, panel = fitted[kind].run, WILD[kind]
    assert run is not None
    origins = np.arange(FIRST, DAYS * DAY - 2, 29)
    together, steps, doubt = bounded_history(run, panel, origins)
    assert doubt is not None
    assert 0 < doubt.mean() < 1
    back = run.recipe.lags.length
    for origin, step, doubtful in zip(origins, steps, doubt, strict=True):
        alone, (last,), own = bounded_history(run, panel, np.array([origin]))
        window = together.values[step - back : step + 1]
        np.testing.assert_array_equal(alone.values[last - back : last + 1], window)
        assert own is not None
        np.testing.assert_array_equal(own[0], doubtful)


@pytest.mark.parametrize("longest", [None, 220])
@pytest.mark.parametrize("kind", ["count", "measurement"])
def test_a_panel_cut_shorter_in_front_is_judged_alike(kind: str, longest: int | None) -> None:
    def stick(values: np.ndarray) -> None:
        values[40 * DAY :, 1] = {"count": CITY, "measurement": MEASURED}[kind].values[
            40 * DAY :, 1
        ]
        values[40 * DAY : 56 * DAY, 1] = 200
        values[56 * DAY + 9 : 56 * DAY + 12, 1] = 199, 201, 203
        values[57 * DAY + 10, 1] = 200  # plausible only if both days before could be trusted

    panel, known = WILD[kind], KNOWN[kind]
    if longest is not None:  # so that the longest runs of all count
        known = replace(known, longest=np.full_like(known.longest, longest))
        panel = spoiled(panel, stick)
    back = context(panel.clock)
    assert back > RUN_DAYS * day_steps(panel.clock)
    everything = judge_all(known, panel)
    for step in (57 * DAY + 10, *range(50 * DAY, DAYS * DAY, 7)):
        cut = panel.steps(step - back, step + 1)
        judgement = known.judge(cut, back, back + 1)
        np.testing.assert_array_equal(judgement.values[0], everything.values[step])
        np.testing.assert_array_equal(judgement.marked[0], everything.marked[step])


def test_marks_of_the_last_steps() -> None:
    values = np.zeros((10, 2), dtype=np.float32)
    empty = judge_all(KNOWN["count"], CITY).marks
    one = empty._replace(
        steps=np.array([4]),
        columns=np.array([1]),
        limits=np.ones(1),
        lengths=np.zeros(1, np.int64),
        entries=np.ones(1),
    )
    judgement = Judgement(values, one)
    since = judgement.marked_since(np.array([9, 3, 4, 6, 7]), 3)
    assert since.tolist() == [[0, 0], [0, 0], [0, 1], [0, 1], [0, 0]]
    assert not Judgement(values, empty).marked_since(np.array([9]), 3).any()


# What a run stores, and what follows its outcomes.


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (RANGE, lambda a: a[:, :-1]),
        (RANGE, lambda a: a.astype(np.float64)),
        (RANGE, lambda a: a[0]),
        (RANGE, lambda a: a[::-1] + np.float32([[[0]], [[-1]]])),
        (RANGE, lambda a: np.where(a == a[0, 0, 0], np.float32(np.nan), a)),
        (LONGEST, lambda a: a[:, :-1]),
        (LONGEST, lambda a: a.astype(np.float64)),
        (LONGEST, lambda a: -1 - a),
    ],
)
def test_damaged_ranges_and_runs_are_refused(
    fitted: dict[str, Ridge], name: str, damage: Callable[[np.ndarray], np.ndarray]
) -> None:
    run = fitted["count"].run
    assert run is not None
    arrays = {**run.arrays, name: damage(run.arrays[name])}
    with pytest.raises(ArtifactError, match=re.escape(name)):
        Ridge.from_run(replace(run, arrays=arrays))


@pytest.mark.parametrize("name", [RANGE, LONGEST])
def test_a_run_with_a_part_of_them_is_refused(fitted: dict[str, Ridge], name: str) -> None:
    run = fitted["count"].run
    assert run is not None
    arrays = {n: a for n, a in run.arrays.items() if n != name}
    with pytest.raises(ArtifactError, match=re.escape(name)):
        Ridge.from_run(replace(run, arrays=arrays))


class Constant(Estimator):
    """Its forecasts depend on no recent value."""

    def fit_windows(self, data: TrainingData) -> FitResult:
        return FitResult({"mean": data.panel.values[data.train].mean(axis=0)})

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        return np.tile(arrays["mean"], (len(inputs.origins), self.recipe.lags.horizon, 1))


def test_L6_quantiles_do_not_follow_marked_outcomes() -> None:
    def without_some(values: np.ndarray) -> None:
        values[EVENT : EVENT + 60 : 3, 2] = np.nan

    def with_wrong(values: np.ndarray) -> None:
        values[EVENT : EVENT + 60 : 3, 2] = 50_000

    panel = city((*LEVELS, 15.0, 25.0, 35.0, 45.0))  # so many that one may be missing
    estimator = Constant(recipe=RECIPE).fit(panel, SPLITS)
    origins = np.array([EVENT + 60, EVENT + 100])
    gaps, wrong = (spoiled(panel, each) for each in (without_some, with_wrong))
    outcomes = estimator.predictor(wrong, "observed").outcomes(np.arange(EVENT, EVENT + 60))
    np.testing.assert_array_equal(outcomes, gaps.values[EVENT : EVENT + 60])
    missing, marked = (estimator.predict_all(each, origins) for each in (gaps, wrong))
    np.testing.assert_array_equal(marked.corrections, missing.corrections)
    followed = older(estimator).predict_all(wrong, origins)
    assert (followed.corrections != missing.corrections).any()
