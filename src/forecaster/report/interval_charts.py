"""Charts of intervals: how much more or less of what came they hold than they should."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from forecaster.evaluation.backtest import Form
from forecaster.panel.parts import Locations
from forecaster.report import canvas
from forecaster.report.canvas import BLUE, FAINT, INK, ORANGE, WIDTH
from forecaster.report.charts import CROWDED, both_ends, shorten
from forecaster.report.intervals import Held
from forecaster.report.maps import map_values

NEAR = 0.02  # to either side of what is wanted: the ground that is shaded
LEAST_REACH = 0.04  # of the axis, to either side: a small difference must not look large
BAR = 0.8  # of the room of a group that its bars fill
LABEL = "within the interval, %"
COLOURS: dict[Form, str] = {"static": ORANGE, "online": BLUE}

Shares = Mapping[Form, Float64[np.ndarray, " G"]]


def draw_held(given: Held, wanted: float, what: str) -> Any:
    """Return bars that reach from what is wanted to what came within, upright.

    Args:
        given: the shares of each group.
        wanted: the share that should lie within.
        what: what the groups are.
    """
    figure = canvas.new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    at = np.arange(len(given.labels))
    thick = BAR / len(given.shares)
    for number, (form, shares) in enumerate(given.shares.items()):
        place = at + (number + 0.5) * thick - BAR / 2
        more = 100 * (shares - wanted)
        axes.bar(place, more, thick, bottom=100 * wanted, color=COLOURS[form], label=form)
    _mark_wanted(axes.axhspan, axes.axhline, wanted)
    axes.set_ylim(*_limits(given.shares, wanted))
    every = 1 if len(at) <= CROWDED else 3
    axes.set_xticks(at[::every], given.labels[::every])
    canvas.style(axes, what, LABEL)
    _explain(figure, axes)
    return figure


def draw_held_in_weather(given: Mapping[str, Held], wanted: float) -> Any:
    """Return such bars for each kind of weather, lying."""
    names: list[str] = []
    at: list[float] = []
    for number, (name, parted) in enumerate(given.items()):
        for label, steps in zip(parted.labels, parted.steps.tolist(), strict=True):
            at.append(len(names) + 0.6 * number)  # room between covariates
            names.append(f"{shorten(name)}: {label} ({steps:,})")
    forms = next(iter(given.values())).shares
    shares = {f: np.concatenate([parted.shares[f] for parted in given.values()]) for f in forms}
    return _draw_lying(names, np.array(at), shares, wanted)


def draw_held_at_places(
    locations: Locations,
    shares: Float64[np.ndarray, " N"],
    sizes: Float64[np.ndarray, " N"],
    wanted: float,
) -> Any:
    """Return the shares of all locations on a map, or as bars if none has coordinates.

    Args:
        locations: where they are.
        shares: that lay within, online; NaN is not drawn.
        sizes: how large the dots are, from 0 on.
        wanted: the share that should lie within.
    """
    known = np.flatnonzero(np.isfinite(shares))
    order = known[np.argsort(shares[known], kind="stable")].tolist()  # too sure first
    if locations.placed.any():
        return map_values(locations, 100 * shares, sizes, LABEL, order, around=100 * wanted)
    shown = both_ends(order)
    names = [shorten(locations.names[n]) for n in shown]
    at = np.arange(len(shown), dtype=np.float64)
    return _draw_lying(names, at, {"online": shares[shown]}, wanted)


def _draw_lying(
    names: Sequence[str], at: Float64[np.ndarray, " G"], shares: Shares, wanted: float
) -> Any:
    figure = canvas.new_figure(WIDTH, 1.1 + 0.24 * (float(at[-1]) + 1))
    axes = figure.subplots()
    thick = BAR / len(shares)
    for number, (form, held) in enumerate(shares.items()):
        place = at + (number + 0.5) * thick - BAR / 2
        more = 100 * (held - wanted)
        axes.barh(place, more, thick, left=100 * wanted, color=COLOURS[form], label=form)
    _mark_wanted(axes.axvspan, axes.axvline, wanted)
    axes.set_xlim(*_limits(shares, wanted))
    canvas.style_rows(axes, at, names, LABEL)
    _explain(figure, axes)
    return figure


def _mark_wanted(shade: Any, rule: Any, wanted: float) -> None:
    """Draw what is wanted as a line, and the ground near it."""
    low, high = 100 * (wanted - NEAR), 100 * (wanted + NEAR)
    shade(low, high, color=FAINT, alpha=0.2, linewidth=0, zorder=0)
    label = f"wanted: {100 * wanted:g} %, ± {100 * NEAR:g} shaded"
    rule(100 * wanted, color=INK, linewidth=1.2, label=label)


def _limits(shares: Shares, wanted: float) -> tuple[float, float]:
    """Return where the axis ends: as far to either side as the furthest bar, within 0 … 100."""
    furthest = max(float(np.abs(held - wanted).max(initial=0)) for held in shares.values())
    reach = 1.1 * max(furthest, LEAST_REACH)
    return 100 * max(wanted - reach, 0.0), 100 * min(wanted + reach, 1.0)


def _explain(figure: Any, axes: Any) -> None:
    """Say which bar is which, and what the line is."""
    handles, _ = axes.get_legend_handles_labels()
    canvas.write_legend(figure, handles, columns=3)
