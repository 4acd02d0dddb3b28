import json
from typing import Any

import pytest

from forecaster.config import TrainingConfig
from forecaster.training.progress import Progress, loss_of

CONFIG = TrainingConfig(epochs=7, patience=3)


def after(losses: list[float], **changes: Any) -> str | None:
    """Return why training stops after epochs with these validation losses."""
    progress = Progress()
    for loss in losses:
        close(progress, loss)
    return progress.why_stop(CONFIG.model_copy(update=changes))


def close(progress: Progress, validation: float, training: float = 1.0) -> None:
    """Take a step and close its epoch with the given losses, at η = 1."""
    progress.add([training, 0.0, 1.0, 1.0])
    progress.close([validation, 0.0, 1.0, 1.0], 1e-3, 1.0)


def test_the_loss_of_sums_is_eq_7() -> None:
    assert loss_of([50.0, 3.0, 10.0, 12.0], 8e-3) == pytest.approx(8e-3 * 5 + 0.25)


def test_an_epoch_is_recorded_by_its_sums() -> None:
    progress = Progress(seconds=5.0)
    for sums in ([4.0, 0.5, 2.0, 1.0], [5.0, 0.0, 1.0, 0.0]):
        progress.add(sums)
    record = progress.close([18.0, 0.6, 2.0, 3.0], 1e-3, 0.1)
    assert (record.epoch, record.step, record.seconds) == (1, 2, 5.0)
    assert record.loss == pytest.approx(0.1 * 9 / 3 + 0.5 / 1)
    assert (record.terms, record.empty_batches) == (1, 1)
    assert (record.rmse, record.mape) == pytest.approx((3.0, 0.2))
    assert record.validation_loss == pytest.approx(0.1 * 9 + 0.2)
    assert (progress.sums, progress.empty_batches, progress.seconds) == ([0.0] * 4, 0, 0.0)


def test_T3_validation_without_terms_has_no_mape() -> None:
    record = Progress().close([18.0, 0.0, 2.0, 0.0], 1e-3, 0.1)
    assert (record.mape, record.validation_terms) == (None, 0)


def test_progress_survives_json_to_the_last_bit() -> None:
    progress = Progress()
    for k in range(5):
        close(progress, 1 / (k + 3), 1 / 7)
    progress.add([0.1, 1e-300, 3.0, 0.0])
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_training_ends_after_all_epochs() -> None:
    assert after([7.0, 6.0, 5.0, 4.0, 3.0, 2.0]) is None
    assert after([7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]) == "all 7 epochs done"


def test_T12_a_stall_ends_it_after_the_patience() -> None:
    assert after([5.0, 4.0, 4.0, 4.5]) is None  # as good is not better
    stalled = after([5.0, 4.0, 4.0, 4.5, 4.1])
    assert stalled == "no better validation loss for 3 epochs after epoch 2"


def test_T12_a_late_gain_begins_the_patience_anew() -> None:
    assert after([5.0, 6.0, 6.0, 4.0, 6.0, 6.0]) is None


def test_T12_the_best_epoch_is_the_first_of_equals() -> None:
    progress = Progress()
    for loss in (3.0, 2.0, 5.0, 2.0):
        close(progress, loss)
    assert progress.best is progress.records[1]


def test_T12_a_loss_spike_is_named() -> None:
    progress = Progress()
    for training, expected in ((1.0, ""), (1.9, ""), (2.1, "loss spike: 2.1 in epoch 3, was 1")):
        close(progress, 1.0, training)
        assert progress.spike == expected
