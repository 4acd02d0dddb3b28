from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from forecaster.choices import InputKind
from forecaster.config import GraphWaveNetConfig, LagConfig
from forecaster.errors import ConfigError
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import Heads
from forecaster.models.peers.graph_wavenet import (
    FixedNorm,
    GraphWaveNetwork,
    block_depth,
    count_weights,
)
from tests.models.peers.conftest import (
    INPUTS,
    NetworkInputs,
    count_saved,
    take_windows,
    with_missing,
)

SIZES = {"channels": 3, "skip": 5, "end": 6, "blocks": 2, "n_layers": 2, "embedding": 2}
KINDS: tuple[InputKind, ...] = ("recent", "lags")
LEVELS = (0.1, 0.5, 0.9)


@pytest.fixture
def kernel(generator: Generator) -> Tensor:
    random = torch.rand(7, 7, generator=generator, dtype=torch.float64)
    return random * (random > 0.6) + torch.eye(7, dtype=torch.float64)


@pytest.fixture
def build(
    lags: LagConfig, kernel: Tensor, network_inputs: NetworkInputs
) -> Callable[..., GraphWaveNetwork]:
    """Return a function that builds a network in which nothing is zero."""

    def make(kind: InputKind = "recent", **changes: float) -> GraphWaveNetwork:
        config = GraphWaveNetConfig.model_validate({"inputs": kind, **SIZES, **changes})
        fresh, heads = Generator().manual_seed(3), Heads(LEVELS, relative=True)
        network = GraphWaveNetwork(config, lags, INPUTS, kernel, fresh, heads).double().eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=fresh), alpha=0.1)
        network.fit_norms(*network_inputs)
        return network

    return make


@pytest.fixture(params=KINDS)
def model(
    request: pytest.FixtureRequest, build: Callable[..., GraphWaveNetwork]
) -> GraphWaveNetwork:
    return build(request.param)


def test_outputs_are_laid_out_location_first(
    model: GraphWaveNetwork, network_inputs: NetworkInputs
) -> None:
    outputs = model(*network_inputs)
    assert outputs.forecast.shape == outputs.relative.shape == (7, 5, 3)
    assert outputs.quantiles.shape == (7, 3, 5, 3)
    assert (outputs.quantiles.diff(dim=1) > 0).all()


def test_the_forecast_is_that_of_its_equations(
    model: GraphWaveNetwork, kernel: Tensor, network_inputs: NetworkInputs
) -> None:
    inputs = with_missing(network_inputs) if model.masks else network_inputs
    outputs = model(*inputs)
    for b in (0, 3):
        forecast, relative = forecast_by_hand(model, kernel.numpy(), *inputs, b)
        np.testing.assert_allclose(outputs.forecast[:, b].detach(), forecast, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(outputs.relative[:, b].detach(), relative, rtol=1e-5, atol=1e-7)


def forecast_by_hand(  # noqa: C901, PLR0915 (all equations in one piece)
    model: GraphWaveNetwork, kernel: np.ndarray, history: State, ahead: State, b: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the forecasts of one window, location by location and step by step."""
    w = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    x, a = history.signal[:, :, b].numpy(), history.auxiliary[:, b].numpy()
    if model.masks:
        is_missing = np.isnan(x[:, :1])
        told = np.concatenate([x, np.broadcast_to(a, (7, *a.shape))], axis=1)
        told = np.concatenate([np.where(is_missing, 0, told), is_missing], axis=1)
    else:
        hour = a[9:33].argmax(axis=0) / 24  # after 2 of the weather and 7 weekdays
        told = np.concatenate([x, np.broadcast_to(hour, (7, 1, 13))], axis=1)
    reach = 1 + sum(layer.dilation for layer in model.layers)
    told = np.concatenate([np.zeros((7, told.shape[1], reach - 13)), told], axis=2)
    h = {
        (n, s): w["start.weight"] @ told[n, :, s] + w["start.bias"]
        for n in range(7)
        for s in range(reach)
    }
    if model.masks:
        of_all = np.concatenate([a[:, -1:], ahead.auxiliary[:, b].numpy()], axis=1).reshape(-1)
        for n in range(7):
            own = np.concatenate([x[n, 1:, -1:], ahead.signal[n, :, b].numpy()], axis=1)
            coming = w["coming.of_all.weight"] @ of_all + w["coming.of_all.bias"]
            coming = coming + w["coming.of_location.weight"] @ own.reshape(-1)
            for s in range(reach):
                h[n, s] = h[n, s] + coming + w["coming.of_location.bias"]
    walks = [kernel / kernel.sum(axis=1)[:, None], kernel.T / kernel.sum(axis=0)[:, None]]
    scores = np.exp(np.maximum(w["graph.target"] @ w["graph.source"], 0))
    walks.append(scores / scores.sum(axis=1, keepdims=True))
    skip, first = [np.zeros(5) for _ in range(7)], 0
    for number, layer in enumerate(model.layers):
        name, d, gated = f"layers.{number}", layer.dilation, {}
        first += d
        for n in range(7):
            for s in range(first, reach):
                both = np.concatenate([h[n, s - d], h[n, s]])
                gates = w[f"{name}.gates.weight"] @ both + w[f"{name}.gates.bias"]
                gated[n, s] = np.tanh(gates[:3]) / (1 + np.exp(-gates[3:]))
            newest = gated[n, reach - 1]
            skip[n] = skip[n] + w[f"{name}.skip.weight"] @ newest + w[f"{name}.skip.bias"]
        if number == len(model.layers) - 1:
            break
        given, learned = w[f"convolutions.{number}.given.weight"], f"convolutions.{number}.learned"
        mean, scale = w[f"norms.{number}.mean"], w[f"norms.{number}.scale"]
        gain, bias = w[f"norms.{number}.gain"], w[f"norms.{number}.bias"]
        for s in range(first, reach):
            now = np.stack([gated[n, s] for n in range(7)])
            moved = now @ given[0] + w[f"convolutions.{number}.given.bias"]
            for k in (1, 2):
                along, against, free = (np.linalg.matrix_power(m, k) @ now for m in walks)
                moved = moved + along @ given[k] + against @ given[2 + k]
                moved = moved + free @ w[learned][:, 3 * (k - 1) : 3 * k].T
            for n in range(7):
                h[n, s] = (moved[n] + h[n, s] - mean) * scale * gain + bias
    ends = [w["end.weight"] @ np.maximum(one, 0) + w["end.bias"] for one in skip]
    z = np.stack([np.maximum(end, 0) for end in ends])
    forecast, relative = (z @ w[f"{o}.weight"].T + w[f"{o}.bias"] for o in ("output", "relative"))
    return forecast, relative


def test_windows_are_independent_in_use_and_in_training(
    build: Callable[..., GraphWaveNetwork], network_inputs: NetworkInputs
) -> None:
    model = build("recent", dropout=0.0)
    for training in (False, True):
        model.train(training)
        together = model(*network_inputs).forecast
        for b in range(5):
            alone = model(*take_windows(network_inputs, slice(b, b + 1))).forecast
            torch.testing.assert_close(alone, together[:, b : b + 1])


def test_norms_are_measured_layer_by_layer_and_then_stay(
    model: GraphWaveNetwork, network_inputs: NetworkInputs
) -> None:
    seen: list[Tensor] = []
    for norm in model.norms:
        norm.register_forward_hook(lambda _module, inputs, _: seen.append(inputs[0]))
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    model(*network_inputs)
    for norm, x in zip(model.norms, seen, strict=True):
        mean, deviation = x.flatten(0, 2).mean(dim=0), x.flatten(0, 2).std(dim=0, correction=0)
        torch.testing.assert_close(norm.mean, mean)
        torch.testing.assert_close(norm.scale, 1 / (deviation**2 + 1e-5).sqrt())
    model.train()(*with_missing(network_inputs) if model.masks else network_inputs)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.named_buffers())


def test_a_norm_that_was_not_measured_changes_nothing() -> None:
    x = torch.randn(3, 5, 4)
    torch.testing.assert_close(FixedNorm(4)(x), x)


def test_the_learned_graph_lets_everything_reach_everything(
    lags: LagConfig, network_inputs: NetworkInputs
) -> None:
    config = GraphWaveNetConfig.model_validate(SIZES)
    for learned in (True, False):
        model = GraphWaveNetwork(config, lags, INPUTS, torch.eye(7), Generator().manual_seed(3))
        with torch.no_grad():
            for layer in model.convolutions:
                layer.learned.mul_(learned)
        model = model.double().eval()
        history, ahead = network_inputs
        signal = history.signal.clone()
        signal[4, 0] += 1
        changed = model(State(signal, history.auxiliary), ahead).forecast
        moved = (changed != model(history, ahead).forecast).flatten(1).any(dim=1)
        assert moved.tolist() == [learned or n == 4 for n in range(7)]


def test_all_past_steps_reach_the_forecast(
    model: GraphWaveNetwork, network_inputs: NetworkInputs
) -> None:
    history, ahead = network_inputs
    signal = history.signal.clone().requires_grad_()
    model(State(signal, history.auxiliary), ahead).forecast.sum().backward()
    assert signal.grad is not None
    assert (signal.grad[:, 0].abs() > 0).all()


@pytest.mark.parametrize(
    ("length", "depth"), [(1, 2), (12, 2), (13, 2), (14, 3), (76, 5), (125, 5), (126, 6)]
)
def test_blocks_reach_over_the_whole_history(length: int, depth: int) -> None:
    assert block_depth(GraphWaveNetConfig(), length) == depth
    assert 1 + 4 * (2**depth - 1) >= length


def test_every_weight_learns(
    build: Callable[..., GraphWaveNetwork], network_inputs: NetworkInputs
) -> None:
    for kind in KINDS:
        model = build(kind)
        outputs = model(*with_missing(network_inputs) if model.masks else network_inputs)
        sum(part.square().sum() for part in outputs).backward()  # type: ignore[union-attr]
        silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert not silent


def test_it_has_as_many_weights_as_its_authors_network() -> None:
    # Theirs has 309,400 for METR-LA: 207 sensors, speed and time of day, 12 steps ahead. Of these,
    # 8 residual convolutions and the last graph convolution and norm are without effect.
    inputs, lags = NeuronLayout(207, 1, 32), LagConfig(recent=12, seasons=(), horizon=12)
    directed = torch.eye(207) + torch.diag(torch.ones(206), 1)
    model = GraphWaveNetwork(GraphWaveNetConfig(), lags, inputs, directed, Generator())
    without_effect = 8 * (32 * 32 + 32) + (7 * 32 * 32 + 32) + 2 * 32
    assert sum(p.numel() for p in model.parameters()) == 309_400 - without_effect


@pytest.mark.parametrize("sizes", [{}, {"channels": 4, "blocks": 3}, {"diffusion_steps": 1}])
def test_most_weights_are_counted_without_building(
    sizes: dict[str, float], build: Callable[..., GraphWaveNetwork]
) -> None:
    for kind in KINDS:
        model = build(kind, **sizes)
        config = GraphWaveNetConfig.model_validate({"inputs": kind, **SIZES, **sizes})
        edges = ("start.", "coming.", "norms.", "output.", "relative.", "quantiles.")
        named = model.named_parameters()
        inner = sum(p.numel() for name, p in named if not name.startswith(edges))
        assert inner == count_weights(config, INPUTS, 13)


def test_what_a_window_takes_is_known_within_twice(
    model: GraphWaveNetwork, network_inputs: NetworkInputs
) -> None:
    measured = count_saved(model.train(), network_inputs)
    assert measured / 2 < model.window_numbers < 2 * measured


def test_inputs_of_other_sizes_are_refused_by_name(
    model: GraphWaveNetwork, network_inputs: NetworkInputs
) -> None:
    history, ahead = network_inputs
    short = State(history.signal[..., 1:], history.auxiliary[..., 1:])
    with pytest.raises(ConfigError, match=r"history: .*12 steps; needed: .*13 steps"):
        model(short, ahead)
