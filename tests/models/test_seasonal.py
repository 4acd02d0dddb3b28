from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from forecaster.config import LagConfig, ModelConfig
from forecaster.models.network import Heads
from forecaster.models.neurons import NeuronLayout, State
from forecaster.models.seasonal import DeviationNetwork, SeasonalProfile, hour_of_week
from forecaster.models.transformer import TransformerNetwork, build_dense_transformer

Draw = Callable[..., Tensor]
N, B, L, K, WEEK = 3, 5, 13, 2, 168


def steps(hours: Tensor, signal: Tensor) -> State:
    """Return steps at some hours of the week, with two kinds of weather before the calendar."""
    calendar = torch.zeros(32, *hours.shape, dtype=torch.float64)
    calendar.scatter_(0, (hours // 24)[None], 1.0)
    calendar.scatter_(0, 7 + (hours % 24)[None], 1.0)
    weather = torch.full((2, *hours.shape), 9.0, dtype=torch.float64)
    return State(signal, torch.cat([weather, calendar]))


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


def test_the_hour_of_the_week_is_read_from_the_calendar(hours: Tensor) -> None:
    signal = torch.zeros(N, 1, B, L + K, dtype=torch.float64)
    assert torch.equal(hour_of_week(steps(hours, signal)), hours)


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
    assert all(part.isfinite().all() for part in vars(usual).values())


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
    return State(signal, history.auxiliary), State(draw(N, 1, B, K), ahead.auxiliary)


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
