from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as numpy_arrays

from forecaster.estimators.baselines import trees as module
from forecaster.estimators.baselines.trees import Trees

INPUTS = 7
Arrays = dict[str, np.ndarray]


def leaf(value: float) -> dict[str, Any]:
    return {"leaf_value": value}


def node(feature: int, threshold: float, left: Any, right: Any) -> dict[str, Any]:
    children = {"left_child": left, "right_child": right}
    return {"split_feature": feature, "threshold": threshold, **children}


def dump(*roots: dict[str, Any]) -> dict[str, Any]:
    return {"tree_info": [{"tree_structure": root} for root in roots]}


def one_step(*roots: dict[str, Any]) -> Trees:
    return Trees.from_dump(dump(*roots))


TWO_SPLITS = node(0, 2.0, leaf(10.0), node(1, -1.0, leaf(20.0), leaf(30.0)))


def boosted(seed: int, rounds: int = 11) -> tuple[lightgbm.Booster, np.ndarray]:
    """Return a model of a few trees and the inputs it was fitted to, some of them often equal."""
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(503, INPUTS)).astype(np.float32)
    inputs[:, :3] = np.round(inputs[:, :3], 1)
    truth = np.where(inputs[:, 0] > 0.3, 5, 0) + inputs[:, 1] * inputs[:, 4] + inputs[:, 2]
    parameters = {"verbosity": -1, "num_threads": 1, "num_leaves": 17, "use_missing": False}
    return lightgbm.train(parameters, lightgbm.Dataset(inputs, truth), rounds), inputs


# ---------------------------------------------------------------------------- what trees say


def test_inputs_up_to_a_threshold_go_left() -> None:
    inputs = np.array([[2.0, 9], [2.5, -1], [2.5, -0.5], [-7, 9]], dtype=np.float32)
    assert one_step(TWO_SPLITS).predict(0, inputs).tolist() == [10, 20, 30, 10]


def test_trees_are_summed_and_a_leaf_alone_is_a_tree() -> None:
    trees = one_step(leaf(0.5), TWO_SPLITS, leaf(0.25))
    assert trees.predict(0, np.array([[3, 3]], dtype=np.float32)).tolist() == [30.75]


def test_every_step_ahead_has_its_own_trees() -> None:
    near, far = one_step(TWO_SPLITS, leaf(1.0)), one_step(leaf(7.0), leaf(8.0), TWO_SPLITS)
    both = Trees.join([near, far, near])
    inputs = np.random.default_rng(0).normal(size=(13, 2)).astype(np.float32)
    assert both.count.tolist() == [2, 3, 2]
    for step, own in enumerate([near, far, near]):
        assert np.array_equal(both.predict(step, inputs), own.predict(0, inputs))


@pytest.mark.parametrize("seed", range(3))
def test_forecasts_are_those_of_lightgbm_even_at_its_thresholds(seed: int) -> None:
    booster, inputs = boosted(seed)
    trees = Trees.from_dump(booster.dump_model())
    split = trees.children[:, 0] != np.arange(len(trees.value))
    split &= trees.value != np.float32(-1e-35)  # where zero begins: LightGBM takes it for 0 itself
    at = np.stack([trees.value[split]] * INPUTS, axis=1).astype(np.float32)
    beside = [np.nextafter(at, np.float32(way)) for way in (-np.inf, np.inf)]
    for rows in (inputs, at, *beside):
        expected = np.asarray(booster.predict(rows))
        assert np.allclose(trees.predict(0, rows), expected, rtol=1e-13, atol=1e-13)
    near, _ = np.unique(trees.predict(0, at), return_counts=True)
    assert len(near) > 13  # the thresholds lead to many leaves


def test_a_model_that_stopped_early_ends_with_its_best_tree() -> None:
    booster, inputs = boosted(5)
    booster.best_iteration = 3
    trees = Trees.from_dump(booster.dump_model())
    assert trees.count.tolist() == [3]
    assert np.allclose(trees.predict(0, inputs), booster.predict(inputs, num_iteration=3))


def test_few_walks_at_a_time_end_where_all_of_them_do(monkeypatch: pytest.MonkeyPatch) -> None:
    booster, inputs = boosted(6)
    trees = Trees.from_dump(booster.dump_model())
    whole = trees.predict(0, inputs)
    for walks in (1, 23):
        monkeypatch.setattr(module, "WALKS", walks)
        assert np.array_equal(trees.predict(0, inputs), whole)


def test_a_tree_as_deep_as_it_has_leaves_is_walked_to_its_end() -> None:
    root = leaf(0.0)
    for depth in range(61):
        root = node(0, float(60 - depth), leaf(60.0 - depth), root)
    inputs = np.array([[-5], [0.0], [17.0], [59.5], [61]], dtype=np.float32)
    assert one_step(root).predict(0, inputs).tolist() == [0, 0, 17, 60, 0]


def test_no_rows_give_no_answers() -> None:
    assert one_step(TWO_SPLITS).predict(0, np.empty((0, 2), np.float32)).shape == (0,)


def test_infinity_and_nan_end_in_a_leaf_too() -> None:
    inputs = np.full((3, 2), [[np.inf], [-np.inf], [np.nan]], dtype=np.float32)
    assert one_step(TWO_SPLITS).predict(0, inputs).tolist() == [30, 10, 30]


# ------------------------------------------------------------------- arrays of somebody else


def test_arrays_give_the_trees_that_they_came_from() -> None:
    booster, inputs = boosted(7)
    trees = Trees.from_dump(booster.dump_model())
    again = Trees.from_arrays(trees.to_arrays(), INPUTS)
    assert np.array_equal(again.predict(0, inputs), trees.predict(0, inputs))


def put(name: str, place: int | tuple[int, int], value: int) -> Callable[[Arrays], object]:
    return lambda arrays: arrays[name].__setitem__(place, value)


def make(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], object]:
    return lambda arrays: arrays.update({name: change(arrays[name])})


HOSTILE: dict[str, tuple[Callable[[Arrays], object], str]] = {
    # five nodes of TWO_SPLITS, then a leaf alone
    "a node that is its parent's parent": (put("children", (2, 0), 0), "before its parent"),
    "a negative child": (put("children", (0, 1), -1), "before its parent"),
    "a child in another tree": (put("children", (2, 0), 5), "in another tree"),
    "a child beyond all nodes": (put("children", (5, 1), 6), "in another tree"),
    "a child far beyond memory": (put("children", (0, 0), 2**62), "in another tree"),
    "an input beyond the row": (put("feature", 0, 2), "none of the 2"),
    "a negative input": (put("feature", 3, -1), "none of the 2"),
    "a root beyond the nodes": (put("root", 1, 6), "do not follow"),
    "roots in disorder": (put("root", 0, 5), "do not follow"),
    "two roots at one node": (put("root", 1, 0), "do not follow"),
    "no tree": (make("root", lambda a: a[:0]), "do not follow"),
    "a step without trees": (make("count", lambda a: np.append(a, 0)), "not those of its steps"),
    "more trees than there are": (put("count", 0, 3), "not those of its steps"),
    "fewer trees than there are": (put("count", 0, 1), "not those of its steps"),
    "counts that wrap around": (
        make("count", lambda _: np.array([2**62, 2**62, 2**62, 2**62, 2])),
        "not those of its steps",
    ),
    "children of fractions": (make("children", lambda a: a + 0.5), "children of another type"),
    "values of another type": (make("value", lambda a: a.astype(np.float32)), "value of another"),
    "features as a table": (make("feature", lambda a: a[:, None]), "feature of another"),
    "three children": (make("children", lambda a: a[:, [0, 1, 1]]), r"children \(6, 3\)"),
    "a value too few": (make("value", lambda a: a[1:]), r"values \(5,\)"),
}


@pytest.mark.parametrize(("spoil", "words"), HOSTILE.values(), ids=HOSTILE)
def test_C3_arrays_that_are_no_trees_are_refused(
    spoil: Callable[[Arrays], object], words: str
) -> None:
    arrays = {name: a.copy() for name, a in one_step(TWO_SPLITS, leaf(1.0)).to_arrays().items()}
    Trees.from_arrays(arrays, 2)
    spoil(arrays)
    with pytest.raises(ValueError, match=words):
        Trees.from_arrays(arrays, 2)


@given(
    feature=numpy_arrays(np.int64, 7, elements=st.integers(0, 2)),
    children=numpy_arrays(np.int64, (7, 2), elements=st.integers(0, 6)),
    onwards=st.booleans(),  # else hardly any would be trees
    root=st.sampled_from([[0], [0, 6], [0, 3, 5], [3, 0]]),
)
def test_C3_any_arrays_are_refused_or_walked_to_an_end(
    feature: np.ndarray, children: np.ndarray, onwards: bool, root: list[int]
) -> None:
    if onwards:
        children = np.maximum(children, np.arange(7)[:, None])
    value, count = np.linspace(-1, 1, 7), np.array([len(root)])
    parts = (feature, value, children, np.array(root), count)
    names = ("feature", "value", "children", "root", "count")
    try:
        trees = Trees.from_arrays(dict(zip(names, parts, strict=True)), 3)
    except ValueError:
        return
    inputs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert np.isfinite(trees.predict(0, inputs)).all()
