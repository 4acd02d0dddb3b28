"""Where the texts of a figure lie."""

from typing import Any


def text_boxes(figure: Any) -> dict[str, Any]:
    """Return the boxes of all texts of a figure that are drawn, in pixels."""
    from matplotlib.text import Text  # noqa: PLC0415 (an extra)

    figure.canvas.draw()
    hidden = _labels_beyond_the_axes(figure)
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    shown = [text for text in texts if id(text) not in hidden]
    return {f"{n} {t.get_text()}": t.get_window_extent() for n, t in enumerate(shown)}


def _labels_beyond_the_axes(figure: Any) -> set[int]:
    """Return the labels of ticks outside the limits, which exist but are not drawn."""
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low <= tick.get_loc() <= high or not axes.axison:
                    hidden |= {id(tick.label1), id(tick.label2)}
    return hidden


def colliding(figure: Any) -> list[tuple[str, str]]:
    """Return the pairs of texts of a figure that cover each other."""
    boxes = list(text_boxes(figure).items())
    return [
        (name, other)
        for n, (name, box) in enumerate(boxes)
        for other, second in boxes[n + 1 :]
        if box.shrunk(0.98, 0.8).overlaps(second.shrunk(0.98, 0.8))
    ]


def cut_off(figure: Any) -> list[str]:
    """Return the texts that do not lie within the figure."""
    width, height = figure.bbox.width, figure.bbox.height
    return [
        name
        for name, box in text_boxes(figure).items()
        if min(box.x0, box.y0) < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
