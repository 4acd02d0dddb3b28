"""The overlap (Jaccard index of edges) of graphs of two halves of a real training period."""

import os
from pathlib import Path

from benchmarks.measure import read_options

OPTIONS = read_options(__doc__, threads=1)

from forecaster.config import GraphConfig  # noqa: E402 (after the threads are set)
from forecaster.errors import ConfigError  # noqa: E402
from forecaster.graph.learn import learn_graph  # noqa: E402
from forecaster.ingest.build import build_panel, find_sources  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.recipe import read_recipe  # noqa: E402
from forecaster.splits import Splits  # noqa: E402

RECIPES = Path(__file__).parents[1] / "recipes"
HALVES = {
    "zone_taxi_2019": (("2019-01-01", "2019-05-28"), ("2019-05-29", "2019-10-24")),
    "uber_2014": (("2014-04-01", "2014-05-06"), ("2014-05-07", "2014-06-09")),
}
GRAPHS = {
    "lasso": GraphConfig(),
    "inverse": GraphConfig(kind="inverse"),
    "lasso, degree 2.5": GraphConfig(degree=2.5),
    "inverse, degree 2.5": GraphConfig(kind="inverse", degree=2.5),
}


def main() -> None:
    """Print the overlap of every kind of graph, and that of random graphs."""
    data = os.environ.get("FORECASTER_DATA")
    if not data:
        raise ConfigError("FORECASTER_DATA is not set; set it to the folder of the real data")
    for name, halves in HALVES.items():
        recipe = read_recipe(RECIPES / f"{name}.toml")
        panel = build_panel(recipe, find_sources(recipe, Path(data)))
        print(f"{name}: {len(panel.locations)} locations")
        for kind, config in GRAPHS.items():
            print(f"  {kind:20} {_compare(panel, halves, config)}")


def _compare(panel: Panel, halves: tuple[tuple[str, str], ...], config: GraphConfig) -> str:
    held_out = [f"{time}Z" for time in panel.times[[-2, -1]]]
    validation, test = ([(stamp, stamp)] for stamp in held_out)
    first, second = (learn_graph(panel, Splits([h], validation, test), config) for h in halves)
    N = len(panel.locations)
    density = (len(first) + len(second)) / (N * (N - 1))
    chance = density / (2 - density)  # the overlap of two random graphs of that density
    overlap = f"overlap {first.overlap(second):.3f}, by chance {chance:.3f}"
    return f"{overlap}; {len(first):,} and {len(second):,} edges"


if __name__ == "__main__":
    main()
