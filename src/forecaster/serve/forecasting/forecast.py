"""A forecast of all locations from one origin, with what it rests on."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from forecaster.choices import Weather
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import look_ahead
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.serve.data.snapshot import Overlay

WEEK_DAYS = 7
DAY_STEPS_BACK = 2  # days beyond the oldest lag, which clock changes and short seasons may need


@dataclass(frozen=True, eq=False)
class Model:
    """The run that is served."""

    estimator: Estimator
    digest: str  # 12 hex digits of the run's hash

    @property
    def horizon(self) -> int:
        """How many steps ahead it forecasts: K."""
        return self.estimator.recipe.lags.horizon

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels of its quantiles; none where it has no intervals."""
        return tuple(getattr(self.estimator, "levels", ()))


@dataclass(frozen=True)
class Key:
    """What a forecast belongs to: the same key, the same numbers."""

    model: str
    version: int
    origin: int  # step of the panel


@dataclass(frozen=True, eq=False)
class Answer:
    """The numbers of one forecast, by location in the panel's order."""

    key: Key
    panel: Panel  # whose clock and locations these are
    origin: np.datetime64  # UTC
    levels: tuple[float, ...]
    y_hat: Float32[np.ndarray, "K N"]
    quantiles: Float32[np.ndarray, "Q K N"]
    last: Float32[np.ndarray, " N"]  # the value at the origin
    usual: Float32[np.ndarray, "K N"]  # a week before each step
    degraded: str | None
    provisional: bool = False  # its intervals are as they were calibrated; ask again
    json: bytes = b""  # all of it as JSON, where somebody will ask for that

    @cached_property
    def times(self) -> Shaped[np.ndarray, " K"]:
        """The instants that are forecast, UTC."""
        return self.panel.clock.axis(self.origin, len(self.y_hat) + 1)[1:]

    @property
    def locations(self) -> Locations:
        """The locations, in the order of the numbers."""
        return self.panel.locations


def cut(
    model: Model, overlay: Overlay, origin: int, oldest: int | None = None
) -> tuple[Panel, int]:
    """Return what forecasts up to that from a step may see, and the step's place in it.

    Args:
        model: whose lags decide how far back that reaches.
        overlay: the data.
        origin: the last step that is seen.
        oldest: an earlier one that is forecast from as well.
    """
    clock, lags = overlay.base.clock, model.estimator.recipe.lags
    day = 24 * 60 // min(clock.step_minutes, 24 * 60)
    needed = clock.needed_steps(lags, np.array([overlay.time_of(origin)]))
    needed = max(needed, WEEK_DAYS * day) + lags.horizon + DAY_STEPS_BACK * day
    first = max((origin if oldest is None else oldest) + 1 - needed, 0)
    return overlay.panel(first, origin + 1, origin + 1 + lags.horizon), origin - first


def week_before(panel: Panel, origin: int, horizon: int) -> Float32[np.ndarray, "K N"]:
    """Return the values at the wall-clock time of t+1…t+K a week before, NaN where unknown."""
    ahead = np.arange(1, horizon + 1)
    origins = panel.times[[origin]]
    back = panel.clock.same_time_steps(ahead, np.array([WEEK_DAYS]), origins)[0, 0]
    steps = origin - back
    known = (steps >= 0) & (steps <= origin)
    values = panel.values[np.where(known, steps, 0)]
    return np.where(known[:, None], values, np.float32(np.nan))


def choose_weather(
    panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int
) -> tuple[Weather, str | None]:
    """Return what to take for covariates ahead, and why a forecast is the worse for it."""
    world, local = look_ahead(panel, origins, horizon)
    if np.isfinite(world).all() and np.isfinite(local).all():
        return "observed", None
    return "persist", "weather: none is known ahead, so that of the origin is taken to stay"
