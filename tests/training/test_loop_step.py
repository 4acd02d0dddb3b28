import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import OneCycleLR

from forecaster.errors import ArtifactError
from forecaster.models.network import Outputs
from forecaster.training import loop as loop_module
from forecaster.training.distributed import ProcessGroup
from forecaster.training.loop import Trainer
from forecaster.training.loss import (
    count_terms,
    join_terms,
    sum_deviance,
    sum_errors,
    sum_pinball,
)
from forecaster.training.schedule import draw_teacher_forcing
from forecaster.training.task import TrainingTask
from forecaster.windows.batches import Batch, BatchLocations
from tests.training.town import make_sampled_task, make_task

ALONE = ProcessGroup(torch.device("cpu"))
ORIGINS = np.array([71, 67, 97, 103, 60])


@pytest.fixture(autouse=True)
def _own_generator() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


def begin(task: TrainingTask, messages: list[str] | None = None) -> Trainer:
    trainer = Trainer(task, ALONE, (messages if messages is not None else []).append)
    trainer.begin(None, 0)
    return trainer


def errors_of(task: TrainingTask, outputs: Outputs, batch: Batch) -> torch.Tensor:
    """Return the sums of a network that learns its mean from squares, which come twice."""
    squares, shares = sum_errors(
        outputs.forecast, outputs.relative, batch.target, batch.observed, task.mape_cut
    )
    return torch.stack([squares, shares, squares])


def plain_loss(task: TrainingTask, outputs: Outputs, batch: Batch) -> torch.Tensor:
    errors = errors_of(task, outputs, batch)
    counts = count_terms(batch.target, batch.observed, task.mape_cut)
    return join_terms(errors[:2], counts, task.config.eta)


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("two_outputs", [False, True])
def test_steps_are_those_of_torchs_own_parts(two_outputs: bool) -> None:
    task = make_task(dtype=torch.float64, clip=0.5, two_outputs=two_outputs)
    twin = replace(task, network=copy.deepcopy(task.network))
    trainer, parameters = begin(task), list(twin.network.parameters())
    optimiser = torch.optim.AdamW(parameters, lr=1.0, weight_decay=0.01)
    scheduler = OneCycleLR(optimiser, 1e-2, task.steps, cycle_momentum=False)
    for step in range(7):
        origins = task.train[5 * step : 5 * step + 5]
        loss, norm, *_ = trainer.train_step(origins, step).tolist()
        optimiser.zero_grad()
        batch = twin.batches.cut(origins)
        expected = plain_loss(twin, twin.teacher_forced(batch), batch)
        expected.backward()
        expected_norm = torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        assert norm > 0.5  # so that it is clipped
        assert (loss, norm) == pytest.approx((expected.item(), expected_norm.item()), rel=1e-6)
        optimiser.step()
        scheduler.step()
    for (name, mine), theirs in zip(task.network.named_parameters(), parameters, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-8, msg=name)


@pytest.mark.parametrize("two_outputs", [False, True])
def test_a_step_returns_the_sums_behind_its_loss(two_outputs: bool) -> None:
    task = make_task(two_outputs=two_outputs)
    batch = task.batches.cut(ORIGINS)
    with torch.no_grad():
        errors = errors_of(task, task.teacher_forced(batch), batch)
    loss, _, *sums = begin(task).train_step(ORIGINS, 0).tolist()
    counts = count_terms(batch.target, batch.observed, task.mape_cut)
    assert sums == pytest.approx([*errors.tolist(), *counts.tolist()])
    assert loss == pytest.approx(join_terms(errors[:2], counts, 8e-3).item())


@pytest.mark.usefixtures("_unchecked")
def test_an_average_follows_the_weights_by_its_decay() -> None:
    trainer = begin(make_task(ema=0.5))
    expected = trainer.vectors["weights"].clone()
    for step in range(5):
        trainer.train_step(ORIGINS, step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * trainer.vectors["weights"]
    torch.testing.assert_close(trainer.vectors["average"], expected)


@pytest.mark.usefixtures("_unchecked")
def test_the_averaged_weights_are_validated_and_kept() -> None:
    trainer = begin(make_task(ema=0.9))
    for step in range(5):
        trainer.train_step(ORIGINS, step)
    moving = trainer.vectors["weights"].clone()
    actual = trainer.validate(lambda: False)
    assert torch.equal(trainer.vectors["weights"], moving)
    trainer.vectors["weights"].copy_(trainer.vectors["average"])
    assert actual is not None
    assert torch.equal(actual, trainer.validate(lambda: False))
    trainer.keep_best()
    assert torch.equal(trainer.vectors["best"], trainer.vectors["average"])


@pytest.mark.parametrize("two_outputs", [False, True])
def test_validation_rolls_out_over_every_window_once(two_outputs: bool) -> None:
    task = make_task(dropout=0.5, two_outputs=two_outputs)
    actual = begin(task).validate(lambda: False)
    task.network.eval()
    batch = task.batches.cut(task.validation)
    with torch.no_grad():
        errors = errors_of(task, task.roll_out(batch), batch)
    counts = count_terms(batch.target, batch.observed, task.mape_cut)
    assert actual is not None
    torch.testing.assert_close(actual, torch.cat([errors, counts]), rtol=1e-6, atol=0)


def test_validation_measures_relative_error_of_the_output_for_it() -> None:
    task = make_task(two_outputs=True)
    trainer = begin(task)
    before = trainer.validate(lambda: False)
    with torch.no_grad():
        task.network.relative.bias += 1
    after = trainer.validate(lambda: False)
    batch = task.batches.cut(task.validation)
    busy = batch.observed & (batch.target >= task.mape_cut)
    task.network.eval()
    with torch.no_grad():
        relative = task.roll_out(batch).relative
    shares = ((relative - batch.target).abs() / batch.target)[busy]
    assert before is not None
    assert after is not None
    others = [0, 2, 3, 4]  # squares, twice, and counts
    assert torch.equal(after[others], before[others])
    assert after[1].item() == pytest.approx(shares.sum().item(), rel=1e-5)
    assert after[1] != before[1]


def test_T2_validation_ends_on_request() -> None:
    task, asked = make_task(), iter([False, True])
    assert begin(task).validate(lambda: next(asked)) is None
    assert task.network.training


@pytest.mark.usefixtures("_unchecked")
def test_dropout_is_drawn_by_seed_and_step() -> None:
    losses = []
    for step, seed in ((3, 0), (3, 0), (4, 0), (3, 1)):
        torch.rand(7)  # whatever else draws numbers
        losses.append(begin(make_task(dropout=0.3, seed=seed)).train_step(ORIGINS, step)[0].item())
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3


@pytest.mark.parametrize("step", [3, 17])
def test_all_micro_batches_have_the_same_teacher_forcing(step: int) -> None:
    whole, parts = (make_sampled_task(5.0, batch=5, seed=2) for _ in range(2))
    shown: list[tuple[bool, ...]] = []
    parts.network.register_forward_pre_hook(
        lambda _, inputs: shown.append(tuple(inputs[3].tolist()))
    )
    trainer = begin(parts)
    trainer._micro_batches.windows = 2
    actual = trainer.train_step(ORIGINS, step)
    assert shown == [draw_teacher_forcing(2, 5.0, 2, step)] * 3
    torch.testing.assert_close(actual, begin(whole).train_step(ORIGINS, step), rtol=1e-6, atol=0)


def test_the_best_weights_are_loaded_into_the_network() -> None:
    task = make_task()
    trainer = begin(task)
    trainer.train_step(ORIGINS, 0)
    trainer.keep_best()
    expected = {name: p.detach().clone() for name, p in task.network.named_parameters()}
    trainer.train_step(ORIGINS, 1)
    weights = trainer.finish()
    for name, parameter in task.network.named_parameters():
        assert torch.equal(parameter, expected[name])
        np.testing.assert_array_equal(weights[name], expected[name].numpy())


def test_C4_arrays_of_another_network_are_refused() -> None:
    trainer = Trainer(make_task(), ALONE, print)
    arrays = {name: vector.numpy().copy() for name, vector in trainer.vectors.items()}
    trainer.begin(arrays, 3)
    for wrong in ({**arrays, "best": arrays["best"][1:]}, {"weights": arrays["weights"]}):
        with pytest.raises(ArtifactError, match="a checkpoint of another network"):
            trainer.begin(wrong, 3)


# ---------------------------------------------------------------------------- out of memory


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("room", [1, 2, 4])
def test_T5_micro_batches_give_the_same_step(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts, messages = make_task(batch=5), make_task(batch=5), list[str]()
    one, two = begin(whole), begin(parts, messages)
    expected = [one.train_step(ORIGINS, step) for step in range(3)]
    monkeypatch.setattr(TrainingTask, "teacher_forced", limited(TrainingTask.teacher_forced, room))
    actual = [two.train_step(ORIGINS, step) for step in range(3)]
    torch.testing.assert_close(torch.stack(actual), torch.stack(expected), rtol=1e-6, atol=0)
    torch.testing.assert_close(two.vectors["weights"], one.vectors["weights"])
    assert len(messages) == 1


def limited(method: Any, room: int) -> Any:
    """Return the method of a task for a device with room for so many windows."""

    def run(task: TrainingTask, batch: Batch, *shown: torch.Tensor | None) -> Outputs:
        if batch.target.shape[1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        outputs: Outputs = method(task, batch, *shown)
        return outputs

    return run


def test_T5_memory_that_runs_out_in_the_backward_pass_leaves_no_partial_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, parts = begin(make_task(batch=5)), begin(make_task(batch=5))
    expected = whole.train_step(ORIGINS, 0)
    calls = []

    def fail_once(*args: Any) -> torch.Tensor:
        calls.append(args)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return join_terms(*args)

    monkeypatch.setattr(loop_module, "join_terms", fail_once)
    parts._micro_batches.windows = 3
    actual = parts.train_step(ORIGINS, 0)
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0)


@pytest.mark.usefixtures("_unchecked")
def test_T5_validation_in_micro_batches_gives_the_same_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = begin(make_task()).validate(lambda: False)
    monkeypatch.setattr(TrainingTask, "roll_out", limited(TrainingTask.roll_out, 3))
    actual = begin(make_task()).validate(lambda: False)
    assert expected is not None
    assert actual is not None
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0)


# ------------------------------------------------------------------------------- not finite


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["input", "weights", "gradient"])
def test_T4_a_step_that_is_not_finite_moves_nothing_and_its_tensor_is_named(
    part: str, wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_task(ema=0.9)
    trainer = begin(task)
    trainer.train_step(ORIGINS, 0)
    with monkeypatch.context() as patch:
        expected = inject(part, wrong, task, trainer, patch)
        before = {name: vector.clone() for name, vector in trainer.vectors.items()}
        loss, norm, *_ = trainer.train_step(ORIGINS, 1).tolist()
        assert not np.isfinite(loss + norm)
        assert trainer.find_non_finite(ORIGINS, 1) == expected
    trainer.train_step(ORIGINS, 2)  # a GPU may be ahead: what comes after moves nothing either
    for name in ("weights", "first_moment", "second_moment"):
        torch.testing.assert_close(
            trainer.vectors[name], before[name], rtol=0, atol=0, equal_nan=True
        )


def inject(
    part: str, wrong: float, task: TrainingTask, trainer: Trainer, patch: pytest.MonkeyPatch
) -> str:
    """Put a wrong number somewhere, and return how it should be named."""
    if part == "input":
        gather = task.batches.gather

        def spoil(indices: torch.Tensor, locations: BatchLocations) -> Batch:
            batch = gather(indices, locations)
            batch.auxiliary[0, 0, 0] = wrong
            return batch

        patch.setattr(task.batches, "gather", spoil)
        return "the input auxiliary"
    if part == "weights":
        trainer.weights.slices["output.bias"].view(trainer.weights.vector)[2] = wrong
        return "the weights output.bias"
    handle = task.network.output.bias.register_hook(lambda grad: grad * wrong)
    patch.setattr(task.network, "unused", handle, raising=False)
    return "the gradient of output.bias"


# -------------------------------------------------------------------- counts above zero


@pytest.mark.usefixtures("_unchecked")
def test_counts_above_zero_learn_from_deviance_and_are_validated_by_it() -> None:
    task = make_task(dtype=torch.float64, clip=1e9, two_outputs=True, eta="balanced")
    assert not task.network.is_positive
    task.network.is_positive = True
    twin = replace(task, network=copy.deepcopy(task.network))

    def sums_of(outputs: Outputs, batch: Batch) -> torch.Tensor:
        squares, shares, _ = errors_of(twin, outputs, batch)
        deviance = sum_deviance(outputs.forecast, batch.target, batch.observed)
        counts = count_terms(batch.target, batch.observed, task.mape_cut)
        return torch.cat([torch.stack([deviance, shares, squares]), counts])

    trainer = begin(task)
    validated = trainer.validate(lambda: False)
    batch = twin.batches.cut(task.validation)
    assert validated is not None
    torch.testing.assert_close(validated, sums_of(twin.roll_out(batch), batch).detach())
    batch = twin.batches.cut(ORIGINS)
    outputs = twin.teacher_forced(batch)
    assert (outputs.forecast > 0).all()
    sums = sums_of(outputs, batch)
    loss = join_terms(sums[:2], sums[3:], task.eta)
    loss.backward()
    row = trainer.train_step(ORIGINS, 0)
    assert row[0].item() == pytest.approx(loss.item())
    torch.testing.assert_close(row[2:], sums.detach())
    for name, parameter in twin.network.named_parameters():
        if name in trainer.weights.slices and parameter.grad is not None:
            actual = trainer.weights.slices[name].view(trainer.weights.gradient)
            torch.testing.assert_close(actual, parameter.grad, msg=name)


# ------------------------------------------------------------------------------- quantiles


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize(
    "changes", [{}, {"ema": 0.9}, {"precision": "bf16"}, {"two_outputs": True}]
)
def test_the_forecast_trains_as_it_would_without_quantiles(changes: dict[str, Any]) -> None:
    plain, beside = (
        begin(make_task(dropout=0.3, clip=0.5, levels=levels, **changes))
        for levels in ((), (0.1, 0.5, 0.9))
    )
    for step in range(7):
        rows = [trainer.train_step(ORIGINS, step) for trainer in (plain, beside)]
        assert torch.equal(rows[0][2:], rows[1][2:])  # errors and counts
    for name, vector in plain.vectors.items():
        assert torch.equal(vector, beside.weights.parts(beside.vectors[name])[0]), name
    actual = [trainer.validate(lambda: False) for trainer in (plain, beside)]
    assert actual[0] is not None
    assert torch.equal(*actual)


@pytest.mark.usefixtures("_unchecked")
def test_the_head_moves_by_the_gradient_of_its_own_loss_clipped_by_itself() -> None:
    task = make_task(dtype=torch.float64, clip=1e-3, levels=(0.1, 0.9))
    twin = replace(task, network=copy.deepcopy(task.network))
    trainer = begin(task)
    _, norm, *_ = trainer.train_step(ORIGINS, 0).tolist()
    batch = twin.batches.cut(ORIGINS)
    quantiles = twin.teacher_forced(batch).quantiles
    levels = torch.tensor([0.1, 0.9])
    count = batch.observed.sum()
    loss = sum_pinball(quantiles, batch.next_values, batch.observed, levels) / (2 * count)
    loss.backward()
    head = {n: p.grad for n, p in twin.network.named_parameters() if n.startswith("quantiles.")}
    size = torch.cat([grad.flatten() for grad in head.values() if grad is not None]).norm()
    assert 1e-3 < size < norm  # of the two norms, the larger is told
    for name, grad in head.items():
        if name in trainer.weights.slices:
            actual = trainer.weights.slices[name].view(trainer.weights.gradient)
            torch.testing.assert_close(actual, grad * 1e-3 / size)


@pytest.mark.usefixtures("_unchecked")
def test_quantiles_of_some_windows_weigh_as_much_as_those_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = make_task(dtype=torch.float64, levels=(0.1, 0.9))
    twin = replace(task, network=copy.deepcopy(task.network))
    forward = task.network.forward

    def first_window(*inputs: Any, **options: Any) -> Outputs:
        outputs = forward(*inputs, **options)
        return outputs._replace(quantiles=outputs.quantiles[:, :, :1])

    monkeypatch.setattr(task.network, "forward", first_window)
    trainer = begin(task)
    trainer._sum_gradient(ORIGINS, 0)
    gradient = trainer.weights.collect_gradient()
    batch = twin.batches.cut(ORIGINS)
    quantiles = twin.teacher_forced(batch).quantiles[:, :, :1]
    target, observed = batch.next_values[:, :1], batch.observed[:, :1]
    loss = sum_pinball(quantiles, target, observed, torch.tensor([0.1, 0.9]))
    (loss * len(ORIGINS) / (2 * batch.observed.sum())).backward()
    head = {n: p.grad for n, p in twin.network.named_parameters() if n.startswith("quantiles.")}
    assert any(grad is not None and grad.any() for grad in head.values())
    for name, grad in head.items():
        if name in trainer.weights.slices:
            torch.testing.assert_close(trainer.weights.slices[name].view(gradient), grad)


def test_a_head_that_fails_stops_the_step_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(levels=(0.5,))
    trainer = begin(task)
    before = trainer.weights.vector.clone()
    head = task.network.quantiles
    hook = head.outer.bias.register_hook(lambda grad: grad * np.nan)
    monkeypatch.setattr(task.network, "unused", hook, raising=False)
    assert np.isnan(trainer.train_step(ORIGINS, 0)[1].item())
    assert torch.equal(trainer.weights.vector, before)
    assert trainer.find_non_finite(ORIGINS, 0) == "the gradient of quantiles.outer.bias"


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("two_outputs", [False, True])
def test_quantiles_train_the_same_in_micro_batches(
    two_outputs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (begin(make_task(levels=(0.1, 0.9), two_outputs=two_outputs)) for _ in range(2))
    one.train_step(ORIGINS, 0)
    monkeypatch.setattr(two._micro_batches, "windows", 2)
    two.train_step(ORIGINS, 0)
    torch.testing.assert_close(two.vectors["first_moment"], one.vectors["first_moment"])


# -------------------------------------------------------------------------- other precision


@pytest.mark.usefixtures("_unchecked")
def test_bf16_trains_about_as_float32() -> None:
    losses = {}
    for precision in ("float32", "bf16"):
        trainer = begin(make_task(precision=precision, epochs=1))
        losses[precision] = [trainer.train_step(ORIGINS, step)[0].item() for step in range(12)]
    assert losses["bf16"] == pytest.approx(losses["float32"], rel=0.05)
    assert losses["bf16"] != losses["float32"]
    assert losses["bf16"][-1] < 0.8 * losses["bf16"][0]
