import pytest

from forecaster.clock.clock import Clock
from forecaster.clock.horizon import read_horizon
from forecaster.errors import ConfigError

HOURS, DAYS, MONTHS = Clock("UTC"), Clock("UTC", 1440), Clock("UTC", step_months=1)


@pytest.mark.parametrize(
    ("text", "clock", "steps"),
    [
        ("24h", HOURS, 24),
        ("7d", HOURS, 168),
        ("2 days", HOURS, 48),
        ("1w", DAYS, 7),
        ("90min", Clock("UTC", 15), 6),
        ("12 steps", HOURS, 12),
        ("1 step", MONTHS, 1),
        ("336", HOURS, 336),
        ("3 months", MONTHS, 3),
        ("1 year", MONTHS, 12),
        ("2 quarters", Clock("UTC", step_months=3), 2),
    ],
)
def test_a_horizon_in_words_is_converted_to_steps(text: str, clock: Clock, steps: int) -> None:
    assert read_horizon(text, clock) == steps


@pytest.mark.parametrize(
    ("text", "clock", "message"),
    [
        ("90min", HOURS, "not a whole number of the panel's steps of 60 min"),
        ("24h", MONTHS, "not a whole number of the panel's steps of 1 month"),
        ("3 months", DAYS, "not a whole number of the panel's steps of 1 day"),
        ("0", HOURS, "1 to 336 steps can be forecast"),
        ("15d", HOURS, "360 steps of 60 min; 1 to 336"),
        ("tomorrow", HOURS, "not a length of time; give e.g. 24h"),
        ("-3", HOURS, "not a length of time"),
        ("3 fortnights", HOURS, "not a length of time"),
    ],
)
def test_a_horizon_that_cannot_be_is_refused_in_plain_words(
    text: str, clock: Clock, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_horizon(text, clock)
