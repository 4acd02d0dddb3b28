"""The comparison report: its sections and its page."""

from collections.abc import Callable, Sequence
from typing import Any

from forecaster.errors import count_of, need_extra
from forecaster.evaluation.comparison import Comparison
from forecaster.evaluation.tables import FRESHNESS_NOTE
from forecaster.remaining import track
from forecaster.report.arrangement import arrange
from forecaster.report.data import ReportData
from forecaster.report.draw.svg import inline_svg
from forecaster.report.formatting import duration, with_minus
from forecaster.report.html import render_template
from forecaster.report.sections.bias import bias_section
from forecaster.report.sections.errors import condition_section, error_section
from forecaster.report.sections.explanations import explanation_section
from forecaster.report.sections.forecasts import forecast_section
from forecaster.report.sections.graph import location_section
from forecaster.report.sections.intervals import interval_section
from forecaster.report.sections.learning_curves import training_section
from forecaster.report.sections.next_steps import NEXT, next_steps_section
from forecaster.report.sections.provenance import (
    SHORT,
    describe_data,
    list_commands,
    list_runs,
    list_versions,
)
from forecaster.report.sections.reliability import check_reliability, key_figures
from forecaster.report.sections.section import Picture, Section
from forecaster.report.sections.what_if import what_if_section
from forecaster.report.tables import (
    ablation_table,
    cost_table,
    error_table,
    freshness_table,
    refit_month_table,
    weather_table,
)

OF_THE_BEST = (  # sections about the recommended model
    next_steps_section, forecast_section, error_section, condition_section, bias_section,
    interval_section, explanation_section, what_if_section,
)  # fmt: skip


def make_sections(data: ReportData, say: Callable[[str], None]) -> list[Section]:
    """Return the sections that have pictures; `say` is called now and then."""
    makers = [location_section, training_section]
    if data.best is not None:
        say(f"forecasting with {data.best.name}")
        makers = [*OF_THE_BEST, *makers]
    sections = [make(data) for make in track(makers, "part", say)]
    return [section for section in sections if section.pictures or section.name == NEXT]


def render_comparison(data: ReportData, sections: Sequence[Section]) -> str:
    """Render the report; all text from the data is escaped."""
    comparison, best = data.comparison, data.best
    findings = check_reliability(data, best) if best is not None else []
    return render_template(
        "forecaster.report",
        "comparison.html",
        title=data.folder.resolve().name,
        verdict=[with_minus(line) for line in comparison.verdict],
        best=best.name if best is not None else "",
        lead=_describe_comparison(data),
        figures=key_figures(data, best) if best is not None else {},
        findings=findings,
        warnings=sum(finding.level == "warning" for finding in findings),
        errors=error_table(comparison) if comparison.tested else None,
        caption=_caption(data),
        reference=comparison.reference.name if comparison.reference else "the others",
        outputs=_describe_outputs(comparison),
        ablations=ablation_table(comparison) if comparison.tested else None,
        weathers=weather_table(comparison),
        freshness=freshness_table(comparison),
        freshness_note=FRESHNESS_NOTE.replace("`", ""),
        refit_months=refit_month_table(comparison),
        costs=cost_table(comparison) if comparison.tested else None,
        failures=[
            (row.name, part, reason)
            for row in comparison.rows
            for part, reason in row.failures.items()
        ],
        coming=next((section for section in sections if section.name == NEXT), None),
        sections=[section for section in sections if section.name != NEXT],
        draw=_inline,
        arrange=arrange,
        data=describe_data(data),
        commands=list_commands(data),
        runs=list_runs(data),
        versions=list_versions(),
        recipe=data.recipe.to_toml(),
        short=SHORT,
    )


def _inline(picture: Picture) -> Any:
    """Return a picture as markup of the page; its text is escaped where it is drawn."""
    markup = need_extra("markupsafe", extra="report").Markup
    return markup(inline_svg(picture.svg, picture.alternative))


def _describe_comparison(data: ReportData) -> str:
    """Give the number of models, windows, locations and steps ahead."""
    comparison, panel = data.comparison, data.panel
    models = count_of(sum(row.refit_days is None for row in comparison.rows), "model")
    locations = count_of(len(panel.locations), "location")
    if not comparison.tested:
        return f"{models}, {locations}; no model was tested."
    test = comparison.tested[0].first
    first, last = (str(test.days[n].astype("datetime64[D]")) for n in (0, -1))
    K = test.by_location.squares.shape[0]
    horizon = f"{count_of(K, 'step')} of {duration(panel.clock.step_minutes)} ahead"
    windows = count_of(len(test.origins), "test window")
    return f"{models}, {windows} from {first} to {last}, {locations}, {horizon}."


def _caption(data: ReportData) -> str:
    comparison = data.comparison
    names = data.panel.known_ahead
    weather = (
        f"Future weather: {comparison.weathers[0]}. " if names and comparison.weathers else ""
    )
    seeds = any(len(row.results) > 1 for row in comparison.rows)
    deviation = " ± is the standard deviation over trainings." if seeds else ""
    return (
        f"{weather}RMSE in {data.unit}; MAPE over values ≥ {comparison.mape_cut:g}. "
        f"Lower is better; the best value of each column is bold.{deviation}"
    )


def _describe_outputs(comparison: Comparison) -> str:
    """Say which output each metric is of, and where simple models are served."""
    sentences = [comparison.scored_outputs, *comparison.ensembles, *comparison.fallbacks]
    return " ".join(sentence for sentence in sentences if sentence)
