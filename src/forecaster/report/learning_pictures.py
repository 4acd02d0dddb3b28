"""How the networks learned, as a picture with what to see in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forecaster.artifact import FOREIGN
from forecaster.errors import ArtifactError, count_of
from forecaster.evaluation.model_specs import is_network
from forecaster.report.curves import Epochs, best_epoch, draw_learning
from forecaster.report.material import Material
from forecaster.report.picture import Picture
from forecaster.report.words import number

Trainings = Mapping[str, Mapping[int, Mapping[str, Any]]]  # by network and seed


def read_trainings(material: Material) -> Trainings:
    """Return how every training of a network went: its epochs, and why it stopped."""
    try:
        return {
            row.name: {
                seed: dict(found.about["learned"]["training"])
                for seed, found in material.manifests(row).items()
            }
            for row in material.comparison.tested
            if is_network(row.estimator)
        }
    except FOREIGN as error:
        message = f"{material.folder}: a network without its epochs ({error})"
        raise ArtifactError(f"{message}; run `forecaster evaluate` again") from error


def learning_pictures(trainings: Trainings) -> Iterator[Picture]:
    """Yield the learning curves, if there is a network."""
    if not trainings:
        return
    epochs = {name: [one["epochs"] for one in t.values()] for name, t in trainings.items()}
    unfinished = [name for name, several in epochs.items() if any(map(_still_falls, several))]
    text = "Every network was at its best before its last epoch."
    if unfinished:
        some = f"{len(unfinished)} of {count_of(len(epochs), 'network')}"
        text = f"{some} did best in the last epoch: more epochs may help."
    kind = f"Training and validation loss over epochs of {'; '.join(epochs)}"
    yield Picture("13-learning", "Learning curves", text, kind, draw_learning(epochs))


def describe_trainings(trainings: Trainings) -> dict[str, str]:
    """Return how each training ended, by its name."""
    return {
        f"{name}, seed {seed}": _ending(training["epochs"], str(training["why"]))
        for name, several in trainings.items()
        for seed, training in several.items()
    }


def _ending(epochs: Sequence[Mapping[str, Any]], why: str) -> str:
    best = best_epoch(epochs)
    loss = number(best["validation_loss"])
    return f"epoch {best['epoch']} of {len(epochs)} kept, validation loss {loss}; {why}"


def _still_falls(epochs: Epochs) -> bool:
    """Tell whether the last epoch was the best one."""
    return bool(best_epoch(epochs)["epoch"] == epochs[-1]["epoch"])
