"""How often a graph is estimated anew where it holds, and where everybody depends on others.

`python -m benchmarks.renewals` learns a graph of each kind on 20 weeks of 25 built-in cities of 13
locations. At week 44 it is offered for renewal: in the same city, and in one that has had the
dependencies of another city since week 16. `--quick`: five cities.
"""

from benchmarks.measure import Result, read_options, report

OPTIONS = read_options(__doc__ or "", threads=1)

from forecaster.config import GraphConfig  # noqa: E402 (after the number of threads is set)
from forecaster.graph.learn import learn_graph  # noqa: E402
from forecaster.graph.renewal import LEARNED, renew_graph  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.splits import Splits  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402

WEEK, LOCATIONS, ANOTHER = 168, 13, 100
LEARNED_WEEKS, CHANGED, VALIDATED, WEEKS = 20, 16, 40, 44


def main() -> None:
    """Print the shares of graphs that are estimated anew."""
    cities, results = 5 if OPTIONS.quick else 25, list[Result]()
    for kind in LEARNED:
        renewed = [renewals(kind, seed) for seed in range(cities)]
        for place, name in enumerate(("the same city", "another city")):
            share = sum(pair[place] for pair in renewed) / cities
            results.append(Result(f"{kind}, {name}", share, "of the graphs are estimated anew"))
    report(OPTIONS, [], results)


def renewals(kind: str, seed: int) -> tuple[bool, bool]:
    """Whether a graph is estimated anew in the same city, and in one that has changed."""
    panel, other = (make_panel(kind, number) for number in (seed, seed + ANOTHER))
    config = GraphConfig.model_validate({"kind": kind})
    graph = learn_graph(panel, cut(panel, LEARNED_WEEKS, LEARNED_WEEKS + 2), config)
    values = panel.values.copy()
    values[CHANGED * WEEK :] = other.values[CHANGED * WEEK :]
    same, changed = (
        renew_graph(graph, one, cut(one, VALIDATED, WEEKS), config)
        for one in (panel, panel.with_data(values))
    )
    return same.has_drifted, changed.has_drifted


def make_panel(kind: str, seed: int) -> Panel:
    """A city, in which demand travels where lagged edges are learned."""
    travel = 1.0 if kind == "lagged" else 0.0
    return make_city(LOCATIONS, hours=WEEKS * WEEK + 5, seed=seed, travel=travel).panel


def cut(panel: Panel, trained: int, validated: int) -> Splits:
    """The splits by weeks: training from the first on, validation up to a week, two test steps."""
    at = [f"{panel.times[step]}Z" for step in (0, trained * WEEK - 1, trained * WEEK)]
    end = validated * WEEK
    last, *test = (f"{panel.times[end + step]}Z" for step in (-1, 0, 1))
    return Splits([(at[0], at[1])], [(at[2], last)], [(test[0], test[1])])


if __name__ == "__main__":
    main()
