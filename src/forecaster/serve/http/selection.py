"""Which locations an answer has: one, those in a box or an area, a page of them, or all."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

import numpy as np
from fastapi import Query
from jaxtyping import Bool

from forecaster.errors import name_some
from forecaster.panel.parts import Locations
from forecaster.serve.problems import Problem

MAX_LIMIT = 10_000
LocationId = Annotated[
    str, Query(min_length=1, max_length=200, description="the id of a location")
]
Box = Annotated[
    str,
    Query(max_length=100, description="west,south,east,north in degrees: the locations inside"),
]
Area = Annotated[
    str,
    Query(min_length=1, max_length=200, description="an area of `serve --area`: its locations"),
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
    area: str | None = None
    limit: int | None = None
    after: str | None = None
    data_version: int | None = None

    def check(self, areas: Mapping[str, frozenset[str]]) -> None:
        """Refuse parameters that do not go together, and unknown areas."""
        if self.location is not None and self._replace(location=None) != Selection():
            detail = "location goes without box, area, limit and after"
            raise Problem(422, "bad_selection", detail)
        if self.limit is None and (self.after, self.data_version) != (None, None):
            raise Problem(422, "bad_selection", "after and data_version need limit")
        if self.box is not None:
            read_box(self.box)
        if self.area is not None and self.area not in areas:
            detail = f"the areas are {name_some(areas)}" if areas else "there are no areas"
            raise Problem(422, "unknown_area", f"{detail}; `serve --area TABLE` names them")

    def columns(
        self, locations: Locations, areas: Mapping[str, frozenset[str]]
    ) -> Sequence[int] | None:
        """The columns of a box, an area or a page; None: all."""
        if (self.box, self.area, self.limit) == (None, None, None):
            return None
        first, N = (
            0 if self.after is None else _position(locations, self.after) + 1,
            len(locations),
        )
        if self.box is None and self.area is None:
            return range(first, min(first + (self.limit or N), N))
        inside = np.arange(N) >= first
        if self.box is not None:
            inside &= is_inside(read_box(self.box), locations)
        if self.area is not None:
            members = [locations.columns[i] for i in areas[self.area] if i in locations.columns]
            inside &= np.isin(np.arange(N), members)
        return [int(n) for n in np.flatnonzero(inside)[: self.limit]]

    def next_page(
        self,
        locations: Locations,
        areas: Mapping[str, frozenset[str]],
        columns: Sequence[int] | None,
        **query: str | int | None,
    ) -> str | None:
        """The query of the next page; None on the last page.

        Args:
            locations: all of them.
            areas: as for `columns`.
            columns: of this page.
            query: further parameters.
        """
        if self.limit is None or not columns or len(columns) < self.limit:
            return None
        following = self._replace(after=locations.ids[columns[-1]])
        if not following.columns(locations, areas):
            return None
        named = {**following._asdict(), **query}
        return urlencode({name: value for name, value in named.items() if value is not None})


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
        return locations.columns[identity]
    except KeyError:
        detail = "after is the id of the last location of the page before; begin without it"
        raise Problem(422, "unknown_location", detail) from None
