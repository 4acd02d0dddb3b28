"""One forecast to be explained: its origin, its location, and what the network is shown."""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.artifact import Run
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, RunError
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import (
    At,
    ForecastInputs,
    fill_of,
    find_origin,
    look_ahead,
    look_back,
    refuse_unknown_future,
    tell_missing,
)
from forecaster.estimators.match import match
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.explain.attribution import Window, credit
from forecaster.panel.fill import fill_missing
from forecaster.panel.panel import Panel

EXPLAINED = ("Forecaster", "Transformer", "DCRNN")  # the networks


@dataclass(frozen=True, eq=False)
class Case:
    """The forecast of one location from one origin."""

    run: Run
    lags: LagConfig  # the past steps that the network sees
    known: Panel  # locations in the order of the run, values up to the origin
    origin: int  # as a step of it
    forecast: Float64[np.ndarray, " K"]
    usual: Float64[np.ndarray, " K"]  # the forecast, had every past value been as usual
    window: Window

    @cached_property
    def held(self) -> Float64[np.ndarray, "K N L"]:
        """The part of every location and past step along the value path, by gradient."""
        held = self.window.held
        return credit(self.window, held.roll_out) if held.parts else self.free

    @cached_property
    def free(self) -> Float64[np.ndarray, "K N L"]:
        """The same with nothing held."""
        return credit(self.window, self.window.free.roll_out)

    @property
    def graph(self) -> tuple[Int64[np.ndarray, "E 2"], Float64[np.ndarray, " E"]] | None:
        """The edges of the run and their strengths; None: it has no graph."""
        arrays = self.run.arrays
        if "graph.pairs" not in arrays:
            return None
        return arrays["graph.pairs"], np.asarray(arrays["graph.strengths"], dtype=np.float64)


def open_case(estimator: Estimator, panel: Panel, at: At, location: str) -> Case:
    """Return the case, or say why there is nothing to explain; refuses what `forecast` does."""
    run, name = estimator.run, type(estimator).__name__
    if not isinstance(estimator, NetworkEstimator):
        networks = f"{', '.join(EXPLAINED[:-1])} or {EXPLAINED[-1]}"
        raise ConfigError(f"a {name} is not explained; take the run of a network: {networks}")
    if run is None:
        raise RunError(f"{name} is not fitted yet; call fit(panel, splits)")
    lags, matched = run.recipe.lags, match(run, panel)
    place = _find(matched, location)
    known, own = look_back(matched, lags, np.array([find_origin(panel, at)]))
    origin = int(own[0])
    refuse_unknown_future(known, origin, lags.horizon)
    tell_missing(known, (lags, estimator.lags), origin, allowed=False)
    nothing = _without_values(known)
    forecast, usual = (
        estimator.predict(one, own)[0, :, place].astype(np.float64) for one in (known, nothing)
    )
    ready = estimator.load_network(run.arrays)
    (history, ahead), (usually, _) = (
        ready.states(_ask(run, one, origin)) for one in (known, nothing)
    )
    unit = float(ready.scaler.values.deviation[place])
    window = Window(ready.network, history, ahead, usually, place, unit)
    return Case(run, estimator.lags, known, origin, forecast, usual, window)


def _find(panel: Panel, location: str) -> int:
    ids = panel.locations.ids
    if location not in ids:
        named = dict(zip(panel.locations.names, ids, strict=True)) | {one: one for one in ids}
        near = dict.fromkeys(named[one] for one in get_close_matches(location, named))
        texts = (f"{one} ({panel.locations.names[ids.index(one)]})" for one in near)
        hint = f"; near to it: {', '.join(texts)}" if near else ""
        raise ConfigError(
            f"no location {location!r}{hint}; give an id, of which there are {len(ids)}"
        )
    return ids.index(location)


def _without_values(panel: Panel) -> Panel:
    """Return the panel with nothing known of the past of single locations: it will be filled."""
    own = panel.local_covariates.values.copy()
    own[:, : len(panel.values)] = np.nan
    blank = np.full_like(panel.values, np.nan)
    return panel.with_data(values=blank, local_covariates=own)


def _ask(run: Run, panel: Panel, origin: int) -> ForecastInputs:
    origins = np.array([origin])
    ahead = look_ahead(panel, origins, run.recipe.lags.horizon)
    return ForecastInputs(fill_missing(panel, fill_of(run)), origins, *ahead)
