"""Batches against the panel: everything that is wrong is named at once."""

from dataclasses import replace

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.moment import AHEAD_SECONDS
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.http.intake import take_covariates, take_observations
from forecaster.serve.http.schemas import Covariate, Observation
from forecaster.serve.problems import Problem
from tests.serve.conftest import HOURS, Hands


def seen(panel: Panel, step: int, value: float | None, place: str | None = None) -> Observation:
    ds = f"{panel.start + np.timedelta64(step, 'h')}Z"
    return Observation(location=place or panel.locations.ids[0], ds=ds, value=value)


def test_a_batch_becomes_entries(panel: Panel, clock: Hands) -> None:
    batch = [seen(panel, 3, 5.0), seen(panel, 4, None)]
    entries = take_observations(batch, Overlay(panel), clock())
    start = int(panel.start.astype(np.int64))
    name = panel.locations.ids[0]
    assert entries == [(name, start + 3 * 3600, 5.0), (name, start + 4 * 3600, None)]


def test_every_fault_is_named(panel: Panel, clock: Hands) -> None:
    batch = [seen(panel, 3, -5.0), seen(panel, -9, 1.0), seen(panel, 4, 1.0, "nowhere")]
    with pytest.raises(Problem) as refusal:
        take_observations(batch, Overlay(panel), clock())
    assert refusal.value.code == "negative"  # the first
    for words in ("observations.0", "observations.1", "observations.2"):
        assert words in str(refusal.value.detail)


def test_V3_the_future_begins_after_five_minutes(panel: Panel) -> None:
    begin = float(int(panel.start.astype(np.int64)) + HOURS * 3600)
    overlay = Overlay(panel)
    assert take_observations([seen(panel, HOURS, 1.0)], overlay, begin - AHEAD_SECONDS)
    with pytest.raises(Problem, match="in_future"):
        take_observations([seen(panel, HOURS, 1.0)], overlay, begin - AHEAD_SECONDS - 1)


def test_weather_may_be_told_ahead_but_not_for_ever(panel: Panel, clock: Hands) -> None:
    name = panel.covariates.names[0]
    near = f"{panel.times[-1] + np.timedelta64(30, 'D')}Z"
    far = f"{panel.times[-1] + np.timedelta64(40, 'D')}Z"
    overlay = Overlay(panel)
    assert take_covariates([Covariate(ds=near, values={name: 1.0})], overlay, clock())
    with pytest.raises(Problem, match="in_future"):
        take_covariates([Covariate(ds=far, values={name: 1.0})], overlay, clock())


def test_measurements_may_be_negative(panel: Panel, clock: Hands) -> None:
    measured = Overlay(replace(panel, kind="measurement"))
    assert take_observations([seen(panel, 3, -5.0)], measured, clock())
