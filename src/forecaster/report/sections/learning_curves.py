"""Learning curves: how loss and errors fell from epoch to epoch."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forecaster.artifact import FOREIGN
from forecaster.errors import ArtifactError, count_of
from forecaster.evaluation.model_specs import is_network
from forecaster.report.data import Material
from forecaster.report.draw.canvas import (
    BLUE,
    BUSY,
    FAINT,
    INK,
    MISSING,
    TEXT,
    WIDTH,
    new_figure,
    style,
    to_png,
    write_legend,
)
from forecaster.report.formatting import number
from forecaster.report.sections.section import Picture

COLUMNS = 2  # of panels beside each other
FALL = 20  # from the largest loss to the smallest: more is seen on a scale of powers

Epochs = Sequence[Mapping[str, Any]]  # one record each, as a run remembers them


def draw_curves(epochs: Epochs) -> bytes:
    """Return a PNG: the loss of Eq. 7 on training and validation, and RMSE and MAPE on the latter.

    Args:
        epochs: one record per epoch, as a run remembers them.
    """
    figure = new_figure(12.0, 3.8)
    loss, rmse, mape = figure.subplots(1, 3)
    best = best_epoch(epochs)
    _draw(loss, epochs, "loss", FAINT, "training, teacher forced")
    _draw(loss, epochs, "validation_loss", BUSY, "validation, rolled out")
    loss.plot(best["epoch"], best["validation_loss"], "o", color=MISSING, label="kept")
    loss.legend(frameon=False, fontsize=8, labelcolor=INK)
    loss.set_title("loss: η·RMSE² + MAPE", color=INK, fontsize=10, loc="left")
    _draw(rmse, epochs, "rmse", BUSY)
    rmse.set_title("RMSE on validation", color=INK, fontsize=10, loc="left")
    _draw(mape, epochs, "mape", BUSY)
    terms = "" if best["validation_terms"] else ": no terms"
    mape.set_title(f"MAPE on validation{terms}", color=INK, fontsize=10, loc="left")
    mape.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    return to_png(figure)


def best_epoch(epochs: Epochs) -> Mapping[str, Any]:
    """Return the epoch that is kept: the first with the lowest validation loss."""
    return min(epochs, key=lambda record: record["validation_loss"])


def draw_learning(networks: Mapping[str, Sequence[Epochs]]) -> Any:
    """Return the losses of every training of some networks, a panel for each network."""
    columns = min(len(networks), COLUMNS)
    rows = -(-len(networks) // columns)
    figure = new_figure(WIDTH, 0.5 + 1.9 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, trainings) in zip(panels, networks.items(), strict=False):
        for epochs in trainings:
            _draw_losses(axes, epochs)
        axes.set_title(name, color=INK, fontsize=TEXT - 1, loc="left", parse_math=False)
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=4)
        style(axes)
    for axes in panels[len(networks) :]:
        axes.set_visible(False)
    figure.supxlabel("epoch", color=INK, fontsize=TEXT)
    write_legend(figure, panels[0].get_lines()[:3], columns=3)
    return figure


def _draw_losses(axes: Any, epochs: Epochs) -> None:
    """Draw one training: what was learned from, what was chosen on, and the epoch kept."""
    numbers = [record["epoch"] for record in epochs]
    best = best_epoch(epochs)
    learned, judged = ([record[name] for record in epochs] for name in ("loss", "validation_loss"))
    axes.plot(numbers, learned, color=FAINT, linewidth=1.2, label="training loss")
    axes.plot(numbers, judged, color=BLUE, linewidth=1.4, label="validation loss")
    axes.plot(best["epoch"], best["validation_loss"], "o", color=MISSING, markersize=4,
              label="kept")  # fmt: skip
    losses = [loss for loss in (*learned, *judged) if loss is not None]
    if min(losses) > 0 and max(losses) > FALL * min(losses):
        axes.set_yscale("log", subs=(2, 5))
        for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            which("{x:g}")


def _draw(axes: Any, epochs: Epochs, name: str, colour: str, label: str = "") -> None:
    """Draw one figure of every epoch that has it."""
    known = [(record["epoch"], record[name]) for record in epochs if record[name] is not None]
    axes.plot(
        *zip(*known, strict=True) if known else ((), ()), color=colour, marker=".", label=label
    )
    axes.set_xlabel("epoch", color=INK, fontsize=8)
    axes.set_xlim(0.5, len(epochs) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color=FAINT, alpha=0.25)
    axes.tick_params(colors=INK, labelsize=8)
    for side in axes.spines.values():
        side.set_color(FAINT)


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
