"""Tiles of a base map from a server of the user's, and what the page may load because of them."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from forecaster.errors import ConfigError

PLACES = ("{z}", "{x}", "{y}")  # zoom level, column and row of a tile


@dataclass(frozen=True)
class Tiles:
    """A server of map tiles in Web Mercator."""

    url: str  # with {z}, {x} and {y}
    credit: str = ""  # shown on the map; many servers ask for it

    @staticmethod
    def parse(url: str, credit: str = "") -> "Tiles":
        """Return checked tiles."""
        parts = urlsplit(url)
        lacking = [place for place in PLACES if url.count(place) != 1]
        example = "as in https://tiles.example.org/{z}/{x}/{y}.png"
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ConfigError(f"--tiles {url!r}: not a web address; give one {example}")
        if lacking or "{" in parts.netloc:
            missing = " and ".join(lacking) or "a fixed host"
            raise ConfigError(f"--tiles {url!r}: {missing} is needed in its path, {example}")
        if not url.isascii() or any(sign in url for sign in " ;,'\"\\"):
            raise ConfigError(f"--tiles {url!r}: write it without blanks, quotes, ';' and ','")
        return Tiles(url, credit)

    @property
    def origin(self) -> str:
        """The scheme, host and port that browsers load tiles from."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"
