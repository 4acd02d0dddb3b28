"""Learning the dependency graph of a panel: graph."""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.choices import Choose, GraphKind, Subtract
from forecaster.cli import terminal
from forecaster.cli.options import Json, open_panel
from forecaster.errors import ConfigError, count_of

if TYPE_CHECKING:
    from forecaster.clock.clock import Clock
    from forecaster.graph.dependency import DependencyGraph
    from forecaster.recipe import Recipe

UNUSED = {  # options, by kind
    "lagged": ("threshold", "choose", "subtract"),
    "neighbourhood": ("choose", "max_delay"),
}
SAME_MOMENT = ("lasso", "inverse", "pearson", "neighbourhood")  # kinds without a delay


def graph(  # noqa: PLR0913, PLR0917 (one option each)
    panel: Annotated[Path, typer.Argument(help="Folder of the panel.")],
    out: Annotated[Path, typer.Option(help="Output folder of the graph.")],
    recipe_file: Annotated[
        Path | None,
        typer.Option("--recipe", help="Recipe with splits and graph. Default: the panel's."),
    ] = None,
    kind: Annotated[
        GraphKind | None,
        typer.Option(
            help="lasso: who moves together; neighbourhood: the like for many locations, the "
            "default of more than 5,000; lagged: whose past tells about whose future; or an "
            "alternative for comparison."
        ),
    ] = None,
    penalty: Annotated[
        float | None, typer.Option(help="Penalty λ on the correlation scale. Default: chosen.")
    ] = None,
    choose: Annotated[
        Choose | None, typer.Option(help="Criterion that chooses the penalty.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Smallest conditional correlation of an edge. Default: 0.1."),
    ] = None,
    degree: Annotated[
        float | None, typer.Option(help="Target average degree, which sets the threshold.")
    ] = None,
    max_delay: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest delay of a lagged edge in steps: --kind lagged --max-delay 12. "
            "Default: the recent steps of a forecast.",
        ),
    ] = None,
    subtract: Annotated[
        Subtract | None, typer.Option(help="Mean to subtract from the values first.")
    ] = None,
    allow_unconverged: Annotated[
        bool,
        typer.Option(
            "--allow-unconverged", help="Write the graph even if the solver did not converge."
        ),
    ] = False,
    export: Annotated[
        list[Path] | None,
        typer.Option(help="Export to .graphml, .geojson, .csv or .parquet. Repeatable."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the figures. Default: OUT-figures.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn which locations depend on each other from the training steps of a panel."""
    from forecaster.estimators.match import with_lags
    from forecaster.graph.exports import check_export, export_graph
    from forecaster.graph.learn import (
        estimate,
        estimate_lagged,
        estimate_neighbourhoods,
        largest_delay,
        learn_graph,
        resolve_kind,
    )
    from forecaster.graph.storage import save_graph
    from forecaster.panel.panel import saved_recipe
    from forecaster.publish.writing import refuse_foreign
    from forecaster.recipe import Recipe, read_recipe
    from forecaster.splits import Splits

    refuse_foreign(out, "graph")  # checked first, since learning takes long
    recipe = read_recipe(recipe_file) if recipe_file else saved_recipe(panel) or Recipe()
    options = {
        "kind": kind, "penalty": penalty, "choose": choose, "threshold": threshold,
        "degree": degree, "max_delay": max_delay, "subtract": subtract,
    }  # fmt: skip
    options = {name: value for name, value in options.items() if value is not None}
    recipe = _with_options(recipe, options)
    _refuse_unused(recipe.graph.kind, options)
    data = open_panel(panel)
    lags = with_lags(recipe, data).lags
    for path in export or ():
        check_export(data.locations, path)
    kind = resolve_kind(recipe.graph, len(data.locations)).kind
    sizes = len(data.locations), data.shape[0]
    if kind in ("lasso", "lagged", "neighbourhood"):
        if kind == "lagged":
            cost = estimate_lagged(*sizes, largest_delay(data, recipe.graph, lags))
        else:
            cost = (estimate if kind == "lasso" else estimate_neighbourhoods)(*sizes)
        terminal.announce(cost.seconds, cost.memory_bytes, "the graph")
    begin = time.perf_counter()
    with terminal.stages() as (say, _):
        learned = learn_graph(
            data,
            Splits.from_config(data, recipe.splits, recipe.lags.horizon),
            recipe.graph,
            lags=lags,
            allow_unconverged=allow_unconverged,
            progress=say,
        )
    seconds = time.perf_counter() - begin
    learned = save_graph(learned, out, recipe)
    if as_json:
        print(json.dumps(_to_json(learned, out, seconds), ensure_ascii=False))
    else:
        _print_graph(learned, data.clock, out, seconds)
    for path in export or ():
        export_graph(learned, path)
    if figures or not as_json:
        folder = out.resolve()
        _write_figures(learned, data.clock, figures or folder.with_name(f"{folder.name}-figures"))


def _with_options(recipe: "Recipe", options: dict[str, Any]) -> "Recipe":
    """Return the recipe with the options in its section [graph]."""
    from forecaster.config import GraphConfig
    from forecaster.recipe import check_stage

    values = recipe.graph.model_dump(exclude_none=True, exclude_unset=True)
    if {"threshold", "degree"} & options.keys():  # they replace each other
        values.pop("threshold", None)
        values.pop("degree", None)
    graph: GraphConfig = check_stage(GraphConfig, {**values, **options}, source="options")
    return recipe.model_copy(update={"graph": graph})


def _refuse_unused(kind: GraphKind, options: dict[str, Any]) -> None:
    """Refuse options that the kind of graph has no use for."""
    unused = [name for name in UNUSED.get(kind, ("max_delay",)) if name in options]
    if not unused:
        return
    names = " and ".join(f"--{name.replace('_', '-')}" for name in unused)
    if kind == "lagged":
        remedy = "held-out weeks choose its edges; for fewer or more of them give --degree"
    elif "max_delay" in unused:
        remedy = "only edges of --kind lagged have a delay; leave it out"
    else:
        remedy = "held-out weeks choose its penalty; leave it out, or give --penalty"
    raise ConfigError(f"{names}: not used by kind {kind}; {remedy}")


def _print_graph(graph: "DependencyGraph", clock: "Clock", out: Path, seconds: float) -> None:
    from forecaster.report.sections.graph import (
        describe_edges,
        describe_selection,
        explain_no_edges,
    )

    choice = describe_selection(graph.about, clock)
    choice.pop("notes", None)  # printed below
    lines = {
        "graph": f"{count_of(len(graph.locations), 'location')}, {describe_edges(graph)}",
        **(_describe_structure(graph) if len(graph) or not graph.is_directed else {}),
        **choice,
        "time": f"{seconds:.1f} s",
    }
    for name, text in lines.items():
        terminal.show(f"{name:23} {text}")
    for note in graph.about.notes:
        terminal.show(f"note: {note}")
    if graph.about.lagged is not None and not len(graph):
        terminal.show(f"note: {explain_no_edges(graph.about.lagged)}")
    if graph.about.kind in SAME_MOMENT:
        question = "whose past tells about whose future, and what that is worth before you train"
        terminal.show(f"note: edges say who moves together; --kind lagged tells {question}")
    terminal.show(
        f"{out}: graph {(graph.digest or '')[:12]}; `forecaster check {out}` verifies it"
    )


def _describe_structure(graph: "DependencyGraph") -> dict[str, str]:
    """The delays, hubs and components of a graph."""
    from forecaster.report.sections.graph import describe_delays

    sizes = Counter(graph.components.tolist())
    isolated = int((graph.degrees + graph.out_degrees == 0).sum())
    hubs = ", ".join(f"{name} {degree}" for name, degree in graph.hubs()) or "none"
    return {
        **({} if graph.delays is None else {"delays": describe_delays(graph.delays)}),
        "tell about most others" if graph.is_directed else "hubs": hubs,
        "components": f"{len(sizes)}, the largest of {sizes[0]}; {isolated} isolated",
    }


def _to_json(graph: "DependencyGraph", out: Path, seconds: float) -> dict[str, Any]:
    directed: dict[str, Any] = {}
    counted = "targets" if graph.is_directed else "degree"
    if graph.delays is not None:
        delays = Counter(graph.delays.tolist())
        directed = {
            "directed": True,
            "pairs": len(graph.links),
            "delays": dict(sorted(delays.items())),
        }
    if graph.about.lagged is not None:
        directed["out_of_sample"] = [
            {
                "step": worth.step,
                "factors": worth.factors / worth.own - 1,
                "edges": worth.edges / worth.factors - 1,
            }
            for worth in graph.about.lagged.worth
        ]
    return {
        "graph": str(out),
        "hash": graph.digest,
        "locations": len(graph.locations),
        "edges": len(graph),
        **directed,
        "average_degree": graph.average_degree,
        "components": int(graph.components.max()) + 1,
        "hubs": [{"name": name, counted: degree} for name, degree in graph.hubs()],
        "seconds": round(seconds, 3),
        "about": graph.about.model_dump(mode="json"),
    }


def _write_figures(graph: "DependencyGraph", clock: "Clock", folder: Path) -> None:
    """Write the figures; without the extra `report` only print a message."""
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.sections.graph import draw_graph

    try:
        pictures = draw_graph(graph, clock)
    except ConfigError as missing_extra:
        print(f"no figures: {missing_extra}", file=sys.stderr)
        return
    for name, picture in pictures.items():
        replace_file(folder / f"{name}.png", bytes_writer(picture))
    terminal.say(f"figures: {folder} ({', '.join(pictures)})")
