"""Boosted trees as plain arrays, and the check of arrays from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

WALKS = 2**16  # descents, one per row and tree, that are made at a time
_FIELDS = {  # of Trees: type and number of axes
    "feature": ("int64", 1),
    "value": ("float64", 1),
    "children": ("int64", 2),
    "root": ("int64", 1),
    "count": ("int64", 1),
}
_Node = tuple[int, float, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Trees:
    """The trees of every step ahead, one after the other, each node before its children."""

    feature: Int64[np.ndarray, " M"]  # the input that a node compares; of a leaf: any
    value: Float64[np.ndarray, " M"]  # the threshold of a node; of a leaf: its output
    children: Int64[np.ndarray, "M 2"]  # next nodes: input > value, input ≤ value; a leaf: itself
    root: Int64[np.ndarray, " T"]  # the first node of each tree
    count: Int64[np.ndarray, " K"]  # the number of trees of each step ahead

    @staticmethod
    def from_dump(dump: Mapping[str, Any]) -> "Trees":
        """The trees of one step ahead, from the dump of a LightGBM model."""
        nodes: list[_Node] = []
        roots = []
        for tree in dump["tree_info"]:
            roots.append(len(nodes))
            nodes += _list_nodes(tree["tree_structure"], len(nodes))
        feature, value, children = zip(*nodes, strict=True)
        return Trees(
            feature=np.array(feature, dtype=np.int64),
            value=np.array(value, dtype=np.float64),
            children=np.array(children, dtype=np.int64),
            root=np.array(roots, dtype=np.int64),
            count=np.array([len(roots)], dtype=np.int64),
        )

    @staticmethod
    def join(steps: Sequence["Trees"]) -> "Trees":
        """The trees of several steps ahead, one step after the other."""
        starts = np.cumsum([0, *(len(trees.value) for trees in steps)])
        shifts = list(zip(steps, starts[:-1].tolist(), strict=True))
        return Trees(
            feature=np.concatenate([trees.feature for trees in steps]),
            value=np.concatenate([trees.value for trees in steps]),
            children=np.concatenate([trees.children + shift for trees, shift in shifts]),
            root=np.concatenate([trees.root + shift for trees, shift in shifts]),
            count=np.concatenate([trees.count for trees in steps]),
        )

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray], inputs: int) -> "Trees":
        """The trees of a run; arrays in which a descent might not end are refused.

        Args:
            arrays: one per field, by its name.
            inputs: the number of inputs of a row.
        """
        _check_trees(arrays, inputs)
        return Trees(**{name: arrays[name] for name in _FIELDS})

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The arrays by their names."""
        return {name: getattr(self, name) for name in _FIELDS}

    def predict(self, step: int, inputs: Float32[np.ndarray, "R F"]) -> Float64[np.ndarray, " R"]:
        """The sum of each row's leaves over the trees of a step ahead."""
        first = int(self.count[:step].sum())
        roots = self.root[first : first + int(self.count[step])]
        size = max(WALKS // len(roots), 1)
        sums = np.empty(len(inputs))
        for start in range(0, len(inputs), size):
            rows = slice(start, start + size)
            sums[rows] = self.value[self._descend(roots, inputs[rows])].sum(axis=1)
        return sums

    def _descend(
        self, roots: Int64[np.ndarray, " n"], inputs: Float32[np.ndarray, "R F"]
    ) -> Int64[np.ndarray, "R n"]:
        """The leaf of each row in each tree; descents that have reached theirs are dropped."""
        R, F = inputs.shape
        node = np.tile(roots, R)
        walk, row = np.arange(len(node)), np.repeat(np.arange(R) * F, len(roots))
        leaf = np.empty_like(node)
        while len(walk):
            compared = inputs.take(row + self.feature.take(node))
            child = self.children.take(2 * node + (compared <= self.value.take(node)))
            leaf[walk] = child
            moved = np.flatnonzero(child != node)
            walk, row, node = walk[moved], row[moved], child[moved]
        return leaf.reshape(R, len(roots))


def _list_nodes(tree: Mapping[str, Any], number: int) -> list[_Node]:
    """A node with its number and all nodes below it, the left ones first."""
    if "leaf_value" in tree:
        return [(0, tree["leaf_value"], (number, number))]
    left_nodes = _list_nodes(tree["left_child"], number + 1)
    right = number + 1 + len(left_nodes)
    node = (tree["split_feature"], tree["threshold"], (right, number + 1))
    return [node, *left_nodes, *_list_nodes(tree["right_child"], right)]


def _check_trees(arrays: Mapping[str, np.ndarray], inputs: int) -> None:
    """Refuse arrays in which a descent might leave its tree, or turn back and never end."""
    wrong = [n for n, form in _FIELDS.items() if (str(arrays[n].dtype), arrays[n].ndim) != form]
    if wrong:
        raise ValueError(f"trees: {', '.join(wrong)} of another type or shape")
    feature, value, children, root, count = (arrays[name] for name in _FIELDS)
    M, T = len(feature), len(root)
    if value.shape != (M,) or children.shape != (M, 2):
        raise ValueError(f"trees: {M} features, values {value.shape}, children {children.shape}")
    ends = np.append(root[1:], M)
    if not T or root[0] != 0 or (root >= ends).any():
        raise ValueError("trees: they do not follow each other")
    if ((count < 1) | (count > T)).any() or count.sum() != T:
        raise ValueError(f"trees: {T}, which are not those of its steps ahead")
    if ((feature < 0) | (feature >= inputs)).any():
        raise ValueError(f"trees: one asks for an input that is none of the {inputs}")
    parent, end = np.arange(M)[:, None], np.repeat(ends, ends - root)[:, None]
    if ((children < parent) | (children >= end)).any():
        raise ValueError("trees: a child lies before its parent or in another tree")
