"""The section on the effect of rain: forecasts with rain in all future steps and without."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import Changes
from forecaster.evaluation.backtest import BacktestResult
from forecaster.evaluation.comparison import ModelResult
from forecaster.ingest.station import QUANTITIES
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.report.data import ReportData
from forecaster.report.draw.charts import MOST_BARS, draw_bars, rank_locations, shorten
from forecaster.report.draw.maps import map_values
from forecaster.report.formatting import number, percent, with_minus
from forecaster.report.sections.section import Picture, Section

RAIN, AMOUNT = "rain", QUANTITIES["precipitation"].name
MOST_ORIGINS = 240  # spread evenly over the test

Scenario: TypeAlias = dict[str, float]  # values of covariates by name


@dataclass(frozen=True, eq=False)
class RainEffect:
    """Forecasts with and without rain, the mean over origins and steps."""

    scenario: Scenario  # with rain
    origins: int
    dry: Float64[np.ndarray, " N"]
    wet: Float64[np.ndarray, " N"]

    @property
    def total_change(self) -> float:
        """The relative change of the sum over all locations."""
        dry, wet = float(self.dry.sum()), float(self.wet.sum())
        return (wet - dry) / max(abs(dry), 1e-9)

    def change(self, kind: str) -> Float64[np.ndarray, " N"]:
        """Return the change at each location: relative for counts, absolute for measurements."""
        difference = np.asarray(self.wet - self.dry)
        if kind != "count":
            return difference
        relative = np.full_like(self.dry, np.nan)
        return np.asarray(np.divide(difference, self.dry, out=relative, where=self.dry > 0))


def what_if_section(data: ReportData) -> Section:
    """Return the change of the forecasts with rain, by the first model that depends on rain."""
    title = "Effect of rain on the forecast"
    text = (
        "The same forecasts with rain in all future steps and without, everything else unchanged. "
        "This is what the model has learned to expect with rain, not necessarily what rain causes."
    )
    for row in data.drawn if rain_scenarios(data.panel) is not None else ():
        effect = measure_rain_effect(data.estimator_of(row), data.panel, row.first)
        if effect is not None:
            facts = {"Scenarios": _describe_scenarios(effect, row)}
            picture = _picture(data, effect, row)
            return Section("what-if", title, text, [picture], facts, summary=picture.text)
    return Section("what-if", title, text, [])


def measure_rain_effect(
    estimator: Estimator, panel: Panel, assessment: BacktestResult
) -> RainEffect | None:
    """Forecast some tested origins with and without rain.

    None if the panel has no rain or the forecasts do not depend on it.
    """
    scenarios = rain_scenarios(panel)
    if scenarios is None:
        return None
    origins = _choose_origins(panel, assessment)
    horizon = assessment.by_location.squares.shape[0]
    dry, wet = (
        estimator.predict(panel, origins, assessment.weather, changes=_constant(values, horizon))
        for values in scenarios
    )  # [B, K, N]
    if np.array_equal(dry, wet) or not dry.any():
        return None
    return RainEffect(
        scenario=scenarios[1],
        origins=len(origins),
        dry=dry.mean(axis=(0, 1), dtype=np.float64),
        wet=wet.mean(axis=(0, 1), dtype=np.float64),
    )


def rain_scenarios(panel: Panel) -> tuple[Scenario, Scenario] | None:
    """Return covariates without rain, and with the median amount of the wet steps."""
    rain, amount = (_covariate(panel, name) for name in (RAIN, AMOUNT))
    wet = rain > 0
    if not wet.any() or not (rain == 0).any():
        return None
    wet_values = {RAIN: rain[wet]}
    if len(amount) == len(rain) and (amount[wet] > 0).any():
        wet_values[AMOUNT] = amount[wet & (amount > 0)]
    medians = {name: float(np.median(values)) for name, values in wet_values.items()}
    return dict.fromkeys(wet_values, 0.0), medians


def draw_location_changes(
    locations: Locations,
    change: Float64[np.ndarray, " N"],
    sizes: Float64[np.ndarray, " N"],
    label: str,
) -> Any:
    """Draw the change at all locations on a map, or as bars if none has coordinates.

    Args:
        locations: the sites of the panel.
        change: increases are orange, decreases blue; NaN is not drawn.
        sizes: sizes of the dots, ≥ 0.
        label: name of the change.
    """
    ranked = rank_locations(np.abs(change)).tolist()
    if locations.placed.any():
        return map_values(locations, change, sizes, label, ranked, around=0.0)
    shown = ranked[:MOST_BARS]
    return draw_bars([shorten(locations.names[n]) for n in shown], change[shown], label)


def _covariate(panel: Panel, name: str) -> Float32[np.ndarray, " n"]:
    """Return all values of a shared or local covariate; empty if none of that name can change."""
    shared, local = panel.covariates, panel.local_covariates
    if name in panel.past_only:
        return np.empty(0, dtype=np.float32)
    if name in shared.names:
        return np.asarray(shared.values[:, shared.names.index(name)])
    layers = local.values[[local.names.index(name)] if name in local.names else []]
    return layers.reshape(-1)


def _choose_origins(panel: Panel, assessment: BacktestResult) -> Int64[np.ndarray, " B"]:
    """Return up to MOST_ORIGINS of the tested origins, as steps of the panel."""
    steps = panel.step_index(assessment.origins)
    count = min(len(steps), MOST_ORIGINS)
    return np.asarray(steps[np.linspace(0, len(steps) - 1, count).astype(np.int64)])


def _constant(values: Scenario, horizon: int) -> Changes:
    """Return a scenario with the same values at every step ahead."""
    return {name: np.full(horizon, value, np.float32) for name, value in values.items()}


def _picture(data: ReportData, effect: RainEffect, row: ModelResult) -> Picture:
    panel, counts = data.panel, data.panel.kind == "count"
    change = effect.change(panel.kind)
    ends = int(np.nanargmin(change)), int(np.nanargmax(change))
    low, high = (f"{_signed(change[n], counts)} at {panel.locations.names[n]}" for n in ends)
    total = effect.total_change if counts else float(np.mean(change))
    scope = "in total" if counts else "on average"
    text = (
        f"With rain the forecast of {row.name} is {_higher_or_lower(total, counts)} {scope}, "
        f"from {low} to {high}."
    )
    scale, label = (100.0, "change with rain, %") if counts else (1.0, "change with rain")
    figure = draw_location_changes(panel.locations, scale * change, np.abs(effect.dry), label)
    alt = "Map or bar chart of the change of the forecast with rain by location"
    return Picture("14-what-if-rain", "Change of the forecast with rain", text, alt, figure)


def _describe_scenarios(effect: RainEffect, row: ModelResult) -> dict[str, str]:
    wet, dry = (
        ", ".join(f"{name} {value:.3g}" for name, value in scenario.items())
        for scenario in (effect.scenario, dict.fromkeys(effect.scenario, 0.0))
    )
    return {
        "model": row.name,
        "with rain": f"{wet} in all future steps (median of the wet steps)",
        "without rain": dry,
        "forecast origins": f"{effect.origins:,} of {len(row.first.origins):,} tested",
    }


def _higher_or_lower(change: float, counts: bool) -> str:
    """Return a change in words: `4.2 % higher`, `0.31 lower`."""
    size = percent(abs(change)) if counts else number(abs(change))
    return f"{size} {'lower' if change < 0 else 'higher'}"


def _signed(change: float, counts: bool) -> str:
    """Return a change with its sign: `+4.2 %`, `−0.31`."""
    text = percent(change) if counts else number(change)
    return with_minus(text if text.startswith("-") else f"+{text}")
