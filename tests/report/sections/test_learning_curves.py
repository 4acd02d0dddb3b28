from typing import Any

import pytest

from forecaster.report.data import ReportData
from forecaster.report.draw.canvas import to_svg
from forecaster.report.sections.learning_curves import (
    best_epoch,
    describe_trainings,
    draw_learning_curves,
    draw_training,
    learning_pictures,
    read_trainings,
)


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
    picture = draw_training(epochs)
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_the_same_epochs_give_the_same_picture() -> None:
    assert draw_training([epoch(1), epoch(2)]) == draw_training([epoch(1), epoch(2)])
    assert draw_training([epoch(1), epoch(2)]) != draw_training([epoch(1), epoch(2, rmse=3.0)])


def test_the_first_epoch_with_the_lowest_validation_loss_is_kept() -> None:
    losses = [5.0, 3.0, 4.0, 3.0]
    epochs = [epoch(n, validation_loss=loss) for n, loss in enumerate(losses, start=1)]
    assert best_epoch(epochs)["epoch"] == 2


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_network_has_a_panel(count: int) -> None:
    trainings = [[epoch(n) for n in range(1, 8)], [epoch(1, loss=1e6)]]
    drawing = to_svg(draw_learning_curves({f"$net$ {n}": trainings for n in range(count)}), "x")
    for n in range(count):
        assert f"$net$ {n}".encode() in drawing
    assert b"validation loss" in drawing


def training(*losses: float) -> dict[str, Any]:
    epochs = [
        {"epoch": n, "loss": 2 * loss, "validation_loss": loss}
        for n, loss in enumerate(losses, start=1)
    ]
    return {"epochs": epochs, "why": "all epochs done"}


def test_every_training_of_every_network_is_read(data: ReportData) -> None:
    found = read_trainings(data)
    assert {name: list(several) for name, several in found.items()} == {
        "Forecaster": [0, 1],
        "Forecaster, graph own": [0, 1],
    }
    assert len(found["Forecaster"][1]["epochs"]) == 2


def test_networks_that_might_go_on_are_counted() -> None:
    (picture,) = learning_pictures(
        {"a": {0: training(3.0, 2.0, 1.0)}, "b": {0: training(3.0, 1.0, 2.0)}}
    )
    assert picture.text.startswith("1 of 2 networks had the lowest validation loss in the last ")
    (picture,) = learning_pictures({"b": {0: training(3.0, 1.0, 2.0)}})
    assert picture.text == "Every network had its lowest validation loss before the last epoch."
    assert list(learning_pictures({})) == []


def test_the_end_of_each_training_is_told() -> None:
    assert describe_trainings({"b": {7: training(3.0, 1.0, 2.0)}}) == {
        "b, seed 7": "epoch 2 of 3 selected, validation loss 1; all epochs done"
    }
