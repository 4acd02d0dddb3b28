"""Which locations of a forecast an answer has: one, those in a box, a page of them, or all."""

from typing import Annotated, NamedTuple
from urllib.parse import urlencode

import numpy as np
from fastapi import Query
from jaxtyping import Bool

from forecaster.panel.parts import Locations
from forecaster.serve.forecasting.encode import utc_text
from forecaster.serve.forecasting.forecast import Forecast
from forecaster.serve.problems import Problem

MAX_LIMIT = 10_000
LocationId = Annotated[
    str, Query(min_length=1, max_length=200, description="the id of a location")
]
Box = Annotated[
    str,
    Query(max_length=100, description="west,south,east,north in degrees: the locations inside"),
]
Limit = Annotated[
    int,
    Query(ge=1, le=MAX_LIMIT, description="at most so many; the header Link has the next page"),
]
After = Annotated[str, Query(max_length=200, description="the last location of the page before")]
DataVersion = Annotated[int, Query(ge=0, description="the data of the page before")]


class Selection(NamedTuple):
    """The locations that a request asks for, by its parameters."""

    location: str | None = None
    box: str | None = None
    limit: int | None = None
    after: str | None = None
    data_version: int | None = None

    def check(self) -> None:
        """Refuse parameters that do not go together."""
        parts = self.box, self.limit, self.after, self.data_version
        if self.location is not None and any(value is not None for value in parts):
            raise Problem(422, "bad_selection", "location goes without box, limit and after")
        if self.limit is None and (self.after, self.data_version) != (None, None):
            raise Problem(422, "bad_selection", "after and data_version need limit")
        if self.box is not None:
            read_box(self.box)

    def columns(self, locations: Locations) -> list[int] | None:
        """The columns of a box or a page; None: all."""
        if self.box is None and self.limit is None:
            return None
        inside = np.ones(len(locations), dtype=bool)
        if self.box is not None:
            inside = is_inside(read_box(self.box), locations)
        if self.after is not None:
            inside[: _position(locations, self.after) + 1] = False
        return [int(n) for n in np.flatnonzero(inside)[: self.limit]]

    def next_page(
        self, result: Forecast, columns: list[int] | None, form: str | None
    ) -> dict[str, str]:
        """The header that links to the next page, of the same numbers; none on the last page."""
        if self.limit is None or not columns or len(columns) < self.limit:
            return {}
        wanted = self._replace(after=result.locations.ids[columns[-1]])
        if not wanted.columns(result.locations):
            return {}
        version = None if result.provisional else result.key.version  # those are not kept
        named = wanted._replace(data_version=version)._asdict()
        query = {name: value for name, value in named.items() if value is not None}
        query |= {"at": utc_text(result.origin)} | ({"format": form} if form else {})
        return {"Link": f'</v1/forecast?{urlencode(query)}>; rel="next"'}


def read_box(text: str) -> tuple[float, float, float, float]:
    """Read west, south, east and north; west is greater than east across the date line."""
    try:
        west, south, east, north = (float(part) for part in text.split(","))
    except ValueError:
        west = south = east = north = np.nan
    if not (abs(west) <= 180 and abs(east) <= 180 and -90 <= south <= north <= 90):  # noqa: PLR2004
        detail = "box is west,south,east,north in degrees, as in -74.02,40.70,-73.93,40.88"
        raise Problem(422, "bad_box", detail)
    return west, south, east, north


def is_inside(
    box: tuple[float, float, float, float], locations: Locations
) -> Bool[np.ndarray, " N"]:
    """Whether each location is in a box; one without coordinates is in none."""
    west, south, east, north = box
    lat, lon = locations.lat, locations.lon
    between = (lon >= west) & (lon <= east) if west <= east else (lon >= west) | (lon <= east)
    return np.asarray(between & (lat >= south) & (lat <= north))


def _position(locations: Locations, identity: str) -> int:
    try:
        return locations.ids.index(identity)
    except ValueError:
        detail = "after is the id of the last location of the page before; begin without it"
        raise Problem(422, "unknown_location", detail) from None
