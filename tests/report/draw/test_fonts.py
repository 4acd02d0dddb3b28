"""Names in scripts that the usual font lacks, with and without a font for them."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.font_manager import FontEntry, fontManager

from forecaster.report.draw import fonts
from forecaster.report.draw.canvas import new_figure, to_png, to_svg
from forecaster.report.draw.fonts import missing_letters, use_fitting_fonts

NAMES = ("東京駅", "दिल्ली", "서울")


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Forget which letters fonts have, and what was told."""
    for function in (fonts._letters_of, fonts._charmap, fonts._tell):
        function.cache_clear()
    yield
    for function in (fonts._letters_of, fonts._charmap, fonts._tell):
        function.cache_clear()


@pytest.fixture
def no_further_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the fonts that every installation has."""
    own = [font for font in fontManager.ttflist if font.name.startswith("DejaVu")]
    monkeypatch.setattr(fontManager, "ttflist", own)


def figure_of(*names: str):
    figure = new_figure(4.0, 2.0)
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), names)
    return figure


@pytest.mark.usefixtures("no_further_fonts")
@pytest.mark.filterwarnings("error:Glyph")
def test_without_a_font_letters_are_written_as_codes_and_the_package_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, drawn = figure_of("東京 2", "Nord"), []
    draw = type(figure).savefig

    def watch(self, *args, **kwargs):
        drawn.extend(text.get_text() for text in self.axes[0].get_yticklabels())
        return draw(self, *args, **kwargs)

    monkeypatch.setattr(type(figure), "savefig", watch)
    with caplog.at_level(logging.WARNING):
        to_png(figure)
        to_png(figure)
    assert drawn[:2] == ["U+6771 U+4EAC 2", "Nord"]
    assert len(caplog.messages) == 1  # not for every picture
    assert "fonts-noto-cjk" in caplog.text
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["東京 2", "Nord"]  # as before
    assert "東京 2" in to_svg(figure, "a").decode()  # a browser has fonts


@pytest.mark.usefixtures("no_further_fonts")
def test_scripts_have_their_packages(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        to_png(figure_of("दि"))
    assert "fonts-noto-core" in caplog.text


def test_an_installed_font_with_the_letters_is_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broad = FontEntry(fname="/fonts/NotoSansCJK.ttc", name="Noto Sans CJK JP", weight=400)
    rare = FontEntry(fname="/fonts/ornate.ttf", name="Ornate", weight=400)
    monkeypatch.setattr(fontManager, "ttflist", [rare, *fontManager.ttflist, broad])
    charmap = fonts._charmap
    letters = frozenset(ord(letter) for name in NAMES for letter in name)
    monkeypatch.setattr(
        fonts, "_charmap", lambda path: letters if path.startswith("/fonts/") else charmap(path)
    )
    figure = figure_of(*NAMES, "Süd")
    titled = figure.axes[0].set_title("東京駅")
    plain = figure.axes[0].set_xlabel("Süd")
    use_fitting_fonts(figure)
    for text in (*figure.axes[0].get_yticklabels(), titled):
        assert text.get_fontfamily()[-1] == "Noto Sans CJK JP"
    assert "Noto Sans CJK JP" not in plain.get_fontfamily()
    assert not [record for record in caplog.records if record.name == fonts.LOG.name]


def test_letters_of_europe_need_no_further_font() -> None:
    assert missing_letters("Süd → Łódź, Αθήνα, Киев, القاهرة − 5 °C", ["DejaVu Sans"]) == []
    assert missing_letters("東x京", ["DejaVu Sans"]) == ["東", "京"]


def test_a_font_that_cannot_be_read_has_no_letters(tmp_path: Path) -> None:
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    assert fonts._charmap(str(broken)) == frozenset()
