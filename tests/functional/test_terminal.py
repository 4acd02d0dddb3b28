"""Tables and messages on terminals of different widths."""

import io
import sys

import pytest

from forecaster.cli import terminal

COLUMNS = {
    "model": ["LastValue", "A name that is far longer than any column should be, in words"],
    "RMSE": ["14.62", "9.627 ± 0.012"],
    "RMSE against Ridge": ["+2815.4 % (+2193.2 … +3567.0)", "–"],
    "MAPE %": ["5.918", "3.680 ± 0.004"],
    "training s": ["0.0", "1,204"],
}


def lines_at(width: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the table as printed in lines of a width."""
    screen = terminal.console()
    screen.print(terminal.fitting_table(COLUMNS, width))
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [100, 80, 61, 47])
def test_a_table_leaves_out_its_last_columns_where_the_line_is_narrow(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = lines_at(width, capsys)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert "9.627 ± 0.012" in text  # no figure is cut
    assert ("+2815.4 % (+2193.2 … +3567.0)" in text) == (width >= 80)
    assert ("1,204" in text) == (width == 100)


def test_a_line_has_100_columns_at_most_and_those_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for columns, width in (("80", 80), ("238", 100)):
        monkeypatch.setenv("COLUMNS", columns)
        assert terminal.width() == width == terminal.console().width


def test_messages_are_folded_between_words_on_a_terminal_and_whole_on_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = "lags: " + "76 past steps to forecast 3 ahead; " * 7
    monkeypatch.setenv("COLUMNS", "80")
    for is_terminal in (False, True):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda answer=is_terminal: answer)
        monkeypatch.setattr(sys, "stderr", stream)
        terminal.say(message)
        lines = stream.getvalue().rstrip("\n").splitlines()
        assert (len(lines) > 1) == is_terminal
        assert " ".join(" ".join(lines).split()) == message.strip()
        assert not is_terminal or max(map(len, lines)) <= 80
