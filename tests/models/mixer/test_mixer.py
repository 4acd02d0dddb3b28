from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import gelu, linear

from forecaster.config import LagConfig, MixerConfig
from forecaster.errors import ConfigError
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.mixer.mixer import (
    Mixer,
    MixerPrerequisites,
    PastOnlyInputs,
    count_weights,
    hour_weights,
    time_of_day_only,
)
from forecaster.models.mixer.seasonal import Decomposition, DeviationBounds, SeasonalProfile
from forecaster.models.network import Heads, Outputs
from forecaster.models.quantiles import LocationQuantileHead

Draw = Callable[..., Tensor]
NetworkInputs = tuple[State, State]
Make = Callable[..., Mixer]
N, B, P, R = 7, 5, 35, 4  # three kinds of weather before the calendar's 32
INPUTS = NeuronLayout(N, 3, P)
CONFIG = MixerConfig(hidden=11, blocks=2, edges=2, factors=3, dropout=0.0)
LEVELS = (0.1, 0.5, 0.9)


def replace_config(**changes: Any) -> MixerConfig:
    """The settings with some others."""
    return CONFIG.model_copy(update=changes)


@pytest.fixture
def make(lags: LagConfig, pattern: BlockPattern, generator: Generator, draw: Draw) -> Make:
    """Return a function that builds a Mixer in which nothing is zero."""

    def build(
        config: MixerConfig = CONFIG,
        levels: tuple[float, ...] = (),
        bounds: DeviationBounds | None = None,
    ) -> Mixer:
        profile, mean, deviation = 9 + draw(N, 168).tanh(), 9 + draw(N).tanh(), 1 + draw(N) ** 2
        seasonal = SeasonalProfile(
            profile, mean, deviation, counts=True, bounds=bounds, recent=lags.recent
        )
        fitted = MixerPrerequisites(seasonal, pattern)
        model = Mixer(config, lags, INPUTS, fitted, generator, Heads(levels)).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
        return model

    return build


@pytest.fixture
def network_inputs(draw: Draw) -> NetworkInputs:
    """Return a history of 13 steps and what is known of the 3 that come."""

    def at(signal: Tensor, first: int) -> State:
        steps = signal.shape[3]
        hours = (torch.arange(B)[:, None] * 31 + first + torch.arange(steps)) % 168
        calendar = torch.zeros(32, B, steps, dtype=torch.float64)
        calendar.scatter_(0, (hours // 24)[None], 1.0)
        calendar.scatter_(0, 7 + (hours % 24)[None], 1.0)
        return State(signal, torch.cat([draw(3, B, steps), calendar]), hours)

    return at(draw(N, 3, B, 13), 0), at(draw(N, 2, B, 3), 13)


KNOWN = (1.0, 0.0, 0.25, 1.0, 0.5, 0.0, 1.0)  # how well training knows each location


def bounds_of(
    least: float, most: float, *, known: tuple[float, ...] = (1.0,) * N
) -> DeviationBounds:
    """Return bounds of all locations: values at every hour, and deviations of −2…9."""
    values = torch.tensor([least, most], dtype=torch.float64)[:, None, None].expand(2, N, 24)
    extremes = torch.tensor([-2.0, 9.0], dtype=torch.float64)[:, None].expand(2, N)
    return DeviationBounds(values, extremes, torch.tensor(known, dtype=torch.float64))


@pytest.mark.parametrize("bounds", [None, bounds_of(0.0, 12.0, known=KNOWN)])
def test_forecasts_are_the_equation_of_its_docstring(
    make: Make, network_inputs: NetworkInputs, bounds: DeviationBounds | None
) -> None:
    model, (history, ahead) = make(bounds=bounds), network_inputs
    known = (1.0,) * N if bounds is None else KNOWN
    usual = model.level(history, ahead)
    weights = dict(model.named_parameters())
    edges = weights["neighbours.weight"]
    pattern = model.neighbours.pattern
    for i in range(N):
        for b in range(B):
            last = usual.bounded[:, b]
            around = torch.zeros(2, R, dtype=torch.float64)
            for e, (target, source) in enumerate(zip(pattern.target, pattern.source, strict=True)):
                if target == i:
                    around += edges[e] * last[source]
            own = torch.cat([history.signal[i, 1:, b, -1:], ahead.signal[i, :, b]], dim=1)
            seen = [usual.past[i, b], usual.shape[i, b], usual.level[i, b], own.flatten()]
            seen = torch.cat([*seen, around.flatten()])
            city = weights["city.weight"] @ last
            shared = torch.cat([ahead.auxiliary[:, b].flatten(), city.flatten()])
            hour = (b * 31 + 12) % 168  # of the origin
            z = weights["from_location"] @ seen + weights["from_all"] @ shared
            z = z + known[i] * weights["place"][i, 0] + weights["hour"][hour]
            for k in range(2):
                inner = weights[f"blocks.{k}.inner"] @ z + weights[f"blocks.{k}.inner_bias"]
                z = z + weights[f"blocks.{k}.outer"] @ gelu(inner)
                z = z + weights[f"blocks.{k}.outer_bias"]
            expected = usual.ahead[i, b] + usual.spread[i, b] * (weights["output"] @ z)
            torch.testing.assert_close(model.roll_out(history, ahead)[i, b], expected)


def test_of_a_location_that_training_does_not_know_the_embedding_is_ignored(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(bounds=bounds_of(0.0, 12.0, known=KNOWN))
    before = model.roll_out(*network_inputs)
    with torch.no_grad():
        model.place.add_(3.0)
    changed = (model.roll_out(*network_inputs) != before).flatten(1)
    assert changed.any(dim=1).tolist() == [share > 0 for share in KNOWN]
    model.roll_out(*network_inputs).sum().backward()
    assert model.place.grad is not None
    taught = model.place.grad.abs().flatten(1).sum(dim=1)
    assert [bool(size) for size in taught > 0] == [share > 0 for share in KNOWN]


def embed(model: Mixer, inputs: NetworkInputs, parts: Decomposition) -> Tensor:
    """The states of all locations, before the residual blocks."""
    return model._embed(*inputs, parts, model._hear(parts.bounded, parts.known, None), model.place)


def test_of_a_location_that_training_knows_in_part_a_part_of_the_embedding_counts(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(bounds=bounds_of(0.0, 12.0, known=KNOWN))
    usual = model.level(*network_inputs)
    before = embed(model, network_inputs, usual)
    with torch.no_grad():
        model.place.add_(3.0)
    moved = embed(model, network_inputs, usual) - before
    expected = 3 * torch.tensor(KNOWN, dtype=torch.float64)[:, None, None].expand_as(moved)
    torch.testing.assert_close(moved, expected)


def test_true_values_between_the_steps_change_nothing(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(levels=LEVELS)
    truth = torch.ones(N, B, 2, dtype=torch.float64)
    forecast = model.roll_out(*network_inputs)
    assert torch.equal(model(*network_inputs, truth).forecast, forecast)
    assert torch.equal(model(*network_inputs, truth, with_quantiles=False).forecast, forecast)
    assert torch.equal(model(*network_inputs).forecast, forecast)


def test_without_factors_a_forecast_sees_itself_and_its_neighbours_alone(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(CONFIG.model_copy(update={"factors": 0}))
    history, ahead = network_inputs
    signal = history.signal.clone().requires_grad_()
    model.roll_out(replace(history, signal=signal), ahead)[1].sum().backward()
    assert signal.grad is not None
    moved = signal.grad[:, 0].abs().sum(dim=(1, 2)) > 0
    assert moved.tolist() == [n in (0, 1, 2) for n in range(N)]  # 1 has the neighbours 0 and 2


def test_without_edges_and_factors_every_location_is_for_itself(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(CONFIG.model_copy(update={"edges": 0, "factors": 0}))
    history, ahead = network_inputs
    other = history.signal.clone()
    other[3] += 1
    changed = model.roll_out(replace(history, signal=other), ahead) != model.roll_out(
        *network_inputs
    )
    assert [bool(one.any()) for one in changed] == [n == 3 for n in range(N)]


def test_dropout_is_for_training_alone(make: Make, network_inputs: NetworkInputs) -> None:
    model = make(CONFIG.model_copy(update={"dropout": 0.5}))
    with torch.no_grad():
        model.output.fill_(0.1)
    assert not torch.equal(
        model.train().roll_out(*network_inputs), model.roll_out(*network_inputs)
    )
    assert torch.equal(model.eval().roll_out(*network_inputs), model.roll_out(*network_inputs))


def test_a_fresh_network_forecasts_the_seasonal_profile(
    lags: LagConfig,
    pattern: BlockPattern,
    generator: Generator,
    draw: Draw,
    network_inputs: NetworkInputs,
) -> None:
    profile, mean, deviation = 9 + draw(N, 168).tanh(), 9 + draw(N).tanh(), 1 + draw(N) ** 2
    seasonal = SeasonalProfile(profile, mean, deviation, counts=True, recent=lags.recent)
    fitted = MixerPrerequisites(seasonal, pattern)
    model = Mixer(CONFIG, lags, INPUTS, fitted, generator).double()
    torch.testing.assert_close(
        model.roll_out(*network_inputs), fitted.profile(*network_inputs).ahead
    )


def test_a_gradient_is_the_same_with_any_threads(lags: LagConfig, pattern: BlockPattern) -> None:
    B, config = 512, MixerConfig(hidden=96, dropout=0.0)

    def gradients() -> list[Tensor]:
        fresh = Generator().manual_seed(3)
        flat = torch.ones(N, 168), torch.ones(N), torch.ones(N)
        seasonal = SeasonalProfile(*flat, counts=True, recent=lags.recent)
        fitted = MixerPrerequisites(seasonal, pattern)
        model = Mixer(config, lags, INPUTS, fitted, fresh)
        with torch.no_grad():
            model.output.fill_(0.1)
        draw = torch.Generator().manual_seed(5)
        past, coming = (torch.rand(P, B, steps, generator=draw) for steps in (13, 3))
        slots = torch.randint(168, (B, 16), generator=draw)
        history = State(torch.rand(N, 3, B, 13, generator=draw), past, slots[:, :13])
        ahead = State(torch.rand(N, 2, B, 3, generator=draw), coming, slots[:, 13:])
        model.roll_out(history, ahead).sum().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        first = gradients()
        for _ in range(5):
            assert all(map(torch.equal, first, gradients()))
    finally:
        torch.set_num_threads(before)


# --------------------------------------------------------------- what others see of a location

BUSY, MOST = 1, 90.0  # location 1 has the neighbours 0 and 2; its largest value in training


@pytest.fixture
def bounded(
    lags: LagConfig, pattern: BlockPattern, generator: Generator, draw: Draw
) -> Callable[..., Mixer]:
    """Return a function that builds a Mixer with bounds, whose sums of counts are exact."""

    def build(blocks: int = 2, factors: int = 3) -> Mixer:
        profile = (20 + 10 * draw(N, 168).tanh()).round()
        scale = torch.full((2, N), 16.0, dtype=torch.float64)
        seasonal = SeasonalProfile(
            profile, *scale, counts=True, bounds=bounds_of(0.0, MOST), recent=R
        )
        config = CONFIG.model_copy(update={"blocks": blocks, "factors": factors})
        fitted = MixerPrerequisites(seasonal, pattern)
        model = Mixer(config, lags, INPUTS, fitted, generator, Heads(LEVELS, relative=True))
        with torch.no_grad():
            for parameter in model.double().parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
        return model

    return build


def with_last(inputs: NetworkInputs, last: float, total: float) -> NetworkInputs:
    """Return the inputs with a last value of the busy location, and its total over the window."""
    history, ahead = inputs
    values = torch.full((B, 13), 20.0, dtype=torch.float64)
    values[:, -1], values[:, 0] = (
        last,
        total - 20 * 11 - last,
    )  # of an old lag, which it alone sees
    signal = history.signal.clone()
    signal[BUSY, 0] = (values - 16) / 16
    return replace(history, signal=signal), ahead


def others(outputs: Outputs) -> list[Tensor]:
    return [torch.cat([part[:BUSY], part[BUSY + 1 :]]) for part in outputs]


def test_all_values_beyond_training_give_others_the_same_forecasts(
    bounded: Callable[..., Mixer], network_inputs: NetworkInputs
) -> None:
    model = bounded()
    within, largest, beyond, far = (
        model(*with_last(network_inputs, last, 512.0)) for last in (30.0, MOST, MOST + 1, 290.0)
    )
    for outputs in (beyond, far):
        assert all(map(torch.equal, others(outputs), others(largest)))
    assert not torch.allclose(far.forecast[BUSY], largest.forecast[BUSY])  # it sees its own
    for name in ("forecast", "relative"):
        moved = (getattr(within, name) != getattr(largest, name)).flatten(1).any(dim=1)
        assert moved.all()  # the city's factors reach all of them


def test_others_move_no_further_than_the_bounds_allow(
    bounded: Callable[..., Mixer], network_inputs: NetworkInputs
) -> None:
    model = bounded(blocks=0)  # linear, so that the most can be computed
    usual = with_last(network_inputs, 20.0, 512.0)
    before = model(*usual)
    parts = model.level(*usual)
    seen = parts.bounded.clone().requires_grad_()
    hidden = embed(model, usual, replace(parts, bounded=seen))
    room = torch.zeros(N, B, 3, dtype=torch.float64)
    for n in range(N):
        for k in range(3):
            out = parts.restore(linear(hidden, model.output))[n, :, k].sum()
            (slope,) = torch.autograd.grad(out, seen, retain_graph=True)
            room[n, :, k] = slope[BUSY].abs().sum(dim=1) * 0.75 * (9 + 2)
    free = torch.arange(N) != BUSY
    for last in (200.0, 1e4, 1e6, 1e9):
        after = model(*with_last(network_inputs, last, last + 512))
        change = (after.forecast - before.forecast).abs()
        assert (change[free] <= room[free] + 1e-9).all()
    assert (change[BUSY] > room[BUSY]).all()  # it follows its own values
    assert (change[free] / room[free]).max() > 0.05  # others do see it


def test_a_location_alone_is_not_reached_at_all(
    bounded: Callable[..., Mixer], network_inputs: NetworkInputs
) -> None:
    model = bounded(factors=0)
    before, after = (model(*with_last(network_inputs, last, 512.0)) for last in (20.0, 290.0))
    same = (before.forecast == after.forecast).flatten(1).all(dim=1)
    assert same.tolist() == [n not in (0, 1, 2) for n in range(N)]


def test_without_bounds_others_see_whatever_is_shown(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(CONFIG.model_copy(update={"blocks": 0}))
    forecasts = [
        model(*with_last(network_inputs, last, last + 512)).forecast[[0, 2]]
        for last in (200.0, 1e4, 1e6)
    ]
    apart = [(later - forecasts[0]).abs().mean() for later in forecasts[1:]]
    assert apart[1] > 5 * apart[0]


def test_before_training_the_middle_quantile_is_the_forecast(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make()
    model.quantiles = LocationQuantileHead(LEVELS, CONFIG.hidden, 3, torch.Generator()).double()
    outputs = model(*network_inputs)
    assert torch.equal(outputs.quantiles[:, 1], outputs.forecast)


def test_quantiles_never_cross_and_give_the_forecast_no_gradient(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(levels=LEVELS)
    quantiles = model(*network_inputs).quantiles
    assert quantiles.shape == (N, 3, B, 3)
    assert (quantiles.diff(dim=1) > 0).all()
    quantiles.sum().backward()
    taught = {name for name, p in model.named_parameters() if p.grad is not None}
    assert taught
    assert all(name.startswith("quantiles.") for name in taught)


def test_the_head_is_drawn_last(make: Make) -> None:
    names = [name for name, _ in make(levels=LEVELS).named_parameters()]
    first = next(n for n, name in enumerate(names) if name.startswith("quantiles."))
    assert all(name.startswith("quantiles.") for name in names[first:])


@pytest.mark.parametrize("config", [CONFIG, MixerConfig(), MixerConfig(edges=0, factors=0)])
def test_a_run_must_hold_at_least_the_weights_that_are_counted(
    make: Make, lags: LagConfig, pattern: BlockPattern, config: MixerConfig
) -> None:
    count = sum(p.numel() for p in make(config).parameters())
    fitted = MixerPrerequisites(make().level, pattern)
    least = count_weights(config, lags, INPUTS, fitted)
    assert least <= count < 2 * least


def test_inputs_that_do_not_fit_are_refused(make: Make, network_inputs: NetworkInputs) -> None:
    history, ahead = network_inputs
    with pytest.raises(ConfigError, match="history: 7 locations × 3 values, 35 auxiliary values"):
        make().roll_out(history.each(lambda part: part[..., 1:]), ahead)


# ------------------------------------------------------------------------- missing values

CITY = torch.linspace(0.5, 1.5, 168, dtype=torch.float64)


def test_a_missing_value_reaches_no_forecast(make: Make, network_inputs: NetworkInputs) -> None:
    history, ahead = network_inputs
    model = make(bounds=replace(bounds_of(0.0, 20.0, known=KNOWN), city=CITY)).eval()
    assert model.masks
    signal = history.signal.clone()
    signal[2, 0, :, 3:8] = torch.nan
    outputs = model(replace(history, signal=signal), ahead)
    assert all(part.isfinite().all() for part in outputs)
    signal.requires_grad_()
    model(replace(history, signal=signal), ahead).forecast.sum().backward()
    assert signal.grad is not None
    assert (signal.grad[2, 0, :, 3:8] == 0).all()
    assert (signal.grad[2, 0, :, 8:] != 0).any()


def test_training_hides_inputs_and_evaluation_does_not(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(bounds=replace(bounds_of(0.0, 20.0), city=CITY))
    first, second = (model.train()(*network_inputs).forecast for _ in range(2))
    assert not torch.equal(first, second)
    first, second = (model.eval()(*network_inputs).forecast for _ in range(2))
    assert torch.equal(first, second)


def test_runs_without_the_citys_shape_have_no_weights_for_masks(make: Make) -> None:
    older, newer = (make(bounds=b) for b in (BOUNDS, replace(BOUNDS, city=CITY)))
    assert not older.masks
    assert older.unknown is None
    assert newer.from_location.shape[1] - older.from_location.shape[1] == 13  # past steps


BOUNDS = bounds_of(0.0, 20.0)


@pytest.mark.parametrize("slots", [7, 12, 168])
def test_few_steps_of_the_season_have_a_row_each(slots: int) -> None:
    assert torch.equal(hour_weights(slots), torch.eye(slots))


def test_steps_below_an_hour_lie_between_two_hours_of_the_week() -> None:
    weights = hour_weights(168 * 12)  # five minutes
    assert weights.shape == (168 * 12, 168)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(168 * 12))
    assert weights[12 * 8, 8] == 1
    torch.testing.assert_close(weights[12 * 8 + 3, 8:10], torch.tensor([0.75, 0.25]))
    torch.testing.assert_close(weights[-1, [167, 0]], torch.tensor([1 / 12, 11 / 12]))


# ------------------------------------------------------------------- past-only covariates


def test_of_past_only_covariates_the_recent_steps_are_seen(
    lags: LagConfig, pattern: BlockPattern, make: Make, network_inputs: NetworkInputs
) -> None:
    fitted = MixerPrerequisites(make().level, pattern, PastOnlyInputs(local=(0,), shared=(2,)))
    model = Mixer(CONFIG, lags, INPUTS, fitted, Generator().manual_seed(3)).double()
    with torch.no_grad():
        model.output.add_(1.0)
    history, ahead = (
        replace(state, signal=state.signal.clone(), auxiliary=state.auxiliary.clone())
        for state in network_inputs
    )
    for part in (history.signal, history.auxiliary, ahead.signal, ahead.auxiliary):
        part.requires_grad_()
    model.roll_out(history, ahead).sum().backward()
    signal, auxiliary, coming, shared = (
        part.grad for part in (history.signal, history.auxiliary, ahead.signal, ahead.auxiliary)
    )
    assert signal is not None
    assert auxiliary is not None
    assert coming is not None
    assert shared is not None
    recent = lags.recent
    assert (signal[:, 1, :, -recent:] != 0).all()
    assert not signal[:, 1, :, :-recent].any()
    assert (auxiliary[2, :, -recent:] != 0).all()
    assert not auxiliary[:2].any()  # known ahead: the coming steps are seen
    assert not coming[:, 0].any()
    assert (coming[:, 1] != 0).all()
    assert not shared[2].any()
    assert (shared[:2] != 0).all()


def test_weights_are_counted_with_past_only_covariates(
    lags: LagConfig, pattern: BlockPattern, make: Make, generator: Generator
) -> None:
    past_only = PastOnlyInputs(local=(0, 1), shared=(0,))
    fitted = MixerPrerequisites(make().level, pattern, past_only)
    model = Mixer(CONFIG, lags, INPUTS, fitted, generator)
    count = sum(parameter.numel() for parameter in model.parameters())
    least = count_weights(CONFIG, lags, INPUTS, fitted)
    assert least <= count < 2 * least


@pytest.mark.parametrize(("slots", "rows"), [(168, 24), (2016, 24), (7, 1), (12, 1), (53, 1)])
def test_of_a_single_season_the_steps_of_all_days_share_their_rows(slots: int, rows: int) -> None:
    yearly = slots in (12, 53)
    weights = hour_weights(slots, repeats=False, yearly=yearly)
    assert weights.shape == (slots, rows)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(slots))
    if not yearly:
        by_day = weights.view(7, slots // 7, rows)
        assert torch.equal(by_day[0], by_day[5])


def test_a_single_year_of_four_weeks_a_step_has_one_row() -> None:
    assert hour_weights(14, repeats=False, yearly=True).shape == (14, 1)
    assert hour_weights(14, repeats=False).shape == (14, 2)  # twelve hours


@pytest.mark.parametrize(("slots", "left_out"), [(168, slice(3, 10)), (12, slice(10, 34))])
def test_of_a_single_season_weekdays_and_months_are_left_out(slots: int, left_out: slice) -> None:
    mask = time_of_day_only(35, yearly=slots == 12).flatten()
    assert not mask[left_out].any()
    assert mask.sum() == 35 - (left_out.stop - left_out.start)


# ------------------------------------------------------------------------------ samples


def take_sample(
    model: Mixer, network_inputs: NetworkInputs, targets: list[int]
) -> tuple[NetworkInputs, torch.Tensor]:
    """The inputs of a sample of locations, and the targets."""
    history, ahead = network_inputs
    sample = model.sample(np.array(targets))
    seen = replace(history, signal=history.signal[sample.locations], sample=sample)
    return (seen, replace(ahead, signal=ahead.signal[targets])), sample.targets


@pytest.mark.parametrize("bounds", [None, bounds_of(0.0, 12.0, known=KNOWN)])
def test_a_sample_of_all_locations_is_forecast_as_all_are(
    make: Make, network_inputs: NetworkInputs, bounds: DeviationBounds | None
) -> None:
    model = make(levels=LEVELS, bounds=bounds)
    inputs, _ = take_sample(model, network_inputs, list(range(N)))
    whole, sampled = model(*network_inputs), model(*inputs)
    for left, right in zip(whole, sampled, strict=True):
        torch.testing.assert_close(left, right)
    gradients = [
        torch.autograd.grad(outputs.forecast.square().sum(), model.place)[0]
        for outputs in (whole, sampled)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("edges", [0, 2])
def test_without_factors_a_sample_is_forecast_as_a_part_of_all(
    make: Make, network_inputs: NetworkInputs, edges: int
) -> None:
    model = make(
        replace_config(factors=0, edges=edges), levels=LEVELS, bounds=bounds_of(0.0, 12.0)
    )
    inputs, targets = take_sample(model, network_inputs, [1, 4, 6])
    for whole, sampled in zip(model(*network_inputs), model(*inputs), strict=True):
        torch.testing.assert_close(sampled, whole[targets])


def test_over_all_samples_of_an_epoch_the_factors_are_on_average_those_of_the_city(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make(bounds=bounds_of(0.0, 12.0))
    recent = model.level(*network_inputs).bounded
    samples = [model.sample(np.array(targets)) for targets in ([0, 2, 5], [1, 6], [3, 4])]
    estimates = [model.city(recent[each.targets], each) * each.share for each in samples]
    torch.testing.assert_close(torch.stack(estimates).sum(dim=0), model.city(recent))


def test_hidden_values_of_a_sample_are_drawn_in_training_and_its_gradients_reach_it_alone(
    make: Make, network_inputs: NetworkInputs
) -> None:
    cities = torch.full((168,), 1.0, dtype=torch.float64)
    bounds = replace(bounds_of(0.0, 12.0), city=cities)
    model = make(bounds=bounds).train()
    inputs, targets = take_sample(model, network_inputs, [1, 4, 6])
    (gradient,) = torch.autograd.grad(model(*inputs).forecast.sum(), model.place)
    assert gradient.flatten(1).any(dim=1).nonzero()[:, 0].tolist() == targets.tolist()


@pytest.mark.parametrize("pairs", [1, 11, 2**16])
@pytest.mark.parametrize("edges", [0, 2])
def test_forecasts_in_blocks_are_those_of_all_at_once(
    make: Make,
    network_inputs: NetworkInputs,
    monkeypatch: pytest.MonkeyPatch,
    pairs: int,
    edges: int,
) -> None:
    model = make(replace_config(edges=edges), LEVELS, bounds_of(0.0, 12.0, known=KNOWN)).eval()
    whole = model(*network_inputs)
    monkeypatch.setattr("forecaster.models.mixer.mixer.MOST_AT_ONCE", N - 1)
    monkeypatch.setattr("forecaster.models.mixer.mixer.PAIRS_AT_ONCE", pairs)
    with torch.no_grad():
        blocks = model(*network_inputs)
        without = model(*network_inputs, with_quantiles=False)
    for expected, actual in zip(whole, blocks, strict=True):
        torch.testing.assert_close(actual, expected)
    assert torch.equal(without.forecast, blocks.forecast)
    assert without.quantiles.shape == (N, 0, B, 3)


def test_with_gradients_all_locations_are_forecast_at_once(
    make: Make, network_inputs: NetworkInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make().eval()
    whole = model(*network_inputs).forecast
    monkeypatch.setattr("forecaster.models.mixer.mixer.MOST_AT_ONCE", 1)
    monkeypatch.setattr(Mixer, "_forecast_blocks", None)
    assert torch.equal(model(*network_inputs).forecast, whole)


def test_a_sample_of_another_size_is_refused_in_words(
    make: Make, network_inputs: NetworkInputs
) -> None:
    model = make()
    (history, ahead), _ = take_sample(model, network_inputs, [1, 4, 6])
    with pytest.raises(ConfigError, match="history: 7 locations"):
        model(replace(history, signal=network_inputs[0].signal), ahead)
