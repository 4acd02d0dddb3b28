"""A drift report tells what changed, and what to do about it."""

import json
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import ConfigError, DataError
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.evaluation.drift.drift import find_drift
from forecaster.panel.panel import Panel
from forecaster.report.drift.findings import to_findings
from forecaster.report.drift.page import render_drift
from forecaster.splits import Splits
from tests.evaluation.drift.conftest import VALIDATED, WEEK, DriftCase

SINCE = WEEK * (VALIDATED + 6)  # the steps from which something changes


def test_in_an_unchanged_city_there_is_nothing_to_do(drift_case: DriftCase):
    drift = find_drift(drift_case.estimator, drift_case.panel)
    assert (drift.advice, drift.weeks) == ("nothing", 22)
    assert all(watch.alarm is None for watch in drift.watches)
    assert drift.places == ()
    assert drift.edges.changes == ()
    written = json.loads(json.dumps(drift.to_json(), allow_nan=False))
    assert written["advice"] == "nothing"
    assert len(written["watches"][0]["weeks"]) == 22


def test_a_lower_level_is_told_by_the_week_after(drift_case: DriftCase):
    values = drift_case.panel.values.copy()
    values[SINCE:] = np.round(values[SINCE:] * 0.5)
    drift = find_drift(drift_case.estimator, drift_case.changed(values))
    watches = {watch.name: watch for watch in drift.watches}
    too_high = watches["forecasts too high"]
    assert drift.advice == "update"
    assert (too_high.alarm, too_high.since) in {(6, 6), (6, 5)}
    assert watches["forecasts too low"].alarm is None
    assert drift.data.level == pytest.approx(0.5, rel=0.05)
    assert any(reason.startswith("the level is × 0.5") for reason in drift.reasons)


def test_silent_and_failing_locations_are_to_be_looked_at(drift_case: DriftCase):
    values = drift_case.panel.values.copy()
    values[-24 * 9 :, 3] = 0
    values[-24 * 40 :, 5] = np.nan
    order = np.random.default_rng(0).permutation(len(values) - SINCE)
    values[SINCE:, 9] = values[SINCE + order, 9]  # its hours are mixed up
    drift = find_drift(drift_case.estimator, drift_case.changed(values))
    ids = drift.ids
    assert drift.advice == "look"
    kinds = {(place.id, place.kind) for place in drift.places}
    expected = {(ids[3], "silent"), (ids[5], "silent"), (ids[5], "missing"), (ids[9], "error")}
    assert kinds == expected


def test_locations_that_the_run_cannot_forecast_are_a_reason_to_update(drift_case: DriftCase):
    panel = drift_case.panel
    opened = replace(panel.locations, ids=(*panel.locations.ids[:-1], "opened"))
    known = panel.select(panel.locations.ids[:-1]).locations.ids
    unable = copy(drift_case.estimator)
    unable.accepts_new_locations = False
    drift = find_drift(unable, replace(panel, locations=opened))
    assert drift.unknown == ("opened",)
    assert {*known} <= {*drift.ids}
    assert drift.advice == "update"
    assert "it does not know 1 location (opened)" in drift.reasons
    assert drift.panel == panel.digest
    assert drift.to_json()["unknown"] == ["opened"]


def test_with_few_days_of_validation_errors_are_not_judged_and_the_rest_is(drift_case: DriftCase):
    first = VALIDATED * WEEK - 12 * 24  # of 13 local days
    panel = drift_case.panel
    borders = [(0, first), (first, VALIDATED * WEEK), (VALIDATED * WEEK, len(panel.values))]
    ranges = [[(f"{panel.instant(a)}Z", f"{panel.instant(b - 1)}Z")] for a, b in borders]
    values = panel.values.copy()
    values[-24 * 9 :, 3] = 0
    short = HistoricalMean().fit(panel, Splits(*ranges))
    drift = find_drift(short, drift_case.changed(values))
    assert drift.watches == ()
    assert drift.unjudged is not None
    assert drift.unjudged.startswith("13 days of validation with scores")
    assert (drift.places[0].kind, drift.advice) == ("silent", "look")
    assert replace(drift, places=()).to_json()["advice"] == "unknown"
    findings = to_findings(drift)
    assert findings.findings[0].text == f"not judged yet: {drift.unjudged}"
    assert "the next `forecaster update` validates on as many" in drift.unjudged
    assert "drift since training" in render_drift("run", drift, findings, panel)
    assert json.loads(json.dumps(drift.to_json()))["unjudged"] == drift.unjudged


def test_a_panel_without_new_steps_is_refused(drift_case: DriftCase):
    learned = drift_case.panel.steps(0, WEEK * VALIDATED)
    with pytest.raises(DataError, match="the panel ends with the steps that the run has learned"):
        find_drift(drift_case.estimator, learned)


def test_a_panel_without_validation_is_refused(drift_case: DriftCase):
    later = drift_case.panel.steps(WEEK * VALIDATED, WEEK * (VALIDATED + 20))
    with pytest.raises(DataError, match="none of the steps that the run was validated on"):
        find_drift(drift_case.estimator, later)


def test_steps_longer_than_a_day_are_refused():

    table = {"unique_id": "a", "ds": np.arange("2000-01-03", "2019-12-30", 7, "datetime64[D]")}

    panel = Panel.from_long(pd.DataFrame(table).assign(y=1.0), timezone="UTC")
    with pytest.raises(ConfigError, match="steps of 1 week"):
        find_drift(HistoricalMean(), panel)
