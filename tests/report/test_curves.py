from typing import Any

import pytest

from forecaster.report.curves import draw_curves


def epoch(number: int, **given: Any) -> dict[str, Any]:
    figures = {"loss": 3 / number, "validation_loss": 4 / number, "rmse": 30.0, "mape": 0.2}
    return {"epoch": number, "validation_terms": 7, **figures, **given}


@pytest.mark.parametrize(
    "epochs",
    [
        [epoch(1)],
        [epoch(n) for n in range(1, 14)],
        [epoch(1, mape=None, validation_terms=0), epoch(2, mape=None, validation_terms=0)],
        [epoch(1, mape=None, validation_terms=0), epoch(2)],
    ],
    ids=["one epoch", "many", "no terms", "terms from the second on"],
)
def test_any_training_can_be_drawn(epochs: list[dict[str, Any]]) -> None:
    picture = draw_curves(epochs)
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_the_same_epochs_give_the_same_picture() -> None:
    assert draw_curves([epoch(1), epoch(2)]) == draw_curves([epoch(1), epoch(2)])
    assert draw_curves([epoch(1), epoch(2)]) != draw_curves([epoch(1), epoch(2, rmse=3.0)])
