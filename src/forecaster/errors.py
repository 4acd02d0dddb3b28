"""Error types with their exit codes, and helpers for messages."""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import ModuleType


class ForecasterError(Exception):
    """Base of all errors that are meant for the user; subclasses set the exit code."""

    exit_code = 5


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
        self.messages.append(fault)

    def raise_any(self, error: type[ForecasterError]) -> None:
        """Raise one error that lists all faults, if there are any."""
        if self.messages:
            count = "1 fault" if len(self.messages) == 1 else f"{len(self.messages)} faults"
            raise error("\n  ".join([f"{self.source}: {count}", *self.messages]))


def name_some(items: Iterable[object], limit: int = 5) -> str:
    """Return the first few items as text, with an ellipsis where more follow."""
    first = list(islice(items, limit + 1))
    return ", ".join(map(str, first[:limit])) + (", …" if len(first) > limit else "")


def count_of(count: int, noun: str) -> str:
    """Return the count with its noun: `1 hour`, `1,234 hours`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def nearest_name(wrong: str, names: Sequence[str]) -> str:
    """Return a hint with the most similar valid name, or an empty text."""
    from difflib import get_close_matches  # noqa: PLC0415 (only wrong input pays for it)

    near = get_close_matches(wrong, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def need_extra(module: str, extra: str) -> ModuleType:
    """Import an optional module; the error names the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"this needs {module}, which is not installed: pip install 'forecaster[{extra}]'"
        raise ConfigError(message) from error
