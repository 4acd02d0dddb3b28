"""One city that many tests look at: big enough to measure, small enough to be quick."""

import pytest

from forecaster.synthetic.city import City, make_city


@pytest.fixture(scope="session")
def city() -> City:
    """A year and a bit of 59 locations: both clock changes, every season, all holidays."""
    return make_city(locations=59, start="2013-01-01", hours=9_001, seed=3)
