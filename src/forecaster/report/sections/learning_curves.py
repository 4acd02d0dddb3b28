"""The section on training: learning curves of the networks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forecaster.artifact import FOREIGN
from forecaster.errors import ArtifactError, count_of
from forecaster.evaluation.comparison import ModelResult
from forecaster.evaluation.model_specs import is_network
from forecaster.report.data import ReportData
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
from forecaster.report.sections.section import Picture, Section

COLUMNS = 2  # of panels in a row
LOG_RATIO = 20  # of the largest to the smallest loss; above it the axis is logarithmic

Epochs = Sequence[Mapping[str, Any]]  # one record each, as stored in a run


def draw_training(epochs: Epochs) -> bytes:
    """Draw a training as PNG: training and validation loss (Eq. 7), RMSE and MAPE of validation.

    Args:
        epochs: one record per epoch, as stored in a run.
    """
    figure = new_figure(12.0, 3.8)
    loss, rmse, mape = figure.subplots(1, 3)
    best = best_epoch(epochs)
    _draw(loss, epochs, "loss", FAINT, "training (teacher forcing)")
    _draw(loss, epochs, "validation_loss", BUSY, "validation (free running)")
    loss.plot(best["epoch"], best["validation_loss"], "o", color=MISSING, label="selected epoch")
    loss.legend(frameon=False, fontsize=8, labelcolor=INK)
    loss.set_title("loss: η·RMSE² + MAPE", color=INK, fontsize=10, loc="left")
    _draw(rmse, epochs, "rmse", BUSY)
    rmse.set_title("validation RMSE", color=INK, fontsize=10, loc="left")
    _draw(mape, epochs, "mape", BUSY)
    terms = "" if best["validation_terms"] else " (no terms)"
    mape.set_title(f"validation MAPE{terms}", color=INK, fontsize=10, loc="left")
    mape.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    return to_png(figure)


def best_epoch(epochs: Epochs) -> Mapping[str, Any]:
    """Return the first epoch with the lowest validation loss: the selected one."""
    return min(epochs, key=lambda record: record["validation_loss"])


def draw_learning_curves(networks: Mapping[str, Sequence[Epochs]]) -> Any:
    """Draw the losses of every training, a panel for each network."""
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
    """Draw training and validation loss of one training, and the selected epoch."""
    numbers = [record["epoch"] for record in epochs]
    best = best_epoch(epochs)
    training, validation = (
        [record[name] for record in epochs] for name in ("loss", "validation_loss")
    )
    axes.plot(numbers, training, color=FAINT, linewidth=1.2, label="training loss")
    axes.plot(numbers, validation, color=BLUE, linewidth=1.4, label="validation loss")
    axes.plot(best["epoch"], best["validation_loss"], "o", color=MISSING, markersize=4,
              label="selected epoch")  # fmt: skip
    losses = [loss for loss in (*training, *validation) if loss is not None]
    if min(losses) > 0 and max(losses) > LOG_RATIO * min(losses):
        axes.set_yscale("log", subs=(2, 5))
        for set_format in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            set_format("{x:g}")


def _draw(axes: Any, epochs: Epochs, name: str, colour: str, label: str = "") -> None:
    """Draw one metric of every epoch that has it."""
    points = [(record["epoch"], record[name]) for record in epochs if record[name] is not None]
    axes.plot(
        *zip(*points, strict=True) if points else ((), ()), color=colour, marker=".", label=label
    )
    axes.set_xlabel("epoch", color=INK, fontsize=8)
    axes.set_xlim(0.5, len(epochs) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color=FAINT, alpha=0.25)
    axes.tick_params(colors=INK, labelsize=8)
    for side in axes.spines.values():
        side.set_color(FAINT)


Trainings = Mapping[str, Mapping[int, Mapping[str, Any]]]  # by network and seed


def read_trainings(data: ReportData) -> Trainings:
    """Return the epochs of every training of a network, and why it stopped.

    The networks of an ensemble are named after it.
    """
    trainings: dict[str, dict[int, Mapping[str, Any]]] = {}
    try:
        for row in data.comparison.unchanged:
            for seed, manifest in data.manifests(row).items() if _is_trained(row) else ():
                learned = manifest.about["learned"]
                for part in learned.get("members", [learned]):
                    if "training" in part or is_network(row.estimator):
                        name = f"{row.name}: {part['name']}" if "name" in part else row.name
                        trainings.setdefault(name, {})[seed] = dict(part["training"])
        return trainings
    except FOREIGN as error:
        message = f"{data.folder}: a network's run has no epochs ({error})"
        raise ArtifactError(f"{message}; run `forecaster evaluate` again") from error


def _is_trained(row: ModelResult) -> bool:
    return is_network(row.estimator) or row.members is not None


def training_section(data: ReportData) -> Section:
    """Return the learning curves of all networks."""
    trainings = read_trainings(data)
    text = "The loss is η·RMSE² + MAPE. The epoch with the lowest validation loss is selected."
    facts = {"End of each training": describe_trainings(trainings)}
    pictures = list(learning_pictures(trainings))
    summary = pictures[0].text if pictures else ""
    return Section("training", "Training", text, pictures, facts, summary=summary)


def learning_pictures(trainings: Trainings) -> Iterator[Picture]:
    """Yield the learning curves, if there is a network."""
    if not trainings:
        return
    epochs = {name: [t["epochs"] for t in several.values()] for name, several in trainings.items()}
    unfinished = [name for name, several in epochs.items() if any(map(_still_falls, several))]
    text = "Every network had its lowest validation loss before the last epoch."
    if unfinished:
        share = f"{len(unfinished)} of {count_of(len(epochs), 'network')}"
        text = f"{share} had the lowest validation loss in the last epoch: more epochs may help."
    alt = f"Line chart of training and validation loss by epoch of {'; '.join(epochs)}"
    yield Picture("13-learning", "Learning curves", text, alt, draw_learning_curves(epochs))


def describe_trainings(trainings: Trainings) -> dict[str, str]:
    """Return the selected epoch and the reason for stopping of each training, by name."""
    return {
        f"{name}, seed {seed}": _describe_end(training["epochs"], str(training["why"]))
        for name, several in trainings.items()
        for seed, training in several.items()
    }


def _describe_end(epochs: Sequence[Mapping[str, Any]], why: str) -> str:
    best = best_epoch(epochs)
    loss = number(best["validation_loss"])
    return f"epoch {best['epoch']} of {len(epochs)} selected, validation loss {loss}; {why}"


def _still_falls(epochs: Epochs) -> bool:
    """Whether the last epoch has the lowest validation loss."""
    return bool(best_epoch(epochs)["epoch"] == epochs[-1]["epoch"])
