"""Error types with their exit codes, and helpers for messages."""

import importlib
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from types import ModuleType

MAX_TEXT = 300  # characters of one text from outside in a message
MAX_LINE = 2_000  # characters of one line of a message
MAX_LINES = 300
# Control, format (bidirectional and zero-width too), surrogate, private and unassigned characters,
# line and paragraph separators.
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters without a mark
_SELECTORS = {chr(n) for n in (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))}
_JOINERS = "\u200c\u200d"  # of Persian and Indic letters, and of emoji
_VARIANTS = "\ufe0e\ufe0f"  # of the symbol before, as text or emoji
_AS_OPTIONS = ContextVar("as_options", default=False)


def is_hidden(letter: str, before: str = "") -> bool:
    """Whether a character shows nothing, or changes the direction of others.

    Args:
        letter: the character.
        before: the one before it; joiners and variants are a part of it unless it is ASCII.
    """
    if letter in _JOINERS or letter in _VARIANTS:
        partless = before.isascii() or before in _JOINERS
        return partless or (letter in _VARIANTS and before in _VARIANTS)
    ordinary = unicodedata.category(letter) not in _HIDDEN_CATEGORIES
    return not ordinary or letter in _BLANK_LETTERS or letter in _SELECTORS


def visible(text: str) -> str:
    """Return a text with its hidden characters, other than line breaks, written as escapes."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    pairs = zip(text, "\n" + text, strict=False)
    return "".join(
        _escape(letter) if letter != "\n" and is_hidden(letter, before) else letter
        for letter, before in pairs
    )


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def printable(text: object, limit: int = MAX_TEXT) -> str:
    """Return a text from outside as one visible line of bounded length.

    All such texts pass here, or `message_lines`, before a terminal, a log or a page shows them.
    """
    content = str(text)
    shown = visible(content[:limit]).replace("\n", "\\n")
    return shown if len(content) <= limit else f"{shown}… ({len(content):,} characters)"


def plain_text(error: BaseException, *secrets: str | None, limit: int = MAX_TEXT) -> str:
    """Return what a library says in an error, as one line in which secrets are hidden."""
    text = " ".join(str(error).split()) or type(error).__name__
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text[:limit]


def message_lines(text: object) -> str:
    """Return a message of several lines, each of them visible and of bounded length."""
    lines = str(text).split("\n")
    shown = [printable(line, MAX_LINE) for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown.append(f"… ({len(lines):,} lines)")
    return "\n".join(shown)


class ForecasterError(Exception):
    """Base of all errors that are meant for the user; subclasses set the exit code."""

    exit_code = 5

    def __init__(self, message: object = "") -> None:
        super().__init__(message_lines(message))


class ConfigError(ForecasterError):
    """An argument, option or recipe is wrong."""

    exit_code = 2


class DataError(ForecasterError):
    """The data cannot be used."""

    exit_code = 3


class ArtifactError(ForecasterError):
    """A panel, graph or run is damaged, or incompatible with the other inputs."""

    exit_code = 4


class RunError(ForecasterError):
    """A failure at run time: disk, memory, permission, numerics, interruption."""

    exit_code = 5


class StoppedError(RunError):
    """A stop was requested; progress is saved, and the same command continues it."""


@dataclass
class Faults:
    """Collects all faults of one input, to report them in one error."""

    source: str
    messages: list[str] = field(default_factory=list)

    def add(self, fault: str) -> None:
        """Add a fault."""
        self.messages.append(printable(fault, MAX_LINE))

    def raise_any(self, error: type[ForecasterError]) -> None:
        """Raise one error that lists all faults, if there are any."""
        if self.messages:
            count = "1 fault" if len(self.messages) == 1 else f"{len(self.messages)} faults"
            raise error("\n  ".join([f"{self.source}: {count}", *self.messages]))


def name_some(items: Iterable[object], limit: int = 5) -> str:
    """Return the first few items as text, with an ellipsis where more follow."""
    first = list(islice(items, limit + 1))
    return ", ".join(map(printable, first[:limit])) + (", …" if len(first) > limit else "")


def count_of(count: int, noun: str) -> str:
    """Return the count with its noun: `1 hour`, `1,234 hours`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def nearest_name(wrong: str, names: Sequence[str]) -> str:
    """Return a hint with the most similar valid name, or an empty text."""
    from difflib import get_close_matches  # noqa: PLC0415 (only wrong input pays for it)

    near = get_close_matches(wrong[:MAX_TEXT], names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


@contextmanager
def naming_options() -> Iterator[None]:
    """Name settings in messages as the options of the command: `--kind count`."""
    token = _AS_OPTIONS.set(True)
    try:
        yield
    finally:
        _AS_OPTIONS.reset(token)


def setting(name: str, value: str) -> str:
    """Return a setting as it is given: `kind="count"` in Python, `--kind count` of the command.

    On the command line it is quoted for a shell, unless … stands for what is to be filled in.
    """
    if _AS_OPTIONS.get():
        text = value if "…" in value else shlex.quote(value)
        return f"--{name.replace('_', '-')} {text}"
    return f'{name}="{value}"'


def need_extra(module: str, extra: str) -> ModuleType:
    """Import an optional module; the error names the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"this needs {module}, which is not installed: pip install 'forecaster[{extra}]'"
        raise ConfigError(message) from error
