"""The comparison report: its sections and its page."""

from collections.abc import Callable, Sequence
from typing import Any

from forecaster.errors import count_of, need_extra
from forecaster.report.data import ReportData
from forecaster.report.draw.svg import inline_svg
from forecaster.report.formatting import duration, number, percent, with_minus
from forecaster.report.html import render_template
from forecaster.report.sections.bias import bias_section
from forecaster.report.sections.errors import error_section
from forecaster.report.sections.explanations import explanation_section
from forecaster.report.sections.forecasts import forecast_section
from forecaster.report.sections.graph import location_section
from forecaster.report.sections.intervals import interval_section
from forecaster.report.sections.learning_curves import training_section
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
from forecaster.report.tables import ablation_table, cost_table, error_table, weather_table


def make_sections(data: ReportData, say: Callable[[str], None]) -> list[Section]:
    """Return the sections that have pictures; `say` is called before each long part."""
    sections = []
    if data.best is not None:
        say(f"forecasting with {data.best.name}")
        sections = [
            forecast_section(data),
            error_section(data),
            bias_section(data),
            interval_section(data),
            explanation_section(data),
            what_if_section(data),
        ]
    say("drawing")
    sections += [location_section(data), training_section(data)]
    return [section for section in sections if section.pictures]


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
        summary=_summarise_error(data),
        lead=_describe_comparison(data),
        figures=key_figures(data, best) if best is not None else {},
        findings=findings,
        warnings=sum(finding.level == "warning" for finding in findings),
        errors=error_table(comparison) if comparison.tested else None,
        caption=_caption(data),
        ablations=ablation_table(comparison) if comparison.tested else None,
        weathers=weather_table(comparison),
        costs=cost_table(comparison) if comparison.tested else None,
        failures=[
            (row.name, part, reason)
            for row in comparison.rows
            for part, reason in row.failures.items()
        ],
        sections=sections,
        draw=_inline,
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
    models = count_of(len(comparison.rows), "model")
    locations = count_of(len(panel.locations), "location")
    if not comparison.tested:
        return f"{models}, {locations}; no model was tested."
    test = comparison.tested[0].first
    first, last = (str(test.days[n].astype("datetime64[D]")) for n in (0, -1))
    K = test.by_location.squares.shape[0]
    horizon = f"{count_of(K, 'step')} of {duration(panel.clock.step_minutes)} ahead"
    windows = count_of(len(test.origins), "test window")
    return f"{models}, {windows} from {first} to {last}, {locations}, {horizon}."


def _summarise_error(data: ReportData) -> str:
    """Give the mean absolute error of the recommended model in a sentence."""
    best = data.best
    if best is None:
        return ""
    weather = data.comparison.weathers[0]
    mae, wape = (best.seed_means(figure, weather)[0].mean for figure in ("mae", "wape"))
    if mae is None:
        return ""
    relative = f" ({percent(wape)} of the mean)" if wape and data.panel.kind == "count" else ""
    return (
        f"On average a forecast of {best.name} differs from the value by {number(mae)} "
        f"{data.unit}{relative}."
    )


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
        f"Lower is better; the best value of each column is bold.{deviation} "
        f"{' '.join([comparison.scored_outputs, *comparison.ensembles, *comparison.fallbacks])}"
    )
