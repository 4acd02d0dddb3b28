"""The files of the page: read once, known by name, so that no path of a client is opened."""

import hashlib
import mimetypes
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

TYPES = {".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


@dataclass(frozen=True)
class Asset:
    """One file."""

    body: bytes
    media_type: str
    tag: str


def load_assets() -> dict[str, Asset]:
    """Return the page's files by name: index.html, map.js and so on."""
    folder = files("forecaster.serve").joinpath("page")
    return dict(_below(folder, "")) if folder.is_dir() else {}


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc")):
            found.append((prefix + entry.name, _asset(entry)))
    return found


def _asset(file: Traversable) -> Asset:
    body = file.read_bytes()
    suffix = file.name[file.name.rfind(".") :]
    media_type = TYPES.get(suffix) or mimetypes.guess_type(file.name)[0]
    tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    return Asset(body, media_type or "application/octet-stream", tag)
