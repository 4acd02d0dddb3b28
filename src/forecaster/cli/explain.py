"""Explaining a forecast: explain."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli import terminal
from forecaster.cli.options import At, Json, open_panel, tell_last_step
from forecaster.errors import ConfigError

if TYPE_CHECKING:
    from forecaster.explain.explanation import Explanation, Place

FORMS = (".json", ".png", ".svg")
SHOWN = 10  # past steps and neighbours in the tables


def explain(
    run: Annotated[
        Path, typer.Argument(help="The folder of a network: Forecaster, Transformer or DCRNN.")
    ],
    panel: Annotated[Path, typer.Option(help="The folder of a panel.")],
    location: Annotated[str, typer.Option(help="The id of the location.")],
    at: At = None,
    out: Annotated[Path | None, typer.Option(help="FILE.json, .png or .svg.")] = None,
    as_json: Json = False,
) -> None:
    """Say which past steps and which neighbours carried the forecast of one location."""
    if out is not None and out.suffix not in FORMS:
        forms = ", ".join(FORMS)
        raise ConfigError(f"{out}: an explanation is written as {forms}; give such a name")
    from forecaster.estimators.registry import load_estimator
    from forecaster.explain.explain import explain as find_out

    data, estimator = open_panel(panel), load_estimator(run)
    found = find_out(estimator, data, tell_last_step(data) if at is None else at, location)
    if out is not None:
        _write(found, out)
    if as_json:
        print(_to_json(found))
    elif out is None:
        _print(found)


def _to_json(found: "Explanation") -> str:
    return json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False)


def _write(found: "Explanation", path: Path) -> None:
    from forecaster.publish.writing import bytes_writer, replace_file

    if path.suffix == ".json":
        content = _to_json(found).encode()
    else:
        from forecaster.report.draw.canvas import PAPER_DPI, to_png, to_svg
        from forecaster.report.sections.explanations import draw_explanation

        figure = draw_explanation(found)
        content = to_svg(figure, "why") if path.suffix == ".svg" else to_png(figure, PAPER_DPI)
    replace_file(path, bytes_writer(content))
    terminal.say(f"why: {path}")


def _print(found: "Explanation") -> None:
    """Print an explanation as one page."""
    from rich.console import Console
    from rich.text import Text

    from forecaster.report.sections.explanations import city_wide_sentence, explanation_sentences

    console = Console(highlight=False, markup=False)
    title = f"{found.name} ({found.location}) by {found.estimator} from {found.origin_local}"
    console.print(Text(title, style="bold"))
    for line in explanation_sentences(found):
        console.print(line)
    console.print(_hours_table(found))
    console.print(_places_table(found))
    for line in (f"City-wide: {city_wide_sentence(found)}", found.sentence, *found.notes):
        console.print(line)


def _hours_table(found: "Explanation") -> Any:
    methods = " or ".join(dict.fromkeys((found.shares_by, "ablation")))
    largest = f"Past {found.step}s with the largest share of {methods}"
    table = _new_table(f"{largest}, of {len(found.hours)}")
    table.add_column("when", no_wrap=True)
    table.add_column("which", no_wrap=True)
    rolled = ("rolled %",) if found.shares_by == "attention" else ()
    for column in ("value", f"{found.shares_by} %", *rolled, "gradient", "ablation"):
        table.add_column(column, justify="right")
    pairs = zip(found.hours, found.ablation_shares, strict=True)
    ranked = sorted(pairs, key=lambda pair: -max(pair[0].share, pair[1]))
    for hour, _ in ranked[:SHOWN]:
        value = "–" if hour.value is None else f"{hour.value:.4g}"
        known = (share for share in (hour.share, hour.rolled) if share is not None)
        shares = (f"{100 * share:.1f}" for share in known)
        sizes = _signed(hour.gradient), _signed(hour.ablation)
        table.add_row(hour.ds_local[5:16].replace("T", " "), hour.lag, value, *shares, *sizes)
    return table


def _places_table(found: "Explanation") -> Any:
    within = "" if found.reach is None else f" within {found.reach} edges"
    table = _new_table(f"Locations: itself, and the largest of {found.reached - 1}{within}")
    table.add_column("location")
    apart = ("free", "city-wide") if found.city_wide.places else ()
    columns = ("edges", "share %", "gradient", "ablation", *apart)
    for column in columns:
        table.add_column(column, justify="right")
    for place in (found.own, *found.neighbours[:SHOWN]):
        cells = _place_cells(place, itself=place is found.own)
        table.add_row(*cells[: 1 + len(columns)])
    return table


def _place_cells(place: "Place", *, itself: bool) -> list[str]:
    sizes = (place.gradient, place.ablation, place.ablation_free, place.city_wide)
    return [
        f"{place.name} ({place.id})",
        "–" if place.hops is None else str(place.hops),
        "itself" if itself else f"{100 * place.share:.1f}",
        *(_signed(size) for size in sizes),
    ]


def _new_table(title: str) -> Any:
    from rich.box import SIMPLE
    from rich.table import Table

    return Table(box=SIMPLE, padding=(0, 1, 0, 0), title=title, title_justify="left")


def _signed(size: float) -> str:
    return f"{size:+.3g}".replace("-", "−")
