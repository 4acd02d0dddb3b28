"""Pictures of drift show every score, change and location to look at."""

from dataclasses import replace

import pytest

from forecaster.evaluation.drift.drift import Drift, find_drift
from forecaster.evaluation.drift.edges import EdgeChange, EdgeReport
from forecaster.panel.parts import Locations
from forecaster.report.drift.findings import to_findings
from forecaster.report.drift.page import render_drift
from forecaster.report.drift.pictures import draw_changes, draw_weeks
from tests.evaluation.drift.conftest import DriftCase, drift_case

__all__ = ["drift_case"]  # the fixture


@pytest.fixture(scope="module")
def drift(drift_case: DriftCase) -> Drift:
    found = find_drift(drift_case.estimator, drift_case.panel)
    changes = (
        EdgeChange(1, 2, "vanished", 0.3, 0.0, 0.01),
        EdgeChange(3, 4, "appeared", 0.0, 0.2, 0.01),
    )
    return replace(found, edges=EdgeReport(3, changes))


def test_each_score_has_a_row_with_its_validation(drift: Drift):
    axes = draw_weeks(drift).axes
    assert [a.get_ylabel() for a in axes] == ["error, % of size", "bias, %", "inside, %"]
    lines = [[len(line.get_xdata()) for line in a.get_lines()] for a in axes]
    assert lines == [[2, drift.weeks]] * 3


def test_the_map_has_a_line_for_each_changed_edge(drift: Drift, drift_case: DriftCase):
    figure = draw_changes(drift, drift_case.panel)
    assert figure is not None
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["edge appeared", "edge vanished"]


def test_without_coordinates_there_is_no_map(drift: Drift, drift_case: DriftCase):
    nowhere = Locations.of_ids(drift_case.panel.locations.ids)
    assert draw_changes(drift, replace(drift_case.panel, locations=nowhere)) is None


def test_the_page_escapes_ids_and_has_alternatives(drift: Drift, drift_case: DriftCase):
    page = render_drift("<b>run</b>", drift, to_findings(drift), drift_case.panel)
    assert "<b>run" not in page
    assert page.count("<svg ") == page.count('aria-label="') == 2
    assert "Update the run: 2 edges of the graph changed" in page
