import inspect
import math
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import mean_pinball_loss

from forecaster.config import MetricConfig
from forecaster.metrics import (
    IntervalScores,
    Metric,
    Scores,
    score,
    sum_errors,
    sum_intervals,
)

NAN = float("nan")
CUT = MetricConfig().mape_cut
UNSIGNED = {"bias": "wape", "mean_error": "mae"}  # whose terms do not cancel
FIGURES = ("rmse", "mape", "mae", "wape", "bias", "mean_error")
B, K, N = 5, 3, 2  # windows, steps ahead, locations: distinct primes

numbers = st.floats(-1e4, 1e4, width=32) | st.sampled_from([0.0, -0.0, 9.5, 10.0, 10.5])
holed = numbers | st.just(NAN)


def row(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def by_hand(pairs: list[tuple[float, float]], cut: float) -> dict[str, tuple[float | None, int]]:
    """Return figure and terms of (truth, forecast) pairs, one at a time as section 3.1.3 says."""
    seen = [(x, y) for x, y in pairs if not math.isnan(x)]
    busy = [abs(y - x) / x for x, y in seen if x >= cut]
    misses = [abs(y - x) for x, y in seen]
    size = math.fsum(abs(x) for x, _ in seen)
    surplus = math.fsum(y - x for x, y in seen)
    none = (None, 0)
    return {
        "rmse": (math.sqrt(math.fsum(e * e for e in misses) / len(seen)), len(seen))
        if seen
        else none,
        "mape": (math.fsum(busy) / len(busy), len(busy)) if busy else none,
        "mae": (math.fsum(misses) / len(seen), len(seen)) if seen else none,
        "wape": (math.fsum(misses) / size, len(seen)) if size else none,
        "bias": (surplus / size, len(seen)) if size else none,
        "mean_error": (surplus / len(seen), len(seen)) if seen else none,
    }


def pairs_of(truth: np.ndarray, forecast: np.ndarray) -> list[tuple[float, float]]:
    return list(zip(truth.ravel().tolist(), forecast.ravel().tolist(), strict=True))


def close_to(value: float | None, terms: int, size: float | None = None) -> tuple[object, int]:
    """Return what equals a figure but for rounding, relative to it or to a larger size."""
    room = max(1e-12, 1e-9 * (size or 0))
    return None if value is None else pytest.approx(value, rel=1e-9, abs=room), terms


def assert_equal(scores: Scores, expected: dict[str, tuple[float | None, int]]) -> None:
    for name in FIGURES:
        size = expected[UNSIGNED[name]][0] if name in UNSIGNED else None
        assert astuple(getattr(scores, name)) == close_to(*expected[name], size), name


# ----------------------------------------------------------------------------- the figures


def test_each_figure_is_what_its_formula_gives_by_hand() -> None:
    scores = score(row(10, 20, 5), row(12, 15, 5), CUT)  # misses 2, 5 and 0
    assert astuple(scores.rmse) == (pytest.approx(math.sqrt(29 / 3)), 3)
    assert astuple(scores.mape) == (pytest.approx((0.2 + 0.25) / 2), 2)
    assert astuple(scores.mae) == (pytest.approx(7 / 3), 3)
    assert astuple(scores.wape) == (pytest.approx(7 / 35), 3)
    assert astuple(scores.bias) == (pytest.approx(-3 / 35), 3)  # 32 forecast, 35 observed
    assert astuple(scores.mean_error) == (pytest.approx(-1.0), 3)


@given(
    arrays(np.float32, (B, K, N), elements=holed),
    arrays(np.float32, (B, K, N), elements=numbers),
    st.sampled_from([CUT, 0.5, 9.5, 1e3]),
)
def test_every_figure_equals_one_computed_term_by_term(
    truth: np.ndarray, forecast: np.ndarray, cut: float
) -> None:
    report = sum_errors(truth, forecast, cut).report()
    assert_equal(report.average, by_hand(pairs_of(truth, forecast), cut))
    assert len(report.steps) == K
    for k, scores in enumerate(report.steps):
        assert_equal(scores, by_hand(pairs_of(truth[:, k], forecast[:, k]), cut))


@given(arrays(np.float64, (B, K, N), elements=holed), st.integers(0, 2**32 - 1))
def test_the_order_of_windows_and_locations_does_not_matter(truth: np.ndarray, seed: int) -> None:
    generator = np.random.default_rng(seed)
    forecast = generator.normal(0, 50, truth.shape)
    windows, places = generator.permutation(B), generator.permutation(N)
    whole = sum_errors(truth, forecast, CUT).report()
    mixed = sum_errors(truth[windows][..., places], forecast[windows][..., places], CUT).report()
    for one, other in zip(
        (whole.average, *whole.steps), (mixed.average, *mixed.steps), strict=True
    ):
        assert_equal(one, {name: astuple(getattr(other, name)) for name in FIGURES})


def test_a_perfect_forecast_misses_by_nothing() -> None:
    truth = np.arange(B * K * N, dtype=np.float32).reshape(B, K, N)
    report = sum_errors(truth, truth, CUT).report()
    for scores in (report.average, *report.steps):
        assert [getattr(scores, name).value for name in FIGURES] == [0.0] * len(FIGURES)


def test_steps_are_told_apart() -> None:
    truth = np.full((B, K, N), 20.0, dtype=np.float32)
    forecast = truth + row(1, 2, 3)[None, :, None]
    report = sum_errors(truth, forecast, CUT).report()
    assert [scores.mae.value for scores in report.steps] == [1.0, 2.0, 3.0]
    assert [scores.mape.value for scores in report.steps] == pytest.approx([0.05, 0.1, 0.15])
    assert [scores.mae.terms for scores in report.steps] == [B * N] * K


def test_mape_is_of_the_second_output_and_all_else_of_the_mean() -> None:
    truth, mean, relative = row(10, 20, 5), row(12, 15, 5), row(9, 18, 0)
    sums = sum_errors(truth, mean, CUT, relative)
    assert astuple(sums.scores().mape) == (pytest.approx((0.1 + 0.1) / 2), 2)
    alone = sum_errors(truth, mean, CUT).scores()
    for name in FIGURES:
        assert (getattr(sums.scores(), name) == getattr(alone, name)) == (name != "mape"), name
    holed = sum_errors(row(10, NAN, 5), mean, CUT, row(9, NAN, NAN))  # only where it counts
    assert astuple(holed.scores().mape) == (pytest.approx(0.1), 1)


def test_errors_that_cancel_leave_no_bias() -> None:
    scores = score(row(10, 20), row(13, 17), CUT)
    assert (scores.mae.value, scores.bias.value, scores.mean_error.value) == (3.0, 0.0, 0.0)


def test_sums_of_an_earlier_version_have_no_bias() -> None:
    sums = sum_errors(row(10, 20), row(13, 17), CUT)
    older = replace(sums, signed=np.full_like(sums.signed, NAN)).scores()
    assert older.bias == older.mean_error == Metric(None, 0)
    assert older.rmse == sums.scores().rmse


def test_the_average_pools_all_terms_and_is_not_a_mean_of_steps() -> None:
    truth = np.full((1, 2, 2), 20.0, dtype=np.float32)
    truth[0, 1, 1] = NAN
    report = sum_errors(truth, truth + row(1, 4)[None, :, None], CUT).report()
    assert astuple(report.average.rmse) == (pytest.approx(math.sqrt((1 + 1 + 16) / 3)), 3)
    assert astuple(report.average.mae) == (pytest.approx(2.0), 3)


def test_sums_are_taken_in_double_precision() -> None:
    truth = np.full(1 << 20, 1.0, dtype=np.float32)
    truth[0] = 2**24  # in float32, 2²⁴ + 1 = 2²⁴
    scores = score(truth, truth + np.float32(1.0) * (truth < 2), CUT)
    assert scores.wape.value == pytest.approx(((1 << 20) - 1) / (2**24 + (1 << 20) - 1), rel=1e-9)


# ------------------------------------------------------------------------------- the traps


def test_T3_a_panel_with_maximum_9_has_no_mape_and_finite_figures() -> None:
    truth = np.arange(B * K * N, dtype=np.float32).reshape(B, K, N) % 10
    report = sum_errors(truth, truth + 1, CUT).report()
    for scores in (report.average, *report.steps):
        assert scores.mape == Metric(None, 0)
        assert str(scores.mape) == scores.mape.show(percent=True) == "n/a (0 terms)"
        assert scores.rmse.value == scores.mae.value == 1.0


def test_P8_without_any_truth_there_is_no_figure_at_all() -> None:
    report = sum_errors(np.full((B, K, N), NAN), np.ones((B, K, N)), CUT).report()
    for scores in (report.average, *report.steps):
        assert [getattr(scores, name) for name in FIGURES] == [Metric(None, 0)] * len(FIGURES)


def test_P8_no_windows_give_no_figures_but_every_step() -> None:
    report = sum_errors(np.ones((0, K, N)), np.ones((0, K, N)), CUT).report()
    assert len(report.steps) == K
    assert report.average == report.steps[0]
    assert report.average.rmse == Metric(None, 0)


def test_P8_what_was_forecast_for_missing_truth_does_not_matter() -> None:
    truth, forecast = row(10, NAN, 20), row(11, 1e30, 20)
    expected = score(row(10, 20), row(11, 20), CUT)
    assert score(truth, forecast, CUT) == expected
    assert score(truth, row(11, NAN, 20), CUT) == expected
    assert expected.rmse.terms == 2


def test_P8_truth_of_zero_has_errors_but_no_shares() -> None:
    scores = score(row(0, 0, 0), row(3, 4, 0), CUT)
    assert astuple(scores.rmse) == (pytest.approx(math.sqrt(25 / 3)), 3)
    assert scores.mae.terms == 3
    assert scores.mape == scores.wape == scores.bias == Metric(None, 0)
    assert astuple(scores.mean_error) == (pytest.approx(7 / 3), 3)


def test_P8_negative_truth_counts_by_its_size_and_never_for_mape() -> None:
    scores = score(row(-20, 20), row(-10, 25), CUT)
    assert astuple(scores.wape) == (pytest.approx(15 / 40), 2)
    assert astuple(scores.mape) == (pytest.approx(0.25), 1)


def test_P8_truth_at_the_cut_counts_and_truth_below_does_not() -> None:
    truth, forecast = row(9.999, 10, 11), row(0, 5, 11)
    assert astuple(score(truth, forecast, CUT).mape) == (pytest.approx(0.25), 2)
    assert score(truth, forecast, 10.5).mape == Metric(0.0, 1)


def test_P8_a_step_without_truth_has_no_figure_while_the_others_have() -> None:
    truth = np.full((B, K, N), 20.0, dtype=np.float32)
    truth[:, 1] = NAN
    report = sum_errors(truth, truth + 1, CUT).report()
    assert [scores.rmse.terms for scores in report.steps] == [B * N, 0, B * N]
    assert report.steps[1].rmse.value is None
    assert report.average.rmse == Metric(1.0, 2 * B * N)


def test_P8_a_forecast_that_is_no_number_never_scores_well() -> None:
    value = score(row(10, 20), row(NAN, 20), CUT).rmse.value
    assert value is not None
    assert math.isnan(value)


@pytest.mark.parametrize("cut", [0.0, -1.0, NAN])
def test_P8_a_cut_that_would_divide_by_zero_is_refused(cut: float) -> None:
    with pytest.raises(ValueError, match=r"mape_cut = .*: must be > 0, since MAPE divides"):
        score(row(0), row(0), cut)


def test_P8_a_forecast_of_another_shape_is_refused_not_stretched() -> None:
    truth, forecast = np.ones((B, K, N)), np.ones((B, K, 1))
    unchecked = inspect.unwrap(sum_errors)  # without the shape checks of the test run
    with pytest.raises(ValueError, match=r"truth \(5, 3, 2\) and forecast \(5, 3, 1\) differ"):
        unchecked(truth, forecast, CUT)


# ---------------------------------------------------------------------------- the intervals

LEVELS = (0.1, 0.5, 0.9)
INTERVAL_METRICS = ("coverage", "width", "pinball")
sorted_quantiles = arrays(np.float32, (len(LEVELS), B, K, N), elements=numbers).map(
    lambda drawn: np.sort(drawn, axis=0)
)


def interval_scores(truth: np.ndarray, *quantiles: np.ndarray) -> IntervalScores:
    return sum_intervals(truth, np.stack(quantiles), LEVELS).scores()


def test_each_interval_figure_is_what_its_formula_gives_by_hand() -> None:
    # 12 is within 10 … 20, 25 above it: u = x − q is 2, −1, −8 and 15, 12, 5
    scores = interval_scores(row(12, 25), row(10, 10), row(13, 13), row(20, 20))
    assert astuple(scores.coverage) == (0.5, 2)
    assert astuple(scores.width) == (10.0, 2)
    first = (0.1 * 2 + 0.5 * 1 + 0.1 * 8) / 3
    second = (0.1 * 15 + 0.5 * 12 + 0.9 * 5) / 3
    assert astuple(scores.pinball) == (pytest.approx((first + second) / 2), 2)


@given(arrays(np.float32, (B, K, N), elements=holed), sorted_quantiles)
def test_the_pinball_loss_is_scikit_learns_and_the_coverage_is_counted(
    truth: np.ndarray, quantiles: np.ndarray
) -> None:
    report = sum_intervals(truth, quantiles, LEVELS).report()
    assert len(report) == 1 + K
    for k, scores in enumerate(report):
        chosen = slice(None) if k == 0 else slice(k - 1, k)
        x = truth[:, chosen].astype(np.float64)
        seen = np.isfinite(x)
        assert [getattr(scores, name).terms for name in INTERVAL_METRICS] == [seen.sum()] * 3
        if not seen.any():
            continue
        q = [part[:, chosen][seen].astype(np.float64) for part in quantiles]
        losses = [mean_pinball_loss(x[seen], p, alpha=a) for p, a in zip(q, LEVELS, strict=True)]
        assert scores.pinball.value == pytest.approx(np.mean(losses), rel=1e-6, abs=1e-9)
        pairs = zip(q[0].tolist(), x[seen].tolist(), q[-1].tolist(), strict=True)
        held = [low <= value <= high for low, value, high in pairs]
        assert scores.coverage.value == pytest.approx(sum(held) / len(held))
        assert scores.width.value == pytest.approx(np.mean(q[-1] - q[0]), rel=1e-6, abs=1e-9)


@given(arrays(np.float64, (B, K, N), elements=holed), sorted_quantiles, st.floats(0, 1e3))
def test_a_wider_interval_never_holds_less(
    truth: np.ndarray, quantiles: np.ndarray, more: float
) -> None:
    wider = quantiles.astype(np.float64) + np.array([-more, 0, more])[:, None, None, None]
    narrow, wide = (sum_intervals(truth, q, LEVELS) for q in (quantiles, wider))
    assert (wide.inside >= narrow.inside).all()
    assert (wide.widths >= narrow.widths - 1e-6).all()


@given(st.integers(0, 2**32 - 1))
def test_the_order_of_windows_and_locations_does_not_matter_for_intervals(seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth = np.where(generator.random((B, K, N)) < 0.2, NAN, generator.normal(size=(B, K, N)))
    quantiles = np.sort(generator.normal(size=(3, B, K, N)), axis=0)
    windows, places = generator.permutation(B), generator.permutation(N)
    whole = sum_intervals(truth, quantiles, LEVELS).report()
    mixed_up = sum_intervals(
        truth[windows][..., places], quantiles[:, windows][..., places], LEVELS
    ).report()
    for one, other in zip(whole, mixed_up, strict=True):
        for name in INTERVAL_METRICS:
            assert astuple(getattr(one, name)) == close_to(*astuple(getattr(other, name)))


def test_the_pinball_loss_of_the_median_is_half_the_absolute_error() -> None:
    truth, forecast = row(10, 20, NAN, 5), row(12, 15, 3, 5)
    sums = sum_intervals(truth, forecast[None], (0.5,))
    assert sums.scores().pinball.value == pytest.approx(score(truth, forecast, CUT).mae.value / 2)


def test_true_quantiles_have_the_lowest_pinball_loss_and_hold_what_they_say() -> None:
    truth = np.random.default_rng(0).normal(size=(1, 1, 200_003))
    z = 1.2815515655446004  # the 90 % quantile of the standard normal distribution
    ends = {factor: (-factor * z, factor * z) for factor in (0.7, 1.0, 1.3)}
    found = {
        factor: interval_scores(truth, *(np.full_like(truth, end) for end in (low, 0.0, high)))
        for factor, (low, high) in ends.items()
    }
    assert found[1.0].coverage.value == pytest.approx(0.8, abs=0.003)
    losses = {factor: scores.pinball.value or 0.0 for factor, scores in found.items()}
    assert min(losses, key=lambda factor: losses[factor]) == 1.0
    # ∫ ρ_α(x − z_α) φ(x) dx = φ(z_α): (2 · 0.175498 + 0.398942) / 3
    assert losses[1.0] == pytest.approx(0.249980, abs=0.001)


def test_an_end_of_the_interval_belongs_to_it() -> None:
    ends = row(3, 3), row(4, 4), row(5, 5)
    assert interval_scores(row(3, 5), *ends).coverage == Metric(1.0, 2)
    assert interval_scores(row(2.9, 5.1), *ends).coverage == Metric(0.0, 2)


def test_the_randomised_coverage_is_the_part_of_each_count_within_the_uncut_interval() -> None:
    low, high = row(-0.3, -0.3, -0.3, 1.0), row(1.25, 1.25, 1.25, 1.25)
    shown, uncut = (np.stack([end, high, high]) for end in (np.maximum(low, 0), low))
    scores = sum_intervals(row(0, 1, 2, NAN), shown, LEVELS, uncut).scores()
    assert scores.randomised.value == pytest.approx((0.8 + 0.75 + 0) / 3)
    assert scores.coverage.value == pytest.approx(2 / 3)
    assert scores.randomised.terms == scores.coverage.terms == 3
    assert sum_intervals(row(0, 1, 2, NAN), shown, LEVELS).scores().randomised == Metric(None, 0)


@pytest.mark.parametrize(  # `whole`: scipy.stats.poisson.pmf of the counts within, summed
    ("rate", "whole"), [(0.05, 0.9512), (0.5, 0.9098), (1.65, 0.7220), (4.0, 0.7977)]
)
def test_the_randomised_coverage_of_the_true_quantiles_is_nominal(
    rate: float, whole: float
) -> None:
    # The distribution of x + V, V uniform in ± ½, is linear between k − ½ and k + ½ (Czado,
    # Gneiting and Held 2009, Eq. 1); its values there are those of the Poisson distribution.
    masses = [math.exp(-rate) * rate**k / math.factorial(k) for k in range(30)]
    ends = np.concatenate([[0], np.cumsum(masses)])
    quantiles = np.interp((0.1, 0.5, 0.9), ends, np.arange(-0.5, 30))
    counts = np.random.default_rng(5).poisson(rate, size=(200_000, 1)).astype(np.float64)
    uncut = np.broadcast_to(quantiles[:, None, None], (3, *counts.shape))
    scores = sum_intervals(counts, np.maximum(uncut, 0), (0.1, 0.5, 0.9), uncut).scores()
    assert scores.randomised.value == pytest.approx(0.8, abs=0.003)  # 3 standard errors
    # The closed interval holds whole counts, and so more or less.
    assert scores.coverage.value == pytest.approx(whole, abs=0.003)


def test_one_level_has_a_loss_but_no_interval() -> None:
    scores = sum_intervals(row(1, 2, NAN), row(1, 1, 1)[None], (0.3,)).scores()
    assert scores.coverage == scores.width == Metric(None, 0)
    assert astuple(scores.pinball) == (pytest.approx(0.3 / 2), 2)


def test_P8_missing_truth_leaves_the_sums_of_intervals_and_their_counts() -> None:
    ends = row(0, NAN, 1e30), row(1, 2, 1e30), row(2, 3, 1e30)
    with_hole = interval_scores(row(1, NAN, NAN), *ends)
    assert with_hole == interval_scores(row(1), *(end[:1] for end in ends))
    nothing = interval_scores(row(NAN), row(0), row(1), row(2))
    assert [getattr(nothing, name) for name in INTERVAL_METRICS] == [Metric(None, 0)] * 3


def test_P8_quantiles_that_are_no_number_never_score_well() -> None:
    scores = interval_scores(row(10, 20), row(NAN, 10), row(NAN, 20), row(NAN, 30))
    assert scores.coverage == Metric(0.5, 2)
    assert math.isnan(scores.pinball.value or 0.0)


def test_P8_quantiles_of_another_shape_are_refused_not_stretched() -> None:
    unchecked = inspect.unwrap(sum_intervals)
    with pytest.raises(ValueError, match=r"\(3, 5, 3, 1\); levels and truth need \(3, 5, 3, 2\)"):
        unchecked(np.ones((B, K, N)), np.ones((3, B, K, 1)), LEVELS)
    with pytest.raises(ValueError, match=r"need \(2, 5, 3, 2\)"):
        unchecked(np.ones((B, K, N)), np.ones((3, B, K, N)), LEVELS[:2])


# ------------------------------------------------------------------------------ as printed


@pytest.mark.parametrize(
    ("metric", "text", "short", "percent"),
    [
        (Metric(5.18791, 7), "5.1879", "5.19", "518.79"),
        (Metric(0.2013621, 7), "0.2014", "0.20", "20.14"),
        (Metric(0.0, 7), "0.0000", "0.00", "0.00"),
        (Metric(None, 0), "n/a (0 terms)", "n/a (0 terms)", "n/a (0 terms)"),
    ],
)
def test_a_figure_is_printed_with_four_digits_or_two(
    metric: Metric, text: str, short: str, percent: str
) -> None:
    assert [str(metric), metric.show(), metric.show(percent=True)] == [text, short, percent]


def test_the_cut_of_the_paper_is_ten() -> None:
    assert CUT == 10.0  # section 3.1.3
    truth = np.full((B, K, N), 10.0)
    report = sum_errors(truth, truth, CUT).report()
    assert report.average.mape == Metric(0.0, B * K * N)
