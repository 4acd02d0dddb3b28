"""Maps of locations, coloured by a value."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.report.draw.canvas import FAINT, HEIGHT, INK, TEXT, WIDTH, new_figure
from forecaster.report.draw.sample import choose_shown

DEGREE_KM = 111.2  # of latitude
SIDES = (
    "#0b6ead",
    "#c9cfd4",
    "#d1600f",
)  # low, middle, high; not among the colours that a dark page replaces
SHADES = (0.15, 0.97)  # part of the colour map that is visible on white and on black
MAP_ROOM = 1.6  # inches beside a map, for names and the scale of colours
NAMED = 3  # locations with their names
NAME_ROOM = (0.4, 0.04)  # of a name, as shares of the map's width and height


def map_locations(panel: Panel) -> Any | None:
    """Map the locations by their mean; None if none has coordinates."""
    if not panel.locations.placed.any():
        return None
    mean = location_means(panel)
    return map_values(panel.locations, mean, np.abs(mean), "mean per step")


def location_means(panel: Panel) -> Float64[np.ndarray, " N"]:
    """Return the mean of the observed values of each location, 0 without any."""
    observed = np.isfinite(panel.values)
    total = np.where(observed, panel.values, 0).sum(axis=0, dtype=np.float64)
    return np.asarray(total / np.maximum(observed.sum(axis=0), 1))


def map_values(
    locations: Locations,
    values: Float64[np.ndarray, " N"],
    sizes: Float64[np.ndarray, " N"],
    label: str,
    ranked: Sequence[int] = (),
    around: float | None = None,
) -> Any:
    """Map a value of each location; of very many, of a sample (`choose_shown`).

    Args:
        locations: those without coordinates are left out.
        values: shown as colour; NaN is not drawn.
        sizes: sizes of the dots, ≥ 0.
        label: name of the values.
        ranked: locations by importance; the first few are named.
        around: centre of a two-sided colour scale; None: a one-sided scale.
    """
    figure, axes = new_map(locations)
    can_be_shown = np.flatnonzero(locations.placed & np.isfinite(values))
    extremes = np.abs(values - around) if around is not None else values
    is_size = np.array_equal(np.abs(values), sizes)
    chosen = choose_shown(sizes[can_be_shown], None if is_size else extremes[can_be_shown])
    shown = can_be_shown[chosen]
    if len(shown) < len(can_be_shown):
        _write_share(axes, len(shown), len(can_be_shown))
    lat, lon = locations.lat[shown], locations.lon[shown]
    area = (20 + 170 * sizes[shown] / max(float(sizes.max(initial=0)), 1e-9)) * _room(len(lat))
    dots = axes.scatter(
        lon,
        lat,
        s=area,
        c=values[shown],
        **_colours(values[shown], around),
        alpha=0.9,
        linewidths=0.5,
        edgecolors=INK,
    )
    bar = figure.colorbar(dots, ax=axes, shrink=0.6)
    bar.solids.set_rasterized(True)  # else 256 rectangles
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=TEXT - 1, color=FAINT)
    bar.set_label(label, color=INK, fontsize=TEXT)
    seen = frozenset(shown.tolist())
    write_names(axes, locations, {n: locations.names[n] for n in ranked if n in seen}, NAMED)
    return figure


def new_map(locations: Locations) -> tuple[Any, Any]:
    """Return an empty map for the locations with coordinates: figure and axes."""
    lat, lon = locations.lat[locations.placed], locations.lon[locations.placed]
    stretch = 1 / max(float(np.cos(np.radians(lat.mean()))), 0.05)  # of a degree of latitude
    tall = float(np.clip(np.ptp(lat) * stretch / max(np.ptp(lon), 1e-9), 0.5, 2.0))
    figure = new_figure(min(HEIGHT / tall + MAP_ROOM, WIDTH), HEIGHT)
    axes = figure.subplots()
    axes.set_aspect(stretch, adjustable="datalim")
    axes.margins(0.06, 0.1)  # room above for names
    axes.set_axis_off()
    _draw_scale(axes, lat, lon)
    return figure, axes


def write_names(axes: Any, locations: Locations, names: Mapping[int, str], most: int) -> None:
    """Write the first few names beside their locations, skipping names that would overlap."""
    at = np.column_stack([locations.lon, locations.lat])
    room = NAME_ROOM * np.ptp(at[locations.placed], axis=0)
    written: list[int] = []
    for n, name in names.items():
        hidden = (np.abs(at[written] - at[n]) < room).all(axis=1).any()
        if locations.placed[n] and not hidden and len(written) < most:
            _write_name(axes, name, at[n], _is_freer_left(at - at[n], room))
            written.append(n)


def _write_share(axes: Any, shown: int, count: int) -> None:
    """Write how many of the locations a map shows."""
    axes.annotate(
        f"{shown:,} of {count:,} locations", (0, 0), (2, 2), xycoords="axes fraction", color=INK,
        textcoords="offset points", fontsize=TEXT - 1,
    )  # fmt: skip


def _is_freer_left(apart: Float64[np.ndarray, "N 2"], room: Float64[np.ndarray, " 2"]) -> bool:
    """Whether a name fits better on the left: inside the map, then over fewer dots."""
    level = np.abs(apart[:, 1]) < room[1]
    right, left = (
        (bool(np.nanmax(x) < room[0] / 2), int(((x > 0) & (x < room[0]) & level).sum()))
        for x in (apart[:, 0], -apart[:, 0])
    )
    return left < right


def _write_name(axes: Any, name: str, at: Float64[np.ndarray, " 2"], left: bool) -> None:
    """Write a name beside a location, on a light background."""
    words = axes.annotate(
        name, at, (-5 if left else 5, 4), color=INK, fontsize=TEXT - 2, zorder=4,
        textcoords="offset points", ha="right" if left else "left", parse_math=False,
        bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
    )  # fmt: skip
    words.set_in_layout(False)  # a long name must not make the map small


def _draw_scale(axes: Any, lat: Float64[np.ndarray, " K"], lon: Float64[np.ndarray, " K"]) -> None:
    """Draw a scale bar of 1, 2 or 5 · 10ⁿ km, at most a quarter of the map."""
    shrink = max(float(np.cos(np.radians(lat.mean()))), 0.05)
    extent = max(float(np.ptp(lat)), float(np.ptp(lon)) * shrink) * DEGREE_KM
    if not extent:
        return
    power = 10.0 ** np.floor(np.log10(extent / 4))
    km = max(step * power for step in (1, 2, 5) if step * power <= extent / 4)
    right, bottom = float(lon.max()), float(lat.min()) - 0.06 * extent / DEGREE_KM  # below names
    left = right - km / (DEGREE_KM * shrink)
    axes.plot([left, right], [bottom, bottom], color=INK, linewidth=1.5, solid_capstyle="butt")
    axes.annotate(
        f"{km:g} km", ((left + right) / 2, bottom), (0, 4), color=INK, fontsize=TEXT - 1,
        textcoords="offset points", ha="center",
    )  # fmt: skip


def _colours(values: Float64[np.ndarray, " K"], around: float | None) -> dict[str, Any]:
    """Return the colour map and its limits."""
    from matplotlib import colormaps  # noqa: PLC0415 (an extra)
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap  # noqa: PLC0415

    if around is None:
        return {"cmap": ListedColormap(colormaps["viridis"](np.linspace(*SHADES, 256)))}
    reach = max(float(np.abs(values - around).max(initial=0)), 1e-9)
    sides = LinearSegmentedColormap.from_list("sides", SIDES)
    return {"cmap": sides, "vmin": around - reach, "vmax": around + reach}


def _room(count: int) -> float:
    """Return the factor by which dots shrink when there are many."""
    return min(1.0, 9 / count**0.5) if count else 1.0
