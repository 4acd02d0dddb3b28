"""Pages: one HTML file each that needs nothing else."""

import base64
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from forecaster.errors import count_of, need_extra
from forecaster.report.doctor import Checkup
from forecaster.report.material import Material
from forecaster.report.picture import Picture, Section
from forecaster.report.provenance import (
    SHORT,
    describe_data,
    list_commands,
    list_runs,
    list_versions,
)
from forecaster.report.svg import inline_svg
from forecaster.report.tables import ablation_table, cost_table, error_table, weather_table
from forecaster.report.trust import judge, key_figures
from forecaster.report.words import duration, number, percent, with_minus


def render_checkup(title: str, checkup: Checkup, picture: bytes, places: bytes | None) -> str:
    """Return the page with its pictures; everything that came with the data is escaped."""
    return _render(
        "doctor.html",
        title=title,
        checkup=checkup,
        picture=base64.b64encode(picture).decode(),
        places=base64.b64encode(places).decode() if places else "",
    )


def render_comparison(material: Material, sections: Sequence[Section]) -> str:
    """Return the report; everything that came with the data is escaped."""
    comparison, best = material.comparison, material.best
    findings = judge(material, best) if best is not None else []
    return _render(
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


def _render(name: str, **content: Any) -> str:
    jinja2 = need_extra("jinja2", extra="report")
    template = files("forecaster.report").joinpath(name).read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page: str = environment.from_string(template).render(**content)
    return page


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
