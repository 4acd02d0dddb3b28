"""Numbers as people read them."""

import re
from collections.abc import Sequence

from forecaster.errors import count_of
from forecaster.evaluation.bootstrap import Interval

HYPHEN = re.compile(r"(?<![\w-])-(?=\d)")
MANY = 100  # from here on without decimals


def number(value: float) -> str:
    """Return a number with three digits, or all of a large one: `5.19`, `1,234`."""
    return f"{value:,.0f}" if abs(value) >= MANY else f"{value:.3g}"


def percent(share: float) -> str:
    """Return a share as per cent: `5.2 %`, `38 %`."""
    value = 100 * share
    return f"{value:.1f} %" if abs(value) < 10 else f"{value:,.0f} %"  # noqa: PLR2004


def tenth_percent(share: float) -> str:
    """Return a share to a tenth of a per cent: `80.1 %`."""
    return f"{100 * share:.1f} %"


def span_of(shares: Sequence[float]) -> str:
    """Return between which shares some lie: `79.8 … 80.4 %`, or `80.1 %` if they are alike."""
    ends = dict.fromkeys(f"{100 * end:.1f}" for end in (min(shares), max(shares)))
    return f"{' … '.join(ends)} %"


def signed_percent(found: Interval) -> str:
    """Return a difference with its interval: `−5.2 % (−7.1 … −3.3)`."""
    value, low, high = (f"{100 * part:+.1f}" for part in (found.value, found.low, found.high))
    return with_minus(f"{value} % ({low} … {high})")


def less_or_more(found: Interval) -> str:
    """Return a difference in words: `5.2 % lower (interval 3.3 … 7.1 %)`."""
    sign, way = (-1, "lower") if found.value < 0 else (1, "higher")
    low, high = sorted(100 * sign * part for part in (found.low, found.high))
    return with_minus(f"{percent(abs(found.value))} {way} (interval {low:.1f} … {high:.1f} %)")


def with_minus(text: str) -> str:
    """Return a text whose negative numbers have a minus as wide as their plus."""
    return HYPHEN.sub("−", text)


def duration(minutes: int) -> str:
    """Return a length of time in its largest unit: `5 min`, `1 hour`, `2 days`."""
    for unit, size in (("day", 24 * 60), ("hour", 60)):
        if minutes % size == 0:
            return count_of(minutes // size, unit)
    return f"{minutes} min"


def list_names(names: Sequence[str]) -> str:
    """Return names as a part of a sentence: `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
