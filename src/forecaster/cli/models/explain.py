"""Explaining a forecast: explain."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli import terminal
from forecaster.cli.options import At, Json, last_step, open_panel
from forecaster.errors import ConfigError

if TYPE_CHECKING:
    from forecaster.explain.explanation import Explanation, LocationEffect

FORMS = (".json", ".png", ".svg")
ROWS = 10  # past steps and neighbours in the tables
COLUMN_WIDTH = 13  # characters of a column of numbers; its title goes on below
METHOD_STYLES = {"attention": "green", "gradient": "blue", "ablation": "yellow"}


def explain(
    run: Annotated[
        Path,
        typer.Argument(help="Folder of a trained network, such as Forecaster, DCRNN or STID."),
    ],
    panel: Annotated[Path, typer.Option(help="Folder of the panel.")],
    location: Annotated[str, typer.Option(help="Id of the location.")],
    at: At = None,
    out: Annotated[Path | None, typer.Option(help="Output file: .json, .png or .svg.")] = None,
    as_json: Json = False,
) -> None:
    """Show which past steps and which neighbours influenced the forecast of a location."""
    if out is not None and out.suffix not in FORMS:
        forms = ", ".join(FORMS)
        raise ConfigError(
            f"{out}: an explanation is written as {forms}; choose one of these suffixes"
        )
    from forecaster.estimators.registry import load_estimator
    from forecaster.explain.explain import explain_forecast

    data, estimator = open_panel(panel), load_estimator(run)
    origin = last_step(data) if at is None else at
    with terminal.stages() as (say, _):
        explanation = explain_forecast(estimator, data, origin, location, say)
    if out is not None:
        _write(explanation, out)
    if as_json:
        print(_to_json(explanation))
    elif out is None:
        _print(explanation)


def _to_json(explanation: "Explanation") -> str:
    return json.dumps(explanation.to_dict(), ensure_ascii=False, allow_nan=False)


def _write(explanation: "Explanation", path: Path) -> None:
    from forecaster.publish.writing import bytes_writer, replace_file

    if path.suffix == ".json":
        content = _to_json(explanation).encode()
    else:
        from forecaster.report.draw.canvas import PAPER_DPI, to_png, to_svg
        from forecaster.report.sections.explanations import draw_explanation

        figure = draw_explanation(explanation)
        content = to_svg(figure, "why") if path.suffix == ".svg" else to_png(figure, PAPER_DPI)
    replace_file(path, bytes_writer(content))
    terminal.say(f"explanation: {path}")


def _print(explanation: "Explanation") -> None:
    """Print an explanation on one page."""
    from rich.text import Text

    from forecaster.report.sections.explanations import (
        city_wide_sentence,
        explanation_sentences,
        explanation_title,
    )

    console = terminal.console()
    title, subtitle = explanation_title(explanation)
    console.print(Text(f"{title} ({explanation.location})", style="bold"))
    console.print(Text(subtitle))
    for line in explanation_sentences(explanation):
        console.print(Text(line))
    console.print()
    console.print(_hours_table(explanation))
    console.print(_places_table(explanation))
    for line in (
        f"City-wide: {city_wide_sentence(explanation)}",
        explanation.sentence,
        *explanation.notes,
    ):
        console.print(Text(line))


def _hours_table(explanation: "Explanation") -> Any:
    methods = " or ".join(dict.fromkeys((explanation.shares_by, "ablation")))
    largest = f"Past {explanation.step}s with the largest share of {methods}"
    table = _table(f"{largest}, of {len(explanation.hours)}")
    table.add_column("when", no_wrap=True)
    table.add_column("which", no_wrap=True)
    rolled = ("attention, traced back %",) if explanation.shares_by == "attention" else ()
    for column in ("value", f"{explanation.shares_by} %", *rolled, "gradient", "ablation"):
        _add_column(table, column)
    pairs = zip(explanation.hours, explanation.ablation_shares, strict=True)
    ranked = sorted(pairs, key=lambda pair: -max(pair[0].share, pair[1]))
    for hour, _ in ranked[:ROWS]:
        value = "–" if hour.value is None else f"{hour.value:.4g}"
        measured = (share for share in (hour.share, hour.rolled) if share is not None)
        shares = (f"{100 * share:.1f}" for share in measured)
        sizes = _signed(hour.gradient), _signed(hour.ablation)
        table.add_row(hour.ds_local[5:16].replace("T", " "), hour.lag, value, *shares, *sizes)
    return table


def _places_table(explanation: "Explanation") -> Any:
    within = "" if explanation.reach is None else f" within {explanation.reach} edges"
    table = _table(f"Locations: itself, and the largest of {explanation.reached - 1}{within}")
    table.add_column("location")
    apart = (
        ("ablation incl. city-wide", "gradient city-wide") if explanation.city_wide.places else ()
    )
    delay = ("delay",) if explanation.has_delays else ()
    columns = ("edges", *delay, "share %", "gradient", "ablation", *apart)
    for column in columns:
        _add_column(table, column)
    for place in (explanation.own, *explanation.neighbours[:ROWS]):
        cells = _place_cells(place, itself=place is explanation.own)
        table.add_row(*cells[: 1 + len(columns)])
    return table


def _place_cells(place: "LocationEffect", *, itself: bool) -> list[str]:
    sizes = (place.gradient, place.ablation, place.ablation_free, place.city_wide)
    delays = () if place.delays is None else (", ".join(map(str, place.delays)) or "–",)
    return [
        f"{place.name} ({place.id})",
        "–" if place.hops is None else str(place.hops),
        *delays,
        "itself" if itself else f"{100 * place.share:.1f}",
        *(_signed(size) for size in sizes),
    ]


def _table(title: str) -> Any:
    from rich.box import SIMPLE
    from rich.table import Table

    return Table(box=SIMPLE, padding=(0, 1, 0, 0), title=title, title_justify="left")


def _add_column(table: Any, title: str) -> None:
    """Add a column of numbers in the colour of its method, the same as in the pictures."""
    method = title.split(",", maxsplit=1)[0].split(maxsplit=1)[0]
    table.add_column(
        title, justify="right", style=METHOD_STYLES.get(method, ""), max_width=COLUMN_WIDTH
    )


def _signed(size: float) -> str:
    return f"{size:+.3g}".replace("-", "−")
