import pytest

from forecaster.errors import ConfigError
from forecaster.report import canvas
from forecaster.report.canvas import new_figure, style, to_png, to_svg


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


def test_without_the_extra_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(module: str, extra: str) -> None:
        raise ConfigError(f"this needs {module}: forecaster[{extra}]")

    monkeypatch.setattr(canvas, "need_extra", lacking)
    with pytest.raises(ConfigError, match=r"matplotlib: forecaster\[report\]"):
        new_figure(1.0, 1.0)
