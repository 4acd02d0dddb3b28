"""The forecast to explain: its origin, its location and the inputs of the network."""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import numpy as np
from jaxtyping import Float64

from forecaster.artifact import Run
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, RunError
from forecaster.estimators.base import Estimator
from forecaster.estimators.ensemble.ensemble import Ensemble
from forecaster.estimators.forecast_inputs import (
    At,
    ForecastInputs,
    bounded_history,
    carry_forward,
    fill_closed_gaps,
    fill_of,
    find_origin,
    hold_past_only,
    knows_whole_hours,
    label_missing,
    look_ahead,
    look_back,
    refuse_unknown_future,
)
from forecaster.estimators.graph_arrays import PAIRS, RunEdges, edges_of
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.explain.attribution import Window, integrated_gradients
from forecaster.panel.fill import fill_missing
from forecaster.panel.panel import Panel

EXPLAINABLE = (
    "Forecaster",
    "Transformer",
    "DCRNN",
    "STID",
    "GraphWaveNet",
    "STAEformer",
    "Ensemble",
)  # networks, and an average


@dataclass(frozen=True, eq=False)
class Case:
    """The forecast of one location from one origin."""

    run: Run
    lags: LagConfig  # the past steps that the network reads
    panel: Panel  # locations in the order of the run, values up to the origin
    origin: int  # a step of the panel
    forecast: Float64[np.ndarray, " K"]
    baseline_forecast: Float64[np.ndarray, " K"]  # from a history equal to the seasonal profile
    window: Window

    @cached_property
    def path_gradients(self) -> Float64[np.ndarray, "K N L"]:
        """Integrated gradients along the value path: cross-location parts are frozen."""
        frozen = self.window.frozen
        if not frozen.parts:
            return self.total_gradients
        return integrated_gradients(self.window, frozen.roll_out)

    @cached_property
    def total_gradients(self) -> Float64[np.ndarray, "K N L"]:
        """Integrated gradients of the whole network."""
        return integrated_gradients(self.window, self.window.free.roll_out)

    @property
    def edges(self) -> RunEdges | None:
        """The edges of the run's graph; None: it has no graph."""
        return edges_of(self.run.arrays) if PAIRS in self.run.arrays else None


def open_case(estimator: Estimator, panel: Panel, at: At, location: str) -> Case:
    """Prepare a forecast for its explanation; raises the same errors as `forecast`."""
    run, name = estimator.run, type(estimator).__name__
    if not isinstance(estimator, NetworkEstimator | Ensemble):
        networks = f"{', '.join(EXPLAINABLE[:-1])} or {EXPLAINABLE[-1]}"
        raise ConfigError(f"{name} cannot be explained; use the run of a network: {networks}")
    if run is None:
        raise RunError(f"{name} is not fitted yet; call fit(panel, splits)")
    lags, (run, matched) = run.recipe.lags, estimator.adapt(panel)
    index = _location_index(matched, location)
    step = np.array([find_origin(panel, at)])
    observed, origins = look_back(matched, lags, step)
    origin = int(origins[0])
    refuse_unknown_future(observed, origin, lags.horizon)
    if not estimator.masks_missing:
        label_missing(observed, (lags, estimator.lags), origin, allowed=False)
    seen, _, _ = bounded_history(run, matched, step)
    blank = _without_values(run, seen)
    forecast, baseline_forecast = (
        estimator.own_forecasts(run, p, "observed", s).mean[0, :, index].astype(np.float64)
        for p, s in ((matched, step), (blank, origins))
    )
    ready = estimator.load_network(run.arrays)
    (history, ahead), (baseline, _) = (
        ready.states(_forecast_inputs(run, p, origin)) for p in (seen, blank)
    )
    scale = float(ready.scaler.values.deviation[index])
    window = Window(ready.network, history, ahead, baseline, index, scale)
    return Case(run, estimator.lags, observed, origin, forecast, baseline_forecast, window)


def _location_index(panel: Panel, location: str) -> int:
    ids, names = panel.locations.ids, panel.locations.names
    if location not in ids:
        id_by_text = dict(zip(names, ids, strict=True)) | dict(zip(ids, ids, strict=True))
        close = dict.fromkeys(id_by_text[text] for text in get_close_matches(location, id_by_text))
        texts = (f"{id_} ({names[ids.index(id_)]})" for id_ in close)
        hint = f"; similar: {', '.join(texts)}" if close else ""
        raise ConfigError(f"no location {location!r}{hint}; give one of the {len(ids)} ids")
    return ids.index(location)


def _without_values(run: Run, panel: Panel) -> Panel:
    """Replace values and local covariates of the past by the seasonal profile.

    Missing values stay missing, so that they explain nothing. Past-only covariates stay too: what
    is assumed ahead follows from them.
    """
    local_covariates = panel.local_covariates.values.copy()
    known_ahead = [
        n for n, name in enumerate(panel.local_covariates.names) if name not in panel.past_only
    ]
    local_covariates[known_ahead, : len(panel.values)] = np.nan
    empty = panel.with_data(np.full_like(panel.values, np.nan), None, local_covariates)
    usual = carry_forward(run, fill_missing(empty, fill_of(run))).values
    blank = np.where(np.isnan(panel.values), np.float32(np.nan), usual)
    return panel.with_data(values=blank, local_covariates=local_covariates)


def _forecast_inputs(run: Run, panel: Panel, origin: int) -> ForecastInputs:
    origins = np.array([origin])
    ahead = look_ahead(panel, origins, run.recipe.lags.horizon)
    fill = fill_of(run)
    filled = carry_forward(run, fill_missing(panel, fill))
    ahead = hold_past_only(filled, origins, fill_closed_gaps(panel, fill, origins, ahead))
    return ForecastInputs(
        filled, origins, *ahead, observed=panel.values, whole_hours=knows_whole_hours(run)
    )
