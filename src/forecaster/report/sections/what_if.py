"""What a model makes of rain: its forecasts with rain in the coming steps against those without.

Everything else stays as it was, so this is what the model has learned to expect with rain; that
rain is the cause is not said.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import Changes
from forecaster.evaluation.backtest import Assessment
from forecaster.evaluation.comparison import Row
from forecaster.ingest.station import QUANTITIES
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.report.data import Material
from forecaster.report.draw.charts import MOST_PLACES, draw_bars, rank, shorten
from forecaster.report.draw.maps import map_values
from forecaster.report.formatting import number, percent, with_minus
from forecaster.report.sections.section import Picture, Section

RAIN, AMOUNT = "rain", QUANTITIES["precipitation"].name
MOST_ORIGINS = 240  # spread evenly over the test

Sky: TypeAlias = dict[str, float]  # covariates by name


@dataclass(frozen=True, eq=False)
class RainEffect:
    """Forecasts with and without rain, the mean over origins and steps."""

    supposed: Sky  # of the coming steps
    origins: int
    dry: Float64[np.ndarray, " N"]
    wet: Float64[np.ndarray, " N"]

    @property
    def whole(self) -> float:
        """The change of the sum of all locations, as a share of it without rain."""
        dry, wet = float(self.dry.sum()), float(self.wet.sum())
        return (wet - dry) / max(abs(dry), 1e-9)

    def change(self, kind: str) -> Float64[np.ndarray, " N"]:
        """Return the change at each location: of counts as a share, of measurements itself."""
        difference = np.asarray(self.wet - self.dry)
        if kind != "count":
            return difference
        nowhere = np.full_like(self.dry, np.nan)
        return np.asarray(np.divide(difference, self.dry, out=nowhere, where=self.dry > 0))


def measure_rain(estimator: Estimator, panel: Panel, found: Assessment) -> RainEffect | None:
    """Return what an estimator makes of rain at some tested origins; None: nothing, or no rain."""
    supposed = suppose_rain(panel)
    if supposed is None:
        return None
    origins = _choose_origins(panel, found)
    horizon = found.places.squares.shape[0]
    dry, wet = (
        estimator.predict(panel, origins, found.weather, changes=_lasting(values, horizon))
        for values in supposed
    )  # [B, K, N]
    if np.array_equal(dry, wet) or not dry.any():
        return None
    return RainEffect(
        supposed=supposed[1],
        origins=len(origins),
        dry=dry.mean(axis=(0, 1), dtype=np.float64),
        wet=wet.mean(axis=(0, 1), dtype=np.float64),
    )


def suppose_rain(panel: Panel) -> tuple[Sky, Sky] | None:
    """Return covariates without rain, and with as much as half of the wet steps have."""
    rain, amount = (_covariate(panel, name) for name in (RAIN, AMOUNT))
    wet = rain > 0
    if not wet.any() or not (rain == 0).any():
        return None
    known = {RAIN: rain[wet]}
    if len(amount) == len(rain) and (amount[wet] > 0).any():
        known[AMOUNT] = amount[wet & (amount > 0)]
    return dict.fromkeys(known, 0.0), {n: float(np.median(v)) for n, v in known.items()}


def _covariate(panel: Panel, name: str) -> Float32[np.ndarray, " n"]:
    """Return all values of a covariate, of the city or of its locations; nothing of none."""
    world, own = panel.covariates, panel.local_covariates
    if name in world.names:
        return np.asarray(world.values[:, world.names.index(name)])
    layers = own.values[[own.names.index(name)] if name in own.names else []]
    return layers.reshape(-1)


def _choose_origins(panel: Panel, found: Assessment) -> Int64[np.ndarray, " B"]:
    """Return some of the tested origins, as steps of the panel."""
    steps = (found.origins - int(panel.start.astype(np.int64))) // (panel.clock.step_minutes * 60)
    count = min(len(steps), MOST_ORIGINS)
    return np.asarray(steps[np.linspace(0, len(steps) - 1, count).astype(np.int64)])


def _lasting(values: Sky, horizon: int) -> Changes:
    return {name: np.full(horizon, value, np.float32) for name, value in values.items()}


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
