"""Why a forecast is what it is."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from forecaster.estimators.forecast_inputs import refuse_unknown_future
from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.explanation import tell_why
from forecaster.serve.forecasting.forecast import cut
from forecaster.serve.service import load_model
from tests.serve.conftest import HOURS


def without_weather_ahead(panel: Panel) -> Panel:
    """Return the panel with covariates that are unknown from two hours before its end."""
    own, world = panel.local_covariates, panel.covariates.values[:HOURS].copy()
    world[-2:] = np.nan
    return replace(
        panel,
        covariates=replace(panel.covariates, values=world),
        local_covariates=replace(own, values=own.values[:, :HOURS]),
    )


def test_an_explanation_needs_no_weather_ahead(
    run: Path, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Panel] = []

    def explain(_: object, part: Panel, *__: object) -> Any:
        seen.append(part)
        return SimpleNamespace(to_dict=dict)

    module = SimpleNamespace(explain=explain)  # whose import takes seconds
    monkeypatch.setitem(sys.modules, "forecaster.explain.explain", module)
    blind = without_weather_ahead(panel)
    model, overlay = load_model(run), Overlay(blind)
    tell_why(model, overlay, HOURS - 1, panel.locations.ids[0])
    refuse_unknown_future(seen[0], len(seen[0].values) - 1, 3)  # nothing is unknown any more
    part, own = cut(model, overlay, HOURS - 1)
    origins = np.array([own])
    told = model.estimator.predict(part, origins, "persist")
    assert np.array_equal(model.estimator.predict(seen[0], origins, "observed"), told)
