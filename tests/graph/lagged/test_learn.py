from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import GraphConfig, LagConfig
from forecaster.errors import DataError
from forecaster.graph.dependency import About, DependencyGraph, LaggedRecord
from forecaster.graph.lagged import regressions
from forecaster.graph.learn import learn_graph
from forecaster.graph.storage import open_graph, save_graph
from forecaster.panel.panel import Panel
from forecaster.splits import Splits
from forecaster.synthetic.city import City, make_city
from tests.graph.lagged.conftest import EDGES, follow

MakePanel = Callable[..., Panel]
MakeSplits = Callable[[Panel], Splits]
STEPS, PLACES = 2003, 23
LAGGED = GraphConfig(kind="lagged")
CHANCE = "no edges: on held-out weeks no edge helps by more than chance"


def record_of(graph: DependencyGraph) -> LaggedRecord:
    assert graph.about.lagged is not None
    return graph.about.lagged


def edges_of(graph: DependencyGraph) -> list[tuple[int, int, int]]:
    assert graph.delays is not None
    return [(*pair, d) for pair, d in zip(graph.pairs.tolist(), graph.delays, strict=True)]


def without_effects(edges: tuple[tuple[int, int, int, float], ...]) -> list[tuple[int, int, int]]:
    return sorted(edge[:3] for edge in edges)


def assert_same(one: DependencyGraph, other: DependencyGraph) -> None:
    assert edges_of(one) == edges_of(other)
    assert np.array_equal(one.strengths, other.strengths)
    assert one.about == other.about


@pytest.fixture(scope="module")
def panel(panel_of: MakePanel) -> Panel:
    return panel_of(20 + follow(STEPS, PLACES))


@pytest.fixture(scope="module")
def splits(panel: Panel) -> Splits:
    """Two ranges of training, validation between them, test at the end."""
    at = [f"{time}Z" for time in panel.times[[0, 898, 899, 967, 968, -102, -101, -1]]]
    return Splits(
        train=[(at[0], at[1]), (at[4], at[5])],
        validation=[(at[2], at[3])],
        test=[(at[6], at[7])],
    )


@pytest.fixture(scope="module")
def graph(panel: Panel, splits: Splits) -> DependencyGraph:
    return learn_graph(panel, splits, LAGGED)


# ------------------------------------------------------------------------------- what is learned


def test_the_edges_of_a_linear_process_are_found(graph: DependencyGraph) -> None:
    assert edges_of(graph) == without_effects(EDGES)
    assert graph.is_directed
    spread = {source: 1.0 for source, *_ in EDGES} | {0: 1.16**0.5}
    for (source, target, _, effect), strength in zip(EDGES, graph.strengths, strict=True):
        variance = {0: 1.16, 3: 1 + 0.25 * 1.16, 4: 1 + 0.45**2}[target]  # 1 + effect² of sources
        expected = effect * spread[source] / variance**0.5
        assert strength == pytest.approx(expected, abs=0.07)  # three standard errors


def test_edges_between_days_are_found() -> None:
    """A season of seven steps is shorter than the delays that are looked at."""
    table = pd.DataFrame(20 + follow(STEPS, 7), columns=[f"s{n}" for n in range(7)])
    table.insert(0, "time", pd.date_range("2015-01-01", periods=STEPS, freq="D"))
    daily = Panel.from_wide(table, timezone="UTC", kind="measurement", step_minutes=24 * 60)
    graph = learn_graph(daily, Splits.by_share(daily), LAGGED)
    assert edges_of(graph) == without_effects(EDGES)
    record = record_of(graph)
    assert (record.max_delay, record.blocks) == (7, 20)
    assert [worth.step for worth in record.worth] == [1, 3]


def test_a_long_horizon_is_measured_too(panel: Panel, splits: Splits) -> None:
    lags = LagConfig(recent=6, seasons=(), horizon=168)
    record = record_of(learn_graph(panel, splits, LAGGED, lags=lags))
    assert [worth.step for worth in record.worth] == [1, 84]  # half a week


def test_a_lagged_graph_says_how_it_came_to_be(
    graph: DependencyGraph, panel: Panel, splits: Splits
) -> None:
    about, record = graph.about, record_of(graph)
    assert (about.kind, about.notes, about.threshold, about.degree) == ("lagged", (), None, None)
    assert about.steps == splits.mask("train", panel.clock, panel.times).sum()
    assert about.hours == tuple((f"{a}Z", f"{b}Z") for a, b in _training_ranges(panel))
    assert (record.max_delay, record.blocks) == (6, 20)
    assert record.p_value < 1e-6
    assert record.gap is not None
    assert 0 <= record.gap < 1e-4
    assert record.penalty in [step.penalty for step in record.path]
    assert (np.diff([step.penalty for step in record.path]) < 0).all()
    best = max(step.score for step in record.path)
    chosen = next(step for step in record.path if step.penalty == record.penalty)
    assert 0 < 0.94 * best <= chosen.score
    one, horizon = record.worth
    assert (one.step, horizon.step) == (1, 3)
    share = sum(1 - 1 / v for v in (1.16, 1 + 0.25 * 1.16, 1 + 0.45**2)) / PLACES  # explained
    assert one.edges == pytest.approx(one.own * (1 - share) ** 0.5, abs=0.003)
    assert one.own == pytest.approx(1, abs=0.01)  # noise of variance 1
    assert horizon.own == pytest.approx(1, abs=0.01)


def _training_ranges(panel: Panel) -> list[tuple[np.datetime64, np.datetime64]]:
    times = panel.times
    return [(times[0], times[898]), (times[968], times[-102])]


def test_independent_noise_has_no_edges(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    noise = panel_of(20 + np.random.default_rng(2).standard_normal((1009, PLACES)))
    graph = learn_graph(noise, last_held_out(noise), LAGGED)
    assert len(graph) == 0
    assert graph.is_directed
    assert graph.about.notes == (CHANCE,)
    assert record_of(graph).penalty is None
    assert record_of(graph).gap is None


@pytest.mark.parametrize("seed", range(5))
def test_places_that_are_persistent_alone_have_no_edges(
    panel_of: MakePanel, last_held_out: MakeSplits, seed: int
) -> None:
    values = np.random.default_rng(seed).standard_normal((1009, 13))
    for t in range(1, len(values)):
        values[t] += 0.8 * values[t - 1]
    panel = panel_of(20 + values)
    assert len(learn_graph(panel, last_held_out(panel), LAGGED)) == 0


def test_a_few_days_cannot_tell_whether_edges_help(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    panel = panel_of(20 + follow(24 * 5, PLACES))
    graph = learn_graph(panel, last_held_out(panel), LAGGED)
    assert len(graph) == 0
    days = record_of(graph).blocks
    reason = f"{days} blocks of held-out days, and 7 are needed to tell whether edges help"
    assert graph.about.notes == (f"no edges: {reason}",)
    assert 0 < days < 7


def test_what_all_places_share_is_a_factor_and_no_edges(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    generator = np.random.default_rng(3)
    shared = generator.standard_normal(1010)
    values = 20 + generator.standard_normal((1009, PLACES)) + (shared[1:] + shared[:-1])[:, None]
    panel = panel_of(values)
    graph = learn_graph(panel, last_held_out(panel), LAGGED)
    assert record_of(graph).factors > 0
    assert len(graph) == 0


def test_edges_are_found_beside_what_all_places_share(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    generator = np.random.default_rng(5)
    shared = np.convolve(generator.standard_normal(STEPS), [1.0, 0.8, 0.6], mode="same")
    panel = panel_of(20 + follow(STEPS, PLACES) + 0.5 * shared[:, None])
    graph = learn_graph(panel, last_held_out(panel), LAGGED)
    assert record_of(graph).factors > 0
    assert set(without_effects(EDGES)) <= set(edges_of(graph))
    assert len(graph) <= 5


@pytest.mark.parametrize("seed", range(3))
def test_the_factors_of_a_few_places_do_not_hide_their_edges(
    panel_of: MakePanel, last_held_out: MakeSplits, seed: int
) -> None:
    panel = panel_of(20 + follow(4003, 7, seed))
    graph = learn_graph(panel, last_held_out(panel), LAGGED)
    assert record_of(graph).factors <= 1
    assert edges_of(graph) == without_effects(EDGES)


def test_the_edges_of_counts_are_found(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    generator, values = np.random.default_rng(6), np.empty((STEPS, PLACES))
    for t in range(STEPS):
        rates = np.full(PLACES, 40.0)
        for source, target, delay, effect in EDGES:
            rates[target] += effect * (values[t - delay, source] - 40) if t >= delay else 0
        values[t] = generator.poisson(np.maximum(rates, 0))
    values[generator.random(values.shape) < 0.03] = np.nan
    panel = replace(panel_of(values), kind="count")
    graph = learn_graph(panel, last_held_out(panel), LAGGED)
    assert edges_of(graph) == without_effects(EDGES)
    assert np.sign(graph.strengths).tolist() == [1, -1, 1]


def test_an_edge_may_have_several_delays(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    values = np.random.default_rng(7).standard_normal((STEPS, 11))
    for t in range(3, STEPS):
        values[t, 5] += 0.4 * values[t - 1, 7] - 0.4 * values[t - 3, 7]
    panel = panel_of(values)
    graph = learn_graph(panel, last_held_out(panel), LAGGED)
    assert edges_of(graph) == [(7, 5, 1), (7, 5, 3)]
    assert np.sign(graph.strengths).tolist() == [1, -1]


# ------------------------------------------------------------------------ what must not matter


def test_nothing_is_learned_from_validation_and_test(
    graph: DependencyGraph, panel: Panel, splits: Splits
) -> None:
    values = panel.values.copy()
    held_out = ~splits.mask("train", panel.clock, panel.times)
    values[held_out] = np.random.default_rng(0).normal(1e3, 1e3, values[held_out].shape)
    values[held_out, 5] = np.nan
    assert_same(graph, learn_graph(replace(panel, values=values), splits, LAGGED))


def test_the_order_of_places_does_not_matter(
    graph: DependencyGraph, panel_of: MakePanel, panel: Panel, splits: Splits
) -> None:
    order = np.random.default_rng(1).permutation(PLACES)
    other = learn_graph(panel_of(panel.values[:, order]), splits, LAGGED)
    assert other.delays is not None
    back = [(order[a], order[b], d) for (a, b), d in zip(other.pairs, other.delays, strict=True)]
    assert sorted(back) == edges_of(graph)
    ordered = other.strengths[sorted(range(len(back)), key=back.__getitem__)]
    assert ordered == pytest.approx(graph.strengths, rel=1e-4)


def test_units_do_not_matter(
    graph: DependencyGraph, panel_of: MakePanel, panel: Panel, splits: Splits
) -> None:
    other = learn_graph(panel_of(1_000 * panel.values - 5e4), splits, LAGGED)
    assert edges_of(other) == edges_of(graph)
    assert other.strengths == pytest.approx(graph.strengths, rel=1e-3)


@pytest.mark.parametrize(
    ("step", "place"),
    [(50, 0), (3 * 168 + 50, 4), (50, 7)],  # weeks: fitted, held out
)
def test_one_wrong_value_makes_no_edge(
    panel_of: MakePanel, panel: Panel, splits: Splits, step: int, place: int
) -> None:
    values = panel.values.copy()
    values[step, place] *= 1e6
    found = edges_of(learn_graph(panel_of(values), splits, LAGGED))
    assert set(found) <= set(without_effects(EDGES))
    assert set(found) >= {edge for edge in without_effects(EDGES) if place not in edge[:2]}


def test_wrong_values_everywhere_at_two_steps_make_no_edge(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    values = 20 + np.random.default_rng(2).standard_normal((1009, 11))
    values[501:503] *= 1e6
    panel = panel_of(values)
    assert len(learn_graph(panel, last_held_out(panel), LAGGED)) == 0


def test_wrong_values_of_two_places_in_turn_make_no_edge(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    values = 20 + np.random.default_rng(1).standard_normal((4003, 7))
    values[3 * 168 + 50, 1] *= 1e6
    values[3 * 168 + 51, 2] *= 1e6
    panel = panel_of(values)
    assert len(learn_graph(panel, last_held_out(panel), LAGGED)) == 0


@pytest.mark.parametrize("level", [0.0, 0.1, -7e9])
def test_places_that_never_change_have_no_edges(
    panel_of: MakePanel, panel: Panel, splits: Splits, level: float
) -> None:
    values = panel.values.copy()
    values[:, [5, 11]] = level
    graph = learn_graph(panel_of(values), splits, LAGGED)
    assert edges_of(graph) == without_effects(EDGES)
    (note,) = graph.about.notes
    assert "no edges" in note
    assert "2 locations" in note
    assert note.endswith("5, 11")


def test_a_place_without_a_value_has_no_edges(
    panel_of: MakePanel, panel: Panel, splits: Splits
) -> None:
    values = panel.values.copy()
    values[:, 5] = np.nan
    graph = learn_graph(panel_of(values), splits, LAGGED)
    assert edges_of(graph) == without_effects(EDGES)
    (note,) = graph.about.notes
    assert "1 location" in note
    assert note.endswith(" 5")


# --------------------------------------------------------------------------------- what is given


def test_a_given_penalty_is_taken_as_it_is(panel: Panel, splits: Splits) -> None:
    config = GraphConfig(kind="lagged", penalty=0.05)
    graph = learn_graph(panel, splits, config)
    record = record_of(graph)
    assert record.penalty == 0.05
    assert [step.penalty for step in record.path] == [0.05]
    assert set(without_effects(EDGES)) <= set(edges_of(graph))


def test_a_penalty_that_leaves_nothing_leaves_no_edges(panel: Panel, splits: Splits) -> None:
    graph = learn_graph(panel, splits, GraphConfig(kind="lagged", penalty=3.0))
    assert len(graph) == 0
    assert record_of(graph).p_value == 1
    reason = "penalty 3 leaves none, or chance could explain them"
    assert graph.about.notes == (f"no edges: {reason}",)


@pytest.mark.parametrize("edges", [1, 2, 3])
def test_the_strongest_edges_make_a_wanted_degree(
    panel: Panel, splits: Splits, graph: DependencyGraph, edges: int
) -> None:
    config = GraphConfig(kind="lagged", degree=edges / PLACES)
    other = learn_graph(panel, splits, config)
    assert other.about.degree == edges / PLACES
    assert len(other) == edges
    strongest = np.argsort(-np.abs(graph.strengths))[:edges]
    assert {edges_of(graph)[n] for n in strongest} <= set(edges_of(other))


def test_no_degree_is_reached_by_chance(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    panel = panel_of(20 + follow(1009, 7))
    config = GraphConfig(kind="lagged", degree=5.0)
    graph = learn_graph(panel, last_held_out(panel), config)
    assert set(without_effects(EDGES)) <= set(edges_of(graph))
    assert len(graph) < 7
    degree = f"the largest is {graph.average_degree:.3g}"
    assert graph.about.notes == (f"average degree 5 is not possible without chance; {degree}",)


def test_all_delays_of_the_strongest_pairs_make_a_wanted_degree(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    values = np.random.default_rng(7).standard_normal((STEPS, 11))
    for t in range(3, STEPS):
        values[t, 5] += 0.5 * values[t - 1, 7] - 0.45 * values[t - 3, 7]
        values[t, 2] += 0.35 * values[t - 2, 9]
        values[t, 1] += 0.2 * values[t - 2, 4]
    panel = panel_of(values)
    graph = learn_graph(panel, last_held_out(panel), GraphConfig(kind="lagged", degree=2 / 11))
    assert edges_of(graph) == [(7, 5, 1), (7, 5, 3), (9, 2, 2)]
    assert graph.average_degree == 2 / 11


def test_a_penalty_that_leaves_too_much_is_refused(
    panel: Panel, splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regressions, "_ROOM", 7)
    words = r"at penalty 0\.0001 a location depends on too many others; give a larger penalty"
    with pytest.raises(DataError, match=words):
        learn_graph(panel, splits, GraphConfig(kind="lagged", penalty=1e-4))


def test_no_edge_is_longer_than_the_largest_delay(panel: Panel, splits: Splits) -> None:
    graph = learn_graph(panel, splits, GraphConfig(kind="lagged", max_delay=2))
    assert record_of(graph).max_delay == 2
    assert edges_of(graph) == [edge for edge in without_effects(EDGES) if edge[2] <= 2]
    assert len(graph) == 2


def test_a_delay_beyond_the_recent_steps_is_found_if_wanted(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    values = np.random.default_rng(8).standard_normal((STEPS, 11))
    values[13:, 3] += 0.5 * values[:-13, 7]
    panel = panel_of(values)
    far = GraphConfig(kind="lagged", max_delay=17)
    assert edges_of(learn_graph(panel, last_held_out(panel), far)) == [(7, 3, 13)]
    assert edges_of(learn_graph(panel, last_held_out(panel), LAGGED)) == []


# ------------------------------------------------------------------------------------- all sizes


@pytest.mark.parametrize(
    ("steps", "places"), [(1009, 1), (1009, 2), (29, 53), (5, 3), (211, 59), (4, 1)]
)
@pytest.mark.parametrize("config", [LAGGED, GraphConfig(kind="lagged", penalty=0.3)])
def test_all_sizes_give_a_graph(
    panel_of: MakePanel, steps: int, places: int, config: GraphConfig
) -> None:
    panel = panel_of(np.random.default_rng(4).standard_normal((steps + 2, places)))
    times = [f"{time}Z" for time in panel.times[[0, -3, -2, -1]]]
    splits = Splits([(times[0], times[1])], [(times[2],) * 2], [(times[3],) * 2])
    graph = learn_graph(panel, splits, config)
    assert graph.is_directed
    if config is LAGGED:
        assert len(graph) == 0
        assert graph.about.notes


def test_two_places_may_follow_each_other(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    values = np.random.default_rng(9).standard_normal((STEPS, 2))
    for t in range(3, STEPS):
        values[t, 0] += 0.4 * values[t - 3, 1]
        values[t, 1] -= 0.5 * values[t - 1, 0]
    panel = panel_of(values)
    assert edges_of(learn_graph(panel, last_held_out(panel), LAGGED)) == [(0, 1, 1), (1, 0, 3)]


# ---------------------------------------------------------------------------------- what is kept


def test_a_lagged_graph_is_opened_as_it_was_saved(graph: DependencyGraph, tmp_path: Path) -> None:
    save_graph(graph, tmp_path / "graph")
    assert_same(graph, open_graph(tmp_path / "graph"))


def test_the_records_of_other_kinds_do_not_speak_of_lags(
    graph: DependencyGraph, panel: Panel, splits: Splits
) -> None:
    for kind in ("own", "lasso"):
        about = learn_graph(panel, splits, GraphConfig(kind=kind, penalty=0.1)).about
        assert "lagged" not in about.model_dump(mode="json")
    assert "lagged" not in About(kind="given").model_dump_json()
    assert About.model_validate_json(graph.about.model_dump_json()) == graph.about


# ------------------------------------------------------------------------------ the generated city


def learn_city(travel: float, hours: int) -> tuple[City, DependencyGraph]:
    city = make_city(59, hours=hours, travel=travel)
    splits = Splits.by_share(city.panel, validation=0.05, test=0.05)
    return city, learn_graph(city.panel, splits, LAGGED.model_copy(update={"max_delay": 3}))


def test_the_edges_of_a_city_that_travels_are_found_with_directions_and_delays() -> None:
    city, graph = learn_city(travel=1.0, hours=8_760)
    true = city.lagged_edges
    wanted = {(*pair, d) for pair, d in zip(true.pairs.tolist(), true.delays, strict=True)}
    found = set(edges_of(graph))
    assert len(wanted) > 90
    assert 2 * len(wanted & found) / (len(wanted) + len(found)) > 0.88  # 0.91 at seed 0


def test_a_city_where_nothing_travels_has_no_edges() -> None:
    _, graph = learn_city(travel=0.0, hours=4_380)
    assert not len(graph)
    assert CHANCE in graph.about.notes
