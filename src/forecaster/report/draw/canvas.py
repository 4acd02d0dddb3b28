"""Figures, their style and their files; drawn without a display and without global state."""

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from forecaster.errors import need_extra
from forecaster.report.draw.fonts import readable_texts, use_fitting_fonts

INK, FAINT = "#26323d", "#8a97a3"
MISSING, BUSY = "#d1495b", "#2e6f8e"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"  # safe for colour-blind readers
WIDTH, TEXT = 5.0, 10  # inches and points: two columns on a page, one on a phone
HEIGHT = 3.0  # inches of charts and maps, which stand side by side
PAPER_DPI = 200  # of files for print
GRID: dict[str, Any] = {"color": FAINT, "alpha": 0.3, "linewidth": 0.6}


def style(axes: Any, across: str = "", up: str = "") -> None:
    """Apply the common style to axes and label them."""
    axes.set_xlabel(across, color=INK, fontsize=TEXT)
    axes.set_ylabel(up, color=INK, fontsize=TEXT)
    axes.tick_params(which="both", colors=INK, labelsize=TEXT - 1, color=FAINT)
    axes.grid(axis="y", **GRID)
    axes.set_axisbelow(True)
    for name, side in axes.spines.items():
        side.set_color(FAINT)
        side.set_visible(name in ("left", "bottom"))


def style_rows(
    axes: Any, at: Float64[np.ndarray, " R"], names: Sequence[str], across: str
) -> None:
    """Apply the common style to axes of named rows, the first row on top."""
    style(axes, across)
    axes.set_yticks(at, names, parse_math=False)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", **GRID)


def date_axis(axes: Any) -> None:
    """Label a time axis with few short dates: of a year its months, of a day its hours."""
    dates = need_extra("matplotlib.dates", extra="report")
    locator = dates.AutoDateLocator(minticks=3, maxticks=7)
    axes.xaxis_date()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.xaxis.get_offset_text().set_color(INK)


def write_legend(
    figure: Any, handles: Sequence[Any], columns: int, where: str = "upper left"
) -> None:
    """Write a legend outside the axes."""
    figure.legend(handles=handles, loc=f"outside {where}", ncols=columns, frameon=False,
                  fontsize=TEXT - 1, labelcolor=INK)  # fmt: skip


def write_title(figure: Any, title: str, subtitle: str) -> None:
    """Write a title above a figure, and below it a line that says more, from its left edge."""
    figure.suptitle(
        f"{title}\n{subtitle}", x=0.01, ha="left", color=INK, fontsize=TEXT, parse_math=False
    )


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure; width and height are in inches."""
    need_extra("matplotlib", extra="report")
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an extra)
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def to_png(figure: Any, dpi: int = 120) -> bytes:
    """Return the figure as the bytes of a PNG file; letters without a font become codes."""
    use_fitting_fonts(figure)
    with readable_texts(figure):
        return _save(figure, "png", {"Software": None}, dpi)


def to_svg(figure: Any, name: str) -> bytes:
    """Return the figure as the bytes of an SVG file; `name` makes its element ids unique."""
    from matplotlib import rc_context  # noqa: PLC0415 (an extra)

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        return _save(figure, "svg", {"Date": None, "Creator": None}, PAPER_DPI)


def _save(figure: Any, form: str, metadata: Mapping[str, None], dpi: int) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Of letters without a font: an SVG keeps its text, and the reader's fonts draw it.
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(buffer, format=form, metadata=metadata, dpi=dpi)
    return buffer.getvalue()
