import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import OneCycleLR

from forecaster.errors import ArtifactError
from forecaster.training import loop as loop_module
from forecaster.training.distributed import ProcessGroup
from forecaster.training.loop import Trainer
from forecaster.training.loss import count_terms, join_terms, sum_errors, sum_pinball
from forecaster.training.schedule import draw_teacher_forcing
from forecaster.training.task import TrainingTask
from forecaster.windows.batches import Batch
from tests.training.town import make_sampled_task, make_task

ALONE = ProcessGroup(torch.device("cpu"))
ORIGINS = np.array([71, 67, 97, 103, 60])


@pytest.fixture(autouse=True)
def _own_generator() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


def begin(task: TrainingTask, said: list[str] | None = None) -> Trainer:
    learner = Trainer(task, ALONE, (said if said is not None else []).append)
    learner.begin(None, 0)
    return learner


def plain_loss(task: TrainingTask, forecast: torch.Tensor, batch: Batch) -> torch.Tensor:
    errors = sum_errors(forecast, batch.target, batch.observed, task.mape_cut)
    counts = count_terms(batch.target, batch.observed, task.mape_cut)
    return join_terms(errors, counts, task.config.eta)


@pytest.mark.usefixtures("_unchecked")
def test_steps_are_those_of_torchs_own_parts() -> None:
    task = make_task(dtype=torch.float64, clip=0.5)
    twin = replace(task, network=copy.deepcopy(task.network))
    learner, parameters = begin(task), list(twin.network.parameters())
    optimiser = torch.optim.AdamW(parameters, lr=1.0, weight_decay=0.01)
    scheduler = OneCycleLR(optimiser, 1e-2, task.steps, cycle_momentum=False)
    for step in range(7):
        origins = task.train[5 * step : 5 * step + 5]
        loss, norm, *_ = learner.train_step(origins, step).tolist()
        optimiser.zero_grad()
        batch = twin.batches.cut(origins)
        expected = plain_loss(twin, twin.teacher_forced(batch)[0], batch)
        expected.backward()
        expected_norm = torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        assert norm > 0.5  # so that it is clipped
        assert (loss, norm) == pytest.approx((expected.item(), expected_norm.item()), rel=1e-6)
        optimiser.step()
        scheduler.step()
    for (name, mine), theirs in zip(task.network.named_parameters(), parameters, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-8, msg=name)


def test_a_step_returns_the_sums_behind_its_loss() -> None:
    task = make_task()
    batch = task.batches.cut(ORIGINS)
    with torch.no_grad():
        errors = sum_errors(
            task.teacher_forced(batch)[0], batch.target, batch.observed, task.mape_cut
        )
    loss, _, *sums = begin(task).train_step(ORIGINS, 0).tolist()
    counts = count_terms(batch.target, batch.observed, task.mape_cut)
    assert sums == pytest.approx([*errors.tolist(), *counts.tolist()])
    assert loss == pytest.approx(join_terms(errors, counts, 8e-3).item())


@pytest.mark.usefixtures("_unchecked")
def test_an_average_follows_the_weights_by_its_decay() -> None:
    learner = begin(make_task(ema=0.5))
    expected = learner.vectors["weights"].clone()
    for step in range(5):
        learner.train_step(ORIGINS, step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * learner.vectors["weights"]
    torch.testing.assert_close(learner.vectors["average"], expected)


@pytest.mark.usefixtures("_unchecked")
def test_the_averaged_weights_are_validated_and_kept() -> None:
    learner = begin(make_task(ema=0.9))
    for step in range(5):
        learner.train_step(ORIGINS, step)
    moving = learner.vectors["weights"].clone()
    found = learner.validate(lambda: False)
    assert torch.equal(learner.vectors["weights"], moving)
    learner.vectors["weights"].copy_(learner.vectors["average"])
    assert found is not None
    assert torch.equal(found, learner.validate(lambda: False))
    learner.keep_best()
    assert torch.equal(learner.vectors["best"], learner.vectors["average"])


def test_validation_rolls_out_over_every_window_once() -> None:
    task = make_task(dropout=0.5)
    found = begin(task).validate(lambda: False)
    task.network.eval()
    batch = task.batches.cut(task.validation)
    with torch.no_grad():
        errors = sum_errors(task.roll_out(batch), batch.target, batch.observed, task.mape_cut)
    counts = count_terms(batch.target, batch.observed, task.mape_cut)
    assert found is not None
    torch.testing.assert_close(found, torch.cat([errors, counts]), rtol=1e-6, atol=0)


def test_T2_validation_ends_when_it_is_told_to() -> None:
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
def test_all_parts_of_a_batch_are_shown_the_same_truth(step: int) -> None:
    whole, parts = (make_sampled_task(5.0, batch=5, seed=2) for _ in range(2))
    shown: list[tuple[bool, ...]] = []
    parts.network.register_forward_pre_hook(
        lambda _, given: shown.append(tuple(given[3].tolist()))
    )
    learner = begin(parts)
    learner._micro_batches.windows = 2
    found = learner.train_step(ORIGINS, step)
    assert shown == [draw_teacher_forcing(2, 5.0, 2, step)] * 3
    torch.testing.assert_close(found, begin(whole).train_step(ORIGINS, step), rtol=1e-6, atol=0)


def test_best_weights_are_given_to_the_network() -> None:
    task = make_task()
    learner = begin(task)
    learner.train_step(ORIGINS, 0)
    learner.keep_best()
    expected = {name: p.detach().clone() for name, p in task.network.named_parameters()}
    learner.train_step(ORIGINS, 1)
    weights = learner.finish()
    for name, parameter in task.network.named_parameters():
        assert torch.equal(parameter, expected[name])
        np.testing.assert_array_equal(weights[name], expected[name].numpy())


def test_C4_arrays_of_another_network_are_refused() -> None:
    learner = Trainer(make_task(), ALONE, print)
    arrays = {name: vector.numpy().copy() for name, vector in learner.vectors.items()}
    learner.begin(arrays, 3)
    for wrong in ({**arrays, "best": arrays["best"][1:]}, {"weights": arrays["weights"]}):
        with pytest.raises(ArtifactError, match="a checkpoint of another network"):
            learner.begin(wrong, 3)


# ---------------------------------------------------------------------------- out of memory


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("room", [1, 2, 4])
def test_T5_a_batch_done_in_parts_gives_the_same_step(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts, said = make_task(batch=5), make_task(batch=5), list[str]()
    one, two = begin(whole), begin(parts, said)
    expected = [one.train_step(ORIGINS, step) for step in range(3)]
    monkeypatch.setattr(TrainingTask, "teacher_forced", limited(TrainingTask.teacher_forced, room))
    found = [two.train_step(ORIGINS, step) for step in range(3)]
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=1e-6, atol=0)
    torch.testing.assert_close(two.vectors["weights"], one.vectors["weights"])
    assert len(said) == 1


def limited(method: Any, room: int) -> Any:
    """Return the method of a task for a device with room for so many windows."""

    def run(task: TrainingTask, batch: Batch, *shown: torch.Tensor | None) -> torch.Tensor:
        if batch.target.shape[1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        forecast: torch.Tensor = method(task, batch, *shown)
        return forecast

    return run


def test_T5_memory_that_runs_out_on_the_way_back_leaves_no_half_gradient(
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
    found = parts.train_step(ORIGINS, 0)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


@pytest.mark.usefixtures("_unchecked")
def test_T5_validation_in_parts_gives_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = begin(make_task()).validate(lambda: False)
    monkeypatch.setattr(TrainingTask, "roll_out", limited(TrainingTask.roll_out, 3))
    found = begin(make_task()).validate(lambda: False)
    assert expected is not None
    assert found is not None
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


# ------------------------------------------------------------------------------- not finite


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("place", ["input", "weights", "gradient"])
def test_T4_a_step_that_is_not_finite_moves_nothing_and_its_tensor_is_named(
    place: str, wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_task(ema=0.9)
    learner = begin(task)
    learner.train_step(ORIGINS, 0)
    with monkeypatch.context() as patch:
        expected = inject(place, wrong, task, learner, patch)
        before = {name: vector.clone() for name, vector in learner.vectors.items()}
        loss, norm, *_ = learner.train_step(ORIGINS, 1).tolist()
        assert not np.isfinite(loss + norm)
        assert learner.find_non_finite(ORIGINS, 1) == expected
    learner.train_step(ORIGINS, 2)  # a GPU may be ahead: what comes after moves nothing either
    for name in ("weights", "first_moment", "second_moment"):
        torch.testing.assert_close(
            learner.vectors[name], before[name], rtol=0, atol=0, equal_nan=True
        )


def inject(
    place: str, wrong: float, task: TrainingTask, learner: Trainer, patch: pytest.MonkeyPatch
) -> str:
    """Put a wrong number somewhere, and return how it should be named."""
    if place == "input":
        gather = task.batches.gather

        def spoil(places: torch.Tensor) -> Batch:
            batch = gather(places)
            batch.auxiliary[0, 0, 0] = wrong
            return batch

        patch.setattr(task.batches, "gather", spoil)
        return "the input auxiliary"
    if place == "weights":
        learner.weights.slices["output.bias"].view(learner.weights.vector)[2] = wrong
        return "the weights output.bias"
    handle = task.network.output.bias.register_hook(lambda grad: grad * wrong)
    patch.setattr(task.network, "unused", handle, raising=False)
    return "the gradient of output.bias"


# ------------------------------------------------------------------------------- quantiles


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("changes", [{}, {"ema": 0.9}, {"precision": "bf16"}])
def test_the_forecast_learns_as_it_would_without_quantiles(changes: dict[str, Any]) -> None:
    plain, beside = (
        begin(make_task(dropout=0.3, clip=0.5, levels=levels, **changes))
        for levels in ((), (0.1, 0.5, 0.9))
    )
    for step in range(7):
        rows = [learner.train_step(ORIGINS, step) for learner in (plain, beside)]
        assert torch.equal(rows[0][2:], rows[1][2:])  # errors and counts
    for name, vector in plain.vectors.items():
        assert torch.equal(vector, beside.weights.parts(beside.vectors[name])[0]), name
    found = [learner.validate(lambda: False) for learner in (plain, beside)]
    assert found[0] is not None
    assert torch.equal(*found)


@pytest.mark.usefixtures("_unchecked")
def test_the_head_moves_by_the_gradient_of_its_own_loss_clipped_by_itself() -> None:
    task = make_task(dtype=torch.float64, clip=1e-3, levels=(0.1, 0.9))
    twin = replace(task, network=copy.deepcopy(task.network))
    learner = begin(task)
    _, norm, *_ = learner.train_step(ORIGINS, 0).tolist()
    batch = twin.batches.cut(ORIGINS)
    quantiles = twin.teacher_forced(batch)[1]
    levels = torch.tensor([0.1, 0.9])
    count = batch.observed.sum()
    loss = sum_pinball(quantiles, batch.next_values, batch.observed, levels) / (2 * count)
    loss.backward()
    head = {n: p.grad for n, p in twin.network.named_parameters() if n.startswith("quantiles.")}
    size = torch.cat([grad.flatten() for grad in head.values() if grad is not None]).norm()
    assert 1e-3 < size < norm  # of the two norms, the larger is told
    for name, grad in head.items():
        if name in learner.weights.slices:
            found = learner.weights.slices[name].view(learner.weights.gradient)
            torch.testing.assert_close(found, grad * 1e-3 / size)


def test_a_head_that_fails_stops_the_step_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(levels=(0.5,))
    learner = begin(task)
    before = learner.weights.vector.clone()
    head = task.network.quantiles
    hook = head.outer.bias.register_hook(lambda grad: grad * np.nan)
    monkeypatch.setattr(task.network, "unused", hook, raising=False)
    assert np.isnan(learner.train_step(ORIGINS, 0)[1].item())
    assert torch.equal(learner.weights.vector, before)
    assert learner.find_non_finite(ORIGINS, 0) == "the gradient of quantiles.outer.bias"


@pytest.mark.usefixtures("_unchecked")
def test_quantiles_of_a_batch_done_in_parts_learn_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = (begin(make_task(levels=(0.1, 0.9))) for _ in range(2))
    one.train_step(ORIGINS, 0)
    monkeypatch.setattr(two._micro_batches, "windows", 2)
    two.train_step(ORIGINS, 0)
    torch.testing.assert_close(two.vectors["first_moment"], one.vectors["first_moment"])


# -------------------------------------------------------------------------- other precision


@pytest.mark.usefixtures("_unchecked")
def test_bf16_learns_about_what_float32_learns() -> None:
    losses = {}
    for precision in ("float32", "bf16"):
        learner = begin(make_task(precision=precision, epochs=1))
        losses[precision] = [learner.train_step(ORIGINS, step)[0].item() for step in range(12)]
    assert losses["bf16"] == pytest.approx(losses["float32"], rel=0.05)
    assert losses["bf16"] != losses["float32"]
    assert losses["bf16"][-1] < 0.8 * losses["bf16"][0]
