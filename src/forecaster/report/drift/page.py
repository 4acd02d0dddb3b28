"""The HTML page of a drift report."""

from forecaster.evaluation.drift.drift import Drift
from forecaster.panel.panel import Panel
from forecaster.report.doctor.checkup import Checkup
from forecaster.report.doctor.page import Figure, render_findings
from forecaster.report.drift.pictures import draw_changes, draw_weeks


def render_drift(title: str, drift: Drift, checkup: Checkup, panel: Panel) -> str:
    """Render what changed since a run's training, with its figures.

    Args:
        title: the name of the run.
        drift: what changed.
        checkup: the same as findings.
        panel: with the coordinates of the locations.
    """
    figures = []
    if drift.weeks and drift.watches:
        alarms = [watch.name for watch in drift.watches if watch.alarm is not None]
        figures.append(
            Figure(
                "weeks",
                draw_weeks(drift),
                "Error, bias and coverage by week, with those of validation. "
                + (f"Told: {', '.join(alarms)}." if alarms else "None changed."),
                "Weeks since training. Shaded: since a change; the line is when it was told.",
            )
        )
    drawn = draw_changes(drift, panel)
    if drawn is not None:
        count = len(drift.edges.changes)
        text = f"Map of the locations: {count} changed edges, {len(drift.places)} findings."
        figures.append(Figure("changes", drawn, text, "Changed edges and locations to look at."))
    return render_findings(title, "drift since training", checkup, figures)
