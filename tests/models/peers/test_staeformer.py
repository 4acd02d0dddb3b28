import math

import numpy as np
import pytest
import torch
from torch import Generator

from forecaster.choices import InputKind
from forecaster.config import LagConfig, STAEformerConfig
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import Heads
from forecaster.models.peers.staeformer import STAEformerNetwork, count_weights
from tests.models.peers.conftest import (
    INPUTS,
    WEEK,
    NetworkInputs,
    count_saved,
    take_windows,
    with_missing,
)

KINDS: tuple[InputKind, ...] = ("recent", "lags")
SIZES = {"embedding": 2, "adaptive": 4, "hidden": 3, "heads": 2, "n_layers": 2}
WIDTH, HEADS, LAYERS = 10, 2, 2


def build(kind: InputKind, lags: LagConfig, **changes: float) -> STAEformerNetwork:
    config = STAEformerConfig(inputs=kind, **{**SIZES, **changes})  # type: ignore[arg-type]
    heads = Heads((0.1, 0.5, 0.9), relative=True)
    network = STAEformerNetwork(config, lags, INPUTS, WEEK, Generator().manual_seed(3), heads)
    return network.double().eval()


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, lags: LagConfig) -> STAEformerNetwork:
    return build(request.param, lags)


def test_outputs_are_laid_out_location_first(
    model: STAEformerNetwork, network_inputs: NetworkInputs
) -> None:
    outputs = model(*network_inputs)
    assert outputs.forecast.shape == outputs.relative.shape == (7, 5, 3)
    assert outputs.quantiles.shape == (7, 3, 5, 3)
    assert torch.equal(model.roll_out(*network_inputs), outputs.forecast)


def test_the_forecast_is_that_of_its_equations(
    model: STAEformerNetwork, network_inputs: NetworkInputs
) -> None:
    inputs = with_missing(network_inputs) if model.masks else network_inputs
    outputs = model(*inputs)
    for b in (0, 3):
        expected = forecast_by_hand(model, *inputs, b)
        for actual, by_hand in zip((outputs.forecast, outputs.relative), expected, strict=True):
            np.testing.assert_allclose(actual[:, b].detach(), by_hand, rtol=1e-5, atol=1e-7)


def forecast_by_hand(
    model: STAEformerNetwork, history: State, ahead: State, b: int
) -> list[np.ndarray]:
    """Return the forecasts of all locations from one window, entry by entry."""
    weights = {name: w.numpy() for name, w in model.state_dict().items()}
    assert history.slots is not None
    slots = history.slots[b].numpy()
    h = np.zeros((7, 13, WIDTH))
    for n in range(7):
        x, a = history.signal[n, :, b].numpy(), history.auxiliary[:, b].numpy()
        coming = np.zeros(2)
        if model.masks:
            is_missing = np.isnan(x[:1])
            told = np.concatenate([np.where(is_missing, 0, x), is_missing])
            of_all = np.concatenate([a[:, -1:], ahead.auxiliary[:, b].numpy()], axis=1)
            own = np.concatenate([x[1:, -1:], ahead.signal[n, :, b].numpy()], axis=1)
            coming = weights["coming.of_all.bias"] + weights["coming.of_location.bias"]
            coming = coming + weights["coming.of_all.weight"] @ of_all.reshape(-1)
            coming = coming + weights["coming.of_location.weight"] @ own.reshape(-1)
        else:
            told = np.stack([*x, slots % 24 / 24, slots // 24 / 7])
        for s in range(13):
            day, hour = divmod(int(slots[s]), 24)
            series = weights["history.weight"] @ told[:, s] + weights["history.bias"] + coming
            times = weights["season.time"][hour], weights["season.weekday"][day]
            h[n, s] = np.concatenate([series, *times, weights["adaptive"][s, n]])
    for number in range(LAYERS):
        for n in range(7):
            h[n] = attend(h[n], weights, f"of_steps.{number}")
    for number in range(LAYERS):
        for s in range(13):
            h[:, s] = attend(h[:, s], weights, f"of_locations.layers.{number}")
    z = h.reshape(7, -1)
    return [z @ weights[f"{o}.weight"].T + weights[f"{o}.bias"] for o in ("output", "relative")]


def attend(h: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Return one layer's states of some steps of a location, or locations in a step."""

    def linear(part: str, x: np.ndarray) -> np.ndarray:
        bias: np.ndarray = weights[f"{name}.{part}.bias"]
        return np.asarray(weights[f"{name}.{part}.weight"] @ x + bias)

    def norm(part: str, x: np.ndarray) -> np.ndarray:
        scaled = (x - x.mean()) / math.sqrt(x.var() + 1e-5)
        return np.asarray(
            scaled * weights[f"{name}.{part}.weight"] + weights[f"{name}.{part}.bias"]
        )

    share, new = WIDTH // HEADS, []
    queries, keys, values = (
        [linear(part, entry) for entry in h] for part in ("query", "key", "value")
    )
    for n, entry in enumerate(h):
        mixed = np.zeros(WIDTH)
        for head in range(HEADS):
            own = slice(head * share, (head + 1) * share)
            scores = [math.exp(queries[n][own] @ key[own] / math.sqrt(share)) for key in keys]
            for score, value in zip(scores, values, strict=True):
                mixed[own] += score / sum(scores) * value[own]
        attended = norm("norm_attention", entry + linear("output", mixed))
        inner = np.maximum(linear("inner", attended), 0)
        new.append(norm("norm_feed_forward", attended + linear("outer", inner)))
    return np.array(new)


def test_windows_are_independent_and_locations_are_not(
    model: STAEformerNetwork, network_inputs: NetworkInputs
) -> None:
    together = model(*network_inputs).forecast
    for b in range(5):
        alone = model(*take_windows(network_inputs, slice(b, b + 1))).forecast
        torch.testing.assert_close(alone, together[:, b : b + 1])
    history, ahead = network_inputs
    signal = history.signal.clone()
    signal[4, 0] += 1
    changed = model(State(signal, history.auxiliary, history.slots), ahead).forecast
    assert (changed != together).flatten(1).any(dim=1).all()


def test_only_with_lags_it_sees_what_comes(
    model: STAEformerNetwork, network_inputs: NetworkInputs
) -> None:
    history, ahead = network_inputs
    later = State(ahead.signal + 1, ahead.auxiliary + 1, ahead.slots)
    same = torch.equal(model(history, ahead).forecast, model(history, later).forecast)
    assert same != model.masks


def test_every_weight_learns(model: STAEformerNetwork, network_inputs: NetworkInputs) -> None:
    outputs = model(*with_missing(network_inputs) if model.masks else network_inputs)
    sum(part.square().sum() for part in outputs).backward()  # type: ignore[union-attr]
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == ["quantiles.inner", "quantiles.bias"]  # below zeros, in a new head


def test_dropout_is_for_training_only(lags: LagConfig, network_inputs: NetworkInputs) -> None:
    model = build("recent", lags, dropout=0.5)
    once, again = (model(*network_inputs).forecast for _ in range(2))
    assert torch.equal(once, again)
    assert not torch.equal(model.train()(*network_inputs).forecast, once)


@pytest.mark.parametrize(("sensors", "weights"), [(207, 1_258_980), (307, 1_354_980)])
def test_it_has_as_many_weights_as_its_authors_network(sensors: int, weights: int) -> None:
    # Layer by layer from the sizes of METR-LA and PEMS04 in XDZhelheim/STAEformer,
    # model/STAEformer.yaml: inputs 96, time of day 6,912, weekday 168, adaptive embedding
    # 12 · 80 · sensors, six layers of 171,864, outputs 21,900.
    inputs, lags = NeuronLayout(sensors, 1, 32), LagConfig(recent=12, seasons=(), horizon=12)
    model = STAEformerNetwork(STAEformerConfig(), lags, inputs, 7 * 288, Generator())
    assert sum(p.numel() for p in model.parameters()) == weights


@pytest.mark.parametrize("sizes", [{}, {"embedding": 4, "n_layers": 0}, {"n_layers": 3}])
@pytest.mark.parametrize("kind", KINDS)
def test_most_weights_are_counted_without_building(
    kind: InputKind, sizes: dict[str, float], lags: LagConfig
) -> None:
    model = build(kind, lags, **sizes)
    config = STAEformerConfig(inputs=kind, **{**SIZES, **sizes})  # type: ignore[arg-type]
    edges = ("history.", "coming.", "output.", "relative.", "quantiles.")
    named = model.named_parameters()
    inner = sum(p.numel() for name, p in named if not name.startswith(edges))
    assert inner == count_weights(config, INPUTS, 13, WEEK)


@pytest.mark.parametrize("sizes", [{}, {"embedding": 24, "adaptive": 80, "hidden": 256}])
def test_what_a_window_takes_is_known_within_twice(
    sizes: dict[str, float], lags: LagConfig, network_inputs: NetworkInputs
) -> None:
    for kind in KINDS:
        model = build(kind, lags, **sizes)
        measured = count_saved(model.train(), network_inputs)
        assert measured / 2 < model.window_numbers < 2 * measured


def test_heads_must_share_the_numbers_evenly() -> None:
    with pytest.raises(ValueError, match=r"heads = 4 must divide 3 · embedding \+ adaptive = 11"):
        STAEformerConfig(embedding=1, adaptive=8)
