"""When and where a model errs, as pictures with what to see in them."""

from collections.abc import Iterator

import numpy as np

from forecaster.evaluation.comparison import Row
from forecaster.report.breakdown import (
    Breakdown,
    by_hour,
    by_step,
    by_weather,
    by_weekday,
    place_errors,
)
from forecaster.report.charts import draw_breakdown, draw_place_errors, draw_weather, rank
from forecaster.report.maps import means
from forecaster.report.material import Material
from forecaster.report.picture import Picture
from forecaster.report.words import duration, list_names, number, percent, with_minus


def error_pictures(material: Material) -> Iterator[Picture]:
    """Yield the errors by hour, weekday, step, weather and location, as far as they differ."""
    best, rows, panel = material.best, material.drawn, material.panel
    if best is None:
        return
    step = f"steps of {duration(panel.clock.step_minutes)} ahead"
    parts = (
        ("04-hours", "By hour of the day", by_hour(rows, panel), "hour of the day, local time"),
        ("05-weekdays", "By weekday", by_weekday(rows, panel), "day of the week"),
        ("06-steps", "By step ahead", by_step(rows), step),
    )
    names = list_names([row.name for row in rows])
    for name, title, parted, what in parts:
        if parted is not None and len(parted.labels) > 1:
            say = _growth if what is step else _extremes
            kind = f"Line chart of RMSE by {what} for {names}"
            yield Picture(name, title, say(parted, best), kind, draw_breakdown(parted, what))
    weather = by_weather(rows, panel)
    if weather:
        kind = f"Dot chart of RMSE in kinds of weather for {names}"
        yield Picture(
            "07-weather", "By weather", _most(weather, best), kind, draw_weather(weather)
        )
    yield from _by_place(material, best)


def _extremes(given: Breakdown, best: Row) -> str:
    """Say when errors are largest and smallest."""
    ends = int(np.argmax(given.first)), int(np.argmin(given.first))
    at = "at" if ":" in given.labels[0] else "on"
    most, least = (f"{at} {given.labels[n]} (RMSE {number(given.first[n])})" for n in ends)
    return f"Errors of {best.name} are largest {most} and smallest {least}."


def _growth(given: Breakdown, best: Row) -> str:
    """Say how errors grow with the steps ahead."""
    first, last = float(given.first[0]), float(given.first[-1])
    grown = 100 * (last / max(first, 1e-9) - 1)
    return with_minus(
        f"From the first step to step {len(given.labels)} RMSE of {best.name} goes from "
        f"{number(first)} to {number(last)} ({grown:+.0f} %)."
    )


def _most(given: dict[str, Breakdown], best: Row) -> str:
    """Say with which weather errors differ most."""
    name, parted = next(iter(given.items()))
    high, low = int(np.argmax(parted.first)), int(np.argmin(parted.first))
    most, least = (f"{number(parted.first[n])} where {parted.labels[n]}" for n in (high, low))
    return (
        f"Errors of {best.name} differ most by {name}: RMSE {most}, {least}. Weather goes with "
        "hour and season, so a difference is not its effect alone. In brackets: steps."
    )


def _by_place(material: Material, best: Row) -> Iterator[Picture]:
    panel = material.panel
    measure, errors = place_errors(best, panel)
    ranked = rank(errors)
    if len(ranked) < 2:  # noqa: PLR2004 (nothing to compare)
        return
    shown = percent if measure == "WAPE" else number
    worst, easiest = int(ranked[0]), int(ranked[-1])
    text = (
        f"{measure} of {best.name} reaches from {shown(errors[easiest])} at "
        f"{panel.locations.names[easiest]} to {shown(errors[worst])} at "
        f"{panel.locations.names[worst]}; half of the locations are below "
        f"{shown(float(np.median(errors[ranked])))}."
    )
    scale, label = (100.0, "WAPE, %") if measure == "WAPE" else (1.0, measure)
    figure = draw_place_errors(panel.locations, scale * errors, np.abs(means(panel)), label)
    kind = f"Map or bars of {measure} at each location"
    yield Picture("08-error-by-location", "By location", text, kind, figure)
