"""Write the golden artifacts of format 2: python -m tests.golden.make_format_2 FOLDER.

The panel was written once, by the last version that saved panels with vintages as format 2; later
ones write format 3. The graph is directed, which is format 2 of graphs.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.storage import save_graph
from forecaster.panel.panel import Panel
from forecaster.panel.vintages import sort_vintages

LEADS = (7, 3, 1, 0, -2)  # steps before its own at which a value is known; −2: measured late
EDGES = pd.DataFrame(
    {
        "source": ["place 0", "place 1", "place 4", "place 2"],
        "target": ["place 1", "place 0", "place 2", "place 3"],
        "strength": [0.5, 0.25, 0.75, -0.125],
        "delay": [1, 2, 1, 3],
    }
)


def announced() -> Panel:
    """The small city with an event that was announced and taken back several times."""
    city = small_city()
    steps = len(city.covariates.values)
    generator = np.random.default_rng(11)
    events = generator.integers(0, 2, (steps * len(LEADS), 1)).astype(np.float32)
    step = np.repeat(np.arange(steps), len(LEADS))
    known = step - np.tile(np.array(LEADS), steps)
    vintages = sort_vintages(("event",), step, known, events)
    values = np.concatenate([city.covariates.values, np.zeros((steps, 1), np.float32)], axis=1)
    every = np.arange(steps)
    values[:, 2:] = vintages.seen(every, every)
    names = (*city.covariates.names, "event")
    shared = replace(city.covariates, names=names, values=values, vintages=vintages)
    return replace(city, covariates=shared)


def directed() -> DependencyGraph:
    """Four edges with delays."""
    return DependencyGraph.from_edges(EDGES, small_city().locations)


def main(folder: Path) -> None:
    """Write the panel and the graph."""
    announced().save(folder / "panels" / "announced", RECIPE)
    save_graph(directed(), folder / "graphs" / "delayed", RECIPE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
