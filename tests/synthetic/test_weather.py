import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.synthetic.weather import WEATHER_NAMES, effect_on_demand, simulate_weather


@pytest.fixture(scope="module")
def local():
    clock = Clock("America/New_York")
    return clock.local(clock.axis(np.datetime64("2010-01-01T05"), 4 * 8_766))


@pytest.fixture(scope="module")
def weather(local):
    values = simulate_weather(local, np.random.default_rng(3))
    return dict(zip(WEATHER_NAMES, values.T, strict=True))


def hour(**fields):
    """One calm, clear, mild, dry hour, but for the fields given."""
    usual = {"temperature_c": 15.0, "wind_mps": 3.0, "visibility_km": 16.0} | fields
    row = [usual.get(name, 0.0) for name in WEATHER_NAMES]
    return effect_on_demand(np.array([row], dtype=np.float32))[0]


def test_what_falls_is_rain_or_snow(weather):
    falls = weather["precipitation_mm"] > 0.0
    assert (falls == (weather["rain"] + weather["snow"] == 1.0)).all()
    assert 0.08 < falls.mean() < 0.15


def test_snow_needs_frost(weather):
    assert weather["temperature_c"][weather["snow"] == 1.0].max() <= 0.5
    assert weather["temperature_c"][weather["rain"] == 1.0].min() > 0.5
    assert weather["snow"].sum() > 100


def test_fog_means_poor_sight_in_a_dry_calm_hour(weather):
    fog = weather["fog"] == 1.0
    assert fog.sum() > 100
    assert weather["visibility_km"][fog].max() < 1.0
    assert weather["wind_mps"][fog].max() < 5.0
    assert weather["precipitation_mm"][fog].max() == 0.0
    dry = ~fog & (weather["precipitation_mm"] == 0.0)
    assert weather["visibility_km"][dry].min() >= 1.0


def test_fields_stay_in_their_ranges(weather):
    assert -30.0 < weather["temperature_c"].min() < weather["temperature_c"].max() < 45.0
    assert 0.0 < weather["wind_mps"].min() < weather["wind_mps"].max() < 40.0
    assert 0.1 <= weather["visibility_km"].min() < weather["visibility_km"].max() <= 16.0
    for flag in ("rain", "snow", "fog"):
        assert set(np.unique(weather[flag])) == {0.0, 1.0}


def test_summers_and_afternoons_are_warm(weather, local):
    month = local.astype("datetime64[M]").astype(int) % 12 + 1
    of_day = local.astype("datetime64[h]").astype(int) % 24
    warmth = weather["temperature_c"]
    assert warmth[month == 7].mean() > warmth[month == 1].mean() + 18.0
    assert warmth[of_day == 15].mean() > warmth[of_day == 4].mean() + 5.0


def test_rain_comes_in_spells(weather):
    wet = weather["precipitation_mm"] > 0.0
    assert wet[1:][wet[:-1]].mean() > 0.7


def test_weather_to_come_leaves_the_past_alone(local):
    short = simulate_weather(local[:1_024], np.random.default_rng(4))
    long = simulate_weather(local[:2_048], np.random.default_rng(4))
    assert (long[:1_024] == short).all()


def test_an_ordinary_hour_has_no_effect():
    assert hour() == 0.0


@pytest.mark.parametrize(
    ("fields", "sign"),
    [
        ({"rain": 1.0, "precipitation_mm": 2.0}, 1.0),
        ({"snow": 1.0, "precipitation_mm": 2.0}, -1.0),
        ({"fog": 1.0, "visibility_km": 0.5}, -1.0),
        ({"visibility_km": 4.0}, -1.0),
        ({"temperature_c": -10.0}, 1.0),
        ({"temperature_c": 36.0}, 1.0),
        ({"wind_mps": 14.0}, 1.0),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_each_field_moves_demand(fields, sign):
    assert sign * hour(**fields) > 0.03


def test_more_snow_keeps_more_people_at_home():
    light, heavy = (hour(snow=1.0, precipitation_mm=mm) for mm in (0.1, 8.0))
    assert heavy < light < 0.0
