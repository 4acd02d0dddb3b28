"""What if it rains, as a picture with what to see in it."""

from typing import Any

import numpy as np
from jaxtyping import Float64

from forecaster.evaluation.comparison import Row
from forecaster.panel.parts import Locations
from forecaster.report.charts import MOST_PLACES, draw_bars, rank, shorten
from forecaster.report.maps import map_values
from forecaster.report.material import Material
from forecaster.report.picture import Picture, Section
from forecaster.report.what_if import RainEffect, measure_rain, suppose_rain
from forecaster.report.words import number, percent, with_minus


def what_if_section(material: Material) -> Section:
    """Return the change of the forecasts with rain, by the first model that answers to it."""
    text = (
        "The same forecasts with rain in all coming steps and without, all else as it was: what "
        "the model has learned to expect with rain, which need not be what rain alone does."
    )
    for row in material.drawn if suppose_rain(material.panel) is not None else ():
        effect = measure_rain(material.estimator_of(row), material.panel, row.first)
        if effect is not None:
            facts = {"What was supposed": _describe(effect, row)}
            pictures = [_map_change(material, effect, row)]
            return Section("what-if", "What if it rains", text, pictures, facts)
    return Section("what-if", "What if it rains", text, [])


def draw_change(
    locations: Locations,
    change: Float64[np.ndarray, " N"],
    sizes: Float64[np.ndarray, " N"],
    label: str,
) -> Any:
    """Return the change at all locations on a map, or as bars if none has coordinates.

    Args:
        locations: where they are.
        change: more is orange, less is blue; NaN is not drawn.
        sizes: how large the dots are, from 0 on.
        label: what the change is.
    """
    ranked = rank(np.abs(change)).tolist()
    if locations.placed.any():
        return map_values(locations, change, sizes, label, ranked, around=0.0)
    shown = ranked[:MOST_PLACES]
    return draw_bars([shorten(locations.names[n]) for n in shown], change[shown], label)


def _map_change(material: Material, effect: RainEffect, row: Row) -> Picture:
    panel, counts = material.panel, material.panel.kind == "count"
    change = effect.change(panel.kind)
    low, high = int(np.nanargmin(change)), int(np.nanargmax(change))
    ends = (f"{_show(change[n], counts)} at {panel.locations.names[n]}" for n in (low, high))
    whole = effect.whole if counts else float(np.mean(change))
    of = "in all" if counts else "on average"
    text = f"With rain {row.name} forecasts {_more(whole, counts)} {of}: {' to '.join(ends)}."
    scale, label = (100.0, "change with rain, %") if counts else (1.0, "change with rain")
    figure = draw_change(panel.locations, scale * change, np.abs(effect.dry), label)
    kind = "Map or bars of the change of the forecast with rain at each location"
    return Picture("14-what-if-rain", "With rain against without", text, kind, figure)


def _describe(effect: RainEffect, row: Row) -> dict[str, str]:
    """Return what was supposed in words."""
    wet, dry = (
        ", ".join(f"{name} {value:.3g}" for name, value in sky.items())
        for sky in (effect.supposed, dict.fromkeys(effect.supposed, 0.0))
    )
    return {
        "model": row.name,
        "with rain": f"{wet}: medians of wet steps, for all coming steps",
        "without": dry,
        "origins": f"{effect.origins:,} of {len(row.first.origins):,} that were tested",
    }


def _more(change: float, counts: bool) -> str:
    """Return a change in words: `4.2 % more`, `0.31 less`."""
    size = percent(abs(change)) if counts else number(abs(change))
    return f"{size} {'less' if change < 0 else 'more'}"


def _show(change: float, counts: bool) -> str:
    """Return a change with its sign: `+4.2 %`, `−0.31`."""
    text = percent(change) if counts else number(change)
    return with_minus(text if text.startswith("-") else f"+{text}")
