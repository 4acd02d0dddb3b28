"""Simulated hourly weather of a temperate coast: seven consistent fields, and its effect."""

import numpy as np
from jaxtyping import Float32, Float64

from forecaster.clock.zone import Times
from forecaster.synthetic.streams import autoregress

WEATHER_NAMES = (
    "temperature_c",
    "wind_mps",
    "precipitation_mm",
    "visibility_km",
    "rain",
    "snow",
    "fog",
)
# AR(1) coefficients of the hidden drivers, per hour.
_PERSISTENCE = np.array([0.98, 0.95, 0.93, 0.93])  # warmth, moisture, gusts, haze
_WET = 1.2  # moisture above which it rains or snows: 11.5 % of the hours
_FREEZING_C = 0.5  # at or below it, precipitation is snow
_FOGGY, _CALM_MPS = 1.9, 5.0  # haze above which fog forms, wind that blows it away
_CLEAR_KM = 16.0
_DAY_SECONDS, _YEAR_DAYS = 86_400, 365.25


def simulate_weather(local: Times, generator: np.random.Generator) -> Float32[np.ndarray, "T 7"]:
    """Simulate the weather at local times: columns as in `WEATHER_NAMES`, to one decimal.

    Rain and snow imply precipitation, snow implies frost, fog implies a dry calm hour with a
    visibility below 1 km.
    """
    before = generator.standard_normal(len(_PERSISTENCE))
    shocks = generator.standard_normal((len(local), len(_PERSISTENCE)))
    warmth, moisture, gusts, haze = autoregress(shocks, _PERSISTENCE, before).T
    excess = np.maximum(moisture - _WET, 0.0)
    precipitation = np.where(excess > 0.0, 0.1 + 4.0 * excess**1.5, 0.0).round(1)
    temperature = (_climate(local) + 4.0 * warmth - 1.5 * (excess > 0.0)).round(1)
    wind = (4.1 * np.exp(0.45 * gusts)).round(1)
    wet, cold = precipitation > 0.0, temperature <= _FREEZING_C
    rain, snow = wet & ~cold, wet & cold
    fog = ~wet & (haze > _FOGGY) & (wind < _CALM_MPS)
    dimming = 0.35 * precipitation * np.where(snow, 5.0, 1.0) + 0.3 * np.maximum(haze, 0.0) ** 2
    sight = np.where(fog, 0.9 * np.exp(_FOGGY - haze), _CLEAR_KM / (1.0 + dimming))
    visibility = np.maximum(sight, 0.1).round(1)
    fields = (temperature, wind, precipitation, visibility, rain, snow, fog)
    return np.column_stack(fields).astype(np.float32)


def effect_on_demand(weather: Float32[np.ndarray, "T 7"]) -> Float64[np.ndarray, " T"]:
    """Return the effect of the weather on the log of demand.

    Rain, cold and heat raise demand; snow, fog and poor visibility lower it.
    """
    temperature, wind, precipitation, visibility, rain, snow, fog = weather.astype(np.float64).T
    amount = np.log1p(precipitation)
    by_water = rain * (0.06 + 0.06 * amount) - snow * (0.12 + 0.18 * amount)
    by_heat = 0.08 * np.maximum(5.0 - temperature, 0.0) + 0.05 * np.maximum(temperature - 26.0, 0)
    by_air = 0.012 * np.maximum(wind - 8.0, 0.0) - 0.003 * (_CLEAR_KM - visibility) - 0.04 * fog
    return np.asarray(by_water + by_heat / 10.0 + by_air)


def _climate(local: Times) -> Float64[np.ndarray, " T"]:
    """Return the mean temperature of the season and the time of day."""
    seconds = local.astype("datetime64[s]").astype(np.int64)
    hour = (seconds % _DAY_SECONDS) / 3600.0
    january = local.astype("datetime64[Y]").astype("datetime64[s]").astype(np.int64)
    day = (seconds - january) / _DAY_SECONDS
    season = -np.cos(2.0 * np.pi * (day - 20.0) / _YEAR_DAYS)  # coldest on 21 January
    return np.asarray(12.5 + 11.5 * season + 3.5 * np.cos(2.0 * np.pi * (hour - 15.0) / 24.0))
