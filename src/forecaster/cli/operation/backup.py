"""Keeping a copy of a service's store: backup, restore."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli import terminal
from forecaster.errors import count_of, need_extra

if TYPE_CHECKING:
    from forecaster.serve.data.backup import BackupContent

Store = Annotated[Path, typer.Argument(help="SQLite file of live observations.")]


def backup(
    store: Store,
    file: Annotated[Path, typer.Argument(help="File to write; an earlier one is replaced.")],
) -> None:
    """Copy the store of a service into one file, also while the service runs."""
    need_extra("fastapi", extra="serve")
    from forecaster.serve.data.backup import back_up

    _tell(file, back_up(store, file))


def restore(
    file: Annotated[Path, typer.Argument(help="File written by backup.")],
    store: Store,
) -> None:
    """Write a backup to the place of a store."""
    need_extra("fastapi", extra="serve")
    from forecaster.serve.data.backup import restore as restore_store

    _tell(store, restore_store(file, store))


def _tell(path: Path, content: "BackupContent") -> None:
    rows = count_of(content.rows, "row")
    terminal.say(f"{path}: {rows}, data version {content.version:,}")
