"""Networks that take turns in two threads: each must end as it would alone."""

import signal
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from forecaster.errors import ArtifactError, RunError, StoppedError
from forecaster.training.checkpoint import SLOTS
from forecaster.training.loop import train
from forecaster.training.progress import ProgressUpdate, TrainingResult
from forecaster.training.together import Training, count_workers, train_together
from tests.training.town import make_task

SEEDS = (3, 4, 5)
CHANGES = {"dropout": 0.2, "ema": 0.9, "checkpoint_steps": 3, "epochs": 2}


@pytest.fixture(autouse=True)
def _two_threads(_one_thread: None) -> None:
    """Let two networks train at a time; `_one_thread` restores the number afterwards."""
    torch.set_num_threads(2)


def make_trainings(folder: Path | None = None) -> list[Training]:
    return [
        Training(
            f"seed {seed}",
            make_task(seed=seed, **CHANGES),
            None if folder is None else folder / str(seed),
        )
        for seed in SEEDS
    ]


def assert_same(results: list[TrainingResult], others: list[TrainingResult]) -> None:
    for result, other in zip(results, others, strict=True):
        assert [replace(r, seconds=0.0) for r in result.records] == [
            replace(r, seconds=0.0) for r in other.records
        ]
        for name, array in result.weights.items():
            np.testing.assert_array_equal(array, other.weights[name])


def train_alone() -> list[TrainingResult]:
    torch.set_num_threads(1)  # sums of several threads may differ in the last bits
    results = [train(make_task(seed=seed, **CHANGES)) for seed in SEEDS]
    torch.set_num_threads(2)
    return results


def test_networks_trained_together_have_the_bits_of_each_alone() -> None:
    seen = set[str]()

    def watch(_: ProgressUpdate) -> None:
        seen.add(threading.current_thread().name)
        assert torch.get_num_threads() == 1

    assert count_workers(make_trainings()) == 2
    together = train_together(make_trainings(), watch)
    assert len(seen) == 2
    assert torch.get_num_threads() == 2
    assert_same(together, train_alone())
    weights = [next(iter(result.weights.values())) for result in together]
    assert not np.array_equal(weights[0], weights[1])


def test_T2_an_interruption_saves_every_network_and_the_same_call_goes_on(tmp_path: Path) -> None:
    def interrupt(update: ProgressUpdate) -> None:
        if update.step == 17:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError, match="the same command resumes"):
        train_together(make_trainings(tmp_path), interrupt)
    for seed in SEEDS:
        assert any((tmp_path / str(seed) / slot).exists() for slot in SLOTS)
    messages: list[str] = []

    def listen(update: ProgressUpdate) -> None:
        messages.extend([update.message] if update.message else [])

    assert_same(train_together(make_trainings(tmp_path), listen), train_alone())
    assert {message.split(": ")[0] for message in messages} == {f"seed {seed}" for seed in SEEDS}
    assert all("resuming from step" in message for message in messages)


def test_the_progress_of_all_networks_is_shown_as_one() -> None:
    trainings, updates = make_trainings(), list[ProgressUpdate]()
    train_together(trainings, updates.append)
    steps = [update.step for update in updates]
    assert steps == sorted(steps)
    assert steps[-1] == sum(training.task.steps for training in trainings)
    assert {update.steps for update in updates} == {steps[-1]}
    assert updates[-1].epoch == updates[-1].epochs
    assert updates[-1].seconds_left == 0
    assert updates[0].rmse is None
    assert updates[-1].rmse is not None


def test_a_network_that_fails_ends_the_training_of_all(tmp_path: Path) -> None:
    trainings = make_trainings(tmp_path)
    trainings[1].task.network.register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train_together(trainings)
    assert torch.get_num_threads() == 2
    assert_same(train_together(make_trainings(tmp_path)), train_alone())  # nothing was harmed


def test_two_trainings_of_one_folder_are_refused(tmp_path: Path) -> None:
    trainings = [replace(training, folder=tmp_path) for training in make_trainings()]
    with pytest.raises((ArtifactError, RunError)):
        train_together(trainings)


def test_with_one_thread_and_under_torchrun_networks_are_trained_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainings = make_trainings()
    torch.set_num_threads(1)
    assert count_workers(trainings) == 1
    torch.set_num_threads(2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert count_workers(trainings) == 1
    assert count_workers(trainings[:1]) == 1
