"""The parts of a panel besides its values: locations, covariates and local covariates."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64, Shaped

from forecaster.clock.clock import Clock
from forecaster.errors import DataError, Faults, count_of, name_some, printable, visible
from forecaster.panel.vintages import Vintages

RESERVED = frozenset({"time", "unique_id", "ds", "ds_local", "y", "y_hat", "cutoff"})
MAX_NAME_LENGTH = 200
MAX_DISPLAY_LENGTH = 1_000  # of a location's name
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters, surrogates
Scalar = str | int | float | bool | None
DATES = ("opens", "closes")  # of the life of a location
_UNDATED = np.empty(0, dtype="datetime64[s]")  # becomes unknown dates of all locations


@dataclass(frozen=True, eq=False)
class Locations:
    """The sites of a panel, in the order of its columns."""

    ids: tuple[str, ...]
    names: tuple[str, ...]  # for display; the id if there is no name
    lat: Float64[np.ndarray, " N"]  # degrees; NaN where unknown
    lon: Float64[np.ndarray, " N"]
    extra: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    opens: Shaped[np.ndarray, " N"] = field(default_factory=lambda: _UNDATED)  # UTC; NaT: unknown
    closes: Shaped[np.ndarray, " N"] = field(default_factory=lambda: _UNDATED)  # from then closed
    hours: tuple[str, ...] = ()  # opening hours, as `clock.hours` describes them; empty: always

    def __post_init__(self) -> None:
        object.__setattr__(self, "hours", self.hours or ("",) * len(self.ids))
        for name in DATES:
            if not len(getattr(self, name)):
                unknown = np.full(len(self.ids), "NaT", dtype="datetime64[s]")
                object.__setattr__(self, name, unknown)
        faults = Faults("locations")
        check_names(self.ids, "location id", faults)
        _check_display_names(self.names, faults)
        for coordinate, limit in (("lat", 90.0), ("lon", 180.0)):
            values = getattr(self, coordinate)
            out_of_range = np.flatnonzero(~(np.abs(values) <= limit) & ~np.isnan(values))
            if len(out_of_range):
                first = name_some(f"{self.ids[i]} {values[i]}" for i in out_of_range)
                count = count_of(len(out_of_range), "location")
                problem = f"{count} with {coordinate} beyond ±{limit:g}°"
                faults.add(f"{problem}: {first}; check whether lat and lon are swapped")
        never_open = np.flatnonzero(self.closes <= self.opens)
        if len(never_open):
            dates = (f"{self.ids[n]} {self.opens[n]}Z … {self.closes[n]}Z" for n in never_open)
            count = f"{count_of(len(never_open), 'location')} that closes before it opens"
            faults.add(f"{count}: {name_some(dates)}; check opens and closes")
        faults.raise_any(DataError)
        for name in ("lat", "lon", *DATES):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @staticmethod
    def of_ids(ids: Iterable[str]) -> "Locations":
        """Return locations without names and coordinates."""
        ids = tuple(ids)
        nowhere = np.full(len(ids), np.nan)
        return Locations(ids, ids, nowhere, nowhere)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """The column of each location by its id."""
        return {identity: n for n, identity in enumerate(self.ids)}

    def take(self, order: Sequence[int]) -> "Locations":
        """Return the locations with these positions, in this order."""
        return Locations(
            ids=tuple(self.ids[n] for n in order),
            names=tuple(self.names[n] for n in order),
            lat=self.lat[list(order)],
            lon=self.lon[list(order)],
            extra={name: tuple(column[n] for n in order) for name, column in self.extra.items()},
            opens=self.opens[list(order)],
            closes=self.closes[list(order)],
            hours=tuple(self.hours[n] for n in order),
        )

    def join(self, others: "Locations") -> "Locations":
        """Return these locations and then the others, which have no further attributes."""
        nothing = (None,) * len(others)
        return Locations(
            ids=(*self.ids, *others.ids),
            names=(*self.names, *others.names),
            lat=np.concatenate([self.lat, others.lat]),
            lon=np.concatenate([self.lon, others.lon]),
            extra={name: (*column, *nothing) for name, column in self.extra.items()},
            opens=np.concatenate([self.opens, others.opens]),
            closes=np.concatenate([self.closes, others.closes]),
            hours=(*self.hours, *others.hours),
        )

    @property
    def dated(self) -> bool:
        """Whether it is known of any location when it opens or closes."""
        return not (np.isnat(self.opens).all() and np.isnat(self.closes).all())

    @property
    def has_hours(self) -> bool:
        """Whether any location has opening hours."""
        return any(self.hours)

    @property
    def can_close(self) -> bool:
        """Whether any location has a date of opening or closing, or opening hours."""
        return self.dated or self.has_hours

    def alive(self, times: Shaped[np.ndarray, " T"]) -> Bool[np.ndarray, "T N"]:
        """Which locations exist at which times; a location without dates always does.

        Args:
            times: UTC, of the beginnings of steps.
        """
        if not self.dated:
            return np.broadcast_to(np.True_, (len(times), len(self)))
        early = times[:, None] < self.opens  # false for NaT
        return np.asarray(~(early | (times[:, None] >= self.closes)))

    def within_hours(
        self, times: Shaped[np.ndarray, " T"], clock: Clock
    ) -> Bool[np.ndarray, "T N"]:
        """Which locations are open at which times by their opening hours.

        Args:
            times: UTC, of the beginnings of steps.
            clock: whose time zone and holidays the hours follow.
        """
        if not self.has_hours:
            return np.broadcast_to(np.True_, (len(times), len(self)))
        texts, columns = np.unique(np.array(self.hours, dtype=object), return_inverse=True)
        masks = [clock.open_by(t, times) if t else np.ones(len(times), bool) for t in texts]
        if len(masks) == 1:
            return np.broadcast_to(masks[0][:, None], (len(times), len(self)))
        return np.stack(masks, axis=1)[:, columns.reshape(-1)]

    @property
    def placed(self) -> Bool[np.ndarray, " N"]:
        """A mask of the locations with coordinates."""
        return np.asarray(np.isfinite(self.lat + self.lon))

    def point(self, n: int) -> dict[str, Any] | None:
        """The GeoJSON geometry of one location; None without coordinates."""
        if not self.placed[n]:
            return None
        return {"type": "Point", "coordinates": [float(self.lon[n]), float(self.lat[n])]}


@dataclass(frozen=True, eq=False)
class Covariates:
    """Covariates common to all locations; they may reach past the last value (S ≥ M)."""

    names: tuple[str, ...]
    values: Float32[np.ndarray, "S P"]  # NaN = missing
    past_only: tuple[str, ...] = ()  # those of the names that nobody knows ahead
    # What was known of a step at each origin, of some of the names. The values are then those
    # known when their own step ended. None: all are known ahead as they are.
    vintages: Vintages | None = None

    def __post_init__(self) -> None:
        check_covariates("covariates", self.names, self.values, self.past_only)
        if self.vintages is not None and not {*self.names}.issuperset(self.vintages.names):
            unknown = [name for name in self.vintages.names if name not in self.names]
            raise DataError(f"vintages of {name_some(unknown)}, which are no covariates")
        object.__setattr__(self, "values", read_only(self.values))

    @staticmethod
    def empty(steps: int) -> "Covariates":
        """Return no covariates, over a number of steps."""
        return Covariates((), np.empty((steps, 0), dtype=np.float32))

    def select(self, names: tuple[str, ...]) -> "Covariates":
        """Return exactly these covariates, in this order."""
        order = [self.names.index(name) for name in names]
        past_only = select_names(names, self.past_only)
        vintages = None if self.vintages is None else self.vintages.select(names)
        return Covariates(names, self.values[:, order], past_only, vintages)

    def ahead(
        self, origins: Int64[np.ndarray, "*shape"], steps: Int64[np.ndarray, "*shape"]
    ) -> Float32[np.ndarray, "*shape P"]:
        """The values of steps as they were known at their origins; NaN: unknown."""
        end = len(self.values)
        inside = self.values[np.minimum(steps, end - 1)]
        values = np.where((steps < end)[..., None], inside, np.float32(np.nan))
        if self.vintages is not None:
            columns = [self.names.index(name) for name in self.vintages.names]
            values[..., columns] = self.vintages.seen(origins, steps)
        return values

    @property
    def past_columns(self) -> tuple[int, ...]:
        """The columns of the past-only covariates."""
        return tuple(self.names.index(name) for name in self.past_only)


@dataclass(frozen=True, eq=False)
class LocalCovariates:
    """Covariates of each location (the paper's footnote 1)."""

    names: tuple[str, ...]
    values: Float32[np.ndarray, "Q S N"]  # NaN = missing
    past_only: tuple[str, ...] = ()  # those of the names that nobody knows ahead

    def __post_init__(self) -> None:
        check_covariates("local covariates", self.names, self.values, self.past_only)
        object.__setattr__(self, "values", read_only(self.values))

    @staticmethod
    def empty(steps: int, locations: int) -> "LocalCovariates":
        """Return no local covariates, over a number of steps and locations."""
        return LocalCovariates((), stack_layers([], steps, locations))

    def select(self, names: tuple[str, ...]) -> "LocalCovariates":
        """Return exactly these covariates, in this order."""
        order = [self.names.index(name) for name in names]
        past_only = select_names(names, self.past_only)
        return LocalCovariates(names, self.values[order], past_only)

    @property
    def past_layers(self) -> tuple[int, ...]:
        """The layers of the past-only covariates."""
        return tuple(self.names.index(name) for name in self.past_only)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view; the array itself stays writable."""
    view = array.view()
    view.flags.writeable = False
    return view


def select_names(names: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
    """Return those of the names that are chosen, in their order."""
    return tuple(name for name in names if name in chosen)


def stack_layers(
    layers: list[Float32[np.ndarray, "S N"]], steps: int, locations: int
) -> Float32[np.ndarray, "Q S N"]:
    """Stack layers into one array; without any, an empty array of the right shape."""
    return np.stack(layers) if layers else np.empty((0, steps, locations), dtype=np.float32)


def check_covariates(
    source: str, names: tuple[str, ...], values: np.ndarray, past_only: tuple[str, ...] = ()
) -> None:
    """Refuse names that cannot be columns, unknown past-only ones, and infinite values."""
    faults = Faults(source)
    check_names(names, "covariate", faults)
    unknown = [name for name in past_only if name not in names]
    if unknown:
        faults.add(f"past-only {name_some(unknown)}: not among the covariates {name_some(names)}")
    if len(set(past_only)) < len(past_only):
        faults.add(f"past-only {name_some(past_only)}: a name is given twice")
    if np.isinf(values).any():
        faults.add(
            f"{count_of(int(np.isinf(values).sum()), 'infinite value')}; use null if unknown"
        )
    faults.raise_any(DataError)


def check_names(names: Iterable[str], noun: str, faults: Faults) -> None:
    """Add a fault for ids or column names that are repeated, reserved or not printable."""
    names = tuple(names)
    seen: set[str] = set()
    doubled = [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if doubled:
        faults.add(f"{count_of(len(doubled), noun)} given twice: {name_some(doubled)}")
    reserved = [name for name in names if name in RESERVED]
    if reserved:
        faults.add(f"{noun} {name_some(reserved)}: reserved column names; rename them")
    unprintable = [
        f"'{printable(name, MAX_NAME_LENGTH)}'" for name in names if not _is_printable(name)
    ]
    if unprintable:
        rule = f"1 to {MAX_NAME_LENGTH} printable characters are allowed"
        faults.add(
            f"{count_of(len(unprintable), noun)} not usable: {name_some(unprintable)}; {rule}"
        )


def _check_display_names(names: Iterable[str], faults: Faults) -> None:
    """Add a fault for names that could command a terminal, or are too long."""
    unsafe = [f"'{printable(name, MAX_NAME_LENGTH)}'" for name in names if _UNSAFE.search(name)]
    if unsafe:
        count = f"{count_of(len(unsafe), 'name')} with control characters"
        faults.add(f"{count}: {name_some(unsafe)}; they could control a terminal; remove them")
    long = [name for name in names if len(name) > MAX_DISPLAY_LENGTH]
    if long:
        count = f"{count_of(len(long), 'name')} of more than {MAX_DISPLAY_LENGTH:,} characters"
        faults.add(f"{count}: {name_some(long)}; shorten them")


def _is_printable(name: str) -> bool:
    fits = 0 < len(name) <= MAX_NAME_LENGTH and name.strip() == name
    return fits and visible(name) == name
