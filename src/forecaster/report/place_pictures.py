"""The locations and what they depend on, as pictures with what to see in them."""

from collections.abc import Iterator

import numpy as np

from forecaster.errors import count_of
from forecaster.graph.dependency import DependencyGraph
from forecaster.panel.panel import Panel
from forecaster.report.graphs import (
    TOP,
    describe_graph,
    draw_degrees,
    draw_map,
    draw_path,
    draw_structure,
    say_how_near,
)
from forecaster.report.maps import map_places, means
from forecaster.report.picture import Picture
from forecaster.report.words import list_names, number


def place_pictures(panel: Panel) -> Iterator[Picture]:
    """Yield the map of the locations, if any has coordinates."""
    figure = map_places(panel)
    if figure is None:
        return
    placed, mean = int(panel.locations.placed.sum()), means(panel)
    busiest = int(np.argmax(np.abs(mean)))
    text = (
        f"{count_of(placed, 'location')} on the map, mean {number(float(mean.mean()))} per step; "
        f"the busiest is {panel.locations.names[busiest]} ({number(float(mean[busiest]))})."
    )
    kind = "Map of the locations, larger and lighter where the mean is higher"
    yield Picture("01-places", "The locations", text, kind, figure)


def graph_pictures(graph: DependencyGraph) -> Iterator[Picture]:
    """Yield the graph's matrix, its map, its degrees and its penalties, as far as it has them."""
    if graph.locations.placed.sum() > 1:
        which = f"The {TOP} strongest of {len(graph):,}" if len(graph) > TOP else "All of them"
        yield Picture(
            "10-dependency-map", "The strongest dependencies",
            f"{which}, wider where stronger; {say_how_near(graph)}.",
            "Map of the locations with a line for each dependency", draw_map(graph),
        )  # fmt: skip
    yield Picture(
        "09-dependency-matrix", "Structure of the dependency matrix",
        f"{describe_graph(graph)['structure']}.",
        "Square of dots: rows and columns are locations, a dot is a dependency",
        draw_structure(graph),
    )  # fmt: skip
    if len(graph):
        hubs = [f"{name} ({degree})" for name, degree in graph.hubs(3)]
        average = f"{graph.average_degree:.2f} on average"
        yield Picture(
            "11-degrees", "Dependencies of a location", f"{average}; most at {list_names(hubs)}.",
            "Bars: how many locations have how many dependencies", draw_degrees(graph),
        )  # fmt: skip
    about = graph.about
    if len(about.path) > 1 and about.penalty is not None:
        text = (
            f"Of {len(about.path)} penalties λ = {about.penalty:.3g} was best by "
            f"{about.chosen_by}; {len(graph):,} of its edges are above the threshold."
        )
        kind = "Line of the score over the penalties, from few edges to many"
        yield Picture("12-penalty", "The penalty of the graph", text, kind, draw_path(about))
