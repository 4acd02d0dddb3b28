"""The city's locations: corners of a jittered street grid on a Manhattan-like strip."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.panel.parts import Locations

WIDTH_KM, LENGTH_KM = 3.2, 19.2  # of the strip, for any number of locations
NEIGHBOURHOODS = (  # equal bands of the strip from south to north, with their main kind of demand
    ("Harbour", "business"),
    ("Village", "nightlife"),
    ("Exchange", "business"),
    ("Theatres", "visitors"),
    ("Parkside", "residential"),
    ("Museums", "visitors"),
    ("Heights", "residential"),
    ("Uptown", "nightlife"),
)
JITTER = 0.25  # of a block either way: corners stay half a block apart
_CENTRE = (40.785, -73.965)  # latitude, longitude
_BEARING = np.deg2rad(29.0)  # the avenues run this far east of north
KM_PER_DEGREE = (111.2, 111.2 * np.cos(np.deg2rad(_CENTRE[0])))  # of latitude, of longitude


@dataclass(frozen=True, eq=False)
class StreetGrid:
    """Corners in kilometres from the centre of the strip, ordered from south to north."""

    across: Float64[np.ndarray, " N"]
    along: Float64[np.ndarray, " N"]
    streets: Int64[np.ndarray, " N"]
    avenues: Int64[np.ndarray, " N"]

    @property
    def distances(self) -> Float64[np.ndarray, "N N"]:
        """Kilometres between every two locations."""
        across, along = (x[:, None] - x for x in (self.across, self.along))
        return np.asarray(np.hypot(across, along))

    @property
    def centre(self) -> int:
        """The location nearest to the centre of the strip."""
        return int(np.argmin(np.hypot(self.across, self.along)))

    @property
    def neighbourhoods(self) -> Int64[np.ndarray, " N"]:
        """The band of each location, an index of `NEIGHBOURHOODS`."""
        bands = np.floor((self.along / LENGTH_KM + 0.5) * len(NEIGHBOURHOODS))
        return np.asarray(bands, dtype=np.int64)

    def to_locations(self) -> Locations:
        """Return the corners as the locations of a panel."""
        north = self.along * np.cos(_BEARING) - self.across * np.sin(_BEARING)
        east = self.along * np.sin(_BEARING) + self.across * np.cos(_BEARING)
        corners = zip(self.avenues + 1, self.streets + 1, strict=True)
        return Locations(
            ids=tuple(f"L{i + 1:04d}" for i in range(len(self.along))),
            names=tuple(f"Avenue {avenue} & Street {street}" for avenue, street in corners),
            lat=_CENTRE[0] + north / KM_PER_DEGREE[0],
            lon=_CENTRE[1] + east / KM_PER_DEGREE[1],
            extra={"neighbourhood": tuple(NEIGHBOURHOODS[i][0] for i in self.neighbourhoods)},
        )


def draw_street_grid(count: int, generator: np.random.Generator) -> StreetGrid:
    """Draw `count` corners of a street grid that covers the strip; a few corners stay empty."""
    avenues = max(round(np.sqrt(count * WIDTH_KM / LENGTH_KM)), 1)
    streets = -(-count // avenues)
    corners = np.sort(generator.choice(avenues * streets, count, replace=False))
    street, avenue = np.divmod(corners, avenues)
    jitter = generator.uniform(-JITTER, JITTER, (2, count))
    return StreetGrid(
        across=((avenue + 0.5 + jitter[0]) / avenues - 0.5) * WIDTH_KM,
        along=((street + 0.5 + jitter[1]) / streets - 0.5) * LENGTH_KM,
        streets=street,
        avenues=avenue,
    )
