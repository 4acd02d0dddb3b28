"""A horizon in words: `24h`, `7d`, `90min`, `12 steps`, `3 months`."""

import re

from forecaster.clock.clock import Clock
from forecaster.errors import ConfigError, count_of

MAX_STEPS = 336  # two weeks of hours
_FORM = re.compile(r"\s*(\d{1,9})\s*([a-z]*)\s*", re.IGNORECASE)
_MINUTES = {"min": 1, "minute": 1, "h": 60, "hour": 60, "d": 24 * 60, "day": 24 * 60}
_MINUTES |= {"w": 7 * 24 * 60, "week": 7 * 24 * 60}
_MONTHS = {"month": 1, "quarter": 3, "y": 12, "year": 12}
_EXAMPLES = "give e.g. 24h, 7d, 90min, 3 months or 12 steps"


def read_horizon(text: str, clock: Clock) -> int:
    """Return the number of steps of a horizon; one that is not whole steps is refused."""
    match = _FORM.fullmatch(text)
    unit = match[2].lower() if match else ""
    units = ("", "step", *_MINUTES, *_MONTHS)
    unit = unit if unit in units else unit.removesuffix("s")
    if match is None or unit not in units:
        raise ConfigError(f"horizon {text!r}: not a length of time; {_EXAMPLES}")
    number = int(match[1])
    length, step = _lengths(number, unit, clock)
    steps, remainder = divmod(length, step)
    if remainder:
        message = f"horizon {text!r}: not a whole number of the panel's steps of {clock.step_text}"
        raise ConfigError(f"{message}; give e.g. 12 steps")
    if not 1 <= steps <= MAX_STEPS:
        asked = f"{count_of(steps, 'step')} of {clock.step_text}"
        raise ConfigError(f"horizon {text!r}: {asked}; 1 to {MAX_STEPS} steps can be forecast")
    return steps


def read_step(text: str) -> dict[str, int]:
    """Return the settings of a panel whose steps have a length: `15min`, `1h`, `3 months`."""
    match = _FORM.fullmatch(text)
    unit = match[2].lower() if match else ""
    unit = unit if unit in (*_MINUTES, *_MONTHS) else unit.removesuffix("s")
    if match is None or unit not in (*_MINUTES, *_MONTHS) or not int(match[1]):
        raise ConfigError(f"step {text!r}: not a length of time; give e.g. 15min, 1h, 1d, 1 month")
    if unit in _MONTHS:
        return {"step_months": int(match[1]) * _MONTHS[unit]}
    return {"step_minutes": int(match[1]) * _MINUTES[unit]}


def _lengths(number: int, unit: str, clock: Clock) -> tuple[int, int]:
    """Return the horizon and a step in the same unit; (1, 2) where they have none in common."""
    if unit in ("", "step"):
        return number, 1
    if unit in _MONTHS:
        return (number * _MONTHS[unit], clock.step_months) if clock.step_months else (1, 2)
    return (number * _MINUTES[unit], clock.step_minutes) if not clock.step_months else (1, 2)
