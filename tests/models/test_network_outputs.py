"""The outputs of every network: the forecast, its quantiles, and an output for relative error."""

import zlib
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from forecaster.config import DCRNNConfig, LagConfig, MixerConfig, ModelConfig, STIDConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.dcrnn import DCRNNNetwork
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.mixer.mixer import Mixer, MixerPrerequisites
from forecaster.models.mixer.seasonal import DeviationBounds, DeviationNetwork, SeasonalProfile
from forecaster.models.network import NO_HEADS, Heads, Network, Outputs
from forecaster.models.peers.stid import STIDNetwork
from forecaster.models.transformer import build_dense_transformer, build_forecaster

Draw = Callable[..., Tensor]
NetworkInputs = tuple[State, State]
Build = Callable[[Heads], Network]
N, B, L, K = 7, 5, 13, 3
INPUTS = NeuronLayout(N, 3, 2 + 32)
LEVELS = (0.1, 0.5, 0.9)
ONE, TWO = NO_HEADS, Heads(relative=True)
AT_ONCE = ["mixer", "stid"]
BACK = ["sparse", "dense", "dcrnn", "deviations", "measured deviations"]  # from their forecasts
KINDS = [*AT_ONCE, *BACK]
WITH_QUANTILES = [kind for kind in KINDS if kind != "dcrnn"]
POSITIVE = ["mixer"]  # with a second output, its forecasts are counts above zero


@pytest.fixture
def network_inputs(draw: Draw) -> NetworkInputs:
    """Return a history of 13 steps and what is known of the 3 that come, with a calendar."""

    def at(signal: Tensor, first: int) -> State:
        steps = signal.shape[3]
        hours = (torch.arange(B)[:, None] * 31 + first + torch.arange(steps)) % 168
        calendar = torch.zeros(32, B, steps, dtype=torch.float64)
        calendar.scatter_(0, (hours // 24)[None], 1.0)
        calendar.scatter_(0, 7 + (hours % 24)[None], 1.0)
        return State(signal, torch.cat([draw(2, B, steps), calendar]), hours)

    return at(draw(N, 3, B, L), 0), at(draw(N, 2, B, K), L)


@pytest.fixture
def build(
    request: pytest.FixtureRequest, lags: LagConfig, config: ModelConfig, pattern: BlockPattern
) -> Build:
    """Return a function that builds a network of a kind with fresh weights."""

    def make(heads: Heads) -> Network:
        fresh, kind = Generator().manual_seed(31), request.param
        if kind == "sparse":
            return build_forecaster(config, lags, INPUTS, pattern, fresh, heads)
        if kind == "dense":
            return build_dense_transformer(config, lags, INPUTS, fresh, heads)
        if kind == "dcrnn":
            sizes, kernel = DCRNNConfig(inputs="lags", units=4), torch.eye(N) + 0.3
            return DCRNNNetwork(sizes, lags, INPUTS, kernel, fresh, heads)
        if kind == "stid":
            small = STIDConfig(inputs="lags", embedding=4, n_layers=2, dropout=0.0)
            return STIDNetwork(small, lags, INPUTS, 168, fresh, heads).eval()
        hours = torch.arange(168.0) / 168
        shape = 9 + torch.sin(2 * torch.pi * (hours + torch.arange(N)[:, None] / N))
        scale = torch.full((N,), 9.0), torch.arange(1.0, 1 + N)
        if "deviations" in kind:
            core = build_dense_transformer(config, lags, INPUTS, fresh, heads)
            counts = kind == "deviations"
            return DeviationNetwork(core, SeasonalProfile(shape, *scale, counts=counts))
        seen = torch.tensor([0.0, 40.0])[:, None, None].expand(2, N, 24)
        extremes = torch.tensor([-2.0, 3.0])[:, None].expand(2, N)
        bounds = DeviationBounds(seen, extremes, torch.ones(N))
        profile = SeasonalProfile(shape, *scale, counts=True, bounds=bounds, recent=lags.recent)
        sizes = MixerConfig(hidden=11, blocks=2, edges=2, factors=3, dropout=0.0)
        return Mixer(sizes, lags, INPUTS, MixerPrerequisites(profile, pattern), fresh, heads)

    return make


def train_a_little(network: Network) -> Network:
    """Return the network in double precision, each weight moved by a number of its name."""
    network = network.double()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            own = Generator().manual_seed(zlib.crc32(name.encode()))
            parameter.add_(torch.randn(parameter.shape, generator=own), alpha=0.1)
    return network


def change_weights(network: Network, part: str) -> None:
    with torch.no_grad():
        for parameter in parameters_of(network, part).values():
            parameter.add_(0.5)


def parameters_of(network: Network, part: str) -> dict[str, Tensor]:
    """Return the weights of an output: `output`, `relative` or `quantiles`."""
    named = {n.removeprefix("core."): p for n, p in network.named_parameters() if p.numel()}
    return {name: p for name, p in named.items() if name.split(".")[0] == part}


def taught(network: Network, output: Tensor) -> set[str]:
    """Return the names of the weights that a gradient of an output reaches."""
    network.zero_grad()
    output.square().sum().backward()
    named = network.named_parameters()
    return {name.removeprefix("core.") for name, p in named if p.grad is not None and p.grad.any()}


def of_part(names: set[str], part: str) -> set[str]:
    return {name for name in names if name.split(".")[0] == part}


def show(network: Network, inputs: NetworkInputs, truth: Tensor | None) -> Outputs:
    outputs: Outputs = network(*inputs, truth)
    return outputs


@pytest.mark.parametrize("build", KINDS, indirect=True)
def test_with_one_output_relative_error_is_of_the_forecast(
    build: Build, network_inputs: NetworkInputs, draw: Draw
) -> None:
    network = train_a_little(build(Heads(LEVELS)))
    assert not network.has_relative
    assert not parameters_of(network, "relative")
    for truth in (None, draw(N, B, K - 1)):
        outputs = show(network, network_inputs, truth)
        assert torch.equal(outputs.relative, outputs.forecast)
        if not isinstance(network, DeviationNetwork):  # which adds the profile to each
            assert outputs.relative is outputs.forecast


@pytest.mark.parametrize("build", KINDS, indirect=True)
def test_a_second_output_has_weights_of_its_own_alike_in_shape(build: Build) -> None:
    one, two = build(ONE), build(TWO)
    assert two.has_relative
    output, relative = (parameters_of(two, part) for part in ("output", "relative"))
    assert [p.shape for p in output.values()] == [p.shape for p in relative.values()]
    assert not {p.data_ptr() for p in output.values()} & {p.data_ptr() for p in relative.values()}
    more = dict(two.named_parameters()).keys() - dict(one.named_parameters()).keys()
    assert relative.keys() <= {name.removeprefix("core.") for name in more}
    assert all(name.removeprefix("core.").startswith("relative") for name in more)


@pytest.mark.parametrize("build", KINDS, indirect=True)
@pytest.mark.parametrize("levels", [(), LEVELS])
def test_a_second_output_changes_no_initial_weight_of_the_forecast(
    build: Build, levels: tuple[float, ...]
) -> None:
    one, two = (dict(build(Heads(levels, r)).named_parameters()) for r in (False, True))
    for name, weights in one.items():
        if "quantiles." not in name:  # they are drawn last
            assert torch.equal(weights, two[name]), name


@pytest.mark.parametrize("build", KINDS, indirect=True)
def test_each_output_is_computed_with_its_own_weights(
    build: Build, network_inputs: NetworkInputs, draw: Draw
) -> None:
    truth = draw(N, B, K - 1)
    for changed, same in (("relative", "forecast"), ("output", "relative")):
        network = train_a_little(build(TWO))
        before = show(network, network_inputs, truth)
        assert before.relative.shape == before.forecast.shape == (N, B, K)
        assert not torch.isclose(before.relative, before.forecast).all()
        change_weights(network, changed)
        after = show(network, network_inputs, truth)
        assert torch.equal(getattr(after, same), getattr(before, same))
        other = "relative" if same == "forecast" else "forecast"
        assert (getattr(after, other) != getattr(before, other)).any()


@pytest.mark.parametrize("build", KINDS, indirect=True)
def test_with_equal_weights_both_outputs_are_equal(
    build: Build, network_inputs: NetworkInputs, draw: Draw
) -> None:
    network = train_a_little(build(TWO))
    pairs = zip(
        parameters_of(network, "relative").values(),
        parameters_of(network, "output").values(),
        strict=True,
    )
    with torch.no_grad():
        for relative, output in pairs:
            relative.copy_(output)
    for truth in (None, draw(N, B, K - 1)):
        outputs = show(network, network_inputs, truth)
        torch.testing.assert_close(outputs.relative, outputs.forecast)


@pytest.mark.parametrize("build", sorted({*KINDS} - {*POSITIVE}), indirect=True)
def test_the_forecast_is_that_of_a_network_with_one_output(
    build: Build, network_inputs: NetworkInputs, draw: Draw
) -> None:
    one, two = (train_a_little(build(heads)) for heads in (ONE, TWO))
    assert not two.is_positive
    for truth in (None, draw(N, B, K - 1)):
        expected = show(one, network_inputs, truth).forecast
        assert torch.equal(show(two, network_inputs, truth).forecast, expected)
    assert torch.equal(two.roll_out(*network_inputs), one.roll_out(*network_inputs))


@pytest.mark.parametrize("build", POSITIVE, indirect=True)
def test_of_counts_the_forecast_is_that_of_one_output_kept_above_zero(
    build: Build, network_inputs: NetworkInputs, draw: Draw
) -> None:
    one, two = (train_a_little(build(heads)) for heads in (ONE, TWO))
    assert (one.is_positive, two.is_positive) == (False, True)
    with torch.no_grad():
        for network in (one, two):  # so that some forecasts are below zero
            for part in ("output", "relative"):
                for parameter in parameters_of(network, part).values():
                    parameter.mul_(9)
    zero = -9.0 / torch.arange(1.0, 1 + N, dtype=torch.float64)[:, None, None]
    for truth in (None, draw(N, B, K - 1)):
        before, after = (show(network, network_inputs, truth) for network in (one, two))
        assert (before.forecast < zero).any()
        usual = two.level(*network_inputs).ahead
        assert torch.equal(after.forecast, two.level.keep_positive(before.forecast, usual))
        assert (after.forecast > zero).all()
        assert (after.relative > zero).all()


@pytest.mark.parametrize("build", KINDS, indirect=True)
def test_both_outputs_teach_the_layers_that_they_share(
    build: Build, network_inputs: NetworkInputs, draw: Draw
) -> None:
    network = train_a_little(build(TWO))
    truth = draw(N, B, K - 1)
    by_forecast = taught(network, show(network, network_inputs, truth).forecast)
    by_relative = taught(network, show(network, network_inputs, truth).relative)
    assert of_part(by_forecast, "output")
    assert not of_part(by_forecast, "relative")
    assert of_part(by_relative, "relative") == parameters_of(network, "relative").keys()
    assert not of_part(by_relative, "output")
    shared = by_forecast - of_part(by_forecast, "output")
    assert len(shared) > 4
    assert shared == by_relative - of_part(by_relative, "relative")


@pytest.mark.parametrize("build", WITH_QUANTILES, indirect=True)
def test_quantiles_change_neither_output(
    build: Build, network_inputs: NetworkInputs, draw: Draw
) -> None:
    plain, beside = (train_a_little(build(Heads(q, relative=True))) for q in ((), LEVELS))
    with torch.no_grad():
        for name, parameter in parameters_of(plain, "relative").items():
            parameters_of(beside, "relative")[name].copy_(parameter)
    for truth in (None, draw(N, B, K - 1)):
        expected = show(plain, network_inputs, truth)
        actual = show(beside, network_inputs, truth)
        without = beside(*network_inputs, truth, with_quantiles=False)
        for outputs in (actual, without):
            assert torch.equal(outputs.forecast, expected.forecast)
            assert torch.equal(outputs.relative, expected.relative)
        widths = [outputs.quantiles.shape[1] for outputs in (expected, actual, without)]
        assert widths == [0, 3, 0]


@pytest.mark.parametrize("build", WITH_QUANTILES, indirect=True)
def test_quantiles_lie_around_the_forecast_and_not_around_the_other_output(
    build: Build, network_inputs: NetworkInputs
) -> None:
    network = train_a_little(build(Heads(LEVELS, relative=True)))
    before = show(network, network_inputs, None).quantiles
    change_weights(network, "relative")
    assert torch.equal(show(network, network_inputs, None).quantiles, before)
    reached = taught(network, show(network, network_inputs, None).quantiles)
    assert reached == of_part(reached, "quantiles") != set()


@pytest.mark.parametrize("build", BACK, indirect=True)
def test_a_roll_out_goes_on_from_the_mean(build: Build, network_inputs: NetworkInputs) -> None:
    network = train_a_little(build(TWO))
    before = show(network, network_inputs, None)
    change_weights(network, "relative")
    after = show(network, network_inputs, None)
    assert torch.equal(after.forecast, before.forecast)
    assert (after.relative != before.relative).any()
    change_weights(network, "output")
    moved = show(network, network_inputs, None)
    assert torch.equal(moved.relative[..., 0], after.relative[..., 0])  # of the history alone
    assert (moved.relative[..., 1:] != after.relative[..., 1:]).any()


@pytest.mark.parametrize("build", KINDS, indirect=True)
def test_taught_its_own_forecasts_it_rolls_out(
    build: Build, network_inputs: NetworkInputs
) -> None:
    network = train_a_little(build(TWO))
    rolled = show(network, network_inputs, None)
    own = show(network, network_inputs, rolled.forecast[..., :-1])
    torch.testing.assert_close(own, rolled)
    assert torch.equal(network.roll_out(*network_inputs), rolled.forecast)


@pytest.mark.parametrize("build", BACK, indirect=True)
def test_taught_other_values_both_outputs_differ(
    build: Build, network_inputs: NetworkInputs
) -> None:
    network = train_a_little(build(TWO))
    rolled = show(network, network_inputs, None)
    other = show(network, network_inputs, rolled.relative[..., :-1])
    for name in ("forecast", "relative"):
        one, two = getattr(rolled, name), getattr(other, name)
        torch.testing.assert_close(one[..., 0], two[..., 0])
        assert not torch.allclose(one[..., 1:], two[..., 1:])
