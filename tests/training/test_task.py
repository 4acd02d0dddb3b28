from dataclasses import replace

import numpy as np
import pytest
import torch

from forecaster.errors import DataError
from forecaster.models.layers.neurons import State
from forecaster.training.loss import count_terms, sum_deviance, sum_errors
from forecaster.training.schedule import draw_teacher_forcing
from forecaster.training.task import TrainingTask
from tests.training.town import make_mixer_task, make_panel, make_sampled_task, make_task

ORIGINS = np.array([71, 67, 97])


@pytest.fixture
def task() -> TrainingTask:
    return make_task()


def test_a_task_names_no_test_windows(task: TrainingTask) -> None:
    assert "test" not in vars(task)
    assert not set(task.train) & set(task.validation)


def test_the_last_step_of_an_epoch_has_the_windows_that_are_left(task: TrainingTask) -> None:
    assert (task.epoch_steps, task.steps) == (5, 20)  # 37 windows in batches of 8
    assert replace(task, train=np.arange(60, 60 + 32)).epoch_steps == 4


def test_forecasts_are_in_the_values_units(task: TrainingTask) -> None:
    batch = task.batches.cut(ORIGINS)
    history = State(batch.signal, batch.auxiliary)
    ahead = State(batch.next_local, batch.next_auxiliary)
    scaled = task.network.roll_out(history, ahead)
    expected = task.scale.undo(scaled.detach().permute(1, 2, 0).numpy())
    actual = task.roll_out(batch).forecast.detach().permute(1, 2, 0).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("show", ["teacher_forced", "roll_out"])
def test_both_outputs_are_in_the_values_units(show: str) -> None:
    task = make_task(two_outputs=True, levels=(0.1, 0.9))
    batch = task.batches.cut(ORIGINS)
    history = State(batch.signal, batch.auxiliary)
    truth = batch.next_values[..., :-1] if show == "teacher_forced" else None
    scaled = task.network(history, State(batch.next_local, batch.next_auxiliary), truth)
    outputs = getattr(task, show)(batch)
    for name in ("forecast", "relative"):
        expected = task.scale.undo(getattr(scaled, name).detach().permute(1, 2, 0).numpy())
        actual = getattr(outputs, name).detach().permute(1, 2, 0).numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-5, err_msg=name)
    assert not torch.allclose(outputs.forecast, outputs.relative)


@pytest.mark.parametrize("show", ["teacher_forced", "roll_out"])
def test_without_an_output_for_it_relative_error_is_of_the_forecast(
    task: TrainingTask, show: str
) -> None:
    outputs = getattr(task, show)(task.batches.cut(ORIGINS))
    assert outputs.relative is outputs.forecast


def test_teaching_shows_the_true_values_and_rolling_out_does_not(task: TrainingTask) -> None:
    batch = task.batches.cut(ORIGINS)
    other = replace(batch, next_values=batch.next_values + 1)
    taught, changed = task.teacher_forced(batch).forecast, task.teacher_forced(other).forecast
    torch.testing.assert_close(taught[..., 0], changed[..., 0])  # its past is the history
    assert not torch.allclose(taught[..., 1:], changed[..., 1:])
    assert torch.equal(task.roll_out(batch).forecast, task.roll_out(other).forecast)


def test_teaching_with_its_own_forecasts_is_rolling_out(task: TrainingTask) -> None:
    batch = task.batches.cut(ORIGINS)
    forecasts = task.scale.apply(task.roll_out(batch).forecast.detach().permute(1, 2, 0).numpy())
    shown = replace(batch, next_values=torch.from_numpy(forecasts).permute(2, 0, 1))
    torch.testing.assert_close(task.teacher_forced(shown), task.roll_out(batch))


def test_the_true_value_of_the_last_step_is_never_shown(task: TrainingTask) -> None:
    batch = task.batches.cut(ORIGINS)
    last = torch.zeros_like(batch.next_values)
    last[..., -1] = 1e6
    assert torch.equal(
        task.teacher_forced(batch).forecast,
        task.teacher_forced(replace(batch, next_values=batch.next_values + last)).forecast,
    )


def test_with_scheduled_sampling_the_step_decides_which_truth_is_shown() -> None:
    task, actual = make_sampled_task(5.0, seed=7), set()
    batch = task.batches.cut(ORIGINS)
    history = State(batch.signal, batch.auxiliary)
    ahead = State(batch.next_local, batch.next_auxiliary)
    for step in range(23):
        shown = draw_teacher_forcing(2, 5.0, 7, step)
        truth = batch.next_values[..., :2]
        scaled = task.network(history, ahead, truth, torch.tensor(shown)).forecast
        expected = task.scale.undo(scaled.detach().permute(1, 2, 0).numpy())
        taught = task.teacher_forced(batch, task.teacher_forcing(step)).forecast
        taught = taught.detach().permute(1, 2, 0).numpy()
        np.testing.assert_allclose(taught, expected, rtol=1e-6)
        actual.add(shown)
    assert len(actual) == 4  # every choice of two steps came up


def test_a_network_in_double_precision_forecasts_in_it() -> None:
    task = make_task(dtype=torch.float64)
    assert task.teacher_forced(task.batches.cut(ORIGINS)).forecast.dtype == torch.float64


def test_a_network_in_bf16_forecasts_in_float32() -> None:
    task = make_task(dtype=torch.bfloat16)
    assert task.teacher_forced(task.batches.cut(ORIGINS)).forecast.dtype == torch.float32


@pytest.mark.parametrize("name", ["train", "validation"])
def test_a_task_without_windows_is_refused(task: TrainingTask, name: str) -> None:
    with pytest.raises(DataError, match=f"no window to {name} on"):
        replace(task, **{name: np.arange(0)})


def test_quantiles_are_scaled_and_leave_the_forecast_unchanged() -> None:
    task, plain = (make_task(levels=levels, two_outputs=True) for levels in ((0.1, 0.5, 0.9), ()))
    batch = task.batches.cut(ORIGINS)
    forecast, quantiles, relative = task.teacher_forced(batch)
    assert torch.equal(forecast, plain.teacher_forced(batch).forecast)
    assert torch.equal(relative, plain.teacher_forced(batch).relative)
    assert quantiles.shape == (5, 3, len(ORIGINS), 3)
    assert quantiles.abs().mean() < 5  # in deviations; values are about 23
    assert task.levels.tolist() == pytest.approx([0.1, 0.5, 0.9])
    assert plain.teacher_forced(batch).quantiles.shape == (5, 0, len(ORIGINS), 3)


def test_a_balanced_loss_weighs_both_terms_alike_for_the_last_value() -> None:
    task = make_task(eta="balanced")
    batch = task.batches.cut(task.train)
    last = task.scale.undo(batch.signal[:, 0, :, -1].T.numpy()).T[..., None]  # [N, B, 1]
    target, observed = batch.target.numpy(), batch.observed.numpy()
    error = np.where(observed, last - target, 0)
    busy = observed & (target >= task.mape_cut)
    mape = (np.abs(error[busy]) / target[busy]).mean()
    assert task.eta == pytest.approx(mape / (np.square(error).sum() / observed.sum()), rel=1e-5)


def test_a_balanced_loss_of_counts_weighs_the_deviance_of_the_last_value() -> None:
    task = make_task(make_panel(7.0), eta="balanced")
    task.network.is_positive = True
    batch = task.batches.cut(task.train)
    last = task.scale.undo(batch.signal[:, 0, :, -1].T.numpy()).T[..., None]
    forecast = torch.from_numpy(last).expand_as(batch.target)
    assert (forecast < 0.5).any()  # some are zero
    sums = sum_errors(forecast, forecast, batch.target, batch.observed, task.mape_cut)
    deviance = sum_deviance(forecast.clamp(min=1e-3), batch.target, batch.observed)
    seen, counted = count_terms(batch.target, batch.observed, task.mape_cut)
    expected = (sums[1] / counted) / (deviance / seen)
    assert task.eta == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("positive", [False, True])
def test_a_number_for_eta_is_taken_whatever_the_mean_learns_from(positive: bool) -> None:
    task = make_task(eta=8e-3)
    task.network.is_positive = positive
    assert task.eta == 8e-3


@pytest.mark.parametrize("positive", [False, True])
def test_sums_are_of_the_means_term_relative_errors_and_squares(positive: bool) -> None:
    task = make_task(two_outputs=True)
    task.network.is_positive = positive
    batch = task.batches.cut(ORIGINS)
    outputs = task.roll_out(batch)
    target, observed = batch.target, batch.observed
    squares, shares = sum_errors(
        outputs.forecast, outputs.relative, target, observed, task.mape_cut
    )
    deviance = sum_deviance(outputs.forecast, target, observed)
    assert not torch.allclose(deviance, squares)
    expected = torch.stack([deviance if positive else squares, shares, squares])
    assert torch.equal(task.sum_errors(outputs, batch), expected)
    busy = observed & (target >= task.mape_cut)
    assert task.count_terms(batch).tolist() == [observed.sum(), busy.sum()]


def test_a_balanced_loss_does_not_depend_on_the_unit() -> None:
    small, large = (make_task(make_panel(level), eta="balanced") for level in (23.0, 2_300.0))
    ratio = small.eta / large.eta
    assert 100 < ratio < 100**2  # noise is Poisson's: relatively less of much


def test_without_a_target_over_the_cut_the_balance_is_of_squares_alone() -> None:
    assert replace(make_task(eta="balanced"), mape_cut=1e9).eta == 1.0


def test_all_validation_windows_are_scored_unless_there_are_many_more_locations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = make_mixer_task(2)
    assert task.scored.tolist() == task.validation.tolist()  # 13, fewer than the least
    monkeypatch.setattr("forecaster.training.task.LEAST_SCORED", 3)
    monkeypatch.setattr("forecaster.training.task.SCORED_SAMPLES", 1)
    assert task.scored.tolist() == [211, 213, 215, 217, 219, 221]  # 13 · 2 / 5, evenly
    assert (task.scored_at_once, make_mixer_task().scored_at_once) == (3, 8)


def test_a_balanced_eta_of_samples_is_near_that_of_all_locations() -> None:
    etas = [make_mixer_task(locations, eta="balanced").eta for locations in (None, 5, 3)]
    assert etas[1] == pytest.approx(etas[0], rel=1e-5)
    assert etas[2] == pytest.approx(etas[0], rel=0.3)
