"""What is registered is what a panel would take."""

import numpy as np
import pytest

from forecaster.errors import DataError
from forecaster.panel.parts import Locations
from forecaster.serve.data.registration import Registration, to_locations

NEW = Registration("new", "Neubau", 40.5, None, {"docks": 17.0}, opens=3600, since=9_000)


def test_a_registration_is_read_as_it_was_written() -> None:
    assert Registration.from_json(NEW.to_json()) == NEW


def test_registrations_are_locations_of_a_panel() -> None:
    locations = to_locations([NEW, Registration("x", "x", 1.0, 2.0)])
    assert (locations.ids, locations.names) == (("new", "x"), ("Neubau", "x"))
    assert np.isnan(locations.lon[0])
    assert locations.point(1) == {"type": "Point", "coordinates": [2.0, 1.0]}
    assert len(to_locations([])) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        Registration(" a", "a"),
        Registration("a", "\x1b"),
        Registration("ds", "a"),
        Registration("a", "a", 91.0),
    ],
)
def test_what_no_panel_takes_is_refused(wrong: Registration) -> None:
    with pytest.raises(DataError):
        to_locations([wrong])


def test_what_is_not_said_fits_a_location_of_the_panel() -> None:
    panel = Locations(("a", "b"), ("A", "b"), np.array([1.0, np.nan]), np.array([2.0, np.nan]))
    assert Registration("a", "a").fits(panel)
    assert Registration("a", "A", 1.0, 2.0).fits(panel)
    assert not Registration("a", "A", 1.5).fits(panel)
    assert not Registration("a", "Z").fits(panel)
    assert not Registration("b", "b", 1.5).fits(panel)
    assert Registration.of_panel(panel, "a") == Registration("a", "A", 1.0, 2.0)
    assert Registration.of_panel(panel, "b") == Registration("b", "b")
