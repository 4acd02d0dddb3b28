import numpy as np
import pytest

from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.networks.transformer import Transformer
from forecaster.explain import neighbours
from forecaster.explain.case import Case, open_case
from forecaster.explain.neighbours import find_reach, measure_locations
from tests.estimators import directed
from tests.explain.fitted import AT, PANEL, fitted


@pytest.fixture(scope="module")
def case() -> Case:
    return open_case(fitted(Forecaster), PANEL, AT, "place 3")


@pytest.fixture(scope="module")
def dense() -> Case:
    return open_case(fitted(Transformer), PANEL, AT, "place 3")


def test_only_what_the_graph_joins_is_a_neighbour(case: Case) -> None:
    effects = measure_locations(case).neighbours()
    assert {effect.id: (effect.hops, effect.strength) for effect in effects} == {
        "place 0": (1, 0.25),
        "place 1": (1, 0.5),
    }
    assert sum(effect.share for effect in effects) == pytest.approx(1)
    assert abs(effects[0].gradient) >= abs(effects[1].gradient)
    assert find_reach(case) == (16, 3)  # one layer, two steps ahead; itself and two others


def test_of_a_directed_graph_only_sources_are_neighbours_with_their_delays() -> None:
    at = f"{directed.PANEL.times[directed.ORIGIN]}Z"

    def sources(location: int) -> dict[str, tuple[object, ...]]:
        case = open_case(directed.fitted(), directed.PANEL, at, f"place {location}")
        effects = measure_locations(case).neighbours()
        return {effect.id: (effect.hops, effect.strength, effect.delays) for effect in effects}

    assert sources(0) == {}
    assert sources(1) == {"place 0": (1, -0.75, (1, 3))}  # the strength of the larger size
    assert sources(2) == {"place 0": (2, None, ()), "place 1": (1, 0.25, (3,))}
    assert sources(3) == {"place 4": (1, -0.125, (2,))}
    assert sources(4) == {"place 3": (1, 0.375, (1,))}
    case = open_case(directed.fitted(), directed.PANEL, at, "place 2")
    assert find_reach(case) == (16, 3)  # itself and those upstream


def test_the_dense_network_has_no_graph_and_all_are_neighbours(dense: Case) -> None:
    effects = measure_locations(dense)
    assert {effect.id for effect in effects.neighbours()} == {f"place {n}" for n in (0, 1, 2, 4)}
    assert all((effect.hops, effect.strength) == (None, None) for effect in effects.neighbours())
    assert find_reach(dense) == (None, 5)


def test_the_whole_network_less_the_value_path_is_city_wide(case: Case) -> None:
    effects = measure_locations(case)
    city_wide = effects.city_wide()
    parts = (case.total_gradients - case.path_gradients).sum(axis=2).mean(axis=0)
    assert city_wide.gradient == pytest.approx(np.delete(parts, 3).sum())
    assert {effect.id for effect in city_wide.places} == {f"place {n}" for n in (0, 1, 2, 4)}
    sizes = [abs(effect.gradient) for effect in city_wide.places]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < city_wide.share < 1
    assert effects.own.city_wide == pytest.approx(parts[3])


def test_the_location_itself_has_no_share_among_others(case: Case) -> None:
    own = measure_locations(case).own
    assert (own.id, own.hops, own.share, own.strength) == ("place 3", 0, 0.0, None)
    assert own.gradient == pytest.approx(case.path_gradients[:, 3].sum(axis=1).mean())
    assert own.gradients == pytest.approx(case.path_gradients[:, 3].sum(axis=1))


def test_of_many_locations_the_joined_and_the_largest_are_ablated(
    case: Case, dense: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "MAX_ABLATED", 1)
    for one in (case, dense):
        (only,) = measure_locations(one).neighbours()
        sizes = np.abs(np.delete(one.path_gradients.sum(axis=2).mean(axis=0), 3))
        assert abs(only.gradient) == pytest.approx(sizes.max())


def test_gradient_and_ablation_are_compared_along_the_value_path_and_in_the_whole_network(
    dense: Case,
) -> None:
    effects = measure_locations(dense).agreement()
    assert [one.methods for one in effects] == [
        ("gradient", "ablation"),
        ("free gradient", "free ablation"),
        ("gradient", "free ablation"),
    ]
    assert all(one.correlation is not None for one in effects)


def test_a_location_without_neighbours_has_nothing_to_compare() -> None:
    effects = measure_locations(open_case(fitted(Forecaster), PANEL, AT, "place 4"))
    assert effects.neighbours() == ()
    assert all(one.correlation is None for one in effects.agreement())
    assert effects.city_wide().share == 1.0
