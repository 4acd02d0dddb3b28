"""Learning curves: how loss and errors fell from epoch to epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecaster.report.figures import BUSY, FAINT, INK, MISSING, new_figure, to_png


def draw_curves(epochs: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a PNG: the loss of Eq. 7 on training and validation, and RMSE and MAPE on the latter.

    Args:
        epochs: one record per epoch, as a run remembers them.
    """
    figure = new_figure(12.0, 3.8)
    loss, rmse, mape = figure.subplots(1, 3)
    best = min(epochs, key=lambda record: record["validation_loss"])
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


def _draw(
    axes: Any, epochs: Sequence[Mapping[str, Any]], name: str, colour: str, label: str = ""
) -> None:
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
