from typing import Any

from forecaster.report.learning_pictures import (
    describe_trainings,
    learning_pictures,
    read_trainings,
)
from forecaster.report.material import Material


def training(*losses: float) -> dict[str, Any]:
    epochs = [
        {"epoch": n, "loss": 2 * loss, "validation_loss": loss}
        for n, loss in enumerate(losses, start=1)
    ]
    return {"epochs": epochs, "why": "all epochs done"}


def test_every_training_of_every_network_is_read(material: Material) -> None:
    found = read_trainings(material)
    assert {name: list(several) for name, several in found.items()} == {
        "Forecaster": [0, 1],
        "Forecaster, graph own": [0, 1],
    }
    assert len(found["Forecaster"][1]["epochs"]) == 2


def test_networks_that_might_go_on_are_counted() -> None:
    (picture,) = learning_pictures(
        {"a": {0: training(3.0, 2.0, 1.0)}, "b": {0: training(3.0, 1.0, 2.0)}}
    )
    assert picture.text == "1 of 2 networks did best in the last epoch: more epochs may help."
    (picture,) = learning_pictures({"b": {0: training(3.0, 1.0, 2.0)}})
    assert picture.text == "Every network was at its best before its last epoch."
    assert list(learning_pictures({})) == []


def test_the_end_of_each_training_is_told() -> None:
    assert describe_trainings({"b": {7: training(3.0, 1.0, 2.0)}}) == {
        "b, seed 7": "epoch 2 of 3 kept, validation loss 1; all epochs done"
    }
