"""Learning curves: how loss and errors fell from epoch to epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecaster.report.canvas import (
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
