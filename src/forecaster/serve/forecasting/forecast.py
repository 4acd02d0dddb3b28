"""The served model, and a forecast of all locations from one origin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float32, Shaped

from forecaster.artifact import Run
from forecaster.estimators.base import Estimator
from forecaster.estimators.fallback.served import served_models
from forecaster.estimators.intervals.calibration import RESIDUALS
from forecaster.estimators.totals.totals import TotalCalibration, Totals
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.serve.forecasting.json_rows import JsonRows


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded run."""

    estimator: Estimator
    digest: str  # 12 hex digits of the run's hash
    version: str | None = None  # its name in a folder of versions

    @property
    def horizon(self) -> int:
        """The horizon: K."""
        return self.estimator.recipe.lags.horizon

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """The levels of its quantiles; empty without intervals."""
        return self.estimator.quantile_levels

    @cached_property
    def ids(self) -> frozenset[str]:
        """The locations that it was trained on."""
        run = self.estimator.run
        return frozenset() if run is None else frozenset(run.about["ids"])

    @cached_property
    def columns(self) -> dict[str, int]:
        """The column of each of them in the run."""
        run = self.estimator.run
        return {} if run is None else {name: n for n, name in enumerate(run.about["ids"])}

    @property
    def accepts_new_locations(self) -> bool:
        """Whether it forecasts locations that it was not trained on."""
        return self.estimator.accepts_new_locations

    def totals(self, run: Run, ids: tuple[str, ...]) -> TotalCalibration | None:
        """The calibration of totals over days; None: the run stores no residuals for it.

        Args:
            run: with the locations.
            ids: of the locations, in their order.
        """
        if self.quantile_levels and RESIDUALS not in run.arrays:
            return None
        calibration = self._totals.get(ids)
        if calibration is None:  # the locations have changed; other threads may ask for theirs
            calibration = TotalCalibration.of(run, ids)
            self._totals.clear()
            self._totals[ids] = calibration
        return calibration

    @cached_property
    def _totals(self) -> dict[tuple[str, ...], TotalCalibration]:
        return {}

    @cached_property
    def fallback(self) -> dict[str, str]:
        """The simple models that are served, by the ids of their locations."""
        run = self.estimator.run
        return served_models(run) if run is not None else {}


@dataclass(frozen=True)
class ForecastKey:
    """The identity of a forecast: the same key, the same numbers."""

    model: str
    version: int
    origin: int  # step of the panel


@dataclass(frozen=True, eq=False)
class Forecast:
    """The numbers of one forecast, by location in the panel's order."""

    key: ForecastKey
    panel: Panel  # its clock and locations
    origin: np.datetime64  # UTC
    quantile_levels: tuple[float, ...]
    y_hat: Float32[np.ndarray, "K N"]  # the mean
    quantiles: Float32[np.ndarray, "Q K N"]
    last: Float32[np.ndarray, " N"]  # the value at the origin
    usual: Float32[np.ndarray, "K N"]  # the value a week before each step
    degraded: str | None
    y_relative: Float32[np.ndarray, "K N"] | None = None  # with the lowest relative error, if any
    fallback: Mapping[str, str] = field(default_factory=dict)  # simple models, by location
    doubts: Mapping[str, str] = field(default_factory=dict)  # doubtful values, by location
    closed: Bool[np.ndarray, "K N"] | None = None  # outside opening hours; None: nowhere
    totals: Totals | None = None  # over days; None: the horizon is shorter than a day
    provisional: bool = False  # its intervals are not yet adjusted to recent outcomes
    json: JsonRows | None = None  # the encoded forecast
    batch: pa.RecordBatch | None = None  # the long table
    arrow: bytes = b""  # the same as an Arrow stream, without its schema

    @cached_property
    def times(self) -> Shaped[np.ndarray, " K"]:
        """The forecast instants, UTC."""
        return self.panel.clock.axis(self.origin, len(self.y_hat) + 1)[1:]

    @property
    def locations(self) -> Locations:
        """The locations, in the order of the numbers."""
        return self.panel.locations
