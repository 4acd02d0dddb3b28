import numpy as np
import pytest
import torch
from torch import Generator

from forecaster.choices import InputKind
from forecaster.config import LagConfig, STIDConfig
from forecaster.errors import ConfigError
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import Heads
from forecaster.models.peers.stid import STIDNetwork, count_weights
from tests.models.peers.conftest import (
    INPUTS,
    WEEK,
    NetworkInputs,
    count_saved,
    take_windows,
    with_missing,
)

LEVELS = (0.1, 0.5, 0.9)
KINDS: tuple[InputKind, ...] = ("recent", "lags")


def build(kind: InputKind, lags: LagConfig, **changes: float) -> STIDNetwork:
    config = STIDConfig(inputs=kind, **{"embedding": 3, "n_layers": 2, **changes})  # type: ignore[arg-type]
    heads = Heads(LEVELS, relative=True)
    network = STIDNetwork(config, lags, INPUTS, WEEK, Generator().manual_seed(3), heads)
    return network.double().eval()


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, lags: LagConfig) -> STIDNetwork:
    return build(request.param, lags)


def test_outputs_are_laid_out_location_first(
    model: STIDNetwork, network_inputs: NetworkInputs
) -> None:
    outputs = model(*network_inputs)
    assert outputs.forecast.shape == outputs.relative.shape == (7, 5, 3)
    assert outputs.quantiles.shape == (7, 3, 5, 3)
    assert (outputs.quantiles.diff(dim=1) > 0).all()
    assert torch.equal(model.roll_out(*network_inputs), outputs.forecast)


def test_the_forecast_is_that_of_its_equations(
    model: STIDNetwork, network_inputs: NetworkInputs
) -> None:
    inputs = with_missing(network_inputs) if model.masks else network_inputs
    outputs = model(*inputs)
    for n in range(7):
        for b in range(5):
            expected = forecast_by_hand(model, *inputs, n, b)
            for actual, by_hand in zip(
                (outputs.forecast, outputs.relative), expected, strict=True
            ):
                np.testing.assert_allclose(actual[n, b].detach(), by_hand, rtol=1e-5, atol=1e-7)


def forecast_by_hand(
    model: STIDNetwork, history: State, ahead: State, n: int, b: int
) -> list[np.ndarray]:
    """Return the forecast of a location from one window, number by number."""
    weights = {name: w.numpy() for name, w in model.state_dict().items()}
    x, a = history.signal[n, :, b].numpy(), history.auxiliary[:, b].numpy()
    assert history.slots is not None
    slots = history.slots[b].numpy()
    if model.masks:
        is_missing = np.isnan(x[:1])
        told = np.concatenate([np.where(is_missing, 0, x), is_missing])
    else:
        told = np.stack([*x, slots % 24 / 24, slots // 24 / 7])
    series = weights["history.bias"].copy()
    for e in range(3):
        for channel, values in enumerate(told):
            for step, value in enumerate(values):
                series[e] += weights["history.weight"][e, channel * 13 + step] * value
    day, hour = divmod(int(slots[-1]), 24)
    parts = [series, weights["place"][n], weights["season.time"][hour]]
    parts.append(weights["season.weekday"][day])
    if model.masks:
        of_all = np.concatenate([a[:, -1:], ahead.auxiliary[:, b].numpy()], axis=1).reshape(-1)
        own = np.concatenate([x[1:, -1:], ahead.signal[n, :, b].numpy()], axis=1).reshape(-1)
        coming = weights["coming.of_all.bias"] + weights["coming.of_location.bias"]
        coming = coming + weights["coming.of_all.weight"] @ of_all
        parts.append(coming + weights["coming.of_location.weight"] @ own)
    z = np.concatenate(parts)
    for layer in range(2):
        name = f"layers.{layer}"
        inner = np.maximum(weights[f"{name}.inner.weight"] @ z + weights[f"{name}.inner.bias"], 0)
        z = z + weights[f"{name}.outer.weight"] @ inner + weights[f"{name}.outer.bias"]
    return [weights[f"{o}.weight"] @ z + weights[f"{o}.bias"] for o in ("output", "relative")]


def test_locations_and_windows_are_independent(
    model: STIDNetwork, network_inputs: NetworkInputs
) -> None:
    together = model(*network_inputs).forecast
    for b in range(5):
        alone = model(*take_windows(network_inputs, slice(b, b + 1))).forecast
        torch.testing.assert_close(alone, together[:, b : b + 1])
    history, ahead = network_inputs
    signal = history.signal.clone()
    signal[4, 0] += 1
    changed = model(State(signal, history.auxiliary, history.slots), ahead).forecast
    same = (changed == together).flatten(1).all(dim=1)
    assert same.tolist() == [n != 4 for n in range(7)]


def test_only_with_lags_it_sees_what_comes(
    model: STIDNetwork, network_inputs: NetworkInputs
) -> None:
    history, ahead = network_inputs
    later = State(ahead.signal + 1, ahead.auxiliary + 1, ahead.slots)
    same = torch.equal(model(history, ahead).forecast, model(history, later).forecast)
    assert same != model.masks


def test_every_weight_learns(model: STIDNetwork, network_inputs: NetworkInputs) -> None:
    outputs = model(*with_missing(network_inputs) if model.masks else network_inputs)
    sum(part.square().sum() for part in outputs).backward()  # type: ignore[union-attr]
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # the first layer of a new quantile head sits below zeros
    assert silent == ["quantiles.inner", "quantiles.bias"]


def test_dropout_is_for_training_only(lags: LagConfig, network_inputs: NetworkInputs) -> None:
    model = build("recent", lags, dropout=0.5)
    once, again = (model(*network_inputs).forecast for _ in range(2))
    assert torch.equal(once, again)
    model.train()
    torch.manual_seed(1)
    assert not torch.equal(model(*network_inputs).forecast, once)


def test_it_has_as_many_weights_as_its_authors_network() -> None:
    # Their METR-LA: 3 · 12 inputs, 4 embeddings of 32, 3 layers of 128, 12 steps ahead
    # (GestaltCogTeam/STID, stid/METR-LA.py): 1,184 + 6,624 + 9,216 + 224 + 99,072 + 1,548.
    inputs, lags = NeuronLayout(207, 1, 32), LagConfig(recent=12, seasons=(), horizon=12)
    model = STIDNetwork(STIDConfig(), lags, inputs, 7 * 288, Generator())
    assert sum(p.numel() for p in model.parameters()) == 117_868


@pytest.mark.parametrize("sizes", [{}, {"embedding": 4, "n_layers": 0}, {"n_layers": 3}])
@pytest.mark.parametrize("kind", KINDS)
def test_most_weights_are_counted_without_building(
    kind: InputKind, sizes: dict[str, float], lags: LagConfig
) -> None:
    model = build(kind, lags, **sizes)
    config = STIDConfig(inputs=kind, **{"embedding": 3, "n_layers": 2, **sizes})  # type: ignore[arg-type]
    edges = ("history.", "coming.", "output.", "relative.", "quantiles.")
    named = model.named_parameters()
    inner = sum(p.numel() for name, p in named if not name.startswith(edges))
    assert inner == count_weights(config, INPUTS, WEEK)


def test_what_a_window_takes_is_known_within_twice(
    model: STIDNetwork, network_inputs: NetworkInputs
) -> None:
    measured = count_saved(model.train(), network_inputs)
    assert measured / 2 < model.window_numbers < 2 * measured


def test_inputs_of_other_sizes_are_refused_by_name(
    model: STIDNetwork, network_inputs: NetworkInputs
) -> None:
    history, ahead = network_inputs
    short = State(history.signal[..., 1:], history.auxiliary[..., 1:])
    with pytest.raises(ConfigError, match=r"history: .*12 steps; needed: .*13 steps"):
        model(short, ahead)
    with pytest.raises(ValueError, match="slots"):
        model(State(history.signal, history.auxiliary), ahead)


def test_a_sample_of_locations_is_forecast_as_a_part_of_all(
    lags: LagConfig, network_inputs: NetworkInputs
) -> None:
    model, (history, ahead) = build("lags", lags), with_missing(network_inputs)
    sample = model.sample(np.array([1, 4, 6]))
    numbers = sample.targets
    part = State(history.signal[numbers], history.auxiliary, history.slots, sample=sample)
    sampled = model(part, State(ahead.signal[numbers], ahead.auxiliary, ahead.slots))
    for expected, actual in zip(model(history, ahead), sampled, strict=True):
        torch.testing.assert_close(actual, expected[numbers])
