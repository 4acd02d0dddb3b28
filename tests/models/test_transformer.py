from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from forecaster.config import LagConfig, ModelConfig
from forecaster.errors import ConfigError
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.forecaster import build_forecaster
from forecaster.models.neurons import NeuronLayout, State
from forecaster.models.transformer import Transformer

Draw = Callable[..., Tensor]
Question = tuple[State, State]


@pytest.fixture
def model(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    generator: torch.Generator,
) -> Transformer:
    two_layers = config.model_copy(update={"n_layers": 2})
    return build_forecaster(two_layers, lags, inputs, pattern, generator).double()


def test_forecasts_are_laid_out_location_first(
    model: Transformer, question: Question, draw: Draw
) -> None:
    assert model(*question, draw(7, 5, 2)).shape == (7, 5, 3)
    assert model.roll_out(*question).shape == (7, 5, 3)


# ------------------------------------------------------------------------ what a step sees


def test_teacher_forcing_and_roll_out_agree_on_the_same_values(
    model: Transformer, question: Question
) -> None:
    rolled = model.roll_out(*question)
    torch.testing.assert_close(model(*question, rolled[..., :2]), rolled)


def test_the_first_forecast_rests_on_the_last_observed_signal(
    model: Transformer, question: Question, draw: Draw
) -> None:
    history, ahead = question
    seen: list[State] = []
    model.decoder_embedding.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    truth = draw(7, 5, 2)
    model(history, ahead, truth)
    (given,) = seen
    assert torch.equal(given.signal[:, 0, :, 0], history.signal[:, 0, :, 12])  # x_t
    assert torch.equal(given.signal[:, 0, :, 1:], truth)  # x_{t+1}, x_{t+2}
    assert torch.equal(given.signal[:, 1:], ahead.signal)  # covariates of t+1, t+2, t+3
    assert torch.equal(given.auxiliary, ahead.auxiliary)  # a_{t+1}, a_{t+2}, a_{t+3}


def test_positions_of_coming_steps_go_on_after_the_history(
    model: Transformer, question: Question, draw: Draw
) -> None:
    firsts: list[int] = []
    model.positions.register_forward_pre_hook(
        lambda _, _args, given: firsts.append(given["first"]), with_kwargs=True
    )
    model(*question, draw(7, 5, 2))
    model.roll_out(*question)
    assert firsts == [0, 13, 0, 13, 14, 15]


def test_roll_out_feeds_its_own_forecasts(model: Transformer, question: Question) -> None:
    seen: list[State] = []
    model.decoder_embedding.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    rolled = model.roll_out(*question)
    fed = torch.cat([given.signal[:, 0] for given in seen], dim=2)
    assert torch.equal(fed[..., 0], question[0].signal[:, 0, :, 12])
    assert torch.equal(fed[..., 1:], rolled[..., :2])


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_forecast_ignores_what_comes_after_it(
    model: Transformer, question: Question, draw: Draw, step: int
) -> None:
    history, ahead = question
    truth = draw(7, 5, 2)
    before = model(history, ahead, truth)
    later = ahead.each(torch.clone)
    later.signal[..., step + 1 :] += 1
    later.auxiliary[..., step + 1 :] += 1
    changed = truth.clone()
    changed[..., step:] += 1
    after = model(history, later, changed)
    assert torch.equal(after[..., : step + 1], before[..., : step + 1])
    if step < 2:
        assert (after[..., step + 1 :] != before[..., step + 1 :]).all()


def test_windows_do_not_know_each_other(model: Transformer, question: Question) -> None:
    together = model.roll_out(*question)
    for b in range(5):
        alone = [state.each(lambda part: part[..., b : b + 1, :]) for state in question]  # noqa: B023
        torch.testing.assert_close(model.roll_out(*alone), together[:, b : b + 1])


def test_every_weight_learns(model: Transformer, question: Question, draw: Draw) -> None:
    model(*question, draw(7, 5, 2)).square().sum().backward()
    learning = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    assert not [name for name, p in learning if not p.grad.abs().sum() > 0]
    rest = {name for name, _ in model.named_parameters()} - {name for name, _ in learning}
    assert rest == {"output.auxiliary_weight"}  # the last layer has no auxiliary neurons


@pytest.mark.usefixtures("hold_constant")
def test_with_weights_and_statistics_held_a_forecast_reaches_ten_hops(
    lags: LagConfig, config: ModelConfig, generator: torch.Generator, draw: Draw
) -> None:
    line = np.array([(n, n + 1) for n in range(12)])  # 13 locations in a row
    inputs, pattern = NeuronLayout(13, 1, 11), BlockPattern.from_pairs(13, line)
    model = build_forecaster(config, lags, inputs, pattern, generator).double()
    signal, ahead = draw(13, 1, 5, 13).requires_grad_(), State(draw(13, 0, 5, 3), draw(11, 5, 3))
    first = model.roll_out(State(signal, draw(11, 5, 13)), ahead)[..., 0].sum(dim=1)
    # Embedding 1, encoder 4 (values, output, twice feed-forward), attention to the history 2,
    # feed-forward 2, output 1.
    rows = [torch.autograd.grad(one, signal, retain_graph=True)[0] for one in first]
    found = torch.stack(rows).abs().sum(dim=(2, 3, 4)) > 0
    apart = (torch.arange(13)[:, None] - torch.arange(13)).abs()
    assert torch.equal(found, apart <= 10)
    # Then embedding 1, attention among steps 2, feed-forward 2, output 1.
    assert [model.reach(step) for step in (1, 2, 3)] == [10, 16, 22]


# ------------------------------------------------------------------------- what it is made of


def test_embeddings_are_cut_at_zero(model: Transformer, question: Question) -> None:
    for embedding in (model.encoder_embedding, model.decoder_embedding):
        neurons = embedding(question[0])
        assert neurons.signal.min() == neurons.auxiliary.min() == 0
        assert neurons.signal.max() > 0


def test_layers_and_dropout_are_as_configured(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    question: Question,
) -> None:
    config = config.model_copy(update={"n_layers": 2, "dropout": 0.25})
    model = build_forecaster(config, lags, inputs, pattern, torch.Generator()).double()
    assert (len(model.encoder), len(model.decoder)) == (2, 2)
    calls: list[float] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.register_forward_hook(lambda layer, *_: calls.append(layer.p))
    history, ahead = question
    model(history, ahead, torch.zeros(7, 5, 2, dtype=torch.float64))
    # Of both parts of: two embeddings, two added outputs an encoder layer, three a decoder layer.
    assert calls == [0.25] * (2 * (2 + 2 * 2 + 2 * 3))


# ---------------------------------------------------------------------------------- training


@pytest.mark.slow
def test_the_model_overfits_eight_windows(
    lags: LagConfig, pattern: BlockPattern, generator: torch.Generator
) -> None:
    config = ModelConfig(per_location=16, auxiliary=16, heads=2)
    lags = lags.model_copy(update={"horizon": 2})
    model = build_forecaster(config, lags, NeuronLayout(7, 1, 3), pattern, generator)
    draw = partial(torch.randn, generator=generator)
    history, target = State(draw(7, 1, 8, 13), draw(3, 8, 13)), draw(7, 8, 2)
    ahead = State(torch.empty(7, 0, 8, 2), draw(3, 8, 2))
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-2, total_steps=60)
    losses = []
    for _ in range(60):
        loss = (model(history, ahead, target[..., :1]) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    assert losses[0] > 1.0  # the targets' variance is 1
    assert losses[-1] < 0.01


# ---------------------------------------------------------------------------------- refusal


def test_an_input_of_other_shape_is_refused_naming_both_sides(
    model: Transformer, question: Question, states: Callable[[NeuronLayout, int], State]
) -> None:
    history, ahead = question
    wrong = states(NeuronLayout(7, 2, 11), 5)
    with pytest.raises(ConfigError) as caught:
        model.roll_out(history, wrong)
    assert str(caught.value) == (
        "the model does not fit its input: 1 fault\n"
        "  ahead: 7 locations × 2 values, 11 auxiliary values, 5 steps; "
        "needed: 7 locations × 2 values, 11 auxiliary values, 3 steps"
    )
    with pytest.raises(
        ConfigError, match=r"history: 5 locations × 1 values, 2 .*, 1 step; needed"
    ):
        model.roll_out(states(NeuronLayout(5, 1, 2), 1), ahead)
    with pytest.raises(ConfigError, match="2 faults"):
        model.roll_out(ahead, history)


def test_a_truth_of_other_length_is_refused(
    model: Transformer, question: Question, draw: Draw
) -> None:
    with pytest.raises(ConfigError, match=r"truth: \(7, 5, 3\); needed: \(7, 5, 2\)"):
        model(*question, draw(7, 5, 3))
