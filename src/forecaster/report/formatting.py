"""Numbers, shares, differences and names as text."""

import math
import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from forecaster.config import MONTH_MINUTES
from forecaster.errors import count_of
from forecaster.evaluation.bootstrap import RelativeDifference

HYPHEN = re.compile(r"(?<![\w-])-(?=\d)")
DAY_MINUTES = 24 * 60
MANY = 100  # at and above this, no decimals


def number(value: float) -> str:
    """Format a number with three digits, a large one without decimals: `5.19`, `1,234`."""
    return f"{value:,.0f}" if abs(value) >= MANY else f"{value:.3g}"


def aligned(values: Sequence[float]) -> list[str]:
    """Format numbers with the decimals that give the largest three digits: `8.2`, `28.4`."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    decimals = (
        0 if largest >= MANY or largest == 0 else 2 - math.floor(math.log10(max(largest, 1e-6)))
    )
    return [f"{value:,.{max(decimals, 0)}f}" for value in values]


def percent(share: float) -> str:
    """Format a share as per cent: `5.2 %`, `38 %`."""
    value = 100 * share
    return f"{value:.1f} %" if abs(value) < 10 else f"{value:,.0f} %"  # noqa: PLR2004


def tenth_percent(share: float) -> str:
    """Format a share to a tenth of a per cent: `80.1 %`."""
    return f"{100 * share:.1f} %"


def percent_range(shares: Sequence[float]) -> str:
    """Format the range of some shares: `79.8 … 80.4 %`, or `80.1 %` if they are equal."""
    ends = dict.fromkeys(f"{100 * end:.1f}" for end in (min(shares), max(shares)))
    return f"{' … '.join(ends)} %"


def less_or_more(difference: RelativeDifference) -> str:
    """Format a difference in words: `5.2 % lower (95 % interval 3.3 … 7.1 %)`."""
    sign, direction = (-1, "lower") if difference.value < 0 else (1, "higher")
    low, high = sorted(100 * sign * part for part in (difference.low, difference.high))
    size = percent(abs(difference.value))
    return with_minus(f"{size} {direction} (95 % interval {low:.1f} … {high:.1f} %)")


def change(ratio: float) -> str:
    """Format a ratio as a change: `−4.3 %`, `+12 %`, `±0.0 %`."""
    text = percent(abs(ratio - 1))
    sign = "±" if text == percent(0.0) else "−" if ratio < 1 else "+"
    return f"{sign}{text}"


def too_high_or_low(bias: float) -> str:
    """Format a bias in words: `1.2 % too high`."""
    if f"{100 * bias:.1f}" in ("0.0", "-0.0"):
        return "neither too high nor too low"
    return f"{percent(abs(bias))} too {'high' if bias > 0 else 'low'}"


def with_minus(text: str) -> str:
    """Replace the hyphen of negative numbers by a minus sign."""
    return HYPHEN.sub("−", text)


def duration(minutes: int) -> str:
    """Format a duration in its largest unit: `5 min`, `1 hour`, `2 days`, `3 months`."""
    for unit, size in (
        ("month", MONTH_MINUTES),
        ("week", 7 * 24 * 60),
        ("day", 24 * 60),
        ("hour", 60),
    ):
        if minutes % size == 0:
            return count_of(minutes // size, unit)
    return f"{minutes} min"


def date_text(time: np.datetime64) -> str:
    """Format the date of a local time: `Sun 31 May 2009`."""
    date = time.astype(datetime)
    return f"{date:%a} {date.day} {date:%b %Y}"


def clock_text(time: np.datetime64) -> str:
    """Format the hour of a local time: `18:00`."""
    return f"{time.astype(datetime):%H:%M}"


def time_text(time: np.datetime64, step_minutes: int) -> str:
    """Format the beginning of a step: `Sun 31 May 2009, 18:00`, of a month `May 2009`."""
    if step_minutes % MONTH_MINUTES == 0:
        return f"{time.astype(datetime):%b %Y}"
    date = date_text(time)
    return date if step_minutes % DAY_MINUTES == 0 else f"{date}, {clock_text(time)}"


def rate(minutes: int) -> str:
    """Format the length of a step after a number: `per hour`, `per 15 min`, `per 2 days`."""
    return f"per {duration(minutes).removeprefix('1 ')}"


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence: `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
