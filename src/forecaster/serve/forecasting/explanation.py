"""Why a forecast is what it is."""

from dataclasses import replace
from typing import Any

import numpy as np

from forecaster.estimators.forecast_inputs import fill_of
from forecaster.estimators.match import match
from forecaster.panel.fill import Fill, fill_missing
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import Model, choose_weather, cut


def tell_why(model: Model, overlay: Overlay, origin: int, location: str) -> dict[str, Any]:
    """Return why the forecast of a location is what it is, as JSON."""
    from forecaster.evaluation.explain import explain  # noqa: PLC0415 (costs seconds)

    part, own = cut(model, overlay, origin)
    run = model.estimator.run
    if run and choose_weather(part, np.array([own]), model.horizon)[0] == "persist":
        part = persist(match(run, part), own, fill_of(run))
    at = f"{part.times[own]}+00:00"
    found: dict[str, Any] = explain(model.estimator, part, at, location).to_dict()
    return found


def persist(panel: Panel, origin: int, fill: Fill) -> Panel:
    """Return the panel as if the covariates of a step stayed from then on.

    Args:
        panel: what is known.
        origin: the step.
        fill: what is taken for covariates that are missing there.
    """
    filled, own = fill_missing(panel, fill), panel.local_covariates
    world, local = panel.covariates.values.copy(), own.values.copy()
    world[origin + 1 :] = filled.covariates.values[origin]
    local[:, origin + 1 :] = filled.local_covariates.values[:, [origin]]
    return replace(
        panel,
        covariates=Covariates(panel.covariates.names, world),
        local_covariates=LocalCovariates(own.names, local),
    )
