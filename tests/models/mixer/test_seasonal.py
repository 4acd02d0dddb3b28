from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from forecaster.config import LagConfig, ModelConfig
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.mixer.hiding import HiddenMasks
from forecaster.models.mixer.seasonal import (
    Decomposition,
    DeviationBounds,
    DeviationNetwork,
    SeasonalProfile,
    flatten_beyond,
    slots_of,
)
from forecaster.models.network import Heads
from forecaster.models.transformer import TransformerNetwork, build_dense_transformer

Draw = Callable[..., Tensor]
N, B, L, K, WEEK = 3, 5, 13, 2, 168


def steps(hours: Tensor, signal: Tensor) -> State:
    """Return steps at some hours of the week, with two kinds of weather and a calendar."""
    calendar = torch.zeros(32, *hours.shape, dtype=torch.float64)
    calendar.scatter_(0, (hours // 24)[None], 1.0)
    calendar.scatter_(0, 7 + (hours % 24)[None], 1.0)
    weather = torch.full((2, *hours.shape), 9.0, dtype=torch.float64)
    return State(signal, torch.cat([weather, calendar]), hours)


@pytest.fixture
def hours() -> Tensor:
    first = torch.tensor([0, 100, 155, 7, 167])
    return (first[:, None] + torch.arange(L + K)) % WEEK


@pytest.fixture
def profile(draw: Draw) -> Tensor:
    return 20 + 19 * torch.tanh(draw(N, WEEK))


def window(values: Tensor, hours: Tensor, mean: Tensor, deviation: Tensor) -> tuple[State, State]:
    scaled = (values - mean[:, None, None]) / deviation[:, None, None]
    coming = values.new_zeros(N, 0, B, K)
    return steps(hours[:, :L], scaled[:, None]), steps(hours[:, L:], coming)


MEAN = torch.tensor([19.0, 23.0, 5.0], dtype=torch.float64)
DEVIATION = torch.tensor([7.0, 2.0, 11.0], dtype=torch.float64)


def test_without_the_step_of_the_season_nothing_is_usual(hours: Tensor) -> None:
    signal = torch.zeros(N, 1, B, L + K, dtype=torch.float64)
    assert torch.equal(slots_of(steps(hours, signal)), hours)
    with pytest.raises(ValueError, match="give State its slots"):
        slots_of(replace(steps(hours, signal), slots=None))


def test_the_profile_may_have_any_number_of_steps(hours: Tensor, draw: Draw) -> None:
    profile = 20 + 19 * torch.tanh(draw(N, 2016))
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=False)
    history, ahead = window(draw(N, B, L), hours, MEAN, DEVIATION)
    fine = replace(ahead, slots=(12 * hours + 5)[:, L:])
    usual = level(history, fine)
    before = level(history, replace(fine, slots=fine.slots - 1))
    here = (profile.T - MEAN).T / DEVIATION[:, None]
    step = here[:, fine.slots] - here[:, fine.slots - 1]
    torch.testing.assert_close(usual.ahead - before.ahead, step)


def test_counts_rise_and_fall_together(profile: Tensor, hours: Tensor, draw: Draw) -> None:
    values = 30 * draw(N, B, L).abs()
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=True)
    usual = level(*window(values, hours, MEAN, DEVIATION))
    for n in range(N):
        for b in range(B):
            past, coming = profile[n, hours[b, :L]], profile[n, hours[b, L:]]
            m = (values[n, b].sum() + 1) / (past.sum() + 1)
            spread = DEVIATION[n] * torch.sqrt(m * past / MEAN[n] + 0.05)
            torch.testing.assert_close(usual.past[n, b], (values[n, b] - m * past) / spread)
            torch.testing.assert_close(usual.level[n, b, 0], m.log().clamp(-0.25, 0.25))
            torch.testing.assert_close(usual.ahead[n, b], (m * coming - MEAN[n]) / DEVIATION[n])
            torch.testing.assert_close(usual.spread[n, b], torch.sqrt(m * coming / MEAN[n] + 0.05))
    assert torch.equal(usual.shape, usual.ahead)


def test_measurements_shift(profile: Tensor, hours: Tensor, draw: Draw) -> None:
    values = 30 * draw(N, B, L)
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=False)
    usual = level(*window(values, hours, MEAN, DEVIATION))
    for n in range(N):
        for b in range(B):
            past, coming = profile[n, hours[b, :L]], profile[n, hours[b, L:]]
            m = (values[n, b] - past).sum() / (L + 1)
            torch.testing.assert_close(usual.past[n, b], (values[n, b] - past - m) / DEVIATION[n])
            shift = (m / DEVIATION[n]).clamp(-1, 1)
            torch.testing.assert_close(usual.level[n, b, 0], shift)
            torch.testing.assert_close(usual.ahead[n, b], (coming + m - MEAN[n]) / DEVIATION[n])
            assert torch.equal(usual.spread[n, b], torch.ones(K, dtype=torch.float64))
    assert torch.equal(usual.shape, usual.ahead)


@pytest.mark.parametrize("counts", [True, False])
def test_values_equal_to_the_profile_have_no_deviation(
    profile: Tensor, hours: Tensor, counts: bool
) -> None:
    values = profile[:, hours[:, :L]]
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=counts)
    usual = level(*window(values, hours, MEAN, DEVIATION))
    torch.testing.assert_close(usual.past, torch.zeros_like(usual.past), atol=1e-12, rtol=0)
    forecast = usual.restore(torch.zeros_like(usual.ahead))
    units = forecast * DEVIATION[:, None, None] + MEAN[:, None, None]
    torch.testing.assert_close(units, profile[:, hours[:, L:]])


def test_a_city_at_a_thirtieth_is_forecast_at_a_thirtieth(profile: Tensor, hours: Tensor) -> None:
    values = profile[:, hours[:, :L]] / 30
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=True)
    usual = level(*window(values, hours, MEAN, DEVIATION))
    units = usual.ahead * DEVIATION[:, None, None] + MEAN[:, None, None]
    torch.testing.assert_close(units, profile[:, hours[:, L:]] / 30, rtol=0.3, atol=0)
    # One count is added to what was seen. The network is told of no level that it never saw.
    assert torch.equal(usual.level, torch.full_like(usual.level, -0.25))


@pytest.mark.parametrize("counts", [True, False])
def test_a_location_without_events_stays_finite(hours: Tensor, counts: bool) -> None:
    mean, deviation = torch.zeros_like(MEAN), torch.ones_like(MEAN)  # as a scale has them
    level = SeasonalProfile(
        torch.zeros(N, WEEK, dtype=torch.float64), mean, deviation, counts=counts
    )
    usual = level(*window(torch.zeros(N, B, L, dtype=torch.float64), hours, mean, deviation))
    forecast = usual.restore(torch.zeros_like(usual.ahead))
    assert torch.equal(forecast, torch.zeros_like(forecast))
    parts = [part for part in vars(usual).values() if part is not None]
    assert all(part.isfinite().all() for part in parts)


# ------------------------------------------------------------ bounds of what others may see

SIZES = st.floats(0, 1e6)


def flat(r: float, bound: float) -> float:
    both = (torch.full((1, 1, 1), number, dtype=torch.float64) for number in (r, bound))
    return flatten_beyond(*both).item()


@given(share=st.floats(0, 1), bound=SIZES)
def test_up_to_half_of_the_bound_a_deviation_stays_as_it_is(share: float, bound: float) -> None:
    r = share * bound / 2
    assert flat(r, bound) == r


@given(further=SIZES, bound=SIZES)
def test_all_deviations_beyond_the_bound_are_the_same(further: float, bound: float) -> None:
    assert flat(bound + further, bound) == flat(bound, bound)
    assert flat(bound, bound) == pytest.approx(0.75 * bound)  # a half, and half of the other one


@given(r=SIZES, bound=st.floats(-1e6, 0))
def test_without_a_bound_above_zero_nothing_is_left(r: float, bound: float) -> None:
    assert flat(r, bound) == 0.0


@given(share=st.floats(0.5, 1, exclude_min=True), bound=st.floats(1e-3, 1e6))
def test_the_slope_falls_evenly_from_1_at_the_half_to_0_at_the_bound(
    share: float, bound: float
) -> None:
    r = torch.full((1, 1, 1), share * bound, dtype=torch.float64, requires_grad=True)
    flatten_beyond(r, torch.full_like(r, bound)).backward()
    assert r.grad is not None
    assert r.grad.item() == pytest.approx(2 * (1 - share), abs=1e-9)


@given(r=SIZES, further=SIZES, bound=st.floats(-10, 1e6))
def test_flattening_never_turns_around_jumps_or_enlarges(
    r: float, further: float, bound: float
) -> None:
    less, more = flat(r, bound), flat(r + further, bound)
    rounding = 1e-9 * max(1.0, bound)
    assert 0 <= less <= r
    assert -rounding <= more - less <= further + rounding


EVENING = 17  # an hour of the day
AT = torch.arange(L + K) + EVENING - L + 1  # so that the last past step is at that hour


def bounds_of(
    least: float, most: float, deviation: float = 100.0, known: tuple[float, ...] = (1.0,) * N
) -> DeviationBounds:
    """Return bounds of all locations: values at every hour, and deviations."""
    values = torch.tensor([least, most], dtype=torch.float64)[:, None, None].expand(2, N, 24)
    extremes = torch.tensor([-deviation, deviation], dtype=torch.float64)
    shares = torch.tensor(known, dtype=torch.float64)
    return DeviationBounds(values.clone(), extremes[:, None].expand(2, N).clone(), shares)


def plain_spread(n: int, usual: Tensor, level: Tensor, known: tuple[float, ...]) -> Tensor:
    """Return the spread of counts in their units, by the formulas of the docstring."""
    u = usual / MEAN[n]
    if known[n] >= 1:
        return DEVIATION[n] * torch.sqrt(u + 0.05)
    shares = sorted(float(DEVIATION[i] / MEAN[i]) for i in range(N) if known[i] >= 1)
    city = shares[(len(shares) - 1) // 2] if shares else 1.0
    return MEAN[n] * torch.sqrt(city**2 * level * (u + 0.05) + u / MEAN[n])


class SameLevel:
    """Decomposes windows that end with other values, but have the same sums.

    All numbers are whole, or powers of two, so that no sum is rounded.
    """

    mean = torch.tensor([16.0, 32.0, 4.0], dtype=torch.float64)
    deviation = torch.tensor([8.0, 2.0, 16.0], dtype=torch.float64)

    def __init__(self, profile: Tensor, bounds: DeviationBounds, *, counts: bool = True) -> None:
        self.profile = profile.round()
        scale = self.mean, self.deviation
        self.level = SeasonalProfile(self.profile, *scale, counts=counts, bounds=bounds, recent=4)

    def window(self, last: float) -> tuple[State, State]:
        values = self.profile[:, AT[:L]][:, None].expand(N, B, L).clone()
        values[..., -1] = last
        values[..., 0] = 512 - last
        return window(values, AT.expand(B, -1), self.mean, self.deviation)

    def __call__(self, last: float) -> Decomposition:
        usual: Decomposition = self.level(*self.window(last))
        return usual


@pytest.mark.parametrize("counts", [True, False])
def test_without_bounds_others_see_the_last_deviations(
    profile: Tensor, hours: Tensor, draw: Draw, counts: bool
) -> None:
    inputs = window(30 * draw(N, B, L).abs(), hours, MEAN, DEVIATION)
    for recent, shown in ((4, slice(-4, None)), (None, slice(None))):
        level = SeasonalProfile(profile, MEAN, DEVIATION, counts=counts, recent=recent)
        usual = level(*inputs)
        assert torch.equal(usual.bounded, usual.past[..., shown])


@pytest.mark.parametrize("counts", [True, False])
def test_wide_bounds_change_nothing(
    profile: Tensor, hours: Tensor, draw: Draw, counts: bool
) -> None:
    level = SeasonalProfile(
        profile, MEAN, DEVIATION, counts=counts, bounds=bounds_of(-1e6, 1e6, 1e6), recent=4
    )
    usual = level(*window(30 * draw(N, B, L).abs(), hours, MEAN, DEVIATION))
    torch.testing.assert_close(usual.bounded, usual.past[..., -4:])


@pytest.mark.parametrize("known", [(1.0, 1.0, 1.0), (1.0, 0.4, 0.0)])
@pytest.mark.parametrize("counts", [True, False])
def test_bounded_deviations_are_those_of_a_plain_loop(
    profile: Tensor, hours: Tensor, draw: Draw, counts: bool, known: tuple[float, ...]
) -> None:
    values = 30 * draw(N, B, L).abs()
    least, most = 5 * draw(N, 24).abs(), 15 + 30 * draw(N, 24).abs()
    least[:, ::5] = most[:, ::5]  # closed at these hours
    extremes = torch.stack([-0.5 - draw(N).abs(), 0.5 + draw(N).abs()])
    shares = torch.tensor(known, dtype=torch.float64)
    bounds = DeviationBounds(torch.stack([least, most]), extremes, shares)
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=counts, bounds=bounds, recent=6)
    usual = level(*window(values, hours, MEAN, DEVIATION))
    expected = torch.zeros(N, B, 6, dtype=torch.float64)
    for n in range(N):
        for b in range(B):
            past = profile[n, hours[b, :L]]
            if counts:
                m = (values[n, b].sum() + 1) / (past.sum() + 1)
                expected_values = past * m
                spread = plain_spread(n, expected_values, m, known)
            else:
                expected_values = past + (values[n, b] - past).sum() / (L + 1)
                spread = DEVIATION[n].expand(L)
            for place, s in enumerate(range(L - 6, L)):
                u, size, hour = expected_values[s], spread[s], hours[b, s] % 24
                r = float((values[n, b, s] - u) / size)
                high = min(float((most[n, hour] - u) / size), float(extremes[1, n]))
                lowest = float(extremes[0, n])
                low = max(min(float((least[n, hour] - u) / size), lowest / 2), lowest)
                if least[n, hour] == most[n, hour]:
                    low = high = 0.0
                expected[n, b, place] = flat(r, high) if r > 0 else -flat(-r, -low)
    torch.testing.assert_close(usual.bounded, expected)
    changed = (usual.bounded != usual.past[..., -6:]).float().mean()
    assert 0.2 < changed < 1  # some lie within half of their bounds


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("deviation", [100.0, 0.7])
def test_a_value_beyond_all_of_training_is_seen_as_the_largest_of_training(
    profile: Tensor, counts: bool, deviation: float
) -> None:
    decompose = SameLevel(profile, bounds_of(0.0, 90.0, deviation), counts=counts)
    within, largest, beyond, far = map(decompose, (60.0, 90.0, 91.0, 490.0))
    assert torch.equal(largest.bounded, beyond.bounded)
    assert torch.equal(largest.bounded, far.bounded)
    assert torch.equal(largest.level, far.level)
    assert (far.past[..., -1] > 2 * largest.past[..., -1]).all()
    assert (largest.bounded[..., -1] > within.bounded[..., -1]).all() or deviation < 1
    assert (largest.bounded[..., -1] <= deviation).all()


@pytest.mark.parametrize("counts", [True, False])
def test_a_value_below_all_of_training_is_seen_as_the_lowest_deviation_of_training(
    profile: Tensor, counts: bool
) -> None:
    decompose = SameLevel(profile, bounds_of(3.0, 90.0, 0.7), counts=counts)
    smallest, below = map(decompose, (3.0, 0.0))
    low = smallest.past[..., -1] < -0.7
    assert low.any()
    assert torch.equal(smallest.bounded[..., -1][low], below.bounded[..., -1][low])
    assert (below.past[..., -1] < smallest.past[..., -1]).all()
    assert (below.bounded[..., -1] >= -0.7).all()


def test_at_a_level_below_all_of_training_others_still_see_what_is_low(profile: Tensor) -> None:
    quiet = SameLevel(profile, bounds_of(1e6, 2e6, 4.0))(0.0)  # far below the smallest value
    low = quiet.past[..., -4:] < -0.5
    assert low.any()
    assert (quiet.bounded[low] < -0.4).all()
    assert (quiet.bounded >= -2.0).all()  # half of the lowest deviation of training


def test_the_bound_is_that_of_the_hour_of_the_day(profile: Tensor) -> None:
    def last_seen(hour: int) -> Tensor:
        bounds = bounds_of(0.0, 90.0, 1e3)
        bounds.values[1, :, hour] = 300.0
        return SameLevel(profile, bounds)(400.0).bounded[..., -1]

    assert (last_seen(EVENING) > 2 * last_seen(EVENING + 1)).all()
    assert torch.equal(last_seen(EVENING + 1), last_seen(EVENING + 2))


@given(
    size=st.sampled_from([0.0, 1.0, 7.0, 1e3, 1e6]),
    known=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_location_closed_in_training_shows_nothing(size: float, known: float, seed: int) -> None:
    profile = torch.full((N, WEEK), 0.1, dtype=torch.float64)
    mean, deviation = profile[:, 0], torch.full((N,), 0.1**0.5, dtype=torch.float64)
    bounds = bounds_of(0.0, 0.0, known=(known,) * N)
    spread = deviation * (1.05**0.5)
    bounds.deviations[:] = -0.1 / spread  # all of its deviations
    level = SeasonalProfile(profile, mean, deviation, counts=True, bounds=bounds)
    values = size * torch.rand(
        N, B, L, generator=Generator().manual_seed(seed), dtype=torch.float64
    )
    usual = level(*window(values.floor(), AT.expand(B, -1), mean, deviation))
    assert torch.equal(usual.bounded, torch.zeros_like(usual.bounded))
    assert usual.past.isfinite().all()


# --------------------------------------------------- locations that training hardly knows


@pytest.mark.parametrize("known", [(1.0, 0.4, 0.0), (0.0, 1.0, 1.0), (0.9, 0.0, 0.5)])
def test_locations_of_unknown_spread_have_that_of_their_level_and_of_the_city(
    profile: Tensor, hours: Tensor, draw: Draw, known: tuple[float, ...]
) -> None:
    values = 30 * draw(N, B, L).abs()
    level = SeasonalProfile(
        profile, MEAN, DEVIATION, counts=True, bounds=bounds_of(0.0, 1e6, 1e6, known)
    )
    usual = level(*window(values, hours, MEAN, DEVIATION))
    shares = sorted(float(DEVIATION[i] / MEAN[i]) for i in range(N) if known[i] >= 1)
    city = shares[(len(shares) - 1) // 2] if shares else 1.0
    for n in range(N):
        for b in range(B):
            past, coming = profile[n, hours[b, :L]], profile[n, hours[b, L:]]
            m = (values[n, b].sum() + 1) / (past.sum() + 1)
            own = plain_spread(n, m * past, m, known)
            torch.testing.assert_close(usual.past[n, b], (values[n, b] - m * past) / own)
            torch.testing.assert_close(usual.ahead[n, b], (m * coming - MEAN[n]) / DEVIATION[n])
            ahead = plain_spread(n, m * coming, m, known) / DEVIATION[n]
            torch.testing.assert_close(usual.spread[n, b], ahead)
            shape = (coming / MEAN[n] - 1) / city  # of the profile, whatever the level
            expected = usual.ahead[n, b] if known[n] >= 1 else shape
            torch.testing.assert_close(usual.shape[n, b], expected)


def test_without_a_level_of_counts_all_locations_are_known(
    profile: Tensor, hours: Tensor, draw: Draw
) -> None:
    inputs = window(30 * draw(N, B, L), hours, MEAN, DEVIATION)
    bounds = bounds_of(-1e6, 1e6, 1e6, (1.0, 0.4, 0.0))
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=False, bounds=bounds)
    usual = level(*inputs)
    assert torch.equal(usual.spread, torch.ones_like(usual.spread))
    assert torch.equal(usual.shape, usual.ahead)


SILENT = 2  # a location without counts in training, at the floor of a tenth
SHAPE = 1 + 0.5 * torch.sin(torch.arange(WEEK, dtype=torch.float64))


def wake(count: float) -> tuple[Decomposition, Tensor, Tensor]:
    """Return windows with a count at all steps, and the silent location's spread and counts."""
    mean, deviation = MEAN.clone(), DEVIATION.clone()
    mean[SILENT], deviation[SILENT] = 0.1, 0.1**0.5
    bounds = bounds_of(0.0, 100.0, known=(1.0, 1.0, 0.0))
    level = SeasonalProfile(mean[:, None] * SHAPE, mean, deviation, counts=True, bounds=bounds)
    values = torch.full((N, B, L), count, dtype=torch.float64)
    usual: Decomposition = level(*window(values, AT.expand(B, -1), mean, deviation))
    m = (L * count + 1) / (0.1 * SHAPE[AT[:L]].sum() + 1)
    return usual, usual.spread[SILENT, 0] * deviation[SILENT], m * 0.1 * SHAPE[AT[L:]]


def test_a_silent_location_has_the_spread_of_poisson_counts_while_it_is_quiet() -> None:
    _, spread, expected = wake(0.0)
    torch.testing.assert_close(spread, torch.sqrt(expected), rtol=0.01, atol=0)


@pytest.mark.parametrize("count", [1e6, 1e7])
def test_a_silent_location_at_a_high_level_has_a_spread_in_proportion_to_it(count: float) -> None:
    _, spread, expected = wake(count)
    city = 2 / 23  # the median in relation to the mean, of 2 / 23 and 7 / 19
    at_hour = city / torch.sqrt(SHAPE[AT[L:]])  # a busy hour deviates more, but not as much
    torch.testing.assert_close(spread, at_hour * expected, rtol=1e-3, atol=0)
    _, twice, _ = wake(2 * count)
    torch.testing.assert_close(twice, 2 * spread, rtol=1e-3, atol=0)


def test_what_a_silent_location_shows_of_its_shape_does_not_depend_on_its_level() -> None:
    quiet, busy = wake(0.0)[0], wake(1e5)[0]
    torch.testing.assert_close(busy.shape[SILENT], quiet.shape[SILENT])
    assert (busy.ahead[SILENT] > 1e3 * quiet.ahead[SILENT].abs()).all()
    assert not torch.isclose(busy.shape[:SILENT], quiet.shape[:SILENT]).any()


@given(
    values=st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=9),
    mean=st.floats(0.1, 1e3),
    deviation=st.floats(0.3, 1e3),
    usual=st.floats(1e-2, 1e3),
)
def test_forecasts_of_counts_are_kept_above_zero(
    values: list[float], mean: float, deviation: float, usual: float
) -> None:
    scale = (torch.full((1,), number, dtype=torch.float64) for number in (mean, deviation))
    level = SeasonalProfile(torch.full((1, WEEK), mean, dtype=torch.float64), *scale, counts=True)
    y = torch.tensor(sorted(values), dtype=torch.float64)[None, None]  # in counts
    u = torch.full_like(y, usual)
    kept = level.keep_positive((y - mean) / deviation, (u - mean) / deviation) * deviation + mean
    expected = (y + torch.sqrt(y.square() + 4 * (u / 20).square() + 1e-12 * deviation**2)) / 2
    rounding = 1e-11 * 1e4
    torch.testing.assert_close(kept, expected, rtol=1e-9, atol=rounding)
    assert (kept > -rounding).all()
    assert (kept.diff() >= -rounding).all()
    near = y > usual  # what is usual or above stays, but for a quarter of a percent
    assert ((kept - y)[near] < usual / 400 + 1e-6 * deviation + rounding).all()


def test_no_gradient_flows_from_beyond_the_bound(profile: Tensor) -> None:
    decompose = SameLevel(profile, bounds_of(0.0, 90.0, 0.1))
    history, ahead = decompose.window(400.0)
    signal = history.signal.clone().requires_grad_()
    usual = decompose.level(replace(history, signal=signal), ahead)
    usual.bounded[..., -1].sum().backward()
    assert signal.grad is not None
    assert not signal.grad.any()  # neither of the value nor through the level


@pytest.fixture
def core(lags: LagConfig, generator: Generator) -> TransformerNetwork:
    inputs = NeuronLayout(N, 2, 34)
    small = lags.model_copy(update={"horizon": K})
    config = ModelConfig(auxiliary=4, heads=2, per_location=2)
    return build_dense_transformer(
        config, small, inputs, generator, Heads((0.1, 0.5, 0.9))
    ).double()


def levelled(profile: Tensor, core: TransformerNetwork) -> DeviationNetwork:
    return DeviationNetwork(core, SeasonalProfile(profile, MEAN, DEVIATION, counts=True))


def with_covariate(network_inputs: tuple[State, State], draw: Draw) -> tuple[State, State]:
    history, ahead = network_inputs
    signal = torch.cat([history.signal, draw(N, 1, B, L)], dim=1)
    return replace(history, signal=signal), replace(ahead, signal=draw(N, 1, B, K))


def test_a_levelled_network_forecasts_deviations_from_deviations(
    profile: Tensor, hours: Tensor, core: TransformerNetwork, draw: Draw
) -> None:
    model = levelled(profile, core)
    window_ = window(30 * draw(N, B, L).abs(), hours, MEAN, DEVIATION)
    history, ahead = with_covariate(window_, draw)
    usual = model.level(history, ahead)
    shown = State(
        torch.cat([usual.past[:, None], history.signal[:, 1:]], dim=1), history.auxiliary
    )
    deviation, quantiles, _ = core(shown, ahead)
    forecast = usual.ahead + usual.spread * deviation
    torch.testing.assert_close(model.roll_out(history, ahead), forecast)
    outputs = model(history, ahead)
    torch.testing.assert_close(outputs.forecast, forecast)
    torch.testing.assert_close(outputs.relative, forecast)
    expected = usual.ahead[:, None] + usual.spread[:, None] * quantiles
    torch.testing.assert_close(outputs.quantiles, expected)
    assert model.levels == (0.1, 0.5, 0.9)


def test_a_levelled_network_taught_its_own_forecasts_is_rolling_out(
    profile: Tensor, hours: Tensor, core: TransformerNetwork, draw: Draw
) -> None:
    model = levelled(profile, core)
    network_inputs = with_covariate(window(30 * draw(N, B, L).abs(), hours, MEAN, DEVIATION), draw)
    outputs = model(*network_inputs)
    truth = outputs.forecast[..., :-1]
    torch.testing.assert_close(model(*network_inputs, truth), outputs)
    without = model(*network_inputs, truth, with_quantiles=False)
    torch.testing.assert_close(without.forecast, outputs.forecast)


# ---------------------------------------------------- missing values and hidden locations

CITY = 1 + torch.arange(WEEK, dtype=torch.float64) / WEEK  # its shape by hour of the week


def with_city(known: tuple[float, ...] = (1.0,) * N) -> DeviationBounds:
    """Return wide bounds, with the city's shape: missing values are masked."""
    return replace(bounds_of(-1e6, 1e6, 1e6, known), city=CITY)


@pytest.mark.parametrize("counts", [True, False])
def test_the_level_is_that_of_the_observed_steps_and_missing_ones_do_not_deviate(
    profile: Tensor, hours: Tensor, draw: Draw, counts: bool
) -> None:
    values = 30 * draw(N, B, L).abs()
    missing = draw(N, B, L) > 0.3
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=counts, bounds=with_city())
    gaps = torch.where(missing, torch.nan, values)
    usual = level(*window(gaps, hours, MEAN, DEVIATION))
    assert torch.equal(usual.observed, ~missing)
    assert (usual.past[missing] == 0).all()
    for n in range(N):
        for b in range(B):
            past, seen = profile[n, hours[b, :L]], ~missing[n, b]
            if counts:
                m = (values[n, b][seen].sum() + 1) / (past[seen].sum() + 1)
                expected = m * profile[n, hours[b, L:]]
            else:
                m = (values[n, b] - past)[seen].sum() / (seen.sum() + 1)
                expected = m + profile[n, hours[b, L:]]
            torch.testing.assert_close(usual.ahead[n, b], (expected - MEAN[n]) / DEVIATION[n])


@pytest.mark.parametrize("counts", [True, False])
def test_a_hidden_step_is_a_missing_one(
    profile: Tensor, hours: Tensor, draw: Draw, counts: bool
) -> None:
    values, lags = 30 * draw(N, B, L).abs(), draw(N, B, L) > 0
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=counts, bounds=with_city())
    nobody = torch.zeros(N, B, dtype=torch.bool)
    hidden = level(*window(values, hours, MEAN, DEVIATION), HiddenMasks(lags, nobody))
    missing = level(*window(values.masked_fill(lags, torch.nan), hours, MEAN, DEVIATION))
    for name, part in vars(hidden).items():
        torch.testing.assert_close(part, getattr(missing, name).expand_as(part))


def test_a_window_without_any_value_is_at_its_usual_level(profile: Tensor, hours: Tensor) -> None:
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=True, bounds=with_city())
    nothing = torch.full((N, B, L), torch.nan, dtype=torch.float64)
    usual = level(*window(nothing, hours, MEAN, DEVIATION))
    assert (usual.level == 0).all()
    expected = (profile[:, hours[:, L:]] - MEAN[:, None, None]) / DEVIATION[:, None, None]
    torch.testing.assert_close(usual.ahead, expected)


@pytest.mark.parametrize("counts", [True, False])
def test_a_hidden_location_has_the_citys_profile_at_its_own_level_and_is_not_seen(
    profile: Tensor, hours: Tensor, draw: Draw, counts: bool
) -> None:
    values = 30 * draw(N, B, L).abs()
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=counts, bounds=with_city(), recent=4)
    places = torch.tensor([True, False, False])[:, None].expand(N, B)
    seen = torch.zeros(N, B, L, dtype=torch.bool)
    inputs = window(values, hours, MEAN, DEVIATION)
    usual, plain = level(*inputs, HiddenMasks(seen, places)), level(*inputs)
    assert usual.known is not None
    assert (usual.known[0] == 0).all()
    assert (usual.known[1:] == 1).all()
    assert (usual.bounded[0] == 0).all()
    assert (usual.level[0] == 0).all()
    torch.testing.assert_close(usual.ahead[1:], plain.ahead[1:])
    for b in range(B):
        past, coming = CITY[hours[b, :L]], CITY[hours[b, L:]]
        if counts:  # at most one mean is added to the sums, in place of one count
            added = min(1.0, 1 / float(MEAN[0]))
            m = (values[0, b].sum() / MEAN[0] + added) / (past.sum() + added)
            expected = (m * coming * MEAN[0] - MEAN[0]) / DEVIATION[0]
        else:
            scaled = (values[0, b] - MEAN[0]) / DEVIATION[0]
            expected = (scaled - past).mean() + coming
        torch.testing.assert_close(usual.ahead[0, b], expected)


def test_the_level_of_an_unknown_location_does_not_depend_on_its_scale(
    profile: Tensor, hours: Tensor, draw: Draw
) -> None:
    """A new location has the scale of rare counts, a hidden one its own: both are the same."""
    values = 30 * draw(N, B, L).abs()
    everybody = torch.ones(N, B, dtype=torch.bool)
    forecasts = []
    for mean in (1e2 * MEAN, 1e4 * MEAN):
        deviation = DEVIATION / MEAN * mean
        level = SeasonalProfile(profile, mean, deviation, counts=True, bounds=with_city())
        nothing = torch.zeros(N, B, L, dtype=torch.bool)
        parts = level(
            *window(1e4 * values, hours, mean, deviation), HiddenMasks(nothing, everybody)
        )
        units = (part * deviation[:, None, None] for part in (parts.ahead, parts.spread))
        ahead, spread = units
        forecasts.append((ahead + mean[:, None, None], spread))
    for first, second in zip(*forecasts, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-3, atol=0.0)


def test_L1_zeros_before_a_location_opens_say_nothing_about_its_level(
    profile: Tensor, hours: Tensor
) -> None:
    values = torch.full((N, B, L), 40.0, dtype=torch.float64)
    values[..., :9] = 0.0
    level = SeasonalProfile(profile, MEAN, DEVIATION, counts=True, bounds=with_city((0.0, 0.2, 1)))
    usual = level(*window(values, hours, MEAN, DEVIATION))
    assert not usual.observed[0, :, :9].any()  # closed in training
    assert usual.observed[0, :, 9:].all()
    assert usual.observed[1:].all()
    silent = level(*window(torch.zeros_like(values), hours, MEAN, DEVIATION))
    assert silent.observed.all()  # still closed
