"""Addresses of map tiles: what is taken, and what is refused in words."""

import pytest

from forecaster.errors import ConfigError
from forecaster.serve.http.tiles import Tiles


def test_an_address_gives_the_origin_that_browsers_ask() -> None:
    tiles = Tiles.parse("http://localhost:8080/styles/{z}/{x}/{y}@2x.png", "© us")
    assert (tiles.origin, tiles.credit) == ("http://localhost:8080", "© us")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("tiles.example.org/{z}/{x}/{y}.png", "not a web address"),
        ("file:///{z}/{x}/{y}.png", "not a web address"),
        ("https://me:word@tiles.example.org/{z}/{x}/{y}.png", "not a web address"),
        ("https://tiles.example.org/{z}/{x}.png", "{y} is needed"),
        ("https://{s}.example.org/{z}/{x}/{y}.png", "a fixed host is needed"),
        ("https://tiles.example.org/{z}/{x}/{y}.png; script-src *", "without blanks"),
        ("https://a.org,*/{z}/{x}/{y}.png", "without blanks"),
    ],
)
def test_other_addresses_are_refused(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason.replace("{", r"\{")):
        Tiles.parse(url)
