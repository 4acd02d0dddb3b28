import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from forecaster.choices import GraphKind
from forecaster.config import GraphConfig, LagConfig
from forecaster.errors import DataError, ForecasterError, RunError
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import estimate, estimate_lagged, largest_delay, learn_graph
from forecaster.graph.storage import save_graph
from forecaster.ingest.build import build_panel, find_sources
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.publish.manifest import MANIFEST
from forecaster.recipe import read_recipe
from forecaster.splits import Splits
from forecaster.synthetic.city import City, make_city

MakePanel = Callable[..., Panel]
MakeSplits = Callable[[Panel], Splits]
Rounds = Callable[[int, int], int]
RECIPES = Path(__file__).parents[2] / "recipes"
WEEKS = 24 * 7 * 5 + 3  # steps of five weeks and the three that are held out
PENALTY = GraphConfig(penalty=0.1)


def chain(steps: int, places: int, seed: int = 0) -> np.ndarray:
    """Return values of which neighbours depend on each other, and nothing else does."""
    generator = np.random.default_rng(seed)
    precision = np.eye(places) - 0.35 * (np.eye(places, k=1) + np.eye(places, k=-1))
    draws = generator.multivariate_normal(np.zeros(places), np.linalg.inv(precision), steps)
    return 20 + draws


def neighbours(places: int) -> list[list[int]]:
    return [[n, n + 1] for n in range(places - 1)]


def check_graph(graph: DependencyGraph, places: int) -> None:
    """Refuse a graph that no layer could use."""
    matrix = graph.matrix()
    assert matrix.shape == (places, places)
    assert np.isfinite(matrix).all()
    assert np.array_equal(matrix, matrix.T)
    assert (np.abs(graph.strengths) <= 1 + 1e-9).all()


@pytest.fixture(scope="module")
def city() -> City:
    return make_city(locations=31, start="2014-02-03", hours=24 * 7 * 30)


# ------------------------------------------------------------------------------ lagged edges


def test_lagged_edges_go_no_further_back_than_the_network_that_takes_them(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel, lagged = panel_of(chain(WEEKS, 5)), GraphConfig(kind="lagged")
    assert largest_delay(panel, lagged) == 6  # the paper's recent steps
    assert largest_delay(panel, lagged, LagConfig(recent=2)) == 2
    assert largest_delay(panel, lagged, LagConfig(recent=41)) == 6
    wanted = GraphConfig(kind="lagged", max_delay=13)
    assert largest_delay(panel, wanted, LagConfig(recent=2)) == 13
    lags = LagConfig(recent=2, horizon=7)
    about = learn_graph(panel, last_held_out(panel), lagged, lags=lags).about
    assert about.chosen_by == "held-out weeks"
    assert about.lagged is not None
    assert about.lagged.max_delay == 2
    assert [worth.step for worth in about.lagged.worth] == [1, 7]
    long = learn_graph(panel, last_held_out(panel), lagged, lags=LagConfig(horizon=149)).about
    assert long.lagged is not None
    assert [worth.step for worth in long.lagged.worth] == [1, 84]  # half a week


# ------------------------------------------------------------------------------- what is learned


def test_neighbours_of_a_chain_are_found(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    panel = panel_of(chain(WEEKS, 7))
    graph = learn_graph(panel, last_held_out(panel))
    assert graph.pairs.tolist() == neighbours(7)
    assert graph.strengths == pytest.approx(np.full(6, 0.35), abs=0.08)
    assert graph.locations.ids == panel.locations.ids


def test_the_citys_edges_are_found(city: City) -> None:
    splits = Splits.by_share(city.panel)
    config = GraphConfig(degree=2 * len(city.edges) / 31)
    graph = learn_graph(city.panel, splits, config)
    found = set(map(tuple, graph.pairs.tolist()))
    true = set(zip(city.edges.first.tolist(), city.edges.second.tolist(), strict=True))
    assert len(found & true) / len(true) > 0.8  # by chance: 0.08


def test_a_graph_says_how_it_came_to_be(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    panel = panel_of(chain(WEEKS, 7))
    about = learn_graph(panel, last_held_out(panel)).about
    assert (about.kind, about.subtracted, about.chosen_by) == (
        "lasso",
        "hour_of_week",
        "likelihood",
    )
    assert about.penalty in [step.penalty for step in about.path]
    assert (about.steps, about.dropped_steps, about.filled_values) == (WEEKS - 2, 0, 0)
    assert about.hours == ((f"{panel.times[0]}Z", f"{panel.times[-3]}Z"),)
    assert about.converged
    assert about.gap is not None
    assert about.gap <= 1e-4
    assert about.beside is not None
    assert about.beside.edges == 6
    assert about.beside.overlap == 1.0


def test_training_ranges_with_a_hole_are_remembered(panel_of: MakePanel) -> None:
    panel = panel_of(chain(WEEKS, 5))
    stamps = [f"{time}Z" for time in panel.times]
    splits = Splits(
        train=[(stamps[0], stamps[99]), (stamps[200], stamps[-2])],
        validation=[(stamps[100], stamps[199])],
        test=[(stamps[-1], stamps[-1])],
    )
    about = learn_graph(panel, splits, PENALTY).about
    assert about.hours == ((stamps[0], stamps[99]), (stamps[200], stamps[-2]))
    assert about.steps == WEEKS - 101


def test_a_hidden_daily_cycle_is_subtracted_unless_told(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    noise = np.random.default_rng(5).normal(size=(WEEKS, 5))
    blank = panel_of(noise)
    hours = blank.clock.slot_of_season(blank.times)[:, None]  # across a clock change
    panel = panel_of(noise + 30 * np.sin(hours * np.pi / 12))
    splits = last_held_out(panel)
    assert len(learn_graph(panel, splits)) == 0
    assert len(learn_graph(panel, splits, GraphConfig(subtract="nothing"))) == 10


def test_a_given_penalty_is_taken(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    panel = panel_of(chain(WEEKS, 7))
    about = learn_graph(panel, last_held_out(panel), GraphConfig(penalty=0.07)).about
    assert (about.penalty, about.chosen_by, about.path) == (0.07, "given", ())


def test_a_penalty_can_be_chosen_by_the_extended_bic(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(WEEKS, 7))
    graph = learn_graph(panel, last_held_out(panel), GraphConfig(choose="ebic"))
    assert graph.pairs.tolist() == neighbours(7)
    assert graph.about.chosen_by == "ebic"


def test_a_threshold_within_the_noise_of_few_steps_is_noted(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    noted = []
    for steps in (101, WEEKS * 2):  # 3/√99 = 0.30, 3/√1684 = 0.073
        panel = panel_of(chain(steps, 5))
        graph = learn_graph(panel, last_held_out(panel), PENALTY)
        noted.append([note for note in graph.about.notes if "chance" in note])
    assert noted == [["threshold 0.1 is below 3/√M = 0.302: weak edges may be chance"], []]


@pytest.mark.parametrize("odd", ["a spike in a held-out week", "opened in the last week"])
def test_one_odd_location_does_not_choose_the_penalty_for_all(
    odd: str, panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    values = chain(20 * 168 + 3, 11)
    if odd == "opened in the last week":
        values[:-170, 5] = 0.0
    else:
        values[3 * 168 + 50, 5] += 3_000.0
    panel = panel_of(values)
    graph = learn_graph(panel, last_held_out(panel))
    found = {tuple(pair) for pair in graph.pairs.tolist()}
    assert {(n, n + 1) for n in range(10) if 5 not in (n, n + 1)} <= found


def test_a_degree_that_cannot_be_reached_is_noted(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(WEEKS, 11))
    graph = learn_graph(panel, last_held_out(panel), GraphConfig(degree=7.0, penalty=0.3))
    assert "average degree 7 is not possible" in graph.about.notes[-1]


def test_the_threshold_can_be_set_by_degree(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(WEEKS, 11))
    graph = learn_graph(panel, last_held_out(panel), GraphConfig(degree=6 / 11))
    assert len(graph) == 3
    assert graph.about.degree == 6 / 11
    assert graph.about.threshold is not None
    assert graph.about.threshold < np.abs(graph.strengths).min()


def test_progress_tells_what_is_done(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    panel, told = panel_of(chain(WEEKS, 5)), list[str]()
    learn_graph(panel, last_held_out(panel), progress=told.append)
    assert told[0] == "covariance of 841 training steps"
    assert told[1].startswith("penalty ")
    assert told[-1] == "comparison with the thresholded inverse"


# ---------------------------------------------------------------------------- other kinds of graph


@pytest.mark.parametrize(
    ("kind", "edges"), [("own", 0), ("complete", 21), ("inverse", 6), ("pearson", 11)]
)
def test_other_kinds_have_the_same_interface(
    kind: GraphKind, edges: int, panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(WEEKS, 7))
    graph = learn_graph(panel, last_held_out(panel), GraphConfig(kind=kind))
    assert len(graph) == edges
    assert graph.about.kind == kind
    check_graph(graph, 7)


def test_a_random_graph_is_as_dense_as_the_learned_one(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(WEEKS, 13))
    splits = last_held_out(panel)
    graph = learn_graph(panel, splits, GraphConfig(kind="random", seed=1))
    assert len(graph) == len(learn_graph(panel, splits))
    other = learn_graph(panel, splits, GraphConfig(kind="random", seed=2))
    assert not np.array_equal(graph.pairs, other.pairs)
    assert len(learn_graph(panel, splits, GraphConfig(kind="random", degree=4.0))) == 26


def test_a_distance_graph_needs_places(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    ids = tuple("abcde")
    places = Locations(ids, ids, np.array([40.0, 40.1, 40.2, 44.0, 44.1]), np.full(5, -74.0))
    panel = panel_of(chain(29, 5), places)
    config = GraphConfig(kind="distance")
    graph = learn_graph(panel, last_held_out(panel), config)
    assert graph.pairs.tolist() == [[0, 1], [0, 2], [1, 2], [3, 4]]
    with pytest.raises(DataError, match="a distance graph needs lat and lon"):
        learn_graph(panel_of(chain(29, 5)), last_held_out(panel), config)


def test_the_inverse_is_refused_where_there_is_none(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(13, 17))
    with pytest.raises(DataError, match=r"singular.*\(17 locations, 11 steps\); use the graphic"):
        learn_graph(panel, last_held_out(panel), GraphConfig(kind="inverse"))


# ------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize("count", range(1, 6))
def test_G1_constant_locations_are_kept_isolated(
    count: int, panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    values = chain(WEEKS, 5)
    values[:, :count] = np.array([0.0, 7.0, 1e9, -0.1, 3e-9])[:count]
    panel = panel_of(values)
    graph = learn_graph(panel, last_held_out(panel))
    check_graph(graph, 5)
    assert graph.pairs.tolist() == [pair for pair in neighbours(5) if min(pair) >= count]
    names = ", ".join(f"p{n}" for n in range(count))
    note = f"locations [{names}] have zero variance in the training steps: kept isolated"
    assert note in graph.about.notes


@pytest.mark.parametrize("steps", [10, 13, 31, 49])
def test_G2_fewer_steps_than_locations_give_a_graph_with_a_note(
    steps: int, panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(steps + 2, 50))
    graph = learn_graph(panel, last_held_out(panel))
    check_graph(graph, 50)
    assert any(note.startswith(f"N = 50 locations > M = {steps} ") for note in graph.about.notes)
    assert graph.about.beside is not None
    assert graph.about.beside.edges is None
    assert "singular" in graph.about.beside.note


def test_G3_collinear_locations_are_named(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    values = chain(WEEKS, 5)
    values[:, 3] = 1e9 * values[:, 1]
    values[:, 4] *= 1e-9
    panel = panel_of(values)
    graph = learn_graph(panel, last_held_out(panel))
    check_graph(graph, 5)
    assert any(note.startswith("1 collinear pair: p1 – p3;") for note in graph.about.notes)
    assert [1, 3] in graph.pairs.tolist()


def spoil(values: np.ndarray, n: int, generator: np.random.Generator) -> None:
    """Make a location degenerate in one of the ways that there are, or leave it as it is."""
    steps, places = values.shape
    other = values[:, generator.integers(places)]
    quiet = generator.random(steps) < generator.choice([0.01, 0.1, 1.0])
    ways = (
        np.full(steps, generator.choice([0.0, 1.0, 1e30, -7e-9])),
        other * generator.choice([1, -3, 0]),
        values[:, : n + 1].sum(axis=1),
        values[:, n] * 10.0 ** generator.uniform(-9, 9),
        1e7 + generator.integers(0, 2, steps),  # the last bit of float32
        np.where(np.arange(steps) < steps // 2, values[:, n], values[0, n]),  # later still
        np.where(quiet, np.nan, values[:, n]),
        values[:, n],
        np.rint(np.abs(values[:, n] - 20)),  # small counts
    )
    values[:, n] = ways[generator.integers(len(ways))]


@pytest.mark.slow
def test_G3_degenerate_panels_give_a_valid_graph_or_a_typed_error(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    generator = np.random.default_rng(17)
    graphs = 0
    for seed in range(500):
        places, steps = int(generator.integers(1, 9)), generator.choice([3, 5, 9, 13, 31, 61, 400])
        values = chain(int(steps), places, seed)
        for n in range(places):
            spoil(values, n, generator)
        panel = panel_of(values)
        config = GraphConfig(
            subtract="nothing" if generator.random() < 0.5 else "hour_of_week",
            penalty=None if generator.random() < 0.5 else float(10 ** generator.uniform(-3, 0)),
            penalise_diagonal=bool(generator.random() < 0.7),
        )
        with suppress(ForecasterError):
            check_graph(learn_graph(panel, last_held_out(panel), config), places)
            graphs += 1
    assert graphs > 300  # the others are too short, or hardly observed


def test_G4_a_gap_above_the_tolerance_is_refused_unless_allowed(
    panel_of: MakePanel, last_held_out: MakeSplits, tmp_path: Path
) -> None:
    panel = panel_of(chain(WEEKS, 11))
    config = GraphConfig(penalty=0.01, max_iterations=1, gap_tolerance=1e-12)
    with pytest.raises(RunError, match=r"dual gap .* > 1e-12 after 1 iteration; raise max") as no:
        learn_graph(panel, last_held_out(panel), config)
    assert no.value.exit_code == 5
    graph = learn_graph(panel, last_held_out(panel), config, allow_unconverged=True)
    save_graph(graph, tmp_path)
    assert '"converged": false' in (tmp_path / MANIFEST).read_text()
    assert any("not converged" in note or "gap" in note for note in graph.about.notes)


def test_G5_infinite_values_are_refused_with_their_rows() -> None:
    import pandas as pd  # noqa: PLC0415 (the boundary is a table)

    times = pd.date_range("2015-03-01", periods=5, freq="h", tz="UTC")
    table = pd.DataFrame({"time": times, "a": [1, 2, np.inf, 4, 5.0], "b": range(5)})
    with pytest.raises(DataError, match=r"column 'a': 1 value infinite: row 3 \(inf\)"):
        Panel.from_wide(table, timezone="UTC")


def test_G6_a_graph_sees_training_steps_only(panel_of: MakePanel, tmp_path: Path) -> None:
    values = chain(WEEKS, 7).astype(np.float32)
    panel = panel_of(values)
    splits = Splits.by_share(panel)
    outside = ~splits.mask("train", panel.clock, panel.times)
    values[outside] = np.where(
        np.random.default_rng(0).random((outside.sum(), 7)) < 0.3, np.nan, 9
    )
    for name, each in (("one", panel), ("other", panel_of(values))):
        save_graph(learn_graph(each, splits), tmp_path / name)
    one, other = (
        {p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "other")
    )
    assert one == other
    assert outside.sum() > 200


def test_G6_overlapping_splits_are_refused(panel_of: MakePanel) -> None:
    panel = panel_of(chain(WEEKS, 5))
    stamps = [f"{time}Z" for time in panel.times]
    splits = Splits([(stamps[0], stamps[-3])], [(stamps[-3], stamps[-2])], [(stamps[-1],) * 2])
    with pytest.raises(DataError, match="1 step in both train and validation"):
        learn_graph(panel, splits)


@pytest.mark.parametrize(
    ("threshold", "edges", "words"),
    [(0.999, 0, "leaves no edge: average degree 0 "), (0.0, 6, "leaves every edge: average deg")],
)
def test_G7_a_threshold_that_leaves_no_edge_or_all_is_allowed_and_noted(
    threshold: float, edges: int, words: str, panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(WEEKS, 4))
    config = GraphConfig(kind="inverse", threshold=threshold)
    graph = learn_graph(panel, last_held_out(panel), config)
    assert len(graph) == edges
    (note,) = graph.about.notes
    assert words in note


@pytest.mark.parametrize("kind", ["lasso", "inverse", "pearson", "random", "complete", "own"])
def test_G9_one_location_has_a_graph(
    kind: GraphKind, panel_of: MakePanel, last_held_out: MakeSplits, tmp_path: Path
) -> None:
    panel = panel_of(chain(31, 1))
    graph = learn_graph(panel, last_held_out(panel), GraphConfig(kind=kind))
    assert (len(graph), graph.average_degree, graph.components.tolist()) == (0, 0.0, [0])
    save_graph(graph, tmp_path).match(panel)


def test_G10_edges_do_not_depend_on_the_number_of_threads(
    panel_of: MakePanel, last_held_out: MakeSplits, rounds: Callable[[int, int], int]
) -> None:
    for seed in range(rounds(5, 50)):
        panel = panel_of(chain(401, 43, seed))
        graphs = []
        for threads in (1, 3):
            with threadpool_limits(threads):
                config = GraphConfig(penalty=0.05, degree=2.5)
                graphs.append(learn_graph(panel, last_held_out(panel), config))
        assert np.array_equal(graphs[0].pairs, graphs[1].pairs)
        assert graphs[0].strengths == pytest.approx(graphs[1].strengths, abs=1e-9)


def test_G11_the_estimate_of_memory_is_within_a_factor_of_two(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(907, 251))
    splits = last_held_out(panel)
    learn_graph(panel, splits)  # what is compiled or loaded once is not counted
    tracemalloc.start()
    learn_graph(panel, splits)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < estimate(251, 907).memory_bytes / peak < 2.0


def test_the_estimate_of_memory_of_lagged_edges_is_within_a_factor_of_two(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(907, 251))
    splits, config = last_held_out(panel), GraphConfig(kind="lagged")
    learn_graph(panel, splits, config)  # what is compiled or loaded once is not counted
    tracemalloc.start()
    learn_graph(panel, splits, config)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < estimate_lagged(251, 907, 6).memory_bytes / peak < 2.0
    assert estimate_lagged(996, 52_560, 6).seconds > 10 * estimate_lagged(251, 907, 6).seconds


def test_G11_an_interruption_leaves_nothing_behind(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(chain(WEEKS, 11))
    splits = last_held_out(panel)

    def interrupt(words: str) -> None:
        if words.startswith("graphical lasso"):
            raise KeyboardInterrupt

    before = learn_graph(panel, splits)
    with pytest.raises(KeyboardInterrupt):
        learn_graph(panel, splits, progress=interrupt)
    after = learn_graph(panel, splits)
    assert before.strengths.tobytes() == after.strengths.tobytes()


# --------------------------------------------------------------------------------------- real data


def halves(panel: Panel, first: tuple[str, str], second: tuple[str, str]) -> Iterator[Splits]:
    """Yield splits that train on one half of the training period each."""
    for train in (first, second):
        held_out = [f"{time}Z" for time in panel.times[[-2, -1]]]
        yield Splits([train], [(held_out[0],) * 2], [(held_out[1],) * 2])


def real_panel(recipe: str, folder: str) -> Panel:
    data = os.environ.get("FORECASTER_DATA")
    if not data:
        pytest.skip(f"FORECASTER_DATA is not set; this test needs {folder}")
    given = read_recipe(RECIPES / f"{recipe}.toml")
    return build_panel(given, find_sources(given, Path(data)))


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "folder", "first", "second"),
    [
        ("zone_taxi_2019", "nyc_taxi_manhattan69_2019_2020",
         ("2019-01-01", "2019-05-28"), ("2019-05-29", "2019-10-24")),
        ("uber_2014", "uber_nyc_2014", ("2014-04-01", "2014-05-06"), ("2014-05-07", "2014-06-09")),
    ],
    ids=["zone taxi", "uber"],
)  # fmt: skip
def test_both_halves_of_a_real_training_period_agree_far_better_than_chance(
    recipe: str, folder: str, first: tuple[str, str], second: tuple[str, str]
) -> None:
    panel = real_panel(recipe, folder)
    one, other = (learn_graph(panel, splits) for splits in halves(panel, first, second))
    N = len(panel.locations)
    density = (len(one) + len(other)) / (N * (N - 1))
    chance = density / (2 - density)  # the overlap of two random graphs of that density
    found = one.overlap(other)
    words = f"{folder}: {len(one)} and {len(other)} edges of {N} locations"
    assert found > 3 * chance, f"{words}, overlap {found:.3f}, by chance {chance:.3f}"
