"""The report of a comparison, section by section."""

from collections.abc import Callable, Sequence
from typing import Any

from forecaster.errors import count_of, need_extra
from forecaster.report.data import Material
from forecaster.report.draw.svg import inline_svg
from forecaster.report.formatting import duration, number, percent, with_minus
from forecaster.report.html import render_template
from forecaster.report.sections.errors import error_pictures
from forecaster.report.sections.explanations import why_section
from forecaster.report.sections.forecasts import forecast_pictures
from forecaster.report.sections.graph import graph_pictures, place_pictures
from forecaster.report.sections.intervals import sure_section
from forecaster.report.sections.learning_curves import (
    describe_trainings,
    learning_pictures,
    read_trainings,
)
from forecaster.report.sections.provenance import (
    SHORT,
    describe_data,
    describe_dependencies,
    list_commands,
    list_runs,
    list_versions,
)
from forecaster.report.sections.reliability import judge, key_figures
from forecaster.report.sections.section import Picture, Section
from forecaster.report.sections.what_if import what_if_section
from forecaster.report.tables import ablation_table, cost_table, error_table, weather_table

Say = Callable[[str], None]


def make_sections(material: Material, say: Say) -> list[Section]:
    """Return all pictures that the material allows, by section."""
    sections = []
    if material.best is not None:
        say(f"forecasting with {material.best.name}")
        sections = [
            _forecasts(material),
            _errors(material),
            sure_section(material),
            why_section(material),
            what_if_section(material),
        ]
    say("drawing")
    sections += [_places(material), _learning(material)]
    return [section for section in sections if section.pictures]


def _forecasts(material: Material) -> Section:
    name = material.best.name if material.best is not None else ""
    text = f"Forecasts of {name}, made as if at that time, with what was known then."
    pictures = list(forecast_pictures(material))
    return Section("forecasts", "Forecasts against what came", text, pictures)


def _errors(material: Material) -> Section:
    text = "RMSE on the test windows, on the same values for all models."
    return Section("errors", "When and where it errs", text, list(error_pictures(material)))


def _places(material: Material) -> Section:
    graph = material.graph
    text = "Which locations are forecast."
    pictures = list(place_pictures(material.panel))
    if graph is None:
        return Section("places", "Places", text, pictures)
    text = "Which locations are forecast, and which of them help to forecast each other."
    facts = {"How the graph was chosen": describe_dependencies(graph)}
    pictures += graph_pictures(graph)
    return Section("places", "Places and what they depend on", text, pictures, facts)


def _learning(material: Material) -> Section:
    trainings = read_trainings(material)
    text = "The loss is η·RMSE² + MAPE; the epoch with the lowest validation loss is kept."
    facts = {"How each training ended": describe_trainings(trainings)}
    pictures = list(learning_pictures(trainings))
    return Section("learning", "How the networks learned", text, pictures, facts)


def render_comparison(material: Material, sections: Sequence[Section]) -> str:
    """Return the report; everything that came with the data is escaped."""
    comparison, best = material.comparison, material.best
    findings = judge(material, best) if best is not None else []
    return render_template(
        "forecaster.report",
        "comparison.html",
        title=material.folder.resolve().name,
        verdict=[with_minus(line) for line in comparison.verdict],
        best=best.name if best is not None else "",
        plain=_in_plain_words(material),
        lead=_lead(material),
        figures=key_figures(material, best) if best is not None else {},
        findings=findings,
        warnings=sum(finding.level == "warning" for finding in findings),
        errors=error_table(comparison) if comparison.tested else None,
        caption=_caption(material),
        ablations=ablation_table(comparison) if comparison.tested else None,
        weathers=weather_table(comparison),
        costs=cost_table(comparison) if comparison.tested else None,
        failures=[
            (r.name, what, why) for r in comparison.rows for what, why in r.failures.items()
        ],
        sections=sections,
        draw=_draw,
        data=describe_data(material),
        commands=list_commands(material),
        runs=list_runs(material),
        versions=list_versions(),
        recipe=material.recipe.to_toml(),
        short=SHORT,
    )


def _draw(picture: Picture) -> Any:
    """Return a picture as a part of the page; its own words are escaped where it is drawn."""
    markup = need_extra("markupsafe", extra="report").Markup
    return markup(inline_svg(picture.svg, picture.words))


def _lead(material: Material) -> str:
    """Say what was compared."""
    comparison, panel = material.comparison, material.panel
    models = count_of(len(comparison.rows), "model")
    places = count_of(len(panel.locations), "location")
    if not comparison.tested:
        return f"{models}, {places}; nothing was tested."
    found = comparison.tested[0].first
    first, last = (str(found.days[n].astype("datetime64[D]")) for n in (0, -1))
    K = found.places.squares.shape[0]
    ahead = f"{count_of(K, 'step')} of {duration(panel.clock.step_minutes)} ahead"
    windows = count_of(len(found.origins), "test window")
    return f"{models} on {windows} from {first} to {last} at {places}, {ahead}."


def _in_plain_words(material: Material) -> str:
    """Say how far off the recommended model is, without the names of metrics."""
    best = material.best
    if best is None:
        return ""
    weather = material.comparison.weathers[0]
    mae, wape = (best.spread(figure, weather)[0].mean for figure in ("mae", "wape"))
    if mae is None:
        return ""
    share = (
        f", {percent(wape)} of what is there" if wape and material.panel.kind == "count" else ""
    )
    return f"A forecast of {best.name} is off by {number(mae)} on average{share}."


def _caption(material: Material) -> str:
    comparison = material.comparison
    names = material.panel.covariates.names or material.panel.local_covariates.names
    known = f"Coming weather: {comparison.weathers[0]}. " if names and comparison.weathers else ""
    seeds = any(len(row.found) > 1 for row in comparison.rows)
    spread = " ± is the deviation over trainings." if seeds else ""
    return (
        f"{known}RMSE in the units of the data; MAPE over values ≥ {comparison.mape_cut:g}. "
        f"Lower is better; the best of each column is bold.{spread}"
    )
