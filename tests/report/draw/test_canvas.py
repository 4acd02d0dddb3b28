import numpy as np
import pytest

from forecaster.errors import ConfigError
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import (
    new_figure,
    style,
    style_rows,
    to_png,
    to_svg,
    write_legend,
)


def drawn(name: str = "a") -> bytes:
    figure = new_figure(3.0, 2.0)
    axes = figure.subplots()
    axes.plot([1, 3, 2], marker="o")
    style(axes)
    return to_svg(figure, name)


def test_the_same_picture_has_the_same_bytes() -> None:
    assert drawn() == drawn()
    assert drawn("a") != drawn("b")  # two on one page do not share the names of their parts


def test_a_picture_says_nothing_of_when_and_by_what_it_was_made() -> None:
    assert b"<dc:date>" not in drawn()
    assert b"matplotlib.org" not in drawn()


def test_more_dots_per_inch_are_more_dots() -> None:
    figure = new_figure(3.0, 2.0)
    few, many = to_png(figure), to_png(figure, 200)
    assert [int.from_bytes(png[16:20], "big") for png in (few, many)] == [360, 600]


def test_rows_have_their_names_from_above_to_below() -> None:
    axes = new_figure(3.0, 2.0).subplots()
    style_rows(axes, np.array([0.0, 1.5]), ["$first$", "second"], "RMSE")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$first$", "second"]
    assert axes.yaxis_inverted()
    assert axes.get_xlabel() == "RMSE"
    lines = [axis.get_gridlines()[0].get_visible() for axis in (axes.xaxis, axes.yaxis)]
    assert lines == [True, False]  # along which values are read


def test_a_legend_has_the_labels_of_its_marks() -> None:
    figure = new_figure(3.0, 2.0)
    axes = figure.subplots()
    axes.plot([1, 2], label="truth")
    axes.bar([1, 2], [1, 2], label="forecast")
    write_legend(figure, axes.get_legend_handles_labels()[0], columns=2)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["truth", "forecast"]


def test_without_the_extra_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(module: str, extra: str) -> None:
        raise ConfigError(f"this needs {module}: forecaster[{extra}]")

    monkeypatch.setattr(canvas, "need_extra", lacking)
    with pytest.raises(ConfigError, match=r"matplotlib: forecaster\[report\]"):
        new_figure(1.0, 1.0)
