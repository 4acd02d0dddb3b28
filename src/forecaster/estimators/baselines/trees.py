"""Boosted trees as plain arrays: all that forecasts need, and checked before it is believed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

WALKS = 2**16  # descents, one for each row and tree, that are made at a time
_PARTS = {  # of Trees: type and number of axes
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

    feature: Int64[np.ndarray, " M"]  # which input a node asks for; of a leaf: any
    value: Float64[np.ndarray, " M"]  # what it is compared with; of a leaf: what that adds
    children: Int64[np.ndarray, "M 2"]  # where to go: input > value, input ≤ value; a leaf: itself
    root: Int64[np.ndarray, " T"]  # the first node of each tree
    count: Int64[np.ndarray, " K"]  # how many trees each step ahead has

    @staticmethod
    def from_dump(dump: Mapping[str, Any]) -> "Trees":
        """Return the trees of one step ahead, given as the dump of a LightGBM model."""
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
        """Return the trees of several steps ahead, one step after the other."""
        before = np.cumsum([0, *(len(trees.value) for trees in steps)])
        moved = list(zip(steps, before[:-1].tolist(), strict=True))
        return Trees(
            feature=np.concatenate([trees.feature for trees in steps]),
            value=np.concatenate([trees.value for trees in steps]),
            children=np.concatenate([trees.children + nodes for trees, nodes in moved]),
            root=np.concatenate([trees.root + nodes for trees, nodes in moved]),
            count=np.concatenate([trees.count for trees in steps]),
        )

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray], inputs: int) -> "Trees":
        """Return the trees that somebody wrote down, if every descent in them comes to an end.

        Args:
            arrays: one for each field, by its name.
            inputs: how many numbers a row has.
        """
        _refuse_no_trees(arrays, inputs)
        return Trees(**{name: arrays[name] for name in _PARTS})

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by their names."""
        return {name: getattr(self, name) for name in _PARTS}

    def predict(self, step: int, inputs: Float32[np.ndarray, "R F"]) -> Float64[np.ndarray, " R"]:
        """Return Σ of the leaves that each row falls into, over the trees of a step ahead."""
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
        """Return the leaf of each row in each tree; whoever has arrived is asked no more."""
        R, F = inputs.shape
        node = np.tile(roots, R)
        walk, row = np.arange(len(node)), np.repeat(np.arange(R) * F, len(roots))
        leaf = np.empty_like(node)
        while len(walk):
            asked = inputs.take(row + self.feature.take(node))
            after = self.children.take(2 * node + (asked <= self.value.take(node)))
            leaf[walk] = after
            moved = np.flatnonzero(after != node)
            walk, row, node = walk[moved], row[moved], after[moved]
        return leaf.reshape(R, len(roots))


def _list_nodes(tree: Mapping[str, Any], own: int) -> list[_Node]:
    """Return a node, whose number is `own`, and all under it: first the left ones."""
    if "leaf_value" in tree:
        return [(0, tree["leaf_value"], (own, own))]
    left = _list_nodes(tree["left_child"], own + 1)
    right = own + 1 + len(left)
    node = (tree["split_feature"], tree["threshold"], (right, own + 1))
    return [node, *left, *_list_nodes(tree["right_child"], right)]


def _refuse_no_trees(arrays: Mapping[str, np.ndarray], inputs: int) -> None:
    """Refuse arrays in which a descent might leave its tree, or turn back and never end."""
    odd = [n for n, form in _PARTS.items() if (str(arrays[n].dtype), arrays[n].ndim) != form]
    if odd:
        raise ValueError(f"trees: {', '.join(odd)} of another type or shape")
    feature, value, children, root, count = (arrays[name] for name in _PARTS)
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
    own, end = np.arange(M)[:, None], np.repeat(ends, ends - root)[:, None]
    if ((children < own) | (children >= end)).any():
        raise ValueError("trees: a child lies before its parent or in another tree")
