"""A drift report says in words what changed and what to do."""

import numpy as np
import pytest

from forecaster.evaluation.drift.drift import Drift, find_drift
from forecaster.report.drift.findings import to_findings
from tests.evaluation.drift.conftest import VALIDATED, WEEK, DriftCase, drift_case

__all__ = ["drift_case"]  # the fixture


@pytest.fixture(scope="module")
def broken(drift_case: DriftCase) -> Drift:
    values, since = drift_case.panel.values.copy(), WEEK * (VALIDATED + 6)
    values[since:] = np.round(values[since:] * 0.5)
    values[-24 * 9 :, 3] = 0
    return find_drift(drift_case.estimator, drift_case.changed(values))


def test_an_unchanged_city_has_only_good_findings(drift_case: DriftCase):
    checkup = to_findings(find_drift(drift_case.estimator, drift_case.panel))
    assert checkup.verdict == "Nothing to do: the world is the one that the run has learned"
    assert checkup.warnings == 0
    topics = [finding.topic for finding in checkup.findings]
    assert topics == ["error", "bias", "coverage", "values", "inputs", "locations", "graph"]


def test_a_break_names_its_week_and_what_to_do(broken: Drift):
    checkup = to_findings(broken)
    findings = {finding.topic: finding for finding in checkup.findings}
    assert checkup.verdict.startswith("Update the run: errors larger since the week of 2009-0")
    assert "Look at" in checkup.verdict
    assert findings["bias"].level == "warning"
    assert "forecasts too high since the week of 2009-09-" in findings["bias"].text
    assert f"{broken.ids[3]}: silent for 216 steps" in findings["locations"].details
    assert checkup.verdict_level == "warning"
