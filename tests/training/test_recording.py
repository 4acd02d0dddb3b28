from collections.abc import Callable

import numpy as np
import pytest
import torch

from forecaster.training import learner as learner_module
from forecaster.training.learner import Learner
from forecaster.training.loop import train
from forecaster.training.progress import Outcome
from forecaster.training.recording import Recorder
from forecaster.training.task import Task
from tests.training.town import make_sampled_task, make_task


def test_a_cpu_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "Recorder", None)  # not even made
    assert train(make_task(epochs=1)).records


def plain(outcome: Outcome) -> list[tuple[float, float]]:
    return [(record.loss, record.validation_loss) for record in outcome.records]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "make",
    [
        lambda: make_task(device="cuda"),
        lambda: make_task(device="cuda", dropout=0.2),
        lambda: make_task(device="cuda", precision="bf16"),
        lambda: make_task(device="cuda", ema=0.9),
        lambda: make_sampled_task(5.0, device="cuda"),
    ],
    ids=["plain", "dropout", "bf16", "averaged", "scheduled sampling"],
)
def test_replayed_steps_learn_what_launched_ones_do(
    make: Callable[[], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    recorded = train(make(), watch=lambda moment: said.append(moment.message or ""))
    assert not any("CUDA graph" in message for message in said)
    monkeypatch.setattr(Learner, "_records", lambda *_: False)
    launched = train(make())
    np.testing.assert_allclose(plain(recorded), plain(launched), rtol=1e-5)
    for name, array in recorded.weights.items():
        np.testing.assert_allclose(array, launched.weights[name], rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
def test_work_that_cannot_be_recorded_is_done_piece_by_piece_and_said_once() -> None:
    said: list[str] = []
    recorder = Recorder(said.append)
    places = torch.arange(6, device="cuda").view(2, 3)

    def work(given: torch.Tensor) -> torch.Tensor:
        return given.double().sum(dim=1) + given.sum().item()  # waits for the host

    for _ in range(2):
        assert recorder.play("odd", work, places, lambda: None).tolist() == [18.0, 27.0]
    assert not recorder.usable
    assert len(said) == 1
    assert said[0].startswith("no CUDA graph (")


@pytest.mark.gpu
def test_recordings_are_told_apart_by_kind_and_size() -> None:
    recorder = Recorder(lambda _: None)
    for rows in (2, 3, 2):
        places = torch.arange(rows * 2, device="cuda").view(rows, 2)
        total = recorder.play("sum", lambda p: p.double().sum(dim=1), places, lambda: None)
        assert total.tolist() == places.double().sum(dim=1).tolist()
        double = recorder.play("twice", lambda p: 2 * p.double().sum(dim=1), places, lambda: None)
        assert double.tolist() == (2 * total).tolist()
