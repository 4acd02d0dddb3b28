from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from forecaster.choices import InputKind
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import DCRNNConfig, LagConfig
from forecaster.errors import ConfigError
from forecaster.models import dcrnn
from forecaster.models.dcrnn import DCRNNNetwork, DiffusionCell, Hidden, count_weights
from forecaster.models.layers.diffusion import Diffusion, random_walk
from forecaster.models.layers.neurons import NeuronLayout, State

# N = 7 locations, 1 + Q = 3 values of each, 2 + 32 auxiliary values; U = 4 units in 2 layers;
# B = 5 windows of L = 13 past and K = 3 coming steps.
Draw = Callable[..., Tensor]
NetworkInputs = tuple[State, State]
INPUTS = NeuronLayout(7, 3, 2 + len(CALENDAR_COLUMNS))
KINDS: tuple[InputKind, ...] = ("recent", "lags")


@pytest.fixture
def kernel(generator: Generator) -> Tensor:
    random = torch.rand(7, 7, generator=generator, dtype=torch.float64)
    return random * (random > 0.6) + torch.eye(7, dtype=torch.float64)


@pytest.fixture
def network_inputs(states: Callable[[NeuronLayout, int], State]) -> NetworkInputs:
    return states(INPUTS, 13), states(NeuronLayout(7, 2, INPUTS.auxiliary), 3)


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, lags: LagConfig, kernel: Tensor) -> DCRNNNetwork:
    config = DCRNNConfig(inputs=request.param, units=4)
    return DCRNNNetwork(config, lags, INPUTS, kernel, Generator().manual_seed(3)).double()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return a list that every step adds to what the locations see in it: [N, B, C]."""
    join, actual = dcrnn._join, list[Tensor]()
    monkeypatch.setattr(
        dcrnn, "_join", lambda *given: (actual.append(join(*given)), actual[-1])[1]
    )
    return actual


# --------------------------------------------------------------------------------- the cell


def test_the_cell_is_a_gated_recurrent_unit(kernel: Tensor, draw: Draw) -> None:
    diffusion = Diffusion(kernel, 2)
    cell = DiffusionCell(diffusion, 3, 4, Generator().manual_seed(1)).double()
    x, h = draw(7, 5, 3), draw(7, 5, 4)
    new = cell.begin()(diffusion(x), Hidden(h, diffusion(h)))
    weights = {name: w.numpy() for name, w in cell.state_dict().items()}
    np.testing.assert_allclose(
        new.value.detach(), step_by_hand(kernel.numpy(), x.numpy(), h.numpy(), weights)
    )
    torch.testing.assert_close(new.terms, diffusion(new.value))


def step_by_hand(
    kernel: np.ndarray, x: np.ndarray, h: np.ndarray, weights: dict[str, np.ndarray]
) -> np.ndarray:
    """Return the next state of a GRU, its products taken term by term."""
    walks = [kernel / kernel.sum(axis=1)[:, None], kernel.T / kernel.sum(axis=0)[:, None]]
    matrices = [np.eye(7), walks[0], walks[0] @ walks[0], walks[1], walks[1] @ walks[1]]

    def product(name: str, state: np.ndarray) -> np.ndarray:
        both, theta = np.concatenate([x, state], axis=2), weights[f"{name}.weight"]
        terms = [
            np.einsum("ij,jbc,co->ibo", m, both, t) for m, t in zip(matrices, theta, strict=True)
        ]
        return np.sum(terms, axis=0) + weights[f"{name}.bias"]

    gates = 1 / (1 + np.exp(-product("gates", h)))
    reset, update = gates[..., :4], gates[..., 4:]
    candidate = np.tanh(product("candidate", reset * h))
    return np.asarray(update * h + (1 - update) * candidate)


def test_gates_begin_open_and_candidates_at_nothing(model: DCRNNNetwork) -> None:
    for cell in [*model.encoder, *model.decoder]:
        assert torch.equal(cell.gates.bias, torch.ones(8, dtype=torch.float64))
        assert torch.equal(cell.candidate.bias, torch.zeros(4, dtype=torch.float64))


# ------------------------------------------------------------------------ what a step sees


def test_forecasts_are_laid_out_location_first(
    model: DCRNNNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    assert model(*network_inputs, draw(7, 5, 2), torch.tensor([True, False]))[0].shape == (7, 5, 3)
    assert model.roll_out(*network_inputs).shape == (7, 5, 3)


def test_with_no_truth_shown_it_rolls_out(
    model: DCRNNNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    rolled = model.roll_out(*network_inputs)
    assert torch.equal(
        model(*network_inputs, draw(7, 5, 2), torch.tensor([False, False]))[0], rolled
    )
    own = model(*network_inputs, rolled[..., :2].detach(), torch.tensor([True, True]))[0]
    torch.testing.assert_close(own, rolled)


@pytest.mark.parametrize("shown", [(True, True), (True, False), (False, True)])
def test_only_the_truth_that_is_shown_matters_and_to_later_steps(
    model: DCRNNNetwork, network_inputs: NetworkInputs, draw: Draw, shown: tuple[bool, bool]
) -> None:
    truth = draw(7, 5, 2)
    before = model(*network_inputs, truth, torch.tensor(shown))[0]
    for k in range(2):
        changed = truth.clone()
        changed[..., k] += 1
        after = model(*network_inputs, changed, torch.tensor(shown))[0]
        assert torch.equal(after[..., : k + 1], before[..., : k + 1])
        assert bool((after[..., k + 1 :] != before[..., k + 1 :]).all()) == shown[k]


def test_the_decoder_begins_with_zero_and_goes_on_with_what_is_fed(
    model: DCRNNNetwork, network_inputs: NetworkInputs, draw: Draw, seen: list[Tensor]
) -> None:
    truth = draw(7, 5, 2)
    forecast = model(*network_inputs, truth, torch.tensor([True, False]))[0]
    fed = torch.stack([x[..., 0] for x in seen[13:]], dim=2)
    assert not fed[..., 0].any()
    assert torch.equal(fed[..., 1], truth[..., 0])
    assert torch.equal(fed[..., 2], forecast[..., 1])


def test_a_location_is_told_the_time_of_day_or_everything(
    model: DCRNNNetwork, network_inputs: NetworkInputs, seen: list[Tensor]
) -> None:
    history, ahead = network_inputs
    model.roll_out(history, ahead)
    past, coming = (torch.stack([x[2, 3] for x in part], dim=1) for part in (seen[:13], seen[13:]))
    hours = history.auxiliary[9:33, 3]  # after 2 of the weather and 7 weekdays
    time = (hours * torch.arange(24)[:, None] / 24).sum(dim=0, keepdim=True)
    time += torch.where(hours[23] > 0, hours[0], 0)  # after 23:00 minutes count towards midnight
    shared = history.auxiliary[:, 3] if model.sees_ahead else time
    torch.testing.assert_close(past, torch.cat([history.signal[2, :, 3], shared]))
    known = torch.cat([ahead.signal[2, :, 3], ahead.auxiliary[:, 3]])
    assert torch.equal(coming[1:], known if model.sees_ahead else known[:0])


def test_with_recent_steps_alone_the_future_is_unknown(
    lags: LagConfig, kernel: Tensor, network_inputs: NetworkInputs
) -> None:
    history, ahead = network_inputs
    other = ahead.each(lambda part: part + 1)
    for kind in KINDS:
        config = DCRNNConfig(inputs=kind, units=4, n_layers=1)
        model = DCRNNNetwork(config, lags, INPUTS, kernel, Generator().manual_seed(3)).double()
        same = torch.equal(model.roll_out(history, ahead), model.roll_out(history, other))
        assert same == (kind == "recent")


def test_windows_are_independent(model: DCRNNNetwork, network_inputs: NetworkInputs) -> None:
    together = model.roll_out(*network_inputs)
    for b in range(5):
        alone = [state.each(lambda part: part[..., b : b + 1, :]) for state in network_inputs]  # noqa: B023
        torch.testing.assert_close(model.roll_out(*alone), together[:, b : b + 1])


# ----------------------------------------------------------------------- what reaches where


def influence(model: DCRNNNetwork, history: State, ahead: State) -> Tensor:
    """Return which location's past value, by step, moves which location's first forecast."""
    signal = history.signal.requires_grad_()
    first = model.roll_out(State(signal, history.auxiliary), ahead)[..., 0].sum(dim=1)
    rows = [torch.autograd.grad(one, signal, retain_graph=True)[0] for one in first]
    return torch.stack(rows)[:, :, 0].abs().sum(dim=2) > 0  # [N, N, L]


def test_what_is_too_many_hops_away_has_no_influence(draw: Draw) -> None:
    line = torch.eye(13, dtype=torch.float64)
    line += torch.diag(torch.full((12,), 0.5), 1) + torch.diag(torch.full((12,), 0.5), -1)
    lags, inputs = LagConfig(recent=2, seasons=(), horizon=1), NeuronLayout(13, 1, 32)
    config = DCRNNConfig(units=3, n_layers=1, diffusion_steps=1)
    model = DCRNNNetwork(config, lags, inputs, line, Generator().manual_seed(0)).double()
    ahead = State(draw(13, 0, 2, 1), draw(32, 2, 1))
    actual = influence(model, State(draw(13, 1, 2, 2), draw(32, 2, 2)), ahead)
    apart = (torch.arange(13)[:, None] - torch.arange(13)).abs()
    # A step reads one hop away by its gates, and one more where these have gated a state: not in
    # the first step, in which there is none.
    assert torch.equal(actual[..., 0], apart <= 1 + 2 + 2)
    assert torch.equal(actual[..., 1], apart <= 2 + 2)


def test_without_neighbours_locations_are_independent(
    lags: LagConfig, network_inputs: NetworkInputs
) -> None:
    model = DCRNNNetwork(DCRNNConfig(units=4), lags, INPUTS, torch.eye(7), Generator()).double()
    actual = influence(model, *network_inputs)
    assert torch.equal(actual, torch.eye(7, dtype=torch.bool)[..., None].expand(7, 7, 13))


def test_every_weight_learns(
    model: DCRNNNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    model(*network_inputs, draw(7, 5, 2), torch.tensor([True, False]))[0].square().sum().backward()
    assert not [name for name, p in model.named_parameters() if not p.grad.abs().sum() > 0]


# ------------------------------------------------------------------------ what it is made of


def test_it_has_as_many_weights_as_its_authors_network() -> None:
    # Their program counts 371,392 with one input (xlwang233/pytorch-DCRNN, issue 3); the time of
    # day is one more: 5 terms of it go into 3 · 64 units.
    inputs, lags = NeuronLayout(207, 1, 32), LagConfig(recent=12, seasons=(), horizon=12)
    model = DCRNNNetwork(DCRNNConfig(), lags, inputs, torch.eye(207), Generator())
    assert sum(p.numel() for p in model.parameters()) == 371_392 + 5 * 3 * 64


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(4, 1, 1), (5, 2, 3), (3, 3, 2)])
def test_weights_are_counted_without_building(
    kind: InputKind, sizes: tuple[int, int, int], lags: LagConfig, kernel: Tensor
) -> None:
    units, layers, steps = sizes
    config = DCRNNConfig(inputs=kind, units=units, n_layers=layers, diffusion_steps=steps)
    model = DCRNNNetwork(config, lags, INPUTS, kernel, Generator())
    assert (len(model.encoder), len(model.decoder)) == (layers, layers)
    count = sum(tensor.numel() for tensor in model.state_dict().values())
    assert count == count_weights(config, INPUTS)


def test_encoder_and_decoder_share_nothing_but_the_walks(model: DCRNNNetwork) -> None:
    pointers = [p.data_ptr() for p in model.parameters()]
    assert len(set(pointers)) == len(pointers) == 2 * 2 * 4 + 1
    cells = [*model.encoder, *model.decoder]
    assert all(cell.diffusion is model.diffusion for cell in cells)


def test_the_kernel_becomes_walks(model: DCRNNNetwork, kernel: Tensor) -> None:
    torch.testing.assert_close(model.diffusion.walks[:7], random_walk(kernel))


def test_what_a_window_takes_is_known_within_twice(
    model: DCRNNNetwork, network_inputs: NetworkInputs
) -> None:
    three = [state.each(lambda part: part[..., :3, :]) for state in network_inputs]
    measured = (count_saved(model, *network_inputs) - count_saved(model, *three)) / 2
    assert measured / 2 < model.window_numbers < 2 * measured


def count_saved(model: DCRNNNetwork, history: State, ahead: State) -> float:
    """Return how many numbers are held for the way back."""
    saved: dict[int, float] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes() / tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        forecast = model.roll_out(history, ahead)
    assert forecast.requires_grad
    return sum(saved.values())


@pytest.mark.slow
def test_the_model_overfits_eight_windows(
    lags: LagConfig, kernel: Tensor, generator: Generator
) -> None:
    lags = lags.model_copy(update={"horizon": 2})
    config = DCRNNConfig(inputs="lags", units=16, n_layers=1)
    model = DCRNNNetwork(config, lags, NeuronLayout(7, 1, 3), kernel.float(), generator)
    draw = partial(torch.randn, generator=generator)
    history, target = State(draw(7, 1, 8, 13), draw(3, 8, 13)), draw(7, 8, 2)
    ahead = State(torch.empty(7, 0, 8, 2), draw(3, 8, 2))
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-2, total_steps=100)
    losses = []
    for _ in range(100):
        loss = (
            (model(history, ahead, target[..., :1], torch.tensor([False]))[0] - target)
            .square()
            .mean()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    assert losses[0] > 0.8  # the targets' variance is 1
    assert losses[-1] < 0.05


# ---------------------------------------------------------------------------------- refusal


def test_an_input_of_other_shape_is_refused_naming_both_sides(
    model: DCRNNNetwork,
    network_inputs: NetworkInputs,
    states: Callable[[NeuronLayout, int], State],
) -> None:
    history, ahead = network_inputs
    with pytest.raises(ConfigError, match=r"history: 7 locations .*, 12 steps; needed.*13 steps"):
        model.roll_out(states(INPUTS, 12), ahead)
    with pytest.raises(ConfigError, match="2 faults"):
        model.roll_out(ahead, history)


def test_a_truth_of_other_length_is_refused(
    model: DCRNNNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    with pytest.raises(ConfigError, match=r"truth: \(7, 5, 3\); needed: \(7, 5, 2\)"):
        model(*network_inputs, draw(7, 5, 3), torch.tensor([True, True, False]))
