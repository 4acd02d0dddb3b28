"""A location that a client has registered while the service runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from forecaster.panel.parts import Locations

TRAIN_AGAIN = (
    "build the panel with the new locations, train again (forecaster train RECIPE --panel PANEL"
    " --out RUN), and serve that run with that panel"
)


@dataclass(frozen=True)
class Registration:
    """A registered location; its covariates are the same at all its steps."""

    id: str
    name: str  # the id if there is no name
    lat: float | None = None
    lon: float | None = None
    covariates: Mapping[str, float] = field(default_factory=dict, hash=False)  # local, by name
    opens: int | None = None  # seconds since 1970; no observation is earlier
    since: int = 0  # when it was registered, seconds since 1970

    def is_same(self, registration: "Registration") -> bool:
        """Whether two registrations say the same, at whatever time."""
        return self == replace(registration, since=self.since)

    def fits(self, panel: Locations) -> bool:
        """Whether a panel's location of this id has this name and these coordinates.

        A name or coordinate that the registration does not give fits any.
        """
        n = panel.columns[self.id]
        pairs = (self.lat, panel.lat[n]), (self.lon, panel.lon[n])
        return self.name in (self.id, panel.names[n]) and all(
            value is None or value == coordinate for value, coordinate in pairs
        )

    def to_json(self) -> str:
        """Return its fields as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> "Registration":
        """Return the registration of some JSON."""
        return Registration(**json.loads(text))

    @staticmethod
    def of_panel(panel: Locations, identity: str) -> "Registration":
        """Return a location of a panel as if it had been registered."""
        n = panel.columns[identity]
        lat, lon = (
            float(values[n]) if np.isfinite(values[n]) else None
            for values in (panel.lat, panel.lon)
        )
        return Registration(identity, panel.names[n], lat, lon)


def to_locations(registrations: Sequence[Registration]) -> Locations:
    """Return registrations as locations; unusable ids, names and coordinates are a DataError."""
    return Locations(
        ids=tuple(one.id for one in registrations),
        names=tuple(one.name for one in registrations),
        lat=np.array([one.lat for one in registrations], dtype=np.float64),
        lon=np.array([one.lon for one in registrations], dtype=np.float64),
        opens=np.array([_moment(one.opens) for one in registrations], dtype="datetime64[s]"),
    )


def _moment(seconds: int | None) -> np.datetime64:
    return np.datetime64("NaT" if seconds is None else seconds, "s")
